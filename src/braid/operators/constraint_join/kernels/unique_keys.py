"""Observes whether a key is of one row, from every event of an input.

What is in memory does not show it: WHERE refuses rows, and constraints let rows leave, so the first of
two rows of a key is often gone when the second one comes. So the hashes of some keys are remembered
here, whatever becomes of their rows: of one key in so many, in two tables of which the older one is
forgotten when the newer one is full. The tables are to reach back for as long as others wait for a row
(`KEYS_SPAN`). Where they are full before, half of the keys are forgotten and not observed any more.
"""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel, load_int, store_int
from braid.operators.constraint_join.kernels.frame import INDEXES_AT, NOW
from braid.operators.constraint_join.kernels.store import (
    ARRIVALS,
    BASE,
    EQUALS,
    FIRST_INDEX,
    INDEX_WORDS,
    INDEXES,
    KEYS_AT,
    KEYS_BEFORE_AT,
    KEYS_BEFORE_SINCE,
    KEYS_HELD,
    KEYS_MASK,
    KEYS_OTHERS,
    KEYS_PROVED,
    KEYS_SINCE,
    KEYS_SPAN,
    KEYS_SPARE_AT,
    KEYS_TIMED,
    hash_key,
    note_equal,
)

#: No key has this hash, and no time is as early.
_NONE = np.int64(-1)
_EARLIEST = np.int64(-9223372036854775807)


@kernel()
def _place_of(table: int, mask: int, hash_: int) -> int:
    """Where a hash is in a table, or where it would be. The lowest bits are the same of all."""
    place = (hash_ >> 20) & mask
    while load_int(table, place) != _NONE and load_int(table, place) != hash_:
        place = (place + 1) & mask
    return place


@kernel()
def _clear(table: int, mask: int) -> None:
    for place in range(mask + 1):
        store_int(table, place, _NONE)


@kernel()
def _keep_half(index: int) -> None:
    """Go on with half of the keys: those that are remembered of them become the older table."""
    mask, others = load_int(index, KEYS_MASK), 2 * load_int(index, KEYS_OTHERS) + 1
    spare, kept = load_int(index, KEYS_SPARE_AT), np.int64(0)
    _clear(spare, mask)
    for word in (KEYS_BEFORE_AT, KEYS_AT):
        table = load_int(index, word)
        for place in range(mask + 1):
            hash_ = load_int(table, place)
            if hash_ != _NONE and (hash_ & others) == 0 and 4 * kept < 3 * mask:
                store_int(spare, _place_of(spare, mask, hash_), hash_)
                kept += 1
    store_int(index, KEYS_OTHERS, others)
    store_int(index, KEYS_SPARE_AT, load_int(index, KEYS_BEFORE_AT))
    store_int(index, KEYS_BEFORE_AT, spare)


@kernel()
def _turn(index: int, clock: int) -> None:
    """The newer table is full."""
    mask, since = load_int(index, KEYS_MASK), load_int(index, KEYS_BEFORE_SINCE)
    if since == _EARLIEST or clock - since > load_int(index, KEYS_SPAN):
        before = load_int(index, KEYS_BEFORE_AT)
        store_int(index, KEYS_BEFORE_AT, load_int(index, KEYS_AT))
        store_int(index, KEYS_AT, before)
        store_int(index, KEYS_BEFORE_SINCE, load_int(index, KEYS_SINCE))
    else:
        _keep_half(index)
    store_int(index, KEYS_SINCE, clock)
    _clear(load_int(index, KEYS_AT), mask)
    store_int(index, KEYS_HELD, 0)


@kernel()
def _note(index: int, hash_: int, clock: int) -> bool:
    """Remember a key; whether it was there."""
    if load_int(index, KEYS_SINCE) == _EARLIEST:
        store_int(index, KEYS_SINCE, clock)
    mask, table = load_int(index, KEYS_MASK), load_int(index, KEYS_AT)
    before = load_int(index, KEYS_BEFORE_AT)
    if load_int(before, _place_of(before, mask, hash_)) == hash_:
        return True
    place = _place_of(table, mask, hash_)
    if load_int(table, place) == hash_:
        return True
    store_int(table, place, hash_)
    store_int(index, KEYS_HELD, load_int(index, KEYS_HELD) + 1)
    first = load_int(index, KEYS_BEFORE_SINCE)
    first = load_int(index, KEYS_SINCE) if first == _EARLIEST else first
    if clock - first > load_int(index, KEYS_SPAN):
        store_int(index, KEYS_PROVED, 1)
    if 2 * load_int(index, KEYS_HELD) > mask:
        _turn(index, clock)
    return False


@kernel()
def note_keys(frame: int, store: int, record: int) -> None:
    """An event has come, whether or not WHERE refuses it: has its key been there?"""
    indexes, first = load_int(frame, INDEXES_AT), load_int(store, FIRST_INDEX)
    for number in range(first, first + load_int(store, INDEXES)):
        index = indexes + number * (8 * INDEX_WORDS)
        if load_int(index, KEYS_AT) == 0 or load_int(index, EQUALS) != 0:
            continue
        hash_ = hash_key(record, load_int(store, BASE), index)
        if (hash_ & load_int(index, KEYS_OTHERS)) != 0:
            continue
        timed = load_int(index, KEYS_TIMED) != 0
        clock = load_int(frame, NOW) if timed else load_int(store, ARRIVALS)
        if _note(index, hash_, clock):
            note_equal(index, store, record)
