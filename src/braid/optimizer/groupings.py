"""Groups whose windows are inside: which these are, and what they read (see `share_groupings.py`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from braid.algebra.types import Kind, kind_of
from braid.optimizer.operators import GROUPINGS, Channel, Operator, signature
from braid.optimizer.planning import Planning
from braid.plan.rearrange import rearrange
from braid.plan.relational import GroupingRecipe, GroupingsSpec, GroupSpec, with_weight


@dataclass(frozen=True)
class Grouping:
    """A group over a window of a stream as it is: everything in the stream's own names."""

    window: Window
    asked: tuple[Expression, ...]
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def stream(self) -> Node:
        return self.window.input

    @property
    def order(self) -> tuple[str, ...]:
        """Which of several events of one instant are the last: it depends on all their values."""
        if self.window.kind is not WindowKind.ROWS:
            return ()
        first = () if self.window.order is None else (self.window.order,)
        return (*first, *self.stream.schema.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that are held."""
        args = (arg.name for a in self.aggregates for arg in a.args if isinstance(arg, Ref))
        return tuple(dict.fromkeys((*self.keys, *args, *self.order)))


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


def groupings(walk: Planning, found: Grouping, speaking: list[Channel] | None) -> Channel:
    """The groups of a query in the m-op that has the windows inside. `speaking`: where the stream
    as it is goes, for Rstream."""
    window, stream, order = found.window, found.stream, found.order
    definition = (window.kind.value, window.keys, order, walk.birth)
    wanted = frozenset(found.names) | {ref.name for e in found.asked for ref in refs(e)}
    chosen = stream
    if found.asked:
        chosen = rearrange(Select(stream, conjunction(found.asked)))
    source = walk.channel(chosen, wanted, signature((GROUPINGS, definition)), ())
    if speaking is not None:
        asked = bool(found.asked)
        speaking.append(walk.channel(stream, wanted, "instants", ()) if asked else source)
    size = window.size
    assert size is None or isinstance(size, Literal | Parameter)
    operator = Operator(GROUPINGS, (source,), definition, () if size is None else (size,))
    group = GroupSpec(with_weight(source.shape.schema), found.keys, found.aggregates, membered=True)
    port = signature((found.keys, found.aggregates))
    spec = GroupingsSpec(
        source.shape, window.kind.value, window.keys, order, source.membered, walk.birth
    )
    sharing = walk.sharing(operator)
    recipe = GroupingRecipe(port, group, size)
    return walk.add(operator, sharing, spec, recipe, membered=True)
