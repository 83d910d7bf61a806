"""Constants of members that follow from others: computed when members are admitted.

    FILTER{Price <= :lo + :w}(Stock)   ->   FILTER{Price <= :2}(Stock)   with :2 = :lo + :w

A template in which expressions over constants stand has a *folded* template with a parameter in the
place of each. The plan knows the folded template only, so a computed bound is an index key as a bound
that stands in the text. What has no parameter in it becomes a literal.

A constant is never NULL. Members for which an expression is NULL (`:a / :b` where `:b` is 0) keep the
template as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from braid.algebra.bounds import bound_durations
from braid.algebra.expressions import Expression, Literal, Parameter, transform, walk
from braid.algebra.templates import Members, Output, Template, map_expressions, plain
from braid.engine.exchangeable_constants import (
    groups_of,
    merged,
    repetitions,
    sorted_constants,
)
from braid.operators.core.constant_folding import folded, is_foldable
from braid.operators.core.values import Words


class Part(NamedTuple):
    """Some of the members of a template, by their rows, as members of the folded template."""

    members: Members
    rows: Words


class Folding:
    """The expressions that further parameters of a template stand for, and the parameters that may
    change places. `own`: the folded template; None if it is the template of the members."""

    def __init__(
        self, template: Template, own: Template | None, computed: tuple[Expression, ...] = ()
    ) -> None:
        self.own = own
        self.computed = computed
        self.groups = groups_of(template)
        self._merged: dict[tuple[bool, ...], Template] = {}

    def parts(self, members: Members, rows: Words, more: Sequence[pa.Array]) -> Iterator[Part]:
        """Members with further constants, each constant in its place; `rows`: which they are."""
        values = sorted_constants((*members.values, *more), self.groups)
        whole = Members(self.own or members.template, members.ids, values)
        equal = repetitions(values, self.groups, len(members))
        if not equal.any():
            yield Part(whole, rows)
            return
        for choice in np.unique(equal, axis=0):
            own = np.flatnonzero((equal == choice).all(axis=1))
            chosen = taken(whole, own)
            template = self._said_once(whole.template, tuple(choice.tolist()))
            yield Part(Members(template, chosen.ids, chosen.values), rows[own])

    def _said_once(self, template: Template, equal: tuple[bool, ...]) -> Template:
        if not any(equal):
            return template
        if equal not in self._merged:
            self._merged[equal] = merged(template, self.groups, equal)
        return self._merged[equal]


class Foldings(NamedTuple):
    """What becomes of a template: `folded` is None if it has nothing to fold."""

    plain: Folding
    folded: Folding | None


#: What becomes of the templates that are in use; None: they stay as they are.
_FOLDINGS: WeakKeyDictionary[Template, Foldings | None] = WeakKeyDictionary()


def foldings_of(template: Template) -> Foldings | None:
    """What becomes of a template; worked out once."""
    if template not in _FOLDINGS:
        plain_, folded_ = Folding(template, None), _folding(template)
        changes = folded_ is not None or bool(plain_.groups)
        _FOLDINGS[template] = Foldings(plain_, folded_) if changes else None
    return _FOLDINGS[template]


def templates_of(template: Template) -> tuple[Template, ...]:
    """The templates that decide about what members of a template read."""
    foldings = foldings_of(template)
    if foldings is None or foldings.folded is None or foldings.folded.own is None:
        return (template,)
    return (template, foldings.folded.own)


def parts_of(members: Members) -> Iterator[Part]:
    """The members with all their constants, by the template that they have in the plan."""
    foldings, every = foldings_of(members.template), np.arange(len(members))
    if foldings is None:
        yield Part(members, every)
        return
    if foldings.folded is None:
        yield from foldings.plain.parts(members, every, ())
        return
    more = [folded(e, members.values, len(members)) for e in foldings.folded.computed]
    known = np.ones(len(members), np.bool_)
    for array in more:
        known &= array.is_valid().to_numpy(zero_copy_only=False)
    if known.all():
        yield from foldings.folded.parts(members, every, more)
        return
    rows, others = every[known], every[~known]
    if len(rows):
        values = [array.take(pa.array(rows)) for array in more]
        yield from foldings.folded.parts(taken(members, rows), rows, values)
    yield from foldings.plain.parts(taken(members, others), others, ())


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
    return Folding(made, made, tuple(computed))
