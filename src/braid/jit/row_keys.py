"""Keys of rows: the hash of some columns, and whether the columns of two rows are equal.

NULL is a value that equals itself. Floats are equal if they are the same number: all NaNs are one, and
so are both zeros.
"""

from __future__ import annotations

import numpy as np

from braid.jit.hashing import canonical_float, mix
from braid.jit.records import Record, Words, i64, record
from braid.jit.rows import FREE, is_null
from braid.jit.runtime import kernel

#: How a column of a key is compared: as equal words, or as equal floats.
AS_WORD, AS_FLOAT = range(2)

#: The hash of a key of one column, not a float, is the mix of its word and this.
SEED = np.int64(0x9E3779B97F4A7C)
_NULL = np.int64(0x5851F42D4C957F2D)


@record
class KeyColumn(Record):
    """A column of a key, and how it is compared."""

    column: i64
    how: i64


@kernel()
def add_to_hash(value: int, row: Words, base: int, column: int, how: int) -> int:
    """A hash of some columns, with one more; the first column of a row is the word `base`."""
    if is_null(row, column):
        return mix(value + _NULL)
    word = row[base + column]
    if how != AS_WORD:
        word = canonical_float(word)
    return mix(value + word + SEED)


@kernel()
def hash_key(row: Words, base: int, columns: KeyColumn, count: int) -> int:
    """The hash of so many columns; it isn't negative."""
    value = np.int64(0)
    for k in range(count):
        value = add_to_hash(value, row, base, columns[k].column, columns[k].how)
    return value & FREE


@kernel()
def same_value(
    row: Words, base: int, column: int, other: Words, other_base: int, other_column: int, how: int
) -> bool:
    """Whether two columns are equal."""
    null = is_null(row, column)
    if null or is_null(other, other_column):
        return null and is_null(other, other_column)
    x, y = row[base + column], other[other_base + other_column]
    if x == y:
        return True
    return how != AS_WORD and canonical_float(x) == canonical_float(y)


@kernel()
def same_key(row: Words, other: Words, base: int, columns: KeyColumn, count: int) -> bool:
    """Whether two rows of one layout are equal in so many columns."""
    for k in range(count):
        column = columns[k].column
        if not same_value(row, base, column, other, base, column, columns[k].how):
            return False
    return True
