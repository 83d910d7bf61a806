"""What a join with constraints holds of each input: rows in slots, in order of arrival.

A slot is a *record* and what ties it to others. The record, which is what is put aside when a row
leaves memory: the row's words, its number among the input's events, flags, and for every edge of
the join graph the number of events that the other input had when it came. Then the slots that came
before and after it, and for every index the next and the previous slot of the chain, and the hash.

Rows leave one by one, from anywhere: free slots are chained, and chains are linked both ways.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.records import Words
from braid.jit.row_keys import same_value
from braid.jit.runtime import kernel, load_int, store_int
from braid.operators.core.kernels.instances import FREE, canonical_float, is_null, mix

#: What is held of an input: rows, slots ever used, first free slot (-1: none), where slots are, how
#: many there is room for, bytes of a slot, words of a row, word of its first column, words of a
#: record, oldest and newest slot, events so far, the window (its size, whether it counts rows,
#: the last event that has left it), the column that says whether WHERE keeps a row (-1: none),
#: first index and number of indexes, edges, rows put aside, whether a row that is in a result is
#: done with (COVERS: 0 no, WATCHED, DONE_WITH), results that were not the first one of a row, and
#: those that were, most rows held at once, rows that left memory early, those of them that came
#: back; where rows wait to be put aside, how many, for how many there is room; the first of the
#: watches of its columns, and how many there are; of a relation, notes among the rows that are aside
#: that others of them have gone; rows that came and that WHERE keeps, and for how long a row stays if
#: nothing lets it go (a part of the longest time of an input: of LONGEST_STAY).
(
    COUNT,
    HIGH,
    FREE_HEAD,
    SLOTS_AT,
    CAPACITY,
    STRIDE,
    WIDTH,
    BASE,
    RECORD,
    OLDEST,
    NEWEST,
    ARRIVALS,
    SIZE,
    BY_ROWS,
    LEFT,
    KEEPS,
    FIRST_INDEX,
    INDEXES,
    EDGES,
    ASIDE,
    COVERS,
    AGAIN,
    FIRST,
    PEAK,
    EVICTED,
    RETURNS,
    BUFFER_AT,
    BUFFER_ROWS,
    BUFFER_ROOM,
    FIRST_WATCH,
    ITS_WATCHES,
    GONE_ASIDE,
    CAME,
    STAYS,
    STORE_WORDS,
) = range(35)

LONGEST_STAY = 1 << 16

#: The words of a record after the row, and of a slot after the record.
NUMBER, FLAGS, MARKS = range(3)
OLDER, NEWER, LINKS = range(3)
#: The mark of an edge by which no partner comes any more, as the cluster of its value is over: that is
#: noted in the row, since clusters that are over are forgotten. (-1: a partner has come.)
OVER = -2
LINK_NEXT, LINK_PREVIOUS, LINK_HASH, LINK_WORDS = range(4)

#: Flags of a row: it has been in a result; it would not be here but for being sampled; it has been
#: put aside before. From bit MASKED on: the indexes by which it has to be found when it is aside (0:
#: all).
IN_RESULT, SAMPLED, RETURNED = 1, 2, 4
MASKED = 8

#: Whether rows of an input are counted for results, and whether one that has been in one leaves.
WATCHED, DONE_WITH = 1, 2

#: An index: store, where its heads are, their number less one, columns of the key, where these are
#: (pairs: column, whether it is a float), word of a slot where its link is; where the filter of what
#: was put aside is (0: none), its words less one, keys in it; how often a row came whose key was
#: there, and how often rows came; whether a key is of one row at most; keys of rows that WHERE has
#: refused, as filters: the newer one and the one before, their words less one, keys in the newer;
#: how often it was probed, and rows found; of the first row that came whose key was there the number
#: among the events, the time, and the first value of the key; whether whoever waits for a row that
#: WHERE has refused waits in vain; keys that have come, whatever became of their rows (`unique_keys.py`):
#: the newer and the older table (0: none), a third one to work with, their words less one, keys in the
#: newer, one in so many less one, since when each reaches back, for how long they are to, whether that
#: is a time, and whether they have.
(
    INDEX_STORE,
    HEADS_AT,
    MASK,
    KEYS,
    COLUMNS_AT,
    LINK_AT,
    FILTER_AT,
    FILTER_MASK,
    FILTERED,
    EQUALS,
    SEEN,
    IS_ONE,
    REFUSED_AT,
    REFUSED_BEFORE_AT,
    REFUSED_MASK,
    REFUSED_KEYS,
    PROBES,
    FOUND,
    EQUAL_NUMBER,
    EQUAL_AT,
    EQUAL_VALUE,
    REFUSES,
    KEYS_AT,
    KEYS_BEFORE_AT,
    KEYS_SPARE_AT,
    KEYS_MASK,
    KEYS_HELD,
    KEYS_OTHERS,
    KEYS_SINCE,
    KEYS_BEFORE_SINCE,
    KEYS_SPAN,
    KEYS_TIMED,
    KEYS_PROVED,
    INDEX_WORDS,
) = range(34)

#: A key of one column, not a float, hashes to the mix of its value and this.
KEY_SEED = np.int64(0x9E3779B97F4A7C)
_NULL = np.int64(0x5851F42D4C957F2D)


@kernel()
def slot_at(store: int, slot: int) -> int:
    return load_int(store, SLOTS_AT) + slot * load_int(store, STRIDE)


@kernel()
def hash_key(row: int, base: int, index: int) -> int:
    value, columns = np.int64(0), load_int(index, COLUMNS_AT)
    for k in range(load_int(index, KEYS)):
        column = load_int(columns, 2 * k)
        if is_null(row, column):
            value = mix(value + _NULL)
            continue
        word = load_int(row, base + column)
        if load_int(columns, 2 * k + 1) != 0:
            word = canonical_float(word)
        value = mix(value + word + KEY_SEED)
    return value & FREE


@kernel()
def is_over(store: int, row: int, now: int) -> bool:
    """Whether a row has left its window."""
    size = load_int(store, SIZE)
    if size < 0:
        return False
    if load_int(store, BY_ROWS) != 0:
        return load_int(row, load_int(store, WIDTH) + NUMBER) <= load_int(store, LEFT)
    return now - load_int(row, 1) > size


# ---- chains ----


@kernel()
def _chain(index: int, store: int, slot: int, hash_: int) -> None:
    heads, at = load_int(index, HEADS_AT), load_int(index, LINK_AT)
    bucket = hash_ & load_int(index, MASK)
    first = load_int(heads, bucket)
    link = slot_at(store, slot) + 8 * at
    store_int(link, LINK_NEXT, first)
    store_int(link, LINK_PREVIOUS, -1)
    store_int(link, LINK_HASH, hash_)
    if first >= 0:
        store_int(slot_at(store, first) + 8 * at, LINK_PREVIOUS, slot)
    store_int(heads, bucket, slot)


@kernel()
def _unchain(index: int, store: int, slot: int) -> None:
    at = load_int(index, LINK_AT)
    link = slot_at(store, slot) + 8 * at
    following, previous = load_int(link, LINK_NEXT), load_int(link, LINK_PREVIOUS)
    if following >= 0:
        store_int(slot_at(store, following) + 8 * at, LINK_PREVIOUS, previous)
    if previous >= 0:
        store_int(slot_at(store, previous) + 8 * at, LINK_NEXT, following)
    else:
        bucket = load_int(link, LINK_HASH) & load_int(index, MASK)
        store_int(load_int(index, HEADS_AT), bucket, following)


@kernel()
def rehash(indexes: int, store: int, heads: int) -> None:
    """Chain all rows of an input anew, with so many chains (a power of two) in each index."""
    first = load_int(store, FIRST_INDEX)
    for number in range(first, first + load_int(store, INDEXES)):
        index = indexes + number * (8 * INDEX_WORDS)
        at = resized(load_int(index, HEADS_AT), heads)
        store_int(index, HEADS_AT, at)
        store_int(index, MASK, heads - 1)
        for k in range(heads):
            store_int(at, k, -1)
        slot = load_int(store, OLDEST)
        while slot >= 0:
            row = slot_at(store, slot)
            _chain(index, store, slot, hash_key(row, load_int(store, BASE), index))
            slot = load_int(row + 8 * load_int(store, RECORD), NEWER)


@kernel()
def find(index: int, store: int, hash_: int) -> int:
    """The first slot of a chain that has this hash, or -1."""
    slot = load_int(load_int(index, HEADS_AT), hash_ & load_int(index, MASK))
    return next_of(index, store, slot, hash_)


@kernel()
def next_of(index: int, store: int, slot: int, hash_: int) -> int:
    """The slot itself or the first after it in its chain that has this hash."""
    at = 8 * load_int(index, LINK_AT)
    while slot >= 0:
        link = slot_at(store, slot) + at
        if load_int(link, LINK_HASH) == hash_:
            return slot
        slot = load_int(link, LINK_NEXT)
    return np.int64(-1)


# ---- rows ----


@kernel()
def _new_slot(store: int) -> int:
    slot = load_int(store, FREE_HEAD)
    if slot >= 0:
        store_int(store, FREE_HEAD, load_int(slot_at(store, slot), 0))
        return slot
    slot = load_int(store, HIGH)
    if slot == load_int(store, CAPACITY):
        room = max(np.int64(16), slot + slot // 2)
        words = room * load_int(store, STRIDE) // 8
        store_int(store, SLOTS_AT, resized(load_int(store, SLOTS_AT), words))
        store_int(store, CAPACITY, room)
    store_int(store, HIGH, slot + 1)
    return slot


@kernel()
def add_row(indexes: int, store: int, record: int, oldest: int) -> int:
    """Hold a record: as the newest or, if `oldest`, in its place among the oldest; its slot."""
    slot = _new_slot(store)
    row, words = slot_at(store, slot), load_int(store, RECORD)
    for word in range(words):
        store_int(row, word, load_int(record, word))
    before, after = load_int(store, NEWEST), np.int64(-1)
    if oldest != 0:
        before, after = np.int64(-1), load_int(store, OLDEST)
        place = load_int(store, WIDTH) + NUMBER
        number = load_int(row, place)
        while after >= 0 and load_int(slot_at(store, after), place) < number:
            before = after
            after = load_int(slot_at(store, after) + 8 * words, NEWER)
    store_int(row + 8 * words, OLDER, before)
    store_int(row + 8 * words, NEWER, after)
    if before >= 0:
        store_int(slot_at(store, before) + 8 * words, NEWER, slot)
    else:
        store_int(store, OLDEST, slot)
    if after >= 0:
        store_int(slot_at(store, after) + 8 * words, OLDER, slot)
    else:
        store_int(store, NEWEST, slot)
    count = load_int(store, COUNT) + 1
    store_int(store, COUNT, count)
    if count > load_int(store, PEAK):
        store_int(store, PEAK, count)
    _index(indexes, store, slot, row, count)
    return slot


@kernel()
def note_equal(index: int, store: int, row: int) -> None:
    """A row has come whose key has been there: it is not of one row, and nobody relies on it."""
    column = load_int(load_int(index, COLUMNS_AT), 0)
    store_int(index, EQUALS, load_int(index, EQUALS) + 1)
    store_int(index, EQUAL_NUMBER, load_int(row, load_int(store, WIDTH) + NUMBER))
    store_int(index, EQUAL_AT, load_int(row, 1))
    store_int(index, EQUAL_VALUE, load_int(row, load_int(store, BASE) + column))
    store_int(index, IS_ONE, 0)
    store_int(index, REFUSES, 0)


@kernel()
def _index(indexes: int, store: int, slot: int, row: int, count: int) -> None:
    first = load_int(store, FIRST_INDEX)
    heads = load_int(indexes + first * (8 * INDEX_WORDS), MASK) + 1
    if count > heads:
        rehash(indexes, store, 2 * heads)
        return
    for number in range(first, first + load_int(store, INDEXES)):
        index = indexes + number * (8 * INDEX_WORDS)
        hash_ = hash_key(row, load_int(store, BASE), index)
        store_int(index, SEEN, load_int(index, SEEN) + 1)
        if load_int(index, EQUALS) == 0 and find(index, store, hash_) >= 0:
            note_equal(index, store, row)
        _chain(index, store, slot, hash_)


@kernel()
def remove_row(indexes: int, store: int, slot: int) -> None:
    first = load_int(store, FIRST_INDEX)
    for number in range(first, first + load_int(store, INDEXES)):
        _unchain(indexes + number * (8 * INDEX_WORDS), store, slot)
    row, words = slot_at(store, slot), load_int(store, RECORD)
    before, after = load_int(row + 8 * words, OLDER), load_int(row + 8 * words, NEWER)
    if before >= 0:
        store_int(slot_at(store, before) + 8 * words, NEWER, after)
    else:
        store_int(store, OLDEST, after)
    if after >= 0:
        store_int(slot_at(store, after) + 8 * words, OLDER, before)
    else:
        store_int(store, NEWEST, before)
    store_int(row, 0, load_int(store, FREE_HEAD))
    store_int(store, FREE_HEAD, slot)
    store_int(store, COUNT, load_int(store, COUNT) - 1)


@kernel()
def drop_over(indexes: int, store: int, now: int) -> None:
    """Forget the rows that have left the window."""
    slot = load_int(store, OLDEST)
    while slot >= 0:
        row = slot_at(store, slot)
        if not is_over(store, row, now):
            return
        following = load_int(row + 8 * load_int(store, RECORD), NEWER)
        remove_row(indexes, store, slot)
        slot = following


@kernel()
def following_of(index: int, store: int, slot: int, hash_: int) -> int:
    at = 8 * load_int(index, LINK_AT)
    return next_of(index, store, load_int(slot_at(store, slot) + at, LINK_NEXT), hash_)


@kernel()
def same_key(index: int, row: int, other: int, base: int) -> bool:
    """Whether two rows of one input have one key."""
    columns = load_int(index, COLUMNS_AT)
    for k in range(load_int(index, KEYS)):
        column, floating = load_int(columns, 2 * k), load_int(columns, 2 * k + 1)
        if not same_value(Words(row), base, column, Words(other), base, column, floating):
            return False
    return True


@kernel()
def compacted(indexes: int, store: int) -> None:
    """Give the memory of free slots back: rows lie in order of arrival, and nothing is free."""
    count, stride = load_int(store, COUNT), load_int(store, STRIDE)
    room = max(np.int64(16), count + count // 4)
    to, words = resized(np.int64(0), room * stride // 8), load_int(store, RECORD)
    slot, place = load_int(store, OLDEST), np.int64(0)
    while slot >= 0:
        row, target = slot_at(store, slot), to + place * stride
        for word in range(words):
            store_int(target, word, load_int(row, word))
        store_int(target + 8 * words, OLDER, place - 1)
        store_int(target + 8 * words, NEWER, place + 1 if place + 1 < count else -1)
        slot = load_int(row + 8 * words, NEWER)
        place += 1
    release(load_int(store, SLOTS_AT))
    store_int(store, SLOTS_AT, to)
    store_int(store, CAPACITY, room)
    store_int(store, HIGH, count)
    store_int(store, FREE_HEAD, -1)
    store_int(store, OLDEST, 0 if count > 0 else -1)
    store_int(store, NEWEST, count - 1)
    heads = np.int64(16)
    while heads < count:
        heads *= 2
    rehash(indexes, store, heads)
