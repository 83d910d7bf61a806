"""Joins with windows inside: combinations of events of several streams, as they come.

Members share the predicate and differ in the sizes of their windows, in selections below, and in
constants of the residual. The m-op reads streams and not changes: an event is held once, until the
longest window is over, and leaves once; how long each member sees it is asked when a combination
is found (see `operators/join/kernels/window_joins.py`).

The law: what a member has got at an instant, less what has gone, has in it what comes at that
instant to the product of its windows, by value; that is what Istream puts out. What only goes is
not told, so nobody but Istream may read it.

Where it is told (`complete`), the sum of all deltas that a member has got is at each instant the
product of its windows, as in any other join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braid.jit import memory
from braid.operators.core import checks
from braid.operators.core.base import Context, State
from braid.operators.core.batch import Batch
from braid.operators.core.bit_sets import BitSets
from braid.operators.core.columns import Rows
from braid.operators.core.constants import Constants
from braid.operators.core.values import Words
from braid.operators.join.kernels import window_joins as kernel
from braid.operators.join.logic import JoinLogic
from braid.operators.join.ring_state import Rings, with_sizes
from braid.operators.join.spec import JoinRecipe, WindowJoinRecipe, WindowJoinSpec
from braid.operators.join.state import Holdings, clear, taken
from braid.operators.window.logic import seen_since
from braid.plan.layout import END

#: An instant before all others.
_NEVER_YET = -(2**62)


class WindowJoinLogic(JoinLogic):
    """All joins with one predicate over windows by time of the same channels."""

    _loop: Callable[..., None] = staticmethod(kernel.run)
    _let_leave: Callable[..., None] = staticmethod(kernel.let_leave)
    _expire_from: Callable[..., None] = staticmethod(kernel.expire_from)

    def __init__(self, spec: WindowJoinSpec, context: Context) -> None:
        self._windows = spec
        #: What goes before this instant has been told.
        self._told = _NEVER_YET
        self._sizes: list[Words] = [np.full(8, -1, np.int64) for _ in spec.inputs]
        self._resized = True
        super().__init__(spec, context)
        self._plain = False
        self._rings.frame.plain = 0
        self._rings.frame.complete = spec.complete

    def _make_holdings(self) -> Holdings:
        self._rings = Rings(self._windows.inputs, self._keys, self._windows.netted)
        return self._rings

    # ---- members ----

    def _more_content(self, recipe: JoinRecipe, constants: Constants) -> list[Words]:
        assert isinstance(recipe, WindowJoinRecipe)
        return [
            np.full(1, size, np.int64) if isinstance(size, int) else constants.words(size)
            for size in recipe.sizes
        ]

    def _note(self, nodes: Words, more: Sequence[Words]) -> np.ndarray:
        self._sizes = with_sizes(self._sizes, nodes, more)
        return self._sees(nodes)

    def _sees(self, nodes: Words) -> np.ndarray:
        """Which nodes see events at all: a window of less than nothing is empty."""
        seeing = np.ones(len(nodes), np.bool_)
        for of_all in self._sizes:
            seeing &= of_all[nodes] >= 0
        return seeing

    def _seeing(self, nodes: Words) -> Words:
        seeing = super()._seeing(nodes)
        return seeing[self._sees(seeing)]

    def _living(self) -> Words:
        return self._seeing(super()._living())

    def _count_everyone(self) -> None:
        super()._count_everyone()
        self._resized = True

    def _point(self) -> None:
        super()._point()
        if self._resized:
            self._rings.size_windows(self._living(), self._sizes)
            self._resized = False
            if self._windows.complete:
                self._expire_again()

    def _expire_again(self) -> None:
        """Events leave other windows than they did; what went up to now is known."""
        frame = self._rings.frame
        self._expire_from(frame, max(self._told, frame.now + 1))

    # ---- events ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        sides = zip(inputs, self._sides, strict=True)
        birth = self._windows.birth
        batches = [seen_since(batch, side.membered, birth) for batch, side in sides]
        self._point()
        alive = self._feed(batches)
        self._run(self._loop)
        del alive
        if self._windows.complete:
            self._let_leave(self._rings.frame, bound, self._early, self._late)
            self._told = bound
        self._rings.pass_time(bound)
        found = self._taken()
        self._tend(sum(len(batch.rows) for batch in batches))
        return found

    def _taken(self) -> Batch:
        """The output, and its memory."""
        frame, width = self._rings.frame, self._spec.output.layout.width
        rows, index, members = taken(frame, width)
        words = self._rings.set_words
        bits = memory.taken(frame.out_sets.items.address, frame.out_sets.count)
        clear(frame.out_sets)
        frame.out_set_rows = 0
        sets = BitSets(bits.reshape(-1, words)) if len(bits) else None
        return Batch(rows, index, members, sets)

    # ---- state ----

    @property
    def counts(self) -> list[int]:
        """Events that are held of each input."""
        return self._rings.counts()

    def events(self, number: int) -> Rows:
        """Those of an input, the oldest first."""
        return self._rings.rows(number)

    @property
    def index_bytes(self) -> int:
        return super().index_bytes + self._rings.window_bytes

    def snapshot(self) -> State:
        """Of each input: its slots, who sees what is in them, and what those nodes stand for."""
        state: State = {}
        for number, side in enumerate(self._sides):
            local, known = side.numbered(self.nodes.high)
            saved = self._rings.saved(number, local, len(known))
            state |= {f"{name}{number}": array for name, array in saved.items()}
            state[f"nodes{number}"] = known
        if self._windows.complete:
            state["told"] = np.array([self._told], np.int64)
        return state | self._saved_stops()

    def restore(self, state: State) -> None:
        """Take up saved events, and nothing else; members are there already, under whatever
        numbers."""
        self._rings.forget()
        self._point()
        for number, side in enumerate(self._sides):
            known = checks.table(state, f"nodes{number}", 2)
            own = {name: state[f"{name}{number}"] for name in ("marks", "rows", "cells", "sets")}
            self._rings.take(number, own, len(known), side.found(known))
        if self._windows.complete:
            checks.sized(state["told"], 1, "what has been told")
            self._told = int(state["told"][0])
            for number in range(len(self._sides)):
                ends = self.events(number)[:, END]
                checks.within(ends, -(2**63), self._told, "times of events")
            self._expire_from(self._rings.frame, self._told)
        self._restore_stops(state)

    def describe(self) -> dict[str, Any]:
        living = self._living()
        sizes = [of_all[living] for of_all in self._sizes]
        return {
            **super().describe(),
            "sizes": [len(np.unique(own)) for own in sizes],
            "longest": [int(own.max()) if len(own) else None for own in sizes],
        }
