"""The spec and the recipe of selections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from braid.plan.predicates import Predicate
from braid.plan.routes import Data, DataKind, PortRecipe
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class SelectionSpec(Spec):
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

    def describe(self) -> str:
        return "select" if self.indexed else "select, one predicate after the other"


@dataclass(frozen=True)
class SelectRecipe(PortRecipe):
    """A selection of one channel; `port` names the consumer that its events are for."""

    port: str
    predicate: Predicate

    @property
    def node_port(self) -> str:
        return self.port

    @property
    def data(self) -> tuple[Data, ...]:
        return Data(DataKind.FIXED, self.port), Data(DataKind.PREDICATE, self.predicate)

    def with_data(self, values: Sequence[Any]) -> SelectRecipe:
        return SelectRecipe(*values)
