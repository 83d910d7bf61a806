"""Selections as stages: of streams, and of the rows of relations."""

from __future__ import annotations

from braid.algebra.expressions import Source, conjunction, conjuncts
from braid.algebra.nodes import Select
from braid.algebra.relations import KeepRows
from braid.operators.select.spec import SelectionSpec, SelectRecipe
from braid.plan.column_names import columns_of, renamed
from braid.plan.duration_bounds import bounds_of
from braid.plan.planning import (
    Conjuncts,
    Planning,
    Request,
    RowPlanning,
    RowsRequest,
    input_names,
)
from braid.plan.predicates import Predicate, normalise
from braid.plan.sharing import SELECT, Channel, Operator, signature


def select(walk: Planning, node: Select, request: Request) -> Channel:
    if walk.is_composite(node.input):
        return walk.planned(node.input, request._replace(selection=node.predicate))
    bounds = (*request.bounds, *bounds_of(node.predicate))
    needed = request.needed | input_names(node.predicate)
    source = walk.shared_channel(node.input, needed, "select", bounds)
    predicate = renamed(node.predicate, {Source.INPUT: columns_of(node.input)})
    return selected(walk, source, normalise(predicate), request.port)


def selected(walk: Planning, source: Channel, predicate: Predicate, port: str) -> Channel:
    """The events of a channel for which a predicate is true. `port`: who reads them."""
    operator = Operator(SELECT, (source,), (), (predicate,))
    sharing = walk.sharing(operator)
    if walk.frozen or sharing.alone:
        port = signature((port, predicate))
    spec = SelectionSpec(source.shape, source.membered, sharing.flags.get("indexed", False))
    return walk.add(operator, sharing, spec, SelectRecipe(port, predicate), membered=True)


def keep_rows(rows: RowPlanning, relation: KeepRows, request: RowsRequest) -> Channel:
    """What is asked of rows sinks as far as it can."""
    asked = (*conjuncts(relation.predicate), *request.asked)
    return rows.rows(relation.input, request._replace(asked=asked))


def selected_rows(walk: Planning, source: Channel, asked: Conjuncts, port: str) -> Channel:
    """The rows of a channel for which everything asked is true."""
    return selected(walk, source, normalise(conjunction(asked)), port) if asked else source
