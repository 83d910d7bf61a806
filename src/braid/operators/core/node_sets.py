"""Sets of nodes, numbered: what an event belongs to all at once is one member of it."""

from __future__ import annotations

import numpy as np

from braid.operators.core.kernels.nodes import SET as _SET
from braid.operators.core.values import Words

#: Members from this number on are sets.
SET = int(_SET)


class Sets:
    """Numbers for sets of nodes. A number stays what it is as long as the object lives."""

    def __init__(self) -> None:
        self.nodes: list[Words] = []
        self._numbers: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def member(self, nodes: Words) -> int:
        """The member that stands for some nodes, in whatever order."""
        if len(nodes) == 1:
            return int(nodes[0])
        known = np.unique(nodes).astype(np.int64)
        number = self._numbers.setdefault(known.tobytes(), len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(known)
        return SET | number

    def spelled(self, members: np.ndarray) -> tuple[Words, np.ndarray]:
        """Single nodes instead of sets, and which member each was."""
        sizes, starts, nodes = self.laid()
        among = members >= SET
        which = np.where(among, members & (SET - 1), 0)
        counts = np.where(among, sizes[which], 1) if len(sizes) else np.ones(len(members), np.int64)
        places = np.repeat(np.arange(len(members)), counts)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        found = members[places].copy()
        chosen = among[places]
        found[chosen] = nodes[starts[which[places[chosen]]] + within[chosen]]
        return places, found

    def laid(self) -> tuple[Words, Words, Words]:
        """Sizes of all sets, where each begins, and their nodes one after the other."""
        sizes = np.array([len(nodes) for nodes in self.nodes], np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        nodes = np.concatenate(self.nodes) if self.nodes else np.empty(0, np.int64)
        return sizes, starts, nodes
