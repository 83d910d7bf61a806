"""Selection joins on Spark: keyed on the attribute of the join, with groups over them as well."""

from __future__ import annotations

from pathlib import Path

from braid.spark import MemorySink
from tests.spark.support import Market, matched, news_rows, stock_rows

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
BOTH = ("Stock", "News")


def test_streaming_and_batch_equal_the_reference(market: Market, tmp_path: Path) -> None:
    for i in range(2):
        market.write("Stock", stock_rows(60, 30 * i, seed=i), f"{i}")
    market.write("News", news_rows(20, 0, seed=9), "0")
    batch = market.session(QUERIES, streaming=False, streams=BOTH)
    shown = batch.explain()
    assert "keyed: " in shown
    assert "whole on shard" not in shown
    queries = batch.queries
    everything = market.expected(queries, BOTH)
    assert {key[0] for key in everything} == set(QUERIES)
    assert matched(batch.matches().collect(), queries) == everything

    streaming = market.session(QUERIES, streams=BOTH)
    sinks = {"matches": MemorySink()}
    running = streaming.start(sinks, checkpoint=tmp_path / "c", trigger="available now")
    assert running.await_termination(300)
    bound = market.watermark(BOTH)
    assert matched(sinks["matches"].rows, queries) == market.expected(queries, BOTH, bound)
