"""The specs and recipes of windows, and of buffers that several windows share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from braid.algebra.schema import Schema
from braid.operators.group.spec import GroupSpec
from braid.plan.deltas import with_weight
from braid.plan.predicates import Constant
from braid.plan.routes import PortRecipe, Recipe
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class _Windows(Spec):
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
    def acts_on_time(self) -> bool:
        return self.kind in ("range", "now")

    @property
    def named(self) -> str:
        partition = f" of each {', '.join(self.keys)}" if self.keys else ""
        return f"{self.kind}{partition}"


class WindowSpec(_Windows):
    """For each member: the events of its input that count at each instant, as deltas."""

    def describe(self) -> str:
        return f"window {self.named}"


@dataclass(frozen=True)
class WindowRecipe(Recipe):
    """How long a member's window is; None where its kind has no size."""

    size: Constant | int | None = None


class BufferSpec(_Windows):
    """For each member: its window over the input, which is a stream, as the rows that come and go
    or as groups of these. Columns, keys and aggregates are each member's own too.

    One buffer holds the events of all windows, with those columns that some member asks for.
    Members that ask for the same columns, or for the same groups, are a port: its rows have a
    shape of their own (see the recipes). `output` is what its windows say to its ports.
    """

    @property
    def sums(self) -> bool:
        return True

    def describe(self) -> str:
        return f"windows {self.named} of any columns, groups inside"


@dataclass(frozen=True)
class GroupingRecipe(PortRecipe):
    """By what a member groups and what it asks of groups, which names the `port`; and how long
    its window is."""

    port: str
    group: GroupSpec
    size: Constant | int | None = None

    def shape(self, spec: Spec) -> Shape:
        return self.output

    @property
    def output(self) -> Shape:
        return self.group.output

    @property
    def named(self) -> tuple[str, ...]:
        return self.group.named


@dataclass(frozen=True)
class ColumnsRecipe(PortRecipe):
    """Which columns a member needs, which name the `port`; and how long its window is."""

    port: str
    columns: Schema
    size: Constant | int | None = None

    def shape(self, spec: Spec) -> Shape:
        return self.output

    @property
    def output(self) -> Shape:
        return with_weight(self.columns)

    @property
    def named(self) -> tuple[str, ...]:
        return self.columns.names
