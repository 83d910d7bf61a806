"""The log on disk of a constraint join of relations, in which rows come and go (`kernels/delta_spill.py`).

A row and its deletion meet when the pieces that they are in are merged, or when their key is looked up.
"""

from __future__ import annotations

import numpy as np

from braid.operators.constraint_join.delta.state import ChangeStores
from braid.operators.constraint_join.kernels.delta_spill import bring_back
from braid.operators.constraint_join.kernels.delta_store import FLAG_BITS
from braid.operators.constraint_join.kernels.records import IN_RESULT
from braid.operators.constraint_join.spill import rows as spilled_rows
from braid.operators.constraint_join.spill.rows import SpilledPieces
from braid.operators.core.columns import Rows
from braid.operators.core.values import Words

#: One row in so many that come or go may be brought back, else rows stay for some rounds: so many at
#: most.
_RARELY, _LONGEST_REST = 500, 64


class EvictionPause:
    """For how many rounds rows stay in memory, because too many of those that left came back: each
    costs as much time as some hundred others.

    Rows that have one result leave when their result has come (`of_results`: not for now). If many
    results go again, they leave when it has gone (`of_done`: not for now either). Rows without a result
    are counted apart (`of_others`).
    """

    def __init__(self) -> None:
        self.of_results = self.of_done = self.of_others = 0
        self._longest = np.zeros(3, np.int64)
        self._returned = np.zeros(2, np.int64)

    def note(self, returned: Words, changes: int) -> None:
        """A round is over, in which so many rows have come or gone; `returned`: rows that have been
        brought back by now, those that had been in a result and the others."""
        done, others = (_RARELY * (returned - self._returned) > changes).tolist()
        self._returned = returned.copy()
        # Those that left before go on coming back for a while.
        deeper = done and 0 < 2 * self.of_results <= self._longest[0]
        self.of_results = self._next(0, self.of_results, done)
        self.of_done = self._next(1, self.of_done, deeper)
        self.of_others = self._next(2, self.of_others, others)

    def _next(self, kind: int, left: int, again: bool) -> int:
        if left or not again:
            return max(left - 1, 0)
        self._longest[kind] = min(2 * self._longest[kind] + 8, _LONGEST_REST)
        return int(self._longest[kind])


def settled(records: Rows) -> Rows:
    """Equal rows as one, with the sum of their weights; those without any are gone."""
    if len(records) < 2:
        return records
    order = np.lexsort(records[:, :-1].T)
    rows, tails = records[order, :-1], records[order, -1]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    starts = np.flatnonzero(first)
    weights = np.add.reduceat(tails >> FLAG_BITS, starts)
    flags = np.maximum.reduceat(tails & ((1 << FLAG_BITS) - 1), starts)
    kept = weights != 0
    last = (weights << FLAG_BITS) | flags
    return np.concatenate([rows[starts[kept]], last[kept, None]], axis=1)


class SpilledChanges(SpilledPieces):
    """The log of one input."""

    def __init__(self, held: ChangeStores, number: int) -> None:
        store = held.stores[number]
        first = int(store["first_index"])
        # Nothing looks up spilled rows in the index of equal rows.
        indexes = range(first + 1, first + int(store["index_count"]))
        super().__init__(held, number, indexes, int(store["slot_words"]))
        #: Rows that have been brought back: those that had been in a result, and all others.
        self.returned = np.zeros(2, np.int64)

    def write(self) -> None:
        super().write()
        gone, rows = int(self._store["spilled_deletions"]), int(self._store["spilled"])
        if 2 * gone > max(spilled_rows.PIECE, rows - gone):
            self._rewrite()

    def _rewrite(self) -> None:
        """Let all deletions meet their rows."""
        tier = max((piece.tier for piece in self.pieces), default=0)
        records = self._settled(self._all())
        self._drop(list(self.pieces))
        self._empty_buffer()
        if len(records):
            self._add_piece(records, tier)
        self._rebuild_filters()

    def _settled(self, records: Rows) -> Rows:
        left = settled(records)
        self._store["spilled"] -= len(records) - len(left)
        self._store["spilled_deletions"] -= _gone(records) - _gone(left)
        return left

    def _asked_by(self, records: Rows, place: int) -> np.ndarray:
        return np.asarray(records[:, -1] > 0)

    def bring_back(self, index: int, hash_: int) -> None:
        """Take the rows with a key into memory, those that have not gone."""
        records = self._taken(index, hash_)
        gone = _gone(records)
        self._store["spilled_deletions"] -= gone
        self._store["returned"] += len(records) - gone
        had = int((records[records[:, -1] > 0, -1] & IN_RESULT).sum())
        self.returned += [had, len(records) - gone - had]
        if len(records):
            # What has gone meets the row that it was, which must be there.
            order = np.argsort(records[:, -1] < 0, kind="stable")
            bring_back(self._held.frame, self._number, np.ascontiguousarray(records[order]))

    def add(self, records: Rows) -> None:
        super().add(records)
        self._store["spilled_deletions"] += _gone(records)

    def records(self) -> Rows:
        """All rows of the log."""
        return settled(self._all())

    def forget(self) -> None:
        super().forget()
        self._store["spilled_deletions"] = 0


def _gone(records: Rows) -> int:
    return int((records[:, -1] < 0).sum())
