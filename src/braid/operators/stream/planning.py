"""UNION and SAMETIME as stages."""

from __future__ import annotations

from braid.algebra.expressions import Ref, Source
from braid.algebra.nodes import Node, SameTime, Union
from braid.operators.project.planning import projected
from braid.operators.stream.spec import SameTimeRecipe, SameTimeSpec, UnionSpec
from braid.plan.planning import Planning, Request, input_names
from braid.plan.routes import Bound, PlainRecipe
from braid.plan.sharing import SAME_TIME, UNION, Channel, Operator, signature


def union(walk: Planning, node: Union, request: Request) -> Channel:
    names = tuple(n for n in node.schema.names if n in request.needed)
    sides = tuple(
        _exactly(walk, side, names, number, request.bounds)
        for number, side in enumerate(node.inputs)
    )
    membered = any(side.membered for side in sides)
    operator = Operator(UNION, sides, (names,), ())
    sharing = walk.sharing(operator)
    spec = UnionSpec(sides[0].shape, membered)
    return walk.add(operator, sharing, spec, PlainRecipe(), membered=membered)


def _exactly(
    walk: Planning, node: Node, names: tuple[str, ...], side: int, bounds: tuple[Bound, ...]
) -> Channel:
    """A channel with just these attributes in this order."""
    source = walk.channel(node, names, f"union {side} {names}", bounds)
    if source.shape.schema.names == names:
        return source
    items = tuple((n, Ref(Source.INPUT, n, node.schema.type_of(n))) for n in names)
    return projected(walk, source, items, ())


def same_time(walk: Planning, node: SameTime, request: Request) -> Channel:
    order = tuple(n for n in node.input.schema.names if not n.startswith("__v"))
    needed = input_names(*(arg for a in node.aggregates for arg in a.args))
    if any(a.function in ("max_by", "min_by") for a in node.aggregates):
        needed |= set(order)
    else:
        order = ()
    source = walk.channel(node.input, needed, signature((SAME_TIME, node.aggregates)), ())
    # A result does not show when its events began, so that births are part of what members see.
    operator = Operator(SAME_TIME, (source,), (node.aggregates, order), (walk.birth,))
    sharing = walk.sharing(operator)
    membered = not walk.frozen
    spec = SameTimeSpec(
        source.shape,
        node.aggregates,
        order,
        membered,
        None if membered else walk.birth,
        **sharing.flags,
    )
    return walk.add(operator, sharing, spec, SameTimeRecipe(walk.birth), membered=membered)
