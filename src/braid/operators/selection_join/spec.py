"""Selection joins: very many queries with one join over the same streams, each with its own ranges.

What a query asks of each stream by itself is a box: an interval of each attribute that it restricts.
The m-op reads the streams whole, and has the boxes of all its members in one index.
"""

from __future__ import annotations

from dataclasses import dataclass

from braid.operators.join.spec import WindowJoinRecipe, WindowJoinSpec
from braid.plan.predicates import Clause


@dataclass(frozen=True)
class SelectionJoinSpec(WindowJoinSpec):
    """A join with windows by time inside over whole streams: for each member, what comes to the
    combinations of events that are in its windows and in its boxes.

    The members' births are data, like their boxes: `birth` is None.
    """

    def describe(self) -> str:
        return f"selection {super().describe()}"


@dataclass(frozen=True)
class SelectionJoinRecipe(WindowJoinRecipe):
    """Also what a member asks of each input, and from when on it sees events."""

    asked: tuple[Clause, ...] = ()
    birth: int | None = None
