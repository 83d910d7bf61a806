"""NEXT and FOLD: sequence and iteration as one family, because NEXT is FOLD without a rebind edge.

In the words of the automata: an instance waits at a state; the *filter predicate* says which
events affect it, the *rebind predicate* whether it goes on with the event, and everything that
is emitted takes the *forward* edge. The three invariants on these edges (a forward or rebind
edge is only taken by an event that satisfies the filter predicate, a forward edge only by one
that satisfies the rebind predicate) hold by construction: the kernel asks for the rebind
predicate after the filter predicate held, and emits after both did.

Of the filter predicate, the conjuncts `second.a = instance.b` become the hash key of the
instances, `DUR <= horizon` is left to their expiry, and the rest is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import numpy as np

from braid.algebra.expressions import (
    Expression,
    Ref,
    Source,
    is_true,
)
from braid.kernels import memory
from braid.kernels import pattern as kernel
from braid.kernels.runtime import always, nothing
from braid.mops import codegen
from braid.mops.base import Context, Held, State
from braid.mops.columns import Rows
from braid.mops.values import Words
from braid.plan.layout import END, Layout
from braid.plan.specs import PatternSpec


class PatternLogic:
    def __init__(self, spec: PatternSpec, context: Context, state: State | None) -> None:
        self._slots: Words = np.zeros(8, np.int64)
        self._spec = spec
        self._layout = Layout(spec.columns.names)
        self._budget = context.instance_budget
        self._compile(context)
        self._shape = self._make_shape(context)
        self.stopped: int | None = None
        self._seen = 0
        self._reset(np.empty((0, self._layout.width), np.int64))
        if state is not None:
            self._restore(state)

    def _compile(self, context: Context) -> None:
        spec = self._spec
        places = {
            Source.FIRST: codegen.Place("i", self._layout, "f:"),
            Source.LAST: codegen.Place("i", self._layout, "l:"),
            Source.SECOND: codegen.Place("e", spec.second.layout),
        }
        parameters: list[codegen.Parameter] = []
        self._predicate = self._rebind = always
        self._write = nothing
        if not is_true(spec.residual):
            function = codegen.predicate(spec.residual, places)
            self._predicate = function.compiled
            parameters += function.parameters
        if spec.rebind is not None and not is_true(spec.rebind):
            function = codegen.predicate(spec.rebind, places, len(parameters))
            self._rebind = function.compiled
            parameters += function.parameters
        updates = self._updates()
        if updates:
            function = codegen.writer(updates, self._layout, places, len(parameters))
            self._write = function.compiled
            parameters += function.parameters
        self._parameters = context.parameters(parameters)
        self._context = context.addresses(self._parameters)

    def _updates(self) -> list[tuple[str, Expression]]:
        """How each `l:` column of an instance gets its value in an iteration."""
        if not self._spec.iterates:
            return []
        aggregates = dict(self._spec.aggregates)
        updates: list[tuple[str, Expression]] = []
        for column in self._spec.columns:
            if column.name.startswith("l:"):
                name = column.name[2:]
                event = Ref(Source.SECOND, name, column.type)
                updates.append((column.name, aggregates.get(name, event)))
        return updates

    def _make_shape(self, context: Context) -> kernel.Shape:
        spec = self._spec
        first, second, layout = spec.first.layout, spec.second.layout, self._layout
        bind = [first.column(n[2:]) if n[2:] in spec.first.schema else -1 for n in layout.names]
        emit = [
            -1 - second.column(s[2:]) if s.startswith("e:") else layout.column(s)
            for _, s in spec.emit
        ]
        numbers = np.zeros(8, np.int64)
        numbers[kernel.ITERATES] = spec.iterates
        numbers[kernel.HORIZON] = -1 if spec.horizon is None else max(spec.horizon, 0)
        numbers[kernel.BUDGET] = context.instance_budget
        numbers[kernel.RESIDUAL] = not is_true(spec.residual)
        numbers[kernel.FIRST_MASKS] = first.masks
        numbers[kernel.SECOND_MASKS] = second.masks
        numbers[kernel.INSTANCE_MASKS] = layout.masks
        numbers[kernel.OUT_MASKS] = spec.output.layout.masks
        return kernel.Shape(
            _words([layout.column(k.instance) for k in spec.keys]),
            _words([second.column(k.event) for k in spec.keys]),
            _words([int(k.floating) for k in spec.keys]),
            _words(bind),
            _words(emit),
            numbers,
        )

    def _reset(self, rows: Rows) -> None:
        """Start over with these instances."""
        self._release()
        width = self._layout.width
        self._slots = np.zeros(8, np.int64)
        self._slots[kernel.HIGH] = len(rows)
        self._slots[kernel.CAPACITY] = capacity = max(16, len(rows))
        self._slots[kernel.ROWS_AT] = memory.resized(0, capacity * (width + kernel.EXTRA))
        self._memory()[: len(rows), :width] = rows
        kernel.rebuild(self._shape, self._slots)

    def _memory(self) -> Rows:
        """All slots, as an array that is valid until they move."""
        width, capacity = self._layout.width + kernel.EXTRA, int(self._slots[kernel.CAPACITY])
        return memory.view(self._slots[kernel.ROWS_AT], capacity * width).reshape(capacity, width)

    def _release(self) -> None:
        for at in (kernel.ROWS_AT, kernel.HEADS_AT):
            memory.free(self._slots[at])
            self._slots[at] = 0

    def __del__(self) -> None:
        self._release()

    def on_batch(self, inputs: SequenceOf[Rows], bound: int) -> Rows:
        first, second = inputs
        width = self._spec.output.layout.width
        if self.stopped is not None or not (len(first) or len(second)):
            return np.empty((0, width), np.int64)
        run = kernel.follow(
            self._shape,
            self._slots,
            np.ascontiguousarray(first),
            np.ascontiguousarray(second),
            self._predicate,
            self._rebind,
            self._write,
            self._context,
        )
        output = memory.taken(run.output, run.emitted * width).reshape(-1, width)
        if run.stopped:
            self.stopped = int(run.at)
            self._reset(np.empty((0, self._layout.width), np.int64))
        self._seen += len(first) + len(second)
        self._expire(bound)
        return output

    def _expire(self, bound: int) -> None:
        """Sweep when as many events have gone by as there are instances: constant work for each."""
        horizon = self._spec.horizon
        if horizon is not None and self._seen >= self.instances > 0:
            kernel.sweep(self._shape, self._slots, bound - horizon)
            self._seen = 0

    @property
    def instances(self) -> int:
        return int(self._slots[kernel.COUNT])

    @property
    def state_bytes(self) -> int:
        heads = int(self._slots[kernel.HEADS_MASK]) + 1
        return self._memory().nbytes + 8 * heads

    def snapshot(self) -> State:
        stopped = [] if self.stopped is None else [self.stopped, self._budget]
        return {"rows": self._rows(), "stopped": np.array(stopped, np.int64)}

    def _rows(self) -> Rows:
        """The slots that have been used, free ones included, without links and hashes."""
        return self._memory()[: int(self._slots[kernel.HIGH]), : self._layout.width].copy()

    def _restore(self, state: State) -> None:
        rows = state["rows"].reshape(-1, self._layout.width)
        self._reset(rows)
        if len(state["stopped"]):
            at, budget = state["stopped"]
            # With a larger budget it goes on from now; what it held is gone.
            self.stopped = int(at) if self._budget <= budget else None

    def held(self) -> Held | None:
        rows = self._rows()
        types = tuple(a.type for a in self._spec.columns)
        return Held(rows[rows[:, END] != kernel.FREE], self._layout, types)

    def replace_held(self, rows: Rows) -> None:
        self._reset(rows)


def _words(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)
