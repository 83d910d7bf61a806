"""Windows as stages: by themselves, or with groups over windows that share a buffer.

`operators/window/rules.py` says which these are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from braid.algebra.expressions import (
    Expression,
    Literal,
    Parameter,
    Ref,
    conjunction,
    conjuncts,
    refs,
    transform,
)
from braid.algebra.nodes import Aggregate, Node, Read, Select
from braid.algebra.relations import GroupRows, KeepRows, MapRows, Relation, Window, WindowKind
from braid.algebra.schema import Schema
from braid.algebra.types import Kind, kind_of
from braid.operators.group.spec import GroupSpec
from braid.operators.project.planning import projected
from braid.operators.select.planning import selected_rows
from braid.operators.window.spec import (
    BufferSpec,
    ColumnsRecipe,
    GroupingRecipe,
    WindowRecipe,
    WindowSpec,
)
from braid.plan.computed_columns import PREFIX
from braid.plan.deltas import with_weight
from braid.plan.planning import Conjuncts, Planning, RowPlanning, RowsRequest, plain_items
from braid.plan.predicate_pushdown import rearrange
from braid.plan.sharing import BUFFER, GROUPING, WINDOW, Channel, Operator, signature


@dataclass(frozen=True)
class Grouping:
    """A group over a window of a stream as it is: everything in the stream's own names."""

    window: Window
    asked: tuple[Expression, ...]
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that are asked for."""
        args = (arg.name for a in self.aggregates for arg in a.args if isinstance(arg, Ref))
        return tuple(dict.fromkeys((*self.keys, *args)))


def grouping_of(group: GroupRows) -> Grouping | None:
    """The group as one over a window of a stream, if it is one."""
    keys = [key for key in group.keys if isinstance(key, Ref)]
    args = [arg for a in group.aggregates for arg in a.args]
    if len(keys) < len(group.keys) or not all(isinstance(arg, Ref) for arg in args):
        return None
    found = _window_below(group.input, (*keys, *args))
    if found is None:
        return None
    window, asked, (*columns,) = found
    if not _is_plain(window.input) or not _all_sink(window, asked):
        return None
    own = iter(columns[len(keys) :])
    aggregates = tuple(replace(a, args=tuple(next(own) for _ in a.args)) for a in group.aggregates)
    names = tuple(key.name for key in columns[: len(keys)] if isinstance(key, Ref))
    return Grouping(window, asked, names, aggregates)


def _window_below(
    relation: Relation, columns: tuple[Expression, ...]
) -> tuple[Window, tuple[Expression, ...], tuple[Expression, ...]] | None:
    """The window below selections and renamings, what is asked of its rows, and what the columns
    are there; None if something else is below, or something is computed."""
    asked: tuple[Expression, ...] = ()
    while not isinstance(relation, Window):
        if isinstance(relation, KeepRows):
            asked = (*conjuncts(relation.predicate), *asked)
        elif isinstance(relation, MapRows):
            items = dict(relation.items)
            needed = {ref.name for e in (*asked, *columns) for ref in refs(e)}
            if not all(isinstance(items[name], Ref) for name in needed):
                return None
            asked = tuple(_renamed(e, items) for e in asked)
            columns = tuple(_renamed(e, items) for e in columns)
        else:
            return None
        relation = relation.input
    return relation, asked, columns


def _renamed(expression: Expression, items: dict[str, Expression]) -> Expression:
    def change(part: Expression) -> Expression | None:
        return items[part.name] if isinstance(part, Ref) else None

    return transform(expression, change)


def _is_plain(stream: Node) -> bool:
    """Whether a window stands on a stream, perhaps with events chosen."""
    while isinstance(stream, Select):
        stream = stream.input
    return isinstance(stream, Read)


def _all_sink(window: Window, asked: tuple[Expression, ...]) -> bool:
    """Whether all that is asked of a window's rows can be asked of its events (see `relations`)."""
    if window.kind is not WindowKind.ROWS:
        return True
    types = window.input.schema
    keys = {key for key in window.keys if kind_of(types.type_of(key)) is not Kind.FLOAT}
    named = [frozenset(ref.name for ref in refs(e)) for e in asked]
    return all(names and names <= keys for names in named)


@dataclass(frozen=True)
class _Read:
    """What an m-op of windows reads for a member, and what it is."""

    source: Channel
    definition: tuple[Any, ...]
    constants: tuple[Any, ...]
    spec: BufferSpec
    size: Literal | Parameter | None


def _read(
    walk: Planning,
    window: Window,
    asked: tuple[Expression, ...],
    names: tuple[str, ...],
    speaking: list[Channel] | None,
) -> _Read:
    stream, order, size = window.input, order_of(window), window.size
    definition = (window.kind.value, window.keys, order, walk.birth)
    wanted = frozenset(names) | frozenset(order) | {ref.name for e in asked for ref in refs(e)}
    chosen = rearrange(Select(stream, conjunction(asked))) if asked else stream
    source = walk.channel(chosen, wanted, signature((BUFFER, definition)), ())
    if speaking is not None:
        speaking.append(walk.channel(stream, wanted, "instants", ()) if asked else source)
    assert size is None or isinstance(size, Literal | Parameter)
    spec = BufferSpec(
        source.shape, window.kind.value, window.keys, order, source.membered, walk.birth
    )
    return _Read(source, definition, () if size is None else (size,), spec, size)


