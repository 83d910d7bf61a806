"""Windows by time: a row waits in one slot until the longest window over it is over.

Input nodes with the same list of sizes have one *profile*. A profile has a queue of entries: a row
with the bindings that it came with. A *binding* is an input node with its output nodes, one for each
size. Each size has a cursor into the queue, and the entries that the cursor passes leave the window of
that size. So an event costs as much as it has bindings when it comes, and as much as it has output
nodes when it leaves, however long it stays.

A row that leaves is written as visits (`deltas.py`).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numba import types

from braid.jit.hashing import mix
from braid.jit.memory import resized
from braid.jit.records import Halves, Record, Words, i64, record
from braid.jit.runtime import kernel
from braid.jit.vector import Vector, push, reserve
from braid.operators.window.kernels.deltas import (
    VISIT_WORDS,
    Arrivals,
    Leaving,
    event_at,
    write_visit,
)
from braid.operators.window.kernels.row_slots import RowSlots, free_slot, keep_row, row_at

#: The end of time: a row that would leave after it stays.
LAST = np.int64(2**62)
NEVER = np.int64(2**63 - 1)
_LOW = np.int64(0xFFFFFFFF)


@record
class Entry(Record):
    """A row in a queue, and its bindings, of which there may be more than fit in place."""

    slot: i64
    count: i64
    bindings: Annotated[Halves, 2]


#: The words of an entry before its bindings, of which each word has two.
_HEADER = Entry.fields["bindings"].offset // 8


@record
class Profile(Record):
    """A queue, and the cursors of its sizes. Places in the queue are words."""

    queue: Words
    room: i64
    #: The first entry, the end of the last one, and the last one.
    head: i64
    tail: i64
    latest: i64
    #: The number of the row of the last entry, or -1.
    open: i64
    #: When the next row leaves, at the earliest.
    next: i64
    #: The number of the first size, and how many sizes there are.
    first: i64
    count: i64
    #: Whether a cursor has moved since the last call of `drop_passed`.
    touched: i64


@record
class Queues(Record):
    """The profiles and bindings of windows by time."""

    slots: RowSlots
    leaving: Leaving
    #: The present binding of each input node, or -1.
    current: Words
    current_length: i64
    profiles: Profile
    profile_count: i64
    #: The sizes and cursors of all profiles.
    sizes: Words
    cursors: Words
    #: The profile of each binding, and the place of its first output node.
    profile_of: Words
    outs_at: Words
    #: The output nodes of all bindings; -1: nobody's.
    outs: Words


@kernel()
def entry_at(profile: Profile, place: int) -> Entry:
    return Entry(profile.queue.after(place).address)


@kernel()
def _after(entry: Entry, place: int) -> int:
    """The place of the next entry."""
    return place + _HEADER + ((entry.count + 1) >> 1)


@kernel()
def _make_room(profile: Profile, cursors: Words) -> None:
    """Room for one more entry at the end of a queue."""
    head, room, queue = profile.head, profile.room, profile.queue
    if 2 * head > room:
        for word in range(head, profile.tail):
            queue[word - head] = queue[word]
        profile.head = 0
        profile.tail -= head
        profile.latest -= head
        for c in range(profile.first, profile.first + profile.count):
            cursors[c] -= head
    needed = profile.tail + _HEADER + 1
    if needed > room:
        profile.room = max(16, needed, room + room // 2)
        profile.queue = Words(resized(queue, profile.room))


@kernel()
def _enqueue(queues: Queues, profile: Profile, slot: int, number: int, binding: int) -> None:
    """Add a binding of a row to a profile's queue, in the entry of the row."""
    if profile.tail + _HEADER + 1 > profile.room:
        _make_room(profile, queues.cursors)
    if profile.open != number:
        profile.latest, profile.open = profile.tail, number
        entry = entry_at(profile, profile.latest)
        entry.slot, entry.count = slot, 0
        queues.slots.refs[slot] += 1
    entry = entry_at(profile, profile.latest)
    entry.bindings[entry.count] = binding
    entry.count += 1
    profile.tail = _after(entry, profile.latest)


@kernel((Queues.type, Arrivals.type))
def arrive(queues: Queues, arrivals: Arrivals) -> None:
    """Keep the events that will leave a window."""
    kept, slot, number = np.int64(-1), np.int64(-1), np.int64(-1)
    for k in range(arrivals.members_length):
        node = arrivals.members[k]
        binding = queues.current[node] if node < queues.current_length else np.int64(-1)
        if binding < 0:
            continue
        event, profile = arrivals.index[k], queues.profiles[queues.profile_of[binding]]
        row, least = event_at(arrivals, event), queues.sizes[profile.first]
        if least > LAST - 1 - row[1]:
            continue
        if event != kept:
            number = queues.slots.number
            slot = keep_row(queues.slots, row)
            kept = event
        _enqueue(queues, profile, slot, number, binding)
        profile.next = min(profile.next, row[1] + least + 1)


