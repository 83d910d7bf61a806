"""Projections as stages: of streams, and of the rows of relations."""

from __future__ import annotations

from typing import Any

from braid.algebra.expressions import Expression, Ref, Source, refs, transform
from braid.algebra.nodes import Project, Select
from braid.algebra.relations import MapRows
from braid.operators.project.spec import ProjectRecipe, ProjectSpec
from braid.operators.select.planning import selected_rows
from braid.plan.column_names import columns_of, renamed
from braid.plan.computed_columns import has_vector
from braid.plan.planning import (
    EXIT,
    Items,
    Planning,
    Request,
    RowPlanning,
    RowsRequest,
    input_names,
)
from braid.plan.predicates import Lifter
from braid.plan.sharing import PROJECT, Channel, Operator, Sharing, signature


def project(walk: Planning, node: Project, request: Request) -> Channel:
    """Attributes as they are cost nothing: who reads the channel finds them in the input's columns.
    So a projection computes what has to be computed, and passes on what is needed besides."""
    items = tuple(item for item in node.items if item[0] in request.needed)
    if request.named:
        return _named(walk, node, items, request)
    if all(isinstance(e, Ref) for _, e in items):
        below = frozenset(e.name for _, e in items if isinstance(e, Ref))
        return walk.planned(node.input, request._replace(needed=below))
    names, below_names = columns_of(node), {Source.INPUT: columns_of(node.input)}
    lifter = Lifter()
    computed = {names[n]: renamed(e, below_names) for n, e in node.items if not isinstance(e, Ref)}
    definition = tuple((n, walk.lifted(computed[n], lifter)) for n in sorted(computed))
    lifted = dict(definition)
    shown = {names[n]: lifted.get(names[n]) or renamed(e, below_names) for n, e in items}
    source = _source(walk, node, items, signature((PROJECT, definition)), request)
    operator = Operator(PROJECT, (source,), definition, tuple(lifter.constants))
    sharing = walk.sharing(operator)
    written = walk.shared_columns(sharing, shown)
    return _added(walk, operator, sharing, written)


def _named(walk: Planning, node: Project, items: Items, request: Request) -> Channel:
    """The attributes under their own names."""
    below = {Source.INPUT: columns_of(node.input)}
    lifter = Lifter()
    lifted = tuple((name, walk.lifted(renamed(e, below), lifter)) for name, e in items)
    source = _source(walk, node, items, signature((PROJECT, lifted)), request)
    return projected(walk, source, lifted, tuple(lifter.constants))


def _source(walk: Planning, node: Project, items: Items, port: str, request: Request) -> Channel:
    """What a projection reads, for these of its items. A result lasts as long as the event that it is
    computed from, so what is asked of the results of a pattern may be asked above the projection."""
    asked = {name for _, e in items for name in input_names(e)}
    inner = node.input.input if isinstance(node.input, Select) else node.input
    if request.port == EXIT and walk.is_composite(inner):
        port = EXIT
    return walk.shared_channel(node.input, asked, port, request.bounds)


def projected(walk: Planning, source: Channel, items: Items, constants: tuple[Any, ...]) -> Channel:
    """The events of a channel with attributes computed anew."""
    operator = Operator(PROJECT, (source,), items, constants)
    return _added(walk, operator, walk.sharing(operator), items)


def _added(walk: Planning, operator: Operator, sharing: Sharing, items: Items) -> Channel:
    (source,), constants = operator.inputs, operator.constants
    spec = ProjectSpec(source.shape, items, source.membered, len(constants))
    membered = source.membered or bool(constants)
    return walk.add(operator, sharing, spec, ProjectRecipe(constants), membered=membered)


def map_rows(rows: RowPlanning, relation: MapRows, request: RowsRequest) -> Channel:
    walk = rows.walk
    relation = _composed(relation, request.needed | _names(*request.asked))
    computed = dict(relation.items)
    # A function over whole columns is computed once, and not inside a predicate.
    here = tuple(p for p in request.asked if any(has_vector(computed[n]) for n in _names(p)))
    below = tuple(_substituted(p, computed) for p in request.asked if p not in here)
    shown = request.needed | _names(*here)
    items = tuple(item for item in relation.items if item[0] in shown)
    inner = relation.input
    if walk.is_composite(inner) and not here and all(isinstance(e, Ref) for _, e in items):
        picked = tuple((name, e.name) for name, e in items if isinstance(e, Ref))
        return rows.rows(inner, request._replace(asked=below, picked=picked))
    lifter = Lifter()
    lifted = tuple((name, walk.lifted(e, lifter)) for name, e in items)
    reader = signature((PROJECT, lifted))
    names = _names(*(e for _, e in items))
    source = rows.rows(inner, RowsRequest(names, below, reader, request.speaks))
    made = projected(walk, source, (*lifted, *rows.weight), tuple(lifter.constants))
    return selected_rows(walk, made, here, request.port)


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


def _names(*expressions: Expression) -> frozenset[str]:
    return frozenset(ref.name for e in expressions for ref in refs(e))


def _substituted(expression: Expression, items: dict[str, Expression]) -> Expression:
    def change(part: Expression) -> Expression | None:
        return items[part.name] if isinstance(part, Ref) else None

    return transform(expression, change)
