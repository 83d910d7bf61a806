"""The constraints that a join of relations observes, and the rows that leave because of them.

Watches observe how long the rows of every input wait for their first result, and of every column of a key
whether it ascends or descends (`kernels/delta_eviction.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braid.algebra.constraints import ConstraintMode, Watching
from braid.algebra.types import Kind, kind_of
from braid.errors import damaged
from braid.jit.runtime import address
from braid.operators.constraint_join.delta.state import ChangeStores
from braid.operators.constraint_join.fields import Records, read_fields, words_of, write_fields
from braid.operators.constraint_join.kernels.delta_eviction import collect_changes
from braid.operators.constraint_join.kernels.records import (
    ASCENDS,
    ASKED,
    CONFIRMED,
    COUNTED,
    DESCENDS,
    PROVES,
    WAITS,
    Criterion,
    Watch,
)
from braid.operators.constraint_join.kernels.watch import (
    ENDLESS,
    give_up,
    judge_looking,
    restart_watch,
)
from braid.operators.constraint_join.spec import ConstraintJoinSpec
from braid.operators.constraint_join.watch.report import (
    Broken,
    Found,
    Measured,
    saved_history,
    saved_watches,
    shown_watch,
    take_history,
)
from braid.operators.constraint_join.watch.violations import Breaks
from braid.operators.constraint_join.watch.watch import ORDERED
from braid.operators.core import checks
from braid.operators.core.base import State
from braid.operators.core.values import Words
from braid.operators.join.probe_orders import Key

#: Rows over which distances are taken into account, and k_e = c * k_u where results may be lost.
_WINDOW = {WAITS: 500, ASCENDS: 1000, DESCENDS: 1000}
_FACTOR = {WAITS: 2.0, ASCENDS: 1.2, DESCENDS: 1.2}
#: Values of an order that are remembered.
_RUNS = 128
#: The part of rows that has to leave by a watch each time, if `worth` is 1.
_WORTH = 0.1
_NO_CRITERIA: Records = np.empty(0, Criterion.dtype)
#: The fields of an index that are saved.
_EQUALS = ["duplicates", "duplicate_number", "duplicate_time", "duplicate_value"]
#: A k that is larger is not used, at least.
_LEAST_THRESHOLD = 1024


class ChangesWatch:
    """Which constraints hold of the inputs of one join."""

    def __init__(
        self,
        spec: ConstraintJoinSpec,
        held: ChangeStores,
        keys: Sequence[Key],
        watching: Watching,
    ) -> None:
        self._spec, self._held, self._keys = spec, held, keys
        self._watching = watching
        self._make_watches()
        self._found = [Found() for _ in self._what]
        self.breaks = Breaks(spec, held, keys, self._watches, self._found)
        self._watch_keys()
        #: Of each watch: how often it was not worth its time.
        self._vain = [0 for _ in self._what]

    def _make_watches(self) -> None:
        """Those of waiting first, one of each input, and the rest input by input."""
        inputs = range(len(self._spec.inputs))
        #: The watches of the columns of each input.
        self._of_columns: list[slice] = []
        #: Kind, input, column.
        what: list[tuple[int, int, int]] = [(WAITS, n, -1) for n in inputs]
        for number, shape in enumerate(self._spec.inputs):
            first = len(what)
            columns = {key.columns[number][0] for key in self._keys if key.columns[number]}
            for column in sorted(columns):
                if kind_of(shape.schema.attributes[column].type) in ORDERED:
                    what.append((ASCENDS, number, column))
                    what.append((DESCENDS, number, column))
            self._held.stores["first_watch"][number] = first
            self._of_columns.append(slice(first, len(what)))
        self._what = what
        self._watches: Records = np.zeros(len(what), Watch.dtype)
        self._tables: Words = np.empty((len(what) - len(inputs), 0, 2), np.int64)
        exact = self._spec.mode is ConstraintMode.EXACT
        for (kind, number, column), watch in zip(what, self._watches, strict=True):
            waits = kind == WAITS
            # Rows of all inputs count for those that wait.
            watch["kind"], watch["input"] = kind, len(inputs) if waits else number
            watch["column"] = watch["example"] = max(column, 0)
            if not waits:
                type_ = self._spec.inputs[number].schema.attributes[column].type
                watch["floating"] = kind_of(type_) is Kind.FLOAT
            watch["k"], watch["started"] = ENDLESS, -1
            watch["window"] = self._watching.window or _WINDOW[kind]
            factor = self._watching.margin or (1.0 if exact else _FACTOR[kind])
            watch["factor"] = round(1024 * factor)
            watch["threshold"] = _LEAST_THRESHOLD
        self._point()

    def _point(self) -> None:
        for table, watch in zip(self._tables, self._watches[len(self._spec.inputs) :], strict=True):
            watch["table"], watch["room"] = address(table), len(table)
        self._held.point_watches(self._watches)

    def begin(self) -> None:
        """Observe from now on; whatever was known is long past."""
        self._tables = np.full((len(self._tables), _RUNS, 2), -1, np.int64)
        self._point()
        for number in range(len(self._watches)):
            restart_watch(self._held.frame, number, PROVES)
        self.rouse()
        self._held.stores["one_result"] = COUNTED
        self._held.stores["one_result"][self._covered()] = CONFIRMED
        self._held.stores[["first_results", "further_results"]] = 0

    # ---- keys that were declared ----

    def _watch_keys(self) -> None:
        """Say which indexes are of keys that were declared, and have not been broken."""
        self._held.stores["keyed"] = 0
        for index, lookup in enumerate(self._held.lookups):
            if lookup is not None:
                one = self.breaks.is_declared(index)
                self._held.indexes["unique"][index] = one
                self._held.stores["keyed"][lookup[0]] |= one

    def _covered(self) -> list[int]:
        """The inputs whose rows are in one result at most, as declared keys say: they lead from each
        of them to all others."""
        inputs = range(len(self._spec.inputs))
        leads = {
            (first, second)
            for first in inputs
            for index, lookup in enumerate(self._held.lookups)
            if lookup is not None and self.breaks.is_declared(index)
            for second in [lookup[0]]
            if first != second and all(self._keys[k].columns[first] for k in lookup[1])
        }
        found = []
        for number in inputs:
            reached, new = {number}, [number]
            while new:
                here = new.pop()
                more = [b for a, b in leads if a == here and b not in reached]
                reached |= set(more)
                new += more
            if len(reached) == len(inputs):
                found.append(number)
        return found

    def note_keys(self) -> None:
        """Keys that have been broken are not used any more."""
        if self.breaks.note_keys():
            self._watch_results()

    def give_up(self, broken: Broken) -> None:
        """A declared constraint does not hold, as its streams show."""
        if self.breaks.give_up(broken):
            self._watch_results()

    def _watch_results(self) -> None:
        covers = self._held.stores["one_result"]
        self._held.stores["one_result"] = np.minimum(covers, COUNTED)
        self._watch_keys()

    def end(self) -> None:
        """Keep no room for values while nothing is observed."""
        self._tables = np.empty((len(self._tables), 0, 2), np.int64)
        self._point()

    def rouse(self) -> None:
        """Observe the values of those inputs only that have a watch which is awake."""
        until: list[int] = self._watches["sleeps_until"].tolist()
        for number, own in enumerate(self._of_columns):
            awake = min(until[own], default=0) <= self._held.arrivals[number]
            self._held.stores["watch_count"][number] = (own.stop - own.start) * awake

    # ---- what is done about it ----

    def collect(self) -> int:
        """Collect rows; how many leave."""
        judge_looking(self._held.frame)
        now, left = self._held.frame.now, 0
        came = self._held.arrivals[self._watches["input"]]
        inside = (came * self._watching.threshold).astype(np.int64)
        thresholds = np.maximum(inside, _LEAST_THRESHOLD)
        self._watches["threshold"] = thresholds
        ks = self._watches["k"]
        for found, k in zip(self._found, ks.tolist(), strict=True):
            found.note(now, k)
        usable: list[bool] = (ks <= thresholds).tolist()
        gone, walked = self._watches["evicted"].copy(), np.zeros(len(self._what), np.int64)
        for number, store in enumerate(self._held.stores):
            criteria = self._criteria(number, usable) if any(usable) else _NO_CRITERIA
            used = [*criteria["watch"].tolist(), *([number] * usable[number])]
            count = int(store["count"])
            walked[used] += max(count, 1)
            done = store["one_result"] == CONFIRMED and self._held.frame.early
            if count and (used or done):
                at = Criterion.at(criteria)
                left += int(collect_changes(self._held.frame, number, at, len(criteria)))
        self._evaluate(walked, gone)
        return left

    def _evaluate(self, walked: Words, before: Words) -> None:
        """Give up watches that evict too few of the rows that were walked: they aren't worth the time
        that they take, nor the results that they may lose. They are tried again later."""
        gone = self._watches["evicted"] - before
        for number in walked.nonzero()[0].tolist():
            if gone[number] < _WORTH * self._watching.worth * walked[number]:
                give_up(self._held.frame, number, self._vain[number])
                self._vain[number] += 1
            else:
                self._vain[number] = 0

    def _criteria(self, number: int, usable: Sequence[bool]) -> Records:
        """The orders by which rows of an input can leave: those of the input that it looks up first."""
        other, keys = self._held.first_lookup(number)
        found = [
            (watch, -1, self._keys[key].columns[number][0], ASKED, 0)
            for key in keys
            for watch, (kind, input_, column) in enumerate(self._what)
            if kind != WAITS and input_ == other
            if column == self._keys[key].columns[other][0] and usable[watch]
        ]
        return np.array(found, Criterion.dtype)

    # ---- state ----

    @property
    def nbytes(self) -> int:
        return self._watches.nbytes + self._tables.nbytes

    def saved(self) -> State:
        return {
            "watches": words_of(self._watches.copy()),
            "tables": self._tables.ravel().copy(),
            "history": saved_history(self._found),
            "broken_keys": self.breaks.saved(),
            "equals": read_fields(self._held.indexes, _EQUALS),
        }

    def take(self, state: State) -> None:
        watches = saved_watches(state["watches"], self._watches)
        rows = len(state["tables"]) // max(2 * len(self._tables), 1)
        rooms = watches["room"][len(self._spec.inputs) :]
        if (rooms != rows).any():
            raise damaged("the table of a watch has another size")
        self._watches[:] = watches
        self._tables = state["tables"].reshape(len(self._tables), rows, 2).copy()
        take_history(self._found, state["history"])
        if "broken_keys" in state:
            checks.within(state["broken_keys"], -1, len(self._held.indexes), "broken keys")
            self.breaks.take(state["broken_keys"])
            write_fields(self._held.indexes, _EQUALS, state["equals"])
            self._watch_keys()
        self._point()
        self.rouse()

    def broken_keys(self) -> dict[str, int]:
        """Declared keys that are broken, and when the second row of one came."""
        at = self._held.indexes["duplicate_time"]
        return {name: int(at[index]) for name, index in self.breaks.keys.items()}

    def describe(self) -> list[dict[str, Any]]:
        described = []
        for place, (kind, number, column) in enumerate(self._what):
            watch, found = self._watches[place], self._found[place]
            about: str | int = number
            if kind != WAITS:
                about = self._spec.inputs[number].layout.names[column]
            # Rows that leave because of a column are those of the inputs that look it up.
            others = range(len(self._spec.inputs))
            left = number
            if kind != WAITS:
                left = next((i for i in others if self._held.first_lookup(i)[0] == number), number)
            width, vain = 8 * int(self._held.stores["slot_words"][left]), self._vain[place]
            shown = shown_watch(watch, found, number, about, Measured(width, 0.0, 0.0, vain))
            if shown is not None:
                described.append(shown)
        return described
