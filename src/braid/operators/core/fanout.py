"""From a node of an input to the nodes that continue it: one to many, in linked lists."""

from __future__ import annotations

import numpy as np

from braid.jit.memory import taken
from braid.operators.core.batch import Batch
from braid.operators.core.kernels.fanout import expand_pairs, hang, unhang
from braid.operators.core.nodes import grown
from braid.operators.core.values import Words


class Fanout:
    """Each output node continues one input node."""

    def __init__(self) -> None:
        self._heads: Words = np.full(8, -1, np.int64)
        self._next: Words = np.full(8, -1, np.int64)
        self._source: Words = np.zeros(8, np.int64)

    def add(self, sources: Words, nodes: Words) -> None:
        if not len(nodes):
            return
        self._heads = grown(self._heads, int(sources.max()) + 1, -1)
        self._next = grown(self._next, int(nodes.max()) + 1, -1)
        self._source = grown(self._source, int(nodes.max()) + 1)
        self._source[nodes] = sources
        hang(self._heads, self._next, sources, nodes)

    def remove(self, nodes: Words) -> None:
        unhang(self._heads, self._next, self._source[nodes], nodes)

    def applied(self, batch: Batch) -> Batch:
        """The events of an input with the nodes that continue theirs."""
        if batch.index is None or batch.members is None:
            index = np.arange(len(batch.rows), dtype=np.int32)
            members = np.zeros(len(batch.rows), np.int32)
        else:
            index, members = batch.index, batch.members
        at, count = expand_pairs(self._heads, self._next, index, members)
        pairs = taken(at, count)
        return Batch(
            batch.rows, (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)
        )

    @property
    def lists(self) -> tuple[Words, Words]:
        """The first node that continues each input node, and the one after each; -1: none."""
        return self._heads, self._next

    def same(self) -> Words | None:
        """The nodes that go on under their own numbers, if all that go on do."""
        nodes = np.flatnonzero(self._heads >= 0)
        ahead = self._heads[nodes]
        if (ahead != nodes).any() or (self._next[ahead] >= 0).any():
            return None
        return nodes

    @property
    def nbytes(self) -> int:
        return self._heads.nbytes + self._next.nbytes + self._source.nbytes
