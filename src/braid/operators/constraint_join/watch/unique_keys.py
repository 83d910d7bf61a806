"""The tables in which kernels observe whether keys are of one row (`operators/constraint_join/kernels/unique_keys.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from braid.jit.runtime import address
from braid.operators.constraint_join.kernels import store as stores
from braid.operators.constraint_join.state import Stores
from braid.operators.core.values import Words

#: Words of a table, of which a half is used.
_ROOM = 1024
#: Events for which keys are observed before they are relied on, where no window says for how long others
#: wait.
_LONG = 16_384
_EARLIEST = -(2**63) + 1


class ObservedKeys:
    """Three tables of each index: a newer one, an older one, and one to work with."""

    def __init__(self, held: Stores, *, needed: bool) -> None:
        self._held, self._needed = held, needed
        self._tables: dict[int, Words] = {}
        self._room = _ROOM
        for edges in held.edges:
            for edge in edges:
                self._reach(edge.own, edge.second)
        self.forget()

    def _reach(self, index: int, waiting: int) -> None:
        """Keys are observed for as long as a row of the input that waits for them may wait. Where
        windows count rows, it is so many events."""
        record, window = self._held.indexes[index], self._held.stores[waiting]
        size, by_rows = int(window[stores.SIZE]), bool(window[stores.BY_ROWS])
        timed = size >= 0 and not by_rows
        known = record[stores.KEYS_SPAN]
        if known and bool(record[stores.KEYS_TIMED]) != timed:
            timed, size = False, max(_LONG, size if by_rows else 0)
        record[stores.KEYS_TIMED] = timed
        record[stores.KEYS_SPAN] = max(int(known), size if size >= 0 else _LONG, 1)

    def make(self) -> None:
        """Room for keys, where they are observed and there is none."""
        if self._needed and not self._tables:
            for index in range(len(self._held.indexes)):
                self._tables[index] = np.full((3, self._room), -1, np.int64)
            self.forget()

    def drop(self) -> None:
        """Keep no room while nothing is observed."""
        self._tables = {}
        self.forget()

    def forget(self) -> None:
        """Observe anew. Keys that were relied on are not, until as much has been seen again."""
        indexes = self._held.indexes
        indexes[:, [stores.KEYS_AT, stores.KEYS_BEFORE_AT, stores.KEYS_SPARE_AT]] = 0
        indexes[:, [stores.KEYS_HELD, stores.KEYS_OTHERS, stores.KEYS_PROVED]] = 0
        indexes[:, [stores.KEYS_SINCE, stores.KEYS_BEFORE_SINCE]] = _EARLIEST
        for index, tables in self._tables.items():
            tables[:] = -1
            self._point(index)

    def _point(self, index: int) -> None:
        words = [stores.KEYS_AT, stores.KEYS_BEFORE_AT, stores.KEYS_SPARE_AT]
        self._held.indexes[index, words] = [address(table) for table in self._tables[index]]
        self._held.indexes[index, stores.KEYS_MASK] = self._room - 1

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Observe nothing: events come again that have been observed."""
        kept = self._held.indexes[:, stores.KEYS_AT].copy()
        self._held.indexes[:, stores.KEYS_AT] = 0
        yield
        self._held.indexes[:, stores.KEYS_AT] = kept

    @property
    def nbytes(self) -> int:
        return sum(tables.nbytes for tables in self._tables.values())
