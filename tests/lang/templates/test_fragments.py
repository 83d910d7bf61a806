"""Queries whose parts are known are put together from them, and mean what their text says."""

from __future__ import annotations

from importlib import import_module

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.errors import BraidError
from braid.lang import Catalog, compile_query, load
from braid.lang.parse import parser, syntax
from braid.lang.parse.tokens import Piece
from braid.lang.templates.fragments import Fragment, cut
from braid.lang.templates.outlines import outline_of
from tests.lang.support import catalog
from tests.lang.templates.test_skeletons import Forgetful, bound, bound_fully, fully, outcome
from tests.properties.expressions import Draw


def parts(text: str) -> tuple[str, tuple[int, ...], list[str]] | None:
    outline = outline_of(text)
    assert outline is not None
    found = cut(outline.key)
    if found is None:
        return None
    return found.frame, found.places, [f.key for f in found.fragments]


def test_predicates_are_cut_out_of_an_outline() -> None:
    text = "SELECT 5 AS n FROM FILTER{ a = 1 AND b > 2.5 } (S NEXT{} FILTER{c} T) PUBLISH P"
    assert parts(text) == (
        "SELECT \0i AS n FROM FILTER{ \0h } (S NEXT{} FILTER{\0h} T) \0p",
        (0,),
        ["a = \0i AND b > \0f", "c"],
    )
    outline = outline_of("FROM S NEXT{a = 1} FILTER{b IN (2, 'x')} S")
    assert outline is not None
    assert cut(outline.key) == (
        "FROM S NEXT{\0h} FILTER{\0h} S",
        (),
        (Fragment("a = \0i", 0, 1), Fragment("b IN (\0i, \0s)", 1, 3)),
    )


