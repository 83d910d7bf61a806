"""Queries over documents in the engine: the worked example, what is refused, what is shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import braid
from braid.documents import xml_table as document_table
from braid.operators.documents import batches as document_batches
from braid.operators.documents.logic import DocumentsLogic
from braid.operators.documents.store import DocumentStore

STREAMS = """
CREATE STREAM S (id STRING, doc XML, t BIGINT) TIME t;
CREATE STREAM T (doc XML, t BIGINT) TIME t;
"""
BOOK = (
    "<book><publisher>Wrox</publisher><author>Danny Ayers</author><author>Andrew Watt</author>"
    "<title>Beginning RSS and Atom Programming</title><category>Scripting &amp; Programming"
    "</category><category>Web Site Development</category></book>"
)
BLOG = (
    "<blog><url>http://dannyayers.com</url><author>Danny Ayers</author>"
    "<title>Beginning RSS and Atom Programming</title><category>Book Announcement</category>"
    "<category>Scripting &amp; Programming</category></blog>"
)
QUERIES = {
    "Q1": "S//book->x1[./author->x2][./title->x3] FOLLOWED BY{x2=x5 AND x3=x6, 10} "
    "S//blog->x4[./author->x5][./title->x6]",
    "Q2": "S//book->x1[./author->x2][./category->x7] FOLLOWED BY{x2=x5 AND x7=x8, 10} "
    "S//blog->x4[./author->x5][./category->x8]",
    "Q3": "S//blog->x4[./author->x5][./title->x6] FOLLOWED BY{x5=x5' AND x6=x6', 10} "
    "S//blog->x4'[./author->x5'][./title->x6']",
}


def engine(queries: Mapping[str, str], rules: Any = None) -> braid.Engine:
    made = braid.Engine(rules=rules)
    made.execute(STREAMS)
    for name, text in queries.items():
        made.query(name, text)
    return made


def documents(*given: tuple[str, int], stream: str = "S") -> dict[str, dict[str, list[Any]]]:
    columns: dict[str, list[Any]] = {"doc": [d for d, _ in given], "t": [t for _, t in given]}
    if stream == "S":
        columns["id"] = [f"d{t}" for _, t in given]
    return {stream: columns}


def results(running: braid.Engine, query: str) -> list[dict[str, Any]]:
    found = []
    for (name, _), table in running.results.items():
        if name == query:
            found += table.to_pylist()
    return found


def run(queries: Mapping[str, str], *given: tuple[str, int], rules: Any = None) -> braid.Engine:
    """Everything in one batch, and the end of the input: all results are of one call."""
    running = engine(queries, rules)
    last = max(t for _, t in given)
    running.process(documents(*given, (f"<end>{last}</end>", last + 1)))
    return running


def logic_of(running: braid.Engine) -> DocumentsLogic:
    logics = running._running().executor.logics.values()
    (found,) = [logic for logic in logics if isinstance(logic, DocumentsLogic)]
    return found


def store_of(running: braid.Engine) -> DocumentStore:
    return logic_of(running)._store


def test_the_worked_example() -> None:
    """Q1 and Q2 have one result each, with the same content; Q3 has none (6.4.4)."""
    running = run(QUERIES, (BOOK, 1), (BLOG, 5))
    first, second = results(running, "Q1"), results(running, "Q2")
    assert [r["result"] for r in first] == [f"<result>{BOOK}{BLOG}</result>"]
    assert [r["result"] for r in second] == [r["result"] for r in first]
    assert not results(running, "Q3")
    (row,) = first
    assert (row["start"], row["end"], row["document_1"], row["document_2"]) == (1, 5, "d1", "d5")
    assert row["x2"] == row["x5"] == "Danny Ayers"
    assert second[0]["x7"] == "Scripting & Programming"


def test_the_relations_of_table_6_4() -> None:
    running = run(QUERIES, (BOOK, 1), (BLOG, 5))
    store = store_of(running)
    strings = running._running().executor.context.values.strings
    witnesses: list[dict[int, str]] = []
    edges: list[set[tuple[int, int]]] = []
    for document in (0, 1):
        begin, end = store.documents[document : document + 2, 1].tolist()
        rows = store.rows[begin:end]
        texts = strings.array(np.ascontiguousarray(rows[:, 2]), None).to_pylist()
        witnesses.append(dict(zip(rows[:, 1].tolist(), texts, strict=True)))
        first, last = store.rows[begin, 3], store.rows[end, 3]
        places = store.place[first:last]
        edges.append({(int(store.chain[p + 1]), int(store.chain[p])) for p in places})
    assert witnesses[0] == {
        2: "Danny Ayers",
        3: "Andrew Watt",
        4: "Beginning RSS and Atom Programming",
        5: "Scripting & Programming",
        6: "Web Site Development",
    }
    assert edges[0] == {(0, 2), (0, 3), (0, 4), (0, 5), (0, 6)}
    assert witnesses[1] == {
        2: "Danny Ayers",
        3: "Beginning RSS and Atom Programming",
        4: "Book Announcement",
        5: "Scripting & Programming",
    }
    assert edges[1] == {(0, 2), (0, 3), (0, 4), (0, 5)}


def test_queries_of_one_template_are_one_conjunctive_query() -> None:
    found = logic_of(run(QUERIES, (BOOK, 1))).describe()
    assert (found["queries"], found["templates"]) == (3, 1)


def test_equal_queries_are_evaluated_once() -> None:
    same = {f"q{number}": QUERIES["Q1"] for number in range(5)}
    running = run(same, (BOOK, 1), (BLOG, 5))
    assert logic_of(running).describe()["queries"] == 1
    assert all(len(results(running, name)) == 1 for name in same)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<a><b></a>", "not well-formed"),
        ("", "not well-formed"),
        ("<a>" * 300 + "</a>" * 300, "deeper than"),
        ("<a>\0</a>", "not well-formed"),
        ("<x:a>1</x:a>", "prefix x on a is not defined"),
        ("<a>&other;</a>", "'other' not defined, line 1, column 11"),
        ('<!-- a --><!DOCTYPE a [<!ENTITY % x "y">]><a/>', "declares entities"),
        ("<a>" * 220 + "</a>" * 220, "deeper than"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "declares entities"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "declares entities"),
        ("<a>" + "x" * 5000 + "</a>", "larger than"),
    ],
)
def test_documents_that_are_not_let_in(text: str, reason: str) -> None:
    with patch.object(document_table, "LARGEST", 4000):
        running = engine({"q": "T//a->x"})
        running.process(documents((text, 1), ("<a>1</a>", 1), stream="T"))
    rejected = running.rejected.to_pylist()
    assert len(rejected) == 1
    assert reason in rejected[0]["reason"]


def test_an_external_doctype_is_not_fetched() -> None:
    text = '<!DOCTYPE a SYSTEM "http://localhost:1/x.dtd"><a>1</a>'
    running = run({"q": "S//a->x"}, (text, 1))
    assert [r["x"] for r in results(running, "q")] == ["1"]


def test_names_stand_for_elements_of_any_namespace() -> None:
    atom = '<f:feed xmlns:f="http://www.w3.org/2005/Atom"><f:title>A</f:title></f:feed>'
    plain = '<feed xmlns="urn:x"><title k="1">A</title></feed>'
    running = run({"q": "S/feed/title->x", "k": "S//@k->x"}, (atom, 1), (plain, 2))
    assert [r["x"] for r in results(running, "q")] == ["A", "A"]
    assert [r["result"] for r in results(running, "k")] == ["<k>1</k>"]


def test_what_a_document_says_of_its_encoding_is_over_when_it_is_a_text() -> None:
    text = '<?xml version="1.0" encoding="ISO-8859-1"?><a>Grüße ✓</a>'
    running = run({"q": "S/a->x"}, (text, 1))
    assert [r["x"] for r in results(running, "q")] == ["Grüße ✓"]


def test_documents_in_bytes_are_in_the_encoding_that_they_say() -> None:
    said = '<?xml version="1.0" encoding="{}"?><a>ü</a>'
    given = [
        said.format("ISO-8859-1").encode("latin-1"),
        said.format("utf-16").encode("utf-16"),
        "<a>ü</a>".encode("utf-16-le"),
        "<a>ü</a>".encode("utf-8-sig"),
        said.format("nothing").encode(),
        "<a>ü</a>".encode("latin-1"),
        None,
        b"<z/>",
    ]
    running = engine({"q": "SELECT x FROM T/a->x"})
    columns = {"doc": pa.array(given, pa.binary()), "t": list(range(len(given)))}
    running.process({"T": pa.table(columns)})
    assert [row["x"] for row in results(running, "q")] == ["ü"] * 4
    reasons = [row["reason"] for row in running.rejected.to_pylist()]
    assert ["unknown encoding: nothing" in reasons[0], "not in utf-8" in reasons[1]] == [True, True]


def test_what_only_looks_like_an_entity_is_let_in() -> None:
    hidden = "<!DOCTYPE a [<!ENTITY x 'y'>]>"
    running = run(
        {"q": "S/a->x"}, (f"<!--{hidden}--><a>1</a>", 1), (f"<a><![CDATA[{hidden}]]></a>", 2)
    )
    assert [r["x"] for r in results(running, "q")] == ["1", hidden]


def test_comments_and_instructions_are_no_part_of_a_value() -> None:
    running = run({"q": "S/a->x"}, ("<a>x<!-- no -->y<?p q?>z<b>!</b></a>", 1))
    assert [r["x"] for r in results(running, "q")] == ["xyz!"]


def test_numbers_and_dates_are_compared_as_such() -> None:
    queries = {
        "n": "S//p->x FOLLOWED BY{x < y, 10} S//p->y",
        "d": "S//d->x FOLLOWED BY{x < y, 10} S//d->y",
    }
    running = run(
        queries,
        ("<a><p>9</p><d>2024-02-01T10:00:00+02:00</d></a>", 1),
        ("<a><p>10</p><d>2024-02-01T09:30:00Z</d></a>", 2),
        ("<a><p>-1</p><d>2023-12-31</d></a>", 3),
    )
    assert [(r["x"], r["y"]) for r in results(running, "n")] == [("9", "10")]
    assert [(r["document_1"], r["document_2"]) for r in results(running, "d")] == [("d1", "d2")]


def test_join_pairs_near_documents_in_either_order_and_with_themselves() -> None:
    query = {"q": "S//a->x JOIN{x = y, 2} S//b->y"}
    running = run(
        query, ("<b>1</b>", 1), ("<a>1</a>", 3), ("<r><a>1</a><b>1</b></r>", 4), ("<b>1</b>", 9)
    )
    pairs = sorted((r["document_1"], r["document_2"]) for r in results(running, "q"))
    assert pairs == [("d3", "d1"), ("d3", "d4"), ("d4", "d4")]


def test_what_is_published_is_read_by_patterns_and_by_blocks() -> None:
    queries = {
        "pairs": "S//book->x1[./author->x2] FOLLOWED BY{x2=x5, 10} S//blog->x4[./author->x5] "
        "PUBLISH Pairs",
        "pattern": "SELECT document_2 FROM FILTER{x2 = 'Danny Ayers'}(Pairs)",
        "block": "Pairs/result/book/title->t",
    }
    running = run(queries, (BOOK, 1), (BLOG, 5))
    assert [r["document_2"] for r in results(running, "pattern")] == ["d5"]
    assert [r["t"] for r in results(running, "block")] == ["Beginning RSS and Atom Programming"]


def test_select_only_makes_what_is_asked() -> None:
    running = run({"q": "SELECT upper(t) AS t FROM S//title->t"}, (BLOG, 1))
    assert [r["t"] for r in results(running, "q")] == ["BEGINNING RSS AND ATOM PROGRAMMING"]


def test_documents_are_forgotten_when_every_window_is_over() -> None:
    running = engine({"q": "S//a->x FOLLOWED BY{x = y, 5} S//a->y"})
    for begin in range(0, 200, 10):
        running.process(documents(*((f"<a>{t}</a>", t) for t in range(begin, begin + 10))))
    assert store_of(running).count < 30


def test_the_view_cache_forgets_what_has_expired() -> None:
    """A value that comes back after its documents are gone finds no stale slice."""
    running = engine({"q": "S//a->x FOLLOWED BY{x = y, 5} S//a->y"})
    found = 0
    for begin in (0, 6, 12, 100, 106):
        running.process(documents(*(("<a>1</a>", t) for t in range(begin, begin + 6))))
        found += len(results(running, "q"))
    running.process(documents(("<b/>", 300)))
    found += len(results(running, "q"))
    times = [*range(18), *range(100, 112)]
    assert found == sum(0 < b - a <= 5 for a in times for b in times)
    assert logic_of(running).describe()["cache_hits"] > 0


def test_queries_come_and_go() -> None:
    running = engine({"old": "S//a->x FOLLOWED BY{x = y, 100} S//a->y"})
    running.process(documents(("<a>1</a>", 1), ("<b>1</b>", 2)))
    running.query("new", "S//a->x FOLLOWED BY{x = y, 100} S//b->y")
    running.process(documents(("<a>1</a>", 3), ("<b>1</b>", 4), ("<a>1</a>", 5)))
    assert [r["document_1"] for r in results(running, "new")] == ["d3"]
    running.drop("old")
    running.process(documents(("<a>1</a>", 6), ("<b>1</b>", 7), ("<c/>", 8)))
    assert not results(running, "old")
    assert sorted(r["document_1"] for r in results(running, "new")) == ["d3", "d5", "d6"]


@pytest.mark.parametrize("kept", [0, 1, 1024])
def test_documents_that_are_alike_are_asked_for_what_queries_need_now(kept: int) -> None:
    """However many shapes of documents are kept: a query that comes later needs other values."""
    with patch.multiple(document_batches, _SHAPES=kept or 1, _LARGEST_SHAPE=512 if kept else 0):
        running = engine({"a": "S/r[./x->v] FOLLOWED BY{v=w, 10} S/r[./x->w]"})
        running.process(documents(("<r><x>1</x><y>2</y></r>", 1), ("<r><x>1</x><z/></r>", 2)))
        running.query("b", "S/r[./y->v] FOLLOWED BY{v=w, 10} S/r[./y->w]")
        alike = [(f"<r><x>{t}</x><y>5</y></r>", t) for t in (3, 4)]
        running.process(documents(*alike, ("<r><x><y>5</y>4</x></r>", 5), ("<r y='4'/>", 6)))
        assert [row["document_2"] for row in results(running, "b")] == ["d4"]
        running.process(documents(("<r><x>54</x><y>5</y></r>", 7), ("<end/>", 8)))
        assert [row["document_1"] for row in results(running, "a")] == ["d5"]
        assert {row["document_1"] for row in results(running, "b")} == {"d3", "d4"}


def test_names_are_parameters_of_prepared_queries() -> None:
    running = engine({})
    running.query(
        "q",
        "CREATE QUERY q FOR EACH (l STRING, w BIGINT) AS "
        "SELECT x FROM S//:l->x FOLLOWED BY{x = y, :w} S//:l->y",
        rows={"l": ["a", "b", "a"], "w": [1, 5, 5]},
    )
    running.process(documents(("<a>1</a>", 1), ("<a>1</a>", 4), ("<b>1</b>", 5), ("<c/>", 9)))
    found = {name: table.num_rows for (name, _), table in running.results.items()}
    assert found == {"q/2": 1}


def test_state_survives_a_restart() -> None:
    running = engine(QUERIES)
    running.process(documents((BOOK, 1)))
    again = braid.Engine.restore(running.snapshot())
    again.process(documents((BLOG, 5), ("<end/>", 6)))
    assert len(results(again, "Q1")) == len(results(again, "Q2")) == 1


def test_explain_shows_graph_template_and_conjunctive_query() -> None:
    running = engine(QUERIES)
    whole = str(running.explain())
    assert "document query: documents" in whole
    assert "3 different queries of 1 join template" in whole
    text = str(running.explain("Q1"))
    assert "block //book->x1[./author->x2][./title->x3]" in text
    assert "reduced: x1(x2, x3); x4(x5, x6)" in text
    assert "R_L(docid, var1, var2, node1, node2, s1)" in text
