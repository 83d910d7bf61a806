"""The engine in process, as a user meets it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import braid

STOCK = pa.schema([("Name", pa.string()), ("Price", pa.float64()), ("t", pa.int64())])
JUMP = """SELECT Name, Price_1 AS low, Price AS high
          FROM Stock NEXT{$1.Name = $2.Name AND $2.Price > $1.Price AND DUR <= 100} Stock
          PUBLISH Jump"""


def stock(*rows: tuple[str, float, int]) -> pa.Table:
    return pa.table(dict(zip(STOCK.names, map(list, zip(*rows, strict=True)), strict=True)), STOCK)


def engine(**options: object) -> braid.Engine:
    made = braid.Engine(**options)
    made.stream("Stock", STOCK, time="t")
    return made


def rows(table: pa.Table) -> list[dict[str, object]]:
    return table.to_pylist()


def test_run_gives_start_end_and_the_selected_attributes() -> None:
    out = braid.run(JUMP, {"Stock": stock(("IBM", 90.0, 1), ("IBM", 95.0, 3))}, time="t")
    assert rows(out["Jump"]) == [{"start": 1, "end": 3, "Name": "IBM", "low": 90.0, "high": 95.0}]


def test_run_takes_pandas_and_shows_its_clock() -> None:
    frame = pd.DataFrame(
        {
            "Name": ["IBM", "IBM"],
            "Price": [1.0, 2.0],
            "ts": pd.to_datetime(["2024-01-01 09:10", "2024-01-01 09:15"]),
        }
    )
    out = braid.run(JUMP.replace("100", "1h"), {"Stock": frame}, time="ts")
    assert out["Jump"].schema.field("start").type == pa.timestamp("us")
    assert out["Jump"].column("end")[0].as_py() == pd.Timestamp("2024-01-01 09:15")


def test_a_stream_without_results_is_an_empty_table_of_the_right_schema() -> None:
    out = braid.run(JUMP, {"Stock": stock(("IBM", 90.0, 1))}, time="t")
    assert out["Jump"].num_rows == 0
    assert out["Jump"].column_names == ["start", "end", "Name", "low", "high"]


def test_the_newest_instant_waits_until_time_moves_on() -> None:
    e = engine()
    e.query("jump", JUMP)
    assert e.process({"Stock": stock(("IBM", 1.0, 1), ("IBM", 2.0, 2))})["Jump"].num_rows == 0
    assert e.process({"Stock": stock(("IBM", 0.5, 3))})["Jump"].num_rows == 1
    assert e.finish()["Jump"].num_rows == 0


def test_matches_have_the_payload_as_json() -> None:
    e = engine()
    e.query("jump", JUMP)
    e.process({"Stock": stock(("IBM", 1.0, 1), ("IBM", 2.0, 2))})
    e.finish()
    assert rows(e.matches) == [
        {
            "query": "jump",
            "start": 1,
            "end": 2,
            "stream": "Jump",
            "payload": '{"Name":"IBM","low":1.0,"high":2.0}',
        }
    ]


def test_events_within_the_lateness_are_put_in_order_and_later_ones_are_late() -> None:
    e = braid.Engine()
    e.stream("Stock", STOCK, time="t", lateness=5)
    e.query("all", "SELECT Name FROM Stock PUBLISH All")
    out = e.process({"Stock": stock(("b", 1.0, 10), ("a", 1.0, 7))})
    assert out["All"].num_rows == 0
    out = e.process({"Stock": stock(("c", 1.0, 20), ("x", 1.0, 4), ("d", 1.0, 6))})
    assert out["All"].column("Name").to_pylist() == ["d", "a", "b"]
    assert rows(e.late) == [
        {"stream": "Stock", "start": 4, "end": 4, "payload": '{"Name":"x","Price":1.0}'}
    ]


def test_rejected_rows_have_a_reason_and_the_others_go_on() -> None:
    e = engine()
    e.query("all", "SELECT Name FROM Stock PUBLISH All")
    bad = pa.table({"Name": ["a", "b", "c"], "Price": ["1.5", "x", "2"], "t": [1, 2, None]})
    e.process({"Stock": bad})
    assert e.finish()["All"].column("Name").to_pylist() == ["a"]


def test_reasons_of_rejection() -> None:
    e = engine()
    e.query("all", "SELECT Name FROM Stock PUBLISH All")
    bad = pa.table({"Name": ["a", "b", "c"], "Price": ["1.5", "x", "2"], "t": [1, 2, None]})
    e.process({"Stock": bad})
    assert e.rejected.column("reason").to_pylist() == [
        "a value of Price does not fit DOUBLE",
        "time t is NULL",
    ]
    assert e.rejected.column("row").to_pylist()[0] == '{"Name":"b","Price":"x","t":2}'


def test_an_interval_that_ends_before_it_starts_is_rejected() -> None:
    e = braid.Engine()
    schema = pa.schema([("n", pa.int64()), ("t0", pa.int64()), ("t1", pa.int64())])
    e.stream("S", schema, time=("t0", "t1"))
    e.query("q", "FROM S PUBLISH Q")
    e.process({"S": pa.table({"n": [1, 2], "t0": [5, 1], "t1": [4, 2]})})
    assert e.rejected.column("reason").to_pylist() == ["t0 is after t1"]
    assert rows(e.finish()["Q"]) == [{"start": 1, "end": 2, "n": 2}]


def test_times_that_cannot_be_parsed_are_rejected() -> None:
    e = braid.Engine()
    e.execute("CREATE STREAM S (n BIGINT, ts TIMESTAMP) TIME ts; FROM S PUBLISH Q;")
    e.process({"S": pa.table({"n": [1, 2], "ts": ["2024-01-01 10:00:00Z", "soon"]})})
    assert e.rejected.num_rows == 1
    assert e.finish()["Q"].column("n").to_pylist() == [1]


def test_missing_columns_are_an_error_that_lists_what_is_there() -> None:
    e = engine()
    e.query("all", "SELECT Name FROM Stock PUBLISH All")
    with pytest.raises(braid.ConfigError, match=r"E301.*lack t(?s:.*)existing columns: Name"):
        e.process({"Stock": pa.table({"Name": ["a"], "Price": [1.0]})})


def test_an_unknown_stream_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(braid.ConfigError, match=r"E303(?s:.*)streams: Stock"):
        engine().process({"Stok": stock(("a", 1.0, 1))})


def test_an_idle_stream_holds_the_others_only_until_the_timeout() -> None:
    now = [0]
    e = braid.Engine(idle_timeout="10 s", clock=lambda: now[0])
    e.stream("A", STOCK, time="t")
    e.stream("B", STOCK, time="t")
    e.query("both", "SELECT Name FROM A UNION B PUBLISH Both")
    assert e.process({"A": stock(("a", 1.0, 1), ("b", 1.0, 2))})["Both"].num_rows == 0
    now[0] = 10_000_000
    assert e.process({"A": stock(("c", 1.0, 3))})["Both"].num_rows == 2
    assert e.process({"B": stock(("late", 1.0, 1))})["Both"].num_rows == 0
    assert e.late.column("stream").to_pylist() == ["B"]


def test_streams_without_time_are_stamped_on_arrival_in_order() -> None:
    now = [1_000]
    e = braid.Engine(clock=lambda: now[0])
    e.stream("S", pa.schema([("n", pa.int64())]))
    e.query("pairs", "SELECT n_1 AS a, n AS b FROM S NEXT S PUBLISH Pairs")
    e.process({"S": pa.table({"n": [1, 2]})})
    now[0] = 500  # a clock that goes back does not reorder what has arrived
    e.process({"S": pa.table({"n": [3]})})
    now[0] = 5_000
    found = e.process({"S": pa.table({"n": [4]})})
    pairs = rows(e.finish()["Pairs"])
    assert [p["b"] for p in rows(found["Pairs"]) + pairs][-1] == 4


def test_a_query_over_budget_is_suspended_and_the_others_go_on() -> None:
    e = engine(instance_budget=2)
    e.query("wide", "FROM Stock NEXT{$2.Price > $1.Price + 1000} Stock PUBLISH Wide")
    e.query("all", "SELECT Name FROM Stock PUBLISH All")
    out = e.process({"Stock": stock(*((f"n{i}", float(i), i) for i in range(10)))})
    assert out["All"].num_rows == 9
    assert list(e.suspended) == ["wide"]
    assert "instance_budget" in e.suspended["wide"]
    assert e.stats["instances"] == 0
    again = braid.Engine.restore(e.snapshot())
    again.process({"Stock": stock(("z", 1.0, 99))})
    assert list(again.suspended) == ["wide"]


def test_the_moment_of_suspension_does_not_depend_on_batches() -> None:
    text = "SELECT Name FROM Stock NEXT{$2.Price > $1.Price AND DUR <= 3} Stock PUBLISH Wide"
    events = [("n", float(i % 3), i) for i in range(12)]
    seen = []
    for size in (1, 2, 5, 12):
        e = engine(instance_budget=2)
        e.query("wide", text)
        found = []
        for at in range(0, 12, size):
            found += rows(e.process({"Stock": stock(*events[at : at + size])})["Wide"])
        found += rows(e.finish()["Wide"])
        seen.append((found, e.suspended))
    assert all(s == seen[0] for s in seen)


def test_an_unbounded_pattern_is_noticed_at_registration() -> None:
    e = engine()
    e.query("wide", "FROM Stock NEXT{$2.Price > $1.Price} Stock PUBLISH Wide")
    assert [n.query for n in e.notices] == ["wide"]


def test_snapshots_go_on_where_they_were_taken() -> None:
    e = engine()
    e.query("jump", JUMP)
    e.process({"Stock": stock(("IBM", 1.0, 1), ("Dell", 5.0, 2))})
    other = braid.Engine.restore(e.snapshot())
    for each in (e, other):
        each.process({"Stock": stock(("IBM", 2.0, 3))})
    assert rows(e.finish()["Jump"]) == rows(other.finish()["Jump"]) != []


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", b"BRAID1\n" + (2).to_bytes(8, "little") + b"{}"]
)
def test_what_is_not_a_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises((braid.CheckpointError, KeyError)):
        braid.Engine.restore(data)


def test_a_cut_snapshot_is_refused() -> None:
    e = engine()
    e.query("jump", JUMP)
    with pytest.raises(braid.CheckpointError, match="E421"):
        braid.Engine.restore(e.snapshot()[:-1])


def test_queries_come_and_go_while_others_keep_their_state() -> None:
    e = engine()
    e.query("jump", JUMP)
    e.process({"Stock": stock(("IBM", 1.0, 1), ("x", 0.0, 2))})
    e.query("all", "SELECT Name, Price FROM Stock PUBLISH All")  # reads one more attribute
    e.process({"Stock": stock(("IBM", 2.0, 3), ("x", 0.0, 4))})
    assert rows(e.results[("jump", "Jump")])[0]["high"] == 2.0
    e.drop("jump")
    out = e.process({"Stock": stock(("IBM", 3.0, 5), ("x", 0.0, 6))})
    assert set(out) == {"All"}


def test_a_query_added_later_sees_only_later_events() -> None:
    e = engine()
    e.query("all", "SELECT Name FROM Stock PUBLISH All")
    e.process({"Stock": stock(("IBM", 1.0, 1), ("x", 0.0, 2))})
    e.query("jump", JUMP)
    e.process({"Stock": stock(("IBM", 2.0, 3), ("IBM", 3.0, 4))})
    assert [r["low"] for r in rows(e.finish()["Jump"])] == [2.0]


def test_registered_functions_can_be_called_and_must_be_given_again_on_restore() -> None:
    e = engine()
    e.function("twice", lambda x: None if x is None else 2 * x, ["DOUBLE"], "DOUBLE")
    e.query("q", "SELECT twice(Price) AS p FROM FILTER{twice(Price) > 3} Stock PUBLISH Q")
    e.process({"Stock": stock(("a", 1.0, 1), ("b", 2.0, 2))})
    assert rows(e.finish()["Q"]) == [{"start": 2, "end": 2, "p": 4.0}]
    with pytest.raises(braid.QueryError):
        braid.Engine.restore(e.snapshot())
    twice = ("twice", lambda x: 2 * x, ["DOUBLE"], "DOUBLE")
    assert braid.Engine.restore(e.snapshot(), functions=[twice]).queries == ("q",)


def test_nested_values_are_carried_through_patterns_and_taken_apart() -> None:
    table = pa.table(
        {
            "tags": [["a", "b"], [], None, ["c"]],
            "geo": [{"x": 1, "y": 2}, None, {"x": 3, "y": 4}, {"x": 5, "y": 6}],
            "t": [1, 2, 3, 4],
        }
    )
    text = """SELECT tags_1 AS before, tags AS after, geo.x AS x, tags[0] AS first
              FROM S NEXT S PUBLISH Pairs"""
    out = braid.run(text, {"S": table}, time="t")
    assert [(r["before"], r["after"], r["x"], r["first"]) for r in rows(out["Pairs"])] == [
        (["a", "b"], [], None, None),
        ([], None, 3, None),
        (None, ["c"], 5, "c"),
    ]


def test_more_columns_than_a_mask_word_has_bits() -> None:
    names = [f"c{i}" for i in range(150)]
    columns = {
        n: pa.array([i, None if i % 7 == 0 else i + 1], pa.int64()) for i, n in enumerate(names)
    }
    table = pa.table({**columns, "t": [1, 2]})
    out = braid.run("FROM S NEXT{$1.c3 + 1 = $2.c3} S PUBLISH P", {"S": table}, time="t")
    (row,) = rows(out["P"])
    assert [row[f"{n}_1"] for n in names] == list(range(150))
    assert [row[n] for n in names] == [None if i % 7 == 0 else i + 1 for i in range(150)]


def test_strings_that_nothing_refers_to_are_forgotten() -> None:
    e = engine()
    e.query("jump", JUMP)
    for batch in range(40):
        names = [f"{'long name ' * 20}{batch}-{i}" for i in range(200)]
        at = batch * 1000
        e.process(
            {"Stock": pa.table({"Name": names, "Price": np.ones(200), "t": [at] * 200}, STOCK)}
        )
    e.process({"Stock": stock(("a", 1.0, 10**6))})
    assert len(e.snapshot()) < 3_000_000
    found = e.process({"Stock": stock(("a", 2.0, 10**6 + 1))})["Jump"]
    assert rows(found) + rows(e.finish()["Jump"]) == [
        {"start": 10**6, "end": 10**6 + 1, "Name": "a", "low": 1.0, "high": 2.0}
    ]


def test_explain_names_operators_members_and_indexes() -> None:
    e = engine()
    e.query("jump", JUMP)
    e.query("same", JUMP.replace("PUBLISH Jump", ""))
    text = e.explain()
    assert "hash on $2.Name = $1.Name" in text
    assert "members jump, same" in text
    assert "query same" not in e.explain("jump")
    with pytest.raises(braid.BraidError, match="E134"):
        e.explain("nobody")


def test_a_function_that_raises_gives_null() -> None:
    e = engine()
    e.function("inverse", lambda x: 1 / x, ["DOUBLE"], "DOUBLE")
    e.query("q", "SELECT inverse(Price) AS p FROM Stock PUBLISH Q")
    first = e.process({"Stock": stock(("a", 0.0, 1), ("b", 2.0, 2))})
    assert first["Q"].column("p").to_pylist() == [None]
    assert e.finish()["Q"].column("p").to_pylist() == [0.5]


def test_averages_of_decimals_at_one_instant() -> None:
    from decimal import Decimal

    prices = pa.array([Decimal("1.25"), Decimal("2.25"), None], pa.decimal128(10, 2))
    table = pa.table({"p": prices, "t": [1, 1, 1]})
    text = "FROM SAMETIME{avg(p) AS a, sum(p) AS s, max(p) AS m, count(p) AS n} S PUBLISH Q"
    (row,) = rows(braid.run(text, {"S": table}, time="t")["Q"])
    assert (float(row["a"]), row["s"], row["m"], row["n"]) == (
        1.75,
        Decimal("3.50"),
        Decimal("2.25"),
        2,
    )


def test_functions_that_build_strings_are_refused_on_running_values() -> None:
    with pytest.raises(braid.BraidError, match=r"E124.*running value \$\.best"):
        engine().execute(
            """CREATE QUERY q AS FROM (SELECT Name, Price, Name AS best FROM Stock)
               FOLD{$2.Name = $.Name, upper($.best) <> 'X', $2.Name AS best}
               (SELECT Name, Price FROM Stock) PUBLISH Q;"""
        )


def test_constants_keep_their_meaning_when_strings_are_forgotten() -> None:
    e = engine()
    e.query("jump", JUMP)
    e.process({"Stock": stock(*((f"{'x' * 500}{i}", 1.0, i) for i in range(3000)))})
    # Its constant gets a code after all those strings, most of which are forgotten next.
    e.query("dell", "SELECT Name FROM FILTER{Name = 'Dell'} Stock PUBLISH Dell")
    for batch in range(1, 4):
        at = batch * 10_000
        e.process({"Stock": stock(*((f"{'y' * 500}{at + i}", 1.0, at + i) for i in range(3000)))})
    found = e.process({"Stock": stock(("Dell", 1.0, 10**6), ("IBM", 1.0, 10**6 + 1))})
    assert found["Dell"].column("Name").to_pylist() == ["Dell"]
    assert e.finish()["Dell"].num_rows == 0
