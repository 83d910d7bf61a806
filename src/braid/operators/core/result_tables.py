"""Results as a user gets them: a table of start, end, and the attributes of a schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from braid.algebra.schema import Schema, shown_names
from braid.operators.core.columns import Rows, are_words, array_of, moved, nulls_of
from braid.operators.core.kernels.rows import take_columns
from braid.operators.core.values import Values
from braid.plan.layout import END, MASK, START, Layout

_TICKS = pa.int64()


class _Shown(NamedTuple):
    """One attribute: the word of rows that it is, its number among columns, its type, and whether it
    is read as it lies unless it is NULL somewhere."""

    word: int
    column: int
    type: pa.DataType
    lies: bool


class ResultForm:
    """How rows of a layout are shown. What is known of its columns before there are rows is found out
    once: tables are many, and often small."""

    def __init__(
        self,
        layout: Layout,
        schema: Schema,
        time_type: pa.DataType,
        columns: Sequence[str] | None = None,
    ) -> None:
        """`columns`: the column of the layout that each attribute shows (default: that of its name)."""
        self.layout = layout
        shown = tuple(columns or schema.names)
        #: Which columns are moved together before they are shown; None if rows have no others.
        self._moved = None if shown == layout.names else list(map(layout.column, shown))
        self._rows = layout if self._moved is None else Layout(schema.names)
        self._time_type = time_type
        self._names = list(shown_names(schema.names))
        self._shown = [
            _Shown(self._rows.base + k, k, a.type, are_words(a.type, a.type))
            for k, a in enumerate(schema)
        ]

    def table(self, rows: Rows, values: Values) -> pa.Table:
        count = len(rows)
        if self._moved is not None:
            rows = moved(rows, self.layout, self._rows, self._moved)
        columns = np.empty((self._rows.width, count), np.int64)
        take_columns(np.ascontiguousarray(rows), columns)
        masked = bool(columns[MASK : self._rows.base].any())
        buffers, lying = [None, pa.py_buffer(columns)], pa.Array.from_buffers
        arrays = [lying(_TICKS, count, buffers, 0, count * word) for word in (START, END)]
        if self._time_type != _TICKS:
            arrays = [array.cast(self._time_type) for array in arrays]
        for word, column, type_, lies in self._shown:
            nulls = nulls_of(rows, column) if masked else None
            if lies and nulls is None:
                arrays.append(lying(type_, count, buffers, 0, count * word))
            else:
                arrays.append(array_of(columns[word], nulls, type_, values))
        return pa.Table.from_arrays(arrays, self._names)
