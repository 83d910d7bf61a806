"""Texts that are read as documents and are none: nobody loses them without a word."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import braid
from braid.documents import reader as document_reader
from braid.documents.reader import DocumentReader
from braid.engine.io.ingest import Ingest

STREAM = "CREATE STREAM S (text STRING, ts BIGINT) TIME ts;"
DEEP = "<a>" * 201 + "</a>" * 201


def engine_of(**queries: str) -> braid.Engine:
    engine = braid.Engine(idle_timeout=None)
    engine.execute(STREAM)
    for name, text in queries.items():
        engine.query(name, text)
    return engine


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<p>A & B</p>", "not well-formed"),
        ("<p>1</p><p>2</p>", "not well-formed"),
        ("<p>\x01</p>", "not well-formed"),
        ("<p>", "not well-formed"),
        ("no document", "not well-formed"),
        ("", "not well-formed"),
        ('{"p": ', "not well-formed"),
        ('{"p": NaN}', "is no JSON"),
        ('{"p": 1e999}', "places"),
        ('{"p": "\\ud800"}', "surrogate"),
        (DEEP, "deeper than 200 levels"),
        ("[" * 300 + "]" * 300, "deeper than 200 levels"),
        ('<!DOCTYPE p [<!ENTITY e "x">]><p>&e;</p>', "declares entities"),
    ],
)
def test_a_published_text_that_is_no_document_is_rejected(text: str, reason: str) -> None:
    engine = engine_of(p="SELECT text AS doc FROM S PUBLISH P", z="SELECT z FROM P//p->z")
    engine.process({"S": {"text": [text, "<p>1</p>", None], "ts": [3, 4, 5]}})
    (row,) = engine.rejected.to_pylist()
    assert row["stream"] == "P"
    assert reason in row["reason"]
    assert json.loads(row["row"]) == {"start": 3, "end": 3, "doc": text}
    (notice,) = engine.notices
    assert (notice.code, notice.query) == ("W209", "p")
    assert "texts in P.doc are not documents: the first because" in notice.message
    assert engine.totals["rejected"] == 1
    assert reason in notice.message
    assert "z did not see them" in notice.message
    assert "xml_escape" in notice.message
    assert engine.results["z", None].column("z").to_pylist() == ["1"]


def test_a_text_is_rejected_once_and_counted_over_batches() -> None:
    """However many queries, and m-ops, read the stream."""
    engine = engine_of(
        p="SELECT text AS doc FROM S PUBLISH P",
        q="SELECT text AS doc FROM FILTER{text <> '<b>'}(S) PUBLISH Q",
        z="P//p->z",
        y="SELECT y FROM P//p->x FOLLOWED BY{x = y, 5} P//p->y",
        two="SELECT y FROM P//p->x FOLLOWED BY{x = y, 5} Q//p->y",
    )
    seen: list[tuple[str, str]] = []
    for time, texts in enumerate([["<a>"], ["<b>", "<b>"], ["<p>1</p>"], []]):
        engine.process({"S": {"text": texts, "ts": [time] * len(texts)}} if texts else {})
        seen += [(r["stream"], json.loads(r["row"])["doc"]) for r in engine.rejected.to_pylist()]
    engine.finish()
    assert sorted(seen) == [("P", "<a>"), ("P", "<b>"), ("P", "<b>"), ("Q", "<a>")]
    assert sorted(n.query for n in engine.notices) == ["p", "q"]
    assert engine.totals["rejected"] == 4


def test_a_restart_rejects_nothing_again() -> None:
    queries = {
        "p": "SELECT text AS doc FROM S PUBLISH P",
        "y": "SELECT z FROM P//p->x FOLLOWED BY{x = y, 50} P//p->y FOLLOWED BY{y = z, 50} P//p->z",
    }
    engine = engine_of(**queries)
    engine.process({"S": {"text": ["<a>", "<p>1</p>", "<p>1</p>"], "ts": [1, 2, 3]}})
    assert engine.rejected.num_rows == 1
    engine = braid.Engine.restore(engine.snapshot())
    engine.process({"S": {"text": ["<p>1</p>", "<c/>"], "ts": [4, 5]}})
    assert engine.rejected.num_rows == 0
    assert engine.results["y", None].num_rows == 1


def test_a_declared_column_of_plain_text() -> None:
    engine = engine_of(z="S//p->z", other="SELECT text FROM S")
    engine.process({"S": {"text": ["A & B", "<p>1</p>"], "ts": [1, 2]}})
    assert engine.rejected.column("stream").to_pylist() == ["S"]
    (notice,) = engine.notices
    assert (notice.code, notice.query) == ("W209", "z")
    assert "declare the column as XML or JSON" in notice.message
    assert engine.results["other", None].num_rows == 1  # the row itself is let in


def test_times_are_shown_as_times() -> None:
    engine = braid.Engine(idle_timeout=None)
    engine.execute("CREATE STREAM S (text STRING, ts TIMESTAMP) TIME ts;")
    engine.query("z", "S//p->z")
    times = pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    engine.process({"S": {"text": ["<p>"], "ts": times}})
    engine.finish()
    (row,) = engine.rejected.column("row").to_pylist()
    assert json.loads(row)["end"].startswith("2023-11-14")


# ---- how often documents are parsed ----


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    counts = {"xml": 0, "json": 0}

    def counting(name: str, read: Callable[[str], Any]) -> Callable[[str], Any]:
        def parse(text: str) -> Any:
            counts[name] += 1
            return read(text)

        return parse

    xml = counting("xml", document_reader.read_xml)
    with patch.multiple(
        document_reader, read_xml=xml, read_json=counting("json", document_reader.read_json)
    ):
        yield counts


def documents_engine(kind: str = "XML") -> braid.Engine:
    engine = braid.Engine(idle_timeout=None)
    engine.execute(f"CREATE STREAM D (doc {kind}, ts BIGINT) TIME ts;")
    return engine


@pytest.mark.parametrize("count", [4_097, 20_000])
def test_a_document_is_parsed_once_on_its_way(count: int) -> None:
    """By ingest, for all queries that read it and show it; in however large a batch."""
    engine = documents_engine()
    engine.query("pairs", "SELECT x FROM D//a->x FOLLOWED BY{x = y, 1} D//b->y")
    engine.query("shown", "D/a->x[. = 'x7']")
    texts = [f"<a>x{n}</a>" for n in range(count)]
    with counted() as counts:
        engine.process({"D": {"doc": texts, "ts": list(range(count))}})
        engine.finish()
    assert counts == {"xml": count, "json": 0}


def test_json_documents_are_parsed_once_too() -> None:
    engine = documents_engine("JSON")
    engine.query("pairs", "SELECT x FROM D$.a->x FOLLOWED BY{x = y, 1} D$.b->y")
    with counted() as counts:
        engine.process({"D": {"doc": [f'{{"a": {n}}}' for n in range(5_000)], "ts": [1] * 5_000}})
        engine.finish()
    assert counts == {"xml": 0, "json": 5_000}


def test_what_is_kept_between_batches_is_bounded_by_its_size() -> None:
    """Documents that are used again and again stay; others are parsed again."""
    engine = documents_engine()
    engine.query("pairs", "D//a->x FOLLOWED BY{x = y, 100} D//b->y")
    with counted() as counts, patch.object(DocumentReader, "settle", DocumentReader.clear):
        for time in range(5):
            text = "<b>1</b>" if time else "<a>1</a>"
            engine.process({"D": {"doc": [text], "ts": [time]}})
    assert counts["xml"] > 5
    reader = DocumentReader(kept_size=100)
    with counted() as counts:
        for _ in range(3):
            for number in range(40):
                reader.read(f"<a>{number:02}</a>")
                reader.show("<b/>")
            reader.settle()
    assert counts["xml"] == 1 + 40 + 2 * 30  # the last ten of a batch, and <b/>, fit 100 characters
    with counted() as counts:
        reader.work_on("<b/>")
        reader.settle()  # of no more use
        reader.work_on("<b/>")
        reader.show("<b/>")
        reader.settle()
        reader.show("<b/>")
        reader.clear()
        reader.read("<b/>")
    assert counts["xml"] == 2


def test_ingest_leaves_what_it_has_parsed_to_its_reader() -> None:
    engine = documents_engine()
    stream = engine._catalog.streams["D"]
    reader = DocumentReader()
    with counted() as counts:
        table = pa.table({"doc": ["<a/>", "<b", "<c/>"], "ts": [1, 2, 3]})
        ingested = Ingest(stream)(table, reader)
        assert ingested.events.num_rows == 2
        for text in ("<a/>", "<c/>"):
            reader.read(text)
    assert counts["xml"] == 3


def test_documents_that_wait_for_their_time_do_not_pile_up() -> None:
    """What is parsed is bounded also while nothing can be worked on."""
    engine = braid.Engine(idle_timeout=None)
    engine.execute("CREATE STREAM D (doc XML, ts BIGINT) TIME ts LATENESS 1000;")
    engine.query("q", "D//a->x")
    reader = engine._running().documents
    with patch.object(reader, "_kept_size", 500):
        for time in range(100):
            engine.process({"D": {"doc": [f"<a>{time:03}</a>"], "ts": [time]}})
        assert len(reader._known) == 50
    engine.finish()
    assert engine.results["q", None].num_rows == 100
