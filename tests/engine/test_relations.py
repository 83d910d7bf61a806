"""Relations in the engine: time that passes, sums that do not fit, births, what is shared."""

from __future__ import annotations

from typing import Any

import pytest

import braid

STREAMS = """
CREATE STREAM S (k STRING, v BIGINT, t BIGINT) TIME t;
CREATE STREAM T (k STRING, w BIGINT, t BIGINT) TIME t;
CREATE STREAM Clock (x BIGINT, t BIGINT) TIME t;
"""


def engine(rules: Any = None, **queries: str) -> braid.Engine:
    made = braid.Engine(rules=rules)
    made.execute(STREAMS)
    for name, text in queries.items():
        made.query(name, text)
    return made


def events(*rows: tuple[str, int, int], value: str = "v") -> dict[str, list[Any]]:
    names = ("k", value, "t")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def found(running: braid.Engine, query: str) -> list[tuple[Any, ...]]:
    """The results of the last call: when, and the values."""
    rows: list[tuple[Any, ...]] = []
    for (name, _), table in running.results.items():
        if name == query:
            assert table.column("start") == table.column("end")
            rows += zip(*(table.column(c).to_pylist() for c in table.column_names[1:]), strict=True)
    return rows


def test_rows_leave_when_only_time_passes() -> None:
    """The clock is a stream that nobody joins: it moves the watermark, and no event comes."""
    running = engine(
        total="Select sum(v) as total From S [Range 5]",
        clock="SELECT x FROM Clock",
    )
    running.process(
        {"S": events(("a", 1, 1), ("a", 2, 3), ("a", 4, 30)), "Clock": {"x": [0], "t": [2]}}
    )
    assert found(running, "total") == [(1, 1)]
    running.process({"Clock": {"x": [0], "t": [4]}})
    assert found(running, "total") == [(3, 3)]
    running.process({"Clock": {"x": [0], "t": [8]}})
    assert found(running, "total") == [(7, 2)]
    running.process({"Clock": {"x": [0], "t": [9]}})
    assert found(running, "total") == []
    running.process({"Clock": {"x": [0], "t": [20]}})
    assert found(running, "total") == [(9, None)]


def test_at_the_end_everything_leaves() -> None:
    running = engine(
        went="Dstream(Select k From S [Range 1000])",
        stays="Dstream(Select k From S [Rows 5])",
        never=f"Dstream(Select k From S [Range {2**62 - 1}])",
    )
    running.process({"S": events(("a", 1, 1), ("b", 1, 7))})
    assert not running.results
    running.finish()
    assert found(running, "went") == [(1002, "a"), (1008, "b")]
    assert found(running, "stays") == found(running, "never") == []


def test_a_pattern_reads_what_only_time_makes() -> None:
    running = engine(
        gone="Dstream(Select k From S [Range 5]) PUBLISH Gone",
        pairs="SELECT k_1, k FROM Gone NEXT{DUR < 10} Gone",
        clock="SELECT x FROM Clock",
    )
    running.process(
        {"S": events(("a", 1, 1), ("b", 2, 3), ("c", 4, 40)), "Clock": {"x": [0], "t": [4]}}
    )
    running.process({"Clock": {"x": [0], "t": [20]}})
    table = running.results["pairs", None]
    assert table.to_pylist() == [{"start": 7, "end": 9, "k_1": "a", "k": "b"}]


def test_a_sum_that_does_not_fit_ends_its_query() -> None:
    """What reads it goes on; it puts out nothing from that instant on, though its join would."""
    half = 2**62
    running = engine(
        big="""Istream(Select A.k, B.total From T [Range 100] as A,
                 (Select k, sum(v) as total From S [Range 100] Group By k) as B
                 Where A.k = B.k) PUBLISH Big""",
        small="Select k, count(*) as n From S [Range 100] Group By k",
        reader="SELECT k, total FROM Big",
    )
    running.process(
        {
            "S": events(("a", half, 1), ("b", 3, 2), ("a", half, 4), ("b", 4, 6)),
            "T": events(("b", 0, 1), ("a", 0, 3), ("b", 0, 5), value="w"),
        }
    )
    results = {name: found(running, name) for name in ("big", "small", "reader")}
    running.finish()
    for name, before in results.items():
        results[name] = before + found(running, name)
    assert results["big"] == results["reader"] == [(2, "b", 3), (3, "a", half)]
    assert (6, "b", 2) in results["small"]
    assert set(running.suspended) == {"big"}
    assert running.suspended["big"].startswith(
        "E307: a sum of the query does not fit its type at 4"
    )
    assert "instances" not in running.suspended["big"]


HALF = 2**62
SUMS = "Select k, sum(v) as total From S [Range 100]{} Group By k"


