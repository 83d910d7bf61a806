"""Events of several streams at once on Spark: they travel once, and each query sees its own."""

from __future__ import annotations

from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from braid import CheckpointError, ConfigError, Session
from braid.distribution.distribution import distribute
from braid.distribution.keys import FEED
from braid.engine.io.ingest import Ingest
from braid.engine.options import Options, ShardOptions
from braid.lang import Catalog, compile_query, load
from braid.plan.channel_specs import EncodeSpec
from braid.reference import answer, events_from_table
from braid.spark import MemorySink
from braid.spark.environment import shard_labels
from braid.spark.pipeline.envelopes import EVENTS, RESULT, open_table
from braid.spark.pipeline.ingest import IngestJob
from braid.spark.pipeline.shipping import Shipped
from braid.spark.shards import hosting
from braid.spark.shards.checkpoint import SavedPlan
from braid.spark.shards.processor import ShardProcessor
from braid.spark.shards.shards import ShardJob
from tests.spark.shards.test_shards import Store

DECLARED = """
CREATE STREAM A (k BIGINT, x BIGINT, t BIGINT) TIME t;
CREATE STREAM B (k BIGINT, x BIGINT, t BIGINT) TIME t SHARABLE WITH A;
CREATE STREAM C (k BIGINT, x BIGINT, t BIGINT) TIME t SHARABLE WITH B;
CREATE STREAM T (k BIGINT, x BIGINT, t BIGINT) TIME t;
"""
#: Keyed alike, keyed otherwise, whole, and without state: streams of one source by other routes.
QUERIES = {
    "a": "SELECT k, x_1 AS u, x AS v FROM A NEXT{$2.k = $1.k AND DUR <= 9} T PUBLISH A1",
    "b": "SELECT k, x_1 AS u, x AS v FROM B NEXT{$2.k = $1.k AND DUR <= 9} T PUBLISH B1",
    "c": "SELECT k, x_1 AS u, x AS v FROM C NEXT{$2.x = $1.x AND DUR <= 9} T PUBLISH C1",
    "any": "SELECT x_1 AS u, x AS v FROM B NEXT{DUR <= 3} T PUBLISH Any",
    "high": "SELECT k, x FROM FILTER{x > 2} C PUBLISH High",
    "both": "SELECT x_1 AS u, x AS v FROM A NEXT{$2.k = $1.k AND DUR <= 5} B PUBLISH Both",
}
SOURCES = (("A", "B", "C"), ("A", "B"), ("A",), ("C",), ("T",))
COLUMNS = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("t", pa.int64())])

Row = tuple[int, int, int]


