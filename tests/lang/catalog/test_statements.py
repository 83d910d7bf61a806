"""Files of statements, the catalog, declarations of streams."""

from __future__ import annotations

import pyarrow as pa
import pytest

from braid.algebra.streams import Stream
from braid.errors import BraidError, ConfigError, QueryErrors
from braid.lang import Catalog, Loaded, compile_query, load, parse_duration, stream_from_schema
from tests.lang.support import catalog, pointed_at

STOCK = "CREATE STREAM Stock (Name STRING, Price DOUBLE, ts TIMESTAMP) TIME ts LATENESS 10 SECONDS;"


def loaded(text: str, *, name: str | None = None) -> tuple[Loaded, Catalog]:
    known = Catalog()
    return load(text, known, name=name), known


def failures(text: str, known: Catalog | None = None, name: str | None = None) -> list[BraidError]:
    known = known or Catalog()
    before = (dict(known.streams), dict(known.queries))
    with pytest.raises(QueryErrors) as caught:
        load(text, known, name=name)
    assert (known.streams, known.queries) == before
    return list(caught.value.errors)


# --- CREATE STREAM ---


def stream(text: str) -> Stream:
    (found,) = loaded(text)[0].streams
    return found


def test_point_events() -> None:
    found = stream(STOCK)
    assert found.time == ("ts",)
    assert found.lateness == 10_000_000
    assert found.schema.names == ("Name", "Price")
    assert found.unit == "us"


def test_intervals_ticks_and_arrival() -> None:
    interval = stream("CREATE STREAM S (a INT, t0 TIMESTAMP, t1 TIMESTAMP) TIME (t0, t1)")
    assert interval.time == ("t0", "t1")
    ticks = stream("create stream S (a INT, t BIGINT, n INT) time t lateness 5 sequence n")
    assert (ticks.unit, ticks.lateness, ticks.sequence) == ("tick", 5, "n")
    assert stream("CREATE STREAM S (a INT)").stamped_on_arrival
    shared = stream("CREATE STREAM S (a INT) SHARABLE WITH T, `U V`;")
    assert shared.sharable == ("T", "U V")


def test_types_with_parameters() -> None:
    found = stream(
        "CREATE STREAM S (a DECIMAL(12, 3), b ARRAY<INT>, c STRUCT<x: INT, y: ARRAY<STRING>>, "
        "d MAP<STRING, DECIMAL(5, 1)>, e VARCHAR(10), f decimal, time DATE, end STRING)"
    )
    assert [str(a.type) for a in found.schema] == [
        "decimal128(12, 3)",
        "list<item: int32>",
        "struct<x: int32, y: list<item: string>>",
        "map<string, decimal128(5, 1)>",
        "string",
        "decimal128(10, 0)",
        "date32[day]",
        "string",
    ]


@pytest.mark.parametrize(
    ("text", "code", "under"),
    [
        ("CREATE STREAM S (a INT, a INT)", "E108", "a"),
        ("CREATE STREAM S (a INTT)", "E121", "INTT"),
        ("CREATE STREAM S (a ARRAY)", "E121", "ARRAY"),
        ("CREATE STREAM S (a STRUCT<INT>)", "E121", "STRUCT<INT>"),
        ("CREATE STREAM S (a DOUBLE(3))", "E121", "DOUBLE(3)"),
        ("CREATE STREAM S (a INT) TIME b", "E150", "b"),
        ("CREATE STREAM S (a STRING) TIME a", "E151", "a"),
        ("CREATE STREAM S (a INT, b TIMESTAMP) TIME (a, b)", "E151", "a, b"),
        ("CREATE STREAM S (a INT) TIME a LATENESS 10 s", "E152", "10 s"),
        ("CREATE STREAM S (a INT) LATENESS 10 s", "E152", "10 s"),
        ("CREATE STREAM S (a INT) SEQUENCE b", "E153", "b"),
        ("CREATE STREAM S (a INT) SEQUENCE a SEQUENCE a", "E136", "a"),
        ("CREATE STREAM S (a TIMESTAMP) TIME a LATENESS 5 parsecs", "E113", "parsecs"),
    ],
)
def test_wrong_declarations(text: str, code: str, under: str) -> None:
    (problem,) = failures(text)
    assert problem.code == code, problem.render()
    assert pointed_at(problem) == under


