"""The output router: sends the events of a channel to the exits whose queries they match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from braid.engine.query_registry import ExitPoint
from braid.operators.core.batch import Batch
from braid.operators.core.values import Words


class OutputRouter:
    """The exits of one channel.

    An exit gets only the events of nodes that have queries there. Otherwise queries that each
    publish their own stream would scan each other's events.
    """

    def __init__(self, points: Sequence[ExitPoint]) -> None:
        self.points = list(points)
        self._versions: list[int] = []
        self._nodes: Words = np.empty(0, np.int64)
        self._exits: Words = np.empty(0, np.int64)

    def split(self, batch: Batch) -> Iterator[tuple[ExitPoint, Batch]]:
        """The events of a batch for each exit."""
        if len(self.points) == 1 or batch.index is None or batch.members is None:
            yield from ((point, batch) for point in self.points)
            return
        self._refresh()
        batch = batch.spelled()
        assert batch.index is not None
        assert batch.members is not None
        first = np.searchsorted(self._nodes, batch.members, "left")
        counts = np.searchsorted(self._nodes, batch.members, "right") - first
        pairs = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
        exits = self._exits[np.repeat(first, counts) + within]
        order = np.argsort(exits, kind="stable")
        ends = np.searchsorted(exits[order], np.arange(len(self.points) + 1))
        for number in np.unique(exits).tolist():
            part = pairs[order[ends[number] : ends[number + 1]]]
            yield self.points[number], Batch(batch.rows, batch.index[part], batch.members[part])

    def _refresh(self) -> None:
        versions = [point.subscribers.version for point in self.points]
        if versions == self._versions:
            return
        self._versions = versions
        nodes = [point.subscribers.nodes for point in self.points]
        exits = np.repeat(np.arange(len(nodes)), [len(n) for n in nodes])
        every = np.concatenate(nodes) if nodes else np.empty(0, np.int64)
        order = np.argsort(every, kind="stable")
        self._nodes, self._exits = every[order], exits[order]