class Cluster:
    """Shards with their saved state, fed from sources."""

    def __init__(self, shards: int, names: tuple[str, ...]) -> None:
        self.catalog = Catalog()
        load(DECLARED, self.catalog)
        self._labels = tuple(shard_labels(shards))
        self._stores = {label: Store() for label in self._labels}
        self.run(names)

    def run(self, names: tuple[str, ...]) -> None:
        """Start, or start again, with these queries."""
        for name in names:
            if name not in self.catalog.queries:
                query = compile_query(QUERIES[name], self.catalog, query_id=name).query
                self.catalog.add_query(query)
        self.distribution = distribute(
            self.catalog.members(), self.catalog.streams, len(self._labels)
        )
        saved = SavedPlan.of(self.distribution).to_json().encode()
        self.job = Shipped(
            ShardJob(
                self.distribution, self._labels, ShardOptions(Options(idle_timeout=None)), saved
            )
        )
        hosting._ENGINES = OrderedDict()

    def envelopes(self, streams: tuple[str, ...], rows: list[Row]) -> list[Any]:
        table = pa.table(
            [list(c) for c in zip(*rows, strict=True)] if rows else [[], [], []], COLUMNS
        )
        known = self.distribution.routes
        routes = {name: known[name] for name in streams if name in known}
        job = IngestJob(Ingest(self.catalog.streams[streams[0]]), routes, self._labels, True)
        return [b.to_pandas().assign(now=1) for b in job(iter(table.to_batches()))]

    def batch(self, sources: dict[tuple[str, ...], list[Row]]) -> Counter[Any]:
        frames = [f for names, rows in sources.items() for f in self.envelopes(names, rows)]
        found: Counter[Any] = Counter()
        for label in self._labels:
            processor = ShardProcessor(self.job, "pipeline")
            processor.init(self._stores[label])
            own = [frame[frame["shard"] == label] for frame in frames]
            for out in processor.handleInputRows((label,), iter(own), None):
                for kind, stream, payload, pairs in zip(
                    out["kind"], out["stream"], out["payload"], out["pairs"], strict=True
                ):
                    if kind == RESULT:
                        table = open_table(payload).take(open_table(pairs).column("row"))
                        found.update((stream, *row.values()) for row in table.to_pylist())
        return found

    def expected(self, rows: dict[str, list[Row]]) -> Counter[Any]:
        events = {
            name: events_from_table(
                self.catalog.streams[name],
                pa.table([list(c) for c in zip(*held, strict=True)], COLUMNS),
            )
            for name, held in rows.items()
        }
        found = answer(list(self.catalog.queries.values()), events)
        return Counter(
            (stream, e.start, e.end, *e.values) for (_, stream), es in found.items() for e in es
        )


def drawn(seed: int) -> list[tuple[tuple[str, ...], Row]]:
    random = np.random.default_rng(seed)
    ticks = np.sort(random.integers(0, 50, 90))  # several events at most instants
    return [
        (SOURCES[random.integers(len(SOURCES))], (*random.integers(0, 4, 2).tolist(), t))
        for t in ticks.tolist()
    ]


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_law_for_events_of_several_streams(seed: int, shards: int) -> None:
    """Over batch splits, simultaneous events, shards, and a restart with more queries that read
    the streams: nobody's state is lost by it."""
    events = drawn(seed)
    cluster = Cluster(shards, ("a", "c", "high"))
    middle = len(events) // 2
    found: Counter[Any] = Counter()
    rows: dict[str, list[Row]] = {name: [] for name in "ABCT"}
    for first in range(0, len(events), 9):
        batch: dict[tuple[str, ...], list[Row]] = {names: [] for names in SOURCES}
        for names, row in events[first : first + 9]:
            batch[names].append(row)
            for name in names:
                rows[name].append(row)
        found += cluster.batch(batch)
        if first <= middle < first + 9:
            before = cluster.expected(rows)
            cluster.run(("b", "any", "both"))
    last = {names: [(9, 9, 1_000)] for names in (("A", "B", "C"), ("T",))}
    for names in last:
        for name in names:
            rows[name].append(last[names][0])
    found += cluster.batch(last)
    found += cluster.batch({names: [(8, 8, 1_001)] for names in last})
    expected = cluster.expected(rows)
    first_ones = {stream for stream, *_ in before}
    assert first_ones == {"A1", "C1", "High"}
    shown = Counter({r: n for r, n in found.items() if r[0] in first_ones and r[2] <= 1_000})
    assert shown == Counter({r: n for r, n in expected.items() if r[0] in first_ones})
    later = Counter({r: n for r, n in found.items() if r[0] not in first_ones})
    assert later
    assert later <= expected  # they were born in the middle


def test_events_of_streams_that_are_routed_alike_travel_once() -> None:
    cluster = Cluster(2, ("a", "b", "c"))
    frames = cluster.envelopes(("A", "B", "C"), [(1, 1, 1), (2, 2, 2), (3, 3, 3)])
    sent: Counter[str] = Counter()
    for frame in frames:
        events = frame[frame["kind"] == EVENTS]
        for name, count in zip(events["channel"], events["rows"], strict=True):
            sent[name] += count
    assert sent == {f"A@k{FEED}B@k": 3, "C@x": 3}
    cluster.batch({("A", "B", "C"): [(1, 1, 1)]})
    kept = next(iter(hosting._ENGINES.values())).hosted.shard
    specs = [mop.spec for mop in kept.plan.mops.values() if isinstance(mop.spec, EncodeSpec)]
    assert [spec.streams for spec in specs] == [("A@k", "B@k"), ("C@x",)]


