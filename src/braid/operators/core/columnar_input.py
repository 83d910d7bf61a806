"""Events of a stream as columns: a loop that reads them in order makes rows of them itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from braid.jit.runtime import address
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows, write_sources
from braid.operators.core.kernels.columnar_input import Ring
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

    def ring(self) -> Any:
        """A ring that these rows go through; valid as long as this object."""
        ring = np.zeros((), Ring.dtype)
        ring["mask"], ring["row_size"], ring["count"] = _ROOM - 1, 8 * self.width, self._count
        ring["pieces"], ring["piece_count"] = address(self._table), len(self.pieces)
        return ring


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
