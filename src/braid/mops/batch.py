"""What flows through a channel: events, and the members that each belongs to.

Membership is sparse: pairs of a row and a member's node, in order of rows. Without pairs, every
row is everybody's. An event is stored once, however many members it has; rows that no pair
names are not part of the channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from braid.mops.columns import Rows

Index = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True)
class Batch:
    """`index` and `members` are there or not together."""

    rows: Rows
    index: Index | None = None
    members: Index | None = None

    def __len__(self) -> int:
        return len(self.rows) if self.index is None else len(self.index)

    def compact(self) -> Batch:
        """Without the rows that no member has, if they are many."""
        if self.index is None or not len(self.rows):
            return self
        used = np.zeros(len(self.rows), np.bool_)
        used[self.index] = True
        count = int(np.count_nonzero(used))
        if 2 * count > len(self.rows):
            return self
        places = np.cumsum(used, dtype=np.int32) - np.int32(1)
        return Batch(self.rows[used], places[self.index], self.members)

    def alone(self) -> Rows:
        """The rows of a channel that is read as one member's: one for each pair."""
        return self.rows if self.index is None else self.rows[self.index]


def plain(rows: Rows) -> Batch:
    return Batch(rows)


def empty(width: int) -> Batch:
    return Batch(np.empty((0, width), np.int64))
