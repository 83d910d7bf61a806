"""Very many queries on Spark: members of prepared queries, and changes through a control stream."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import braid
from braid import ConfigError, Session
from braid.spark import MemorySink
from braid.spark.pipeline import shipping
from tests.spark.support import (
    BEGIN,
    FOLDED,
    KEYED,
    SECOND,
    SPREAD,
    STOCK,
    Market,
    matched,
    stock_rows,
)

PAIRS = """CREATE QUERY pairs FOR EACH (lot INT, floor DOUBLE) AS
           SELECT Name_1 AS first, Name AS second
           FROM (FILTER{Lot = :lot AND Price >= :floor}(Stock)) NEXT{} Stock"""
RULES = pd.DataFrame(
    {
        "lot": [i % 3 for i in range(1000)],
        "floor": [float(i % 97) for i in range(1000)],
        "id": [f"r{i}" for i in range(1000)],
    }
)


def run(session: Session, checkpoint: Path, *names: str) -> dict[str, MemorySink]:
    sinks = {name: MemorySink() for name in names}
    running = session.start(sinks, checkpoint=checkpoint, trigger="available now")
    assert running.await_termination(300)
    assert running.exception is None
    return sinks


def counted(rows: Any) -> Counter[tuple[str, str, str]]:
    return Counter(
        (r.query, str(r.start), json.dumps(r.payload.toPython(), default=float, sort_keys=True))
        for r in rows
    )


def engines_answer(table: pa.Table, *, until: int | None = None) -> Counter[tuple[str, str, str]]:
    engine = braid.Engine()
    engine.stream("Stock", STOCK, time="ts", lateness="20 seconds")
    engine.query("pairs", PAIRS, RULES)
    engine.query("jump", KEYED)
    matches = []
    engine.process({"Stock": table})
    matches += engine.matches.to_pylist()
    if until is None:
        engine.finish()
        matches += engine.matches.to_pylist()
    return Counter(
        (
            m["query"],
            str(m["start"].replace(tzinfo=None)),
            json.dumps(json.loads(m["payload"]), sort_keys=True),
        )
        for m in matches
    )


def test_a_thousand_members_in_batch_and_streaming_equal_the_engine(
    market: Market, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cannot be keyed: each is on the shard that its id names, and both shards have a share.

    The job travels as a file, as it does when there are many more of them.
    """
    monkeypatch.setattr(shipping, "LARGE", 1_000)
    for i in range(2):
        market.write("Stock", stock_rows(60, 30 * i, seed=i), f"{i}")
    table = market.table("Stock")
    batch = market.session({"jump": KEYED}, streaming=False)
    bad = pd.DataFrame({"lot": [1, None], "floor": [1.0, 2.0], "id": ["r0", "bad"]})
    batch.query("pairs", PAIRS, market.spark.createDataFrame(RULES))
    batch.query("pairs", PAIRS, bad)
    assert [(r.row, r.code) for r in batch.refused] == [(0, "E171"), (1, "E168")]
    assert "whole on all shards, each query on one: pairs/r0" in batch.explain()
    found = counted(batch.matches().collect())
    assert found == engines_answer(table)
    assert len({key[0] for key in found}) > 500

    streaming = market.session({"jump": KEYED})
    streaming.query("pairs", PAIRS, RULES, ids="id")
    sinks = {"matches": MemorySink()}
    running = streaming.start(sinks, checkpoint=tmp_path / "c", trigger="available now")
    assert running.await_termination(300)
    bound = market.watermark()
    assert counted(sinks["matches"].rows) == engines_answer(table, until=bound)
    figures = running.statistics()
    written = json.loads((tmp_path / "c" / "braid-stats.json").read_text())
    # Whichever workers ran the shards.
    assert figures["totals"]["matches"] == written["totals"]["matches"]
    assert figures["totals"]["matches"] == running.progress.matches > 0
    assert len(figures["queries"]) <= 40
    assert any(mop["members"] > 300 for mop in figures["mops"])

    # Nothing has come since: a restart finds all of them where they are, and writes little.
    plan = (tmp_path / "c" / "braid" / "plan.json").read_text()
    assert len(plan) < 60_000
    market.write("Stock", stock_rows(2, 200, seed=5), "2")
    again = market.session({"jump": KEYED})
    again.query("pairs", PAIRS, RULES)
    running = again.start(sinks, checkpoint=tmp_path / "c", trigger="available now")
    assert running.await_termination(300)
    assert (tmp_path / "c" / "braid" / "plan.json").read_text() == plan
    assert counted(sinks["matches"].rows) == engines_answer(market.table("Stock"), until=1)


def test_ten_thousand_selections_without_state(spark: SparkSession, market: Market) -> None:
    """One pass without a shuffle; every event is for a hundred of them."""
    market.write("Stock", stock_rows(200, 0, seed=3), "0")
    session = market.session({}, streaming=False)
    rules = {"lot": [i % 100 for i in range(10_000)], "floor": [0.0] * 10_000}
    text = """CREATE QUERY lots FOR EACH (lot INT, floor DOUBLE) AS
              SELECT Name, Price FROM FILTER{Lot = :lot AND Price >= :floor}(Stock) PUBLISH Lots"""
    session.query("lots", text, pa.table(rules))
    frame = session.matches()
    assert "Exchange" not in frame._jdf.queryExecution().executedPlan().toString()
    rows = market.table("Stock").to_pylist()
    wanted = Counter(f"lots/{100 * k + r['Lot']}" for r in rows for k in range(100))
    found = Counter({r["query"]: r["count"] for r in frame.groupBy("query").count().collect()})
    assert found == wanted
    assert session.output("Lots").count() == 100 * len(rows)


