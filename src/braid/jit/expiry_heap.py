"""A heap of expiries: when a row leaves next, the earliest first."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from braid.jit.memory import resized
from braid.jit.records import Record, i64, record
from braid.jit.runtime import kernel


@record
class Expiry(Record):
    """The instant at which a row of an input leaves windows of some size."""

    instant: i64
    input: i64
    #: The number of the row.
    number: i64
    size: i64


@record
class ExpiryHeap(Record):
    """The first `count` of the `room` expiries at `first`; no expiry is before the first."""

    first: Expiry
    room: i64
    count: i64
    #: The expiry that was taken out last.
    taken: Annotated[Expiry, 1]


_WORDS = Expiry.stride // 8


@kernel()
def _write(expiry: Expiry, instant: int, input_: int, number: int, size: int) -> None:
    expiry.instant = instant
    expiry.input = input_
    expiry.number = number
    expiry.size = size


@kernel()
def _copy(target: Expiry, source: Expiry) -> None:
    _write(target, source.instant, source.input, source.number, source.size)


@kernel()
def push_expiry(heap: ExpiryHeap, instant: int, input_: int, number: int, size: int) -> None:
    """Add an expiry."""
    place = heap.count
    if place == heap.room:
        heap.room = max(np.int64(256), 2 * place)
        heap.first = Expiry(resized(heap.first, _WORDS * heap.room))
    expiries = heap.first
    heap.count = place + 1
    while place > 0:
        above = (place - 1) >> 1
        if expiries[above].instant <= instant:
            break
        _copy(expiries[place], expiries[above])
        place = above
    _write(expiries[place], instant, input_, number, size)


@kernel()
def pop_expiry(heap: ExpiryHeap, last: int) -> bool:
    """Take the earliest expiry out if it is not after an instant; whether it is there."""
    expiries, count = heap.first, heap.count - 1
    if count < 0 or expiries.instant > last:
        return False
    _copy(heap.taken, expiries)
    heap.count = count
    instant, place = expiries[count].instant, np.int64(0)
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and expiries[below + 1].instant < expiries[below].instant:
            below += 1
        if expiries[below].instant >= instant:
            break
        _copy(expiries[place], expiries[below])
        place = below
    _copy(expiries[place], expiries[count])
    return True
