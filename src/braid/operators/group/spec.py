"""The specs of GROUP BY, SELECT DISTINCT, and the row of an empty group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from braid.algebra.expressions import Ref
from braid.algebra.nodes import Aggregate
from braid.algebra.schema import Schema
from braid.algebra.text import show
from braid.plan.deltas import with_weight
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class GroupSpec(Spec):
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

    @property
    def sums(self) -> bool:
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


@dataclass(frozen=True)
class NothingSpec(Spec):
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
