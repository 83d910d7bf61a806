"""Stream expressions: the operators of the event algebra as immutable, hashed nodes.

Each node checks itself when it is built and derives its schema. Names of the seeds: `Select`
is sigma, `Project` is pi, rho and alpha at once (it says how every output attribute is
computed), `Union` is the union, `Sequence` is `;theta` (NEXT), `Iterate` is mu (FOLD) and
`SameTime` is beta (instance aggregation). `ToStream` is CQL's Istream, Dstream or Rstream of a
relation; relations are in `lang/bind/relations.py`.

A node knows nothing of queries: which queries use it is a fact of the plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from braid.algebra.checks import check_refs
from braid.algebra.documents import Documents
from braid.algebra.expressions import Expression, Remembers, Source, is_true
from braid.algebra.relations import ToStream
from braid.algebra.schema import Attribute, Schema


class Tree(Remembers):
    """A node: its hash is worked out once, since nodes are looked up by what they are."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple([self.__dict__[name] for name in self.__match_args__]))


@dataclass(frozen=True)
class Read(Tree):
    """A stream by its name: a declared one, or one that a query publishes."""

    __hash__ = Tree.__hash__

    stream: str
    schema: Schema
    unit: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class Select(Tree):
    """The events of `input` for which `predicate` is true. References: INPUT, DUR."""

    __hash__ = Tree.__hash__

    input: Node
    predicate: Expression

    def __post_init__(self) -> None:
        check_refs(self.predicate, {Source.INPUT: self.input.schema})

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def unit(self) -> str:
        return self.input.unit


@dataclass(frozen=True)
class Project(Tree):
    """Each event of `input` with its attributes computed anew; the interval stays. References: INPUT, DUR."""

    __hash__ = Tree.__hash__

    input: Node
    items: tuple[tuple[str, Expression], ...]

    def __post_init__(self) -> None:
        for _, expression in self.items:
            check_refs(expression, {Source.INPUT: self.input.schema})

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        return Schema.of((name, expression.type) for name, expression in self.items)

    @property
    def unit(self) -> str:
        return self.input.unit


@dataclass(frozen=True)
class Union(Tree):
    """All events of both inputs, which have the same attributes in the same order."""

    __hash__ = Tree.__hash__

    first: Node
    second: Node

    def __post_init__(self) -> None:
        assert self.first.schema == self.second.schema, "union of different schemas"
        assert self.first.unit == self.second.unit, "union of different clocks"

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.first, self.second)

    @property
    def schema(self) -> Schema:
        return self.first.schema

    @property
    def unit(self) -> str:
        return self.first.unit


@dataclass(frozen=True)
class Sequence(Tree):
    """NEXT: each event of `first` with the first later events of `second` that satisfy `predicate`.

    `names` are the output names: first all of the first input's attributes, then all of the
    second's. `horizon` (ticks): results with a longer duration are not wanted by anybody, so
    an instance may be forgotten once every result would be longer. References: FIRST, SECOND,
    DUR (of the composite).
    """

    __hash__ = Tree.__hash__

    first: Node
    second: Node
    predicate: Expression
    names: tuple[str, ...]
    horizon: int | None = None

    def __post_init__(self) -> None:
        assert len(self.names) == len(self.first.schema) + len(self.second.schema)
        assert self.first.unit == self.second.unit, "sequence of different clocks"
        check_refs(
            self.predicate,
            {Source.FIRST: self.first.schema, Source.SECOND: self.second.schema},
        )

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.first, self.second)

    @cached_property
    def schema(self) -> Schema:
        return _composite(self.first.schema, self.second.schema, self.names)

    @property
    def unit(self) -> str:
        return self.first.unit


