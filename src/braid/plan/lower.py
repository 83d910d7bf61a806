"""Rewrite expressions so that every operator is of a kind that an m-op can run.

Functions that build strings or take nested values apart run over whole columns, not inside
kernels (`algebra.functions.VECTOR`). Where a predicate or a computed attribute needs one, it is
computed first, as a hidden attribute of the input:

    SELECT Name FROM FILTER{upper(Name) = 'IBM'}(Stock)
    -> Project[Name](Select[__v0 = 'IBM'](Project[Name, upper(Name) AS __v0](Stock)))

In NEXT and FOLD each such function looks at one input (the binder sees to it), so it becomes a
hidden attribute of that input. `$.a` of FOLD is the previous event's value, so a function of it
becomes a hidden attribute of both inputs (the binder
refuses one of a running aggregate, which is no event's). What the query sees does not change: a projection
above drops the hidden attributes, and the planner folds it into the operator.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from braid.algebra.bounds import bound_durations
from braid.algebra.expressions import Call, Expression, Literal, Ref, Source, refs, transform, walk
from braid.algebra.functions import is_vector
from braid.algebra.nodes import (
    Iterate,
    Node,
    Project,
    Read,
    SameTime,
    Select,
    Sequence,
    Union,
    walk_nodes,
)

Hidden = dict[Expression, str]


def lower(node: Node) -> Node:
    """An equivalent expression whose operators can all be planned."""
    bounded = bound_durations(node)
    if not any(map(_needs_lowering, walk_nodes(bounded))):
        return bounded
    return _lower(bounded)


def _needs_lowering(node: Node) -> bool:
    match node:
        case Select(predicate=predicate) | Sequence(predicate=predicate):
            return _has_vector(predicate)
        case Project(items=items):
            return any(_has_vector(e) for _, e in items)
        case Iterate():
            return any(
                map(_has_vector, (node.predicate, node.rebind, *(e for _, e in node.aggregates)))
            )
        case SameTime():
            return True
        case _:
            return False


def _lower(node: Node) -> Node:
    match node:
        case Read():
            return node
        case Select():
            return _lower_select(replace(node, input=_lower(node.input)))
        case Project():
            return _lower_project(replace(node, input=_lower(node.input)))
        case Union():
            return replace(node, first=_lower(node.first), second=_lower(node.second))
        case Sequence():
            return _lower_sequence(
                replace(node, first=_lower(node.first), second=_lower(node.second))
            )
        case Iterate():
            return _lower_iterate(
                replace(node, first=_lower(node.first), second=_lower(node.second))
            )
        case SameTime():
            return _lower_same_time(replace(node, input=_lower(node.input)))


@lru_cache(1 << 16)
def _has_vector(expression: Expression) -> bool:
    return any(is_vector(e) for e in walk(expression))


def _hoist(expression: Expression, hidden: Hidden) -> Expression:
    """The expression with every outermost vector function replaced by a hidden attribute."""

    def change(part: Expression) -> Expression | None:
        if not is_vector(part):
            return None
        name = hidden.setdefault(part, f"__v{len(hidden)}")
        return Ref(_source(part), name, part.type)

    return transform(expression, change)


def _source(expression: Expression) -> Source:
    """The one input that a vector function looks at (a constant: the second, where there is one)."""
    found = {ref.source for ref in refs(expression)}
    assert len(found) <= 1, "the binder refuses vector functions over several inputs"
    return found.pop() if found else Source.INPUT


def _as_input(expression: Expression) -> Expression:
    """The same function, said of the input's own attributes."""

    def change(part: Expression) -> Expression | None:
        return Ref(Source.INPUT, part.name, part.type) if isinstance(part, Ref) else None

    return transform(expression, change)


def _all(node: Node) -> tuple[tuple[str, Expression], ...]:
    return tuple((a.name, Ref(Source.INPUT, a.name, a.type)) for a in node.schema)


def _extended(node: Node, extra: list[tuple[str, Expression]]) -> Node:
    return _lower_project(Project(node, (*_all(node), *extra))) if extra else node


def _kept(node: Node, like: Node) -> Node:
    """Only the attributes that another node has."""
    return Project(node, tuple(item for item in _all(node) if item[0] in like.schema))


def _lower_select(node: Select) -> Node:
    if not _has_vector(node.predicate):
        return node
    hidden = _names(node.input)
    predicate = _hoist(node.predicate, hidden)
    extra = [(name, expression) for expression, name in _new(hidden)]
    return _kept(Select(_extended(node.input, extra), predicate), node)


