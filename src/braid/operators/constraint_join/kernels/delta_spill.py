"""Rows of relations that leave memory: into a log beside it, or for good but for a sample.

What is aside is a log of rows with weights. A row that goes need not be brought back for that: that
it has gone is written behind it, as the same row with a negative weight, and both are forgotten when
they meet, in memory or when pieces of the log are made one. Of the keys of what is aside only bits
are in memory, as `spill_filter.py` has them. That a row has gone needs none: those of the row are there.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.memory import resized
from braid.jit.runtime import ROWS, WORDS, address, kernel, load_int, store_int
from braid.operators.constraint_join.kernels.delta_store import (
    FLAG_BITS,
    SAMPLED,
    add_row,
    find_equal,
    leading_hash,
    remove_row,
    row_at,
    set_tail,
    tail_of,
    with_more,
)
from braid.operators.constraint_join.kernels.frame import (
    INDEXES_AT,
    KNOWN_AT,
    SAMPLES,
    SPILLS,
    STORES_AT,
)
from braid.operators.constraint_join.kernels.spill_filter import (
    is_known,
    known_place,
    may_be_aside,
    note_key,
)
from braid.operators.constraint_join.kernels.store import (
    ARRIVALS,
    ASIDE,
    BASE,
    BUFFER_AT,
    BUFFER_ROOM,
    BUFFER_ROWS,
    EVICTED,
    FIRST_INDEX,
    GONE_ASIDE,
    INDEX_WORDS,
    INDEXES,
    STORE_WORDS,
    STRIDE,
    hash_key,
)
from braid.operators.core.kernels.instances import mix


@kernel()
def _write(store: int, row: int, tail: int) -> None:
    """Write a row into the buffer, with another last word."""
    rows, words = load_int(store, BUFFER_ROWS), load_int(store, STRIDE) // 8
    if rows == load_int(store, BUFFER_ROOM):
        room = max(np.int64(64), 2 * rows)
        store_int(store, BUFFER_AT, resized(load_int(store, BUFFER_AT), room * words))
        store_int(store, BUFFER_ROOM, room)
    target = load_int(store, BUFFER_AT) + 8 * rows * words
    for word in range(words - 1):
        store_int(target, word, load_int(row, 2 + word))
    store_int(target, words - 1, tail)
    store_int(store, BUFFER_ROWS, rows + 1)
    store_int(store, ASIDE, load_int(store, ASIDE) + 1)


@kernel()
def put_aside(frame: int, store: int, row: int, tail: int) -> None:
    """Put a row aside, which is not held or will not be."""
    _write(store, row, tail)
    store_int(store, EVICTED, load_int(store, EVICTED) + 1)
    indexes, known = load_int(frame, INDEXES_AT), load_int(frame, KNOWN_AT)
    first = load_int(store, FIRST_INDEX)
    # The first index is of equal rows: nobody asks it for what is aside.
    for number in range(first + 1, first + load_int(store, INDEXES)):
        index = indexes + number * (8 * INDEX_WORDS)
        hash_ = hash_key(row, load_int(store, BASE), index)
        note_key(index, hash_)
        store_int(known, known_place(known, number, hash_), 0)


@kernel()
def note_gone(store: int, row: int, weight: int) -> None:
    """A row that is aside has gone, so often."""
    _write(store, row, -weight << FLAG_BITS)
    store_int(store, GONE_ASIDE, load_int(store, GONE_ASIDE) + 1)


@kernel()
def may_row_be_aside(frame: int, store: int, row: int) -> bool:
    """Whether a row that is not held may be aside."""
    if load_int(store, ASIDE) == 0:
        return False
    number = load_int(store, FIRST_INDEX) + 1
    index = load_int(frame, INDEXES_AT) + number * (8 * INDEX_WORDS)
    hash_ = hash_key(row, load_int(store, BASE), index)
    return may_be_aside(index, hash_) and not is_known(load_int(frame, KNOWN_AT), number, hash_)


@kernel()
def is_sampled(frame: int, store: int, slot: int) -> bool:
    number = load_int(store, EVICTED) + (load_int(store, ARRIVALS) << 20) + slot
    return (mix(number) & 1023) < load_int(frame, SAMPLES)


@kernel()
def let_go(frame: int, store: int, slot: int) -> bool:
    """A row leaves memory: it is put aside, or forgotten unless it is sampled. Whether it has."""
    row = row_at(store, slot)
    tail = tail_of(store, row)
    if tail == 0 or (tail & SAMPLED) != 0:
        return False
    if load_int(frame, SPILLS) != 0:
        put_aside(frame, store, row, tail)
    elif is_sampled(frame, store, slot):
        set_tail(store, row, tail | SAMPLED)
        return False
    else:
        store_int(store, EVICTED, load_int(store, EVICTED) + 1)
    remove_row(load_int(frame, INDEXES_AT), store, slot)
    return True


# ---- many at a time ----


@kernel((WORDS, types.int64, ROWS))
def bring_back(words: np.ndarray, number: int, rows: np.ndarray) -> None:
    """Take rows of the log into memory, those that have gone after those that they meet."""
    frame = address(words)
    store = load_int(frame, STORES_AT) + number * (8 * STORE_WORDS)
    indexes, last = load_int(frame, INDEXES_AT), rows.shape[1] - 1
    for k in range(rows.shape[0]):
        row, tail = address(rows) + k * (8 * rows.shape[1]) - 16, rows[k, last]
        hash_ = leading_hash(indexes, store, row)
        slot = find_equal(indexes, store, row, hash_)
        if slot < 0:
            if tail >> FLAG_BITS > 0:
                add_row(indexes, store, row, tail, hash_)
            continue
        held = row_at(store, slot)
        both = with_more(tail_of(store, held), tail)
        if tail < 0:
            both = tail_of(store, held) + tail
        if both >> FLAG_BITS > 0:
            set_tail(store, held, both)
        else:
            remove_row(indexes, store, slot)
