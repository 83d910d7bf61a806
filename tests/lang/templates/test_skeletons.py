"""Queries of a known shape are registered without being parsed, and mean what their text says."""

from __future__ import annotations

import pickle
from importlib import import_module

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.algebra.expressions import Literal, Parameter, walk
from braid.algebra.nodes import walk_nodes
from braid.algebra.queries import Query, members_of
from braid.algebra.text import show
from braid.algebra.types import BIGINT, DOUBLE, DURATION, STRING
from braid.errors import BraidError
from braid.lang import Catalog, Registered, compile_query, load
from braid.lang.parse import parser, syntax
from braid.lang.parse.tokens import Piece
from braid.lang.templates.lifting import expressions_of
from braid.lang.templates.outlines import Outline, outline_of, outlines
from braid.lang.templates.skeletons import KnownQuery, Skeletons
from tests.lang.support import catalog
from tests.properties.expressions import Draw
from tests.properties.test_text_law import PUBLISHER, STOCK, TEXTS

PATTERN = (
    "SELECT Name, Price FROM FILTER{{Name = '{0}' AND Price > {1}}} Stock"
    " NEXT{{$2.Name = $1.Name AND DUR <= {2}min}} Stock"
)


class Forgetful(Skeletons):
    """Knows nothing: every text is parsed and bound."""

    def find(self, outline: Outline, catalog: Catalog) -> KnownQuery | None:
        return None

    def shape(self, outline: Outline) -> None:
        return None


