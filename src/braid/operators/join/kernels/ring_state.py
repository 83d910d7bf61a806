"""What a join with windows inside holds, moved out and in, and cleaned of members that have gone.

Events are saved in their slots, so that those that did not change are where they were, and with
the nodes of the input (see `state.py`).
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.memory import release, resized
from braid.jit.runtime import ROWS, WORDS, address, kernel, load_int, store_int
from braid.operators.core.kernels.node_sets import (
    ALL,
    BITS,
    KIND,
    lowest,
    meet,
    set_of,
    shrink_cell,
)
from braid.operators.join.kernels.frame import (
    FEED_MEMBERS_AT,
    FEED_WORDS,
    FEEDS_AT,
    POOL_AT,
    SETS_AT,
    WORDS_OF_SET,
    expand,
)
from braid.operators.join.kernels.rings import (
    LINK,
    NUMBER,
    OLDEST,
    add_event,
    cell_of,
    event_at,
    hang_ring,
    index_of,
    make_room,
    ring_of,
)
from braid.operators.join.kernels.state import copy_set, count_set, pack
from braid.operators.join.kernels.store import (
    CAPACITY,
    COUNT,
    FIRST_INDEX,
    FOLLOWING,
    LINKS_AT,
    MASK,
    WIDTH,
    make_heads,
)
from braid.operators.join.kernels.window_covers import (
    COVER_WORDS,
    COVERS_AT,
    NOW,
    SIZED,
    covered,
    first_of,
)

#: Words of a set of input nodes up to which every event has room for one in its own place.
FIXED = 16


@kernel((WORDS, types.int64, ROWS))
def copy_events(words: np.ndarray, input_: int, out: np.ndarray) -> None:
    """The events of an input, the oldest first."""
    ring = ring_of(address(words), input_)
    oldest = load_int(ring, OLDEST)
    for k in range(load_int(ring, COUNT)):
        row = event_at(ring, oldest + k)
        for word in range(out.shape[1]):
            out[k, word] = load_int(row, word)


@kernel((WORDS, types.int64, WORDS, ROWS))
def write_words(words: np.ndarray, input_: int, places: np.ndarray, values: np.ndarray) -> None:
    """Replace some words of all events, the oldest first; hashes are stale then."""
    ring = ring_of(address(words), input_)
    oldest = load_int(ring, OLDEST)
    for k in range(load_int(ring, COUNT)):
        row = event_at(ring, oldest + k)
        for p in range(places.shape[0]):
            store_int(row, places[p], values[k, p])


@kernel((WORDS, types.int64, types.int64, types.int64))
def build_index(words: np.ndarray, input_: int, number: int, size: int) -> None:
    """Chain all events of an input in an index anew, with at least `size` chains."""
    frame = address(words)
    ring, index = ring_of(frame, input_), index_of(frame, number)
    links = resized(load_int(index, LINKS_AT), LINK * load_int(ring, CAPACITY))
    store_int(index, LINKS_AT, links)
    make_heads(index, size)
    hang_ring(ring, index, True)


@kernel((WORDS, types.int64))
def rehash(words: np.ndarray, input_: int) -> None:
    """Chain all events of an input in all its indexes anew."""
    frame = address(words)
    ring = ring_of(frame, input_)
    number = load_int(ring, FIRST_INDEX)
    while number >= 0:
        index = index_of(frame, number)
        make_heads(index, load_int(index, MASK) + 1)
        hang_ring(ring, index, True)
        number = load_int(index, FOLLOWING)


@kernel((WORDS, types.int64, WORDS))
def purge(words: np.ndarray, input_: int, gone: np.ndarray) -> None:
    """Take output nodes, as bits, out of all events of an input; those that are nobody's then
    leave in their time."""
    frame = address(words)
    ring, pool = ring_of(frame, input_), load_int(frame, POOL_AT)
    size, spare, others = load_int(frame, WORDS_OF_SET), load_int(frame, SETS_AT), address(gone)
    for number in range(load_int(ring, OLDEST), load_int(ring, NUMBER)):
        cell = cell_of(ring, event_at(ring, number))
        kind = load_int(cell, KIND)
        if kind != ALL:
            both = meet(kind, set_of(cell, size), BITS, others, spare, size)
            if both != 0:
                shrink_cell(pool, cell, both, spare, size)


@kernel((WORDS, types.int64, WORDS, types.int64, ROWS, ROWS, WORDS))
def copy_ring(
    words: np.ndarray,
    input_: int,
    local: np.ndarray,
    width: int,
    rows: np.ndarray,
    cells: np.ndarray,
    written: np.ndarray,
) -> int:
    """The slots of an input: rows, of each the kind of its set and where its words begin; and the
    words of the sets, whose address is given and whose number is `written`.

    `local`: for each output node, the number of its input node among those that are saved, or -1
    if another output node speaks for it; `width`: words of a set of these as bits. Up to FIXED of
    them every slot has its own.
    """
    frame = address(words)
    ring, size = ring_of(frame, input_), load_int(frame, WORDS_OF_SET)
    slots, fixed = load_int(ring, CAPACITY), width <= FIXED
    used = slots * width if fixed else np.int64(0)
    longest = 64 * size + width
    room = used + longest
    sets = resized(0, room)
    for word in range(used):
        store_int(sets, word, 0)
    spare = resized(0, longest)
    for number in range(load_int(ring, OLDEST), load_int(ring, NUMBER)):
        slot, row = number & (slots - 1), event_at(ring, number)
        for word in range(load_int(ring, WIDTH)):
            rows[slot, word] = load_int(row, word)
        cell = cell_of(ring, row)
        kind = load_int(cell, KIND)
        cells[slot, 0] = kind
        if kind == ALL or kind == 0:
            continue
        count = copy_set(kind, set_of(cell, size), size, address(local), spare)
        begin = slot * width if fixed else used
        if fixed or count > width:
            pack(spare, count, width)
            count = np.int64(BITS)
        length = width if count == BITS else count
        if not fixed:
            if used + longest > room:
                room = 2 * (used + longest)
                sets = resized(sets, room)
            used += length
        for word in range(length):
            store_int(sets, begin + word, load_int(spare, word))
        cells[slot, 0], cells[slot, 1] = count, begin
    written[0] = used
    release(spare)
    return sets


_HALVES = types.Array(types.int32, 1, "C")


@kernel()
def _spread(
    sets: np.ndarray, kind: int, begin: int, width: int, numbers: np.ndarray, spare: np.ndarray
) -> int:
    """The nodes of a saved set under their present numbers; how many."""
    count = np.int64(0)
    if kind != BITS:
        for k in range(kind):
            spare[k] = numbers[sets[begin + k]]
        return np.int64(kind)
    for k in range(width):
        word = sets[begin + k]
        while word != 0:
            bit = lowest(word)
            word ^= np.int64(1) << np.int64(bit)
            spare[count] = numbers[64 * k + bit]
            count += 1
    return count


@kernel((WORDS, types.int64, WORDS, ROWS, ROWS, WORDS, WORDS, _HALVES))
def hold_ring(
    words: np.ndarray,
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
    frame = address(words)
    ring, feed = ring_of(frame, input_), load_int(frame, FEEDS_AT) + input_ * (8 * FEED_WORDS)
    store_int(feed, FEED_MEMBERS_AT, address(spare))
    room = marks[2]
    while room > 16 and room > 4 * (marks[1] - marks[0]):
        room >>= 1
    make_room(frame, ring, room)
    store_int(ring, OLDEST, marks[0])
    store_int(ring, NUMBER, marks[0])
    base, stride, out = address(rows), rows.shape[1] * 8, load_int(frame, SETS_AT)
    for number in range(marks[0], marks[1]):
        slot = number & (marks[2] - 1)
        kind = cells[slot, 0]
        if kind != ALL:
            count = _spread(sets, kind, cells[slot, 1], marks[3], numbers, spare)
            kind = expand(frame, feed, 0, count, out)
        if kind != 0:
            add_event(frame, input_, base + slot * stride, kind)


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


@kernel((WORDS, types.int64, WORDS))
def count_events(words: np.ndarray, input_: int, counts: np.ndarray) -> None:
    """Add to each node's count the events of an input that are in its window now."""
    frame = address(words)
    ring, size, now = ring_of(frame, input_), load_int(frame, WORDS_OF_SET), load_int(frame, NOW)
    cover = load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    out = load_int(frame, SETS_AT)
    for number in range(load_int(ring, OLDEST), load_int(ring, NUMBER)):
        row = event_at(ring, number)
        cell, age = cell_of(ring, row), now - load_int(row, 1)
        kind, at, first = load_int(cell, KIND), set_of(cell, size), first_of(cover, age)
        if kind == 0 or first == load_int(cover, SIZED):
            continue
        if first > 0:
            kind, at = covered(cover, first, age, kind, at, out, size), out
        count_set(frame, kind, at, address(counts))
