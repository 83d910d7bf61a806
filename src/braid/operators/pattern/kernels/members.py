"""The members of an instance: one node, or a list of cells in an arena that are never changed.

A member is a node of the first input. The node's head says which states wait for what it starts.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.records import Words
from braid.jit.rows import FREE
from braid.jit.runtime import kernel
from braid.operators.core.bounds import DEAD
from braid.operators.core.kernels.keys import key_of
from braid.operators.core.kernels.nodes import SET
from braid.operators.pattern.kernels.records import LEAST_ARENA, Cell, Frame, Head, Owner, Slots
from braid.operators.pattern.kernels.slots import free_slot, instance_at, owner_of
from braid.plan.layout import END

#: In the members of an owner: it has one, whose number is the rest of it.
SINGLE = np.int64(0x80000000)
#: A digest that says nothing. A code has at most so many bits, the rest is for a value.
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


@kernel()
def _new_cell(slots: Slots, node: int, following: int) -> int:
    if slots.arena_used == slots.arena_size:
        grow_arena(slots)
    number = slots.arena_used
    slots.arena_used = number + 1
    cell = slots.arena[number]
    cell.node, cell.next = node, following
    return number


@kernel()
def grow_arena(slots: Slots) -> None:
    slots.arena_size = max(64, 2 * slots.arena_size)
    slots.arena = Cell(resized(slots.arena, slots.arena_size))


@kernel()
def with_member(members: int, node: int, slots: Slots) -> int:
    """The same members and one more; -1 is none."""
    if members < 0:
        return SINGLE | node
    if members & SINGLE:
        members = _new_cell(slots, members & (SINGLE - 1), np.int64(-1))
    return _new_cell(slots, node, members)


@kernel()
def first_cell(owner: Owner) -> int:
    """Where to start reading members: pass it to `member_at` and `next_cell`; -1 is the end.

    A single member is read as a cell with the bit SINGLE.
    """
    return owner.members & _LOW


@kernel()
def member_at(cell: int, slots: Slots) -> int:
    return cell & (SINGLE - 1) if cell & SINGLE else slots.arena[cell].node


@kernel()
def next_cell(cell: int, slots: Slots) -> int:
    return np.int64(-1) if cell & SINGLE else slots.arena[cell].next


@kernel()
def head_of(node: int, frame: Frame) -> Head:
    """The head of a node or of a set of nodes."""
    return frame.set_heads[node ^ SET] if node & SET else frame.first_heads[node]


@kernel()
def digest_of(code: int, value: int) -> int:
    """What a column must be for anything to go on from a node: the column's code and bits of a value.

    Most members of a completed instance want another value than the event has. Their digests
    say so where their heads are, which were read when the instance began; the states would be
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
def may_go_on(digest: int, row: Words, base: int) -> bool:
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
def _is_wanted(node: int, group: int, frame: Frame) -> bool:
    """Whether some state of a first node still waits in this group."""
    number = head_of(node, frame).state
    while number >= 0:
        state = frame.states[number]
        if state.group == group and state.bound != DEAD:
            return True
        number = state.next
    return False


@kernel()
def compact_members(slots: Slots, all_wanted: bool, frame: Frame) -> None:
    """Copy the lists that are in use to a new arena, without members that are gone.

    `all_wanted`: nobody has gone since the last time. Instances that are left without members
    are freed; a `rehash` must unlink them.
    """
    old = slots.arena
    # Old cells are read while new ones are written: the slots have one arena at a time.
    new, size, used = Cell(0), np.int64(0), np.int64(0)
    for slot in range(slots.high):
        instance = instance_at(slots, slot, frame)
        if instance[END] == FREE:
            continue
        owner = owner_of(instance, frame)
        made, cell = np.int64(-1), first_cell(owner)
        while cell >= 0:
            node = member_at(cell, slots)
            cell = next_cell(cell, slots)
            if not all_wanted and not _is_wanted(node, owner.group, frame):
                continue
            slots.arena, slots.arena_size, slots.arena_used = new, size, used
            made = with_member(made, node, slots)
            new, size, used = slots.arena, slots.arena_size, slots.arena_used
            slots.arena = old
        if made < 0:
            free_slot(slots, slot, frame)
        else:
            owner.members = made
    release(old)
    slots.arena, slots.arena_size, slots.arena_used = new, size, used
    slots.arena_limit = 2 * used + LEAST_ARENA


@kernel()
def expand_sets(slots: Slots, starts: Words, nodes: Words, frame: Frame) -> None:
    """Write the nodes of every set in the place of the set.

    Set k has nodes[starts[k]:starts[k + 1]]. Instances that are left without members are freed; a
    `rehash` must unlink them.
    """
    for slot in range(slots.high):
        instance = instance_at(slots, slot, frame)
        if instance[END] == FREE:
            continue
        owner = owner_of(instance, frame)
        cell, has_set = first_cell(owner), False
        while cell >= 0:
            has_set |= (member_at(cell, slots) & SET) != 0
            cell = next_cell(cell, slots)
        if not has_set:
            continue
        made, cell = np.int64(-1), first_cell(owner)
        while cell >= 0:
            node = member_at(cell, slots)
            cell = next_cell(cell, slots)
            if node & SET:
                for k in range(starts[node ^ SET], starts[(node ^ SET) + 1]):
                    made = with_member(made, nodes[k], slots)
            else:
                made = with_member(made, node, slots)
        if made < 0:
            free_slot(slots, slot, frame)
        else:
            owner.members = made
