"""Queries over documents on Spark: divided by value where they can be, what is broken is rejected."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from braid.spark import MemorySink, Session

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
    assert "documents are joined by 2 values at once" in session.explain()
    found = session.matches().collect()
    pairs = [row["payload"].toPython() for row in found if row["query"] == "q"]
    assert [(p["document_1"], p["document_2"]) for p in pairs] == [("d1", "d3")]
    assert pairs[0]["result"] == f"<result><book>{BODY}</book><blog>{BODY}</blog></result>"
    assert sorted(row["query"] for row in found if row["query"] != "q") == ["p/0"] * 3
    (rejected,) = session.rejected().collect()
    assert "not well-formed" in rejected["reason"]


def test_documents_in_json(spark: SparkSession) -> None:
    """One stream of JSON and one of XML, joined by value."""
    session = Session(spark, shards=2)
    session.execute(
        "CREATE STREAM J (id STRING, doc JSON, t BIGINT) TIME t;"
        "CREATE STREAM S (id STRING, doc XML, t BIGINT) TIME t;"
    )
    columns = "id string, doc string, t bigint"
    json = [
        ("j1", '{"book": {"author": ["Ayers", "Watt"]}}', 1),
        ("j2", '{"book": ', 2),
        ("j3", '{"book": {"author": "Watt"}}', 9),
    ]
    xml = [("x1", "<blog><author>Watt</author></blog>", 5)]
    session.stream("J", spark.createDataFrame(json, columns))
    session.stream("S", spark.createDataFrame(xml, columns))
    session.query("q", "J$..author->x JOIN{x = y, 10} S//author->y")
    assert "keyed: J by the values of author in doc, S by" in session.explain()
    found = [row["payload"].toPython() for row in session.matches().collect()]
    pairs = sorted((f["document_1"], f["document_2"], f["x"]) for f in found)
    assert pairs == [("j1", "x1", "Watt"), ("j3", "x1", "Watt")]
    (rejected,) = session.rejected().collect()
    assert rejected["stream"] == "J"


def write(folder: Path, number: int) -> None:
    """A file with a document; a second apart, whatever the disk says."""
    names = [f"<author>{k}</author>" for k in range(number % 4, number % 4 + 2)]
    file = folder / f"{number}.xml"
    file.write_text(f"<book>{''.join(names)}</book>")
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def test_files_are_documents_and_state_survives_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Documents that came before the restart are joined with those after it, each pair once."""
    folder = tmp_path / "books"
    folder.mkdir()
    found: Counter[tuple[str, str, str]] = Counter()
    for first in (0, 8):
        for number in range(first, first + 8):
            write(folder, number)
        session = Session(spark, shards=3)
        session.execute("CREATE STREAM S (id STRING, doc XML, ts TIMESTAMP) TIME ts;")
        files = spark.readStream.format("binaryFile").schema(
            "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
        )
        columns = ("path AS id", "decode(content, 'UTF-8') AS doc", "modificationTime AS ts")
        session.stream("S", files.load(str(folder / "*.xml")).selectExpr(*columns))
        session.query(
            "q",
            "SELECT document_1, document_2, x "
            "FROM S//author->x FOLLOWED BY{x = y, 6 seconds} S//author->y",
        )
        assert "keyed: S by the values of author in doc" in session.explain()
        sink = MemorySink()
        running = session.start(
            {"matches": sink}, checkpoint=tmp_path / "checkpoint", trigger="available now"
        )
        assert running.await_termination(300)
        for row in sink.rows:
            result = row.payload.toPython()
            ends = [Path(result[f"document_{k}"]).stem for k in (1, 2)]
            found[ends[0], ends[1], result["x"]] += 1
    authors = {n: {str(n % 4), str(n % 4 + 1)} for n in range(16)}
    assert found == Counter(
        (str(a), str(b), x)
        for a in range(16)
        for b in range(a + 1, min(a + 7, 15))  # the last document waits for time to pass it
        for x in authors[a] & authors[b]
    )


def test_documents_that_queries_build_and_texts_that_are_none(spark: SparkSession) -> None:
    """What is published and no document is rejected; what an element builds always is one."""
    session = Session(spark, shards=2)
    session.execute(STREAM)
    rows = [
        ("d1", "<book><author>A &amp; B</author></book>", 1),
        ("d2", "<book><author>C</author></book>", 2),
        ("d3", "<blog><author>C</author></blog>", 3),
    ]
    session.stream("S", spark.createDataFrame(rows, "id string, doc string, t bigint"))
    session.query("p", "SELECT concat('<p>', x, '</p>') AS doc FROM S/book/author->x PUBLISH P")
    session.query("z", "SELECT z FROM P/p->z")
    session.query("y", "SELECT z FROM P/p->z FOLLOWED BY{z != y, 9} P/p->y")
    session.query("e", "SELECT <p k='{x}'>{x}</p> FROM S/book/author->x PUBLISH E")
    session.query("w", "SELECT v FROM E/p/author->v")
    session.query(
        "j", "SELECT <j>{x}{y}</j> FROM S/book/author->x FOLLOWED BY{x = y, 9} S/blog/author->y"
    )
    found = [(row["query"], row["payload"].toPython()) for row in session.matches().collect()]
    assert sorted(p["z"] for q, p in found if q == "z") == ["C"]
    assert sorted(p["v"] for q, p in found if q == "w") == ["A & B", "C"]
    assert [p["result"] for q, p in found if q == "j"] == [
        "<j><author>C</author><author>C</author></j>"
    ]
    rejected = [row.asDict() for row in session.rejected().collect()]
    assert [(r["stream"], r["row"]) for r in rejected] == [
        ("P", '{"start":1,"end":1,"doc":"<p>A & B</p>"}')
    ]
