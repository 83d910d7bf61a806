"""Envelopes: many events as one row, so that they cross Spark's row-at-a-time paths as one.

Two kinds of rows travel through the pipeline, both with Arrow data in a binary column:

- from ingest to the shards: `(shard, kind, channel, time, rows, payload)`;
- from the shards to the sinks: `(kind, stream, rows, payload, pairs)`. A result that is for many
  queries is in the payload once; `pairs` has, for each result, its row there and its query.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from braid.engine.io.ingest import END, START
from braid.engine.io.results import ResultGroup

EVENTS, HEARTBEAT, REJECTED, CONTROL = 0, 1, 2, 3
RESULT, LATE, REFUSED, STATS = 10, 11, 12, 13

#: Envelope rows. `time`: the lowest `end` of the events in it, or of a heartbeat the highest
#: `end` that the task saw (NULL if none). `rows`: how many events the payload has; in the
#: heartbeats of shard 0 how many the task saw, so that they are counted once.
ENVELOPE = pa.schema(
    [
        ("shard", pa.int32()),
        ("kind", pa.int32()),
        ("channel", pa.string()),
        ("time", pa.int64()),
        ("rows", pa.int64()),
        ("payload", pa.binary()),
    ]
)
ENVELOPE_SQL = "shard int, kind int, channel string, time long, rows long, payload binary"

PACKED = pa.schema(
    [
        ("kind", pa.int32()),
        ("stream", pa.string()),
        ("rows", pa.int64()),
        ("payload", pa.binary()),
        ("pairs", pa.binary()),
    ]
)
PACKED_SQL = "kind int, stream string, rows long, payload binary, pairs binary"

#: What `pairs` holds.
PAIRS = pa.schema([("row", pa.int32()), ("query", pa.dictionary(pa.int32(), pa.string()))])

#: How much goes into one envelope. Fewer envelopes cost less, but an Arrow batch of envelopes
#: must stay far below the 2 GB that its offsets can address.
MAX_ROWS = 500_000
MAX_BYTES = 32 << 20

#: Results of one envelope: eight bytes each.
MAX_PAIRS = 4_000_000


def payloads(parts: Sequence[Sequence[pa.RecordBatch]]) -> pa.Array:
    """Each part as an Arrow IPC stream, all in one buffer: a binary array without another copy."""
    sink = pa.BufferOutputStream()
    offsets = [0]
    for batches in parts:
        if batches:
            with pa.ipc.new_stream(sink, batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        offsets.append(sink.tell())
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), sink.getvalue()]
    return pa.Array.from_buffers(pa.binary(), len(parts), buffers)


def open_payload(payload: bytes | pa.Buffer) -> list[pa.RecordBatch]:
    """The batches of a payload; they are views of its memory."""
    if len(payload) == 0:
        return []
    with pa.ipc.open_stream(payload) as reader:
        return list(reader)


def packed_events(events: pa.RecordBatch) -> pa.RecordBatch:
    """Point events as they travel: without the second time, which is the first."""
    return events.drop_columns([START])


def open_events(payload: bytes | pa.Buffer) -> Iterator[pa.RecordBatch]:
    """The events of a payload with both times."""
    for batch in open_payload(payload):
        if START not in batch.schema.names:
            arrays, names = [batch.column(END), *batch.columns], [START, *batch.schema.names]
            batch = pa.RecordBatch.from_arrays(arrays, names)
        yield batch


def open_table(payload: bytes | pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_all()


@dataclass
class Rows:
    """Rows of one of the two schemas, gathered column by column."""

    schema: pa.Schema
    values: list[tuple[Any, ...]] = field(default_factory=list)
    parts: list[tuple[Sequence[pa.RecordBatch], ...]] = field(default_factory=list)

    def add(
        self,
        *values: Any,
        batches: Sequence[pa.RecordBatch] = (),
        pairs: Sequence[pa.RecordBatch] = (),
    ) -> None:
        self.values.append(values)
        self.parts.append((batches, pairs))

    def batch(self) -> pa.RecordBatch:
        """What was gathered; the gatherer is empty afterwards."""
        binary = sum(type_ == pa.binary() for type_ in self.schema.types)
        plain = self.schema.types[: len(self.schema) - binary]
        columns: Iterable[Sequence[Any]] = list(zip(*self.values, strict=True))
        if not self.values:
            columns = [[] for _ in plain]
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, plain, strict=True)]
        arrays += [payloads([part[i] for part in self.parts]) for i in range(binary)]
        self.values, self.parts = [], []
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def __len__(self) -> int:
        return len(self.values)


def pieces(table: pa.Table) -> Iterator[list[pa.RecordBatch]]:
    """A table cut so that each piece fits an envelope."""
    for start in range(0, table.num_rows, _rows_of(table)):
        yield table.slice(start, _rows_of(table)).to_batches()


def _rows_of(table: pa.Table) -> int:
    return max(1, min(MAX_ROWS, int(MAX_BYTES * table.num_rows / max(1, table.nbytes))))


def add_results(rows: Rows, group: ResultGroup, wanted: frozenset[str] | None = None) -> None:
    """The results of many queries, cut so that each piece fits an envelope.

    Those of streams that are not among `wanted` (None: all are) are only counted: nobody reads them.
    """
    if wanted is not None and group.stream not in wanted:
        rows.add(RESULT, group.stream, len(group))
        return
    for part in group.parts():
        _add_part(rows, part)


def _add_part(rows: Rows, group: ResultGroup) -> None:
    """The results of queries that show the same columns."""
    found, table = group.settle(), group.table
    count = len(found.rows)
    ends = np.arange(0, table.num_rows, _rows_of(table))
    cuts = {*np.searchsorted(found.rows, ends).tolist(), *range(0, count, MAX_PAIRS)}
    places = [*sorted(cuts - {count}), count] if count else []
    for first, last in itertools.pairwise(places):
        at, codes, names = found.rows[first:last], found.query[first:last], found.queries
        if len(places) > 2:
            used, codes = np.unique(codes, return_inverse=True)
            names = names.take(pa.array(used))
        low, high = int(at[0]), int(at[-1]) + 1
        ids = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), names)
        pairs = pa.RecordBatch.from_arrays([pa.array(at - low, pa.int32()), ids], schema=PAIRS)
        part = table.slice(low, high - low).to_batches()
        rows.add(RESULT, group.stream, last - first, batches=part, pairs=[pairs])
