"""Queries over documents on Spark: they meet on one shard, and what is broken is rejected."""

from __future__ import annotations

from pyspark.sql import SparkSession

from braid.spark import Session

STREAM = "CREATE STREAM S (id STRING, doc XML, t BIGINT) TIME t;"
QUERY = (
    "S//book->x1[./author->x2][./title->x3] FOLLOWED BY{x2=x5 AND x3=x6, 10} "
    "S//blog->x4[./author->x5][./title->x6]"
)
BODY = "<author>Ayers</author><title>RSS</title>"


def test_documents_are_joined_and_broken_ones_rejected(spark: SparkSession) -> None:
    session = Session(spark, shards=2)
    session.execute(STREAM)
    rows = [
        ("d1", f"<book>{BODY}</book>", 1),
        ("d2", "<book>", 2),
        ("d3", f"<blog>{BODY}</blog>", 5),
        ("d4", f"<blog>{BODY}</blog>", 12),
    ]
    session.stream("S", spark.createDataFrame(rows, "id string, doc string, t bigint"))
    session.query("q", QUERY)
    session.query(
        "p",
        "CREATE QUERY p FOR EACH (name STRING) AS SELECT x FROM S//:name->x",
        spark.createDataFrame([("author",), ("nobody",)], "name string"),
    )
    assert "documents are joined by what lies inside them" in session.explain()
    found = session.matches().collect()
    pairs = [row["payload"].toPython() for row in found if row["query"] == "q"]
    assert [(p["document_1"], p["document_2"]) for p in pairs] == [("d1", "d3")]
    assert pairs[0]["result"] == f"<result><book>{BODY}</book><blog>{BODY}</blog></result>"
    assert sorted(row["query"] for row in found if row["query"] != "q") == ["p/0"] * 3
    (rejected,) = session.rejected().collect()
    assert "not well-formed" in rejected["reason"]
