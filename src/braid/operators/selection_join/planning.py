"""Selection joins as stages: a form of joins whose queries ask ranges of single inputs."""

from __future__ import annotations

from braid.operators.join.planning import JoinPlan, netted_columns, read_inside
from braid.operators.selection_join.spec import SelectionJoinRecipe, SelectionJoinSpec
from braid.plan.boxes import columns_of
from braid.plan.planning import RowPlanning, RowsRequest
from braid.plan.sharing import SELECTION_JOIN, Channel, Operator


def selection_join(rows: RowPlanning, plan: JoinPlan, request: RowsRequest) -> Channel | None:
    """The join over whole streams, with the ranges of each query as data."""
    if plan.boxes is None:
        return None
    for number, below in enumerate(plan.join.inputs):
        for name in columns_of(below):
            plan.sides.need(number, name)
    walk, sides = rows.walk, plan.sides
    netted = netted_columns(rows, plan)
    definition = (*plan.definition, netted, not plan.by_time, None)
    nothing_asked = tuple(() for _ in plan.join.inputs)
    channels, sizes = read_inside(rows, plan, SELECTION_JOIN, definition, nothing_asked)
    told = (*plan.constants, *sizes, *plan.boxes, walk.birth)
    operator = Operator(SELECTION_JOIN, channels, definition, told)
    spec = SelectionJoinSpec(
        tuple(channel.shape for channel in channels),
        sides.equalities,
        plan.residual,
        plan.emit,
        tuple(channel.membered for channel in channels),
        netted,
        complete=not plan.by_time,
    )
    recipe = SelectionJoinRecipe(plan.constants, sizes, plan.boxes, walk.birth)
    return walk.add(operator, walk.sharing(operator), spec, recipe, membered=True)
