"""A declared constraint that the data break is told, once, with the first event that broke it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import braid

STREAMS = """
CREATE STREAM Orders (id BIGINT, customer STRING, t BIGINT) TIME t;
CREATE STREAM Items (id BIGINT, price BIGINT, t BIGINT) TIME t;
"""
QUERY = """
Istream(Select I.id, customer, price From Orders [Range 1000] As O, Items [Range 1000] As I
        Where O.id = I.id)
"""
SOON = "CREATE CONSTRAINT soon ON Items (id) REFERENCES Orders (id) WITHIN 2 ROWS;"
RISING = "CREATE CONSTRAINT rising ON Orders (id) ASCENDING WITHIN 1 ROWS;"
TOGETHER = "CREATE CONSTRAINT together ON Items (id) CLUSTERED WITHIN 0 ROWS;"
ONE = "CREATE CONSTRAINT one ON Orders (id) KEY;"

#: The order of item 7 comes after five others; item 3 comes twice with another one between.
ORDERS = [1, 2, 3, 4, 5, 6, 7, 8, 5]
ITEMS = [7, 3, 1, 3, 2, 5, 5, 8]


def engine(*declared: str, mode: str = "exact") -> braid.Engine:
    running = braid.Engine(constraints=mode, spill_above=0)
    running.execute(STREAMS + "\n".join(declared))
    running.query("paid", QUERY)
    return running


def batch(orders: list[int], items: list[int], first: int) -> dict[str, dict[str, list[Any]]]:
    at = [first + 2 * k for k in range(len(orders))]
    return {
        "Items": {"id": items, "price": items, "t": [first + 2 * k for k in range(len(items))]},
        "Orders": {"id": orders, "customer": [f"c{k}" for k in orders], "t": [t + 1 for t in at]},
    }


def results(running: braid.Engine) -> Counter[tuple[Any, ...]]:
    rows = running.results[("paid", None)].to_pylist() if running.results else []
    return Counter(tuple(row.values()) for row in rows)


def run(running: braid.Engine) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for first in range(0, 8, 4):
        part = slice(first, first + 4 if first == 0 else None)
        running.process(batch(ORDERS[part], ITEMS[part], 2 * first))
        found += results(running)
    running.finish()
    return found + results(running)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (
            SOON,
            (
                "constraint 'soon' (Items (id) references Orders (id) within 2 rows) does not hold: "
                "event 7 of Orders, id = 7 at 13, misses it by 7 rows"
            ),
        ),
        (
            RISING,
            (
                "constraint 'rising' (Orders (id) ascending within 1 rows) does not hold: "
                "event 9 of Orders, id = 5 at 17, misses it by 3 rows"
            ),
        ),
        (
            TOGETHER,
            (
                "constraint 'together' (Items (id) clustered within 0 rows) does not hold: "
                "event 4 of Items, id = 3 at 6, misses it by 1 rows"
            ),
        ),
        (
            ONE,
            (
                "constraint 'one' (Orders (id) key) does not hold: "
                "event 9 of Orders, id = 5 at 17, is the second of its key"
            ),
        ),
    ],
)
def test_what_is_broken_is_told_and_nothing_is_lost(declared: str, said: str) -> None:
    running = engine(declared)
    assert run(running) == run(engine(mode="off"))
    (notice,) = running.notices
    assert (notice.code, notice.query) == ("W205", "paid")
    assert notice.message == f"{said}; Braid no longer uses it, and no result is lost"


def test_all_that_is_broken_is_told_once() -> None:
    running = engine(SOON, RISING, TOGETHER, ONE)
    assert run(running) == run(engine(mode="off"))
    named = sorted(notice.message.split("'")[1] for notice in running.notices)
    assert named == ["one", "rising", "soon", "together"]


def test_what_holds_is_not_told() -> None:
    running = engine(SOON.replace("2 ROWS", "50 ROWS"), RISING.replace("1 ROWS", "4 ROWS"))
    run(running)
    assert running.notices == []


def test_in_monitored_mode_it_is_said_that_results_may_be_missing() -> None:
    running = engine(RISING, mode="monitored")
    found = run(running)
    assert found <= run(engine(mode="off"))
    assert running.notices[-1].message.endswith(
        "results may be missing: `explain` estimates how many"
    )


def test_after_a_restart_it_is_not_told_again_and_the_history_is_kept() -> None:
    running = engine(TOGETHER, ONE)
    running.process(batch(ORDERS, ITEMS, 0))
    running.process(batch([9], [9], 60))
    assert len(running.notices) == 2
    again = braid.Engine.restore(running.snapshot())
    assert _constraints(again) == _constraints(running)
    again.process(batch([20, 20], [21, 20, 21], 100))
    again.finish()
    assert again.totals["late"] == 0
    assert again.notices == []
    text = str(again.explain())
    assert "broken first by event 4 of its stream, at 6" in text
    assert "constraint one: two events have one key, the second at 17" in text


RELATIONS = """
Istream(Select I.id, customer, price From Orders [Partition By id Rows 2] As O, Items [Rows 50] As I
        Where O.id = I.id)
