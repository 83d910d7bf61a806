"""Windows and relations on Spark: streaming, batch and the reference semantics agree."""

from __future__ import annotations

from tests.spark.support import Market, agree

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


#: Told of the one query that joins the streams, once, whatever the shards see; the others hold, and
#: one of them says what another one says.
DECLARED = """
CREATE CONSTRAINT one ON Stock (Name) KEY;
CREATE CONSTRAINT lots ON Stock (Lot) ASCENDING WITHIN 1000 ROWS;
CREATE CONSTRAINT names ON Stock (Name) CLUSTERED WITHIN 800 ROWS;
CREATE CONSTRAINT again ON Stock (Name) CLUSTERED WITHIN 900 ROWS;
"""
TOLD = [
    ("told", "constraint 'one' (Stock (Name) key) does not hold"),
    (
        "told",
        "constraint 'names' (Stock (Name) clustered within 800 rows) is not used by this query",
    ),
]


def test_streaming_and_batch_equal_the_reference(market: Market) -> None:
    shown = agree(market, QUERIES, files=3, declared=DECLARED, told=TOLD)
    assert all(word in shown for word in ("keyed: ", "whole on shard"))
