"""Sizes of windows inside a join: which output nodes still see an event of some age.

For each input the nodes lie in order of their sizes, and with every place of that order (or every
few) goes the set of the nodes from there on: which windows cover an event costs one search and an
AND.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from braid.jit.expiry_heap import ExpiryHeap
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import kernel
from braid.jit.vector import Vector
from braid.operators.core.kernels.node_sets import ALL, BITS, Cell, meet, set_of
from braid.operators.join.kernels.frame import Frame, Level
from braid.operators.join.kernels.rings import drop_events


@record
class Cover(Record):
    """The sizes of the windows of one input."""

    #: The number of output nodes, their sizes in order, and the nodes in that order.
    nodes: i64
    sizes: Words
    order: Words
    #: For every 2^shift-th of the nodes the set of it and all that follow, as bits.
    masks: Words
    shift: i64
    #: The size of each node, and the longest.
    size_of: Words
    longest: i64
    #: Whether columns of the input are among those that are compared.
    netted: i64
    #: The index of the columns that are compared.
    compared: i64
    #: Whether all sizes are the same, and then whether the heap has the expiry of an event.
    one_size: i64
    awaited: i64


@record
class WindowFrame(Frame):
    """The frame of a join with windows inside."""

    covers: Cover
    #: Nodes for which something may leave at this instant, as bits, and whether there are any.
    suspects: Words
    suspected: i64
    #: The instant.
    now: i64
    #: The input that drives, and the hash of its event by the columns that are compared.
    driver: i64
    driver_hash: i64
    #: Whether combinations leave.
    leaving: i64
    #: Sets of output rows as bits, and their number.
    out_sets: Annotated[Vector, 1]
    out_set_rows: i64
    #: Where the pairs of the last row of the event that drives begin; -1: it has none.
    last_pairs: i64
    #: Whether all combinations that leave are emitted, and then when events leave windows next.
    complete: i64
    expiries: Annotated[ExpiryHeap, 1]


@kernel()
def first_of(cover: Cover, age: int) -> int:
    """The place of the first node whose window is at least so long."""
    sizes, low, high = cover.sizes, np.int64(0), cover.nodes
    while low < high:
        middle = (low + high) >> 1
        if sizes[middle] < age:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def covered(
    cover: Cover, first: int, age: int, kind: int, nodes: Words, out: Words, words: int
) -> int:
    """Write the nodes of a set from a place on, that of this age, to `out`; the kind of it."""
    if kind > 0:
        count, sizes = np.int64(0), cover.size_of
        for k in range(kind):
            node = nodes[k]
            if sizes[node] >= age:
                out[count] = node
                count += 1
        return count
    shift, some = cover.shift, np.int64(0)
    mask = cover.masks.after((first >> shift) * words)
    begin_ = (first >> shift) << shift
    for word in range(words):
        both = mask[word]
        if kind == BITS:
            both &= nodes[word]
        out[word] = both
        some |= both
    if some != 0 and begin_ < first:
        order = cover.order
        for place in range(begin_, first):
            node = order[place]
            out[node >> 6] &= ~(np.int64(1) << np.int64(node & 63))
        some = np.int64(0)
        for word in range(words):
            some |= out[word]
    return np.int64(BITS) if some != 0 else np.int64(0)


@kernel()
def carry(frame: WindowFrame, depth: int, level: Level, cell: Cell, cover: Cover, age: int) -> bool:
    """Carry to the next level the nodes that also see an event of this age; whether there are any.

    Mostly the two sets have no node in common: that is asked before sizes are.
    """
    words = frame.set_words
    kind, nodes, own = level.kind, level.nodes, cell.kind
    out = frame.sets.after((depth + 2) * words)
    if own != ALL:
        others = set_of(cell, words)
        if kind == ALL:
            kind, nodes = own, others
        else:
            kind = meet(kind, nodes, own, others, out, words)
            nodes = out
    if kind == 0:
        return False
    # Of a list, the size of each node is asked; of bits, how far the order of sizes is passed.
    first = np.int64(1) if kind > 0 else first_of(cover, age)
    if first == cover.nodes and kind < 0:
        return False
    if first > 0:
        kind = covered(cover, first, age, kind, nodes, out, words)
        nodes = out
    if kind == 0:
        return False
    following = level[1]
    following.kind = kind
    following.nodes = nodes
    return True


@kernel()
def drop_expired(frame: WindowFrame, bound: int) -> None:
    """Drop the events that have left all windows; all that arrives is of this time or later.

    An event that leaves at the very instant may have to leave together with one that arrives at it.
    """
    for i in range(frame.inputs):
        longest = frame.covers[i].longest
        before = bound - 1 - longest
        if frame.stores[i].count > 0 and (before < bound or longest < 0):
            drop_events(frame, i, before)
