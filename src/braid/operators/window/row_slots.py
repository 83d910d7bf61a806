"""Rows that windows and relations keep, each once with the number of references to it."""

from __future__ import annotations

import numpy as np

from braid.jit import records
from braid.jit.rows import FREE
from braid.operators.core.columns import Rows
from braid.operators.core.values import Words
from braid.operators.window.kernels import row_slots as kernel
from braid.operators.window.kernels.row_slots import RowSlots
from braid.plan.layout import END, START


class Slots:
    """Rows, their counts of references, and the record of both for kernels."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._memory = np.zeros(1, RowSlots.dtype)
        self.record = RowSlots.at(self._memory)
        self.load(np.empty((0, width), np.int64))

    def load(self, rows: Rows) -> None:
        self.rows = np.ascontiguousarray(rows)
        self.refs: Words = np.zeros(len(rows), np.int64)
        self._point()
        slots, used = self.record, rows[rows[:, END] != FREE, START]
        slots.width, slots.high, slots.live = self._width, len(rows), len(rows)
        slots.first_free, slots.last_free = -1, -1
        slots.number = int(used.max(initial=-1)) + 1

    def _point(self) -> None:
        self.record.rows = records.Words.at(self.rows)
        self.record.refs = records.Words.at(self.refs)

    def reserve(self, count: int) -> None:
        """Have room for so many more rows."""
        high = self.record.high
        needed = max(high, self.live + count)
        if needed > len(self.rows):
            size = max(needed, len(self.rows) + len(self.rows) // 2)
            rows, refs = np.empty((size, self._width), np.int64), np.empty(size, np.int64)
            rows[:high], refs[:high] = self.rows[:high], self.refs[:high]
            self.rows, self.refs = rows, refs
            self._point()

    def free_unused(self) -> None:
        kernel.free_unused(self.record)

    @property
    def live(self) -> int:
        return int(self.record.live)

    @property
    def used(self) -> Rows:
        """All slots that were ever used."""
        return self.rows[: self.record.high]

    @property
    def is_sparse(self) -> bool:
        """Whether there is so much room for few rows that packing them is worth its time."""
        return len(self.rows) > 4096 and 8 * self.live < len(self.rows)

    def places(self) -> Words:
        """The slots to which something refers."""
        return np.flatnonzero(self.refs[: self.record.high] > 0)

    def saved(self) -> Rows:
        """All slots in place, so that a row that did not change is where it was."""
        rows = self.used.copy()
        rows[self.refs[: len(rows)] <= 0] = FREE
        return rows

    def packed(self) -> Words:
        """Move the rows together; the new slot of each old one."""
        places = self.places()
        mapping = np.zeros(self.record.high, np.int64)
        mapping[places] = np.arange(len(places))
        self.load(self.rows[places])
        return mapping

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.refs.nbytes
