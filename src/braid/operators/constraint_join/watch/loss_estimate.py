"""Estimates the results that a join has lost by dropping rows, and says when they are too many.

In monitored mode one row in a hundred stays although it seems useless. A result that needs such a row
would be lost but for that, so it stands for a hundred: those that were lost. Each counts against the
reason for which the row would have been dropped (`kernels/eviction.py`). If the estimate is more than the
part of all results that may be lost (`Watching.loss`), the reasons that lose the most are given up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braid.algebra.constraints import Watching
from braid.jit import records
from braid.operators.constraint_join.kernels.records import Frame
from braid.operators.core.values import Words

#: Results of sampled rows that there must be before anything is given up: one is an accident.
_ENOUGH = 3
#: What is judged are the last results: so many times those of which as many may be lost as are needed
#: to be sure, and twice as many at most.
_SPANS = 10


@dataclass(frozen=True)
class Lossy:
    """Constraints that a join has given up because they lost too many results.

    `lost` of `results`: an estimate for the latest results, by which the join decides. `lost_in_all`:
    an estimate for all of them.
    """

    what: tuple[str, ...]
    lost: int
    results: int
    allowed: float
    lost_in_all: int

    @property
    def part(self) -> float:
        return self.lost / max(1, self.results)

    def describe(self) -> str:
        """What has happened, in words."""
        which = "; ".join(self.what)
        return (
            f"results are lost because this does not hold ({which}): about {self.part:.1%} of the"
            f" latest {self.results:,} results, and {self.allowed:.1%} may be lost"
            f" ({self.lost_in_all:,} results in all); the join no longer uses it. Use CONSTRAINTS EXACT"
            " to lose none, or allow more with the setting `loss` of `watching`"
        )


class LossEstimate:
    """What a join has lost, by reason, and the reasons that it has given up."""

    def __init__(self, frame: Frame, reasons: int, watching: Watching) -> None:
        self._frame, self._allowed = frame, watching.loss
        self._sample = round(1024 * watching.sample)
        #: Results of sampled rows by reason, and which reasons are not used any more.
        self.by: Words = np.zeros(reasons, np.int64)
        self.given_up = np.zeros(reasons, np.bool_)
        #: The latest results, with those that were lost, and how many were lost, when reasons were
        #: given up.
        self._judged = (0, 0)
        #: The same at the begin of the span before this one, and of this one; all results then.
        self._since: Words = np.zeros((2, reasons + 1), np.int64)
        frame.lost_by = records.Words.at(self.by)

    def estimate(self, found: int | None = None) -> int:
        """Results that were lost, of which so many were found by rows that were sampled."""
        found = self._frame.lost if found is None else found
        return found * (1024 - self._sample) // max(self._sample, 1)

    def judge(self) -> list[int]:
        """The reasons that are to be given up now."""
        if (
            not self._sample
            or not (self.by[~self.given_up] > self._since[0, :-1][~self.given_up]).any()
        ):
            self._turn()
            return []
        lately = np.where(self.given_up, 0, self.by - self._since[0, :-1])
        results = int(self._frame.results - self._since[0, -1])
        # Those that need two sampled rows stand for more, but are no more evidence than others.
        weight = max(1.0, self._frame.lost / max(1, int(self.by.sum())))
        chosen: list[int] = []
        for reason in np.argsort(-lately, kind="stable").tolist():
            found = int(lately.sum())
            lost = self.estimate(round(weight * found))
            if found < _ENOUGH or lost <= self._allowed * (results + lost):
                break
            if not chosen:
                self._judged = (results + lost, lost)
            chosen.append(reason)
            lately[reason] = 0
        self.given_up[chosen] = True
        self._turn()
        return chosen

    def _turn(self) -> None:
        """Forget what is long past."""
        results = self._frame.results
        span = _SPANS * _ENOUGH * 1024 / (max(self._allowed, 1e-3) * max(self._sample, 1))
        if results - self._since[1, -1] >= span:
            self._since[0] = self._since[1]
            self._since[1] = [*self.by, results]

    def lossy(self, what: list[str]) -> Lossy:
        results, lost = self._judged
        return Lossy(tuple(what), lost, results, self._allowed, self.estimate())

    # ---- state ----

    def saved(self) -> Words:
        results = np.array([self._frame.results], np.int64)
        return np.concatenate([results, self.by, self.given_up, self._since.ravel()])

    def take(self, saved: Words) -> None:
        count = len(self.by)
        self._frame.results = saved[0]
        self.by[:] = saved[1 : 1 + count]
        self.given_up[:] = saved[1 + count : 1 + 2 * count]
        self._since[:] = saved[1 + 2 * count :].reshape(self._since.shape)
