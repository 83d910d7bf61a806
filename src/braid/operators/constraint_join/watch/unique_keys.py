"""The sets in which kernels observe whether keys are unique (`kernels/unique_keys.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from braid.jit.runtime import address
from braid.operators.constraint_join.fields import Records
from braid.operators.constraint_join.state import Stores
from braid.operators.core.values import Words

#: Places of a set: half of them are used.
_ROOM = 1024
#: The events for which keys are observed before one is taken to be unique, if no window says how long
#: other rows wait.
_LONG = 16_384
_EARLIEST = -(2**63) + 1


class KeyObserver:
    """The sets of observed keys of each index: a newer one, an older one, and one to work with."""

    def __init__(self, held: Stores, *, needed: bool) -> None:
        self._held, self._needed = held, needed
        self._tables: dict[int, Words] = {}
        #: The `ObservedKeys` of each index.
        self._observed: Records = held.indexes["observed"][:, 0]
        for edges in held.edges:
            for edge in edges:
                self._reach(edge.own, edge.second)
        self.forget()

    def _reach(self, index: int, waiting: int) -> None:
        """Let keys be observed for as long as a row of the input that waits for them may wait. If windows
        count rows, that is a number of events."""
        record, window = self._observed[index], self._held.stores[waiting]
        size, by_rows = int(window["size"]), bool(window["by_rows"])
        timed = size >= 0 and not by_rows
        known = int(record["span"])
        if known and bool(record["timed"]) != timed:
            timed, size = False, max(_LONG, size if by_rows else 0)
        record["timed"] = timed
        record["span"] = max(known, size if size >= 0 else _LONG, 1)

    def make(self) -> None:
        """Make room for keys, if they are observed and there is none."""
        if self._needed and not self._tables:
            for index in range(len(self._held.indexes)):
                self._tables[index] = np.full((3, _ROOM), -1, np.int64)
            self.forget()

    def drop(self) -> None:
        """Keep no room while nothing is observed."""
        self._tables = {}
        self.forget()

    def forget(self) -> None:
        """Observe from the start. No key is taken to be unique until as much has been seen again."""
        observed = self._observed
        observed[["newer", "older", "spare", "count", "skipped", "complete"]] = 0
        observed[["since", "older_since"]] = _EARLIEST
        for index, tables in self._tables.items():
            tables[:] = -1
            record = observed[index]
            record["newer"], record["older"], record["spare"] = map(address, tables)
            record["mask"] = _ROOM - 1

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Observe nothing: events come again that have been observed."""
        kept = self._observed["newer"].copy()
        self._observed["newer"] = 0
        yield
        self._observed["newer"] = kept

    @property
    def nbytes(self) -> int:
        return sum(tables.nbytes for tables in self._tables.values())
