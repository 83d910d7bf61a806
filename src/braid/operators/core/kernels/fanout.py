"""Linked lists of the nodes that continue a node."""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.records import Words
from braid.jit.runtime import address, kernel, prefetch

#: Pairs that the list of a node is fetched ahead.
_AHEAD = 16


@kernel()
def hang(heads: np.ndarray, following: np.ndarray, sources: np.ndarray, nodes: np.ndarray) -> None:
    """Put nodes at the head of their source's list."""
    for k in range(nodes.shape[0]):
        following[nodes[k]] = heads[sources[k]]
        heads[sources[k]] = nodes[k]


@kernel()
def unhang(
    heads: np.ndarray, following: np.ndarray, sources: np.ndarray, nodes: np.ndarray
) -> None:
    """Take nodes out of their source's list."""
    for k in range(nodes.shape[0]):
        at = heads[sources[k]]
        if at == nodes[k]:
            heads[sources[k]] = following[at]
            continue
        while following[at] != nodes[k]:
            at = following[at]
        following[at] = following[nodes[k]]


@kernel()
def expand_pairs(
    heads: np.ndarray, following: np.ndarray, index: np.ndarray, members: np.ndarray
) -> tuple[int, int]:
    """For each pair of a row and a node, pairs (row << 32 | continuation): where, how many."""
    room, count = np.int64(1024), np.int64(0)
    out, pairs = Words(resized(0, room)), index.shape[0]
    for k in range(pairs):
        if k + _AHEAD < pairs:
            ahead = np.int64(members[k + _AHEAD])
            prefetch(address(heads) + 8 * ahead)
            prefetch(address(following) + 8 * ahead)  # most nodes go on under their own number
        if members[k] >= heads.shape[0]:
            continue
        node = heads[members[k]]
        while node >= 0:
            if count == room:
                room *= 2
                out = Words(resized(out, room))
            out[count] = (np.int64(index[k]) << 32) | node
            count += 1
            node = following[node]
    return out.address, count
