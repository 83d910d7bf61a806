"""What flows through a channel: events, and the members that each belongs to.

Membership is sparse: pairs of a row and a member's node, in order of rows. Without pairs, every
row is everybody's. An event is stored once, however many members it has; rows that no pair
names are not part of the channel. Nodes that events belong to all at once, like the streams that
one feed is for, are a *set* with a number of its own, so that such an event is one pair; so are
nodes that are many and written as bits. Whoever does not know sets gets them spelled out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from braid.operators.core.bit_sets import BitSets
from braid.operators.core.columns import Rows
from braid.operators.core.node_sets import Sets
from braid.operators.core.values import Words

Index = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True)
class Batch:
    """`index` and `members` are there or not together."""

    rows: Rows
    index: Index | None = None
    members: Index | None = None
    #: What members from SET on stand for.
    sets: Sets | BitSets | None = None
    #: Gives a word for each node: events that have one node often have those with words near it.
    near: Callable[[], Words | None] | None = None

    def spelled(self) -> Batch:
        """With single nodes only."""
        if self.sets is None or self.index is None or self.members is None:
            return self
        places, nodes = self.sets.spelled(self.members)
        return Batch(self.rows, self.index[places], nodes)

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
        return Batch(self.rows[used], places[self.index], self.members, self.sets)

    def alone(self) -> Rows:
        """The rows of a channel that is read as one member's: one for each pair."""
        assert self.sets is None
        if self.index is None or _is_each_once(self.index, len(self.rows)):
            return self.rows
        return self.rows[self.index]


def _is_each_once(index: Index, rows: int) -> bool:
    """Whether pairs name each row once, in order: then they need not be copied. The ends tell most
    that do not."""
    if len(index) != rows or not rows or index[0] or index[-1] != rows - 1:
        return False
    return bool((index[1:] > index[:-1]).all())


#: What a port will have; it is made when it is read, once.
Later = Callable[[], Batch]


def plain(rows: Rows) -> Batch:
    return Batch(rows)


def empty(width: int) -> Batch:
    return Batch(np.empty((0, width), np.int64))
