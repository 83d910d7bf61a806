"""The events that a join with windows inside holds, moved out and in, and cleaned of members that have gone.

Events are saved in their slots, so that those that did not change are where they were, and with
the nodes of the input (see `state.py`).
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.memory import release, resized
from braid.jit.records import Halves, Words
from braid.jit.ring import event_at, slot_of
from braid.jit.runtime import ROWS, WORDS, address, kernel
from braid.operators.core.kernels.node_sets import ALL, BITS, meet, set_of, shrink_cell
from braid.operators.join.kernels.frame import Frame, expand
from braid.operators.join.kernels.rings import (
    EVENT_LINK_WORDS,
    add_event,
    cell_of,
    link_ring,
    make_room,
    ring_of,
)
from braid.operators.join.kernels.state import copy_set, count_set, pack, unpack
from braid.operators.join.kernels.store import Link, make_heads
from braid.operators.join.kernels.window_covers import WindowFrame, covered, first_of

#: Words of a set of input nodes up to which every event has room for one in its own place.
FIXED = 16


@kernel((Frame.type, types.int64, ROWS))
def copy_events(frame: Frame, input_: int, out: np.ndarray) -> None:
    """Copy the events of an input, the oldest first."""
    ring = ring_of(frame, input_)
    for k in range(ring.count):
        row = event_at(ring, ring.oldest + k)
        for word in range(out.shape[1]):
            out[k, word] = row[word]


@kernel((Frame.type, types.int64, WORDS, ROWS))
def write_words(frame: Frame, input_: int, places: np.ndarray, values: np.ndarray) -> None:
    """Replace some words of all events, the oldest first; hashes are stale then."""
    ring = ring_of(frame, input_)
    for k in range(ring.count):
        row = event_at(ring, ring.oldest + k)
        for p in range(places.shape[0]):
            row[places[p]] = values[k, p]


@kernel((Frame.type, types.int64, types.int64, types.int64))
def build_index(frame: Frame, input_: int, number: int, size: int) -> None:
    """Chain all events of an input in an index anew, in `size` chains or more."""
    ring, index = ring_of(frame, input_), frame.indexes[number]
    index.links = Link(resized(index.links, EVENT_LINK_WORDS * ring.capacity))
    make_heads(index, size)
    link_ring(ring, index, True)


@kernel((Frame.type, types.int64))
def rehash(frame: Frame, input_: int) -> None:
    """Chain all events of an input in all its indexes anew."""
    ring = ring_of(frame, input_)
    number = ring.index
    while number >= 0:
        index = frame.indexes[number]
        make_heads(index, index.mask + 1)
        link_ring(ring, index, True)
        number = index.following


@kernel((Frame.type, types.int64, Words.type))
def purge(frame: Frame, input_: int, gone: Words) -> None:
    """Take output nodes, as bits, out of all events of an input; those that nobody sees then leave
    in their time."""
    ring, size, spare = ring_of(frame, input_), frame.set_words, frame.sets
    for number in range(ring.oldest, ring.next):
        cell = cell_of(ring, event_at(ring, number))
        if cell.kind != ALL:
            both = meet(cell.kind, set_of(cell, size), BITS, gone, spare, size)
            if both != 0:
                shrink_cell(frame.pool, cell, both, spare, size)


@kernel((Frame.type, types.int64, Words.type, types.int64, ROWS, ROWS, WORDS))
def copy_ring(
    frame: Frame,
    input_: int,
    local: Words,
    width: int,
    rows: np.ndarray,
    cells: np.ndarray,
    written: np.ndarray,
) -> Words:
    """Copy the slots of an input: rows, and for each the kind of its set and where its words begin.
    The words of the sets are returned, and their number is `written`.

    `local`: for each output node, the number of its input node among those that are saved, or -1
    if another output node speaks for it; `width`: words of a set of these as bits. Up to FIXED of
    them every slot has its own.
    """
    ring, size = ring_of(frame, input_), frame.set_words
    slots, fixed = ring.capacity, width <= FIXED
    used = slots * width if fixed else np.int64(0)
    longest = 64 * size + width
    room = used + longest
    sets, spare = Words(resized(0, room)), Words(resized(0, longest))
    for word in range(used):
        sets[word] = 0
    for number in range(ring.oldest, ring.next):
        slot, row = slot_of(ring, number), event_at(ring, number)
        for word in range(ring.width):
            rows[slot, word] = row[word]
        cell = cell_of(ring, row)
        kind = cell.kind
        cells[slot, 0] = kind
        if kind == ALL or kind == 0:
            continue
        count = copy_set(kind, set_of(cell, size), size, local, spare)
        begin = slot * width if fixed else used
        if fixed or count > width:
            pack(spare, count, width)
            count = np.int64(BITS)
        length = width if count == BITS else count
        if not fixed:
            if used + longest > room:
                room = 2 * (used + longest)
                sets = Words(resized(sets, room))
            used += length
        for word in range(length):
            sets[begin + word] = spare[word]
        cells[slot, 0], cells[slot, 1] = count, begin
    written[0] = used
    release(spare)
    return sets


_HALVES = types.Array(types.int32, 1, "C")


@kernel((Frame.type, types.int64, WORDS, ROWS, ROWS, WORDS, WORDS, _HALVES))
def hold_ring(
    frame: Frame,
    input_: int,
    marks: np.ndarray,
    rows: np.ndarray,
    cells: np.ndarray,
    sets: np.ndarray,
    numbers: np.ndarray,
    spare: np.ndarray,
) -> None:
    """Hold events again, as `copy_ring` gives them, in a ring that has none.

    `marks`: the numbers of the oldest and of the next event, room, words of a saved set; `numbers`:
    what the saved nodes are called now, above all nodes in use if they are gone; `spare`: room for
    all of them.
    """
    ring, feed, base = ring_of(frame, input_), frame.feeds[input_], Words(address(rows))
    feed.members = Halves(address(spare))
    room = marks[2]
    while room > 16 and room > 4 * (marks[1] - marks[0]):
        room >>= 1
    make_room(frame, ring, room)
    ring.oldest = marks[0]
    ring.next = marks[0]
    for number in range(marks[0], marks[1]):
        slot = number & (marks[2] - 1)
        kind = cells[slot, 0]
        if kind != ALL:
            count = unpack(sets, kind, cells[slot, 1], marks[3], numbers, spare)
            kind = expand(frame, feed, 0, count, frame.sets)
        if kind != 0:
            add_event(frame, input_, base.after(slot * rows.shape[1]), kind)


@kernel((WORDS, types.int64, ROWS))
def lay_masks(order: np.ndarray, shift: int, out: np.ndarray) -> None:
    """For every 2^shift-th of some nodes the set of it and all that follow, as bits."""
    for block in range(out.shape[0] - 1, -1, -1):
        for word in range(out.shape[1]):
            out[block, word] = out[block + 1, word] if block + 1 < out.shape[0] else 0
        last = min((block + 1) << shift, order.shape[0])
        for place in range(block << shift, last):
            node = order[place]
            out[block, node >> 6] |= np.int64(1) << np.int64(node & 63)


@kernel((WindowFrame.type, types.int64, Words.type))
def count_events(frame: WindowFrame, input_: int, counts: Words) -> None:
    """Add to each node's count the events of an input that are in its window now."""
    ring, cover, size = ring_of(frame, input_), frame.covers[input_], frame.set_words
    for number in range(ring.oldest, ring.next):
        row = event_at(ring, number)
        cell, age = cell_of(ring, row), frame.now - row[1]
        kind, nodes, first = cell.kind, set_of(cell, size), first_of(cover, age)
        if kind == 0 or first == cover.nodes:
            continue
        if first > 0:
            kind = covered(cover, first, age, kind, nodes, frame.sets, size)
            nodes = frame.sets
        count_set(frame, kind, nodes, counts)
