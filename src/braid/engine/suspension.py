"""Why a query puts out nothing more, though nobody has dropped it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Suspension:
    """A sum in it does not fit its type, it needs more memory than it was given, it has too many
    instances, or something raised (`failure`). `streams`: which of its outputs have ended, if it has others that go on."""

    at: int
    overflow: bool
    memory: bool = False
    streams: tuple[str | None, ...] = ()
    failure: str = ""

    def with_earlier(self, other: Suspension) -> Suspension:
        """The first of two reasons, with the outputs that end for either."""
        first = min(self, other, key=lambda suspension: (suspension.at, suspension.overflow))
        return replace(first, streams=tuple(dict.fromkeys((*self.streams, *other.streams))))

    def reason(self, budget: int) -> str:
        """What a user is told; `budget` is how many instances a query may have."""
        if self.failure:
            return (
                f"E320: an operator of it, or of what it reads, failed with {self.failure}; "
                "drop the query and register it again, perhaps written otherwise, and report this"
            )
        if self.overflow:
            return (
                f"E307: a sum in it does not fit its type at {self.at}{_only(self.streams)}: "
                "cast what is summed to DOUBLE, or shorten the window"
            )
        if self.memory:
            return (
                f"E211: what its windows hold takes more than its MEMORY at {self.at}: give it "
                "more, or shorten the windows; larger batches and VERIFY NEVER take less"
            )
        return (
            f"more than {budget} instances at {self.at}, in it or in what it reads: bound the "
            "pattern with DUR or the join with windows, or raise instance_budget"
        )


def _only(streams: Sequence[str | None]) -> str:
    """Which outputs of a query have ended, if not all."""
    named = [repr(name) for name in sorted(name for name in streams if name is not None)]
    named += ["its own results"] if None in streams else []
    return f"; of its outputs {' and '.join(named)} ended" if named else ""
