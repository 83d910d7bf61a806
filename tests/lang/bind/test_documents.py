"""XML blocks: what is parsed, what is bound, what is refused and how."""

from __future__ import annotations

import pytest

from braid.algebra.documents import ENDLESS, Axis, Documents, ValueJoin
from braid.algebra.expressions import Literal
from braid.algebra.nodes import Project, Read
from braid.algebra.queries import Query
from braid.errors import BraidError
from braid.lang.catalog.catalog import Catalog
from braid.lang.catalog.compile import compile_query
from braid.lang.catalog.load import load
from braid.lang.catalog.prepared import prepare

STREAMS = """
CREATE STREAM S (doc XML, ts TIMESTAMP) TIME ts;
CREATE STREAM Tick (doc XML, t BIGINT) TIME t;
CREATE STREAM Two (a STRING, b STRING, ts TIMESTAMP) TIME ts;
CREATE VIEW V AS SELECT * FROM S [Rows 3];
"""
Q1 = (
    "S//book->x1[./author->x2][./title->x3] FOLLOWED BY {x2=x5 AND x3=x6, T1} "
    "S//blog->x4[./author->x5][./title->x6]"
)
Q3 = (
    "S//blog->x4[./author->x5][./title->x6] FOLLOWED BY {x5=x5' AND x6=x6', T3} "
    "S//blog->x4'[./author->x5'][./title->x6']"
)


@pytest.fixture
def catalog() -> Catalog:
    made = Catalog()
    load(STREAMS, made)
    return made


def query(catalog: Catalog, text: str) -> Query:
    return compile_query(text, catalog, query_id="q").query


def documents(catalog: Catalog, text: str) -> Documents:
    node = query(catalog, text).node
    assert isinstance(node, Documents)
    return node


def test_the_printed_queries_bind(catalog: Catalog) -> None:
    """As table 6.2 has them: the windows are parameters."""
    for name, text in (("T1", Q1), ("T3", Q3)):
        statement = f"CREATE QUERY q{name} FOR EACH ({name} INTERVAL) AS {text}"
        made = prepare(statement, {name: [1_000_000]}, catalog)
        node = made.template.outputs[0].node
        assert isinstance(node, Documents)
        assert node.joins == (ValueJoin(1, "=", 1), ValueJoin(2, "=", 2))
    assert node.schema.names == (
        "document_1", "document_2", "x4", "x5", "x6", "x4'", "x5'", "x6'", "result",
    )  # fmt: skip


def test_a_bare_stream_is_a_query(catalog: Catalog) -> None:
    assert isinstance(query(catalog, "S").node, Read)
    assert query(catalog, "S PUBLISH Again").publishes == ("Again",)
    assert isinstance(query(catalog, "CREATE QUERY c AS S").node, Read)


def test_variables_by_arrow_and_by_as(catalog: Catalog) -> None:
    first = documents(catalog, "S//blog->b[./title->t]")
    second = documents(catalog, "S//blog[./title AS t] AS b")
    assert first == second
    assert first.blocks[0].variables == (("b", 0), ("t", 1))


def test_axes_wildcards_and_tests(catalog: Catalog) -> None:
    block = documents(catalog, "S/a//*[@id = 'x' and .//@n > -2.5][. != 'y']/item-url").blocks[0]
    shown = [(n.parent, n.axis, n.name and getattr(n.name, "value", None)) for n in block.nodes]
    assert shown == [
        (-1, Axis.CHILD, "a"),
        (0, Axis.DESCENDANT, None),
        (1, Axis.ATTRIBUTE, "id"),
        (1, Axis.DESCENDANT_ATTRIBUTE, "n"),
        (1, Axis.CHILD, "item-url"),
    ]
    assert block.root == 4
    assert [(t.operator, t.constant) for t in block.nodes[3].tests] == [
        (">", Literal(-2.5, block.nodes[3].tests[0].constant.type))
    ]
    assert [t.operator for t in block.nodes[1].tests] == ["!="]