@dataclass(frozen=True)
class Iterate(Tree):
    """FOLD: an instance takes event after event of `second`, each output with what it has gathered.

    An instance holds the event of `first` as it came (FIRST) and the values of the last
    iteration (LAST): all attributes of `second`, and the `aggregates`; before the first
    iteration these are the first event's own. So `first` must have every attribute of
    `second`, with the same types (the schema-inclusion rule); an aggregate that `first` lacks
    starts as NULL and cannot be referred to as LAST. `predicate` chooses the event (others are
    passed over), `rebind` says whether the instance goes on with it, `aggregates` are computed
    from the values before this iteration (FIRST, LAST), the event (SECOND) and DUR.

    Output attributes, in order: those of `first`, where one that `second` also has is called
    `a_1` and holds the first event's value, and one that an aggregate updates holds the
    aggregate; then those of `second` with the values of this iteration (an aggregate of the
    same name replaces the value); then the aggregates that neither has. `horizon` as in
    `Sequence`.
    """

    __hash__ = Tree.__hash__

    first: Node
    second: Node
    predicate: Expression
    rebind: Expression
    aggregates: tuple[tuple[str, Expression], ...]
    horizon: int | None = None

    def __post_init__(self) -> None:
        assert self.first.unit == self.second.unit, "iteration over different clocks"
        for attribute in self.second.schema:
            assert attribute in self.first.schema.attributes, f"inclusion: {attribute.name}"
        for name, expression in self.aggregates:
            if name in self.first.schema:
                assert self.first.schema.type_of(name) == expression.type
        sources = {
            Source.FIRST: self.first.schema,
            Source.SECOND: self.second.schema,
            Source.LAST: self.last_schema,
        }
        for expression in (self.predicate, self.rebind, *(e for _, e in self.aggregates)):
            check_refs(expression, sources)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.first, self.second)

    @cached_property
    def last_schema(self) -> Schema:
        """What `$.` can refer to: the second input's attributes, then the aggregates that first has."""
        known = list(self.second.schema)
        for name, expression in self.aggregates:
            if name in self.first.schema and name not in self.second.schema:
                known.append(Attribute(name, expression.type))
        return Schema(tuple(known))

    @cached_property
    def schema(self) -> Schema:
        updated = {name for name, _ in self.aggregates}
        known = [
            Attribute(f"{a.name}_1", a.type) if a.name in self.second.schema else a
            for a in self.first.schema
        ]
        known.extend(self.second.schema)
        names = {a.name for a in known}
        known.extend(Attribute(n, e.type) for n, e in self.aggregates if n not in names)
        assert updated <= {a.name for a in known}
        return Schema(tuple(known))

    @property
    def unit(self) -> str:
        return self.first.unit


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of SAMETIME: `function` of `functions.AGGREGATES` over INPUT expressions.

    `count` without argument counts events; `max_by(value, by)` is the value at the greatest
    `by`. `distinct` for count and sum and avg. NULLs are skipped; a sum or average of floats is
    taken in ascending order of the values, so that it does not depend on arrival; ties of
    max_by/min_by go to the event whose attributes, compared in order, are the smallest
    (NULL first).
    """

    name: str
    function: str
    args: tuple[Expression, ...]
    distinct: bool
    type: pa.DataType


@dataclass(frozen=True)
class SameTime(Tree):
    """SAMETIME: for all events that occur at one instant, one point event with their aggregates."""

    __hash__ = Tree.__hash__

    input: Node
    aggregates: tuple[Aggregate, ...]

    def __post_init__(self) -> None:
        for aggregate in self.aggregates:
            for arg in aggregate.args:
                check_refs(arg, {Source.INPUT: self.input.schema})

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        return Schema.of((a.name, a.type) for a in self.aggregates)

    @property
    def unit(self) -> str:
        return self.input.unit


class Extension(Tree, ABC):
    """A node of an operator family that the algebra has no name for: a frozen dataclass.

    The language cannot say it. A family that begins with such a node can be planned, run and held
    against the reference before it has words in the grammar (`docs/adding_an_operator.md`).
    """

    @property
    @abstractmethod
    def inputs(self) -> tuple[Node, ...]:
        """The streams that it reads."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The attributes of its events."""

    @property
    def unit(self) -> str:
        """What its time counts."""
        return self.inputs[0].unit

    @property
    def depends_on_birth(self) -> bool:
        """Whether its events, and not only the results, depend on when its query came."""
        return False

    @abstractmethod
    def over(self, inputs: tuple[Node, ...]) -> Node:
        """The same operator over other streams."""

    @abstractmethod
    def denotes(self, inputs: list[list[Any]]) -> list[Any]:
        """The events that it stands for, given all events of its inputs: for the reference."""

    def asked(self, needed: set[str]) -> tuple[set[str], ...]:
        """Which attributes of each input it needs in order to show these; all of them, unless it
        says less."""
        return tuple(set(below.schema.names) for below in self.inputs)


Node = (
    Read
    | Select
    | Project
    | Union
    | Sequence
    | Iterate
    | SameTime
    | ToStream
    | Documents
    | Extension
)


def walk_nodes(node: Node) -> Iterator[Node]:
    """The node and all streams below it, parents first; from ToStream on to those it is made of."""
    yield node
    for child in node.inputs:
        yield from walk_nodes(child)


def reads(node: Node) -> tuple[str, ...]:
    """The names of the streams that an expression reads, each once, in order."""
    names = (n.stream for n in walk_nodes(node) if isinstance(n, Read))
    return tuple(dict.fromkeys(names))


def is_unbounded(node: Node) -> bool:
    """Whether this operator may have to remember an event forever."""
    match node:
        case Sequence(predicate=predicate, horizon=None):
            return not is_true(predicate)
        case Iterate(horizon=None):
            return True
        case _:
            return False


@lru_cache(4096)
def _composite(first: Schema, second: Schema, names: tuple[str, ...]) -> Schema:
    """The attributes of both inputs under other names: patterns by the thousand have the same."""
    return Schema.of((n, a.type) for n, a in zip(names, (*first, *second), strict=True))
