"""Values of the documents that are held in their order (see `operators/documents/kernels/value_order.py`).

Documents are taken into segments a few at a time. Two neighbours of about the same size are made one,
so that there are few segments, and a value is sorted about once for each doubling.

Values beside an equality are in order among documents that are equal. That pays only where many are:
it begins when more rows have been gone through for want of it than documents are held.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from braid.operators.core.values import Strings, Words
from braid.operators.documents.join_rows import ranges
from braid.operators.documents.kernels.state import FOREIGN
from braid.operators.documents.store import DocumentStore

#: So many documents are gone through one by one before they are sorted.
FEWEST = 32
#: So many documents with an equal value are gone through. If more are, and so many times as many as
#: documents are held, values beside an equality are sorted.
FEW, PATIENCE = 64, 4

_GONE_THROUGH = 3
_FIRST, _END = 4, 5


class _Segment(NamedTuple):
    first: int
    end: int
    groups: Words
    by_text: np.ndarray
    by_order: np.ndarray


class DocumentOrder:
    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self._made: dict[str, Any] | None = None
        #: Whether values beside an equality are sorted.
        self._beside = False

    @property
    def until(self) -> int:
        return self._segments[-1].end if self._segments else 0

    @property
    def nbytes(self) -> int:
        return sum(s.groups.nbytes + s.by_text.nbytes + s.by_order.nbytes for s in self._segments)

    def forget(self) -> None:
        """Documents have other numbers now: they are sorted anew."""
        self._segments, self._made = [], None

    def recode(self, store: DocumentStore) -> None:
        """Values have other codes now; their order is the same."""
        self._segments = [_recoded(segment, store) for segment in self._segments]
        self._made = None

    def update(self, store: DocumentStore, edges: Words, strings: Strings) -> None:
        """Take documents into account that have been joined. `edges`: pairs of a leaf whose values
        are in order and one that is equal beside it, or -1."""
        joined = int(store.progress[0])
        if not self._beside and store.cache_counts[_GONE_THROUGH] >= PATIENCE * max(joined, 1):
            self._beside = True
            self.forget()
        if joined - self.until < FEWEST:
            return
        first, end = self.until, joined
        while self._segments and self._segments[-1].end - self._segments[-1].first <= 2 * (
            end - first
        ):
            first = self._segments.pop().first
        asked = edges if self._beside else edges[edges[:, 1] < 0]
        self._segments.append(_sorted(store, asked, strings, first, end))
        self._made = None

    def made(self) -> dict[str, Any]:
        """The segments, by their names in the frame."""
        if self._made is None:
            self._made = _together(self._segments, self.until, self._beside)
        return self._made


class _Leaves(NamedTuple):
    """Rows of R_bin of some documents, and the row of R_doc and the document of each."""

    bins: Words
    rows: Words
    documents: Words

    def chosen(self, which: np.ndarray) -> _Leaves:
        return _Leaves(self.bins[which], self.rows[which], self.documents[which])


def _leaves(store: DocumentStore, first: int, end: int) -> _Leaves:
    begin, last = store.documents[first, 1], store.documents[end, 1]
    bins = np.arange(store.rows[begin, 3], store.rows[last, 3])
    rows = np.repeat(np.arange(begin, last), np.diff(store.rows[begin : last + 1, 3]))
    known = store.rows[rows, 2] >= 0
    return _Leaves(bins[known], rows[known], store.rows[rows[known], 0].astype(np.int64))


def _sorted(store: DocumentStore, edges: Words, strings: Strings, first: int, end: int) -> _Segment:
    every = _leaves(store, first, end)
    parts = [_places(store, every, edges[edges[:, 1] < 0, 0])]
    for ordered, equal in edges[edges[:, 1] >= 0].tolist():
        parts.append(_places_beside(store, every, ordered, equal))
    places = np.concatenate(parts)
    value, same = store.rows[places[:, 1], 2], places[:, 3]
    kind = store.kinds[value]
    edge, equal = store.edge[places[:, 0]], np.where(same < 0, -1, store.edge[places[:, 2]])
    of_equal = np.where(same < 0, -1, store.rows[same, 2])
    by_text = np.lexsort((_ranks(value, strings), kind, edge, of_equal, equal))
    by_order = np.lexsort((store.orders[value], kind, edge, of_equal, equal))
    keys = np.stack([equal, of_equal, edge, kind], axis=1)[by_text].astype(np.int64)
    begins = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(axis=1))[: len(keys)])
    ends = np.append(begins[1:], len(keys)).reshape(-1, 1)[: len(begins)]
    groups = np.concatenate([keys[begins], begins.reshape(-1, 1), ends], axis=1)
    kept = places[:, :3].astype(np.int32)
    return _Segment(first, end, groups, kept[by_text], kept[by_order])


def _places(store: DocumentStore, every: _Leaves, edges: Words) -> Words:
    """The leaves of these edges: row of R_bin, row of R_doc, and nothing that is equal."""
    own = every.chosen(np.isin(store.edge[every.bins], edges))
    nothing = np.full(len(own.bins), -1, np.int64)
    return np.stack([own.bins, own.rows, nothing, nothing], axis=1)


def _places_beside(store: DocumentStore, every: _Leaves, ordered: int, equal: int) -> Words:
    """The leaves of an edge with each leaf of another in the same document, and its row of R_doc.

    Values that belong to other shards are equal to nothing here.
    """
    edge = store.edge[every.bins]
    own = every.chosen(edge == ordered)
    others = every.chosen((edge == equal) & (store.rows[every.rows, 4] != FOREIGN))
    low = np.searchsorted(others.documents, own.documents, "left")
    counts = np.searchsorted(others.documents, own.documents, "right") - low
    one, other = np.repeat(np.arange(len(counts)), counts), ranges(low, counts)
    return np.stack([own.bins[one], own.rows[one], others.bins[other], others.rows[other]], axis=1)


def _recoded(segment: _Segment, store: DocumentStore) -> _Segment:
    groups = segment.groups.copy()
    beside = groups[:, 0] >= 0
    bins = segment.by_text[groups[beside, _FIRST], 2]
    rows = np.searchsorted(store.rows[: store.row_count + 1, 3], bins, "right") - 1
    groups[beside, 1] = store.rows[rows, 2]
    order = np.lexsort(groups[:, 3::-1].T)
    return segment._replace(groups=groups[order])


def _ranks(values: Words, strings: Strings) -> Words:
    """The place of each value among the others as a text."""
    known, inverse = np.unique(values, return_inverse=True)
    ranks = np.empty(len(known), np.int64)
    ranks[pc.sort_indices(strings.array(known, None)).to_numpy()] = np.arange(len(known))
    return ranks[inverse]


def _together(segments: list[_Segment], until: int, beside: bool) -> dict[str, Any]:
    table = np.zeros((len(segments), 4), np.int64)
    groups = [np.zeros((0, 6), np.int64)]
    texts, orders = [np.zeros((0, 3), np.int32)], [np.zeros((0, 3), np.int32)]
    count = places = 0
    for number, segment in enumerate(segments):
        table[number] = count, count + len(segment.groups), segment.first, segment.end
        moved = segment.groups.copy()
        moved[:, [_FIRST, _END]] += places
        groups.append(moved)
        texts.append(segment.by_text)
        orders.append(segment.by_order)
        count += len(segment.groups)
        places += len(segment.by_text)
    return {
        "segments": table,
        "groups": np.concatenate(groups),
        "text_places": np.concatenate(texts),
        "order_places": np.concatenate(orders),
        "unsorted_from": until,
        "sorts_beside": beside,
        "few": FEW,
    }
