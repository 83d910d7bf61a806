"""Compiled expressions compute what the reference computes, row by row."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import example, given, note
from hypothesis import strategies as st

from braid.algebra.expressions import TRUE, Call, Expression, Literal, Ref, Source
from braid.algebra.nodes import Node, Project, Read, Select
from braid.algebra.queries import Output, Query
from braid.algebra.schema import TICKS, Schema
from braid.algebra.streams import Stream
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING
from braid.reference import Event, evaluate
from tests.properties.expressions import Draw, call, expressions
from tests.properties.law import Feed, run
from tests.properties.plans import Workload
from tests.properties.values import EVERY_TYPE, mixed
from tests.scenarios.comparison import assert_same

COLUMNS = Schema.of((f"c{i}", type_) for i, type_ in enumerate(EVERY_TYPE))
PAIR = Schema.of([("p", DOUBLE), ("q", DOUBLE)])
INPUT = {Source.INPUT: COLUMNS}


def workload_of(schema: Schema, rows: list[tuple[Any, ...]], nodes: list[Any]) -> Workload:
    """Rows one tick apart, and one query for each node."""
    columns = [(a.name, a.type) for a in schema]
    stream = Stream("E", Schema.of([*columns, ("t", BIGINT)]), ("t",))
    events = [Event(row, t, t) for t, row in enumerate(rows)]
    queries = tuple(Query(f"q{i}", "", (Output(n, None),)) for i, n in enumerate(nodes))
    return Workload({"E": stream}, {"E": events}, queries)


def results(schema: Schema, rows: list[tuple[Any, ...]], nodes: list[Node]) -> list[list[Event]]:
    workload = workload_of(schema, rows, nodes)
    arrivals = tuple(("E", event) for event in workload.events["E"])
    found = run(workload, Feed((arrivals,))).results
    return [found.get((query.id, None), []) for query in workload.queries]


def rows_of(schema: Schema) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    return st.lists(st.tuples(*(mixed(a.type) for a in schema)), min_size=1, max_size=8)


@st.composite
def items(draw: Draw) -> tuple[tuple[str, Expression], ...]:
    types = draw(st.lists(st.sampled_from(EVERY_TYPE), min_size=1, max_size=3))
    return tuple((f"r{i}", draw(expressions(t, INPUT, 2))) for i, t in enumerate(types))


@given(items(), rows_of(COLUMNS))
def test_projection(computed: tuple[tuple[str, Expression], ...], rows: list[Any]) -> None:
    read = Read("E", COLUMNS, TICKS)
    node = Project(read, computed)
    note(str(node.items))
    events = [Event(row, t, t) for t, row in enumerate(rows)]
    (actual,) = results(COLUMNS, rows, [node])
    assert_same(actual, evaluate(node, {"E": events}), "projection")


@given(expressions(BOOLEAN, INPUT, 3), rows_of(COLUMNS))
def test_selection(predicate: Expression, rows: list[Any]) -> None:
    node = Select(Read("E", COLUMNS, TICKS), predicate)
    note(str(predicate))
    events = [Event(row, t, t) for t, row in enumerate(rows)]
    (actual,) = results(COLUMNS, rows, [node])
    assert_same(actual, evaluate(node, {"E": events}), "selection")


def p() -> Ref:
    return Ref(Source.INPUT, "p", DOUBLE)


def q() -> Ref:
    return Ref(Source.INPUT, "q", DOUBLE)


ROUNDED = [call("round", p(), Literal(d, BIGINT), type_=DOUBLE) for d in (0, 2, -1)]
EXACT: list[Call] = [
    *(call(f, p(), q(), type_=DOUBLE) for f in ("add", "sub", "mul", "div", "mod")),
    *(call(f, p(), type_=DOUBLE) for f in ("neg", "abs", "sign", "sqrt")),
    *(call(f, p(), type_=BIGINT) for f in ("ceil", "floor", "cast")),
    *(call(f, p(), q()) for f in ("eq", "lt", "le", "ne", "gt", "ge", "eq_null_safe")),
    call("cast", p(), type_=STRING),
    call("cast", p(), type_=pa.int32()),
    call("cast", p(), type_=pa.float32()),
    call("cast", p(), type_=pa.decimal128(12, 3)),
    *ROUNDED,
]
CLOSE: list[Call] = [
    *(call(f, p(), type_=DOUBLE) for f in ("exp", "ln", "log10", "log2")),
    call("pow", p(), q(), type_=DOUBLE),
]


@given(st.lists(st.tuples(st.floats(), st.floats()), min_size=1, max_size=20))
@example([(0.49999999999999994, 0.0)])  # adding one half rounds up to one
@example([(4503599627370497.0, 1.0)])  # and here to the next even number
@example([(-0.5, 1.0), (2.5, 1.0), (-2.5, 1.0), (15.0, 1.0), (-25.0, 1.0)])
@example([(9223372036854775807.0, 1.0), (-9223372036854775808.0, 1.0)])
@example([(2147483647.5, 1.0), (2147483648.0, 1.0), (-2147483648.9, 1.0)])
@example([(1.0, 0.0), (1.0, -0.0), (math.nan, 0.0), (math.inf, 2.0), (5.5, math.inf)])
@example([(-0.0, 0.0), (5e-324, 1e-320), (1.7976931348623157e308, 10.0)])
@example([(1e7, 1.0), (9999999.999, 1.0), (0.001, 1.0), (0.0009999, 1.0), (1.0, 1.0)])
def test_functions_of_doubles(rows: list[tuple[float, float]]) -> None:
    nodes: list[Node] = [Project(Read("E", PAIR, TICKS), (("r", e),)) for e in EXACT]
    events = [Event(row, t, t) for t, row in enumerate(rows)]
    for expression, node, actual in zip(EXACT, nodes, results(PAIR, rows, nodes), strict=True):
        assert_same(actual, evaluate(node, {"E": events}), str(expression))


@given(st.lists(st.tuples(st.floats(), st.floats()), min_size=1, max_size=20))
@example([(1.0, math.nan), (math.nan, 0.0), (0.0, -1.0), (-0.0, -1.0), (-8.0, 1 / 3)])
@example([(0.0, 0.0), (-1.0, math.inf), (1e300, 2.0), (-1e300, 3.0), (710.0, 0.0)])
def test_functions_of_the_c_library(rows: list[tuple[float, float]]) -> None:
    """Libraries may differ in the last digit: everything but that must agree."""
    nodes: list[Node] = [Project(Read("E", PAIR, TICKS), (("r", e),)) for e in CLOSE]
    events = [Event(row, t, t) for t, row in enumerate(rows)]
    for expression, node, actual in zip(CLOSE, nodes, results(PAIR, rows, nodes), strict=True):
        wanted = {e.end: e.values[0] for e in evaluate(node, {"E": events})}
        for event in actual:
            assert close(event.values[0], wanted[event.end]), (expression, rows[event.end])
        assert len(actual) == len(rows)


def close(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return math.isclose(left, right, rel_tol=1e-14)


FLAGS = Schema.of([("f", BOOLEAN)])


def test_casts_of_booleans() -> None:
    """Found by `test_selection`: the compiler has no conversion from a boolean to a float."""
    read, flag = Read("E", FLAGS, TICKS), Ref(Source.INPUT, "f", BOOLEAN)
    targets = (DOUBLE, BIGINT, STRING, pa.decimal128(9, 2))
    computed = [call("cast", of, type_=t) for of in (flag, TRUE) for t in targets]
    node = Project(read, tuple((f"r{i}", e) for i, e in enumerate(computed)))
    rows: list[tuple[Any, ...]] = [(True,), (False,), (None,)]
    (actual,) = results(FLAGS, rows, [node])
    wanted = evaluate(node, {"E": [Event(row, t, t) for t, row in enumerate(rows)]})
    assert_same(actual, wanted, "casts of booleans")


INTEGERS = Schema.of([("m", BIGINT), ("n", BIGINT)])
INTEGER_FUNCTIONS: list[Call] = [
    *(
        call(f, Ref(Source.INPUT, "m", BIGINT), Ref(Source.INPUT, "n", BIGINT), type_=BIGINT)
        for f in ("add", "sub", "mul", "int_div", "mod", "greatest", "least")
    ),
    *(call(f, Ref(Source.INPUT, "m", BIGINT), type_=BIGINT) for f in ("neg", "abs", "sign")),
    call("cast", Ref(Source.INPUT, "m", BIGINT), type_=pa.int32()),
    call("cast", Ref(Source.INPUT, "m", BIGINT), type_=pa.decimal128(12, 2)),
]


@given(st.lists(st.tuples(mixed(BIGINT), mixed(BIGINT)), min_size=1, max_size=20))
@example([(-(2**63), -1), (-(2**63), 1), (7, -2), (-7, 2), (-7, -2), (1, 0)])
@example([(2**62, 2), (-(2**62), 2), (2**32, 2**31), (-(2**32), 2**31), (2**63 - 1, 1)])
def test_functions_of_integers(rows: list[tuple[int | None, int | None]]) -> None:
    read = Read("E", INTEGERS, TICKS)
    nodes: list[Node] = [Project(read, (("r", e),)) for e in INTEGER_FUNCTIONS]
    events = [Event(row, t, t) for t, row in enumerate(rows)]
    found = results(INTEGERS, rows, nodes)
    for expression, node, actual in zip(INTEGER_FUNCTIONS, nodes, found, strict=True):
        assert_same(actual, evaluate(node, {"E": events}), str(expression))
