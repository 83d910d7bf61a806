"""The spec and the recipe of projections."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from braid.algebra.expressions import (
    Expression,
    Ref,
)
from braid.algebra.schema import Schema
from braid.algebra.text import show
from braid.plan.column_names import shown_columns
from braid.plan.predicates import Constant
from braid.plan.routes import Recipe
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class ProjectSpec(Spec):
    """For each member: every input event, with its attributes computed anew.

    Constants in `items` are parameters of the member. Without them, an event is computed once for
    all its members.
    """

    input: Shape
    items: tuple[tuple[str, Expression], ...]
    membered: bool
    #: How many constants of a member the items and those that nobody needs now ask for.
    constants: int = 0

    @cached_property
    def output(self) -> Shape:
        return Shape(Schema.of((name, e.type) for name, e in self.items))

    def describe(self) -> str:
        shown = (
            name if isinstance(e, Ref) and e.name == name else f"{show(e)} AS {name}"
            for name, e in self.items
        )
        return shown_columns(f"project {', '.join(shown)}")


@dataclass(frozen=True)
class ProjectRecipe(Recipe):
    constants: tuple[Constant, ...] = ()

    @property
    def keeps_events(self) -> bool:
        return True
