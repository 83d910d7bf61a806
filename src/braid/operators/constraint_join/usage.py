"""Which declared constraints the joins of a query use, and why they don't use the others.

    Istream(Select ... From Orders [Range 9] As O, Items [Range 9] As I Where O.id = I.id)
    CREATE CONSTRAINT rising ON Orders (id) ASCENDING        used, if no other query joins these streams
    CREATE CONSTRAINT prices ON Items (price) CLUSTERED      not compared: nobody expects it to be used

What a query would do by itself is found by planning it by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from braid.algebra.constraints import Constraint, ConstraintKind
from braid.algebra.expressions import Expression, refs
from braid.algebra.joins import parts_of
from braid.algebra.nodes import Node, Read
from braid.algebra.relations import (
    Detection,
    GroupRows,
    Join,
    KeepRows,
    MapRows,
    Relation,
    ToStream,
    Window,
    key_name,
    place,
    walk_rows,
)
from braid.algebra.types import Kind, kind_of
from braid.operators.constraint_join.declared_spec import DeclaredWatchSpec, WatchRecipe
from braid.operators.constraint_join.spec import (
    CHANGES,
    ConstraintJoinSpec,
    constraint_join_of,
)
from braid.plan.routes import Route

#: An attribute of a stream.
_Attribute = tuple[str, str]
#: The stream that an expression is, if it is one.
Named = Callable[[Node], str | None]

#: Kinds of constraints that look at single values; which types these may have.
_OF_VALUES = (ConstraintKind.ASCENDING, ConstraintKind.DESCENDING, ConstraintKind.CLUSTERED)
_WITHOUT_ORDER = (Kind.BOOLEAN, Kind.OPAQUE)

SHARED = (
    "other queries join the same streams, or streams that are sharable with them; queries share one"
    " join there, which holds all rows; only one that joins them alone when it comes uses constraints"
)
DETECTS = "DETECT holds no rows that could leave; write it as a join to use constraints"
UNEQUAL = "no equality leads from each input of the join to every other one"
CHANGING = (
    "rows of these relations come and go, and only KEY on the window of a stream is used there;"
    " join windows on the streams under Istream to use it"
)
PLAIN = (
    "this join holds its windows itself; one under Istream that shows columns as they are uses"
    " constraints"
)
OTHERS = "the join compares further attributes of these streams, which the constraint doesn't name"
WITHOUT_ORDER = "values of its type are not watched by joins"


def with_reasons(route: Route, own: Route | None, nodes: Iterable[Node], named: Named) -> Route:
    """The route of a query, whose watches know why its joins don't use what they watch. `own`: the
    route that it would have by itself, if this one may be shared; `nodes`: what it asks."""
    asked = list(nodes)
    compared = {pair for node in asked for pair in _compared(node, named)}
    stages = tuple(
        replace(stage, recipe=WatchRecipe(_why(stage.spec.constraint, route, own, asked, compared)))
        if isinstance(stage.spec, DeclaredWatchSpec)
        else stage
        for stage in route.stages
    )
    return replace(route, stages=stages)


def _why(
    constraint: Constraint,
    route: Route,
    own: Route | None,
    nodes: list[Node],
    compared: set[frozenset[_Attribute]],
) -> str | None:
    """Why a constraint is not used; None if it is, or if the query doesn't compare its attributes."""
    if any(is_used(join, constraint) for join in _joins(route)):
        return None
    if own is not None and any(_is_of_use(join, constraint) for join in _joins(own)):
        return SHARED
    if not _is_compared(constraint, compared):
        return None
    joins = [*_joins(route), *(_joins(own) if own is not None else ())]
    instead = [other for join in joins if (other := _instead(join, constraint)) is not None]
    if instead:
        return f"constraint {instead[0].name!r} of the same attributes was declared later, and is used in its place"
    if not joins:
        relations = [p for n in nodes for p in _relations(n)]
        if any(isinstance(part, Detection) for part in relations):
            return DETECTS
        return PLAIN if _all_equated(relations) else UNEQUAL
    if any(CHANGES in join.windows for join in joins):
        return CHANGING
    return WITHOUT_ORDER if constraint.kind in _OF_VALUES else OTHERS


def _joins(route: Route) -> Iterator[ConstraintJoinSpec]:
    found = (constraint_join_of(stage.spec) for stage in route.stages)
    return (spec for spec in found if spec is not None)


# ---- what a join uses ----------------------------------------------------------------------------


def is_used(spec: ConstraintJoinSpec, constraint: Constraint) -> bool:
    """Whether a join uses a constraint that was declared, as `watch/watch.py` does."""
    return _is_of_use(spec, constraint) and _instead(spec, constraint) is None


def _is_of_use(spec: ConstraintJoinSpec, constraint: Constraint) -> bool:
    """Whether a join compares just what a constraint speaks of, and can use its kind."""
    if constraint.kind is ConstraintKind.KEY:
        return any(
            stream == constraint.stream and set(constraint.attributes) <= attributes
            for stream, attributes in _looked_up(spec)
        )
    if CHANGES in spec.windows:
        return False
    if constraint.kind is ConstraintKind.REFERENCES:
        pairs = set(zip(constraint.attributes, constraint.target_attributes, strict=True))
        return any(
            (constraint.stream, constraint.target) == streams and edge == pairs
            for streams, edge in _edges(spec)
        )
    return any(
        (constraint.stream, constraint.attributes) == (spec.names[number][0], (name,))
        and kind_of(spec.inputs[number].schema.type_of(column)) not in _WITHOUT_ORDER
        for number, column, name in _compared_columns(spec)
    )


