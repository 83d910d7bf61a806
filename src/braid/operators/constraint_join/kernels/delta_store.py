"""The rows that a constraint join of relations holds, in as few bytes as it can.

A slot is a row without its times: null bits, columns, and a *tail*, one word with the weight and flags.
A pointer to a row points to where its times would be, so that columns have the same places in all
rows. Chains have halves of words: for each slot a `HalfLink`, and a head for two rows at least. Hashes
aren't kept, keys are compared.

The first index of an input chains equal rows. It is made only if it is needed: while the chains of
another index are short, a row that goes is found in one of those.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.memory import release, resized
from braid.jit.records import Halves, Words
from braid.jit.rows import any_null
from braid.jit.runtime import ROWS, address, kernel, prefetch
from braid.operators.constraint_join.kernels.records import (
    IN_RESULT,
    SAMPLED,
    Frame,
    HalfLink,
    Index,
    Store,
)
from braid.operators.constraint_join.kernels.store import hash_key, same_key
from braid.plan.layout import MASK

#: Bits of a tail below the weight: `IN_RESULT`, `SAMPLED`, then some that say when the row came, in
#: ticks.
_TICKS_FROM, _TICK_BITS = 2, 20
FLAG_BITS = _TICKS_FROM + _TICK_BITS
#: A tick is so many rows that come to the join: two to this. Numbers of ticks wrap.
TICK = 4
_TICK_MASK = (1 << _TICK_BITS) - 1
_STAMPED = _TICK_MASK << _TICKS_FROM


@kernel()
def row_at(store: Store, slot: int) -> Words:
    return store.slots.after(slot * store.slot_words - MASK)


@kernel()
def slot_of(store: Store, row: Words) -> int:
    return (row.after(MASK).address - store.slots.address) // (8 * store.slot_words)


@kernel()
def tail_at(store: Store, row: Words) -> int:
    """The weight and the flags of a row that is held; 0 if the slot is free."""
    return row[store.width - 1]


@kernel()
def set_tail(store: Store, row: Words, tail: int) -> None:
    row[store.width - 1] = tail


@kernel()
def stamp(rows: int) -> int:
    """The bits of the tail of a row that comes after so many."""
    return ((rows >> TICK) & _TICK_MASK) << _TICKS_FROM


@kernel()
def age_of(tail: int, rows: int) -> int:
    """How many rows have come after one, about."""
    return (((rows >> TICK) - (tail >> _TICKS_FROM)) & _TICK_MASK) << TICK


@kernel()
def merged_tails(tail: int, more: int) -> int:
    """The tail of a row when an equal one comes: it has both weights, and the later stamp."""
    weights = ((tail >> FLAG_BITS) + (more >> FLAG_BITS)) << FLAG_BITS
    flags = (tail | more) & (IN_RESULT | SAMPLED)
    return weights | flags | (more & _STAMPED)


# ---- chains ----


@kernel()
def is_made(index: Index) -> bool:
    return index.half_heads.address != 0


@kernel()
def head_of(index: Index, hash_: int) -> int:
    return index.half_heads[hash_ & index.half_mask]


@kernel()
def next_slot(index: Index, slot: int) -> int:
    return index.half_links[slot].next


@kernel()
def _chain(index: Index, slot: int, hash_: int) -> None:
    heads, links, bucket = index.half_heads, index.half_links, hash_ & index.half_mask
    first, link = heads[bucket], links[slot]
    link.next = first
    link.previous = -1
    if first >= 0:
        links[first].previous = slot
    heads[bucket] = slot


@kernel()
def _unchain(index: Index, slot: int, row: Words, base: int) -> None:
    links = index.half_links
    following, previous = links[slot].next, links[slot].previous
    if following >= 0:
        links[following].previous = previous
    if previous >= 0:
        links[previous].next = following
    else:
        index.half_heads[hash_key(row, base, index) & index.half_mask] = following


@kernel()
def _build_index(index: Index, store: Store, heads: int) -> None:
    """Chain all rows of an input in an index, in so many chains (a power of two)."""
    index.half_heads = Halves(resized(index.half_heads, heads // 2))
    index.half_mask = heads - 1
    index.half_links = HalfLink(resized(index.half_links, store.capacity))
    for k in range(heads):
        index.half_heads[k] = -1
    for slot in range(store.high):
        row = row_at(store, slot)
        if tail_at(store, row) != 0:
            _chain(index, slot, hash_key(row, store.base, index))


@kernel()
def _build_all(indexes: Index, store: Store, heads: int) -> None:
    first = store.first_index
    for number in range(first, first + store.index_count):
        if is_made(indexes[number]):
            _build_index(indexes[number], store, heads)


# ---- rows ----


@kernel()
def _grow(indexes: Index, store: Store) -> None:
    room = store.capacity
    room += max(16, room // 16)
    store.slots = Words(resized(store.slots, room * store.slot_words))
    store.capacity = room
    first = store.first_index
    for number in range(first, first + store.index_count):
        index = indexes[number]
        if is_made(index):
            index.half_links = HalfLink(resized(index.half_links, room))


@kernel()
def leading_number(indexes: Index, store: Store) -> int:
    """The number of the index in which equal rows are looked for."""
    first = store.first_index
    return first if is_made(indexes[first]) else first + 1


@kernel()
def leading_hash(indexes: Index, store: Store, row: Words) -> int:
    return hash_key(row, store.base, indexes[leading_number(indexes, store)])


@kernel()
def fetch_head(index: Index, hash_: int) -> None:
    """Prefetch the head of a chain."""
    prefetch(index.half_heads.after(hash_ & index.half_mask).address)


@kernel()
def fetch_first(index: Index, store: Store, hash_: int) -> None:
    """Prefetch the first row of a chain."""
    slot = head_of(index, hash_)
    if slot >= 0:
        prefetch(row_at(store, slot).after(MASK).address)
        prefetch(index.half_links[slot].address)


@kernel()
def add_row(indexes: Index, store: Store, row: Words, tail: int, hash_: int) -> int:
    """Hold a row, which isn't among those that are held, with the hash of its key in the leading
    index; its slot."""
    slot = store.free
    if slot >= 0:
        store.free = row_at(store, slot)[MASK]
    else:
        slot = store.high
        if slot == store.capacity:
            _grow(indexes, store)
        store.high = slot + 1
    own, last = row_at(store, slot), store.width - 1
    for word in range(MASK, last):
        own[word] = row[word]
    own[last] = tail
    store.count += 1
    store.peak = max(store.count, store.peak)
    first, base = store.first_index, store.base
    heads = indexes[first + 1].half_mask + 1
    if store.count > 2 * heads:
        _build_all(indexes, store, 2 * heads)
        return slot
    leading = leading_number(indexes, store)
    _chain(indexes[leading], slot, hash_)
    for number in range(leading + 1, first + store.index_count):
        _chain(indexes[number], slot, hash_key(own, base, indexes[number]))
    return slot


@kernel()
def remove_row(indexes: Index, store: Store, slot: int) -> None:
    row, base, first = row_at(store, slot), store.base, store.first_index
    for number in range(first, first + store.index_count):
        if is_made(indexes[number]):
            _unchain(indexes[number], slot, row, base)
    set_tail(store, row, 0)
    row[MASK] = store.free
    store.free = slot
    store.count -= 1


@kernel()
def _has_words(row: Words, other: Words, base: int, end: int) -> bool:
    """Whether a row has the words of one that has no NULL."""
    for word in range(base, end):
        if row[word] != other[word]:
            return False
    return not any_null(row, base)


@kernel()
def find_equal(indexes: Index, store: Store, row: Words, hash_: int) -> int:
    """The slot of an equal row, or -1; with the hash of its key in the leading index."""
    if store.count == 0:
        return np.int64(-1)
    equal, index = indexes[store.first_index], indexes[leading_number(indexes, store)]
    base, end = store.base, store.width - 1
    slot, steps = head_of(index, hash_), np.int64(0)
    if equal.by_words != 0 and not any_null(row, base):
        while slot >= 0 and not _has_words(row_at(store, slot), row, base, end):
            slot = next_slot(index, slot)
            steps += 1
    else:
        while slot >= 0 and not same_key(equal, row_at(store, slot), row, base):
            slot = next_slot(index, slot)
            steps += 1
    # The length of chains says whether equal rows need an index of their own.
    equal.probes += 1
    equal.found += steps
    return slot


@kernel()
def note_duplicate(indexes: Index, store: Store, row: Words, weight: int, now: int) -> None:
    """A row comes, so often, with a key that was declared: note the first time that the key is there
    twice."""
    first, base = store.first_index, store.base
    for number in range(first + 1, first + store.index_count):
        index = indexes[number]
        if index.unique == 0 or index.duplicates != 0:
            continue
        slot = head_of(index, hash_key(row, base, index))
        while slot >= 0 and not same_key(index, row_at(store, slot), row, base):
            slot = next_slot(index, slot)
        if slot >= 0 or weight > 1:
            index.duplicates = 1
            index.duplicate_number = store.arrivals
            index.duplicate_time = now
            index.duplicate_value = row[base + index.columns.column]


@kernel()
def _compacted(indexes: Index, store: Store) -> None:
    """Give the memory of free slots back."""
    count, words = store.count, store.slot_words
    room = count + max(16, count // 16)
    moved, place = Words(resized(np.int64(0), room * words)), np.int64(0)
    for slot in range(store.high):
        row = row_at(store, slot)
        if tail_at(store, row) != 0:
            target = moved.after(place * words)
            for word in range(words):
                target[word] = row[MASK + word]
            place += 1
    release(store.slots)
    store.slots = moved
    store.capacity = room
    store.high = count
    store.free = -1
    heads = np.int64(16)
    while 2 * heads < count:
        heads *= 2
    _build_all(indexes, store, heads)


# ---- all rows of an input ----


@kernel((Frame.type, types.int64))
def compact_changes(frame: Frame, number: int) -> None:
    _compacted(frame.indexes, frame.stores[number])


@kernel((Frame.type, types.int64, types.int64, types.int64))
def index_changes(frame: Frame, number: int, index: int, heads: int) -> None:
    """Build an index again, with so many chains."""
    _build_index(frame.indexes[index], frame.stores[number], heads)


@kernel((Frame.type, types.int64, ROWS))
def copy_changes(frame: Frame, number: int, out: np.ndarray) -> None:
    """Copy all rows of an input without their times: null bits, columns, and tails."""
    store, place = frame.stores[number], 0
    for slot in range(store.high):
        row = row_at(store, slot)
        if tail_at(store, row) != 0:
            for word in range(out.shape[1]):
                out[place, word] = row[MASK + word]
            place += 1


@kernel((Frame.type, types.int64, ROWS))
def take_changes(frame: Frame, number: int, rows: np.ndarray) -> None:
    store, indexes, words = frame.stores[number], frame.indexes, rows.shape[1]
    first = Words(address(rows))
    for k in range(rows.shape[0]):
        row = first.after(k * words - MASK)
        add_row(indexes, store, row, rows[k, words - 1], leading_hash(indexes, store, row))
