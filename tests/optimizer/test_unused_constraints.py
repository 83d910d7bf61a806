"""A declared constraint that the joins of a query don't use: the query is told, once, which and why."""

from __future__ import annotations

from typing import Any

import pytest

import braid
from braid.engine.explain.statistics import statistics
from braid.operators.constraint_join import usage as why
from braid.operators.constraint_join.declared_logic import _NAMED
from tests.operators.constraint_join.test_declared_watches import (
    DECLARED,
    FROM,
    QUERIES,
    RANGE,
    SHOWN,
    declare,
    engine,
)

#: Those whose attributes no query compares.
NOT_COMPARED = {"pair", "prices", "heavier"}
#: Those of which another one says the same with another k.
REPLACED = {"soon": "shortly", "together": "near"}
#: By the shape of the query: what is used of what it compares, and why the rest is not.
EXPECTED: dict[str, tuple[set[str], str | None]] = {
    "windows by time": (DECLARED.keys() - NOT_COMPARED - REPLACED.keys(), None),
    "a selection": (DECLARED.keys() - NOT_COMPARED - REPLACED.keys(), None),
    "computed columns": (set(), why.PLAIN),
    "partitions": ({"one"}, why.CHANGING),
    "Rstream": (set(), why.PLAIN),
    "shared": (set(), why.SHARED),
    "shared rows": (set(), why.SHARED),
    "no equality": (set(), why.UNEQUAL),
    "groups": (set(), why.CHANGING),
    "DETECT": (set(), why.DETECTS),
}
ALONE = f"Istream({SHOWN} {FROM.format(*RANGE)} And price > 3)"
OTHER = f"Istream({SHOWN} {FROM.format(*RANGE)} And price > 5)"
RISING = declare({"rising": DECLARED["rising"]})


def told(running: braid.Engine) -> list[tuple[str, str, str]]:
    """Query, constraint, why."""
    running.explain()
    found = [notice for notice in running.notices if notice.code == "W207"]
    return [(str(n.query), n.message.split("'")[1], n.message.partition(": ")[2]) for n in found]


def replaced(name: str) -> str:
    return (
        f"constraint '{REPLACED[name]}' of the same attributes was declared later, and is used in its"
        " place"
    )


def test_every_shape_is_here() -> None:
    assert EXPECTED.keys() == QUERIES.keys()


@pytest.mark.parametrize("shape", EXPECTED)
def test_why_it_is_not_used(shape: str) -> None:
    used, reason = EXPECTED[shape]
    running = engine(QUERIES[shape], declare(DECLARED))
    queries = [f"q{number}" for number in range(len(QUERIES[shape]))]
    unused = DECLARED.keys() - NOT_COMPARED - used
    expected = [(q, name, reason or replaced(name)) for q in queries for name in unused]
    assert sorted(told(running)) == sorted(expected)
    # Whoever uses one is the join itself.
    joins = running._running().executor._constraint_joins.values()
    assert {name for name in DECLARED if any(j.uses(name) for j in joins)} == used
    text = str(running.explain())
    assert (reason is None) or f"not used by {', '.join(queries)}: {reason}" in text


@pytest.mark.parametrize(
    "options", [{"constraints": "off"}, {"rules": {"k_join": False}}], ids=["off", "no rule"]
)
def test_what_was_chosen_is_not_told(options: dict[str, Any]) -> None:
    assert not told(engine(QUERIES["Rstream"] + QUERIES["shared"], declare(DECLARED), **options))


def test_a_query_that_is_off_itself() -> None:
    running = engine([], RISING)
    running.execute(f"CREATE QUERY q CONSTRAINTS OFF AS Rstream({SHOWN} {FROM.format(*RANGE)});")
    assert not told(running)


def test_another_query_makes_it_useless() -> None:
    """Both come before the first event: they share one join."""
    running = engine([ALONE], RISING)
    running.query("later", OTHER)
    assert told(running) == [("q0", "rising", why.SHARED), ("later", "rising", why.SHARED)]


def test_one_that_came_alone_keeps_its_join() -> None:
    running = engine([ALONE], RISING)
    assert not told(running)
    running.process({"Orders": {"id": [1], "customer": ["c"], "weight": [1.0], "t": [1]}})
    running.query("later", OTHER)
    assert told(running) == [("later", "rising", why.SHARED)]