@pytest.mark.spark
def test_one_frame_for_several_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Streaming, in one go and without state; a stream with a frame of its own besides."""
    schema = "k BIGINT, x BIGINT, t BIGINT"
    rows = {
        ("Gold", "Basic"): [(1, 10, 1), (2, 20, 2), (8, 0, 95)],
        ("Gold",): [(1, 30, 3)],
        ("Trade",): [(1, 40, 4), (2, 50, 5), (9, 0, 90)],
    }
    for names, held in rows.items():
        frame = spark.createDataFrame(held, schema)
        frame.coalesce(1).write.parquet(str(tmp_path / "-".join(names)))

    def session(*, streaming: bool) -> Session:
        made = Session(spark, shards=2, idle_timeout=None)
        reader = spark.readStream if streaming else spark.read
        for names in rows:
            frame = reader.schema(schema).parquet(str(tmp_path / "-".join(names)))
            once = names == ("Gold",)
            made.stream(names, frame, time=None if once else "t")
        for stream in ("Gold", "Basic"):
            text = f"SELECT k, x_1 AS u FROM {stream} NEXT{{$2.k = $1.k AND DUR <= 9}} Trade"
            made.query(stream.lower(), f"{text} PUBLISH {stream}Sold")
        return made

    static = session(streaming=False)
    gold = {(r.k, r.u) for r in static.output("GoldSold").collect()}
    assert gold == {(1, 10), (1, 30), (2, 20)}
    assert {(r.k, r.u) for r in static.output("BasicSold").collect()} == {(1, 10), (2, 20)}

    plain = Session(spark, shards=2)
    plain.stream(("Gold", "Basic"), spark.createDataFrame(rows["Gold", "Basic"], schema), time="t")
    plain.query("high", "SELECT x FROM FILTER{x > 10} Basic PUBLISH High")
    plain.query("all", "SELECT x FROM Gold PUBLISH All")
    found = Counter(r.query for r in plain.matches().collect())
    assert found == {"high": 1, "all": 3}

    sinks = {name: MemorySink() for name in ("GoldSold", "BasicSold")}
    checkpoint = tmp_path / "checkpoint"
    running = session(streaming=True).start(sinks, checkpoint=checkpoint, trigger="available now")
    assert running.await_termination(300)
    assert {(r.k, r.u) for r in sinks["GoldSold"].rows} == gold

    other = Session(spark, shards=2)
    for name in ("Gold", "Basic", "Trade"):
        other.stream(
            name, spark.readStream.schema(schema).parquet(str(tmp_path / "Gold")), time="t"
        )
    other.query("gold", "SELECT x FROM Gold PUBLISH GoldSold")
    with pytest.raises(CheckpointError, match="E412"):
        other.start({"GoldSold": MemorySink()}, checkpoint=checkpoint)


@pytest.mark.spark
def test_streams_that_are_not_alike_cannot_have_the_same_events(spark: SparkSession) -> None:
    session = Session(spark)
    frame = spark.createDataFrame([(1, 2, 3)], "k BIGINT, x BIGINT, t BIGINT")
    session.execute("CREATE STREAM A (k BIGINT, t BIGINT) TIME t; CREATE STREAM B (x BIGINT);")
    with pytest.raises(ConfigError, match="A and B cannot have the same events"):
        session.stream(("A", "B"), frame)
    with pytest.raises(ConfigError, match="several different names"):
        session.stream(("A", "A"), frame)
