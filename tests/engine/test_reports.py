"""Rows that no query sees and calls without a value: counted, and said once for each reason."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

import braid
from braid.engine.reports import NoticeList
from braid.errors import Notice

S = pa.schema([("x", pa.int64()), ("t", pa.int64())])


def engine(*queries: str) -> braid.Engine:
    made = braid.Engine(idle_timeout=None)
    made.stream("S", S, time="t")
    made.function("inverse", lambda x: 1 / x, ["BIGINT"], "DOUBLE")
    made.function("confused", lambda x: "text" if x == 1 else x, ["BIGINT"], "BIGINT")
    for number, text in enumerate(queries):
        made.query(f"q{number}", text)
    return made


def codes(notices: Any) -> list[str]:
    return [notice.code for notice in notices]


def test_a_null_time_in_run_is_counted_said_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    data = {"x": [1, 2, 3, 4], "t": [1, None, None, 4]}
    with caplog.at_level(logging.WARNING, logger="braid"):
        out = braid.run("SELECT x FROM S", {"S": data}, time="t")
    assert out.table.column("x").to_pylist() == [1, 4]
    assert out.totals == {"events": 2, "matches": 2, "rejected": 2, "failed_calls": 0}
    assert out.rejected.column("reason").to_pylist() == ["time t is NULL"] * 2
    assert codes(out.notices) == ["W211"]
    (record,) = caplog.records
    assert record.getMessage() == out.notices[0].render()
    assert "stream S rejects rows because time t is NULL" in record.getMessage()


def test_each_reason_is_said_once_whatever_the_batches(caplog: pytest.LogCaptureFixture) -> None:
    e = engine("SELECT x FROM S")
    with caplog.at_level(logging.WARNING, logger="braid"):
        for t in range(5):
            e.process({"S": {"x": ["1", "one"], "t": [t, t]}})
            e.process({"S": {"x": [1], "t": pa.array([None], pa.int64())}})
            assert e.rejected.num_rows == 1
        e.query("late_comer", "SELECT x, t FROM (SELECT x, x AS t FROM S)")  # plans anew
        e.process({"S": {"x": ["one"], "t": [9]}})
    assert e.totals["rejected"] == 11
    assert codes(e.notices) == ["W211", "W211"]
    assert len(caplog.records) == 2


def test_a_stream_with_endless_reasons_says_some_of_them() -> None:
    e = braid.Engine()
    e.execute("CREATE STREAM D (id STRING, doc XML, t BIGINT) TIME t;")
    e.query("q", "D//a->x")
    bad = [f"<a>{'<b>' * n}</a>" for n in range(1, 60)]
    ids, times = [str(n) for n in range(len(bad))], list(range(len(bad)))
    e.process({"D": {"id": ids, "doc": bad, "t": times}})
    assert e.totals["rejected"] == len(bad)
    said = codes(e.notices)
    assert set(said) == {"W211"}
    assert len(said) <= 17
    assert len(set(e.rejected.column("reason").to_pylist())) > len(said)
    assert "more reasons" in e.notices[-1].message


def test_a_function_that_raises_is_said_with_its_error() -> None:
    e = engine(
        "SELECT inverse(x) AS y FROM S PUBLISH Q", "SELECT confused(x) AS z FROM S PUBLISH R"
    )
    e.process({"S": {"x": [0, 1, 0, 2], "t": [1, 2, 3, 4]}})
    e.process({"S": {"x": [0], "t": [5]}})
    e.finish()
    assert e.totals["failed_calls"] == 4
    assert codes(e.notices) == ["W212", "W212"]
    messages = sorted(notice.message for notice in e.notices)
    assert messages[0].startswith("function confused returns what is no BIGINT: ")
    assert messages[1].startswith("function inverse raises ZeroDivisionError: ")
    assert "division by zero" in messages[1]


def test_late_events_are_said_once_for_each_stream() -> None:
    e = engine("SELECT x FROM S")
    e.process({"S": {"x": [1, 2], "t": [10, 20]}})
    e.process({"S": {"x": [1, 2], "t": [5, 6]}})
    e.process({"S": {"x": [1], "t": [7]}})
    assert e.totals["late"] == 3
    assert codes(e.notices) == ["W213"]


def test_a_restored_engine_does_not_say_again_what_was_said_of_its_queries(
    caplog: pytest.LogCaptureFixture,
) -> None:
    e = engine("FROM S NEXT{$2.x > $1.x} S")
    assert codes(e.notices) == ["W201"]
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="braid"):
        again = braid.Engine.restore(e.snapshot())
    assert again.notices == []
    assert caplog.records == []


def test_the_log_has_the_first_notices_of_each_code(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="braid"):
        found = NoticeList(Notice("W201", f"q{n}", "endless") for n in range(100))
        found.append(Notice("W202", "q", "keeps all"))
    assert len(found) == 101
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 22
    assert lines[20] == "more notices W201: they are in `notices`, not in this log"
    assert "W202" in lines[21]


# ---- what `run` returns --------------------------------------------------------------------------

DATA = {"S": {"x": [1, 2, 3], "t": [1, 2, 3]}}


def test_run_has_every_query_by_its_id_published_or_not() -> None:
    text = """
      CREATE QUERY big AS SELECT x FROM FILTER{x > 1} S;
      CREATE QUERY none AS SELECT x AS y FROM FILTER{x > 9} S;
      CREATE QUERY shown AS SELECT x FROM FILTER{x = 1} S PUBLISH Shown;
    """
    out = braid.run(text, DATA, time="t")
    assert set(out) == {"Shown", "big", "none", "shown"}
    assert len(out) == 4
    assert out["big"].column("x").to_pylist() == [2, 3]
    assert out["none"].num_rows == 0
    assert out["none"].column_names == ["start", "end", "y"]
    assert out["Shown"] == out["shown"]
    assert out["Shown"].column("x").to_pylist() == [1]
    assert set(out.streams) == {"Shown"}
    with pytest.raises(KeyError):
        out["nobody"]


def test_a_stream_comes_before_a_query_of_its_name() -> None:
    text = """
      CREATE QUERY P AS SELECT x FROM FILTER{x = 1} S;
      CREATE QUERY other AS SELECT x FROM FILTER{x > 1} S PUBLISH P;
    """
    out = braid.run(text, DATA, time="t")
    assert out["P"].num_rows == 2
    assert out.queries["P"].num_rows == 1
    assert len(out) == 2


def test_the_only_result_has_no_need_of_a_name() -> None:
    out = braid.run("SELECT x FROM FILTER{x > 1} S", DATA, time="t")
    assert out.table.column("x").to_pylist() == [2, 3]
    two = braid.run("SELECT x FROM S; SELECT x FROM FILTER{x > 1} S", DATA, time="t")
    with pytest.raises(braid.ConfigError, match=r"E308.*2 queries"):
        _ = two.table


def test_a_query_that_also_publishes_inside_has_its_own_result() -> None:
    text = "CREATE QUERY q AS SELECT x FROM FILTER{x > 1} (SELECT x FROM FILTER{x > 0} S PUBLISH Inner)"
    out = braid.run(text, DATA, time="t")
    assert out["Inner"].num_rows == 3
    assert out["q"].num_rows == 2
