"""A ring of rows that arrive and leave in order of time.

Each row has a *number* that counts on for ever; its slot is the number modulo the room. A row that
has left has a number below all that are held, so that nothing that refers to it by number needs to be
told.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import kernel


@record
class Ring(Record):
    """The rows from number `oldest` to number `next`, which are `count`."""

    count: i64
    next: i64
    oldest: i64
    rows: Words
    #: For how many rows there is room, a power of two; words of a slot.
    capacity: i64
    slot_words: i64


@kernel()
def slot_of(ring: Ring, number: int) -> int:
    return number & (ring.capacity - 1)


@kernel()
def event_at(ring: Ring, number: int) -> Words:
    """The row of a number."""
    return ring.rows.after(slot_of(ring, number) * ring.slot_words)


@kernel()
def moved(items: Words, words: int, ring: Ring, room: int) -> Words:
    """Items of so many words, one for each slot of a ring, in memory for more slots."""
    new = Words(resized(0, words * room))
    for number in range(ring.oldest, ring.next):
        source = items.after(slot_of(ring, number) * words)
        target = new.after((number & (room - 1)) * words)
        for word in range(words):
            target[word] = source[word]
    release(items)
    return new


@kernel()
def first_from(ring: Ring, time: int) -> int:
    """The number of the oldest row that is not before a time."""
    low, high = ring.oldest, ring.next
    while low < high:
        middle = (low + high) >> 1
        if event_at(ring, middle)[1] < time:
            low = middle + 1
        else:
            high = middle
    return np.int64(low)
