"""The members of what is bound: found for each event, narrowed from one to the next.

Three forms give the same answer. NAIVE asks the index for every combination, with the keys of all
its events. PARTIAL asks it for the event that drives, with the keys of that one only, when the first
combination of it is found, and then goes through the list of what it found once for each further
event: as many steps as there are inputs. OWN finds the nodes of an event once, when it comes, and
keeps the list as long as the event is held: a combination is of what such lists have in common. A
list that there is no room for is not kept; its event is asked as PARTIAL does.
"""

from __future__ import annotations

import numpy as np

from braid.jit.records import Halves, Words
from braid.jit.ring import event_at
from braid.jit.runtime import kernel
from braid.operators.core.kernels.node_sets import ALL, Cell, has_bit, set_bit
from braid.operators.join.kernels.frame import Level
from braid.operators.join.kernels.rings import cell_of, ring_of
from braid.operators.selection_join.kernels.box_tree import UNMARKED, search
from braid.operators.selection_join.kernels.boxes import (
    NAIVE,
    OWN,
    SelectionFrame,
    Side,
    find_in_strips,
    in_box,
    keys_of,
    passes,
    read_keys,
    wanted_by,
)
from braid.operators.selection_join.kernels.driving_list import ask_near

#: A list is gone through by what its nodes ask, not by another list, if that is so much longer.
_LONGER = 8
#: Nodes of a list that are looked up together: usually none of them is wanted.
_AT_ONCE = 8


@kernel()
def list_at(frame: SelectionFrame, depth: int) -> Words:
    return frame.lists.after(depth * frame.node_room)


# ---- what an event holds: a `Cell` has other fields where events have sets of nodes ----


@kernel()
def changes_of(cell: Cell) -> int:
    """How many changes there had been when an event came."""
    return cell.next.address


@kernel()
def note_list(cell: Cell, count: int, place: int, changes: int) -> None:
    """Note the list of an event (of count -1, if it isn't kept), and the changes before it came."""
    cell.weight, cell.set, cell.next = count, Words(place), Cell(changes)


@kernel()
def list_of(side: Side, cell: Cell) -> Halves:
    """The nodes of the list that is kept with an event."""
    return side.listed.after(cell.set.address % side.listed_length)


# ---- one event ----


@kernel()
def find_first(frame: SelectionFrame, input_: int, row: Words) -> int:
    """The nodes that want an event, listed; how many."""
    side, keys, out, tree = (
        frame.sides[input_],
        read_keys(frame, input_, row),
        frame.first_list,
        frame.tree,
    )
    if tree.address == 0:
        count = find_in_strips(frame, side, keys, list_at(frame, 0), out)
    else:
        first, count, exact = side.first_dimension, np.int64(0), tree.exact != 0
        last = first + side.dimensions
        for k in range(search(tree, frame.keys, first, last, UNMARKED, False, out)):
            node = out[k]
            if (exact or in_box(side, node, keys)) and passes(side, node, keys):
                out[count] = node
                count += 1
    frame.counts.first_steps += 1
    frame.counts.first_found += count
    note_first(frame, count)
    return count


@kernel()
def note_first(frame: SelectionFrame, count: int) -> None:
    """The list of the event that drives is another one."""
    frame.first_count = count
    frame.first_number += 1


@kernel()
def unmark(frame: SelectionFrame) -> None:
    """Forget the bits of the event that drives."""
    bits, out = frame.marked, frame.first_list
    for k in range(frame.first_count):
        bits[out[k] >> 6] = 0


@kernel()
def mark(frame: SelectionFrame) -> None:
    """Let the nodes of the event that drives be bits as well."""
    bits, out = frame.marked, frame.first_list
    for k in range(frame.first_count):
        set_bit(bits, out[k])


@kernel()
def _move_tail(frame: SelectionFrame, input_: int) -> None:
    """Give up the lists of events that have left."""
    ring, side = ring_of(frame, input_), frame.sides[input_]
    for number in range(ring.oldest, ring.next):
        cell = cell_of(ring, event_at(ring, number))
        if cell.weight >= 0:
            side.tail = cell.set.address
            return
    side.tail = side.written


@kernel()
def _room_for(frame: SelectionFrame, input_: int, count: int) -> int:
    """Where a list of so many nodes can be kept, or -1. Lists lie one after the other in a ring, and
    none goes round its end."""
    side = frame.sides[input_]
    room, place = side.listed_length, side.written
    if count > room:
        return np.int64(-1)
    if place % room + count > room:
        place += room - place % room
    if place + count - side.tail > room:
        _move_tail(frame, input_)
        if side.tail == side.written:
            side.tail = place
        if place + count - side.tail > room:
            return np.int64(-1)
    side.written = place + count
    return place


@kernel()
def keep_list(frame: SelectionFrame, input_: int, cell: Cell, kept: bool) -> None:
    """Note with an event that has just been added what was found for it, if there is room."""
    note_list(cell, -1, -1, frame.changes)
    if not kept:
        return
    side, count = frame.sides[input_], frame.first_count
    place = _room_for(frame, input_, count)
    if place < 0:
        frame.counts.not_kept += 1
        return
    frame.counts.kept += 1
    note_list(cell, count, place, frame.changes)
    target, out = list_of(side, cell), frame.first_list
    for k in range(count):
        target[k] = out[k]


