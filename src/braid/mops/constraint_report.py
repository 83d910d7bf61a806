"""What a join tells of a constraint that it watches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from braid.kernels import k_watch as kernel
from braid.mops.values import Words

#: Values of k that are remembered.
_HISTORY = 16

_NAMES = {
    kernel.WAITS: "references",
    kernel.ASCENDS: "ascending",
    kernel.DESCENDS: "descending",
    kernel.CLUSTERS: "clustered",
}


@dataclass
class Found:
    """What was found out about a constraint in the course of time."""

    declared: str | None = None
    history: list[tuple[int, int | None]] = field(default_factory=list)

    def note(self, now: int, k: int) -> None:
        """Remember k if it has changed; one without end is None."""
        shown = None if k >= kernel.ENDLESS else k
        if (self.history[-1][1] if self.history else None) != shown:
            self.history = [*self.history[1 - _HISTORY :], (now, shown)]


def shown_watch(
    watch: Words, found: Found, input_: int, about: str | int, width: int
) -> dict[str, Any] | None:
    """A constraint as `explain` and statistics show it; None if there is nothing to say.

    `input`: whose events it is about; `waiting`: the input whose rows wait for them, or `column`.
    """
    k, gone = int(watch[kernel.K]), int(watch[kernel.GONE])
    if k >= kernel.ENDLESS and not gone and not found.history and found.declared is None:
        return None
    waits = watch[kernel.KIND] == kernel.WAITS
    shown: dict[str, Any] = {
        "kind": _NAMES[int(watch[kernel.KIND])],
        "input": input_,
        "waiting" if waits else "column": about,
        "k": None if k >= kernel.ENDLESS else k,
        "unit": "time" if watch[kernel.TIMED] else "rows",
        "history": [list(entry) for entry in found.history],
        "rows": gone,
        "bytes": gone * width,
        "increases": int(watch[kernel.BROKEN]),
    }
    if found.declared is not None:
        shown["declared"] = found.declared
        if watch[kernel.DECLARED] == 2:
            shown["broken"] = {
                "event": int(watch[kernel.BREAKER]),
                "at": int(watch[kernel.BROKEN_AT]),
            }
    return shown
