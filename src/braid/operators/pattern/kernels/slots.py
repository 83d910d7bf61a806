"""Slots of instances, and the chains that they hang in by their hashes."""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.records import Words
from braid.jit.rows import FREE
from braid.jit.runtime import kernel
from braid.operators.pattern.kernels.records import Frame, Group, Link, Owner, Slots
from braid.plan.layout import END, START


@kernel()
def instance_at(slots: Slots, slot: int, frame: Frame) -> Words:
    return Words(slots.rows + slot * frame.slot_size)


@kernel()
def owner_of(instance: Words, frame: Frame) -> Owner:
    return Owner(instance + frame.owner_offset)


@kernel()
def group_of(instance: Words, frame: Frame) -> Group:
    return frame.groups[owner_of(instance, frame).group]


@kernel()
def _link(slots: Slots, slot: int, alternative: int, frame: Frame) -> Link:
    return Link(slots.rows + slot * frame.slot_size + frame.link_offset)[alternative]


@kernel()
def count_instance(slots: Slots, group: Group, change: int, frame: Frame) -> None:
    """An instance of a group comes (1) or goes (-1)."""
    slots.count += change
    frame.classes[group.key_class].live += change


@kernel()
def unlink(slots: Slots, slot: int, frame: Frame) -> None:
    """Take a slot out of all its chains."""
    unlink_others(slots, slot, np.int64(-1), frame)


@kernel()
def unlink_others(slots: Slots, slot: int, skipped: int, frame: Frame) -> None:
    """Take a slot out of its chains, except for that of one alternative."""
    for alternative in range(frame.alternatives):
        if alternative != skipped:
            _unlink(slots, slot, alternative, frame)


@kernel()
def _unlink(slots: Slots, slot: int, alternative: int, frame: Frame) -> None:
    link = _link(slots, slot, alternative, frame)
    if link.hash < 0:
        return
    bucket = alternative * (slots.mask + 1) + (link.hash & slots.mask)
    if slots.heads[bucket] == slot:
        slots.heads[bucket] = link.next
        return
    before = _link(slots, slots.heads[bucket], alternative, frame)
    while before.next != slot:
        before = _link(slots, before.next, alternative, frame)
    before.next = link.next


@kernel()
def free_slot(slots: Slots, slot: int, frame: Frame) -> None:
    instance = instance_at(slots, slot, frame)
    instance[END] = FREE
    _link(slots, slot, 0, frame).next = slots.free_head
    slots.free_head = slot
    count_instance(slots, group_of(instance, frame), -1, frame)


@kernel()
def take_slot(slots: Slots, frame: Frame) -> int:
    """A slot that is free; the rows may have moved."""
    slot = slots.free_head
    if slot >= 0:
        slots.free_head = _link(slots, slot, 0, frame).next
        return slot
    slot = slots.high
    slots.high = slot + 1
    if slot == slots.capacity:
        slots.capacity = max(16, slot + max(16, slot // 8))
        slots.rows = Words(resized(slots.rows, slots.capacity * (frame.slot_size // 8)))
    return slot


@kernel()
def link_slot(slots: Slots, slot: int, frame: Frame) -> None:
    """Hang a slot into a chain of each alternative that leads events to it."""
    for alternative in range(frame.alternatives):
        link = _link(slots, slot, alternative, frame)
        if link.hash >= 0:
            bucket = alternative * (slots.mask + 1) + (link.hash & slots.mask)
            link.next = slots.heads[bucket]
            slots.heads[bucket] = slot


@kernel()
def rehash(slots: Slots, size: int, frame: Frame) -> None:
    """Hang all slots in use into `size` new chains of each alternative."""
    count = frame.alternatives * size
    heads = slots.heads = Words(resized(slots.heads, count))
    slots.mask = size - 1
    for bucket in range(count):
        heads[bucket] = -1
    for slot in range(slots.high):
        if instance_at(slots, slot, frame)[END] != FREE:
            link_slot(slots, slot, frame)


@kernel()
def sweep_slots(slots: Slots, now: int, frame: Frame) -> None:
    """Free every instance whose longest bound is over at `now`."""
    for slot in range(slots.high):
        instance = instance_at(slots, slot, frame)
        if instance[END] == FREE:
            continue
        bound = group_of(instance, frame).bound
        if bound >= 0 and now - instance[START] > bound:
            unlink(slots, slot, frame)
            free_slot(slots, slot, frame)
    slots.swept = slots.count