def _lower_project(node: Project) -> Node:
    """Items may be vector functions of columns and literals; all else is computed before."""
    hidden = _names(node.input)
    items = tuple((name, _item(expression, hidden)) for name, expression in node.items)
    extra = [(name, expression) for expression, name in _new(hidden)]
    return Project(_extended(node.input, extra), items) if extra else node


def _item(expression: Expression, hidden: Hidden) -> Expression:
    if is_vector(expression):
        assert isinstance(expression, Call)
        return replace(expression, args=tuple(_argument(a, hidden) for a in expression.args))
    return _hoist(expression, hidden) if _has_vector(expression) else expression


def _argument(expression: Expression, hidden: Hidden) -> Expression:
    """What a vector function is applied to: columns, literals and vector functions of these."""
    if isinstance(expression, Ref | Literal):
        return expression
    if is_vector(expression):
        return _item(expression, hidden)
    name = hidden.setdefault(expression, f"__v{len(hidden)}")
    return Ref(Source.INPUT, name, expression.type)


def _names(*nodes: Node) -> Hidden:
    """An empty set of hidden attributes, numbered after those that the inputs already have."""
    taken = {n for node in nodes for n in node.schema.names if n.startswith("__v")}
    return {Ref(Source.INPUT, name, pa.null()): name for name in _numbered(taken)}


def _numbered(taken: set[str]) -> list[str]:
    highest = max((int(name[3:]) for name in taken if name[3:].isdigit()), default=-1)
    return [f"__v{i}" for i in range(highest + 1)]


def _new(hidden: Hidden) -> list[tuple[Expression, str]]:
    return [(e, name) for e, name in hidden.items() if not isinstance(e, Ref)]


def _lower_sequence(node: Sequence) -> Node:
    if not _has_vector(node.predicate):
        return node
    hidden = _names(node.first, node.second)
    predicate = _hoist(node.predicate, hidden)
    predicate = _constants_to(Source.SECOND, predicate)
    first: list[tuple[str, Expression]] = []
    second: list[tuple[str, Expression]] = []
    for expression, name in _new(hidden):
        side = first if _source(expression) is Source.FIRST else second
        side.append((name, _as_input(expression)))
    names = (
        *node.names[: len(node.first.schema)],
        *(n for n, _ in first),
        *node.names[len(node.first.schema) :],
        *(n for n, _ in second),
    )
    lowered = Sequence(
        _extended(node.first, first), _extended(node.second, second), predicate, names, node.horizon
    )
    return _kept(lowered, node)


def _constants_to(source: Source, expression: Expression) -> Expression:
    """A vector function of constants only was hoisted as INPUT: give it a place."""

    def change(part: Expression) -> Expression | None:
        if isinstance(part, Ref) and part.source is Source.INPUT:
            return Ref(source, part.name, part.type)
        return None

    return transform(expression, change)


def _lower_iterate(node: Iterate) -> Node:
    expressions = (node.predicate, node.rebind, *(e for _, e in node.aggregates))
    if not any(map(_has_vector, expressions)):
        return node
    hidden = _names(node.first, node.second)

    def rewritten(expression: Expression) -> Expression:
        return _constants_to(Source.SECOND, _hoist(expression, hidden))

    predicate, rebind = rewritten(node.predicate), rewritten(node.rebind)
    aggregates = tuple((name, rewritten(e)) for name, e in node.aggregates)
    first: list[tuple[str, Expression]] = []
    second: list[tuple[str, Expression]] = []
    for expression, name in _new(hidden):
        source, plain = _source(expression), _as_input(expression)
        first.append((name, plain if source in (Source.FIRST, Source.LAST) else _null(expression)))
        if source is not Source.FIRST:
            second.append((name, plain))
    lowered = Iterate(
        _extended(node.first, first),
        _extended(node.second, second),
        predicate,
        rebind,
        aggregates,
        node.horizon,
    )
    return _kept(lowered, node)


def _null(like: Expression) -> Expression:
    return Literal(None, like.type)


def _lower_same_time(node: SameTime) -> Node:
    """Arguments become attributes: the m-op then works on whole columns."""
    hidden = _names(node.input)
    aggregates = []
    for aggregate in node.aggregates:
        args = tuple(_column(arg, hidden) for arg in aggregate.args)
        aggregates.append(replace(aggregate, args=args))
    extra = [(name, expression) for expression, name in _new(hidden)]
    return SameTime(_extended(node.input, extra), tuple(aggregates))


def _column(expression: Expression, hidden: Hidden) -> Expression:
    if isinstance(expression, Ref):
        return expression
    name = hidden.setdefault(expression, f"__v{len(hidden)}")
    return Ref(Source.INPUT, name, expression.type)
