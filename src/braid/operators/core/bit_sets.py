"""Sets of nodes as bits: what a row belongs to, when rows have many members and all differ.

A thousand queries whose windows differ give nearly every combination of a join its own set of
members. As pairs of a row and a member these would be written and read again by every m-op on
the way; as bits they are a few words, and are spelled out when somebody asks whose a row is.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import taken
from braid.operators.core.kernels.bit_sets import count_bits, spell_bits
from braid.operators.core.node_sets import SET
from braid.operators.core.values import Words

Bits = np.ndarray[tuple[int, int], np.dtype[np.int64]]


class BitSets:
    """Members from SET on are the rows of `bits`, each a set of nodes."""

    def __init__(self, bits: Bits) -> None:
        self.bits = bits

    def __len__(self) -> int:
        return len(self.bits)

    def spelled(self, members: np.ndarray) -> tuple[Words, np.ndarray]:
        """Single nodes instead of sets, and which member each was."""
        at, count = spell_bits(self.bits, members)
        pairs = taken(at, count)
        return pairs >> 32, (pairs & 0xFFFFFFFF).astype(np.int32)

    def counted(self, members: np.ndarray) -> Words:
        """How many of the members each node is one of, or in."""
        return count_bits(self.bits, members)

    def within(self, allowed: Words) -> BitSets:
        """The same sets without the nodes that are not allowed, given as bits."""
        words = self.bits.shape[1]
        mask = np.zeros(words, np.int64)
        mask[: len(allowed)] = allowed[:words]
        return BitSets(self.bits & mask)


def is_set(members: np.ndarray) -> np.ndarray:
    return members >= SET
