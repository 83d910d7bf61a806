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
    COUNT,
    DEAD,
    FIRST_HEADS,
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
    class_of,
    free_slot,
    hash_ways,
    link_slot,
    take_slot,
)
from braid.kernels.members import (
    first_state,
    head_at,
    last_cell,
    last_member,
    load_arena,
    more_cells,
    one_member,
    with_member,
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
    # What every pair needs is in variables; `_start` sees and changes what is in memory.
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
            # Memory is slow. What begins now may be completed soon: its state is looked at then.
            prefetch(heads + 8 * (load_int(pairs, p + HEADS_AHEAD) & (SET - 1)))
            later = load_int(pairs, p + STATES_AHEAD) & _NODE
            if later & SET == 0:
                soon = first_state(load_int(heads, later))
                prefetch(states + soon * (8 * STATE_WORDS))
        node = pair & _NODE
        p += 1
        head = head_at(node, frame)
        if head < 0:
            continue
        if (head >> 32) != SEVERAL:
            group = groups + (head >> 32) * (8 * GROUP_WORDS)
            if load_int(group, G_STAMP) == stamp:
                # The commonest by far: one more member of an instance that is there.
                slot = load_int(group, G_SLOT)
                if slot >= 0:
                    if used + 2 > size:
                        store_int(numbers, ARENA_USED, used)
                        arena, size = more_cells(numbers)
                    word = rows + slot * stride + 8 * place
                    code = np.int64(load_half(word, 0))
                    if code < 0:
                        store_int(arena, used, last_cell(code))
                        code = used
                        used += 1
                    store_int(arena, used, (node << 32) | code)
                    store_half(word, 0, used)
                    used += 1
                    added += 1
                continue
        store_int(numbers, STAMP, stamp)
        store_int(numbers, ARENA_USED, used)
        _start(head, node, row, numbers, stride, frame)
        rows = load_int(numbers, ROWS_AT)
        arena, used, size = load_arena(numbers)
    store_int(numbers, STAMP, stamp)
    store_int(numbers, ARENA_USED, used)
    store_int(numbers, ADDED, load_int(numbers, ADDED) + added)
    return p


@kernel()
def _start(head: int, node: int, first: int, numbers: int, stride: int, frame: int) -> None:
    """Let an event of the first input wait in every state of one of its nodes."""
    if (head >> 32) != SEVERAL:
        _wait(head >> 32, node, first, numbers, stride, frame)
        return
    state = first_state(head)
    while state >= 0:
        record = load_int(frame, STATES) + state * (8 * STATE_WORDS)
        state = load_int(record, S_NEXT)
        if load_int(record, S_BOUND) != DEAD:
            _wait(load_int(record, S_GROUP), node, first, numbers, stride, frame)


@kernel()
def _wait(number: int, node: int, first: int, numbers: int, stride: int, frame: int) -> None:
    """Add a member to the instance that the event has in a group, or make that instance."""
    stamp, place = load_int(numbers, STAMP), load_int(frame, GROUP)
    group = load_int(frame, GROUPS) + number * (8 * GROUP_WORDS)
    if load_int(group, G_STAMP) == stamp:
        slot = load_int(group, G_SLOT)
        if slot >= 0:
            row = load_int(numbers, ROWS_AT) + slot * stride
            word = load_int(row, place)
            if last_member(word, numbers) != node:
                store_int(row, place, with_member(word, node, numbers))
                store_int(numbers, ADDED, load_int(numbers, ADDED) + 1)
        return
    store_int(group, G_STAMP, stamp)
    slot = take_slot(numbers, stride, frame)
    row = load_int(numbers, ROWS_AT) + slot * stride
    bind(row, first, frame)
    store_int(row, place, one_member(number, node))
    store_int(numbers, COUNT, load_int(numbers, COUNT) + 1)
    class_ = class_of(row, frame)
    store_int(class_, C_LIVE, load_int(class_, C_LIVE) + 1)
    if not hash_ways(row, group, frame):
        # A NULL key equals nothing: this instance could never be affected.
        free_slot(slot, load_int(numbers, ROWS_AT), stride, numbers, frame)
        store_int(group, G_SLOT, -1)
        return
    store_int(group, G_SLOT, slot)
    rows, heads = load_int(numbers, ROWS_AT), load_int(numbers, HEADS_AT)
    link_slot(slot, rows, stride, heads, load_int(numbers, HEADS_MASK), frame)
    store_int(numbers, ADDED, load_int(numbers, ADDED) + 1)
