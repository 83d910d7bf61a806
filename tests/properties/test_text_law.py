"""The law through the whole engine: query texts in, Arrow tables out."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

import braid
from braid.algebra.schema import Schema
from braid.algebra.streams import Stream
from braid.algebra.types import BIGINT, DOUBLE, STRING
from braid.lang import Catalog, compile_query
from braid.reference import Event, TooMany, answer, events_from_result, table_from_events
from tests.properties.expressions import Draw
from tests.properties.law import LIMIT, Arrival, Feed, cut
from tests.properties.plans import events
from tests.scenarios.comparison import assert_same

ATTRIBUTES = Schema.of([("Name", STRING), ("Price", DOUBLE), ("Volume", BIGINT)])
STOCK = Stream(
    "Stock",
    Schema.of([*((a.name, a.type) for a in ATTRIBUTES), ("t0", BIGINT), ("t1", BIGINT)]),
    ("t0", "t1"),
    3,
)

#: Shapes of queries; {0} and {1} are constants.
TEXTS = [
    "SELECT * FROM FILTER{{Price > {0} OR Volume IS NULL}}(Stock)",
    "SELECT Name, Price * {0} AS scaled, Volume + 1 AS more FROM Stock",
    (
        "SELECT Name, Price_1 AS low, Price AS high FROM Stock"
        " NEXT{{$2.Name = $1.Name AND $2.Price > $1.Price}} Stock"
    ),
    "SELECT * FROM FILTER{{DUR <= {1}}}(Stock NEXT{{$1.Volume = $2.Volume}} Stock)",
    "SELECT * FROM Stock FOLD{{$2.Name = $.Name, $2.Price >= $.Price, }} Stock",
    (
        "SELECT Name, cnt, total FROM FILTER{{cnt > 1}}((SELECT *, 1 AS cnt, Price AS total FROM Stock)"
        " FOLD{{$2.Name = $.Name AND DUR < {1}, , $.cnt + 1 AS cnt, $.total + $2.Price AS total}} Stock)"
    ),
    "SELECT * FROM SAMETIME{{count(*) AS n, sum(Price) AS s, max_by(Name, Price) AS top}}(Stock)",
    "SELECT * FROM FILTER{{Price < {0}}} Stock UNION FILTER{{Volume > {1}}} Stock",
    "SELECT CASE WHEN Price BETWEEN {0} AND 2 THEN 'mid' ELSE upper(Name) END AS band FROM Stock",
    (
        "SELECT * FROM (SELECT Name AS a FROM Stock) NEXT{{b LIKE 'a%'}} (SELECT Name AS b, Price FROM"
        " FILTER{{Name IN ('a', 'ab', 'abc')}}(Stock))"
    ),
    "SELECT * FROM First NEXT{{$1.Name = $2.Name}} Stock",
]
#: Texts that call functions of the user.
CALLING_TEXTS = [
    "SELECT half(Price) AS h, initial(Name) AS i FROM Stock",
    "SELECT * FROM FILTER{{half(Price) > {0}}} Stock",
    "SELECT Name FROM FILTER{{Volume > {1} AND half(Price) < {0} AND initial(Name) = 'a'}} Stock",
    "SELECT * FROM FILTER{{upper(Name) = 'A' AND NOT half(Price) > {0}}} Stock",
    (
        "SELECT * FROM Stock NEXT{{$2.Volume > {1} AND half($2.Price) < {0} AND $1.Name = $2.Name"
        " AND initial($1.Name) = 'a' AND $1.Price >= {0}}} Stock"
    ),
    (
        "SELECT * FROM Stock FOLD{{$2.Name = $.Name AND $2.Volume > {1} AND half($2.Price) >= {0},"
        " half($2.Price) > 0, }} Stock"
    ),
    "SELECT Name FROM FILTER{{half(Price_1) > {0}}}(Stock NEXT{{$1.Volume = $2.Volume}} Stock)",
]
PUBLISHER = "SELECT Name, Price AS Initial FROM FILTER{{Volume >= {1}}}(Stock) PUBLISH First"


@st.composite
def query_sets(draw: Draw) -> dict[str, str]:
    def constants() -> tuple[Any, Any]:
        return draw(st.sampled_from([0, 0.5, 1, 2])), draw(st.integers(0, 6))

    chosen = draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3))
    texts = {f"q{i}": text.format(*constants()) for i, text in enumerate(chosen)}
    return {"first": PUBLISHER.format(*constants()), **texts}


#: Parts of patterns, which any of the others may go with.
BEGINS = [
    "Price > {0}",
    "Volume = {1} AND Price < {0}",
    "Name = 'a'",
    "Name IN ('a', 'ab') AND Volume >= {1}",
    "Price >= {0} OR Volume < {1}",
]
GOES_ON = [
    "$2.Name = $1.Name",
    "$2.Price > {0}",
    "$2.Volume = {1} AND $2.Price <= {0}",
    "$2.Price > $1.Price * {0}",
    "$2.Name = $1.Name AND DUR <= {1}",
]
ENDS = [
    "DUR <= {1}",
    "Price > {0} AND Volume_1 <> {1}",
    "Name = 'a' AND DUR < {1}",
    "Price_1 < Price * {0}",
]


@st.composite
def sets_of_many_shapes(draw: Draw) -> dict[str, str]:
    """Patterns that have their parts in common, and hardly two of them their shape."""

    def part(of: list[str]) -> str:
        text = draw(st.sampled_from(of))
        return text.format(draw(st.sampled_from([0, 0.5, 1, 2])), draw(st.integers(0, 6)))

    return {
        f"q{number}": "SELECT * FROM FILTER{" + part(ENDS) + "}"
        "(FILTER{" + part(BEGINS) + "}(Stock) NEXT{" + part(GOES_ON) + "} Stock)"
        for number in range(draw(st.integers(2, 16)))
    }


def initial(name: str | None) -> str | None:
    return None if name is None else name[0]  # raises for an empty name


FUNCTIONS: tuple[dict[str, Any], ...] = (
    {
        "name": "half",
        "call": lambda prices: pc.divide(prices, 2.0),
        "arguments": ["DOUBLE"],
        "returns": "DOUBLE",
        "vectorized": True,
        "cost": 3.0,
    },
    {"name": "initial", "call": initial, "arguments": ["STRING"], "returns": "STRING"},
)


@st.composite
def calling_sets(draw: Draw) -> dict[str, str]:
    chosen = draw(st.lists(st.sampled_from(CALLING_TEXTS), min_size=1, max_size=4))
    return {
        f"q{number}": text.format(draw(st.sampled_from([0, 0.5, 1, 2])), draw(st.integers(0, 6)))
        for number, text in enumerate(chosen)
    }


@given(calling_sets(), events(ATTRIBUTES), st.data())
def test_functions_of_users(texts: dict[str, str], sent: list[Event], data: st.DataObject) -> None:
    """Whole columns or single values, in conditions of selections and patterns, in SELECT."""
    check(texts, sent, data, FUNCTIONS)


@given(query_sets(), events(ATTRIBUTES), st.data())
def test_engine(texts: dict[str, str], sent: list[Event], data: st.DataObject) -> None:
    """In order, cut anywhere, with a snapshot and restore after any batch."""
    check(texts, sent, data)


@settings(max_examples=20)
@given(sets_of_many_shapes(), events(ATTRIBUTES), st.data())
def test_many_shapes_that_are_admitted_together(
    texts: dict[str, str], sent: list[Event], data: st.DataObject
) -> None:
    check(texts, sent, data)


def check(
    texts: dict[str, str],
    sent: list[Event],
    data: st.DataObject,
    functions: tuple[dict[str, Any], ...] = (),
) -> None:
    order = data.draw(st.permutations(sent))
    order.sort(key=lambda e: e.end)
    feed = data.draw(cut([("Stock", e) for e in order], reloads=True))
    catalog = Catalog()
    catalog.add_stream(STOCK)
    udfs = {function["name"]: catalog.functions.register(**function) for function in functions}
    for query_id, text in texts.items():
        catalog.add_query(compile_query(text, catalog, query_id=query_id).query)
    try:
        wanted = answer(list(catalog.queries.values()), {"Stock": sent}, udfs, limit=LIMIT)
    except TooMany:
        return
    actual = run_engine(texts, feed, functions)
    for key, expected in wanted.items():
        assert_same(actual.get(key, []), expected, f"{key}: {texts[key[0]]}")


def run_engine(
    texts: dict[str, str], feed: Feed, functions: tuple[dict[str, Any], ...]
) -> dict[tuple[str, str | None], list[Event]]:
    engine = braid.Engine()
    for function in functions:
        engine.function(**function)
    schema = pa.schema([(a.name, a.type) for a in STOCK.columns])
    engine.stream("Stock", schema, time=["t0", "t1"], lateness=STOCK.lateness)
    for query_id, text in texts.items():
        engine.query(query_id, text)
    results: dict[tuple[str, str | None], list[Event]] = defaultdict(list)
    for number, batch in enumerate(feed.batches):
        engine.process({"Stock": to_table(batch)})
        collect(engine, results)
        if number in feed.reload_after:
            engine = braid.Engine.restore(engine.snapshot(), functions=functions)
    engine.finish()
    collect(engine, results)
    return results


def collect(engine: braid.Engine, results: dict[tuple[str, str | None], list[Event]]) -> None:
    for key, table in engine.results.items():
        results[key] += events_from_result(table)


def to_table(batch: tuple[Arrival, ...]) -> pa.Table:
    found = [event for _, event in batch]
    return table_from_events(found, ATTRIBUTES, start="t0", end="t1", time_type=BIGINT)
