"""Slots of rows: each row once, with the number of references to it.

The START word of a row in a slot is its number in the order of arrival, because a row of a relation
has no interval. Free slots are a queue: `take_slot` takes the first, and `free_slot` appends. So
rows that come and go in order lie in order.
"""

from __future__ import annotations

from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import kernel

#: The last free slot refers to no other.
_LAST = -1


@record
class RowSlots(Record):
    """The slots; a free one has a negative count: -2 less the next free slot, or -1."""

    rows: Words
    refs: Words
    #: Words of a row.
    width: i64
    #: Slots that were ever used, and those in use.
    high: i64
    live: i64
    #: The first and the last free slot, or -1.
    first_free: i64
    last_free: i64
    #: The number of the next row.
    number: i64


@kernel()
def row_at(slots: RowSlots, slot: int) -> Words:
    return slots.rows.after(slots.width * slot)


@kernel()
def _take_slot(slots: RowSlots) -> int:
    """A free slot, to which nothing refers; there is room."""
    slot = slots.first_free
    if slot >= 0:
        following = -2 - slots.refs[slot]
        slots.first_free = following
        if following < 0:
            slots.last_free = -1
    else:
        slot = slots.high
        slots.high = slot + 1
    slots.refs[slot] = 0
    slots.live += 1
    return slot


@kernel()
def free_slot(slots: RowSlots, slot: int) -> None:
    slots.refs[slot] = _LAST
    if slots.last_free >= 0:
        slots.refs[slots.last_free] = -2 - slot
    else:
        slots.first_free = slot
    slots.last_free = slot
    slots.live -= 1


@kernel((RowSlots.type,))
def free_unused(slots: RowSlots) -> None:
    """Free all slots to which nothing refers, and forget which were free before."""
    slots.first_free, slots.last_free, slots.live = -1, -1, slots.high
    for slot in range(slots.high):
        if slots.refs[slot] <= 0:
            free_slot(slots, slot)


@kernel()
def keep_row(slots: RowSlots, row: Words) -> int:
    """Copy a row into a free slot, and return the slot."""
    slot = _take_slot(slots)
    own = row_at(slots, slot)
    own[0] = slots.number
    for word in range(1, slots.width):
        own[word] = row[word]
    slots.number += 1
    return slot
