"""The keys of detections by key: each that something is kept of has a *slot*, the same in all logs."""

from __future__ import annotations

import numpy as np

from braid.operators.core import checks
from braid.operators.core.base import State
from braid.operators.core.columns import Rows
from braid.operators.core.values import Words
from braid.operators.detect.kernels import keyed as kernel

_LEAST = 16


class SlotTable:
    """Keys are rows of words; slots that nobody needs any more are given to others."""

    def __init__(self, width: int) -> None:
        self.keys: Rows = np.zeros((0, width), np.int64)
        self._table = np.full(2 * _LEAST, -1, np.int32)
        self._free = np.zeros(0, np.int32)
        self._left = np.zeros(1, np.int64)
        self._marks = np.zeros(0, np.int32)

    @property
    def size(self) -> int:
        """All slots are below this."""
        return len(self.keys)

    @property
    def count(self) -> int:
        return self.size - int(self._left[0])

    @property
    def used(self) -> np.ndarray:
        """Which slots have a key."""
        used = np.ones(self.size, np.bool_)
        used[self._free[: self._left[0]]] = False
        return used

    def of(self, words: Rows, known: np.ndarray) -> np.ndarray:
        """The slot of each key, -1 where not all of it is known."""
        slots = np.empty(len(words), np.int32)
        done = 0
        while True:
            done = kernel.number_keys(
                words, known, self.keys, self._table, self._free, self._left, done, slots
            )
            if done == len(words):
                return slots
            self._grow()

    def _grow(self) -> None:
        old = self.size
        size = max(_LEAST, 2 * old)
        keys = np.zeros((size, self.keys.shape[1]), np.int64)
        keys[:old] = self.keys
        used = self.used
        self.keys = keys
        self._marks = np.full(size, -1, np.int32)
        self._set_used(np.concatenate([used, np.zeros(size - old, np.bool_)]))

    def _set_used(self, used: np.ndarray) -> None:
        """Lowest slots are taken first."""
        free = np.flatnonzero(~used)[::-1].astype(np.int32)
        self._free = np.zeros(self.size, np.int32)
        self._free[: len(free)] = free
        self._left[0] = len(free)
        self.rehash()

    def rehash(self) -> None:
        """Words of keys have changed."""
        self._table = np.full(max(2 * _LEAST, 2 * self.size), -1, np.int32)
        kernel.hash_keys(self.keys, self.used, self._table)

    def keep(self, needed: np.ndarray) -> None:
        """Only these slots are needed any more."""
        used = self.used
        if (used & ~needed).any():
            self._set_used(used & needed)

    def together(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers in an order in which equal slots stand together, and the slots in that order."""
        order, distinct = np.empty(len(slots), np.int32), np.empty(len(slots), np.int32)
        count, many = kernel.by_slot(slots, self._marks, order, distinct)
        return order[:count], distinct[:many]

    def numbered(self, slots: Words) -> tuple[np.ndarray, Words]:
        """The different slots, and the number of each among them."""
        _, distinct = self.together(slots.astype(np.int32))
        places = np.zeros(self.size, np.int64)
        places[distinct] = np.arange(len(distinct))
        return distinct, places[slots]

    # ---- state ----

    @property
    def nbytes(self) -> int:
        arrays = (self.keys, self._table, self._free, self._marks)
        return sum(array.nbytes for array in arrays)

    def saved(self) -> State:
        return {"keys": self.keys.copy(), "used": self.used.astype(np.int64)}

    def load(self, state: State) -> None:
        used, keys = state["used"] != 0, checks.table(state, "keys", self.keys.shape[1])
        checks.sized(keys, len(used), "keys")
        self.keys = keys.copy()
        self._marks = np.full(len(used), -1, np.int32)
        self._set_used(used)
