"""Whatever joins streams: a declared constraint that they break is told, once, and nothing is lost.

How a watch finds that out is tested by itself (`tests/operators/constraint_join/test_declared_logic.py`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

import braid
from braid.engine import executor

STREAMS = """
CREATE STREAM Orders (id BIGINT, customer STRING, weight DOUBLE, t BIGINT) TIME t;
CREATE STREAM Items (id BIGINT, price BIGINT, t BIGINT) TIME t;
"""
#: All of these are broken: some by values that no join compares, or that no query shows.
DECLARED = {
    "one": "Orders (id) KEY",
    "pair": "Orders (id, customer) KEY",
    "soon": "Items (id) REFERENCES Orders (id) WITHIN 2 ROWS",
    "shortly": "Items (id) REFERENCES Orders (id) WITHIN 2 TICKS",
    "together": "Items (id) CLUSTERED",
    "near": "Items (id) CLUSTERED WITHIN 1 TICKS",
    "prices": "Items (price) CLUSTERED",
    "rising": "Orders (id) ASCENDING WITHIN 1 ROWS",
    "heavier": "Orders (weight) ASCENDING WITHIN 1 TICKS",
    "falling": "Items (id) DESCENDING",
}
#: And these hold.
KEPT = {
    "late": "Items (id) REFERENCES Orders (id) WITHIN 7 ROWS",
    "apart": "Items (id) CLUSTERED WITHIN 2 ROWS",
    "somehow": "Orders (id) ASCENDING WITHIN 3 ROWS",
}
ORDERS = [1, 2, 3, 4, 5, 6, 7, 8, 5]
ITEMS = [7, 3, 1, 3, 2, 5, 5, 8]

FROM = "From Orders {} As O, Items {} As I Where O.id = I.id"
RANGE = ("[Range 1000]", "[Range 1000]")
SHOWN = "Select I.id, customer, price"
QUERIES = {
    "windows by time": [f"Istream({SHOWN} {FROM.format(*RANGE)})"],
    "a selection": [f"Istream({SHOWN} {FROM.format(*RANGE)} And price > 4)"],
    "computed columns": [f"Istream(Select I.id + 1 As x, customer {FROM.format(*RANGE)})"],
    "partitions": [f"Istream({SHOWN} {FROM.format('[Partition By id Rows 2]', '[Rows 50]')})"],
    "Rstream": [f"Rstream({SHOWN} {FROM.format(*RANGE)})"],
    "shared": [f"Istream({SHOWN} {FROM.format(*RANGE)} And price > {n})" for n in (1, 2)],
    "shared rows": [
        f"Istream({SHOWN} {FROM.format('[Rows 9]', '[Rows 9]')} And price > {n})" for n in (1, 2)
    ],
    "no equality": [
        "Istream(Select I.id From Orders [Range 9] As O, Items [Range 9] As I Where O.id < I.id)"
    ],
    "groups": [
        (
            "Istream(Select I.id, n From (Select id, count(*) As n From Orders [Range 9] Group By id)"
            " As O, Items [Range 9] As I Where O.id = I.id)"
        )
    ],
    "DETECT": ["DETECT Found FROM Orders [Range 9] AS O, Items [Range 9] AS I WHERE O.id = I.id"],
}


def declare(names: dict[str, str]) -> str:
    return "\n".join(f"CREATE CONSTRAINT {name} ON {said};" for name, said in names.items())


def engine(queries: list[str], declared: str = "", **options: Any) -> braid.Engine:
    running = braid.Engine(**options)
    running.execute(STREAMS + declared)
    for number, text in enumerate(queries):
        running.query(f"q{number}", text)
    return running


def batch(first: int, last: int | None) -> dict[str, dict[str, list[Any]]]:
    part = slice(first, last)
    orders, items = ORDERS[part], ITEMS[part]
    at = [2 * (first + k) for k in range(len(orders))]
    return {
        "Items": {"id": items, "price": items, "t": at[: len(items)]},
        "Orders": {
            "id": orders,
            "customer": [f"c{k}" for k in orders],
            "weight": [k / 2 for k in orders],
            "t": [t + 1 for t in at],
        },
    }


def run(running: braid.Engine, cut: int = 4, restart: bool = False) -> tuple[Counter[Any], Any]:
    """The results, and what was told: query and constraint."""
    found: Counter[Any] = Counter()
    told: list[tuple[str, str]] = []

    def note() -> None:
        for (query, _), table in running.results.items():
            found.update((query, *row.values()) for row in table.to_pylist())

    for first, last in ((0, cut), (cut, None)):
        running.process(batch(first, last))
        note()
        if restart:
            told += _told(running)
            running = braid.Engine.restore(running.snapshot())
    running.finish()
    note()
    return found, Counter([*told, *_told(running)])


def _told(running: braid.Engine) -> list[tuple[str, str]]:
    codes = [notice for notice in running.notices if notice.code == "W205"]
    return [(str(notice.query), notice.message.split("'")[1]) for notice in codes]


@pytest.mark.parametrize("joins", sorted(QUERIES))
def test_whatever_joins_the_streams_all_that_they_break_is_told_once(joins: str) -> None:
    queries, declared = QUERIES[joins], declare(DECLARED | KEPT)
    plain, nothing = run(engine(queries))
    assert plain, joins
    assert not nothing
    expected = Counter((f"q{n}", name) for n in range(len(queries)) for name in DECLARED)
    for mode, above in (("exact", 0), ("exact", 64 << 20), ("off", 0)):
        found, told = run(engine(queries, declared, constraints=mode, spill_above=above), 3, True)
        assert (found, told) == (plain, expected), (mode, above)
    found, told = run(engine(queries, declared, constraints="monitored", spill_above=0))
    assert found <= plain
    assert told == expected


def test_one_that_no_query_joins_is_not_watched() -> None:
    """Nothing is at stake: neither where streams are read by themselves, nor by patterns."""
    alone = [f"Istream(Select id From {name} [Range 9])" for name in ("Orders", "Items")]
    queries = [*alone, "SELECT * FROM Orders NEXT{$1.id = $2.id} Items"]
    running = engine(queries, declare(DECLARED))
    assert not run(running)[1]
    assert not _watches(running)


def _watches(running: braid.Engine) -> list[dict[str, Any]]:
    return [mop for mop in running.explain().to_dict()["mops"] if mop["kind"] == "watch"]


def test_a_watch_is_shared_shown_and_gone_with_the_last_query() -> None:
    running = engine(QUERIES["shared"], declare({"one": DECLARED["one"], "late": KEPT["late"]}))
    run(running)
    assert [(w["detail"]["name"], w["members"]) for w in _watches(running)] == [
        ("one", 2),
        ("late", 2),
    ]
    text = str(running.explain())
    assert "watch one: Orders (id) key" in text
    assert "broken first by event 9 of Orders, id = 5 at 17, the second of its key" in text
    assert "holds so far; remembers 8 values" in text
    running.drop("q0")
    running.process(batch(9, None))
    assert len(_watches(running)) == 2
    running.drop("q1")
    running.process(batch(9, None))
    assert not _watches(running)


def test_a_query_that_comes_later_is_told_as_well_and_nobody_twice() -> None:
    running = engine(QUERIES["groups"], declare({"one": DECLARED["one"]}))
    run(running)
    assert _told(running) == [("q0", "one")]
    running.query("later", QUERIES["partitions"][0])
    running.process({"Items": {"id": [1], "price": [1], "t": [90]}})
    assert _told(running) == [("q0", "one"), ("later", "one")]
    running = braid.Engine.restore(running.snapshot())
    running.query("last", QUERIES["no equality"][0])
    running.process({"Items": {"id": [1], "price": [1], "t": [91]}})
    assert _told(running) == [("last", "one")]


def test_strings_are_remembered_when_their_table_is_cleared() -> None:
    """A customer comes again after many others that nobody holds any more."""
    with patch.object(executor, "COMPACT_FROM", 64):
        running = engine(
            [
                "Istream(Select I.id, customer From Orders [Now] As O, Items [Now] As I Where O.id = I.id)"
            ],
            "CREATE CONSTRAINT one ON Orders (customer) KEY;",
        )
        for at in range(0, 600, 20):
            customers = [f"customer {at + k}" for k in range(20)] if at < 580 else ["customer 7"]
            some = list(range(len(customers)))
            orders = {"id": some, "customer": customers, "weight": [0.0] * len(some)}
            items = {"id": some, "price": some, "t": [at + k for k in some]}
            running.process({"Orders": orders | {"t": items["t"]}, "Items": items})
        running.finish()
    (notice,) = running.notices
    assert "event 581 of Orders, customer = 'customer 7' at 580" in notice.message


def test_what_a_join_remembers_for_longer_is_told_too() -> None:
    """A watch remembers so many values; what is in a window all the same is the join's to see."""
    from braid.operators.constraint_join import declared_logic as constraint_declared

    with patch.multiple(constraint_declared, _LEAST_ROOM=4, MOST_ROOM=4):
        running = engine(QUERIES["windows by time"], declare({"one": DECLARED["one"]}))
        ids = [*range(50), 3]
        orders = {"id": ids, "customer": ["c"] * 51, "weight": [0.0] * 51, "t": list(range(51))}
        running.process({"Orders": orders})
        running.finish()
    (notice,) = running.notices
    assert "event 51 of Orders, id = 3 at 50, is the second of its key" in notice.message


