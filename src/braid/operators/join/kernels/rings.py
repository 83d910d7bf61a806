"""What a join with windows inside holds of each input: events in order of time, in a ring.

Events come in order of their times and leave in it, so a ring has each once, under a *number* that
counts on for ever; its slot is the number modulo the room. The chains of an index link an event to
the one before it, newest first. What is gone has a number below all that are held, and ends every
chain that leads to it: nothing is ever taken out of a chain.

A slot is a row of words and a cell (`operators/core/kernels/node_sets.py`) with the output nodes that see the event.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.runtime import kernel, load_int, store_int
from braid.operators.core.kernels.node_sets import KIND, NEXT, WEIGHT, extend_cell, give_set
from braid.operators.join.kernels.frame import (
    INDEXES_AT,
    MOST_LISTED,
    POOL_AT,
    SETS_AT,
    STORES_AT,
    WORDS_OF_SET,
)
from braid.operators.join.kernels.store import (
    BASE,
    CAPACITY,
    COUNT,
    FIRST_INDEX,
    FOLLOWING,
    FREE_HEAD,
    HEADS_AT,
    HIGH,
    INDEX_WORDS,
    KEYS,
    LINKS_AT,
    MASK,
    ROWS_AT,
    STORE_WORDS,
    STRIDE,
    WIDTH,
    hash_row,
    make_heads,
)

#: Words of a slot beyond the row: its cell.
CELL = 4

#: Of a ring: the number of the next event, and that of the oldest.
NUMBER, OLDEST = HIGH, FREE_HEAD

#: A link: the number of the next older event in the chain, and the hash.
OLDER, HASH, LINK = range(3)


@kernel()
def ring_of(frame: int, input_: int) -> int:
    return load_int(frame, STORES_AT) + input_ * (8 * STORE_WORDS)


@kernel()
def index_of(frame: int, number: int) -> int:
    return load_int(frame, INDEXES_AT) + number * (8 * INDEX_WORDS)


@kernel()
def event_at(ring: int, number: int) -> int:
    slot = number & (load_int(ring, CAPACITY) - 1)
    return load_int(ring, ROWS_AT) + slot * load_int(ring, STRIDE)


@kernel()
def link_at(ring: int, index: int, number: int) -> int:
    slot = number & (load_int(ring, CAPACITY) - 1)
    return load_int(index, LINKS_AT) + slot * (8 * LINK)


@kernel()
def cell_of(ring: int, row: int) -> int:
    return row + 8 * load_int(ring, WIDTH)


@kernel()
def hang(ring: int, index: int, number: int, hash_: int) -> None:
    """Put an event, newer than all others, at the head of its chain."""
    head = load_int(index, HEADS_AT) + 8 * (hash_ & load_int(index, MASK))
    link = link_at(ring, index, number)
    store_int(link, OLDER, load_int(head, 0))
    store_int(link, HASH, hash_)
    store_int(head, 0, number)


@kernel()
def hang_ring(ring: int, index: int, anew: bool) -> None:
    """Chain all events in empty chains; `anew`: their hashes are not known."""
    base = load_int(ring, BASE)
    for number in range(load_int(ring, OLDEST), load_int(ring, NUMBER)):
        hash_ = (
            hash_row(event_at(ring, number), base, index)
            if anew
            else load_int(link_at(ring, index, number), HASH)
        )
        hang(ring, index, number, hash_)


@kernel()
def _moved(at: int, words: int, ring: int, room: int) -> int:
    """The slots of a ring, of so many words each, in memory for more of them."""
    new = resized(0, words * room)
    before = load_int(ring, CAPACITY)
    for number in range(load_int(ring, OLDEST), load_int(ring, NUMBER)):
        source = at + (number & (before - 1)) * (8 * words)
        target = new + (number & (room - 1)) * (8 * words)
        for word in range(words):
            store_int(target, word, load_int(source, word))
    release(at)
    return new


@kernel()
def make_room(frame: int, ring: int, room: int) -> None:
    """Let a ring have room for so many events, a power of two."""
    rows = _moved(load_int(ring, ROWS_AT), load_int(ring, STRIDE) // 8, ring, room)
    store_int(ring, ROWS_AT, rows)
    number = load_int(ring, FIRST_INDEX)
    while number >= 0:
        index = index_of(frame, number)
        store_int(index, LINKS_AT, _moved(load_int(index, LINKS_AT), LINK, ring, room))
        number = load_int(index, FOLLOWING)
    store_int(ring, CAPACITY, room)


@kernel()
def _more_heads(frame: int, ring: int) -> None:
    """As many chains as events, at least."""
    number = load_int(ring, FIRST_INDEX)
    while number >= 0:
        index = index_of(frame, number)
        mask = load_int(index, MASK)
        if load_int(index, KEYS) > 0 and load_int(ring, COUNT) > mask:
            make_heads(index, 2 * (mask + 1))
            hang_ring(ring, index, False)
        number = load_int(index, FOLLOWING)


@kernel()
def add_event(frame: int, input_: int, row: int, kind: int) -> None:
    """Hold an event that is not older than any; its set is where deltas have theirs."""
    ring = ring_of(frame, input_)
    if load_int(ring, COUNT) == load_int(ring, CAPACITY):
        make_room(frame, ring, max(np.int64(16), 2 * load_int(ring, CAPACITY)))
    event = load_int(ring, NUMBER)
    at, base = event_at(ring, event), load_int(ring, BASE)
    for word in range(load_int(ring, WIDTH)):
        store_int(at, word, load_int(row, word))
    cell = cell_of(ring, at)
    store_int(cell, WEIGHT, 1)
    store_int(cell, KIND, 0)
    store_int(cell, NEXT, 0)
    extend_cell(
        load_int(frame, POOL_AT),
        cell,
        kind,
        load_int(frame, SETS_AT),
        load_int(frame, WORDS_OF_SET),
        load_int(frame, MOST_LISTED),
    )
    store_int(ring, NUMBER, event + 1)
    store_int(ring, COUNT, load_int(ring, COUNT) + 1)
    first = load_int(ring, FIRST_INDEX)
    number = first
    while number >= 0:
        index = index_of(frame, number)
        hang(ring, index, event, hash_row(at, base, index))
        number = load_int(index, FOLLOWING)
    if load_int(ring, COUNT) > load_int(index_of(frame, first), MASK):
        _more_heads(frame, ring)


@kernel()
def drop_events(frame: int, input_: int, before: int) -> None:
    """Forget the events of times before this one."""
    ring, pool = ring_of(frame, input_), load_int(frame, POOL_AT)
    words = load_int(frame, WORDS_OF_SET)
    number, last = load_int(ring, OLDEST), load_int(ring, NUMBER)
    while number < last:
        row = event_at(ring, number)
        if load_int(row, 1) >= before:
            break
        cell = cell_of(ring, row)
        give_set(pool, cell, load_int(cell, KIND), words)
        number += 1
    store_int(ring, OLDEST, number)
    store_int(ring, COUNT, last - number)


@kernel()
def first_from(ring: int, time: int) -> int:
    """The number of the oldest event that is not before a time."""
    low, high = load_int(ring, OLDEST), load_int(ring, NUMBER)
    while low < high:
        middle = (low + high) >> 1
        if load_int(event_at(ring, middle), 1) < time:
            low = middle + 1
        else:
            high = middle
    return low
