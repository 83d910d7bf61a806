"""Blocks in JSONPath: what is parsed, what is bound, what is refused and how."""

from __future__ import annotations

import pytest

from braid.algebra.documents import Axis, Block, Documents, ValueJoin
from braid.algebra.expressions import Parameter
from braid.errors import BraidError
from braid.lang.catalog.catalog import Catalog
from braid.lang.catalog.compile import compile_query
from braid.lang.catalog.load import load
from braid.lang.catalog.prepared import prepare
from braid.operators.documents.explain import show_block

STREAMS = """
CREATE STREAM J (doc JSON, ts TIMESTAMP) TIME ts;
CREATE STREAM S (doc XML, ts TIMESTAMP) TIME ts;
CREATE STREAM Two (a JSON, b JSON, ts TIMESTAMP) TIME ts;
"""


@pytest.fixture
def catalog() -> Catalog:
    made = Catalog()
    load(STREAMS, made)
    return made


def documents(catalog: Catalog, text: str) -> Documents:
    node = compile_query(text, catalog, query_id="q").query.node
    assert isinstance(node, Documents)
    return node


def nodes(block: Block) -> list[tuple[int, Axis, str | None]]:
    return [(n.parent, n.axis, n.name and getattr(n.name, "value", None)) for n in block.nodes]


def test_a_column_of_type_json_is_a_text(catalog: Catalog) -> None:
    stream = catalog.streams["J"]
    assert str(stream.columns.type_of("doc")) == "string"
    assert (stream.documents, stream.json) == (("doc",), ("doc",))
    assert (catalog.streams["S"].documents, catalog.streams["S"].json) == (("doc",), ())


def test_the_document_is_the_first_node(catalog: Catalog) -> None:
    block = documents(catalog, "J$.book->x1[.author->x2]['a b'].*[..k = 5]").blocks[0]
    assert nodes(block) == [
        (-1, Axis.CHILD, "$"),
        (0, Axis.CHILD, "book"),
        (1, Axis.CHILD, "author"),
        (1, Axis.CHILD, "a b"),
        (3, Axis.CHILD, None),
        (4, Axis.DESCENDANT, "k"),
    ]
    assert block.root == 4
    assert block.variables == (("x1", 1), ("x2", 2))
    assert [t.operator for t in block.nodes[5].tests] == ["="]


def test_ways_to_write_a_member(catalog: Catalog) -> None:
    first = documents(catalog, "J$..book.title->t").blocks
    for text in ("J$..['book']['title']->t", 'J$..book.["title"] AS t', "(J$..`book`.title->t)"):
        assert documents(catalog, f"{text} JOIN{{, 1 day}} J").blocks[0] == first[0]
    assert nodes(documents(catalog, "J$..['it''s'].select").blocks[0])[1:] == [
        (0, Axis.DESCENDANT, "it's"),
        (1, Axis.CHILD, "select"),
    ]


def test_variables_before_and_after_predicates(catalog: Catalog) -> None:
    assert documents(catalog, "J$->d[.a]") == documents(catalog, "J$[.a] AS d")
    tests = documents(catalog, "J$.a[. != 'x' AND .b > -1][.c]").blocks[0]
    assert [len(node.tests) for node in tests.nodes] == [0, 1, 1, 0]


def test_joins_of_both_kinds_of_documents(catalog: Catalog) -> None:
    node = documents(
        catalog, "J$.book->x JOIN{x.author = y/@author AND x..['the id'] = 'b', 1 day} S//blog->y"
    )
    assert node.joins == (ValueJoin(2, "=", 1),)
    assert nodes(node.blocks[0])[2:] == [
        (1, Axis.CHILD, "author"),
        (1, Axis.DESCENDANT, "the id"),
    ]
    assert node.blocks[1].nodes[1].axis is Axis.ATTRIBUTE


def test_names_and_constants_are_data(catalog: Catalog) -> None:
    text = "J$..{}->x[.{} = '{}'] FOLLOWED BY{{x = y, {}}} J$.c->y"
    first = compile_query(text.format("a", "b", "1", "1 day"), catalog, query_id="p").query
    second = compile_query(text.format("d", "e", "2", "2 days"), catalog, query_id="q").query
    assert first.template is second.template
    assert first.values != second.values


