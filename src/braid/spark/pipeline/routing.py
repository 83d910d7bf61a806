"""Routing: computes the shard of each event from a hash of its key, a column at a time.

A document goes to all shards that have one of the values by which it may be joined, once to each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braid.distribution.document_routes import ValueRoute
from braid.distribution.hashing import MAX_HASHED_BYTES, hash_values, shard_of
from braid.documents.reader import DocumentReader
from braid.documents.xml_table import DocumentTable, Unreadable
from braid.engine.io.ingest import plain

__all__ = ["MAX_HASHED_BYTES", "document_shards", "hash_values", "shard_of"]

_Words = npt.NDArray[np.int64]


def document_shards(
    events: pa.RecordBatch | pa.Table, route: ValueRoute, shards: int, reader: DocumentReader
) -> tuple[_Words, _Words]:
    """Pairs of a row and a shard that it goes to, in order; one without such a value goes to one."""
    texts = _column(events, route.column)
    rows, values = _values(texts, route, reader)
    found = shard_of(pa.array(values, pa.string()), shards).astype(np.int64)
    lonely = np.setdiff1d(np.arange(len(texts)), rows)
    own = shard_of(texts, shards).astype(np.int64)[lonely]
    pairs = np.concatenate([rows * shards + found, lonely * shards + own])
    return np.divmod(np.unique(pairs), shards)


def _column(events: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    column: Any = events.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays([plain(c) for c in column.chunks] or [pa.array([], pa.string())])
    return plain(column)


def _values(texts: pa.Array, route: ValueRoute, reader: DocumentReader) -> tuple[_Words, list[str]]:
    """The values that count, and the rows that have them; ingest has just read the documents."""
    rows: list[int] = []
    values: list[str] = []
    names = route.names
    for row, text in enumerate(texts.to_pylist()):
        table = _read(text, reader)
        if table is None:
            continue
        for number, name in enumerate(table.names):
            if names is None or name in names:
                rows.append(row)
                values.append(table.value(number))
    return np.array(rows, np.int64), values


def _read(text: str | None, reader: DocumentReader) -> DocumentTable | None:
    """A document; None for what is none: a column of plain text may hold anything."""
    try:
        return None if text is None else reader.read(text)
    except Unreadable:
        return None