def test_stream_from_schema() -> None:
    schema = pa.schema(
        [
            ("k", pa.dictionary(pa.int32(), pa.string())),
            ("u", pa.uint32()),
            ("ts", pa.timestamp("ns")),
        ]
    )
    found = stream_from_schema("S", schema, time="ts", lateness="1 min", sequence="u")
    assert [str(a.type) for a in found.columns] == ["string", "int64", "timestamp[us]"]
    assert found.lateness == 60_000_000
    assert stream_from_schema("S", schema, time="ts", lateness=5).lateness == 5
    assert stream_from_schema("S", schema, time="u", lateness="5").lateness == 5
    assert stream_from_schema("S", schema).stamped_on_arrival


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"time": "t"}, "E150"),
        ({"time": "s"}, "E151"),
        ({"time": "ts", "lateness": "soon"}, "E113"),
        ({"time": "ts", "lateness": -1}, "E152"),
        ({"time": "n", "lateness": "5 s"}, "E152"),
        ({"lateness": "5 s"}, "E152"),
        ({"time": "ts", "sequence": "x"}, "E153"),
        ({"time": ["ts", "n"]}, "E151"),
        ({"time": ["ts", "ts"]}, "E150"),
    ],
)
def test_stream_from_schema_refuses(options: dict[str, object], code: str) -> None:
    schema = pa.schema([("s", pa.string()), ("n", pa.int64()), ("ts", pa.timestamp("us"))])
    with pytest.raises(ConfigError, match=code):
        stream_from_schema("S", schema, **options)


def test_columns_of_the_same_name() -> None:
    schema = pa.schema([("s", pa.string()), ("s", pa.int64())])
    with pytest.raises(ConfigError, match="E108"):
        stream_from_schema("S", schema, time=None, lateness=None, sequence=None)


@pytest.mark.parametrize(
    "text", ["10 seconds", "10s", "10 SEC", " 10  s ", "10000 ms", "10000000us"]
)
def test_parse_duration(text: str) -> None:
    assert parse_duration(text) == 10_000_000


@pytest.mark.parametrize("text", ["", "10", "s", "10 m", "ten s", "10 s x", "1 month"])
def test_parse_duration_refuses(text: str) -> None:
    with pytest.raises(ConfigError, match="E113"):
        parse_duration(text)


# --- files ---


def test_a_file_of_statements() -> None:
    result, known = loaded(
        f"""-- rules
        {STOCK}
        CREATE QUERY a AS SELECT Name FROM Low PUBLISH A;   -- reads what comes later
        SELECT * FROM FILTER{{Price < 5}} Stock PUBLISH Low;
        ;;
        FROM A; -- the end
        """,
        name="dir/rules.cel",
    )
    assert [q.id for q in result.queries] == ["a", "rules:1", "rules:2"]
    assert list(known.queries) == ["rules:1", "a", "rules:2"]
    assert known.queries["a"].text == "CREATE QUERY a AS SELECT Name FROM Low PUBLISH A"
    low = known.publisher("Low")
    assert low is not None
    assert low.id == "rules:1"
    assert known.publisher("Stock") is None


def test_bare_queries_of_an_unnamed_text_have_ids_from_their_text() -> None:
    text = f"{STOCK} FROM Stock; FROM Stock;"
    result, _ = loaded(text)
    first, second = (q.id for q in result.queries)
    assert first == compile_query("FROM Stock", catalog()).query.id
    assert second == f"{first}_2"


def test_nothing_at_all() -> None:
    for text in ("", "   \n", "-- only a comment", ";;;", "-- one\n;\n-- two"):
        result, _ = loaded(text)
        assert result == Loaded((), (), (), ())


def test_every_error_of_a_file_is_shown_at_its_place() -> None:
    text = f"""{STOCK}
CREATE QUERY one AS SELECT Prise FROM Stock;
CREATE QUERY two AS SELECT Name FROM FILTER{{Price > }} Stock;
CREATE QUERY three AS SELECT 'open FROM Stock;
CREATE QUERY four AS
  SELECT Name FROM Stok;
CREATE QUERY five AS SELECT ';' AS semicolon FROM Stock; -- fine; really
CREATE QUERY six AS DETECT Fraud FROM Stock;
"""
    shown = [e.render().splitlines()[0] for e in failures(text, name="rules.cel")]
    places = [line.split(": ")[0] for line in shown]
    assert places == [
        "error[E103] in query 'one' (rules.cel:2:28)",
        "error[E100] in query 'two' (rules.cel:3:53)",
        "error[E102] in query 'three' (rules.cel:4:30)",
        "error[E105] in query 'four' (rules.cel:6:20)",
        "error[E200] in query 'six' (rules.cel:8:28)",
    ]


def test_a_broken_query_does_not_make_its_readers_wrong() -> None:
    text = f"""{STOCK}
CREATE QUERY a AS SELECT Prise FROM Stock PUBLISH A;
CREATE QUERY b AS SELECT FROM Stock PUBLISH B;
CREATE QUERY c AS SELECT * FROM A NEXT B PUBLISH C;
CREATE QUERY d AS SELECT * FROM C;"""
    assert [e.code for e in failures(text)] == ["E103", "E100"]


def test_cycles_are_shown() -> None:
    text = f"""{STOCK}
CREATE QUERY a AS SELECT * FROM C PUBLISH A;
CREATE QUERY b AS SELECT * FROM A PUBLISH B;
CREATE QUERY c AS SELECT * FROM B PUBLISH C;
CREATE QUERY d AS SELECT * FROM A;
CREATE QUERY e AS SELECT * FROM Stok;"""
    cycle, other = failures(text)
    assert cycle.code == "E133"
    assert "a -> b -> c -> a" in cycle.message
    assert pointed_at(cycle) == "C"
    assert other.code == "E105"


