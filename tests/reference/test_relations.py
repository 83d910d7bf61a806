"""Relations by their definitions: what the scenarios in tests/scenarios/cql_*.test do not show."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.algebra.expressions import TRUE, Call, Expression, Literal, Ref, Source
from braid.algebra.nodes import Aggregate, Read, Union
from braid.algebra.queries import Output, Query
from braid.algebra.relations import (
    GroupRows,
    Join,
    KeepRows,
    Relation,
    StreamKind,
    ToStream,
    Window,
    WindowKind,
    windows,
)
from braid.algebra.schema import TICKS, Schema
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING
from braid.reference import Event, Overflow, answer, evaluate, order_key
from braid.reference.groups import group_aggregate
from braid.reference.relations import LAST, rows_at

S = Read("S", Schema.of([("k", STRING), ("v", BIGINT)]), TICKS)
V = Ref(Source.INPUT, "v", BIGINT)
ALL = Window(S, WindowKind.UNBOUNDED)


def point(k: str | None, v: int | None, t: int) -> Event:
    return Event((k, v), t, t)


def rows(size: int, *keys: str, order: str | None = None) -> Window:
    return Window(S, WindowKind.ROWS, Literal(size, BIGINT), keys, order)


def within(size: int) -> Window:
    return Window(S, WindowKind.RANGE, Literal(size, BIGINT))


def run(relation: Relation, kind: StreamKind, events: list[Event]) -> list[tuple[Any, int]]:
    found = evaluate(ToStream(relation, kind), {"S": events})
    assert all(e.start == e.end for e in found)
    return sorted(((e.values, e.end) for e in found), key=lambda pair: (pair[1], str(pair[0])))


def aggregate(function: str, type_: pa.DataType, *, distinct: bool = False) -> Aggregate:
    of = DOUBLE if function == "avg" else type_
    of = BIGINT if function == "count" else of
    return Aggregate("agg_0", function, (Ref(Source.INPUT, "x", type_),), distinct, of)


# --- time ---


def test_an_event_with_an_interval_occurs_at_its_end() -> None:
    events = [Event(("a", 1), 1, 5), Event(("b", 2), 4, 4)]
    assert run(within(2), StreamKind.ISTREAM, events) == [(("b", 2), 4), (("a", 1), 5)]
    assert run(within(2), StreamKind.DSTREAM, events) == [(("b", 2), 7), (("a", 1), 8)]


def test_what_would_leave_after_the_end_of_time_stays() -> None:
    events = [point("a", 1, LAST - 2)]
    assert run(within(1), StreamKind.DSTREAM, events) == [(("a", 1), LAST)]
    assert run(within(2), StreamKind.DSTREAM, events) == []
    assert run(within(2**63 - 1), StreamKind.DSTREAM, events) == []


def test_rstream_speaks_when_an_input_has_an_event() -> None:
    """Also where no row comes of it, but not where rows only leave."""
    join = KeepRows(within(3), Call("gt", (V, Literal(1, BIGINT)), BOOLEAN))
    events = [point("a", 2, 1), point("b", 1, 2)]
    assert run(join, StreamKind.RSTREAM, events) == [(("a", 2), 1), (("a", 2), 2)]


def test_the_sequence_column_orders_equal_times() -> None:
    events = [point("z", 1, 1), point("a", 2, 1), point("m", None, 1)]
    assert run(rows(1, order="v"), StreamKind.ISTREAM, events) == [(("a", 2), 1)]
    assert run(rows(1), StreamKind.ISTREAM, events) == [(("z", 1), 1)]
    assert run(rows(2, order="v"), StreamKind.ISTREAM, events) == [(("a", 2), 1), (("z", 1), 1)]


# --- joins ---


def equality(function: str = "eq") -> Expression:
    sides = (Ref(Source.INPUT, "0.v", BIGINT), Ref(Source.INPUT, "1.v", BIGINT))
    return Call(function, sides, BOOLEAN)


def test_null_joins_nothing() -> None:
    events = [point("a", None, 1), point("b", 7, 1), point("b", 7, 1)]
    assert len(run(Join((ALL, ALL), equality()), StreamKind.ISTREAM, events)) == 4
    assert len(run(Join((ALL, ALL), equality("eq_null_safe")), StreamKind.ISTREAM, events)) == 5
    assert len(run(Join((ALL, ALL), TRUE), StreamKind.ISTREAM, events)) == 9
    assert run(Join((ALL, ALL), Literal(None, BOOLEAN)), StreamKind.ISTREAM, events) == []


# --- aggregates ---


@pytest.mark.parametrize(
    ("function", "values", "distinct", "wanted"),
    [
        ("count", [1.0, None, math.nan], False, 2),
        ("count", [math.nan, math.nan, 0.0, -0.0, None], True, 2),
        ("sum", [], False, None),
        ("sum", [None], False, None),
        ("sum", [0.1] * 10, False, 1.0),  # exact, then rounded once
        ("sum", [1e308, 1e308, -1e308], False, 1e308),  # no overflow on the way
        ("sum", [1e308, 1e308], False, math.inf),
        ("sum", [-1e308, -1e308], False, -math.inf),
        ("sum", [math.inf, 1.0], False, math.inf),
        ("sum", [math.inf, -math.inf], False, math.nan),
        ("sum", [math.nan, 1.0], False, math.nan),
        ("avg", [1.0, None, 2.0], False, 1.5),
        ("avg", [math.nan], False, math.nan),
        ("min", [math.nan, None, 2.0], False, 2.0),
        ("max", [math.nan, 2.0], False, math.nan),
        ("max", [], False, None),
    ],
)
def test_floats(
    function: str, values: list[float | None], distinct: bool, wanted: float | None
) -> None:
    found = group_aggregate(aggregate(function, DOUBLE, distinct=distinct), [(v,) for v in values])
    assert order_key(found) == order_key(wanted)


def test_exact_numbers() -> None:
    big = 2**62
    assert group_aggregate(aggregate("sum", BIGINT), [(big,), (big,), (-big,)]) == big
    assert group_aggregate(aggregate("avg", BIGINT), [(big,), (1,)]) == float(big + 1) / 2
    cents = pa.decimal128(10, 2)
    rows_ = [(Decimal("0.10"),), (Decimal("99999999.99"),), (None,)]
    assert group_aggregate(aggregate("sum", cents), rows_) == Decimal("100000000.09")
    assert group_aggregate(aggregate("avg", cents), rows_) == 100000000.09 / 2


@pytest.mark.parametrize("function", ["sum", "avg"])
def test_a_sum_that_does_not_fit_is_an_error(function: str) -> None:
    with pytest.raises(Overflow):
        group_aggregate(aggregate(function, BIGINT), [(2**62,), (2**62,)])
    wide = pa.decimal128(18, 2)
    with pytest.raises(Overflow):
        group_aggregate(aggregate(function, wide), [(Decimal("9999999999999999.99"),)] * 2)


def total(window: Window) -> ToStream:
    made = GroupRows(window, (), (Aggregate("agg_0", "sum", (V,), False, BIGINT),))
    return ToStream(made, StreamKind.ISTREAM)


def test_a_query_ends_where_its_sum_overflows() -> None:
    """The others go on; who reads what it publishes has what came before."""
    events = [point("a", 2**62, t) for t in (1, 5, 9, 10)] + [point("b", 1, 20)]
    summed = Query("sums", "", (Output(total(within(3)), "Sums"),))
    reader = Query("reader", "", (Output(Read("Sums", total(ALL).schema, TICKS), None),))
    other = Query("other", "", (Output(total(rows(1)), None),))
    with pytest.raises(Overflow, match="at 10"):
        answer([summed], {"S": events})
    failures: dict[tuple[str, str | None], Overflow] = {}
    found = answer([reader, summed, other], {"S": events}, failures=failures)
    assert {key: error.instant for key, error in failures.items()} == {("sums", "Sums"): 10}
    # At 5 and at 9 one leaves as an equal one comes.
    assert [(e.values, e.end) for e in found["sums", "Sums"]] == [((2**62,), 1)]
    assert found["reader", None] == found["sums", "Sums"]
    assert [e.end for e in found["other", None]] == [1, 20]


def test_what_reads_a_sum_in_its_own_query_ends_with_it() -> None:
    events = [point("a", 2**62, t) for t in (1, 2)] + [point("b", 1, 20)]
    sums = Output(total(within(3)), "Sums")
    counts = Output(ToStream(within(3), StreamKind.ISTREAM), "Rows")
    both = Union(Read("Sums", total(ALL).schema, TICKS), Read("More", total(ALL).schema, TICKS))
    more = Output(total(rows(1)), "More")
    failures: dict[tuple[str, str | None], Overflow] = {}
    query = Query("q", "", (sums, counts, more, Output(both, None)))
    found = answer([query], {"S": events}, failures=failures)
    assert {name: error.instant for (_, name), error in failures.items()} == {"Sums": 2, None: 2}
    assert {name: [e.end for e in ended] for (_, name), ended in found.items()} == {
        "Sums": [1],
        "Rows": [1, 2, 20],
        "More": [1, 20],
        None: [1, 1],
    }


# --- Istream and Dstream say all that happens ---


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    keys, values = st.sampled_from(["a", "b", None]), st.sampled_from([0, 1, None])
    count = draw(st.integers(0, 8))
    return [point(draw(keys), draw(values), draw(st.integers(0, 9))) for _ in range(count)]


RELATIONS = [
    ALL,
    within(0),
    within(2),
    Window(S, WindowKind.NOW),
    rows(2),
    rows(1, "k"),
    rows(2, "k", order="v"),
    Join((within(1), rows(1, "k")), equality()),
    GroupRows(
        within(2),
        (Ref(Source.INPUT, "k", STRING),),
        (Aggregate("agg_0", "sum", (V,), False, BIGINT),),
    ),
]


@pytest.mark.parametrize("relation", RELATIONS)
@given(events=streams())
def test_a_relation_is_what_came_less_what_went(relation: Relation, events: list[Event]) -> None:
    came = run(relation, StreamKind.ISTREAM, events)
    went = run(relation, StreamKind.DSTREAM, events)
    contents = {id(window): events for window in windows(relation)}
    for instant in range(-1, 14):
        now = Counter(order_key(row) for row, at in came if at <= instant)
        gone = Counter(order_key(row) for row, at in went if at <= instant)
        assert not gone - now  # nothing is deleted that was never inserted
        assert now - gone == Counter(map(order_key, rows_at(relation, instant, contents, {})))