@pytest.mark.parametrize("rules", [None, {"s_grouping": False}, "none"])
def test_a_sum_that_does_not_fit_ends_nobody_else(rules: Any) -> None:
    """Not those that share its m-op, its windows or its template; nor after a restart."""
    running = engine(
        rules,
        all=SUMS.format(""),
        same=SUMS.format(""),
        few=SUMS.format(" Where v < 10"),
        fewer=SUMS.format(" Where v < 9"),
        wide=f"Select k, sum(v) as total From S [Range {HALF}] Group By k",
        counted="Select v, count(*) as n From S [Range 100] Group By v",
    )
    running.process({"S": events(("a", HALF, 1), ("a", 5, 2), ("a", HALF, 3), ("a", 6, 5))})
    assert sorted(running.suspended) == ["all", "same", "wide"]
    first = {name: found(running, name) for name in ("all", "few", "fewer", "counted")}
    running = braid.Engine.restore(running.snapshot())
    running.process({"S": events(("a", 7, 7), ("b", 8, 8))})
    results = {name: rows + found(running, name) for name, rows in first.items()}
    running.finish()
    assert sorted(running.suspended) == ["all", "same", "wide"]
    assert all(text.startswith("E307") for text in running.suspended.values())
    results = {name: rows + found(running, name) for name, rows in results.items()}
    assert results["all"] == [(1, "a", HALF), (2, "a", HALF + 5)]
    # What leaves after the end of the input shows as well.
    assert results["few"][:4] == [(2, "a", 5), (5, "a", 11), (7, "a", 18), (8, "b", 8)]
    assert results["few"] == results["fewer"]
    assert results["counted"][:3] == [(1, HALF, 1), (2, 5, 1), (3, HALF, 2)]


def test_of_several_outputs_those_end_that_depend_on_the_sum() -> None:
    """What reads it in the same query ends with it; what does not goes on."""
    running = engine(
        several="""
            SELECT k, n, total
            FROM (Select k, count(*) as n From S [Range 100] Group By k PUBLISH Counts)
                 NEXT{$2.k = $1.k}
                 (Select k, sum(v) as total From S [Range 100] Group By k PUBLISH Sums)""",
    )
    rows = (("a", HALF, 1), ("a", 5, 2), ("a", HALF, 4), ("a", -HALF, 6), ("a", 1, 8), ("a", 1, 9))
    running.process({"S": events(*rows)})
    published = {
        name: table.column("end").to_pylist() for (_, name), table in running.results.items()
    }
    assert published == {"Counts": [1, 2, 4, 6, 8], "Sums": [1, 2], None: [2]}
    reason = running.suspended["several"]
    assert reason.startswith("E307: a sum of the query does not fit its type at 4; only")
    assert "'Sums' and its own results ended" in reason


def test_a_query_that_comes_later_has_empty_windows() -> None:
    text = "Select k, count(*) as n From S [Range 100] Group By k"
    running = engine(old=text)
    running.process({"S": events(("a", 1, 1), ("a", 1, 2), ("a", 1, 5))})
    running.query("new", text)
    running.query("all", "Rstream(Select count(*) as n From S [Range 100])")
    running.process({"S": events(("a", 1, 6), ("a", 1, 9))})
    assert found(running, "old") == [(5, "a", 3), (6, "a", 4)]
    assert found(running, "new") == [(5, "a", 1), (6, "a", 2)]
    assert found(running, "all") == [(5, 1), (6, 2)]


def test_of_no_rows_there_is_one() -> None:
    """A group of everything is a row before the first event, also for joins and Rstream."""
    running = engine(
        joined="""Istream(Select A.n, B.k From (Select count(*) as n From S [Range 2]) as A,
                  T [Range 100] as B)""",
        twice="Rstream(Select sum(n) as m From (Select count(*) as n From S [Now] Where v > 5))",
    )
    running.process(
        {
            "S": events(("a", 1, 3), ("a", 9, 4), ("a", 1, 20)),
            "T": events(("x", 0, 1), ("x", 0, 20), value="w"),
        }
    )
    assert found(running, "joined") == [
        (1, 0, "x"),
        (3, 1, "x"),
        (4, 2, "x"),
        (6, 1, "x"),
        (7, 0, "x"),
    ]
    assert found(running, "twice") == [(3, 0), (4, 1)]


def test_queries_of_one_template_share_their_m_ops() -> None:
    kinds, text = plan_of_twenty()
    assert kinds == ["join", "projection", "projection", "relation stream", "selection"]
    assert "window join {0.k = 1.k AND" in text
    assert "windows inside, of 20 sizes, up to 20 ticks; keeps 0 events, each once" in text
    assert "windows inside, of 20 sizes, up to 38 ticks; keeps 0 events, each once" in text
    assert "merged by s_window_join from 20 joins" in text


def test_without_its_rule_a_join_has_no_windows_inside() -> None:
    kinds, text = plan_of_twenty(rules={"s_window_join": False})
    assert kinds == ["join", "relation stream", "selection", "window", "window"]
    assert "20 windows of 20 sizes, up to 20 ticks; keeps 0 rows, each once" in text
    assert "join {0.k = 1.k AND" in text


