"""Counts the instances of states when somebody asks, so that the loop need not keep count."""

from __future__ import annotations

from braid.jit import types
from braid.jit.records import Words
from braid.jit.rows import FREE
from braid.jit.runtime import kernel
from braid.operators.core.bounds import DEAD, UNBOUNDED
from braid.operators.pattern.kernels.members import first_cell, head_of, member_at, next_cell
from braid.operators.pattern.kernels.records import Frame, Slots
from braid.operators.pattern.kernels.slots import instance_at, owner_of
from braid.plan.layout import END, START


@kernel()
def count_waiting(slots: Slots, now: int, counts: Words, frame: Frame) -> None:
    """Add to the count of each state the instances that wait there and are not too old."""
    for slot in range(slots.high):
        instance = instance_at(slots, slot, frame)
        if instance[END] == FREE:
            continue
        owner, age = owner_of(instance, frame), now - instance[START]
        cell = first_cell(owner)
        while cell >= 0:
            number = head_of(member_at(cell, slots), frame).state
            while number >= 0:
                state = frame.states[number]
                young = state.bound == UNBOUNDED or age <= state.bound
                if state.group == owner.group and state.bound != DEAD and young:
                    counts[number] += 1
                number = state.next
            cell = next_cell(cell, slots)


@kernel((Frame.type, Slots.type, types.int64, Words.type))
def count_instances(frame: Frame, slots: Slots, now: int, counts: Words) -> None:
    """`count_waiting` for Python."""
    count_waiting(slots, now, counts, frame)
