"""One shard: ordering, execution and state, behind an interface that knows nothing of Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from braid.algebra.queries import Query
from braid.algebra.schema import TICKS, shown_names
from braid.algebra.streams import Stream
from braid.algebra.types import TIMESTAMP
from braid.engine.executor import Executor
from braid.engine.ingest import END, START, plain
from braid.engine.ordering import Ordering, Progress
from braid.engine.pages import Delta, Pages, read_array
from braid.errors import CheckpointError
from braid.mops.base import Context, State
from braid.mops.columns import Rows, rows_to_arrow, sorted_by_end, write_columns
from braid.mops.values import Carried
from braid.plan.build import build_plan
from braid.plan.plan import Outlet, source_channel
from braid.plan.specs import Shape

#: The layout of saved state. A checkpoint of another one is refused.
STATE_FORMAT = 1


@dataclass(frozen=True)
class Options:
    """What holds for all queries of a shard. Times in microseconds."""

    instance_budget: int = 1_000_000
    idle_timeout: int | None = 60_000_000
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """What one query put out: columns start, end, and its attributes."""

    query: str
    stream: str | None
    table: pa.Table


@dataclass
class Emission:
    """What a step gave: results, late events by channel, counters, suspended queries."""

    results: list[Result] = field(default_factory=list)
    late: list[tuple[str, pa.Table]] = field(default_factory=list)
    stats: dict[str, int] = field(default_factory=dict)
    suspended: dict[str, str] = field(default_factory=dict)


class Shard:
    """Takes events in any order, gives results in the order of time, can be saved at any moment."""

    def __init__(
        self,
        queries: Sequence[Query],
        streams: Mapping[str, Stream],
        *,
        channels: Mapping[str, str] | None = None,
        awaited: Iterable[str] | None = None,
        options: Options = Options(),  # noqa: B008 -- frozen
        resumed: bool = False,
        _pages: Mapping[str, bytes] | None = None,
    ) -> None:
        """`channels`: which declared stream each channel that queries read is a part of (default:
        they read the streams themselves). `awaited`: the streams whose time this shard follows
        (default: those that its queries read)."""
        meta = json.loads(_pages["meta"]) if _pages else None
        if meta is not None:
            _check_format(meta)
        self._births = _births(queries, meta)
        names = dict(channels) if channels is not None else {name: name for name in streams}
        self._streams = {channel: streams[stream] for channel, stream in names.items()}
        self.plan = build_plan(queries, self._streams, self._births)
        self.options = options
        read = {channel: names[channel] for channel in self.plan.sources}
        followed = frozenset(read.values() if awaited is None else awaited)
        self._ordering = Ordering(streams, read, followed, options.idle_timeout)
        self._context = Context(
            instance_budget=options.instance_budget, functions=options.functions
        )
        self.suspended: dict[str, str] = {}
        self._suspended_at: dict[str, int] = {}
        self._pages = Pages(_pages)
        self._late: list[tuple[str, pa.Table]] = []
        self._counts = {"events": 0, "late": 0}
        states = self._restore(_pages, meta, resumed=resumed) if _pages and meta else {}
        self._executor = Executor(self.plan, self._context, states)
        self._shapes = {source_channel(n): shape for n, shape in self.plan.sources.items()}
        self._shapes.update((m.signature, m.spec.output) for m in self.plan.mops)
        self._units = self._clocks()
        self._note_suspended()

    @classmethod
    def load(
        cls,
        pages: Mapping[str, bytes],
        queries: Sequence[Query],
        streams: Mapping[str, Stream],
        *,
        channels: Mapping[str, str] | None = None,
        awaited: Iterable[str] | None = None,
        options: Options = Options(),  # noqa: B008 -- frozen
        resumed: bool = False,
    ) -> Shard:
        """Go on from saved pages; queries may have come and gone, the others keep their state.

        `resumed`: nothing ran meanwhile, so that the time that has passed makes no stream idle.
        """
        return cls(
            queries,
            streams,
            channels=channels,
            awaited=awaited,
            options=options,
            resumed=resumed,
            _pages=pages,
        )

    # ---- events ----

    def accept(self, channel: str, events: pa.RecordBatch, *, now: int) -> None:
        """Take canonical events of a channel, in any order."""
        if channel not in self.plan.sources or not events.num_rows:
            return
        self._counts["events"] += events.num_rows
        late = self._ordering.accept(channel, events, now)
        if late is not None:
            self._counts["late"] += late.num_rows
            self._late.append((channel, self._shown(channel, late)))

    def observe(self, stream: str, highest: int | None, *, now: int) -> None:
        """Learn how far a declared stream is, wherever its events went."""
        if stream in self._ordering.streams:
            self._ordering.observe(stream, highest, now)

    def advance(self, *, now: int) -> Emission:
        """Run everything that is complete at this processing time."""
        return self._run(self._ordering.release(now))

    def finish(self) -> Emission:
        """Run everything: the input has ended."""
        return self._run(self._ordering.release_all())

    def _run(self, released: dict[str, list[pa.RecordBatch]]) -> Emission:
        sources = {channel: self._rows(channel, parts) for channel, parts in released.items()}
        results: list[Result] = []
        if sources:
            rows = self._executor.run(sources, self._bounds())
            self._note_suspended()
            results = list(self._results(rows))
            self._executor.compact()
        late, self._late = self._late, []
        return Emission(results, late, self._stats(results), dict(self.suspended))

    def _rows(self, channel: str, parts: list[pa.RecordBatch]) -> Rows:
        shape = self.plan.sources[channel]
        rows = np.empty((sum(p.num_rows for p in parts), shape.layout.width), np.int64)
        at = 0
        # Parts are sorted, and often follow each other: then all is sorted without sorting.
        for part in sorted(parts, key=lambda p: p.column(END)[0].as_py()):
            target = rows[at : at + part.num_rows]
            target[:, 0] = part.column(START).to_numpy(zero_copy_only=False)
            target[:, 1] = part.column(END).to_numpy(zero_copy_only=False)
            write_columns(target, part, shape.layout, shape.schema, self._context.values)
            at += part.num_rows
        return sorted_by_end(rows)

    def _clocks(self) -> dict[str, str]:
        """The clock of each m-op: that of the streams it reads."""
        units = {source_channel(c): s.unit for c, s in self._streams.items()}
        for mop in self.plan.mops:
            units[mop.signature] = units[mop.inputs[0]]
        return units

    def _bounds(self) -> dict[str, int]:
        return {c: self._ordering.bound(unit) for c, unit in self._units.items()}

    def _results(self, rows: Mapping[str, Rows]) -> Iterator[Result]:
        for outlet in self.plan.outlets:
            found = rows[outlet.channel]
            until = self._suspended_at.get(outlet.query)
            if until is not None:
                found = found[found[:, 1] <= until]
            if len(found):
                yield Result(outlet.query, outlet.stream, self._table(outlet, found))

    def _table(self, outlet: Outlet, rows: Rows) -> pa.Table:
        shape = self._shape(outlet.channel)
        return rows_to_arrow(
            rows, shape.layout, outlet.schema, outlet.time_type, self._context.values
        )

    def empty(self, outlet: Outlet) -> pa.Table:
        """A result of no rows, in the form that the outlet's results have."""
        return self._table(
            outlet, np.empty((0, self._shape(outlet.channel).layout.width), np.int64)
        )

    def _shape(self, channel: str) -> Shape:
        return self._shapes[channel]

    def _shown(self, channel: str, events: pa.RecordBatch) -> pa.Table:
        """Late events as a user knows them."""
        stream = self._streams[channel]
        type_ = pa.int64() if stream.unit == TICKS else stream.time_type
        type_ = type_ if pa.types.is_timestamp(type_) or stream.unit == TICKS else TIMESTAMP
        attributes = [n for n in events.schema.names if n in stream.schema]
        columns = [events.column(START).cast(type_), events.column(END).cast(type_)]
        columns += [plain(events.column(n)) for n in attributes]
        return pa.table(columns, names=list(shown_names(attributes)))

    def _note_suspended(self) -> None:
        """An m-op that gave up takes along all queries whose results come through it."""
        stopped: dict[str, int] = {}
        for mop in self.plan.mops:
            own = self._executor.logics[mop.signature].stopped
            times = [stopped[c] for c in mop.inputs if c in stopped]
            times += [] if own is None else [own]
            if times:
                stopped[mop.signature] = min(times)
        for outlet in self.plan.outlets:
            at = stopped.get(outlet.channel)
            if at is not None:
                known = self._suspended_at.get(outlet.query, at)
                self._suspended_at[outlet.query] = min(at, known)
                self.suspended[outlet.query] = (
                    f"more than {self.options.instance_budget} instances at {min(at, known)}, in it "
                    "or in what it reads: bound the pattern with DUR, or raise instance_budget"
                )

    def _stats(self, results: list[Result]) -> dict[str, int]:
        counts, self._counts = self._counts, {"events": 0, "late": 0}
        return {
            **counts,
            "matches": sum(r.table.num_rows for r in results),
            "instances": self._executor.instances,
            "state_bytes": self._executor.state_bytes,
            "held": self._ordering.held,
        }

    @property
    def watermark(self) -> dict[str, int]:
        """How far each clock has come."""
        return dict(self._ordering.bounds)

    # ---- state ----

    def save(self) -> Delta:
        """What changed since the last save, or since the pages that this shard was loaded from."""
        pages, ordering = self._pages, self._ordering
        states = {
            m.signature: self._executor.logics[m.signature].snapshot() for m in self.plan.mops
        }
        meta = {
            "format": STATE_FORMAT,
            "births": self._births,
            "bounds": ordering.bounds,
            "progress": {n: [p.highest, p.active] for n, p in ordering.progress.items()},
            "chunks": [[c.number, c.channel] for c in ordering.chunks],
            "next": ordering.next_number,
            "stamp": ordering.last_stamp,
            "mops": {s: sorted(arrays) for s, arrays in states.items() if arrays},
            "strings": self._context.values.strings.count,
            "carried": len(self._context.values.carried),
        }
        pages.put("meta", json.dumps(meta).encode())
        for chunk in ordering.chunks:
            key = f"chunk/{chunk.number}"
            if not pages.keep(key):
                pages.put(key, _ipc(chunk.events.slice(chunk.released)))
        for signature, arrays in states.items():
            for name, array in arrays.items():
                pages.put_array(f"mop/{signature}/{name}", array)
        strings = self._context.values.strings
        pages.put_array("strings/offsets", strings.offsets[: strings.count + 1])
        pages.put_array("strings/bytes", strings.pool[: strings.size])
        for number, store in enumerate(self._context.values.carried.values()):
            pages.put(f"carried/{number}", _ipc(pa.record_batch([store.values], ["v"])))
        return pages.delta()

    def _restore(
        self, pages: Mapping[str, bytes], meta: Mapping[str, Any], *, resumed: bool
    ) -> dict[str, State]:
        ordering, values = self._ordering, self._context.values
        ordering.bounds = dict(meta["bounds"])
        ordering.progress = {
            name: Progress(highest, None if resumed else active)
            for name, (highest, active) in meta["progress"].items()
        }
        ordering.next_number, ordering.last_stamp = meta["next"], meta["stamp"]
        ordering.restore_chunks(
            (number, channel, _read_ipc(pages[f"chunk/{number}"]))
            for number, channel in meta["chunks"]
        )
        if meta["strings"]:
            offsets = read_array(pages, "strings/offsets", np.dtype(np.int64))
            data = read_array(pages, "strings/bytes", np.dtype(np.uint8))
            values.strings.load_pool(offsets, data)
        for number in range(meta["carried"]):
            array = _read_ipc(pages[f"carried/{number}"]).column(0)
            store = Carried(array.type)
            store.values = array
            values.carried[array.type] = store
        word = np.dtype(np.int64)
        return {
            signature: {name: read_array(pages, f"mop/{signature}/{name}", word) for name in names}
            for signature, names in meta["mops"].items()
        }


def _check_format(meta: Mapping[str, Any]) -> None:
    if meta["format"] != STATE_FORMAT:
        raise CheckpointError(
            "E420",
            f"the saved state has format {meta['format']}, this version reads {STATE_FORMAT}",
            "start with a new checkpoint, or use the version that wrote this one",
        )


def _births(queries: Sequence[Query], meta: Mapping[str, Any] | None) -> dict[str, int]:
    """In which generation of the plan each query came: 0 for those of the first.

    Queries of different generations share no state, so that one that is added does not see
    instances that were begun before its time.
    """
    if meta is None:
        return {query.id: 0 for query in queries}
    known: Mapping[str, int] = meta["births"]
    newest = 1 + max(known.values(), default=0)
    return {query.id: known.get(query.id, newest) for query in queries}


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _read_ipc(page: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(page).read_next_batch()