"""


def test_of_relations_all_is_told_and_a_key_is_used() -> None:
    """Order 5 comes twice; the others count events of streams, and no join of relations uses them."""

    def ran(mode: str, *declared: str) -> tuple[Counter[tuple[Any, ...]], braid.Engine]:
        running = braid.Engine(constraints=mode, spill_above=0)
        running.execute(STREAMS + "\n".join(declared))
        running.query("paid", RELATIONS)
        return run(running), running

    found, running = ran("exact", ONE, SOON, RISING)
    assert found == ran("off")[0]
    said = {notice.message.split("'")[1]: notice.message for notice in running.notices}
    assert sorted(said) == ["one", "rising", "soon"]
    assert said["one"] == (
        "constraint 'one' (Orders (id) key) does not hold: "
        "event 9 of Orders, id = 5 at 17, is the second of its key; "
        "Braid no longer uses it, and no result is lost"
    )
    assert said["soon"].endswith(
        "event 7 of Orders, id = 7 at 13, misses it by 7 rows; "
        "no join of this query uses it, and no result is lost"
    )
    assert "constraint one: two events have one key, the second at 17" in str(running.explain())
    assert ran("monitored", ONE)[0] <= found


def _constraints(running: braid.Engine) -> list[Any]:
    (join,) = (m for m in running.explain().to_dict()["mops"] if "constraint join" in m["does"])
    return [(c["kind"], c["k"], c["history"]) for c in join["detail"]["constraints"]]


def test_what_queries_publish_has_constraints_as_well() -> None:
    """Known from the first event on, used by whoever joins it, and told when it does not hold."""
    declared = """
        CREATE QUERY dear AS Select id, price From FILTER{price > 0} Items Publish Dear;
        CREATE CONSTRAINT soon ON Dear (id) REFERENCES Orders (id) WITHIN 2 ROWS;
        CREATE QUERY paid AS
          Istream(Select D.id, customer, price From Orders [Range 1000] As O, Dear [Range 1000] As D
                  Where O.id = D.id);
    """.replace("Select id, price From", "SELECT id, price FROM")
    found = []
    for mode in ("exact", "off"):
        running = braid.Engine(constraints=mode, spill_above=0)
        running.execute(STREAMS + declared)
        found.append((run(running), [notice.message for notice in running.notices]))
    (ours, told), (plain, unused) = found
    assert ours == plain != Counter()
    assert len(unused) == 1
    assert unused[0].endswith("no join of this query uses it, and no result is lost")
    (message,) = told
    assert "'soon' (Dear (id) references Orders (id) within 2 rows) does not hold" in message
    assert "event 7 of Orders, id = 7 at 13, misses it by 7 rows" in message
