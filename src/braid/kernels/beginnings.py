"""What begins: events of the first input wait, in every state of the nodes that they are of.

An event of many nodes starts few instances, one for each group that some of its nodes have a
state in, with all those nodes as members. Each group remembers the slot that the event being
taken in has in it, under a stamp, so that a further member is one more cell of a list.
"""

from __future__ import annotations

import numpy as np

from braid.kernels.instances import (
    ADDED,
    ARENA_USED,
    C_LIVE,
    CHANNELS,
    CLASS_WORDS,
    CLASSES,
    COUNT,
    DEAD,
    FIRST_HEADS,
    G_CLASS,
    G_SLOT,
    G_STAMP,
    GROUP,
    GROUP_WORDS,
    GROUPS,
    HEADS_AT,
    HEADS_MASK,
    ROWS_AT,
    S_BOUND,
    S_GROUP,
    S_NEXT,
    SET,
    SEVERAL,
    STAMP,
    STATE_WORDS,
    STATES,
    bind,
    free_slot,
    hash_ways,
    link_slot,
    take_slot,
)
from braid.kernels.members import (
    SINGLE,
    first_state,
    head_at,
    last_cell,
    load_arena,
    more_cells,
    one_member,
)
from braid.kernels.runtime import kernel, load_half, load_int, prefetch, store_half, store_int

#: How many pairs ahead the heads of nodes are asked for, and then the states.
HEADS_AHEAD, STATES_AHEAD = 48, 16
_NODE = np.int64(0xFFFFFFFF)


@kernel()
def begin(
    p: int,
    pairs: int,
    pairs_n: int,
    first: int,
    first_stride: int,
    now: int,
    numbers: int,
    stride: int,
    frame: int,
) -> int:
    """Let the events that end now wait; the first pair that is of a later one.

    `pairs` are words row << 32 | node, sorted, from the p-th on.
    """
    # What every pair needs is in variables: memory that is written to must be read again.
    groups, states = load_int(frame, GROUPS), load_int(frame, STATES)
    heads, place = load_int(frame, FIRST_HEADS), load_int(frame, GROUP)
    channels = load_int(frame, CHANNELS) != 0
    stamp, rows = load_int(numbers, STAMP), load_int(numbers, ROWS_AT)
    arena, used, size = load_arena(numbers)
    number, row, added = np.int64(-1), first, np.int64(0)
    while p < pairs_n:
        pair = load_int(pairs, p)
        if (pair >> 32) != number:
            number = pair >> 32
            row = first + number * first_stride
            if load_int(row, 1) != now:
                break
            stamp += 1
        elif not channels:
            # What starts together is one instance; without channels, only what is one node.
            stamp += 1
        if p + HEADS_AHEAD < pairs_n:
            # Memory is slow: ask for it in time.
            prefetch(heads + 8 * (load_int(pairs, p + HEADS_AHEAD) & (SET - 1)))
            later = load_int(pairs, p + STATES_AHEAD) & _NODE
            if later & SET == 0:
                soon = load_int(heads, later)
                if soon >> 32 == SEVERAL:
                    # States of one node are neighbours.
                    prefetch(states + first_state(soon) * (8 * STATE_WORDS))
                    prefetch(states + (first_state(soon) + 1) * (8 * STATE_WORDS))
        node = pair & _NODE
        p += 1
        head = head_at(node, frame)
        if head < 0:
            continue
        group_number, state = head >> 32, np.int64(-1)
        several = group_number == SEVERAL
        if several:
            state = first_state(head)
        while True:
            if several:
                if state < 0:
                    break
                record = states + state * (8 * STATE_WORDS)
                state = load_int(record, S_NEXT)
                if load_int(record, S_BOUND) == DEAD:
                    continue
                group_number = load_int(record, S_GROUP)
            group = groups + group_number * (8 * GROUP_WORDS)
            if load_int(group, G_STAMP) != stamp:
                store_int(group, G_STAMP, stamp)
                slot = _wait(group_number, node, row, numbers, stride, frame)
                store_int(group, G_SLOT, slot)
                rows = load_int(numbers, ROWS_AT)
                added += np.int64(slot >= 0)
            elif load_int(group, G_SLOT) >= 0:
                # The commonest by far: one more member of an instance that is there.
                word = rows + load_int(group, G_SLOT) * stride + 8 * place
                code = np.int64(load_half(word, 0))
                if several and _is_last(code, node, arena):
                    # A node may have states in one group that differ in their bounds.
                    continue
                if used + 2 > size:
                    store_int(numbers, ARENA_USED, used)
                    arena, size = more_cells(numbers)
                if code < 0:
                    store_int(arena, used, last_cell(code))
                    code = used
                    used += 1
                store_int(arena, used, (node << 32) | code)
                store_half(word, 0, used)
                used += 1
                added += 1
            if not several:
                break
    store_int(numbers, STAMP, stamp)
    store_int(numbers, ARENA_USED, used)
    store_int(numbers, ADDED, load_int(numbers, ADDED) + added)
    return p


@kernel()
def _is_last(code: int, node: int, arena: int) -> bool:
    """Whether a node is the member that was added last; `code` is the low half of an instance."""
    if code < 0:
        return code & (SINGLE - 1) == node
    return load_int(arena, code) >> 32 == node


@kernel()
def _wait(number: int, node: int, first: int, numbers: int, stride: int, frame: int) -> int:
    """Make the instance that an event has in a group; its slot, or -1 if no event can affect it."""
    group = load_int(frame, GROUPS) + number * (8 * GROUP_WORDS)
    slot = take_slot(numbers, stride, frame)
    rows, heads = load_int(numbers, ROWS_AT), load_int(numbers, HEADS_AT)
    row = rows + slot * stride
    bind(row, first, frame)
    store_int(row, load_int(frame, GROUP), one_member(number, node))
    store_int(numbers, COUNT, load_int(numbers, COUNT) + 1)
    class_ = load_int(frame, CLASSES) + load_int(group, G_CLASS) * (8 * CLASS_WORDS)
    store_int(class_, C_LIVE, load_int(class_, C_LIVE) + 1)
    if not hash_ways(row, group, frame):
        # A NULL key equals nothing.
        free_slot(slot, rows, stride, numbers, frame)
        return np.int64(-1)
    link_slot(slot, rows, stride, heads, load_int(numbers, HEADS_MASK), frame)
    return slot
