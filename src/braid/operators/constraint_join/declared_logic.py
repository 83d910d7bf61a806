"""A declared constraint that is observed at its streams, beside the joins that read them.

Joins observe the constraints that they use, of the events that come to them. A declaration is about a
stream: here all of its events are observed, once for all queries that join it, so that a broken
constraint is reported whatever the joins do. The law: every report is true of the stream as the engine
takes it (`reference/constraints.py`); and every break is reported, as far as the values that break the
constraint are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from braid.algebra.constraints import Constraint, ConstraintKind
from braid.algebra.schema import Schema
from braid.algebra.types import Kind, decimal_shape, kind_of
from braid.jit import records
from braid.operators.constraint_join.declared_spec import DeclaredWatchSpec, WatchRecipe
from braid.operators.constraint_join.fields import Records, words_of
from braid.operators.constraint_join.kernels import declared as kernel
from braid.operators.constraint_join.kernels.declared import Attribute, Observed, Progress
from braid.operators.constraint_join.kernels.records import (
    ASCENDS,
    DECLARED,
    DESCENDS,
    Frame,
    Store,
    Watch,
)
from braid.operators.constraint_join.kernels.watch import ENDLESS
from braid.operators.constraint_join.watch.report import Broken, saved_watches, shown_value
from braid.operators.core import checks
from braid.operators.core.base import Context, Held, State
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin, nobody
from braid.operators.core.roles import WatchesConstraint
from braid.operators.core.values import Words
from braid.operators.window.logic import seen_since
from braid.plan.layout import Layout
from braid.plan.routes import PlainRecipe
from braid.plan.specs import Shape

#: Values for which there is room at first, and at most: the older half is forgotten then.
_LEAST_ROOM, MOST_ROOM = 1024, 32_768
#: The same of the runs of an order; and for how many there is room if k is a time.
_LEAST_RUNS, _MOST_RUNS, _TIMED_RUNS = 128, 16_384, 4_096

_KINDS = {
    ConstraintKind.KEY: kernel.KEYS,
    ConstraintKind.CLUSTERED: kernel.CLUSTERS,
    ConstraintKind.REFERENCES: kernel.REFERS,
}
_ORDERS = {
    ConstraintKind.ASCENDING: ASCENDS,
    ConstraintKind.DESCENDING: DESCENDS,
}
_DAY = 86_400_000_000
#: If more queries come together that don't use a constraint, only so many are named.
_NAMED = 16

#: Side and row of the event that breaks a constraint, and by how much (None: of a key).
_Break = tuple[int, int, int | None]


class DeclaredWatchLogic(WatchesConstraint):
    """One declared constraint, for all queries that join its streams."""

    takes_sets = False
    takes_bits = False
    saves = True
    instances = 0
    index_bytes = 0

    def __init__(self, spec: DeclaredWatchSpec, context: Context) -> None:
        self._spec, self._context = spec, context
        self.stopped: dict[int, int] = {}
        #: What has broken it; whether that is new, else the queries that it is still to be reported to.
        self.broken: Broken | None = None
        self._is_news = False
        self._unreported: dict[str, int] = {}
        #: All queries, by words that identify them; those that it was reported to; those that came
        #: before the first event, which may have known of it before a restart.
        self._queries: list[Words] = []
        self._reported_to: Words = np.empty(0, np.int64)
        self._first: list[Constants] | None = []
        #: Queries whose joins don't use it, and why; those that this is still to be reported to, and the
        #: words of those that it was reported to.
        self._unused: dict[str, str] = {}
        self._unaware: dict[str, int] = {}
        self._aware: Words = np.empty(0, np.int64)
        self._watch = self._made()

    def _made(self) -> _Values | _Order:
        if self.constraint.kind in _ORDERS:
            return _Order(self._spec)
        return _Values(self._spec)

    @property
    def constraint(self) -> Constraint:
        return self._spec.constraint

    # ---- queries ----

    def admit(
        self, recipe: PlainRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        self._queries.append(constants.identity)
        if isinstance(recipe, WatchRecipe) and recipe.why is not None:
            self._note_unused(recipe.why, constants)
        if self.broken is not None:
            self._tell(constants)
        if self._first is not None:
            self._first.append(constants)
        return nobody(constants.count)

    def _note_unused(self, why: str, constants: Constants) -> None:
        """The joins of these queries don't use it. Of many that come together some are named."""
        names: list[str] = constants.ids.slice(0, _NAMED).to_pylist()
        words = constants.identity[:_NAMED].tolist()
        for name, word in zip(names, words, strict=True):
            self._unused[name] = why
            if word not in self._aware:
                self._unaware[name] = word
        more = constants.count - len(names)
        if more > 0:
            self._unused[names[-1]] = f"{why} (so it is with {more:,} more queries)"

    def unused(self, is_there: Callable[[str], bool]) -> list[tuple[str, str]]:
        """Queries whose joins don't use it and that were not reported yet, and why."""
        self._unused = {name: why for name, why in self._unused.items() if is_there(name)}
        found = [(name, self._unused[name]) for name in self._unaware if name in self._unused]
        self._aware = np.append(self._aware, np.array(list(self._unaware.values()), np.int64))
        self._unaware = {}
        return found

    def _tell(self, newcomers: Constants) -> None:
        """Report it to queries that come later, unless they know it."""
        words = newcomers.identity
        unreported = np.flatnonzero(~np.isin(words, self._reported_to))
        names: list[str] = newcomers.ids.take(pa.array(unreported)).to_pylist()
        self._unreported.update(zip(names, words[unreported].tolist(), strict=True))

    def dismiss(self, numbers: Words) -> Words:
        return np.empty(0, np.int64)

    # ---- events ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        self._first = None
        if self.broken is None and any(map(len, inputs)):
            rows = [seen_since(batch, False, None).rows for batch in inputs]
            found = self._watch.observe(rows)
            if found is not None:
                self._break(rows, *found)
        return Batch(np.empty((0, self._spec.output.layout.width), np.int64))

    def _break(self, rows: Sequence[Rows], side: int, place: int, distance: int | None) -> None:
        constraint, shape, row = self.constraint, self._spec.inputs[side], rows[side][place]
        names = constraint.target_attributes if side else constraint.attributes
        values = {name: self._shown(shape, row, name) for name in names}
        stream = str(constraint.target if side else constraint.stream)
        event = (self._watch.came(side), int(row[1]))
        self.note(Broken.of(constraint, stream, event, values, distance))

    def _shown(self, shape: Shape, row: Words, name: str) -> str:
        word = int(row[shape.layout.word(name)])
        return shown_value(word, shape.schema.type_of(name), self._context.values)

    def note(self, broken: Broken) -> None:
        """It is broken, as was seen here or by a join that remembers more: nothing is watched any
        more."""
        if self.broken is None:
            self.broken, self._is_news = broken, True
            self._reported_to = np.concatenate([self._reported_to, *self._queries])
            self._watch.forget()

    def news(self) -> tuple[Broken, list[str] | None] | None:
        """What is to be reported, and to which queries: None are all whose joins read the streams."""
        if self.broken is None or not (self._is_news or self._unreported):
            return None
        queries = None if self._is_news else list(self._unreported)
        self._reported_to = np.append(
            self._reported_to, np.array(list(self._unreported.values()), np.int64)
        )
        self._is_news, self._unreported = False, {}
        return self.broken, queries

    # ---- state ----

    @property
    def state_bytes(self) -> int:
        return self._watch.nbytes

    def snapshot(self) -> State:
        state = self._watch.saved() | {"aware": self._aware}
        if self.broken is not None:
            state["broken"], state["told"] = _as_words(self.broken), self._reported_to
        return state

    def restore(self, state: State) -> None:
        """A broken constraint was reported to the queries that were there."""
        self._is_news, self._unreported = False, {}
        self._aware = state.get("aware", self._aware[:0])
        self._unaware = {n: word for n, word in self._unaware.items() if word not in self._aware}
        self._reported_to = state.get("told", self._reported_to[:0])
        self.broken = _as_broken(state["broken"]) if "broken" in state else None
        self._watch = self._made()
        if self.broken is None:
            self._watch.take(state)
            return
        self._watch.forget()
        for constants in self._first or ():
            self._tell(constants)

    def held(self) -> Held | None:
        return self._watch.held()

    def replace_held(self, rows: Rows) -> None:
        self._watch.replace_held(rows)

    def forget_codes(self) -> None:
        """Those that are remembered are held."""

    def describe(self) -> dict[str, Any]:
        broken = self.broken
        return {
            "declared": self.constraint.describe(),
            "name": self.constraint.name,
            "values": self._watch.known,
            "unused": dict(self._unused),
            "broken": None if broken is None else asdict(broken),
        }


