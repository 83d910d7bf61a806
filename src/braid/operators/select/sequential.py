"""The index that is none: every clause is tested, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.jit.memory import taken
from braid.operators.core.kernels.clauses import IN, NOT_IN, Clauses
from braid.operators.core.kernels.keys import match_in_turn
from braid.operators.select.clause_index import Keys, Numbers, Pairs


def joined(parts: list[Clauses]) -> Clauses:
    """One set of clauses out of several."""
    if not parts:
        nothing = np.empty(0, np.int64)
        return Clauses(np.zeros(1, np.int64), nothing, nothing, nothing, nothing, nothing)
    start = [np.zeros(1, np.int64), *(part.start[1:] for part in parts)]
    starts, column, kind, lo, hi, sets = map(
        np.concatenate, (start, *zip(*(part[1:] for part in parts), strict=True))
    )
    atoms = [len(part.column) for part in parts]
    starts[1:] += np.repeat(_before(atoms), [part.total for part in parts])
    if len(sets):
        further = np.repeat(_before([len(part.sets) for part in parts]), atoms)
        further[(kind != IN) & (kind != NOT_IN)] = 0
        lo, hi = lo + further, hi + further
    return Clauses(starts, column, kind, lo, hi, sets)


def _before(sizes: list[int]) -> np.ndarray:
    """How much there is before each of these."""
    return np.cumsum([0, *sizes[:-1]])


def chosen(clauses: Clauses, which: np.ndarray) -> Clauses:
    """Some of the clauses; the sets stay as they are."""
    lengths = np.diff(clauses.start)[which]
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    begin = np.repeat(clauses.start[:-1][which] - start[:-1], lengths)
    atoms = np.arange(start[-1]) + begin
    return Clauses(
        start,
        clauses.column[atoms],
        clauses.kind[atoms],
        clauses.lo[atoms],
        clauses.hi[atoms],
        clauses.sets,
    )


class SequentialIndex:
    """All clauses against all rows."""

    def __init__(self) -> None:
        self._clauses = joined([])
        self._ids: Numbers = np.empty(0, np.int32)

    def add(self, clauses: Clauses, ids: Numbers) -> None:
        self._clauses = joined([self._clauses, clauses])
        self._ids = np.concatenate([self._ids, ids]).astype(np.int32)

    def remove(self, ids: Numbers) -> None:
        kept = ~np.isin(self._ids, ids)
        self._clauses = chosen(self._clauses, np.flatnonzero(kept))
        self._ids = self._ids[kept]

    def widen(self, columns: int) -> None:
        """Keys have more columns from now on: nothing to do."""

    def learn(self, keys: Keys) -> None:
        """There is nothing to choose."""

    def clear(self) -> None:
        self._clauses, self._ids = joined([]), np.empty(0, np.int32)

    def contents(self) -> tuple[Clauses, Numbers]:
        """All clauses and their ids."""
        return self._clauses, self._ids

    def match(self, keys: Keys) -> Pairs:
        rows_at, clauses_at, count = match_in_turn(keys, self._clauses)
        rows = taken(rows_at, count).astype(np.int32)
        return Pairs(rows, self._ids[taken(clauses_at, count)])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._clauses) + self._ids.nbytes

    def describe(self) -> dict[str, Any]:
        return {"form": "in turn", "clauses": len(self._ids)}
