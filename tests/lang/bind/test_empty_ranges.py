"""Rows of prepared selection joins whose ranges nothing can be in."""

from __future__ import annotations

import pytest

from braid.lang import prepare
from tests.lang.support import catalog

TEXT = (
    "CREATE QUERY q FOR EACH (low DOUBLE, high DOUBLE, least BIGINT) AS"
    " Select A.Price From Stock [Range 5 s] A, Stock [Range 5 s] B"
    " Where A.Name = B.Name And {0} And B.Volume > :least And B.Price < 10"
)


@pytest.mark.parametrize(
    ("test", "refused"),
    [
        ("A.Price Between :low And :high", [1]),
        ("A.Price >= :low And A.Price < :high", [1, 2]),
        ("A.Price > :low And A.Price <= :high", [1, 2]),
        ("A.Price > :high And A.Price = :low", [0, 2]),
        ("A.Price < 2 And A.Price > :low And B.Price <> :high", [1, 2]),
    ],
)
def test_empty_and_inverted_ranges_are_refused(test: str, refused: list[int]) -> None:
    rows = {"low": [1.0, 5.0, 3.0], "high": [4.0, 2.0, 3.0], "least": [1, 1, 1]}
    prepared = prepare(TEXT.format(test), rows, catalog())
    assert [(r.row, r.code) for r in prepared.refused] == [(row, "E210") for row in refused]
    assert "the range of 'Price' is empty" in prepared.refused[0].render()
    kept = [f"q/{row}" for row in range(3) if row not in refused]
    assert prepared.members.ids.to_pylist() == kept


def test_ranges_of_other_queries_are_not_looked_at() -> None:
    """A selection with an empty range is a query without results, as in SQL."""
    text = (
        "CREATE QUERY s FOR EACH (low DOUBLE, high DOUBLE) AS"
        " Select Price From Stock [Now] Where Price Between :low And :high"
    )
    assert not prepare(text, {"low": [5.0], "high": [2.0]}, catalog()).refused
