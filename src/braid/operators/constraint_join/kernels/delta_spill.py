"""Rows of relations that leave memory: they go to a log on disk, or are dropped but for a sample.

The log has rows with weights. A row that goes need not be brought back for that: the log gets the same
row with a negative weight. Both are dropped when they meet, in memory or when pieces of the log are
merged. The Bloom filters of `spill_filter.py` have the keys of the rows in the log. A negative weight
needs no key: the key of its row is there.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.hashing import mix
from braid.jit.records import Words
from braid.jit.runtime import ROWS, address, kernel
from braid.operators.constraint_join.kernels.delta_store import (
    FLAG_BITS,
    add_row,
    find_equal,
    leading_hash,
    merged_tails,
    remove_row,
    row_at,
    set_tail,
    tail_at,
)
from braid.operators.constraint_join.kernels.records import SAMPLED, Frame, Store
from braid.operators.constraint_join.kernels.spill_filter import (
    add_spilled_key,
    buffer_words,
    is_absent,
    may_be_spilled,
)
from braid.operators.constraint_join.kernels.store import hash_key
from braid.plan.layout import MASK


@kernel()
def _write(store: Store, row: Words, tail: int) -> None:
    """Write a row into the buffer, with another tail."""
    words = store.slot_words
    target = buffer_words(store.buffer, words)
    for word in range(words - 1):
        target[word] = row[MASK + word]
    target[words - 1] = tail
    store.spilled += 1


@kernel()
def spill_change(frame: Frame, store: Store, row: Words, tail: int) -> None:
    """Spill a row, which isn't held or won't be."""
    _write(store, row, tail)
    store.evicted += 1
    first = store.first_index
    # The first index chains equal rows: nothing looks up spilled rows in it.
    for number in range(first + 1, first + store.index_count):
        add_spilled_key(frame, number, hash_key(row, store.base, frame.indexes[number]))


@kernel()
def spill_deletion(store: Store, row: Words, weight: int) -> None:
    """A row on disk has gone, so often."""
    _write(store, row, -weight << FLAG_BITS)
    store.spilled_deletions += 1


@kernel()
def may_row_be_spilled(frame: Frame, store: Store, row: Words) -> bool:
    """Whether a row that isn't held may be on disk."""
    number = store.first_index + 1
    index = frame.indexes[number]
    hash_ = hash_key(row, store.base, index)
    return may_be_spilled(index, store, hash_) and not is_absent(frame.absent, number, hash_)


@kernel()
def is_sampled(frame: Frame, store: Store, slot: int) -> bool:
    number = store.evicted + (store.arrivals << 20) + slot
    return (mix(number) & 1023) < frame.samples


@kernel()
def evict_change(frame: Frame, store: Store, slot: int) -> bool:
    """Let the row of a slot leave: it is spilled, or dropped unless it is sampled; False if it stays."""
    row = row_at(store, slot)
    tail = tail_at(store, row)
    if tail == 0 or (tail & SAMPLED) != 0:
        return False
    if frame.spills != 0:
        spill_change(frame, store, row, tail)
    elif is_sampled(frame, store, slot):
        set_tail(store, row, tail | SAMPLED)
        return False
    else:
        store.evicted += 1
    remove_row(frame.indexes, store, slot)
    return True


# ---- many at a time ----


@kernel((Frame.type, types.int64, ROWS))
def bring_back(frame: Frame, number: int, rows: np.ndarray) -> None:
    """Take rows of the log into memory, deletions after the rows that they delete."""
    store, indexes, words = frame.stores[number], frame.indexes, rows.shape[1]
    first = Words(address(rows))
    for k in range(rows.shape[0]):
        row, tail = first.after(k * words - MASK), rows[k, words - 1]
        hash_ = leading_hash(indexes, store, row)
        slot = find_equal(indexes, store, row, hash_)
        if slot < 0:
            if tail >> FLAG_BITS > 0:
                add_row(indexes, store, row, tail, hash_)
            continue
        held = row_at(store, slot)
        both = merged_tails(tail_at(store, held), tail)
        if tail < 0:
            both = tail_at(store, held) + tail
        if both >> FLAG_BITS > 0:
            set_tail(store, held, both)
        else:
            remove_row(indexes, store, slot)