def order_of(window: Window) -> tuple[str, ...]:
    """Which of several events of one instant are the last: it depends on all their values."""
    if window.kind is not WindowKind.ROWS:
        return ()
    first = () if window.order is None else (window.order,)
    return (*first, *window.input.schema.names)


def groupings(walk: Planning, found: Grouping, speaking: list[Channel] | None) -> Channel:
    """The groups of a query in the m-op that has the windows. `speaking`: where the stream as it is
    goes, for Rstream."""
    read = _read(walk, found.window, found.asked, found.names, speaking)
    operator = Operator(GROUPING, (read.source,), read.definition, read.constants)
    shape = with_weight(read.source.shape.schema)
    group = GroupSpec(shape, found.keys, found.aggregates, membered=True)
    port = signature((found.keys, found.aggregates))
    recipe = GroupingRecipe(port, group, read.size)
    return walk.add(operator, walk.sharing(operator), read.spec, recipe, membered=True)


def can_be_buffered(window: Window) -> bool:
    """Whether a window holds events of a stream as it is, so that others can have them too."""
    return window.kind in (WindowKind.RANGE, WindowKind.ROWS) and _is_plain(window.input)


def buffered(
    walk: Planning,
    window: Window,
    names: tuple[str, ...],
    asked: tuple[Expression, ...],
    speaking: list[Channel] | None,
) -> Channel:
    """These columns of the rows of a window, of events for which everything asked is true."""
    read = _read(walk, window, asked, names, speaking)
    operator = Operator(BUFFER, (read.source,), read.definition, read.constants)
    types = window.input.schema
    columns = Schema.of((name, types.type_of(name)) for name in names)
    recipe = ColumnsRecipe(signature(("columns", names)), columns, read.size)
    return walk.add(operator, walk.sharing(operator), read.spec, recipe, membered=True)


# ---- stages ----


def window_rows(rows: RowPlanning, window: Window, request: RowsRequest) -> Channel:
    """The rows of a window; inside a join, the events that the window is on.

    A window keeps rows, and its state has to be found again by a plan that reads more attributes of
    a stream. So what it keeps never depends on what others read: a projection names it.
    """
    walk, speaks, port = rows.walk, request.speaks, request.port
    below, above = _through(window, request.asked)
    node, order = window.input, ()
    names = tuple(n for n in node.schema.names if n in request.needed | _names(*above))
    if rows.inside is None and walk.has_rule("s_buffer") and can_be_buffered(window):
        told = rows.streams if speaks else None
        return selected_rows(walk, buffered(walk, window, names, below, told), above, port)
    if window.kind is WindowKind.ROWS:
        # Which of several events of one instant are the last depends on all their values.
        values = tuple(n for n in node.schema.names if not n.startswith(PREFIX))
        order = (*((window.order,) if window.order is not None else ()), *values)
        names = tuple(n for n in node.schema.names if n in {*values, *names})
    size = window.size
    assert size is None or isinstance(size, Literal | Parameter)
    if rows.inside is not None:
        rows.inside.append(0 if size is None else size)
        return _stream(rows, node, names, below, request)
    definition = (window.kind.value, names, window.keys, order, walk.birth)
    reader = signature((WINDOW, definition))
    source = _stream(rows, node, names, below, request._replace(port=reader))
    constants = () if size is None else (size,)
    operator = Operator(WINDOW, (source,), definition, constants)
    spec = WindowSpec(
        source.shape, window.kind.value, window.keys, order, source.membered, walk.birth
    )
    membered = source.membered or bool(constants)
    sharing = walk.sharing(operator)
    made = walk.add(operator, sharing, spec, WindowRecipe(size), membered=membered)
    return selected_rows(walk, made, above, port)


def _stream(
    rows: RowPlanning, node: Node, names: tuple[str, ...], asked: Conjuncts, request: RowsRequest
) -> Channel:
    """The events that a window is on, with just these attributes, whatever others read."""
    walk = rows.walk
    wanted = frozenset(names) | _names(*asked)
    if request.speaks and asked:
        rows.streams.append(walk.channel(node, wanted, "instants", ()))
    chosen = rearrange(Select(node, conjunction(asked))) if asked else node
    source = walk.channel(chosen, names, request.port, ())
    if request.speaks and not asked:
        rows.streams.append(source)
    if source.shape.schema.names == names and not _is_plain(chosen):
        return source
    return projected(walk, source, plain_items(node.schema, names), ())


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


def _names(*expressions: Expression) -> frozenset[str]:
    return frozenset(ref.name for e in expressions for ref in refs(e))


def grouped_window(rows: RowPlanning, group: GroupRows, request: RowsRequest) -> Channel | None:
    """A group over a window of a stream, in the m-op that has the windows."""
    found = grouping_of(group) if rows.walk.has_rule("s_grouping") else None
    if found is None:
        return None
    return groupings(rows.walk, found, rows.streams if request.speaks else None)
