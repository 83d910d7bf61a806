"""When held events leave windows next: a heap of visits, the earliest first.

A visit is of one event and one size of window: then all nodes with windows of that size lose the
event. An event has at most one visit ahead; the next one is known when that is over. Where all
windows of an input have one size, events leave as they came, and only the first has a visit.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.runtime import kernel, load_int, store_int
from braid.operators.core.kernels.node_sets import (
    ALL,
    BITS,
    KIND,
    clear_bits,
    has_bit,
    set_bit,
    set_of,
)
from braid.operators.join.kernels.frame import INPUTS, SETS_AT, WORDS_OF_SET
from braid.operators.join.kernels.rings import (
    NUMBER,
    OLDEST,
    cell_of,
    event_at,
    first_from,
    ring_of,
)
from braid.operators.join.kernels.window_covers import (
    AWAITED,
    COVER_WORDS,
    COVERS_AT,
    LONGEST,
    ONE_SIZE,
    ORDER_AT,
    SIZE_OF_AT,
    SIZED,
    SIZES_AT,
    VISITS,
    VISITS_AT,
    VISITS_ROOM,
    first_of,
)

#: A visit: the instant, the input, the number of the event, and the size.
INSTANT, VISITED, VISITED_NUMBER, VISITED_SIZE, VISIT = range(5)

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
def _move(heap: int, source: int, target: int) -> None:
    for word in range(VISIT):
        store_int(heap, VISIT * target + word, load_int(heap, VISIT * source + word))


@kernel()
def _write(heap: int, place: int, instant: int, input_: int, number: int, size: int) -> None:
    visit = heap + place * (8 * VISIT)
    store_int(visit, INSTANT, instant)
    store_int(visit, VISITED, input_)
    store_int(visit, VISITED_NUMBER, number)
    store_int(visit, VISITED_SIZE, size)


@kernel()
def put_visit(frame: int, instant: int, input_: int, number: int, size: int) -> None:
    """Visit an event of an input when it leaves windows of this size."""
    place = load_int(frame, VISITS)
    if place == load_int(frame, VISITS_ROOM):
        room = max(np.int64(256), 2 * place)
        store_int(frame, VISITS_AT, resized(load_int(frame, VISITS_AT), VISIT * room))
        store_int(frame, VISITS_ROOM, room)
    heap = load_int(frame, VISITS_AT)
    store_int(frame, VISITS, place + 1)
    while place > 0:
        above = (place - 1) >> 1
        if load_int(heap, VISIT * above) <= instant:
            break
        _move(heap, above, place)
        place = above
    _write(heap, place, instant, input_, number, size)


@kernel()
def drop_visit(frame: int) -> None:
    """Take the earliest visit out."""
    heap, count = load_int(frame, VISITS_AT), load_int(frame, VISITS) - 1
    store_int(frame, VISITS, count)
    if count == 0:
        return
    last = heap + count * (8 * VISIT)
    instant, place = load_int(last, INSTANT), np.int64(0)
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and load_int(heap, VISIT * (below + 1)) < load_int(
            heap, VISIT * below
        ):
            below += 1
        if load_int(heap, VISIT * below) >= instant:
            break
        _move(heap, below, place)
        place = below
    _move(heap, count, place)


# ---- events whose nodes are in their cells ----


@kernel()
def leaving_at(frame: int, cover: int, cell: int, size: int) -> int:
    """The nodes that see an event through windows of this size, written where deltas have their
    sets: the kind."""
    words, out, kind = load_int(frame, WORDS_OF_SET), load_int(frame, SETS_AT), load_int(cell, KIND)
    if kind >= 0:
        at, sizes, count = set_of(cell, words), load_int(cover, SIZE_OF_AT), np.int64(0)
        for k in range(kind):
            node = load_int(at, k)
            if load_int(sizes, node) == size:
                store_int(out, count, node)
                count += 1
        return count
    clear_bits(out, words)
    sizes, order, some = load_int(cover, SIZES_AT), load_int(cover, ORDER_AT), False
    place, count = first_of(cover, size), load_int(cover, SIZED)
    while place < count and load_int(sizes, place) == size:
        node = load_int(order, place)
        if kind == ALL or has_bit(set_of(cell, words), node):
            set_bit(out, node)
            some = True
        place += 1
    return np.int64(BITS) if some else np.int64(0)


@kernel()
def _next_size(frame: int, cover: int, cell: int, size: int) -> int:
    """The smallest size above this one of the windows through which nodes see an event, or -1."""
    words, kind, least = load_int(frame, WORDS_OF_SET), load_int(cell, KIND), np.int64(-1)
    if kind >= 0:
        at, sizes = set_of(cell, words), load_int(cover, SIZE_OF_AT)
        for k in range(kind):
            own = load_int(sizes, load_int(at, k))
            if own > size and (least < 0 or own < least):
                least = own
        return least
    order = load_int(cover, ORDER_AT)
    for place in range(first_of(cover, size + 1), load_int(cover, SIZED)):
        if kind == ALL or has_bit(set_of(cell, words), load_int(order, place)):
            return load_int(load_int(cover, SIZES_AT), place)
    return least


@kernel()
def _visit_from(frame: int, input_: int, number: int) -> None:
    """Visit an event, if it is there, when it leaves the windows of the only size."""
    ring, cover = ring_of(frame, input_), load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    number = max(number, load_int(ring, OLDEST))
    store_int(cover, AWAITED, 0)
    if number < load_int(ring, NUMBER):
        size = load_int(cover, LONGEST)
        store_int(cover, AWAITED, 1)
        instant = instant_of(load_int(event_at(ring, number), 1), size)
        put_visit(frame, instant, input_, number, size)


@kernel()
def visit_after(frame: int, input_: int, number: int, size: int) -> None:
    """An event has left windows of this size (-1: it has come): know what leaves next because of
    it."""
    ring, cover = ring_of(frame, input_), load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    if load_int(cover, ONE_SIZE) != 0:
        if size >= 0:
            _visit_from(frame, input_, number + 1)
        elif load_int(cover, AWAITED) == 0:
            _visit_from(frame, input_, number)
        return
    if number >= load_int(ring, OLDEST):
        row = event_at(ring, number)
        following = _next_size(frame, cover, cell_of(ring, row), size)
        if following >= 0:
            put_visit(frame, instant_of(load_int(row, 1), following), input_, number, following)


@kernel()
def visit_held(frame: int, bound: int) -> None:
    """What is held, or sizes, are others than they were: know anew when events leave windows, at
    an instant or after it; what went before is known."""
    store_int(frame, VISITS, 0)
    for i in range(load_int(frame, INPUTS)):
        ring, cover = ring_of(frame, i), load_int(frame, COVERS_AT) + i * (8 * COVER_WORDS)
        if load_int(cover, ONE_SIZE) != 0:
            size = load_int(cover, LONGEST)
            first = first_from(ring, bound - 1 - size) if size < _LONG else load_int(ring, OLDEST)
            _visit_from(frame, i, first)
            continue
        for number in range(load_int(ring, OLDEST), load_int(ring, NUMBER)):
            visit_after(frame, i, number, bound - 2 - load_int(event_at(ring, number), 1))
