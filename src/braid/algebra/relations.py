"""Relations: multisets of rows that change with time, and what turns them into streams (CQL).

A relation has, at every instant, a multiset of rows. `Window` makes one of a stream; `KeepRows`,
`MapRows`, `Join`, `GroupRows` and `DistinctRows` make one of others, at each instant from their
rows at that instant alone; `ToStream` (Istream, Dstream, Rstream) makes a stream again. So a
stream expression (`nodes.Node`) may have relations inside it, and a relation streams:

    ToStream(Istream) - MapRows - KeepRows - GroupRows - Join - Window - Read
                                                              - Window - Read

`ToStream.inputs` are the streams under its windows, so that whoever walks stream expressions
walks over the relations in between; `walk_rows` walks those.

All expressions refer to the rows of the input, as `Source.INPUT`. A row of a join has all
columns of all inputs; the column `a` of the input number `i` is called `i.a` there (see
`column`). How a user called the inputs is not part of an expression: queries that differ only in
aliases are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from braid.algebra.checks import check_refs
from braid.algebra.detection import Part, Settings, answer_schema
from braid.algebra.expressions import Expression, Literal, Parameter, Ref, Source
from braid.algebra.schema import Attribute, Schema

if TYPE_CHECKING:
    from braid.algebra.nodes import Aggregate, Node


class WindowKind(Enum):
    RANGE = "range"
    ROWS = "rows"
    NOW = "now"
    UNBOUNDED = "unbounded"


@dataclass(frozen=True)
class Window:
    """The events of a stream that count at an instant; each is a row, its interval is left behind.

    An event occurs at its `end`. At instant `t`, of the events that have occurred (`end <= t`):

    | kind      | the rows                                                                     |
    | --------- | ---------------------------------------------------------------------------- |
    | RANGE     | those with `end >= t - size`: one leaves at `end + size + 1`                   |
    | ROWS      | the last `size`; with `keys`, the last `size` of each partition               |
    | NOW       | those with `end = t`                                                         |
    | UNBOUNDED | all                                                                          |

    `size` is a `Literal` or, in a template, a `Parameter`: ticks of the stream's clock, of type
    DURATION where that counts microseconds and BIGINT where it counts ticks, for RANGE; a BIGINT
    of at least 1 for ROWS; None for the others. `keys` are attributes; NULL is one partition.
    For ROWS, events of equal `end` are ordered by the attribute `order`, the stream's sequence
    column (None if it has none), and then by their values in the order of the schema.
    """

    input: Node
    kind: WindowKind
    size: Expression | None = None
    keys: tuple[str, ...] = ()
    order: str | None = None

    def __post_init__(self) -> None:
        sized = self.kind in (WindowKind.RANGE, WindowKind.ROWS)
        assert sized == isinstance(self.size, Literal | Parameter)
        assert self.kind is WindowKind.ROWS or not (self.keys or self.order)
        assert all(key in self.input.schema for key in self.keys)
        assert self.order is None or self.order in self.input.schema

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def unit(self) -> str:
        return self.input.unit


@dataclass(frozen=True)
class KeepRows:
    """WHERE over one input, and HAVING: the rows for which `predicate` is true."""

    input: Relation
    predicate: Expression

    def __post_init__(self) -> None:
        check_refs(self.predicate, {Source.INPUT: self.input.schema})

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def unit(self) -> str:
        return self.input.unit


@dataclass(frozen=True)
class MapRows:
    """SELECT: each row with its columns computed anew. As many rows as before: no duplicate goes."""

    input: Relation
    items: tuple[tuple[str, Expression], ...]

    def __post_init__(self) -> None:
        for _, expression in self.items:
            check_refs(expression, {Source.INPUT: self.input.schema})

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        return Schema.of((name, expression.type) for name, expression in self.items)

    @property
    def unit(self) -> str:
        return self.input.unit


@dataclass(frozen=True)
class Join:
    """FROM with two or more inputs, and WHERE: the combinations for which `predicate` is true.

    `joins.parts_of` takes the predicate apart: what looks at one input only, the equalities and
    comparisons between two inputs, and the rest.
    """

    inputs: tuple[Relation, ...]
    predicate: Expression

    def __post_init__(self) -> None:
        assert len(self.inputs) > 1, "a join of one input is none"
        assert len({relation.unit for relation in self.inputs}) == 1, "join of different clocks"
        check_refs(self.predicate, {Source.INPUT: self.schema})

    @cached_property
    def schema(self) -> Schema:
        return Schema(
            tuple(
                Attribute(column(number, attribute.name), attribute.type)
                for number, relation in enumerate(self.inputs)
                for attribute in relation.schema
            )
        )

    @property
    def unit(self) -> str:
        return self.inputs[0].unit


@dataclass(frozen=True)
class GroupRows:
    """GROUP BY and aggregates: one row for each group of rows with equal `keys`.

    NULL equals NULL and NaN equals NaN here. A group that has no row is not there; but without
    any key there is always exactly one group, also of no rows. Columns: the keys, called `key_0`,
    `key_1`, ..., then the aggregates, each by its `name`, which are `agg_0`, `agg_1`, ...

    `Aggregate.function` is count, sum, avg, min or max; `distinct` only with count.
    """

    input: Relation
    keys: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]

    def __post_init__(self) -> None:
        assert self.keys or self.aggregates
        for expression in (*self.keys, *(arg for a in self.aggregates for arg in a.args)):
            check_refs(expression, {Source.INPUT: self.input.schema})

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        keys = ((key_name(number), key.type) for number, key in enumerate(self.keys))
        return Schema.of((*keys, *((a.name, a.type) for a in self.aggregates)))

    @property
    def unit(self) -> str:
        return self.input.unit


@dataclass(frozen=True)
class DistinctRows:
    """SELECT DISTINCT: each row once. NULL equals NULL and NaN equals NaN here."""

    input: Relation

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def unit(self) -> str:
        return self.input.unit


@dataclass(frozen=True)
class Detection:
    """DETECT: at the instant at which a batch of an input of the join ends, a row that says that
    the join has, or may have, a result in which an event of the batch is the newest.

    The inputs of the join are windows, and its predicate relates them by equalities. What a batch
    is and how an answer is found is in `reference/detection.py`. Only `ToStream` of the kind
    DETECT may be above it.

    `partition`: attributes that the join equates over all inputs. Each combination of their values
    is a detection of its own, over the events that have it, and its answers say whose they are.
    """

    join: Join
    settings: Settings
    partition: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        assert all(isinstance(r, Window) and not r.keys for r in self.join.inputs)
        assert len(self.settings.labels) == len(self.join.inputs)
        assert all(len(part.columns) == len(self.join.inputs) for part in self.partition)

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.join,)

    @cached_property
    def schema(self) -> Schema:
        return answer_schema(self.partition)

    @property
    def unit(self) -> str:
        return self.join.unit


Relation = Window | KeepRows | MapRows | Join | GroupRows | DistinctRows | Detection


class StreamKind(Enum):
    ISTREAM = "Istream"
    DSTREAM = "Dstream"
    RSTREAM = "Rstream"
    DETECT = "Detect"


@dataclass(frozen=True)
class ToStream:
    """A stream of point events made of a relation R; an event stands at the instant t it is for.

    ISTREAM has at `t` the rows of `R(t) - R(t - 1)`, DSTREAM those of `R(t - 1) - R(t)`: the
    difference of multisets by value, at every instant, also at those at which rows only leave.
    RSTREAM has all rows of `R(t)` at every instant at which one of `inputs` has an event. DETECT
    has the rows of a `Detection`.
    """

    relation: Relation
    kind: StreamKind

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """The streams under the relation's windows, left to right."""
        return tuple(window.input for window in windows(self.relation))

    @property
    def schema(self) -> Schema:
        return self.relation.schema

    @property
    def unit(self) -> str:
        return self.relation.unit

    def over(self, streams: tuple[Node, ...]) -> ToStream:
        """The same over other streams, one for each of `inputs`."""
        if all(new is old for new, old in zip(streams, self.inputs, strict=True)):
            return self
        left = iter(streams)
        return replace(self, relation=rebuilt(self.relation, _same, lambda _: next(left)))


