"""Functions that users register: vectorized or not, what they cost, what becomes of failures."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import braid

S = pa.schema([("name", pa.string()), ("price", pa.float64()), ("t", pa.int64())])
ROWS = {
    "name": ["a", "a", "b", "b", None],
    "price": [10.0, 250.0, 300.0, None, 400.0],
    "t": [1, 2, 3, 4, 5],
}


def engine() -> braid.Engine:
    made = braid.Engine(idle_timeout=None)
    made.stream("S", S, time="t")
    return made


def results(made: braid.Engine, query: str = "q", **rows: list[Any]) -> list[Any]:
    """The only column of a query's results, for rows that come in one batch."""
    made.process({"S": rows or ROWS})
    found = [made.results]
    made.finish()
    found.append(made.results)
    tables = [tables[(query, None)] for tables in found if (query, None) in tables]
    return [value for table in tables for value in table.column(2).to_pylist()]


class Fee:
    """A vectorized function that remembers the rows that it has seen, by call."""

    def __init__(self) -> None:
        self.seen: list[list[float | None]] = []

    def __call__(self, prices: pa.Array) -> pa.Array:
        self.seen.append(prices.to_pylist())
        return pc.multiply(prices, 0.01)


def test_a_vectorized_function_is_called_once_for_a_batch() -> None:
    made, fee = engine(), Fee()
    made.function("fee", fee, ["DOUBLE"], "DOUBLE", vectorized=True)
    made.query("q", "SELECT fee(price) AS f FROM S")
    assert results(made) == [0.1, 2.5, 3.0, None, 4.0]
    assert [seen for seen in fee.seen if seen] == [[10.0, 250.0, 300.0, None], [400.0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: pa.chunked_array([pc.add(x, 1)]),
        lambda x: x.to_numpy(zero_copy_only=False) + 1,
        lambda x: [None if v is None else v + 1 for v in x.to_pylist()],
        lambda x: pc.add(x, 1).cast(pa.float32()),
    ],
)
def test_a_vectorized_function_returns_what_arrow_makes_an_array_of(call: Any) -> None:
    made = engine()
    made.function("f", call, ["DOUBLE"], "DOUBLE", vectorized=True)
    made.query("q", "SELECT f(price) AS f FROM FILTER{price < 300} S")
    assert results(made) == [11.0, 251.0]


def test_if_a_vectorized_function_fails_only_the_rows_that_it_fails_for_are_null() -> None:
    def inverse(x: pa.Array) -> pa.Array:
        return pa.array([None if v is None else 1 / v for v in x.to_pylist()])

    made = engine()
    made.function("inverse", inverse, ["DOUBLE"], "DOUBLE", vectorized=True)
    made.query("q", "SELECT inverse(price) AS i FROM S")
    assert results(made, name=["a"] * 3, price=[2.0, 0.0, 4.0], t=[1, 2, 3]) == [0.5, None, 0.25]
    assert made.totals["failed_calls"] == 1
    assert [notice.code for notice in made.notices] == ["W212"]


def test_too_few_values_are_a_failure() -> None:
    made = engine()
    made.function("first", lambda x: x.slice(0, 1), ["DOUBLE"], "DOUBLE", vectorized=True)
    made.query("q", "SELECT first(price) AS f FROM FILTER{price IS NOT NULL} S")
    assert results(made) == [10.0, 250.0, 300.0, 400.0], "a row by itself has its value"


def test_functions_see_only_the_events_that_other_conditions_leave() -> None:
    made, fee = engine(), Fee()
    made.function("fee", fee, ["DOUBLE"], "DOUBLE", vectorized=True)
    made.query("q", "SELECT price FROM FILTER{fee(price) > 1 AND name = 'a'} S")
    assert results(made) == [250.0]
    assert [seen for seen in fee.seen if seen] == [[10.0, 250.0]]


def test_the_cheaper_function_comes_first() -> None:
    made, cheap, dear = engine(), Fee(), Fee()
    made.function("dear", dear, ["DOUBLE"], "DOUBLE", vectorized=True, cost=100)
    made.function("cheap", cheap, ["DOUBLE"], "DOUBLE", vectorized=True)
    made.query("q", "SELECT price FROM FILTER{dear(price) > 1 AND cheap(price) > 2.7} S")
    assert results(made) == [300.0, 400.0]
    assert [seen for seen in cheap.seen if seen] == [[10.0, 250.0, 300.0, None], [400.0]]
    assert [seen for seen in dear.seen if seen] == [[300.0], [400.0]]


def test_functions_in_patterns_see_only_the_events_that_other_conditions_leave() -> None:
    made, fee = engine(), Fee()
    made.function("fee", fee, ["DOUBLE"], "DOUBLE", vectorized=True)
    made.query(
        "q",
        "SELECT price_1 AS p FROM S NEXT{$1.name = $2.name AND $2.name = 'a'"
        " AND fee($2.price) > 2 AND DUR <= 9} S",
    )
    assert results(made) == [10.0]
    assert [seen for seen in fee.seen if seen] == [[10.0, 250.0]]


def test_two_queries_with_one_condition_call_a_function_once() -> None:
    made, fee = engine(), Fee()
    made.function("fee", fee, ["DOUBLE"], "DOUBLE", vectorized=True)
    for number, name in enumerate("ab"):
        made.query(
            f"q{number}", f"SELECT price FROM FILTER{{name = '{name}' AND fee(price) > 1}} S"
        )
    assert results(made, "q1") == [300.0]
    assert [seen for seen in fee.seen if seen] == [[10.0, 250.0, 300.0, None]]


def test_a_vectorized_function_is_given_again_on_restore() -> None:
    made = engine()
    function = {
        "name": "fee",
        "call": Fee(),
        "arguments": ["DOUBLE"],
        "returns": "DOUBLE",
        "vectorized": True,
    }
    made.function(**function)
    made.query("q", "SELECT fee(price) AS f FROM S")
    made.process({"S": ROWS})
    again = braid.Engine.restore(made.snapshot(), functions=[function])
    again.finish()
    assert again.results[("q", None)].column("f").to_pylist() == [4.0]
