"""Routes: the m-ops of the shared plan that serve a template, and the data for each.

A query of the template is a *member* of each of these m-ops. What is the same for all members
is the m-op's spec; what may differ is in the recipes: the tests of each selection and step, the
constants of each compiled expression, the bound of each step. So queries of different
templates meet in one m-op if only such data tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import pyarrow as pa

from braid.algebra.schema import Schema
from braid.plan.predicates import Constant
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class Bound:
    """No result that lasts longer than this constant is wanted, or as long if `strict`."""

    constant: Constant | int
    strict: bool = False


class DataKind(Enum):
    """What a part of a recipe is."""

    PREDICATE = "predicate"
    CLAUSE = "clause"
    CONSTANTS = "constants"
    BOUNDS = "bounds"
    #: The same for all members: no constants of queries are in it.
    FIXED = "fixed"


class Data(NamedTuple):
    """A part of a recipe with the constants of a query in it."""

    kind: DataKind
    value: Any


class Recipe:
    """The data of one member of an m-op. Each family has recipes of its own."""

    def channel(self, mop: str) -> str:
        """The channel of an m-op that has this member's rows."""
        return mop

    def shape(self, spec: Spec) -> Shape:
        """What lies in the rows of that channel."""
        return spec.output

    @property
    def node_port(self) -> str:
        """The port whose nodes members have, of an m-op that numbers the nodes of each port apart."""
        return ""

    @property
    def bounds_outside(self) -> tuple[Bound, ...]:
        """Bounds that are asked of the results where they come out, and not inside the m-op."""
        return ()

    @property
    def keeps_events(self) -> bool:
        """Whether each result is an event of the only input, with the same times."""
        return False

    @property
    def data(self) -> tuple[Data, ...] | None:
        """The parts that constants of queries are in, if members of several templates may be
        admitted together; None if each template is admitted by itself."""
        return None

    def with_data(self, values: Sequence[Any]) -> Recipe:
        """The same recipe with other values in these parts."""
        raise AssertionError("it has no such parts")


class PortRecipe(Recipe):
    """The data of a member of an m-op with several outputs. `port` names the member's."""

    port: str

    def channel(self, mop: str) -> str:
        return f"{mop}/{self.port}"


@dataclass(frozen=True)
class PlainRecipe(Recipe):
    """Nothing but the inputs tells members apart."""


@dataclass(frozen=True)
class Stage:
    """One m-op on the way: its spec and inputs, the recipe, and the channel that it writes.

    `origins`: for each input, the number of the stage whose members its events belong to, or
    None if it has none. `made_by`: which rules put this operator into the m-op.
    """

    mop: str
    spec: Spec
    inputs: tuple[str, ...]
    output: str
    recipe: Recipe
    origins: tuple[int | None, ...]
    made_by: tuple[str, ...] = ()

    @property
    def shape(self) -> Shape:
        """What lies in the rows of the channel that it writes."""
        return self.recipe.shape(self.spec)


@dataclass(frozen=True)
class Exit:
    """Where the results of one output of a template come out.

    `stage`: the one whose members the events belong to; None if all of them are everybody's.
    """

    stream: str | None
    channel: str
    stage: int | None
    schema: Schema
    time_type: pa.DataType
    bounds: tuple[Bound, ...] = ()
    #: The column of the channel that each attribute of the schema shows.
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Route:
    """All stages of a template in an order in which each reads only what comes before it."""

    stages: tuple[Stage, ...]
    exits: tuple[Exit, ...]

    def exits_after(self, stage: int) -> tuple[int, ...]:
        """The positions of the exits whose results depend on a stage."""
        after, channels = {stage}, {self.stages[stage].output}
        for number in range(stage + 1, len(self.stages)):
            later = self.stages[number]
            read = zip(later.inputs, later.origins, strict=True)
            if any(channel in channels if o is None else o in after for channel, o in read):
                after.add(number)
                channels.add(later.output)
        return tuple(
            place
            for place, exit_ in enumerate(self.exits)
            if (exit_.channel in channels if exit_.stage is None else exit_.stage in after)
        )
