"""What a join finds out about arrivals, and what it does about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braid.algebra.constraints import ConstraintMode
from braid.kernels import k_store as stores
from braid.mops.base import State
from braid.mops.constraint_state import Stores
from braid.mops.join_plan import Key
from braid.plan.constraint_join import ConstraintJoinSpec

#: Results of rows of an input after which it is judged whether each has one at most.
_JUDGED = {ConstraintMode.EXACT: 64, ConstraintMode.MONITORED: 1000}
#: How many of a hundred may have another one, if no result is lost by it.
_OFTEN = 2


class Watch:
    """Which constraints hold, for one join."""

    def __init__(self, spec: ConstraintJoinSpec, held: Stores, keys: Sequence[Key]) -> None:
        self._spec, self._held, self._keys = spec, held, keys
        held.stores[:, stores.COVERS] = stores.WATCHED

    def act(self) -> None:
        for store in self._held.stores:
            self._judge_results(store)

    def _judge_results(self, store: Any) -> None:
        """Whether rows of an input are in one result at most: then they leave after it."""
        first, again = int(store[stores.FIRST]), int(store[stores.AGAIN])
        if first + again < _JUDGED[self._spec.mode]:
            return
        often = _OFTEN if self._spec.mode is ConstraintMode.EXACT else 0
        holds = 100 * again <= often * first
        store[stores.COVERS] = stores.DONE_WITH if holds else stores.WATCHED
        store[stores.FIRST], store[stores.AGAIN] = first // 2, again // 2

    def forget_codes(self) -> None:
        """Nothing is kept by codes."""

    @property
    def nbytes(self) -> int:
        return 0

    def saved(self) -> State:
        return {}

    def take(self, state: State) -> None:
        """Nothing is saved."""

    def describe(self) -> dict[str, Any]:
        covers = self._held.stores[:, stores.COVERS]
        return {"one_result": [bool(c == stores.DONE_WITH) for c in covers]}
