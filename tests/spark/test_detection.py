"""Detections on Spark: on one shard, or divided by their key; the reference says the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal

from pyspark.sql import Row

from braid.algebra.queries import Query
from tests.spark.support import Market, Result, agree, matched

QUERIES = {
    "told": """DETECT Told FROM Stock [Rows 20] AS S, News [Range 20 seconds] AS N
               WHERE S.Name = N.About AND S.Price > 40 BATCH 5 WITHIN 10 seconds BUCKETS 3""",
    "sure": """DETECT Sure FROM Stock [Range 8 seconds] AS S, News [Range 20 seconds] AS N, Stock [Rows 9] AS T
               WHERE S.Name = N.About AND S.Lot = T.Lot BITMAPS VERIFY ALWAYS""",
    "by_name": """DETECT ByName FROM Stock [Rows 3] AS S, News [Range 20 seconds] AS N
                  WHERE S.Name = N.About BATCH 2 WITHIN 10 seconds PARTITION BY About""",
    "again": "SELECT input FROM Told NEXT{$2.input = $1.input AND DUR <= 30 s} Told",
}


def answers(rows: Iterable[Row], queries: Sequence[Query]) -> Counter[Result]:
    """The rows of `matches`, in which a fraction is a decimal."""
    found: Counter[Result] = Counter()
    for (*key, values), count in matched(rows, queries).items():
        floats = tuple(float(v) if isinstance(v, Decimal) else v for v in values)
        query, stream, start, end = key
        found[query, stream, start, end, floats] += count
    return found


def test_streaming_and_batch_equal_the_reference(market: Market) -> None:
    shown = agree(market, QUERIES, files=2, read=answers)
    assert "DETECT without PARTITION BY cuts batches of all events of an input" in shown
    assert "keyed: Stock by Name, News by About" in shown
