"""Windows of one stream with different columns, groups by different keys: one buffer, or many."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from braid.algebra.expressions import Ref, Source
from braid.algebra.nodes import Aggregate, Node, Read, Select
from braid.algebra.queries import Output, Query
from braid.algebra.relations import GroupRows, KeepRows, MapRows, Relation, ToStream, aggregate_name
from braid.algebra.schema import TICKS
from braid.algebra.types import BIGINT, DOUBLE
from braid.optimizer.rules import NAMES
from tests.properties.expressions import Draw, predicates
from tests.properties.law import Feed, check, feeds, stay
from tests.properties.plans import SCHEMAS, Workload, events, stream_named
from tests.properties.relations import KINDS, rows_test, window
from tests.properties.test_live import come_and_go

RULES = (
    frozenset(NAMES),
    frozenset({"s_grouping"}),
    frozenset({"s_buffer"}),
    frozenset(NAMES) - {"s_buffer"},
    frozenset(NAMES) - {"s_grouping"},
    frozenset(NAMES) - {"s_sigma", "c_sigma"},
)


def _aggregate(draw: Draw, number: int) -> Aggregate:
    """Of columns as they are: sums that do not fit are tested by themselves."""
    name = aggregate_name(number)
    function = draw(st.sampled_from(["count", "sum", "avg", "min", "max", "count of"]))
    if function == "count":
        return Aggregate(name, "count", (), False, BIGINT)
    if function in ("sum", "avg"):
        return Aggregate(name, function, (Ref(Source.INPUT, "x", DOUBLE),), False, DOUBLE)
    column = draw(st.sampled_from(list(SCHEMAS["S"])))
    value = Ref(Source.INPUT, column.name, column.type)
    if function == "count of":
        return Aggregate(name, "count", (value,), draw(st.booleans()), BIGINT)
    return Aggregate(name, function, (value,), False, column.type)


def _relation(draw: Draw, stream: Node) -> Node:
    """A group mostly, or rows with some columns."""
    below: Relation = window(draw, stream)
    if draw(st.booleans()):
        below = KeepRows(below, rows_test(draw, below.schema))
    if not draw(st.integers(0, 2)):
        names = draw(st.sampled_from([("k",), ("x", "n"), ("n", "k")]))
        items = tuple((n, Ref(Source.INPUT, n, below.schema.type_of(n))) for n in names)
        rows = MapRows(below, items)
        return ToStream(rows, draw(st.sampled_from(KINDS)))
    keys = draw(st.sets(st.sampled_from(["k", "x", "n"]), max_size=3))
    types = SCHEMAS["S"]
    count = draw(st.integers(0 if keys else 1, 2))
    group = GroupRows(
        below,
        tuple(Ref(Source.INPUT, key, types.type_of(key)) for key in sorted(keys)),
        tuple(_aggregate(draw, number) for number in range(count)),
    )
    return ToStream(group, draw(st.sampled_from(KINDS)))


@st.composite
def workloads(draw: Draw) -> Workload:
    stream = stream_named("S", TICKS, 0)
    read: Node = Read("S", SCHEMAS["S"], TICKS)
    if not draw(st.integers(0, 3)):
        read = Select(read, draw(predicates({Source.INPUT: read.schema}, TICKS)))
    queries = tuple(
        Query(f"q{number}", "", (Output(_relation(draw, read), None),))
        for number in range(draw(st.integers(2, 4)))
    )
    return Workload({"S": stream}, {"S": draw(events(SCHEMAS["S"]))}, queries)


@given(st.data())
@settings(settings.get_profile("few"))
def test_one_buffer(data: st.DataObject) -> None:
    workload = data.draw(workloads())
    feed: Feed = data.draw(feeds(workload))
    check(workload, replace(feed, rules=data.draw(st.sampled_from(RULES))))


@given(st.data())
@settings(settings.get_profile("few"))
def test_what_shares_a_buffer_comes_and_goes(data: st.DataObject) -> None:
    come_and_go(data, data.draw(workloads()))


@given(st.data())
@settings(settings.get_profile("few"))
def test_a_restart_without_some_needs_fewer_columns(data: st.DataObject) -> None:
    """Those that stay find what was held, whatever else was held with it."""
    workload = data.draw(workloads())
    gone = data.draw(st.integers(0, len(workload.queries) - 1))
    stay(data, workload, [q for number, q in enumerate(workload.queries) if number != gone])
