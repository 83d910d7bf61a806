"""Events that are made into rows just before a loop looks at them.

Writing all rows of a batch and reading them later moves them through memory twice. A loop that reads
its input once, in order, has a ring of a few rows instead, which stays near: rows are placed into it
from the columns, and give way when the loop has gone on.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.memory import resized
from braid.jit.runtime import WORDS, kernel, load_foreign, load_int, store_int
from braid.operators.core.kernels.rows import place_rows

#: Words of a ring: its rows (address, number less one, bytes of a row), how many rows there are in
#: all and up to which they have been placed, and pieces of columns (address, number). A piece is a
#: row's number, the first that it has, and for each word of a row where the one of row 0 would be.
AT, MASK, STRIDE, COUNT, PLACED, PIECES, PIECE_COUNT, RING = range(8)


@kernel()
def fill(ring: int, first: int, last: int) -> None:
    """Place rows up to `last` at least; those before `first` are not needed any more."""
    stride, size = load_int(ring, STRIDE), load_int(ring, MASK) + 1
    if last - first > size or load_int(ring, AT) == 0:
        # Events of one instant may be many: they are there together.
        while size < 2 * (last - first):
            size *= 2
        store_int(ring, AT, resized(load_int(ring, AT), size * (stride >> 3)))
        store_int(ring, MASK, size - 1)
        store_int(ring, PLACED, first)
    at, width = load_int(ring, AT), stride >> 3
    placed, limit = load_int(ring, PLACED), min(load_int(ring, COUNT), first + size)
    pieces, count = load_int(ring, PIECES), load_int(ring, PIECE_COUNT)
    piece = 0
    while placed < limit:
        while piece + 1 < count and load_int(pieces, (piece + 1) * (width + 1)) <= placed:
            piece += 1
        end = min(limit, (placed | (size - 1)) + 1)
        if piece + 1 < count:
            end = min(end, load_int(pieces, (piece + 1) * (width + 1)))
        sources = pieces + 8 * (piece * (width + 1) + 1)
        place_rows(sources, width, placed, end, at + (placed & (size - 1)) * stride)
        placed = end
    store_int(ring, PLACED, placed)


#: Words of an array as Arrow's C data interface describes it, as far as they are read here.
NULL_COUNT, OFFSET, BUFFERS, CHILDREN = 1, 2, 5, 6


@kernel((types.int64, WORDS, WORDS))
def words_of_columns(batch: int, places: np.ndarray, found: np.ndarray) -> bool:
    """Where the words of a record batch of 64-bit columns are: for each word of a row that of row 0,
    in the column at its place (-1: nowhere, it is 0). Whether that holds: a column that has NULLs,
    or may have, is not read as it lies."""
    children = load_foreign(batch, CHILDREN)
    for k in range(places.shape[0]):
        found[k] = 0
        if places[k] >= 0:
            column = load_foreign(children, places[k])
            buffers = load_foreign(column, BUFFERS)
            if load_foreign(buffers, 0) != 0 and load_foreign(column, NULL_COUNT) != 0:
                return False
            found[k] = load_foreign(buffers, 1) + 8 * load_foreign(column, OFFSET)
    return True
