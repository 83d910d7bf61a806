"""What each m-op does, as data: frozen, comparable, picklable; `mops` makes them run.

The docstring of each spec states the law for it: for each member query, the output restricted
to the query equals the reference answer of the expression that the spec stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import pyarrow as pa

from braid.algebra.expressions import (
    TRUE,
    Call,
    Expression,
    Parameter,
    Ref,
    Source,
    is_true,
    refs,
    walk,
)
from braid.algebra.nodes import Aggregate
from braid.algebra.schema import Schema
from braid.algebra.text import show
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
class SelectionSpec:
    """For each member: the input events for which its predicate is true.

    One for all selections of a channel, in whatever query they stand. `membered`: the events
    belong to members themselves, and a selection looks at those of one of them.
    """

    input: Shape
    membered: bool
    indexed: bool = True

    @property
    def output(self) -> Shape:
        return self.input

    @property
    def stateful(self) -> bool:
        return False

    def describe(self) -> str:
        return "select" if self.indexed else "select, one predicate after the other"


@dataclass(frozen=True)
class ProjectSpec:
    """For each member: every input event, with its attributes computed anew.

    Constants in `items` are parameters of the member. `shared`: computed once for all members
    of an event where no constant is asked.
    """

    input: Shape
    items: tuple[tuple[str, Expression], ...]
    membered: bool
    shared: bool = True

    @cached_property
    def output(self) -> Shape:
        return Shape(Schema.of((name, e.type) for name, e in self.items))

    @cached_property
    def constants(self) -> int:
        """How many constants of a member the items ask for."""
        found = (p.index for _, e in self.items for p in walk(e) if isinstance(p, Parameter))
        return max(found, default=-1) + 1

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
    membered: bool

    @property
    def output(self) -> Shape:
        return self.input

    @property
    def stateful(self) -> bool:
        return False

    def describe(self) -> str:
        return "union"


@dataclass(frozen=True)
class EncodeSpec:
    """Sharable streams as one channel: each event once, with the streams that it belongs to."""

    input: Shape
    streams: tuple[str, ...]

    @property
    def output(self) -> Shape:
        return self.input

    @property
    def stateful(self) -> bool:
        return False

    def describe(self) -> str:
        return f"channel of {', '.join(self.streams)}"


@dataclass(frozen=True)
class PublishSpec:
    """The events of one published stream: those of all members that publish it."""

    input: Shape
    stream: str

    @property
    def output(self) -> Shape:
        return self.input

    @property
    def stateful(self) -> bool:
        return False

    def describe(self) -> str:
        return f"publish {self.stream}"


@dataclass(frozen=True)
class SameTimeSpec:
    """For each member: one event an epoch. Arguments of the aggregates are plain references.

    `order` names the attributes that decide ties of max_by and min_by. `birth`: only events that
    start then or later are seen; a result does not show when the events that it is of began, so
    queries that came at different times do not share it.
    """

    input: Shape
    aggregates: tuple[Aggregate, ...]
    order: tuple[str, ...]
    birth: int | None = None

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
class WayKey:
    """An equality that is a key of one way only: of an instance's column with an attribute of the
    event, or of a constant of the member, by its number."""

    event: str
    floating: bool
    instance: str | None = None
    constant: int = -1


@dataclass(frozen=True)
class StepSpec:
    """One NEXT (`rebind` None) or FOLD, of all members that have this shape.

    For each member: the composites of its own first events. `keys` and `residual` are what is
    left of the predicate once the tests of the second event against constants, and the bounds
    on DUR, have become data of the members; so have the constants in all expressions. Members
    may go on with a selection of the composites (the forward edges of the automaton).

    `columns` are the columns of an instance: `f:a` holds the first event's attribute a as it
    came, `l:a` the value of the last iteration. `emit` names for each output attribute where it
    comes from: an instance column, or `e:a`, an attribute of the event (NEXT only).

    `merged`: members that agree so far share instances; `channels`: so do members that agree
    from here on. `static_index`, `forward_index`: whether instances and forward edges are
    found by hash of constants. `ways`: where the residual is a disjunction, the keys by which
    instances are found along each of its clauses, beside `keys`.
    """

    first: Shape
    second: Shape
    keys: tuple[Key, ...]
    residual: Expression
    rebind: Expression | None
    aggregates: tuple[tuple[str, Expression], ...]
    emit: tuple[tuple[str, str], ...]
    first_membered: bool
    second_membered: bool
    merged: bool = True
    channels: bool = True
    static_index: bool = True
    forward_index: bool = True
    ways: tuple[tuple[WayKey, ...], ...] = ()

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
        for expression in (self.residual, self.rebind or TRUE, *(e for _, e in self.aggregates)):
            for ref in refs(expression):
                if ref.source in _PREFIX:
                    needed[_PREFIX[ref.source] + ref.name] = ref.type
        sources = [source for _, source in self.emit if not source.startswith("e:")]
        for source in (*sources, *(key.instance for key in self.keys)):
            needed[source] = self.type_of(source)
        return Schema.of(sorted(needed.items()))

    def type_of(self, source: str) -> pa.DataType:
        return _type_of(source, self.first, self.second, dict(self.aggregates))

    @cached_property
    def output(self) -> Shape:
        return _emitted(self.emit, self.first, self.second, self.aggregates)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Everything that is compiled, in the order of its constants."""
        rebind = () if self.rebind is None else (self.rebind,)
        return (self.residual, *rebind, *(e for _, e in self.aggregates))

    def describe(self) -> str:
        name = "iterate" if self.iterates else "sequence"
        parts = [f"$2.{k.event} = {_shown(k.instance)}" for k in self.keys]
        if not is_true(self.residual) or not parts:
            parts.append(show(self.residual))
        shown = " AND ".join(parts)
        if self.rebind is not None:
            shown += f"; rebind {show(self.rebind)}"
            shown += "".join(f"; {show(e)} AS {n}" for n, e in self.aggregates)
        if self.ways:
            shown += f"; found by {' or by '.join(map(_way_shown, self.ways))}"
        return f"{name} {{{shown}}}"


