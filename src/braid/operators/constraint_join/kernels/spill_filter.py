"""Rows that are evicted to disk, and what stays in memory of them.

An evicted row is written into a buffer, which goes to a file when it is full. A Bloom filter of each
index keeps the keys of these rows. A probe asks the filter first. If the filter says that rows with
the key may be on disk, the search stops, the rows are brought back, and the search begins again. A
small table then remembers that no more rows of the key are on disk.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.bloom_filter import add_key, may_contain
from braid.jit.hashing import mix
from braid.jit.records import Words
from braid.jit.runtime import kernel
from braid.jit.vector import Vector, reserve
from braid.operators.constraint_join.kernels.records import (
    MASKED,
    AbsentKeys,
    Frame,
    Index,
    Store,
)
from braid.operators.constraint_join.kernels.store import hash_key, tail_of

#: Rows for which a buffer has room at first.
_ROOM = 64


@kernel()
def _place(absent: AbsentKeys, number: int, hash_: int) -> int:
    return mix(hash_ + number) & absent.mask


@kernel()
def is_absent(absent: AbsentKeys, number: int, hash_: int) -> bool:
    """Whether no row with a key of an index is known to be on disk."""
    return absent.entries[_place(absent, number, hash_)] == mix(hash_ + number) | 1


@kernel((AbsentKeys.type, types.int64, types.int64))
def note_absent(absent: AbsentKeys, number: int, hash_: int) -> None:
    """Remember that no row with a key of an index is on disk."""
    hash_ = np.int64(hash_)
    absent.entries[_place(absent, number, hash_)] = mix(hash_ + number) | 1


@kernel()
def add_spilled_key(frame: Frame, number: int, hash_: int) -> None:
    """A row with a key of an index goes to disk."""
    add_key(frame.indexes[number].spilled, hash_)
    absent = frame.absent
    absent.entries[_place(absent, number, hash_)] = 0


@kernel()
def may_be_spilled(index: Index, store: Store, hash_: int) -> bool:
    """Whether rows with a key may be on disk."""
    return store.spilled > 0 and may_contain(index.spilled, hash_)


@kernel()
def buffer_words(buffer: Vector, words: int) -> Words:
    """Room for so many more words in a buffer, which are in it from now on."""
    reserve(buffer, words, _ROOM * words)
    begin = buffer.count
    buffer.count = begin + words
    return buffer.items.after(begin)


@kernel()
def spill_row(frame: Frame, store: Store, record: Words, mask: int) -> None:
    """Write a held row into the buffer, and its keys into the filters: of the indexes of a mask, or of
    all if that is 0."""
    tail_of(store, record).flags |= mask << MASKED
    words = store.record_words
    target = buffer_words(store.buffer, words)
    for word in range(words):
        target[word] = record[word]
    store.spilled += 1
    store.evicted += 1
    first = store.first_index
    for number in range(first, first + store.index_count):
        if mask == 0 or ((mask >> (number - first)) & 1) != 0:
            add_spilled_key(frame, number, hash_key(record, store.base, frame.indexes[number]))