def plan_of_twenty(**options: Any) -> tuple[list[str], str]:
    """The kinds of m-ops of queries that differ in windows, selections and constants, and the
    plan as text."""
    running = engine(**options)
    for number in range(20):
        running.query(
            f"q{number}",
            f"""Istream(Select S.k, w From S [Range {number + 1}], T [Range {2 * number}]
                Where S.k = T.k and v > {number} and v + {number} < w)""",
        )
    plan = running.explain().to_dict()
    assert len(plan["templates"]) == 1
    return sorted(mop["kind"] for mop in plan["mops"]), str(running.explain())


def test_only_what_istream_asks_has_windows_inside() -> None:
    """What needs all that goes reads windows; their m-ops are not those of the other joins."""
    joined = "From S [Range 3], T [Range 4] Where S.k = T.k"
    running = engine(
        {"k_join": False},
        comes=f"Istream(Select w {joined})",
        goes=f"Dstream(Select w {joined})",
        counted=f"Istream(Select count(*) as n {joined})",
        rows="Istream(Select w From S [Range 3], T [Rows 2] Where S.k = T.k)",
    )
    text = [mop["does"] for mop in running.explain().to_dict()["mops"]]
    assert sum(does.startswith("window join") for does in text) == 1
    assert sum(does.startswith("join") for does in text) == 3
    running.process(
        {
            "S": events(("a", 1, 1), ("a", 2, 4), ("b", 0, 30)),
            "T": events(("a", 7, 2), ("a", 7, 5), ("b", 0, 30), value="w"),
        }
    )
    # At 5 the first of S leaves as the second of T comes: a 7 goes and a 7 comes.
    assert found(running, "comes") == [(2, 7), (4, 7)]
    assert found(running, "goes") == [(7, 7), (8, 7)]
    assert found(running, "counted") == [(2, 1), (4, 2), (7, 1), (8, 0)]


def test_more_attributes_are_read_and_windows_keep_their_rows() -> None:
    running = engine(count="Select k, count(*) as n From S [Range 10] Group By k")
    running.process({"S": events(("a", 1, 1), ("a", 2, 2))})
    running.query("more", "SELECT v FROM S")
    running.process({"S": events(("a", 3, 3), ("a", 3, 4))})
    assert found(running, "count") == [(2, "a", 2), (3, "a", 3)]


def test_a_join_that_holds_too_much_is_suspended() -> None:
    running = braid.Engine(instance_budget=4)
    running.execute(STREAMS)
    joined = "From S [Range {0}], T [Range {0}] Where S.k = T.k"
    for name, kind in (("come", "Istream"), ("go", "Dstream")):
        for size in (1, 100):
            running.query(f"{name}{size}", f"{kind}(Select v, w {joined.format(size)})")
    rows = [("a", n, n) for n in range(1, 9)]
    running.process({"S": events(*rows), "T": events(("a", 0, 2), ("a", 0, 30), value="w")})
    assert sorted(found(running, "come1")) == [(2, 1, 0), (2, 2, 0), (3, 3, 0)]
    assert sorted(found(running, "go1")) == [(3, 1, 0), (4, 2, 0), (4, 3, 0)]
    assert sorted(found(running, "come100")) == [(2, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0)]
    assert set(running.suspended) == {"come100", "go100"}
    assert running.suspended["come100"].startswith("more than 4 instances at 4")


QUERIES = {
    "by_value": "Select v, count(*) as n From S [Range 50] Where v > 1 Group By v",
    "by_both": "Select k, v, count(*) as n From S [Range 70] Where v > 2 Group By k, v",
    "gone": "Dstream(Select k From S [Range 10] Where v > 0)",
    "both": "Rstream(Select S.v, w From S [Range 5], T [Range 5] Where S.k = T.k and v > 0)",
}


def test_windows_of_a_stream_are_one_buffer_whatever_is_needed_of_them() -> None:
    """With WHERE below them, an event is held once for groups, rows and joins."""
    sent = {
        "S": events(*(("ab"[t % 2], t % 5, t) for t in range(1, 30))),
        "T": events(("a", 0, 1), ("b", 0, 20), ("a", 1, 29), value="w"),
    }

    def buffers(*off: str) -> tuple[list[dict[str, Any]], dict[str, list[tuple[Any, ...]]]]:
        running = engine(dict.fromkeys(("k_join", "s_window_join", *off), False), **QUERIES)
        running.process(sent)
        mops = running.explain().to_dict()["mops"]
        details = [m["detail"] for m in mops if m["detail"].get("longest", 0) > 5]
        return details, {name: found(running, name) for name in QUERIES}

    ((one,), answers) = buffers()
    assert (one["columns"], one["groupings"], one["readers"]) == (2, 2, 2)
    # Those that groups want, and of the others those of the last ten ticks.
    assert one["rows"] == len([t for t in range(1, 29) if t % 5 > 1 or (t % 5 == 1 and t >= 18)])
    ((one,), same) = buffers("s_grouping")
    assert (one["columns"], one["groupings"], one["readers"]) == (2, 0, 3)
    assert same == answers
    (several, same) = buffers("s_grouping", "s_buffer")
    assert len(several) > 2
    assert sum(detail["rows"] for detail in several) > one["rows"]
    assert same == answers
