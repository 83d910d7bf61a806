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

from braid.jit.records import Words
from braid.jit.ring import event_at
from braid.jit.runtime import kernel, load_half, load_int, store_half, store_int
from braid.operators.core.kernels.node_sets import ALL, SET, WEIGHT, Cell, has_bit, set_bit
from braid.operators.join.kernels.frame import Level
from braid.operators.join.kernels.rings import cell_of, ring_of
from braid.operators.join.kernels.window_covers import WindowFrame
from braid.operators.selection_join.kernels.box_tree import EXACT, UNMARKED, search
from braid.operators.selection_join.kernels.boxes import (
    AGES_AT,
    BIRTHS_AT,
    BORN_LATER,
    CANDIDATES,
    CHANGES,
    COMBINATIONS,
    DIMENSIONS,
    FIRST_COUNT,
    FIRST_DIMENSION,
    FIRST_FOUND,
    FIRST_LIST_AT,
    FIRST_NUMBER,
    FIRST_STEPS,
    FORM,
    KEPT,
    KEYS_AT,
    LISTED_AT,
    LISTED_ROOM,
    LISTS_AT,
    MARKED_AT,
    NAIVE,
    NODE_ROOM,
    NOT_KEPT,
    OWN,
    SEEN_AT,
    SHORTEST_AT,
    SINCE_AT,
    TAIL,
    TREE_AT,
    WRITTEN,
    find_in_strips,
    in_box,
    keys_at,
    passes,
    read_keys,
    side_of,
    wanted_by,
)
from braid.operators.selection_join.kernels.driving_list import ask_near

#: A list is gone through by what its nodes ask, not by another list, if that is so much longer.
_LONGER = 8
#: Nodes of a list that are looked up together: usually none of them is wanted.
_AT_ONCE = 8


@kernel()
def list_at(frame: int, depth: int) -> int:
    return load_int(frame, LISTS_AT) + 8 * depth * load_int(frame, NODE_ROOM)


# ---- one event ----


@kernel()
def changes_of(cell: Cell) -> int:
    """How many changes there had been when an event came: nobody else uses that word of its cell."""
    return cell.next.address


@kernel()
def note_changes(cell: Cell, changes: int) -> None:
    cell.next = Cell(changes)


@kernel()
def find_first(frame: int, input_: int) -> int:
    """The nodes that want the event of an input whose keys are read, listed; how many."""
    out = load_int(frame, FIRST_LIST_AT)
    store_int(frame, FIRST_STEPS, load_int(frame, FIRST_STEPS) + 1)
    tree = load_int(frame, TREE_AT)
    side = side_of(frame, input_)
    if tree == 0:
        count = find_in_strips(frame, input_, list_at(frame, 0), out)
    else:
        first, keys = load_int(side, FIRST_DIMENSION), keys_at(frame, input_)
        last = first + load_int(side, DIMENSIONS)
        found = search(tree, load_int(frame, KEYS_AT), first, last, UNMARKED, False, out)
        count, exact = np.int64(0), load_int(tree, EXACT) != 0
        for k in range(found):
            node = load_int(out, k)
            if (exact or in_box(side, node, keys)) and passes(side, node, keys):
                store_int(out, count, node)
                count += 1
    store_int(frame, FIRST_FOUND, load_int(frame, FIRST_FOUND) + count)
    store_int(frame, FIRST_COUNT, count)
    store_int(frame, FIRST_NUMBER, load_int(frame, FIRST_NUMBER) + 1)
    return count


@kernel()
def unmark(frame: int) -> None:
    """Forget the bits of the event that drives."""
    bits, out = load_int(frame, MARKED_AT), load_int(frame, FIRST_LIST_AT)
    for k in range(load_int(frame, FIRST_COUNT)):
        store_int(bits, load_int(out, k) >> 6, 0)


@kernel()
def mark(frame: int) -> None:
    """Let the nodes of the event that drives be bits as well."""
    bits, out = load_int(frame, MARKED_AT), load_int(frame, FIRST_LIST_AT)
    for k in range(load_int(frame, FIRST_COUNT)):
        set_bit(bits, load_int(out, k))


