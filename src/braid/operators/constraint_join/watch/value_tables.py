"""The values that watches remember: runs of orders, and hash tables of clusters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from braid.jit.runtime import address
from braid.operators.constraint_join.fields import Records
from braid.operators.constraint_join.kernels.arrivals import forget_ended, widen
from braid.operators.constraint_join.kernels.records import CLUSTERS, DECLARED, PROVES, WAITS
from braid.operators.constraint_join.kernels.watch import ENDLESS
from braid.operators.constraint_join.state import Stores
from braid.operators.core import checks
from braid.operators.core.values import Words

#: The rows of a table of runs and of a table of clusters, and the most that the latter may have.
_RUNS, _VALUES, _MOST_VALUES = 128, 2048, 16_384
#: The events for which a watch sleeps whose values had too little room.
_SLEEP = 16_000


class ValueTables:
    """A table for each watch of a column. `kinds`: of each watch."""

    def __init__(self, held: Stores, watches: Records, kinds: Sequence[int]) -> None:
        self._held, self._watches, self._kinds = held, watches, kinds
        self._tables: dict[int, Words] = {}

    def make(self) -> None:
        """Make room for values, where there is none."""
        for number, kind in enumerate(self._kinds):
            if kind != WAITS and not self._watches["room"][number]:
                rows = _VALUES if kind == CLUSTERS else _RUNS
                self._tables[number] = _empty(rows)
                self._watches["room"][number] = rows
        self._point()

    def drop(self) -> None:
        """Keep no room while no values are observed."""
        for number in self._tables:
            self._tables[number] = _empty(0)
            self._watches["room"][number] = 0
        self._point()

    def _point(self) -> None:
        for number, table in self._tables.items():
            self._watches["table"][number] = address(table)
        self._held.point_watches(self._watches)

    def widen(self) -> bool:
        """Make tables of clusters larger that are half full; False if one can't be."""
        for number, table in self._tables.items():
            watch = self._watches[number]
            if watch["kind"] != CLUSTERS or 2 * watch["entries"] < len(table):
                continue
            if len(table) >= _MOST_VALUES:
                return False
            larger = _empty(2 * len(table))
            widen(self._held.frame, number, larger)
            self._tables[number] = larger
        return True

    def make_room(self, since: Words) -> None:
        """Forget clusters that are over and have been used. Tables that are full nevertheless become
        larger, and empty. `since`: events of each input at the last walk."""
        for number, table in self._tables.items():
            watch = self._watches[number]
            if watch["kind"] != CLUSTERS:
                continue
            if not watch["entries"] and not watch["highest"]:
                continue
            forget_ended(self._held.frame, number)
            full = 2 * watch["entries"] >= len(table) or watch["highest"] == 1
            watch["highest"] = 0
            if full and len(table) < _MOST_VALUES:
                self._tables[number] = _empty(2 * len(table))
                watch["room"] = 2 * len(table)
                watch["sleeps_until"] = watch["sleeps"] = watch["entries"] = 0
                watch["phase"], watch["started"] = PROVES, -1
                watch["proved"] = since[watch["input"]]
            elif full:
                if watch["declared"] != DECLARED:
                    watch["k"] = ENDLESS
                watch["entries"], watch["started"] = 0, -1
                watch["sleeps_until"] = since[watch["input"]] + _SLEEP
                table[:] = -1
        self._point()

    def forget_values(self, watches: Iterable[int]) -> None:
        """Forget the values of some watches."""
        for number in watches:
            self._tables[number][:] = -1
            watch = self._watches[number]
            watch["entries"], watch["started"] = 0, -1

    # ---- state ----

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self._tables.values())

    def saved(self) -> Words:
        tables = [table.ravel() for table in self._tables.values()]
        return np.concatenate(tables) if tables else np.empty(0, np.int64)

    def check(self, saved: Words, watches: Records) -> None:
        """Check tables that were saved with watches."""
        rooms = watches["room"][list(self._tables)]
        checks.sized(saved, 2 * int(rooms.sum()), "tables of watches")

    def take(self, saved: Words) -> None:
        """Take tables that were saved, after the watches."""
        at = 0
        for number in self._tables:
            end = at + 2 * int(self._watches["room"][number])
            self._tables[number] = saved[at:end].reshape(-1, 2).copy()
            at = end
        self._point()


def _empty(rows: int) -> Words:
    return np.full((rows, 2), -1, np.int64)
