"""Ingest: the rows of one source partition become envelopes for the shards.

Stateless and the same for every partition: normalise time and types, send what does not fit to
`rejected`, decide the shards, pack. Each task also tells every shard how far it has seen every
stream (a heartbeat), so that time moves on shards that get no event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.schema import Attribute, Schema
from braid.algebra.streams import Stream
from braid.algebra.types import TIMESTAMP
from braid.engine.ingest import END, START, Ingest, encoded, repeating
from braid.plan.distribution import Routes
from braid.plan.document_routes import ValueRoute, is_value_route
from braid.plan.keys import SPREAD, WHOLE, channel
from braid.spark.envelopes import (
    ENVELOPE,
    EVENTS,
    HEARTBEAT,
    MAX_BYTES,
    MAX_ROWS,
    REJECTED,
    Rows,
    packed_events,
)
from braid.spark.routing import document_shards, shard_of
from braid.spark.shipping import settle

#: The time column of streams that are stamped on arrival.
ARRIVAL = "__arrival"


def stamped(stream: Stream) -> Stream:
    """A stream without time as one that has it: the moment of the batch, filled in by Spark.

    Spark keeps that moment with the batch, so a replay gives the same times on every shard.
    """
    if not stream.stamped_on_arrival:
        return stream
    columns = Schema((*stream.columns, Attribute(ARRIVAL, TIMESTAMP)))
    return replace(stream, columns=columns, time=(ARRIVAL,))


def spaced(batch: pa.RecordBatch, seen: int) -> pa.RecordBatch:
    """One microsecond from row to row of a task, so that rows that come one by one follow each other."""
    if ARRIVAL not in batch.schema.names:
        return batch
    index = batch.schema.names.index(ARRIVAL)
    moments = batch.column(index).cast(pa.int64()).to_numpy()
    moved = pa.array(moments + np.arange(seen, seen + batch.num_rows)).cast(TIMESTAMP)
    return batch.set_column(index, ARRIVAL, moved)


def not_before(batch: pa.RecordBatch, bound: int) -> pa.RecordBatch:
    """Events stamped on arrival that would be behind time, because a clock went back or a batch
    had more rows than microseconds, moved to it: an arrival is never late."""
    columns = {
        name: pa.array(np.maximum(batch.column(name).to_numpy(), bound)) for name in (START, END)
    }
    arrays = [columns.get(n, batch.column(i)) for i, n in enumerate(batch.schema.names)]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


@dataclass(frozen=True)
class IngestJob:
    """What ingest does with one stream; `labels` are the group keys of the shards."""

    stream: str
    ingest: Ingest
    #: None if no query reads the stream: its rows are only read past.
    routes: Routes | None
    labels: tuple[int, ...]
    #: A batch job sorts its envelopes instead of following heartbeats.
    heartbeats: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self.routes is None:
            for _ in batches:
                pass
            return
        yield from _Task(self, self.routes).run(batches)
        settle("ingest")


@dataclass
class _Pending:
    """Events of one channel that wait for their envelopes, by shard."""

    parts: list[list[pa.RecordBatch]]
    rows: int = 0
    size: int = 0

    @property
    def is_full(self) -> bool:
        # Sizes are those of all shards together: an envelope holds a share of them.
        shares = len(self.parts)
        return self.rows >= MAX_ROWS * shares or self.size >= MAX_BYTES * shares


class _Task:
    """One source partition on its way."""

    def __init__(self, job: IngestJob, routes: Routes) -> None:
        self._job = job
        self._routes = routes
        self._shards = len(job.labels)
        self._pending: dict[str, _Pending] = {}
        self._rows = Rows(ENVELOPE)
        self._highest: int | None = None
        self._seen = 0
        # Where events go that may go anywhere: task after task starts at another shard.
        self._next = _partition()
        # Columns that travel with a dictionary: as in the first batch, so that all batches of an
        # envelope have the same types.
        self._texts: frozenset[str] | None = None
        # By the declaration, so that all batches of an envelope have the same columns.
        self._is_point = len(job.ingest.stream.time) == 1

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._take(batch)
            for name, pending in self._pending.items():
                if pending.is_full:
                    yield self._flush(name, pending)
        for name, pending in self._pending.items():
            if pending.rows:
                yield self._flush(name, pending)
        if self._job.heartbeats:
            self._beat()
        if len(self._rows):
            yield self._rows.batch()

    def _take(self, batch: pa.RecordBatch) -> None:
        ingested = self._job.ingest(spaced(batch, self._seen))
        self._seen += batch.num_rows
        if ingested.rejected is not None and ingested.rejected.num_rows:
            rejected = ingested.rejected
            self._rows.add(
                self._job.labels[0], REJECTED, self._job.stream, None, rejected.num_rows,
                batches=rejected.to_batches(),
            )  # fmt: skip
        if ingested.events.num_rows == 0:
            return
        if self._texts is None:
            self._texts = repeating(ingested.events)
        events = encoded(ingested.events, self._texts)
        if END in events.schema.names:
            highest = pc.max(events.column(END)).as_py()
            self._highest = highest if self._highest is None else max(self._highest, highest)
        self._route(packed_events(events) if self._is_point else events)

    def _route(self, events: pa.RecordBatch) -> None:
        stream = self._job.stream
        for key in self._routes.keys:
            if is_value_route(key):
                if len(self._routes.whole) == self._shards:
                    continue  # every shard gets all of them
                rows, shards = document_shards(events, ValueRoute.parse(key), self._shards)
                copies = [events.take(pa.array(rows[shards == k])) for k in range(self._shards)]
                self._add(channel(stream, key), events, list(copies))
                continue
            shard = shard_of(events.column(key), self._shards)
            self._add(channel(stream, key), events, _split(events, shard, self._shards))
        if self._routes.spread:
            parts: list[pa.RecordBatch | None] = [None] * self._shards
            parts[self._next % self._shards] = events
            self._next += 1
            self._add(channel(stream, SPREAD), events, parts)
        if self._routes.whole:
            homes = self._routes.whole
            whole = [events if k in homes else None for k in range(self._shards)]
            self._add(channel(stream, WHOLE), events, whole)

    def _add(self, name: str, events: pa.RecordBatch, parts: list[pa.RecordBatch | None]) -> None:
        pending = self._pending.get(name)
        if pending is None:
            pending = self._pending[name] = _Pending([[] for _ in range(self._shards)])
        pending.rows += events.num_rows
        pending.size += events.nbytes
        for held, part in zip(pending.parts, parts, strict=True):
            if part is not None and part.num_rows:
                held.append(part)

    def _flush(self, name: str, pending: _Pending) -> pa.RecordBatch:
        rows = Rows(ENVELOPE)
        for label, held in zip(self._job.labels, pending.parts, strict=True):
            if held:
                count = sum(part.num_rows for part in held)
                rows.add(label, EVENTS, name, _lowest(held), count, batches=held)
        pending.parts = [[] for _ in range(self._shards)]
        pending.rows = pending.size = 0
        return rows.batch()

    def _beat(self) -> None:
        for k, label in enumerate(self._job.labels):
            seen = self._seen if k == 0 else 0
            self._rows.add(label, HEARTBEAT, self._job.stream, self._highest, seen)


def _split(
    events: pa.RecordBatch, shard: npt.NDArray[np.uint16], shards: int
) -> list[pa.RecordBatch | None]:
    """The events of each shard: one gather for all of them, then slices."""
    if shards == 1:
        return [events]
    counts = np.bincount(shard, minlength=shards)
    sorted_events = events.take(pa.array(np.argsort(shard, kind="stable")))
    ends = np.cumsum(counts)
    return [
        sorted_events.slice(int(end - count), int(count))
        for end, count in zip(ends, counts, strict=True)
    ]


def _lowest(held: list[pa.RecordBatch]) -> int | None:
    if END not in held[0].schema.names:
        return None
    lowest: int = min(pc.min(part.column(END)).as_py() for part in held)
    return lowest


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return int(context.partitionId()) if context is not None else 0
