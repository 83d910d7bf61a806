"""Loops over the rows of one batch that call generated code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from braid.jit.runtime import (
    PREDICATE_TYPE,
    ROWS,
    WORDS,
    WRITER_TYPE,
    address,
    kernel,
    load_int,
    predicate_at,
    prefetch,
    store_int,
    writer_at,
)
from braid.operators.core.kernels.instances import SET

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
def place_rows(columns: int, width: int, first: int, last: int, rows: int) -> None:
    """Write rows from one up to another, which lie one after the other, from where the words of each
    column are (0: all are 0, -1: leave it alone)."""
    whole = last - (last - first) % BLOCK
    for start in range(first, whole, BLOCK):
        for k in range(width):
            source, target = load_int(columns, k), rows + 8 * ((start - first) * width + k)
            if source > 0:
                source += 8 * start
                # Columns are too many for the machine to see that each is read on and on.
                prefetch(source + AHEAD)
                # All are read before the first is written: a loop may not do that, since it could
                # be the same memory.
                a, b, c = load_int(source, 0), load_int(source, 1), load_int(source, 2)
                d, e, f = load_int(source, 3), load_int(source, 4), load_int(source, 5)
                g, h = load_int(source, 6), load_int(source, 7)
                store_int(target, 0, a)
                store_int(target, width, b)
                store_int(target, 2 * width, c)
                store_int(target, 3 * width, d)
                store_int(target, 4 * width, e)
                store_int(target, 5 * width, f)
                store_int(target, 6 * width, g)
                store_int(target, 7 * width, h)
            elif source == 0:
                for r in range(BLOCK):
                    store_int(target, r * width, 0)
    for r in range(whole, last):
        for k in range(width):
            source = load_int(columns, k)
            if source != -1:
                word = load_int(source, r) if source > 0 else np.int64(0)
                store_int(rows, (r - first) * width + k, word)


@kernel((WORDS, ROWS))
def place_columns(sources: np.ndarray, rows: np.ndarray) -> None:
    """Fill rows from columns: where each column's words are, as in `place_rows`."""
    place_rows(address(sources), rows.shape[1], 0, rows.shape[0], address(rows))


@kernel((ROWS, ROWS))
def take_columns(rows: np.ndarray, columns: np.ndarray) -> None:
    """The words of rows, column by column: the inverse of `place_columns`."""
    n, width = rows.shape[0], rows.shape[1]
    source, target = address(rows), address(columns)
    for start in range(0, n, BLOCK):
        end = min(n, start + BLOCK)
        for k in range(width):
            words, column = source + 8 * k, target + 8 * k * n
            for r in range(start, end):
                store_int(column, r, load_int(words, r * width))


@kernel((ROWS, types.Array(types.int32, 1, "C"), WORDS, ROWS))
def move_columns(
    rows: np.ndarray, chosen: np.ndarray, columns: np.ndarray, out: np.ndarray
) -> None:
    """Rows with other columns, row by row: each is near while it is read and written. `chosen`: which
    rows, or none: all. `columns`: the first words of columns here and there, then of each column
    there the one that it is here."""
    width, out_width, count = rows.shape[1], out.shape[1], columns.shape[0] - 2
    base, target, places = columns[0], columns[1], address(columns) + 16
    first, other, some = address(rows), address(out), chosen.shape[0] > 0
    for r in range(out.shape[0]):
        row, nulls = first + (np.int64(chosen[r]) if some else r) * 8 * width, np.int64(0)
        for word in range(2):
            store_int(other, word, load_int(row, word))
        for word in range(2, base):
            nulls |= load_int(row, word)
        for word in range(2, target):
            store_int(other, word, 0)
        for k in range(count):
            store_int(other, target + k, load_int(row, base + load_int(places, k)))
        if nulls != 0:
            for k in range(count):
                column = load_int(places, k)
                null = (load_int(row, 2 + (column >> 6)) >> np.int64(column & 63)) & 1
                word = 2 + (k >> 6)
                store_int(other, word, load_int(other, word) | (null << np.int64(k & 63)))
        other += 8 * out_width


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
