"""The law on Spark: streaming, batch and the reference semantics give the same results."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from braid import ConfigError, Session
from braid.spark import MemorySink
from tests.spark.support import (
    BEGIN,
    BOTH,
    CHAINED,
    CROSSED,
    FOLDED,
    KEYED,
    SECOND,
    SPREAD,
    WHOLE,
    Market,
    matched,
    microseconds,
    news_rows,
    stock_rows,
)

ALL = {
    "jump": KEYED,
    "crossed": CROSSED,
    "told": CHAINED,
    "rising": FOLDED,
    "whole": WHOLE,
    "high": SPREAD,
}


def run(session: Session, checkpoint: object, *names: str) -> dict[str, MemorySink]:
    sinks = {name: MemorySink() for name in names or ("matches", "late", "rejected")}
    running = session.start(sinks, checkpoint=str(checkpoint), trigger="available now")
    assert running.await_termination(300)
    return sinks


def test_streaming_and_batch_equal_the_reference(market: Market, tmp_path) -> None:
    """All distributions at once, two streams of different rates, three files out of order."""
    for i in range(3):
        market.write("Stock", stock_rows(120, 60 * i, seed=i), f"{i}")
    market.write("News", news_rows(40, 0, seed=9), "0")
    batch = market.session(ALL, streaming=False, streams=BOTH)
    modes = batch.explain()
    assert all(word in modes for word in ("keyed: ", "whole on shard", "spread: high"))
    queries = batch.queries
    everything = market.expected(queries, BOTH)
    assert matched(batch.matches().collect(), queries) == everything

    streaming = market.session(ALL, streams=BOTH)
    sinks = run(streaming, tmp_path / "checkpoint")
    bound = market.watermark(BOTH)
    assert matched(sinks["matches"].rows, queries) == market.expected(queries, BOTH, bound)
    assert len(everything) > 200
    assert sinks["late"].rows == sinks["rejected"].rows == []


def test_a_typed_output_has_the_columns_of_the_query(market: Market) -> None:
    market.write("Stock", stock_rows(60, 0, seed=1), "0")
    session = market.session({"jump": KEYED}, streaming=False)
    frame = session.output("Jump")
    assert [f"{f.name} {f.dataType.simpleString()}" for f in frame.schema] == [
        "start timestamp", "end timestamp", "Name string", "low double", "high double",
    ]  # fmt: skip
    found = Counter(
        ("jump", "Jump", microseconds(r, "start"), microseconds(r, "end"), (r.Name, r.low, r.high))
        for r in frame.collect()
    )
    assert found == market.expected(session.queries)
    with pytest.raises(ConfigError, match="outputs: Jump, matches, late, rejected"):
        session.output("Jumps")


def test_queries_without_state_need_no_shuffle(market: Market) -> None:
    market.write("Stock", stock_rows(100, 0, seed=3), "0")
    session = market.session({"high": SPREAD}, streaming=False)
    frame = session.matches()
    assert "Exchange" not in frame._jdf.queryExecution().executedPlan().toString()
    assert matched(frame.collect(), session.queries) == market.expected(session.queries)


def test_late_and_rejected_events_come_out_once(market: Market, tmp_path) -> None:
    """The event goes to three channels (by Name, by Buyer, whole), but it is one late event."""
    rows = stock_rows(80, 0, seed=5)
    market.write("Stock", rows, "0")
    market.write("Stock", stock_rows(40, 200, seed=6), "1")
    late = {"ts": BEGIN + 3 * SECOND, "Name": "ACME", "Buyer": "Bolt", "Lot": 1, "Price": 7.0}
    market.write("Stock", [{**late, "ts": None}, late, *stock_rows(9, 260, seed=7)], "2")
    queries = {"crossed": CROSSED, "whole": WHOLE}
    sinks = {name: MemorySink() for name in ("matches", "late", "rejected")}
    session, path = market.session(queries), str(tmp_path / "checkpoint")
    running = session.start(sinks, checkpoint=path, trigger="available now")
    assert running.await_termination(300)
    said = sorted((n.code, n.message.partition(": ")[0]) for n in running.notices)
    assert said == [
        ("W211", "stream Stock rejects rows because time ts is NULL"),
        ("W213", "events of stream Stock come later than its LATENESS allows"),
    ]
    (row,) = sinks["late"].rows
    assert (row.stream, microseconds(row, "end")) == ("Stock", late["ts"])
    assert row.payload.toPython() == {"Name": "ACME", "Buyer": "Bolt", "Lot": 1, "Price": 7.0}
    (row,) = sinks["rejected"].rows
    assert (row.stream, row.reason) == ("Stock", "time ts is NULL")
    assert '"Name":"ACME"' in row.row


def test_an_idle_stream_holds_the_others_only_until_the_timeout(market: Market, tmp_path) -> None:
    """News says nothing at all: time does not move while it is waited for."""
    for i in range(3):
        market.write("Stock", stock_rows(60, 100 * i, seed=i), f"{i}")
    queries = {"jump": KEYED, "told": CHAINED}
    waiting = market.session(queries, streams=BOTH, idle_timeout=None)
    assert run(waiting, tmp_path / "waiting")["matches"].rows == []
    impatient = market.session(queries, streams=BOTH, idle_timeout="1 ms")
    sinks = run(impatient, tmp_path / "impatient")
    (market.path / "News").mkdir(exist_ok=True)
    alone = market.session({"jump": KEYED}, streaming=False)
    bound = market.watermark(("Stock",))
    assert matched(sinks["matches"].rows, alone.queries) == market.expected(
        alone.queries, before=bound
    )


def test_streams_without_a_time_are_stamped_with_that_of_the_batch(
    market: Market, tmp_path
) -> None:
    """The same time on every shard, and later batches come later."""
    rows = [{**row, "ts": None} for row in stock_rows(30, 0, seed=2)]
    for i in range(3):
        market.write("Stock", rows[10 * i : 10 * i + 10], f"{i}")
    session = Session(market.spark, shards=2)
    session.stream("Stock", market.frame("Stock", streaming=True).drop("ts"))
    session.query("next", "SELECT Lot_1 AS a, Lot AS b FROM Stock NEXT{$1.Lot = $2.Lot} Stock")
    sinks = run(session, tmp_path / "checkpoint")
    last: dict[int, int] = {}
    pairs: Counter[tuple[int, int]] = Counter()
    for row in rows:
        if row["Lot"] in last:
            pairs[row["Lot"], row["Lot"]] += 1
        last[row["Lot"]] = 1
    found = Counter(tuple(r.payload.toPython().values()) for r in sinks["matches"].rows)
    assert found == pairs
    assert sinks["late"].rows == []


def test_streaming_and_static_inputs_do_not_mix(market: Market) -> None:
    session = Session(market.spark)
    session.stream("Stock", market.frame("Stock", streaming=True), time="ts")
    session.stream("News", market.frame("News", streaming=False), time="at")
    session.query("high", SPREAD)
    with pytest.raises(ConfigError, match="Stock is streaming, News is static"):
        session.matches()


def test_one_pass_feeds_all_sinks(market: Market, tmp_path) -> None:
    for i in range(2):
        market.write("Stock", stock_rows(60, 60 * i, seed=i), f"{i}")
    session = market.session({"jump": KEYED, "high": SPREAD})
    called = []
    sinks = {
        "Jump": str(tmp_path / "jump"),
        "High": lambda frame, batch: called.append((batch, frame.count())),
        "matches": MemorySink(),
        "late": "noop",
    }
    running = session.start(sinks, checkpoint=tmp_path / "checkpoint", trigger="available now")
    assert running.await_termination(300)
    assert running.exception is None
    progress = running.progress
    assert (progress.batches, progress.events, progress.shards) == (2, 120, 2)
    assert progress.matches == len(sinks["matches"].rows) > 0
    assert progress.saved_bytes > 0
    # Were the sources read once for each sink, Spark would count their rows as often.
    assert running.query is not None
    assert [p.numInputRows for p in running.query.recentProgress if p.numInputRows] == [60, 60]
    stored = market.spark.read.parquet(str(tmp_path / "jump"))
    high = sum(1 for row in sinks["matches"].rows if row.query == "high")
    assert stored.count() + high == progress.matches
    assert sum(count for _, count in called) == high
    assert stored.select("batch").distinct().count() == 2


@pytest.mark.parametrize("queries", [{"jump": KEYED, "high": SPREAD}, {"high": SPREAD}])
def test_results_that_no_sink_takes_are_counted(market: Market, queries: dict[str, str]) -> None:
    market.write("Stock", stock_rows(60, 0, seed=1), "0")
    shown, sink = MemorySink(), MemorySink()
    whole = market.session(queries, streaming=False).start({"matches": shown}).progress
    some = market.session(queries, streaming=False).start({"High": sink}).progress
    assert some.matches == whole.matches == len(shown.rows)
    assert len(sink.rows) == sum(row.query == "high" for row in shown.rows) > 0


def test_a_users_own_write_stream_with_ticks_intervals_and_a_function(spark, tmp_path) -> None:
    """What `output` gives is a streaming DataFrame like any other, with its own checkpoint."""
    (tmp_path / "in").mkdir()
    columns = {"n": [1, 2, 3, 4], "t0": [1, 3, 6, 9], "t1": [2, 5, 8, 12]}
    pq.write_table(pa.table(columns), tmp_path / "in" / "0.parquet")
    session = Session(spark, shards=2)
    frame = spark.readStream.schema("n long, t0 long, t1 long").parquet(str(tmp_path / "in"))
    session.stream("S", frame, time=("t0", "t1"))
    session.function("twice", lambda x: 2 * x, ["BIGINT"], "BIGINT")
    session.query("pairs", "SELECT n_1 AS a, twice(n) AS b FROM S NEXT S PUBLISH Pairs")
    writer = session.output("Pairs").writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.start(str(tmp_path / "out")).awaitTermination(300)
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("start").collect()
    # The event that ends at 12 waits: nothing has shown that time moved on.
    assert [tuple(row) for row in found] == [(1, 5, 1, 4), (3, 8, 2, 6)]


def test_a_query_over_its_budget_is_suspended_and_the_others_go_on(spark, tmp_path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"n": list(range(9)), "t": list(range(9))}), tmp_path / "in/0.parquet")
    session = Session(spark, shards=2, instance_budget=3)
    frame = spark.readStream.schema("n long, t long").parquet(str(tmp_path / "in"))
    session.stream("S", frame, time="t")
    session.query("greedy", "FROM S NEXT{$2.n > $1.n + 100} S PUBLISH Greedy")
    session.query("all", "SELECT n FROM S PUBLISH Every")
    sink = MemorySink()
    running = session.start({"Every": sink}, checkpoint=tmp_path / "c", trigger="available now")
    assert running.await_termination(300)
    assert list(running.suspended) == ["greedy"]
    assert sorted(row.n for row in sink.rows) == list(range(8))
    assert running.progress.watermarks == {"tick": 8}
