"""The documents of a batch as arrays of nodes, and their witnesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from braid.algebra.documents import number_of
from braid.documents.xml_table import DocumentTable
from braid.jit.memory import address_of
from braid.operators.core.values import Strings, Words
from braid.operators.documents.kernels import match as kernel
from braid.operators.documents.kernels.frame import Nodes, Scratch, Witnesses, frame_of
from braid.operators.documents.paths import DocumentPaths

#: How many shapes of documents are kept, and the most nodes of one.
_SHAPES, _LARGEST_SHAPE = 1024, 512


class _Shape(NamedTuple):
    """What documents have in common that differ in their values only; `asked`: whose are needed,
    which `values` takes out of all."""

    names: Words
    parents: Words
    attribute: np.ndarray
    asked: Words
    values: Callable[[Sequence[str | None]], Sequence[Any]]


_NOTHING = np.zeros(0, np.int64)
_NO_NODES = _Shape(_NOTHING, _NOTHING, np.zeros(0, np.bool_), _NOTHING, lambda values: ())


class Matcher:
    """Finds the witnesses of documents; keeps the room for it."""

    def __init__(self, paths: DocumentPaths, strings: Strings) -> None:
        self._paths = paths
        self._strings = strings
        #: The codes of the names that queries ask for; no other name matters.
        self.names: dict[str, int] = {}
        #: Room for predicates, states and witnesses; what is cleared for each document is small.
        self._rooms = [0, 64, 64, 1024]
        #: Shapes of documents, for as many names and names with values as there were.
        self._shapes: dict[tuple[object, ...], _Shape] = {}
        self._shaped = (0, 0)

    def witnesses(self, tables: Sequence[DocumentTable | None], sources: Words) -> Witnesses:
        """R_doc and R_bin of documents; None is one that could not be read."""
        nodes = self._nodes(tables, sources)
        paths = self._paths.made()
        largest = int(np.diff(nodes.start).max(initial=0))
        while True:
            scratch = self._scratch(largest)
            found = self._empty(len(tables))
            frame = frame_of(*nodes, *paths, *scratch, *found)
            short = kernel.match(address_of(frame))
            if short == kernel.DONE:
                return found
            self._rooms[short] *= 4 if short == kernel.WITNESSES else 2

    def _nodes(self, tables: Sequence[DocumentTable | None], sources: Words) -> Nodes:
        counts = [0 if t is None else t.count for t in tables]
        start = np.zeros(len(tables) + 1, np.int64)
        np.cumsum(counts, out=start[1:])
        shapes = [_NO_NODES if t is None else self._shape(t) for t in tables]
        texts: list[str] = []
        for table, shape in zip(tables, shapes, strict=True):
            if table is not None:
                own = shape.values(table.values)
                texts += map(table.value, shape.asked.tolist()) if None in own else own
        places = np.repeat(start[:-1], [len(shape.asked) for shape in shapes])
        asked = places + np.concatenate([_NO_NODES.asked, *(s.asked for s in shapes)])
        value = np.full(int(start[-1]), -1, np.int64)
        numbers = np.full(int(start[-1]), np.nan)
        if texts:
            value[asked] = self._strings.codes(pa.array(texts, pa.string()))
            if self._paths.asks_numbers:
                read = [number_of(text) for text in texts]
                numbers[asked] = [np.nan if n is None else n for n in read]
        return Nodes(
            start, sources, np.concatenate([_NO_NODES.names, *(s.names for s in shapes)]),
            np.concatenate([_NO_NODES.parents, *(s.parents for s in shapes)]),
            np.concatenate([_NO_NODES.attribute, *(s.attribute for s in shapes)]), value, numbers,
        )  # fmt: skip

    def _shape(self, table: DocumentTable) -> _Shape:
        """Documents of one schema are mostly alike: what does not depend on values is found once."""
        valued = self._paths.valued
        if self._shaped != (len(self.names), len(valued)) or len(self._shapes) == _SHAPES:
            self._shapes, self._shaped = {}, (len(self.names), len(valued))
        if table.count > _LARGEST_SHAPE:
            return self._shape_anew(table)
        key = (len(table.elements), *table.names, *table.parents)
        known = self._shapes.get(key)
        if known is None:
            known = self._shapes[key] = self._shape_anew(table)
        return known

    def _shape_anew(self, table: DocumentTable) -> _Shape:
        valued = self._paths.valued
        codes = [self.names.get(name, -1) for name in table.names]
        everywhere = kernel.ANY in valued
        asked = [n for n, code in enumerate(codes) if everywhere or code in valued]
        return _Shape(
            np.array(codes, np.int64), np.array(table.parents, np.int64),
            np.arange(table.count) >= len(table.elements), np.array(asked, np.int64),
            itemgetter(*asked) if len(asked) > 1 else lambda values: [values[n] for n in asked],
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
