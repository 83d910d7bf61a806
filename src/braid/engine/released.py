"""Events that were held back become rows of words when their time has come."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from braid.engine.ingest import END, START
from braid.engine.ordering import Chunk, Part
from braid.mops.arriving import Columns, Piece
from braid.mops.columns import Rows, sorted_by_end, sources_of, write_columns, write_sources
from braid.mops.values import Values, Words
from braid.plan.specs import Shape


def arrived(parts: list[Part], shape: Shape, values: Values) -> Rows | Columns:
    """The events of a channel, in order of `end`: as columns, if they can be read where they lie."""
    ordered = _ordered(parts)
    pieces = []
    for part in ordered or ():
        sources = _sources(part.chunk, shape)
        if sources is None:
            break
        pieces.append(Piece(sources, part.first, len(part), part.chunk))
    if not pieces or len(pieces) < len(parts):
        return _rows(parts, shape, values)
    return Columns(shape.layout.width, pieces)


def _ordered(parts: list[Part]) -> list[Part] | None:
    """Parts one after the other, if there is such an order: each is sorted."""
    found = sorted(parts, key=lambda p: int(p.chunk.ends[p.first]))
    for part, following in pairwise(found):
        if part.chunk.ends[part.last - 1] > following.chunk.ends[following.first]:
            return None
    return found


def _rows(parts: list[Part], shape: Shape, values: Values) -> Rows:
    """The rows of a channel, in order of `end`."""
    rows = np.empty((sum(map(len, parts)), shape.layout.width), np.int64)
    ordered, at = _ordered(parts), 0
    for part in parts if ordered is None else ordered:
        _write(rows[at : at + len(part)], part, shape, values)
        at += len(part)
    return rows if ordered is not None else sorted_by_end(rows)


def _sources(chunk: Chunk, shape: Shape) -> Words | None:
    """Where the words of a chunk are; most are written in two parts, since the last epoch waits for
    the next batch, so this is looked up once."""
    if chunk.sources is None:
        columns = chunk.columns
        times = columns[START], columns[END]
        chunk.sources = sources_of(columns, shape.layout, shape.schema, times)
    return chunk.sources


def _write(rows: Rows, part: Part, shape: Shape, values: Values) -> None:
    sources = _sources(part.chunk, shape)
    if sources is not None:
        write_sources(rows, sources, part.first)
        return
    columns = part.chunk.columns
    times = columns[START], columns[END]
    write_columns(rows, columns, shape.layout, shape.schema, values, times, part.first)
