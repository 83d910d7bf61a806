"""Deltas to many groupings: each is handed, once, to those that have a member for it.

Pairs of a row and an output node are laid out by grouping, those of one in order of time; then one
grouping after the other works on its own. So what a grouping touches stays in the cache, and a
grouping that nothing is for costs nothing.
"""

from __future__ import annotations

import numpy as np

from braid.kernels import groups_layout as at
from braid.kernels.groups import follow_pairs
from braid.kernels.runtime import address, kernel, load_int, store_int

#: What is known of a grouping: where its frame and its numbers are.
TABLE_WORDS = 2
T_FRAME, T_NUMBERS = range(TABLE_WORDS)


@kernel()
def count_pairs(
    heads: np.ndarray,
    following: np.ndarray,
    grouping_of: np.ndarray,
    members: np.ndarray,
    counts: np.ndarray,
) -> None:
    """How many pairs each grouping will have. `heads` and `following`: the output nodes of each
    node of the windows."""
    for p in range(members.shape[0]):
        if members[p] < heads.shape[0]:
            node = heads[members[p]]
            while node >= 0:
                counts[grouping_of[node]] += 1
                node = following[node]


@kernel()
def lay_pairs(
    heads: np.ndarray,
    following: np.ndarray,
    grouping_of: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
    places: np.ndarray,
    out_index: np.ndarray,
    out_nodes: np.ndarray,
) -> None:
    """Write the pairs of each grouping from its place on."""
    for p in range(members.shape[0]):
        if members[p] < heads.shape[0]:
            node = heads[members[p]]
            while node >= 0:
                place = places[grouping_of[node]]
                out_index[place], out_nodes[place] = index[p], node
                places[grouping_of[node]] = place + 1
                node = following[node]


@kernel()
def follow_all(
    tables: np.ndarray,
    active: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    index: np.ndarray,
    nodes: np.ndarray,
    keys: np.ndarray,
    hashes: np.ndarray,
    out: np.ndarray,
    offsets: np.ndarray,
    out_nodes: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Let each active grouping work on its pairs. What it puts out is in `out` from its offset on,
    the nodes of that from twice its first pair on; `counts` says how many rows, and how many nodes
    stopped."""
    for a in range(active.shape[0]):
        g = active[a]
        frame, numbers = tables[g, T_FRAME], tables[g, T_NUMBERS]
        store_int(numbers, at.OUT_AT, address(out) + 8 * offsets[a])
        store_int(numbers, at.MEMBERS_AT, address(out_nodes) + 16 * starts[g])
        store_int(numbers, at.OUT_COUNT, 0)
        follow_pairs(frame, numbers, rows, index, nodes, starts[g], starts[g + 1], keys, hashes)
        counts[a, 0] = load_int(numbers, at.OUT_COUNT)
        counts[a, 1] = load_int(numbers, at.STOPPED)
