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
above drops the hidden attributes, and the planner folds it into the operator. Inside relations:
`lower_relations.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from braid.algebra.bounds import bound_durations
from braid.algebra.documents import Documents
from braid.algebra.expressions import (
    Duration,
    Expression,
    Literal,
    Ref,
    Source,
    conjunction,
    conjuncts,
    refs,
    transform,
    walk,
)
from braid.algebra.nodes import (
    Extension,
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
from braid.algebra.relations import ToStream
from braid.plan.computed_columns import (
    all_items,
    as_column,
    as_input,
    by_cost,
    cost_of,
    extended,
    has_vector,
    hoist,
    lower_project,
    new_ones,
    no_names,
    source_of,
)
from braid.plan.lower_relations import lower_rows

_Pattern = TypeVar("_Pattern", Sequence, Iterate)


def lower(node: Node) -> Node:
    """An equivalent expression whose operators can all be planned."""
    bounded = bound_durations(node)
    if not any(map(_needs_lowering, walk_nodes(bounded))):
        return bounded
    return _lower(bounded)


def _needs_lowering(node: Node) -> bool:
    match node:
        case Select(predicate=predicate) | Sequence(predicate=predicate):
            return has_vector(predicate)
        case Project(items=items):
            return any(has_vector(e) for _, e in items)
        case Iterate():
            return any(
                map(has_vector, (node.predicate, node.rebind, *(e for _, e in node.aggregates)))
            )
        case SameTime() | ToStream():
            return True
        case _:
            return False


def _lower(node: Node) -> Node:
    match node:
        case Read():
            return node
        case Documents():  # may read what a query publishes
            return node.over(tuple(_lower(source) for source in node.sources))
        case Select():
            return _lower_select(replace(node, input=_lower(node.input)))
        case Project():
            return lower_project(replace(node, input=_lower(node.input)))
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
        case Extension():
            return node.over(tuple(map(_lower, node.inputs)))
        case SameTime():
            return _lower_same_time(replace(node, input=_lower(node.input)))
        case ToStream():
            return ToStream(lower_rows(node.relation, _lower), node.kind)


def _kept(node: Node, like: Node) -> Node:
    """Only the attributes that another node has."""
    return Project(node, tuple(item for item in all_items(node) if item[0] in like.schema))


def _lower_select(node: Select) -> Node:
    if not has_vector(node.predicate):
        return node
    return _kept(selected_by_cost(node.input, conjuncts(node.predicate)), node)


def selected_by_cost(node: Node, asked: tuple[Expression, ...]) -> Node:
    """The events for which all conditions hold; functions of users see only those that are left.

    FILTER{Price > 5 AND fee(Price) > 1} S  ->  FILTER{__v0 > 1}(SELECT *, fee(Price) AS __v0
                                                                FROM FILTER{Price > 5} S)
    """
    for group in by_cost(asked):
        hidden = no_names(node)
        predicate = hoist(conjunction(group), hidden)
        extra = [(name, expression) for expression, name in new_ones(hidden)]
        node = Select(extended(node, extra), predicate)
    return node


def _cheap_first(node: _Pattern) -> _Pattern:
    """The inputs of a pattern without the events that its conditions on one of them refuse, where
    others of its conditions call functions of users: these then see fewer events.

    A NEXT{$2.Price > 5 AND fee($2.Price) > 1} B  ->  A NEXT{fee($2.Price) > 1} FILTER{Price > 5} B
    """
    parts = conjuncts(node.predicate)
    if not any(map(cost_of, parts)):
        return node
    early: dict[Source, list[Expression]] = {Source.FIRST: [], Source.SECOND: []}
    rest: list[Expression] = []
    for part in parts:
        asked = {ref.source for ref in refs(part)}
        has_duration = any(isinstance(e, Duration) for e in walk(part))
        source = asked.pop() if len(asked) == 1 and not has_duration else None
        if source in early and not cost_of(part):
            early[source].append(as_input(part))
        else:
            rest.append(part)
    inputs = (
        _lower_select(Select(input_, conjunction(tuple(early[source]))))
        if early[source]
        else input_
        for source, input_ in ((Source.FIRST, node.first), (Source.SECOND, node.second))
    )
    first, second = inputs
    return replace(node, first=first, second=second, predicate=conjunction(tuple(rest)))


def _lower_sequence(node: Sequence) -> Node:
    if not has_vector(node.predicate):
        return node
    node = _cheap_first(node)
    hidden = no_names(node.first, node.second)
    predicate = hoist(node.predicate, hidden)
    predicate = _constants_to(Source.SECOND, predicate)
    first: list[tuple[str, Expression]] = []
    second: list[tuple[str, Expression]] = []
    for expression, name in new_ones(hidden):
        side = first if source_of(expression) is Source.FIRST else second
        side.append((name, as_input(expression)))
    names = (
        *node.names[: len(node.first.schema)],
        *(n for n, _ in first),
        *node.names[len(node.first.schema) :],
        *(n for n, _ in second),
    )
    lowered = Sequence(
        extended(node.first, first), extended(node.second, second), predicate, names, node.horizon
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
    if not any(map(has_vector, expressions)):
        return node
    node = _cheap_first(node)
    hidden = no_names(node.first, node.second)

    def rewritten(expression: Expression) -> Expression:
        return _constants_to(Source.SECOND, hoist(expression, hidden))

    predicate, rebind = rewritten(node.predicate), rewritten(node.rebind)
    aggregates = tuple((name, rewritten(e)) for name, e in node.aggregates)
    first: list[tuple[str, Expression]] = []
    second: list[tuple[str, Expression]] = []
    for expression, name in new_ones(hidden):
        source, plain = source_of(expression), as_input(expression)
        first.append((name, plain if source in (Source.FIRST, Source.LAST) else _null(expression)))
        if source is not Source.FIRST:
            second.append((name, plain))
    lowered = Iterate(
        extended(node.first, first),
        extended(node.second, second),
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
    hidden = no_names(node.input)
    aggregates = []
    for aggregate in node.aggregates:
        args = tuple(as_column(arg, hidden) for arg in aggregate.args)
        aggregates.append(replace(aggregate, args=args))
    extra = [(name, expression) for expression, name in new_ones(hidden)]
    return SameTime(extended(node.input, extra), tuple(aggregates))
