"""The spec and the recipe of NEXT and FOLD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from braid.algebra.expressions import (
    Call,
    Expression,
    Source,
    is_true,
    refs,
)
from braid.algebra.schema import Schema
from braid.algebra.text import show
from braid.algebra.types import Kind, kind_of
from braid.plan.column_names import shown_columns
from braid.plan.predicates import ALWAYS, Clause, Constant, Predicate
from braid.plan.routes import Bound, Data, DataKind, Recipe
from braid.plan.specs import Shape, Spec, plain_ref


@dataclass(frozen=True)
class Key:
    """An equality that finds instances by hash: a column of the instance, one of the event."""

    instance: str
    event: str
    floating: bool


@dataclass(frozen=True)
class AlternativeKey:
    """An equality that is a key of one alternative only: of an instance's column with an attribute of the
    event, or of a constant of the member, by its number."""

    event: str
    floating: bool
    instance: str | None = None
    constant: int = -1


@dataclass(frozen=True)
class Last:
    """A value of the last iteration: the column of the first event that it starts as, if there is one,
    and what an iteration makes of it."""

    name: str
    start: str | None
    update: Expression

    @property
    def is_aggregate(self) -> bool:
        """Whether it is computed, and not an attribute of the event as it came."""
        return "#" in self.name


@dataclass(frozen=True)
class StepSpec(Spec):
    """One NEXT (`rebind` None) or FOLD, of all members that have this shape.

    For each member: the composites of its own first events. `keys` and `residual` are what is
    left of the predicate once the tests of the second event against constants, and the bounds
    on DUR, have become data of the members; so have the constants in all expressions. Members
    may go on with a selection of the composites (the forward edges of the automaton).

    `columns` are the columns of an instance: `f:a` holds the first event's column a as it
    came, `l:a` the value of the last iteration. `emit` has the output columns, each named by where it
    comes from: an instance column, or `e:a`, a column of the event (NEXT only). They are the union of
    what the members show and test later, which is no part of what a step is.

    `merged`: members that agree so far share instances; `channels`: so do members that agree
    from here on. `static_index`, `forward_index`: whether instances and forward edges are
    found by hash of constants. `alternatives`: where the residual is a disjunction, the keys by which
    instances are found along each of its clauses, beside `keys`.
    """

    first: Shape
    second: Shape
    keys: tuple[Key, ...]
    residual: Expression
    rebind: Expression | None
    lasts: tuple[Last, ...]
    emit: tuple[str, ...]
    first_membered: bool
    second_membered: bool
    merged: bool = True
    channels: bool = True
    static_index: bool = True
    forward_index: bool = True
    alternatives: tuple[tuple[AlternativeKey, ...], ...] = ()

    @property
    def stateful(self) -> bool:
        return True

    @property
    def iterates(self) -> bool:
        return self.rebind is not None

    @cached_property
    def columns(self) -> Schema:
        """Only what a predicate, an aggregate or the output asks for is bound."""
        needed: dict[str, pa.DataType] = {}
        for expression in self.expressions:
            for ref in refs(expression):
                if ref.source in _PREFIX:
                    needed[_PREFIX[ref.source] + ref.name] = ref.type
        sources = [source for source in self.emit if not source.startswith("e:")]
        for source in (*sources, *(key.instance for key in self.keys)):
            needed[source] = self.type_of(source)
        return Schema.of(sorted(needed.items()))

    def type_of(self, source: str) -> pa.DataType:
        return _type_of(source, self.first, self.second, self.lasts)

    @cached_property
    def output(self) -> Shape:
        return _emitted(self.emit, self.first, self.second, self.lasts)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Everything that is compiled, in the order of its constants."""
        rebind = () if self.rebind is None else (self.rebind,)
        return (self.residual, *rebind, *(last.update for last in self.lasts))

    def describe(self) -> str:
        name = "iterate" if self.iterates else "sequence"
        parts = [f"$2.{k.event} = {_shown(k.instance)}" for k in self.keys]
        if not is_true(self.residual) or not parts:
            parts.append(show(self.residual))
        shown = " AND ".join(parts)
        if self.rebind is not None:
            shown += f"; rebind {show(self.rebind)}"
            computed = (last for last in self.lasts if last.is_aggregate)
            shown += "".join(f"; {show(last.update)} AS {last.name}" for last in computed)
        if self.alternatives:
            shown += f"; found by {' or by '.join(map(_alternative_shown, self.alternatives))}"
        return shown_columns(f"{name} {{{shown}}}")


def _type_of(source: str, first: Shape, second: Shape, lasts: tuple[Last, ...]) -> pa.DataType:
    prefix, name = source[:2], source[2:]
    if prefix == "l:":
        return next(last.update.type for last in lasts if last.name == name)
    shape = first if prefix == "f:" else second
    return shape.schema.type_of(name)


@lru_cache(4096)
def _emitted(emit: tuple[str, ...], first: Shape, second: Shape, lasts: tuple[Last, ...]) -> Shape:
    """What a step emits: the same object for all templates that meet in it."""
    return Shape(Schema.of((source, _type_of(source, first, second, lasts)) for source in emit))


_PREFIX = {Source.FIRST: "f:", Source.LAST: "l:"}


def _shown(column: str) -> str:
    return ("$1." if column.startswith("f:") else "$.") + column[2:]


def _alternative_shown(alternative: tuple[AlternativeKey, ...]) -> str:
    sides = [_shown(k.instance) if k.instance else f":{k.constant + 1}" for k in alternative]
    return " AND ".join(
        f"$2.{k.event} = {side}" for k, side in zip(alternative, sides, strict=True)
    )


def key_of(part: Expression) -> Key | None:
    if not (isinstance(part, Call) and part.function == "eq"):
        return None
    left, right = (plain_ref(a) for a in part.args)
    if left is None or right is None:
        return None
    if left.source is Source.SECOND:
        left, right = right, left
    if left.source not in _PREFIX or right.source is not Source.SECOND:
        return None
    if kind_of(left.type) is not kind_of(right.type) or kind_of(left.type) is Kind.OPAQUE:
        return None
    if kind_of(left.type) is Kind.DECIMAL and left.type.scale != right.type.scale:
        return None
    floating = kind_of(left.type) is Kind.FLOAT
    return Key(_PREFIX[left.source] + left.name, right.name, floating)


@dataclass(frozen=True)
class StepRecipe(Recipe):
    """Tests of the second event, constants of the expressions, bounds, the forward selection."""

    tests: Clause = ()
    constants: tuple[Constant, ...] = ()
    bounds: tuple[Bound, ...] = ()
    forward: Predicate = ALWAYS
    #: The bounds are asked of the results where they come out: members that differ in nothing
    #: else are one.
    bounded_outside: bool = False

    @property
    def bounds_outside(self) -> tuple[Bound, ...]:
        return self.bounds if self.bounded_outside else ()

    @property
    def data(self) -> tuple[Data, ...]:
        return (
            Data(DataKind.CLAUSE, self.tests),
            Data(DataKind.CONSTANTS, self.constants),
            Data(DataKind.BOUNDS, self.bounds),
            Data(DataKind.PREDICATE, self.forward),
            Data(DataKind.FIXED, self.bounded_outside),
        )

    def with_data(self, values: Sequence[Any]) -> StepRecipe:
        return StepRecipe(*values)
