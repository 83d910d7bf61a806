"""Queries over JSON documents in the engine: the worked example, results, what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import pytest

import braid
from braid.documents import xml_table as document_table

STREAMS = """
CREATE STREAM J (id STRING, doc JSON, t BIGINT) TIME t;
CREATE STREAM X (id STRING, doc XML, t BIGINT) TIME t;
"""
TITLE = "Beginning RSS and Atom Programming"
BOOK = {
    "book": {
        "publisher": "Wrox",
        "author": ["Danny Ayers", "Andrew Watt"],
        "title": TITLE,
        "category": ["Scripting & Programming", "Web Site Development"],
    }
}
BLOG = {
    "blog": {
        "url": "http://dannyayers.com",
        "author": "Danny Ayers",
        "title": TITLE,
        "category": ["Book Announcement", "Scripting & Programming"],
    }
}
QUERIES = {
    "Q1": "J$..book->x1[.author->x2][.title->x3] FOLLOWED BY{x2=x5 AND x3=x6, 10} "
    "J$..blog->x4[.author->x5][.title->x6]",
    "Q2": "J$..book->x1[.author->x2][.category->x7] FOLLOWED BY{x2=x5 AND x7=x8, 10} "
    "J$..blog->x4[.author->x5][.category->x8]",
    "Q3": "J$..blog->x4[.author->x5][.title->x6] FOLLOWED BY{x5=x5' AND x6=x6', 10} "
    "J$..blog->x4'[.author->x5'][.title->x6']",
}


def engine(queries: Mapping[str, str]) -> braid.Engine:
    made = braid.Engine()
    made.execute(STREAMS)
    for name, text in queries.items():
        made.query(name, text)
    return made


def batch(*given: tuple[Any, int]) -> dict[str, list[Any]]:
    """Texts as they are, everything else as JSON."""
    texts = [d if isinstance(d, str) else json.dumps(d) for d, _ in given]
    return {"id": [f"d{t}" for _, t in given], "doc": texts, "t": [t for _, t in given]}


def results(running: braid.Engine, query: str) -> list[dict[str, Any]]:
    tables = [table for (name, _), table in running.results.items() if name == query]
    return [row for table in tables for row in table.to_pylist()]


def run(queries: Mapping[str, str], *given: tuple[Any, int]) -> braid.Engine:
    """Everything in one batch, and a document after it, so that all results are there."""
    running = engine(queries)
    running.process({"J": batch(*given, ("0", given[-1][1] + 1)), "X": batch(("<end/>", 100))})
    assert running.rejected.num_rows == 0
    return running


def values(query: str, *given: Any) -> list[str]:
    """The values of x in documents."""
    running = run({"q": query}, *((document, 1 + k) for k, document in enumerate(given)))
    return [row["x"] for row in results(running, "q")]


def test_the_worked_example() -> None:
    """The results of the XML documents of 6.4.4: one each of Q1 and Q2, none of Q3."""
    running = run(QUERIES, (BOOK, 1), (BLOG, 5))
    first, second = results(running, "Q1"), results(running, "Q2")
    assert [json.loads(r["result"]) for r in first] == [{"result": [BOOK, BLOG]}]
    assert [r["result"] for r in second] == [r["result"] for r in first]
    assert not results(running, "Q3")
    (row,) = first
    assert (row["start"], row["end"], row["document_1"], row["document_2"]) == (1, 5, "d1", "d5")
    assert row["x2"] == row["x5"] == "Danny Ayers"
    assert second[0]["x7"] == "Scripting & Programming"


def test_json_and_xml_are_joined() -> None:
    running = engine({"q": "J$.book->b[.author->x] FOLLOWED BY{x = y, 10} X//blog->c[./author->y]"})
    blog = "<blog><author>Andrew Watt</author></blog>"
    running.process({"J": batch((BOOK, 1), ("0", 8)), "X": batch((blog, 5), ("<end/>", 8))})
    (row,) = results(running, "q")
    assert row["x"] == "Andrew Watt"
    assert json.loads(row["result"]) == {"result": [BOOK, blog]}


@pytest.mark.parametrize(
    ("query", "document", "found"),
    [
        ("J$.a->x", {"a": [1, [2, 3], {"b": 4}]}, ["1", "23", "4"]),
        ("J$.a.item->x", {"a": [1, [2, 3]], "item": 5}, ["2", "3"]),
        ("J$.item->x", [1, "two", [3]], ["1", "two", "3"]),
        ("J$..item->x", [[1], []], ["1", "1", ""]),
        ("J$.a->x", {"a": []}, []),
        ("J$.a->x", {"a": None}, [""]),
        ("J$.a->x", '{"a": 1, "b": 2, "a": 3}', ["1", "3"]),
        ("J$.*->x", [True, False], ["true", "false"]),
        ("J$.*->x", "[1.0, 1e3, 2.50, -0, 0.10e1, 12345678901234567890]",
         ["1", "1000", "2.5", "0", "1", "12345678901234567890"]),
        ("J$.*->x", "[0.1234567890123456789012345678901234567890, 1E-7]",
         ["0.123456789012345678901234567890123456789", "0.0000001"]),
        ("J$->x", {"a": 1, "b": ["x", None]}, ["1x"]),
        ("J$->x", "7", ["7"]),
        ("J$['a b']..['it''s']->x", {"a b": {"c": {"it's": "!"}}}, ["!"]),
        ("J$['']->x", {"": "no name"}, ["no name"]),
        ("J$.a->x[. >= 10]", {"a": [9, 10, 1e2, "11", "z"]}, ["10", "100", "11"]),
        ("J$.a[.p != 10].n->x", {"a": [{"p": 10.0, "n": 1}, {"p": "ten", "n": 2}]}, ["2"]),
        ("J$.a[.p = 'true' AND .q]->x.n", {"a": {"p": True, "q": None, "n": 1}}, ["true1"]),
        ("J$.a->x", {"a": "é ✓ \u0000 \U0001f600"}, ["é ✓ \u0000 \U0001f600"]),
    ],
)  # fmt: skip
def test_the_nodes_of_a_document(query: str, document: Any, found: list[str]) -> None:
    assert sorted(values(query, document)) == sorted(found)


def test_results_are_documents_of_their_own() -> None:
    text = '{"a": [{"b": [1.50, [], {}], "b": "\\u00e9\\"", "c": null}, true]}'
    running = run({"part": "J$.a", "b": "J$..b", "whole": "J$[.a]"}, (text, 1))
    shown = {name: [r["result"] for r in results(running, name)] for name in ("part", "b", "whole")}
    inner = '{"b": [1.5, [], {}], "b": "é\\"", "c": null}'
    assert shown["part"] == [f'{{"a": {inner}}}', '{"a": true}']
    assert shown["b"] == ['{"b": 1.5}', '{"b": []}', '{"b": {}}', '{"b": "é\\""}']
    assert shown["whole"] == [f'{{"a": [{inner}, true]}}']


def test_what_is_published_is_read_by_blocks() -> None:
    queries = {
        "pairs": "J$.book->x1[.author->x2] FOLLOWED BY{x2=x5, 10} J$.blog->x4[.author->x5] "
        "PUBLISH Pairs",
        "block": "Pairs$.result.book.category->c",
        "pattern": "SELECT document_2 FROM FILTER{x2 = 'Danny Ayers'}(Pairs)",
    }
    running = run(queries, (BOOK, 1), (BLOG, 5))
    assert [r["c"] for r in results(running, "block")] == BOOK["book"]["category"]
    assert [r["document_2"] for r in results(running, "pattern")] == ["d5"]


def test_names_and_windows_are_parameters() -> None:
    running = engine({})
    running.query(
        "q",
        "CREATE QUERY q FOR EACH (m STRING, w BIGINT) AS "
        "SELECT x FROM J$..:m->x FOLLOWED BY{x = y, :w} J$..:m->y",
        rows={"m": ["a", "b c", "a"], "w": [1, 5, 5]},
    )
    given = [({"a": 1}, 1), ({"a": "1"}, 4), ({"b c": 2}, 5), ({"b c": 2.0}, 6), ("0", 9)]
    running.process({"J": batch(*given)})
    assert {name: t.num_rows for (name, _), t in running.results.items()} == {"q/1": 1, "q/2": 1}


def test_state_survives_a_restart() -> None:
    running = engine(QUERIES)
    running.process({"J": batch((BOOK, 1))})
    again = braid.Engine.restore(running.snapshot())
    again.process({"J": batch((BLOG, 5), ("{", 6), ("<a/>", 6), ("0", 7))})
    assert len(results(again, "Q1")) == len(results(again, "Q2")) == 1
    assert again.rejected.num_rows == 2


def nested(levels: int) -> str:
    """Objects in arrays: the most brackets that so many levels can have."""
    return '{"a":[' * (levels - 1) + "1" + "]}" * (levels - 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1', "not well-formed"),
        ("", "not well-formed"),
        ("<a>1</a>", "not well-formed"),
        ('{"a": 1} 2', "not well-formed: Extra data"),
        ("{'a': 1}", "not well-formed"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"a": -Infinity}', "-Infinity is no JSON"),
        ('{"a": "\\ud800"}', "half a surrogate pair"),
        ('{"a\\udc00": 1}', "half a surrogate pair"),
        ('{"a": 1e999999999}', "the number 1e999999999 has more than 400 places"),
        ('{"a": 1e-99999999999999999999999}', "more than 400 places"),
        (nested(201), "deeper than 200 levels"),
        ("[" * 201 + "]" * 201, "deeper than 200 levels"),
        ('{"a":' * 1500 + "1" + "}" * 1500, "deeper than 200 levels"),
        ("[" * 4000 + "]" * 4000, "deeper than 200 levels"),
        ('{"a": "' + "x" * 9000 + '"}', "larger than"),
    ],
)
def test_documents_that_are_not_let_in(text: str, reason: str) -> None:
    running = engine({"q": "J$..a->x"})
    with patch.object(document_table, "LARGEST", 9000 if "x" in text else 20_000):
        running.process({"J": batch((text, 1), ({"a": 1}, 1), ("0", 2))})
    (rejected,) = running.rejected.to_pylist()
    assert reason in rejected["reason"]
    assert [r["x"] for r in results(running, "q")] == ["1"]


def test_json_is_not_let_into_a_stream_of_xml() -> None:
    running = engine({"q": "X//a->x"})
    running.process({"X": batch(('{"a": 1}', 1), ("7", 1))})
    assert running.rejected.num_rows == 2
    assert all("not well-formed" in row["reason"] for row in running.rejected.to_pylist())


def test_a_document_may_have_two_hundred_levels() -> None:
    running = run({"q": "J$..a->x[. = 1]", "d": "J$->x"}, (nested(200), 1))
    assert len(results(running, "q")) == 199
    (row,) = results(running, "d")
    assert (row["x"], json.loads(row["result"])) == ("1", json.loads(nested(200)))


def test_explain_shows_blocks_in_jsonpath() -> None:
    text = str(engine(QUERIES).explain("Q1"))
    assert "block $..book->x1[.author->x2][.title->x3]" in text