def _instead(spec: ConstraintJoinSpec, constraint: Constraint) -> Constraint | None:
    """The last constraint that says the same with another k, if a join uses that one."""
    if constraint.kind is ConstraintKind.KEY or not _is_of_use(spec, constraint):
        return None
    last = [c for c in spec.declared if _subject(c) == _subject(constraint)][-1]
    return None if last.name == constraint.name else last


def _subject(constraint: Constraint) -> tuple[object, ...]:
    theirs = constraint.target_attributes or constraint.attributes
    pairs = frozenset(zip(constraint.attributes, theirs, strict=True))
    return constraint.kind, constraint.stream, constraint.target, pairs


def _attribute(spec: ConstraintJoinSpec, number: int, column: str) -> str | None:
    return dict(spec.names[number][1]).get(column)


def _compared_columns(spec: ConstraintJoinSpec) -> Iterator[tuple[int, str, str | None]]:
    for e in spec.equalities:
        for number, column in ((e.first, e.first_column), (e.second, e.second_column)):
            yield number, column, _attribute(spec, number, column)


def _edges(
    spec: ConstraintJoinSpec,
) -> Iterator[tuple[tuple[str | None, str | None], set[tuple[str | None, str | None]]]]:
    """Two streams that are compared, and pairs of their attributes; in both directions."""
    found: dict[tuple[int, int], set[tuple[str | None, str | None]]] = {}
    for e in spec.equalities:
        first = _attribute(spec, e.first, e.first_column)
        second = _attribute(spec, e.second, e.second_column)
        found.setdefault((e.first, e.second), set()).add((first, second))
        found.setdefault((e.second, e.first), set()).add((second, first))
    for (own, other), pairs in found.items():
        yield (spec.names[own][0], spec.names[other][0]), pairs


def _looked_up(spec: ConstraintJoinSpec) -> Iterator[tuple[str | None, set[str | None]]]:
    """The streams that are looked up from another one, and by which attributes together."""
    for (own, _), pairs in _edges(spec):
        yield own, {first for first, _ in pairs}


# ---- what a query compares -----------------------------------------------------------------------


def _is_compared(constraint: Constraint, compared: set[frozenset[_Attribute]]) -> bool:
    """Whether joins compare all attributes of a constraint, of REFERENCES with their partners."""
    own = [(constraint.stream, name) for name in constraint.attributes]
    if constraint.target is None:
        every = {attribute for pair in compared for attribute in pair}
        return all(attribute in every for attribute in own)
    theirs = [(constraint.target, name) for name in constraint.target_attributes]
    return all(frozenset(pair) in compared for pair in zip(own, theirs, strict=True))


def _compared(node: Node, named: Named) -> Iterator[frozenset[_Attribute]]:
    """Attributes of streams that joins of an expression compare with each other."""
    for part in _relations(node):
        if not isinstance(part, Join):
            continue
        parts = parts_of(part)
        for comparison in (*parts.equalities, *parts.comparisons):
            sides = (comparison.left, comparison.right)
            left, right = (
                {a for ref in refs(s.expression) for a in _traced(part, s.input, ref.name, named)}
                for s in sides
            )
            yield from (frozenset((a, b)) for a in left for b in right)


def _relations(node: Node) -> Iterator[Relation]:
    if isinstance(node, ToStream):
        yield from walk_rows(node.relation)
    for below in node.inputs:
        yield from _relations(below)


def _traced(join: Join, number: int, name: str, named: Named) -> Iterator[_Attribute]:
    return _attributes(join.inputs[number], name, named)


def _attributes(relation: Relation, name: str, named: Named) -> Iterator[_Attribute]:
    """The attributes of streams that a column of a relation is made of."""
    if isinstance(relation, Window):
        stream = named(relation.input)
        if stream is None and isinstance(relation.input, Read):
            stream = relation.input.stream
        if stream is not None:
            yield stream, name
        return
    if isinstance(relation, MapRows):
        items: dict[str, Expression] = dict(relation.items)
        for ref in refs(items[name]) if name in items else ():
            yield from _attributes(relation.input, ref.name, named)
        return
    if isinstance(relation, GroupRows):
        keys = {key_name(number): key for number, key in enumerate(relation.keys)}
        for ref in refs(keys[name]) if name in keys else ():
            yield from _attributes(relation.input, ref.name, named)
        return
    if isinstance(relation, Join):
        number, own = place(name)
        yield from _attributes(relation.inputs[number], own, named)
        return
    for below in relation.inputs:
        if isinstance(relation, KeepRows) or name in below.schema:
            yield from _attributes(below, name, named)


def _all_equated(relations: list[Relation]) -> bool:
    """Whether in each join equalities lead from every input to every other one."""
    for part in relations:
        if isinstance(part, Join):
            groups = [{number} for number in range(len(part.inputs))]
            for e in parts_of(part).equalities:
                if e.function == "eq":
                    touched = [g for g in groups if set(e.inputs) & g]
                    groups = [g for g in groups if g not in touched] + [set().union(*touched)]
            if len(groups) > 1:
                return False
    return True