def test_it_is_told_once() -> None:
    running = engine(QUERIES["shared"], RISING)
    for t in range(3):
        running.process({"Orders": {"id": [t], "customer": ["c"], "weight": [1.0], "t": [t]}})
    running.execute("CREATE CONSTRAINT falling ON Items (id) DESCENDING;")
    both = [("q0", "rising"), ("q1", "rising"), ("q0", "falling"), ("q1", "falling")]
    assert [(query, name) for query, name, _ in told(running)] == both
    again = braid.Engine.restore(running.snapshot())
    again.process({"Orders": {"id": [9], "customer": ["c"], "weight": [1.0], "t": [9]}})
    assert not told(again)
    again.query("q2", OTHER)
    assert told(again) == [("q2", "rising", why.SHARED), ("q2", "falling", why.SHARED)]
    again.drop("q0")
    again.process({"Orders": {"id": [9], "customer": ["c"], "weight": [1.0], "t": [10]}})
    assert "not used by q1, q2: " in str(again.explain())


def test_of_many_queries_some_are_named() -> None:
    running = engine([], RISING)
    text = f"CREATE QUERY many FOR EACH (n BIGINT) AS Istream({SHOWN} {FROM.format(*RANGE)} And price > :n)"
    running.query("many", text, {"id": [str(n) for n in range(100)], "n": list(range(100))})
    found = told(running)
    assert len(found) == _NAMED
    assert found[-1][2] == f"{why.SHARED} (so it is with {100 - _NAMED} more queries)"


def test_references_of_a_part_of_the_key() -> None:
    """The join compares more than the constraint names: a partner may come that is none."""
    running = braid.Engine()
    running.execute("""
      CREATE STREAM A (x BIGINT, y BIGINT, t BIGINT) TIME t;
      CREATE STREAM B (x BIGINT, y BIGINT, t BIGINT) TIME t;
      CREATE CONSTRAINT soon ON A (x) REFERENCES B (x);
    """)
    both = "From A [Range 9], B [Range 9] Where A.x = B.x And A.y = B.y"
    running.query("q", f"Istream(Select A.x, A.y {both})")
    assert told(running) == [("q", "soon", why.OTHERS)]


# ---- orders of DOUBLE ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ASCENDING", "DESCENDING", "CLUSTERED"])
@pytest.mark.parametrize("mode", ["exact", "monitored"])
def test_rows_leave_by_an_order_of_doubles(kind: str, mode: str) -> None:
    """Rows whose value is past leave, below zero and above, zeros and infinities among them. Of two
    rows of A one has two partners, and the other none."""
    running = braid.Engine(constraints=mode, spill_above=0, watching={"sample": 0.0, "worth": 0})
    running.execute(f"""
      CREATE STREAM A (x DOUBLE, v BIGINT, t BIGINT) TIME t;
      CREATE STREAM B (x DOUBLE, w BIGINT, t BIGINT) TIME t;
      CREATE CONSTRAINT a ON A (x) {kind};
      CREATE CONSTRAINT b ON B (x) {kind};
    """)
    running.query(
        "q", "Istream(Select v, w From A [Range 100000], B [Range 100000] Where A.x = B.x)"
    )
    values = [float("-inf"), *((k - 2000) / 8 for k in range(3997)), float("inf"), float("nan")]
    values = values if kind != "DESCENDING" else values[::-1]
    signed = [-0.0 if value == 0 else value for value in values]
    partners = [signed[k // 2 * 2] for k in range(len(values))]
    ticks = list(range(len(values)))
    found = 0
    for first in range(0, len(values), 500):
        part = slice(first, first + 500)
        running.process(
            {
                "A": {"x": values[part], "v": ticks[part], "t": ticks[part]},
                "B": {"x": partners[part], "w": ticks[part], "t": ticks[part]},
            }
        )
        found += sum(table.num_rows for table in running.results.values())
    details = [m["detail"] for m in statistics(running._running())["mops"]]
    (join,) = [detail for detail in details if detail and "one_result" in detail]
    assert sum(c["rows"] for c in join["constraints"] if "declared" in c) > 400
    assert not told(running)
    running.finish()
    found += sum(table.num_rows for table in running.results.values())
    assert found == len(values)
