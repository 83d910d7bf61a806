"""Windows and relations on Spark: streaming, batch and the reference semantics agree."""

from __future__ import annotations

from pathlib import Path

from braid.spark import MemorySink
from tests.spark.support import Market, matched, news_rows, stock_rows

#: Keyed by the name, whole, and a pattern over what a relation puts out.
QUERIES = {
    "sums": """SELECT Name, sum(Price) AS total, max(Price) AS top, count(*) AS n FROM Stock [Range 10 seconds]
                  GROUP BY Name PUBLISH Sums""",
    "told": """SELECT Istream(S.Name, S.Price, N.Mood)
               FROM Stock [Range 5 seconds] AS S, News [Range 20 seconds] AS N
               WHERE S.Name = N.About AND S.Price > 40""",
    "last": "SELECT Dstream(Lot, Price) FROM Stock [Rows 3]",
    "rising": """SELECT Name, total_1 AS low, total AS high
                 FROM Sums NEXT{$2.Name = $1.Name AND $2.total > $1.total AND DUR <= 1min} Sums""",
}
BOTH = ("Stock", "News")


def test_streaming_and_batch_equal_the_reference(market: Market, tmp_path: Path) -> None:
    for i in range(3):
        market.write("Stock", stock_rows(60, 30 * i, seed=i), f"{i}")
    market.write("News", news_rows(20, 0, seed=9), "0")
    batch = market.session(QUERIES, streaming=False, streams=BOTH)
    assert all(word in batch.explain() for word in ("keyed: ", "whole on shard"))
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
