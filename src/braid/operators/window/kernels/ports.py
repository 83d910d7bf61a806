"""Deltas to many ports: each is handed, once, to those that have a member for it.

Pairs of a row and an output node are laid out by port, those of one in order of time. So a port
looks at what is for it, and one that nothing is for costs nothing.
"""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel


@kernel()
def count_pairs(
    heads: np.ndarray,
    following: np.ndarray,
    port_of: np.ndarray,
    members: np.ndarray,
    counts: np.ndarray,
) -> None:
    """How many pairs each port will have. `heads` and `following`: the output nodes of each
    node of the windows."""
    for p in range(members.shape[0]):
        if members[p] < heads.shape[0]:
            node = heads[members[p]]
            while node >= 0:
                counts[port_of[node]] += 1
                node = following[node]


@kernel()
def lay_pairs(
    heads: np.ndarray,
    following: np.ndarray,
    port_of: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
    places: np.ndarray,
    out_index: np.ndarray,
    out_nodes: np.ndarray,
) -> None:
    """Write the pairs of each port from its place on."""
    for p in range(members.shape[0]):
        if members[p] < heads.shape[0]:
            node = heads[members[p]]
            while node >= 0:
                place = places[port_of[node]]
                out_index[place], out_nodes[place] = index[p], node
                places[port_of[node]] = place + 1
                node = following[node]
