"""Relational queries that differ in constants share a template, the lengths of windows included."""

from __future__ import annotations

import pyarrow as pa
import pytest

from braid.algebra.expressions import Parameter
from braid.algebra.relations import ToStream, windows
from braid.algebra.types import BIGINT, DURATION
from braid.errors import BraidError
from braid.lang import compile_query, prepare
from tests.lang.support import catalog, compiled, pointed_at
from tests.lang.templates.test_skeletons import fully, parses

__all__ = ["parses"]

JOIN = (
    "Select A.Price, B.Volume * {0} As v From Stock [Range {1} min] A, Stock [Rows {2}] B"
    " Where A.Name = B.Name And A.Price > {3}"
)
GROUP = "Select Name, sum(Price * {0}) As s From Stock [Range {1} s] Group By Name Having count(*) > {2}"


@pytest.mark.parametrize(
    ("text", "first", "second", "values"),
    [
        (JOIN, (2, 10, "50,000", 5), (3, 60, "7,000", 9), (3, 3_600_000_000, 7_000, 9.0)),
        (GROUP, (2, 5, 3), (4, 60, 7), (4.0, 60_000_000, 7)),
        ("Select * From Tick [Range {0}]", (600,), (5,), (5,)),
        ("Rstream(Select * From Stock [Rows {0}] Where Price > {1})", (6, 1), (7, 2), (7, 2.0)),
        ("Select * From Stock [Range {0} h {1} min]", (1, 30), (2, 5), (7_500_000_000,)),
        ("Select * From Stock [Range {0} s]", ("3,600",), ("1,000",), (1_000_000_000,)),
        ("Select * From Stock [Range {0}]", (600,), (5,), (5,)),
    ],
)
def test_constants_are_lifted(
    text: str,
    first: tuple[object, ...],
    second: tuple[object, ...],
    values: tuple[object, ...],
    parses: list[str],
) -> None:
    known = catalog()
    one = compile_query(text.format(*first), known).query
    parses.clear()
    two = compile_query(text.format(*second), known, query_id="q").query
    assert not parses
    assert two.template is one.template
    assert two.outputs == fully(two.text, known).query.outputs
    assert sorted(map(repr, two.values)) == sorted(map(repr, values))


def test_lengths_are_parameters_of_the_template() -> None:
    query = compiled("Select * From Stock [Range 10 min] A, Stock [Rows 5] B").query
    node = query.template.outputs[0].node
    assert isinstance(node, ToStream)
    assert [w.size for w in windows(node.relation)] == [
        Parameter(0, DURATION),
        Parameter(1, BIGINT),
    ]
    assert query.values == (600_000_000, 5)


def test_texts_that_say_a_window_differently_share_a_template() -> None:
    known = catalog()
    texts = [
        "Select * From Stock [Rows 50,000]",
        "Select * From Stock [Rows 7]",
        "Istream(Select * From Stock [Rows 8] as S)",
    ]
    queries = [compile_query(text, known).query for text in texts]
    assert {q.template for q in queries} == {queries[0].template}
    assert [q.values for q in queries] == [(50_000,), (7,), (8,)]


@pytest.mark.parametrize(
    ("good", "bad", "code"),
    [
        ("Select * From Stock [Rows 5]", "Select * From Stock [Rows 0]", "E177"),
        ("Select * From Stock [Rows 5,000]", "Select * From Stock [Rows 5,00]", "E177"),
        (
            "Select * From Stock [Range 5 s]",
            "Select * From Stock [Range 99999999999999999 s]",
            "E112",
        ),
        ("Select * From Stock [Rows 5]", "Select * From Stock [Rows 99999999999999999999]", "E112"),
    ],
)
def test_a_known_shape_does_not_hide_an_error(good: str, bad: str, code: str) -> None:
    known = catalog()
    compile_query(good, known)
    with pytest.raises(BraidError) as caught:
        compile_query(bad, known)
    assert caught.value.code == code


