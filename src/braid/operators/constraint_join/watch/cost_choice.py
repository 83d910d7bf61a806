"""Chooses the constraints that are worth using, by what each saves and what it costs.

Both are measured while a join runs. A constraint *saves* the bytes of the rows that left because of it,
each for the time that it would have stayed; as a part of the same of all rows that came. It *costs* the
time of its observations (their number, and how long one takes, tried on rows that are held) and of the
walks over the rows that it evicts; as a part of the time that the join took. A constraint that saves less
than it costs is given up, and tried again later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import ceil
from time import thread_time
from typing import Any

import numpy as np

from braid.operators.constraint_join.fields import Records, read_fields
from braid.operators.constraint_join.kernels.arrivals import rehearse
from braid.operators.constraint_join.kernels.records import DECLARED, LONGEST_LIFETIME, PROVES
from braid.operators.constraint_join.kernels.watch import ENDLESS, give_up
from braid.operators.constraint_join.state import Stores
from braid.operators.constraint_join.watch.report import Measured
from braid.operators.core.values import Words

#: Events after which it is measured what constraints save and cost, at least.
EVALUATED = 16_384
#: A watch that costs less than this part of the time more than it saves is used nevertheless.
_LITTLE = 0.01
#: How often in a row a constraint is found not to be worth its time before it is given up.
_DOUBTS = 2
#: Rows on which an observation is tried, and instants that are remembered.
_TRIED, _PACES = 64, 64
#: A k that is larger may not be used: at least.
_LEAST_THRESHOLD = 1024


class Paces:
    """How many events of each input come in the time of a window."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._arrivals: list[Words] = []

    def note(self, now: int, arrivals: Words) -> None:
        if self._times and now <= self._times[-1]:
            return
        self._times.append(now)
        self._arrivals.append(arrivals.copy())
        if len(self._times) > _PACES:
            del self._times[1::2], self._arrivals[1::2]

    def inside(self, number: int, size: int) -> int | None:
        """About how many events of an input come in so much time; None if that is not known yet."""
        if len(self._times) < 2:
            return None
        now = self._times[-1]
        at = min(bisect_left(self._times, now - size), len(self._times) - 2)
        came = int(self._arrivals[-1][number] - self._arrivals[at][number])
        return came * size // (now - self._times[at])

    def held(self, number: int, store: Any) -> int:
        """About how many events of an input are in its window, which is by time."""
        inside = self.inside(number, int(store["size"]))
        came = int(store["arrivals"])
        return came if inside is None else min(inside, came)

    def _lasts(self, number: int, store: Any) -> float | None:
        """In how much time a window passes; None if it does not, or if that is not known yet."""
        size = int(store["size"])
        if size <= 0 or not store["by_rows"]:
            return size if size >= 0 else None
        if len(self._times) < 2:
            return None
        came = int(self._arrivals[-1][number] - self._arrivals[0][number])
        return size * (self._times[-1] - self._times[0]) / came if came else None

    def set_stays(self, held: Stores) -> None:
        """For how long rows of each input stay if nothing lets them go. Those of a window that does not
        pass stay the longest."""
        lasts = [self._lasts(number, store) for number, store in enumerate(held.stores)]
        longest = max((time for time in lasts if time), default=1.0)
        for store, time in zip(held.stores, lasts, strict=True):
            part = 1.0 if time is None else time / longest
            store["lifetime"] = ceil(LONGEST_LIFETIME * part)

    def set_thresholds(
        self, watches: Records, held: Stores, inputs: Sequence[int], part: float
    ) -> None:
        """A constraint is of no use if rows have left their windows before it lets them go. `inputs`:
        whose events each watch is about; `part`: of a window that k may be at most."""
        for watch, number in zip(watches, inputs, strict=True):
            store = held.stores[number]
            size = int(store["size"])
            inside: int | None = size
            if size < 0:
                inside = int(store["arrivals"])
            elif not store["by_rows"]:
                inside = self.inside(number, size)
            if inside is not None:
                watch["threshold"] = max(_LEAST_THRESHOLD, int(inside * part))
            if size > 0 and not store["by_rows"]:
                watch["time_threshold"] = max(1, int(size * part))


