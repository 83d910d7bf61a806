"""Loops over the rows of one batch: they call generated code, or move words."""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.jit import types
from braid.jit.records import Words
from braid.jit.rows import any_null, is_null, set_null
from braid.jit.runtime import (
    PREDICATE_TYPE,
    ROWS,
    WORDS,
    WRITER_TYPE,
    address,
    kernel,
    predicate_at,
    prefetch,
    writer_at,
)
from braid.operators.core.kernels.nodes import SET
from braid.plan.layout import END, MASK, START

#: Rows that are filled together: as many as words of a column are one line of memory.
BLOCK = 8
#: How far ahead columns are asked for, in bytes.
AHEAD = 512


@kernel((ROWS, WORDS, WORDS, PREDICATE_TYPE, WORDS))
def verify_pairs(
    rows: np.ndarray, places: np.ndarray, own: np.ndarray, predicate: Any, context: np.ndarray
) -> np.ndarray:
    """Which of some rows satisfy a predicate, each with the parameters that start at `own`."""
    predicate = predicate_at(predicate)
    holds = np.empty(places.shape[0], np.bool_)
    base, stride = address(rows), np.int64(rows.shape[1] * 8)
    parameters, strings = context[0], context[1]
    for k in range(places.shape[0]):
        row = base + places[k] * stride
        holds[k] = predicate(np.int64(0), row, parameters + 8 * own[k], strings)
    return holds


@kernel((ROWS, WORDS, WORDS, WRITER_TYPE, WORDS, ROWS))
def write_pairs(
    rows: np.ndarray,
    places: np.ndarray,
    own: np.ndarray,
    writer: Any,
    context: np.ndarray,
    output: np.ndarray,
) -> None:
    """Compute columns of an output row for each pair of a row and the parameters at `own`."""
    writer = writer_at(writer)
    base, stride = address(rows), np.int64(rows.shape[1] * 8)
    out, out_stride = address(output), np.int64(output.shape[1] * 8)
    parameters, strings = context[0], context[1]
    for k in range(places.shape[0]):
        row = base + places[k] * stride
        writer(np.int64(0), row, parameters + 8 * own[k], strings, out + k * out_stride)


@kernel((ROWS, WRITER_TYPE, WORDS, ROWS))
def write_rows(rows: np.ndarray, writer: Any, context: np.ndarray, output: np.ndarray) -> None:
    """Compute columns of each output row from the input row of the same number."""
    writer = writer_at(writer)
    base, stride = address(rows), np.int64(rows.shape[1] * 8)
    out, out_stride = address(output), np.int64(output.shape[1] * 8)
    parameters, strings = context[0], context[1]
    for r in range(rows.shape[0]):
        writer(np.int64(0), base + r * stride, parameters, strings, out + r * out_stride)


@kernel()
def place_rows(columns: Words, width: int, first: int, last: int, rows: Words) -> None:
    """Write rows from one up to another, which lie one after the other, from where the words of each
    column are (0: all are 0, -1: leave it alone)."""
    whole = last - (last - first) % BLOCK
    for start in range(first, whole, BLOCK):
        for k in range(width):
            target = rows.after((start - first) * width + k)
            if columns[k] > 0:
                source = Words(columns[k]).after(start)
                # Columns are too many for the machine to see that each is read on and on.
                prefetch(source + AHEAD)
                # All are read before the first is written: a loop may not do that, since it could
                # be the same memory.
                a, b, c, d = source[0], source[1], source[2], source[3]
                e, f, g, h = source[4], source[5], source[6], source[7]
                target[0] = a
                target[width] = b
                target[2 * width] = c
                target[3 * width] = d
                target[4 * width] = e
                target[5 * width] = f
                target[6 * width] = g
                target[7 * width] = h
            elif columns[k] == 0:
                for r in range(BLOCK):
                    target[r * width] = 0
    for r in range(whole, last):
        for k in range(width):
            if columns[k] != -1:
                word = Words(columns[k])[r] if columns[k] > 0 else np.int64(0)
                rows[(r - first) * width + k] = word


@kernel((WORDS, ROWS))
def place_columns(sources: np.ndarray, rows: np.ndarray) -> None:
    """Fill rows from columns: where each column's words are, as in `place_rows`."""
    place_rows(Words(address(sources)), rows.shape[1], 0, rows.shape[0], Words(address(rows)))


@kernel((ROWS, ROWS))
def take_columns(rows: np.ndarray, columns: np.ndarray) -> None:
    """The words of rows, column by column: the inverse of `place_columns`."""
    n, width = rows.shape[0], rows.shape[1]
    source, target = Words(address(rows)), Words(address(columns))
    for start in range(0, n, BLOCK):
        end = min(n, start + BLOCK)
        for k in range(width):
            for r in range(start, end):
                target[k * n + r] = source[r * width + k]


@kernel((ROWS, types.Array(types.int32, 1, "C"), WORDS, ROWS))
def move_columns(
    rows: np.ndarray, chosen: np.ndarray, columns: np.ndarray, out: np.ndarray
) -> None:
    """Rows with other columns, row by row: each is near while it is read and written. `chosen`: which
    rows, or none: all. `columns`: the first words of columns here and there, then of each column
    there the one that it is here."""
    width, out_width, count = rows.shape[1], out.shape[1], columns.shape[0] - 2
    base, target, places = columns[0], columns[1], Words(address(columns)).after(2)
    first, other, some = Words(address(rows)), Words(address(out)), chosen.shape[0] > 0
    for r in range(out.shape[0]):
        row = first.after((np.int64(chosen[r]) if some else r) * width)
        other[START] = row[START]
        other[END] = row[END]
        for word in range(MASK, target):
            other[word] = 0
        for k in range(count):
            other[target + k] = row[base + places[k]]
        if any_null(row, base):
            for k in range(count):
                if is_null(row, places[k]):
                    set_null(other, k)
        other = other.after(out_width)


@kernel()
def ordered_sums(words: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The sum of floats in each group, term by term in the given order."""
    values = words.view(np.float64)
    out = np.zeros(starts.shape[0], np.float64)
    for g in range(starts.shape[0]):
        end = starts[g + 1] if g + 1 < starts.shape[0] else values.shape[0]
        total = 0.0
        for k in range(starts[g], end):
            total += values[k]
        out[g] = total
    return out


@kernel()
def packed_pairs(index: np.ndarray, members: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """Pairs of a row and a node as words row << 32 | node; `sets` has the numbers of sets here."""
    words = np.empty(index.shape[0], np.int64)
    for k in range(index.shape[0]):
        node = np.int64(members[k])
        if node & SET != 0:
            node = sets[node & (SET - 1)]
        words[k] = (np.int64(index[k]) << 32) | node
    return words
