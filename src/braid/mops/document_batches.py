"""The documents of a batch as arrays of nodes, and their witnesses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from braid.algebra.documents import number_of
from braid.kernels import documents_match as kernel
from braid.kernels.documents_frame import Nodes, Scratch, Witnesses, frame_of
from braid.mops.document_paths import DocumentPaths
from braid.mops.document_table import DocumentTable
from braid.mops.values import Strings, Words


class Matcher:
    """Finds the witnesses of documents; keeps the room for it."""

    def __init__(self, paths: DocumentPaths, strings: Strings) -> None:
        self._paths = paths
        self._strings = strings
        #: The codes of the names that queries ask for; no other name matters.
        self.names: dict[str, int] = {}
        #: Room for predicates, states and witnesses; what is cleared for each document is small.
        self._rooms = [0, 64, 64, 1024]

    def witnesses(self, tables: Sequence[DocumentTable | None], sources: Words) -> Witnesses:
        """R_doc and R_bin of documents; None is one that could not be read."""
        nodes = self._nodes(tables, sources)
        paths = self._paths.made()
        largest = int(np.diff(nodes.start).max(initial=0))
        while True:
            scratch = self._scratch(largest)
            found = self._empty(len(tables))
            frame = frame_of(*nodes, *paths, *scratch, *found)
            short = kernel.match(frame.ctypes.data)
            if short == kernel.DONE:
                return found
            self._rooms[short] *= 4 if short == kernel.WITNESSES else 2

    def _nodes(self, tables: Sequence[DocumentTable | None], sources: Words) -> Nodes:
        counts = [0 if t is None else t.count for t in tables]
        start = np.zeros(len(tables) + 1, np.int64)
        np.cumsum(counts, out=start[1:])
        names: list[int] = []
        parents: list[int] = []
        attribute = np.zeros(int(start[-1]), np.bool_)
        asked: list[int] = []
        texts: list[str] = []
        known, valued = self.names, self._paths.valued
        everywhere = kernel.ANY in valued
        for place, table in zip(start.tolist(), tables, strict=False):
            if table is None:
                continue
            codes = [known.get(name, -1) for name in table.names]
            names += codes
            parents += table.parents
            attribute[place + len(table.elements) : place + table.count] = True
            for number, code in enumerate(codes):
                if everywhere or code in valued:
                    asked.append(place + number)
                    texts.append(table.value(number))
        value = np.full(len(names), -1, np.int64)
        numbers = np.full(len(names), np.nan)
        if texts:
            value[asked] = self._strings.codes(pa.array(texts, pa.string()))
            if self._paths.asks_numbers:
                read = [number_of(text) for text in texts]
                numbers[asked] = [np.nan if n is None else n for n in read]
        return Nodes(
            start, sources, np.array(names, np.int64), np.array(parents, np.int64), attribute,
            value, numbers,
        )  # fmt: skip

    def _scratch(self, largest: int) -> Scratch:
        predicates, reached = self._rooms[kernel.PREDICATES], self._rooms[kernel.STATES]
        nodes, states = largest + 2, self._paths.state_count
        return Scratch(
            np.full((2 * predicates, 5), -1, np.int64), np.zeros(predicates, np.int64),
            np.zeros(predicates, np.int64), np.zeros(nodes, np.int64),
            np.zeros(reached, np.int64), np.zeros(nodes, np.int64), np.zeros(states, np.int64),
            np.full((2 * reached, 5), -1, np.int64), np.zeros((64, 3), np.int64),
            np.zeros(2, np.int64),
        )  # fmt: skip

    def _empty(self, documents: int) -> Witnesses:
        room = self._rooms[kernel.WITNESSES]
        return Witnesses(
            np.zeros(documents + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.int64),
            np.zeros(room + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.int64),
            np.empty(2 * room, np.int64), np.zeros(3, np.int64),
        )  # fmt: skip
