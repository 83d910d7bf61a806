"""W208: streams whose times are too far apart for a query that combines them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

import braid

HOUR = 3_600_000_000
YEAR = 365 * 24 * HOUR
OLD = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
NOW = 1_790_000_000_000_000

STREAMS = """CREATE STREAM S (x BIGINT, ts TIMESTAMP) TIME ts;
             CREATE STREAM T (x BIGINT, ts TIMESTAMP) TIME ts;
             CREATE STREAM U (x BIGINT);
             CREATE STREAM A (x BIGINT, t BIGINT) TIME t;
             CREATE STREAM B (x BIGINT, t BIGINT) TIME t;"""

APART = {
    "join": "SELECT S.x FROM S [Range 1 hour], U [Now] WHERE S.x = U.x",
    "pattern": "SELECT x FROM S NEXT{DUR <= 1h} U",
    "filter": "FROM FILTER{DUR < 1 min}(S NEXT{$1.x = $2.x} U)",
    "fold": "FROM S FOLD{$1.x = $2.x AND DUR <= 5 min, TRUE, } U",
    "three": "SELECT x FROM S NEXT{DUR <= 1h} (SELECT x_1 AS y FROM U NEXT{DUR <= 1h} U)",
    "grouped": """SELECT x, c FROM S [Range 1 hour] AS s,
                  (SELECT x AS y, count(*) AS c FROM U [Range 1 min] GROUP BY x) AS g
                  WHERE s.x = g.y""",
}
TOGETHER = {
    "unbounded": "SELECT S.x FROM S [Range Unbounded], U [Now] WHERE S.x = U.x",
    "rows": "SELECT S.x FROM S [Rows 5], U [Range 1 hour] WHERE S.x = U.x",
    "wide": "SELECT x FROM S NEXT{DUR <= 100000 days} U",
    "endless": "SELECT x FROM S NEXT{$1.x = $2.x} U",
    "union": "SELECT x FROM S UNION U",
    "either": "SELECT x FROM (S UNION U) NEXT{DUR <= 1h} U",
    "single": "SELECT x FROM U NEXT{DUR <= 1h} U",
    "total": """SELECT x, c FROM U [Range 1 hour] AS u,
                (SELECT count(*) AS c FROM S [Range 1 min]) AS g""",
}


def made(queries: dict[str, str], now: list[int]) -> braid.Engine:
    engine = braid.Engine(clock=lambda: now[0])
    engine.execute(STREAMS)
    for name, text in queries.items():
        engine.query(name, text)
    engine.notices.clear()
    return engine


def timed(*ends: int) -> dict[str, Any]:
    return {"x": [1] * len(ends), "ts": [OLD + datetime.timedelta(microseconds=e) for e in ends]}


def told(engine: braid.Engine) -> list[str]:
    return [n.query for n in engine.notices if n.code == "W208"]


@pytest.mark.parametrize("step", [0, 1_000])
def test_clocks_that_are_too_far_apart_are_noticed_once_for_a_query(step: int) -> None:
    now = [NOW]
    engine = made(APART | TOGETHER, now)
    for i in range(8):
        now[0] += 1_000_000
        engine.process({"S": timed(i * step), "U": {"x": [1]}})
        assert sorted(told(engine)) == ([] if i < 4 else sorted(APART))
    engine.execute("CREATE VIEW V AS SELECT x FROM S;")  # plans anew
    engine.process({"S": timed(99), "U": {"x": [1]}})
    engine.finish()
    assert sorted(told(engine)) == sorted(APART)
    message = next(n.message for n in engine.notices if n.query == "join")
    assert "S has 2024-01-01 00:00:00" in message or "S is at 2024-01-01 00:00:00" in message
    assert "U has 2026-" in message
    assert "(no time column: stamped on arrival)" in message
    assert "at most 3600 s apart" in message
    assert "if U has a time column, declare it" in message


def test_a_stream_that_catches_up_is_not_noticed() -> None:
    """A day a batch, over a month, and then both are at the same time."""
    engine = made({"q": "SELECT x FROM S NEXT{DUR <= 1h} T"}, [NOW])
    for i in range(30):
        engine.process({"S": timed(i * 24 * HOUR), "T": timed(30 * 24 * HOUR + i)})
    assert told(engine) == []
    engine.process({"S": timed(30 * 24 * HOUR + 1), "T": timed(30 * 24 * HOUR + 31)})
    assert engine.finish() is not None
    assert told(engine) == []


def test_the_end_of_the_input_settles_it() -> None:
    engine = made({"q": "SELECT x FROM S NEXT{DUR <= 1h} T"}, [NOW])
    engine.process({"S": timed(0, HOUR), "T": timed(3 * HOUR)})
    assert told(engine) == []
    engine.finish()
    assert told(engine) == ["q"]
    assert "check the time columns of both" in engine.notices[-1].message


def test_ticks_and_streams_of_different_clocks() -> None:
    queries = {
        "ticks": "SELECT x FROM A NEXT{DUR <= 9} B",
        "near": "SELECT x FROM A NEXT{DUR <= 10} B",
    }
    engine = made(queries, [NOW])
    engine.process({"A": {"x": [1], "t": [0]}, "B": {"x": [1], "t": [10]}, "U": {"x": [1]}})
    engine.finish()
    assert told(engine) == ["ticks"]
    assert "A is at 0; B is at 10" in engine.notices[-1].message
    assert "at most 9 ticks apart" in engine.notices[-1].message


def test_members_of_a_prepared_query_are_judged_each_by_its_own_window() -> None:
    engine = made({}, [NOW])
    text = "CREATE QUERY p FOR EACH (d BIGINT) AS SELECT x FROM A NEXT{DUR <= :d} B"
    engine.query("p", text, {"d": [1, 50, 2]})
    engine.notices.clear()
    engine.process({"A": {"x": [1], "t": [0]}, "B": {"x": [1], "t": [10]}})
    engine.finish()
    assert len(told(engine)) == 2


def test_spans_go_on_after_a_restart() -> None:
    now = [NOW]
    engine = made({"join": APART["join"]}, now)
    for i in range(5):
        assert told(engine) == []
        engine = braid.Engine.restore(engine.snapshot(), clock=lambda: now[0])
        engine.process({"S": timed(i), "U": {"x": [1]}})
    assert told(engine) == ["join"]


def test_run_warns() -> None:
    tables = {"S": {"x": [1], "ts": [OLD]}, "U": {"x": [1]}}
    text = "SELECT S.x FROM S [Range 1 hour], U [Range 1 hour] WHERE S.x = U.x PUBLISH Q"
    (notice,) = braid.run(text, tables, time={"S": "ts"}).notices
    assert notice.code == "W208"
    assert "no result can combine events of S and U" in notice.message
    tables["U"] = {"x": [1], "ts": [OLD]}
    out = braid.run(text, tables, time="ts")
    assert out["Q"].num_rows == 1
    assert out.notices == ()
