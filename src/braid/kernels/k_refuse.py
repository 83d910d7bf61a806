"""Rows that will never be in a result, and what is remembered of them (the *No* of the article).

Where a key is of one row at most and WHERE has refused that row, whoever waits for it waits in vain,
and so does who waits for those. Of refused rows only bits of their keys are kept, in two filters of
which the older one is forgotten when the newer one is full. Where rows are dropped and a filter errs
a result may be lost, about one in a hundred thousand rows.
"""

from __future__ import annotations

import numpy as np

from braid.kernels.k_aside import bits_of, word_of
from braid.kernels.k_frame import (
    EDGE_BACK,
    EDGE_INDEX,
    EDGE_OTHER,
    EDGE_OWN,
    EDGE_WORDS,
    EDGES_AT,
    INDEXES_AT,
    INPUTS,
    STORES_AT,
)
from braid.kernels.k_leave import asked_by, evict
from braid.kernels.k_store import (
    BASE,
    EDGES,
    INDEX_WORDS,
    IS_ONE,
    MARKS,
    REFUSED_AT,
    REFUSED_BEFORE_AT,
    REFUSED_KEYS,
    REFUSED_MASK,
    STORE_WORDS,
    WIDTH,
    find,
    following_of,
    hash_key,
    slot_at,
)
from braid.kernels.runtime import kernel, load_int, store_int


@kernel()
def _is_refused(index: int, hash_: int) -> bool:
    at = load_int(index, REFUSED_AT)
    if at == 0 or load_int(index, IS_ONE) == 0:
        return False
    word, bits = word_of(hash_, load_int(index, REFUSED_MASK)), bits_of(hash_)
    if (load_int(at, word) & bits) == bits:
        return True
    return (load_int(load_int(index, REFUSED_BEFORE_AT), word) & bits) == bits


@kernel()
def is_in_vain(frame: int, driver: int, record: int) -> int:
    """The edge by which an event waits for a row that has been refused, or 0."""
    stores, indexes = load_int(frame, STORES_AT), load_int(frame, INDEXES_AT)
    store = stores + driver * (8 * STORE_WORDS)
    edges = load_int(frame, EDGES_AT) + driver * load_int(frame, INPUTS) * (8 * EDGE_WORDS)
    for place in range(load_int(store, EDGES)):
        edge = edges + place * (8 * EDGE_WORDS)
        index = indexes + load_int(edge, EDGE_INDEX) * (8 * INDEX_WORDS)
        if load_int(record, load_int(store, WIDTH) + MARKS + place) < 0:
            continue
        if load_int(index, REFUSED_KEYS) == 0 or load_int(index, IS_ONE) == 0:
            continue
        own = indexes + load_int(edge, EDGE_OWN) * (8 * INDEX_WORDS)
        if _is_refused(index, hash_key(record, load_int(store, BASE), own)):
            return edge
    return np.int64(0)


@kernel()
def refuse(frame: int, driver: int, record: int) -> None:
    """An event will never be in a result: those who wait for it leave."""
    stores, indexes = load_int(frame, STORES_AT), load_int(frame, INDEXES_AT)
    store = stores + driver * (8 * STORE_WORDS)
    edges = load_int(frame, EDGES_AT) + driver * load_int(frame, INPUTS) * (8 * EDGE_WORDS)
    for place in range(load_int(store, EDGES)):
        edge = edges + place * (8 * EDGE_WORDS)
        own = indexes + load_int(edge, EDGE_OWN) * (8 * INDEX_WORDS)
        at = load_int(own, REFUSED_AT)
        if at == 0 or load_int(own, IS_ONE) == 0:
            continue
        hash_ = hash_key(record, load_int(store, BASE), own)
        word = word_of(hash_, load_int(own, REFUSED_MASK))
        store_int(at, word, load_int(at, word) | bits_of(hash_))
        store_int(own, REFUSED_KEYS, load_int(own, REFUSED_KEYS) + 1)
        other = stores + load_int(edge, EDGE_OTHER) * (8 * STORE_WORDS)
        index = indexes + load_int(edge, EDGE_INDEX) * (8 * INDEX_WORDS)
        mark = load_int(other, WIDTH) + MARKS + load_int(edge, EDGE_BACK)
        theirs = load_int(edge, EDGE_OTHER) * load_int(frame, INPUTS) + load_int(edge, EDGE_BACK)
        back = load_int(frame, EDGES_AT) + theirs * (8 * EDGE_WORDS)
        slot = find(index, other, hash_)
        while slot >= 0:
            following = following_of(index, other, slot, hash_)
            row = slot_at(other, slot)
            if load_int(row, mark) >= 0:
                evict(frame, other, slot, asked_by(frame, back, other, row))
            slot = following
