"""Constants in the aggregates of FOLD: which are part of an aggregate, and which are data of a query.

Constants are data, so that queries which differ only in them share an operator. But an aggregate with
data of its query is the query's own: others have no such data, and cannot keep its value beside theirs.
The 1 of a count (`$.n + 1 AS n`) is hardly ever another number. So -1, 0 and 1 are part of the
aggregate that they are in: counts and sums over one iteration share its instances. All other constants
are data.
"""

from __future__ import annotations

import numpy as np

from braid.algebra.expressions import Expression, Literal, Parameter, transform, walk
from braid.algebra.nodes import Iterate, walk_nodes
from braid.algebra.templates import Members, Output, Template, map_expressions
from braid.algebra.types import Kind, kind_of
from braid.plan.predicates import Lifter

#: The integers that are part of the code of an aggregate.
SMALL = (-1, 0, 1)


def lift_aggregate(lifter: Lifter, expression: Expression) -> Expression:
    """Take the constants out of an aggregate, but for those that are part of it."""

    def change(part: Expression) -> Expression | None:
        if isinstance(part, Literal) and _is_integer(part) and part.value in SMALL:
            return part
        return lifter.lift(part) if isinstance(part, Literal | Parameter) else None

    return transform(expression, change)


def _is_integer(part: Literal | Parameter) -> bool:
    return kind_of(part.type) is Kind.INTEGER


class AggregateConstants:
    """Templates in which such constants of their queries are written out; each is made once."""

    def __init__(self) -> None:
        self._parameters: dict[Template, tuple[int, ...]] = {}
        self._made: dict[tuple[Template, tuple[int | None, ...]], Template] = {}

    def divided(self, members: Members) -> list[tuple[Template, np.ndarray]]:
        """The templates of some queries, and which queries have each."""
        template = members.template
        if template not in self._parameters:
            self._parameters[template] = _aggregate_parameters(template)
        asked = self._parameters[template]
        every = np.arange(len(members))
        if not asked or not len(members):
            return [(template, every)]
        columns = [members.values[n].to_numpy(zero_copy_only=False) for n in asked]
        data = max(SMALL) + 1  # stands for all constants that are data
        kinds = np.stack([np.where(np.isin(c, SMALL), c, data) for c in columns], axis=1)
        found, which = np.unique(kinds.astype(np.int64), axis=0, return_inverse=True)
        which = which.reshape(-1)
        return [
            (self._with(template, asked, kind), np.flatnonzero(which == number))
            for number, kind in enumerate(found.tolist())
        ]

    def _with(self, template: Template, asked: tuple[int, ...], kind: list[int]) -> Template:
        values = tuple(value if value in SMALL else None for value in kind)
        known = {n: v for n, v in zip(asked, values, strict=True) if v is not None}
        if not known:
            return template
        if (template, values) not in self._made:
            self._made[template, values] = _written_out(template, known)
        return self._made[template, values]


def _aggregate_parameters(template: Template) -> tuple[int, ...]:
    """The integer parameters in aggregates of FOLD."""
    nodes = (node for output in template.outputs for node in walk_nodes(output.node))
    expressions = (e for node in nodes if isinstance(node, Iterate) for _, e in node.aggregates)
    parts = (part for e in expressions for part in walk(e) if isinstance(part, Parameter))
    return tuple(sorted({part.index for part in parts if _is_integer(part)}))


def _written_out(template: Template, values: dict[int, int]) -> Template:
    """The template with these parameters as literals. It has as many parameters as before."""

    def change(part: Expression) -> Expression | None:
        if isinstance(part, Parameter) and part.index in values:
            return Literal(values[part.index], part.type)
        return None

    outputs = tuple(
        Output(map_expressions(o.node, lambda e: transform(e, change)), o.publish)
        for o in template.outputs
    )
    return Template(outputs, template.types, None, template.views, template.mode)