def fully(text: str, known: Catalog, query_id: str = "q") -> Registered:
    """The query as it is without any skeleton."""
    kept, known.skeletons = known.skeletons, Forgetful()
    try:
        return compile_query(text, known, query_id=query_id)
    finally:
        known.skeletons = kept


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were parsed."""
    seen: list[str] = []

    def parse(piece: Piece) -> syntax.Statement:
        seen.append(" ".join(piece.tokens))
        return parser.parse(piece)

    for module in ("braid.lang.catalog.compile", "braid.lang.catalog.load"):
        monkeypatch.setattr(import_module(module), "parse", parse)
    return seen


def test_a_known_shape_is_not_parsed(parses: list[str]) -> None:
    known = catalog()
    first = compile_query(PATTERN.format("IBM", 83, 10), known, query_id="a").query
    parses.clear()
    second = compile_query(PATTERN.format("it''s", 7, 5), known, query_id="b").query
    assert not parses
    assert second.template is first.template
    assert first.values == ("IBM", 83.0, 600_000_000)
    assert second.values == ("it's", 7.0, 300_000_000)
    assert second.template.types == (STRING, DOUBLE, DURATION)
    assert second == fully(second.text, known, "b").query
    assert second.outputs == fully(second.text, known).query.outputs


def test_a_template_has_parameters_and_a_query_has_none() -> None:
    query = compile_query(PATTERN.format("IBM", 83, 10), catalog()).query
    assert {p.index for p in parts(query, template=True) if isinstance(p, Parameter)} == {0, 1, 2}
    assert not any(isinstance(p, Parameter) for p in parts(query))
    assert all(type(p) is Literal for p in parts(query) if isinstance(p, Literal))
    (parameter,) = [p for p in parts(query, template=True) if p == Parameter(0, STRING)]
    assert show(parameter) == ":1"


def parts(query: Query, *, template: bool = False) -> list[object]:
    outputs = query.template.outputs if template else query.outputs
    nodes = (n for o in outputs for n in walk_nodes(o.node))
    return [p for n in nodes for e in expressions_of(n) for p in walk(e)]


def lifted(text: str) -> tuple[object, ...]:
    return compile_query(text, catalog()).query.values


@pytest.mark.parametrize(
    ("predicate", "values"),
    [
        ("i = 5", (5,)),
        ("i = -5", (-5,)),
        ("l > - -5", (5,)),
        ("i > 3000000000", (3_000_000_000,)),
        ("x > 5 AND x < 2.5", (5.0, 2.5)),
        ("s = 'a' OR s LIKE 'b%'", ("a", "b%")),
        ("s IN ('a', 'b')", ("a", "b")),
        ("day > '2024-05-17'", (19_860,)),
        ("gap <= 1h 30min", (5_400_000_000,)),
        ("gap <= '90 min'", (5_400_000_000,)),
        ("zoned + 5 s < '2024-05-17'", (5_000_000, 1_715_904_000_000_000)),
        ("i BETWEEN 1 AND 2", (1, 2)),
        ("nullif(i, 5) = 7", (5, 7)),
    ],
)
def test_what_is_lifted(predicate: str, values: tuple[object, ...]) -> None:
    assert lifted(f"FROM FILTER{{{predicate}}} Wide") == values


@pytest.mark.parametrize(
    "text",
    [
        "FROM FILTER{regexp_like(s, 'a+')} Wide",
        "SELECT replace(s, 'a', 'b') AS r, round(x, 2) AS two FROM Wide",
        "SELECT list[0] AS first, map['k'] AS k, concat(s, '!') AS more FROM Wide",
        "SELECT CAST(x AS DECIMAL(10, 2)) AS d FROM Wide",
        "FROM Stock NEXT{DUR <= 1.5} Stock",
        "FROM Stock",
    ],
)
def test_what_decides_more_than_a_value_stays(text: str) -> None:
    assert lifted(text) == ()


def test_what_stays_tells_templates_apart() -> None:
    known = catalog()
    queries = [
        compile_query(f"SELECT round(x, {digits}) AS r FROM FILTER{{i > {i}}} Wide", known).query
        for digits, i in [(1, 1), (2, 2), (1, 3)]
    ]
    assert queries[0].template is queries[2].template is not queries[1].template
    assert [q.values for q in queries] == [(1,), (2,), (3,)]
    for query in queries:
        assert query.outputs == fully(query.text, known).query.outputs


def test_another_layout_is_the_same_template() -> None:
    known = catalog()
    first = compile_query("SELECT Name FROM FILTER{Price>5}Stock", known).query
    text = "  select  Name -- the name\nFROM FILTER { Price > 6 } Stock -- all of it\n ;"
    assert compile_query(text, known).query.template is first.template


def test_constants_of_another_type_are_another_template() -> None:
    """Beside an INT, what fits is INT; what does not makes the column a BIGINT."""
    known = catalog()
    texts = [f"FROM FILTER{{i > {c}}} Wide" for c in (5, 3_000_000_000, 6, 4_000_000_000)]
    queries = [compile_query(text, known).query for text in texts]
    assert [q.template.types for q in queries] == [(pa.int32(),), (BIGINT,)] * 2
    assert queries[0].template is queries[2].template
    assert queries[1].template is queries[3].template


def test_errors_are_those_of_the_full_path() -> None:
    known = catalog()
    compile_query("FROM FILTER{l > 5 AND day > '2024-05-17' AND gap < 5 s} Wide", known)
    for text, code in [
        ("FROM FILTER{l > 9223372036854775808 AND day > '2024-05-17' AND gap < 5 s} Wide", "E112"),
        ("FROM FILTER{l > 5 AND day > '2024-55-17' AND gap < 5 s} Wide", "E112"),
        ("FROM FILTER{l > 5 AND day > '2024-05-17' AND gap < 99999999999999 s} Wide", "E112"),
        ("FROM FILTER{l > 5 AND day > '2024-05-17' AND gap < 1e400 s} Wide", "E112"),
    ]:
        with pytest.raises(BraidError) as caught:
            compile_query(text, known)
        assert caught.value.code == code
        with pytest.raises(BraidError) as expected:
            fully(text, known)
        assert caught.value.code == expected.value.code
        assert expected.value.render().replace(" in query 'q'", "") == caught.value.render()


# --- what names mean ---


def test_a_published_stream_that_changes(parses: list[str]) -> None:
    known = Catalog()
    load("CREATE STREAM S (a INT, b STRING, t BIGINT) TIME t;", known)
    load("CREATE QUERY p AS SELECT a FROM S PUBLISH P;", known)
    before = compile_query("FROM FILTER{a > 5} P", known).query
    known.remove_query("p")
    with pytest.raises(BraidError, match="E105"):
        compile_query("FROM FILTER{a > 6} P", known)
    load("CREATE QUERY p AS SELECT CAST(a AS DOUBLE) AS a FROM S PUBLISH P;", known)
    after = compile_query("FROM FILTER{a > 6} P", known).query
    assert after.template is not before.template
    assert after.values == (6.0,)
    parses.clear()
    assert compile_query("FROM FILTER{a > 7} P", known).query.template is after.template
    assert not parses


def test_functions_belong_to_a_catalog() -> None:
    known = catalog()
    known.functions.register("fee", lambda price: price, ["DOUBLE"], "DOUBLE")
    first = compile_query("FROM FILTER{fee(Price) > 5} Stock", known).query
    assert (
        compile_query("FROM FILTER{fee(Price) > 6} Stock", known).query.template is first.template
    )
    with pytest.raises(BraidError, match="E106"):
        compile_query("FROM FILTER{fee(Price) > 7} Stock", catalog())
    other = catalog()
    other.skeletons = known.skeletons
    with pytest.raises(BraidError, match="E106"):
        compile_query("FROM FILTER{fee(Price) > 7} Stock", other)


def test_published_names_differ_and_the_nodes_are_shared(parses: list[str]) -> None:
    known = catalog()
    text = "SELECT Name FROM FILTER{{Price > {0}}} Stock PUBLISH {1}"
    a = compile_query(text.format(1, "A"), known).query
    parses.clear()
    b = compile_query(text.format(2, "`B b`"), known).query
    bare = compile_query("SELECT Name FROM FILTER{Price > 3} Stock", known).query
    assert len(parses) == 1
    assert (a.publishes, b.publishes, bare.publishes) == (("A",), ("B b",), ())
    assert a.template.outputs[-1].node is b.template.outputs[-1].node
    assert a.template.base is b.template.base is bare.template
    assert b.reads == ("Stock",)
    assert b.outputs == fully(text.format(2, "`B b`"), known).query.outputs


def test_a_known_shape_is_still_checked() -> None:
    known = catalog()
    text = "SELECT Name FROM FILTER{{Price > {0}}} Stock PUBLISH {1}"
    known.add_query(compile_query(text.format(1, "A"), known, query_id="a").query)
    again = compile_query(text.format(2, "A"), known, query_id="b").query
    with pytest.raises(BraidError, match="E132"):
        known.add_query(again)
    same = compile_query(text.format(2, "B"), known, query_id="a").query
    with pytest.raises(BraidError, match="E131"):
        known.add_query(same)
    assert compile_query("FROM FILTER{Price > 1} Stock PUBLISH Up", known)
    with pytest.raises(BraidError, match="E100"):
        compile_query("FROM FILTER{Price > 1} Stock PUBLISH SELECT", known)
    compile_query("FROM (FROM FILTER{Price > 1} Stock PUBLISH Sub) PUBLISH Out", known)
    with pytest.raises(BraidError, match="E132"):
        compile_query("FROM (FROM FILTER{Price > 1} Stock PUBLISH Sub) PUBLISH Sub", known)


def test_warnings_are_given_to_each() -> None:
    known = catalog()
    for number in range(3):
        text = f"FROM FILTER{{Price > {number}}} Stock NEXT{{$1.Name = $2.Name}} Stock"
        (notice,) = compile_query(text, known, query_id=f"q{number}").notices
        assert (notice.code, notice.query) == ("W201", f"q{number}")
    bounded = PATTERN.format("IBM", 83, 10)
    assert not compile_query(bounded, known).notices
    assert not compile_query(PATTERN.format("IBM", 8, 1), known).notices


# --- files ---


def test_a_file_parses_each_shape_once(parses: list[str]) -> None:
    known = catalog()
    parses.clear()
    lines = [f"CREATE QUERY q{i} AS {PATTERN.format(f'N{i}', i, i + 1)}" for i in range(50)]
    lines += [f"-- rule {i}\nSELECT * FROM FILTER{{Price > {i}}} Stock" for i in range(50)]
    loaded = load(";\n".join(lines), known, name="rules.cel")
    assert len(parses) == 2
    assert [q.id for q in loaded.queries[:2]] == ["q0", "q1"]
    assert [q.id for q in loaded.queries[-2:]] == ["rules:49", "rules:50"]
    assert loaded.queries[-1].text == "SELECT * FROM FILTER{Price > 49} Stock"
    assert len({q.template for q in loaded.queries}) == 2
    assert [(m.ids[0].as_py(), len(m)) for m in known.members()] == [
        ("ibm", 1),
        ("q0", 50),
        ("rules:1", 50),
    ]


def test_a_file_with_errors_among_known_shapes() -> None:
    text = (
        "CREATE STREAM S (a INT, t BIGINT) TIME t; CREATE STREAM S2 (b INTERVAL);\n"
        "CREATE QUERY a AS FROM FILTER{a > 1} S PUBLISH A;\n"
        "CREATE QUERY a AS FROM FILTER{a > 2} S PUBLISH B;\n"
        "CREATE QUERY c AS FROM FILTER{a > 3} S PUBLISH A;\n"
        "CREATE QUERY d AS FROM FILTER{a > 9223372036854775808} S PUBLISH D;\n"
        "CREATE QUERY e AS FROM FILTER{a > 4} S PUBLISH E;\n"
        "CREATE QUERY g AS FROM FILTER{b > 1.5 s} S2;\n"
        "CREATE QUERY h AS FROM FILTER{b > 1e400 s} S2;\n"
        "FROM FILTER{a > 'unclosed} S;\n"
        "CREATE QUERY f AS FROM D;\n"
    )
    known, forgetful = Catalog(), Catalog()
    forgetful.skeletons = Forgetful()
    found = outcome(text, known)
    assert found == outcome(text, forgetful)
    assert [code for code in ("E131", "E132", "E112", "E102") if code not in found[1]] == []
    assert not known.queries
    assert not known.streams


def outcome(text: str, known: Catalog) -> tuple[object, str]:
    """What a file brings, or what is wrong with it."""
    try:
        loaded = load(text, known, name="rules.cel")
    except BraidError as error:
        return (), error.render()
    return loaded, ""


def test_outlines_cut_where_the_lexer_does() -> None:
    text = """
    -- a comment; with 'quotes' and 1
    CREATE QUERY `my query` AS SELECT a1, $1.b2, `c;3` -- 5;
    FROM FILTER{x > .5 AND y = 'a;''b' AND z < 5min AND 1e3-2.5 > 1.} S1 PUBLISH P;
    ; ;
    FROM S
    """
    first, second = outlines(text)
    assert isinstance(first, Outline)
    assert isinstance(second, Outline)
    assert (first.name, first.publish) == ("my query", "P")
    assert first.texts == [".5", "'a;''b'", "5", "1e3", "2.5", "1"]
    assert text[second.start : second.end] == "FROM S"
    assert outline_of("FROM S; FROM S") is None
    assert outline_of("FROM FILTER{a = 'x} S") is None


# --- queries ---


def test_queries_share_a_template_in_one_pickle() -> None:
    known = catalog()
    queries = [
        compile_query(PATTERN.format("A", i, 1), known, query_id=f"q{i}").query for i in range(100)
    ]
    assert not hasattr(queries[0], "__dict__")
    data = pickle.dumps(queries)
    copies = pickle.loads(data)
    assert copies == queries
    assert len({q.template for q in copies}) == 1
    assert len(data) < 100 * 300


def test_members_of_queries() -> None:
    known = catalog()
    texts = {
        "a": PATTERN.format("A", 1, 1),
        "b": "FROM Stock",
        "c": PATTERN.format("C", 2, 2),
        "d": "FROM FILTER{d > 1.5 AND day > '1970-01-02'} Wide",
    }
    queries = [compile_query(text, known, query_id=i).query for i, text in texts.items()]
    first, second, third = members_of(queries)
    assert first.ids.to_pylist() == ["a", "c"]
    assert [array.to_pylist() for array in first.values[:2]] == [["A", "C"], [1.0, 2.0]]
    assert list(first.rows()) == [queries[0].values, queries[2].values]
    assert (second.ids.to_pylist(), second.values) == (["b"], ())
    assert list(second.rows()) == [()]
    assert third.row(0) == queries[3].values
    assert third.template.instantiate(third.row(0)) == queries[3].outputs
    (alone,) = members_of([Query("x", "", queries[1].outputs)])
    assert alone.template.types == ()


def test_members_come_after_what_they_read() -> None:
    known = Catalog()
    load(
        "CREATE STREAM S (a INT, t BIGINT) TIME t;"
        "CREATE QUERY r1 AS FROM FILTER{a > 1} P; CREATE QUERY p AS FROM S PUBLISH P;"
        "CREATE QUERY r2 AS FROM FILTER{a > 2} P; CREATE QUERY s AS FROM FILTER{a > 2} S",
        known,
    )
    assert [m.ids.to_pylist() for m in known.members()] == [["p"], ["s"], ["r1", "r2"]]


# --- the law: the same as without skeletons ---

#: Constants by kind: ordinary ones, and those at the edges of types.
NUMBERS = ["0", "1", "3", "007", "127", "128", "2147483648", "9223372036854775807"]
FRACTIONS = ["0.5", "1.0", ".25", "1e3", "1.5E-2", "1.555", "123456789.123456789", "1e400"]
STRINGS = ["'a'", "'abc'", "''", "'it''s'", '"x"', "'a%'", "'2024-05-17'", "'10min'"]
TOO_LARGE = "9223372036854775808"

WIDE = [
    "FROM FILTER{{d > {f} AND i = {i} AND f < {f} AND l <> {i}}} Wide",
    "FROM FILTER{{d IN ({f}, {i}) OR i IN ({i}, {i}) OR s IN ({s}, {s})}} Wide",
    "SELECT d * {f} AS a, d + {i} AS b, -x - {i} AS c, i % {i} AS m, - {f} AS n FROM Wide",
    "FROM FILTER{{day > '2024-05-17' AND zoned < {s} AND gap BETWEEN {i} s AND {i}h {f}min}} Wide",
    "SELECT CASE i WHEN {i} THEN {f} ELSE {i} END AS v, coalesce(i, {i}) AS w FROM Wide PUBLISH W",
    "FROM FILTER{{contains(s, {s}) AND s LIKE {s} AND length(s) > {i} AND abs(-{i}) > {f}}} Wide",
    "SELECT substring(s, {i}, {i}) AS u, s || {s} AS v, round(x, {i}) AS r FROM Wide",
    "FROM Wide NEXT{{$1.i = $2.l + {i} AND DUR <= {i} s AND DUR < {f}}} (SELECT l FROM Wide)",
    "FROM FILTER{{nullif(i, {i}) > greatest(l, {i}) AND CAST({i} AS TINYINT) = {i}}} Wide",
    "SELECT list[{i}] AS e, map[{s}] AS k, CAST({s} AS DATE) AS t FROM Wide",
]


@st.composite
def same_shape(draw: Draw) -> list[str]:
    """Several texts that differ only in their constants."""
    shape = draw(st.sampled_from([*TEXTS, PUBLISHER, *WIDE]))
    if "{0}" in shape or "{1}" in shape or shape not in WIDE:
        number = st.sampled_from([*NUMBERS, *FRACTIONS])
        constants = st.tuples(number, st.sampled_from([*NUMBERS, TOO_LARGE]))
        return [shape.format(*draw(constants)) for _ in range(3)]
    return [_filled(draw, shape) for _ in range(3)]


def _filled(draw: Draw, shape: str) -> str:
    """Each place of a shape with a constant of its own."""
    choices = {"{i}": [*NUMBERS, TOO_LARGE], "{f}": FRACTIONS, "{s}": STRINGS}
    text = shape
    for place, constants in choices.items():
        while place in text:
            text = text.replace(place, draw(st.sampled_from(constants)), 1)
    return text.replace("{{", "{").replace("}}", "}")


def law_catalog() -> Catalog:
    known = catalog()
    law = Catalog()
    law.add_stream(STOCK)
    law.add_stream(known.streams["Wide"])
    first = PUBLISHER.format("0", "1")
    law.add_query(compile_query(first, law, query_id="first").query)
    return law


@given(same_shape())
def test_a_skeleton_gives_what_the_text_says(texts: list[str]) -> None:
    known = law_catalog()
    for text in [*texts, *texts]:
        assert bound(text, known) == bound_fully(text, known), text


def bound(text: str, known: Catalog) -> object:
    try:
        found = compile_query(text, known, query_id="q")
    except BraidError as error:
        return error.render()
    return found.query.outputs, found.notices, found.query.reads, found.query.publishes


def bound_fully(text: str, known: Catalog) -> object:
    kept, known.skeletons = known.skeletons, Forgetful()
    try:
        return bound(text, known)
    finally:
        known.skeletons = kept


@given(st.lists(same_shape(), min_size=1, max_size=3), st.data())
def test_a_file_gives_what_its_texts_say(shapes: list[list[str]], data: st.DataObject) -> None:
    texts = data.draw(st.permutations([text for texts in shapes for text in texts]))
    statements = []
    for number, text in enumerate(texts):
        text = text.replace("PUBLISH First", f"PUBLISH First{number}")
        head = data.draw(st.sampled_from(["", f"CREATE QUERY q{number} AS ", "create query q AS "]))
        statements.append(f"{head}{text}")
    ends = data.draw(st.sampled_from([";", "; -- rule\n", ";\n\n", " -- 'x\n;"]))
    known, forgetful = law_catalog(), law_catalog()
    forgetful.skeletons = Forgetful()
    assert outcome(ends.join(statements), known) == outcome(ends.join(statements), forgetful)
    assert known.queries == forgetful.queries
