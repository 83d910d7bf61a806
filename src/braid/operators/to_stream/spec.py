"""The spec of ISTREAM, DSTREAM and RSTREAM."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from braid.plan.deltas import without_weight
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class ToStreamSpec(Spec):
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
