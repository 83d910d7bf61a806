"""Selection-join queries through the whole engine: sets of them, what is shown, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braid
from braid.errors import ConfigError
from braid.operators.core.selection_choice import CHOICES, OWN
from braid.operators.selection_join import forms as selection_forms

STREAMS = """
CREATE STREAM A (k BIGINT, id BIGINT, x BIGINT, y BIGINT, s STRING, t BIGINT) TIME t;
CREATE STREAM B (k BIGINT, id BIGINT, x BIGINT, y BIGINT, t BIGINT) TIME t;
"""
TEXT = """
CREATE QUERY q FOR EACH (ax BIGINT, ay BIGINT, bx BIGINT, name STRING, span BIGINT) AS
SELECT A.id AS one, B.id AS other FROM A [Range :span], B [Range 20]
WHERE A.k = B.k AND A.x BETWEEN :ax AND 9 AND A.y < :ay AND B.x >= :bx AND A.s = :name
"""


def engine(**options: Any) -> braid.Engine:
    made = braid.Engine(idle_timeout=None, **options)
    made.execute(STREAMS)
    return made


def members(count: int, seed: int = 1) -> pa.Table:
    drawn = np.random.default_rng(seed)
    return pa.table(
        {
            "ax": drawn.integers(0, 6, count),
            "ay": drawn.integers(3, 12, count),
            "bx": drawn.integers(0, 6, count),
            "name": np.array(["u", "v", "w"])[drawn.integers(0, 3, count)],
            "span": drawn.integers(0, 30, count),
        }
    )


def tuples(first: int, last: int, keys: int = 4, seed: int = 2) -> dict[str, pa.Table]:
    ticks = np.arange(first, last)
    drawn = np.random.default_rng((seed, first))
    columns = {
        "k": drawn.integers(0, keys, len(ticks)),
        "id": ticks,
        "x": drawn.integers(0, 10, len(ticks)),
        "y": drawn.integers(0, 12, len(ticks)),
        "t": ticks,
    }
    names = np.array(["u", "v", "w", "z"])[drawn.integers(0, 4, len(ticks))]
    other = columns | {"x": columns["x"][::-1], "y": columns["y"][::-1]}
    return {"A": pa.table(columns | {"s": names}), "B": pa.table(other)}


def pairs(running: braid.Engine) -> list[tuple[Any, ...]]:
    return [
        (query, *row.values())
        for (query, _), table in running.results.items()
        for row in table.to_pylist()
    ]


def answers(running: braid.Engine, last: int = 200, step: int = 40) -> list[tuple[Any, ...]]:
    found = []
    for first in range(0, last, step):
        running.process(tuples(first, first + step))
        found += pairs(running)
    running.finish()
    return sorted([*found, *pairs(running)])


def join_of(running: braid.Engine) -> dict[str, Any]:
    return next(
        logic.describe()
        for logic in running._shard.executor.logics.values()
        if "predicate_index" in logic.describe()
    )


@pytest.fixture(scope="module")
def expected() -> list[tuple[Any, ...]]:
    running = engine(rules={"s_selection_join": False})
    running.query("q", TEXT, members(300))
    found = answers(running)
    assert len(found) > 1_000
    return found


@pytest.mark.parametrize("form", CHOICES)
@pytest.mark.parametrize("size", [0, 500, 1 << 20])
def test_three_hundred_queries_in_every_form(
    form: str, size: int, expected: list[tuple[Any, ...]]
) -> None:
    running = engine(selection_join=form, member_set_bytes=size)
    running.query("q", TEXT, members(300))
    assert answers(running) == expected


def test_ranges_closer_than_the_codes_of_a_tree() -> None:
    """Ends between which an index cannot tell the difference are told apart all the same."""
    close = [1.0 + n * 2.0**-40 for n in range(8)]
    lows, highs = [-1e300, *close[:6]], [1e300, *close[2:]]
    text = """
    CREATE QUERY q FOR EACH (lo DOUBLE, hi DOUBLE) AS SELECT A.v AS one, B.v AS other
    FROM A [Range 20], B [Range 20] WHERE A.k = B.k
    AND A.v BETWEEN :lo AND :hi AND A.w <= :hi AND B.v BETWEEN :lo AND :hi
    """
    streams = "".join(
        f"CREATE STREAM {n} (k BIGINT, v DOUBLE, w DOUBLE, t BIGINT) TIME t;" for n in "AB"
    )
    columns = {"k": [1] * 8, "v": close, "w": close[::-1], "t": list(range(8))}
    found = []
    for options in ({"rules": "none"}, *({"selection_join": form} for form in CHOICES)):
        running = braid.Engine(idle_timeout=None, **options)
        running.execute(streams)
        running.query("q", text, {"lo": lows, "hi": highs})
        running.process({"A": pa.table(columns), "B": pa.table(columns)})
        before = pairs(running)
        running.finish()
        found.append(sorted([*before, *pairs(running)]))
    assert len(found[0]) > 64
    assert all(other == found[0] for other in found[1:])


def test_explain_shows_the_index_and_its_dimensions() -> None:
    running = engine()
    running.query("q", TEXT, members(300))
    running.process(tuples(0, 40))
    shown = str(running.explain())
    assert "merged by s_selection_join from 300 joins" in shown
    assert "index of ranges: strips, 4 dimensions: 0.s, 0.x, 0.y, 1.x" in shown
    assert "form: own, because nothing else has been tried yet" in shown
    assert "keeps" in shown
    forced = engine(selection_join="pdfa_grid")
    forced.query("q", TEXT, members(300))
    forced.process(tuples(0, 40))
    shown = str(forced.explain())
    assert "index of ranges: multilevel grid file, 4 dimensions" in shown
    assert "form: pdfa_grid, because it was asked for" in shown


def test_lists_stay_within_their_bytes_and_are_counted() -> None:
    wide, narrow = engine(selection_join=OWN), engine(selection_join=OWN, member_set_bytes=4_000)
    for running in (wide, narrow):
        running.query("q", TEXT, members(300))
        for first in range(0, 200, 40):
            running.process(tuples(first, first + 40))
    found = join_of(narrow)
    assert found["list_bytes"] <= 4_000
    assert found["lists_not_kept"] > 0
    assert join_of(wide)["lists_not_kept"] == 0
    assert wide.stats["state_bytes"] > narrow.stats["state_bytes"] > 4_000
    assert narrow.stats["index_bytes"] > 300 * 4 * 16


def test_the_form_follows_the_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where few events find others, they are not all looked up; later they do, and are."""
    monkeypatch.setattr(selection_forms, "COMPARE_AFTER", 100)
    monkeypatch.setattr(selection_forms, "AGAIN", 2)

    def cost(frame: Any, inputs: int, rates: Any, strips: bool) -> dict[int, float]:
        first, each = 10.0, 1.0 if strips else 4.0
        own = first + rates.candidates * each
        lazy = rates.partnered * first + rates.candidates * each
        return {0: lazy * 2, 1: lazy, 2: own}

    monkeypatch.setattr(selection_forms, "costs", cost)
    running, plain = engine(), engine(rules={"s_selection_join": False})
    found: list[Any] = []
    wanted: list[Any] = []
    forms = []
    for one in (running, plain):
        one.query("q", TEXT, members(300))
    for first in range(0, 1_000, 50):
        keys = 100_000 if first < 500 else 3
        for one, into in ((running, found), (plain, wanted)):
            one.process(tuples(first, first + 50, keys))
            into += pairs(one)
        forms.append(join_of(running)["form"])
    assert forms[0] == OWN
    assert "pdfa_rtree" in forms
    assert forms[-1] == OWN
    assert sorted(found) == sorted(wanted)
    assert join_of(running)["microseconds_per_event"].keys() == set(CHOICES) - {"adaptive"}


