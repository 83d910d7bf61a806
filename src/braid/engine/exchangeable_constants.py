"""Exchangeable constants: parameters that may change places without changing any answer.

    Volume > 2 * Price + :0 OR Volume > 2 * Price + :1

Both parts have the same shape, so their order in the normal form cannot come from the shape. Two
members that say the same in another order have the same constants in other places. Braid sorts the
constants of each member, so that both are the same node. Where the constants of two parts of AND or OR
are equal, the parts are one, and the member has the template that says it once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from braid.algebra.expressions import Call, Expression, Parameter, transform, walk
from braid.algebra.templates import Output, Template, map_expressions
from braid.algebra.types import Kind, kind_of
from braid.operators.core.columns import words_of
from braid.operators.core.values import Values, Words
from braid.plan.normal_form import exchangeable, normal_node, order_of

#: Equal parts become one where there are at most so many: there is a template for each choice.
_MOST_PARTS, _MOST_GROUPS = 3, 2


class Group(NamedTuple):
    """The parameters of each of several parts that differ in nothing else.

    `merges`: whether equal parts are one.
    """

    blocks: tuple[tuple[int, ...], ...]
    merges: bool


def groups_of(template: Template) -> tuple[Group, ...]:
    """The exchangeable parameters of a template, inner parts first."""
    found: dict[Group, None] = {}
    expressions: list[Expression] = []

    def look(expression: Expression) -> Expression:
        expressions.append(expression)
        for part in reversed(walk(expression)):
            if isinstance(part, Call):
                found.update(dict.fromkeys(_groups_in(part)))
        return expression

    for output in template.outputs:
        map_expressions(normal_node(output.node), look)
    if not found:
        return ()
    parts = (part for expression in expressions for part in walk(expression))
    uses = Counter(part.index for part in parts if isinstance(part, Parameter))
    once = [g for g in found if all(uses[index] == 1 for block in g.blocks for index in block)]
    merging = [g for g in once if g.merges and len(g.blocks) <= _MOST_PARTS][:_MOST_GROUPS]
    return tuple([g._replace(merges=g in merging) for g in once])


def _groups_in(call: Call) -> Iterable[Group]:
    args = exchangeable(call)
    if len({order_of(part) for part in args}) == len(args):
        return []
    alike: dict[Expression, list[tuple[int, ...]]] = {}
    for part in args:
        own = tuple([p.index for p in walk(part) if isinstance(p, Parameter)])
        if own:
            alike.setdefault(_without_parameters(part), []).append(own)
    merges = call.function in ("and", "or")
    return [Group(tuple(blocks), merges) for blocks in alike.values() if len(blocks) > 1]


def _without_parameters(part: Expression) -> Expression:
    def change(e: Expression) -> Expression | None:
        return Parameter(0, e.type) if isinstance(e, Parameter) else None

    return transform(part, change)


def sorted_constants(values: Sequence[pa.Array], groups: Iterable[Group]) -> tuple[pa.Array, ...]:
    """The constants of members with those of each group in order."""
    columns = list(values)
    for group in groups:
        order = _order(columns, group)
        count = order.shape[1]
        for place in range(len(group.blocks[0])):
            whole = pa.concat_arrays([columns[block[place]] for block in group.blocks])
            for number, block in enumerate(group.blocks):
                rows = pa.array(order[number] * count + np.arange(count))
                columns[block[place]] = whole.take(rows)
    return tuple(columns)


def _order(columns: Sequence[pa.Array], group: Group) -> Words:
    """For each place in the group the block that is there, one column for each member."""
    count = len(columns[group.blocks[0][0]])
    order: Words = np.repeat(np.arange(len(group.blocks))[:, None], count, axis=1)
    for place in reversed(range(len(group.blocks[0]))):
        keys = np.stack([_keys(columns[block[place]]) for block in group.blocks])
        ranks = np.argsort(np.take_along_axis(keys, order, 0), axis=0, kind="stable")
        order = np.take_along_axis(order, ranks, 0)
    return order


def _keys(column: pa.Array) -> np.ndarray:
    """What constants are sorted by: the same in every process."""
    if kind_of(column.type) is Kind.STRING:
        return np.array(column.to_pylist(), np.object_)
    return words_of(column, column.type, Values())


def repetitions(values: Sequence[pa.Array], groups: Sequence[Group], count: int) -> np.ndarray:
    """Of each member, for each two blocks of a merging group that follow each other: whether they
    are equal."""
    found = [
        np.all([_keys(values[a]) == _keys(values[b]) for a, b in zip(*pair, strict=True)], axis=0)
        for group in groups
        if group.merges
        for pair in zip(group.blocks, group.blocks[1:], strict=False)
    ]
    return np.stack(found, axis=1) if found else np.zeros((count, 0), np.bool_)


def merged(template: Template, groups: Sequence[Group], equal: Sequence[bool]) -> Template:
    """The template of members whose blocks are equal in these places."""
    left, same = iter(equal), dict[int, int]()
    for group in groups:
        for before, block in zip(group.blocks, group.blocks[1:], strict=False):
            if group.merges and next(left):
                known = [same.get(index, index) for index in before]
                same.update(zip(block, known, strict=True))

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Parameter) or part.index not in same:
            return None
        return Parameter(same[part.index], part.type)

    outputs = tuple(
        Output(map_expressions(o.node, lambda e: transform(e, change)), o.publish)
        for o in template.outputs
    )
    return Template(outputs, template.types, views=template.views, mode=template.mode)
