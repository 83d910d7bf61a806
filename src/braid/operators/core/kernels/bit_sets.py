"""Sets of nodes as bits: listed and counted."""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.records import Words
from braid.jit.runtime import kernel
from braid.operators.core.kernels.node_sets import lowest
from braid.operators.core.kernels.nodes import SET

_PLANES = 8
_FULL = (1 << _PLANES) - 1


@kernel()
def spell_bits(bits: np.ndarray, members: np.ndarray) -> tuple[int, int]:
    """Pairs place << 32 | node of all members, sets being rows of bits: where, how many."""
    room, count = np.int64(1024), np.int64(0)
    out = Words(resized(0, room))
    most = np.int64(64 * bits.shape[1])
    for k in range(members.shape[0]):
        if count + most >= room:
            room = 2 * (room + most)
            out = Words(resized(out, room))
        place = np.int64(k) << np.int64(32)
        member = np.int64(members[k])
        if member < SET:
            out[count] = place | member
            count += 1
            continue
        row = member - SET
        for w in range(bits.shape[1]):
            word = bits[row, w]
            while word != 0:
                bit = lowest(word)
                word ^= np.int64(1) << np.int64(bit)
                out[count] = place | (64 * w + bit)
                count += 1
    return out.address, count


@kernel()
def _add_planes(planes: np.ndarray, counts: np.ndarray) -> None:
    """Add to each node's count what the planes say of its bit, and empty them."""
    for k in range(planes.shape[0]):
        for w in range(planes.shape[1]):
            word = planes[k, w]
            while word != 0:
                bit = lowest(word)
                word ^= np.int64(1) << np.int64(bit)
                counts[64 * w + bit] += np.int64(1) << np.int64(k)
            planes[k, w] = 0


@kernel()
def count_bits(bits: np.ndarray, members: np.ndarray) -> np.ndarray:
    """How many of the members each node is one of, or in: counters of all bits at once, one plane
    for each of their binary places."""
    words, highest = bits.shape[1], np.int64(0)
    for k in range(members.shape[0]):
        if members[k] < SET:
            highest = max(highest, np.int64(members[k]) + 1)
    counts = np.zeros(max(highest, np.int64(64 * words)), np.int64)
    planes = np.zeros((_PLANES, words), np.int64)
    filled = 0
    for k in range(members.shape[0]):
        member = np.int64(members[k])
        if member < SET:
            counts[member] += 1
            continue
        row = member - SET
        for w in range(words):
            carried = bits[row, w]
            for p in range(_PLANES):
                both = planes[p, w] & carried
                planes[p, w] ^= carried
                carried = both
        filled += 1
        if filled == _FULL:
            _add_planes(planes, counts)
            filled = 0
    _add_planes(planes, counts)
    return counts
