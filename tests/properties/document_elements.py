"""Random queries that build documents, and others that read what they build: whatever the values are,
an element constructor gives a document, and what is no document is nobody's."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from braid.lang.catalog.catalog import Catalog
from braid.lang.catalog.compile import compile_query
from braid.lang.catalog.load import load
from braid.reference import Event
from tests.properties.expressions import Draw
from tests.properties.plans import Workload

STREAMS = """
CREATE STREAM S (id STRING, doc XML, n BIGINT, t BIGINT) TIME t;
CREATE STREAM J (doc JSON, t BIGINT) TIME t;
"""
#: Values with everything that means something in markup, and what no XML can hold.
VALUES = ("1", "2", "a & b", "<a>1</a>", "]]>", "{x}", "\"'", "ä€😀", " \t\n ", "a\r\nb", "")
JSON_VALUES = (*VALUES, "\x01\x1f", "\x00", "\ufffe", "\ufffd", 1.5, None, True)

#: Blocks that bind x, and perhaps y, of XML and of JSON documents.
BLOCKS = (
    "S//a->x",
    "S/r->x[./a->y]",
    "S/r[./a->x][./@k->y]",
    "S//*->x",
    "J$..a->x",
    "J$->x[.b->y]",
)
JOINED = (
    "S//a->x FOLLOWED BY{x = y, 3} S//a->y",
    "S/r->x JOIN{x/a = y, 2} J$..a->y",
    "S//a->x FOLLOWED BY{x = y, 9} S//*->y FOLLOWED BY{y != z, 9} S/r->z",
)
#: What stands between braces.
EXPRESSIONS = (
    "x", "x", "x", "result", "upper(x)", "concat(x, '<')", "length(x)", "NULL", "nullif(x, '1')",
    "xml_escape(x)", "'a & <b>'", "1.5", "x = '1'",
)  # fmt: skip
TEXTS = ("", "", " ", "text ", "&lt;&#13;", "{{}}", "it's -- ; no comment", "\n  ")
READERS = (
    "P//a->z",
    "P/e->z[./@k->w]",
    "P//*->z",
    "SELECT z FROM P/e->z FOLLOWED BY{z = w, 3} P/e->w",
    "SELECT <again>{z}{result}</again> FROM P//a->z",
    "P//a->z FOLLOWED BY{z = w, 5} S//a->w",
    "P$..a->z",
)


@st.composite
def elements(draw: Draw, expressions: tuple[str, ...], depth: int = 2) -> str:
    name = draw(st.sampled_from(["a", "b", "é.x-1"])) if depth < 2 else "e"
    value = f"{{{draw(st.sampled_from(expressions))}}}"
    attribute = draw(
        st.sampled_from(["", "", ' k="{0}"', " k='<{{{{ it''s {0}'", ' k="&lt; \t{0}{0}"'])
    )
    attribute = attribute.replace("<", "&lt;").format(value)
    if depth == 0 or draw(st.integers(0, 9)) == 0:
        return f"<{name}{attribute}/>"
    inner = []
    for _ in range(draw(st.integers(1, 3))):
        inner.append(draw(st.sampled_from(TEXTS)))
        if draw(st.integers(0, 3)):
            inner.append(f"{{{draw(st.sampled_from(expressions))}}}")
        else:
            inner.append(draw(elements(expressions, depth - 1)))
    return f"<{name}{attribute}>{''.join(inner)}</{name} >"


@st.composite
def publishers(draw: Draw) -> str:
    """A query that publishes P: mostly elements, or texts that may be anything."""
    block = draw(st.sampled_from((*BLOCKS, *BLOCKS, *JOINED)))
    if draw(st.integers(0, 4)) == 0:
        made = draw(st.sampled_from(["concat('<e><a>', x, '</a></e>')", "x", "concat('{', x)"]))
        return f"SELECT {made} AS doc FROM {block} PUBLISH P"
    known = (*EXPRESSIONS, "y", "y", "concat(x, y)") if "->y" in block else EXPRESSIONS
    source = block if draw(st.booleans()) else f"FILTER{{x <> '2'}}({block})"
    kept = draw(st.sampled_from(["{}", "{} AS doc", "x, {}"]))
    return f"SELECT {kept.format(draw(elements(known)))} FROM {source} PUBLISH P"


@st.composite
def events(draw: Draw, stream: str, time: int) -> Event:
    if stream == "J":
        found = draw(st.lists(st.sampled_from(JSON_VALUES), min_size=1, max_size=2))
        text = json.dumps({"a": found, "b": draw(st.sampled_from(JSON_VALUES))})
        return Event((text,), time, time)
    inside = "".join(
        f"<a>{_escaped(draw(st.sampled_from(VALUES)))}</a>" for _ in range(draw(st.integers(1, 2)))
    )
    key = _escaped(draw(st.sampled_from(VALUES))).replace("\n", "&#10;")
    space = draw(st.sampled_from(["", ' xmlns="u"', ' xmlns:p="v" p:q="1"']))
    text = f'<r k="{key}"{space}>{inside}</r>'
    return Event(
        (draw(st.sampled_from([None, "i"])), text, draw(st.sampled_from([None, 3]))), time, time
    )


def _escaped(text: str) -> str:
    for character, escape in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', "&#34;"),
        ("\r", "&#13;"),
    ):
        text = text.replace(character, escape)
    return text


@st.composite
def workloads(draw: Draw) -> Workload:
    catalog = Catalog()
    load(STREAMS, catalog)
    found = [compile_query(draw(publishers()), catalog, query_id="p").query]
    catalog.add_query(found[0])
    for number in range(draw(st.integers(1, 3))):
        text = draw(st.sampled_from(READERS))
        found.append(compile_query(text, catalog, query_id=f"q{number}").query)
        catalog.add_query(found[-1])
    given = {
        stream: [draw(events(stream, t)) for t in draw(st.permutations([1, 2, 2, 3, 5]))[:most]]
        for stream, most in (("S", 3), ("J", 2))
    }
    return Workload(dict(catalog.streams), given, tuple(found))
