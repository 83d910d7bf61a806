"""Judges whether rows of an input have one result at most: then they can leave after it."""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np

from braid.algebra.constraints import ConstraintMode
from braid.operators.constraint_join.kernels.records import CONFIRMED, COUNTED, UNCOUNTED

#: Results of rows of an input after which it is judged whether each has one at most.
_JUDGED = {ConstraintMode.EXACT: 64, ConstraintMode.MONITORED: 1000}
#: How many of a hundred may have another one, if no result is lost by it.
_OFTEN = 2
#: Events for which results of rows are not counted after they were in vain; two to this many times.
_UNCOUNTED, _LONGEST_UNCOUNTED = 8192, 5
#: Events after which it is believed that no row has another result, where windows hold more.
_LONG = 65_536


class OneResult:
    """What is known of the results that rows of each input are in."""

    def __init__(self, mode: ConstraintMode, inputs: int) -> None:
        self._mode = mode
        #: Of each input: events until which results are not counted, how often that was in vain, and
        #: since how many events they are.
        self._uncounted, self._vain, self._counted = np.zeros((3, inputs), np.int64)

    def forget(self) -> None:
        for words in (self._uncounted, self._vain, self._counted):
            words[:] = 0

    def judge(self, number: int, store: Any, *, paused: bool) -> None:
        if store["one_result"] == UNCOUNTED:
            if store["arrivals"] < self._uncounted[number]:
                return
            store["one_result"] = COUNTED
            self._counted[number] = store["arrivals"]
        first, again = int(store["first_results"]), int(store["further_results"])
        enough = _JUDGED[self._mode]
        if self._vain[number]:
            # Rows whose results were not counted for a while seem to have had none, and what has
            # come since may take its time to be in a second one.
            enough = max(enough, 4 * isqrt(store["count"]))
            if store["arrivals"] - self._counted[number] < 2 * store["count"]:
                return
        if first + again < enough or paused:
            return
        if self._mode is ConstraintMode.MONITORED and store["one_result"] != CONFIRMED:
            # A second result may come at the end of a window: it is to be seen that none does.
            long = min(2 * int(store["count"]), _LONG)
            if store["arrivals"] - self._counted[number] < long:
                return
        often = _OFTEN if self._mode is ConstraintMode.EXACT else 0
        if 100 * again <= often * first:
            store["one_result"] = CONFIRMED
            store["first_results"], store["further_results"] = first // 2, again // 2
        else:
            wait = _UNCOUNTED << min(int(self._vain[number]), _LONGEST_UNCOUNTED)
            self._vain[number] += 1
            self._uncounted[number] = store["arrivals"] + wait
            store["one_result"] = UNCOUNTED
            store["first_results"] = store["further_results"] = 0
