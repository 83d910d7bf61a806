"""Cases that once went wrong, or nearly did."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import braid
from tests.engine.snapshot_parts import opened, sealed, with_option

S = pa.schema([("x", pa.int64()), ("t", pa.int64())])


def engine(text: str, **options: Any) -> braid.Engine:
    made = braid.Engine(**options)
    made.stream("S", S, time="t")
    made.execute(text)
    return made


def events(*rows: tuple[int, int]) -> dict[str, pa.Table]:
    return {"S": pa.table({"x": [x for x, _ in rows], "t": [t for _, t in rows]}, S)}


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return [(r["start"], r["end"]) for r in table.to_pylist()]


@pytest.mark.parametrize("bad", [2**70, "\ud800", "text", object()])
def test_a_function_that_returns_what_is_not_of_its_type_gives_null(bad: object) -> None:
    e = braid.Engine()
    e.stream("S", S, time="t")
    e.function("f", lambda x: bad if x == 1 else x, ["BIGINT"], "BIGINT")
    e.execute("SELECT f(x) AS y FROM S PUBLISH Q; SELECT x FROM S PUBLISH O;")
    e.process(events((1, 1), (2, 2)))
    found = e.finish()
    assert found["Q"].column("y").to_pylist() + found["O"].column("x").to_pylist() == [2, 2]


def test_late_events_of_attributes_named_like_the_interval() -> None:
    e = braid.Engine()
    schema = pa.schema([("start", pa.string()), ("end", pa.int64()), ("t", pa.int64())])
    e.stream("S", schema, time="t")
    e.query("q", "SELECT * FROM S PUBLISH Q")
    e.process({"S": pa.table({"start": ["a", "b"], "end": [7, 8], "t": [10, 20]}, schema)})
    e.process({"S": pa.table({"start": ["late"], "end": [9], "t": [5]}, schema)})
    (row,) = e.late.to_pylist()
    assert (row["start"], row["end"]) == (5, 5)
    assert row["payload"] == '{"start_":"late","end_":9}'


def test_attributes_named_like_the_interval_never_swallow_each_other() -> None:
    table = pa.table({"start": [5], "start_": [6], "t": [1]})
    (row,) = braid.run("SELECT * FROM S PUBLISH Q", {"S": table}, time="t")["Q"].to_pylist()
    assert row == {"start": 1, "end": 1, "start__": 5, "start_": 6}


@pytest.mark.parametrize(
    ("predicate", "last"),
    [("CAST(DUR AS BOOLEAN) = TRUE", 100), ("CAST(DUR AS FLOAT) <= 16777216", 16_777_218)],
)
def test_only_casts_that_keep_order_bound_a_duration(predicate: str, last: int) -> None:
    e = engine(f"FROM S NEXT{{{predicate}}} S PUBLISH Q;")
    e.process(events((1, 1), (2, last)))
    assert pairs(e.finish()["Q"]) == [(1, last)]


def test_what_reads_a_suspended_query_is_cut_at_the_same_instant_and_named() -> None:
    text = """
        CREATE QUERY p AS FROM (SELECT x FROM S NEXT{$1.x = $2.x} S) UNION (FILTER{x >= 100} S)
          PUBLISH P;
        CREATE QUERY c AS SELECT x FROM P NEXT P PUBLISH C;"""
    e = engine(
        text.replace("SELECT x FROM S NEXT", "SELECT x_1 AS x FROM S NEXT"), instance_budget=3
    )
    values = (1, 2, 3, 4, 5, 100, 1, 101, 2, 102, 7)
    found = e.process(events(*((x, t) for t, x in enumerate(values))))
    assert found["P"].num_rows == found["C"].num_rows == 0
    assert sorted(e.suspended) == ["c", "p"]


def test_a_larger_budget_lets_a_suspended_query_go_on_after_a_restart() -> None:
    e = engine("FROM S NEXT{$2.x > $1.x + 5} S PUBLISH Q;", instance_budget=2)
    e.process(events(*((0, t) for t in range(9))))
    assert e.suspended
    header, pages = opened(e.snapshot())
    again = braid.Engine.restore(sealed(with_option(header, instance_budget=9), pages))
    again.process(events((0, 100), (9, 101)))
    assert sorted(pairs(again.finish()["Q"])) == [(8, 101), (100, 101)]  # 8 was still held back
    assert not again.suspended


def test_an_added_query_does_not_inherit_instances_of_an_equal_one() -> None:
    e = engine("CREATE QUERY a AS SELECT x FROM S NEXT{$1.x = $2.x} S PUBLISH A;")
    e.process(events((1, 1), (2, 2), (3, 3)))
    e.query("b", "SELECT x FROM S NEXT{$1.x = $2.x} S PUBLISH B")
    found = e.process(events((1, 10), (9, 11)))
    assert (pairs(found["A"]), pairs(found["B"])) == ([(1, 10)], [])
    e.drop("a")
    e.query("a", "SELECT x FROM S NEXT{$1.x = $2.x} S PUBLISH A")
    again = braid.Engine.restore(e.snapshot())
    found = again.process(events((2, 20), (9, 21)))
    assert (pairs(found["A"]), pairs(found["B"])) == ([], [])
    assert pairs(again.finish()["B"]) == [(11, 21)]


@pytest.mark.parametrize("pause", [0, 3_600_000_000])
def test_time_that_passes_while_nothing_runs_makes_no_stream_idle(pause: int) -> None:
    now = [0]
    e = braid.Engine(clock=lambda: now[0])
    e.stream("A", S, time="t")
    e.stream("B", S, time="t")
    e.query("q", "SELECT x FROM A NEXT B PUBLISH Q")
    e.process({"A": events((1, 1))["S"], "B": events((1, 1))["S"]})
    state = e.snapshot()
    now[0] += pause
    e = braid.Engine.restore(state, clock=lambda: now[0])
    e.process({"A": events((1, 1000))["S"]})
    e.process({"B": events((1, 500))["S"]})
    assert e.late.num_rows == 0
    assert pairs(e.finish()["Q"]) == [(1, 500)]


def test_arrivals_are_never_late_even_if_the_clock_goes_back() -> None:
    now = [1_000]
    e = braid.Engine(clock=lambda: now[0])
    e.stream("S", pa.schema([("x", pa.int64())]))
    e.query("q", "SELECT x FROM S PUBLISH Q")
    e.process({"S": pa.table({"x": [1]})})
    now[0] = 2_000
    e.process({})
    now[0] = 1_500
    found = e.process({"S": pa.table({"x": [2]})})["Q"].column("x").to_pylist()
    assert e.late.num_rows == 0
    assert found + e.finish()["Q"].column("x").to_pylist() == [2]


def test_parts_of_a_microsecond_are_cut_off() -> None:
    times = pa.array([10**18 + 1, 10**18 + 2001], pa.timestamp("ns"))
    table = pa.table({"x": [1, 2], "ts": times})
    out = braid.run("SELECT x FROM S PUBLISH Q", {"S": table}, time="ts")["Q"]
    assert out.column("end").cast(pa.int64()).to_pylist() == [10**15, 10**15 + 2]


def test_a_call_takes_all_tables_or_none() -> None:
    e = braid.Engine()
    e.stream("A", S, time="t")
    e.stream("B", S, time="t")
    e.query("q", "SELECT x FROM A UNION B PUBLISH Q")
    good = events((1, 1), (2, 2))["S"]
    with pytest.raises(braid.ConfigError, match="E301"):
        e.process({"A": good, "B": pa.table({"x": [1]})})
    e.process({"A": good, "B": good})
    assert e.finish()["Q"].num_rows == 2  # the two at 2; those at 1 came out before


def test_times_whose_difference_would_not_fit_are_rejected() -> None:
    e = engine("FROM S NEXT{DUR <= 5} S PUBLISH Q;")
    e.process(events((1, -(2**63)), (2, 2**63 - 2), (3, 1)))
    assert e.rejected.column("reason").to_pylist() == ["t is out of range"] * 2
    assert e.finish()["Q"].num_rows == 0


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_pattern_that_asks_nothing_beside_one_with_a_bound(order: tuple[int, int]) -> None:
    """They are one m-op with two states, whoever came first."""
    texts = [
        ("bounded", "SELECT v FROM S NEXT{DUR <= 1} S"),
        ("free", "SELECT v FROM S NEXT S"),
        ("bounded_count", "SELECT n FROM SAMETIME{count(*) AS n}(S NEXT{DUR <= 1} S)"),
        ("free_count", "SELECT n FROM SAMETIME{count(*) AS n}(S NEXT S)"),
    ]
    engine = braid.Engine()
    engine.execute("CREATE STREAM S (v BIGINT, t BIGINT) TIME t;")
    for first in (0, 2):
        for number in order:
            engine.query(*texts[first + number])
    engine.process({"S": {"v": [1, 2, 3], "t": [1, 2, 9]}})
    counts = {name: table.num_rows for (name, _), table in engine.results.items()}
    engine.finish()
    for (name, _), table in engine.results.items():
        counts[name] = counts.get(name, 0) + table.num_rows
    assert counts == {"bounded": 1, "free": 2, "bounded_count": 1, "free_count": 2}
