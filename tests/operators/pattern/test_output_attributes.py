"""What queries show and test later is no part of the patterns that they share."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

import braid

STREAMS = """
CREATE STREAM A (k BIGINT, v BIGINT, w DOUBLE, t BIGINT) TIME t;
CREATE STREAM T (k BIGINT, x BIGINT, y STRING, t BIGINT) TIME t;
"""
NEXT = "A NEXT{$2.k = $1.k AND DUR <= 900} T"
SHOWN = ("k_1", "v", "w", "k", "x", "y")


def tables(seed: int, start: int, count: int = 60) -> dict[str, pa.Table]:
    r = random.Random(seed)

    def some(*choices: Any) -> list[Any]:
        return [r.choice(choices) for _ in range(count)]

    times = list(range(start, start + count))
    a = {"k": some(1, 2, 3), "v": some(0, 1, 2, None), "w": some(0.5, 1.5), "t": times}
    t = {"k": some(1, 2, 3, 4), "x": some(0, 1, 2), "y": some("p", "q", None), "t": times}
    types = {"k": pa.int64(), "v": pa.int64(), "x": pa.int64(), "t": pa.int64()}
    return {
        name: pa.table({c: pa.array(values, types.get(c)) for c, values in found.items()})
        for name, found in (("A", a), ("T", t))
    }


def engine(queries: Mapping[str, str], **options: Any) -> braid.Engine:
    made = braid.Engine(idle_timeout=None, **options)
    made.notices.log = False
    made.execute(STREAMS)
    for name, text in queries.items():
        made.query(name, text)
    return made


def rows(found: Mapping[tuple[str, str | None], pa.Table]) -> dict[str, list[str]]:
    """What came out for each query, with the names of its columns."""
    return {query: sorted(map(repr, table.to_pylist())) for (query, _), table in found.items()}


def shared_and_alone(queries: Mapping[str, str], **options: Any) -> braid.Engine:
    """The engine with all queries; each has the results that it has by itself."""
    together = engine(queries, **options)
    together.process(tables(1, 0))
    first = rows(together.results)
    together.process(tables(2, 60))
    second = rows(together.results)
    assert first
    assert second
    for name, text in queries.items():
        alone = engine(queries if " FROM X" in text else {name: text}, rules="none")
        alone.process(tables(1, 0))
        assert first.get(name) == rows(alone.results).get(name), text
        alone.process(tables(2, 60))
        assert second.get(name) == rows(alone.results).get(name), text
    return together


def patterns(made: braid.Engine) -> list[dict[str, Any]]:
    found = made.explain().to_dict()["mops"]
    return [mop for mop in found if mop["kind"] in ("sequence", "iteration")]


def test_queries_that_show_different_attributes_are_one_m_op() -> None:
    pairs = list(itertools.permutations(SHOWN, 2))
    made = shared_and_alone(
        {f"q{i}": f"SELECT {a}, {b} FROM {NEXT}" for i, (a, b) in enumerate(pairs)}
    )
    (mop,) = made.explain().to_dict()["mops"]
    assert mop["detail"]["states"] == mop["detail"]["outputs"] == 1
    (exit_,) = made.explain().to_dict()["exits"]
    assert set(exit_["columns"]) == set(SHOWN)
    assert exit_["queries"] == len(pairs)


def test_names_of_attributes_do_not_matter() -> None:
    made = shared_and_alone(
        {
            "a": f"SELECT v AS x, x AS v FROM {NEXT}",
            "b": f"SELECT x, v FROM {NEXT}",
            "c": f"SELECT v AS start_of, v AS again FROM {NEXT}",
        }
    )
    assert len(patterns(made)) == 1


@pytest.mark.parametrize(
    "filters",
    [("v > 1", "k_1 > 1"), ("v > 1", "v > 2"), ("x < 1", "x = v"), ("y = 'p'", "w > 1")],
)
@pytest.mark.parametrize("shown", ["x", "*"])
def test_figure_5_7(filters: Sequence[str], shown: str) -> None:
    """Two predicates on a pattern are two edges of one state, whichever attributes they test."""
    texts = {f"q{i}": f"SELECT {shown} FROM FILTER{{{f}}}({NEXT})" for i, f in enumerate(filters)}
    made = shared_and_alone(texts)
    (mop,) = patterns(made)
    assert mop["detail"]["states"] == 1
    alone = engine({"one": f"SELECT * FROM {NEXT}"})
    alone.process(tables(1, 0))
    alone.process(tables(2, 60))
    assert made.stats["instances"] == alone.stats["instances"]


def test_the_prefix_is_shared_whatever_the_second_step_asks() -> None:
    first = "FROM (A NEXT{$2.k = $1.k AND DUR <= 50} T) NEXT"
    made = shared_and_alone(
        {
            "a": f"SELECT x {first}{{$1.v < $2.x AND DUR <= 50}} T",
            "b": f"SELECT y {first}{{$1.x < $2.x AND DUR <= 50}} T",
            "c": f"SELECT x_1 {first}{{$1.x < $2.x AND DUR <= 50}} T",
        }
    )
    does = sorted(mop["does"] for mop in patterns(made))
    assert len(does) == 3, does  # the first step, and two that differ in what they do


def test_computed_attributes_above_a_pattern_share_it_whatever_its_bounds() -> None:
    made = shared_and_alone(
        {
            f"q{bound}": f"SELECT v + 1 AS more, x FROM A NEXT{{$2.k = $1.k AND DUR <= {bound}}} T"
            for bound in (3, 9, 900)
        }
    )
    (mop,) = patterns(made)
    assert mop["detail"]["states"] == 1


def test_values_that_an_iteration_only_shows_are_no_part_of_it() -> None:
    fold = "FROM A FOLD{$2.k = $.k AND DUR <= 20, $2.v >= $.v"
    made = shared_and_alone(
        {
            "a": f"SELECT v {fold},}} A",
            "b": f"SELECT k_1, w {fold}, greatest($.w, $2.w) AS w}} A",
            "c": f"SELECT w, w_1 {fold}, least($.w, $2.w) AS w}} A",
            "d": f"SELECT w AS v {fold},}} A",
            "e": f"SELECT top {fold}, $2.v AS top}} A",
        }
    )
    assert len(patterns(made)) == 1


@pytest.mark.parametrize("inline", [True, False])
def test_readers_of_a_published_pattern_show_different_columns(inline: bool) -> None:
    texts = {"x": f"SELECT k_1 AS k, v, w, x, y FROM {NEXT} PUBLISH X"}
    shown = [s for r in (1, 2) for s in itertools.combinations(("k", "v", "w", "x", "y"), r)]
    texts |= {f"r{i}": f"SELECT {', '.join(s)} FROM X" for i, s in enumerate(shown)}
    made = shared_and_alone(texts, rules={"inline": inline})
    assert len(patterns(made)) == 1
    assert len(made.explain().to_dict()["mops"]) == (1 if inline else 2)


def test_plain_attributes_of_streams_and_selections_cost_no_m_op() -> None:
    made = shared_and_alone(
        {
            "a": "SELECT v, w FROM A",
            "b": "SELECT w AS v FROM FILTER{v > 0} A",
            "c": "SELECT v + 1 AS more, w FROM A",
            "d": "SELECT v + 1 AS other, k FROM A",
        }
    )
    kinds = sorted(mop["kind"] for mop in made.explain().to_dict()["mops"])
    assert kinds == ["projection", "selection"]


# ---- queries that come late -------------------------------------------------------------------------


def late(made: braid.Engine, text: str) -> dict[str, list[str]]:
    """What the first query shows after a second one has come, which needs more columns."""
    made.query("late", text)
    made.process(tables(2, 60))
    return rows(made.results)


@pytest.mark.parametrize("restart", [False, True])
def test_rows_of_a_running_pattern_grow(restart: bool) -> None:
    """Instances that wait stay; a query that comes late sees its own columns of later ones."""
    first = f"SELECT v FROM {NEXT}"
    alone, made = engine({"first": first}), engine({"first": first})
    for each in (alone, made):
        each.process(tables(1, 0))
    waiting = made.stats["instances"]
    if restart:
        made = braid.Engine.restore(made.snapshot())
    found = late(made, f"SELECT w, y, v FROM FILTER{{w > 1}}({NEXT})")
    alone.process(tables(2, 60))
    assert found["first"] == rows(alone.results)["first"]
    assert waiting
    assert made.stats["instances"] == alone.stats["instances"]
    assert len(patterns(made)) == 1
    seen = engine({"late": f"SELECT w, y, v FROM FILTER{{w > 1}}({NEXT})"})
    seen.process(tables(2, 60))
    assert found["late"] == rows(seen.results)["late"]


def test_nothing_is_built_again_where_the_columns_are_there() -> None:
    made = engine({"first": f"SELECT v, w FROM {NEXT}"})
    made.process(tables(1, 0))
    before = made._running().executor
    late(made, f"SELECT w FROM {NEXT}")
    assert made._running().executor is before
    made.query("wider", f"SELECT y FROM {NEXT}")
    made.process(tables(3, 120))
    assert made._running().executor is not before
    assert len(patterns(made)) == 1


def test_a_query_that_ends_later_ends_also_if_rows_grow_meanwhile() -> None:
    made = engine({"first": f"SELECT v FROM {NEXT}", "second": f"SELECT v, w FROM {NEXT}"})
    made.process(tables(1, 0))
    made.drop("first", at=80)
    found = late(made, f"SELECT x FROM {NEXT}")
    ends = [row["end"] for row in made.results["first", None].to_pylist()]
    assert ends
    assert max(ends) < 80
    assert found["second"]
    assert made.queries == ("second", "late")


def test_rows_shrink_when_the_queries_that_need_them_are_gone() -> None:
    made = engine({"first": f"SELECT v FROM {NEXT}", "wide": f"SELECT * FROM {NEXT}"})
    made.process(tables(1, 0))
    wide = made.stats["state_bytes"]
    made.drop("wide")
    made = braid.Engine.restore(made.snapshot())
    made.process(tables(2, 60, 1))
    assert made.stats["state_bytes"] < wide