@kernel()
def _move_tail(frame: int, input_: int) -> None:
    """Give up the lists of events that have left."""
    ring, side = ring_of(WindowFrame(frame), input_), side_of(frame, input_)
    for number in range(ring.oldest, ring.next):
        cell = cell_of(ring, event_at(ring, number))
        if load_int(cell, WEIGHT) >= 0:
            store_int(side, TAIL, load_int(cell, SET))
            return
    store_int(side, TAIL, load_int(side, WRITTEN))


@kernel()
def _room_for(frame: int, input_: int, count: int) -> int:
    """Where a list of so many nodes can be kept, or -1. Lists lie one after the other in a ring, and
    none goes round its end."""
    side = side_of(frame, input_)
    room, place = load_int(side, LISTED_ROOM), load_int(side, WRITTEN)
    if count > room:
        return np.int64(-1)
    if place % room + count > room:
        place += room - place % room
    if place + count - load_int(side, TAIL) > room:
        _move_tail(frame, input_)
        if load_int(side, TAIL) == load_int(side, WRITTEN):
            store_int(side, TAIL, place)
        if place + count - load_int(side, TAIL) > room:
            return np.int64(-1)
    store_int(side, WRITTEN, place + count)
    return place


@kernel()
def keep_list(frame: int, input_: int, cell: Cell, kept: bool, changes: int) -> None:
    """Note with an event that has just been added what was found for it, if there is room."""
    note_changes(cell, changes)
    store_int(cell, WEIGHT, -1)
    store_int(cell, SET, -1)
    if not kept:
        return
    side, count = side_of(frame, input_), load_int(frame, FIRST_COUNT)
    place = _room_for(frame, input_, count)
    if place < 0:
        store_int(frame, NOT_KEPT, load_int(frame, NOT_KEPT) + 1)
        return
    store_int(frame, KEPT, load_int(frame, KEPT) + 1)
    store_int(cell, WEIGHT, count)
    store_int(cell, SET, place)
    target = load_int(side, LISTED_AT) + 4 * (place % load_int(side, LISTED_ROOM))
    out = load_int(frame, FIRST_LIST_AT)
    for k in range(count):
        store_half(target, k, load_int(out, k))


# ---- from one event to the next ----


@kernel()
def _keep_common(listed: int, first: int, last: int, bits: int, out: int, count: int) -> int:
    """Write the nodes of a part of a list that are among bits to `out`; how many there are then."""
    for k in range(first, last):
        node = load_half(listed, k)
        store_int(out, count, node)
        count += has_bit(bits, node)
    return count


@kernel()
def _common(frame: int, input_: int, cell: int, out: int) -> int:
    """What the list of a held event has in common with the nodes of the event that drives."""
    side, bits = side_of(frame, input_), load_int(frame, MARKED_AT)
    listed = load_int(side, LISTED_AT)
    listed += 4 * (load_int(cell, SET) % load_int(side, LISTED_ROOM))
    count, length = np.int64(0), load_int(cell, WEIGHT)
    whole = length & ~np.int64(_AT_ONCE - 1)
    for first in range(0, whole, _AT_ONCE):
        some = np.int64(0)
        for k in range(first, first + _AT_ONCE):
            node = load_half(listed, k)
            some |= load_int(bits, node >> 6) >> np.int64(node & 63)
        if some & 1 != 0:
            count = _keep_common(listed, first, first + _AT_ONCE, bits, out, count)
    return _keep_common(listed, whole, length, bits, out, count)


@kernel()
def ask_all(frame: int, input_: int, row: int, kind: int, at: int, out: int) -> int:
    """The nodes of a list that want an event."""
    read_keys(frame, input_, row)
    side, keys, count = side_of(frame, input_), keys_at(frame, input_), np.int64(0)
    if at == load_int(frame, FIRST_LIST_AT):
        return ask_near(frame, side, keys, kind, at, out)
    for k in range(kind):
        node = load_int(at, k)
        if wanted_by(side, node, keys):
            store_int(out, count, node)
            count += 1
    return count


