"""The Spec protocol: the description of an m-op as data: frozen, comparable, picklable.

The docstring of each spec states the law for it: for each member query, the output restricted
to the query equals the reference answer of the expression that the spec stands for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from braid.algebra.expressions import (
    Call,
    Expression,
    Ref,
)
from braid.algebra.schema import Schema
from braid.algebra.types import Kind, kind_of
from braid.plan.layout import Layout


@dataclass(frozen=True)
class Shape:
    """What lies in the rows of a channel: columns with their types."""

    schema: Schema

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.schema.names)


class Spec(ABC):
    """What an m-op does. Each family has specs of its own: frozen dataclasses."""

    @property
    @abstractmethod
    def output(self) -> Shape:
        """The shape of its output rows."""

    @property
    def stateful(self) -> bool:
        """Whether it keeps anything from one batch to the next."""
        return False

    @property
    def acts_on_time(self) -> bool:
        """Whether it emits or expires rows when time passes without events."""
        return False

    @property
    def sums(self) -> bool:
        """Whether a member may have a sum that does not fit, and stops then."""
        return False

    @property
    def for_one_query(self) -> bool:
        """Whether it is made for one query, which keeps it for as long as it lives."""
        return False

    @abstractmethod
    def describe(self) -> str:
        """One line for `explain`."""


def plain_ref(expression: Expression) -> Ref | None:
    """A reference, seen through casts that do not change its word."""
    if isinstance(expression, Ref):
        return expression
    if isinstance(expression, Call) and expression.function == "cast":
        inner, target = expression.args[0], expression.type
        kinds = (kind_of(inner.type), kind_of(target))
        widens = kinds in ((Kind.INTEGER, Kind.INTEGER), (Kind.FLOAT, Kind.FLOAT))
        if widens and inner.type.bit_width <= target.bit_width:
            return plain_ref(inner)
    return None
