"""Ingest: the rows of one source partition become envelopes for the shards.

Stateless and the same for every partition: normalise time and types, send what does not fit to
`rejected`, decide the shards, pack. Each task also tells every shard how far it has seen every
stream (a heartbeat), so that time moves on shards that get no event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.schema import Attribute, Schema
from braid.algebra.streams import ARRIVAL, Stream
from braid.algebra.types import TIMESTAMP
from braid.distribution.distribution import Routes
from braid.distribution.document_routes import ValueRoute, is_value_route
from braid.distribution.keys import FEED, SPREAD, WHOLE, channel
from braid.documents.reader import DocumentReader
from braid.engine.io.ingest import END, START, Ingest, encoded, repeating
from braid.spark.pipeline.envelopes import (
    ENVELOPE,
    EVENTS,
    HEARTBEAT,
    MAX_BYTES,
    MAX_ROWS,
    REJECTED,
    Rows,
    packed_events,
)
from braid.spark.pipeline.routing import document_shards, shard_of
from braid.spark.pipeline.shipping import settle

#: So many documents are checked and routed at a time.
_DOCUMENTS = 1_024


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
    """What ingest does with the rows of one source; `labels` are the group keys of the shards."""

    ingest: Ingest
    #: The streams that its events are of and that some query reads. None: its rows are only
    #: read past.
    routes: Mapping[str, Routes]
    labels: tuple[int, ...]
    #: A batch job sorts its envelopes instead of following heartbeats.
    heartbeats: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not self.routes:
            for _ in batches:
                pass
            return
        yield from _Task(self).run(batches)
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


@dataclass(frozen=True)
class _ChannelNames:
    """The channels of the events of a source. An event is sent once for all streams that are routed
    alike."""

    #: By the route.
    keys: Mapping[str, str]
    #: Empty if nothing is sent anywhere.
    spread: str
    #: With the shards that get everything.
    whole: Mapping[str, tuple[int, ...]]

    @staticmethod
    def of(routes: Mapping[str, Routes], shards: int) -> _ChannelNames:
        found: dict[str, list[str]] = {}
        for stream, own_routes in routes.items():
            for key in own_routes.keys:
                # What goes by value has come already where every shard gets all documents.
                if not is_value_route(key) or len(own_routes.whole) < shards:
                    found.setdefault(key, []).append(channel(stream, key))
        keys = {key: FEED.join(names) for key, names in found.items()}
        spread = FEED.join(
            channel(s, SPREAD) for s, own_routes in routes.items() if own_routes.spread
        )
        whole: dict[str, tuple[int, ...]] = {}
        for k in range(shards):
            name = FEED.join(
                channel(s, WHOLE) for s, own_routes in routes.items() if k in own_routes.whole
            )
            if name:
                whole[name] = (*whole.get(name, ()), k)
        return _ChannelNames(keys, spread, whole)


class _Task:
    """Ingests one partition of a source."""

    def __init__(self, job: IngestJob) -> None:
        self._job = job
        self._shards = len(job.labels)
        self._channel_names = _ChannelNames.of(job.routes, self._shards)
        self._pending: dict[str, _Pending] = {}
        self._rows = Rows(ENVELOPE)
        self._highest: int | None = None
        self._seen = 0
        # Where events go that may go anywhere: task after task starts at another shard.
        self._next = _partition()
        # Checking documents and routing them by their values parses each once.
        self._reader = DocumentReader()
        # Columns that travel with a dictionary: as in the first batch, so that all batches of an
        # envelope have the same types.
        self._texts: frozenset[str] | None = None
        # By the declaration, so that all batches of an envelope have the same columns.
        self._is_point = len(job.ingest.stream.time) == 1

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in self._parts(batch):
                self._take(part)
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

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch in pieces, if it has documents: those of a piece are held as they are parsed, and
        memory that is used again costs less than parsing does."""
        size = _DOCUMENTS if self._job.ingest.stream.documents else max(1, batch.num_rows)
        for first in range(0, batch.num_rows, size):
            yield batch.slice(first, size)

    def _take(self, batch: pa.RecordBatch) -> None:
        self._reader.clear()
        ingested = self._job.ingest(spaced(batch, self._seen), self._reader)
        self._seen += batch.num_rows
        if ingested.rejected is not None and ingested.rejected.num_rows:
            rejected = ingested.rejected
            self._rows.add(
                self._job.labels[0], REJECTED, self._job.ingest.stream.name, None, rejected.num_rows,
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
        for key, name in self._channel_names.keys.items():
            if is_value_route(key):
                rows, shards = document_shards(
                    events, ValueRoute.parse(key), self._shards, self._reader
                )
                copies = [events.take(pa.array(rows[shards == k])) for k in range(self._shards)]
                self._add(name, events, list(copies))
            else:
                shard = shard_of(events.column(key), self._shards)
                self._add(name, events, _split(events, shard, self._shards))
        if self._channel_names.spread:
            parts: list[pa.RecordBatch | None] = [None] * self._shards
            parts[self._next % self._shards] = events
            self._next += 1
            self._add(self._channel_names.spread, events, parts)
        for name, homes in self._channel_names.whole.items():
            whole = [events if k in homes else None for k in range(self._shards)]
            self._add(name, events, whole)

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
        for n, stream in enumerate(self._job.routes):
            for k, label in enumerate(self._job.labels):
                seen = self._seen if k == n == 0 else 0
                self._rows.add(label, HEARTBEAT, stream, self._highest, seen)


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
