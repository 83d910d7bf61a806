"""What the forms of a selection join cost, tried on events that are held: see `operators/selection_join/forms.py`.

Each trial does what the loop does with the newest events of an input, and leaves nothing behind.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.records import Words
from braid.jit.ring import event_at
from braid.jit.runtime import WORDS, address, kernel, load_half, load_int, store_half
from braid.operators.join.kernels.frame import Frame
from braid.operators.join.kernels.rings import ring_of
from braid.operators.selection_join.kernels.boxes import FIRST_LIST_AT, MARKED_AT, read_keys
from braid.operators.selection_join.kernels.members import (
    ask_all,
    find_everybody,
    find_first,
    list_at,
    mark,
    unmark,
)


@kernel()
def _newest(frame: int, input_: int, place: int) -> Words:
    """One of the newest events of an input, or 0."""
    ring = ring_of(Frame(frame), input_)
    number = ring.next - 1 - place
    return event_at(ring, number) if number >= ring.oldest else Words(0)


@kernel((WORDS, types.int64, types.int64))
def try_first(words: np.ndarray, input_: int, count: int) -> int:
    """Find the nodes of so many events; how many there were."""
    frame, found = address(words), np.int64(0)
    for place in range(count):
        row = _newest(frame, input_, place)
        if row.address != 0:
            read_keys(frame, input_, row)
            found += find_first(frame, input_)
    return found


@kernel((WORDS, types.int64, types.int64, types.int64))
def try_asking(words: np.ndarray, input_: int, other: int, count: int) -> int:
    """Ask the nodes of one event whether they want so many of another input; how many did."""
    frame, found = address(words), np.int64(0)
    row = _newest(frame, input_, 0)
    if row.address == 0:
        return found
    read_keys(frame, input_, row)
    kind = find_first(frame, input_)
    at, out = load_int(frame, FIRST_LIST_AT), list_at(frame, 0)
    for place in range(count):
        event = _newest(frame, other, place)
        if event.address != 0:
            found += ask_all(frame, other, event, kind, at, out)
    return found


@kernel((WORDS, types.int64, types.int64))
def try_common(words: np.ndarray, input_: int, count: int) -> int:
    """Go so often through a list of nodes and look each up in bits; how many were there."""
    frame, found = address(words), np.int64(0)
    row = _newest(frame, input_, 0)
    if row.address == 0:
        return found
    read_keys(frame, input_, row)
    kind = find_first(frame, input_)
    at, halves, bits = load_int(frame, FIRST_LIST_AT), list_at(frame, 0), load_int(frame, MARKED_AT)
    mark(frame)
    for k in range(kind):
        store_half(halves, k, load_int(at, k))
    for _ in range(count):
        for k in range(kind):
            node = load_half(halves, k)
            found += (load_int(bits, node >> 6) >> np.int64(node & 63)) & 1
    unmark(frame)
    return found


@kernel((WORDS, types.int64))
def try_everybody(words: np.ndarray, count: int) -> int:
    """Find the nodes of so many combinations, with one search each; how many there were."""
    frame, found = address(words), np.int64(0)
    join = Frame(frame)
    for place in range(count):
        complete = True
        for i in range(join.inputs):
            row = _newest(frame, i, place)
            join.bound[i].row = row
            complete = complete and row.address != 0
        if complete:
            found += find_everybody(frame, list_at(frame, 0))
    return found
