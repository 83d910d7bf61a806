"""When events leave windows next.

An expiry is of one event and one size of window: then all nodes with windows of that size lose the
event. The heap has at most one expiry of an event; the next one is added when that is over. Where all
windows of an input have one size, events leave as they arrived, and only the first has an expiry.
"""

from __future__ import annotations

import numpy as np

from braid.jit.expiry_heap import push_expiry
from braid.jit.ring import event_at, first_from
from braid.jit.runtime import kernel
from braid.operators.core.kernels.node_sets import (
    ALL,
    BITS,
    Cell,
    clear_bits,
    has_bit,
    set_bit,
    set_of,
)
from braid.operators.join.kernels.rings import cell_of, ring_of
from braid.operators.join.kernels.window_covers import Cover, WindowFrame, first_of

#: An instant that never comes.
NEVER_LEAVES = np.int64(9223372036854775807)
#: Windows of this size are never over.
_LONG = 1 << 61


@kernel()
def instant_of(time: int, size: int) -> int:
    """The first instant at which an event of a time is no longer in a window of this size."""
    if time > 0 and size >= NEVER_LEAVES - time - 1:
        return NEVER_LEAVES
    return time + size + 1 if size < NEVER_LEAVES else NEVER_LEAVES


@kernel()
def leaving_at(frame: WindowFrame, cover: Cover, cell: Cell, size: int) -> int:
    """Write the nodes that see an event through windows of this size to where deltas have their
    sets; the kind of the set."""
    words, out, kind = frame.set_words, frame.sets, cell.kind
    nodes = set_of(cell, words)
    if kind >= 0:
        sizes, count = cover.size_of, np.int64(0)
        for k in range(kind):
            node = nodes[k]
            if sizes[node] == size:
                out[count] = node
                count += 1
        return count
    clear_bits(out, words)
    sizes, some = cover.sizes, False
    place = first_of(cover, size)
    while place < cover.nodes and sizes[place] == size:
        node = cover.order[place]
        if kind == ALL or has_bit(nodes, node):
            set_bit(out, node)
            some = True
        place += 1
    return np.int64(BITS) if some else np.int64(0)


@kernel()
def _next_size(frame: WindowFrame, cover: Cover, cell: Cell, size: int) -> int:
    """The smallest size above this one of the windows through which nodes see an event, or -1."""
    kind, least = cell.kind, np.int64(-1)
    nodes = set_of(cell, frame.set_words)
    if kind >= 0:
        for k in range(kind):
            own = cover.size_of[nodes[k]]
            if own > size and (least < 0 or own < least):
                least = own
        return least
    for place in range(first_of(cover, size + 1), cover.nodes):
        if kind == ALL or has_bit(nodes, cover.order[place]):
            return cover.sizes[place]
    return least


@kernel()
def _await_from(frame: WindowFrame, input_: int, number: int) -> None:
    """Add the expiry of an event, if it is held, from the windows of the only size."""
    ring, cover = ring_of(frame, input_), frame.covers[input_]
    number = max(number, ring.oldest)
    cover.awaited = 0
    if number < ring.next:
        size = cover.longest
        cover.awaited = 1
        instant = instant_of(event_at(ring, number)[1], size)
        push_expiry(frame.expiries, instant, input_, number, size)


@kernel()
def await_after(frame: WindowFrame, input_: int, number: int, size: int) -> None:
    """An event has left windows of this size (-1: it has arrived): add the next expiry."""
    ring, cover = ring_of(frame, input_), frame.covers[input_]
    if cover.one_size != 0:
        if size >= 0:
            _await_from(frame, input_, number + 1)
        elif cover.awaited == 0:
            _await_from(frame, input_, number)
        return
    if number >= ring.oldest:
        row = event_at(ring, number)
        following = _next_size(frame, cover, cell_of(ring, row), size)
        if following >= 0:
            instant = instant_of(row[1], following)
            push_expiry(frame.expiries, instant, input_, number, following)


@kernel()
def await_all(frame: WindowFrame, bound: int) -> None:
    """Build the heap anew after events or sizes have changed: with the expiries at an instant or
    after it."""
    frame.expiries.count = 0
    for i in range(frame.inputs):
        ring, cover = ring_of(frame, i), frame.covers[i]
        if cover.one_size != 0:
            size = cover.longest
            first = first_from(ring, bound - 1 - size) if size < _LONG else ring.oldest
            _await_from(frame, i, first)
            continue
        for number in range(ring.oldest, ring.next):
            await_after(frame, i, number, bound - 2 - event_at(ring, number)[1])
