"""A small market for the Spark tests: streams as parquet files, and what the reference says of them."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

from braid import Session
from braid.algebra.queries import Query
from braid.algebra.streams import Stream
from braid.lang import stream_from_schema
from braid.reference import Event, answer, events_from_table
from braid.spark import MemorySink

BEGIN = 1_704_067_200_000_000
SECOND = 1_000_000
LATENESS = 20 * SECOND

STOCK = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("Name", pa.string()),
        ("Buyer", pa.string()),
        ("Lot", pa.int32()),
        ("Price", pa.float64()),
    ]
)
NEWS = pa.schema([("at", pa.timestamp("us", "UTC")), ("About", pa.string()), ("Mood", pa.int64())])

KEYED = """SELECT Name, Price_1 AS low, Price AS high
           FROM (FILTER{Price < 50}(Stock)) NEXT{$2.Name = $1.Name AND $2.Price > $1.Price} Stock
           PUBLISH Jump"""
CROSSED = """SELECT Name_1 AS sold, Buyer AS bought, Lot
             FROM Stock NEXT{$1.Name = $2.Buyer AND $1.Lot = $2.Lot} Stock PUBLISH Crossed"""
CHAINED = """SELECT Name, high, Mood FROM Jump NEXT{$1.Name = $2.About} News PUBLISH Told"""
FOLDED = """SELECT Name, Price FROM Stock FOLD{$2.Name = $.Name, $2.Price >= $.Price, } Stock
            PUBLISH Rising"""
WHOLE = """SELECT Name_1 AS first, Name AS second FROM (FILTER{Lot = 1}(Stock)) NEXT{} Stock"""
SPREAD = """SELECT Name, Price FROM FILTER{Price > 90}(Stock) PUBLISH High"""

Result = tuple[str, str | None, int, int, tuple[Any, ...]]


def stock_rows(count: int, first: int, seed: int) -> list[dict[str, Any]]:
    """Rows from second `first` on, about two in a second, out of order, some at the same time."""
    draw = random.Random(seed)
    names = ["ACME", "Bolt", "Cog", "Dyn", None]
    return [
        {
            "ts": BEGIN + (first + i // 2 + draw.randrange(15)) * SECOND,
            "Name": draw.choice(names),
            "Buyer": draw.choice(names),
            "Lot": draw.randrange(3),
            "Price": float(draw.randrange(100)),
        }
        for i in range(count)
    ]


def news_rows(count: int, first: int, seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "at": BEGIN + (first + 5 * i) * SECOND,
            "About": draw.choice(["ACME", "Bolt", "Cog"]),
            "Mood": draw.randrange(5),
        }
        for i in range(count)
    ]


@dataclass
class Market:
    """Files of two streams, and sessions over them."""

    spark: SparkSession
    path: Path

    def write(self, stream: str, rows: Sequence[Mapping[str, Any]], name: str) -> None:
        """One file; a streaming source takes files in the order in which they were written."""
        folder = self.path / stream
        folder.mkdir(exist_ok=True)
        schema = schema_of(stream)
        table = pa.Table.from_pylist(list(rows), schema=schema)
        file = folder / f"{name}.parquet"
        pq.write_table(table, file)
        # Spark takes files by the time of their last change: a second apart, whatever the disk says.
        moment = 1_700_000_000 + len(list(folder.glob("*.parquet")))
        os.utime(file, (moment, moment))

    def table(self, stream: str) -> pa.Table:
        files = sorted((self.path / stream).glob("*.parquet"))
        return pa.concat_tables([pq.read_table(f) for f in files])

    def frame(self, stream: str, *, streaming: bool) -> DataFrame:
        folder = self.path / stream
        folder.mkdir(exist_ok=True)
        empty = self.spark.createDataFrame(schema_of(stream).empty_table())
        if streaming:
            source = self.spark.readStream.schema(empty.schema).option("maxFilesPerTrigger", 1)
            return source.parquet(str(folder))
        return self.spark.read.schema(empty.schema).parquet(str(folder))

    def session(
        self,
        queries: Mapping[str, str],
        *,
        streaming: bool = True,
        streams: Iterable[str] = ("Stock",),
        **options: Any,
    ) -> Session:
        session = Session(self.spark, **{"shards": 2, **options})
        for name in streams:
            time = "ts" if name == "Stock" else "at"
            frame = self.frame(name, streaming=streaming)
            session.stream(name, frame, time=time, lateness="20 seconds")
        for query_id, text in queries.items():
            session.query(query_id, text)
        return session

    def expected(
        self,
        queries: Sequence[Query],
        streams: Iterable[str] = ("Stock",),
        before: int | None = None,
    ) -> Counter[Result]:
        """The reference answers that occur before a time, as a multiset."""
        events = {n: events_from_table(stream_of(n), self.table(n)) for n in streams}
        return expected(queries, events, before)

    def watermark(self, streams: Iterable[str] = ("Stock",)) -> int:
        """Up to where a streaming run over all files has come."""
        marks = []
        for name in streams:
            events = events_from_table(stream_of(name), self.table(name))
            marks.append(max(e.end for e in events) - LATENESS)
        return min(marks)


def schema_of(stream: str) -> pa.Schema:
    return STOCK if stream == "Stock" else NEWS


def stream_of(name: str) -> Stream:
    time = "ts" if name == "Stock" else "at"
    return stream_from_schema(name, schema_of(name), time=time, lateness=LATENESS)


def expected(
    queries: Sequence[Query], events: Mapping[str, Sequence[Event]], before: int | None
) -> Counter[Result]:
    return Counter(
        (query, stream, e.start, e.end, e.values)
        for (query, stream), found in answer(queries, events).items()
        for e in found
        if before is None or e.end < before
    )


def microseconds(row: Row, name: str) -> int:
    """A timestamp column of a collected row; the test session shows UTC."""
    import calendar

    value = row[name]
    return calendar.timegm(value.timetuple()) * SECOND + value.microsecond


def matched(rows: Iterable[Row], queries: Sequence[Query]) -> Counter[Result]:
    """Rows of `matches` in the form of the reference's answers."""
    schemas = {(q.id, o.publish): o.node.schema.names for q in queries for o in q.outputs}
    found: Counter[Result] = Counter()
    for row in rows:
        payload = row.payload.toPython()
        values = tuple(payload[name] for name in schemas[row.query, row.stream])
        times = microseconds(row, "start"), microseconds(row, "end")
        found[row.query, row.stream, *times, values] += 1
    return found


