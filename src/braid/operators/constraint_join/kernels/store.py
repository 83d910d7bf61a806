"""The rows that a constraint join holds of each input: in slots, linked in order of arrival.

Rows leave one by one, from anywhere: free slots are chained, and chains are linked both ways.
"""

from __future__ import annotations

import numpy as np

from braid.jit.hash_table import (
    Link,
    chains_for,
    equal_from,
    insert_two_way,
    link_of,
    make_chains,
    rechain_two_way,
    remove,
)
from braid.jit.hash_table import first as first_of
from braid.jit.memory import release, resized
from braid.jit.records import Words
from braid.jit.row_keys import hash_key as hash_columns
from braid.jit.row_keys import same_key as same_columns
from braid.jit.runtime import kernel
from braid.operators.constraint_join.kernels.records import Index, Neighbours, Store, Tail


@kernel()
def row_at(store: Store, slot: int) -> Words:
    return store.slots.after(slot * store.slot_words)


@kernel()
def slot_of(store: Store, row: Words) -> int:
    return (row.address - store.slots.address) // (8 * store.slot_words)


@kernel()
def tail_of(store: Store, row: Words) -> Tail:
    return Tail(row.after(store.width))


@kernel()
def neighbours_of(store: Store, row: Words) -> Neighbours:
    return Neighbours(row.after(store.record_words))


@kernel()
def _neighbours(store: Store, slot: int) -> Neighbours:
    return neighbours_of(store, row_at(store, slot))


@kernel()
def hash_key(row: Words, base: int, index: Index) -> int:
    return hash_columns(row, base, index.columns, index.keys)


@kernel()
def same_key(index: Index, row: Words, other: Words, base: int) -> bool:
    """Whether two rows of one input have one key."""
    return same_columns(row, other, base, index.columns, index.keys)


@kernel()
def is_over(store: Store, row: Words, now: int) -> bool:
    """Whether a row has left its window."""
    size = store.size
    if size < 0:
        return False
    if store.by_rows != 0:
        return tail_of(store, row).number <= store.last_left
    return now - row[1] > size


# ---- chains ----


@kernel()
def find(index: Index, hash_: int) -> int:
    """The first slot of a chain that has this hash, or -1."""
    return equal_from(index.chains, first_of(index.chains, hash_), hash_)


@kernel()
def following_of(index: Index, slot: int, hash_: int) -> int:
    """The next slot of a chain that has this hash, or -1."""
    return equal_from(index.chains, link_of(index.chains, slot).next, hash_)


@kernel()
def _point_to_links(indexes: Index, store: Store) -> None:
    """Tell the chains of an input where its slots are now."""
    first = store.first_index
    for number in range(first, first + store.index_count):
        index = indexes[number]
        index.chains.links = Link(store.slots.after(index.link_word))
        index.chains.link_size = 8 * store.slot_words


@kernel()
def _more_chains(indexes: Index, store: Store) -> None:
    """Have twice as many chains, with newer rows before older ones."""
    first = store.first_index
    for number in range(first, first + store.index_count):
        chains = indexes[number].chains
        make_chains(chains, 2 * (chains.mask + 1))
        slot = store.oldest
        while slot >= 0:
            insert_two_way(chains, slot, link_of(chains, slot).hash)
            slot = _neighbours(store, slot).newer


# ---- rows ----


@kernel()
def _new_slot(indexes: Index, store: Store) -> int:
    slot = store.free
    if slot >= 0:
        store.free = row_at(store, slot)[0]
        return slot
    slot = store.high
    if slot == store.capacity:
        room = max(16, slot + slot // 2)
        store.slots = Words(resized(store.slots, room * store.slot_words))
        store.capacity = room
        _point_to_links(indexes, store)
    store.high = slot + 1
    return slot


@kernel()
def _connect(store: Store, before: int, after: int) -> None:
    """Let one slot be followed by another one in order of arrival; -1 is the end of all."""
    if before >= 0:
        _neighbours(store, before).newer = after
    else:
        store.oldest = after
    if after >= 0:
        _neighbours(store, after).older = before
    else:
        store.newest = before


@kernel()
def add_row(indexes: Index, store: Store, record: Words, oldest: int) -> int:
    """Hold a row with its tail: as the newest or, if `oldest`, in its place among the oldest; its
    slot."""
    if store.count > indexes[store.first_index].chains.mask:
        _more_chains(indexes, store)
    slot = _new_slot(indexes, store)
    row = row_at(store, slot)
    for word in range(store.record_words):
        row[word] = record[word]
    before, after = store.newest, np.int64(-1)
    if oldest != 0:
        before, after = np.int64(-1), store.oldest
        number = tail_of(store, row).number
        while after >= 0 and tail_of(store, row_at(store, after)).number < number:
            before = after
            after = _neighbours(store, after).newer
    _connect(store, before, slot)
    _connect(store, slot, after)
    store.count += 1
    store.peak = max(store.peak, store.count)
    _index(indexes, store, slot, row)
    return slot


@kernel()
def note_duplicate(index: Index, store: Store, row: Words) -> None:
    """A second row of a key has come: the key is not unique, and nothing relies on that."""
    index.duplicates += 1
    index.duplicate_number = tail_of(store, row).number
    index.duplicate_time = row[1]
    index.duplicate_value = row[store.base + index.columns.column]
    index.unique = 0
    index.rejects = 0


@kernel()
def _index(indexes: Index, store: Store, slot: int, row: Words) -> None:
    first = store.first_index
    for number in range(first, first + store.index_count):
        index = indexes[number]
        hash_ = hash_key(row, store.base, index)
        index.seen += 1
        if index.duplicates == 0 and find(index, hash_) >= 0:
            note_duplicate(index, store, row)
        insert_two_way(index.chains, slot, hash_)


@kernel()
def remove_row(indexes: Index, store: Store, slot: int) -> None:
    first = store.first_index
    for number in range(first, first + store.index_count):
        remove(indexes[number].chains, slot)
    row = row_at(store, slot)
    own = neighbours_of(store, row)
    _connect(store, own.older, own.newer)
    row[0] = store.free
    store.free = slot
    store.count -= 1


@kernel()
def remove_expired(indexes: Index, store: Store, now: int) -> None:
    """Remove the rows that have left the window."""
    slot = store.oldest
    while slot >= 0:
        row = row_at(store, slot)
        if not is_over(store, row, now):
            return
        following = neighbours_of(store, row).newer
        remove_row(indexes, store, slot)
        slot = following


@kernel()
def compacted(indexes: Index, store: Store) -> None:
    """Give the memory of free slots back: rows lie in order of arrival, and nothing is free."""
    count, words = store.count, store.slot_words
    room = max(16, count + count // 4)
    moved = Words(resized(np.int64(0), room * words))
    slot, place = store.oldest, np.int64(0)
    while slot >= 0:
        row, target = row_at(store, slot), moved.after(place * words)
        for word in range(words):
            target[word] = row[word]
        slot, own = neighbours_of(store, row).newer, neighbours_of(store, target)
        own.older = place - 1
        own.newer = place + 1 if place + 1 < count else -1
        place += 1
    release(store.slots)
    store.slots = moved
    store.capacity = room
    store.high = count
    store.free = -1
    store.oldest = 0 if count > 0 else -1
    store.newest = count - 1
    _point_to_links(indexes, store)
    first = store.first_index
    for number in range(first, first + store.index_count):
        rechain_two_way(indexes[number].chains, count, chains_for(count))