def test_keys_with_constants_are_pinned() -> None:
    """A key stands in GROUP BY and in SELECT: both must say the same."""
    known = catalog()
    text = (
        "Select Volume DIV {0} As d, count(*) From Stock Where Price > {2} Group By Volume DIV {1}"
    )
    first = compile_query(text.format(10, 10, 5), known).query
    second = compile_query(text.format(10, 10, 6), known).query
    third = compile_query(text.format(20, 20, 5), known).query
    assert first.template is second.template
    assert third.template is not first.template
    assert third.outputs == fully(third.text, known).query.outputs
    with pytest.raises(BraidError, match="E175"):
        compile_query(text.format(10, 20, 5), known)


def test_equal_aggregates_with_constants_are_not_one() -> None:
    known = catalog()
    text = "Select sum(Price * {0}) As s From Stock [Rows 5] Having sum(Price * {1}) > 0"
    compile_query(text.format(2, 2), known)
    second = compile_query(text.format(3, 2), known).query
    assert second.outputs == fully(second.text, known).query.outputs


# --- FOR EACH ---

PREPARED = (
    "CREATE QUERY avgs FOR EACH (who STRING, span INTERVAL, last INT, floor DOUBLE) AS"
    " Select A.Name, avg(B.Price) As mean From Stock [Now] A, Stock [Range :span] B,"
    " Stock [Partition By Name Rows :last] C Where A.Name = B.Name And A.Name = C.Name And A.Name = :who"
    " Group By A.Name Having avg(B.Price) > :floor PUBLISH Avgs"
)


def test_prepared_windows() -> None:
    rows = {
        "id": ["a", "b", "c", "d", "e"],
        "who": ["IBM", "MSFT", "x", "y", "z"],
        "span": pa.array([5_000_000, 0, -1, 1, 1], pa.duration("us")),
        "last": [1, 50_000, 1, 0, None],
        "floor": [1.5, 2.0, 0.0, 0.0, 0.0],
    }
    prepared = prepare(PREPARED, rows, catalog())
    assert prepared.members.ids.to_pylist() == ["avgs/a", "avgs/b"]
    assert set(map(str, prepared.template.types)) == {"string", "duration[us]", "int64", "double"}
    assert [(r.row, r.code) for r in prepared.refused] == [(2, "E186"), (3, "E186"), (4, "E168")]
    known = catalog()
    known.add_prepared(prepared)
    written = (
        "Select A.Name, avg(B.Price) As mean From Stock [Now] A, Stock [Range 5 s] B,"
        " Stock [Partition By Name Rows 1] C Where A.Name = B.Name And A.Name = C.Name"
        " And A.Name = 'IBM' Group By A.Name Having avg(B.Price) > 1.5 PUBLISH Avgs"
    )
    assert known.queries["avgs/a"].outputs == compiled(written).query.outputs


@pytest.mark.parametrize(
    ("parameter", "window", "code"),
    [
        ("n DOUBLE", "Stock [Rows :n]", "E110"),
        ("n INTERVAL", "Stock [Rows :n]", "E110"),
        ("n INTERVAL", "Tick [Range :n]", "E110"),
        ("n STRING", "Stock [Range :n]", "E110"),
        ("n BIGINT", "Stock [Range :m]", "E161"),
    ],
)
def test_parameters_that_are_no_lengths(parameter: str, window: str, code: str) -> None:
    with pytest.raises(BraidError) as caught:
        prepare(
            f"CREATE QUERY q FOR EACH ({parameter}) AS Select * From {window}",
            [{"n": 1}],
            catalog(),
        )
    assert caught.value.code == code
    assert pointed_at(caught.value) in (":n", ":m")


def test_a_number_may_be_a_length_of_time() -> None:
    text = "CREATE QUERY q FOR EACH (n SMALLINT) AS Select * From {} [Range :n]"
    prepared = prepare(text.format("Stock"), [{"n": 7}], catalog())
    assert prepared.template.types == (DURATION,)
    prepared = prepare(text.format("Tick"), [{"n": 7}], catalog())
    assert prepared.template.types == (BIGINT,)
