"""Makes rows of events just before a loop reads them.

Writing all rows of a batch and reading them later moves them through memory twice. A loop that reads
its input once, in order, has a ring of a few rows instead, which stays in the cache: rows are placed
into it from the columns, and are overwritten when the loop has gone on.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.memory import resized
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import WORDS, kernel, load_foreign
from braid.operators.core.kernels.rows import place_rows


@record
class Ring(Record):
    """Rows on their way from columns to a loop. `mask` is the number of rows less one.

    A piece of columns is the number of its first row, then for each word of a row where that word of
    row 0 would be.
    """

    rows: Words
    mask: i64
    row_size: i64
    #: Rows in all, and those that have been placed.
    count: i64
    placed: i64
    pieces: Words
    piece_count: i64


@kernel()
def fill(ring: Ring, first: int, last: int) -> None:
    """Place rows up to `last` at least; those before `first` are not needed any more."""
    size, width = ring.mask + 1, ring.row_size >> 3
    if last - first > size or ring.rows.address == 0:
        # Events of one instant may be many: they are there together.
        while size < 2 * (last - first):
            size *= 2
        ring.rows = Words(resized(ring.rows, size * width))
        ring.mask = size - 1
        ring.placed = first
    placed, limit = ring.placed, min(ring.count, first + size)
    pieces, count = ring.pieces, ring.piece_count
    piece = 0
    while placed < limit:
        while piece + 1 < count and pieces[(piece + 1) * (width + 1)] <= placed:
            piece += 1
        end = min(limit, (placed | (size - 1)) + 1)
        if piece + 1 < count:
            end = min(end, pieces[(piece + 1) * (width + 1)])
        sources = pieces.after(piece * (width + 1) + 1)
        place_rows(sources, width, placed, end, ring.rows.after((placed & (size - 1)) * width))
        placed = end
    ring.placed = placed


@record
class ArrowArray(Record):
    """An array as Arrow's C data interface describes it."""

    length: i64
    null_count: i64
    offset: i64
    buffer_count: i64
    child_count: i64
    buffers: i64
    children: i64


_NULL_COUNT, _OFFSET = ArrowArray.word("null_count"), ArrowArray.word("offset")
_BUFFERS, _CHILDREN = ArrowArray.word("buffers"), ArrowArray.word("children")


@kernel((types.int64, WORDS, WORDS))
def words_of_columns(batch: int, places: np.ndarray, found: np.ndarray) -> bool:
    """Where the words of a record batch of 64-bit columns are: for each word of a row that of row 0,
    in the column at its place (-1: nowhere, it is 0). Whether that holds: a column that has NULLs,
    or may have, is not read as it lies."""
    children = load_foreign(batch, _CHILDREN)
    for k in range(places.shape[0]):
        found[k] = 0
        if places[k] >= 0:
            column = load_foreign(children, places[k])
            buffers = load_foreign(column, _BUFFERS)
            if load_foreign(buffers, 0) != 0 and load_foreign(column, _NULL_COUNT) != 0:
                return False
            found[k] = load_foreign(buffers, 1) + 8 * load_foreign(column, _OFFSET)
    return True