def test_names_are_parameters(catalog: Catalog) -> None:
    made = prepare(
        "CREATE QUERY q FOR EACH (m STRING, v STRING) AS J$..:m->x[.k = :v]",
        {"m": ["a", "b"], "v": ["1", "2"]},
        catalog,
    )
    node = made.template.outputs[0].node
    assert isinstance(node, Documents)
    names = [n.name for n in node.blocks[0].nodes]
    assert isinstance(names[1], Parameter)


@pytest.mark.parametrize(
    "text", ["$", "$.a->x[.b->y][..c]", "$..*[.a[.b]]", "$['a b']..['c''d']->x", "$->d.*"]
)
def test_blocks_are_shown_as_they_are_written(catalog: Catalog, text: str) -> None:
    assert show_block(documents(catalog, f"J{text}").blocks[0]) == text


def test_a_dollar_elsewhere_is_what_it_was(catalog: Catalog) -> None:
    load("CREATE STREAM Stock (Name STRING, Price DOUBLE, t TIMESTAMP) TIME t;", catalog)
    text = "SELECT * FROM Stock NEXT{$1.Name = $2.Name AND $2.Price > 1} Stock"
    assert compile_query(text, catalog, query_id="q").query.reads == ("Stock",)


CASES = [
    ("J$.a[?(@.price > 10)]", "E231", "a filter ?()"),
    ("J$.a[0]", "E231", "the index [0]"),
    ("J$.a[-1]", "E231", "the index [-1]"),
    ("J$..[0]", "E231", "the index [0]"),
    ("J$.a[1:2]", "E231", "a slice"),
    ("J$.a[:2]", "E231", "a slice"),
    ("J$['a','b']", "E231", "a union"),
    ("J$.a[0,1]", "E231", "a union"),
    ("J$.a[*]", "E231", "write .* for its members"),
    ("J$.a[(@.length)]", "E231", "a computed name"),
    ("J$.a[@.b]", "E231", "write [.price] for @.price"),
    ("J$.a.length()", "E231", "the function length()"),
    ("J$.a[.b or .c]", "E231", "OR is not supported"),
    ("J$.a[.b = .c]", "E231", "comparing two paths"),
    ("J$.a/b", "E231", "XPath (/)"),
    ("J$.a[//b]", "E231", "write [.name] or [..name]"),
    ("J$.", "E220", "the name of a member"),
    ("J$...a", "E220", "supported are .name"),
    ("J$.a[b]", "E220", "a predicate begins with a dot"),
    ("J$.a[.b AND c]", "E220", "expected '.'"),
    ("J$.a[.b", "E220", "expected ']'"),
    ("J$.a[", "E220", "the end of the statement"),
    ("J$.a[.b] AS x[.c]", "E220", "not allowed here"),
    ("J//a", "E230", "write, for example, J$..book"),
    ("S$.a", "E230", "write, for example, S//book"),
    ("J$.a->x JOIN{x/b = y, 1 day} J$.b->y", "E232", "write x.name"),
    ("S//a->x JOIN{x.b = y, 1 day} J$.b->y", "E232", "write x/name"),
    ("J$.a->x JOIN{x[0] = y, 1 day} J$.b->y", "E231", "the index [0]"),
    ("Two$.a", "E226", "one column of type XML or JSON"),
    ("J$.a[.b < 'x']", "E227", "compares numbers"),
    ("J$" + ".a" * 60, "E228", "at most 60 nodes"),
    ("J$.a->x[.b->x]", "E225", "two variables are called 'x'"),
]


@pytest.mark.parametrize(("text", "code", "words"), CASES, ids=[c[0][:60] for c in CASES])
def test_what_is_refused(catalog: Catalog, text: str, code: str, words: str) -> None:
    with pytest.raises(BraidError) as found:
        compile_query(text, catalog)
    assert found.value.code == code, str(found.value)
    assert words in str(found.value)