def test_names_have_dots_hyphens_and_digits(catalog: Catalog) -> None:
    block = documents(catalog, "S//org.x-1.2[@a.b-c]->x").blocks[0]
    assert [n.name and getattr(n.name, "value", None) for n in block.nodes] == [
        "org.x-1.2",
        "a.b-c",
    ]


def test_paths_in_the_predicate_become_part_of_the_blocks(catalog: Catalog) -> None:
    """Value-join normal form."""
    node = documents(
        catalog, "S//book->x JOIN{y//author = x/author AND x/@id = 'b1', 1 day} S//blog->y"
    )
    assert node.joins == (ValueJoin(1, "=", 1),)
    assert [n.variable for n in node.blocks[0].nodes] == ["x", None, None]
    assert node.blocks[0].nodes[2].axis is Axis.ATTRIBUTE
    assert [t.operator for t in node.blocks[0].nodes[2].tests] == ["="]
    assert node.blocks[1].nodes[1].axis is Axis.DESCENDANT


def test_predicates_behind_a_variable_of_a_join(catalog: Catalog) -> None:
    node = documents(catalog, "S//a->x JOIN{x[./k = 'v'][@m]/b = y, 1 day} S//b->y")
    assert node.joins == (ValueJoin(3, "=", 0),)
    shown = [n.name and getattr(n.name, "value", None) for n in node.blocks[0].nodes]
    assert shown == ["a", "k", "m", "b"]
    assert [t.operator for t in node.blocks[0].nodes[1].tests] == ["="]


def test_comparisons_are_turned_to_the_order_of_the_blocks(catalog: Catalog) -> None:
    node = documents(catalog, "S//a->x JOIN{y < x, unbounded} S//b->y")
    assert node.joins == (ValueJoin(0, ">", 0),)
    (window,) = node.windows
    assert isinstance(window, Literal)
    assert window.value == ENDLESS


def test_a_window_without_an_end_is_told(catalog: Catalog) -> None:
    made = compile_query("S//a->x JOIN{x = y, unbounded} S//b->y", catalog)
    assert [(n.code, "every document of S" in n.message) for n in made.notices] == [("W202", True)]


def test_a_stream_without_a_path_is_its_documents(catalog: Catalog) -> None:
    node = documents(catalog, "Tick JOIN{, 5} Tick//a->x")
    assert node.blocks[0].nodes[0].name is None
    assert node.joins == ()


def test_select_and_publish(catalog: Catalog) -> None:
    made = query(catalog, "SELECT t AS title FROM S//blog->b[./title->t] PUBLISH Titles")
    assert isinstance(made.node, Project)
    assert made.publishes == ("Titles",)
    assert made.reads == ("S",)


def test_names_windows_and_constants_are_data(catalog: Catalog) -> None:
    text = "S//{}->x[./{} = '{}'] FOLLOWED BY{{x = y, {}}} S//c->y"
    first = query(catalog, text.format("a", "b", "1", "1 day"))
    second = query(catalog, text.format("d", "e", "2", "2 days"))
    assert first.template is second.template
    assert first.values != second.values


def test_a_prime_is_no_string(catalog: Catalog) -> None:
    load("S//a->x'[./b->y'] FOLLOWED BY{y'=z', 1 day} S//c->z'; S//d->w' ; S", catalog)
    load("SELECT doc FROM FILTER{doc LIKE'a;b%'} S", catalog)
    assert len(list(catalog.queries.single)) == 4


