"""Documents that queries build, and others read: escaped by construction."""

from __future__ import annotations

from typing import Any

import pytest

import braid

STREAMS = """
CREATE STREAM S (id STRING, doc XML, ts BIGINT) TIME ts;
CREATE STREAM J (doc JSON, ts BIGINT) TIME ts;
CREATE STREAM T (name STRING, n BIGINT, d DOUBLE, ts BIGINT) TIME ts;
"""


def engine_of(**queries: str) -> braid.Engine:
    engine = braid.Engine(idle_timeout=None)
    engine.execute(STREAMS)
    for name, text in queries.items():
        engine.query(name, text)
    return engine


def column(engine: braid.Engine, query: str, name: str) -> list[Any]:
    for (found, _), table in engine.results.items():
        if found == query:
            values: list[Any] = table.column(name).to_pylist()
            return values
    return []


def test_what_is_silent_with_concat_is_right_with_an_element() -> None:
    engine = engine_of(
        p="SELECT <p>{x2}</p> FROM S//book->x1[./author->x2] PUBLISH P",
        z="SELECT z FROM P/p/author->z",
        c="SELECT concat('<p>', xml_escape(x2), '</p>') AS doc FROM S//author->x2 PUBLISH C",
        y="SELECT z FROM C/p->z",
    )
    texts = [f"<book><author>{a}</author></book>" for a in ("A", "A &amp; B", "C<i>D</i>")]
    ids = [str(n) for n in range(3)]
    engine.process({"S": {"id": ids, "doc": texts, "ts": [1, 1, 1]}})
    engine.finish()
    made = column(engine, "p", "result")
    assert sorted(made) == [
        "<p><author>A &amp; B</author></p>",
        "<p><author>A</author></p>",
        "<p><author>C<i>D</i></author></p>",
    ]
    assert sorted(column(engine, "z", "z")) == ["A", "A & B", "CD"]
    assert sorted(column(engine, "y", "z")) == ["A", "A & B", "CD"]
    assert not engine.rejected.num_rows
    assert not engine.notices


def test_subtrees_keep_namespaces_attributes_and_mixed_text() -> None:
    engine = engine_of(p="SELECT <p>{x}</p> FROM S//b->x")
    text = '<a xmlns="u" xmlns:v="w">1<b v:k="&lt;&#10;">2<c/>3<!-- no --><v:d/>4</b>tail</a>'
    engine.process({"S": {"id": ["1"], "doc": [text], "ts": [1]}})
    engine.finish()
    (made,) = column(engine, "p", "result")
    assert made == ('<p><b xmlns="u" xmlns:v="w" v:k="&lt;&#10;">2<c/>3<v:d/>4</b></p>')


def test_attributes_and_json_are_text() -> None:
    engine = engine_of(
        a="SELECT <p>{x}{k}</p> FROM S//b->x[./@k->k]",
        j="SELECT <p i='{x}'>{x}</p> FROM J$..a->x",
    )
    engine.process(
        {
            "S": {"id": ["1"], "doc": ["<b k='&lt;&quot;'>1</b>"], "ts": [1]},
            "J": {"doc": ['{"a": [{"b": "<&"}, "\\u0001\\r\\n", null]}'], "ts": [1]},
        }
    )
    engine.finish()
    assert column(engine, "a", "result") == ['<p><b k="&lt;&quot;">1</b>&lt;"</p>']
    assert sorted(column(engine, "j", "result")) == [
        '<p i=""></p>',
        '<p i="&lt;&amp;">&lt;&amp;</p>',
        '<p i="\ufffd&#13;&#10;">\ufffd&#13;\n</p>',
    ]


def test_the_result_is_copied_in() -> None:
    engine = engine_of(
        one="SELECT <p>{result}</p> FROM S//b->x",
        two="SELECT <p>{result}</p> FROM S//b->x JOIN{x = y, 0} S//b->y",
        mixed="SELECT <p>{result}</p> FROM S//b->x JOIN{x = y, 0} J$.b->y",
    )
    engine.process(
        {
            "S": {"id": ["1"], "doc": ["<b>1</b>"], "ts": [1]},
            "J": {"doc": ['{"b": 1}'], "ts": [1]},
        }
    )
    engine.finish()
    assert column(engine, "one", "result") == ["<p><b>1</b></p>"]
    assert column(engine, "two", "result") == ["<p><result><b>1</b><b>1</b></result></p>"]
    assert column(engine, "mixed", "result") == [
        '<p>{"result": ["&lt;b&gt;1&lt;/b&gt;", {"b": 1}]}</p>'
    ]