def test_a_constraint_that_its_stream_breaks_is_not_used_by_a_join_that_sees_less() -> None:
    """Of the items only those of a price come to the join, which keep what is declared of all."""
    query = QUERIES["a selection"]
    running = engine(query, declare({"together": DECLARED["together"]}), spill_above=0)
    found, told = run(running)
    assert told == {("q0", "together"): 1}
    assert found == run(engine(query))[0]
    (join,) = (m for m in running.explain().to_dict()["mops"] if "constraint join" in m["does"])
    (declared,) = (c for c in join["detail"]["constraints"] if "declared" in c)
    assert declared["broken"] == {"event": 4, "at": 6}


@pytest.mark.parametrize(
    "inputs", ["Items {} As I, Orders {} As O", "Orders {} As O, Items {} As I"]
)
def test_events_of_one_instant_do_not_make_a_partner_late(inputs: str) -> None:
    """Order 1 is the second that comes after item 1, but the first of them came with the item."""
    for window in ("[Range 9]", "[Rows 9]"):
        query = f"Istream(Select I.id From {inputs.format(window, window)} Where O.id = I.id)"
        said = "Items (id) REFERENCES Orders (id) WITHIN 1 ROWS"
        running = engine([query], declare({"soon": said}), spill_above=0)
        orders = {"id": [9, 1], "customer": ["c", "c"], "weight": [0.0, 0.0], "t": [1, 2]}
        running.process({"Items": {"id": [1], "price": [1], "t": [1]}, "Orders": orders})
        running.finish()
        assert not running.notices


def test_what_queries_publish_is_watched_also_where_it_is_read_as_it_is() -> None:
    declared = """
        CREATE QUERY dear AS SELECT id, price FROM FILTER{price > 0} Items PUBLISH Dear;
        CREATE CONSTRAINT together ON Dear (id) CLUSTERED;
        CREATE CONSTRAINT below ON Items (id) CLUSTERED;
    """
    query = "Rstream(Select D.id From Orders [Rows 9] As O, Dear [Rows 9] As D Where O.id = D.id)"
    for inline in (True, False):
        running = engine([query], declared, rules={"inline": inline})
        assert run(running, restart=True)[1] == {("q0", "together"): 1}, inline
