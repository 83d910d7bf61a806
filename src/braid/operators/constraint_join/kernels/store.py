"""The rows that a constraint join holds of each input: in slots, linked in order of arrival.

Rows leave one by one, from anywhere: free slots are chained, and chains are linked both ways.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.records import Words
from braid.jit.runtime import kernel
from braid.operators.constraint_join.kernels.records import Index, Neighbours, Store, Tail
from braid.operators.core.kernels.instances import FREE
from braid.operators.join.kernels.store import Link, add_to_hash, same_value


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
    value, columns = np.int64(0), index.columns
    for k in range(index.keys):
        value = add_to_hash(value, row, base, columns[k].column, columns[k].how)
    return value & FREE


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
def _link_of(index: Index, store: Store, slot: int) -> Link:
    return Link(row_at(store, slot).after(index.link_word))


@kernel()
def _chain(index: Index, store: Store, slot: int, hash_: int) -> None:
    heads, bucket = index.heads, hash_ & index.mask
    first, link = heads[bucket], _link_of(index, store, slot)
    link.next = first
    link.previous = -1
    link.hash = hash_
    if first >= 0:
        _link_of(index, store, first).previous = slot
    heads[bucket] = slot


@kernel()
def _unchain(index: Index, store: Store, slot: int) -> None:
    link = _link_of(index, store, slot)
    following, previous = link.next, link.previous
    if following >= 0:
        _link_of(index, store, following).previous = previous
    if previous >= 0:
        _link_of(index, store, previous).next = following
    else:
        index.heads[link.hash & index.mask] = following


@kernel()
def rehash(indexes: Index, store: Store, heads: int) -> None:
    """Chain all rows of an input again, in so many chains (a power of two) of each index."""
    first = store.first_index
    for number in range(first, first + store.index_count):
        index = indexes[number]
        index.heads = Words(resized(index.heads, heads))
        index.mask = heads - 1
        for k in range(heads):
            index.heads[k] = -1
        slot = store.oldest
        while slot >= 0:
            row = row_at(store, slot)
            _chain(index, store, slot, hash_key(row, store.base, index))
            slot = neighbours_of(store, row).newer


@kernel()
def _first_with(index: Index, store: Store, slot: int, hash_: int) -> int:
    """The slot itself or the first after it in its chain that has this hash, or -1."""
    while slot >= 0:
        link = _link_of(index, store, slot)
        if link.hash == hash_:
            return slot
        slot = link.next
    return np.int64(-1)


@kernel()
def find(index: Index, store: Store, hash_: int) -> int:
    """The first slot of a chain that has this hash, or -1."""
    return _first_with(index, store, index.heads[hash_ & index.mask], hash_)


@kernel()
def following_of(index: Index, store: Store, slot: int, hash_: int) -> int:
    """The next slot of a chain that has this hash, or -1."""
    return _first_with(index, store, _link_of(index, store, slot).next, hash_)


@kernel()
def same_key(index: Index, row: Words, other: Words, base: int) -> bool:
    """Whether two rows of one input have one key."""
    for k in range(index.keys):
        key = index.columns[k]
        if not same_value(row, base, key.column, other, base, key.column, key.how):
            return False
    return True


# ---- rows ----


@kernel()
def _new_slot(store: Store) -> int:
    slot = store.free
    if slot >= 0:
        store.free = row_at(store, slot)[0]
        return slot
    slot = store.high
    if slot == store.capacity:
        room = max(16, slot + slot // 2)
        store.slots = Words(resized(store.slots, room * store.slot_words))
        store.capacity = room
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
    slot = _new_slot(store)
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
    heads = indexes[first].mask + 1
    if store.count > heads:
        rehash(indexes, store, 2 * heads)
        return
    for number in range(first, first + store.index_count):
        index = indexes[number]
        hash_ = hash_key(row, store.base, index)
        index.seen += 1
        if index.duplicates == 0 and find(index, store, hash_) >= 0:
            note_duplicate(index, store, row)
        _chain(index, store, slot, hash_)


@kernel()
def remove_row(indexes: Index, store: Store, slot: int) -> None:
    first = store.first_index
    for number in range(first, first + store.index_count):
        _unchain(indexes[number], store, slot)
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
        for word in range(store.record_words):
            target[word] = row[word]
        own = neighbours_of(store, target)
        own.older = place - 1
        own.newer = place + 1 if place + 1 < count else -1
        slot = neighbours_of(store, row).newer
        place += 1
    release(store.slots)
    store.slots = moved
    store.capacity = room
    store.high = count
    store.free = -1
    store.oldest = 0 if count > 0 else -1
    store.newest = count - 1
    heads = np.int64(16)
    while heads < count:
        heads *= 2
    rehash(indexes, store, heads)
