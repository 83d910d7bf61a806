"""Constants that follow from others have the values of the reference, and queries with them its answers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

from braid.algebra.expressions import Call, Expression, Literal, Parameter, Ref, transform
from braid.algebra.nodes import Project, Read
from braid.algebra.queries import Query
from braid.algebra.schema import TICKS, Schema
from braid.algebra.streams import Stream
from braid.algebra.types import BIGINT, DOUBLE, STRING
from braid.lang import Catalog
from braid.lang.catalog.prepared import prepare
from braid.operators.core.constant_folding import folded, is_foldable
from braid.reference import Event, evaluate
from braid.reference.tables import to_array
from tests.properties.expressions import Draw, expressions
from tests.properties.law import check, feeds
from tests.properties.plans import Workload, events
from tests.properties.test_expressions import COLUMNS, INPUT, rows_of
from tests.properties.values import EVERY_TYPE
from tests.scenarios.comparison import assert_same


def with_parameters(expression: Expression) -> Expression:
    """The same with a parameter for each attribute."""

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Ref):
            return None
        return Parameter(COLUMNS.names.index(part.name), part.type)

    return transform(expression, change)


def values_of(array: pa.Array, type_: pa.DataType) -> list[Any]:
    numbers = pa.types.is_temporal(type_)
    if numbers:
        array = array.cast(pa.int32() if pa.types.is_date(type_) else pa.int64())
    return array.to_pylist()


@given(st.data())
def test_folded_constants_have_the_values_of_the_reference(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(EVERY_TYPE))
    drawn = data.draw(expressions(type_, INPUT, 3, vector=data.draw(st.booleans())))
    rows = data.draw(rows_of(COLUMNS))
    note(f"{drawn}\n{rows}")
    constant = with_parameters(drawn)
    if not is_foldable(constant):
        return
    columns = [to_array([row[i] for row in rows], a.type) for i, a in enumerate(COLUMNS)]
    found = values_of(folded(constant, columns, len(rows)), type_)
    events = [Event(row, t, t) for t, row in enumerate(rows)]
    wanted = evaluate(Project(Read("E", COLUMNS, TICKS), (("r", drawn),)), {"E": events})
    made = [Event((value,), t, t) for t, value in enumerate(found)]
    assert_same(made, wanted, "folded")


def sum_of(left: int, right: int) -> list[Any]:
    numbers = Literal(left, BIGINT), Literal(right, BIGINT)
    call = Call("add", numbers, BIGINT)
    assert is_foldable(call)
    return folded(call, (), 1).to_pylist()


def test_literals_alone_are_folded() -> None:
    assert sum_of(2**62, 1) == [2**62 + 1]
    assert sum_of(2**62, 2**62) == [None]


# ---- queries ----

NAMES = ("A", "B")
ATTRIBUTES = Schema.of([("k", BIGINT), ("x", BIGINT), ("y", DOUBLE), ("s", STRING)])
STREAMS = {
    name: Stream(
        name,
        Schema.of([*((a.name, a.type) for a in ATTRIBUTES), ("t0", BIGINT), ("t1", BIGINT)]),
        ("t0", "t1"),
    )
    for name in NAMES
}
#: Bounds that follow from the parameters, among them some that are NULL for some members.
WHOLE = (
    ":lo + :w", ":lo - :w", ":lo * :w", "-:lo", "abs(:lo - :w)", ":lo DIV :w", ":lo % :w",
    "greatest(:lo, :w)", "CASE WHEN :w > 1 THEN :lo ELSE :w END", "2 * 3 - :w", "ceil(:f)",
    "CAST(:f * 2.0 AS BIGINT)", "coalesce(:lo DIV :w, 2)",
)  # fmt: skip
REAL = (":f * 2.0", ":lo / :w", ":f + :lo", "round(:f, 0)", "sqrt(:f)", "CAST(:lo AS DOUBLE)")
TEXTS = (
    "SELECT * FROM FILTER{{x >= :lo AND x <= {n}}}(A)",
    "SELECT * FROM FILTER{{y < {r} OR x = {n}}}(A)",
    "SELECT k, x + {n} AS more FROM FILTER{{x IN ({m}, {n})}}(A)",
    "SELECT * FROM FILTER{{x + :lo > k OR x + {n} > k OR x + :w > k}}(A)",
    "SELECT * FROM A NEXT{{$2.x <> :lo AND $2.x <> :w AND ($2.k = :w OR $2.k = :lo)}} B",
    "SELECT * FROM A NEXT{{$2.k = $1.k AND $2.x >= {n} AND DUR <= {m}}} B",
    "SELECT * FROM A NEXT{{$2.x > $1.x + {n}}} B",
    "SELECT * FROM FILTER{{y > {r}}}(A NEXT{{$2.x <> {n} AND DUR <= 5}} B)",
    "SELECT * FROM A FOLD{{$2.k = $1.k AND DUR < {n}, $2.y > {r}, }} A",
    "SELECT * FROM FILTER{{x = {n}}}(A) UNION FILTER{{x = {m}}}(B)",
    (
        "SELECT A.x AS x, B.s AS s FROM A [Range 4], B [Range :w]"
        " WHERE A.k = B.k AND A.x <= {n} AND B.x >= {m} AND A.y < {r}"
    ),
    "SELECT A.x AS x, B.x AS z FROM A [Range 4], B [Range 3] WHERE A.k = B.k AND A.x + {n} > B.x",
    (
        "SELECT k, count(*) AS n, sum(x * {n}) AS z FROM A [Range 3] WHERE x < {m} GROUP BY k"
        " HAVING count(*) > {n}"
    ),
)


@st.composite
def workloads(draw: Draw) -> Workload:
    catalog = Catalog()
    for stream in STREAMS.values():
        catalog.add_stream(stream)
    queries: list[Query] = []
    shapes = draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3))
    for number, shape in enumerate(shapes):
        n, m = (draw(st.sampled_from(WHOLE)) for _ in range(2))
        text = shape.format(n=n, m=m, r=draw(st.sampled_from(REAL)))
        used = [p for p in ("lo", "w", "f") if f":{p}" in text]
        declared = ", ".join(f"{p} {PARAMETERS[p][0]}" for p in used)
        text = f"CREATE QUERY q{number} FOR EACH ({declared}) AS {text}"
        rows = {p: draw(st.lists(PARAMETERS[p][1], min_size=3, max_size=3)) for p in used}
        note(f"{text}\n{rows}")
        members = prepare(text, rows, catalog).members
        for id, values in zip(members.ids.to_pylist(), members.rows(), strict=True):
            queries.append(Query.of(id, "", members.template, values))
    sent = {name: draw(events(ATTRIBUTES, 3, 10)) for name in NAMES}
    return Workload(STREAMS, sent, tuple(queries))


#: Types, and values: small ones, and some whose sums do not fit or whose keys are not exact.
PARAMETERS = {
    "lo": ("BIGINT", st.sampled_from([0, 1, 1, 2, 3, -1, 2**62, 2**63 - 1, -(2**63)])),
    "w": ("BIGINT", st.sampled_from([0, 1, 2, 3, 2**62])),
    "f": ("DOUBLE", st.sampled_from([0.0, 0.5, 1.0, 2.5, -1.0, 1e300])),
}


@given(st.data())
def test_queries_with_computed_constants(data: st.DataObject) -> None:
    workload = data.draw(workloads())
    check(workload, data.draw(feeds(workload)))
