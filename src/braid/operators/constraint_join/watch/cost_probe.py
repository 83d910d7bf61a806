"""When constraints are worth their time: the plain join, a sample beside it, and the way back.

A join that uses constraints takes longer than one that doesn't. So it begins as the plain join
(`passthrough.py`), with a sample beside it: the rows of one key in some are held here as well, and those are
counted that could leave early (`kernels/sample_arrivals.py`). If there are enough to be worth the time, the
plain join hands its events over. A sample that finds too few ends, and comes back later, after longer each
time. What the constraints really save and cost is measured against the plain join before; if they aren't
worth it, the events are handed back.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import thread_time

import numpy as np

from braid.operators.constraint_join.kernels.join import pass_time
from braid.operators.constraint_join.kernels.sample_arrivals import sample
from braid.operators.constraint_join.state import Stores
from braid.operators.constraint_join.watch.watch import Watch
from braid.operators.core.columns import Rows
from braid.operators.core.values import Words

#: One key in so many is sampled: at first, and if many rows are held.
_ONE_IN, _ONE_IN_MANY, _MANY = 16, 128, 1024
#: The events of a sample before it is judged, and how long it lasts, at least.
LEAST, LONGEST = 2048, 65_536
#: A sample lasts for so many times the events in windows (for so many if it has found nothing by then).
#: The pause until the next one lasts for so many times as long, doubled after each sample that found
#: nothing, so many times.
_WINDOWS, _WINDOWS_IN_VAIN, _PAUSE, _DOUBLED = 3, 1.5, 4, 3
#: The part of the time that constraints are assumed to take, before that is known.
SUPPOSED = 0.15
#: The events before constraints are judged to be worth their time, at least.
SETTLED = 32_768
#: How often they must be found not to be worth it before they are given up.
DOUBTS = 2
#: Batches whose times are remembered.
_BATCHES = 15
#: Constraints that cost less than this part of the time more than they save are used nevertheless.
_LITTLE = 0.02


class Rate:
    """Seconds that an event takes, in the last batches."""

    def __init__(self) -> None:
        self._last: list[float] = []

    def note(self, events: int, seconds: float) -> None:
        if events:
            self._last = [*self._last[1 - _BATCHES :], seconds / events]

    @property
    def seconds(self) -> float | None:
        """Some batches take longer, since others have the processor or something is compiled."""
        return median(self._last) if len(self._last) > 2 else None

    def forget(self) -> None:
        self._last = []


def cost_of(plain: Rate, own: Rate) -> float:
    """The part of the time that a join with constraints takes more than the plain one; 0: unknown."""
    if plain.seconds is None or own.seconds is None:
        return 0.0
    return max(0.0, 1.0 - plain.seconds / own.seconds)


class CostProbe:
    """Whether constraints would be worth their time, for a join that does not use them now."""

    def __init__(self, held: Stores, watch: Watch, worth: float) -> None:
        self._held, self._watch, self._worth = held, watch, worth
        self._frame = held.frame
        self.plain, self.own = Rate(), Rate()
        self.is_on = False
        #: Events in all; those at which a sample began or may begin; samples that found nothing.
        self.events = self._turn = self.vain = 0
        #: Results since then, events of it after which it is judged next, and arrivals at that time.
        self._results = self._judged = 0
        self._kept: Words = np.zeros(len(held.stores), np.int64)
        #: Of the plain join, when it was left: bytes of a row.
        self._bytes = 0.0
        #: Events at which it is judged next; how often it was not worth it, -1: nothing counts yet.
        self._settled, self._doubts = 0, -1

    # ---- beside the plain join ----

    def passes_over(self, came: Sequence[int]) -> bool:
        """Whether these events aren't sampled; then they are counted."""
        if self.is_on or self.events + sum(came) >= self._turn:
            return False
        self.events += sum(came)
        self._held.stores["arrivals"] += came
        return True

    def observe(
        self, rows: Sequence[Rows], bound: int, results: int, counts: Sequence[int]
    ) -> bool:
        """Sample events that were joined elsewhere, with so many results. `counts`: the rows that are held
        there of each input. Whether constraints are worth using."""
        self.events += sum(map(len, rows))
        if not self.is_on:
            self._begin()
        started = thread_time()
        self._held.feed(rows)
        sample(self._frame)
        pass_time(self._frame, bound)
        self._held.tidy()
        self._watch.sample(thread_time() - started)
        self._results += results
        return self._judge(counts)

    def _begin(self) -> None:
        self.is_on, self._turn = True, self.events
        self._results, self._judged = 0, LEAST
        self._kept = self._held.stores["arrivals"].copy()
        self._watch.begin_sample(_ONE_IN)

    def _judge(self, counts: Sequence[int]) -> bool:
        sampled = self.events - self._turn
        if sampled < self._judged:
            return False
        self._judged = sampled + max(LEAST, sampled // 8)
        if self._estimate(counts) >= self._worth * SUPPOSED:
            return True
        one_in = self._frame.sampling
        if one_in < _ONE_IN_MANY and self._held.stores["count"].sum() > _MANY:
            self._watch.sample_one_in(2 * one_in)
        windows = _WINDOWS if self._watch.is_proving() else _WINDOWS_IN_VAIN
        if sampled > max(LONGEST, windows * sum(counts)) or not self._watch.is_looking():
            self.end()
            self.pause(sampled)
            self._watch.drop_tables()
        return False

    def _estimate(self, counts: Sequence[int]) -> float:
        """The part of memory that would be saved: by constraints and by rows that are refused, as
        seen, and by rows that leave after their only result."""
        all_ = self._held.bytes_and_time(self._held.stores["accepted"])
        seen = float(self._frame.saved) / all_ if all_ else 0.0
        widths = self._held.slot_bytes
        total = float((widths * np.array(counts)).sum())
        arrived = self._held.stores["arrivals"] - self._kept
        done = 0.0
        for number in self._watch.covering():
            share = float(widths[number]) * counts[number] / total if total else 0.0
            done += share * min(1.0, self._results / max(1, int(arrived[number])))
        return seen + done

    def pause(self, sampled: int) -> None:
        """Don't sample for a while: the longer the more often samples found nothing."""
        self._turn = self.events + (_PAUSE * sampled << min(self.vain, _DOUBLED))
        self.vain += 1

    def return_to_plain(self, rows: int) -> None:
        """Constraints are not used any more; so many rows were handed back."""
        self.plain.forget()
        self.pause(max(LONGEST, rows))

    def end(self) -> None:
        """End the sample, and forget its rows."""
        self.is_on = False
        self._watch.end_sample()
        for number in range(len(self._held.stores)):
            self._held.forget(number)
        self._frame.now = -(2**63)

    # ---- with constraints ----

    def leave_plain(self, bytes_: int, rows: int) -> None:
        """Constraints are used from now on; the plain join held so much."""
        self._bytes = bytes_ / max(1, rows)
        self.own.forget()
        self._settled, self._doubts = self.events + max(SETTLED, 2 * rows), -1

    def is_worth_it(self, bytes_: int) -> bool:
        """Whether the join as it is, which holds so many bytes, saves as much as it costs; True while
        that is not known."""
        if self.events < self._settled or not self._bytes or not self._worth:
            return True
        self._settled = self.events + SETTLED
        plain = self._bytes * self._plain_rows()
        if self._doubts < 0 or not plain:
            # What leaves has come earlier: only now the one is to be compared with the other.
            self._doubts = 0
            return True
        saved = 1.0 - bytes_ / plain
        worth = saved + _LITTLE >= self._worth * cost_of(self.plain, self.own)
        self._doubts = 0 if worth else self._doubts + 1
        return self._doubts < DOUBTS

    def _plain_rows(self) -> float:
        """The rows that the plain join would hold now: those of the windows that WHERE keeps."""
        held = self._held.stores
        arrived = held["arrivals"] - self._kept
        kept = np.minimum(1.0, held["accepted"] / np.maximum(1, arrived))
        self._frame.saved = 0
        self._kept = held["arrivals"].copy()
        held["accepted"] = 0
        rows = np.array([self._watch.paces.held(n, store) for n, store in enumerate(held)])
        return float((rows * kept).sum())

    # ---- state ----

    def state(self) -> Words:
        left = max(0, self._turn - self.events) if not self.is_on else 0
        return np.array([self.events, left, self.vain, round(self._bytes)], np.int64)

    def take(self, saved: Words) -> None:
        self.events, left, self.vain, self._bytes = (int(word) for word in saved)
        self._turn = self.events + left
        self._settled = self.events + SETTLED