def test_only_the_predicates_of_a_fold_are_cut_out() -> None:
    text = "FROM S FOLD{f(a, [1, 2]) > 3, , $.n + 4 AS n, g(5) AS m} S"
    assert parts(text) == (
        "FROM S FOLD{\0h, , $.n + \0i AS n, g(\0i) AS m} S",
        (3, 4),
        ["f(a, [\0i, \0i]) > \0i"],
    )
    assert parts("FROM SAMETIME{count(*) AS n, sum(a + 1) AS m} S") is None
    assert parts("FROM FILTER{`}` = 1} S") is None
    assert parts("FROM S") is None


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were parsed as a whole."""
    seen: list[str] = []

    def parse(piece: Piece) -> syntax.Statement:
        seen.append(" ".join(piece.tokens))
        return parser.parse(piece)

    for module in ("braid.lang.catalog.compile", "braid.lang.catalog.load"):
        monkeypatch.setattr(import_module(module), "parse", parse)
    return seen


TWO = "SELECT Name FROM FILTER{{{0}}} Stock NEXT{{{1} AND DUR <= {2}min}} Stock"


def test_a_query_of_known_parts_is_not_parsed(parses: list[str]) -> None:
    known = catalog()
    parses.clear()
    compile_query(TWO.format("Price > 1", "$1.Name = $2.Name", 1), known)
    compile_query(TWO.format("Volume > 2", "$1.Name = $2.Name", 2), known)
    assert len(parses) == 1
    third = compile_query(TWO.format("Volume > 3", "$2.Price > 4 * $1.Price", 5), known).query
    assert len(parses) == 1
    assert third.values == (3, 4.0, 300_000_000)
    assert third.outputs == fully(third.text, known).query.outputs


def test_put_together_or_not_it_is_the_same_template() -> None:
    known = catalog()
    first = compile_query(TWO.format("Price > 1", "$1.Name = $2.Name", 1), known).query
    compile_query(TWO.format("Volume > 2", "$1.Name = $2.Name", 2), known)
    spaced = TWO.format("Price   > 1", "$1.Name = $2.Name", 1)
    assert compile_query(spaced, known).query.template is first.template
    counted = "SELECT {0} * Price AS p, {1} AS n FROM FILTER{{{2}}} Stock"
    a = compile_query(counted.format(2.0, 1, "Price > 1"), known).query
    compile_query(counted.format(3.0, 2, "Volume > 1"), known)
    b = compile_query(counted.format(4.0, 3, " Price > 2"), known).query
    assert a.template is b.template
    assert b.values == (4.0, 3, 2.0)


def test_files_are_put_together_too(parses: list[str]) -> None:
    known, forgetful = catalog(), catalog()
    forgetful.skeletons = Forgetful()
    filters = ["Price > 1", "Volume > 2", "Name = 'x'"]
    nexts = ["$1.Name = $2.Name", "$2.Price > 1.5 * $1.Price"]
    texts = [
        TWO.format(a, b, k + 1) for k, (a, b) in enumerate((a, b) for a in filters for b in nexts)
    ]
    for text in texts[:2]:
        compile_query(text, known)
    for text in texts[2:4]:
        compile_query(text, known)
    parses.clear()
    found = outcome(";\n".join(texts), known)
    assert len(parses) < len(texts)
    assert found == outcome(";\n".join(texts), forgetful)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (TWO.format("Prize > 1", "$1.Name = $2.Name", 1), "E103"),
        (TWO.format("Price >", "$1.Name = $2.Name", 1), "E100"),
        (TWO.format("Price > :p", "$1.Name = $2.Name", 1), "E160"),
        (TWO.format("Price > 1", "$1.Name = $2.Name", "1e400"), "E112"),
        (TWO.format("Price > 1", "Name = 'x'", 1), "E107"),
        (TWO.format("Volume > 9223372036854775808", "$1.Name = $2.Name", 1), "E112"),
        (TWO.format(f"{'(' * 101}Price{')' * 101} > 1", "$1.Name = $2.Name", 1), None),
        (TWO.format(f"{'NOT ' * 110} Price > 1", "$1.Name = $2.Name", 1), "E122"),
    ],
)
def test_errors_are_those_of_the_whole_text(text: str, code: str | None) -> None:
    known = catalog()
    compile_query(TWO.format("Price > 1", "$1.Name = $2.Name", 1), known)
    compile_query(TWO.format("Volume > 2", "$1.Name = $2.Name", 2), known)
    found = bound(text, known)
    assert found == bound_fully(text, known)
    if code is not None:
        assert isinstance(found, str)
        assert code in found


def test_what_a_frame_reads_may_change() -> None:
    known = Catalog()
    load("CREATE STREAM S (a INT, b STRING, t BIGINT) TIME t;", known)
    load("CREATE QUERY p AS SELECT a, b FROM S PUBLISH P;", known)
    for predicate in ("a > 5", "b = 'x'", "a > 7"):
        compile_query(f"FROM FILTER{{{predicate}}} P", known)
    known.remove_query("p")
    with pytest.raises(BraidError, match="E105"):
        compile_query("FROM FILTER{a > 6 AND b = 'y'} P", known)
    load("CREATE QUERY p AS SELECT CAST(a AS DOUBLE) AS a FROM S PUBLISH P;", known)
    with pytest.raises(BraidError, match="E103"):
        compile_query("FROM FILTER{b = 'y'} P", known)
    assert compile_query("FROM FILTER{a < 6} P", known).query.template.types == (pa.float64(),)


def test_what_a_fragment_calls_may_change() -> None:
    known = catalog()
    known.functions.register("fee", lambda price: price, ["DOUBLE"], "DOUBLE")
    for predicate in ("Price > 1", "Volume > 2", "fee(Price) > 3"):
        compile_query(f"FROM FILTER{{{predicate}}} Stock", known)
    other = catalog()
    other.skeletons = known.skeletons
    with pytest.raises(BraidError, match="E106"):
        compile_query("FROM FILTER{fee(Price) > 3} Stock PUBLISH F", other)
    with pytest.raises(BraidError, match="E106"):
        compile_query("FROM FILTER{ fee(Price) > 3 } Stock", other)


def test_warnings_depend_on_all_parts() -> None:
    known = catalog()
    text = "FROM FILTER{{{0}}} (Stock NEXT{{{1}}} Stock)"
    said = {}
    for above in ("Price > 1", "DUR < 5s", "Volume > 2"):
        for inside in ("TRUE", "$1.Name = $2.Name", "DUR <= 2min"):
            query = text.format(above, inside)
            said[above, inside] = bool(compile_query(query, known, query_id="q").notices)
            assert bound(query, known) == bound_fully(query, known)
    assert [key for key, warned in said.items() if warned] == [
        ("Price > 1", "$1.Name = $2.Name"),
        ("Volume > 2", "$1.Name = $2.Name"),
    ]


# --- the law: the same as for the whole text ---

NUMBERS = ["0", "3", "007", "128", "2147483648", "9223372036854775808"]
FRACTIONS = ["0.5", ".25", "1.555", "123456789.123456789", "1e400"]
STRINGS = ["'a'", "''", "'it''s'", "'2024-05-17'", "'10min'"]

FRAMES = [
    "FROM FILTER{{{p}}} Wide",
    "SELECT i, {i} AS n, x * {f} AS y FROM FILTER{{{p}}}(FILTER{{ {p} }} Wide) PUBLISH Out",
    "FROM FILTER{{{p}}} Wide NEXT{{{q}}} (SELECT i AS j, round(x, {i}) AS z FROM FILTER{{{p}}} Wide)",
    "FROM (SELECT l, {i} AS n FROM FILTER{{{p}}} Wide) FOLD{{{q}, , $.n + {i} AS n}} (SELECT l FROM Wide)",
    "FROM FILTER{{{p}}} ((SELECT * FROM FILTER{{{p}}} Wide PUBLISH Sub) UNION Wide)",
    "FROM SAMETIME{{count(*) AS n, max(i + {i}) AS m}}(FILTER{{{p}}} Wide)",
]
PREDICATES = [
    "i > {i}",
    "i BETWEEN {i} AND {i} AND d > {f}",
    "d IN ({f}, {i}) OR s = {s}",
    "day > {s} AND gap < {i}h {f}min",
    "DUR <= {i} s",
    "DUR < {f}",
    "round(x, {i}) > {f} AND s LIKE {s}",
    "regexp_like(s, {s}) OR b",
    "CAST(x AS DECIMAL(10, 2)) > {f}",
    "TRUE",
    "nothing = {i}",
    "i > ",
]
OF_TWO = [
    "DUR <= {i} s",
    "$1.l = $2.l",
    "$1.l > {i} AND DUR < {i} min",
    "$2.i + {i} > $1.i",
    "TRUE",
    "$2.l = {i} AND $1.l BETWEEN {i} AND {f}",
]


@st.composite
def queries(draw: Draw) -> list[str]:
    """Several texts of one frame, with predicates that come again and again."""
    frame = draw(st.sampled_from(FRAMES))
    one = draw(st.lists(st.sampled_from(PREDICATES), min_size=1, max_size=3))
    two = draw(st.lists(st.sampled_from(OF_TWO), min_size=1, max_size=2))
    return [_filled(draw, frame, one, two) for _ in range(draw(st.integers(2, 6)))]


def _filled(draw: Draw, frame: str, one: list[str], two: list[str]) -> str:
    choices = {"{p}": one, "{q}": two, "{i}": NUMBERS, "{f}": FRACTIONS, "{s}": STRINGS}
    text = frame.replace("{{", "\1").replace("}}", "\2")
    for place, known in choices.items():
        while place in text:
            text = text.replace(place, draw(st.sampled_from(known)), 1)
    return text.replace("\1", "{").replace("\2", "}")


@given(queries())
def test_parts_give_what_the_whole_text_says(texts: list[str]) -> None:
    known = catalog()
    for text in [*texts, *texts]:
        assert bound(text, known) == bound_fully(text, known), text


@given(queries())
def test_parts_give_the_template_of_the_whole_text(texts: list[str]) -> None:
    known, whole = catalog(), catalog()
    for text in texts:
        whole.skeletons = Forgetful()
        try:
            found = compile_query(text, known, query_id="q").query
        except BraidError:
            continue
        expected = compile_query(text, whole, query_id="q").query
        assert found.template.outputs == expected.template.outputs
        assert found.template.types == expected.template.types
        assert repr(found.values) == repr(expected.values)