# ---- from one event to the next ----


@kernel()
def _keep_common(listed: Halves, first: int, last: int, bits: Words, out: Words, count: int) -> int:
    """Write the nodes of a part of a list that are among bits to `out`; how many there are then."""
    for k in range(first, last):
        node = listed[k]
        out[count] = node
        count += has_bit(bits, node)
    return count


@kernel()
def _common(frame: SelectionFrame, side: Side, cell: Cell, out: Words) -> int:
    """What the list of a held event has in common with the nodes of the event that drives."""
    bits, listed = frame.marked, list_of(side, cell)
    count, length = np.int64(0), cell.weight
    whole = length & ~np.int64(_AT_ONCE - 1)
    for first in range(0, whole, _AT_ONCE):
        some = np.int64(0)
        for k in range(first, first + _AT_ONCE):
            node = listed[k]
            some |= bits[node >> 6] >> np.int64(node & 63)
        if some & 1 != 0:
            count = _keep_common(listed, first, first + _AT_ONCE, bits, out, count)
    return _keep_common(listed, whole, length, bits, out, count)


@kernel()
def ask_all(
    frame: SelectionFrame, input_: int, row: Words, kind: int, nodes: Words, out: Words
) -> int:
    """The nodes of a list that want an event."""
    keys, side, count = read_keys(frame, input_, row), frame.sides[input_], np.int64(0)
    if nodes == frame.first_list:
        return ask_near(frame, side, keys, kind, nodes, out)
    for k in range(kind):
        node = nodes[k]
        if wanted_by(side, node, keys):
            out[count] = node
            count += 1
    return count


@kernel()
def _begin(frame: SelectionFrame, level: Level) -> None:
    """Find the nodes of the event that drives, now that there is something to combine it with."""
    driver = frame.driver
    if frame.first_count < 0:
        find_first(frame, driver, frame.bound[driver].row)
    level.kind = frame.first_count
    level.nodes = frame.first_list


@kernel()
def narrow(
    frame: SelectionFrame, depth: int, level: Level, input_: int, row: Words, age: int
) -> bool:
    """Carry to the next level the nodes that want a held event too; whether there are."""
    frame.ages[input_] = age
    if depth == 0:
        frame.counts.candidates += 1
    following = level[1]
    if frame.form == NAIVE and level.kind == ALL:
        following.kind = ALL
        return True
    if level.kind == ALL:
        _begin(frame, level)
    kind, nodes, out = level.kind, level.nodes, list_at(frame, depth)
    if kind == 0:
        return False
    cell = cell_of(ring_of(frame, input_), row)
    listed = depth == 0 and frame.form == OWN
    if listed and 0 <= cell.weight < _LONGER * kind:
        count = _common(frame, frame.sides[input_], cell, out)
    else:
        count = ask_all(frame, input_, row, kind, nodes, out)
    following.kind = count
    following.nodes = out
    return count > 0


@kernel()
def find_everybody(frame: SelectionFrame, out: Words) -> int:
    """The nodes whose boxes have the keys of all that is bound."""
    tree, last = frame.tree, np.int64(0)
    for i in range(frame.inputs):
        read_keys(frame, i, frame.bound[i].row)
        last += frame.sides[i].dimensions
    count, exact = np.int64(0), tree.exact != 0
    for k in range(search(tree, frame.keys, 0, last, UNMARKED, False, out)):
        node, holds = out[k], True
        for i in range(frame.inputs):
            side = frame.sides[i]
            keys = keys_of(frame, side)
            holds = holds and (exact or in_box(side, node, keys)) and passes(side, node, keys)
        if holds:
            out[count] = node
            count += 1
    return count


@kernel()
def sees(frame: SelectionFrame, input_: int, node: int, row: Words, changes: int, age: int) -> bool:
    """Whether an event of some age is in the window of a node, and came in its life."""
    if frame.since[node] > changes or frame.births[node] > row[0]:
        return False
    return frame.covers[input_].size_of[node] >= age


@kernel()
def see_all(frame: SelectionFrame, depth: int, kind: int, nodes: Words) -> int:
    """Of the nodes that want all that is bound those that see it: how many, listed as `seeing`."""
    frame.counts.combinations += 1
    out = list_at(frame, depth)
    if kind == ALL:
        kind, nodes = find_everybody(frame, out), out
    now, leaving = frame.changes, frame.leaving != 0
    for i in range(frame.inputs):
        row, age, changes = frame.bound[i].row, frame.ages[i], now
        if i != frame.driver or leaving:
            changes = changes_of(cell_of(ring_of(frame, i), row))
        if changes == now and age <= frame.shortest[i] and frame.born_later == 0:
            continue  # all of them see it
        count = np.int64(0)
        for k in range(kind):
            node = nodes[k]
            if sees(frame, i, node, row, changes, age):
                out[count] = node
                count += 1
        kind, nodes = count, out
    frame.seeing = nodes
    return kind
