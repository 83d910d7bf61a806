"""Rows of words: events and instances as `plan/layout.py` describes them."""

from __future__ import annotations

import numpy as np

from braid.jit.records import Words
from braid.jit.runtime import kernel
from braid.plan.layout import MASK

#: The `end` that marks a free row. No event can have it: ingest rejects it.
FREE = np.int64(9223372036854775807)


@kernel()
def is_null(row: Words, column: int) -> bool:
    return ((row[MASK + (column >> 6)] >> (column & 63)) & 1) != 0


@kernel()
def set_null(row: Words, column: int) -> None:
    row[MASK + (column >> 6)] |= np.int64(1) << np.int64(column & 63)


@kernel()
def any_null(row: Words, base: int) -> bool:
    """Whether a row has a NULL; its first column is the word `base`."""
    for word in range(MASK, base):
        if row[word] != 0:
            return True
    return False
