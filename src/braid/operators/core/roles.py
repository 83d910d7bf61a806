"""What some logics do besides `Logic`: roles that a logic takes on by inheriting from them.

The executor and the statistics ask a logic for its roles, and know no logic by its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from braid.algebra.constraints import Constraint, ConstraintMode
from braid.operators.core.columnar_input import Columns
from braid.operators.core.columns import Rows
from braid.operators.core.subscribers import Subscribers
from braid.operators.core.values import Words
from braid.plan.layout import Layout


class PublishedSource(NamedTuple):
    """A channel with events of a published stream: the queries that publish them, and the columns of
    the channel that are the attributes of the stream."""

    subscribers: Subscribers
    layout: Layout
    columns: tuple[int, ...]


class Publishes:
    """A logic whose events are those of a published stream. No query is a member of it."""

    #: The channels that it reads.
    sources: list[PublishedSource]


class TakesFeeds:
    """A logic that takes events which belong to several streams at once."""

    streams: tuple[str, ...]
    feeds: list[tuple[tuple[str, ...], Rows]]
    #: Of streams whose inputs have the events of feeds as well: those that are theirs alone.
    by_themselves: dict[str, Rows | Columns | None]


class NodesByPort(ABC):
    """A logic that numbers the nodes of each port by themselves."""

    @abstractmethod
    def leave(self, port: str, numbers: Words) -> None:
        """The members at these nodes of a port leave."""

    def stopped_at(self, port: str) -> Mapping[int, int]:
        """Output nodes of a port that gave up because of their budget, and the event time of it."""
        return {}


class CountsInstances(ABC):
    """A logic that counts the instances of each member."""

    @abstractmethod
    def waiting(self, now: int) -> Words:
        """How many instances of each output node live at a time."""


class LimitsMemory:
    """A logic whose members stop when what they keep does not fit into the memory they ask for."""

    #: The output nodes that stopped for that.
    out_of_memory: set[int]


class Unread(NamedTuple):
    """A text that came where documents are read and is none."""

    channel: str
    column: str
    start: int
    end: int
    text: str
    reason: str


class ReadsTexts:
    """A logic that reads documents from texts, and keeps those that it cannot read until asked."""

    unread: list[Unread]


class Told(Protocol):
    """Something that was found out about a constraint."""

    def describe(self) -> str: ...


class BrokenConstraint(Told, Protocol):
    """A declared constraint that an event has broken."""

    @property
    def constraint(self) -> str: ...


class UsesConstraints(ABC):
    """A join that evicts rows by constraints, which may turn out not to hold."""

    @property
    @abstractmethod
    def mode(self) -> ConstraintMode:
        """What it may do with constraints."""

    @abstractmethod
    def broken(self) -> Sequence[BrokenConstraint]:
        """Declared constraints that it has seen broken since this was last asked."""

    @abstractmethod
    def lossy(self) -> Sequence[Told]:
        """Constraints that it gave up because too many results were lost, since this was last asked."""

    @abstractmethod
    def uses(self, name: str) -> bool:
        """Whether it has used a declared constraint."""

    @abstractmethod
    def give_up(self, broken: Any) -> None:
        """A declared constraint does not hold: it is not used any more."""


class WatchesConstraint(ABC):
    """A logic that sees whether a declared constraint holds."""

    @property
    @abstractmethod
    def constraint(self) -> Constraint:
        """What is watched."""

    @abstractmethod
    def note(self, broken: Any) -> None:
        """A join has seen the constraint broken."""

    @abstractmethod
    def news(self) -> tuple[BrokenConstraint, list[str] | None] | None:
        """What queries are to be told, and which: None stands for all."""

    @abstractmethod
    def unused(self, is_there: Callable[[str], bool]) -> list[tuple[str, str]]:
        """Queries whose joins do not use the constraint and that were not told yet, and why."""
