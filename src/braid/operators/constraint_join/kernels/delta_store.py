"""What a join holds of relations that come and go, in as few bytes as it can.

A slot is a row without its times: null bits, columns, and one word with the weight and flags. Rows
are spoken of by the address that they would have with their times, so that columns are where
they are in all rows. An index has two halves of a word for each slot, the next and the previous slot
of its chain, and heads of half a word, one for two rows at least; hashes are not kept, keys are
compared.

The first index of an input chains equal rows. It is there only if it is needed: where the chains
of another one are short, a row that goes is found in one of those (`heads_at`: 0 until then).

Numbers of stores and indexes are those of `store.py`; what is not used of them stays 0. Of the
first index, `BY_WORDS` says whether rows are equal if their words are: no column is a float.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.memory import release, resized
from braid.jit.runtime import (
    ROWS,
    WORDS,
    address,
    kernel,
    load_half,
    load_int,
    prefetch,
    store_half,
    store_int,
)
from braid.operators.constraint_join.kernels.frame import INDEXES_AT
from braid.operators.constraint_join.kernels.join import store_of
from braid.operators.constraint_join.kernels.store import (
    ARRIVALS,
    BASE,
    CAPACITY,
    COLUMNS_AT,
    COUNT,
    EQUAL_AT,
    EQUAL_NUMBER,
    EQUAL_VALUE,
    EQUALS,
    FIRST_INDEX,
    FOUND,
    FREE_HEAD,
    HEADS_AT,
    HIGH,
    INDEX_WORDS,
    INDEXES,
    IS_ONE,
    LINK_AT,
    MASK,
    OLDEST,
    PEAK,
    PROBES,
    SLOTS_AT,
    STRIDE,
    WIDTH,
    hash_key,
    same_key,
)
from braid.operators.core.kernels.instances import any_null

#: Bits of the last word below the weight: the row has been in a result; it would not be here but
#: for being sampled; then some that say when it came, in ticks.
IN_RESULT, SAMPLED = 1, 2
_TICKS_FROM, _TICK_BITS = 2, 20
FLAG_BITS = _TICKS_FROM + _TICK_BITS
#: Ticks are so many rows that come to the join: two to this. Numbers of ticks begin anew.
TICK = 4
_TICK_MASK = (1 << _TICK_BITS) - 1
_STAMPED = _TICK_MASK << _TICKS_FROM
#: The times that rows are held without, in bytes.
_TIMES = 16

BY_WORDS = IS_ONE
#: Of a store: whether one of its other indexes is of a key that was declared (`IS_ONE` of that one).
KEYED = OLDEST


@kernel()
def row_at(store: int, slot: int) -> int:
    return load_int(store, SLOTS_AT) + slot * load_int(store, STRIDE) - _TIMES


@kernel()
def slot_of(store: int, row: int) -> int:
    return (row + _TIMES - load_int(store, SLOTS_AT)) // load_int(store, STRIDE)


@kernel()
def tail_of(store: int, row: int) -> int:
    """The weight and the flags of a row that is held; 0 if nothing is."""
    return load_int(row, load_int(store, WIDTH) - 1)


@kernel()
def set_tail(store: int, row: int, tail: int) -> None:
    store_int(row, load_int(store, WIDTH) - 1, tail)


@kernel()
def stamp(rows: int) -> int:
    """What the last word of a row says if it comes after so many."""
    return ((rows >> TICK) & _TICK_MASK) << _TICKS_FROM


@kernel()
def age_of(tail: int, rows: int) -> int:
    """How many rows have come after one, about."""
    return (((rows >> TICK) - (tail >> _TICKS_FROM)) & _TICK_MASK) << TICK


@kernel()
def with_more(tail: int, more: int) -> int:
    """The last word of a row when an equal one comes: it has both weights, and has come just now."""
    weights = ((tail >> FLAG_BITS) + (more >> FLAG_BITS)) << FLAG_BITS
    flags = (tail | more) & (IN_RESULT | SAMPLED)
    return weights | flags | (more & _STAMPED)


# ---- chains ----


@kernel()
def head_of(index: int, hash_: int) -> int:
    return np.int64(load_half(load_int(index, HEADS_AT), hash_ & load_int(index, MASK)))


@kernel()
def next_slot(index: int, slot: int) -> int:
    return np.int64(load_half(load_int(index, LINK_AT), 2 * slot))


@kernel()
def _chain(index: int, slot: int, hash_: int) -> None:
    heads, links = load_int(index, HEADS_AT), load_int(index, LINK_AT)
    bucket = hash_ & load_int(index, MASK)
    first = np.int64(load_half(heads, bucket))
    store_half(links, 2 * slot, first)
    store_half(links, 2 * slot + 1, -1)
    if first >= 0:
        store_half(links, 2 * first + 1, slot)
    store_half(heads, bucket, slot)


@kernel()
def _unchain(index: int, slot: int, row: int, base: int) -> None:
    links = load_int(index, LINK_AT)
    following = np.int64(load_half(links, 2 * slot))
    previous = np.int64(load_half(links, 2 * slot + 1))
    if following >= 0:
        store_half(links, 2 * following + 1, previous)
    if previous >= 0:
        store_half(links, 2 * previous, following)
    else:
        bucket = hash_key(row, base, index) & load_int(index, MASK)
        store_half(load_int(index, HEADS_AT), bucket, following)


@kernel()
def hang_all(index: int, store: int, heads: int) -> None:
    """Chain all rows of an input in an index, with so many chains (a power of two)."""
    at = resized(load_int(index, HEADS_AT), heads // 2)
    store_int(index, HEADS_AT, at)
    store_int(index, MASK, heads - 1)
    links = resized(load_int(index, LINK_AT), load_int(store, CAPACITY))
    store_int(index, LINK_AT, links)
    for k in range(heads):
        store_half(at, k, -1)
    for slot in range(load_int(store, HIGH)):
        row = row_at(store, slot)
        if tail_of(store, row) != 0:
            _chain(index, slot, hash_key(row, load_int(store, BASE), index))


@kernel()
def _hang_in_all(indexes: int, store: int, heads: int) -> None:
    first = load_int(store, FIRST_INDEX)
    for number in range(first, first + load_int(store, INDEXES)):
        index = indexes + number * (8 * INDEX_WORDS)
        if load_int(index, HEADS_AT) != 0:
            hang_all(index, store, heads)


# ---- rows ----


@kernel()
def _grow(indexes: int, store: int) -> None:
    room = load_int(store, CAPACITY)
    room += max(np.int64(16), room // 16)
    words = room * load_int(store, STRIDE) // 8
    store_int(store, SLOTS_AT, resized(load_int(store, SLOTS_AT), words))
    store_int(store, CAPACITY, room)
    first = load_int(store, FIRST_INDEX)
    for number in range(first, first + load_int(store, INDEXES)):
        index = indexes + number * (8 * INDEX_WORDS)
        if load_int(index, HEADS_AT) != 0:
            store_int(index, LINK_AT, resized(load_int(index, LINK_AT), room))


@kernel()
def leading(indexes: int, store: int) -> int:
    """The index in which equal rows are looked for."""
    index = indexes + load_int(store, FIRST_INDEX) * (8 * INDEX_WORDS)
    return index if load_int(index, HEADS_AT) != 0 else index + 8 * INDEX_WORDS


@kernel()
def leading_hash(indexes: int, store: int, row: int) -> int:
    return hash_key(row, load_int(store, BASE), leading(indexes, store))


@kernel()
def fetch_head(index: int, hash_: int) -> None:
    """Have the beginning of a chain in the cache by the time that it is asked for."""
    prefetch(load_int(index, HEADS_AT) + 4 * (hash_ & load_int(index, MASK)))


@kernel()
def fetch_first(index: int, store: int, hash_: int) -> None:
    """The same of the first row of a chain."""
    slot = head_of(index, hash_)
    if slot >= 0:
        prefetch(row_at(store, slot) + _TIMES)
        prefetch(load_int(index, LINK_AT) + 8 * slot)


@kernel()
def add_row(indexes: int, store: int, row: int, tail: int, hash_: int) -> int:
    """Hold a row, which is not among those that are held, with the hash of its key in the leading
    index; its slot."""
    slot = load_int(store, FREE_HEAD)
    if slot >= 0:
        store_int(store, FREE_HEAD, load_int(row_at(store, slot), 2))
    else:
        slot = load_int(store, HIGH)
        if slot == load_int(store, CAPACITY):
            _grow(indexes, store)
        store_int(store, HIGH, slot + 1)
    to, last = row_at(store, slot), load_int(store, WIDTH) - 1
    for word in range(2, last):
        store_int(to, word, load_int(row, word))
    store_int(to, last, tail)
    count = load_int(store, COUNT) + 1
    store_int(store, COUNT, count)
    store_int(store, PEAK, max(count, load_int(store, PEAK)))
    first, base = load_int(store, FIRST_INDEX), load_int(store, BASE)
    heads = load_int(indexes + (first + 1) * (8 * INDEX_WORDS), MASK) + 1
    if count > 2 * heads:
        _hang_in_all(indexes, store, 2 * heads)
        return slot
    index, end = (
        leading(indexes, store),
        indexes + (first + load_int(store, INDEXES)) * (8 * INDEX_WORDS),
    )
    _chain(index, slot, hash_)
    index += 8 * INDEX_WORDS
    while index < end:
        _chain(index, slot, hash_key(to, base, index))
        index += 8 * INDEX_WORDS
    return slot


@kernel()
def remove_row(indexes: int, store: int, slot: int) -> None:
    row, base = row_at(store, slot), load_int(store, BASE)
    first = load_int(store, FIRST_INDEX)
    for number in range(first, first + load_int(store, INDEXES)):
        index = indexes + number * (8 * INDEX_WORDS)
        if load_int(index, HEADS_AT) != 0:
            _unchain(index, slot, row, base)
    set_tail(store, row, 0)
    store_int(row, 2, load_int(store, FREE_HEAD))
    store_int(store, FREE_HEAD, slot)
    store_int(store, COUNT, load_int(store, COUNT) - 1)


@kernel()
def _has_words(row: int, other: int, base: int, end: int) -> bool:
    """Whether a row has the words of one that has no NULL."""
    for word in range(base, end):
        if load_int(row, word) != load_int(other, word):
            return False
    return not any_null(row, base)


@kernel()
def find_equal(indexes: int, store: int, row: int, hash_: int) -> int:
    """The slot of an equal row, or -1; with the hash of its key in the leading index."""
    if load_int(store, COUNT) == 0:
        return np.int64(-1)
    equal = indexes + load_int(store, FIRST_INDEX) * (8 * INDEX_WORDS)
    index, base, end = leading(indexes, store), load_int(store, BASE), load_int(store, WIDTH) - 1
    slot, steps = head_of(index, hash_), np.int64(0)
    if load_int(equal, BY_WORDS) != 0 and not any_null(row, base):
        while slot >= 0 and not _has_words(row_at(store, slot), row, base, end):
            slot = next_slot(index, slot)
            steps += 1
    else:
        while slot >= 0 and not same_key(equal, row_at(store, slot), row, base):
            slot = next_slot(index, slot)
            steps += 1
    # How long chains are tells whether equal rows need an index of their own.
    store_int(equal, PROBES, load_int(equal, PROBES) + 1)
    store_int(equal, FOUND, load_int(equal, FOUND) + steps)
    return slot


@kernel()
def note_equal(indexes: int, store: int, row: int, weight: int, now: int) -> None:
    """A row comes, so often, whose key was declared to be of one: note the first time that it is
    not."""
    first, base = load_int(store, FIRST_INDEX), load_int(store, BASE)
    for number in range(first + 1, first + load_int(store, INDEXES)):
        index = indexes + number * (8 * INDEX_WORDS)
        if load_int(index, IS_ONE) == 0 or load_int(index, EQUALS) != 0:
            continue
        slot = head_of(index, hash_key(row, base, index))
        while slot >= 0 and not same_key(index, row_at(store, slot), row, base):
            slot = next_slot(index, slot)
        if slot >= 0 or weight > 1:
            column = load_int(load_int(index, COLUMNS_AT), 0)
            store_int(index, EQUALS, 1)
            store_int(index, EQUAL_NUMBER, load_int(store, ARRIVALS))
            store_int(index, EQUAL_AT, now)
            store_int(index, EQUAL_VALUE, load_int(row, base + column))


@kernel()
def compacted(indexes: int, store: int) -> None:
    """Give the memory of free slots back."""
    count, stride = load_int(store, COUNT), load_int(store, STRIDE)
    room = count + max(np.int64(16), count // 16)
    to, place = resized(np.int64(0), room * stride // 8), np.int64(0)
    for slot in range(load_int(store, HIGH)):
        row = row_at(store, slot)
        if tail_of(store, row) == 0:
            continue
        target = to + place * stride - _TIMES
        for word in range(2, load_int(store, WIDTH)):
            store_int(target, word, load_int(row, word))
        place += 1
    release(load_int(store, SLOTS_AT))
    store_int(store, SLOTS_AT, to)
    store_int(store, CAPACITY, room)
    store_int(store, HIGH, count)
    store_int(store, FREE_HEAD, -1)
    heads = np.int64(16)
    while 2 * heads < count:
        heads *= 2
    _hang_in_all(indexes, store, heads)


# ---- all rows of an input ----


@kernel((WORDS, types.int64))
def compact_changes(words: np.ndarray, number: int) -> None:
    frame = address(words)
    compacted(load_int(frame, INDEXES_AT), store_of(frame, number))


@kernel((WORDS, types.int64, types.int64, types.int64))
def index_changes(words: np.ndarray, number: int, index: int, heads: int) -> None:
    """Make an index anew, with so many chains."""
    frame = address(words)
    at = load_int(frame, INDEXES_AT) + index * (8 * INDEX_WORDS)
    hang_all(at, store_of(frame, number), heads)


@kernel((WORDS, types.int64, ROWS))
def copy_changes(words: np.ndarray, number: int, out: np.ndarray) -> None:
    """All rows of an input without their times: null bits, columns, weight and flags."""
    store, place = store_of(address(words), number), 0
    for slot in range(load_int(store, HIGH)):
        row = row_at(store, slot)
        if tail_of(store, row) != 0:
            for word in range(out.shape[1]):
                out[place, word] = load_int(row, 2 + word)
            place += 1


@kernel((WORDS, types.int64, ROWS))
def take_changes(words: np.ndarray, number: int, rows: np.ndarray) -> None:
    frame = address(words)
    store, indexes = store_of(frame, number), load_int(frame, INDEXES_AT)
    for k in range(rows.shape[0]):
        tail = rows[k, rows.shape[1] - 1]
        row = address(rows) + k * (8 * rows.shape[1]) - _TIMES
        add_row(indexes, store, row, tail, leading_hash(indexes, store, row))
