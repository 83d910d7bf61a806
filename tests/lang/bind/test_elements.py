"""Element constructors in SELECT: what they mean, where they end, and what is wrong with them."""

from __future__ import annotations

import re

import pytest
from lxml import etree

from braid.algebra.documents import Documents
from braid.algebra.expressions import Call, Literal
from braid.algebra.markup import NAME, escaped_attribute, escaped_text
from braid.algebra.nodes import Project, walk_nodes
from braid.algebra.text import show
from braid.errors import BraidError
from braid.lang.catalog.catalog import Catalog
from braid.lang.catalog.compile import compile_query
from braid.lang.catalog.load import load

STREAMS = """
CREATE STREAM S (doc XML, t BIGINT) TIME t;
CREATE STREAM J (doc JSON, t BIGINT) TIME t;
CREATE STREAM T (name STRING, n BIGINT, d DOUBLE, tags ARRAY<STRING>, t BIGINT) TIME t;
"""


def catalog_of() -> Catalog:
    catalog = Catalog()
    load(STREAMS, catalog)
    return catalog


def bound(text: str) -> Project:
    """The projection of a query, its constants in place."""
    (output,) = compile_query(text, catalog_of()).query.outputs
    assert isinstance(output.node, Project)
    return output.node


def shown(text: str, source: str = "S//a->x[./b->y]") -> str:
    ((_, expression),) = bound(f"SELECT {text} FROM {source}").items
    return show(expression)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("<a/>", "<a/>"),
        ("<a></a>", "<a></a>"),
        ("< a/>", None),
        ("<a b='1' c = \"2\" />", '<a b="1" c="2"/>'),
        ("<a>\n  <b/>\n  {x}\n</a >", "<a><b/>{x}</a>"),
        ("<a> x {x} y </a>", "<a> x {x} y </a>"),
        ("<a>&#32;</a>", "<a> </a>"),
        ("<a>it's; -- 'no' \"string\" /* */</a>", "<a>it's; -- 'no' \"string\" /* */</a>"),
        ("<a>{{x}} }}{{</a>", "<a>{{x}} }}{{</a>"),
        ("<a>&lt;&amp;&gt;&quot;&apos;&#65;&#x42;</a>", "<a>&lt;&amp;&gt;\"'AB</a>"),
        ("<a> > ]]> </a>", "<a> &gt; ]]&gt; </a>"),
        ("<a k='say \"\"it''s\"\"'/>", '<a k="say &quot;&quot;it&#39;s&quot;&quot;"/>'),
        ("<a k='{x}-{upper(x)}'/>", '<a k="{x}-{upper(x)}"/>'),
        ("<a k='&#10;\n\t'/>", '<a k="&#10;  "/>'),
        ("<é-1.x_2>{result}</é-1.x_2>", "<é-1.x_2>{result}</é-1.x_2>"),
        ("<a>{'}'}{concat(x, \"}'\")}</a>", "<a>{'}'}{concat(x, '}''')}</a>"),
        ("<a>{x}{x}</a>", "<a>{x}{x}</a>"),
        ("<a>\r\n1\r2</a>", "<a>\n1\n2</a>"),
        ("<a><a><a>1</a></a></a>", "<a><a><a>1</a></a></a>"),
    ],
)
def test_what_is_written_is_what_is_built(text: str, meant: str | None) -> None:
    if meant is None:
        with pytest.raises(BraidError):
            shown(text)
        return
    assert shown(text) == meant


def test_a_variable_is_copied_and_everything_else_is_text() -> None:
    project = bound("SELECT <a k='{x}'>{x}{y}{upper(x)}{document}</a> FROM S//a->x[./b->y]")
    (documents,) = [n for n in walk_nodes(project) if isinstance(n, Documents)]
    assert documents.copied == ("x", "y")
    ((name, expression),) = project.items
    assert name == "result"
    assert isinstance(expression, Call)
    kinds = [p.function if isinstance(p, Call) else type(p).__name__ for p in expression.args]
    assert [k for k in kinds if k != "Literal"] == [
        "xml_attribute", "Ref", "Ref", "xml_text", "xml_text",
    ]  # fmt: skip
    assert isinstance(expression.args[0], Literal)
    assert project.schema.names == ("result",)


def test_a_filter_may_stand_between() -> None:
    project = bound("SELECT *, <a>{x}</a> AS made FROM FILTER{x <> '1'}(S//a->x)")
    (documents,) = [n for n in walk_nodes(project) if isinstance(n, Documents)]
    assert documents.copied == ("x",)
    assert project.schema.names == ("document", "x", "result", "made")


def test_values_of_other_streams_are_text() -> None:
    assert shown("<a n='{n}'>{d}{name}{n + 1}{NULL}</a>", "T") == (
        '<a n="{CAST(n AS STRING)}">{CAST(d AS STRING)}{name}{CAST(n + 1 AS STRING)}{NULL}</a>'
    )


def test_statements_end_where_they_do() -> None:
    catalog = catalog_of()
    text = (
        "CREATE QUERY one AS SELECT <a k=';'>; it's -- x {x}\n;</a>, x FROM S//a->x PUBLISH P;\n"
        "CREATE QUERY two AS SELECT z FROM P//a->z; CREATE QUERY three AS\n"
        "  SELECT 1 < 2 AS less, <b/> FROM T;"
    )
    loaded = load(text, catalog)
    assert [query.id for query in loaded.queries] == ["one", "two", "three"]
    (output,) = loaded.queries[2].outputs
    assert output.node.schema.names == ("less", "result")


def test_a_less_than_is_one() -> None:
    project = bound("SELECT n, n <d AS less, n<d AS other FROM T")
    assert project.schema.names == ("n", "less", "other")


