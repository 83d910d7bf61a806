"""When held events leave windows next: a heap of visits, the earliest first.

A visit is of one event and one size of window: then all nodes with windows of that size lose the
event. An event has at most one visit ahead; the next one is known when that is over.
"""

from __future__ import annotations

import numpy as np

from braid.kernels.memory import resized
from braid.kernels.runtime import kernel, load_int, store_int
from braid.kernels.window_covers import VISITS, VISITS_AT, VISITS_ROOM

#: A visit: the instant, the input, the number of the event, and the size.
INSTANT, VISITED, VISITED_NUMBER, VISITED_SIZE, VISIT = range(5)

#: An instant that never comes.
NEVER_LEAVES = np.int64(9223372036854775807)


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
