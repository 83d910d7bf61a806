"""The row encoder: turns released events into rows of words, or into columns read in place."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from braid.engine.io.ingest import END, START
from braid.engine.io.ordering import Chunk, Part
from braid.operators.core.columnar_input import Columns, Piece
from braid.operators.core.columns import (
    Rows,
    are_words,
    declare_foreign,
    sorted_by_end,
    write_columns,
    write_sources,
)
from braid.operators.core.kernels.columnar_input import words_of_columns
from braid.operators.core.values import Values, Words
from braid.plan.specs import Shape

#: The address behind one of the capsules in which Arrow hands its memory to others.
_address_in = ctypes.pythonapi.PyCapsule_GetPointer
_address_in.restype = ctypes.c_void_p
_address_in.argtypes = (ctypes.py_object, ctypes.c_char_p)


class _ColumnMap(NamedTuple):
    """What the events of a source look like: for each word of a row the column that it is, -1 for
    masks; nothing if there are other columns than words."""

    shape: Shape
    schema: pa.Schema
    places: Words | None


class RowEncoder:
    """Encodes the events of all sources of a shard.

    The mapping of columns to words is found once for a source, and all addresses of a batch are
    read together. An object for each column of a small batch would cost more than the rest.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._column_maps: dict[str, _ColumnMap] = {}

    def __call__(self, source: str, parts: list[Part], shape: Shape) -> Rows | Columns:
        """The events of a source, in order of `end`: as columns, if they can be read where they lie."""
        ordered = _ordered(parts)
        pieces = []
        for part in ordered or ():
            sources = self._sources(source, part.chunk, shape)
            if sources is None:
                break
            pieces.append(Piece(sources, part.first, len(part), part.chunk))
        if not pieces or len(pieces) < len(parts):
            return self._rows(source, parts if ordered is None else ordered, shape)
        return Columns(shape.layout.width, pieces)

    def _rows(self, source: str, parts: list[Part], shape: Shape) -> Rows:
        rows, at = np.empty((sum(map(len, parts)), shape.layout.width), np.int64), 0
        for part in parts:
            self._write(rows[at : at + len(part)], source, part, shape)
            at += len(part)
        return sorted_by_end(rows)

    def _write(self, rows: Rows, source: str, part: Part, shape: Shape) -> None:
        sources = self._sources(source, part.chunk, shape)
        if sources is not None:
            write_sources(rows, sources, part.first)
            return
        columns = part.chunk.columns
        times = columns[START], columns[END]
        write_columns(rows, columns, shape.layout, shape.schema, self._values, times, part.first)

    def _sources(self, source: str, chunk: Chunk, shape: Shape) -> Words | None:
        """Where the words of a chunk are; most are written in two parts, since the last epoch waits
        for the next batch, so this is looked up once."""
        if chunk.sources is None:
            events, known = chunk.events, self._column_maps.get(source)
            if known is None or known.shape is not shape or known.schema != events.schema:
                known = _ColumnMap(shape, events.schema, _places(events.schema, shape))
                self._column_maps[source] = known
            if known.places is None:
                return None
            found = np.empty(len(known.places), np.int64)
            _, capsule = events.__arrow_c_array__()  # which releases it
            if words_of_columns(_address_in(capsule, b"arrow_array"), known.places, found):
                chunk.sources = found
                declare_foreign(events.columns)
        return chunk.sources


def _places(schema: pa.Schema, shape: Shape) -> Words | None:
    names, layout = schema.names, shape.layout
    wanted = [(START, pa.int64()), (END, pa.int64())]
    wanted += [(name, shape.schema.type_of(name)) for name in layout.names]
    if not all(are_words(schema.field(name).type, type_) for name, type_ in wanted):
        return None
    places = [names.index(name) for name, _ in wanted]
    return np.array([*places[:2], *[-1] * layout.masks, *places[2:]], np.int64)


def _ordered(parts: list[Part]) -> list[Part] | None:
    """Parts one after the other, if there is such an order: each is sorted."""
    if len(parts) == 1:
        return parts
    found = sorted(parts, key=lambda p: int(p.chunk.ends[p.first]))
    for part, following in pairwise(found):
        if part.chunk.ends[part.last - 1] > following.chunk.ends[following.first]:
            return None
    return found
