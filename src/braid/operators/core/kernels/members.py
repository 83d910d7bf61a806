"""The members of an instance: one number, or a list of cells in an arena that are never changed.

A member is a node of the first input. Which states wait for what a node begins is told by the
node's head.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.runtime import kernel, load_int, store_int
from braid.operators.core.kernels.instances import (
    ARENA_AT,
    ARENA_LIMIT,
    ARENA_SIZE,
    ARENA_USED,
    DEAD,
    FIRST_HEADS,
    FREE,
    GROUP,
    HIGH,
    LEAST_ARENA,
    ROWS_AT,
    S_BOUND,
    S_GROUP,
    S_NEXT,
    SET,
    SET_HEADS,
    STATE_WORDS,
    STATES,
    free_slot,
)
from braid.operators.core.kernels.keys import key_of

#: In the low half of an instance's word: it has one member, whose number is the rest of it.
SINGLE = np.int64(0x80000000)
#: A digest says nothing, a code has at most so many bits, and what is left is for a value.
NO_DIGEST = np.int64(-1)
CODE_BITS = 23
_VALUE_BITS = np.int64(40)
_VALUE = np.int64((1 << 40) - 1)
#: A digest of several tests, so many at most: for each a column, a mode, and bits of a value.
SEVERAL_TESTS = np.int64(-0x8000000000000000)
MOST_TESTS, WIDEST_COLUMN = 3, 255
_TEST_BITS, _FEW_BITS = np.int64(20), np.int64(10)
_TEST, _FEW = np.int64((1 << 20) - 1), np.int64((1 << 10) - 1)
_SPREAD = np.int64(-0x61C8864680B583EB)
_LOW = np.int64(0xFFFFFFFF)
_END = np.int64(0xFFFFFFFF)


@kernel()
def one_member(group: int, node: int) -> int:
    """The word of an instance with a single member."""
    return (group << 32) | SINGLE | node


@kernel()
def _cell(numbers: int, node: int, following: int) -> int:
    """A new cell of the arena."""
    used = load_int(numbers, ARENA_USED)
    size = load_int(numbers, ARENA_SIZE)
    if used == size:
        size = max(64, 2 * size)
        store_int(numbers, ARENA_AT, resized(load_int(numbers, ARENA_AT), size))
        store_int(numbers, ARENA_SIZE, size)
    store_int(numbers, ARENA_USED, used + 1)
    store_int(load_int(numbers, ARENA_AT), used, (node << 32) | following)
    return used


@kernel()
def with_member(word: int, node: int, numbers: int) -> int:
    """The word of the same instance with one more member."""
    code = word & _LOW
    if code & SINGLE:
        code = _cell(numbers, code & (SINGLE - 1), _END)
    return ((word >> 32) << 32) | _cell(numbers, node, code)


@kernel()
def load_arena(numbers: int) -> tuple[int, int, int]:
    """Where the arena is, what is used of it, and its size."""
    return load_int(numbers, ARENA_AT), load_int(numbers, ARENA_USED), load_int(numbers, ARENA_SIZE)


@kernel()
def more_cells(numbers: int) -> tuple[int, int]:
    """Make the arena larger; where it is then, and its size."""
    size = max(64, 2 * load_int(numbers, ARENA_SIZE))
    arena = resized(load_int(numbers, ARENA_AT), size)
    store_int(numbers, ARENA_AT, arena)
    store_int(numbers, ARENA_SIZE, size)
    return arena, size


@kernel()
def last_cell(code: int) -> int:
    """The cell of the first member of a list, from the low half of an instance with only that."""
    return ((np.int64(code) & (SINGLE - 1)) << 32) | _END


@kernel()
def first_cell(word: int) -> int:
    """Where to start reading members: pass it to `member_at` and `next_cell`; -1 is the end.

    A single member is read as a cell with the top bit set.
    """
    return word & _LOW


@kernel()
def member_at(cell: int, numbers: int) -> int:
    if cell & SINGLE:
        return cell & (SINGLE - 1)
    return load_int(load_int(numbers, ARENA_AT), cell) >> 32


@kernel()
def next_cell(cell: int, numbers: int) -> int:
    if cell & SINGLE:
        return np.int64(-1)
    following = load_int(load_int(numbers, ARENA_AT), cell) & _LOW
    return np.int64(-1) if following == _END else following


@kernel()
def head_of(state: int, group: int) -> int:
    return (group << 32) | state


@kernel()
def first_state(head: int) -> int:
    """The first state of a node, or -1."""
    return np.int64(-1) if head < 0 else head & _LOW


@kernel()
def head_at(node: int, frame: int) -> int:
    """The head of a node or of a set of nodes."""
    if node & SET:
        return load_int(load_int(frame, SET_HEADS), 2 * (node ^ SET))
    return load_int(load_int(frame, FIRST_HEADS), 2 * node)


@kernel()
def state_of(node: int, frame: int) -> int:
    return first_state(head_at(node, frame))


@kernel()
def digest_of(code: int, value: int) -> int:
    """What a column must be for anything to go on from a node: the column's code and bits of a value.

    Most of the members of a completed instance want another value than the event has. Their digests
    say so where their heads are, which were looked at when the instance began; the states would be
    all over a large table.
    """
    return (code << _VALUE_BITS) | ((value ^ (value >> _VALUE_BITS)) & _VALUE)


@kernel()
def test_of(code: int, value: int) -> int:
    """A test of a digest of several; of the code, the column and two bits of mode are kept."""
    few = (code >> 8 << 2) | (code & 3)
    return (few << _FEW_BITS) | (((value * _SPREAD) >> np.int64(54)) & _FEW)


@kernel()
def with_test(digest: int, number: int, test: int) -> int:
    """A digest of so many tests with one more; the places of those to come have it too."""
    for k in range(number, MOST_TESTS):
        shift = _TEST_BITS * k
        digest = (digest & ~(_TEST << shift)) | (test << shift)
    return digest


@kernel()
def is_worth_a_look(digest: int, row: int, base: int) -> bool:
    """Whether a composite may go on from a node with this digest."""
    if digest < 0:
        if digest == NO_DIGEST:
            return True
        for k in range(MOST_TESTS):
            test = (digest >> (_TEST_BITS * k)) & _TEST
            column, mode = test >> (_FEW_BITS + 2), (test >> _FEW_BITS) & 3
            if test_of((column << 8) | mode, key_of(row, column, base, mode)) == test:
                return True
        return False
    code = digest >> _VALUE_BITS
    key = key_of(row, code >> 8, base, code & 255)
    return digest_of(code, key) == digest


@kernel()
def _is_wanted(node: int, group: int, frame: int) -> bool:
    """Whether some state of a first node still waits in this group."""
    state = state_of(node, frame)
    while state >= 0:
        record = load_int(frame, STATES) + state * (8 * STATE_WORDS)
        if load_int(record, S_GROUP) == group and load_int(record, S_BOUND) != DEAD:
            return True
        state = load_int(record, S_NEXT)
    return False


@kernel()
def compact_members(numbers: int, stride: int, frame: int, all_wanted: bool) -> None:
    """Copy the lists that are in use to a new arena, without members that are gone.

    `all_wanted`: nobody has gone since the last time. Instances that are left without members
    are freed; they must be unlinked by a `rehash`.
    """
    old = load_int(numbers, ARENA_AT)
    rows, place = load_int(numbers, ROWS_AT), load_int(frame, GROUP)
    # Old cells are read while new ones are written: the numbers point at one arena at a time.
    new, size, used = np.int64(0), np.int64(0), np.int64(0)
    for slot in range(load_int(numbers, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        word = load_int(row, place)
        group = word >> 32
        made = np.int64(-1)
        cell = first_cell(word)
        while cell >= 0:
            node = member_at(cell, numbers)
            cell = next_cell(cell, numbers)
            if not all_wanted and not _is_wanted(node, group, frame):
                continue
            if made < 0:
                made = (group << 32) | SINGLE | node
                continue
            store_int(numbers, ARENA_AT, new)
            store_int(numbers, ARENA_SIZE, size)
            store_int(numbers, ARENA_USED, used)
            made = with_member(made, node, numbers)
            new, size = load_int(numbers, ARENA_AT), load_int(numbers, ARENA_SIZE)
            used = load_int(numbers, ARENA_USED)
            store_int(numbers, ARENA_AT, old)
        if made < 0:
            free_slot(slot, rows, stride, numbers, frame)
        else:
            store_int(row, place, made)
    release(old)
    store_int(numbers, ARENA_AT, new)
    store_int(numbers, ARENA_SIZE, size)
    store_int(numbers, ARENA_USED, used)
    store_int(numbers, ARENA_LIMIT, 2 * used + LEAST_ARENA)


@kernel()
def spell_out(numbers: int, stride: int, frame: int, starts: int, nodes: int) -> None:
    """Write the nodes of every set in the place of the set, those that somebody waits for.

    Set k has nodes[starts[k]:starts[k + 1]]. What is left without members must be unlinked by a
    `rehash`.
    """
    rows, place = load_int(numbers, ROWS_AT), load_int(frame, GROUP)
    for slot in range(load_int(numbers, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        word = load_int(row, place)
        cell, among = first_cell(word), False
        while cell >= 0:
            among |= (member_at(cell, numbers) & SET) != 0
            cell = next_cell(cell, numbers)
        if not among:
            continue
        made, cell = np.int64(-1), first_cell(word)
        while cell >= 0:
            node = member_at(cell, numbers)
            cell = next_cell(cell, numbers)
            first, last = np.int64(0), np.int64(1)
            if node & SET:
                first, last = load_int(starts, node ^ SET), load_int(starts, (node ^ SET) + 1)
            for at in range(first, last):
                own = load_int(nodes, at) if node & SET else node
                made = with_member(made, own, numbers) if made >= 0 else one_member(word >> 32, own)
        store_int(row, place, made)
