"""What is done to all instances of a step at once: forgetting, renaming, hanging into chains."""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.runtime import WORDS, address, kernel, load_int, store_half, store_int
from braid.operators.core.kernels.instances import (
    ARENA_LIMIT,
    ARENA_USED,
    C_LIVE,
    CLASS_COUNT,
    CLASS_WORDS,
    CLASSES,
    COUNT,
    FREE,
    FREE_HEAD,
    GROUP,
    GROUP_WORDS,
    GROUPS,
    HEADS_MASK,
    HIGH,
    LEAST_HEADS,
    LINK,
    ROWS_AT,
    SWEPT,
    class_of,
    hash_ways,
    rehash,
    sweep_slots,
)
from braid.operators.core.kernels.members import compact_members, spell_out


@kernel((WORDS, WORDS, types.int64))
def sweep(frame_words: np.ndarray, slots: np.ndarray, now: int) -> None:
    """Drop every instance that is too old at `now`, and lists of members that are not used."""
    frame, numbers = address(frame_words), address(slots)
    stride = 8 * (frame_words[GROUP] + 1)
    sweep_slots(numbers, stride, frame, now)
    if slots[ARENA_USED] > slots[ARENA_LIMIT]:
        compact_members(numbers, stride, frame, True)
        rehash(slots[HEADS_MASK] + 1, numbers, stride, frame)


@kernel((WORDS, WORDS))
def purge(frame_words: np.ndarray, slots: np.ndarray) -> None:
    """Forget members that no state waits for any more."""
    frame, numbers = address(frame_words), address(slots)
    stride = 8 * (frame_words[GROUP] + 1)
    compact_members(numbers, stride, frame, False)
    rehash(slots[HEADS_MASK] + 1, numbers, stride, frame)


@kernel((WORDS, WORDS, WORDS, WORDS))
def spell_sets(
    frame_words: np.ndarray, slots: np.ndarray, starts: np.ndarray, nodes: np.ndarray
) -> None:
    """Write single nodes into all instances in the place of sets, and forget the sets."""
    frame, numbers = address(frame_words), address(slots)
    stride = 8 * (frame_words[GROUP] + 1)
    spell_out(numbers, stride, frame, address(starts), address(nodes))
    compact_members(numbers, stride, frame, True)
    rehash(slots[HEADS_MASK] + 1, numbers, stride, frame)


@kernel((WORDS, WORDS))
def rebuild(frame_words: np.ndarray, slots: np.ndarray) -> None:
    """Chains and counters for the first HIGH rows at ROWS_AT, whose members are known."""
    frame, numbers = address(frame_words), address(slots)
    stride = 8 * (frame_words[GROUP] + 1)
    slots[COUNT] = 0
    slots[FREE_HEAD] = -1
    for k in range(frame_words[CLASS_COUNT]):
        store_int(frame_words[CLASSES] + k * (8 * CLASS_WORDS), C_LIVE, 0)
    for slot in range(slots[HIGH]):
        row = slots[ROWS_AT] + slot * stride
        if load_int(row, 1) == FREE:
            store_half(row, frame_words[LINK], slots[FREE_HEAD])
            slots[FREE_HEAD] = slot
        else:
            group = frame_words[GROUPS] + (load_int(row, frame_words[GROUP]) >> 32) * (
                8 * GROUP_WORDS
            )
            hash_ways(row, group, frame)
            slots[COUNT] += 1
            class_ = class_of(row, frame)
            store_int(class_, C_LIVE, load_int(class_, C_LIVE) + 1)
    slots[SWEPT] = slots[COUNT]
    size = np.int64(LEAST_HEADS)
    while 2 * size < slots[COUNT]:
        size *= 2
    rehash(size, numbers, stride, frame)
