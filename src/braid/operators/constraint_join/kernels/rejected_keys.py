"""Rows that will never be in a result, and what is remembered of them (the *No* of the article).

Where a key is of one row at most, of all that come and not only of those that WHERE keeps
(`unique_keys.py`), and WHERE has refused that row, whoever waits for it waits in vain, and so does who
waits for those. Of refused rows only bits of their keys are kept, in two filters of
which the older one is forgotten when the newer one is full. Where rows are dropped and a filter errs
a result may be lost; so a key has bits in two words, which errs far less often than more words of one
would: with two words of room for a key once in some millions, and once in ten thousand when a filter
has five times the keys that it is made for.
"""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel, load_int, store_int
from braid.operators.constraint_join.kernels.eviction import after_refusal, asked_by, evict
from braid.operators.constraint_join.kernels.frame import (
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
from braid.operators.constraint_join.kernels.spill_filter import bits_of, word_of
from braid.operators.constraint_join.kernels.store import (
    BASE,
    EDGES,
    INDEX_WORDS,
    MARKS,
    REFUSED_AT,
    REFUSED_BEFORE_AT,
    REFUSED_KEYS,
    REFUSED_MASK,
    REFUSES,
    STORE_WORDS,
    WIDTH,
    find,
    following_of,
    hash_key,
    slot_at,
)
from braid.operators.core.kernels.instances import mix

#: What makes the second hash of a key.
_SECOND = np.int64(0x27D4EB2F165667C5)


@kernel()
def _has(filter_: int, mask: int, hash_: int) -> bool:
    bits = bits_of(hash_)
    return (load_int(filter_, word_of(hash_, mask)) & bits) == bits


@kernel()
def _set(filter_: int, mask: int, hash_: int) -> None:
    word = word_of(hash_, mask)
    store_int(filter_, word, load_int(filter_, word) | bits_of(hash_))


@kernel()
def _is_refused(index: int, hash_: int) -> bool:
    now = load_int(index, REFUSED_AT)
    if now == 0 or load_int(index, REFUSES) == 0:
        return False
    before, mask = load_int(index, REFUSED_BEFORE_AT), load_int(index, REFUSED_MASK)
    second = mix(hash_ ^ _SECOND)
    if _has(now, mask, hash_) and _has(now, mask, second):
        return True
    return _has(before, mask, hash_) and _has(before, mask, second)


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
        if load_int(index, REFUSED_KEYS) == 0 or load_int(index, REFUSES) == 0:
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
        if at == 0 or load_int(own, REFUSES) == 0:
            continue
        hash_ = hash_key(record, load_int(store, BASE), own)
        _set(at, load_int(own, REFUSED_MASK), hash_)
        _set(at, load_int(own, REFUSED_MASK), mix(hash_ ^ _SECOND))
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
                mask = asked_by(frame, back, other, row)
                evict(frame, other, slot, mask, after_refusal(frame, load_int(edge, EDGE_OWN)))
            slot = following
