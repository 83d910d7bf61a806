"""What an output node of a selection join asks of an event."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.jit.records import Words
from braid.operators.selection_join.kernels.boxes import first_above


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.integers(-40, 40), max_size=120),
    key=st.integers(-45, 45),
    edges=st.tuples(st.integers(0, 120), st.integers(0, 120), st.integers(0, 120)),
)
def test_an_end_is_found_from_any_guess(
    values: list[int], key: int, edges: tuple[int, int, int]
) -> None:
    ends = np.sort(np.array(values, np.int64))
    begin, guess, end = sorted(min(edge, len(ends)) for edge in edges)
    found = first_above(Words.at(ends), begin, end, guess, key)
    assert found == begin + np.searchsorted(ends[begin:end], key, side="right")
