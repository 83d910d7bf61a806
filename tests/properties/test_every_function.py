"""Every scalar function and every cast of kernels computes what the reference computes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from braid.algebra.expressions import Call, Expression, Literal, Ref, Source
from braid.algebra.functions import KERNEL, is_vector
from braid.algebra.nodes import Node, Project, Read, Select
from braid.algebra.schema import TICKS, Schema
from braid.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    DURATION,
    STRING,
    TIMESTAMP,
    Kind,
    kind_of,
)
from braid.jit.cast_rules import CASTS
from braid.reference import Event, evaluate
from tests.properties.expressions import call
from tests.properties.test_expressions import CLOSE, results
from tests.properties.values import (
    EVERY_TYPE,
    MONEY,
    SINGLE,
    SMALL_INT,
    WHOLE_MONEY,
    WIDE_MONEY,
    mixed,
)
from tests.scenarios.comparison import assert_same, normal

TYPES = (*EVERY_TYPE, WIDE_MONEY, WHOLE_MONEY)
#: Three attributes of each type.
COLUMNS = Schema.of((f"{side}{n}", type_) for n, type_ in enumerate(TYPES) for side in "xyz")


def x(type_: pa.DataType, side: str = "x") -> Expression:
    return Ref(Source.INPUT, f"{side}{TYPES.index(type_)}", type_)


def y(type_: pa.DataType) -> Expression:
    return x(type_, "y")


def z(type_: pa.DataType) -> Expression:
    return x(type_, "z")


COMPARED = (BOOLEAN, BIGINT, DOUBLE, STRING, TIMESTAMP, DATE, DURATION, MONEY)
NUMBERS = (BIGINT, DOUBLE, MONEY, DURATION)
PARTS = ("year", "month", "day", "hour", "minute", "second", "dayofweek")
NULL = Literal(None, pa.null())
NULL_TRUTH = Literal(None, BOOLEAN)
ORDERS = ("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe")
#: Functions of the C library are compared by `test_functions_of_the_c_library`.
ELSEWHERE = {c.function for c in CLOSE}

CALLS: list[Call] = [
    *(call(f, x(BIGINT), y(BIGINT), type_=BIGINT) for f in ("add", "sub", "mul")),
    *(call(f, x(BIGINT), y(BIGINT), type_=BIGINT) for f in ("int_div", "mod")),
    *(call(f, x(DOUBLE), y(DOUBLE), type_=DOUBLE) for f in ("add", "sub", "mul", "div", "mod")),
    *(call(f, x(MONEY), y(MONEY), type_=MONEY) for f in ("add", "sub", "mod")),
    *(call(f, x(TIMESTAMP), y(DURATION), type_=TIMESTAMP) for f in ("add", "sub")),
    *(call(f, x(DURATION), y(DURATION), type_=DURATION) for f in ("add", "sub")),
    call("sub", x(TIMESTAMP), y(TIMESTAMP), type_=DURATION),
    *(call(f, x(t), type_=t) for f in ("neg", "abs") for t in NUMBERS),
    *(call("sign", x(t), type_=t) for t in (BIGINT, DOUBLE, MONEY)),
    *(call(f, x(t), y(t)) for f in ORDERS for t in COMPARED),
    *(call(f, x(t), Literal(None, t)) for f in ORDERS for t in COMPARED),
    *(call("in", x(t), y(t), z(t)) for t in COMPARED),
    call("in", x(BIGINT), y(BIGINT), Literal(None, BIGINT)),
    *(call(f, x(BOOLEAN), y(BOOLEAN), z(BOOLEAN)) for f in ("and", "or")),
    *(call(f, x(BOOLEAN), NULL_TRUTH, z(BOOLEAN)) for f in ("and", "or")),
    call("not", x(BOOLEAN)),
    *(call("is_null", x(t)) for t in COMPARED),
    call("is_nan", x(DOUBLE)),
    *(call("case", x(BOOLEAN), x(t), y(BOOLEAN), y(t), z(t), type_=t) for t in COMPARED),
    *(call("case", x(BOOLEAN), NULL, x(t), type_=t) for t in COMPARED),
    *(call("case", NULL_TRUTH, x(t), y(t), type_=t) for t in COMPARED),
    *(
        call(f, x(t), y(t), z(t), type_=t)
        for f in ("coalesce", "greatest", "least")
        for t in COMPARED
    ),
    *(call(f, NULL, x(t), type_=t) for f in ("coalesce", "greatest", "least") for t in COMPARED),
    *(call(f, x(DOUBLE), type_=BIGINT) for f in ("ceil", "floor")),
    *(call("round", x(DOUBLE), Literal(n, BIGINT), type_=DOUBLE) for n in (-2, 0, 3)),
    call("sqrt", x(DOUBLE), type_=DOUBLE),
    call("length", x(STRING), type_=BIGINT),
    *(call(f, x(STRING), y(STRING)) for f in ("contains", "starts_with", "ends_with", "like")),
    *(call(f, x(t), type_=BIGINT) for f in PARTS for t in (TIMESTAMP, DATE)),
]
TARGETS = (BOOLEAN, BIGINT, SMALL_INT, pa.int8(), DOUBLE, SINGLE, MONEY, WIDE_MONEY, WHOLE_MONEY)
#: Decimals of more digits than a double has are not compared as doubles.
WIDE_TO_FLOAT = {(WIDE_MONEY, DOUBLE), (WIDE_MONEY, SINGLE)}
CAST_CALLS = [
    cast
    for source in TYPES
    for target in (*TARGETS, TIMESTAMP, DATE, DURATION)
    if (kind_of(source), kind_of(target)) in CASTS
    if (source, target) not in WIDE_TO_FLOAT
    if not is_vector(cast := call("cast", x(source), type_=target))
]
#: Casts of strings to strings are none.
OF_STRINGS = {(Kind.STRING, Kind.STRING)}
ITEMS = tuple((f"r{n}", c) for n, c in enumerate([*CALLS, *CAST_CALLS]))

#: Predicates one by one: each is a function of its own.
TESTS = [c for c in CALLS if c.type == BOOLEAN]

ROWS = st.lists(st.tuples(*(mixed(a.type) for a in COLUMNS)), min_size=1, max_size=6)


def test_no_function_is_left_out() -> None:
    assert {c.function for c in CALLS} | ELSEWHERE == KERNEL
    cast_kinds = {(kind_of(c.args[0].type), kind_of(c.type)) for c in CAST_CALLS}
    assert cast_kinds == {kinds for kinds in CASTS if kinds not in OF_STRINGS}


@given(ROWS)
def test_computed_columns(rows: list[tuple[Any, ...]]) -> None:
    node = Project(Read("E", COLUMNS, TICKS), ITEMS)
    events = [Event(row, t, t) for t, row in enumerate(rows)]
    (actual,) = results(COLUMNS, rows, [node])
    wanted = evaluate(node, {"E": events})
    for have, want in zip(in_order(actual), in_order(wanted), strict=True):
        for (name, item), left, right in zip(ITEMS, have.values, want.values, strict=True):
            assert normal(left) == normal(right), f"{name}: {item} of {rows[have.end]}"


@given(ROWS)
def test_predicates(rows: list[tuple[Any, ...]]) -> None:
    read = Read("E", COLUMNS, TICKS)
    # Each as it is, and the other way round: neither is true where it is unknown.
    nodes: list[Node] = [Select(read, p) for c in TESTS for p in (c, call("not", c))]
    events = [Event(row, t, t) for t, row in enumerate(rows)]
    for node, actual in zip(nodes, results(COLUMNS, rows, nodes), strict=True):
        assert_same(actual, evaluate(node, {"E": events}), str(node))


def in_order(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda e: e.end)


def test_casts_of_far_dates() -> None:
    """A timestamp has no word for the last days that a date has."""
    dates = Schema.of([("d", DATE)])
    to = call("cast", Ref(Source.INPUT, "d", DATE), type_=TIMESTAMP)
    node = Project(Read("E", dates, TICKS), (("r", to),))
    rows: list[tuple[Any, ...]] = [(d,) for d in (0, 2**31 - 1, -(2**31), 106_751_991, 106_751_992)]
    (actual,) = results(dates, rows, [node])
    wanted = evaluate(node, {"E": [Event(row, t, t) for t, row in enumerate(rows)]})
    assert_same(actual, wanted, "casts of far dates")
