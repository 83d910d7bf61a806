"""The index that is none: every clause is tested, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.kernels.clauses import Clauses
from braid.kernels.keys import match_in_turn
from braid.kernels.memory import taken
from braid.mops.clause_index import Keys, Numbers, Pairs


def joined(parts: list[Clauses]) -> Clauses:
    """One set of clauses out of several."""
    if not parts:
        nothing = np.empty(0, np.int64)
        return Clauses(np.zeros(1, np.int64), nothing, nothing, nothing, nothing, nothing)
    starts, lows, highs = [np.zeros(1, np.int64)], [], []
    atoms = sets = 0
    for part in parts:
        starts.append(part.start[1:] + atoms)
        atoms += len(part.column)
        among = (part.kind == 2) | (part.kind == 3)
        lows.append(np.where(among, part.lo + sets, part.lo))
        highs.append(np.where(among, part.hi + sets, part.hi))
        sets += len(part.sets)
    return Clauses(
        np.concatenate(starts),
        np.concatenate([p.column for p in parts]),
        np.concatenate([p.kind for p in parts]),
        np.concatenate(lows),
        np.concatenate(highs),
        np.concatenate([p.sets for p in parts]),
    )


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
