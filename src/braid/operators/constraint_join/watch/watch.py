"""What a join finds out about arrivals, and what it does about it.

For every two inputs with a common key it is watched how long rows wait for their partners; for
every column of a key, whether it ascends, descends or clusters (`operators/constraint_join/kernels/arrivals.py`). From time to
time what is held is gone through (`operators/constraint_join/kernels/collect.py`): a row leaves memory

- after its only result, if rows of its input have one at most: then the input *covers* the others;
- if it waits for a partner that comes no more, since it has waited long enough or since that input
  is past its value;
- if nothing can ask for it any more: one input that covers the others, or several that do so
  together, have nothing waiting for it, and are past its value or its cluster.

Which of these it is does not matter for the answer in exact mode, only for what stays in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import thread_time
from typing import Any

import numpy as np

from braid.algebra.constraints import ConstraintMode, Watching
from braid.algebra.types import Kind, kind_of
from braid.jit.runtime import address
from braid.operators.constraint_join.graph import Graph
from braid.operators.constraint_join.kernels import arrivals
from braid.operators.constraint_join.kernels import collect as ways
from braid.operators.constraint_join.kernels import frame as frames
from braid.operators.constraint_join.kernels import store as stores
from braid.operators.constraint_join.kernels import watch as kernel
from braid.operators.constraint_join.spec import ConstraintJoinSpec
from braid.operators.constraint_join.spill.rejected_keys import RefusedKeys
from braid.operators.constraint_join.state import Stores
from braid.operators.constraint_join.watch.cost_choice import Choice, Paces
from braid.operators.constraint_join.watch.loss_estimate import Loss, Lossy
from braid.operators.constraint_join.watch.report import (
    Broken,
    Found,
    check_watches,
    reason_in_words,
    saved_history,
    shown_watch,
    take_history,
)
from braid.operators.constraint_join.watch.single_results import OneResult
from braid.operators.constraint_join.watch.unique_keys import ObservedKeys
from braid.operators.constraint_join.watch.violations import Breaks
from braid.operators.core import checks
from braid.operators.core.base import State
from braid.operators.core.values import Words
from braid.operators.join.probe_orders import Key

#: One row in so many events may come back.
_RARELY = 500
#: Events after which that is judged, at least; those for which rows stay then: so many times, at most.
_JUDGED = 8192
_REST, _LONGEST_REST = 2048, 64
#: Events after which what is held is gone through, at least.
_ROUND = 1024
#: Events over which distances are taken into account: W.
_WINDOW = {kernel.WAITS: 500, kernel.ASCENDS: 1000, kernel.DESCENDS: 1000, kernel.CLUSTERS: 1000}
#: k_e = c * k_u; only where results are lost by leaving too early.
_FACTOR = {kernel.WAITS: 1.0, kernel.ASCENDS: 1.2, kernel.DESCENDS: 1.2, kernel.CLUSTERS: 1.2}
#: Rows of tables.
_RUNS, _VALUES, _MOST_VALUES = 128, 2048, 16_384
#: The part of the rows that are held after which these are gone through where a table is full.
_SOONER = 16
#: A k that is larger is not used, before it is known what windows hold.
_FIRST_THRESHOLD = 16_384

#: Distances that are taken into account of some keys, at least, and for how many events what is held
#: of them is not gone through, for each row.
#: Rows are not gone through either for this part of what has been looked at so far.
_LEAST_WINDOW, _RARELY_LOOKED, _PART_LOOKED = 16, 4, 6
#: What is counted of inputs and watches, and not of what is only looked at.
_COUNTED = [stores.PEAK, stores.EVICTED, stores.RETURNS]
_OF_WATCHES = [kernel.BROKEN, kernel.BREAKER, kernel.BROKEN_AT, kernel.GONE, kernel.SAVED]

#: What is saved of an index.
_EQUALS = [
    stores.EQUALS,
    stores.SEEN,
    stores.EQUAL_NUMBER,
    stores.EQUAL_AT,
    stores.EQUAL_VALUE,
]
#: Kinds of values that have an order as words, floats as `k_watch.value_of` reads them.
ORDERED = (
    Kind.INTEGER,
    Kind.DATE,
    Kind.TIMESTAMP,
    Kind.DURATION,
    Kind.DECIMAL,
    Kind.FLOAT,
)


class Watch:
    """Which constraints hold, for one join."""

    def __init__(
        self, spec: ConstraintJoinSpec, held: Stores, keys: Sequence[Key], watching: Watching
    ) -> None:
        self._spec, self._held, self._keys = spec, held, keys
        self._watching = watching
        held.stores[:, stores.COVERS] = stores.WATCHED
        held.frame[frames.SAMPLES] = round(1024 * watching.sample)
        self.is_awake = True
        self._since = np.zeros(len(spec.inputs), np.int64)
        #: Of each input: rows that had come back when that was last judged, events since then, those for
        #: which none is to leave, and how many it were the last time.
        self._returned, self._left, self._resting, self._rests = self._since.repeat(4).reshape(
            4, -1
        )
        drops = spec.mode is ConstraintMode.MONITORED
        self._ones = ObservedKeys(held, needed=drops or any(spec.keeps))
        self._make_watches()
        self._found = [Found() for _ in self._what]
        self.breaks = Breaks(spec, held, keys, self._watches, self._found)
        self.graph = Graph(held, self.breaks)
        self.paces = Paces()
        self.paces.set_stays(held)
        self.choice = Choice(held, len(self._what), watching.worth)
        self._results = OneResult(spec.mode, len(spec.inputs))
        #: Events after which it was last seen what comes of looking.
        self._looked = self._look_from = 0
        #: Events until the next walk through what is held.
        self._pause = 0
        #: Inputs whose rows that have been in a result have left.
        self._covered = np.zeros(len(spec.inputs), np.bool_)
        self._declare()
        self._refused = RefusedKeys(held, needed=any(spec.keeps), drops=drops)
        reasons = len(self._what) + len(spec.inputs) + len(held.indexes)
        self.loss = Loss(held.frame, reasons, watching)
        #: Constraints that were given up since results were lost, not told yet.
        self.lossy: list[Lossy] = []
        if any(spec.keeps):
            for index, record in enumerate(held.indexes):
                record[stores.IS_ONE] = self.graph.is_one(index, declared=True)
                record[stores.REFUSES] = record[stores.IS_ONE]

    # ---- when ----

    def rest(self) -> None:
        """Watch nothing and let everything stay: what is held is too little to care."""
        self.is_awake = False
        self._kept = self._held.stores[:, [stores.COVERS, stores.ITS_WATCHES]].copy()
        self._held.stores[:, [stores.COVERS, stores.ITS_WATCHES]] = 0
        self._rested = self._watches[:, kernel.SLEEPS_UNTIL].copy()
        self._watches[:, kernel.SLEEPS_UNTIL] = kernel.ENDLESS
        self.drop_tables()

    def resume(self) -> None:
        self.is_awake = True
        self._held.stores[:, [stores.COVERS, stores.ITS_WATCHES]] = self._kept
        self._watches[:, kernel.SLEEPS_UNTIL] = self._rested
        self.make_tables()

    @contextmanager
    def unaware(self) -> Iterator[None]:
        """Observe nothing of events that are only handed over; results of their rows count."""
        kept = self._held.stores[:, stores.ITS_WATCHES].copy()
        until = self._watches[:, kernel.SLEEPS_UNTIL].copy()
        self._held.stores[:, stores.ITS_WATCHES] = 0
        self._watches[:, kernel.SLEEPS_UNTIL] = kernel.ENDLESS
        with self._ones.paused():
            yield
        self._held.stores[:, stores.ITS_WATCHES] = kept
        self._watches[:, kernel.SLEEPS_UNTIL] = until
        self._watches[:, kernel.PROVED] = self._arrivals[self._watches[:, kernel.INPUT]]
        self._watches[:, kernel.STARTED] = -1

    def forget_results(self) -> None:
        """Let all rows stay, whatever was known of them."""
        self._held.stores[:, stores.COVERS] = 0
        self._refused.forget()

    # ---- beside a join that is done elsewhere ----

    def begin_look(self, one_in: int) -> None:
        """Observe one key in so many: what would leave early, and nothing else."""
        self._unlooked = (
            self._held.stores[:, _COUNTED].copy(),
            self._watches[:, _OF_WATCHES].copy(),
            self.choice.state(),
        )
        self._held.stores[:, stores.COVERS] = 0
        self._look_from = int(self._arrivals.sum())
        self.make_tables()
        frame = self._held.frame
        frame[[frames.SAMPLES, frames.SPILLS, frames.LEFT_EARLY]] = 0
        self._held.stores[:, stores.CAME] = 0
        for number in range(len(self._watches)):
            kernel.watch_anew(frame, number, kernel.LOOKS)
        self.choice.forget()
        self.look_at(one_in)

    def look_at(self, one_in: int) -> None:
        """Windows of distances are as long as before, with so many fewer of them."""
        self._held.frame[frames.LOOKING] = one_in
        for watch, (kind, _, _) in zip(self._watches, self._what, strict=True):
            window = self._watching.window or _WINDOW[kind]
            watch[kernel.WINDOW] = max(_LEAST_WINDOW, window // one_in) if one_in else window

    def end_look(self) -> None:
        """Forget what was held to look at. What holds is to be proved, now of all keys; for the rest
        it is looked as ever."""
        usable = [self._is_usable(number) for number in range(len(self._watches))]
        counted, of_watches, measured = self._unlooked
        self._held.stores[:, _COUNTED] = counted
        self._watches[:, _OF_WATCHES] = of_watches
        self.look_at(0)
        self.choice.take(measured)
        self.choice.forget()
        frame = self._held.frame
        frame[frames.SAMPLES] = round(1024 * self._watching.sample)
        frame[frames.SPILLS] = self._spec.mode is ConstraintMode.EXACT
        frame[[frames.LEFT_EARLY, frames.DUE]] = 0
        self._held.stores[:, stores.CAME] = 0
        for number, holds in enumerate(usable):
            kernel.watch_anew(frame, number, kernel.PROVES if holds else kernel.LOOKS)
        self._held.stores[:, stores.COVERS] = stores.WATCHED
        self._held.stores[:, [stores.FIRST, stores.AGAIN]] = 0
        self._results.forget()
        self._resting[:] = self._rests[:] = 0
        self._covered[:] = False
        self._refused.forget()

    def is_looking(self) -> bool:
        """Whether any watch is awake."""
        arrivals_ = self._arrivals[self._watches[:, kernel.INPUT]]
        return bool((arrivals_ >= self._watches[:, kernel.SLEEPS_UNTIL]).any())

    def is_proving(self) -> bool:
        """Whether any watch has found something that may hold."""
        return bool((self._watches[:, kernel.PHASE] == kernel.PROVES).any())

    def look(self, seconds: float) -> None:
        """Judge what has been seen of some keys, and count what would leave."""
        self.choice.seconds += seconds
        came = int(self._arrivals.sum())
        if came - self._looked >= _ROUND:
            self._looked = came
            self.paces.note(int(self._held.frame[frames.NOW]), self._arrivals)
            kernel.judge_looking(self._held.frame)
        held = int(self._held.stores[:, stores.COUNT].sum())
        self._held.frame[frames.DUE] = 0
        # What has not been seen for long is not likely to be seen at once.
        rarely = max(_ROUND, _RARELY_LOOKED * held, (came - self._look_from) // _PART_LOOKED)
        if came - self._since.sum() >= rarely:
            self._since = self._arrivals.copy()
            self._collect()
            self.choice.evaluate(self._watches)
            self._make_room()

    # ---- what is watched ----

    def _make_watches(self) -> None:
        #: Kind, the input that events of are watched, the other input or the column.
        what: list[tuple[int, int, int]] = []
        for edges in self._held.edges:
            what += [(kernel.WAITS, edge.second, edge.first) for edge in edges]
        for number, shape in enumerate(self._spec.inputs):
            first = len(what)
            columns = {key.columns[number][0] for key in self._keys if key.columns[number]}
            for column in sorted(columns):
                held_as = kind_of(shape.schema.attributes[column].type)
                if held_as in ORDERED:
                    what.append((kernel.ASCENDS, number, column))
                    what.append((kernel.DESCENDS, number, column))
                if held_as in ORDERED or held_as is Kind.STRING:
                    what.append((kernel.CLUSTERS, number, column))
            self._held.stores[number, stores.FIRST_WATCH] = first
            self._held.stores[number, stores.ITS_WATCHES] = len(what) - first
        self._what = what
        self._watches: Words = np.zeros((len(what), kernel.WATCH_WORDS), np.int64)
        self._tables: dict[int, Words] = {}
        exact = self._spec.mode is ConstraintMode.EXACT
        for number, (kind, input_, column) in enumerate(what):
            watch = self._watches[number]
            watch[kernel.KIND], watch[kernel.INPUT], watch[kernel.COLUMN] = kind, input_, column
            watch[kernel.K] = kernel.ENDLESS
            watch[kernel.EXAMPLE] = column
            watch[kernel.FLOATING] = kind != kernel.WAITS and self._is_float(input_, column)
            if kind == kernel.WAITS:
                edge = next(e for e in self._held.edges[column] if e.second == input_)
                watch[kernel.EXAMPLE] = self._keys[edge.keys[0]].columns[input_][0]
            watch[kernel.STARTED] = 0 if kind == kernel.WAITS else -1
            watch[kernel.WINDOW] = self._watching.window or _WINDOW[kind]
            factor = self._watching.margin or (1.0 if exact else _FACTOR[kind])
            watch[kernel.FACTOR] = round(1024 * factor)
            watch[kernel.THRESHOLD] = _FIRST_THRESHOLD
        self.make_tables()
        for number, (kind, input_, other) in enumerate(what):
            if kind == kernel.WAITS:
                place = [e.second for e in self._held.edges[input_]].index(other)
                self._held.edge_words(input_, place)[frames.EDGE_WATCH] = number

    def _is_float(self, number: int, column: int) -> bool:
        return kind_of(self._spec.inputs[number].schema.attributes[column].type) is Kind.FLOAT

    def drop_tables(self) -> None:
        """Keep no room for values while none are watched."""
        for number in self._tables:
            self._tables[number] = np.empty((0, 2), np.int64)
            self._watches[number, kernel.ROOM] = 0
        self._ones.drop()
        self._point()

    def make_tables(self) -> None:
        """Room for the values that are watched, where there is none."""
        for number, (kind, _, _) in enumerate(self._what):
            if kind != kernel.WAITS and not self._watches[number, kernel.ROOM]:
                rows = _VALUES if kind == kernel.CLUSTERS else _RUNS
                self._tables[number] = np.full((rows, 2), -1, np.int64)
                self._watches[number, kernel.ROOM] = rows
        self._ones.make()
        self._point()

    def _point(self) -> None:
        for number, table in self._tables.items():
            self._watches[number, kernel.TABLE_AT] = address(table)
        self._held.frame[frames.WATCHES_AT] = address(self._watches)
        self._held.frame[frames.WATCHES] = len(self._watches)

    # ---- what was declared ----

    def _declare(self) -> None:
        for constraint in self._spec.declared:
            for number, (kind, input_, other) in enumerate(self._what):
                if self.breaks.says(constraint, kind, input_, other):
                    watch = self._watches[number]
                    watch[kernel.K], watch[kernel.DECLARED] = constraint.k, 1
                    watch[kernel.TIMED] = constraint.timed
                    watch[kernel.FACTOR] = 1024
                    self._found[number].declared = constraint.describe()
                    self._found[number].name = constraint.name
        for number in range(len(self._spec.inputs)):
            if len(self.graph.reached(number, declared=True)) == len(self._spec.inputs):
                self._held.stores[number, stores.COVERS] = stores.DONE_WITH

    # ---- ways to leave ----

    def _ways(self, number: int) -> tuple[Words, bool]:
        """How rows of an input can leave; see `operators/constraint_join/kernels/collect.py`."""
        found: list[list[int]] = []
        edges = self._held.edges[number]
        for place, edge in enumerate(edges):
            waits = self._what.index((kernel.WAITS, edge.second, number))
            found.append([waits, place, -1, ways.WAITING, 0])
            for watch, own in self._of_values(edge.keys, edge.second, number, order=True):
                found.append([watch, place, own, ways.WAITING, 0])
        found = [way for way in found if self._is_usable(way[0])]
        deciding, alone = self.graph.deciding(number)
        asked: list[list[int]] = []
        for place in deciding:
            edge = self._held.edges[number][place]
            own_ways = [
                [watch, place, own, ways.ASKED, 0]
                for watch, own in self._of_values(edge.keys, edge.second, number, order=False)
                if self._is_usable(watch)
            ]
            if not own_ways:
                # All of them must be done with a row.
                asked = []
                break
            asked += own_ways
        found += asked
        return np.array(found, np.int64).reshape(-1, ways.BY_WORDS), alone

    def _is_usable(self, number: int) -> bool:
        if self.loss.given_up[number]:
            return False
        watch = self._watches[number]
        threshold = kernel.TIME_THRESHOLD if watch[kernel.TIMED] else kernel.THRESHOLD
        return bool(watch[kernel.DECLARED] == 1 or watch[kernel.K] <= watch[threshold])

    def _of_values(
        self, keys: Sequence[int], other: int, number: int, *, order: bool
    ) -> list[tuple[int, int]]:
        """Watches of columns of another input, and the column of this one that equals each."""
        return [
            (watch, self._keys[k].columns[number][0])
            for k in keys
            for watch, (kind, input_, column) in enumerate(self._what)
            if kind != kernel.WAITS
            and input_ == other
            and column == self._keys[k].columns[other][0]
            if not order or kind != kernel.CLUSTERS
        ]

    # ---- what is done about it ----

    def give_up(self, broken: Broken) -> None:
        """A declared constraint does not hold, as its streams show."""
        if self.breaks.give_up(broken):
            self._held.stores[:, stores.COVERS] = stores.WATCHED

    def _give_up_lossy(self) -> None:
        """Do not use any more what loses more results than may be lost."""
        chosen = self.loss.judge()
        if chosen:
            self.lossy.append(self.loss.lossy([self._words(reason) for reason in chosen]))
            first = len(self._what) + len(self._spec.inputs)
            self._held.indexes[self.loss.given_up[first:], stores.REFUSES] = 0

    def _words(self, reason: int) -> str:
        return reason_in_words(self._spec, self._keys, self._what, self._held.lookups, reason)

    def covering(self) -> list[int]:
        """The inputs whose rows may leave after their only result, as far as keys tell."""
        given_up = self.loss.given_up[len(self._what) :]
        return [number for number in self.graph.covering() if not given_up[number]]

    def act(self) -> None:
        """Judge what has been seen, and let rows leave."""
        if self.breaks.keyed and self.breaks.note_keys():
            # What they promised is watched now.
            self._held.stores[:, stores.COVERS] = stores.WATCHED
        if self._spec.mode is ConstraintMode.MONITORED:
            self._give_up_lossy()
        for number, store in enumerate(self._held.stores):
            if self.loss.given_up[len(self._what) + number]:
                store[stores.COVERS] = 0
                continue
            self._results.judge(number, store, resting=bool(self._resting[number]))
        came = int(self._held.stores[:, stores.ARRIVALS].sum())
        if came - self._looked >= _ROUND:
            self._looked = came
            self.paces.note(int(self._held.frame[frames.NOW]), self._arrivals)
            kernel.judge_looking(self._held.frame)
            self._note_history()
        held = int(self._held.stores[:, stores.COUNT].sum())
        events = int(came - self._since.sum())
        due = bool(self._held.frame[frames.DUE])
        self._held.frame[frames.DUE] = 0
        if events < max(_ROUND, held // 4 if due else min(held, self._pause)):
            # What has ended is to be used before it is forgotten: rows that miss it stay.
            if not due or self._widen():
                return
            if events < max(_ROUND, held // _SOONER):
                self._make_room()
                return
        self._since = self._arrivals.copy()
        self.collect(events)
        # What comes now is mostly what leaves next: half as many events are to come as rows are left. If
        # few leave, since what they wait for is not known to hold just now, some more than before.
        left = int(self._held.stores[:, stores.COUNT].sum())
        self._pause = left // 2 if 4 * left < 3 * held else 3 * max(_ROUND, self._pause) // 2

    @property
    def _arrivals(self) -> Words:
        return self._held.stores[:, stores.ARRIVALS]

    def collect(self, events: int) -> None:
        """Go through what is held, after so many events."""
        if len(self._spec.inputs) > 2:
            self._held.choose_orders()
        self._collect(events)
        self.choice.evaluate(self._watches)
        self._make_room()
        self._note_history()

    def _collect(self, events: int | None = None) -> None:
        """`events`: after how many, where rows may have come back."""
        inputs = [input_ for _, input_, _ in self._what]
        self.paces.set_thresholds(self._watches, self._held, inputs, self._watching.threshold)
        self.paces.set_stays(self._held)
        first = len(self._what) + len(self._spec.inputs)
        for index, record in enumerate(self._held.indexes):
            record[stores.IS_ONE] = self.graph.is_one(index, declared=False)
            lossy = self.loss.given_up[first + index]
            record[stores.REFUSES] = self.graph.refuses(index) and not lossy
            if record[stores.REFUSES]:
                self._refused.renew(index)
        for number, store in enumerate(self._held.stores):
            if events is not None and self._is_resting(number, store, events):
                continue
            open_, alone = self._ways(number)
            covered = store[stores.COVERS] == stores.DONE_WITH
            if store[stores.COUNT] and (len(open_) or (covered and not self._covered[number])):
                started = thread_time()
                ways.collect(self._held.frame, number, open_, int(alone))
                self.choice.walked(open_[:, ways.BY_WATCH].tolist(), thread_time() - started)
            self._covered[number] = covered

    def _note_history(self) -> None:
        now = int(self._held.frame[frames.NOW])
        for found, watch in zip(self._found, self._watches, strict=True):
            found.note(now, int(watch[kernel.K]))

    def _is_resting(self, number: int, store: Words, events: int) -> bool:
        """Whether rows of an input are left where they are for some events, since too many of those
        that left came back: each costs as much time as some hundred events do."""
        returned = int(store[stores.RETURNS] - self._returned[number])
        self._left[number] += events
        if returned * _RARELY > max(_JUDGED, self._left[number]):
            self._rests[number] = min(2 * self._rests[number] + 8, _LONGEST_REST)
            self._resting[number] = self._rests[number] * _REST
            store[stores.COVERS] = min(store[stores.COVERS], stores.WATCHED)
        if self._left[number] >= _JUDGED or self._resting[number]:
            self._returned[number], self._left[number] = store[stores.RETURNS], 0
        self._resting[number] = max(0, self._resting[number] - events)
        return bool(self._resting[number])

    def _widen(self) -> bool:
        """Make tables of clusters larger that are half full; False if one can't be."""
        for number, table in self._tables.items():
            watch = self._watches[number]
            if watch[kernel.KIND] != kernel.CLUSTERS or 2 * watch[kernel.ENTRIES] < len(table):
                continue
            if len(table) >= _MOST_VALUES:
                return False
            larger = np.full((2 * len(table), 2), -1, np.int64)
            arrivals.widen(self._held.frame, number, larger)
            self._tables[number] = larger
        return True

    def _make_room(self) -> None:
        """Forget clusters that are over and have been used; tables that are full all the same are
        made larger, and begin anew."""
        for number, table in self._tables.items():
            watch = self._watches[number]
            if watch[kernel.KIND] != kernel.CLUSTERS:
                continue
            if not watch[kernel.ENTRIES] and not watch[kernel.HIGHEST]:
                continue
            arrivals.forget_ended(self._held.frame, number)
            full = 2 * watch[kernel.ENTRIES] >= len(table) or watch[kernel.HIGHEST] == 1
            watch[kernel.HIGHEST] = 0
            if full and len(table) < _MOST_VALUES:
                self._tables[number] = np.full((2 * len(table), 2), -1, np.int64)
                watch[kernel.ROOM] = 2 * len(table)
                watch[[kernel.SLEEPS_UNTIL, kernel.SLEPT, kernel.ENTRIES]] = 0
                watch[[kernel.PHASE, kernel.STARTED]] = kernel.PROVES, -1
                watch[kernel.PROVED] = self._since[watch[kernel.INPUT]]
            elif full:
                if watch[kernel.DECLARED] != 1:
                    watch[kernel.K] = kernel.ENDLESS
                watch[[kernel.ENTRIES, kernel.STARTED]] = 0, -1
                watch[kernel.SLEEPS_UNTIL] = self._since[watch[kernel.INPUT]] + 16_000
                table[:] = -1
        self._point()

    def forget_codes(self) -> None:
        """What is known of strings is known by codes."""
        for number, table in self._tables.items():
            kind, input_, column = self._what[number]
            type_ = self._spec.inputs[input_].schema.attributes[column].type
            if kind == kernel.CLUSTERS and kind_of(type_) is Kind.STRING:
                table[:] = -1
                self._watches[number, [kernel.ENTRIES, kernel.STARTED]] = 0, -1
        self._refused.forget()
        self._ones.forget()

    # ---- state ----

    @property
    def nbytes(self) -> int:
        tables = sum(table.nbytes for table in self._tables.values())
        return self._watches.nbytes + tables + self._refused.nbytes + self._ones.nbytes

    def saved(self) -> State:
        tables = [t.ravel() for t in self._tables.values()]
        return {
            "watches": self._watches.copy(),
            "awake": np.array([self.is_awake], np.int64),
            "tables": np.concatenate(tables) if tables else np.empty(0, np.int64),
            "equals": self._held.indexes[:, _EQUALS].copy(),
            "lost": self._held.frame[frames.LOST : frames.LOST + 1].copy(),
            "history": saved_history(self._found),
            "measured": self.choice.state(),
            "broken_keys": self.breaks.saved(),
            "loss": self.loss.saved(),
        }

    def take(self, state: State) -> None:
        if state["awake"][0] and not self.is_awake:
            self.resume()
        watches = checks.table(state, "watches", kernel.WATCH_WORDS)
        check_watches(watches, self._watches)
        rooms = watches[list(self._tables), kernel.ROOM]
        checks.sized(state["tables"], 2 * int(rooms.sum()), "tables of watches")
        checks.within(state["broken_keys"], -1, len(self._held.indexes), "keys that are broken")
        self._watches[:] = watches
        at = 0
        for number in self._tables:
            rows = int(self._watches[number, kernel.ROOM])
            table = state["tables"][at : at + 2 * rows].reshape(rows, 2)
            self._tables[number] = np.ascontiguousarray(table).copy()
            at += 2 * rows
        self._held.indexes[:, _EQUALS] = state["equals"].reshape(-1, len(_EQUALS))
        self.take_loss(state)
        take_history(self._found, state["history"])
        self.choice.take(state["measured"])
        self.breaks.take(state["broken_keys"])
        self._point()
        self._refused.forget()
        self._ones.forget()

    def take_loss(self, state: State) -> None:
        """What has been lost, and what was given up for it."""
        self._held.frame[frames.LOST] = state["lost"][0]
        if "loss" in state:
            self.loss.take(state["loss"])

    def describe(self) -> dict[str, Any]:
        covers = self._held.stores[:, stores.COVERS]
        exact = self._spec.mode is ConstraintMode.EXACT
        return {
            "one_result": [bool(c == stores.DONE_WITH) for c in covers],
            "constraints": [
                shown
                for number, found in enumerate(self._found)
                if (shown := self._shown(number, found)) is not None
            ],
            "broken_keys": {
                name: int(self._held.indexes[index, stores.EQUAL_AT])
                for name, index in self.breaks.keys.items()
            },
            "lost": 0 if exact else self.loss.estimate(),
            "lossy": [self._words(n) for n in np.flatnonzero(self.loss.given_up).tolist()],
        }

    def _shown(self, number: int, found: Found) -> dict[str, Any] | None:
        kind, input_, other = self._what[number]
        about: str | int = other
        if kind != kernel.WAITS:
            about = self._spec.inputs[input_].layout.names[other]
        # Rows that leave because of a column are those of the inputs that join it.
        left = other if kind == kernel.WAITS else self._held.edges[input_][0].second
        width = 8 * int(self._held.stores[left, stores.RECORD])
        measured = self.choice.measured(number, width)
        return shown_watch(self._watches[number], found, input_, about, measured)
