"""What is remembered of rows that WHERE refused: bits of their keys (`operators/constraint_join/kernels/rejected_keys.py`)."""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import address
from braid.operators.constraint_join.kernels import store as stores
from braid.operators.constraint_join.state import Stores
from braid.operators.core.values import Words

#: Keys of a filter, and words for each: where rows are dropped an error loses a result.
_KEYS = 2048
_WORDS, _WORDS_IF_DROPPED = 1, 2


class RefusedKeys:
    """Two filters of each index, of which the older one is forgotten when the newer one is full."""

    def __init__(self, held: Stores, *, needed: bool, drops: bool) -> None:
        self._held = held
        words = _KEYS * (_WORDS_IF_DROPPED if drops else _WORDS)
        self._filters: dict[int, tuple[Words, Words]] = {}
        # Who has waited in vain is refused as well, so every input may have some.
        for index in range(len(held.lookups) if needed else 0):
            empty = np.zeros(words, np.int64)
            self._filters[index] = (empty, empty.copy())
            held.indexes[index, stores.REFUSED_MASK] = words - 1
            self._point(index)

    def _point(self, index: int) -> None:
        now, before = self._filters[index]
        self._held.indexes[index, stores.REFUSED_AT] = address(now)
        self._held.indexes[index, stores.REFUSED_BEFORE_AT] = address(before)

    def renew(self, index: int) -> None:
        """Begin a new filter if one is full."""
        record = self._held.indexes[index]
        if index in self._filters and record[stores.REFUSED_KEYS] >= _KEYS:
            before = self._filters[index][0]
            self._filters[index] = (np.zeros_like(before), before)
            record[stores.REFUSED_KEYS] = 0
            self._point(index)

    def forget(self) -> None:
        for index, filters in self._filters.items():
            for filter_ in filters:
                filter_[:] = 0
            self._held.indexes[index, stores.REFUSED_KEYS] = 0

    @property
    def nbytes(self) -> int:
        return sum(2 * filter_.nbytes for filter_, _ in self._filters.values())
