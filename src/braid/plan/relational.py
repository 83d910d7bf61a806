"""What the m-ops of relations do, as data; see `specs.py`.

A relation flows through a *delta channel*: each row says at which instant copies of it come
(weight above 0) or go (below 0). The relation at an instant is the sum of all deltas up to it.
The weight is the last column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from braid.algebra.expressions import Expression, Ref, is_true
from braid.algebra.nodes import Aggregate
from braid.algebra.schema import Attribute, Schema
from braid.algebra.text import show
from braid.plan.predicates import Constant
from braid.plan.specs import Shape

#: The column of a delta channel that says how many copies of a row come or go.
WEIGHT = "±"


#: The instant before time: what is there before the first event comes then, which is no news.
BEFORE = -(2**62) - 1


def with_weight(schema: Schema) -> Shape:
    """The delta channel of a relation."""
    return Shape(Schema((*schema, Attribute(WEIGHT, pa.int64()))))


def without_weight(shape: Shape) -> Schema:
    return Schema(tuple(a for a in shape.schema if a.name != WEIGHT))


@dataclass(frozen=True)
class _Windows:
    """Windows of one kind over one input, whose sizes are each member's own.

    `kind` is range, rows, now or unbounded. `keys`: the columns of a partition. `order`: the
    columns that decide which of the events of one instant are the last, for rows: the sequence
    column, then all attributes. Only events that start at `birth` or later are seen.
    """

    input: Shape
    kind: str
    keys: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    membered: bool = False
    birth: int | None = None

    @cached_property
    def output(self) -> Shape:
        """The events that count, with how often: as deltas."""
        return with_weight(self.input.schema)

    @property
    def stateful(self) -> bool:
        return True

    @property
    def named(self) -> str:
        partition = f" of each {', '.join(self.keys)}" if self.keys else ""
        return f"{self.kind}{partition}"


class WindowSpec(_Windows):
    """For each member: the events of its input that count at each instant, as deltas."""

    def describe(self) -> str:
        return f"window {self.named}"


@dataclass(frozen=True)
class WindowRecipe:
    """How long a member's window is; None where its kind has no size."""

    size: Constant | int | None = None


@dataclass(frozen=True)
class Equality:
    """Columns of two inputs that must be equal; `null_safe`: NULL equals NULL."""

    first: int
    first_column: str
    second: int
    second_column: str
    floating: bool = False
    null_safe: bool = False


@dataclass(frozen=True)
class JoinSpec:
    """For each member: the combinations of rows of its inputs, which are delta channels.

    `residual` is what is asked beyond the equalities, of columns `i.a`; its constants are
    parameters of the member. `emit`: each output column, the input that it is of, its name there.
    """

    inputs: tuple[Shape, ...]
    equalities: tuple[Equality, ...]
    residual: Expression
    emit: tuple[tuple[str, int, str], ...]
    membered: tuple[bool, ...]

    @cached_property
    def output(self) -> Shape:
        return with_weight(
            Schema.of(
                (name, self.inputs[i].schema.type_of(column)) for name, i, column in self.emit
            )
        )

    @property
    def stateful(self) -> bool:
        return True

    def describe(self) -> str:
        parts = [
            f"{e.first}.{e.first_column} {'<=>' if e.null_safe else '='} {e.second}.{e.second_column}"
            for e in self.equalities
        ]
        if not is_true(self.residual) or not parts:
            parts.append(show(self.residual))
        return f"join {{{' AND '.join(parts)}}}"


@dataclass(frozen=True)
class JoinRecipe:
    """The constants of the residual."""

    constants: tuple[Constant, ...] = ()


@dataclass(frozen=True)
class WindowJoinSpec(JoinSpec):
    """A join over windows by time, whose inputs are the streams below them: for each member, what
    comes to the combinations of events that are in its windows.

    The output is a delta channel for Istream: what goes is in it only where it may be equal to what
    comes at the same instant. `netted`: of each input, columns in which rows that Istream finds
    equal are equal. Only events that start at `birth` or later are seen. `complete`: what goes is
    told as well, all of it, for groups and whoever else must know what there is.
    """

    netted: tuple[tuple[str, ...], ...] = ()
    birth: int | None = None
    complete: bool = False

    def describe(self) -> str:
        return f"window {super().describe()}"


