"""Frames of the arrays that kernels over documents look at."""

import numpy as np
import pytest

from braid.operators.documents.kernels import frame as frames


def test_each_array_has_its_two_words() -> None:
    matching = (frames.Nodes, frames.Paths, frames.Scratch, frames.Witnesses)
    assert 2 * sum(len(record._fields) for record in matching) == frames.FOUND_COUNTS + 2
    joining = (
        frames.State, frames.Queries, frames.Ways, frames.Work, frames.Found, frames.Sorted,
    )  # fmt: skip
    assert 2 * sum(len(record._fields) for record in joining) == frames.STRINGS


def test_a_frame_has_addresses_and_numbers_of_rows() -> None:
    words, rows = np.zeros(3, np.int64), np.zeros((5, 2), np.int32)
    frame = frames.frame_of(words, rows, first=4)
    assert frame.tolist() == [0] * 4 + [words.ctypes.data, 3, rows.ctypes.data, 5]


def test_what_does_not_lie_in_a_row_has_no_address() -> None:
    with pytest.raises(AssertionError):
        frames.frame_of(np.zeros((4, 4), np.int64)[:, 1])
