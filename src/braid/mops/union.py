"""Union: the rows of both inputs in order of time."""

from __future__ import annotations

from collections.abc import Sequence

from braid.mops.base import Stateless
from braid.mops.columns import Rows, merged


class UnionLogic(Stateless):
    def on_batch(self, inputs: Sequence[Rows], bound: int) -> Rows:
        return merged(list(inputs))
