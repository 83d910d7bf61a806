"""The rewrites of the normal form do what their docstrings show, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pytest

from braid.algebra.expressions import Call, Expression, Parameter, transform, walk
from braid.algebra.nodes import Node, Project, Union
from braid.algebra.schema import Schema
from braid.algebra.streams import Stream
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING
from braid.lang import Catalog, compile_query
from braid.plan import normal_form
from braid.plan.normal_form import REWRITES, Rewrite, normal, normal_node, order_of

TYPES = {"a": BIGINT, "v": BIGINT, "d": DOUBLE, "e": DOUBLE, "s": pa.int32(), "r": pa.int32()}
TYPES |= {"n": STRING, "b": BOOLEAN, "c": BOOLEAN, "t": BIGINT}
EXAMPLE = re.compile(r"^\s*(?:\"\"\")?(.+?)  ->  (.+?)(?:\"\"\")?$", re.MULTILINE)


def catalog() -> Catalog:
    made = Catalog()
    for name in "ABC":
        made.add_stream(Stream(name, Schema.of(TYPES.items()), ("t",)))
    return made


CATALOG = catalog()


def node(text: str) -> Node:
    return compile_query(text, CATALOG, query_id="q").query.outputs[0].node


def expression(text: str) -> Expression:
    projection = node(f"SELECT {text} AS x FROM A")
    assert isinstance(projection, Project)
    return projection.items[0][1]


#: What the binder does not make of a text.
BUILT = {
    "CAST(a AS BIGINT)": Call("cast", (expression("a"),), BIGINT),
    "b AND (c AND a < v)": Call("and", (expression("b"), expression("c AND a < v")), BOOLEAN),
}


def examples() -> Iterator[tuple[Rewrite, str, str]]:
    for rewrite in REWRITES:
        found = EXAMPLE.findall(rewrite.__doc__ or "")
        assert found, f"{rewrite.__name__} has no example"
        for before, after in found:
            yield rewrite, before, after


@pytest.mark.parametrize(("rewrite", "before", "after"), list(examples()))
def test_examples_of_rewrites(rewrite: Rewrite, before: str, after: str) -> None:
    written = BUILT[before] if before in BUILT else expression(before)
    wanted = expression(after)
    assert isinstance(written, Call)
    assert rewrite(written) == wanted
    assert normal(written) == normal(wanted)


def test_each_rewrite_is_applied() -> None:
    named = [
        value
        for name, value in vars(normal_form).items()
        if "_to_" in name and not name.startswith("_")
    ]
    assert set(named) == set(REWRITES)


#: Conditions that mean the same.
SAME = [
    ("a > 5 AND v + 1 < a", "a > v + 1 AND NOT (a <= 5)"),
    ("a BETWEEN 1 AND 5", "NOT (a < 1 OR 5 < a)"),
    ("a NOT BETWEEN 1 AND 5", "a > 5 OR a < 1"),
    ("a IN (1, 2) OR a = 3", "3 = a OR a IN (2, 1)"),
    ("NOT (a = 1 OR a = 2)", "a <> 2 AND 1 <> a"),
    ("(a > 1 OR b) AND (c OR v = 2)", "(v = 2 OR c) AND (b OR 1 < a)"),
    ("NOT (b AND NOT c)", "c OR b = FALSE"),
    ("d * e > 2.5", "2.5 < e * d"),
    ("greatest(a, v) = 5", "greatest(v, a) = 5"),
    ("CAST(s AS BIGINT) = CAST(r AS BIGINT)", "r = s"),
    ("b AND b AND TRUE", "b"),
    ("n LIKE 'x%' AND length(n) > 2", "NOT (length(n) <= 2) AND n LIKE 'x%'"),
]
#: Conditions that do not mean the same, for NULL, NaN, zeros or results that do not fit.
DIFFERENT = [
    ("(d + e) + 1.0 > 2.0", "d + (e + 1.0) > 2.0"),
    ("(a + v) + s > 2", "a + (v + s) > 2"),
    ("greatest(d, e) = 1.0", "greatest(e, d) = 1.0"),
    ("a - v > 1", "v - a > 1"),
    ("b OR NOT b", "TRUE"),
    ("a = a", "TRUE"),
    ("CAST(CAST(a AS INT) AS BIGINT) > 1", "a > 1"),
    ("a IN (1, NULL)", "a = 1"),
    ("NOT (a IS NULL)", "a = a"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_in_other_words(one: str, other: str) -> None:
    assert normal(expression(one)) == normal(expression(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_is_not_the_same_stays_apart(one: str, other: str) -> None:
    assert normal(expression(one)) != normal(expression(other))


@pytest.mark.parametrize("text", [text for pair in (*SAME, *DIFFERENT) for text in pair])
def test_a_normal_form_is_its_own(text: str) -> None:
    found = normal(expression(text))
    assert normal(found) == found
    assert not any(
        rewrite(part) for part in walk(found) if isinstance(part, Call) for rewrite in REWRITES
    )


def test_order_ignores_constants() -> None:
    assert order_of(expression("a + 1 > 5")) == order_of(expression("a + 700 > -2"))
    assert order_of(expression("a + 1 > 5")) != order_of(expression("v + 1 > 5"))


def test_parts_that_differ_in_parameters_keep_their_order() -> None:
    """Members have other constants there, so the order cannot come from these."""

    def lifted(text: str) -> Expression:
        numbers = iter(range(9))

        def change(part: Expression) -> Expression | None:
            is_number = not isinstance(part, Call) and part.type == BIGINT
            known = is_number and order_of(part).startswith("3")
            return Parameter(next(numbers), BIGINT) if known else None

        return transform(expression(text), change)

    assert normal(lifted("a + v > 9 OR a + v > 1")) == normal(lifted("a + v > 1 OR a + v > 9"))


def test_unions_have_one_order() -> None:
    (example,) = EXAMPLE.findall(normal_form._unions_in_order.__doc__ or "")
    before, after = (node(f"SELECT * FROM ({text})") for text in example)
    found, wanted = normal_node(before), normal_node(after)
    assert found == wanted
    assert isinstance(wanted, Project | Union)


def test_streams_of_a_union_stand_by_what_they_are() -> None:
    one = "FILTER{{a > {0}}}(A) UNION (SELECT * FROM FILTER{{n LIKE 'x%'}}(A)) UNION B"
    other = "B UNION (SELECT * FROM FILTER{{n LIKE 'x%'}}(A)) UNION FILTER{{a > {0}}}(A)"
    forms = {normal_node(node(f"SELECT * FROM ({t.format(5)})")) for t in (one, other)}
    assert len(forms) == 1
