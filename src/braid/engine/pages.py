"""State as pages of bytes, of which only the changed ones are saved.

Arrays are cut into pages of a fixed size, and a page is put again only if its digest differs
from that of the page saved before. What a batch writes is then proportional to what it changed,
and no operator has to keep track of its own changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

PAGE = 1 << 16


@dataclass(frozen=True)
class Delta:
    """What changed since the last save."""

    puts: dict[str, bytes]
    removals: list[str]

    @property
    def size(self) -> int:
        return sum(len(page) for page in self.puts.values())


class Pages:
    """Knows the digests of the pages that were saved, and works out the difference."""

    def __init__(self, saved: Mapping[str, bytes] | None = None) -> None:
        self._digests = {key: _digest(page) for key, page in (saved or {}).items()}
        self._puts: dict[str, bytes] = {}
        self._seen: set[str] = set()

    def keep(self, key: str) -> bool:
        """Whether a page that never changes is there already."""
        self._seen.add(key)
        return key in self._digests

    def put(self, key: str, page: bytes | memoryview) -> None:
        self._seen.add(key)
        digest = _digest(page)
        if self._digests.get(key) != digest:
            self._digests[key] = digest
            self._puts[key] = bytes(page)

    def put_array(self, key: str, array: np.ndarray) -> None:
        data = memoryview(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
        for number, start in enumerate(range(0, len(data), PAGE)):
            self.put(f"{key}/{number}", data[start : start + PAGE])

    def delta(self) -> Delta:
        """The difference to the last call; everything that was not mentioned since is removed."""
        removals = [key for key in self._digests if key not in self._seen]
        for key in removals:
            del self._digests[key]
        puts, self._puts, self._seen = self._puts, {}, set()
        return Delta(puts, removals)


def read_array(pages: Mapping[str, bytes], key: str, dtype: np.dtype[Any]) -> np.ndarray:
    """An array that `put_array` saved."""
    parts: list[bytes] = []
    while (page := pages.get(f"{key}/{len(parts)}")) is not None:
        parts.append(page)
    return np.frombuffer(b"".join(parts), dtype).copy()


def _digest(page: bytes | memoryview) -> bytes:
    return hashlib.blake2b(page, digest_size=16).digest()


def to_ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_ipc(page: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(page).read_next_batch()