@kernel()
def _name_outputs(queues: Queues, entry: Entry, size: int) -> None:
    """Write the output nodes of a size that an entry's bindings have."""
    nodes = queues.leaving.nodes
    reserve(nodes, entry.count, 64)
    for j in range(entry.count):
        out = queues.outs[queues.outs_at[entry.bindings[j]] + size]
        if out >= 0:
            nodes.items[nodes.count] = out
            nodes.count += 1


@kernel((Queues.type, types.int64, types.boolean))
def leave(queues: Queues, bound: int, silent: bool) -> None:
    """Move the cursors over all that leaves before `bound`. `silent`: write no visits, because an
    earlier call has."""
    leaving, slots = queues.leaving, queues.slots
    for p in range(queues.profile_count):
        profile = queues.profiles[p]
        if profile.next >= bound:
            continue
        profile.touched = 1
        tail, next_time = profile.tail, NEVER
        for c in range(profile.first, profile.first + profile.count):
            size, place, before = queues.sizes[c], queues.cursors[c], leaving.visits.count
            while place < tail:
                entry = entry_at(profile, place)
                row = row_at(slots, entry.slot)
                following = _after(entry, place)
                if size > LAST - 1 - row[1]:
                    place = following
                    continue
                time = row[1] + size + 1
                if time >= bound:
                    next_time = min(next_time, time)
                    break
                if not silent:
                    begin = leaving.nodes.count
                    _name_outputs(queues, entry, c - profile.first)
                    if leaving.nodes.count > begin:
                        write_visit(leaving, time, row[0], entry.slot, begin)
                place = following
            queues.cursors[c] = place
            if leaving.visits.count > before:
                push(leaving.runs, before // VISIT_WORDS)
        profile.next = next_time


@kernel((Queues.type,))
def drop_passed(queues: Queues) -> None:
    """Drop entries that all cursors have passed, and rows that no entry refers to any more."""
    slots, cursors = queues.slots, queues.cursors
    for p in range(queues.profile_count):
        profile = queues.profiles[p]
        if profile.touched == 0:
            continue
        profile.touched = 0
        head, slowest = profile.head, profile.tail
        first, last = profile.first, profile.first + profile.count
        for c in range(first, last):
            slowest = min(slowest, cursors[c])
        while head < slowest:
            entry = entry_at(profile, head)
            head = _after(entry, head)
            slots.refs[entry.slot] -= 1
            if slots.refs[entry.slot] == 0:
                free_slot(slots, entry.slot)
        profile.head = head
        if head == profile.tail:
            profile.head, profile.tail, profile.open = 0, 0, -1
            for c in range(first, last):
                cursors[c] = 0


@kernel((Queues.type, Vector.type))
def list_bindings(queues: Queues, pairs: Vector) -> None:
    """All bindings of all rows, as slot << 32 | binding."""
    for p in range(queues.profile_count):
        profile = queues.profiles[p]
        place = profile.head
        while place < profile.tail:
            entry = entry_at(profile, place)
            for j in range(entry.count):
                push(pairs, (entry.slot << 32) | entry.bindings[j])
            place = _after(entry, place)


@kernel()
def enqueue_all(queues: Queues, pairs: np.ndarray) -> None:
    """Fill empty queues with pairs of `list_bindings`, in order of arrival."""
    for k in range(pairs.shape[0]):
        slot, binding = pairs[k] >> 32, pairs[k] & _LOW
        p = queues.profile_of[binding]
        if p >= 0:
            profile = queues.profiles[p]
            _enqueue(queues, profile, slot, row_at(queues.slots, slot)[0], binding)
            profile.next = -NEVER  # the next `leave` computes it


@kernel()
def list_words(starts: np.ndarray, sizes: np.ndarray, seed: int) -> np.ndarray:
    """A word for each list of sizes."""
    out = np.empty(starts.shape[0] - 1, np.int64)
    for k in range(out.shape[0]):
        value = np.int64(seed)
        for j in range(starts[k], starts[k + 1]):
            value = mix(value + sizes[j] + np.int64(0x9E3779B97F4A7C))
        out[k] = value
    return out
