"""Relations as stages: windows, joins, groups and what makes streams of them again.

Between a window and Istream, Dstream or Rstream flow changes of rows (`plan/deltas.py`), so
a selection or a projection of rows is the selection or projection of a channel, with the weight
as one column more. What is asked of rows sinks as far as it can:

    WHERE over a projection              -> below it
    WHERE over [Range], [Now], unbounded -> below the window, onto the stream
    WHERE over [Rows]                    -> stays: a row counts whether or not it is wanted; only
                                            what is asked of the partition's keys goes below
    WHERE over one input of a join       -> onto that input
    the rest of a join's WHERE           -> equalities are hashed, all else is asked of candidates

Rstream speaks whenever an event occurs on a stream under its windows, also one that WHERE
refuses: so it reads these streams as they are beside the rows.

A join of windows by time has them inside (`operators/join/rules.py`): its
inputs are then walked as streams, without weights. Under an Istream it tells what comes, to whoever
else reads it what goes as well.

A window keeps rows, and its state has to be found again by a plan that reads more attributes of
a stream. So what it keeps never depends on what others read: a projection names it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from braid.algebra.constraints import ConstraintMode
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
)
from braid.algebra.joins import JoinParts, parts_of
from braid.algebra.nodes import Node, Read, Select
from braid.algebra.relations import (
    Detection,
    DistinctRows,
    GroupRows,
    Join,
    KeepRows,
    MapRows,
    Relation,
    StreamKind,
    ToStream,
    Window,
    WindowKind,
    place,
)
from braid.algebra.schema import Schema
from braid.algebra.types import Kind, kind_of
from braid.operators.constraint_join.planning import (
    changes_join,
    constraint_join,
    may_use_changes,
    may_use_constraints,
)
from braid.operators.detect.planning import detected
from braid.operators.group.spec import GroupSpec, NothingSpec
from braid.operators.join.sides import Sides, plain_items
from braid.operators.join.spec import JoinRecipe, JoinSpec, WindowJoinRecipe, WindowJoinSpec
from braid.operators.selection_join.spec import SelectionJoinRecipe, SelectionJoinSpec
from braid.operators.to_stream.spec import ToStreamSpec
from braid.operators.window.planning import buffered, can_be_buffered, grouping_of, groupings
from braid.operators.window.spec import WindowRecipe, WindowSpec
from braid.optimizer.relation_shapes import bottom, of_time, shown_of
from braid.plan.boxes import columns_of
from braid.plan.computed_columns import PREFIX, has_vector
from braid.plan.deltas import WEIGHT
from braid.plan.planning import Items, Planning
from braid.plan.predicate_pushdown import rearrange
from braid.plan.predicates import Clause, Lifter, normalise
from braid.plan.routes import PlainRecipe
from braid.plan.sharing import (
    GROUP,
    JOIN,
    K_JOIN,
    PROJECT,
    SELECTION_JOIN,
    TO_STREAM,
    WINDOW,
    WINDOW_JOIN,
    Channel,
    Operator,
    signature,
)

Conjuncts = tuple[Expression, ...]

_WEIGHT_ITEM = (WEIGHT, Ref(Source.INPUT, WEIGHT, pa.int64()))


class Relations:
    """The relations of one Istream, Dstream or Rstream on their way through the rules."""

    def __init__(self, walk: Planning) -> None:
        self._walk = walk
        #: Groups without keys of which only changes are asked.
        self._only_changes: Relation | None = None
        #: The join of which only what comes is asked, and its columns that are shown as they are.
        self._coming: Relation | None = None
        self._shown: frozenset[str] = frozenset()
        #: The relation of which Istream asks what comes; the join that may have windows inside.
        self._only_coming: Relation | None = None
        self._constrained: Relation | None = None
        #: Sizes of the windows that a join has inside, while its inputs are walked.
        self._inside: list[Literal | Parameter | int] | None = None
        #: The streams under the windows as they are, with nothing asked of them.
        self._streams: list[Channel] = []

    def to_stream(self, node: ToStream, wanted: frozenset[str]) -> Channel:
        """The events. Only Rstream can leave columns out: the others compare whole rows."""
        relation, speaks = node.relation, node.kind is StreamKind.RSTREAM
        if isinstance(relation, Detection):
            return detected(self._walk, relation)
        names = tuple(n for n in relation.schema.names if not speaks or n in wanted)
        self._only_changes = None if speaks else bottom(relation)
        if node.kind is StreamKind.ISTREAM and self._walk.has_rule("s_window_join"):
            self._coming = bottom(relation)
            self._shown = shown_of(relation, self._coming)
        if node.kind is StreamKind.ISTREAM:
            self._only_coming = bottom(relation)
        if node.kind is StreamKind.ISTREAM and may_use_constraints(self._walk, relation):
            self._constrained = bottom(relation)
        birth = self._walk.birth if speaks else None
        definition = (node.kind.value, names, birth)
        rows = self._exactly(relation, names, (), signature((TO_STREAM, definition)), speaks)
        streams = tuple(dict.fromkeys(self._streams)) if speaks else ()
        inputs = (rows, *streams)
        operator = Operator(TO_STREAM, inputs, definition, ())
        membered = tuple(channel.membered for channel in inputs)
        shapes = tuple(channel.shape for channel in streams)
        spec = ToStreamSpec(rows.shape, node.kind.value, shapes, membered, birth)
        sharing = self._walk.sharing(operator)
        return self._walk.add(operator, sharing, spec, PlainRecipe(), membered=any(membered))

    # ---- rows ----

    def _exactly(
        self,
        relation: Relation,
        names: tuple[str, ...],
        asked: Conjuncts,
        port: str,
        speaks: bool,
    ) -> Channel:
        """The rows for which everything asked is true, with just these columns in this order."""
        source = self._rows(relation, frozenset(names), asked, port, speaks)
        items = (*plain_items(relation.schema, names), *self._weight)
        if source.shape.schema.names == tuple(name for name, _ in items):
            return source
        return self._walk.projected(source, items, ())

    @property
    def _weight(self) -> Items:
        """What rows have beside their columns: events have no weight."""
        return (_WEIGHT_ITEM,) if self._inside is None else ()

    def _rows(
        self,
        relation: Relation,
        needed: frozenset[str],
        asked: Conjuncts,
        port: str,
        speaks: bool,
    ) -> Channel:
        """The rows for which everything asked is true, with at least the needed columns.

        `port`: who reads them. `speaks`: whether the streams below are to be remembered.
        """
        match relation:
            case KeepRows(input=below, predicate=predicate):
                return self._rows(below, needed, (*conjuncts(predicate), *asked), port, speaks)
            case MapRows():
                return self._map(relation, needed, asked, port, speaks)
            case Window():
                return self._window(relation, needed, asked, port, speaks)
            case Join():
                return self._join(relation, _same(relation.schema, needed), asked, speaks)
            case GroupRows():
                rows = self._group(relation, speaks)
                if not relation.keys and relation is not self._only_changes:
                    rows = self._with_nothing(rows, relation)
                return self._selected(rows, asked, port)
            case DistinctRows(input=below):
                names = relation.schema.names
                definition = (names, (), True)
                reader = signature((GROUP, definition))
                source = self._exactly(below, names, asked, reader, speaks)
                spec = GroupSpec(source.shape, names, (), source.membered, distinct=True)
                return self._grouped(source, definition, spec)
            case Detection():
                raise AssertionError("only ToStream is above a detection")

    def _selected(self, source: Channel, asked: Conjuncts, port: str) -> Channel:
        if not asked:
            return source
        return self._walk.selected(source, normalise(conjunction(asked)), port)

    def _map(
        self,
        relation: MapRows,
        needed: frozenset[str],
        asked: Conjuncts,
        port: str,
        speaks: bool,
    ) -> Channel:
        relation = _composed(relation, needed | _names(*asked))
        computed = dict(relation.items)
        # A function over whole columns is computed once, and not inside a predicate.
        here = tuple(p for p in asked if any(has_vector(computed[n]) for n in _names(p)))
        below = tuple(_substituted(p, computed) for p in asked if p not in here)
        shown = needed | _names(*here)
        items = tuple(item for item in relation.items if item[0] in shown)
        inner = relation.input
        if isinstance(inner, Join) and not here and all(isinstance(e, Ref) for _, e in items):
            picked = tuple((name, e.name) for name, e in items if isinstance(e, Ref))
            return self._join(inner, picked, below, speaks)
        lifter = Lifter()
        lifted = tuple((name, self._walk.lifted(e, lifter)) for name, e in items)
        reader = signature((PROJECT, lifted))
        names = _names(*(e for _, e in items))
        source = self._rows(inner, names, below, reader, speaks)
        constants = tuple(lifter.constants)
        return self._selected(
            self._walk.projected(source, (*lifted, *self._weight), constants), here, port
        )

    # ---- windows ----

    def _window(
        self,
        window: Window,
        needed: frozenset[str],
        asked: Conjuncts,
        port: str,
        speaks: bool,
    ) -> Channel:
        below, above = _through(window, asked)
        node, order = window.input, ()
        names = tuple(n for n in node.schema.names if n in needed | _names(*above))
        if self._inside is None and self._walk.has_rule("s_buffer") and can_be_buffered(window):
            told = self._streams if speaks else None
            return self._selected(buffered(self._walk, window, names, below, told), above, port)
        if window.kind is WindowKind.ROWS:
            # Which of several events of one instant are the last depends on all their values.
            values = tuple(n for n in node.schema.names if not n.startswith(PREFIX))
            order = (*((window.order,) if window.order is not None else ()), *values)
            names = tuple(n for n in node.schema.names if n in {*values, *names})
        if self._inside is not None:
            assert window.size is None or isinstance(window.size, Literal | Parameter)
            self._inside.append(0 if window.size is None else window.size)
            return self._stream(node, names, below, port, speaks)
        definition = (window.kind.value, names, window.keys, order, self._walk.birth)
        reader = signature((WINDOW, definition))
        source = self._stream(node, names, below, reader, speaks)
        size = window.size
        assert size is None or isinstance(size, Literal | Parameter)
        constants = () if size is None else (size,)
        operator = Operator(WINDOW, (source,), definition, constants)
        spec = WindowSpec(
            source.shape, window.kind.value, window.keys, order, source.membered, self._walk.birth
        )
        membered = source.membered or bool(constants)
        sharing = self._walk.sharing(operator)
        rows = self._walk.add(operator, sharing, spec, WindowRecipe(size), membered=membered)
        return self._selected(rows, above, port)

    def _stream(
        self, node: Node, names: tuple[str, ...], asked: Conjuncts, port: str, speaks: bool
    ) -> Channel:
        """The events that a window is on, with just these attributes, whatever others read."""
        wanted = frozenset(names) | _names(*asked)
        if speaks and asked:
            self._streams.append(self._walk.channel(node, wanted, "instants", ()))
        chosen = rearrange(Select(node, conjunction(asked))) if asked else node
        source = self._walk.channel(chosen, names, port, ())
        if speaks and not asked:
            self._streams.append(source)
        if source.shape.schema.names == names and not _is_raw(chosen):
            return source
        return self._walk.projected(source, plain_items(node.schema, names), ())

    # ---- joins ----

    def _join(
        self, join: Join, picked: tuple[tuple[str, str], ...], asked: Conjuncts, speaks: bool
    ) -> Channel:
        """`picked`: the name of each output column, and the column of the join that it shows."""
        predicate = conjunction((*conjuncts(join.predicate), *asked))
        parts = parts_of(Join(join.inputs, predicate))
        sides = Sides(join, parts)
        lifter = Lifter()
        residual = lifter.lift(conjunction(sides.rest))
        emit = tuple((name, *place(shown)) for name, shown in picked)
        for ref in refs(residual):
            sides.need(*place(ref.name))
        for _, number, name in emit:
            sides.need(number, name)
        by_time = join is self._coming and of_time(join) and sides.tell_events_apart
        if join is self._constrained:
            netted = sides.netted(self._shown) if by_time else ()
            found = constraint_join(self._walk, join, parts, sides, emit, netted)
            if found is not None:
                return found
        boxes = self._walk.boxes(join) if not asked else None
        if not by_time and (join is self._coming or not self._walk.has_rule("s_window_join")):
            boxes = None
        for number, below in enumerate(join.inputs if boxes is not None else ()):
            for name in columns_of(below):
                sides.need(number, name)
        definition = (sides.equalities, residual, emit, sides.definition)
        constants = tuple(lifter.constants)
        if by_time or boxes is not None:
            netted = sides.netted(self._shown) if by_time else tuple(() for _ in join.inputs)
            inside = (*definition, netted, not by_time)
            return self._window_join(join, parts, sides, inside, constants, boxes, speaks)
        only = join is self._only_coming
        may_be_inside = not only and self._walk.has_rule("s_window_join")
        may_be_inside = may_be_inside and of_time(join) and sides.tell_all_apart
        # Where nothing may be lost it is better to hold events once than to put some of them aside.
        drops = self._walk.constraints[0] is ConstraintMode.MONITORED
        if (drops or not may_be_inside) and may_use_changes(self._walk, join, sides):
            with self._walk.without_members():
                channels = self._read_sides(join, parts, sides, (K_JOIN, definition), speaks)
                return changes_join(self._walk, join, channels, sides, emit, only)
        if may_be_inside:
            complete = (*definition, tuple(() for _ in join.inputs), True)
            return self._window_join(join, parts, sides, complete, constants, None, speaks)
        channels = self._read_sides(join, parts, sides, (JOIN, definition), speaks)
        operator = Operator(JOIN, channels, definition, constants)
        sharing = self._walk.sharing(operator)
        membered = tuple(channel.membered for channel in channels)
        shapes = tuple(channel.shape for channel in channels)
        spec = JoinSpec(shapes, sides.equalities, residual, emit, membered)
        recipe = JoinRecipe(constants)
        told = any(membered) or bool(constants)
        return self._walk.add(operator, sharing, spec, recipe, membered=told)

    def _read_sides(
        self, join: Join, parts: JoinParts, sides: Sides, reader: tuple[Any, ...], speaks: bool
    ) -> tuple[Channel, ...]:
        """The inputs of a join, as relations that come and go."""
        return tuple(
            self._side(
                below,
                sides.items(number),
                parts.selections[number],
                signature((*reader, number)),
                speaks,
            )
            for number, below in enumerate(join.inputs)
        )

    def _window_join(
        self,
        join: Join,
        parts: JoinParts,
        sides: Sides,
        definition: tuple[Any, ...],
        constants: tuple[Any, ...],
        boxes: tuple[Clause, ...] | None,
        speaks: bool,
    ) -> Channel:
        """The join with its windows inside, and what is asked of single inputs if it is boxes."""
        equalities, residual, emit, _, netted, complete = definition
        kind = WINDOW_JOIN if boxes is None else SELECTION_JOIN
        definition = (*definition, self._walk.birth if boxes is None else None)
        self._inside, read = [], []
        for number, below in enumerate(join.inputs):
            reader = signature((kind, definition, number))
            own = parts.selections[number] if boxes is None else ()
            read.append(self._side(below, sides.items(number), own, reader, speaks))
        sizes, self._inside = tuple(self._inside), None
        channels = tuple(read)
        told = (*constants, *sizes, *((*boxes, self._walk.birth) if boxes is not None else ()))
        operator = Operator(kind, channels, definition, told)
        membered = tuple(channel.membered for channel in channels)
        shapes = tuple(channel.shape for channel in channels)
        spec = WindowJoinSpec(
            shapes, equalities, residual, emit, membered, netted, self._walk.birth, complete
        )
        recipe = WindowJoinRecipe(constants, sizes)
        if boxes is not None:
            spec = SelectionJoinSpec(
                shapes, equalities, residual, emit, membered, netted, complete=complete
            )
            recipe = SelectionJoinRecipe(constants, sizes, boxes, self._walk.birth)
        sharing = self._walk.sharing(operator)
        return self._walk.add(operator, sharing, spec, recipe, membered=True)

    def _side(
        self, relation: Relation, items: Items, asked: Conjuncts, port: str, speaks: bool
    ) -> Channel:
        """An input of a join: the columns that it needs, some of them computed for it."""
        names = tuple(name for name, _ in items)
        if all(isinstance(e, Ref) for _, e in items):
            return self._exactly(relation, names, asked, port, speaks)
        kept = KeepRows(relation, conjunction(asked)) if asked else relation
        return self._exactly(MapRows(kept, items), names, (), port, speaks)

    # ---- groups ----

    def _group(self, relation: GroupRows, speaks: bool) -> Channel:
        found = grouping_of(relation) if self._walk.has_rule("s_grouping") else None
        if found is not None:
            return groupings(self._walk, found, self._streams if speaks else None)
        keys = tuple(key.name for key in relation.keys if isinstance(key, Ref))
        args = (arg.name for a in relation.aggregates for arg in a.args if isinstance(arg, Ref))
        names = tuple(dict.fromkeys((*keys, *args)))
        definition = (keys, relation.aggregates, False)
        reader = signature((GROUP, definition))
        source = self._exactly(relation.input, names, (), reader, speaks)
        spec = GroupSpec(source.shape, keys, relation.aggregates, source.membered)
        return self._grouped(source, definition, spec)

    def _with_nothing(self, source: Channel, relation: GroupRows) -> Channel:
        definition = ("nothing", relation.aggregates)
        spec = NothingSpec(source.shape, relation.aggregates, source.membered)
        return self._grouped(source, definition, spec)

    def _grouped(
        self, source: Channel, definition: tuple[Any, ...], spec: GroupSpec | NothingSpec
    ) -> Channel:
        operator = Operator(GROUP, (source,), definition, ())
        sharing = self._walk.sharing(operator)
        return self._walk.add(operator, sharing, spec, PlainRecipe(), membered=source.membered)


def _through(window: Window, asked: Conjuncts) -> tuple[Conjuncts, Conjuncts]:
    """What can be asked of the events below a window, and what must be asked of its rows."""
    if window.kind is not WindowKind.ROWS:
        return asked, ()
    # A partition is refused as a whole; of equal floats one may be -0.0, which functions tell apart.
    keys = {
        key for key in window.keys if kind_of(window.input.schema.type_of(key)) is not Kind.FLOAT
    }
    below = tuple(p for p in asked if _names(p) and _names(p) <= keys)
    return below, tuple(p for p in asked if p not in below)


def _composed(relation: MapRows, shown: frozenset[str]) -> MapRows:
    """Projections one upon the other as one, if nothing has to be computed in between."""
    items = tuple(item for item in relation.items if item[0] in shown)
    below = relation.input
    while isinstance(below, MapRows):
        computed = dict(below.items)
        if not all(isinstance(computed[n], Ref) for n in _names(*(e for _, e in items))):
            break
        items = tuple((name, _substituted(e, computed)) for name, e in items)
        below = below.input
    return MapRows(below, items)


def _is_raw(node: Node) -> bool:
    """Whether the shape of a channel depends on what others read of the stream."""
    while isinstance(node, Select):
        node = node.input
    return isinstance(node, Read)


def _same(schema: Schema, needed: frozenset[str]) -> tuple[tuple[str, str], ...]:
    return tuple((n, n) for n in schema.names if n in needed)


def _names(*expressions: Expression) -> frozenset[str]:
    return frozenset(ref.name for e in expressions for ref in refs(e))


def _substituted(expression: Expression, items: dict[str, Expression]) -> Expression:
    def change(part: Expression) -> Expression | None:
        return items[part.name] if isinstance(part, Ref) else None

    return transform(expression, change)
