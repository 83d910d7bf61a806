"""Rows from columns and back, and rows that get other columns: words, and which of them are NULL."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from braid.algebra.schema import Schema
from braid.operators.core.columns import moved, nulls_of, write_columns
from braid.operators.core.result_tables import ResultForm
from braid.operators.core.values import Values
from braid.plan.layout import Layout


@pytest.mark.parametrize("columns", [3, 70])
def test_columns_move_with_their_nulls(columns: int) -> None:
    """Also from one mask word to another, and of some rows only."""
    random = np.random.default_rng(columns)
    source = Layout(tuple(f"c{k}" for k in range(columns)))
    target = Layout(tuple(reversed(source.names[1:])))
    rows = random.integers(-(2**62), 2**62, (20, source.width))
    rows[::3, 2 : source.base] = 0
    own = [source.column(name) for name in target.names]
    some = np.array([0, 1, 4, 19], np.int32)
    for chosen, wanted in ((None, rows), (some, rows[some]), (some[:0], rows[:0])):
        found = moved(rows, source, target, own, chosen)
        assert found.shape == (len(wanted), target.width)
        assert (found[:, :2] == wanted[:, :2]).all()
        for k, column in enumerate(own):
            assert (found[:, target.base + k] == wanted[:, source.base + column]).all()
            null = (wanted[:, 2 + column // 64] >> (column % 64)) & 1
            told = nulls_of(found, k)
            assert (null == (0 if told is None else told)).all()


@pytest.mark.parametrize("count", [0, 1, 8, 21])
def test_columns_become_rows_and_rows_columns(count: int) -> None:
    """Of events from one on, whatever lies before them and wherever the columns begin."""
    texts = ["a", None, "b"]
    whole = pa.record_batch(
        {
            "n": pa.array(range(100), pa.int64()),
            "x": pa.array([k / 3 for k in range(100)], pa.float64()),
            "hole": pa.array([None if k % 4 else k for k in range(100)], pa.int64()),
            "text": pa.array([texts[k % 3] for k in range(100)], pa.string()),
            "small": pa.array([k % 7 for k in range(100)], pa.int16()),
        }
    ).slice(10)
    schema, values = Schema.of((f.name, f.type) for f in whole.schema), Values()
    layout, first = Layout(schema.names), 5
    times = pa.array(range(50, 150), pa.int64()).slice(10)
    rows = np.full((count, layout.width), -7, np.int64)
    write_columns(rows, whole, layout, schema, values, (times, times), first)
    found = ResultForm(layout, schema, pa.int64()).table(rows, values)
    wanted = whole.slice(first, count)
    assert found.drop_columns(["start", "end"]).to_pydict() == wanted.to_pydict()
    assert found.schema.types[2:] == whole.schema.types
    assert found.column("end").to_pylist() == list(range(65, 65 + count))
