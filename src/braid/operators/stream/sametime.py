"""SAMETIME: the events of one instant become one point event with their aggregates.

A batch holds whole epochs, so this needs no state. A node stands for the members that aggregate the
same events: those of one node of the input which start at the node's birth or later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braid.operators.core.base import Stateless
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows
from braid.operators.core.constants import Constants
from braid.operators.core.fanout import Fanout
from braid.operators.core.membership import Origin, nobody, origin_of
from braid.operators.core.nodes import Nodes, grown, signatures
from braid.operators.core.subscriber_index import ALWAYS
from braid.operators.core.values import Values, Words
from braid.operators.stream.aggregates import Aggregates
from braid.operators.stream.epoch_groups import Births, Groups, groups_of_epochs, groups_of_nodes
from braid.operators.stream.spec import SameTimeRecipe, SameTimeSpec
from braid.plan.layout import END, START


class SameTimeLogic(Stateless):
    def __init__(self, spec: SameTimeSpec, values: Values) -> None:
        self._spec = spec
        self._aggregates = Aggregates(spec, values)
        self.nodes = Nodes()
        self._fanout = Fanout()
        self._births: Words = np.zeros(8, np.int64)
        self._known: Births | None = None
        self.takes_sets = spec.membered

    def admit(
        self, recipe: SameTimeRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        if not self._spec.membered:
            return nobody(constants.count)
        (origin,) = origins
        origin = origin or nobody(constants.count)
        birth = int(ALWAYS) if recipe.birth is None else recipe.birth
        columns = [*origin.signatures.T.copy(), np.array([birth], np.int64)]
        numbers, rows = self.nodes.add(signatures("same time", constants.count, columns))
        if len(rows):
            new = numbers[rows]
            self._fanout.add(origin.numbers[rows], new)
            self._births = grown(self._births, int(new.max()) + 1)
            self._births[new] = birth
            self._known = None
        return origin_of(self.nodes, numbers)

    def dismiss(self, numbers: Words) -> Words:
        if not self._spec.membered:
            return np.empty(0, np.int64)
        gone = self.nodes.release(numbers)
        self._fanout.remove(gone)
        self._known = None
        return gone

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        (batch,) = inputs
        if self._spec.membered:
            if self._known is None:
                self._known = Births.of(self._births, self.nodes)
            groups = groups_of_nodes(batch, self._fanout, self._known, shared=self._spec.shared)
            return Batch(self._aggregated(batch.rows, groups), groups.index, groups.members)
        rows = batch.alone()
        if self._spec.birth is not None:
            rows = rows[rows[:, START] >= self._spec.birth]
        return Batch(self._aggregated(rows, groups_of_epochs(rows)))

    def _aggregated(self, rows: Rows, groups: Groups) -> Rows:
        count = len(groups.ends)
        out = np.zeros((count, self._spec.output.layout.width), np.int64)
        if count:
            out[:, START] = out[:, END] = groups.ends
            group = np.repeat(np.arange(count), groups.sizes)
            self._aggregates.write(rows, groups.rows, group, out)
        return out

    @property
    def index_bytes(self) -> int:
        return self.nodes.nbytes + self._fanout.nbytes + self._births.nbytes

    def describe(self) -> dict[str, Any]:
        if not self._spec.membered:
            return {}
        births = self._known or Births.of(self._births, self.nodes)
        return {"nodes": self.nodes.count, "births": len(births.times)}
