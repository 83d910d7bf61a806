"""Engines in process for the cases: the one place that knows how they are made and fed.

Registering a million queries takes longer than a round of events, so that all rounds of a
variant share one engine. Each round brings the same events at later times. A neutral event ends
it, so late that every pattern has expired and matching nothing itself: rounds do not see each
other, and each gives the same answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
#: One stream, or several that share their events.
Streams = str | tuple[str, ...]
#: `{"s_seq": False}` switches rules off one by one; "none" all of them.
Rules = Mapping[str, bool] | str | None

#: The column with the time of every stream here: integer ticks.
TIME = "t"
NO_RULES = "none"
MERGING = ("s_pi", "s_seq", "s_mu")
CHANNELS = ("c_sigma", "c_pi", "c_seq", "c_mu")
TEMPLATES = ("t_seq", "t_mu")
INSTANCE_INDEX = ("an_index", "ai_index")
#: Forward edges of the start state are selections on the stream: their index is s_sigma.
FR_INDEX = ("s_sigma", "fr_index")

_TYPE_NAMES = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "STRING"}
_NEUTRAL = {pa.int64(): -1, pa.float64(): -1.0, pa.string(): ""}
#: Queries of these workloads are to run to the end, whatever they hold.
_BUDGET = 50_000_000


def use_one_core() -> None:
    """Pin the process to a single core, where the system can, and Arrow to a single thread."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)


def without(*rules: str) -> dict[str, bool]:
    return dict.fromkeys(rules, False)


@dataclass(frozen=True)
class Source:
    """A stream with an integer time, perhaps sharable with others."""

    name: str
    schema: pa.Schema
    sharable_with: tuple[str, ...] = ()

    @property
    def declaration(self) -> str:
        columns = ", ".join(f"{f.name} {_TYPE_NAMES[f.type]}" for f in self.schema)
        sharable = f" SHARABLE WITH {', '.join(self.sharable_with)}" if self.sharable_with else ""
        return f"CREATE STREAM {self.name} ({columns}) TIME {TIME}{sharable};"


@dataclass(frozen=True)
class Feed:
    """The events of a round: columns by stream, in order of time, ticks from 0 on.

    `batch` is how many ticks arrive at once, `gap` more than any pattern lives.
    """

    columns: Mapping[Streams, Mapping[str, Any]]
    batch: int
    gap: int

    @property
    def ticks(self) -> int:
        return 1 + max(int(columns[TIME][-1]) for columns in self.columns.values())

    @property
    def events(self) -> int:
        """An event that belongs to several streams counts once for each."""
        return sum(
            len(columns[TIME]) * (1 if isinstance(streams, str) else len(streams))
            for streams, columns in self.columns.items()
        )

    @property
    def starts(self) -> range:
        """The first tick of each batch."""
        return range(0, self.ticks, self.batch)

    def first(self, ticks: int) -> Feed:
        cut = {
            streams: {name: values[: _position(columns, ticks)] for name, values in columns.items()}
            for streams, columns in self.columns.items()
        }
        return Feed(cut, self.batch, self.gap)

    def tables(self, offset: int) -> list[dict[Streams, pa.Table]]:
        """The batches of a round that begins at `offset`."""
        return [
            {
                streams: _table(columns, offset, start, start + self.batch)
                for streams, columns in self.columns.items()
            }
            for start in self.starts
        ]

    def ending(self, at: int) -> dict[Streams, pa.Table]:
        """One neutral event of every stream: it moves time on and matches nothing."""
        return {streams: _neutral(columns, at) for streams, columns in self.columns.items()}


def _position(columns: Mapping[str, Any], tick: int) -> int:
    return int(np.searchsorted(columns[TIME], tick))


def _table(columns: Mapping[str, Any], offset: int, start: int, stop: int) -> pa.Table:
    part = slice(_position(columns, start), _position(columns, stop))
    return pa.table(
        {name: v[part] + offset if name == TIME else v[part] for name, v in columns.items()}
    )


def _neutral(columns: Mapping[str, Any], at: int) -> pa.Table:
    types = {name: pa.array(values[:1]).type for name, values in columns.items()}
    values = {name: [at if name == TIME else _NEUTRAL[type_]] for name, type_ in types.items()}
    return pa.table(values, schema=pa.schema(types))


@dataclass(frozen=True)
class Checked:
    """The results that answers are compared on: of these queries, up to a tick.

    `columns` are attributes whose values count too, beside start and end.
    """

    ids: Sequence[str]
    ticks: int
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """A round. `found` has a row for each checked result: query, start, end, columns (as bits)."""

    seconds: float
    events: int
    matches: int
    instances: int
    state_bytes: int
    found: Ints = field(repr=False)


