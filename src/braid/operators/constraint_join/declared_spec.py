"""A declared constraint that is watched at its streams, as data; see `docs/constraints.md`."""

from __future__ import annotations

from dataclasses import dataclass

from braid.algebra.constraints import Constraint
from braid.plan.routes import PlainRecipe
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class DeclaredWatchSpec(Spec):
    """Nothing comes out: it is looked whether the events of a stream keep what was declared of them.

    `inputs`: the stream, and of REFERENCES the one that it refers to. One for all queries that join
    these streams, whatever their joins do with constraints.
    """

    inputs: tuple[Shape, ...]
    constraint: Constraint

    @property
    def output(self) -> Shape:
        return self.inputs[0]

    @property
    def stateful(self) -> bool:
        return True

    def describe(self) -> str:
        return f"watch {self.constraint.name}: {self.constraint.describe()}"


@dataclass(frozen=True)
class WatchRecipe(PlainRecipe):
    """A query whose joins read the streams of a declared constraint: why they don't use it, if it
    could be expected that they do."""

    why: str | None = None
