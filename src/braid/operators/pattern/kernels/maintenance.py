"""Work on all instances of a step at once: expiring, renaming, hanging into chains."""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.records import Words
from braid.jit.rows import FREE
from braid.jit.runtime import kernel
from braid.operators.pattern.kernels.instance_keys import write_hashes
from braid.operators.pattern.kernels.members import compact_members, expand_sets
from braid.operators.pattern.kernels.records import LEAST_HEADS, Frame, Link, Slots
from braid.operators.pattern.kernels.slots import (
    count_instance,
    group_of,
    instance_at,
    rehash,
    sweep_slots,
)
from braid.plan.layout import END


@kernel((Frame.type, Slots.type, types.int64))
def sweep(frame: Frame, slots: Slots, now: int) -> None:
    """Drop every instance that is too old at `now`, and lists of members that are not used."""
    sweep_slots(slots, now, frame)
    if slots.arena_used > slots.arena_limit:
        compact_members(slots, True, frame)
        rehash(slots, slots.mask + 1, frame)


@kernel((Frame.type, Slots.type))
def purge(frame: Frame, slots: Slots) -> None:
    """Forget members that no state waits for any more."""
    compact_members(slots, False, frame)
    rehash(slots, slots.mask + 1, frame)


@kernel((Frame.type, Slots.type, Words.type, Words.type))
def forget_sets(frame: Frame, slots: Slots, starts: Words, nodes: Words) -> None:
    """Write single nodes into all instances in the place of sets."""
    expand_sets(slots, starts, nodes, frame)
    compact_members(slots, True, frame)
    rehash(slots, slots.mask + 1, frame)


@kernel((Frame.type, Slots.type))
def rebuild(frame: Frame, slots: Slots) -> None:
    """Chains and counters for the first `high` rows, whose owners are known."""
    slots.count = 0
    slots.free_head = -1
    for k in range(frame.class_count):
        frame.classes[k].live = 0
    for slot in range(slots.high):
        instance = instance_at(slots, slot, frame)
        if instance[END] == FREE:
            Link(instance + frame.link_offset).next = slots.free_head
            slots.free_head = slot
        else:
            group = group_of(instance, frame)
            write_hashes(instance, group, frame)
            count_instance(slots, group, 1, frame)
    slots.swept = slots.count
    size = np.int64(LEAST_HEADS)
    while 2 * size < slots.count:
        size *= 2
    rehash(slots, size, frame)
