"""The batch answer of CQL over static DataFrames is that of Spark SQL, where Spark can express it.

Spark has no relations that change with time, but it can say what is in one at given instants: a stream of
ticks asks for that in Braid, and in Spark it is a join on the time of the tick, or a window of fixed length.
Ticks come a microsecond before a window ends, since Spark's windows are without their end.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from braid import Session
from tests.spark.support import BEGIN, SECOND

TIMESTAMP = pa.timestamp("us", "UTC")
STOCK = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("lot", pa.int32()),
        ("price", pa.float64()),
        ("ts", TIMESTAMP),
    ]
)
NEWS = pa.schema(
    [("id", pa.int64()), ("about", pa.string()), ("mood", pa.int64()), ("ts", TIMESTAMP)]
)
TICK = pa.schema([("no", pa.int64()), ("ts", TIMESTAMP)])

#: By name: the CQL, and what Spark SQL says; results are compared as multisets of rows.
QUESTIONS = {
    "near": (
        """Select S.id As one, N.id As two, S.price
           From stock [Range 5 seconds] As S, news [Range 20 seconds] As N
           Where S.name = N.about And S.price > 20""",
        """SELECT S.id AS one, N.id AS two, S.price FROM stock S JOIN news N
           ON S.name = N.about AND S.price > 20
           AND N.ts BETWEEN S.ts - INTERVAL 20 SECONDS AND S.ts + INTERVAL 5 SECONDS""",
    ),
    "three_ways": (
        """Select S.id As one, N.id As two, M.id As three
           From stock [Range 4 seconds] As S, news [Range 4 seconds] As N, stock [Range 4 seconds] As M
           Where S.name = N.about And N.about = M.name And S.lot = M.lot And S.id < M.id""",
        """SELECT S.id AS one, N.id AS two, M.id AS three FROM stock S
           JOIN news N ON S.name = N.about
           JOIN stock M ON N.about = M.name AND S.lot = M.lot AND S.id < M.id
           WHERE greatest(S.ts, N.ts, M.ts) - least(S.ts, N.ts, M.ts) <= INTERVAL 4 SECONDS""",
    ),
    "tumbling": (
        """Rstream (Select T.no, A.*
                    From tick [Now] As T,
                         (Select name, count(*) As n, count(price) As prices, sum(price) As total,
                                 avg(price) As mean, min(price) As low, max(lot) As lots,
                                 count(distinct lot) As different
                          From stock [Range 9999999 us] Group By name) As A
                    Where T.no % 5 = 0)""",
        """SELECT (unix_micros(window(ts, '10 seconds').end) - {begin}) div 2000000 AS no, name,
                  count(*) AS n, count(price) AS prices, sum(price) AS total,
                  avg(price) AS mean, min(price) AS low, max(lot) AS lots,
                  count(distinct lot) AS different
           FROM stock GROUP BY window(ts, '10 seconds'), name""",
    ),
    "sliding": (
        """Rstream (Select T.no, A.*
                    From tick [Now] As T,
                         (Select name, lot, sum(price) As total, count(*) As n
                          From stock [Range 9999999 us] Where price > 10
                          Group By name, lot Having count(*) > 1) As A)""",
        """SELECT (unix_micros(window(ts, '10 seconds', '2 seconds').end) - {begin}) div 2000000 AS no,
                  name, lot, sum(price) AS total, count(*) AS n
           FROM stock WHERE price > 10
           GROUP BY window(ts, '10 seconds', '2 seconds'), name, lot HAVING count(*) > 1""",
    ),
    "so_far": (
        """Rstream (Select T.no, A.*
                    From tick [Now] As T,
                         (Select lot, max(price) As high, count(distinct name) As names
                          From stock Group By lot) As A)""",
        """SELECT no, lot, max(price) AS high, count(distinct name) AS names
           FROM stock S JOIN tick T ON S.ts <= T.ts GROUP BY no, lot""",
    ),
    "different": (
        """Rstream (Select T.no, D.* From tick [Now] As T,
                           (Select Distinct name, lot From stock [Range 3 seconds]) As D)""",
        """SELECT DISTINCT no, name, lot FROM stock S
           JOIN tick T ON S.ts BETWEEN T.ts - INTERVAL 3 SECONDS AND T.ts""",
    ),
    "first_of_each": (
        "Istream (Select Distinct name, lot From stock)",
        "SELECT DISTINCT name, lot FROM stock",
    ),
    "last_of_each": (
        """Rstream (Select T.no, L.id, L.name
                    From tick [Now] As T, stock [Partition By name Rows 2] As L)""",
        """SELECT no, id, name FROM
             (SELECT T.no, S.id, S.name,
                     row_number() OVER (PARTITION BY T.no, S.name ORDER BY S.ts DESC, S.id DESC) AS nth
              FROM stock S JOIN tick T ON S.ts <= T.ts)
           WHERE nth <= 2""",
    ),
    "joined_groups": (
        """Rstream (Select T.no, S.name, S.n, N.mood
                    From tick [Now] As T,
                         (Select name, count(*) As n From stock [Range 6 seconds] Group By name) As S,
                         (Select about, max(mood) As mood From news [Range 30 seconds] Group By about) As N
                    Where S.name = N.about)""",
        """SELECT S.no, name, n, mood FROM
             (SELECT no, name, count(*) AS n FROM stock S
              JOIN tick T ON S.ts BETWEEN T.ts - INTERVAL 6 SECONDS AND T.ts GROUP BY no, name) S
             JOIN
             (SELECT no, about, max(mood) AS mood FROM news N
              JOIN tick T ON N.ts BETWEEN T.ts - INTERVAL 30 SECONDS AND T.ts GROUP BY no, about) N
             ON S.no = N.no AND S.name = N.about""",
    ),
}


def tables() -> dict[str, pa.Table]:
    """Quotes out of order and some at one time, with NULLs and a NaN; a tick every two seconds."""
    draw = random.Random(4)
    names = ["ACME", "Bolt", "Cog", None]
    prices = [float(draw.randrange(60)) for _ in range(160)]
    stock = [
        {
            "id": number,
            "name": draw.choice(names),
            "lot": draw.choice([1, 2, 3, None]),
            "price": draw.choice([price, price, price, None]),
            "ts": BEGIN + (number // 4 + draw.randrange(5)) * SECOND // 2,
        }
        for number, price in enumerate(prices)
    ]
    stock[70]["price"] = float("nan")
    news = [
        {
            "id": number,
            "about": draw.choice(names),
            "mood": draw.randrange(5),
            "ts": BEGIN + draw.randrange(25_000) * 1_000,
        }
        for number in range(30)
    ]
    last = max(row["ts"] for row in stock) - BEGIN
    ends = range(1, last // (2 * SECOND) + 7)
    ticks = [{"no": no, "ts": BEGIN + 2 * SECOND * no - 1} for no in ends]
    made = {"stock": (stock, STOCK), "news": (news, NEWS), "tick": (ticks, TICK)}
    return {
        name: pa.Table.from_pylist(rows, schema=schema) for name, (rows, schema) in made.items()
    }


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[Session]:
    made = Session(spark, shards=2)
    for name, table in tables().items():
        frame = spark.createDataFrame(table)
        frame.createOrReplaceTempView(name)
        made.stream(name, frame, time="ts")
    for name, (text, _) in QUESTIONS.items():
        made.query(name, f"{text} PUBLISH {name}")
    yield made
    for name in tables():
        spark.catalog.dropTempView(name)


def multiset(frame: DataFrame, columns: list[str]) -> Counter[Any]:
    """Rows by their texts: NaN is equal to itself there."""
    rows = frame.select(*columns).collect()
    return Counter(tuple(map(repr, row)) for row in rows)


@pytest.mark.parametrize("name", QUESTIONS)
def test_batch_answer_is_that_of_spark_sql(
    name: str, session: Session, spark: SparkSession
) -> None:
    wanted = spark.sql(QUESTIONS[name][1].format(begin=BEGIN))
    found = multiset(session.output(name), wanted.columns)
    assert found == multiset(wanted, wanted.columns)
    assert found
