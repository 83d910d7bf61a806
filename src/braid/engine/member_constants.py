"""Constants of members that follow from others: computed when members are admitted.

    FILTER{Price <= :lo + :w}(Stock)   ->   FILTER{Price <= :2}(Stock)   with :2 = :lo + :w

A template in which expressions over constants stand has a *folded* template with a parameter in the
place of each. The plan knows the folded template only, so a computed bound is an index key as a bound
that stands in the text. What has no parameter in it becomes a literal.

A constant is never NULL. Members for which an expression is NULL (`:a / :b` where `:b` is 0) keep the
template as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from braid.algebra.bounds import bound_durations
from braid.algebra.expressions import Expression, Literal, Parameter, transform, walk
from braid.algebra.templates import Members, Output, Template, map_expressions, plain
from braid.operators.core.constant_folding import folded, is_foldable
from braid.operators.core.values import Words


class Part(NamedTuple):
    """Some of the members of a template, by their rows, as members of the folded template."""

    members: Members
    rows: Words


class Folding(NamedTuple):
    """A folded template, and the expressions that its further parameters stand for."""

    template: Template
    computed: tuple[Expression, ...]


#: The foldings of templates that are in use; None if there is nothing to fold.
_FOLDINGS: WeakKeyDictionary[Template, Folding | None] = WeakKeyDictionary()


def folding_of(template: Template) -> Folding | None:
    """How a template is folded; worked out once."""
    if template not in _FOLDINGS:
        _FOLDINGS[template] = _folding(template)
    return _FOLDINGS[template]


def templates_of(template: Template) -> tuple[Template, ...]:
    """The templates that members of a template may have in the plan."""
    folding = folding_of(template)
    return (template,) if folding is None else (template, folding.template)


def parts_of(members: Members) -> Iterator[Part]:
    """The members with all their constants, by the template that they have in the plan."""
    folding, every = folding_of(members.template), np.arange(len(members))
    if folding is None:
        yield Part(members, every)
        return
    more = [folded(e, members.values, len(members)) for e in folding.computed]
    known = np.ones(len(members), np.bool_)
    for array in more:
        known &= array.is_valid().to_numpy(zero_copy_only=False)
    if known.all():
        yield Part(Members(folding.template, members.ids, (*members.values, *more)), every)
        return
    rows, others = every[known], every[~known]
    if len(rows):
        chosen = taken(members, rows)
        values = tuple(array.take(pa.array(rows)) for array in more)
        yield Part(Members(folding.template, chosen.ids, (*chosen.values, *values)), rows)
    yield Part(taken(members, others), others)


def taken(members: Members, rows: Words) -> Members:
    """Some of the members of a template."""
    if len(rows) == len(members):
        return members
    which = pa.array(rows, pa.int64())
    columns = tuple(column.take(which) for column in members.values)
    return Members(members.template, members.ids.take(which), columns)


def _folding(template: Template) -> Folding | None:
    """None if no expression over constants stands in the template."""
    computed: dict[Expression, Parameter] = {}
    found = False

    def change(part: Expression) -> Expression | None:
        nonlocal found
        if not is_foldable(part):
            return None
        found = True
        if not any(isinstance(below, Parameter) for below in walk(part)):
            return Literal(plain(folded(part, (), 1)[0]), part.type)
        number = len(template.types) + len(computed)
        return computed.setdefault(part, Parameter(number, part.type))

    def folded_output(output: Output) -> Output:
        node = map_expressions(output.node, lambda e: transform(e, change))
        return Output(bound_durations(node), output.publish)

    outputs = tuple([folded_output(output) for output in template.outputs])
    if not found:
        return None
    types = (*template.types, *(parameter.type for parameter in computed.values()))
    made = Template(outputs, types, views=template.views, mode=template.mode)
    return Folding(made, tuple(computed))
