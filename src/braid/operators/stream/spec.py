"""The specs and recipes of unions, channels, published streams and SAMETIME."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from braid.algebra.nodes import Aggregate
from braid.algebra.schema import Schema
from braid.algebra.text import show
from braid.plan.routes import Recipe
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class UnionSpec(Spec):
    """For each member: all events of both inputs."""

    input: Shape
    membered: bool

    @property
    def output(self) -> Shape:
        return self.input

    def describe(self) -> str:
        return "union"


@dataclass(frozen=True)
class SameTimeSpec(Spec):
    """For each member: one event an epoch, of the events that start at its birth or later.

    Arguments of the aggregates are plain references. `order` names the attributes that decide ties
    of max_by and min_by. `membered`: births are data of members; if not, all members have `birth`.
    `shared`: members that see the same events of an epoch have one result.
    """

    input: Shape
    aggregates: tuple[Aggregate, ...]
    order: tuple[str, ...]
    membered: bool
    birth: int | None = None
    shared: bool = False

    @cached_property
    def output(self) -> Shape:
        return Shape(Schema.of((a.name, a.type) for a in self.aggregates))

    def describe(self) -> str:
        shown = (
            f"{a.function}({'DISTINCT ' if a.distinct else ''}{', '.join(map(show, a.args)) or '*'}) AS {a.name}"
            for a in self.aggregates
        )
        return f"same time {{{', '.join(shown)}}}"


@dataclass(frozen=True)
class SameTimeRecipe(Recipe):
    """A member of SAMETIME. `birth`: since when it sees events; None: always."""

    birth: int | None = None