# ---- columns and names -------------------------------------------------------------------------


def column(number: int, name: str) -> str:
    """What a join calls the column `name` of its input of this number."""
    return f"{number}.{name}"


def place(name: str) -> tuple[int, str]:
    """Which input of a join a column is of, and what it is called there."""
    number, _, own = name.partition(".")
    return int(number), own


def key_name(number: int) -> str:
    return f"key_{number}"


def aggregate_name(number: int) -> str:
    return f"agg_{number}"


# ---- walking -----------------------------------------------------------------------------------


def walk_rows(relation: Relation) -> Iterator[Relation]:
    """The relation and all relations below it, parents first; not into the streams."""
    yield relation
    for below in relation.inputs:
        yield from walk_rows(below)


def windows(relation: Relation) -> Iterator[Window]:
    """Its windows, left to right."""
    return (part for part in walk_rows(relation) if isinstance(part, Window))


def row_expressions(relation: Relation) -> Iterator[Expression]:
    """The expressions of a relation and of those below it, the lengths of windows among them."""
    for part in walk_rows(relation):
        match part:
            case Window(size=size):
                if size is not None:
                    yield size
            case KeepRows(predicate=predicate) | Join(predicate=predicate):
                yield predicate
            case MapRows(items=items):
                yield from (expression for _, expression in items)
            case GroupRows():
                yield from part.keys
                yield from (arg for a in part.aggregates for arg in a.args)
            case DistinctRows() | Detection():
                pass


