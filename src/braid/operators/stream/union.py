"""Union: the events of both inputs in order of time, each with the members that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.operators.core.base import Stateless
from braid.operators.core.batch import Batch
from braid.operators.core.columns import merged
from braid.operators.core.constants import Constants
from braid.operators.core.fanout import Fanout
from braid.operators.core.membership import Origin, nobody, origin_of
from braid.operators.core.nodes import Nodes, signatures
from braid.operators.core.values import Words
from braid.operators.stream.spec import UnionSpec
from braid.plan.layout import END
from braid.plan.routes import PlainRecipe


class UnionLogic(Stateless):
    def __init__(self, spec: UnionSpec) -> None:
        self._spec = spec
        self.nodes = Nodes()
        self._sides = (Fanout(), Fanout())

    def admit(
        self, recipe: PlainRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        sides = [origin or nobody(constants.count) for origin in origins]
        columns = [column for side in sides for column in side.signatures.T.copy()]
        numbers, rows = self.nodes.add(signatures("union", constants.count, columns))
        for side, fanout in zip(sides, self._sides, strict=True):
            fanout.add(side.numbers[rows], numbers[rows])
        return origin_of(self.nodes, numbers)

    def dismiss(self, numbers: Words) -> Words:
        gone = self.nodes.release(numbers)
        for fanout in self._sides:
            fanout.remove(gone)
        return gone

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        if not self._spec.membered:
            return Batch(merged([batch.alone() for batch in inputs]))
        left, right = (
            fanout.applied(batch) for fanout, batch in zip(self._sides, inputs, strict=True)
        )
        rows = np.concatenate([left.rows, right.rows])
        order = np.argsort(rows[:, END], kind="stable")
        place = np.empty(len(rows), np.int32)
        place[order] = np.arange(len(rows), dtype=np.int32)
        assert left.index is not None
        assert right.index is not None
        assert left.members is not None
        assert right.members is not None
        index = place[np.concatenate([left.index, right.index + np.int32(len(left.rows))])]
        members = np.concatenate([left.members, right.members])
        by_row = np.argsort(index, kind="stable")
        return Batch(rows[order], index[by_row], members[by_row])