#: The two streams.
BOTH = ("Stock", "News")


def agree(
    market: Market,
    queries: Mapping[str, str],
    files: int,
    read: Callable[[Iterable[Row], Sequence[Query]], Counter[Result]] = matched,
    declared: str = "",
    told: Iterable[tuple[str, str]] = (),
) -> str:
    """Over both streams, as a batch and streaming: what the reference says, of every query. How the
    batch explains itself. `told`: of what is declared, whom it is told and how that begins."""
    for i in range(files):
        market.write("Stock", stock_rows(60, 30 * i, seed=i), f"{i}")
    market.write("News", news_rows(20, 0, seed=9), "0")
    batch = market.session(queries, streaming=False, streams=BOTH)
    bound = batch.queries
    everything = market.expected(bound, BOTH)
    assert {key[0] for key in everything} == set(queries)
    assert read(batch.matches().collect(), bound) == everything

    sink = MemorySink()
    session = market.session(queries, streams=BOTH)
    session.execute(declared)
    running = session.start(
        {"matches": sink}, checkpoint=market.path / "agreed", trigger="available now"
    )
    assert running.await_termination(300)
    assert read(sink.rows, bound) == market.expected(bound, BOTH, market.watermark(BOTH))
    notices = [n for n in running.notices if n.code in ("W205", "W207")]
    began = [(n.query, n.message.partition(": ")[0]) for n in notices]
    assert sorted(began) == sorted(told), began
    return batch.explain()