def _type_of(
    source: str, first: Shape, second: Shape, aggregates: dict[str, Expression]
) -> pa.DataType:
    prefix, name = source[:2], source[2:]
    if prefix == "l:" and name in aggregates:
        return aggregates[name].type
    shape = first if prefix == "f:" else second
    return shape.schema.type_of(name)


@lru_cache(4096)
def _emitted(
    emit: tuple[tuple[str, str], ...],
    first: Shape,
    second: Shape,
    aggregates: tuple[tuple[str, Expression], ...],
) -> Shape:
    """What a step puts out: the same object for all templates that meet in it."""
    known = dict(aggregates)
    return Shape(Schema.of((name, _type_of(s, first, second, known)) for name, s in emit))


_PREFIX = {Source.FIRST: "f:", Source.LAST: "l:"}


def _shown(column: str) -> str:
    return ("$1." if column.startswith("f:") else "$.") + column[2:]


def _way_shown(way: tuple[WayKey, ...]) -> str:
    sides = [_shown(k.instance) if k.instance else f":{k.constant + 1}" for k in way]
    return " AND ".join(f"$2.{k.event} = {side}" for k, side in zip(way, sides, strict=True))


def plain_ref(expression: Expression) -> Ref | None:
    """A reference, seen through casts that do not change its word."""
    if isinstance(expression, Ref):
        return expression
    if isinstance(expression, Call) and expression.function == "cast":
        inner, target = expression.args[0], expression.type
        kinds = (kind_of(inner.type), kind_of(target))
        widens = kinds in ((Kind.INTEGER, Kind.INTEGER), (Kind.FLOAT, Kind.FLOAT))
        if widens and inner.type.bit_width <= target.bit_width:
            return plain_ref(inner)
    return None


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
