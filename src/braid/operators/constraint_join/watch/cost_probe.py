"""When constraints are worth looking for and using: the plain join, a look beside it, and the way back.

A join with constraints takes longer than one without. So it begins as the plain join
(`operators/constraint_join/passthrough.py`), with a *look* beside it: of one key in so many the rows are held here as well,
and it is counted which of them could leave early (`operators/constraint_join/kernels/sample_arrivals.py`). If that is enough to be worth the
time, the events are handed over. A look that finds nothing ends, and comes back later, after longer each
time. What a join with constraints really saves and costs is measured against the plain join that it
was before; if it is not worth it, its events are handed back.
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

#: Of keys, one in so many is looked at: at first, and if many rows are held.
_ONE_IN, _ONE_IN_MANY, _MANY = 16, 128, 1024
#: Events after which it is said what was seen: at least, and for how long it is looked.
LEAST, LONGEST = 2048, 65_536
#: A look lasts for so many times the events in windows (for so many if it has found nothing by then),
#: and the time until the next one for so many times as long, doubled after each look in vain for so
#: many times.
_WINDOWS, _WINDOWS_IN_VAIN, _PAUSE, _DOUBLED = 3, 1.5, 4, 3
#: The part of the time that a join with constraints is supposed to take, before that is known.
SUPPOSED = 0.15
#: Events after which it is judged whether a join with constraints is worth its time, at least.
SETTLED = 32_768
#: How often it is found not to be worth it before it is given up.
DOUBTS = 2
#: Batches whose times are remembered.
_BATCHES = 15
#: What costs less than this part of the time more than it saves is used all the same.
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


class Look:
    """Whether constraints would be worth their time, for a join that does not use them now."""

    def __init__(self, held: Stores, watch: Watch, worth: float) -> None:
        self._held, self._watch, self._worth = held, watch, worth
        self._frame = held.frame
        self.plain, self.own = Rate(), Rate()
        self.is_on = False
        #: Events in all; those at which a look began or may begin; looks in vain.
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
        """Whether events of each input are not to be looked at, which are counted then."""
        if self.is_on or self.events + sum(came) >= self._turn:
            return False
        self.events += sum(came)
        self._held.stores["arrivals"] += came
        return True

    def observe(
        self, rows: Sequence[Rows], bound: int, results: int, counts: Sequence[int]
    ) -> bool:
        """See events that have been joined elsewhere, with so many results; `counts`: what is held
        there of each input. Whether it is worth using constraints."""
        self.events += sum(map(len, rows))
        if not self.is_on:
            self._begin()
        started = thread_time()
        self._held.feed(rows)
        sample(self._frame)
        pass_time(self._frame, bound)
        self._held.tidy()
        self._watch.look(thread_time() - started)
        self._results += results
        return self._judge(counts)

    def _begin(self) -> None:
        self.is_on, self._turn = True, self.events
        self._results, self._judged = 0, LEAST
        self._kept = self._held.stores["arrivals"].copy()
        self._watch.begin_look(_ONE_IN)

    def _judge(self, counts: Sequence[int]) -> bool:
        looked = self.events - self._turn
        if looked < self._judged:
            return False
        self._judged = looked + max(LEAST, looked // 8)
        if self._estimate(counts) >= self._worth * SUPPOSED:
            return True
        one_in = self._frame.sampling
        if one_in < _ONE_IN_MANY and self._held.stores["count"].sum() > _MANY:
            self._watch.look_at(2 * one_in)
        windows = _WINDOWS if self._watch.is_proving() else _WINDOWS_IN_VAIN
        if looked > max(LONGEST, windows * sum(counts)) or not self._watch.is_looking():
            self.end()
            self.pause(looked)
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

    def pause(self, looked: int) -> None:
        """Do not look for a while: the longer the more often that was in vain."""
        self._turn = self.events + (_PAUSE * looked << min(self.vain, _DOUBLED))
        self.vain += 1

    def return_to_plain(self, rows: int) -> None:
        """Constraints are not used any more; so many rows were handed back."""
        self.plain.forget()
        self.pause(max(LONGEST, rows))

    def end(self) -> None:
        """Forget what was looked at."""
        self.is_on = False
        self._watch.end_look()
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
