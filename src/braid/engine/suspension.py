"""Suspension: the reason why a query has no more results although it was not dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from braid.plan.routes import Route


@dataclass(frozen=True)
class Suspension:
    """Why and when a query is suspended.

    A sum overflows its type (`overflow`), the query needs more than its MEMORY (`memory`), it has
    too many instances, or an operator raised an exception (`failure`). `streams` names the outputs
    that have ended if other outputs of the query continue.
    """

    at: int
    overflow: bool
    memory: bool = False
    streams: tuple[str | None, ...] = ()
    failure: str = ""

    def with_earlier(self, other: Suspension) -> Suspension:
        """The earlier of two suspensions, with the outputs that either of them ends."""
        first = min(self, other, key=lambda suspension: (suspension.at, suspension.overflow))
        return replace(first, streams=tuple(dict.fromkeys((*self.streams, *other.streams))))

    def reason(self, budget: int) -> str:
        """The message for the user; `budget` is the number of instances that a query may have."""
        if self.failure:
            return (
                f"E320: an operator of the query, or of a stream that it reads, failed with {self.failure}; "
                "drop the query, register it again, perhaps in another form, and report the bug"
            )
        if self.overflow:
            return (
                f"E307: a sum of the query does not fit its type at {self.at}{_only(self.streams)}: "
                "cast the values to DOUBLE before you sum them, or shorten the window"
            )
        if self.memory:
            return (
                f"E211: its windows need more than its MEMORY at {self.at}: increase MEMORY, "
                "or shorten the windows; larger batches and VERIFY NEVER need less"
            )
        return (
            f"more than {budget} instances at {self.at}, in the query or in a stream that it reads: bound the "
            "pattern with DUR or the join with windows, or raise instance_budget"
        )


def _only(streams: Sequence[str | None]) -> str:
    """The outputs of a query that have ended, if others continue."""
    named = [repr(name) for name in sorted(name for name in streams if name is not None)]
    named += ["its own results"] if None in streams else []
    return f"; only {' and '.join(named)} ended" if named else ""


def ended_outputs(route: Route, stage: int) -> tuple[str | None, ...]:
    """The outputs that depend on a stage, if there are others."""
    places = route.exits_after(stage)
    several = len(places) < len(route.exits)
    return tuple(route.exits[place].stream for place in places) if several else ()
