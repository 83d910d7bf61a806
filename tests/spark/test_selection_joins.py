"""Selection joins on Spark: keyed on the attribute of the join, with groups over them as well."""

from __future__ import annotations

from tests.spark.support import Market, agree

_FROM = """FROM Stock [Range 8 seconds] AS S, News [Range 20 seconds] AS N
           WHERE S.Name = N.About AND S.Price BETWEEN {0} AND {1} AND S.Lot <= {2} AND N.Mood >= {3}"""
_RANGES = ((10, 90, 2, -2), (40, 95, 1, -1), (0, 60, 2, 0))
QUERIES = {
    f"told{number}": f"SELECT S.Name, S.Price, N.Mood {_FROM.format(*ranges)}"
    for number, ranges in enumerate(_RANGES)
} | {
    f"sums{number}": f"SELECT S.Name, count(*) AS n, sum(S.Lot) AS lots {_FROM.format(*ranges)}"
    " GROUP BY S.Name"
    for number, ranges in enumerate(_RANGES)
}


def test_streaming_and_batch_equal_the_reference(market: Market) -> None:
    shown = agree(market, QUERIES, files=2)
    assert "keyed: " in shown
    assert "whole on shard" not in shown
