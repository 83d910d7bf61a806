"""Events of a stream that have not become rows yet: whoever reads them in order may do it himself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from braid.jit.runtime import address
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows, write_sources
from braid.operators.core.kernels import columnar_input as ring
from braid.operators.core.values import Words

#: Rows that are placed together at first.
_ROOM = 256


@dataclass(frozen=True)
class Piece:
    """Where the words of some events are: those of a first row, and how many rows.

    `owner` has the memory.
    """

    sources: Words
    first: int
    count: int
    owner: object


class Columns:
    """Events in order of `end`, as columns in one or more pieces."""

    def __init__(self, width: int, pieces: Sequence[Piece]) -> None:
        self.width = width
        self.pieces = pieces
        self._count = sum(piece.count for piece in pieces)

    def __len__(self) -> int:
        return self._count

    @cached_property
    def rows(self) -> Rows:
        rows, at = np.empty((self._count, self.width), np.int64), 0
        for piece in self.pieces:
            write_sources(rows[at : at + piece.count], piece.sources, piece.first)
            at += piece.count
        return rows

    @cached_property
    def _table(self) -> Words:
        table, at = np.empty((len(self.pieces), self.width + 1), np.int64), 0
        for line, piece in zip(table, self.pieces, strict=True):
            line[0] = at
            line[1:] = np.where(piece.sources > 0, piece.sources + 8 * (piece.first - at), 0)
            at += piece.count
        return table.reshape(-1)

    def ring(self) -> Words:
        """The words of a ring that these rows go through; valid as long as this object."""
        words = np.zeros(ring.RING, np.int64)
        words[ring.MASK], words[ring.STRIDE] = _ROOM - 1, 8 * self.width
        words[ring.COUNT] = self._count
        words[ring.PIECES], words[ring.PIECE_COUNT] = address(self._table), len(self.pieces)
        return words


def rows_of(events: Rows | Columns) -> Rows:
    return events.rows if isinstance(events, Columns) else events


class Unread(Batch):
    """What a source has for its one reader; rows are made if they are asked for."""

    columns: Columns

    def __init__(self, columns: Columns) -> None:
        object.__setattr__(self, "columns", columns)

    @property
    def rows(self) -> Rows:
        return self.columns.rows

    def __len__(self) -> int:
        return len(self.columns)
