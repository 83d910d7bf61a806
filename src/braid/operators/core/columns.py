"""Between Arrow columns and rows of words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from braid.algebra.schema import Schema
from braid.algebra.types import Kind, kind_of
from braid.jit.allocations import belongs_to_others
from braid.jit.runtime import COMPILED, address
from braid.operators.core.kernels.rows import move_columns, place_columns
from braid.operators.core.values import Values, Words
from braid.plan.layout import END, MASK, Layout

Rows = np.ndarray[Any, np.dtype[np.int64]]


def empty_rows(layout: Layout, count: int = 0) -> Rows:
    return np.zeros((count, layout.width), np.int64)


def words_of(array: pa.Array, type_: pa.DataType, values: Values) -> Words:
    """The words of a column, NULLs as any word."""
    kind = kind_of(type_)
    if kind is Kind.STRING:
        return values.strings.codes(array)
    if kind is Kind.OPAQUE:
        return values.store(type_).codes(array)
    if kind is Kind.NULL:
        return np.zeros(len(array), np.int64)
    if kind is Kind.DECIMAL:
        return _decimal_words(array)
    wanted = _PRIMITIVE.get(kind, _INTEGER)
    if array.type != wanted:
        array = array.cast(wanted)
    if array.null_count:
        array = array.fill_null(0)
    words = array.to_numpy(zero_copy_only=False)
    return words.view(np.int64) if kind is Kind.FLOAT else words.astype(np.int64, copy=False)


_INTEGER = pa.int64()
#: Columns that lie in memory as rows have them.
_AS_WORDS = frozenset([pa.int64(), pa.float64()])
#: What a column is cast to on its way into words, if not to 64-bit integers.
_PRIMITIVE = {Kind.FLOAT: pa.float64(), Kind.BOOLEAN: pa.int8(), Kind.DATE: pa.int32()}


def _decimal_words(array: pa.Array) -> Words:
    """Decimals of up to 18 digits lie as 128-bit little-endian integers: take the low half."""
    if array.type.bit_width != 128:
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    raw = np.frombuffer(array.buffers()[1], np.int64)
    return raw[2 * array.offset : 2 * (array.offset + len(array)) : 2].copy()


def array_of(
    words: Words, nulls: np.ndarray | None, type_: pa.DataType, values: Values
) -> pa.Array:
    """The Arrow column of words; the inverse of `words_of`."""
    kind = kind_of(type_)
    words = np.ascontiguousarray(words)
    if kind is Kind.STRING:
        return values.strings.array(words, nulls)
    if kind is Kind.OPAQUE:
        return values.store(type_).array(words, nulls)
    if kind is Kind.NULL:
        return pa.nulls(len(words))
    if kind is Kind.DECIMAL:
        return _decimal_array(words, nulls, type_)
    if nulls is None and type_ in _AS_WORDS:
        return pa.Array.from_buffers(type_, len(words), [None, pa.py_buffer(words)])
    if kind is Kind.FLOAT:
        return pa.array(words.view(np.float64), pa.float64(), mask=nulls).cast(type_, safe=False)
    if kind is Kind.BOOLEAN:
        return pa.array(words != 0, pa.bool_(), mask=nulls)
    if kind is Kind.DATE:
        return pa.array(words.astype(np.int32), pa.int32(), mask=nulls).cast(type_)
    return pa.array(words, pa.int64(), mask=nulls).cast(type_)


def _decimal_array(words: Words, nulls: np.ndarray | None, type_: pa.DataType) -> pa.Array:
    wide = np.empty((len(words), 2), np.int64)
    wide[:, 0] = words
    wide[:, 1] = words >> 63
    valid = None if nulls is None else pa.array(~nulls).buffers()[1]
    return pa.Array.from_buffers(type_, len(words), [valid, pa.py_buffer(wide)])


def nulls_of(rows: Rows, column: int) -> np.ndarray | None:
    """Which rows have NULL in a column; None if no row has."""
    bits = (rows[:, MASK + column // 64] >> np.int64(column % 64)) & 1
    return bits.astype(np.bool_) if bits.any() else None


def set_nulls(rows: Rows, column: int, nulls: np.ndarray | None) -> None:
    if nulls is not None:
        bit = np.int64(1) << np.int64(column % 64)
        rows[:, MASK + column // 64] |= np.where(nulls, bit, np.int64(0))


def write_columns(
    rows: Rows,
    columns: Mapping[str, pa.Array] | pa.RecordBatch,
    layout: Layout,
    schema: Schema,
    values: Values,
    times: tuple[pa.Array, pa.Array] | None = None,
    first: int = 0,
) -> None:
    """Write the named columns, from a row on, into rows, which lie one after the other; start and
    end too, if they are given."""
    sources = np.zeros(layout.width, np.int64)
    used: list[Words] = []  # what is copied must be there until it has been placed
    arrays = [columns[name] for name in layout.names]
    named = [*zip(range(MASK), times or (), (_INTEGER,) * MASK, strict=False)]
    named += zip(
        range(layout.base, layout.width), arrays, map(schema.type_of, layout.names), strict=True
    )
    for place, array, type_ in named:
        if _lies_as_words(array, type_):
            sources[place] = _address(array) + 8 * first
        else:
            words = words_of(array.slice(first, len(rows)), type_, values)
            used.append(np.ascontiguousarray(words))
            sources[place] = address(used[-1])
    if times is None:
        sources[:MASK] = -1
    place_columns(sources, rows)
    for number, array in enumerate(arrays):
        if array.null_count:
            nulls = array.slice(first, len(rows)).is_null()
            set_nulls(rows, number, nulls.to_numpy(zero_copy_only=False))


def are_words(found: pa.DataType, declared: pa.DataType) -> bool:
    """Whether a column lies in memory as rows have it, but for NULL."""
    return bool(found == declared and declared in _AS_WORDS)


def _lies_as_words(array: pa.Array, type_: pa.DataType) -> bool:
    return bool(are_words(array.type, type_) and len(array) and not array.null_count)


def declare_foreign(arrays: Iterable[pa.Array]) -> None:
    """Say that kernels may read the buffers of Arrow arrays, where somebody checks it."""
    if COMPILED:
        return
    for array in arrays:
        for buffer in array.buffers():
            if buffer is not None:
                belongs_to_others(buffer.address, buffer.size)


def _address(array: pa.Array) -> int:
    declare_foreign([array])
    return int(array.buffers()[1].address + 8 * array.offset)


def write_sources(rows: Rows, sources: Words, first: int) -> None:
    """Write events, from one on, into rows; `sources`: where the words of the first of all are."""
    place_columns(np.where(sources > 0, sources + 8 * first, 0), rows)


def column_to_arrow(
    rows: Rows, layout: Layout, name: str, type_: pa.DataType, values: Values
) -> pa.Array:
    column = layout.column(name)
    return array_of(rows[:, layout.base + column], nulls_of(rows, column), type_, values)


def moved(
    rows: Rows,
    source: Layout,
    target: Layout,
    columns: list[int],
    chosen: np.ndarray | None = None,
) -> Rows:
    """Rows of another layout whose column k is column columns[k] of the given ones; of all of them,
    or of those chosen."""
    if chosen is None:
        chosen = np.empty(0, np.int32)
    elif not len(chosen):
        return np.empty((0, target.width), np.int64)
    out = np.empty((len(chosen) or len(rows), target.width), np.int64)
    places = np.array([source.base, target.base, *columns], np.int64)
    move_columns(np.ascontiguousarray(rows), np.ascontiguousarray(chosen, np.int32), places, out)
    return out


def sorted_by_end(rows: Rows) -> Rows:
    """The rows in order of `end`; the same array if they are."""
    ends = rows[:, END]
    if len(ends) < 2 or bool((ends[1:] >= ends[:-1]).all()):
        return rows
    return rows[np.argsort(ends, kind="stable")]


def merged(parts: list[Rows]) -> Rows:
    """The rows of several batches in order of `end`."""
    filled = [p for p in parts if len(p)]
    if len(filled) == 1:
        return filled[0]
    return sorted_by_end(np.concatenate(filled or parts[:1]))
