"""The operators on single events: what the scenarios do not show one by one."""

from __future__ import annotations

import math

import pytest

from braid.algebra.expressions import TRUE, Call, Duration, Literal, Ref, Source
from braid.algebra.nodes import Aggregate, Iterate, Project, Read, SameTime, Select, Union
from braid.algebra.nodes import Sequence as SequenceNode
from braid.algebra.queries import Output, Query
from braid.algebra.schema import TICKS, Schema
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING
from braid.reference import Event, TooMany, answer, evaluate
from tests.scenarios.comparison import assert_same

S = Read("S", Schema.of([("k", STRING), ("v", BIGINT)]), TICKS)


def point(k: str | None, v: int | None, t: int) -> Event:
    return Event((k, v), t, t)


def ref(source: Source, name: str) -> Ref:
    return Ref(source, name, S.schema.type_of(name))


def test_select_keeps_what_is_true() -> None:
    node = Select(S, Call("gt", (ref(Source.INPUT, "v"), Literal(1, BIGINT)), BOOLEAN))
    events = [point("a", 1, 1), point("b", 2, 2), point("c", None, 3)]
    assert evaluate(node, {"S": events}) == [events[1]]


def test_project_keeps_the_interval() -> None:
    node = Project(S, (("d", Duration(BIGINT)), ("v", ref(Source.INPUT, "v"))))
    assert evaluate(node, {"S": [Event(("a", 7), 2, 5)]}) == [Event((3, 7), 2, 5)]


def test_union_keeps_duplicates() -> None:
    event = point("a", 1, 1)
    assert evaluate(Union(S, S), {"S": [event]}) == [event, event]


def test_sequence_needs_a_later_start() -> None:
    node = SequenceNode(S, S, TRUE, ("a", "b", "c", "d"))
    events = [Event(("a", 1), 1, 4), Event(("b", 2), 4, 6), Event(("c", 3), 5, 7)]
    assert_same(
        evaluate(node, {"S": events}),
        [Event(("a", 1, "c", 3), 1, 7)],
        "an event that starts when the first one ends overlaps it",
    )


def test_iteration_output_has_first_last_and_aggregates() -> None:
    start = Project(
        S, (("k", ref(Source.INPUT, "k")), ("v", ref(Source.INPUT, "v")), ("n", Literal(0, BIGINT)))
    )
    last_n = Ref(Source.LAST, "n", BIGINT)
    both = Call("add", (ref(Source.LAST, "v"), ref(Source.SECOND, "v")), BIGINT)
    node = Iterate(
        start,
        S,
        TRUE,
        TRUE,
        (
            ("n", Call("add", (last_n, Literal(1, BIGINT)), BIGINT)),
            ("v", both),
            ("fresh", ref(Source.LAST, "v")),
        ),
    )
    assert node.schema.names == ("k_1", "v_1", "n", "k", "v", "fresh")
    events = [point("a", 1, 1), point("b", 10, 2), point("c", 100, 3)]
    # From a: v is 1, then 1 + 10, then 11 + 100; `fresh` is what v was before.
    assert_same(
        evaluate(node, {"S": events}),
        [
            Event(("a", 1, 1, "b", 11, 1), 1, 2),
            Event(("a", 1, 2, "c", 111, 11), 1, 3),
            Event(("b", 10, 1, "c", 110, 10), 2, 3),
        ],
        "iteration",
    )


def test_iteration_multiplies_over_simultaneous_events() -> None:
    node = Iterate(S, S, TRUE, TRUE, ())
    events = [point("a", i, t) for t in range(12) for i in range(3)]
    with pytest.raises(TooMany):
        evaluate(node, {"S": events}, limit=1000)


@pytest.mark.parametrize(
    ("function", "values", "distinct", "wanted"),
    [
        ("count", [1.0, None, 1.0], False, 2),
        ("count", [1.0, math.nan, math.nan, 0.0, -0.0], True, 3),
        ("sum", [1e16, 1.0, -1e16], False, 0.0),  # ascending: -1e16 + 1 + 1e16
        ("sum", [0.5, 0.5], True, 0.5),
        ("sum", [None], False, None),
        ("avg", [1.0, 2.0], False, 1.5),
        ("min", [math.nan, 2.0], False, 2.0),
        ("max", [math.nan, 2.0], False, math.nan),
    ],
)
def test_aggregates(
    function: str, values: list[float | None], distinct: bool, wanted: float | None
) -> None:
    read = Read("X", Schema.of([("x", DOUBLE)]), TICKS)
    type_ = BIGINT if function == "count" else DOUBLE
    x = Ref(Source.INPUT, "x", DOUBLE)
    node = SameTime(read, (Aggregate("r", function, (x,), distinct, type_),))
    events = [Event((v,), 0, 1) for v in values]
    assert_same(evaluate(node, {"X": events}), [Event((wanted,), 1, 1)], function)


def test_integer_sums_are_exact_until_the_end() -> None:
    v = ref(Source.INPUT, "v")
    node = SameTime(S, (Aggregate("r", "sum", (v,), False, BIGINT),))
    fits = [point("a", 2**63 - 1, 1), point("b", 5, 1), point("c", -5, 1)]
    assert evaluate(node, {"S": fits}) == [Event((2**63 - 1,), 1, 1)]
    assert evaluate(node, {"S": fits[:2]}) == [Event((None,), 1, 1)]


def test_arg_max_ties_go_to_the_smallest_event() -> None:
    k, v = ref(Source.INPUT, "k"), ref(Source.INPUT, "v")
    node = SameTime(S, (Aggregate("r", "max_by", (k, v), False, STRING),))
    events = [point("b", 2, 1), point("a", 2, 1), point("c", 1, 1), point("0", None, 1)]
    assert evaluate(node, {"S": events}) == [Event(("a",), 1, 1)]
    assert evaluate(node, {"S": [*events, point(None, 2, 1)]}) == [Event((None,), 1, 1)]


def test_answers_follow_what_is_published() -> None:
    """A query may read what a later one publishes, and what is nested in another."""
    big = Select(S, Call("gt", (ref(Source.INPUT, "v"), Literal(1, BIGINT)), BOOLEAN))
    reader = Query("reader", "", (Output(Read("Big", S.schema, TICKS), None),))
    writer = Query("writer", "", (Output(big, "Big"), Output(Union(S, S), "Twice")))
    events = [point("a", 1, 1), point("b", 2, 2)]
    found = answer([reader, writer], {"S": events})
    assert found["reader", None] == found["writer", "Big"] == [events[1]]
    assert len(found["writer", "Twice"]) == 4
