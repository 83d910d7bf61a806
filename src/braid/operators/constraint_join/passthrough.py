"""A constraint join that holds few rows: it passes events through to the plain join.

While few rows are held, constraints save nothing, so they cost nothing either: events go to the m-op that
they would go to without constraints. When the plain join holds too much, it hands its events over, the
oldest first. The constraint join takes them as if they came now, and discards their results, which are
known already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from braid.operators.constraint_join.spec import KEEPS, ConstraintJoinSpec
from braid.operators.core.base import Held, State
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows
from braid.operators.join.growing import plain_state, restore_plain
from braid.operators.join.window_join import WindowJoinLogic


class Passthrough:
    """The plain join of one member."""

    def __init__(self, spec: ConstraintJoinSpec, join: WindowJoinLogic) -> None:
        self._spec, self._join = spec, join

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        kept = [self._kept(number, batch) for number, batch in enumerate(inputs)]
        return Batch(self._join.on_batch(kept, bound).rows)

    def _kept(self, number: int, batch: Batch) -> Batch:
        """What WHERE does not refuse."""
        if not self._spec.keeps[number]:
            return batch
        rows, layout = batch.alone(), self._spec.inputs[number].layout
        column = layout.column(KEEPS)
        null = (rows[:, 2 + column // 64] >> np.int64(column % 64)) & 1
        return Batch(rows[(null == 0) & (rows[:, layout.base + column] != 0)])

    def take(self, rows: Sequence[Rows], now: int) -> None:
        """Hold events that have been joined elsewhere, and that WHERE does not refuse."""
        self._join.on_batch([Batch(own) for own in rows], now)

    @property
    def rows(self) -> list[Rows]:
        """The events of each input that are held, the oldest first."""
        return [self._join.events(number) for number in range(len(self._spec.inputs))]

    @property
    def counts(self) -> list[int]:
        return self._join.counts

    @property
    def stopped(self) -> Mapping[int, int]:
        return self._join.stopped

    @property
    def nbytes(self) -> int:
        return self._join.state_bytes

    # ---- state ----

    def snapshot(self) -> State:
        return plain_state(self._join)

    def restore(self, state: State) -> None:
        restore_plain(self._join, state)

    def held(self) -> Held | None:
        return self._join.held()

    def replace_held(self, rows: Rows) -> None:
        self._join.replace_held(rows)
