"""A join and an aggregate end to end on Spark, by Braid and by Spark itself, over the same files.

Each stream ends with a row an hour after all others that has nothing to do with them: it moves time on, so
that nothing is held back. Answers are counts and checksums of what unmeasured runs write, and must be those
that are worked out in arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engines import digest
from benchmarks.harness import Measured, Prepared, Size
from benchmarks.on_spark import BraidOnSpark, OnSpark, trigger_seconds
from benchmarks.workloads import OPENING, STEP, Ints

TIMESTAMP = pa.timestamp("us", "UTC")
HOUR = 3_600_000_000
#: What Spark comes with; Braid's session has the other one.
SPARKS_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@dataclass(frozen=True)
class Columns:
    """Integer columns in order of time, the first of them that time in microseconds.

    Parts are cut by time, at the same times in all streams of a case: what comes together belongs together.
    """

    values: Mapping[str, Ints]
    parts: int
    span: int

    def __len__(self) -> int:
        return self.parts

    def table(self, start: int, stop: int) -> pa.Table:
        times = self.values["ts"]
        cuts = OPENING + np.array([start, stop]) * self.span
        first, last = np.searchsorted(times, cuts).tolist()
        last = len(times) if stop >= self.parts else last
        columns = {name: pa.array(column[first:last]) for name, column in self.values.items()}
        columns["ts"] = columns["ts"].cast(TIMESTAMP)
        return pa.table(columns)


def closed(values: Mapping[str, Ints], end: int) -> dict[str, Ints]:
    """With a last row, an hour later, of a key that is nobody's."""
    return {
        name: np.append(column, end + HOUR if name == "ts" else -1)
        for name, column in values.items()
    }


def ddl(columns: Columns) -> str:
    return ", ".join(
        f"{name} {'TIMESTAMP' if name == 'ts' else 'BIGINT'}" for name in columns.values
    )


class Variant(OnSpark, ABC):
    """Two streams, `input` and `other`; what is found has these columns."""

    columns: tuple[str, ...]

    def __init__(self, size: Size, data: Columns, other: Columns) -> None:
        self.streams: dict[str, Columns] = {"input": data, "other": other}
        super().__init__(size, data, {"other": other})

    def stream(self, name: str) -> Any:
        return self.source(name, ddl(self.streams[name]))

    def events(self, rows: int) -> int:
        """How many of the rows that were read count."""
        return rows

    def found(self) -> tuple[int, int]:
        table = pq.read_table(self.folder / "found", columns=list(self.columns))
        return digest(np.stack([column.to_numpy() for column in table.columns], axis=1))


class Braid(Variant, BraidOnSpark):
    """A query over `input` and `other`, under the names that it has for them."""

    names: tuple[str, str]
    query: str

    def session(self) -> Any:
        import braid

        session = braid.Session(self.spark, shards=2, idle_timeout=None)
        for folder, name in zip(self.streams, self.names, strict=True):
            session.stream(name, self.stream(folder), time="ts")
        session.query("found", self.query)
        return session

    def measure(self) -> Measured:
        run = super().measure()
        return replace(run, events=self.events(run.events))


class Sparks(Variant):
    """What Spark has for it, with the state store that Spark comes with."""

    @abstractmethod
    def frame(self) -> Any: ...

    def watermarked(self, name: str) -> Any:
        return self.stream(name).withWatermark("ts", "0 seconds")

    def prepare(self) -> Prepared:
        found = str(self.folder / "found")
        self.run("parquet", path=found)
        self.answer = self.found()
        self.warm_up(lambda: self.run("noop"))
        return Prepared()

    def run(self, sink: str, **options: str) -> Any:
        before = self.spark.conf.get(_PROVIDER)
        self.spark.conf.set(_PROVIDER, SPARKS_STATE_STORE)
        try:
            writer = self.frame().writeStream.outputMode("append").format(sink)
            return self.finished(writer.options(**options))
        finally:
            self.spark.conf.set(_PROVIDER, before)

    def measure(self) -> Measured:
        query = self.run("noop")
        seconds, rows = trigger_seconds(query)
        return Measured(seconds, self.events(rows), self.answer)


# ---- the join ----

WITHIN = 10
JOIN = f"""
Select A.id As one, B.id As two
From A [Range {WITHIN} seconds], B [Range {WITHIN} seconds] Where A.k = B.k
PUBLISH Found
"""