@pytest.mark.parametrize(
    ("text", "code", "message", "marked"),
    [
        ("<a>", "E233", "<a> is never closed", "<a"),
        ("<a><b></a>", "E233", "</a> does not close <b>", "</a>"),
        ("<a></b>", "E233", "</b> does not close <a>", "</b>"),
        ("<a", "E233", "the attribute FROM has no value", "FROM"),
        ("<a k=1/>", "E233", "the attribute k has no value in quotes", "k"),
        ("<a k/>", "E233", "the attribute k has no value in quotes", "k"),
        ("<a k='1' k='2'/>", "E233", "two attributes are called k", "k"),
        ("<a k='1'j='2'/>", "E233", "is never closed", "<a"),
        ("<a k='<'/>", "E233", "an attribute cannot contain <", "<"),
        ("<a k='1/>", "E233", "the value of k is never closed", "k"),
        ("<a>}</a>", "E233", "this } has no opening brace", "}"),
        ("<a>&</a>", "E233", "this & does not begin a reference", "&"),
        ("<a>&nbsp;</a>", "E233", "there is no &nbsp;", "&nbsp;"),
        ("<a>&#0;</a>", "E233", "&#0; is not a character of XML", "&#0;"),
        ("<a>&#xD800;</a>", "E233", "not a character of XML", "&#xD800;"),
        ("<a>\x01</a>", "E233", "U+0001 is not a character of XML", "\x01"),
        ("<a><1/></a>", "E233", "expected the name of an element", "1"),
        ("<a><!-- x --></a>", "E234", "a comment is not supported", "<!--"),
        ("<a><![CDATA[x]]></a>", "E234", "a CDATA section", "<![CDATA["),
        ("<a><?x?></a>", "E234", "a processing instruction", "<?"),
        ("<p:a/>", "E234", "the prefix p:", "p"),
        ("<a xmlns='u'/>", "E234", "a namespace", "xmlns"),
        ("<a>{x</a>", "E101", "this '{' is never closed", "{"),
        ("<a>{}</a>", "E100", "expected", "}"),
        ("<a>{x y}</a>", "E100", "expected", "y"),
        ("<a>{nobody}</a>", "E103", "no attribute 'nobody'", "nobody"),
        ("<a>{x}{nobody}{upper(1)}</a>", "E103", "no attribute 'nobody'", "nobody"),
        ("<a>" * 201 + "</a>" * 201, "E233", "more than 200 nested elements", "<"),
    ],
)
def test_errors_point_at_what_is_wrong(text: str, code: str, message: str, marked: str) -> None:
    with pytest.raises(BraidError) as caught:
        compile_query(f"SELECT {text} FROM S//a->x", catalog_of())
    error = caught.value.errors[0] if hasattr(caught.value, "errors") else caught.value
    assert error.code == code
    assert message in error.message
    line = f"SELECT {text} FROM S//a->x"
    assert line[error.span.column - 1 :].startswith(marked)


def test_a_wrong_constructor_hides_no_other_statement() -> None:
    text = "SELECT <a>; FROM S//a->x;\nSELECT nobody FROM S//a->x;\nSELECT <a/> FROM S//a->x;"
    with pytest.raises(BraidError) as caught:
        load(text, catalog_of())
    assert [error.code for error in caught.value.errors] == ["E233", "E103"]


def test_arrays_have_no_place_in_an_element() -> None:
    with pytest.raises(BraidError, match="cannot be part of an element") as caught:
        bound("SELECT <a>{tags}</a> FROM T")
    assert caught.value.code == "E110"


def test_parameters() -> None:
    """Blocks have them; what is built is part of the template, as with every text that is built."""
    text = (
        "CREATE QUERY q FOR EACH (name STRING{}) AS SELECT <a>{{x}}{}</a> FROM S//:name->x[./b->y]"
    )
    catalog = catalog_of()
    load(text.format("", "") + ";", catalog)
    with pytest.raises(BraidError) as caught:
        load(text.format(", p STRING", "{:p}") + ";", catalog_of())
    assert caught.value.code == "E110"


def test_queries_that_differ_in_blocks_share_a_template() -> None:
    catalog = catalog_of()
    for name in "abc":
        text = f"SELECT <e>{{x}}</e> FROM S//{name}->x[. = '{name}']"
        catalog.add_query(compile_query(text, catalog, query_id=name).query)
    assert len(catalog.members()) == 1


@pytest.mark.parametrize("character", ["ª", "²", "\u0301", "\u037e", "\u2190", "\ufffe", "-", "1"])
def test_names_are_those_of_xml(character: str) -> None:
    def reads(text: str) -> bool:
        try:
            etree.fromstring(text)
        except (etree.XMLSyntaxError, ValueError):
            return False
        return True

    for name in (character, f"a{character}"):
        assert (re.fullmatch(NAME, name) is not None) == reads(f"<{name}/>")


@pytest.mark.parametrize("code", [*range(1, 0x300), 0xFFFD, 0xFFFE, 0xFFFF, 0x1F600])
def test_every_character_comes_back(code: int) -> None:
    """Or the replacement character, where XML has none for it."""
    value = f"a{chr(code)}b"
    text = f'<a k="{escaped_attribute(value)}"><b>{escaped_text(value)}</b></a>'
    tree = etree.fromstring(text.encode())
    allowed = code in (9, 10, 13) or (code >= 32 and code not in (0xFFFE, 0xFFFF))
    wanted = value if allowed else "a\ufffdb"
    assert tree.get("k") == wanted
    assert tree[0].text == wanted
