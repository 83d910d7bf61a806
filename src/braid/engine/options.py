"""What holds for all queries of an engine, as its user chose it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from braid.algebra.constraints import Constraint, ConstraintMode, Watching
from braid.errors import ConfigError
from braid.operators.core.base import ASIDE_ABOVE
from braid.operators.core.selection_choice import Choice
from braid.operators.core.selection_settings import Selections, selections
from braid.optimizer.rules import NAMES


@dataclass(frozen=True)
class Options:
    """What holds for all queries of a shard. Times in microseconds."""

    instance_budget: int = 1_000_000
    idle_timeout: int | None = 60_000_000
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    rules: frozenset[str] = frozenset(NAMES)
    #: Read all attributes of each stream, so that queries which come later find what they need.
    whole_streams: bool = False
    #: What joins may do with constraints unless their query says it, and those that were declared.
    mode: ConstraintMode = ConstraintMode.EXACT
    constraints: tuple[Constraint, ...] = ()
    #: How many bytes a join holds before it puts rows aside.
    aside_above: int = ASIDE_ABOVE
    #: How joins find out which constraints hold.
    watching: Watching = Watching()  # noqa: RUF009 -- frozen
    selection_join: Choice = Choice()  # noqa: RUF009 -- frozen
    #: How the selections of each stream are indexed.
    selections: Selections = Selections()  # noqa: RUF009 -- frozen
    #: Of the values by which documents are divided: which shard this is, and of how many.
    share: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        if self.aside_above < 0:
            raise ConfigError("E317", "aside_above must not be negative")


def check_selection(given: Mapping[str, Mapping[str, Any]] | None) -> None:
    """Raise what is wrong with settings of the selections of streams."""
    selections(given)


def check_selection_join(form: str, member_set_bytes: int | None) -> None:
    """Raise what is wrong with options of selection joins."""
    Choice(form, 0 if member_set_bytes is None else member_set_bytes)