CASES = [
    ("S//book[", "E220", "the name of an element"),
    ("S//a->x JOIN{x = y, 1 day S//b->y", "E220", "expected '}'"),
    ("S//a->x JOIN{x, 1 day} S//b->y", "E220", "expected a comparison"),
    ("S//a[.]", "E220", "needs a path"),
    ("S//a[3]", "E221", "the position [3]"),
    ("S//a[not(./b)]", "E221", "not()"),
    ("SELECT x FROM S//a->x WHERE x = '1'", "E220", "FILTER"),
    ("S//a->x JOIN{(x = y), 1 day} S//b->y", "E220", "a join compares values"),
    ("S//a->x JOIN{x[.k] = y, 1 day} S//b->y", "E232", "not in the language of its block"),
    ("S//a[./b or ./c]", "E221", "OR"),
    ("S//a[./b = ./c]", "E221", "comparing two paths"),
    ("S//a[-1]", "E221", "the position [-1]"),
    ("S//a[../b]", "E221", "the parent (..)"),
    ("S//a/./b", "E221", "a step . inside a path"),
    ("S//a/following-sibling::b", "E221", "the axis following-sibling::"),
    ("S//a[last()]", "E221", "the function last()"),
    ("S//a[./b + 1 > 2]", "E221", "arithmetic (+)"),
    ("S//a[./b IN ('c')]", "E221", "IN is not supported"),
    ("S//a[./b = ]", "E220", "expected a text or a number"),
    ("S//a | S//b", "E104", "one query for each path"),
    ("S//a[//b]", "E221", "write .// for"),
    ("S//a/..", "E221", "the parent (..)"),
    ("S//dc:title", "E221", "the namespace prefix dc:"),
    ("S//text()", "E221", "the function text()"),
    ("S/@id/b", "E221", "an attribute has no children"),
    ("S//a->x JOIN{x = y OR x = y, 1 day} S//b->y", "E222", "one query for each"),
    ("S//a->x JOIN{x = y, } S//b->y", "E223", "a length of time"),
    ("Tick//a->x JOIN{x = y, 1.5} Tick//b->y", "E223", "1.5 is not"),
    ("S//a->x JOIN{x = 'a' AND 'b' = 'c', 1 day} S//b->y", "E224", "two constants"),
    ("S//a->x[./c->z] JOIN{x = z, 1 day} S//b->y", "E224", "one block"),
    ("S//a->x JOIN{x/b->w = y, 1 day} S//b->y", "E224", "bound in a block"),
    ("S//a->x JOIN{xx = y, 1 day} S//b->y", "E224", "no variable 'xx'"),
    ("S//a->x[./b->x]", "E225", "two variables are called 'x'"),
    ("S//a->x JOIN{x = x, 1 day} S//b->x", "E225", "two blocks"),
    ("S//a->result", "E225", "a column of every result"),
    ("Two//a->x", "E226", "one column of type XML"),
    ("V//a->x", "E226", "not a stream of documents"),
    ("S//a[./b < 'x']", "E227", "compares numbers"),
    ("S" + "//a" * 61, "E228", "at most 60 nodes"),
    (
        "(S//a->x JOIN{, 1 day} S//b->y) JOIN{, 1 day} (S//c->z JOIN{, 1 day} S//d->w)",
        "E229",
        "both sides of this join are joins",
    ),
    ("S//a->x JOIN{, 1 day} (S//b->y JOIN{y = x, 1 day} S//c->z)", "E224", "not part of this join"),
    ("S//a->x JOIN{x = z, 1 day} S//b->y JOIN{, 1 day} S//c->z", "E224", "not part of this join"),
    (
        "S//a->x JOIN{, 1 day} S//b->y JOIN{x = z/@k AND x = 'a' AND x = x, 1 day} S//c->z",
        "E224",
        "one block",
    ),
    ("S//a->x JOIN{, 1 day} S//b->y JOIN{, 1 day} S//c->document_3", "E225", "column of every"),
    ("S//a->x JOIN{, 1 day} S//b->y JOIN{, 1 day} Tick//c->z", "E120", "different clocks"),
    ("Tick//a->x JOIN{x = y, 1 day} Tick//b->y", "E114", "counts ticks"),
    ("S//a->x JOIN{x = y, 1 day} Tick//b->y", "E120", "different clocks"),
    ("S//a->x JOIN{x = y, 1 day} None//b->y", "E105", "no stream 'None'"),
]


@pytest.mark.parametrize(("text", "code", "words"), CASES, ids=[c[0][:60] for c in CASES])
def test_what_is_refused(catalog: Catalog, text: str, code: str, words: str) -> None:
    with pytest.raises(BraidError) as found:
        compile_query(text, catalog)
    assert found.value.code == code, str(found.value)
    assert words in str(found.value)
