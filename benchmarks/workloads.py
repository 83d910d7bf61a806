"""Data that the cases share: made from a seed, the same in every process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "Name": pa.string(),
        "Price": pa.float64(),
        "Volume": pa.int64(),
    }
)
#: 2024-01-02 09:30 UTC in microseconds
OPENING = 1_704_187_800_000_000
STEP = 1_000  # a quote every millisecond
GAIN = 1.05


def pattern(within: str) -> str:
    """The two-step keyed pattern: a quote, and the next one of the same name 5% above it."""
    return (
        "SELECT Name, Price_1 AS low, Price AS high "
        f"FROM Stock NEXT{{$1.Name = $2.Name AND $2.Price > {GAIN} * $1.Price AND DUR <= {within}}}"
        " Stock PUBLISH Jump"
    )


@dataclass(frozen=True)
class Quotes:
    """Columns of a stock stream in order of time; `codes` number the names."""

    time: Ints
    codes: Ints
    price: Floats
    volume: Ints

    def __len__(self) -> int:
        return len(self.time)

    def table(self, start: int = 0, stop: int | None = None) -> pa.Table:
        part = slice(start, stop)
        codes = pa.array(self.codes[part])
        return pa.table(
            [
                pa.array(self.time[part]).cast(SCHEMA.field("ts").type),
                name_texts(int(self.codes.max()) + 1).take(codes),
                pa.array(self.price[part]),
                pa.array(self.volume[part]),
            ],
            schema=SCHEMA,
        )


def name_texts(count: int) -> pa.Array:
    return pa.array([f"N{code:05d}" for code in range(count)])


def quotes(size: Mapping[str, Any]) -> Quotes:
    """`events` quotes of `names` names at random, each name's prices spread around its own level."""
    random = np.random.default_rng(size["seed"])
    events, names = size["events"], size["names"]
    codes = random.integers(0, names, events)
    level = random.uniform(20, 200, names)
    price = np.round(level[codes] * np.exp(random.normal(0, size["noise"], events)), 2)
    return Quotes(
        time=OPENING + STEP * np.arange(events, dtype=np.int64),
        codes=codes,
        price=price,
        volume=random.integers(1, 10_000, events),
    )


def sampled(size: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """Which names the answers are compared on: all, or as many as the plain loop can follow."""
    return np.arange(size["names"]) < size["checked_names"]


def expected_jumps(data: Quotes, size: Mapping[str, Any]) -> tuple[int, int]:
    """The pattern's answer by a plain loop: count and checksum over the sampled names.

    Every quote waits for the first later one of its name that is high enough. A heap by what
    each waits for gives, for a new quote, all that it ends. Times are all different here.
    """
    rows = np.flatnonzero(sampled(size)[data.codes])
    waiting: dict[int, list[tuple[float, int]]] = {}
    found: list[tuple[int, int]] = []
    within = size["within_us"]
    columns = (data.codes[rows], data.time[rows], data.price[rows])
    for code, time, price in zip(*(c.tolist() for c in columns), strict=True):
        heap = waiting.setdefault(code, [])
        while heap and heap[0][0] < price:
            _, start = heappop(heap)
            if time - start <= within:
                found.append((start, time))
        heappush(heap, (GAIN * price, time))
    return checksum(
        np.array([s for s, _ in found], np.int64), np.array([e for _, e in found], np.int64)
    )


def checksum(starts: Ints, ends: Ints) -> tuple[int, int]:
    """How many, and a sum that any changed, lost or doubled result changes."""
    mixed = (starts.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ ends.astype(np.uint64)
    mixed = mixed * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    return len(starts), int(mixed.sum(dtype=np.uint64))


def answer_of(jumps: list[pa.Table], size: Mapping[str, Any]) -> tuple[int, int]:
    """Count and checksum of what Braid found, over the sampled names."""
    texts = name_texts(size["names"]).filter(pa.array(sampled(size)))
    starts, ends = [], []
    for table in jumps:
        kept = table
        if size["checked_names"] < size["names"]:
            import pyarrow.compute as pc

            kept = table.filter(pc.is_in(table["Name"], texts))
        for column, into in (("start", starts), ("end", ends)):
            times = kept[column].cast(SCHEMA.field("ts").type)  # files may hold nanoseconds
            into.append(times.cast(pa.int64()).combine_chunks().to_numpy())
    empty = np.array([], np.int64)
    return checksum(np.concatenate([empty, *starts]), np.concatenate([empty, *ends]))


def zipf(random: np.random.Generator, count: int, domain: int, exponent: float) -> Ints:
    """Numbers below `domain` by Zipf's law: 0 is the most frequent; uniform for exponent 0."""
    weight = 1 / np.arange(1, domain + 1) ** exponent
    steps = np.cumsum(weight)
    return np.searchsorted(steps, random.random(count) * steps[-1]).astype(np.int64)