def sides(size: Size) -> tuple[Columns, Columns]:
    """Rows of both streams in turn, one a millisecond, of keys at random."""
    count = size["events"]
    random = np.random.default_rng((size["seed"], 11))
    ticks = np.arange(count, dtype=np.int64)
    whole = {
        "ts": OPENING + STEP * ticks,
        "k": random.integers(0, size["keys"], count),
        "id": ticks,
    }
    span = -(-count * STEP // (size["batches"] * size["files_per_batch"]))
    end = OPENING + STEP * count
    one, two = (
        closed({name: column[side::2] for name, column in whole.items()}, end) for side in (0, 1)
    )
    two["k"][-1] = -2  # the two last rows do not join
    parts = size["batches"] * size["files_per_batch"]
    return Columns(one, parts, span), Columns(two, parts, span)


def expected_pairs(size: Size) -> tuple[int, int]:
    """Ids of rows of one key that are at most so many seconds apart, key by key."""
    one, two = (side.values for side in sides(size))
    order = np.lexsort([two["ts"], two["k"]])
    far = HOUR // 100  # times within a key stay apart from those of the next
    place = two["k"][order] * far + (two["ts"][order] - OPENING) // STEP
    mine = one["k"] * far + (one["ts"] - OPENING) // STEP
    within = WITHIN * 1_000_000 // STEP
    low = np.searchsorted(place, mine - within, "left")
    high = np.searchsorted(place, mine + within, "right")
    count = high - low
    first = np.repeat(low - np.cumsum(count) + count, count)
    partner = order[first + np.arange(count.sum())]
    return digest(np.stack([np.repeat(one["id"], count), two["id"][partner]], axis=1))


class Joined(Variant):
    columns = ("one", "two")

    def __init__(self, size: Size) -> None:
        super().__init__(size, *sides(size))


class BraidJoin(Joined, Braid):
    names = ("A", "B")
    query = JOIN


class SparkJoin(Joined, Sparks):
    def frame(self) -> Any:
        from pyspark.sql.functions import expr

        one = self.watermarked("input").selectExpr("ts AS at_1", "k AS k_1", "id AS one")
        two = self.watermarked("other").selectExpr("ts AS at_2", "k AS k_2", "id AS two")
        within = f"interval {WITHIN} seconds"
        near = f"at_2 BETWEEN at_1 - {within} AND at_1 + {within}"
        return one.join(two, expr(f"k_1 = k_2 AND {near}")).select("one", "two")


# ---- the aggregate ----


@dataclass(frozen=True)
class Sliding:
    """Windows of so many seconds, one every so many seconds; each without its end, as Spark has them."""

    length: int
    every: int

    @property
    def query(self) -> str:
        """What is in a window just before its end, for each name that somebody asks for then."""
        return f"""
            Rstream (Select T.no, T.name, A.total, A.n, A.high
                     From Tick [Now] As T,
                          (Select name, sum(volume) As total, count(*) As n, max(price) As high
                           From Stock [Range {1_000_000 * self.length - 1} us] Group By name) As A
                     Where T.name = A.name)
            PUBLISH Found
        """


def quotes_and_ticks(size: Size, windows: Sliding) -> tuple[Columns, Columns]:
    """A quote a millisecond, and a tick of every name a microsecond before each end of a window."""
    count, names = size["events"], size["names"]
    random = np.random.default_rng((size["seed"], 12))
    quotes = {
        "ts": OPENING + STEP * np.arange(count, dtype=np.int64),
        "name": random.integers(0, names, count),
        "price": random.integers(1, 100_000, count),
        "volume": random.integers(1, 10_000, count),
    }
    every = 1_000_000 * windows.every
    ends = -(-count * STEP // every) + windows.length // windows.every - 1
    number = np.repeat(np.arange(1, ends + 1), names)
    ticks = {
        "ts": OPENING + every * number - 1,
        "name": np.tile(np.arange(names), ends),
        "no": number,
    }
    parts = size["batches"] * size["files_per_batch"]
    span = -(-count * STEP // parts)
    closing = OPENING + STEP * count
    other = closed(ticks, closing)
    other["name"][-1] = -2
    return Columns(closed(quotes, closing), parts, span), Columns(other, parts, span)


def expected_windows(size: Size, windows: Sliding) -> tuple[int, int]:
    """Number of the end, name, total, count and highest price of each window that has any quote."""
    quotes = {
        name: column[:-1] for name, column in quotes_and_ticks(size, windows)[0].values.items()
    }
    bucket = (quotes["ts"] - OPENING) // (1_000_000 * windows.every)
    over = windows.length // windows.every
    shape = size["names"], int(bucket[-1]) + 2 * over - 1
    total, n, high = (np.zeros(shape, np.int64) for _ in range(3))
    at = quotes["name"], bucket + over - 1  # the first windows begin before the first quote
    np.add.at(total, at, quotes["volume"])
    np.add.at(n, at, 1)
    np.maximum.at(high, at, quotes["price"])
    rolled = np.lib.stride_tricks.sliding_window_view
    total, n = (rolled(column, over, axis=1).sum(axis=2) for column in (total, n))
    high = rolled(high, over, axis=1).max(axis=2)
    name, end = np.nonzero(n)
    return digest(
        np.stack([end + 1, name, total[name, end], n[name, end], high[name, end]], axis=1)
    )


class Aggregated(Variant):
    columns = ("no", "name", "total", "n", "high")

    def __init__(self, size: Size, windows: Sliding) -> None:
        self.windows = windows
        super().__init__(size, *quotes_and_ticks(size, windows))

    def events(self, rows: int) -> int:
        """Quotes without those of the first batch; ticks are not counted."""
        return sum(
            self.streams["input"].table(part, part + 1).num_rows
            for part in range(self.size["files_per_batch"], len(self.streams["input"]))
        )


class BraidAggregate(Aggregated, Braid):
    names = ("Stock", "Tick")

    def __init__(self, size: Size, windows: Sliding) -> None:
        super().__init__(size, windows)
        self.query = windows.query


class SparkAggregate(Aggregated, Sparks):
    def frame(self) -> Any:
        from pyspark.sql.functions import col, count, expr, window
        from pyspark.sql.functions import max as highest
        from pyspark.sql.functions import sum as total

        within = window("ts", f"{self.windows.length} seconds", f"{self.windows.every} seconds")
        grouped = self.watermarked("input").groupBy(within.alias("span"), col("name"))
        told = grouped.agg(
            total("volume").alias("total"), count("*").alias("n"), highest("price").alias("high")
        )
        number = f"(unix_micros(span.end) - {OPENING}) div {1_000_000 * self.windows.every}"
        return told.withColumn("no", expr(number)).select(*self.columns)
