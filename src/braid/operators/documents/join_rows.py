"""Rows of one join as the documents of the next: what several joins in a query are made of.

A row is for the next join what a document is: witnesses with values, below a node for the row. Rows
that show the same, and differ only in what a later join compares, are one document with several of
these nodes. Their edges are known by the query's node in the join before and the place in the row, so
that a query sees its own rows only; they are numbered as they are asked for, since numbers of edges
and nodes have 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from braid.operators.core import checks
from braid.operators.core.batch import Batch
from braid.operators.core.nodes import grown
from braid.operators.core.values import Words
from braid.operators.documents.kernels.records import Witnesses
from braid.operators.documents.paths import interned
from braid.plan.layout import END, START, Layout

#: Edges from here on are of rows.
ROW_EDGES = 1 << 30


class Arrived(NamedTuple):
    """Rows that come: `group` tells which are one document; pairs of a row and an origin."""

    values: Words
    group: Words
    row: Words
    origin: Words


def arrived(batch: Batch, layout: Layout) -> Arrived:
    """The rows of a batch; the first column is their group."""
    assert batch.index is not None
    assert batch.members is not None
    _, group = np.unique(batch.rows[:, layout.base], return_inverse=True)
    values = batch.rows[:, layout.base + 1 :].copy()
    return Arrived(values, group, batch.index.astype(np.int64), batch.members.astype(np.int64))


def spans(batch: Batch, came: Arrived) -> tuple[Words, Words]:
    """Start and end of each group."""
    _, first = np.unique(came.group, return_index=True)
    return batch.rows[first, START], batch.rows[first, END]


class DocumentRows:
    """The rows that are held, and which of their values somebody joins."""

    def __init__(self, width: int) -> None:
        self.values: Words = np.zeros((8, width), np.int64)
        #: Of each document of the store, its first row; one more for the end.
        self.first: Words = np.zeros(8, np.int64)
        self._documents = 0
        #: A node for the row, and one for each of its places.
        self._stride = width + 1
        #: The number of each edge: an origin, and a place in its rows.
        self._edges: dict[tuple[int, ...], int] = {}
        #: Origins, places and edges that somebody asks for, in order.
        self._asked: Words = np.zeros((0, 3), np.int64)
        self._fresh: list[Words] = []
        self._signatures: Words = np.zeros((8, 2), np.int64)

    @property
    def count(self) -> int:
        return int(self.first[self._documents])

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.first.nbytes + self._asked.nbytes

    # ---- members ----

    def ask(self, origins: Words, signatures: Words, place: int) -> Words:
        """The edges of a place in the rows of some origins; 0 is the row itself."""
        assert place < self._stride
        places = np.full(len(origins), place, np.int64)
        edges = ROW_EDGES + interned(self._edges, [origins, places], len(origins))
        self._fresh.append(np.stack([origins, places, edges], axis=1))
        self._signatures = grown(self._signatures, int(origins.max(initial=0)) + 1)
        self._signatures[origins] = signatures
        return edges

    def _sorted_asked(self) -> Words:
        """With what members that have just come ask for."""
        if self._fresh:
            self._asked = np.unique(np.concatenate([self._asked, *self._fresh]), axis=0)
            self._fresh = []
        return self._asked

    # ---- rows that come ----

    def add(self, came: Arrived, document_of: Words, count: int) -> Witnesses:
        """Keep rows; `document_of`: of each group, its place among `count` documents that come."""
        documents = document_of[came.group]
        order = np.argsort(documents, kind="stable")
        lengths = np.bincount(documents, minlength=count)
        begins = np.cumsum(lengths) - lengths
        number = np.empty(len(order), np.int64)  # of each row among those of its document
        number[order] = np.arange(len(order)) - np.repeat(begins, lengths)
        self._keep(came.values[order], lengths)
        return self._witnesses(came, documents, number, count)

    def _keep(self, values: Words, lengths: Words) -> None:
        before, held = self._documents, self.count
        self._documents += len(lengths)
        self.first = grown(self.first, self._documents + 1)
        self.first[before + 1 : self._documents + 1] = held + np.cumsum(lengths)
        self.values = grown(self.values, held + len(values))
        self.values[held : held + len(values)] = values

    def _witnesses(self, came: Arrived, documents: Words, number: Words, count: int) -> Witnesses:
        pair, place, edge = self._cells(came.origin)
        row, origin = came.row[pair], came.origin[pair]
        order = np.lexsort((origin, place, number[row], documents[row]))
        row, place, edge = row[order], place[order], edge[order]
        new = np.ones(len(row), np.bool_)
        new[1:] = (row[1:] != row[:-1]) | (place[1:] != place[:-1])
        begin = np.flatnonzero(new)
        node = number[row] * self._stride + place
        known = place[begin] > 0
        values = np.full(len(begin), -1, np.int64)
        values[known] = came.values[row[begin[known]], place[begin[known]] - 1]
        lengths = 1 + (place > 0)
        places = np.cumsum(lengths) - lengths
        chain = np.empty(int(lengths.sum()), np.int64)
        chain[places] = node
        chain[places + lengths - 1] = number[row] * self._stride
        per_document = np.bincount(documents[row[begin]], minlength=count)
        return Witnesses(
            _ends(per_document), node[begin], values, np.append(begin, len(row)),
            edge, places, chain,
        )  # fmt: skip

    def _cells(self, origins: Words) -> tuple[Words, Words, Words]:
        """For each pair of a row and an origin, every place that somebody asks for, and its edge."""
        asked = self._sorted_asked()
        low = np.searchsorted(asked[:, 0], origins, "left")
        lengths = np.searchsorted(asked[:, 0], origins, "right") - low
        found = asked[ranges(low, lengths)]
        return np.repeat(np.arange(len(origins)), lengths), found[:, 1], found[:, 2]

    def drop(self, documents: int) -> None:
        """The first documents are forgotten."""
        if documents:
            begin, end = int(self.first[documents]), self.count
            self.values = self.values[begin:end].copy()
            self.first = self.first[documents : self._documents + 1] - begin
            self._documents -= documents

    def at(self, documents: Words, nodes: Words, place: int) -> Words:
        """A value of the rows that these nodes are."""
        return self.values[self.first[documents] + nodes // self._stride, place]

    # ---- state ----

    def saved(self, state: Mapping[str, Any], documents: int) -> dict[str, Words]:
        """Rows, and which origins they belong to, by what these are."""
        count = int(state["documents"][documents, 1])
        rows = state["rows"][: count + 1]
        per_row = np.diff(rows[:, 3])
        edges = state["edge"][: int(rows[count, 3])]
        of = np.repeat(self.first[rows[:count, 0]] + rows[:count, 1] // self._stride, per_row)
        own = edges >= ROW_EDGES
        origins = np.array([origin for origin, _ in self._edges], np.int64)[edges[own] - ROW_EDGES]
        pairs = np.unique(np.stack([of[own], origins], axis=1), axis=0)
        return {
            "row_values": self.values[: self.count].copy(),
            "row_first": self.first[: self._documents + 1].copy(),
            "row_pairs": np.concatenate([pairs[:, :1], self._signatures[pairs[:, 1]]], axis=1),
        }

    def emptied(self) -> DocumentRows:
        """The same members, without any row."""
        fresh = DocumentRows(self.values.shape[1])
        fresh._asked, fresh._signatures = self._sorted_asked(), self._signatures
        fresh._edges = self._edges
        return fresh

    def came_before(self, state: dict[str, Words]) -> Arrived:
        """Saved rows as if they came, for the origins that are still there."""
        first, pairs = state["row_first"], checks.table(state, "row_pairs", 3)
        values = checks.table(state, "row_values", self.values.shape[1])
        checks.offsets(first, len(values), "rows of documents")
        checks.within(pairs[:, 0], 0, len(values), "rows of origins")
        origins = np.unique(self._sorted_asked()[:, 0])
        known = {tuple(self._signatures[o].tolist()): o for o in origins.tolist()}
        found = [known.get(tuple(pair), -1) for pair in pairs[:, 1:].tolist()]
        origin = np.array(found, np.int64)
        _, group = np.unique(np.repeat(first[:-1], np.diff(first)), return_inverse=True)
        return Arrived(values, group, pairs[origin >= 0, 0], origin[origin >= 0])


def ranges(starts: Words, lengths: Words) -> Words:
    """The numbers from each start on, so many of each."""
    begins = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(starts - begins, lengths)


def _ends(lengths: Words) -> Words:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def merged(first: Witnesses, second: Witnesses) -> Witnesses:
    """The witnesses of the same documents, of which each has some in one of these only."""
    both = (first, second)
    bins, nodes = len(first.edge), len(first.chain)
    of = [np.repeat(np.arange(len(one.start) - 1), np.diff(one.start)) for one in both]
    order = np.argsort(np.concatenate(of), kind="stable")
    begins = np.concatenate([one.first[:-1] + k * bins for k, one in enumerate(both)])
    sizes = np.concatenate([np.diff(one.first) for one in both])
    picked = ranges(begins[order], sizes[order])
    places = [np.append(one.place, len(one.chain)) for one in both]
    lengths = np.concatenate([np.diff(place) for place in places])[picked]
    chained = np.concatenate([place[:-1] + k * nodes for k, place in enumerate(places)])[picked]
    chain = np.concatenate([one.chain for one in both])
    return Witnesses(
        _ends(np.diff(first.start) + np.diff(second.start)),
        np.concatenate([one.node for one in both])[order],
        np.concatenate([one.value for one in both])[order],
        _ends(sizes[order]),
        np.concatenate([one.edge for one in both])[picked],
        _ends(lengths)[:-1],
        chain[ranges(chained, lengths)],
    )
