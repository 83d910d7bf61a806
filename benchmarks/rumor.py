"""The workloads of RUMOR: patterns over two streams, over sharable streams, and over CPU loads.

Streams S and T have ten integer attributes a0..a9, drawn from 0..999, and take turns: S at even
ticks, T at odd ones. Windows are drawn from 1..1000 by Zipf's law, long ones most often, constants
from 0..999 by the same law. `expected` works the answers out query by query with plain loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.engines import TIME, Feed, Source, Streams
from benchmarks.workloads import Floats, Ints, zipf

ATTRIBUTES = 10
DOMAIN = 1_000
WINDOWS = 1_000
SKEW = 1.5
BLOCK = 10_000
SCHEMA = pa.schema([(f"a{i}", pa.int64()) for i in range(ATTRIBUTES)] + [(TIME, pa.int64())])

#: By workload, what takes the first stream (s), two constants (c, d) and a window (w).
TEMPLATES = {
    "w1": "SELECT * FROM FILTER{{a0 = {c}}} {s} NEXT{{DUR <= {w} AND $2.a0 = {d}}} T",
    "w1_iteration": (
        "SELECT * FROM FILTER{{a0 = {c}}} {s} FOLD{{DUR <= {w} AND $2.a0 = {d}, $2.a1 > $.a1, }} T"
    ),
    "w2": "SELECT * FROM {s} NEXT{{DUR <= {w} AND $1.a0 = $2.a0}} T",
    "w2_iteration": ("SELECT * FROM {s} FOLD{{DUR <= {w} AND $1.a0 = $2.a0, $2.a1 > $.a1, }} T"),
}


@dataclass(frozen=True)
class Constants:
    first: Ints
    second: Ints
    window: Ints


def constants(count: int, seed: int) -> Constants:
    """Of the first `count` queries; the same whatever the count."""
    blocks = [_drawn(np.random.default_rng((seed, 1, b))) for b in range(-(-count // BLOCK))]
    first, second, window = np.concatenate(blocks, axis=1)[:, :count]
    return Constants(first, second, WINDOWS - window)


def _drawn(random: np.random.Generator) -> Ints:
    return np.stack([zipf(random, BLOCK, DOMAIN, SKEW) for _ in range(3)])


def first_stream(query: int, streams: int) -> str:
    """Which of several first streams a query reads, in turn."""
    return "S" if streams == 1 else f"S{query % streams}"


def sources(streams: int) -> list[Source]:
    """T, and S or the sharable S0, S1, ..."""
    names = [first_stream(n, streams) for n in range(streams)]
    firsts = [Source(name, SCHEMA, tuple(names[:1]) if n else ()) for n, name in enumerate(names)]
    return [*firsts, Source("T", SCHEMA)]


def queries(workload: str, count: int, seed: int, streams: int = 1) -> Iterator[tuple[str, str]]:
    write, drawn = TEMPLATES[workload].format, constants(count, seed)
    rows = zip(drawn.first.tolist(), drawn.second.tolist(), drawn.window.tolist(), strict=True)
    for number, (c, d, w) in enumerate(rows):
        yield f"q{number}", write(s=first_stream(number, streams), c=c, d=d, w=w)


# ---- events ----


@dataclass(frozen=True)
class Tuples:
    """Tuples of S (even rows) and T (odd rows); the row is the tick."""

    values: Ints

    def __len__(self) -> int:
        return len(self.values)

    def feed(self, batch: int, streams: int = 1, *, together: bool = True) -> Feed:
        """Tuples of S belong to all first streams: they come once for all, or once for each.

        Streams that come by themselves have events of their own in memory, as they would: else what
        is read for the first of them would be near for all others.
        """
        ticks = np.arange(len(self))
        names = tuple(first_stream(n, streams) for n in range(streams))
        columns: dict[Streams, Any]
        if together and streams > 1:
            columns = {names: self._columns(ticks[::2])}
        else:
            columns = {name: self._columns(ticks[::2]) for name in names}
        columns["T"] = self._columns(ticks[1::2])
        return Feed(columns, batch, gap=WINDOWS + 1)

    def _columns(self, ticks: Ints) -> dict[str, Any]:
        part = self.values[ticks]
        return {f"a{i}": part[:, i].copy() for i in range(ATTRIBUTES)} | {TIME: ticks}


def tuples(count: int, seed: int) -> Tuples:
    """The first ones are the same whatever the count."""
    drawn = np.random.default_rng((seed, 0)).random((count, ATTRIBUTES))
    return Tuples((drawn * DOMAIN).astype(np.int64))


def expected(workload: str, count: int, seed: int, seen: Tuples) -> Ints:
    """Query, start and end of what the first queries find."""
    drawn, rows = constants(count, seed), []
    a0, a1 = seen.values[:, 0], seen.values[:, 1]
    by_value = _positions(a0)
    for query in range(count):
        window = int(drawn.window[query])
        starts = range(0, len(seen), 2)
        if workload.startswith("w1"):
            starts = by_value.get((0, int(drawn.first[query])), [])
        for start in starts:
            wanted = drawn.second[query] if workload.startswith("w1") else a0[start]
            later = by_value.get((1, int(wanted)), [])
            later = [tick for tick in later if start < tick <= start + window]
            if "iteration" not in workload:
                later = later[:1]
            last = start
            for tick in later:
                if "iteration" in workload and a1[tick] <= a1[last]:
                    break
                rows.append((query, start, tick))
                last = tick
    return np.array(rows, np.int64).reshape(len(rows), 3)


def _positions(values: Ints) -> dict[tuple[int, int], list[int]]:
    """Ticks by stream (0 is S) and value."""
    found: dict[tuple[int, int], list[int]] = {}
    for tick, value in enumerate(values.tolist()):
        found.setdefault((tick % 2, value), []).append(tick)
    return found


# ---- CPU loads ----

PROCESSES = 104
STOP = 10
MINUTE = 60 * PROCESSES  # a reading of each process a second, one a tick
LOADS = Source("CPU", pa.schema([("pid", pa.int64()), ("load", pa.int64()), (TIME, pa.int64())]))

#: Query 1's first half: each reading with the average of its process's last minute in place of its load.
SMOOTHED = f"""
Rstream (Select C.pid, A.load
         From CPU [Now] As C,
              (Select pid, avg(load) As load From CPU [Range {MINUTE - 1}] Group By pid) As A
         Where C.pid = A.pid)
