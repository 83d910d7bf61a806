"""What begins: events of the first input wait, in every state of the nodes that they are of.

An event of many nodes starts few instances, one for each group that some of its nodes have a
state in, with all those nodes as members. Each group remembers the slot that the event being
taken in has in it, under a stamp, so that a further member is one more cell of a list.
"""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel, load_half, load_int, prefetch, store_half, store_int
from braid.operators.core.kernels.instances import (
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
    TWO,
    TWO_BITS,
    bind,
    free_slot,
    hash_ways,
    link_slot,
    take_slot,
)
from braid.operators.core.kernels.members import (
    SINGLE,
    first_state,
    head_at,
    last_cell,
    load_arena,
    more_cells,
    one_member,
)

#: How many pairs ahead the heads of nodes are asked for.
AHEAD = 32
_NODE = np.int64(0xFFFFFFFF)
_GROUP = np.int64((1 << TWO_BITS) - 1)


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
    groups, heads = load_int(frame, GROUPS), load_int(frame, FIRST_HEADS)
    place, last = 8 * load_int(frame, GROUP), pairs_n - 1
    # What starts together is one instance; without channels, only what is one node.
    again = np.int64(load_int(frame, CHANNELS) == 0)
    stamp, rows = load_int(numbers, STAMP), load_int(numbers, ROWS_AT)
    arena, used, size = load_arena(numbers)
    number, row, added = np.int64(-1), first, np.int64(0)
    while p < pairs_n:
        pair = load_int(pairs, p)
        if (pair >> 32) == number:
            stamp += again
        else:
            number = pair >> 32
            row = first + number * first_stride
            if load_int(row, 1) != now:
                break
            stamp += 1
        # Memory is slow: ask for it in time.
        prefetch(heads + 16 * (load_int(pairs, min(p + AHEAD, last)) & (SET - 1)))
        node = pair & _NODE
        p += 1
        head = head_at(node, frame) if node & SET else load_int(heads, 2 * node)
        if head < 0:
            continue
        which = head >> 32
        group = groups + which * (8 * GROUP_WORDS)
        if which >= TWO:
            store_int(numbers, ARENA_USED, used)
            added += _begin_in_several(head, node, row, stamp, numbers, stride, frame)
            arena, used, size = load_arena(numbers)
            rows = load_int(numbers, ROWS_AT)
        elif load_int(group, G_STAMP) != stamp:
            added += _wait(group, which, node, row, stamp, numbers, stride, frame)
            rows = load_int(numbers, ROWS_AT)
        elif load_int(group, G_SLOT) >= 0:
            # The commonest by far: one more member of an instance that is there.
            if used + 2 > size:
                store_int(numbers, ARENA_USED, used)
                arena, size = more_cells(numbers)
            word = rows + load_int(group, G_SLOT) * stride + place
            used = _append(word, node, arena, used)
            added += 1
    store_int(numbers, STAMP, stamp)
    store_int(numbers, ARENA_USED, used)
    store_int(numbers, ADDED, load_int(numbers, ADDED) + added)
    return p


@kernel()
def _append(word: int, node: int, arena: int, used: int) -> int:
    """One more member of the instance whose word is at an address; the cells in use then."""
    code = np.int64(load_half(word, 0))
    if code < 0:
        store_int(arena, used, last_cell(code))
        code = used
        used += 1
    store_int(arena, used, (node << 32) | code)
    store_half(word, 0, used)
    return used + 1


@kernel()
def _begin_in_several(
    head: int, node: int, row: int, stamp: int, numbers: int, stride: int, frame: int
) -> int:
    """Let an event wait in all groups of a node; in how many it does."""
    which = head >> 32
    if which != SEVERAL:
        one = _begin_in((which >> TWO_BITS) & _GROUP, node, row, stamp, numbers, stride, frame)
        return one + _begin_in(which & _GROUP, node, row, stamp, numbers, stride, frame)
    count, state = np.int64(0), first_state(head)
    while state >= 0:
        record = load_int(frame, STATES) + state * (8 * STATE_WORDS)
        if load_int(record, S_BOUND) != DEAD:
            group = load_int(record, S_GROUP)
            count += _begin_in(group, node, row, stamp, numbers, stride, frame)
        state = load_int(record, S_NEXT)
    return count


@kernel()
def _begin_in(
    number: int, node: int, row: int, stamp: int, numbers: int, stride: int, frame: int
) -> int:
    """Let an event wait in a group, if it does not already: 1 or 0."""
    group = load_int(frame, GROUPS) + number * (8 * GROUP_WORDS)
    if load_int(group, G_STAMP) != stamp:
        return _wait(group, number, node, row, stamp, numbers, stride, frame)
    slot = load_int(group, G_SLOT)
    if slot < 0:
        return np.int64(0)
    arena, used, size = load_arena(numbers)
    word = load_int(numbers, ROWS_AT) + slot * stride + 8 * load_int(frame, GROUP)
    if _is_last(np.int64(load_half(word, 0)), node, arena):
        # A node may have states in one group that differ in their bounds.
        return np.int64(0)
    if used + 2 > size:
        arena, size = more_cells(numbers)
    store_int(numbers, ARENA_USED, _append(word, node, arena, used))
    return np.int64(1)


@kernel()
def _is_last(code: int, node: int, arena: int) -> bool:
    """Whether a node is the member that was added last; `code` is the low half of an instance."""
    if code < 0:
        return code & (SINGLE - 1) == node
    return load_int(arena, code) >> 32 == node


@kernel()
def _wait(
    group: int,
    number: int,
    node: int,
    first: int,
    stamp: int,
    numbers: int,
    stride: int,
    frame: int,
) -> int:
    """Make the instance that an event has in a group: 1, or 0 if no event can affect it."""
    store_int(group, G_STAMP, stamp)
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
        store_int(group, G_SLOT, -1)
        return np.int64(0)
    link_slot(slot, rows, stride, heads, load_int(numbers, HEADS_MASK), frame)
    store_int(group, G_SLOT, slot)
    return np.int64(1)
