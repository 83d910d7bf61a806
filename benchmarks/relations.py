"""Relational queries by the thousand: windowed aggregates, and joins of one predicate.

Aggregates: one stream S of readings. A query sums what it selects (`a = c`, one of a thousand readings)
over a window of its own length, by one of three groupings.

Joins: streams A and B in turn, A at even ticks, B at odd ones. A query joins on `k`, of which there are a hundred
values, with a window of its own length on each side, and selects one of a hundred rows of each side: of the
pairs of rows, one in ten thousand (the default of 003's table 1).

`expected_sums` and `expected_pairs` work the answers out query by query with plain loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.engines import TIME, Feed, Source
from benchmarks.workloads import Ints

BLOCK = 10_000
DOMAIN = 1_000


def _constants(count: int, columns: int, seed: tuple[int, int]) -> Ints:
    """Below 2^31, of the first `count` queries; the same whatever the count."""
    blocks = [
        np.random.default_rng((*seed, block)).integers(0, 2**31, (columns, BLOCK))
        for block in range(-(-count // BLOCK))
    ]
    return np.concatenate(blocks, axis=1)[:, :count]


# ---- aggregates ----

LONGEST = 5_000
READINGS = Source("S", pa.schema([(name, pa.int64()) for name in ("a", "k", "g", "v", TIME)]))
#: What is grouped by, and the same as one number.
GROUPINGS = (("k", "k"), ("g", "g"), ("k, g", "k * 10 + g"))


@dataclass(frozen=True)
class Readings:
    """The row is the tick."""

    a: Ints
    k: Ints
    g: Ints
    v: Ints

    def __len__(self) -> int:
        return len(self.a)

    def feed(self, batch: int, gap: int = LONGEST + 1) -> Feed:
        columns = {name: getattr(self, name) for name in ("a", "k", "g", "v")}
        return Feed({"S": columns | {TIME: np.arange(len(self))}}, batch, gap)

    def key(self, grouping: int) -> Ints:
        return (self.k, self.g, self.k * 10 + self.g)[grouping]


def readings(count: int, seed: int) -> Readings:
    """The first ones are the same whatever the count."""
    drawn = np.random.default_rng((seed, 5)).random((count, 4))
    a, k, g, v = (drawn * [DOMAIN, 6, 3, 1_000]).astype(np.int64).T
    return Readings(a, k, g, v)


@dataclass(frozen=True)
class Sums:
    """What tells the queries apart."""

    value: Ints
    window: Ints
    grouping: Ints

    def queries(self) -> Iterator[tuple[str, str]]:
        drawn = zip(self.value.tolist(), self.window.tolist(), self.grouping.tolist(), strict=True)
        for number, (value, window, grouping) in enumerate(drawn):
            keys, key = GROUPINGS[grouping]
            text = (
                f"Select {key} As key, sum(v) As total, count(*) As n From S [Range {window}]"
                f" Where a = {value} Group By {keys}"
            )
            yield f"q{number}", text


def sums(count: int, seed: int) -> Sums:
    value, window, grouping = _constants(count, 3, (seed, 6))
    return Sums(value % DOMAIN, 1 + window % LONGEST, grouping % len(GROUPINGS))


def expected_sums(wanted: Sums, seen: Readings, ticks: int) -> Ints:
    """Query, start, end, key, total and n of what comes before `ticks`."""
    rows: list[tuple[int, ...]] = []
    for query in range(len(wanted.value)):
        grouping, window = int(wanted.grouping[query]), int(wanted.window[query])
        places = np.flatnonzero(seen.a == wanted.value[query])
        key = seen.key(grouping)[places]
        for one in np.unique(key).tolist():
            mine = places[key == one]
            for tick, total, n in _changes(mine.tolist(), seen.v[mine].tolist(), window):
                if n and tick < ticks:
                    rows.append((query, tick, tick, one, total, n))
    return np.array(rows, np.int64).reshape(len(rows), 6)


def _changes(ticks: list[int], values: list[int], window: int) -> Iterator[tuple[int, int, int]]:
    """When the sum over a sliding window or the count changes, and to what."""
    moves = sorted(
        [(tick, 1, value) for tick, value in zip(ticks, values, strict=True)]
        + [(tick + window + 1, -1, value) for tick, value in zip(ticks, values, strict=True)]
    )
    total = n = 0
    for place, (tick, sign, value) in enumerate(moves):
        if place == 0 or moves[place - 1][0] != tick:
            before = total, n
        total, n = total + sign * value, n + sign
        last = place + 1 == len(moves) or moves[place + 1][0] != tick
        if last and (total, n) != before:
            yield tick, total, n


# ---- aggregates by the length of their window ----


def length_query(window: int) -> str:
    """All aggregates that have to do something for a row that leaves."""
    return (
        "Select k As key, sum(v) As total, avg(v) As mean, min(v) As low, max(v) As high,"
        f" count(*) As n From S [Range {window}] Where a >= 0 Group By k"
    )


def expected_lengths(window: int, seen: Readings, ticks: int) -> Ints:
    """Query, start, end, key, total, low, high and n, each window gone through as it stands."""
    rows: list[tuple[int, ...]] = []
    held: dict[int, tuple[int, ...] | None] = {}
    for tick in range(ticks):
        first = max(0, tick - window)
        gone = tick - window - 1
        for key in {int(seen.k[t]) for t in (tick, gone) if 0 <= t < len(seen)}:
            part = slice(first, min(tick + 1, len(seen)))
            values = seen.v[part][seen.k[part] == key]
            row = None
            if len(values):
                row = (int(values.sum()), int(values.min()), int(values.max()), len(values))
                if row != held.get(key):
                    rows.append((0, tick, tick, key, *row))
            held[key] = row
    return np.array(rows, np.int64).reshape(len(rows), 8)


# ---- joins ----

JOIN_LONGEST = 2_000
JOIN_KEYS = 100
WIDTH = 10
SIDES = tuple(
    Source(name, pa.schema([(column, pa.int64()) for column in ("k", "x", "id", TIME)]))
    for name in ("A", "B")
)


@dataclass(frozen=True)
class Sided:
    """Rows of A (even) and B (odd); the row is the tick and the id."""

    k: Ints
    x: Ints

    def __len__(self) -> int:
        return len(self.k)

    def feed(self, batch: int) -> Feed:
        ticks = np.arange(len(self))
        sides = {
            source.name: {
                "k": self.k[side::2].copy(),
                "x": self.x[side::2].copy(),
                "id": ticks[side::2].copy(),
                TIME: ticks[side::2].copy(),
            }
            for side, source in enumerate(SIDES)
        }
        return Feed(sides, batch, gap=JOIN_LONGEST + 1)


def sided(count: int, seed: int) -> Sided:
    """The first ones are the same whatever the count."""
    drawn = np.random.default_rng((seed, 7)).random((count, 2))
    k, x = (drawn * [JOIN_KEYS, DOMAIN]).astype(np.int64).T
    return Sided(k, x)


@dataclass(frozen=True)
class Joins:
    """By side: where the range begins that a query selects, and how long its window is."""

    low: Ints
    window: Ints

    def __len__(self) -> int:
        return self.low.shape[1]

    def queries(self) -> Iterator[tuple[str, str]]:
        for number in range(len(self)):
            (a, b), (wa, wb) = self.low[:, number].tolist(), self.window[:, number].tolist()
            text = (
                f"Select A.id As one, B.id As other From A [Range {wa}], B [Range {wb}]"
                f" Where A.k = B.k And A.x Between {a} And {a + WIDTH - 1}"
                f" And B.x Between {b} And {b + WIDTH - 1}"
            )
            yield f"q{number}", text


def joins(count: int, seed: int) -> Joins:
    drawn = _constants(count, 4, (seed, 8))
    return Joins(drawn[:2] % (DOMAIN - WIDTH + 1), 1 + drawn[2:] % JOIN_LONGEST)


def expected_pairs(wanted: Joins, seen: Sided, ticks: int) -> Ints:
    """Query, start, end, id of A and id of B: each pair when the later of the two comes."""
    rows = []
    for query in range(len(wanted)):
        one, other = (
            side + 2 * np.flatnonzero((x >= low) & (x < low + WIDTH))
            for side, low in enumerate(wanted.low[:, query])
            for x in [seen.x[side:ticks:2]]
        )
        for a in one.tolist():
            for b in other.tolist():
                stays = wanted.window[0 if a < b else 1, query]
                if seen.k[a] == seen.k[b] and abs(a - b) <= stays:
                    rows.append((query, max(a, b), max(a, b), a, b))
    return np.array(rows, np.int64).reshape(len(rows), 5)
