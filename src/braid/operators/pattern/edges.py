"""The forward edges of a step's states: a table, and whose each edge is."""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.operators.core.nodes import grown
from braid.operators.core.values import Words
from braid.operators.pattern.kernels.records import Edge


class Edges:
    """Edges by number, chained by state; `of[out]` is the edge of an output node, or -1."""

    def __init__(self) -> None:
        self.table: Any = np.zeros(8, Edge.dtype)
        self.of: Words = np.full(8, -1, np.int64)
        self._high = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        return self._high - len(self._free)

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes) + self.of.nbytes

    def know_outs(self, new: Words) -> None:
        """Output nodes come, without edges so far."""
        self.of = grown(self.of, int(new.max()) + 1, -1)
        self.of[new] = -1

    def take(self, count: int) -> Words:
        """Numbers that nobody has."""
        freed = [self._free.pop() for _ in range(min(count, len(self._free)))]
        more = count - len(freed)
        numbers = np.concatenate(
            [np.array(freed, np.int64), self._high + np.arange(more, dtype=np.int64)]
        )
        self._high += more
        self.table = grown(self.table, self._high)
        return numbers

    def give_back(self, numbers: Words) -> None:
        self._free.extend(numbers.tolist())

    def lay_together(self, outs: Words, states: Words, state_table: Any) -> None:
        """Number the edges of some output nodes in the order of their states.

        An event that completes instances of many states then finds their edges where it finds
        the edges before, as it finds the states themselves.
        """
        edges = self.of[outs]
        outs, states = outs[edges >= 0], states[edges >= 0]
        edges = edges[edges >= 0]
        new = np.arange(self._high)
        new[edges[np.lexsort((edges, states))]] = np.sort(edges)
        self.table[new] = self.table[: self._high].copy()
        following = self.table["next"][edges]  # all places of edges are still places of edges
        self.table["next"][edges] = np.where(following < 0, following, new[following])
        self.of[outs] = new[edges]
        first = state_table["edge"][states].copy()
        owners, at = np.unique(states, return_index=True)
        state_table["edge"][owners] = new[first[at]]
