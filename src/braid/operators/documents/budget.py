"""How much a query over documents may remember.

An instance of such a query is a binding of a leaf that it joins, or only shows, in a document, or in a
row of the join before, that is not too old for its window. Of several leaves the one with the most
bindings counts. Documents are held once for all queries; what is counted is what one query asks for.
"""

from __future__ import annotations

import numpy as np

from braid.operators.core.values import Words
from braid.operators.documents.queries import DocumentQueries
from braid.operators.documents.store import DocumentStore


class DocumentBudget:
    """Looks from time to time who remembers too much."""

    def __init__(self, most: int) -> None:
        self.most = most
        #: Rows of R_bin when it was looked last, and how many may come before it is looked again.
        self._seen = 0
        self._allowed = most

    def over(self, store: DocumentStore, queries: DocumentQueries) -> dict[int, int]:
        """The nodes of queries that remember too much, each with the time from which on it did."""
        count = store.bin_count
        if count < self._seen:  # old ones have gone
            self._seen = count
            self._allowed = 0
        if count <= self.most or count - self._seen <= self._allowed:
            return {}
        edges = store.edge[:count]
        known, counts = _counted(edges)
        self._seen, self._allowed = count, max(0, self.most - int(counts.max(initial=0)))
        many = known[counts > self.most]
        if not len(many):
            return {}
        asked = queries.remembered()
        found: dict[int, int] = {}
        for edge in many.tolist():
            mine = asked[asked[:, 1] == edge]
            if len(mine):
                self._exceeded(_times(store, edges, edge), mine, found)
        return found

    def _exceeded(self, times: Words, asked: Words, found: dict[int, int]) -> None:
        """When a leaf was bound once too often within each query's window."""
        gaps = np.minimum.accumulate(times[self.most :] - times[: -self.most])
        places = np.searchsorted(-gaps, -asked[:, 2])
        over = places < len(gaps)
        since = times[self.most + places[over]].tolist()
        for node, at in zip(asked[over, 0].tolist(), since, strict=True):
            found[node] = min(at, found.get(node, at))


def _counted(edges: Words) -> tuple[Words, Words]:
    """Each edge that some query has, and how often it is there."""
    edges = edges[edges >= 0]
    if int(edges.max(initial=0)) < 4 * len(edges):
        counts = np.bincount(edges)
        known = np.flatnonzero(counts)
        return known, counts[known]
    known, counts = np.unique(edges, return_counts=True)
    return known, counts


def _times(store: DocumentStore, edges: Words, edge: int) -> Words:
    """When the documents came in which an edge is, in order; as often as it is in them."""
    rows = np.searchsorted(store.rows[: store.row_count, 3], np.flatnonzero(edges == edge), "right")
    return store.documents[store.rows[rows - 1, 0], 0]