class Standing:
    """An engine with its queries, fed round after round."""

    def __init__(self, sources: Iterable[Source], *, rules: Rules = None, **options: Any) -> None:
        import braid

        self.engine: Any = braid.Engine(
            instance_budget=_BUDGET, idle_timeout=None, rules=rules, **options
        )
        for source in sources:
            self.engine.execute(source.declaration)
        self._offset = 0

    def register(self, queries: Iterable[tuple[str, str]]) -> float:
        """Seconds that registering took; those of making the texts do not count."""
        query, clock, seconds = self.engine.query, time.perf_counter, 0.0
        for block in _blocks(queries):
            started = clock()
            for name, text in block:
                query(name, text)
            seconds += clock() - started
        return seconds

    def register_rows(self, name: str, text: str, rows: pa.Table) -> float:
        """A prepared query, one member for each row; the column `id` has their names."""
        started = time.perf_counter()
        self.engine.query(name, text, rows, ids="id")
        return time.perf_counter() - started

    def drop(self, name: str) -> None:
        self.engine.drop(name)

    def warm_up(self, feed: Feed) -> float:
        """Seconds of a first round of two batches: plans are made, code is compiled or loaded.

        Not less: what adapts to the events it has seen may take other code for a second batch.
        """
        started = time.perf_counter()
        self.run(feed.first(min(feed.ticks, 2 * feed.batch)))
        return time.perf_counter() - started

    def process(self, tables: Mapping[Streams, pa.Table]) -> float:
        """Seconds of one batch."""
        started = time.perf_counter()
        self.engine.process(tables)
        return time.perf_counter() - started

    @property
    def matches(self) -> int:
        """How many results the last batch had."""
        return int(self.engine.stats["matches"])

    def run(self, feed: Feed, checked: Checked | None = None) -> Run:
        offset = self._offset
        seconds, matches = 0.0, 0
        found = [np.empty((0, 3 + len(checked.columns) if checked else 3), np.int64)]
        for first, tables in zip(feed.starts, feed.tables(offset), strict=True):
            seconds += self.process(tables)
            matches += self.matches
            if checked is not None and first <= checked.ticks:  # the last epoch comes a batch later
                found.extend(self._found(checked, offset))
        held = self.engine.stats
        end = offset + feed.ticks + feed.gap
        self.process(feed.ending(end))
        matches += self.matches
        found.extend(self._found(checked, offset))
        self._offset = end + 1
        return Run(
            seconds,
            feed.events,
            matches,
            int(held["instances"]),
            int(held["state_bytes"]),
            np.concatenate(found),
        )

    def _found(self, checked: Checked | None, offset: int) -> Iterable[Ints]:
        """What the last batch had for the checked queries; times count from the round's begin.

        Results are taken from the groups that they come in, not from `engine.results`, which
        would make a table for each of a million queries.
        """
        if checked is None or not self.matches:
            return
        wanted = pa.array(checked.ids, pa.string())
        for group in (part for g in self.engine._emission.groups for part in g.parts()):
            position = pc.index_in(group.queries, wanted).fill_null(-1).to_numpy()[group.query]
            kept = np.flatnonzero(position >= 0)
            table = group.table.take(pa.array(group.rows[kept], pa.int64()))
            start, end = (_words(table, c) - offset for c in ("start", "end"))
            values = [_words(table, column) for column in checked.columns]
            rows = np.stack([position[kept], start, end, *values], axis=1)
            yield rows[end < checked.ticks]


@dataclass(frozen=True)
class Pass:
    """A stream that went through an engine of its own, from its beginning to its end."""

    plan_s: float
    seconds: float
    events: int
    state_bytes: int
    results: Mapping[str, Sequence[pa.Table]] = field(repr=False)


def one_pass(
    statements: str, batches: Sequence[Mapping[str, pa.Table]], *, rules: Rules = None
) -> Pass:
    """For queries that never forget, whose rounds would see each other in one engine.

    Planning is not part of the seconds; compiled code is kept by the process.
    """
    import braid

    engine: Any = braid.Engine(instance_budget=_BUDGET, idle_timeout=None, rules=rules)
    started = time.perf_counter()
    engine.execute(statements)
    engine.process({stream: table.slice(0, 0) for stream, table in batches[0].items()})
    plan_s = time.perf_counter() - started
    seconds, results, state_bytes = 0.0, {}, 0
    for batch in (*batches, None):
        if batch is None:
            state_bytes = int(engine.stats["state_bytes"])
        started = time.perf_counter()
        if batch is None:
            engine.finish()
        else:
            engine.process(batch)
        seconds += time.perf_counter() - started
        for (query, _), table in engine.results.items():
            results.setdefault(query, []).append(table)
    events = sum(table.num_rows for batch in batches for table in batch.values())
    return Pass(plan_s, seconds, events, state_bytes, results)


def _words(table: pa.Table, column: str) -> Ints:
    values = table.column(column).combine_chunks().to_numpy(zero_copy_only=False)
    return values.view(np.int64)


def _blocks(queries: Iterable[tuple[str, str]], size: int = 10_000) -> Iterable[list[Any]]:
    block = []
    for query in queries:
        block.append(query)
        if len(block) == size:
            yield block
            block = []
    yield block


def digest(rows: Ints) -> tuple[int, int]:
    """How many rows, and a sum that any changed, lost or doubled one changes; order does not count."""
    mixed = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return len(rows), int(mixed.sum(dtype=np.uint64))


def label(count: int) -> str:
    """`10k`, `1m`: how points are named."""
    for unit, name in ((1_000_000, "m"), (1_000, "k")):
        if count >= unit and count % unit == 0:
            return f"{count // unit}{name}"
    return str(count)
