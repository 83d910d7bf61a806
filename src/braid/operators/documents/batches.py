"""The documents of a batch as arrays of nodes, and their witnesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from braid.algebra.documents import number_of
from braid.documents.xml_table import DocumentTable
from braid.jit.records import filled
from braid.operators.core.values import Strings, Words
from braid.operators.documents.kernels import match as kernel
from braid.operators.documents.kernels.records import Held, MatchFrame, Witnesses
from braid.operators.documents.paths import DocumentPaths, empty_table

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
        largest = int(np.diff(nodes["document_start"]).max(initial=0))
        while True:
            room = self._room_for(largest)
            found = self._empty(len(tables))
            given = {f"found_{name}": array for name, array in found._asdict().items()}
            frame = filled(MatchFrame, **nodes, **self._paths.made(), **room, **given)
            short = kernel.match(MatchFrame.at(frame))
            if short == kernel.DONE:
                return _used(
                    found, *(int(frame[n][0]) for n in ("row_count", "bin_count", "chain_count"))
                )
            self._rooms[short] *= 4 if short == kernel.WITNESSES else 2

    def _nodes(
        self, tables: Sequence[DocumentTable | None], sources: Words
    ) -> dict[str, np.ndarray]:
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
        return {
            "document_start": start,
            "sources": sources,
            "name": np.concatenate([_NO_NODES.names, *(s.names for s in shapes)]),
            "parent": np.concatenate([_NO_NODES.parents, *(s.parents for s in shapes)]),
            "is_attribute": np.concatenate([_NO_NODES.attribute, *(s.attribute for s in shapes)]),
            "value": value,
            "number": numbers,
        }

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

    def _room_for(self, largest: int) -> dict[str, np.ndarray]:
        """Room for one document of so many nodes."""
        predicates, reached = self._rooms[kernel.PREDICATES], self._rooms[kernel.STATES]
        return {
            "holds": empty_table(2 * predicates),
            "held": np.zeros(predicates, Held.dtype),
            "held_first": np.zeros(largest + 2, np.int64),
            "reached": empty_table(2 * reached),
            "reached_states": np.zeros(reached, np.int64),
            "reached_start": np.zeros(largest + 2, np.int64),
            "last_reached": np.zeros(self._paths.state_count, np.int64),
        }

    def _empty(self, documents: int) -> Witnesses:
        room = self._rooms[kernel.WITNESSES]
        return Witnesses(
            np.zeros(documents + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.int64),
            np.zeros(room + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.int64),
            np.empty(2 * room, np.int64),
        )  # fmt: skip


def _used(found: Witnesses, rows: int, bins: int, nodes: int) -> Witnesses:
    """The witnesses without the room that is left."""
    return Witnesses(
        found.start, found.node[:rows], found.value[:rows], found.first[: rows + 1],
        found.edge[:bins], found.place[:bins], found.chain[:nodes],
    )  # fmt: skip
