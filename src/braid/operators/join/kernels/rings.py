"""The events that a join with windows inside holds of each input, in a ring.

Events arrive in order of their times and leave in it. The chains of an index link an event to the
one before it, newest first. An event that has left ends every chain that leads to it: nothing is
ever taken out of a chain.

A slot is a row of words and a cell (`operators/core/kernels/node_sets.py`) with the output nodes that
see the event.
"""

from __future__ import annotations

import numpy as np

from braid.jit.hash_table import Link, insert_link, make_chains
from braid.jit.records import Words, i64, record
from braid.jit.ring import Ring, event_at, moved, slot_of
from braid.jit.runtime import kernel
from braid.operators.core.kernels.node_sets import Cell, extend_cell, give_set
from braid.operators.join.kernels.frame import Frame
from braid.operators.join.kernels.store import Index, Store, hash_row

#: Words of a slot beyond the row: its cell.
CELL_WORDS = Cell.stride // 8


@record
class EventRing(Ring):
    """The events that are held of one input; they lie where other joins have a `Store`."""

    width: i64
    base: i64
    index: i64


assert EventRing.stride == Store.stride


@kernel()
def ring_of(frame: Frame, input_: int) -> EventRing:
    return EventRing(frame.stores[input_].address)


@kernel()
def cell_of(ring: EventRing, row: Words) -> Cell:
    return Cell(row.after(ring.width).address)


@kernel()
def _link(ring: EventRing, index: Index, number: int, hash_: int) -> None:
    """Put an event, newer than all others, at the head of its chain."""
    insert_link(index, index.links[slot_of(ring, number)], number, hash_)


@kernel()
def rehash_ring(ring: EventRing, index: Index, chains: int) -> None:
    """Put all events into so many new chains, by hashes that are computed again."""
    make_chains(index, chains)
    for number in range(ring.oldest, ring.next):
        _link(ring, index, number, hash_row(event_at(ring, number), ring.base, index))


@kernel()
def make_room(frame: Frame, ring: EventRing, room: int) -> None:
    """Let a ring have room for so many events, a power of two."""
    ring.rows = moved(ring.rows, ring.slot_words, ring, room)
    number = ring.index
    while number >= 0:
        index = frame.indexes[number]
        links = moved(Words(index.links.address), index.link_size // 8, ring, room)
        index.links = Link(links.address)
        number = index.following
    ring.capacity = room


@kernel()
def _more_chains(frame: Frame, ring: EventRing) -> None:
    """Have at least as many chains as events."""
    number = ring.index
    while number >= 0:
        index = frame.indexes[number]
        if index.keys > 0 and ring.count > index.mask:
            make_chains(index, 2 * (index.mask + 1))
            for event in range(ring.oldest, ring.next):
                _link(ring, index, event, index.links[slot_of(ring, event)].hash)
        number = index.following


@kernel()
def add_event(frame: Frame, input_: int, row: Words, kind: int) -> None:
    """Hold an event that is not older than any; its set is where deltas have theirs."""
    ring = ring_of(frame, input_)
    if ring.count == ring.capacity:
        make_room(frame, ring, max(np.int64(16), 2 * ring.capacity))
    event = ring.next
    own, base = event_at(ring, event), ring.base
    for word in range(ring.width):
        own[word] = row[word]
    cell = cell_of(ring, own)
    cell.weight = 1
    cell.kind = 0
    cell.next = Cell(0)
    extend_cell(frame.pool, cell, kind, frame.sets, frame.set_words, frame.most_listed)
    ring.next = event + 1
    ring.count += 1
    number = ring.index
    while number >= 0:
        index = frame.indexes[number]
        _link(ring, index, event, hash_row(own, base, index))
        number = index.following
    if ring.count > frame.indexes[ring.index].mask:
        _more_chains(frame, ring)


@kernel()
def drop_events(frame: Frame, input_: int, before: int) -> None:
    """Forget the events of times before this one."""
    ring = ring_of(frame, input_)
    number, last = ring.oldest, ring.next
    while number < last:
        row = event_at(ring, number)
        if row[1] >= before:
            break
        cell = cell_of(ring, row)
        give_set(frame.pool, cell, cell.kind, frame.set_words)
        number += 1
    ring.oldest = number
    ring.count = last - number
