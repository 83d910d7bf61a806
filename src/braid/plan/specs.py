"""What each m-op does, as data: frozen, comparable, picklable; `mops` makes them run.

The docstring of each spec states the law for it: for each member query, the output restricted
to the query equals the reference answer of the expression that the spec stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from braid.algebra.expressions import (
    TRUE,
    Call,
    Duration,
    Expression,
    Literal,
    Ref,
    Source,
    conjunction,
    conjuncts,
    refs,
)
from braid.algebra.nodes import Aggregate
from braid.algebra.schema import Schema
from braid.algebra.text import show, show_duration
from braid.algebra.types import Kind, kind_of
from braid.plan.layout import Layout


@dataclass(frozen=True)
class Shape:
    """What lies in the rows of a channel: columns with their types."""

    schema: Schema

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.schema.names)


class Spec(Protocol):
    """What every m-op says about itself."""

    @property
    def output(self) -> Shape: ...

    @property
    def stateful(self) -> bool: ...

    def describe(self) -> str:
        """One line for `explain`."""
        ...


@dataclass(frozen=True)
class SelectSpec:
    """For each member: the input events for which its predicate is true."""

    input: Shape
    predicate: Expression

    @property
    def output(self) -> Shape:
        return self.input

    @property
    def stateful(self) -> bool:
        return False

    def describe(self) -> str:
        return f"select {show(self.predicate)}"


@dataclass(frozen=True)
class ProjectSpec:
    """For each member: every input event, with its attributes computed anew."""

    input: Shape
    items: tuple[tuple[str, Expression], ...]

    @cached_property
    def output(self) -> Shape:
        return Shape(Schema.of((name, e.type) for name, e in self.items))

    @property
    def stateful(self) -> bool:
        return False

    def describe(self) -> str:
        shown = (
            name if isinstance(e, Ref) and e.name == name else f"{show(e)} AS {name}"
            for name, e in self.items
        )
        return f"project {', '.join(shown)}"


@dataclass(frozen=True)
class UnionSpec:
    """For each member: all events of both inputs."""

    input: Shape

    @property
    def output(self) -> Shape:
        return self.input

    @property
    def stateful(self) -> bool:
        return False

    def describe(self) -> str:
        return "union"


@dataclass(frozen=True)
class SameTimeSpec:
    """For each member: one event an epoch. Arguments of the aggregates are plain references.

    `order` names the attributes that decide ties of max_by and min_by.
    """

    input: Shape
    aggregates: tuple[Aggregate, ...]
    order: tuple[str, ...]

    @cached_property
    def output(self) -> Shape:
        return Shape(Schema.of((a.name, a.type) for a in self.aggregates))

    @property
    def stateful(self) -> bool:
        return False

    def describe(self) -> str:
        shown = (
            f"{a.function}({'DISTINCT ' if a.distinct else ''}{', '.join(map(show, a.args)) or '*'}) AS {a.name}"
            for a in self.aggregates
        )
        return f"same time {{{', '.join(shown)}}}"


@dataclass(frozen=True)
class Key:
    """An equality that finds instances by hash: a column of the instance, one of the event."""

    instance: str
    event: str
    floating: bool


@dataclass(frozen=True)
class PatternSpec:
    """One NEXT (`rebind` None) or FOLD.

    `columns` are the columns of an instance: `f:a` holds the first event's attribute a as it
    came, `l:a` the value of the last iteration. `emit` names for each output attribute where it
    comes from: an instance column, or `e:a`, an attribute of the event (NEXT only).
    """

    first: Shape
    second: Shape
    predicate: Expression
    rebind: Expression | None
    aggregates: tuple[tuple[str, Expression], ...]
    horizon: int | None
    emit: tuple[tuple[str, str], ...]

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
        for expression in (self.predicate, self.rebind or TRUE, *(e for _, e in self.aggregates)):
            for ref in refs(expression):
                if ref.source in _PREFIX:
                    needed[_PREFIX[ref.source] + ref.name] = ref.type
        for _, source in self.emit:
            if not source.startswith("e:"):
                needed[source] = self.type_of(source)
        return Schema.of(sorted(needed.items()))

    def type_of(self, source: str) -> pa.DataType:
        prefix, name = source[:2], source[2:]
        aggregates = dict(self.aggregates)
        if prefix == "l:" and name in aggregates:
            return aggregates[name].type
        shape = self.first if prefix == "f:" else self.second
        return shape.schema.type_of(name)

    @cached_property
    def output(self) -> Shape:
        return Shape(Schema.of((name, self.type_of(source)) for name, source in self.emit))

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        return tuple(k for part in conjuncts(self.predicate) if (k := _key(part)) is not None)

    @cached_property
    def residual(self) -> Expression:
        """What is left of the predicate once keys and horizon have been taken out."""
        rest = (
            part
            for part in conjuncts(self.predicate)
            if _key(part) is None and not _implied_by_horizon(part, self.horizon)
        )
        return conjunction(tuple(rest))

    def describe(self) -> str:
        name = "iterate" if self.iterates else "sequence"
        parts = [show(self.predicate)]
        if self.rebind is not None:
            parts.append(f"rebind {show(self.rebind)}")
            parts += [f"{show(e)} AS {n}" for n, e in self.aggregates]
        shown = ", ".join(f"$2.{k.event} = {_shown(k.instance)}" for k in self.keys)
        index = f"hash on {shown}" if shown else "no index: every instance is looked at"
        bound = (
            "unbounded" if self.horizon is None else f"expires after {show_duration(self.horizon)}"
        )
        return f"{name} {{{'; '.join(parts)}}} ({index}; {bound})"


_PREFIX = {Source.FIRST: "f:", Source.LAST: "l:"}


def _shown(column: str) -> str:
    return ("$1." if column.startswith("f:") else "$.") + column[2:]


def _plain(expression: Expression) -> Ref | None:
    """A reference, seen through casts that do not change its word."""
    if isinstance(expression, Ref):
        return expression
    if isinstance(expression, Call) and expression.function == "cast":
        inner, target = expression.args[0], expression.type
        kinds = (kind_of(inner.type), kind_of(target))
        widens = kinds in ((Kind.INTEGER, Kind.INTEGER), (Kind.FLOAT, Kind.FLOAT))
        if widens and inner.type.bit_width <= target.bit_width:
            return _plain(inner)
    return None


def _key(part: Expression) -> Key | None:
    if not (isinstance(part, Call) and part.function == "eq"):
        return None
    left, right = (_plain(a) for a in part.args)
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


def _implied_by_horizon(part: Expression, horizon: int | None) -> bool:
    match part:
        case Call(function="le", args=(duration, Literal(value=value))) if horizon is not None:
            if isinstance(duration, Call) and duration.function == "cast":
                if kind_of(duration.type) is not Kind.INTEGER:
                    return False
                duration = duration.args[0]
            return (
                isinstance(duration, Duration) and isinstance(value, int) and value >= horizon >= 0
            )
    return False
