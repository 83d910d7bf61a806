"""The Bloom filters with the keys of rows that WHERE rejected (`kernels/rejected_keys.py`)."""

from __future__ import annotations

import numpy as np

from braid.jit.bloom_filter import set_filter
from braid.operators.constraint_join.state import Stores
from braid.operators.core.values import Words

#: Keys of a filter, and words for each: where rows are dropped an error loses a result.
_KEYS = 2048
_WORDS, _WORDS_IF_DROPPED = 1, 2


class RejectedKeys:
    """Two filters of each index. The older one is dropped when the newer one is full."""

    def __init__(self, held: Stores, *, needed: bool, drops: bool) -> None:
        self._held = held
        words = _KEYS * (_WORDS_IF_DROPPED if drops else _WORDS)
        self._filters: dict[int, tuple[Words, Words]] = {}
        # Rows that waited for a rejected row are rejected as well, so every input may have some.
        for index in range(len(held.lookups) if needed else 0):
            empty = np.zeros(words, np.int64)
            self._filters[index] = (empty, empty.copy())
            self._point(index)

    def _point(self, index: int) -> None:
        now, before = self._filters[index]
        set_filter(self._held.indexes["rejected"][index], now)
        set_filter(self._held.indexes["rejected_before"][index], before)

    def renew(self, index: int) -> None:
        """Begin a new filter if one is full."""
        record = self._held.indexes[index]
        if index in self._filters and record["rejected"]["keys"] >= _KEYS:
            before = self._filters[index][0]
            self._filters[index] = (np.zeros_like(before), before)
            self._point(index)

    def forget(self) -> None:
        for index, filters in self._filters.items():
            for filter_ in filters:
                filter_[:] = 0
            self._held.indexes["rejected"]["keys"][index] = 0

    @property
    def nbytes(self) -> int:
        return sum(2 * filter_.nbytes for filter_, _ in self._filters.values())
