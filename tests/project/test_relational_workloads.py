"""The relational workloads of the benchmarks: drawn data, and answers worked out a second way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import double_top, relations, rumor
from benchmarks.double_top import ANSWERS, RISE, Closings

#: The prices of tests/scenarios/double_top.test: extrema three quotes apart, then two.
FAR = (12, 10, 11, 12, 13, 12, 11, 10.2, 11, 12, 12.8, 12, 11, 9.5, 9.8)
NEAR = (12, 10, 11, 13, 11, 10.2, 12, 12.8, 11, 9.5, 9.8)


def closings(*prices: float) -> Closings:
    days = np.arange(1, len(prices) + 1)
    return Closings(days, pa.array(["IBM"] * len(prices)), np.array(prices, np.float64))


@pytest.mark.parametrize(
    ("formulation", "prices", "found"),
    [
        ("iteration", FAR, [("IBM", 9.5, 1, 14)]),
        ("resubscription", FAR, [("IBM", 9.5, 1, 15)]),
        ("cql1", FAR, [("IBM", 9.5, 15, 15)]),
        ("iteration", NEAR, [("IBM", 9.5, 1, 10)]),
        ("resubscription", NEAR, []),
        ("cql2", NEAR, [("IBM", 9.5, 11, 11)]),
    ],
)
def test_double_top_is_that_of_the_scenarios(
    formulation: str, prices: tuple[float, ...], found: list[tuple[str, float, int, int]]
) -> None:
    assert list(ANSWERS[formulation](closings(*prices), RISE)) == found


def test_closings_are_drawn_where_there_are_no_real_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BRAID_DATA", str(tmp_path))
    drawn = double_top.closings(20, 300, seed=1)
    assert len(drawn) == 20 * 300
    assert sum(table.num_rows for table in drawn.batches(70, "cql1")) == len(drawn)
    for answer in ANSWERS.values():
        assert list(answer(drawn, 1.02))


def test_smoothing_averages_the_last_quotes() -> None:
    assert closings(1, 2, 6, 4).smoothed(3).price.tolist() == [1, 1.5, 3, 4]


def test_sums_of_a_sliding_window() -> None:
    """Two readings with a window of 3: both are there at 4, the first is gone at 5."""
    seen = relations.Readings(
        *(np.array(column) for column in ([9, 8, 8, 9], [1] * 4, [2] * 4, [5, 7, 7, 6]))
    )
    wanted = relations.Sums(*(np.array([value]) for value in (9, 3, 0)))
    assert relations.expected_sums(wanted, seen, 100).tolist() == [
        [0, 0, 0, 1, 5, 1],
        [0, 3, 3, 1, 11, 2],
        [0, 4, 4, 1, 6, 1],
    ]


def test_pairs_within_the_window_of_the_earlier_row() -> None:
    seen = relations.Sided(k=np.array([1, 1, 1, 1]), x=np.array([5, 6, 50, 6]))
    wanted = relations.Joins(low=np.array([[0], [0]]), window=np.array([[1], [9]]))
    assert relations.expected_pairs(wanted, seen, 4).tolist() == [[0, 1, 1, 0, 1]]
    wanted = relations.Joins(low=np.array([[0], [0]]), window=np.array([[3], [9]]))
    assert relations.expected_pairs(wanted, seen, 4).tolist() == [[0, 1, 1, 0, 1], [0, 3, 3, 0, 3]]


def test_larger_sets_begin_like_smaller_ones() -> None:
    for drawn in (relations.sums, relations.joins):
        few, many = list(drawn(20, 1).queries()), list(drawn(12_000, 1).queries())
        assert few == many[:20]


def test_loads_are_smoothed_over_a_minute() -> None:
    seen = rumor.loads(70 * rumor.PROCESSES, seed=1)
    mine = seen.load[5 :: rumor.PROCESSES]
    smoothed = seen.smoothed()[5 :: rumor.PROCESSES]
    assert smoothed[0] == mine[0]
    assert smoothed[69] == mine[10:70].sum() / 60
