"""The documents that a join remembers: R_doc and R_bin in arrays, chained by value.

Documents are in order of time, so those that are too old for every window are the first ones. They
are passed over until there are as many of them as others; then the arrays are made anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.algebra.documents import order_of
from braid.distribution.hashing import shard_of
from braid.errors import damaged
from braid.jit.records import Words as WordPointer
from braid.jit.records import filled
from braid.operators.core import checks
from braid.operators.core.nodes import grown
from braid.operators.core.values import Strings, Words
from braid.operators.documents.kernels.records import JoinFrame, Witnesses
from braid.operators.documents.kernels.state import FOREIGN, values_at
from braid.operators.documents.kernels.views import index_rows

#: Columns of `about`: what is known of a document besides its witnesses.
START, END, SOURCE, TEXT, ID = range(5)


#: The bounds of the view cache: so many slices, and so many cells of each.
SLICES, LONGEST_SLICE = 1024, 512


class DocumentStore:
    """Documents, their witnesses, and where each value is."""

    def __init__(self, views: bool = True) -> None:
        self.count = 0
        #: The next document to be joined, how many are indexed, the first that is not too old.
        self.progress = np.zeros(3, np.int64)
        self.about = np.zeros((8, 5), np.int64)
        self.documents = np.zeros((8, 2), np.int64)
        self.rows: np.ndarray = np.zeros((8, 5), np.int32)
        self.edge: np.ndarray = np.zeros(8, np.int32)
        self.place: np.ndarray = np.zeros(8, np.int32)
        self.chain: np.ndarray = np.zeros(8, np.int32)
        #: Of each value, by its code, the last row that has it.
        self.by_value: np.ndarray = np.full(8, -1, np.int32)
        self.kinds = np.zeros(0, np.int64)
        self.orders = np.zeros(0, np.float64)
        self._ends = 0
        slices = SLICES if views else 0
        self.slice_of = np.full((slices, 3), -1, np.int64)
        self.cells = np.empty((slices, LONGEST_SLICE, 3), np.int64)
        #: Of the view cache: uses, hits, misses; rows that were gone through beside an equality.
        self.cache_counts = np.zeros(4, np.int64)

    # ---- what is there ----

    @property
    def row_count(self) -> int:
        return int(self.documents[self.count, 1])

    @property
    def bin_count(self) -> int:
        return int(self.rows[self.row_count, 3])

    @property
    def nbytes(self) -> int:
        arrays = (
            self.about, self.documents, self.rows, self.edge, self.place, self.chain, self.by_value
        )  # fmt: skip
        cached = int(self.slice_of[self.slice_of[:, 0] >= 0, 1].sum()) * 24
        return sum(array.nbytes for array in arrays) + self.slice_of.nbytes + cached

    def fields(self) -> dict[str, Any]:
        """The arrays of documents, and what is known of them, by their names in the frame."""
        return {
            "documents": self.documents,
            "rows": self.rows,
            "edge": self.edge,
            "place": self.place,
            "chain": self.chain,
            "by_value": self.by_value,
            "kinds": self.kinds,
            "orders": self.orders,
            "slices": self.slice_of,
            "cells": self.cells.reshape(-1, 3),
            "slice_room": self.cells.shape[1],
            "cache_counts": self.cache_counts[None],
            "progress": self.progress[None],
        }

    # ---- documents that come ----

    def add(self, about: Words, found: Witnesses) -> None:
        """Documents in order of time, with their witnesses; they are chained when they are joined."""
        new = len(about)
        rows, bins, nodes = len(found.node), len(found.edge), len(found.chain)
        count, first = self.count, self.row_count
        self.about = grown(self.about, count + new)
        self.documents = grown(self.documents, count + new + 1)
        self.rows = grown(self.rows, first + rows + 1)
        begin, chained = self.bin_count, self._ends
        self.edge = grown(self.edge, begin + bins)
        self.place = grown(self.place, begin + bins)
        self.chain = grown(self.chain, chained + nodes)
        self.about[count : count + new] = about
        self.documents[count : count + new, 0] = about[:, END]
        self.documents[count : count + new + 1, 1] = found.start + first
        lengths = np.diff(found.start)
        self.rows[first : first + rows, 0] = np.repeat(np.arange(count, count + new), lengths)
        self.rows[first : first + rows, 1] = found.node
        self.rows[first : first + rows, 2] = found.value
        self.rows[first : first + rows, 4] = -1
        self.rows[first : first + rows + 1, 3] = found.first + begin
        if not rows:
            self.rows[first, 3] = begin
        self.edge[begin : begin + bins] = found.edge
        self.place[begin : begin + bins] = found.place + chained
        self.chain[chained : chained + nodes] = found.chain
        self._ends = chained + nodes
        self.count += new
        self._reserve_values()

    def leave_to_others(self, first: int, strings: Strings, share: tuple[int, int]) -> None:
        """Of the rows from `first` on, those with values that belong to other shards join nothing."""
        number, shards = share
        values = self.rows[first : self.row_count, 2]
        known, places = np.unique(values, return_inverse=True)
        texts = strings.array(np.maximum(known, 0).astype(np.int64), None)
        foreign = (shard_of(texts, shards) != number) & (known >= 0)
        self.rows[first : self.row_count, 4][foreign[places]] = FOREIGN

    def _reserve_values(self) -> None:
        """Room for the values of documents that are not chained yet."""
        first = int(self.documents[self.progress[1], 1])
        codes = int(self.rows[first : self.row_count, 2].max(initial=-1)) + 1
        self.by_value = grown(self.by_value, codes, -1)

    # ---- restarts ----

    def saved(self) -> dict[str, np.ndarray]:
        """All but what is made from it; halves of words in pairs."""
        rows, bins = self.row_count, self.bin_count
        return {
            "about": self.about[: self.count].copy(),
            "documents": self.documents[: self.count + 1].copy(),
            "sizes": np.array([rows, bins, self._ends], np.int64),
            "rows": _words(self.rows[: rows + 1]),
            "edge": _words(self.edge[:bins]),
            "place": _words(self.place[:bins]),
            "chain": _words(self.chain[: self._ends]),
        }

    @staticmethod
    def _check(state: dict[str, np.ndarray], edges: int, strings: int) -> None:
        """Documents have rows, rows have edges and nodes, and values are strings."""
        checks.sized(state["sizes"], 3, "sizes of documents")
        checks.within(state["sizes"], 0, 2**31 - 8, "sizes of documents")
        rows, bins, ends = state["sizes"].tolist()
        about, documents = checks.table(state, "about", 5), checks.table(state, "documents", 2)
        checks.sized(documents, len(about) + 1, "documents")
        checks.offsets(documents[:, 1], rows, "rows of documents")
        checks.ascending(documents[:-1, 0], "times of documents")
        for name, count in (("rows", 5 * (rows + 1)), ("edge", bins), ("place", bins)):
            checks.sized(state[name], (count + 1) // 2, name)
        checks.sized(state["chain"], (ends + 1) // 2, "chain")
        table = _halves(state["rows"], 5 * (rows + 1)).reshape(-1, 5)
        own = np.repeat(np.arange(len(about)), np.diff(documents[:, 1]))
        if (table[:rows, 0] != own).any():
            raise damaged("a row is of another document")
        checks.within(table[:rows, 2], -1, strings, "values of documents")
        checks.offsets(table[:, 3].astype(np.int64), bins, "edges of rows")
        checks.within(_halves(state["edge"], bins), 0, edges, "edges of rows")
        place = _halves(state["place"], bins)
        checks.within(place, 0, ends, "nodes of edges")
        checks.ascending(place, "nodes of edges")

    def load(self, state: dict[str, np.ndarray], edges: Words, strings: int) -> None:
        """What was saved; `edges`: the new number of each edge; `strings`: how many there are."""
        self._check(state, len(edges), strings)
        rows, bins, self._ends = state["sizes"].tolist()
        self.about = state["about"].reshape(-1, 5).copy()
        self.documents = state["documents"].reshape(-1, 2).copy()
        self.count = len(self.about)
        self.rows = _halves(state["rows"], 5 * (rows + 1)).reshape(-1, 5)
        self.edge = edges[_halves(state["edge"], bins)].astype(np.int32)
        self.place = _halves(state["place"], bins)
        self.chain = _halves(state["chain"], self._ends)
        self.progress[:] = self.count, self.count, 0
        self.index_anew()

    # ---- documents that go ----

    def expire(self, longest: int, bound: int) -> None:
        """Forget what is too old for every window, once it is half of what is there."""
        times = self.documents[: self.count, 0]
        old = int(np.searchsorted(times, bound - longest)) if self.count else 0
        if old and 2 * old >= self.count:
            self.keep_from(old)

    def keep_from(self, first: int) -> None:
        row, begin = int(self.documents[first, 1]), 0
        begin = int(self.rows[row, 3])
        chained = int(self.place[begin]) if begin < self.bin_count else self._ends
        rows, bins, ends = self.row_count, self.bin_count, self._ends
        self.about = self.about[first : self.count].copy()
        self.documents = self.documents[first : self.count + 1].copy()
        self.documents[:, 1] -= row
        self.rows = self.rows[row : rows + 1].copy()
        self.rows[:, 0] -= first
        self.rows[:, 3] -= begin
        self.edge, self.place = self.edge[begin:bins].copy(), self.place[begin:bins] - chained
        self.chain = self.chain[chained:ends].copy()
        self._ends = ends - chained
        self.count -= first
        self.progress[:] = self.count, self.count, 0
        self.index_anew()

    def index_anew(self) -> None:
        """Chain all rows by their values: the values have other codes, or other rows are there."""
        codes = int(self.rows[: self.row_count, 2].max(initial=-1)) + 1
        self.by_value = np.full(max(8, codes), -1, np.int32)
        self.slice_of[:] = -1
        frame = filled(JoinFrame, **self.fields())
        index_rows(JoinFrame.at(frame), 0, self.row_count)

    def values_at(self, documents: Words, nodes: Words) -> Words:
        """The value of each node of a document, -1 where it is not held."""
        values = np.empty(len(documents), np.int64)
        frame = filled(JoinFrame, **self.fields())
        rows = (np.ascontiguousarray(documents), np.ascontiguousarray(nodes), values)
        given = (WordPointer.at(rows[0]), WordPointer.at(rows[1]), WordPointer.at(values))
        values_at(JoinFrame.at(frame), *given, len(values))
        return values

    # ---- values in their order ----

    def order_values(self, strings: Strings) -> None:
        """What each value is when it is compared: a number, a time or a text."""
        first = int(self.documents[self.progress[0], 1]) if len(self.kinds) else 0
        if len(self.kinds) < strings.count:
            self.kinds = grown(self.kinds, strings.count, -1)
            self.orders = grown(self.orders, strings.count)
        codes = np.unique(self.rows[first : self.row_count, 2]).astype(np.int64)
        codes = codes[codes >= 0]
        codes = codes[self.kinds[codes] < 0]
        if len(codes):
            texts = strings.array(codes, None).to_pylist()
            found = [order_of(text) for text in texts]
            self.kinds[codes] = [kind for kind, _ in found]
            self.orders[codes] = [place for _, place in found]

    def forget_orders(self) -> None:
        self.kinds, self.orders = np.zeros(0, np.int64), np.zeros(0, np.float64)


def _words(halves: np.ndarray) -> Words:
    packed = np.zeros(halves.size + halves.size % 2, np.int32)
    packed[: halves.size] = halves.ravel()
    return packed.view(np.int64)


def _halves(words: Words, count: int) -> np.ndarray:
    return words.view(np.int32)[:count].copy()
