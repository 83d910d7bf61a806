"""The constraints that a join observes, and the rows that leave memory because of them.

For every two inputs with a common key, a watch observes how long rows wait for their partners; for every
column of a key, watches observe whether it ascends, descends or clusters (`kernels/arrivals.py`). From time
to time a walk collects the rows (`kernels/collect.py`) that can leave:

- after their only result, if rows of the input have one at most: then the input *covers* the others;
- if they wait for a partner that comes no more, because they have waited long enough or because that
  input is past their value;
- if nothing can look them up any more: one input that covers the others, or several that do so
  together, have no row that waits for them, and are past their value or their cluster.

In exact mode the answer doesn't depend on why a row leaves, only memory does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import thread_time
from typing import Any

import numpy as np

from braid.algebra.constraints import ConstraintMode, Watching
from braid.algebra.types import Kind, kind_of
from braid.operators.constraint_join.fields import Records, read_fields, words_of, write_fields
from braid.operators.constraint_join.graph import Graph
from braid.operators.constraint_join.kernels.collect import collect
from braid.operators.constraint_join.kernels.records import (
    ASCENDS,
    ASKED,
    CLUSTERS,
    CONFIRMED,
    COUNTED,
    DECLARED,
    DESCENDS,
    LOOKS,
    PROVES,
    UNCOUNTED,
    WAITING,
    WAITS,
    Criterion,
)
from braid.operators.constraint_join.kernels.records import Watch as WatchRecord
from braid.operators.constraint_join.kernels.watch import ENDLESS, judge_looking, restart_watch
from braid.operators.constraint_join.spec import ConstraintJoinSpec
from braid.operators.constraint_join.spill.rejected_keys import RejectedKeys
from braid.operators.constraint_join.state import Stores
from braid.operators.constraint_join.watch.cost_choice import Choice, Paces
from braid.operators.constraint_join.watch.loss_estimate import LossEstimate, Lossy
from braid.operators.constraint_join.watch.report import (
    Broken,
    Found,
    reason_in_words,
    saved_history,
    saved_watches,
    shown_watch,
    take_history,
)
from braid.operators.constraint_join.watch.single_results import OneResult
from braid.operators.constraint_join.watch.unique_keys import KeyObserver
from braid.operators.constraint_join.watch.value_tables import ValueTables
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
#: The events between two walks, at least.
_ROUND = 1024
#: The events over which distances count: W.
_WINDOW = {WAITS: 500, ASCENDS: 1000, DESCENDS: 1000, CLUSTERS: 1000}
#: k_e = c * k_u; only if results are lost when rows leave too early.
_FACTOR = {WAITS: 1.0, ASCENDS: 1.2, DESCENDS: 1.2, CLUSTERS: 1.2}
#: If a table is full, a walk is made after as many events as this part of the rows that are held.
_SOONER = 16
#: A larger k is not used, before it is known how many rows windows hold.
_FIRST_THRESHOLD = 16_384

#: Of a sample: the shortest window of distances, the events between two walks for each row that is
#: held, and the same as a part of all sampled events.
_LEAST_WINDOW, _RARELY_LOOKED, _PART_LOOKED = 16, 4, 6
#: What is counted of inputs and watches, but not of samples.
_COUNTED = ["peak", "evicted", "returned"]
_OF_WATCHES = ["breaks", "breaker", "broken_at", "evicted", "saved"]

#: The fields of a store that are set while nothing is observed, and those of an index that are saved.
_RESTING = ["one_result", "watch_count"]
_EQUALS = ["duplicates", "seen", "duplicate_number", "duplicate_time", "duplicate_value"]
#: Kinds of values that have an order as words, floats as `kernels/watch.value_of` reads them.
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
        held.stores["one_result"] = COUNTED
        held.frame.samples = round(1024 * watching.sample)
        self.is_awake = True
        self._since = np.zeros(len(spec.inputs), np.int64)
        #: Of each input: rows that had come back when that was last judged, events since then, those for
        #: which none is to leave, and how many it were the last time.
        self._returned, self._left, self._paused, self._pauses = self._since.repeat(4).reshape(
            4, -1
        )
        drops = spec.mode is ConstraintMode.MONITORED
        self._observer = KeyObserver(held, needed=drops or any(spec.keeps))
        self._make_watches()
        self._found = [Found() for _ in self._what]
        self.breaks = Breaks(spec, held, keys, self._watches, self._found)
        self.graph = Graph(held, self.breaks)
        self.paces = Paces()
        self.paces.set_stays(held)
        self.choice = Choice(held, len(self._what), watching.worth)
        self._results = OneResult(spec.mode, len(spec.inputs))
        #: Events after which it was last seen what comes of looking.
        self._judged_at = self._sampled_from = 0
        #: Events until the next walk.
        self._pause = 0
        #: Inputs whose rows that have been in a result have left.
        self._covered = np.zeros(len(spec.inputs), np.bool_)
        self._declare()
        self._rejected = RejectedKeys(held, needed=any(spec.keeps), drops=drops)
        reasons = len(self._what) + len(spec.inputs) + len(held.indexes)
        self.loss = LossEstimate(held.frame, reasons, watching)
        #: Constraints that were given up because they lost results, not reported yet.
        self.lossy: list[Lossy] = []
        if any(spec.keeps):
            for index, record in enumerate(held.indexes):
                record["unique"] = self.graph.is_one(index, declared=True)
                record["rejects"] = record["unique"]

    # ---- when ----

    def rest(self) -> None:
        """Observe nothing and let all rows stay: too few are held."""
        self.is_awake = False
        self._kept = read_fields(self._held.stores, _RESTING)
        self._held.stores[_RESTING] = 0
        self._rested = self._watches["sleeps_until"].copy()
        self._watches["sleeps_until"] = ENDLESS
        self.drop_tables()

    def resume(self) -> None:
        self.is_awake = True
        write_fields(self._held.stores, _RESTING, self._kept)
        self._watches["sleeps_until"] = self._rested
        self.make_tables()

    @contextmanager
    def unaware(self) -> Iterator[None]:
        """Observe nothing of events that are handed over from the plain join; their results count."""
        kept = self._held.stores["watch_count"].copy()
        until = self._watches["sleeps_until"].copy()
        self._held.stores["watch_count"] = 0
        self._watches["sleeps_until"] = ENDLESS
        with self._observer.paused():
            yield
        self._held.stores["watch_count"] = kept
        self._watches["sleeps_until"] = until
        self._watches["proved"] = self._arrivals[self._watches["input"]]
        self._watches["started"] = -1

    def forget_results(self) -> None:
        """Let all rows stay."""
        self._held.stores["one_result"] = UNCOUNTED
        self._rejected.forget()

    # ---- samples beside a join that is done elsewhere ----

    def begin_sample(self, one_in: int) -> None:
        """Sample one key in so many: only count the rows that would leave early."""
        self._before_sample = (
            read_fields(self._held.stores, _COUNTED),
            read_fields(self._watches, _OF_WATCHES),
            self.choice.state(),
        )
        self._held.stores["one_result"] = UNCOUNTED
        self._sampled_from = int(self._arrivals.sum())
        self.make_tables()
        frame = self._held.frame
        frame.samples = frame.spills = frame.saved = 0
        self._held.stores["accepted"] = 0
        for number in range(len(self._watches)):
            restart_watch(frame, number, LOOKS)
        self.choice.forget()
        self.sample_one_in(one_in)

    def sample_one_in(self, one_in: int) -> None:
        """Let windows of distances be as long as before, with so many fewer distances."""
        self._held.frame.sampling = one_in
        for watch, (kind, _, _) in zip(self._watches, self._what, strict=True):
            window = self._watching.window or _WINDOW[kind]
            watch["window"] = max(_LEAST_WINDOW, window // one_in) if one_in else window

    def end_sample(self) -> None:
        """End the sample. Watches whose constraints hold prove them next, of all keys; the others look."""
        usable = [self._is_usable(number) for number in range(len(self._watches))]
        counted, of_watches, measured = self._before_sample
        write_fields(self._held.stores, _COUNTED, counted)
        write_fields(self._watches, _OF_WATCHES, of_watches)
        self.sample_one_in(0)
        self.choice.take(measured)
        self.choice.forget()
        frame = self._held.frame
        frame.samples = round(1024 * self._watching.sample)
        frame.spills = self._spec.mode is ConstraintMode.EXACT
        frame.saved = frame.due = 0
        self._held.stores["accepted"] = 0
        for number, holds in enumerate(usable):
            restart_watch(frame, number, PROVES if holds else LOOKS)
        self._held.stores["one_result"] = COUNTED
        self._held.stores[["first_results", "further_results"]] = 0
        self._results.forget()
        self._paused[:] = self._pauses[:] = 0
        self._covered[:] = False
        self._rejected.forget()

    def is_looking(self) -> bool:
        """Whether any watch is awake."""
        arrivals_ = self._arrivals[self._watches["input"]]
        return bool((arrivals_ >= self._watches["sleeps_until"]).any())

    def is_proving(self) -> bool:
        """Whether any watch has found something that may hold."""
        return bool((self._watches["phase"] == PROVES).any())

    def sample(self, seconds: float) -> None:
        """Judge what the sample has observed, and count the rows that would leave."""
        self.choice.seconds += seconds
        came = int(self._arrivals.sum())
        if came - self._judged_at >= _ROUND:
            self._judged_at = came
            self.paces.note(self._held.frame.now, self._arrivals)
            judge_looking(self._held.frame)
        held = int(self._held.stores["count"].sum())
        self._held.frame.due = 0
        # What wasn't found for long is not likely to be found at once.
        rarely = max(_ROUND, _RARELY_LOOKED * held, (came - self._sampled_from) // _PART_LOOKED)
        if came - self._since.sum() >= rarely:
            self._since = self._arrivals.copy()
            self._collect()
            self.choice.evaluate(self._watches)
            self._tables.make_room(self._since)

    # ---- what is watched ----

    def _make_watches(self) -> None:
        #: Kind, the input that events of are watched, the other input or the column.
        what: list[tuple[int, int, int]] = []
        for edges in self._held.edges:
            what += [(WAITS, edge.second, edge.first) for edge in edges]
        for number, shape in enumerate(self._spec.inputs):
            first = len(what)
            columns = {key.columns[number][0] for key in self._keys if key.columns[number]}
            for column in sorted(columns):
                held_as = kind_of(shape.schema.attributes[column].type)
                if held_as in ORDERED:
                    what.append((ASCENDS, number, column))
                    what.append((DESCENDS, number, column))
                if held_as in ORDERED or held_as is Kind.STRING:
                    what.append((CLUSTERS, number, column))
            self._held.stores["first_watch"][number] = first
            self._held.stores["watch_count"][number] = len(what) - first
        self._what = what
        self._watches: Records = np.zeros(len(what), WatchRecord.dtype)
        self._tables = ValueTables(self._held, self._watches, [kind for kind, _, _ in what])
        exact = self._spec.mode is ConstraintMode.EXACT
        for number, (kind, input_, column) in enumerate(what):
            watch = self._watches[number]
            watch["kind"], watch["input"], watch["column"] = kind, input_, column
            watch["k"] = ENDLESS
            watch["example"] = column
            watch["floating"] = kind != WAITS and self._kind_of(input_, column) is Kind.FLOAT
            if kind == WAITS:
                edge = next(e for e in self._held.edges[column] if e.second == input_)
                watch["example"] = self._keys[edge.keys[0]].columns[input_][0]
            watch["started"] = 0 if kind == WAITS else -1
            watch["window"] = self._watching.window or _WINDOW[kind]
            factor = self._watching.margin or (1.0 if exact else _FACTOR[kind])
            watch["factor"] = round(1024 * factor)
            watch["threshold"] = _FIRST_THRESHOLD
        self.make_tables()
        for number, (kind, input_, other) in enumerate(what):
            if kind == WAITS:
                place = [e.second for e in self._held.edges[input_]].index(other)
                self._held.watch_edge(input_, place, number)

    def _kind_of(self, number: int, column: int) -> Kind:
        return kind_of(self._spec.inputs[number].schema.attributes[column].type)

    def drop_tables(self) -> None:
        """Keep no room for values while none are observed."""
        self._tables.drop()
        self._observer.drop()

    def make_tables(self) -> None:
        """Make room for the values that are observed, if there is none."""
        self._tables.make()
        self._observer.make()

    # ---- what was declared ----

    def _declare(self) -> None:
        for constraint in self._spec.declared:
            for number, (kind, input_, other) in enumerate(self._what):
                if self.breaks.says(constraint, kind, input_, other):
                    watch = self._watches[number]
                    watch["k"], watch["declared"] = constraint.k, DECLARED
                    watch["timed"] = constraint.timed
                    watch["factor"] = 1024
                    self._found[number].declared = constraint.describe()
                    self._found[number].name = constraint.name
        for number in range(len(self._spec.inputs)):
            if len(self.graph.reached(number, declared=True)) == len(self._spec.inputs):
                self._held.stores["one_result"][number] = CONFIRMED

    # ---- which rows can leave ----

    def _criteria(self, number: int) -> tuple[Records, bool]:
        """How rows of an input can leave; see `kernels/collect.py`."""
        found: list[tuple[int, ...]] = []
        edges = self._held.edges[number]
        for place, edge in enumerate(edges):
            waits = self._what.index((WAITS, edge.second, number))
            found.append((waits, place, -1, WAITING, 0))
            for watch, own in self._of_values(edge.keys, edge.second, number, order=True):
                found.append((watch, place, own, WAITING, 0))
        found = [one for one in found if self._is_usable(one[0])]
        deciding, alone = self.graph.deciding(number)
        asked: list[tuple[int, ...]] = []
        for place in deciding:
            edge = self._held.edges[number][place]
            of_edge = [
                (watch, place, own, ASKED, 0)
                for watch, own in self._of_values(edge.keys, edge.second, number, order=False)
                if self._is_usable(watch)
            ]
            if not of_edge:
                # All of them must be done with a row.
                asked = []
                break
            asked += of_edge
        found += asked
        return np.array(found, Criterion.dtype), alone

    def _is_usable(self, number: int) -> bool:
        if self.loss.given_up[number]:
            return False
        watch = self._watches[number]
        threshold = watch["time_threshold"] if watch["timed"] else watch["threshold"]
        return bool(watch["declared"] == DECLARED or watch["k"] <= threshold)

    def _of_values(
        self, keys: Sequence[int], other: int, number: int, *, order: bool
    ) -> list[tuple[int, int]]:
        """Watches of columns of another input, and the column of this one that equals each."""
        return [
            (watch, self._keys[k].columns[number][0])
            for k in keys
            for watch, (kind, input_, column) in enumerate(self._what)
            if kind != WAITS and input_ == other and column == self._keys[k].columns[other][0]
            if not order or kind != CLUSTERS
        ]

    # ---- what is done about it ----

    def give_up(self, broken: Broken) -> None:
        """A declared constraint doesn't hold, as its streams show."""
        if self.breaks.give_up(broken):
            self._held.stores["one_result"] = COUNTED

    def _give_up_lossy(self) -> None:
        """Stop using constraints that lose more results than may be lost."""
        chosen = self.loss.judge()
        if chosen:
            self.lossy.append(self.loss.lossy([self._words(reason) for reason in chosen]))
            first = len(self._what) + len(self._spec.inputs)
            self._held.indexes["rejects"][self.loss.given_up[first:]] = 0

    def _words(self, reason: int) -> str:
        return reason_in_words(self._spec, self._keys, self._what, self._held.lookups, reason)

    def covering(self) -> list[int]:
        """The inputs whose rows may leave after their only result, as far as keys tell."""
        given_up = self.loss.given_up[len(self._what) :]
        return [number for number in self.graph.covering() if not given_up[number]]

    def act(self) -> None:
        """Judge what has been observed, and evict rows."""
        if self.breaks.keyed and self.breaks.note_keys():
            # The results of rows are counted now.
            self._held.stores["one_result"] = COUNTED
        if self._spec.mode is ConstraintMode.MONITORED:
            self._give_up_lossy()
        for number, store in enumerate(self._held.stores):
            if self.loss.given_up[len(self._what) + number]:
                store["one_result"] = 0
                continue
            self._results.judge(number, store, paused=bool(self._paused[number]))
        came = int(self._held.stores["arrivals"].sum())
        if came - self._judged_at >= _ROUND:
            self._judged_at = came
            self.paces.note(self._held.frame.now, self._arrivals)
            judge_looking(self._held.frame)
            self._note_history()
        held = int(self._held.stores["count"].sum())
        events = int(came - self._since.sum())
        due = bool(self._held.frame.due)
        self._held.frame.due = 0
        if events < max(_ROUND, held // 4 if due else min(held, self._pause)):
            # Rows are to leave because of clusters that are over before these are forgotten.
            if not due or self._tables.widen():
                return
            if events < max(_ROUND, held // _SOONER):
                self._tables.make_room(self._since)
                return
        self._since = self._arrivals.copy()
        self.collect(events)
        # Rows that come now mostly leave next: the next walk comes after half as many events as rows are
        # left. If few leave, because constraints are not known to hold just now, it comes later.
        left = int(self._held.stores["count"].sum())
        self._pause = left // 2 if 4 * left < 3 * held else 3 * max(_ROUND, self._pause) // 2

    @property
    def _arrivals(self) -> Words:
        return self._held.stores["arrivals"]

    def collect(self, events: int) -> None:
        """Collect rows, after so many events."""
        if len(self._spec.inputs) > 2:
            self._held.choose_orders()
        self._collect(events)
        self.choice.evaluate(self._watches)
        self._tables.make_room(self._since)
        self._note_history()

    def _collect(self, events: int | None = None) -> None:
        """`events`: after how many, where rows may have come back."""
        inputs = [input_ for _, input_, _ in self._what]
        self.paces.set_thresholds(self._watches, self._held, inputs, self._watching.threshold)
        self.paces.set_stays(self._held)
        first = len(self._what) + len(self._spec.inputs)
        for index, record in enumerate(self._held.indexes):
            record["unique"] = self.graph.is_one(index, declared=False)
            lossy = self.loss.given_up[first + index]
            record["rejects"] = self.graph.refuses(index) and not lossy
            if record["rejects"]:
                self._rejected.renew(index)
        for number, store in enumerate(self._held.stores):
            if events is not None and self._is_paused(number, store, events):
                continue
            criteria, alone = self._criteria(number)
            covered = store["one_result"] == CONFIRMED
            if store["count"] and (len(criteria) or (covered and not self._covered[number])):
                started = thread_time()
                at = Criterion.at(criteria)
                collect(self._held.frame, number, at, len(criteria), int(alone))
                self.choice.walked(criteria["watch"].tolist(), thread_time() - started)
            self._covered[number] = covered

    def _note_history(self) -> None:
        now = self._held.frame.now
        for found, watch in zip(self._found, self._watches, strict=True):
            found.note(now, int(watch["k"]))

    def _is_paused(self, number: int, store: Any, events: int) -> bool:
        """Whether rows of an input are left where they are for some events, since too many of those
        that left came back: each costs as much time as some hundred events do."""
        returned = int(store["returned"] - self._returned[number])
        self._left[number] += events
        if returned * _RARELY > max(_JUDGED, self._left[number]):
            self._pauses[number] = min(2 * self._pauses[number] + 8, _LONGEST_REST)
            self._paused[number] = self._pauses[number] * _REST
            store["one_result"] = min(store["one_result"], COUNTED)
        if self._left[number] >= _JUDGED or self._paused[number]:
            self._returned[number], self._left[number] = store["returned"], 0
        self._paused[number] = max(0, self._paused[number] - events)
        return bool(self._paused[number])

    def forget_codes(self) -> None:
        """Forget the values of strings, which are codes."""
        self._tables.forget_values(
            number
            for number, (kind, input_, column) in enumerate(self._what)
            if kind == CLUSTERS and self._kind_of(input_, column) is Kind.STRING
        )
        self._rejected.forget()
        self._observer.forget()

    # ---- state ----

    @property
    def nbytes(self) -> int:
        return (
            self._watches.nbytes
            + self._tables.nbytes
            + self._rejected.nbytes
            + self._observer.nbytes
        )

    def saved(self) -> State:
        return {
            "watches": words_of(self._watches.copy()),
            "awake": np.array([self.is_awake], np.int64),
            "tables": self._tables.saved(),
            "equals": read_fields(self._held.indexes, _EQUALS),
            "lost": np.array([self._held.frame.lost], np.int64),
            "history": saved_history(self._found),
            "measured": self.choice.state(),
            "broken_keys": self.breaks.saved(),
            "loss": self.loss.saved(),
        }

    def take(self, state: State) -> None:
        if state["awake"][0] and not self.is_awake:
            self.resume()
        watches = saved_watches(state["watches"], self._watches)
        self._tables.check(state["tables"], watches)
        checks.within(state["broken_keys"], -1, len(self._held.indexes), "keys that are broken")
        self._watches[:] = watches
        self._tables.take(state["tables"])
        write_fields(self._held.indexes, _EQUALS, state["equals"])
        self.take_loss(state)
        take_history(self._found, state["history"])
        self.choice.take(state["measured"])
        self.breaks.take(state["broken_keys"])
        self._rejected.forget()
        self._observer.forget()

    def take_loss(self, state: State) -> None:
        """What has been lost, and what was given up for it."""
        self._held.frame.lost = state["lost"][0]
        if "loss" in state:
            self.loss.take(state["loss"])

    def describe(self) -> dict[str, Any]:
        covers = self._held.stores["one_result"]
        exact = self._spec.mode is ConstraintMode.EXACT
        return {
            "one_result": [bool(c == CONFIRMED) for c in covers],
            "constraints": [
                shown
                for number, found in enumerate(self._found)
                if (shown := self._shown(number, found)) is not None
            ],
            "broken_keys": {
                name: int(self._held.indexes["duplicate_time"][index])
                for name, index in self.breaks.keys.items()
            },
            "lost": 0 if exact else self.loss.estimate(),
            "lossy": [self._words(n) for n in np.flatnonzero(self.loss.given_up).tolist()],
        }

    def _shown(self, number: int, found: Found) -> dict[str, Any] | None:
        kind, input_, other = self._what[number]
        about: str | int = other
        if kind != WAITS:
            about = self._spec.inputs[input_].layout.names[other]
        # Rows that leave because of a column are those of the inputs that join it.
        left = other if kind == WAITS else self._held.edges[input_][0].second
        width = 8 * int(self._held.stores["record_words"][left])
        measured = self.choice.measured(number, width)
        return shown_watch(self._watches[number], found, input_, about, measured)
