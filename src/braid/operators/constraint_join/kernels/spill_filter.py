"""Rows that leave memory before they leave their window: what is remembered of them.

A row that will probably not join any more is written into a buffer, which goes to a file when it
is full. Of its keys only bits stay in memory: for each index a filter of one word for each key that
hashes there, five bits a key. Whoever looks a key up asks the filter first. If it says that the key
may be aside, the search stops, the rows are brought back, and the search begins again; what was
looked for is then in a small table of keys that are known not to be aside.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.memory import resized
from braid.jit.runtime import WORDS, address, kernel, load_int, store_int
from braid.operators.constraint_join.kernels.store import (
    ASIDE,
    BASE,
    BUFFER_AT,
    BUFFER_ROOM,
    BUFFER_ROWS,
    EVICTED,
    FILTER_AT,
    FILTER_MASK,
    FILTERED,
    FIRST_INDEX,
    FLAGS,
    INDEX_WORDS,
    INDEXES,
    MASKED,
    RECORD,
    WIDTH,
    hash_key,
)
from braid.operators.core.kernels.instances import mix

#: Keys that are known not to be aside: a power of two. Their table begins with its length less one.
KNOWN = 4096


@kernel()
def bits_of(hash_: int) -> int:
    """Five bits of a word, or fewer."""
    spread = mix(hash_)
    one = np.int64(1)
    bits = one << (spread & 63)
    bits |= one << ((spread >> 6) & 63)
    bits |= one << ((spread >> 12) & 63)
    bits |= one << ((spread >> 18) & 63)
    bits |= one << ((spread >> 24) & 63)
    return bits


@kernel()
def word_of(hash_: int, mask: int) -> int:
    return (hash_ >> 20) & mask


@kernel()
def note_key(index: int, hash_: int) -> None:
    """Put a key into the filter of an index."""
    at = load_int(index, FILTER_AT)
    word = word_of(hash_, load_int(index, FILTER_MASK))
    store_int(at, word, load_int(at, word) | bits_of(hash_))
    store_int(index, FILTERED, load_int(index, FILTERED) + 1)


@kernel()
def may_be_aside(index: int, hash_: int) -> bool:
    at = load_int(index, FILTER_AT)
    if at == 0:
        return False
    bits = bits_of(hash_)
    return (load_int(at, word_of(hash_, load_int(index, FILTER_MASK))) & bits) == bits


@kernel()
def known_place(known: int, number: int, hash_: int) -> int:
    return 1 + (mix(hash_ + number) & load_int(known, 0))


@kernel()
def is_known(known: int, number: int, hash_: int) -> bool:
    """Whether a key is known not to be aside."""
    return load_int(known, known_place(known, number, hash_)) == mix(hash_ + number) | 1


@kernel((WORDS, types.int64, types.int64))
def know(words: np.ndarray, number: int, hash_: int) -> None:
    """Remember that a key is not aside."""
    known = address(words)
    store_int(known, known_place(known, number, hash_), mix(np.int64(hash_ + number)) | 1)


@kernel()
def set_aside(indexes: int, store: int, record: int, known: int, mask: int) -> None:
    """Write a record into the buffer, and its keys into the filters: of the indexes of a mask, or of
    all if that is 0."""
    place = load_int(store, WIDTH) + FLAGS
    store_int(record, place, load_int(record, place) | (mask << MASKED))
    rows, words = load_int(store, BUFFER_ROWS), load_int(store, RECORD)
    if rows == load_int(store, BUFFER_ROOM):
        room = max(np.int64(64), 2 * rows)
        store_int(store, BUFFER_AT, resized(load_int(store, BUFFER_AT), room * words))
        store_int(store, BUFFER_ROOM, room)
    target = load_int(store, BUFFER_AT) + 8 * rows * words
    for word in range(words):
        store_int(target, word, load_int(record, word))
    store_int(store, BUFFER_ROWS, rows + 1)
    store_int(store, ASIDE, load_int(store, ASIDE) + 1)
    store_int(store, EVICTED, load_int(store, EVICTED) + 1)
    first = load_int(store, FIRST_INDEX)
    for number in range(first, first + load_int(store, INDEXES)):
        if mask != 0 and ((mask >> (number - first)) & 1) == 0:
            continue
        index = indexes + number * (8 * INDEX_WORDS)
        hash_ = hash_key(record, load_int(store, BASE), index)
        note_key(index, hash_)
        store_int(known, known_place(known, number, hash_), 0)
