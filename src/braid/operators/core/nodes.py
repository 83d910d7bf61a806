"""The nodes of an m-op: what its members have in common, numbered.

A *node* stands for all members that are the same so far: a predicate of a selection, a state
or an edge of a pattern. Members come and go; a node is there while somebody uses it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from braid.operators.core.kernels.nodes import (
    add_nodes,
    fill_nodes,
    find_nodes,
    mix_column,
    remove_node,
)

#: Bytes of a line of the cache.
LINE = 64

Signatures = np.ndarray[Any, np.dtype[np.int64]]
NodeNumbers = np.ndarray[Any, np.dtype[np.int64]]


def signatures(what: Hashable, count: int, columns: Sequence[np.ndarray]) -> Signatures:
    """Two words of content for each of `count` rows: what they have in common, then columns."""
    out = np.empty((count, 2), np.int64)
    out[:] = _digest(what)
    for column in columns:
        mix_column(out, column)
    return out


@lru_cache(1 << 14)
def _digest(what: Hashable) -> tuple[int, ...]:
    """Two words of content for what rows have in common, which is much the same for many."""
    digest = hashlib.blake2b(repr(what).encode(), digest_size=16).digest()
    return tuple(np.frombuffer(digest, np.int64).tolist())


class Nodes:
    """Numbers for signatures, with a count of uses."""

    def __init__(self) -> None:
        self._table = np.full(16, -1, np.int64)
        self.signatures: Signatures = np.zeros((8, 2), np.int64)
        self.uses = np.zeros(8, np.int64)
        self._free = np.zeros(8, np.int64)
        self._counts = np.zeros(2, np.int64)

    @property
    def high(self) -> int:
        """All numbers are below this."""
        return int(self._counts[0])

    @property
    def count(self) -> int:
        return int(self._counts[0] - self._counts[1])

    def add(self, wanted: Signatures) -> tuple[NodeNumbers, NodeNumbers]:
        """The node of each row, one use of it counted; and the rows that brought new ones."""
        self._reserve(self.high + len(wanted))
        fresh = np.empty(len(wanted), np.bool_)
        numbers = add_nodes(
            self._table, self.signatures, self.uses, self._free, self._counts, wanted, fresh
        )
        return numbers, fresh.nonzero()[0]

    def find(self, wanted: Signatures) -> NodeNumbers:
        """The node of each signature, or -1."""
        return find_nodes(self._table, self.signatures, wanted)

    def release(self, numbers: NodeNumbers) -> NodeNumbers:
        """One use less of each; the nodes that nobody uses any more, which keep their numbers
        until they are `retired`."""
        np.subtract.at(self.uses, numbers, 1)
        gone = np.unique(numbers[self.uses[numbers] <= 0])
        for number in gone:
            remove_node(self._table, self.signatures, number)
        return gone

    def retire(self, numbers: NodeNumbers) -> None:
        """Nothing refers to these any more: their numbers can be given again."""
        free = int(self._counts[1])
        needed = free + len(numbers)
        if needed > len(self._free):
            self._free = np.resize(self._free, max(needed, 2 * len(self._free)))
        self._free[free:needed] = numbers
        self._counts[1] = needed
        if needed > 64 and 4 * needed > 3 * self.high:
            self._trim()

    def _trim(self) -> None:
        """Most numbers are free: give the memory of the highest ones back."""
        taken = np.ones(self.high, np.bool_)
        taken[self._free[: self._counts[1]]] = False
        high = int(np.flatnonzero(taken).max(initial=-1)) + 1
        free = np.flatnonzero(~taken[:high])
        self._free = np.zeros(max(8, len(free)), np.int64)
        self._free[: len(free)] = free
        self._counts[:] = high, len(free)
        size = max(8, high)
        self.signatures, self.uses = self.signatures[:size].copy(), self.uses[:size].copy()
        numbers = self._table[self._table >= 0]
        room = 16
        while room < 4 * size:
            room *= 2
        self._table = np.full(room, -1, np.int64)
        fill_nodes(self._table, self.signatures, numbers)

    def renumber(self, new: NodeNumbers) -> None:
        """Give every number below `high` another one: number n becomes new[n]."""
        high, free = self.high, int(self._counts[1])
        self.signatures[new] = self.signatures[:high].copy()
        self.uses[new] = self.uses[:high].copy()
        self._free[:free] = new[self._free[:free]]
        known = self._table >= 0
        self._table[known] = new[self._table[known]]

    def _reserve(self, needed: int) -> None:
        if needed > len(self.uses):
            size = max(needed, 2 * len(self.uses))
            grown = np.zeros((size, 2), np.int64)
            grown[: len(self.signatures)] = self.signatures
            self.signatures = grown
            self.uses = np.append(self.uses, np.zeros(size - len(self.uses), np.int64))
        if 2 * needed > len(self._table):
            size = len(self._table)
            while size < 2 * needed:
                size *= 2
            numbers = self._table[self._table >= 0]
            self._table = np.full(size, -1, np.int64)
            fill_nodes(self._table, self.signatures, numbers)

    @property
    def nbytes(self) -> int:
        arrays = (self._table, self.signatures, self.uses, self._free)
        return sum(array.nbytes for array in arrays)


def grown(array: np.ndarray, needed: int, fill: int = 0) -> np.ndarray:
    """The array with room for at least so many rows; new ones hold `fill`."""
    if needed <= len(array):
        return array
    size = max(needed, len(array) + len(array) // 2, 8)
    out = aligned((size, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    out[len(array) :] = fill
    return out


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array that begins with a line of the cache, so that a row of eight words is in one."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + LINE, np.uint8)
    begin = -raw.ctypes.data % LINE
    return raw[begin : begin + size].view(dtype).reshape(shape)
