"""The format of a shard's saved state: its version, when it is refused, how tables are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from braid.errors import CheckpointError

#: The layout of saved state. A checkpoint of another one is refused.
STATE_FORMAT = 5


def check_format(meta: Mapping[str, Any]) -> None:
    if meta["format"] != STATE_FORMAT:
        raise CheckpointError(
            "E420",
            f"the saved state has format {meta['format']}, this version reads {STATE_FORMAT}",
            "start with a new checkpoint, or use the version that wrote this one",
        )


def check_rules(meta: Mapping[str, Any], rules: frozenset[str]) -> None:
    """State is found by what rules made of the operators: with others it would be lost."""
    changed = sorted(set(meta["rules"]) ^ rules)
    if changed:
        raise CheckpointError(
            "E423",
            f"the state was saved with other rules: {', '.join(changed)}",
            "use the same rules, or start with a new checkpoint",
        )


def write_ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_ipc(page: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(page).read_next_batch()
