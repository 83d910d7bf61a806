"""The spec and the recipe of projections."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from braid.algebra.expressions import (
    Expression,
    Parameter,
    Ref,
    walk,
)
from braid.algebra.schema import Schema
from braid.algebra.text import show
from braid.plan.predicates import Constant
from braid.plan.routes import Recipe
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class ProjectSpec(Spec):
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

    def describe(self) -> str:
        shown = (
            name if isinstance(e, Ref) and e.name == name else f"{show(e)} AS {name}"
            for name, e in self.items
        )
        return f"project {', '.join(shown)}"


@dataclass(frozen=True)
class ProjectRecipe(Recipe):
    constants: tuple[Constant, ...] = ()
