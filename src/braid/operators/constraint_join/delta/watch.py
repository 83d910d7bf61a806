"""What a join finds out about relations that come and go, and what it does about it.

See `operators/constraint_join/kernels/delta_eviction.py`: of every input, how long its rows wait for their first result, and of
every column of a key whether it ascends or descends. Whether rows have one result at most is judged
here as well.
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
from braid.operators.constraint_join.kernels import delta_eviction as ways
from braid.operators.constraint_join.kernels import frame as frames
from braid.operators.constraint_join.kernels import store as stores
from braid.operators.constraint_join.kernels import watch as kernel
from braid.operators.constraint_join.kernels.delta_store import KEYED
from braid.operators.constraint_join.spec import ConstraintJoinSpec
from braid.operators.constraint_join.watch.report import (
    Broken,
    Found,
    Measured,
    check_watches,
    saved_history,
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
_WINDOW = {kernel.WAITS: 500, kernel.ASCENDS: 1000, kernel.DESCENDS: 1000}
_FACTOR = {kernel.WAITS: 2.0, kernel.ASCENDS: 1.2, kernel.DESCENDS: 1.2}
#: Values of an order that are remembered.
_RUNS = 128
#: The part of rows that has to leave by a watch each time, if `worth` is 1.
_WORTH = 0.1
#: What is looked at of a store before its rows are gone through.
_WALKED = [stores.COUNT, stores.COVERS]
_NO_WAYS: Words = np.empty((0, ways.BY_WORDS), np.int64)
#: What is saved of an index.
_EQUALS = [stores.EQUALS, stores.EQUAL_NUMBER, stores.EQUAL_AT, stores.EQUAL_VALUE]
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
        what: list[tuple[int, int, int]] = [(kernel.WAITS, n, -1) for n in inputs]
        for number, shape in enumerate(self._spec.inputs):
            first = len(what)
            columns = {key.columns[number][0] for key in self._keys if key.columns[number]}
            for column in sorted(columns):
                if kind_of(shape.schema.attributes[column].type) in ORDERED:
                    what.append((kernel.ASCENDS, number, column))
                    what.append((kernel.DESCENDS, number, column))
            self._held.stores[number, stores.FIRST_WATCH] = first
            self._of_columns.append(slice(first, len(what)))
        self._what = what
        self._watches: Words = np.zeros((len(what), kernel.WATCH_WORDS), np.int64)
        self._tables: Words = np.empty((len(what) - len(inputs), 0, 2), np.int64)
        exact = self._spec.mode is ConstraintMode.EXACT
        for (kind, number, column), watch in zip(what, self._watches, strict=True):
            waits = kind == kernel.WAITS
            # Rows of all inputs count for those that wait.
            watch[kernel.KIND], watch[kernel.INPUT] = kind, len(inputs) if waits else number
            watch[kernel.COLUMN] = watch[kernel.EXAMPLE] = max(column, 0)
            if not waits:
                type_ = self._spec.inputs[number].schema.attributes[column].type
                watch[kernel.FLOATING] = kind_of(type_) is Kind.FLOAT
            watch[[kernel.K, kernel.STARTED]] = kernel.ENDLESS, -1
            watch[kernel.WINDOW] = self._watching.window or _WINDOW[kind]
            factor = self._watching.margin or (1.0 if exact else _FACTOR[kind])
            watch[kernel.FACTOR] = round(1024 * factor)
            watch[kernel.THRESHOLD] = _LEAST_THRESHOLD
        self._point()

    def _point(self) -> None:
        for table, watch in zip(self._tables, self._watches[len(self._spec.inputs) :], strict=True):
            watch[kernel.TABLE_AT], watch[kernel.ROOM] = address(table), len(table)
        self._held.frame[frames.WATCHES_AT] = address(self._watches)
        self._held.frame[frames.WATCHES] = len(self._watches)

    def begin(self) -> None:
        """Observe from now on; whatever was known is long past."""
        self._tables = np.full((len(self._tables), _RUNS, 2), -1, np.int64)
        self._point()
        for number in range(len(self._watches)):
            kernel.watch_anew(self._held.frame, number, kernel.PROVES)
        self.rouse()
        self._held.stores[:, stores.COVERS] = stores.WATCHED
        self._held.stores[self._covered(), stores.COVERS] = stores.DONE_WITH
        self._held.stores[:, [stores.FIRST, stores.AGAIN]] = 0

    # ---- keys that were declared ----

    def _watch_keys(self) -> None:
        """Say which indexes are of keys that were declared, and have not been broken."""
        self._held.stores[:, KEYED] = 0
        for index, lookup in enumerate(self._held.lookups):
            if lookup is not None:
                one = self.breaks.is_declared(index)
                self._held.indexes[index, stores.IS_ONE] = one
                self._held.stores[lookup[0], KEYED] |= one

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
        covers = self._held.stores[:, stores.COVERS]
        self._held.stores[:, stores.COVERS] = np.minimum(covers, stores.WATCHED)
        self._watch_keys()

    def end(self) -> None:
        """Keep no room for values while nothing is observed."""
        self._tables = np.empty((len(self._tables), 0, 2), np.int64)
        self._point()

    def rouse(self) -> None:
        """Look at the values of those inputs only of which a watch is awake."""
        until: list[int] = self._watches[:, kernel.SLEEPS_UNTIL].tolist()
        for number, own in enumerate(self._of_columns):
            awake = min(until[own], default=0) <= self._held.arrivals[number]
            self._held.stores[number, stores.ITS_WATCHES] = (own.stop - own.start) * awake

    # ---- what is done about it ----

    def collect(self) -> int:
        """Go through what is held: how many rows leave."""
        kernel.judge_looking(self._held.frame)
        now, left = int(self._held.frame[frames.NOW]), 0
        came = self._held.arrivals[self._watches[:, kernel.INPUT]]
        inside = (came * self._watching.threshold).astype(np.int64)
        thresholds = np.maximum(inside, _LEAST_THRESHOLD)
        self._watches[:, kernel.THRESHOLD] = thresholds
        ks = self._watches[:, kernel.K]
        for found, k in zip(self._found, ks.tolist(), strict=True):
            found.note(now, k)
        usable: list[bool] = (ks <= thresholds).tolist()
        gone, walked = self._watches[:, kernel.GONE].copy(), np.zeros(len(self._what), np.int64)
        for number, (count, covers) in enumerate(self._held.stores[:, _WALKED].tolist()):
            open_ = self._ways(number, usable) if any(usable) else _NO_WAYS
            used = [*open_[:, ways.BY_WATCH].tolist(), *([number] * usable[number])]
            walked[used] += max(count, 1)
            if count and (used or (covers == stores.DONE_WITH and self._held.frame[ways.EARLY])):
                left += int(ways.collect_changes(self._held.frame, number, open_))
        self._evaluate(walked, gone)
        return left

    def _evaluate(self, walked: Words, before: Words) -> None:
        """Watches that let too few rows go, of those that were gone through, are not worth the time
        that they take, nor the results that they may cost: they are tried again later."""
        gone = self._watches[:, kernel.GONE] - before
        for number in walked.nonzero()[0].tolist():
            if gone[number] < _WORTH * self._watching.worth * walked[number]:
                kernel.give_up(self._held.frame, number, self._vain[number])
                self._vain[number] += 1
            else:
                self._vain[number] = 0

    def _ways(self, number: int, usable: Sequence[bool]) -> Words:
        """The orders by which rows of an input can leave: those of what it looks up first."""
        other, keys = self._held.first_lookup(number)
        found = [
            [watch, self._keys[key].columns[number][0]]
            for key in keys
            for watch, (kind, input_, column) in enumerate(self._what)
            if kind != kernel.WAITS and input_ == other
            if column == self._keys[key].columns[other][0] and usable[watch]
        ]
        return np.array(found, np.int64).reshape(-1, ways.BY_WORDS)

    # ---- state ----

    @property
    def nbytes(self) -> int:
        return self._watches.nbytes + self._tables.nbytes

    def saved(self) -> State:
        return {
            "watches": self._watches.copy(),
            "tables": self._tables.ravel().copy(),
            "history": saved_history(self._found),
            "broken_keys": self.breaks.saved(),
            "equals": self._held.indexes[:, _EQUALS].copy(),
        }

    def take(self, state: State) -> None:
        watches = checks.table(state, "watches", kernel.WATCH_WORDS)
        check_watches(watches, self._watches)
        rows = len(state["tables"]) // max(2 * len(self._tables), 1)
        rooms = watches[len(self._spec.inputs) :, kernel.ROOM]
        if (rooms != rows).any():
            raise damaged("the table of a watch has another size")
        self._watches[:] = watches
        self._tables = state["tables"].reshape(len(self._tables), rows, 2).copy()
        take_history(self._found, state["history"])
        if "broken_keys" in state:
            checks.within(state["broken_keys"], -1, len(self._held.indexes), "broken keys")
            self.breaks.take(state["broken_keys"])
            self._held.indexes[:, _EQUALS] = state["equals"].reshape(-1, len(_EQUALS))
            self._watch_keys()
        self._point()
        self.rouse()

    def broken_keys(self) -> dict[str, int]:
        """Declared keys that are broken, and when the second row of one came."""
        at = self._held.indexes[:, stores.EQUAL_AT]
        return {name: int(at[index]) for name, index in self.breaks.keys.items()}

    def describe(self) -> list[dict[str, Any]]:
        described = []
        for place, (kind, number, column) in enumerate(self._what):
            watch, found = self._watches[place], self._found[place]
            about: str | int = number
            if kind != kernel.WAITS:
                about = self._spec.inputs[number].layout.names[column]
            # Rows that leave because of a column are those of the inputs that look it up.
            others = range(len(self._spec.inputs))
            left = number
            if kind != kernel.WAITS:
                left = next((i for i in others if self._held.first_lookup(i)[0] == number), number)
            width, vain = int(self._held.stores[left, stores.STRIDE]), self._vain[place]
            shown = shown_watch(watch, found, number, about, Measured(width, 0.0, 0.0, vain))
            if shown is not None:
                described.append(shown)
        return described