def rebuilt(
    relation: Relation, change: Callable[[Expression], Expression], stream: Callable[[Node], Node]
) -> Relation:
    """The same operators over changed expressions and streams, which are visited left to right."""

    def below(part: Relation) -> Relation:
        return rebuilt(part, change, stream)

    match relation:
        case Window():
            size = None if relation.size is None else change(relation.size)
            return replace(relation, input=stream(relation.input), size=size)
        case KeepRows():
            return KeepRows(below(relation.input), change(relation.predicate))
        case MapRows():
            items = tuple((name, change(e)) for name, e in relation.items)
            return MapRows(below(relation.input), items)
        case Join():
            return Join(tuple(map(below, relation.inputs)), change(relation.predicate))
        case GroupRows():
            keys = tuple(map(change, relation.keys))
            aggregates = tuple(
                replace(a, args=tuple(map(change, a.args))) for a in relation.aggregates
            )
            return GroupRows(below(relation.input), keys, aggregates)
        case DistinctRows():
            return DistinctRows(below(relation.input))
        case Detection():
            join = below(relation.join)
            assert isinstance(join, Join)
            return replace(relation, join=join)


def _same(expression: Expression) -> Expression:
    return expression


def keeps_everything(relation: Relation) -> bool:
    """Whether its rows only become more: every event of some stream stays in it forever.

    Groups and distinct rows do not count: their number is that of different values.
    """
    match relation:
        case Window(kind=kind):
            return kind is WindowKind.UNBOUNDED
        case KeepRows(input=below) | MapRows(input=below):
            return keeps_everything(below)
        case Join(inputs=inputs):
            return any(map(keeps_everything, inputs))
        case GroupRows() | DistinctRows() | Detection():
            return False


def all_columns(schema: Schema) -> tuple[tuple[str, Expression], ...]:
    """The items of a `MapRows` that changes nothing."""
    return tuple((a.name, Ref(Source.INPUT, a.name, a.type)) for a in schema)
