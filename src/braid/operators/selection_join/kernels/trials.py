"""What the forms of a selection join cost, tried on events that are held: see `forms.py`.

Each trial does what the loop does with the newest events of an input, and leaves nothing behind.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.records import Halves, Words
from braid.jit.ring import event_at
from braid.jit.runtime import kernel
from braid.operators.join.kernels.rings import ring_of
from braid.operators.selection_join.kernels.boxes import SelectionFrame
from braid.operators.selection_join.kernels.members import (
    ask_all,
    find_everybody,
    find_first,
    list_at,
    mark,
    unmark,
)


@kernel()
def _newest(frame: SelectionFrame, input_: int, place: int) -> Words:
    """One of the newest events of an input, or 0."""
    ring = ring_of(frame, input_)
    number = ring.next - 1 - place
    return event_at(ring, number) if number >= ring.oldest else Words(0)


@kernel((SelectionFrame.type, types.int64, types.int64))
def try_first(frame: SelectionFrame, input_: int, count: int) -> int:
    """Find the nodes of so many events; how many there were."""
    found = np.int64(0)
    for place in range(count):
        row = _newest(frame, input_, place)
        if row.address != 0:
            found += find_first(frame, input_, row)
    return found


@kernel((SelectionFrame.type, types.int64, types.int64, types.int64))
def try_asking(frame: SelectionFrame, input_: int, other: int, count: int) -> int:
    """Ask the nodes of one event whether they want so many of another input; how many did."""
    found, row = np.int64(0), _newest(frame, input_, 0)
    if row.address == 0:
        return found
    kind, nodes, out = find_first(frame, input_, row), frame.first_list, list_at(frame, 0)
    for place in range(count):
        event = _newest(frame, other, place)
        if event.address != 0:
            found += ask_all(frame, other, event, kind, nodes, out)
    return found


@kernel((SelectionFrame.type, types.int64, types.int64))
def try_common(frame: SelectionFrame, input_: int, count: int) -> int:
    """Go so often through a list of nodes and look each up in bits; how many were there."""
    found, row = np.int64(0), _newest(frame, input_, 0)
    if row.address == 0:
        return found
    kind, nodes = find_first(frame, input_, row), frame.first_list
    halves, bits = Halves(list_at(frame, 0)), frame.marked
    mark(frame)
    for k in range(kind):
        halves[k] = nodes[k]
    for _ in range(count):
        for k in range(kind):
            node = halves[k]
            found += (bits[node >> 6] >> np.int64(node & 63)) & 1
    unmark(frame)
    return found


@kernel((SelectionFrame.type, types.int64))
def try_everybody(frame: SelectionFrame, count: int) -> int:
    """Find the nodes of so many combinations, with one search each; how many there were."""
    found = np.int64(0)
    for place in range(count):
        complete = True
        for i in range(frame.inputs):
            row = _newest(frame, i, place)
            frame.bound[i].row = row
            complete = complete and row.address != 0
        if complete:
            found += find_everybody(frame, list_at(frame, 0))
    return found