PUBLISH SMOOTHED
"""


def ramp(start: str) -> str:
    """Query 2: a start condition, rising smoothed loads of one process, a stop."""
    return (
        f"SELECT * FROM FILTER{{load > {STOP}}}(FILTER{{{start}}} SMOOTHED"
        f" FOLD{{$2.pid = $1.pid AND DUR <= {MINUTE}, $2.load > $.load, }} SMOOTHED)"
    )


def start_factors(query: int) -> tuple[int, int]:
    """Two numbers that make a start condition like no other; both without a factor of 1,000."""
    return 3 + 10 * query, 7 + 20 * query


def ramp_queries(count: int, share: float) -> Iterator[tuple[str, str]]:
    """Start conditions that no index can answer and that hold for a share of the readings."""
    yield "smooth", SMOOTHED
    for query in range(count):
        load, pid = start_factors(query)
        mixed = f"CAST(load AS BIGINT) * {load} + pid * {pid}"
        yield f"q{query}", ramp(f"({mixed}) % 1000 < {round(1000 * share)}")


@dataclass(frozen=True)
class Loads:
    """Loads in hundredths of a percent; the row is the tick."""

    pid: Ints
    load: Ints

    def __len__(self) -> int:
        return len(self.pid)

    def feed(self, batch: int) -> Feed:
        columns = {"pid": self.pid, "load": self.load, TIME: np.arange(len(self))}
        return Feed({"CPU": columns}, batch, gap=MINUTE + 1)

    def smoothed(self) -> Floats:
        """The average of each process's last 60 readings, this one with them."""
        averages = np.empty(len(self))
        for place in range(len(self)):
            last = self.load[place % PROCESSES : place + 1 : PROCESSES][-60:]
            averages[place] = float(last.sum()) / len(last)
        return averages


def loads(count: int, seed: int) -> Loads:
    """Every process's level wanders: each reading is drawn around it."""
    random = np.random.default_rng((seed, 2))
    seconds = -(-count // PROCESSES)
    level = np.empty((seconds, PROCESSES))
    level[0] = random.exponential(1_000, PROCESSES)
    for second in range(1, seconds):
        level[second] = 0.9 * level[second - 1] + random.exponential(100, PROCESSES)
    drawn = random.exponential(level)
    pid = np.tile(np.arange(PROCESSES), seconds)
    return Loads(pid[:count], drawn.astype(np.int64).ravel()[:count])


def expected_ramps(count: int, share: float, seen: Loads) -> Ints:
    """Query, start and end; each process's readings are `PROCESSES` ticks apart."""
    rows = []
    smoothed = seen.smoothed()
    whole = smoothed.astype(np.int64)
    for query in range(count):
        load, pid = start_factors(query)
        starts = (whole * load + seen.pid * pid) % 1000 < round(1000 * share)
        for start in np.flatnonzero(starts).tolist():
            last = start
            stop = min(len(seen), start + MINUTE + 1)
            for tick in range(start + PROCESSES, stop, PROCESSES):
                if smoothed[tick] <= smoothed[last]:
                    break
                last = tick
                if smoothed[tick] > STOP:
                    rows.append((query, start, tick))
    return np.array(rows, np.int64).reshape(len(rows), 3)
