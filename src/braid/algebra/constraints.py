"""Constraints on how events arrive, up to a deviation k.

A constraint with k = 0 is kept strictly; a larger k says by how much it may be missed, in events
of a stream or in time. Joins use constraints to forget what can no longer find a partner.

- KEY: no two events have the same values of these attributes.
- REFERENCES: the event of `target` that an event of `stream` joins has come before it, or comes
  within k events of `target` after it.
- CLUSTERED: between two events with the same value come at most k events with other values.
- ASCENDING, DESCENDING: an event that comes more than k events after another has no smaller
  (larger) value.

>>> Constraint("order", ConstraintKind.ASCENDING, "Quotes", ("day",), k=3).describe()
'Quotes (day) ascending within 3 rows'
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ConstraintKind(Enum):
    """The kinds of regularity of arrivals."""

    KEY = "key"
    REFERENCES = "references"
    CLUSTERED = "clustered"
    ASCENDING = "ascending"
    DESCENDING = "descending"


class ConstraintMode(Enum):
    """The ways in which joins may use constraints.

    EXACT loses no result: rows that an observed constraint would evict spill to disk, and are
    reloaded when they join. MONITORED drops these rows and estimates the loss. OFF neither observes
    nor uses constraints.
    """

    EXACT = "exact"
    MONITORED = "monitored"
    OFF = "off"


@dataclass(frozen=True)
class Watching:
    """How joins find constraints out that nobody declared; None: what suits each kind.

    `margin` (c in the article): rows stay until so many times k has passed. `sample` (p): the part
    of rows that are kept although they seem useless. `window` (W): events over which distances are
    taken into account. `threshold`: a k that is more than this part of what a window holds is not
    used. `worth`: a constraint is used if the part of memory that it saves is at least this many times
    the part of time that it takes. `loss`: the part of results that may be lost, as is estimated from
    the sample; a constraint by which more are lost is given up.
    """

    margin: float | None = None
    sample: float = 0.01
    window: int | None = None
    threshold: float = 0.5
    worth: float = 0.25
    loss: float = 0.01


@dataclass(frozen=True)
class Constraint:
    """A declared constraint. `k` counts rows, or the stream's units of time if `timed`."""

    name: str
    kind: ConstraintKind
    stream: str
    attributes: tuple[str, ...]
    target: str | None = None
    target_attributes: tuple[str, ...] = ()
    k: int = 0
    timed: bool = False

    def __post_init__(self) -> None:
        assert self.k >= 0, "how far a constraint may be missed is never negative"
        references = self.kind is ConstraintKind.REFERENCES
        assert references == (self.target is not None), "only references have a target"
        assert len(self.target_attributes) == (len(self.attributes) if references else 0)

    def describe(self) -> str:
        """The constraint in words, as `explain` shows it."""
        about = f"{self.stream} ({', '.join(self.attributes)}) {self.kind.value}"
        if self.target is not None:
            about += f" {self.target} ({', '.join(self.target_attributes)})"
        if self.kind is ConstraintKind.KEY:
            return about
        return f"{about} within {self.k} {'units of time' if self.timed else 'rows'}"
