"""The watch of a declared constraint tells what the definition says, and when: no sooner, no more.

Streams are drawn with few values and many events of one instant, cut into batches anywhere, with a
restart in between. Of REFERENCES the first partner of a value counts; the reference says it of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.algebra.constraints import Constraint, ConstraintKind
from braid.algebra.schema import Schema
from braid.jit.runtime import float_word
from braid.operators.constraint_join import declared_logic as constraint_declared
from braid.operators.constraint_join.declared_logic import DeclaredWatchLogic
from braid.operators.constraint_join.declared_spec import DeclaredWatchSpec
from braid.operators.constraint_join.watch.report import Broken
from braid.operators.core.base import Context
from braid.operators.core.batch import Batch
from braid.plan.specs import Shape
from braid.reference.constraints import BROKEN, Arrival, Counterexample, counterexample

SHAPE = Shape(Schema.of([("a", pa.int64()), ("b", pa.int64())]))
FLOATS = Shape(Schema.of([("a", pa.float64()), ("b", pa.int64())]))

#: Time, a, b; None is NULL.
Row = tuple[int, int | None, int | None]


def constraint(kind: ConstraintKind, k: int, timed: bool, both: bool) -> Constraint:
    names = ("a", "b") if both else ("a",)
    if kind in (ConstraintKind.ASCENDING, ConstraintKind.DESCENDING):
        names = ("a",)
    if kind is ConstraintKind.REFERENCES:
        return Constraint("c", kind, "S", names, "T", names, k, timed)
    return Constraint("c", kind, "S", names, k=k, timed=timed)


def rows_of(events: Sequence[Row], floating: bool) -> Batch:
    rows = np.zeros((len(events), SHAPE.layout.width), np.int64)
    for row, (time, a, b) in zip(rows, events, strict=True):
        row[:2] = time
        row[2] = (a is None) + 2 * (b is None)
        row[3] = 0 if a is None else float_word(a / 2) if floating else a
        row[4] = b or 0
    return Batch(rows)


def told(
    declared: Constraint, own: Sequence[Row], others: Sequence[Row], cuts: Sequence[int], **how: Any
) -> Broken | None:
    """What is told of streams that come in batches which end at these instants."""
    restart, floating = how.get("restart"), how.get("floating", False)
    shape = FLOATS if floating else SHAPE
    inputs = (shape, shape) if declared.target else (shape,)
    context = Context()
    logic, start = DeclaredWatchLogic(DeclaredWatchSpec(inputs, declared), context), -1
    found = []
    for number, end in enumerate((*sorted(cuts), 1 << 40)):
        parts = [[row for row in rows if start < row[0] <= end] for rows in (own, others)]
        batches = [rows_of(part, floating) for part in parts]
        logic.on_batch(batches[: len(inputs)], end)
        news = logic.news()
        if news is not None:
            assert news[1] is None
            found.append(news[0])
        if number == restart:
            again = DeclaredWatchLogic(DeclaredWatchSpec(inputs, declared), context)
            again.restore(logic.snapshot())
            logic = again
        start = end
    assert len(found) <= 1
    return found[0] if found else None


def arrivals(own: Sequence[Row], others: Sequence[Row]) -> list[Arrival]:
    """In the order of time; of one instant the others first."""
    came = [Arrival("T", t, {"a": a, "b": b}) for t, a, b in others]
    came += [Arrival("S", t, {"a": a, "b": b}) for t, a, b in own]
    return sorted(came, key=lambda arrival: arrival.time)


def first_partner(declared: Constraint, came: Sequence[Arrival]) -> Counterexample | None:
    """Of REFERENCES: the first event that comes too late for one that has waited since before any
    partner came."""
    waiting: dict[tuple[Any, ...], tuple[Arrival, int] | None] = {}
    count = 0
    for arrival in came:
        key = tuple(arrival.values[name] for name in declared.attributes)
        count += arrival.stream == "T"
        if None in key:
            continue
        if arrival.stream == "S":
            waiting.setdefault(key, (arrival, count))
            continue
        first = waiting.get(key)
        waiting[key] = None
        if first is not None:
            distance = arrival.time - first[0].time if declared.timed else count - first[1]
            if distance > declared.k:
                return Counterexample(first[0], arrival, distance)
    return None


def expected(
    declared: Constraint, own: Sequence[Row], others: Sequence[Row]
) -> tuple[int, int, int | None] | None:
    """The number of the event that breaks it, when it came, by how much it misses it."""
    came = arrivals(own, others)
    found = counterexample(declared, came)
    if declared.kind is ConstraintKind.REFERENCES:
        first = first_partner(declared, came)
        assert first is None or found is not None, "what is told is true by the definition"
        found = first
    if found is None:
        return None
    same = [a for a in came if a.stream == found.second.stream]
    number = 1 + next(n for n, a in enumerate(same) if a is found.second)
    return number, found.second.time, None if found.distance == BROKEN else found.distance


value = st.none() | st.integers(0, 4) | st.integers(0, 4)
streams = st.lists(st.tuples(st.integers(0, 20), value, value), max_size=24).map(
    lambda rows: sorted(rows, key=lambda row: row[0])
)


@given(
    st.sampled_from(list(ConstraintKind)),
    st.integers(0, 5),
    st.booleans(),
    st.booleans(),
    streams,
    streams,
    st.lists(st.integers(0, 20), max_size=4),
    st.integers(-1, 4),
    st.booleans(),
)
def test_what_breaks_a_constraint_is_told_and_nothing_else(
    kind: ConstraintKind,
    k: int,
    timed: bool,
    both: bool,
    own: list[Row],
    others: list[Row],
    cuts: list[int],
    restart: int,
    floating: bool,
) -> None:
    if kind is ConstraintKind.KEY:
        k, timed = 0, False
    declared = constraint(kind, k, timed, both)
    if kind is not ConstraintKind.REFERENCES:
        others = []
    broken = told(declared, own, others, cuts, restart=restart, floating=floating)
    seen = None if broken is None else (broken.event, broken.at, broken.distance)
    assert seen == expected(declared, own, others)


@pytest.mark.parametrize("kind", list(ConstraintKind))
def test_what_is_forgotten_is_not_told_wrongly(kind: ConstraintKind) -> None:
    """With room for few values: what is told is true, and what comes again soon is told."""
    random = np.random.default_rng(5)
    with patch.multiple(constraint_declared, _LEAST_ROOM=4, MOST_ROOM=16):
        for k in (0, 2, 5):
            values = random.integers(0, 400, 150).tolist()
            own = [(t, v, v) for t, v in enumerate(values)]
            others = [(t, v, v) for t, v in enumerate(random.permutation(values).tolist())]
            declared = constraint(kind, 0 if kind is ConstraintKind.KEY else k, False, False)
            broken = told(declared, own, others, [40, 90], restart=1)
            came = arrivals(own, others if kind is ConstraintKind.REFERENCES else [])
            assert broken is None or counterexample(declared, came) is not None
            soon = [(t, v, v) for t, v in enumerate([*range(100), 97, 105, 96, 97])]
            if kind is not ConstraintKind.REFERENCES:
                found = told(replace(declared, k=0), soon, [], [50], restart=0)
                assert found is not None, kind


@pytest.mark.parametrize("k", [1, 5, 40, 300])
def test_an_order_is_told_at_the_first_that_misses_it_and_not_before(k: int) -> None:
    """A long stream of which each value is at most k too late: more runs than are remembered."""
    count = 1_200
    places = np.arange(count) + np.random.default_rng(k).uniform(0, k + 0.5, count)
    own = [(t, int(v), 0) for t, v in enumerate(np.argsort(places, kind="stable"))]
    cuts = list(range(0, count, 250))
    for kind, rows in (
        (ConstraintKind.ASCENDING, own),
        (ConstraintKind.DESCENDING, [(t, -v, 0) for t, v, _ in own]),
    ):
        for timed in (False, True):
            least = max(
                (b - a for a, (_, x, _) in enumerate(own) for b in _before(own, a, x, k)), default=0
            )
            assert told(constraint(kind, least, timed, False), rows, [], cuts, restart=2) is None
            broken = told(constraint(kind, least - 1, timed, False), rows, [], cuts, restart=2)
            assert broken is not None
            assert broken.distance == least


def _before(own: Sequence[Row], place: int, value: int, k: int) -> list[int]:
    """The places of smaller values after one."""
    after = range(place + 1, min(len(own), place + 3 * k + 3))
    return [b for b in after if (own[b][1] or 0) < value]
