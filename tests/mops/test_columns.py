"""Rows that get other columns: the words, and which of them are NULL."""

from __future__ import annotations

import numpy as np
import pytest

from braid.mops.columns import moved, nulls_of
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
