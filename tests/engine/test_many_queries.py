"""Many queries in one engine: prepared ones, changes while it runs, memory that is given back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import braid
from braid import BraidError

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.float64()), ("t", pa.int64())])
BIG = (
    "CREATE QUERY big FOR EACH (who STRING, floor DOUBLE) AS "
    "SELECT * FROM FILTER{k = :who AND x > :floor}(S) PUBLISH Big"
)
PAIRS = (
    "CREATE QUERY pairs FOR EACH (who STRING, up DOUBLE, within BIGINT) AS "
    "SELECT x_1 AS low, x AS high FROM FILTER{x > :up * x_1}(FILTER{k = :who}(S)"
    " NEXT{$2.k = $1.k AND DUR <= :within} S)"
)


def engine(**options: object) -> braid.Engine:
    made = braid.Engine(**options)
    made.stream("S", SCHEMA, time="t")
    return made


def events(*rows: tuple[str | None, float, int]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("k", "x", "t"), map(list, columns), strict=True)), schema=SCHEMA)


def found(made: braid.Engine) -> set[tuple[str, int, int]]:
    return {(m["query"], m["start"], m["end"]) for m in made.matches.to_pylist()}


def answers(made: braid.Engine, tables: dict[str, pa.Table]) -> set[tuple[str, int, int]]:
    """What comes of these events, the newest included."""
    made.process(tables)
    first = found(made)
    made.finish()
    return first | found(made)


def test_members_of_a_prepared_query_answer_as_if_each_were_alone() -> None:
    rows = {"id": ["one", "two", "three"], "who": ["a", "a", "b"], "floor": [1.0, 3.0, 0.0]}
    made = engine()
    made.query("big", BIG, rows)
    out = made.process({"S": events(("a", 2.0, 1), ("b", 2.0, 2), ("a", 4.0, 3), ("z", 9.0, 4))})
    assert found(made) == {
        ("big/one", 1, 1),
        ("big/three", 2, 2),
        ("big/one", 3, 3),
        ("big/two", 3, 3),
    }
    # All members publish into one stream: an event that two of them put out occurs twice.
    assert out["Big"].num_rows == 4
    assert len(made.queries) == 3


@pytest.mark.parametrize("form", ["table", "pandas", "csv"])
def test_rows_come_as_table_pandas_or_file(form: str, tmp_path: Path) -> None:
    table = pa.table({"who": ["a", "b"], "floor": [1.0, 2.0]})
    rows: object = table
    if form == "pandas":
        rows = table.to_pandas()
    elif form == "csv":
        rows = tmp_path / "rules.csv"
        Path(str(rows)).write_text("who,floor\na,1.0\nb,2.0\n", encoding="utf-8")
    made = engine()
    made.query("big", BIG, rows)
    made.process({"S": events(("a", 2.0, 1), ("b", 2.5, 2), ("b", 0.0, 3))})
    assert found(made) == {("big/0", 1, 1), ("big/1", 2, 2)}


def test_bad_rows_are_refused_one_by_one_and_the_others_registered() -> None:
    rows = pa.table({"id": ["a", "b", "a", "d"], "who": ["x", None, "z", "w"], "floor": [1.0] * 4})
    made = engine()
    made.query("big", BIG, rows)
    assert [r.row for r in made.refused] == [1, 2]
    assert "who" in made.refused[0].render()
    assert set(made.queries) == {"big/a", "big/d"}


def test_a_member_can_be_dropped_and_more_can_come() -> None:
    made = engine()
    made.query("big", BIG, {"id": ["a", "b"], "who": ["x", "x"], "floor": [0.0, 0.0]})
    made.process({"S": events(("x", 1.0, 1), ("x", 1.0, 2))})
    made.drop("big/a")
    made.query("big", BIG, {"id": ["c"], "who": ["x"], "floor": [0.0]})
    made.process({"S": events(("x", 1.0, 3), ("x", 1.0, 4))})
    assert found(made) == {("big/b", 2, 2), ("big/b", 3, 3), ("big/c", 2, 2), ("big/c", 3, 3)}
    made.drop("big")
    made.process({"S": events(("x", 1.0, 5), ("x", 1.0, 6))})
    assert found(made) == set()
    assert made.queries == ()


def test_one_that_comes_later_shares_instances_but_sees_only_what_starts_from_its_birth_on() -> (
    None
):
    text = "SELECT * FROM FILTER{k = 'a'}(S) NEXT{$2.k = 'b' AND DUR <= 50} S"
    made = engine()
    made.query("old", text)
    made.process({"S": events(("a", 1.0, 1), ("a", 1.0, 5), ("c", 0.0, 6))})
    made.query("new", text)
    made.query("later", text, at=20)
    shard = made._running()
    assert sum("sequence" in m.spec.describe() for m in shard.plan.mops.values()) == 1
    made.process({"S": events(("a", 1.0, 10), ("a", 1.0, 30), ("b", 0.0, 40))})
    made.finish()
    assert found(made) == {
        ("old", 1, 40), ("old", 5, 40), ("old", 10, 40), ("old", 30, 40),
        ("new", 10, 40), ("new", 30, 40),
        ("later", 30, 40),
    }  # fmt: skip


def test_a_birth_in_the_past_is_an_error() -> None:
    made = engine()
    made.query("big", BIG, {"who": ["x"], "floor": [0.0]})
    made.process({"S": events(("x", 1.0, 10), ("x", 1.0, 20))})
    with pytest.raises(BraidError, match="E306"):
        made.query("late", "SELECT * FROM FILTER{x > 1}(S)", at=5)
    assert "late" not in made.queries


def test_a_query_that_asks_for_another_attribute_makes_a_new_plan_and_nobody_notices() -> None:
    made = engine()
    made.query("old", "SELECT k FROM S NEXT{$2.k = $1.k AND DUR <= 50} S")
    made.process({"S": events(("a", 1.0, 1), ("c", 0.0, 2))})
    made.query("new", "SELECT x FROM FILTER{x > 5}(S)")
    made.process({"S": events(("a", 9.0, 3), ("z", 0.0, 4))})
    assert found(made) == {("old", 1, 3), ("new", 3, 3)}


def test_dropping_frees_what_only_the_dropped_needed() -> None:
    random = np.random.default_rng(1)
    count = 5_000
    rows = pa.table(
        {
            "who": [f"k{n}" for n in random.integers(0, 100, count)],
            "up": random.random(count),
            "within": random.integers(1, 1000, count),
        }
    )
    made = engine()
    made.query("other", "SELECT * FROM FILTER{x > 2}(S)")
    names = [f"k{n}" for n in random.integers(0, 100, 2_000)]
    table = pa.table({"k": names, "x": random.random(2_000), "t": range(2_000)})
    made.process({"S": table.slice(0, 1)})
    before = made.stats["index_bytes"]
    made.query("pairs", PAIRS, rows)
    made.process({"S": table.slice(1)})
    full = made.stats
    assert full["instances"] == 100  # one a name, for all members of it
    assert full["index_bytes"] > before + 100 * count
    made.drop("pairs")
    made.process({"S": events(("a", 0.0, 5_000), ("a", 0.0, 5_001))})
    assert made.stats["instances"] == 0
    assert made.stats["index_bytes"] - before < (full["index_bytes"] - before) // 20


def test_many_adds_and_drops_do_not_grow() -> None:
    made = engine()
    made.query("stays", PAIRS, {"who": ["a"], "up": [1.0], "within": [10]})
    made.process({"S": events(("a", 1.0, 1))})
    text = (
        "SELECT x_1 AS low, x AS high FROM FILTER{{x > {u} * x_1}}(FILTER{{k = '{k}'}}(S)"
        " NEXT{{$2.k = $1.k AND DUR <= {w}}} S)"
    )
    sizes = []
    for turn in range(6):
        for number in range(300):
            made.query(f"q{number}", text.format(u=number / 7, k=f"k{number}", w=number + 1))
        for number in range(300):
            made.drop(f"q{number}")
        made.process({"S": events(("a", 1.0, 10 * turn + 2))})
        sizes.append(made.stats["index_bytes"])
    assert sizes[-1] <= 2 * sizes[0] + 65_536


def test_snapshots_hold_prepared_queries_and_births() -> None:
    made = engine()
    made.query("pairs", PAIRS, {"who": ["a", "b"], "up": [1.5, 1.0], "within": [100, 5]})
    made.process({"S": events(("a", 1.0, 1), ("b", 1.0, 2), ("z", 0.0, 3))})
    made.query("more", PAIRS.replace("pairs", "more"), {"who": ["a"], "up": [0.0], "within": [100]})
    again = braid.Engine.restore(made.snapshot())
    sent = events(("a", 2.0, 6), ("a", 2.5, 7), ("b", 2.0, 9))
    assert answers(again, {"S": sent}) == {("pairs/0", 1, 6), ("more/0", 6, 7)}


@pytest.mark.parametrize("rules", [None, "none", {"t_seq": False}, {"s_sigma": False}, ["c_seq"]])
def test_rules_do_not_change_answers(rules: object) -> None:
    made = engine(rules=rules)
    made.query("pairs", PAIRS, {"who": ["a", "b", "a"], "up": [1.5, 1.0, 0.5], "within": [9, 5, 2]})
    sent = events(("a", 1.0, 1), ("b", 1.0, 2), ("a", 1.0, 3), ("b", 2.0, 4))
    assert answers(made, {"S": sent}) == {("pairs/2", 1, 3), ("pairs/1", 2, 4)}


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(BraidError, match="E305"):
        braid.Engine(rules={"s_nothing": False})


def test_integers_at_the_edge_are_exact() -> None:
    schema = pa.schema([("n", pa.int64()), ("t", pa.int64())])
    lowest = -(2**63)
    made = braid.Engine()
    made.stream("N", schema, time="t")
    made.query(
        "same",
        "CREATE QUERY same FOR EACH (v BIGINT) AS SELECT * FROM FILTER{n = :v}(N)",
        pa.table({"v": pa.array([lowest, lowest + 1, 2**63 - 1, 7], pa.int64())}),
    )
    sent = pa.table({"n": [lowest, lowest + 1, 2**63 - 1, 7], "t": [1, 2, 3, 4]})
    assert answers(made, {"N": sent}) == {(f"same/{n}", n + 1, n + 1) for n in range(4)}


def test_a_million_distinct_constants_do_not_explode() -> None:
    """More regions than a bitmap index could hold: the other form answers."""
    count = 200_000
    made = engine()
    floors = np.arange(count) / count
    made.query(
        "high",
        "CREATE QUERY high FOR EACH (floor DOUBLE) AS SELECT * FROM FILTER{x > :floor AND k = 'a'}(S)",
        pa.table({"floor": floors}),
    )
    made.process({"S": events(("a", 0.5 / count, 1), ("a", 1.5 / count, 2), ("b", 9.0, 3))})
    assert made.stats["matches"] == 3
    assert made.stats["index_bytes"] < 500 * count


# ---- what went wrong once ----

NEXT = "SELECT * FROM FILTER{k = 'a'}(S) NEXT{$2.k = 'b' AND DUR <= 50} S"


def test_a_snapshot_keeps_the_rules_by_which_its_state_is_found() -> None:
    made = engine(rules="none")
    made.query("q", NEXT)
    made.process({"S": events(("a", 1.0, 1), ("c", 0.0, 2))})
    again = braid.Engine.restore(made.snapshot())
    assert answers(again, {"S": events(("b", 1.0, 3))}) == {("q", 1, 3)}


def test_a_query_on_another_stream_of_a_channel_does_not_disturb_those_that_run() -> None:
    made = braid.Engine()
    made.execute(
        "CREATE STREAM A (x BIGINT, t BIGINT) TIME t;"
        "CREATE STREAM B (x BIGINT, t BIGINT) TIME t SHARABLE WITH A;"
        "CREATE STREAM T (x BIGINT, t BIGINT) TIME t;"
    )
    made.query("a", "SELECT * FROM A NEXT{$2.x = $1.x AND DUR <= 90} T")
    made.process({"A": {"x": [1, 2], "t": [1, 2]}, "T": {"x": [9], "t": [3]}})
    made.query("b", "SELECT * FROM B NEXT{$2.x = $1.x AND DUR <= 90} T")
    sent = {"A": {"x": [5], "t": [9]}, "B": {"x": [5], "t": [9]}, "T": {"x": [1], "t": [9]}}
    assert answers(made, sent) == {("a", 1, 9)}


def test_a_stated_birth_holds_before_the_first_event_and_in_a_new_plan() -> None:
    made = engine()
    made.query("early", "SELECT k FROM FILTER{k = 'a'}(S)", at=5)
    first = answers(made, {"S": events(("a", 1.0, 4), ("a", 1.0, 5), ("z", 0.0, 6))})
    made.query("late", "SELECT k FROM FILTER{x > 0}(S)", at=20)
    second = answers(made, {"S": events(("a", 1.0, 10), ("a", 1.0, 20))})
    assert first == {("early", 5, 5)}
    assert second == {("early", 10, 10), ("early", 20, 20), ("late", 20, 20)}


@pytest.mark.parametrize("inline", [True, False])
def test_a_reader_sees_a_stream_only_since_its_publisher_is_there(inline: bool) -> None:
    made = engine(rules={"inline": inline})
    made.query("all", "SELECT * FROM FILTER{x > 99}(S)")
    made.process({"S": events(("z", 0.0, 0))})
    made.query("up", "SELECT k, x FROM FILTER{x > 0}(S) PUBLISH Up", at=10)
    made.query("read", "SELECT * FROM Up", at=5)
    found_ = answers(made, {"S": events(("a", 1.0, 7), ("a", 1.0, 12))})
    assert found_ == {("up", 12, 12), ("read", 12, 12)}


def test_a_query_that_is_made_anew_is_another_one() -> None:
    made = engine()
    made.query("b", NEXT)
    made.process({"S": events(("a", 1.0, 1), ("z", 0.0, 2))})
    made.execute(f"DROP QUERY b; CREATE QUERY b AS {NEXT};")
    assert answers(made, {"S": events(("b", 0.0, 5))}) == set()


def test_who_joins_a_state_that_gave_up_is_told() -> None:
    made = braid.Engine(instance_budget=3)
    made.stream("S", SCHEMA, time="t")
    endless = "SELECT * FROM FILTER{{x > {x}}}(FILTER{{k = 'a'}}(S) NEXT{{$2.k = 'b'}} S)"
    made.query("one", endless.format(x=1))
    made.process({"S": events(*(("a", 1.0, t) for t in range(9)))})
    assert set(made.suspended) == {"one"}
    made.query("two", endless.format(x=2))
    made.process({"S": events(("a", 1.0, 10), ("a", 1.0, 11))})
    assert set(made.suspended) == {"one", "two"}


def test_late_events_of_several_streams_are_shown_for_each() -> None:
    made = braid.Engine()
    made.execute(
        "CREATE STREAM A (x BIGINT, t BIGINT) TIME t;"
        "CREATE STREAM B (x BIGINT, t BIGINT) TIME t SHARABLE WITH A;"
    )
    made.query("a", "SELECT * FROM A")
    made.query("b", "SELECT * FROM B")
    made.process({("A", "B"): {"x": [1, 2], "t": [5, 9]}})
    made.process({("A", "B"): {"x": [3], "t": [1]}})
    assert sorted(row["stream"] for row in made.late.to_pylist()) == ["A", "B"]


def test_queries_that_each_publish_a_stream_stay_small() -> None:
    """What one exit holds does not grow with the queries of the others."""
    sizes = []
    for count in (200, 800):
        made = engine()
        for number in range(count):
            made.query(f"q{number}", f"SELECT * FROM FILTER{{x > {number}}}(S) PUBLISH P{number}")
        made.process({"S": events(("a", 3.5, 1), ("a", 0.0, 2))})
        assert made.stats["matches"] == 4
        sizes.append(made.stats["index_bytes"])
    assert sizes[1] < 6 * sizes[0]
