"""Warnings about valid queries."""

from __future__ import annotations

from collections.abc import Sequence

from braid.algebra.expressions import Expression, Ref, walk
from braid.algebra.nodes import Sequence as NextNode
from braid.algebra.nodes import is_unbounded, walk_nodes
from braid.algebra.relations import (
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
    column,
    windows,
)
from braid.algebra.templates import Output

#: Codes and messages.
Warnings = tuple[tuple[str, str], ...]

#: Windows that rows leave as time passes or other rows come.
_SLIDING = (WindowKind.RANGE, WindowKind.ROWS)


def warnings_about(outputs: Sequence[Output]) -> Warnings:
    """All warnings about the outputs of a query."""
    return (*unbounded(outputs), *repeating(outputs))


def unbounded(outputs: Sequence[Output]) -> Warnings:
    """The warning about patterns that may hold events forever."""
    endless = [n for o in outputs for n in walk_nodes(o.node) if is_unbounded(n)]
    if not endless:
        return ()
    words = dict.fromkeys("NEXT" if isinstance(n, NextNode) else "FOLD" for n in endless)
    message = (
        f"{' and '.join(words)} without a bound may hold events for ever; "
        "add a limit such as DUR <= 1h to the predicate, or to a FILTER above"
    )
    return (("W201", message),)


def repeating(outputs: Sequence[Output]) -> Warnings:
    """The warning about a result that shows an aggregate and repeats it with each change.

    A user who writes HAVING count(*) >= 5 wants one alarm. Istream gives one for each new count,
    and also when rows leave the window. The warning concerns only the results of a query: a
    relation that the query itself reads may change as often as necessary.
    """
    for output in outputs:
        node = output.node
        if not isinstance(node, ToStream) or node.kind is not StreamKind.ISTREAM:
            continue
        shown = _aggregates(node.relation)
        if shown and _slides(node.relation):
            return (("W210", _repeated(node.relation, shown)),)
    return ()


def _repeated(relation: Relation, shown: Sequence[str]) -> str:
    what = (
        f"it shows {', '.join(shown)}, so each change is a result, also when rows leave the window"
    )
    if _is_condition(relation):
        return (
            f"{what}; for one result each time that HAVING becomes true, "
            "leave the aggregate out of SELECT"
        )
    return f"{what}; for results at events only, join it with [Now] of the stream"


def _slides(relation: Relation) -> bool:
    """Whether rows leave a relation at instants without an event. A join with [Now] of a stream has
    rows only at the instants of that stream's events."""
    if isinstance(relation, Join):
        kinds = [[window.kind for window in windows(below)] for below in relation.inputs]
        if [WindowKind.NOW] in kinds:
            return False
    if isinstance(relation, Window):
        return relation.kind in _SLIDING
    return any(_slides(below) for below in relation.inputs)


def _aggregates(relation: Relation) -> tuple[str, ...]:
    """The columns of a relation whose values come from an aggregate."""
    match relation:
        case GroupRows():
            return tuple(aggregate.name for aggregate in relation.aggregates)
        case MapRows():
            known = set(_aggregates(relation.input))
            return tuple(name for name, value in relation.items if _refers(value, known))
        case KeepRows() | DistinctRows():
            return _aggregates(relation.input)
        case Join():
            return tuple(
                column(number, name)
                for number, below in enumerate(relation.inputs)
                for name in _aggregates(below)
            )
    return ()


def _is_condition(relation: Relation) -> bool:
    """Whether a condition keeps rows by the value of an aggregate, as HAVING does."""
    if isinstance(relation, KeepRows):
        if _refers(relation.predicate, set(_aggregates(relation.input))):
            return True
    return any(_is_condition(below) for below in relation.inputs)


def _refers(expression: Expression, names: set[str]) -> bool:
    return any(isinstance(part, Ref) and part.name in names for part in walk(expression))
