"""Projections as stages: of streams, and of the rows of relations."""

from __future__ import annotations

from typing import Any

from braid.algebra.expressions import Expression, Ref, refs, transform
from braid.algebra.nodes import Project, Select
from braid.algebra.relations import MapRows
from braid.operators.project.spec import ProjectRecipe, ProjectSpec
from braid.operators.select.planning import selected_rows
from braid.plan.computed_columns import has_vector
from braid.plan.planning import Items, Planning, Request, RowPlanning, RowsRequest, input_names
from braid.plan.predicates import Lifter
from braid.plan.sharing import PROJECT, Channel, Operator, signature


def project(walk: Planning, node: Project, request: Request) -> Channel:
    items = tuple(item for item in node.items if item[0] in request.needed)
    below = node.input
    inner = below.input if isinstance(below, Select) else below
    if walk.is_composite(inner) and all(isinstance(e, Ref) for _, e in items):
        picked = tuple((name, e.name) for name, e in items if isinstance(e, Ref))
        selection = below.predicate if isinstance(below, Select) else None
        return walk.planned(inner, request._replace(picked=picked, selection=selection))
    lifter = Lifter()
    lifted = tuple((name, walk.lifted(e, lifter)) for name, e in items)
    asked = {name for _, e in items for name in input_names(e)}
    source = walk.channel(below, asked, signature((PROJECT, lifted)), request.bounds)
    return projected(walk, source, lifted, tuple(lifter.constants))


def projected(walk: Planning, source: Channel, items: Items, constants: tuple[Any, ...]) -> Channel:
    """The events of a channel with attributes computed anew."""
    operator = Operator(PROJECT, (source,), items, constants)
    sharing = walk.sharing(operator)
    spec = ProjectSpec(source.shape, items, source.membered)
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
