"""GROUP BY and SELECT DISTINCT: one row for each group of each node, as deltas.

The law: at the end of every instant, what was put out for a node sums up to one row for each
group of the rows that its input has then; without keys, to one row less the row of nothing, which
was there before the first delta. Sums that do not fit their type stop the node at that instant.

A relation under a window never has fewer than no copies of a row. Deltas that say so all the
same (rows go that never came) are counted as they are, and order still means nothing: a group is
there while the sum of its weights is above 0; `count`, `sum` and `avg` are of all weights,
negative ones included, and NULL unless more values are there than not; `min`, `max` and
`count(DISTINCT)` are of values with a weight above 0. `describe` says how many groups are short
of rows, and they are remembered until the rows come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braid.jit.runtime import address
from braid.operators.core import checks
from braid.operators.core.base import Context, Held, State
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin, nobody, origin_of
from braid.operators.core.nodes import Nodes, grown, signatures
from braid.operators.core.values import Words
from braid.operators.group.kernels import groups as kernel
from braid.operators.group.layout import GroupLayout
from braid.operators.group.spec import GroupSpec
from braid.operators.group.state import GroupState
from braid.plan.routes import PlainRecipe


class GroupLogic:
    takes_sets = False
    takes_bits = False
    saves = True

    def __init__(self, spec: GroupSpec, context: Context) -> None:
        self._spec = spec
        self._context = context
        self.nodes = Nodes()
        #: Output nodes a sum of which did not fit its type, and when.
        self.stopped: dict[int, int] = {}
        self._output_of: Words = np.full(8, -1, np.int64)
        self._input_of: Words = np.zeros(8, np.int64)
        self._layout = GroupLayout(spec)
        self._state = GroupState(self._layout)

    # ---- members ----

    def admit(
        self, recipe: PlainRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        """A node for each node of the input."""
        origin = origins[0] or nobody(constants.count)
        columns = list(origin.signatures.T.copy())
        numbers, rows = self.nodes.add(signatures("group", constants.count, columns))
        if len(rows):
            inputs, outputs = origin.numbers[rows], numbers[rows]
            self._output_of = grown(self._output_of, int(inputs.max()) + 1, -1)
            self._input_of = grown(self._input_of, int(outputs.max()) + 1)
            self._output_of[inputs] = outputs
            self._input_of[outputs] = inputs
        return origin_of(self.nodes, numbers)

    def dismiss(self, numbers: Words) -> Words:
        """Members leave; the nodes that nobody uses any more, whose groups are forgotten."""
        gone = self.nodes.release(numbers)
        self._output_of[self._input_of[gone]] = -1
        self._forget(gone)
        for node in gone.tolist():
            self.stopped.pop(node, None)
        return gone

    def _forget(self, nodes: Words) -> None:
        if len(nodes) and self.instances:
            gone = np.zeros(self.nodes.high, np.bool_)
            gone[nodes] = True
            kernel.purge(self._frame(), self._state.numbers, gone)

    # ---- deltas ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        (batch,) = inputs
        if not len(batch) or not self.nodes.count:
            return self._batch(np.empty((0, self._layout.output.width), np.int64), _none())
        index, members = batch.index, batch.members
        if index is None:
            index = np.arange(len(batch.rows), dtype=np.int32)
        if members is None or not self._spec.membered:
            members = np.zeros(len(index), np.int32)
        self._frame()
        rows, nodes, stopped = self._state.follow(
            np.ascontiguousarray(batch.rows),
            np.ascontiguousarray(index),
            np.ascontiguousarray(members),
        )
        for node, instant in stopped.tolist():
            self.stopped[node] = instant
        self._forget(stopped[:, 0])
        return self._batch(rows, nodes.astype(np.int32))

    @staticmethod
    def _batch(rows: Rows, nodes: np.ndarray) -> Batch:
        return Batch(rows, np.arange(len(rows), dtype=np.int32), nodes)

    def _frame(self) -> Words:
        """Where everything is now: tables move when they grow."""
        return self._state.framed(
            self._output_of, self._input_of, address(self._context.values.strings.description)
        )

    # ---- state ----

    @property
    def instances(self) -> int:
        return self._state.groups

    @property
    def state_bytes(self) -> int:
        return self._state.nbytes

    @property
    def index_bytes(self) -> int:
        tables = self._output_of.nbytes + self._input_of.nbytes + self._layout.nbytes
        return self.nodes.nbytes + tables

    def snapshot(self) -> State:
        """Groups as they lie, their values, and what the numbers of nodes stand for."""
        stopped = list(self.stopped.items())
        nodes = np.array([node for node, _ in stopped], np.int64)
        times = np.array([at for _, at in stopped], np.int64)
        return {
            **self._state.saved(),
            "nodes": self.nodes.signatures[: self.nodes.high].copy(),
            "stopped": np.column_stack([self.nodes.signatures[nodes], times]),
        }

    def restore(self, state: State) -> None:
        """Take up saved groups; members are there already, under whatever numbers."""
        known = self.nodes.find(checks.table(state, "nodes", 2))
        stopped = state["stopped"].reshape(-1, 3)
        self.stopped = {}
        found = self.nodes.find(np.ascontiguousarray(stopped[:, :2]))
        for node, instant in zip(found.tolist(), stopped[:, 2].tolist(), strict=True):
            if node >= 0:
                self.stopped[node] = instant
                self._output_of[self._input_of[node]] = -1
        self._state.load(state, known, self._frame(), self._context.values.strings.count)

    def held(self) -> Held | None:
        return self._state.texts()

    def replace_held(self, rows: Rows) -> None:
        self._state.replace_texts(rows, self._frame())

    def forget_codes(self) -> None:
        """Codes are in rows that are held, and nowhere else."""

    def describe(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes.count,
            "groups": self.instances,
            "values": self._state.values,
            "negative": self._state.negative,
        }


def _none() -> np.ndarray:
    return np.empty(0, np.int32)