def test_any_query_can_build_documents() -> None:
    """Of its own values; NULL adds nothing."""
    engine = engine_of(
        t="SELECT <t n='{n}' d='{d}'>{name}{n IS NULL}</t> FROM T PUBLISH D",
        r="Rstream(SELECT <n>{count(*)}</n> AS c FROM T [Range 9])",
        s="SELECT <p>{name}, {name_1}</p> AS p FROM T NEXT{$1.n = $2.n} T",
        b="SELECT k, z FROM D/t->z[./@d->k]",
    )
    names = ["a<", None, "b", None]
    numbers = {"n": [1, None, 1, 7], "d": [0.5, None, 1e300, 0.0]}
    engine.process({"T": {"name": names, **numbers, "ts": [1, 2, 3, 9]}})
    assert column(engine, "t", "result") == [
        '<t n="1" d="0.5">a&lt;false</t>',
        '<t n="" d="">true</t>',
        '<t n="1" d="1.0E300">bfalse</t>',
    ]
    assert column(engine, "r", "c") == ["<n>1</n>", "<n>2</n>", "<n>3</n>"]
    assert column(engine, "s", "p") == ["<p>b, a&lt;</p>"]
    assert column(engine, "b", "z") == ["a<false", "true", "bfalse"]


def test_a_document_that_is_built_too_deep_is_rejected_where_it_is_read() -> None:
    engine = engine_of(p="SELECT <p>{x}</p> FROM S/a->x PUBLISH P", z="SELECT z FROM P/p->z")
    deep = "<a>" * 200 + "</a>" * 200
    engine.process({"S": {"id": ["1"], "doc": [deep], "ts": [1]}})
    engine.finish()
    assert column(engine, "p", "result") == [f"<p>{deep.replace('<a></a>', '<a/>')}</p>"]
    (row,) = engine.rejected.to_pylist()
    assert row["reason"] == "the document is deeper than 200 levels"
    assert [n.code for n in engine.notices] == ["W209"]


@pytest.mark.parametrize("batches", [1, 4])
def test_restarts_and_batches(batches: int) -> None:
    """What is shown of earlier documents is kept with them."""
    queries = {
        "p": "SELECT <p>{x}{y}</p> FROM S//a->x FOLLOWED BY{x = y, 9} S//b->y PUBLISH P",
        "q": "SELECT <q>{x}{y}{z}</q> FROM S//a->x FOLLOWED BY{x = y, 9} S//b->y "
        "FOLLOWED BY{y = z, 9} S//c->z",
        "z": "SELECT <z>{v}</z> FROM P/p/a->v",
    }
    texts = ["<a>1<i/></a>", "<b>1<j/></b>", "<c>1<k/></c>", "<end/>"]
    engine, found = engine_of(**queries), []
    size = len(texts) // batches
    for first in range(0, len(texts), size):
        part = slice(first, first + size)
        rows = {"id": list("1234")[part], "doc": texts[part], "ts": [1, 2, 3, 4][part]}
        engine.process({"S": rows})
        found += [v for name in queries for v in column(engine, name, "result")]
        engine = braid.Engine.restore(engine.snapshot())
    assert sorted(found) == [
        "<p><a>1<i/></a><b>1<j/></b></p>",
        "<q><a>1<i/></a><b>1<j/></b><c>1<k/></c></q>",
        "<z><a>1<i/></a></z>",
    ]


def test_explain_shows_what_is_built() -> None:
    engine = engine_of(p="SELECT <p k='{x}'>{x} {{and}} {upper(y)}</p> FROM S//a->x[./b->y]")
    assert 'project <p k="{x}">{x} {{and}} {upper(y)}</p>' in engine.explain("p")
    assert "not published: result" in engine.explain("p")


def test_a_query_reads_what_another_computes() -> None:
    """A computation below a text that is built, below blocks."""
    engine = engine_of(
        p="SELECT concat('<p>', CAST(length(x) + 1 AS STRING), '</p>') AS doc FROM S//a->x PUBLISH P",
        z="SELECT z FROM P/p->z",
    )
    engine.process({"S": {"id": ["1"], "doc": ["<a>xy</a>"], "ts": [1]}})
    engine.finish()
    assert column(engine, "z", "z") == ["3"]
