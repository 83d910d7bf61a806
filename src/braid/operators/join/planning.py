"""Joins as stages, in the form that fits: with windows inside or of relations that come and go.

A join of windows by time has them inside (`operators/join/rules.py`): its inputs are then walked as
streams, without weights. Under an Istream it tells what comes, to whoever else reads it what goes as
well. Other families have further forms of a join, which are asked first (`Family.forms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from braid.algebra.expressions import (
    Expression,
    Literal,
    Parameter,
    Ref,
    conjunction,
    conjuncts,
    is_true,
    refs,
)
from braid.algebra.joins import JoinParts, parts_of
from braid.algebra.nodes import Read
from braid.algebra.relations import Join, KeepRows, MapRows, Relation, Window, place
from braid.algebra.schema import Schema
from braid.operators.join.sides import Sides
from braid.operators.join.spec import (
    AttributeJoinRecipe,
    AttributeJoinSpec,
    JoinRecipe,
    JoinSpec,
    WindowJoinRecipe,
    WindowJoinSpec,
)
from braid.plan.planning import Conjuncts, Items, Planning, RowPlanning, RowsRequest
from braid.plan.predicates import Clause, Lifter
from braid.plan.relation_shapes import of_time
from braid.plan.sharing import ATTRIBUTE_JOIN, JOIN, WINDOW_JOIN, Channel, Operator, signature
from braid.plan.specs import Shape


@dataclass(frozen=True)
class JoinPlan:
    """A join that is being planned: what is compared, what is needed of each input, what is shown."""

    join: Join
    parts: JoinParts
    sides: Sides
    #: What is asked of combinations, with the constants taken out, and these.
    residual: Expression
    constants: tuple[Any, ...]
    #: Of each output column: its name, the input and the input's column.
    emit: tuple[tuple[str, int, str], ...]
    #: Whether Istream asks only what comes to it, and all windows are by time.
    by_time: bool
    #: Whether it may have its windows inside and tell what goes as well.
    may_be_inside: bool
    #: What is asked of single inputs, if that can be asked of whole streams.
    boxes: tuple[Clause, ...] | None
    speaks: bool

    @property
    def definition(self) -> tuple[Any, ...]:
        return (self.sides.equalities, self.residual, self.emit, self.sides.definition)


def join_rows(rows: RowPlanning, join: Join, request: RowsRequest) -> Channel:
    plan = _plan(rows, join, request)
    found = rows.walk.form(Join, rows, plan, request)
    if found is not None:
        return found
    if plan.by_time or plan.may_be_inside:
        return _window_join(rows, plan)
    definition = plan.definition
    channels = read_sides(rows, plan, (JOIN, definition))
    operator = Operator(JOIN, channels, definition, plan.constants)
    sharing = rows.walk.sharing(operator)
    membered = tuple(channel.membered for channel in channels)
    shapes = tuple(channel.shape for channel in channels)
    spec = JoinSpec(shapes, plan.sides.equalities, plan.residual, plan.emit, membered)
    recipe = JoinRecipe(plan.constants)
    told = any(membered) or bool(plan.constants)
    return rows.walk.add(operator, sharing, spec, recipe, membered=told)


def _plan(rows: RowPlanning, join: Join, request: RowsRequest) -> JoinPlan:
    walk, asked, picked = rows.walk, request.asked, request.picked
    if picked is None:
        picked = tuple((n, n) for n in join.schema.names if n in request.needed)
    parts = parts_of(Join(join.inputs, conjunction((*conjuncts(join.predicate), *asked))))
    sides = Sides(join, parts)
    lifter = Lifter()
    residual = lifter.lift(conjunction(sides.rest))
    emit = tuple((name, *place(shown)) for name, shown in picked)
    for ref in refs(residual):
        sides.need(*place(ref.name))
    for _, number, name in emit:
        sides.need(number, name)
    by_time = join is rows.coming and of_time(join) and sides.tell_events_apart
    boxes = walk.boxes(join) if not asked else None
    if not by_time and (join is rows.coming or not walk.has_rule("s_window_join")):
        boxes = None
    may_be_inside = (
        join is not rows.only_coming
        and walk.has_rule("s_window_join")
        and of_time(join)
        and sides.tell_all_apart
    )
    constants = tuple(lifter.constants)
    return JoinPlan(
        join, parts, sides, residual, constants, emit, by_time, may_be_inside, boxes, request.speaks
    )


def _window_join(rows: RowPlanning, plan: JoinPlan) -> Channel:
    """The join with its windows inside."""
    walk, birth = rows.walk, rows.walk.birth
    if may_share_buffer(walk, plan):
        channels = tuple(
            walk.channel(w.input, w.input.schema.names, "", ()) for w in _windows(plan.join)
        )
        if not any(channel.membered for channel in channels):
            return _attribute_join(rows, plan, channels)
    netted = netted_columns(rows, plan)
    definition = (*plan.definition, netted, not plan.by_time, birth)
    channels, sizes = read_inside(rows, plan, WINDOW_JOIN, definition, plan.parts.selections)
    operator = Operator(WINDOW_JOIN, channels, definition, (*plan.constants, *sizes))
    spec = WindowJoinSpec(
        tuple(channel.shape for channel in channels),
        plan.sides.equalities,
        plan.residual,
        plan.emit,
        tuple(channel.membered for channel in channels),
        netted,
        birth,
        not plan.by_time,
    )
    recipe = WindowJoinRecipe(plan.constants, sizes)
    return walk.add(operator, walk.sharing(operator), spec, recipe, membered=True)


def may_share_buffer(walk: Planning, plan: JoinPlan) -> bool:
    """Whether a join is one of streams as they are, by nothing but equalities of attributes."""
    inputs = range(len(plan.join.inputs))
    items = [item for number in inputs for item in plan.sides.items(number)]
    return (
        walk.has_rule("s_attribute_join")
        and plan.by_time
        and not plan.speaks
        and len(_windows(plan.join)) == len(plan.join.inputs)
        and not any(plan.parts.selections)
        and is_true(plan.residual)
        and all(isinstance(e, Ref) for _, e in items)
        and _are_keys_apart(plan)
    )


def _windows(join: Join) -> tuple[Window, ...]:
    """The inputs of a join that are windows on streams as they are."""
    return tuple(w for w in join.inputs if isinstance(w, Window) and isinstance(w.input, Read))


def _are_keys_apart(plan: JoinPlan) -> bool:
    """Whether each column is compared with one column of every other input, at least with one: of a
    single event nothing is asked then but that keys are not NULL."""
    ends = [((e.first, e.first_column), (e.second, e.second_column)) for e in plan.sides.equalities]
    known: dict[tuple[tuple[int, str], int], tuple[int, str]] = {}
    for a, b in (pair for one, other in ends for pair in ((one, other), (other, one))):
        if known.setdefault((a, b[0]), b) != b:
            return False
    return len(plan.join.inputs) == 2 and bool(ends)


def _attribute_join(rows: RowPlanning, plan: JoinPlan, channels: tuple[Channel, ...]) -> Channel:
    """The join as one form of the join of these streams."""
    walk, sides = rows.walk, plan.sides
    netted = netted_columns(rows, plan)
    sizes = tuple(_size(window) for window in _windows(plan.join))
    shapes = tuple(
        Shape(Schema.of((name, e.type) for name, e in sides.items(number)))
        for number in range(len(channels))
    )
    form = WindowJoinSpec(
        shapes,
        sides.equalities,
        plan.residual,
        plan.emit,
        tuple(False for _ in channels),
        netted,
        walk.birth,
    )
    definition = (walk.birth, *plan.definition, netted)
    operator = Operator(ATTRIBUTE_JOIN, channels, definition, sizes)
    spec = AttributeJoinSpec(tuple(channel.shape for channel in channels), walk.birth)
    recipe = AttributeJoinRecipe(signature(definition), form, sizes)
    return walk.add(operator, walk.sharing(operator), spec, recipe, membered=True)


def _size(window: Window) -> Literal | Parameter | int:
    if window.size is None:
        return 0
    assert isinstance(window.size, Literal | Parameter)
    return window.size


def netted_columns(rows: RowPlanning, plan: JoinPlan) -> tuple[tuple[str, ...], ...]:
    """Of each input the columns in which rows are equal that look equal in the result; none where
    what goes is told as well."""
    if plan.by_time:
        return plan.sides.netted(rows.shown)
    return tuple(() for _ in plan.join.inputs)


def read_inside(
    rows: RowPlanning,
    plan: JoinPlan,
    kind: str,
    definition: tuple[Any, ...],
    asked: tuple[Conjuncts, ...],
) -> tuple[tuple[Channel, ...], tuple[Literal | Parameter | int, ...]]:
    """The streams below the windows of a join, and the sizes of these; `asked`: of each input."""
    sizes: list[Literal | Parameter | int] = []
    rows.inside, read = sizes, []
    for number, below in enumerate(plan.join.inputs):
        reader = signature((kind, definition, number))
        items = plan.sides.items(number)
        read.append(_side(rows, below, items, asked[number], reader, plan.speaks))
    rows.inside = None
    return tuple(read), tuple(sizes)


def read_sides(rows: RowPlanning, plan: JoinPlan, reader: tuple[Any, ...]) -> tuple[Channel, ...]:
    """The inputs of a join, as relations that come and go."""
    return tuple(
        _side(
            rows,
            below,
            plan.sides.items(number),
            plan.parts.selections[number],
            signature((*reader, number)),
            plan.speaks,
        )
        for number, below in enumerate(plan.join.inputs)
    )


def _side(
    rows: RowPlanning, relation: Relation, items: Items, asked: Conjuncts, port: str, speaks: bool
) -> Channel:
    """An input of a join: the columns that it needs, some of them computed for it."""
    names = tuple(name for name, _ in items)
    if all(isinstance(e, Ref) for _, e in items):
        return rows.exactly(relation, names, asked, port, speaks)
    kept = KeepRows(relation, conjunction(asked)) if asked else relation
    return rows.exactly(MapRows(kept, items), names, (), port, speaks)
