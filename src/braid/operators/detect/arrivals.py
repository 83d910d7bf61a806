"""What comes to the logs of one source: the rows of each node, in order, computed once for all."""

from __future__ import annotations

import numpy as np

from braid.operators.core.batch import Batch
from braid.operators.core.values import Values, Words
from braid.operators.detect.base_log import AnyLog, Arrived
from braid.operators.detect.hashing import Hashed
from braid.operators.detect.spec import Dimension, Source
from braid.operators.window.logic import last_order
from braid.plan.layout import END


class Arriving:
    """The rows of a batch by the nodes that they are for."""

    def __init__(self, batch: Batch, source: Source, values: Values) -> None:
        self._rows = batch.rows
        self._hashed = Hashed(batch.rows, source, values)
        self._order: Words | None = None
        if source.order and len(batch.rows):
            self._order = last_order(batch.rows, source.shape, source.order, values)
        self._nodes: set[int] | None = None
        if batch.index is not None and batch.members is not None:
            self._split(batch.index, batch.members)

    def _split(self, index: np.ndarray, members: np.ndarray) -> None:
        """Pairs in order of their nodes, and for each node in order of its rows."""
        rows = index.astype(np.int64)
        if self._order is not None:
            place = np.empty(len(self._order), np.int64)
            place[self._order] = np.arange(len(self._order))
            by = np.lexsort((place[rows], members))
        else:
            by = np.argsort(members, kind="stable")
        self._members, self._chosen = members[by], rows[by]
        self._nodes = set(np.unique(self._members).tolist())

    def has(self, node: int) -> bool:
        """Whether anything has come to a node."""
        return len(self._rows) > 0 if self._nodes is None else node in self._nodes

    def _rows_of(self, node: int) -> Words:
        if self._nodes is not None:
            low, high = np.searchsorted(self._members, [node, node + 1])
            return self._chosen[low:high]
        return np.arange(len(self._rows)) if self._order is None else self._order

    def of(self, log: AnyLog) -> tuple[Arrived, dict[Dimension, Words], dict[str, Words]]:
        """What comes to a log, with its buckets and, to verify, its keys."""
        chosen, hashed = self._rows_of(log.node), self._hashed
        ends = np.ascontiguousarray(self._rows[chosen, END])
        arrived = Arrived(ends, hashed.kept(chosen))
        buckets = {d: hashed.buckets(d)[chosen] for ds in log.dimensions for d in ds}
        return arrived, buckets, {n: hashed.words(n)[chosen] for n in log.key_columns}

    def keys_of(self, log: AnyLog) -> tuple[Words, np.ndarray]:
        """The keys of what comes to a log by key, and whether all of each is known."""
        chosen, hashed = self._rows_of(log.node), self._hashed
        words = np.empty((len(chosen), len(log.key.by)), np.int64)
        known = np.ones(len(chosen), np.bool_)
        for place, name in enumerate(log.key.by):
            words[:, place] = hashed.words(name)[chosen]
            known &= hashed.known(name)[chosen]
        return words, known