def test_costs_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection_forms, "COMPARE_AFTER", 50)
    monkeypatch.setattr(selection_forms, "TRIAL", 4)
    running = engine()
    running.query("q", TEXT, members(300))
    running.process(tuples(0, 60))
    costs = join_of(running)["microseconds_per_event"]
    assert set(costs) == set(CHOICES) - {"adaptive"}
    assert all(cost >= 0 for cost in costs.values())
    assert "microseconds an event: own" in str(running.explain())


@pytest.mark.parametrize("form", [OWN, "pdfa_rtree", "naive_grid"])
def test_members_by_the_hundred_come_and_go(form: str) -> None:
    """More than are asked one by one: strips are laid anew, trees lose most of their members."""
    running, plain = engine(selection_join=form), engine(rules={"s_selection_join": False})
    for one in (running, plain):
        one.query("q", TEXT, members(50))
        one.process(tuples(0, 40))
        one.query("more", TEXT.replace("QUERY q", "QUERY more"), members(900, 5))
        one.process(tuples(40, 80))
    assert sorted(pairs(running)) == sorted(pairs(plain))
    for one in (running, plain):
        one.drop("more")
        one.process(tuples(80, 120))
    assert sorted(pairs(running)) == sorted(pairs(plain))
    for one in (running, plain):
        one.query("again", TEXT.replace("QUERY q", "QUERY again"), members(200, 6))
        one.process(tuples(120, 160))
    assert sorted(pairs(running)) == sorted(pairs(plain))
    assert pairs(running)


def test_another_join_predicate_is_another_join() -> None:
    running = engine(constraints="off")
    asked = "A.x > 1 AND A.y < 5 AND B.x > 2"
    for name, join in (("one", "A.k = B.k"), ("other", "A.k = B.y")):
        running.query(
            name, f"SELECT A.id AS a FROM A [Range 5], B [Range 5] WHERE {join} AND {asked}"
        )
    running.process(tuples(0, 10))
    assert str(running.explain()).count("selection window join") == 2


