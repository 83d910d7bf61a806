"""State pages: state as pages of bytes; a save writes only the changed pages.

Arrays are cut into pages of a fixed size. A page is saved only if its checksum differs from that of
the saved page. So a save writes an amount proportional to the changes, and no operator has to track
its changes. The checksums are stored with the pages, so that damage is noticed before a read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braid.engine.checksums import checksum, damaged

PAGE = 1 << 16


@dataclass(frozen=True)
class Delta:
    """What changed since the last save."""

    puts: dict[str, bytes]
    removals: list[str]
    #: The checksum of each saved page.
    digests: dict[str, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(len(page) for page in self.puts.values())


class SavedPages(dict[str, bytes]):
    """Pages with the checksums that they were saved or verified with."""

    def __init__(
        self, pages: Mapping[str, bytes] | None = None, digests: Mapping[str, bytes] | None = None
    ) -> None:
        super().__init__(pages or {})
        self.digests = dict(digests or {})

    def take(self, delta: Delta) -> None:
        """Record the current pages."""
        for key in delta.removals:
            self.pop(key, None)
            self.digests.pop(key, None)
        self.update(delta.puts)
        self.digests.update(delta.digests)


class Pages:
    """The checksums of the saved pages, and the difference to them."""

    def __init__(self, saved: Mapping[str, bytes] | None = None) -> None:
        known = saved.digests if isinstance(saved, SavedPages) else {}
        self._digests = {
            key: known.get(key) or checksum(key, page) for key, page in (saved or {}).items()
        }
        self._puts: dict[str, bytes] = {}
        self._seen: set[str] = set()

    def keep(self, key: str) -> bool:
        """Whether a page that never changes is already saved."""
        self._seen.add(key)
        return key in self._digests

    def put(self, key: str, page: bytes | memoryview) -> None:
        self._seen.add(key)
        digest = checksum(key, page)
        if self._digests.get(key) != digest:
            self._digests[key] = digest
            self._puts[key] = bytes(page)

    def put_array(self, key: str, array: np.ndarray) -> None:
        data = memoryview(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
        for number, start in enumerate(range(0, len(data), PAGE)):
            self.put(f"{key}/{number}", data[start : start + PAGE])

    def delta(self) -> Delta:
        """The difference to the last call. Pages that were not mentioned since are removed."""
        removals = [key for key in self._digests if key not in self._seen]
        for key in removals:
            del self._digests[key]
        puts, self._puts, self._seen = self._puts, {}, set()
        return Delta(puts, removals, {key: self._digests[key] for key in puts})


def read_array(
    pages: Mapping[str, bytes], key: str, dtype: np.dtype[Any], length: int
) -> np.ndarray:
    """An array of the given length that `put_array` saved."""
    parts: list[bytes] = []
    while (page := pages.get(f"{key}/{len(parts)}")) is not None:
        parts.append(page)
    data = b"".join(parts)
    if len(data) != length * dtype.itemsize:
        raise damaged(f"{key} has {len(data)} bytes instead of {length * dtype.itemsize}")
    return np.frombuffer(data, dtype).copy()