class Controlled:
    """A session with a control stream of JSON files."""

    def __init__(self, market: Market, tmp_path: Path) -> None:
        self.market, self.path = market, tmp_path / "control"
        self.checkpoint = tmp_path / "checkpoint"
        self.path.mkdir()
        self.sinks = {"matches": MemorySink(), "rejected": MemorySink()}
        self.files = 0

    def session(self, queries: dict[str, str]) -> Session:
        session = self.market.session(queries)
        schema = "op STRING, id STRING, text STRING, at TIMESTAMP"
        session.control(self.market.spark.readStream.schema(schema).json(str(self.path)))
        return session

    def change(self, *changes: tuple[str, str, str | None, int | None]) -> None:
        lines = []
        for op, name, text, at in changes:
            moment = None if at is None else str(pd.Timestamp(BEGIN + at * SECOND, unit="us"))
            lines.append(json.dumps({"op": op, "id": name, "text": text, "at": moment}))
        self.files += 1
        (self.path / f"{self.files}.json").write_text("\n".join(lines))

    def run(self, queries: dict[str, str]) -> braid.spark.Running:
        session = self.session(queries)
        running = session.start(self.sinks, checkpoint=self.checkpoint, trigger="available now")
        assert running.await_termination(300)
        assert running.exception is None
        return running


def test_queries_come_and_go_through_a_control_stream(market: Market, tmp_path: Path) -> None:
    """With restarts between: by the user, and by the pipeline itself for a route it has not."""
    base = {"jump": KEYED, "low": SPREAD.replace("High", "Low").replace("> 90", "< 20")}
    controlled = Controlled(market, tmp_path)

    def watermark() -> int:
        return market.watermark()

    market.write("Stock", stock_rows(60, 0, seed=0), "0")
    controlled.run(base)
    stood = watermark()
    market.write("Stock", stock_rows(60, 40, seed=1), "1")
    controlled.change(("add", "rising", FOLDED, 30), ("add", "high", SPREAD, None))
    running = controlled.run(base)
    assert (running.progress.changes, running.progress.restarts) == (2, 0)
    told = {change.id: change for change in running.changes}
    assert [(c.state, c.time, c.batch) for c in told.values()] == [
        ("applied", BEGIN + 30 * SECOND, 1),
        ("applied", stood, 1),
    ]
    logged = (tmp_path / "checkpoint" / "braid" / "changes" / f"{1:020d}.json").read_text()
    assert [json.loads(line)["time"] for line in logged.splitlines()] == [
        BEGIN + 30 * SECOND,
        stood,
    ]
    lives = {"rising": (BEGIN + 30 * SECOND, 2**62), "high": (stood, 2**62)}
    market.write("Stock", stock_rows(60, 80, seed=2), "2")
    lots = "SELECT Lot, Name FROM Stock NEXT{$1.Buyer = $2.Buyer} Stock"
    controlled.change(
        ("drop", "low", None, 90),
        ("drop", "rising", None, 100),
        ("drop", "nobody", None, None),
        ("add", "jump", SPREAD, None),
        ("add", "old", SPREAD, 1),
        ("add", "buyers", lots, None),
    )
    running = controlled.run(base)
    assert (running.progress.restarts, running.progress.waiting) == (1, 1)
    assert running.statistics()["changes"]["waiting"] == ["buyers"]
    states = {change.id: change.state for change in running.changes}
    assert (states["buyers"], states["old"], states["low"]) == ("waiting", "refused", "applied")
    refused = {json.loads(r.row)["id"]: r.reason for r in controlled.sinks["rejected"].rows}
    assert sorted(refused) == ["jump", "nobody", "old"]
    assert "in the past" in refused["old"]
    assert {r.stream for r in controlled.sinks["rejected"].rows} == {"control"}
    for i in range(3, 6):
        market.write("Stock", stock_rows(60, 40 * i, seed=i), f"{i}")
    running = controlled.run(base)
    assert (running.progress.changes, running.progress.waiting) == (1, 0)
    (began,) = running.changes
    born = began.time
    assert (began.id, began.state) == ("buyers", "applied")
    assert born is not None
    lives |= {"low": (-(2**62), BEGIN + 90 * SECOND), "jump": (-(2**62), 2**62)}
    lives["rising"] = (lives["rising"][0], BEGIN + 100 * SECOND)

    texts = {**base, "rising": FOLDED, "high": SPREAD}
    queries = market.session(texts).queries
    rows = controlled.sinks["matches"].rows
    found = matched((r for r in rows if r.query != "buyers"), queries)
    wanted = Counter(
        key
        for key in market.expected(queries, before=watermark()).elements()
        if lives[key[0]][0] <= key[2] and key[3] < lives[key[0]][1]
    )
    assert found == wanted
    # `buyers` sees everything from its birth on, which is after what had come when it was asked for.
    (added,) = market.session({"buyers": lots}).queries
    sure = market.expected([added], before=watermark())
    assert born > BEGIN + 100 * SECOND
    assert matched((r for r in rows if r.query == "buyers"), [added]) == Counter(
        key for key in sure.elements() if key[2] >= born
    )


def test_a_control_stream_of_other_columns_is_refused(spark: SparkSession) -> None:
    session = Session(spark)
    with pytest.raises(ConfigError, match=r"E416.*no column text.*id is int"):
        session.control(spark.createDataFrame([], "op STRING, id INT, at TIMESTAMP"))