class _Values:
    """What is remembered of the values of KEY, CLUSTERED or REFERENCES."""

    def __init__(self, spec: DeclaredWatchSpec) -> None:
        constraint, inputs = spec.constraint, spec.inputs
        sides = [constraint.attributes, constraint.target_attributes][: len(inputs)]
        types = [
            [shape.schema.type_of(name) for name in names]
            for shape, names in zip(inputs, sides, strict=True)
        ]
        count = len(constraint.attributes)
        bases = [shape.layout.base for shape in inputs]
        attributes: list[tuple[int, int, int]] = []
        for side, (shape, names) in enumerate(zip(inputs, sides, strict=True)):
            for k, name in enumerate(names):
                other = types[1 - side][k] if len(inputs) > 1 else types[side][k]
                attributes.append((shape.layout.column(name), *_how(types[side][k], other)))
        self._attributes: Records = np.array(attributes, Attribute.dtype)
        self._observed = records.filled(
            Observed,
            constraint=_KINDS[constraint.kind],
            k=constraint.k,
            timed=int(constraint.timed),
            attribute_count=count,
            attributes=self._attributes,
        )
        self._observed["bases"] = (bases * 2)[:2]
        self._nothing: Rows = np.empty((0, inputs[0].layout.width), np.int64)
        #: What is remembered, as rows that hold it are known elsewhere.
        self._schema = Schema.of((f"v{k}", type_) for k, type_ in enumerate(types[0]))
        self._state = np.zeros(1, Progress.dtype)
        self._progress = Progress.at(self._state)
        self._make_room(0)

    def _make_room(self, room: int) -> None:
        width = kernel.ENTRY_WORDS + len(self._schema)
        self._entries: Rows = np.zeros((room + 1, width), np.int64)
        self._slots: Words = np.zeros(max(2 * room, 1), np.int64)

    @property
    def known(self) -> int:
        return self._progress.known

    def came(self, side: int) -> int:
        return int(self._progress.came[side])

    def observe(self, rows: Sequence[Rows]) -> _Break | None:
        progress = self._progress
        self._state["read"] = 0
        own, others = rows[0], rows[1] if len(rows) > 1 else self._nothing
        while True:
            observed = Observed.at(self._observed)
            ended = kernel.observe_events(
                own, others, observed, progress, self._entries, self._slots
            )
            if ended == kernel.DONE:
                return None
            if ended == kernel.BROKEN:
                distance = None if progress.broken_by < 0 else progress.broken_by
                return progress.broken_side, progress.broken_row, distance
            self._grow()

    def _grow(self) -> None:
        """More room, up to the most; then the older half is forgotten."""
        known, before = self.known, self._entries
        if known < MOST_ROOM:
            self._make_room(max(_LEAST_ROOM, 2 * known))
            self._entries[:known] = before[:known]
        else:
            kept = known // 2
            before[:kept] = before[known - kept : known]
            self._progress.known = kept
        self._find_again()

    def _find_again(self) -> None:
        self._slots[:] = 0
        kernel.enter(self._entries, self._slots, self.known)

    def forget(self) -> None:
        self._progress.known = 0
        self._make_room(0)

    @property
    def nbytes(self) -> int:
        return self._entries.nbytes + self._slots.nbytes

    def saved(self) -> State:
        state = self._state.copy()
        state["read"] = 0
        return {"state": words_of(state)[0], "entries": self._entries[: self.known].ravel().copy()}

    def take(self, state: State) -> None:
        checks.sized(state["state"], Progress.stride // 8, "what a watch has counted")
        saved = np.ascontiguousarray(state["state"]).view(Progress.dtype)
        checks.within(saved["known"], 0, MOST_ROOM + 1, "values of a watch")
        entries = checks.table(state, "entries", self._entries.shape[1])
        checks.sized(entries, int(saved["known"][0]), "values of a watch")
        self._state[:] = saved
        room = _LEAST_ROOM
        while room < self.known:
            room *= 2
        self._make_room(room if self.known else 0)
        self._entries[: self.known] = entries
        self._find_again()

    # ---- strings, of which codes are remembered ----

    def held(self) -> Held | None:
        if not any(kind_of(a.type) is Kind.STRING for a in self._schema):
            return None
        layout = Layout(self._schema.names)
        rows = np.zeros((self.known, layout.width), np.int64)
        rows[:, layout.base :] = self._entries[: self.known, kernel.ENTRY_WORDS :]
        return Held(rows, layout, tuple(a.type for a in self._schema))

    def replace_held(self, rows: Rows) -> None:
        layout = Layout(self._schema.names)
        self._entries[: self.known, kernel.ENTRY_WORDS :] = rows[:, layout.base :]
        self._find_again()


class _Order:
    """The runs of an order: see `kernels/arrivals.py`."""

    def __init__(self, spec: DeclaredWatchSpec) -> None:
        constraint, shape = spec.constraint, spec.inputs[0]
        (name,) = constraint.attributes
        self._floating = kind_of(shape.schema.type_of(name)) is Kind.FLOAT
        self._memory = (np.zeros(1, Frame.dtype), np.zeros(1, Store.dtype))
        self._frame, self._store = Frame.at(self._memory[0]), Store.at(self._memory[1])
        self._watches: Records = np.zeros(1, Watch.dtype)
        self._store.base = shape.layout.base
        watch = self._watch = Watch.at(self._watches)
        watch.kind = _ORDERS[constraint.kind]
        watch.column = watch.example = shape.layout.column(name)
        watch.k, watch.declared = constraint.k, DECLARED
        watch.timed, watch.window = constraint.timed, int(ENDLESS)
        # The watch drops runs that are past by more than four times this.
        watch.threshold = watch.time_threshold = constraint.k // 4 + 1
        runs = _TIMED_RUNS if constraint.timed else _LEAST_RUNS
        while runs < min(4 * constraint.k, _MOST_RUNS) and not constraint.timed:
            runs *= 2
        self._runs: Words = np.zeros((runs, 2), np.int64)
        self._point()

    def _point(self) -> None:
        self._watch.table = records.Words.at(self._runs)
        self._watch.room = len(self._runs)
        self._frame.stores, self._frame.watches = self._store, self._watch
        self._frame.watch_count = 1

    @property
    def known(self) -> int:
        return self._watch.entries

    def came(self, side: int) -> int:
        return self._store.arrivals

    def observe(self, rows: Sequence[Rows]) -> _Break | None:
        place = int(kernel.observe_ordered_events(self._frame, rows[0], self._floating))
        return None if place < 0 else (0, place, self._watch.broken_by)

    def forget(self) -> None:
        self._watch.entries = 0
        self._runs = np.zeros((0, 2), np.int64)
        self._point()

    @property
    def nbytes(self) -> int:
        return self._runs.nbytes

    def saved(self) -> State:
        return {
            "watch": words_of(self._watches.copy())[0],
            "came": np.array([self._store.arrivals], np.int64),
            "runs": self._runs[: self.known].ravel().copy(),
        }

    def take(self, state: State) -> None:
        watches = saved_watches(state["watch"], self._watches)
        runs = checks.table(state, "runs", 2)
        checks.within(watches["room"], 0, len(self._runs) + 1, "runs of a watch")
        checks.sized(runs, int(watches["entries"][0]), "runs of a watch")
        self._watches[:] = watches
        self._store.arrivals = state["came"][0]
        self._runs[: self.known] = runs
        self._point()

    def held(self) -> Held | None:
        return None

    def replace_held(self, rows: Rows) -> None:
        raise AssertionError("no strings are in order")


def _how(own: pa.DataType, other: pa.DataType) -> tuple[int, int]:
    """How a value is read that may equal one of another type, and the factor."""
    kind, kinds = kind_of(own), {kind_of(own), kind_of(other)}
    if Kind.FLOAT in kinds:
        if kind is Kind.DECIMAL:
            return kernel.PART_OF, 10 ** decimal_shape(own)[1]
        return (kernel.FLOATING if kind is Kind.FLOAT else kernel.AS_FLOAT), 1
    if Kind.DECIMAL in kinds:
        scale = decimal_shape(own)[1]
        more = max(scale, decimal_shape(other)[1]) - scale
        return (kernel.TIMES, 10**more) if more else (kernel.PLAIN, 1)
    if kind is Kind.DATE and kinds != {Kind.DATE}:
        return kernel.TIMES, _DAY
    return kernel.PLAIN, 1


# ---- a break that was reported, as words ----


def _as_words(broken: Broken) -> Words:
    return np.frombuffer(broken.to_json().encode(), np.uint8).astype(np.int64)


def _as_broken(words: Words) -> Broken:
    return Broken.from_json(words.astype(np.uint8).tobytes().decode())