def test_aggregates_over_the_results_of_each_query() -> None:
    """Of the published results of a set, and of the join itself, which then tells what goes too."""
    counting = """
    CREATE QUERY n FOR EACH (ax BIGINT, ay BIGINT, bx BIGINT) AS
    SELECT A.k AS k, count(*) AS n, sum(B.y) AS total FROM A [Range 9], B [Range 9]
    WHERE A.k = B.k AND A.x >= :ax AND A.y < :ay AND B.x >= :bx GROUP BY A.k
    """
    rows = members(40).select(["ax", "ay", "bx"])
    running, plain = engine(), engine(rules="none")
    for one in (running, plain):
        one.query("n", counting, rows)
        one.execute("CREATE STREAM Unused (t BIGINT) TIME t;")
        one.query("q", TEXT.strip() + " PUBLISH Pairs", members(40))
        one.query("all", "SELECT count(*) AS n, max(one) AS last FROM Pairs [Range 5]")
    found, wanted = answers(running), answers(plain)
    assert found == wanted
    assert {row[0].split("/")[0] for row in found} == {"n", "q", "all"}


def test_six_streams() -> None:
    texts = [
        f"CREATE STREAM S{s} (k BIGINT, x BIGINT, id BIGINT, t BIGINT) TIME t;" for s in range(6)
    ]
    names = [f"S{s}" for s in range(6)]
    asked = [f"S0.k = {n}.k" for n in names[1:]] + [f"{n}.x BETWEEN :lo AND 9" for n in names]
    query = (
        f"CREATE QUERY q FOR EACH (lo BIGINT) AS SELECT {', '.join(f'{n}.id AS {n}' for n in names)}"
        f" FROM {', '.join(f'{n} [Range 40]' for n in names)} WHERE {' AND '.join(asked)}"
    )
    drawn = np.random.default_rng(3)
    tables = {
        name: pa.table(
            {
                "k": drawn.integers(0, 3, 8),
                "x": drawn.integers(0, 10, 8),
                "id": np.arange(8),
                "t": np.arange(8) * 6 + s,
            }
        )
        for s, name in enumerate(names)
    }
    found = []
    for options in ({"selection_join": "pdfa_rtree"}, {}, {"rules": "none"}):
        running = braid.Engine(idle_timeout=None, **options)
        running.execute("".join(texts))
        running.query("q", query, {"lo": list(range(5))})
        running.process(tables)
        before = pairs(running)
        running.finish()
        found.append(sorted([*before, *pairs(running)]))
    assert found[0] == found[1] == found[2]
    assert found[0]


def test_rows_with_empty_ranges_are_refused_and_the_others_registered() -> None:
    running = engine()
    rows = {
        "ax": [1, 10, 5],
        "ay": [3, 3, 3],
        "bx": [1, 1, 1],
        "name": ["u", "u", "u"],
        "span": [5, 5, 5],
    }
    running.query("q", TEXT, rows)
    assert running.queries == ("q/0", "q/2")
    (refused,) = running.refused
    assert (refused.row, refused.code) == (1, "E210")
    assert refused.reason == "the range of 'x' is empty"


GROUPED = """
CREATE QUERY g FOR EACH (ax BIGINT, ay BIGINT, bx BIGINT, name STRING, span BIGINT) AS
SELECT A.x AS x, count(*) AS n, sum(B.id) AS ids FROM A [Range :span], B [Range 20]
WHERE A.k = B.k AND A.x BETWEEN :ax AND 9 AND A.y < :ay AND B.x >= :bx AND A.s = :name
GROUP BY A.x
"""


def test_groups_are_made_of_one_join() -> None:
    found = []
    for options in ({}, {"selection_join": "pdfa_grid"}, {"rules": {"s_selection_join": False}}):
        running = engine(**options)
        running.query("g", GROUPED, members(200))
        found.append(answers(running, 120))
        text = str(running.explain())
        shown = "merged by s_selection_join from 200 joins" in text
        assert shown == ("rules" not in options)
        if shown:
            assert "tells what goes as well" in text
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 500


def test_groups_go_on_after_a_restart() -> None:
    whole, part = engine(), engine(selection_join="own")
    for running in (whole, part):
        running.query("g", GROUPED, members(50))
        running.process(tuples(0, 40))
    again = braid.Engine.restore(part.snapshot())
    for first in (40, 80):
        whole.process(tuples(first, first + 40))
        again.process(tuples(first, first + 40))
        assert join_of(again)["because"] == "it was asked for"
        assert sorted(pairs(whole)) == sorted(pairs(again))
        assert pairs(whole)


def test_an_empty_range_that_is_written_out_is_told() -> None:
    running = engine()
    asked = "SELECT A.id FROM A [Range 5], B [Range 5] WHERE A.k = B.k AND B.x > 1 AND A.y < 3"
    for low, high in ((1, 4), (7, 2)):  # the second is not parsed: its shape is known
        running.query(f"q{low}", f"{asked} AND A.x BETWEEN {low} AND {high}")
    assert [(n.query, n.code) for n in running.notices] == [("q7", "W204")]
    assert running.queries == ("q1", "q7")


def test_options_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"E325.*no form 'quick'"):
        engine(selection_join="quick")
    with pytest.raises(ConfigError, match="E326"):
        engine(member_set_bytes=-1)
