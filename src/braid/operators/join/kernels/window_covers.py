"""Sizes of windows inside a join: which output nodes still see an event of some age.

For each input the nodes lie in order of their sizes, and with every place of that order (or every
few) goes the set of the nodes from there on: which windows cover an event costs one search and an
AND.
"""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel, load_int, store_int
from braid.operators.core.kernels.node_sets import ALL, BITS, KIND, meet, set_of
from braid.operators.join.kernels.frame import (
    AT_KIND,
    AT_SET,
    FRAME,
    INPUTS,
    LEVEL_WORDS,
    SETS_AT,
    WORDS_OF_SET,
)
from braid.operators.join.kernels.rings import drop_events, ring_of
from braid.operators.join.kernels.store import COUNT

#: More words of the frame: where the sizes of inputs are described; suspects as bits, and whether
#: there are any; the instant; the input that drives, the hash of its event by what is compared,
#: whether combinations go; output sets as bits; where the pairs of the last row of the event that
#: drives begin, or -1 if it has none; whether all that goes is told (COMPLETE), and then when events
#: leave windows next (`expiry_heap.py`).
(
    COVERS_AT,
    SUSPECTS_AT,
    SUSPECTED,
    NOW,
    DRIVER,
    DRIVER_HASH,
    GOING,
    BITS_AT,
    BITS_ROOM,
    BITS_ROWS,
    LAST_PAIRS,
    COMPLETE,
    VISITS_AT,
    VISITS_ROOM,
    VISITS,
    WINDOW_FRAME,
) = range(FRAME, FRAME + 16)

#: The sizes of an input: number of output nodes, their sizes in order, the nodes in that order, for
#: every 2^SHIFT-th of them the set of all from there on, the size of each node, the longest, and
#: whether columns of the input are among those that are compared; whether all sizes are the same, and
#: then whether it is known when the next event leaves (`expiry_heap.py`).
(
    SIZED,
    SIZES_AT,
    ORDER_AT,
    MASKS_AT,
    SHIFT,
    SIZE_OF_AT,
    LONGEST,
    NETTED,
    ONE_SIZE,
    AWAITED,
    COVER_WORDS,
) = range(11)


@kernel()
def first_of(cover: int, age: int) -> int:
    """The place of the first node whose window is at least so long."""
    sizes, low, high = load_int(cover, SIZES_AT), np.int64(0), load_int(cover, SIZED)
    while low < high:
        middle = (low + high) >> 1
        if load_int(sizes, middle) < age:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def covered(cover: int, first: int, age: int, kind: int, at: int, out: int, words: int) -> int:
    """Of a set the nodes from a place on, that of this age, written to `out`: the kind of it."""
    if kind > 0:
        count, sizes = np.int64(0), load_int(cover, SIZE_OF_AT)
        for k in range(kind):
            node = load_int(at, k)
            if load_int(sizes, node) >= age:
                store_int(out, count, node)
                count += 1
        return count
    shift, some = load_int(cover, SHIFT), np.int64(0)
    mask = load_int(cover, MASKS_AT) + (first >> shift) * (8 * words)
    begin_ = (first >> shift) << shift
    for word in range(words):
        both = load_int(mask, word)
        if kind == BITS:
            both &= load_int(at, word)
        store_int(out, word, both)
        some |= both
    if some != 0 and begin_ < first:
        order = load_int(cover, ORDER_AT)
        for place in range(begin_, first):
            node = load_int(order, place)
            bit = np.int64(1) << np.int64(node & 63)
            store_int(out, node >> 6, load_int(out, node >> 6) & ~bit)
        some = np.int64(0)
        for word in range(words):
            some |= load_int(out, word)
    return np.int64(BITS) if some != 0 else np.int64(0)


@kernel()
def carry(frame: int, depth: int, level: int, cell: int, cover: int, age: int) -> bool:
    """Carry to the next level the nodes that also see an event of this age; whether there are.

    Most often there is none in both sets: that is asked before sizes are.
    """
    words = load_int(frame, WORDS_OF_SET)
    kind, at, own = load_int(level, AT_KIND), load_int(level, AT_SET), load_int(cell, KIND)
    out = load_int(frame, SETS_AT) + (depth + 2) * (8 * words)
    if own != ALL:
        place = set_of(cell, words)
        if kind == ALL:
            kind, at = own, place
        else:
            kind = meet(kind, at, own, place, out, words)
            at = out
    if kind == 0:
        return False
    # Of a list, the size of each node is asked; of bits, how far the order of sizes is passed.
    first = np.int64(1) if kind > 0 else first_of(cover, age)
    if first == load_int(cover, SIZED) and kind < 0:
        return False
    if first > 0:
        kind = covered(cover, first, age, kind, at, out, words)
        at = out
    if kind == 0:
        return False
    following = level + 8 * LEVEL_WORDS
    store_int(following, AT_KIND, kind)
    store_int(following, AT_SET, at)
    return True


@kernel()
def forget_left(frame: int, bound: int) -> None:
    """Drop what has left all windows; all that comes is of this time or later.

    What leaves at the very instant may have to go together with something that comes at it.
    """
    for i in range(load_int(frame, INPUTS)):
        longest = load_int(load_int(frame, COVERS_AT) + i * (8 * COVER_WORDS), LONGEST)
        before = bound - 1 - longest
        if load_int(ring_of(frame, i), COUNT) > 0 and (before < bound or longest < 0):
            drop_events(frame, i, before)
