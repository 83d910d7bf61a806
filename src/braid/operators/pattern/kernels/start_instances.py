"""Starts instances: events of the first input wait in the states of their nodes.

An event of many nodes starts few instances, one for each group that some of its nodes have a
state in, with all those nodes as members. Each group remembers the slot of the event's instance,
under a stamp, so that a further member is one more cell of a list.
"""

from __future__ import annotations

import numpy as np

from braid.jit.records import Words
from braid.jit.runtime import kernel, prefetch
from braid.operators.core.bounds import DEAD
from braid.operators.core.kernels.nodes import SET
from braid.operators.pattern.kernels.instance_keys import write_hashes
from braid.operators.pattern.kernels.instances import bind
from braid.operators.pattern.kernels.members import SINGLE, grow_arena, head_of
from braid.operators.pattern.kernels.records import (
    SEVERAL,
    TWO,
    TWO_BITS,
    Cell,
    Frame,
    Group,
    Head,
    Owner,
    Slots,
)
from braid.operators.pattern.kernels.slots import (
    count_instance,
    free_slot,
    instance_at,
    link_slot,
    owner_of,
    take_slot,
)
from braid.plan.layout import END

#: How many pairs ahead the heads of nodes are asked for.
AHEAD = 32
_NODE = np.int64(0xFFFFFFFF)
_GROUP = np.int64((1 << TWO_BITS) - 1)


@kernel()
def start_instances(
    p: int,
    pairs: Words,
    pair_count: int,
    first: int,
    first_stride: int,
    now: int,
    slots: Slots,
    frame: Frame,
) -> int:
    """Let the events that end now wait; the first pair of a later one.

    `pairs` are words row << 32 | node, sorted, from the p-th on. The rows lie at `first`.
    """
    # What every pair needs is in variables: memory that is written to must be read again.
    groups, heads, last = frame.groups, frame.first_heads, pair_count - 1
    owners, stride = frame.owner_offset, frame.slot_size
    # What starts together is one instance; without channels, only what is one node.
    again = np.int64(frame.channels == 0)
    stamp, rows = slots.stamp, slots.rows
    arena, used, size = slots.arena, slots.arena_used, slots.arena_size
    number, row, added = np.int64(-1), Words(first), np.int64(0)
    while p < pair_count:
        pair = pairs[p]
        if (pair >> 32) == number:
            stamp += again
        else:
            number = pair >> 32
            row = Words(first + number * first_stride)
            if row[END] != now:
                break
            stamp += 1
        # Memory is slow: ask for it in time.
        prefetch(heads[pairs[min(p + AHEAD, last)] & (SET - 1)].address)
        node = pair & _NODE
        p += 1
        head = head_of(node, frame) if node & SET else heads[node]
        which = head.group
        if which < 0:
            continue
        if which >= TWO:
            slots.arena_used = used
            added += _start_in_several(head, node, row, stamp, slots, frame)
            arena, used, size = slots.arena, slots.arena_used, slots.arena_size
            rows = slots.rows
            continue
        group = groups[which]
        if group.stamp != stamp:
            added += _start(group, which, node, row, stamp, slots, frame)
            rows = slots.rows
        elif group.slot >= 0:
            # The commonest by far: one more member of an instance that is there.
            if used + 2 > size:
                slots.arena_used = used
                grow_arena(slots)
                arena, size = slots.arena, slots.arena_size
            used = _append(Owner(rows + group.slot * stride + owners), node, arena, used)
            added += 1
    slots.stamp = stamp
    slots.arena_used = used
    slots.added += added
    return p


@kernel()
def _append(owner: Owner, node: int, arena: Cell, used: int) -> int:
    """One more member of an instance; the cells in use then."""
    following = owner.members
    if following < 0:
        cell = arena[used]
        cell.node, cell.next = following & (SINGLE - 1), -1
        following = used
        used += 1
    cell = arena[used]
    cell.node, cell.next = node, following
    owner.members = used
    return used + 1


@kernel()
def _start_in_several(
    head: Head, node: int, row: Words, stamp: int, slots: Slots, frame: Frame
) -> int:
    """Let an event wait in all groups of a node; in how many it does."""
    which = head.group
    if which != SEVERAL:
        one = _start_in((which >> TWO_BITS) & _GROUP, node, row, stamp, slots, frame)
        return one + _start_in(which & _GROUP, node, row, stamp, slots, frame)
    count, number = np.int64(0), head.state
    while number >= 0:
        state = frame.states[number]
        if state.bound != DEAD:
            count += _start_in(state.group, node, row, stamp, slots, frame)
        number = state.next
    return count


@kernel()
def _start_in(number: int, node: int, row: Words, stamp: int, slots: Slots, frame: Frame) -> int:
    """Let an event wait in a group, if it does not already: 1 or 0."""
    group = frame.groups[number]
    if group.stamp != stamp:
        return _start(group, number, node, row, stamp, slots, frame)
    if group.slot < 0:
        return np.int64(0)
    owner = owner_of(instance_at(slots, group.slot, frame), frame)
    if _is_last(owner.members, node, slots.arena):
        # A node may have states in one group that differ in their bounds.
        return np.int64(0)
    if slots.arena_used + 2 > slots.arena_size:
        grow_arena(slots)
    slots.arena_used = _append(owner, node, slots.arena, slots.arena_used)
    return np.int64(1)


@kernel()
def _is_last(members: int, node: int, arena: Cell) -> bool:
    """Whether a node is the member that was added last."""
    if members < 0:
        return members & (SINGLE - 1) == node
    return arena[members].node == node


@kernel()
def _start(
    group: Group, number: int, node: int, first: Words, stamp: int, slots: Slots, frame: Frame
) -> int:
    """Make the instance that an event has in a group: 1, or 0 if no event can affect it."""
    group.stamp = stamp
    slot = take_slot(slots, frame)
    instance = instance_at(slots, slot, frame)
    bind(instance, first, frame)
    owner = owner_of(instance, frame)
    owner.members, owner.group = SINGLE | node, number
    count_instance(slots, group, 1, frame)
    if not write_hashes(instance, group, frame):
        # A NULL key equals nothing.
        free_slot(slots, slot, frame)
        group.slot = -1
        return np.int64(0)
    link_slot(slots, slot, frame)
    group.slot = slot
    return np.int64(1)
