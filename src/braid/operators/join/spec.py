"""The specs and recipes of joins, and of joins with windows inside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from braid.algebra.expressions import Expression, is_true
from braid.algebra.schema import Schema
from braid.algebra.text import show
from braid.plan.deltas import with_weight
from braid.plan.predicates import Constant
from braid.plan.routes import PortRecipe, Recipe
from braid.plan.specs import Shape, Spec

#: What the names of the state of a plain join that may grow begin with, wherever it is saved.
PLAIN = "plain_"


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
class JoinSpec(Spec):
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
class JoinRecipe(Recipe):
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

    @property
    def acts_on_time(self) -> bool:
        return True

    def describe(self) -> str:
        return f"window {super().describe()}"


@dataclass(frozen=True, kw_only=True)
class GrowingJoinSpec(WindowJoinSpec):
    """A window join of one query, or of several that are the same: constants and the sizes of its
    windows are part of it.

    `beyond`: what takes its place once it holds more than `Context.spill_above`, with all that it
    holds. Until then it is a plain join, and knows nothing of what comes after it.
    """

    sizes: tuple[int, ...]
    beyond: JoinSpec

    @property
    def for_one_query(self) -> bool:
        return True


@dataclass(frozen=True)
class WindowJoinRecipe(JoinRecipe):
    """The constants of the residual, and how long each input's window is."""

    sizes: tuple[Constant | int, ...] = ()


@dataclass(frozen=True)
class AttributeJoinSpec(Spec):
    """For each member: what a window join of its form puts out at its port.

    The inputs are streams as they are. A form says which of their columns are compared and shown. No
    form asks anything beyond equalities. Only events that start at `birth` or later are seen.
    """

    inputs: tuple[Shape, ...]
    birth: int | None = None

    @property
    def output(self) -> Shape:
        """Each port has a shape of its own; this one nobody has."""
        return Shape(Schema(()))

    @property
    def stateful(self) -> bool:
        return True

    @property
    def acts_on_time(self) -> bool:
        return True

    def describe(self) -> str:
        return "window join of any attributes"


@dataclass(frozen=True)
class AttributeJoinRecipe(PortRecipe):
    """The form of a member, which names the `port`, and how long each input's window is.

    The inputs of `form` have the columns that it asks for.
    """

    port: str
    form: WindowJoinSpec
    sizes: tuple[Constant | int, ...]

    def shape(self, spec: Spec) -> Shape:
        return self.form.output

    @property
    def node_port(self) -> str:
        return self.port

    @property
    def members(self) -> WindowJoinRecipe:
        """What its form is given of a member."""
        return WindowJoinRecipe((), self.sizes)