def test_two_cycles_and_one_query_that_reads_itself() -> None:
    text = """CREATE QUERY a AS SELECT * FROM B PUBLISH A;
CREATE QUERY b AS SELECT * FROM A PUBLISH B;
CREATE QUERY c AS SELECT * FROM D PUBLISH C;
CREATE QUERY d AS SELECT * FROM C PUBLISH D;
CREATE QUERY e AS SELECT * FROM E PUBLISH E;"""
    assert [e.code for e in failures(text)] == ["E133", "E133", "E133"]


def test_duplicates() -> None:
    text = f"""{STOCK}
CREATE STREAM Stock (a INT);
CREATE QUERY a AS SELECT * FROM Stock PUBLISH A;
CREATE QUERY a AS SELECT * FROM Stock PUBLISH B;
CREATE QUERY c AS SELECT * FROM Stock PUBLISH A;
CREATE QUERY d AS SELECT * FROM Stock PUBLISH Stock;
CREATE QUERY e AS SELECT * FROM B;"""
    problems = failures(text)
    assert [e.code for e in problems] == ["E130", "E131", "E132", "E132"]
    assert [pointed_at(e) for e in problems] == ["Stock", "a", "A", "Stock"]


def test_drop() -> None:
    known = catalog()
    result = load("DROP QUERY ibm; CREATE QUERY ibm AS FROM Stock PUBLISH IBMStock;", known)
    assert result.dropped == ("ibm",)
    assert [q.id for q in result.queries] == ["ibm"]
    published = known.publisher("IBMStock")
    assert published is not None
    assert published.node.schema.names == ("Name", "Price", "Volume")


def test_drop_refuses() -> None:
    known = catalog()
    (problem,) = failures("DROP QUERY imb;", known)
    assert problem.code == "E134"
    assert problem.hint == "did you mean ibm? queries: ibm"
    load("CREATE QUERY reader AS FROM IBMStock;", known)
    (problem,) = failures("DROP QUERY ibm;", known)
    assert problem.code == "E135"
    assert "reader" in problem.message
    load("DROP QUERY reader; DROP QUERY ibm;", known)
    assert not known.queries
    assert known.source("IBMStock") is None


def test_what_ends_cannot_be_read() -> None:
    known = catalog()
    known.end_query("ibm", 7)
    for text in ("CREATE QUERY reader AS FROM IBMStock;", "CREATE VIEW V AS FROM IBMStock;"):
        (problem,) = failures(text, known)
        assert problem.code == "E139"
        assert "ends at 7" in problem.message
    failures("DROP QUERY ibm; DROP QUERY nobody;", known)
    assert known.ending == {"ibm": 7}  # all or nothing
    load("DROP QUERY ibm;", known)
    assert not known.ending


# --- one query ---


def test_ids() -> None:
    known = catalog()
    text = "SELECT Name FROM Stock"
    assert compile_query(text, known, query_id="x").query.id == "x"
    assert compile_query(f"CREATE QUERY y AS {text};", known).query.id == "y"
    derived = compile_query(text, known).query.id
    assert derived == compile_query(f"  {text}\n", known).query.id
    assert derived.startswith("q_")
    assert "x" not in known.queries


# --- the catalog ---


def test_catalog_refuses_duplicates_and_cycles() -> None:
    known = catalog()
    query = compile_query("FROM Stock PUBLISH A", known, query_id="a").query
    known.add_query(query)
    with pytest.raises(BraidError, match="E131"):
        known.add_query(query)
    other = compile_query("FROM Stock PUBLISH A", known, query_id="b").query
    with pytest.raises(BraidError, match="E132"):
        known.add_query(other)
    with pytest.raises(BraidError, match="E130"):
        known.add_stream(Stream("A", known.streams["Stock"].columns))

    later = Catalog()
    load("CREATE STREAM X (a INT);", later)
    reads_x = compile_query("FROM X PUBLISH Y", later, query_id="y").query
    late = Catalog()
    load("CREATE STREAM Y (a INT);", late)
    reads_y = compile_query("FROM Y PUBLISH X", late, query_id="x").query
    empty = Catalog()
    empty.add_query(reads_x)
    with pytest.raises(BraidError, match="x -> y -> x"):
        empty.add_query(reads_y)
    assert list(empty.queries) == ["y"]


def test_copies_are_independent() -> None:
    known = catalog()
    other = known.copy()
    other.add_query(compile_query("FROM Stock PUBLISH A", other, query_id="a").query)
    other.functions.register("f", abs, ["DOUBLE"], "DOUBLE")
    assert known.source("A") is None
    assert len(known.functions) == 0
    assert other.source("A") is not None


def test_names_with_two_underscores_are_refused() -> None:
    schema = pa.schema([("__start", pa.int64()), ("t", pa.int64())])
    with pytest.raises(ConfigError, match=r"E154.*'__start'"):
        stream_from_schema("S", schema, time="t", lateness=None, sequence=None)
