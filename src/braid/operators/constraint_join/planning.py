"""Plans constraint joins (`rules.py`): which relations they can join, and their inputs.

The windows are inside the join. A condition on one input alone is below the join if rejected events
don't matter to it. Otherwise it is computed as a column of the event: a rejected event counts for a window
by rows, and rows that wait for it can leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from braid.algebra.constraints import Constraint, ConstraintKind, ConstraintMode
from braid.algebra.expressions import (
    Expression,
    Literal,
    Parameter,
    Ref,
    Source,
    conjunction,
    conjuncts,
    refs,
    transform,
    walk,
)
from braid.algebra.joins import JoinParts
from braid.algebra.nodes import Node, Select, walk_nodes
from braid.algebra.relations import (
    Join,
    KeepRows,
    MapRows,
    Relation,
    StreamKind,
    ToStream,
    Window,
    WindowKind,
    row_expressions,
    walk_rows,
)
from braid.algebra.types import Kind, kind_of
from braid.operators.constraint_join.spec import (
    CHANGES,
    KEEPS,
    ORDER,
    ConstraintJoinSpec,
    WindowInside,
)
from braid.operators.join.planning import JoinPlan, read_sides
from braid.operators.join.sides import Sides
from braid.operators.project.planning import projected
from braid.plan.computed_columns import PREFIX, has_vector
from braid.plan.planning import Items, Planning, RowPlanning, RowsRequest, has_parameter
from braid.plan.predicate_pushdown import rearrange
from braid.plan.predicates import Lifter
from braid.plan.routes import PlainRecipe
from braid.plan.sharing import K_JOIN, Channel, Operator, signature

#: A stream, and pairs of a column and what it is called there.
Named = tuple[str | None, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Input:
    """An input of such a join: its window, what is computed of an event, what is asked of it, by the
    join or below it.

    Which of several events of one instant are the last depends on all their values.
    """

    window: Window
    items: Items
    asked: tuple[Expression, ...]
    chosen: tuple[Expression, ...] = ()
    #: The stream that it is, declared or published, if it is one with nothing chosen of it.
    stream: str | None = None

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """The columns that are attributes of the stream, and how these are called."""
        return tuple((name, e.name) for name, e in self.items if isinstance(e, Ref))

    @property
    def inside(self) -> WindowInside:
        kind, size = self.window.kind, self.window.size
        if kind is WindowKind.UNBOUNDED:
            return WindowInside("unbounded")
        if kind is WindowKind.NOW:
            return WindowInside("range", 0)
        assert isinstance(size, Literal)
        order = tuple(f"{ORDER}{name}" for name in self._order)
        return WindowInside(kind.value, int(size.value), order)

    @property
    def _order(self) -> tuple[str, ...]:
        if self.window.kind is not WindowKind.ROWS:
            return ()
        names = self.window.input.schema.names
        values = tuple(n for n in names if not n.startswith(PREFIX))
        own = () if self.window.order is None else (self.window.order,)
        return (*own, *(n for n in values if n not in own))

    @property
    def computed(self) -> Items:
        """All columns that the join reads of an event."""
        schema = self.window.input.schema
        order = tuple((f"{ORDER}{n}", Ref(Source.INPUT, n, schema.type_of(n))) for n in self._order)
        keeps = ((KEEPS, conjunction(self.asked)),) if self.asked else ()
        return (*self.items, *keeps, *order)


def input_of(relation: Relation, items: Items, asked: tuple[Expression, ...]) -> Input | None:
    """What is asked of a relation said of the events below its window, if there is just one."""
    while not isinstance(relation, Window):
        if isinstance(relation, KeepRows):
            asked = (*conjuncts(relation.predicate), *asked)
        elif isinstance(relation, MapRows):
            computed = dict(relation.items)
            items = tuple((name, _substituted(e, computed)) for name, e in items)
            asked = tuple(_substituted(e, computed) for e in asked)
        else:
            return None
        relation = relation.input
    if relation.keys or any(has_vector(e) for e in (*asked, *(e for _, e in items))):
        return None
    size = relation.size
    if isinstance(size, Literal) and int(size.value) < 0:
        return None
    return Input(relation, items, asked)


def _asked_below(input_: Input, mode: ConstraintMode) -> Input:
    """What is asked of events is asked before they come to the join, where only those that join are
    of use to it. In monitored mode the refused ones let rows go that wait for them. In exact mode
    that is not worth bringing every event here: rows that wait in vain leave with their reference's
    k, and most joins hold too little to let anything go."""
    if mode is not ConstraintMode.EXACT or input_.window.kind is WindowKind.ROWS:
        return input_
    return replace(input_, asked=(), chosen=input_.asked)


def _substituted(expression: Expression, items: Mapping[str, Expression]) -> Expression:
    def change(part: Expression) -> Expression | None:
        return items[part.name] if isinstance(part, Ref) else None

    return transform(expression, change)


def shows_columns(relation: Relation) -> bool:
    """Whether nothing is computed of the rows of a join: equal rows have equal columns there."""
    while isinstance(relation, KeepRows | MapRows):
        if isinstance(relation, MapRows):
            if not all(isinstance(e, Ref) for _, e in relation.items):
                return False
        relation = relation.input
    return isinstance(relation, Join)


def could_be(relation: Relation) -> bool:
    """Whether the join below selections and projections may use constraints."""
    shown = shows_columns(relation)
    carried = any(kind_of(a.type) is Kind.OPAQUE for a in relation.schema)
    while isinstance(relation, KeepRows | MapRows):
        relation = relation.input
    if not isinstance(relation, Join):
        return False
    below = [_window(input_) for input_ in relation.inputs]
    if any(window is None or window.keys for window in below):
        return False
    endless = all(w is not None and w.kind is WindowKind.UNBOUNDED for w in below)
    return endless or (shown and not carried)


def _window(relation: Relation) -> Window | None:
    while isinstance(relation, KeepRows | MapRows):
        relation = relation.input
    return relation if isinstance(relation, Window) else None


def joins_below(node: Node, mode: ConstraintMode) -> bool:
    """Whether an expression has a join that uses constraints in a mode."""
    streams = (part for part in walk_nodes(node) if isinstance(part, ToStream))
    asked = (
        part.relation
        for part in streams
        if part.kind is StreamKind.ISTREAM or mode is ConstraintMode.EXACT
    )
    return any(isinstance(part, Join) for relation in asked for part in walk_rows(relation))


def has_parameters(relation: Relation) -> bool:
    """Whether constants of members are in a relation or in the streams below it."""
    if any(isinstance(e, Parameter) for part in row_expressions(relation) for e in walk(part)):
        return True
    return has_parameter([w.input for w in _windows(relation)])


def _windows(relation: Relation) -> list[Window]:
    if isinstance(relation, Window):
        return [relation]
    return [window for below in relation.inputs for window in _windows(below)]


def of_streams(
    declared: tuple[Constraint, ...], inputs: tuple[Input, ...]
) -> tuple[Constraint, ...]:
    """The constraints of the streams that a join reads."""
    streams = {input_.stream for input_ in inputs}
    return tuple(
        c for c in declared if c.stream in streams and (c.target is None or c.target in streams)
    )


def join_form(rows: RowPlanning, plan: JoinPlan, request: RowsRequest) -> Channel | None:
    """The form of a join that uses constraints, if it may and can be that."""
    walk, join, sides = rows.walk, plan.join, plan.sides
    only_coming = join is rows.only_coming
    if only_coming and may_use_constraints(walk, rows.output.relation):
        netted = sides.netted(rows.shown) if plan.by_time else ()
        found = constraint_join(walk, join, plan.parts, sides, plan.emit, netted)
        if found is not None:
            return found
    if plan.by_time or plan.boxes is not None:
        return None
    # Where nothing may be lost it is better to hold events once than to spill some of them.
    drops = walk.constraints[0] is ConstraintMode.MONITORED
    if (plan.may_be_inside and not drops) or not may_use_changes(walk, join, sides):
        return None
    with walk.without_members():
        channels = read_sides(rows, plan, (K_JOIN, plan.definition))
        return changes_join(walk, join, channels, sides, plan.emit, only_coming)


def may_use_constraints(walk: Planning, relation: Relation) -> bool:
    if not walk.has_rule("k_join") or walk.constraints[0] is ConstraintMode.OFF:
        return False
    return could_be(relation) and (walk.is_alone or not has_parameters(relation))


def may_use_changes(walk: Planning, join: Join, sides: Sides) -> bool:
    """Whether a join of relations that come and go uses constraints."""
    mode = walk.constraints[0]
    if not walk.has_rule("k_join") or mode is ConstraintMode.OFF:
        return False
    # A join that others could share isn't given up for rows that may never be spilled.
    may = walk.is_alone or (mode is ConstraintMode.MONITORED and not has_parameters(join))
    return may and can_be_hashed(join, sides)


def can_be_hashed(join: Join, sides: Sides) -> bool:
    """Whether equalities lead from every input to every other one."""
    groups = [{number} for number in range(len(join.inputs))]
    for e in sides.equalities:
        if e.null_safe:
            return False
        touched = [g for g in groups if {e.first, e.second} & g]
        groups = [g for g in groups if g not in touched] + [set().union(*touched)]
    return len(groups) == 1


def _named(walk: Planning, relation: Relation, items: Items) -> Named:
    """The stream that the rows of a relation are events of, and what its columns are called there.

    Below groups or DISTINCT a row stands for several events: what holds of these is not said of it.
    """
    while not isinstance(relation, Window):
        if isinstance(relation, MapRows):
            computed = dict(relation.items)
            items = tuple((name, _substituted(e, computed)) for name, e in items)
        elif not isinstance(relation, KeepRows):
            return None, ()
        relation = relation.input
    names = tuple((name, e.name) for name, e in items if isinstance(e, Ref))
    return walk.stream_of(relation.input), names


def changes_join(
    walk: Planning,
    join: Join,
    channels: tuple[Channel, ...],
    sides: Sides,
    emit: tuple[tuple[str, int, str], ...],
    only_coming: bool,
) -> Channel:
    """A join of relations that come and go, as a join that uses constraints. `only_coming`: only
    what comes is asked of it; whoever else reads it must get what goes of what has come. Of what is
    declared only keys are of use: the others count events of streams."""
    mode, declared = walk.constraints
    names = tuple(_named(walk, below, sides.items(n)) for n, below in enumerate(join.inputs))
    streams = {stream for stream, _ in names}
    keyed = tuple(c for c in declared if c.kind is ConstraintKind.KEY and c.stream in streams)
    residual = conjunction(sides.rest)
    inside = tuple(CHANGES for _ in channels)
    definition = (sides.equalities, residual, emit, inside, mode, only_coming)
    operator = Operator(K_JOIN, channels, definition, ())
    spec = ConstraintJoinSpec(
        tuple(channel.shape for channel in channels),
        sides.equalities,
        residual,
        emit,
        tuple(False for _ in channels),
        inside,
        tuple(False for _ in channels),
        mode,
        names,
        keyed,
        only_coming=only_coming,
    )
    return walk.add(operator, walk.sharing(operator), spec, PlainRecipe(), membered=False)


def constraint_join(
    walk: Planning,
    join: Join,
    parts: JoinParts,
    sides: Sides,
    emit: tuple[tuple[str, int, str], ...],
    netted: tuple[tuple[str, ...], ...],
) -> Channel | None:
    """The join with its windows and its constants inside; None if it cannot be one. `netted`: see
    `ConstraintJoinSpec`."""
    if not can_be_hashed(join, sides):
        return None
    inputs = []
    for number, below in enumerate(join.inputs):
        input_ = input_of(below, sides.items(number), parts.selections[number])
        if input_ is None:
            return None
        inputs.append(input_)
    mode, declared = walk.constraints
    known = tuple(
        replace(_asked_below(i, mode), stream=walk.stream_of(i.window.input)) for i in inputs
    )
    inside, own = tuple(i.inside for i in known), of_streams(declared, known)
    residual = conjunction(sides.rest)
    # Not what is declared: a join goes on with what it holds when that changes.
    definition = (sides.equalities, residual, emit, inside, mode, walk.birth)
    with walk.without_members():
        channels = tuple(
            _read(walk, input_, signature((K_JOIN, definition, number)))
            for number, input_ in enumerate(known)
        )
        operator = Operator(K_JOIN, channels, definition, ())
        spec = ConstraintJoinSpec(
            tuple(channel.shape for channel in channels),
            sides.equalities,
            residual,
            emit,
            tuple(False for _ in channels),
            inside,
            tuple(bool(input_.asked) for input_ in known),
            mode,
            tuple((input_.stream, input_.names) for input_ in known),
            own,
            walk.birth,
            netted=netted,
        )
        # The name is the same whichever it is: what one holds the other goes on with.
        waits = spec.may_wait and not walk.constrains_at_once
        made = spec.plain if waits else spec
        return walk.add(operator, walk.sharing(operator), made, PlainRecipe(), membered=False)


def _read(walk: Planning, input_: Input, reader: str) -> Channel:
    lifter = Lifter()
    items = tuple((name, walk.lifted(e, lifter)) for name, e in input_.computed)
    needed = frozenset(ref.name for _, e in input_.computed for ref in refs(e))
    node = input_.window.input
    if input_.chosen:
        node = rearrange(Select(node, conjunction(input_.chosen)))
    source = walk.channel(node, needed, reader, ())
    return projected(walk, source, items, tuple(lifter.constants))