@kernel()
def _begin(frame: WindowFrame, level: Level) -> None:
    """Find the nodes of the event that drives, now that there is something to combine it with."""
    driver = frame.driver
    if load_int(frame, FIRST_COUNT) < 0:
        read_keys(frame, driver, frame.bound[driver].row)
        find_first(frame, driver)
    level.kind = load_int(frame, FIRST_COUNT)
    level.nodes = Words(load_int(frame, FIRST_LIST_AT))


@kernel()
def narrow(frame: WindowFrame, depth: int, level: Level, input_: int, row: Words, age: int) -> bool:
    """Carry to the next level the nodes that want a held event too; whether there are."""
    store_int(load_int(frame, AGES_AT), input_, age)
    if depth == 0:
        store_int(frame, CANDIDATES, load_int(frame, CANDIDATES) + 1)
    following = level[1]
    if load_int(frame, FORM) == NAIVE and level.kind == ALL:
        following.kind = ALL
        return True
    if level.kind == ALL:
        _begin(frame, level)
    kind, at, out = level.kind, level.nodes, Words(list_at(frame, depth))
    if kind == 0:
        return False
    cell = cell_of(ring_of(frame, input_), row)
    listed = depth == 0 and load_int(frame, FORM) == OWN
    if listed and 0 <= cell.weight < _LONGER * kind:
        count = _common(frame, input_, cell, out)
    else:
        count = ask_all(frame, input_, row, kind, at, out)
    following.kind = count
    following.nodes = out
    return count > 0


@kernel()
def find_everybody(frame: int, out: int) -> int:
    """The nodes whose boxes have the keys of all that is bound."""
    join, tree = WindowFrame(frame), load_int(frame, TREE_AT)
    last = np.int64(0)
    for i in range(join.inputs):
        read_keys(frame, i, join.bound[i].row)
        last += load_int(side_of(frame, i), DIMENSIONS)
    found = search(tree, load_int(frame, KEYS_AT), 0, last, UNMARKED, False, out)
    count, exact = np.int64(0), load_int(tree, EXACT) != 0
    for k in range(found):
        node, holds = load_int(out, k), True
        for i in range(join.inputs):
            side, keys = side_of(frame, i), keys_at(frame, i)
            holds = holds and (exact or in_box(side, node, keys)) and passes(side, node, keys)
        if holds:
            store_int(out, count, node)
            count += 1
    return count


@kernel()
def sees(frame: WindowFrame, input_: int, node: int, row: Words, changes: int, age: int) -> bool:
    """Whether an event of some age is in the window of a node, and came in its life."""
    if load_int(load_int(frame, SINCE_AT), node) > changes:
        return False
    if load_int(load_int(frame, BIRTHS_AT), node) > row[0]:
        return False
    return frame.covers[input_].size_of[node] >= age


@kernel()
def see_all(frame: WindowFrame, depth: int, kind: int, nodes: Words) -> int:
    """Of the nodes that want all that is bound those that see it: how many, listed at SEEN_AT."""
    store_int(frame, COMBINATIONS, load_int(frame, COMBINATIONS) + 1)
    out = Words(list_at(frame, depth))
    if kind == ALL:
        kind, nodes = find_everybody(frame, out), out
    ages, shortest = load_int(frame, AGES_AT), load_int(frame, SHORTEST_AT)
    now, leaving = load_int(frame, CHANGES), frame.leaving != 0
    for i in range(frame.inputs):
        row, age, changes = frame.bound[i].row, load_int(ages, i), now
        if i != frame.driver or leaving:
            changes = changes_of(cell_of(ring_of(frame, i), row))
        if changes == now and age <= load_int(shortest, i) and load_int(frame, BORN_LATER) == 0:
            continue  # there is nobody who does not see it
        count = np.int64(0)
        for k in range(kind):
            node = nodes[k]
            if sees(frame, i, node, row, changes, age):
                out[count] = node
                count += 1
        kind, nodes = count, out
    store_int(frame, SEEN_AT, nodes.address)
    return kind