class Choice:
    """What each watch of a join has saved and cost."""

    def __init__(self, held: Stores, watches: int, worth: float) -> None:
        self._held, self._worth = held, worth
        #: Seconds that the join took since it was last measured, and walks because of each watch.
        self.seconds = 0.0
        self._walked = np.zeros(watches, np.float64)
        self._before: Words | None = None
        self._came = np.zeros(len(held.stores), np.int64)
        self._events = 0
        #: Of each watch: the part of the bytes that it saved, the part of the time that it took, and
        #: how often it was found not to be worth it.
        self.saved, self.cost = np.zeros((2, watches), np.float64)
        self.refused = np.zeros(watches, np.int64)
        #: How often in a row it was found not to be worth it, whether it was used when this was last
        #: measured, and since when it was.
        self._doubts, self._proved_at = np.zeros((2, watches), np.int64)
        self._proved = np.zeros(watches, np.bool_)

    def measured(self, number: int, width: int) -> Measured:
        saved, cost = float(self.saved[number]), float(self.cost[number])
        return Measured(width, saved, cost, int(self.refused[number]))

    def state(self) -> Words:
        """What has been measured, to be saved: parts of a million."""
        parts = [np.round(1e6 * self.saved), np.round(1e6 * self.cost), self.refused]
        return np.concatenate(parts).astype(np.int64)

    def take(self, saved: Words) -> None:
        self.saved[:], self.cost[:] = saved.reshape(3, -1)[:2] / 1e6
        self.refused[:] = saved.reshape(3, -1)[2]
        self._before = None

    def forget(self) -> None:
        """What was counted so far is not compared with what is counted from now on."""
        self._before, self.seconds = None, 0.0
        self._walked[:] = 0

    def walked(self, watches: Iterable[int], seconds: float) -> None:
        """A walk over rows was made because of some watches."""
        self.seconds += seconds
        chosen = sorted(set(watches))
        if chosen:
            self._walked[chosen] += seconds / len(chosen)

    def evaluate(self, watches: Records) -> None:
        """Measure, if enough has come, and give up what is not worth its time."""
        events = int(self._held.stores["arrivals"].sum())
        if self._before is not None and events - self._events < EVALUATED:
            return
        counted = read_fields(watches, ["observed", "saved"])
        first = self._held.stores["first_index"]
        came = self._held.indexes["seen"][first].copy()
        if self._before is not None and self.seconds > 0:
            self._measure(watches, counted - self._before, came - self._came)
        self._before, self._came, self._events = counted, came, events
        self.seconds = 0.0
        self._walked[:] = 0

    def _measure(self, watches: Records, counted: Words, came: Words) -> None:
        bytes_ = self._held.bytes_and_time(came)
        proving = (watches["phase"] == PROVES) & (watches["k"] < ENDLESS)
        for number, watch in enumerate(watches):
            observed, saved = (int(word) for word in counted[number])
            # A watch that looks evicts no rows: it costs little, and to measure it costs more.
            if not observed or not bytes_ or watch["phase"] != PROVES:
                self._doubts[number] = 0
                continue
            took = observed * self._seconds_of(number) + self._walked[number]
            self.saved[number] = saved / bytes_
            self.cost[number] = min(took / self.seconds, 1.0)
            worth = self.saved[number] + _LITTLE >= self._worth * self.cost[number]
            # It takes a while until rows leave by what has just been found to hold.
            began = self._proved[number] and watch["proved"] == self._proved_at[number]
            self._doubts[number] = 0 if worth or not began else self._doubts[number] + 1
            if watch["declared"] != DECLARED and self._doubts[number] >= _DOUBTS:
                give_up(self._held.frame, number, int(self.refused[number]))
                self.refused[number] += 1
                self._doubts[number] = 0
        self._proved[:] = proving
        self._proved_at[:] = watches["proved"]

    def _seconds_of(self, number: int) -> float:
        """How long an observation takes, now and here: the shortest time of some, since others may
        have had the processor in between, less what it takes to ask for none. The first time of all,
        it is compiled."""
        times: list[float] = []
        tried = 0
        for rows in (0, _TRIED):
            found = []
            for _ in range(4):
                started = thread_time()
                tried = rehearse(self._held.frame, number, rows)
                found.append(thread_time() - started)
            times.append(min(found))
        return max(0.0, times[1] - times[0]) / tried if tried else 0.0
