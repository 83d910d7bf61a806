"""Values of the documents that are held in their order (see `kernels/documents_order.py`).

Documents are taken into segments a few at a time. Two neighbours of about the same size are made one,
so that there are few segments, and a value is sorted about once for each doubling.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from braid.kernels.documents_order import Sorted
from braid.mops.document_store import DocumentStore
from braid.mops.values import Strings, Words

#: So many documents are gone through one by one before they are sorted.
FEWEST = 32


class _Segment(NamedTuple):
    first: int
    end: int
    groups: Words
    by_text: Words
    by_order: Words


class DocumentOrder:
    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self._made: Sorted | None = None

    @property
    def until(self) -> int:
        return self._segments[-1].end if self._segments else 0

    @property
    def nbytes(self) -> int:
        return sum(s.groups.nbytes + s.by_text.nbytes + s.by_order.nbytes for s in self._segments)

    def forget(self) -> None:
        """Documents have other numbers now: they are sorted anew."""
        self._segments, self._made = [], None

    def update(self, store: DocumentStore, edges: Words, strings: Strings) -> None:
        """Take documents that have come into account."""
        if store.count - self.until < FEWEST:
            return
        first, end = self.until, store.count
        while self._segments and self._segments[-1].end - self._segments[-1].first <= 2 * (
            end - first
        ):
            first = self._segments.pop().first
        self._segments.append(_sorted(store, edges, strings, first, end))
        self._made = None

    def made(self) -> Sorted:
        if self._made is None:
            self._made = _together(self._segments, self.until)
        return self._made


def _sorted(store: DocumentStore, edges: Words, strings: Strings, first: int, end: int) -> _Segment:
    begin, last = store.documents[first, 1], store.documents[end, 1]
    bins = np.arange(store.rows[begin, 3], store.rows[last, 3])
    rows = np.repeat(np.arange(begin, last), np.diff(store.rows[begin : last + 1, 3]))
    asked = np.isin(store.edge[bins], edges) & (store.rows[rows, 2] >= 0)
    bins, rows = bins[asked], rows[asked]
    edge, value = store.edge[bins], store.rows[rows, 2]
    kind = store.kinds[value]
    places = np.stack([bins, rows], axis=1)
    by_text = np.lexsort((_ranks(value, strings), kind, edge))
    by_order = np.lexsort((store.orders[value], kind, edge))
    keys = np.stack([edge[by_text], kind[by_text]], axis=1)
    known, begins, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    groups = np.concatenate([known, np.stack([begins, begins + counts], axis=1)], axis=1)
    return _Segment(first, end, groups, places[by_text], places[by_order])


def _ranks(values: Words, strings: Strings) -> Words:
    """The place of each value among the others as a text."""
    known, inverse = np.unique(values, return_inverse=True)
    ranks = np.empty(len(known), np.int64)
    ranks[pc.sort_indices(strings.array(known, None)).to_numpy()] = np.arange(len(known))
    return ranks[inverse]


def _together(segments: list[_Segment], until: int) -> Sorted:
    table = np.zeros((len(segments), 4), np.int64)
    groups = [np.zeros((0, 4), np.int64)]
    texts, orders = [np.zeros((0, 2), np.int64)], [np.zeros((0, 2), np.int64)]
    count = places = 0
    for number, segment in enumerate(segments):
        table[number] = count, count + len(segment.groups), segment.first, segment.end
        groups.append(segment.groups + np.array([0, 0, places, places], np.int64))
        texts.append(segment.by_text)
        orders.append(segment.by_order)
        count += len(segment.groups)
        places += len(segment.by_text)
    return Sorted(
        table, np.concatenate(groups), np.concatenate(texts), np.concatenate(orders),
        np.array([until], np.int64),
    )  # fmt: skip
