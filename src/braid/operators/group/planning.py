"""GROUP BY and SELECT DISTINCT as stages."""

from __future__ import annotations

from typing import Any

from braid.algebra.expressions import Ref
from braid.algebra.relations import DistinctRows, GroupRows
from braid.operators.group.spec import GroupSpec, NothingSpec
from braid.operators.select.planning import selected_rows
from braid.plan.planning import Planning, RowPlanning, RowsRequest
from braid.plan.routes import PlainRecipe
from braid.plan.sharing import GROUP, Channel, Operator, signature


def group_rows(rows: RowPlanning, relation: GroupRows, request: RowsRequest) -> Channel:
    """The groups of a relation. Without keys there is always one, also of no rows."""
    made = rows.walk.form(GroupRows, rows, relation, request)
    if made is None:
        made = _groups(rows, relation, request.speaks)
    if not relation.keys and relation is not rows.only_changes:
        definition = ("nothing", relation.aggregates)
        spec = NothingSpec(made.shape, relation.aggregates, made.membered)
        made = _grouped(rows.walk, made, definition, spec)
    return selected_rows(rows.walk, made, request.asked, request.port)


def _groups(rows: RowPlanning, relation: GroupRows, speaks: bool) -> Channel:
    keys = tuple(key.name for key in relation.keys if isinstance(key, Ref))
    args = (arg.name for a in relation.aggregates for arg in a.args if isinstance(arg, Ref))
    names = tuple(dict.fromkeys((*keys, *args)))
    definition = (keys, relation.aggregates, False)
    reader = signature((GROUP, definition))
    source = rows.exactly(relation.input, names, (), reader, speaks)
    spec = GroupSpec(source.shape, keys, relation.aggregates, source.membered)
    return _grouped(rows.walk, source, definition, spec)


def distinct_rows(rows: RowPlanning, relation: DistinctRows, request: RowsRequest) -> Channel:
    names = relation.schema.names
    definition = (names, (), True)
    reader = signature((GROUP, definition))
    source = rows.exactly(relation.input, names, request.asked, reader, request.speaks)
    spec = GroupSpec(source.shape, names, (), source.membered, distinct=True)
    return _grouped(rows.walk, source, definition, spec)


def _grouped(
    walk: Planning, source: Channel, definition: tuple[Any, ...], spec: GroupSpec | NothingSpec
) -> Channel:
    operator = Operator(GROUP, (source,), definition, ())
    sharing = walk.sharing(operator)
    return walk.add(operator, sharing, spec, PlainRecipe(), membered=source.membered)
