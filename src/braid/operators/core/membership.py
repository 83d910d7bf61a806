"""Members coming and going: what m-ops are given of them, and what they give back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.operators.core.nodes import NodeNumbers, Nodes, Signatures


class Origin(NamedTuple):
    """The node of each member in one input: its number, and what it is."""

    numbers: NodeNumbers
    signatures: Signatures


def origin_of(nodes: Nodes, numbers: NodeNumbers) -> Origin:
    return Origin(numbers, nodes.signatures[numbers])


def nobody(count: int) -> Origin:
    """The origin of members whose input has none: one node for all."""
    return Origin(np.zeros(count, np.int64), np.zeros((count, 2), np.int64))