@dataclass(frozen=True)
class WindowJoinRecipe(JoinRecipe):
    """The constants of the residual, and how long each input's window is."""

    sizes: tuple[Constant | int, ...] = ()


@dataclass(frozen=True)
class GroupSpec:
    """For each member: one row for each group of equal `keys`, which are columns of the input.

    Output columns: `key_0`, ..., then the aggregates by their names. Arguments of aggregates are
    plain references. Without keys there is always one group. `distinct`: SELECT DISTINCT, that is
    all columns are keys, there is no aggregate, and the output has the input's own names.
    """

    input: Shape
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    membered: bool = False
    distinct: bool = False

    @property
    def named(self) -> tuple[str, ...]:
        """The columns of the input that are asked for."""
        args = (arg.name for a in self.aggregates for arg in a.args if isinstance(arg, Ref))
        return tuple(dict.fromkeys((*self.keys, *args)))

    @cached_property
    def output(self) -> Shape:
        if self.distinct:
            return self.input
        types = ((f"key_{k}", self.input.schema.type_of(n)) for k, n in enumerate(self.keys))
        return with_weight(Schema.of((*types, *((a.name, a.type) for a in self.aggregates))))

    @property
    def stateful(self) -> bool:
        return True

    def describe(self) -> str:
        if self.distinct:
            return "distinct"
        shown = (
            f"{a.function}({'DISTINCT ' if a.distinct else ''}{', '.join(map(show, a.args)) or '*'})"
            for a in self.aggregates
        )
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"group{by} {{{', '.join(shown)}}}"


class BufferSpec(_Windows):
    """For each member: its window over the input, which is a stream, as the rows that come and go
    or as groups of these. Columns, keys and aggregates are each member's own too.

    One buffer holds the events of all windows, with those columns that some member asks for.
    Members that ask for the same columns, or for the same groups, are a port: its rows have a
    shape of their own (see the recipes). `output` is what its windows say to its ports.
    """

    def describe(self) -> str:
        return f"windows {self.named} of any columns, groups inside"


@dataclass(frozen=True)
class GroupingRecipe:
    """By what a member groups and what it asks of groups, which names the `port`; and how long
    its window is."""

    port: str
    group: GroupSpec
    size: Constant | int | None = None

    @property
    def output(self) -> Shape:
        return self.group.output

    @property
    def named(self) -> tuple[str, ...]:
        return self.group.named


@dataclass(frozen=True)
class ColumnsRecipe:
    """Which columns a member needs, which name the `port`; and how long its window is."""

    port: str
    columns: Schema
    size: Constant | int | None = None

    @property
    def output(self) -> Shape:
        return with_weight(self.columns)

    @property
    def named(self) -> tuple[str, ...]:
        return self.columns.names


@dataclass(frozen=True)
class NothingSpec:
    """For each member: the changes of a group of all rows, and the row that it is of no rows.

    A group without keys is there before the first event, and tells changes from then on. Joins,
    groups and Rstream must know the row itself: it comes at `BEFORE`.
    """

    input: Shape
    aggregates: tuple[Aggregate, ...]
    membered: bool = False

    @property
    def output(self) -> Shape:
        return self.input

    @property
    def stateful(self) -> bool:
        return True

    def describe(self) -> str:
        return "the row of no rows"


@dataclass(frozen=True)
class ToStreamSpec:
    """For each member: the rows that come at an instant (Istream), that go (Dstream), or all that
    are there (Rstream), as point events; but what changes at `BEFORE` is no event.

    Inputs: the delta channel and, for Rstream, then the streams under the windows, whose events'
    ends are the instants at which it speaks; of these, those that start at `birth` or later count.
    """

    input: Shape
    kind: str
    streams: tuple[Shape, ...] = ()
    membered: tuple[bool, ...] = (False,)
    birth: int | None = None

    @cached_property
    def output(self) -> Shape:
        return Shape(without_weight(self.input))

    @property
    def stateful(self) -> bool:
        return self.kind == "Rstream"

    def describe(self) -> str:
        return self.kind
