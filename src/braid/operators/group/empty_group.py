"""The row of no rows: what a group without keys is before anything has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braid.operators.core.base import Context, State, Stateless
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows, set_nulls
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin, nobody, origin_of
from braid.operators.core.nodes import Nodes, grown, signatures
from braid.operators.core.values import Words
from braid.operators.group.spec import NothingSpec
from braid.plan.deltas import BEFORE
from braid.plan.layout import END, START
from braid.plan.routes import PlainRecipe


class NothingLogic(Stateless):
    """Passes changes on, and before the first ones of a node the row that they start from."""

    saves = True

    def __init__(self, spec: NothingSpec, context: Context) -> None:
        self._spec = spec
        self.nodes = Nodes()
        self._output_of: Words = np.full(8, -1, np.int64)
        self._input_of: Words = np.zeros(8, np.int64)
        #: Which nodes have got the row.
        self._told = np.zeros(8, np.bool_)

    def admit(
        self, recipe: PlainRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        origin = origins[0] or nobody(constants.count)
        columns = list(origin.signatures.T.copy())
        numbers, rows = self.nodes.add(signatures("nothing", constants.count, columns))
        if len(rows):
            inputs, outputs = origin.numbers[rows], numbers[rows]
            self._output_of = grown(self._output_of, int(inputs.max()) + 1, -1)
            self._input_of = grown(self._input_of, int(outputs.max()) + 1)
            self._told = grown(self._told, int(outputs.max()) + 1)
            self._output_of[inputs], self._input_of[outputs] = outputs, inputs
            self._told[outputs] = False
        return origin_of(self.nodes, numbers)

    def dismiss(self, numbers: Words) -> Words:
        gone = self.nodes.release(numbers)
        self._output_of[self._input_of[gone]] = -1
        self._told[gone] = True
        return gone

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        (batch,) = inputs
        rows, index, members = self._changes(batch)
        living = np.flatnonzero(self.nodes.uses[: self.nodes.high] > 0)
        new = living[~self._told[living]].astype(np.int32)
        if not len(new):
            return Batch(rows, index, members)
        self._told[new] = True
        first = np.zeros(len(new), np.int32)
        return Batch(
            np.concatenate([self._row(), rows]),
            np.concatenate([first, index + np.int32(1)]),
            np.concatenate([new, members]),
        )

    def _changes(self, batch: Batch) -> tuple[Rows, np.ndarray, np.ndarray]:
        index, members = batch.index, batch.members
        if index is None:
            index = np.arange(len(batch.rows), dtype=np.int32)
        if members is None or not self._spec.membered:
            members = np.zeros(len(index), np.int32)
        known = self._output_of[members]
        kept = known >= 0
        return batch.rows, index[kept], known[kept].astype(np.int32)

    def _row(self) -> Rows:
        """Of no rows a count is 0 and everything else NULL; it comes once."""
        layout = self._spec.output.layout
        row = np.zeros((1, layout.width), np.int64)
        row[:, START] = row[:, END] = BEFORE
        for column, aggregate in enumerate(self._spec.aggregates):
            if aggregate.function != "count":
                set_nulls(row, column, np.ones(1, np.bool_))
        row[:, -1] = 1
        return row

    def snapshot(self) -> State:
        told = np.flatnonzero(self._told[: self.nodes.high])
        living = told[self.nodes.uses[told] > 0]
        return {"told": self.nodes.signatures[living]}

    def restore(self, state: State) -> None:
        self._told[:] = False
        known = self.nodes.find(np.ascontiguousarray(state["told"].reshape(-1, 2)))
        self._told[known[known >= 0]] = True

    @property
    def index_bytes(self) -> int:
        return self.nodes.nbytes + self._output_of.nbytes + self._input_of.nbytes

    def describe(self) -> dict[str, Any]:
        return {"nodes": self.nodes.count}
