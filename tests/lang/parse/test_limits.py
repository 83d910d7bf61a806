"""Limits of texts: each has an error of its own, and every way to an error is linear."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest

from braid.errors import BraidError, ConfigError, QueryError, QueryErrors
from braid.lang import Catalog, compile_query, load, parse_duration, prepare, stream_from_schema
from braid.lang.parse.limits import (
    MAX_CHARACTERS,
    MAX_ERRORS,
    MAX_PROBLEMS,
    MAX_TOKENS,
    whole_number,
)
from tests.lang.support import catalog, error

DIGITS = "9" * 5000


def known() -> Catalog:
    found = catalog()
    load("CREATE STREAM S (doc XML, ts TIMESTAMP) TIME ts;", found)
    load("CREATE STREAM J (doc JSON, ts TIMESTAMP) TIME ts;", found)
    return found


def code_of(text: str, *, file: bool = True) -> str | None:
    streams = known()
    try:
        if file:
            load(text, streams)
        else:
            compile_query(text, streams)
    except BraidError as problem:
        return problem.code
    return None


def rep(unit: str, size: int) -> str:
    return unit * (size // len(unit))


FAMILIES: dict[str, Callable[[int], str]] = {
    "open": lambda n: "FROM " + "(" * n,
    "open expression": lambda n: "FROM FILTER{" + "(" * n,
    "balanced": lambda n: "FROM " + "(" * (n // 2) + "Stock" + ")" * (n // 2),
    "closed": lambda n: "FROM Stock" + ")" * n,
    "AND": lambda n: "FROM FILTER{" + rep("AND ", n),
    "ands": lambda n: "FROM FILTER{Price > 1" + rep(" AND Price > 1", n) + "} Stock",
    "ors": lambda n: "FROM FILTER{Price > 1" + rep(" OR Price > 1", n) + "} Stock",
    "both": lambda n: "FROM FILTER{Price > 1" + rep(" OR Price > 1 AND Volume < 7", n) + "} Stock",
    "wrong": lambda n: "FROM FILTER{Price > 1" + rep(" AND Prise > 1", n) + "} Stock",
    "CASE": lambda n: "SELECT " + rep("CASE ", n) + " FROM Stock",
    "cases": lambda n: "SELECT " + rep("CASE WHEN TRUE THEN ", n) + "1 FROM Stock",
    "whens": lambda n: "SELECT CASE " + rep("WHEN Price > 1 THEN 2 ", n) + " END AS x FROM Stock",
    "joins": lambda n: "SELECT * FROM Stock [Now] AS a" + rep(", Stock [Now] AS b", n),
    "sql joins": lambda n: "SELECT * FROM Stock a" + rep(" LEFT JOIN Stock b ON a.x = b.x", n),
    "block joins": lambda n: "S//a->x" + rep(" JOIN{x=y, 1 day} S//a->y", n),
    "steps": lambda n: "S" + rep("/a", n),
    "members": lambda n: "J$" + rep(".a", n),
    "predicates": lambda n: "S/a" + rep("[./a", n) + rep("]", n // 4),
    "member predicates": lambda n: "J$.a" + rep("[.a", n) + rep("]", n // 3),
    "characters": lambda n: "FROM Stock " + "#" * n,
    "characters apart": lambda n: "FROM Stock " + rep("# ", n),
    "lines": lambda n: "FROM Stock " + rep("#\n", n),
    "unclosed": lambda n: "FROM Stock '" + "a" * n,
    "unclosed lines": lambda n: "FROM Stock " + rep("'abc\n", n),
    "name": lambda n: "FROM " + "a" * n,
    "statements": lambda n: rep("x y;", n),
    "same statements": lambda n: rep("FROM Stock;", n),
    "drops": lambda n: rep("DROP QUERY x;", n),
    "sum": lambda n: "SELECT " + rep("1 + ", n) + "1 AS x FROM Stock",
    "not": lambda n: "FROM FILTER{" + rep("NOT ", n) + "TRUE} Stock",
    "fields": lambda n: "SELECT Name" + rep(".a", n) + " FROM Stock",
    "columns": lambda n: "CREATE STREAM X (a INT" + rep(", a INT", n) + ")",
    "many columns": lambda n: f"CREATE STREAM X ({', '.join(f'c{i} INT' for i in range(n // 10))})",
    "detections": lambda n: rep("DETECT x FROM ", n),
    "selects": lambda n: "FROM " + rep("(SELECT * FROM ", n),
    "period": lambda n: "FROM FILTER{DUR < " + rep("1s ", n) + "} Stock",
    "in": lambda n: "FROM FILTER{Volume IN (1" + rep(", 1", n) + ")} Stock",
}


def calls_of(run: Callable[[], object]) -> int:
    """How many Python functions are called: work that does not depend on the machine."""
    count = 0

    def note(frame: FrameType, event: str, value: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("file", [False, True])
def test_work_grows_with_the_size(family: str, file: bool) -> None:
    code_of("FROM Stock", file=file)
    small, large = (
        calls_of(lambda size=size: code_of(FAMILIES[family](size), file=file))  # type: ignore[misc]
        for size in (1_000, 4_000)
    )
    assert large <= 5 * small + 1_000


@pytest.mark.parametrize("family", FAMILIES)
def test_a_large_text_is_answered(family: str) -> None:
    streams = known()
    text = FAMILIES[family](50_000)
    began = time.process_time()
    shown = ""
    try:
        load(text, streams)
    except BraidError as problem:
        shown = str(problem)
    assert time.process_time() - began < 60  # a hang, not a speed
    assert len(shown) < 1_000 * MAX_ERRORS


# ---- sizes ---------------------------------------------------------------------------------------


def test_ten_thousand_constants() -> None:
    numbers = ", ".join(str(n) for n in range(10_000))
    compile_query(f"FROM FILTER{{Volume IN ({numbers})}} Stock", catalog())
    names = ", ".join(f"'{n:036d}'" for n in range(10_000))
    compile_query(f"FROM FILTER{{Name IN ({names})}} Stock", catalog())


def test_a_statement_that_is_too_long() -> None:
    assert code_of("FROM FILTER{Name = '" + "a" * MAX_CHARACTERS + "'} Stock") == "E125"
    found = error("FROM FILTER{Volume IN (1" + ", 1" * MAX_TOKENS + ")} Stock")
    assert found.code == "E125"
    assert "FOR EACH" in (found.hint or "")


def test_a_file_may_be_longer_than_a_statement() -> None:
    text = f"FROM FILTER{{Name = '{'a' * 300_000}'}} Stock;" * 5
    assert len(load(text, catalog()).queries) == 5


def test_what_follows_a_statement_that_is_too_long_is_still_checked() -> None:
    text = "FROM " + "(" * 5_000 + "; FROM Stok; FROM " + "x " * (MAX_TOKENS + 1) + "; FROM Stonk;"
    with pytest.raises(QueryErrors) as caught:
        load(text, catalog())
    assert [e.code for e in caught.value.errors] == ["E122", "E105", "E125", "E105"]


@pytest.mark.parametrize(
    "text",
    [
        "FROM FILTER{" + "(" * 101 + "Price > 1" + ")" * 101 + "} Stock",
        "FROM FILTER{" + "NOT " * 101 + "TRUE} Stock",
        "FROM FILTER{" + "NOT " * 5_000 + "TRUE} Stock",
        "SELECT " + "CASE WHEN TRUE THEN " * 5_000 + "1" + " END" * 5_000 + " AS x FROM Stock",
        "S/a" + "[./a" * 5_000 + "]" * 5_000,
        "J$.a" + "[.a" * 5_000 + "]" * 5_000,
        "(" * 5_000 + "S//a->x JOIN{x = y, 1 day} S//b->y" + ")" * 5_000,
    ],
)
def test_nesting(text: str) -> None:
    assert code_of(text) == "E122"
    assert code_of(text, file=False) == "E122"


def test_long_paths() -> None:
    assert code_of("S" + "/a" * 3_000) == "E228"
    assert code_of("J$" + ".a" * 3_000) == "E228"
    assert code_of("S/a" + "[./a]" * 3_000) == "E228"


def test_inputs() -> None:
    assert code_of("SELECT * FROM Stock [Now] AS a" + ", Stock [Now] AS b" * 100) == "E127"
    assert code_of("S//a->x" + " JOIN{x = x, 1 day} S//b->y" * 100) == "E127"


def test_many_errors_of_a_statement_and_of_a_file() -> None:
    with pytest.raises(QueryErrors) as caught:
        compile_query("FROM FILTER{TRUE" + " AND Prise > 1" * 1_000 + "} Stock", catalog())
    assert len(caught.value.errors) == MAX_PROBLEMS
    with pytest.raises(QueryErrors) as caught:
        load("FROM Stok;\n" * (MAX_ERRORS + 5), catalog(), name="rules.cel")
    codes = [e.code for e in caught.value.errors]
    assert codes == ["E105"] * MAX_ERRORS + ["E128"]


def test_a_run_of_characters_is_one_error_and_long_lines_are_cut() -> None:
    found = error("FROM Stock" + " " * 5_000 + "###" + " " * 5_000 + "AND")
    assert isinstance(found, QueryError)
    assert found.span is not None
    assert (found.code, found.span.column, found.span.length) == ("E104", 5011, 3)
    shown = str(found).splitlines()
    assert len(shown[1]) < 200
    assert shown[1][shown[2].index("^") :].startswith("###")
    assert shown[2].count("^") == 3


# ---- numbers -------------------------------------------------------------------------------------

NUMBERS = [
    "FROM FILTER{Volume = %s} Stock",
    "FROM FILTER{Volume = -%s} Stock",
    "FROM FILTER{Price = %s.5} Stock",
    "FROM FILTER{Price = 1e%s} Stock",
    "FROM FILTER{DUR < %s} Stock",
    "FROM FILTER{DUR < %s s} Stock",
    "FROM FILTER{Volume IN (1, %s)} Stock",
    "SELECT round(Price, %s) AS x FROM Stock",
    "SELECT CAST(Price AS DECIMAL(%s, 2)) AS x FROM Stock",
    "FROM FILTER{$%s.Price > 1} Stock",
    "SELECT Name FROM Stock [Rows %s]",
    "SELECT Name FROM Stock [Range %s]",
    "SELECT Name FROM Stock [Range %s seconds]",
    "SELECT Name FROM Stock [Rows 1,%s]",
    "CREATE STREAM X (a DECIMAL(%s), ts TIMESTAMP) TIME ts",
    "CREATE STREAM X (a INT, ts TIMESTAMP) TIME ts LATENESS %s",
    "CREATE STREAM X (a INT, ts TIMESTAMP) TIME ts LATENESS %s seconds",
    "CREATE STREAM X (a INT, n BIGINT) TIME n LATENESS %s",
    "CREATE CONSTRAINT c ON Stock (Name) CLUSTERED WITHIN %s ROWS",
    "CREATE CONSTRAINT c ON Stock (Name) CLUSTERED WITHIN %s SECONDS",
    "CREATE CONSTRAINT c ON Tick (Name) CLUSTERED WITHIN %s TICKS",
    "S//a->x[./b > %s]",
    "J$.a->x[.b > %s]",
    "S//a->x JOIN{x = y, %s} S//b->y",
    "S//a->x JOIN{x = y, %s days} S//b->y",
    "S//a[%s]->x",
    *(
        f"DETECT F FROM Stock [Rows 9] AS a, Stock [Rows 9] AS b WHERE a.Name = b.Name {setting}"
        for setting in (
            "BATCH %s", "BATCH 5 WITHIN %s", "BATCH 5 WITHIN %s seconds", "BUCKETS %s",
            "MEMORY %s MB", "PACKING %s", "PACKING 1e%s", "BUCKETS 1e%s", "MEMORY 1e%s GB",
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
@pytest.mark.parametrize("digits", [DIGITS, "9" * 400, "9" * 30, "9" * 9 + "8"])
def test_long_numbers(text: str, digits: str) -> None:
    """In every place, also in a text whose shape is known."""
    for run in (compile_query, load):
        for number in ("5", digits):
            with suppress(BraidError):
                run(text % number, known())
    shapes = known()
    with suppress(BraidError):
        compile_query(text % "5", shapes)
        compile_query(text % "6", shapes)
    code = None
    try:
        compile_query(text % digits, shapes)
    except BraidError as problem:
        code = problem.code
    assert code is not None or len(digits) < 400


def test_numbers_beyond_their_types() -> None:
    assert error("FROM FILTER{Price = 1e999} Stock").code == "E112"
    assert error("FROM FILTER{Volume = 9223372036854775808} Stock").code == "E112"
    assert error("FROM FILTER{DUR < 15000000 weeks 15000000 weeks} Stock").code == "E112"
    assert error("FROM FILTER{DUR < 1e99999999999 s} Stock").code == "E112"
    assert error(f"FROM FILTER{{Volume = {DIGITS}}} Stock").code == "E126"
    detect = "DETECT F FROM Stock [Rows 9] AS a, Stock [Rows 9] AS b WHERE a.Name = b.Name BATCH "
    assert error(detect + "9" * 20).code == "E205"
    shapes = catalog()
    compile_query("FROM FILTER{Price > 1.5} Stock", shapes)
    with pytest.raises(BraidError, match="E112"):
        compile_query("FROM FILTER{Price > 1.5e999} Stock", shapes)


def test_numbers_from_python() -> None:
    schema = pa.schema([("a", pa.int64()), ("n", pa.int64())])
    for lateness in (DIGITS, "²", "9" * 30, 2**63):
        with pytest.raises(ConfigError):
            stream_from_schema("X", schema, time="n", lateness=lateness)
    with pytest.raises(ConfigError, match="E112"):
        parse_duration(f"{DIGITS} s")
    with pytest.raises(ConfigError, match="E112"):
        parse_duration("15000000 weeks 15000000 weeks")
    assert [whole_number(t) for t in ("5", " -7 ", "+3", "²", "--5", "1.0", "", DIGITS)] == [
        5, -7, 3, None, None, None, None, None,
    ]  # fmt: skip


def test_rows_of_parameters(tmp_path: Path) -> None:
    text = "CREATE QUERY big FOR EACH (v BIGINT, d DOUBLE) AS FROM FILTER{Volume > :v OR Price > :d} Stock"
    prepared = prepare(text, {"v": [1, 10**5000], "d": [1.0, 2.0]}, catalog())
    assert [(refused.row, refused.code) for refused in prepared.refused] == [(1, "E169")]
    path = tmp_path / "rows.csv"
    path.write_text(f"v,d\n1,2\n{DIGITS},2\n{'0' * 5000}7,3\n5,1e{DIGITS}\n", encoding="utf-8")
    prepared = prepare(text, str(path), catalog())
    assert [(refused.row, refused.code) for refused in prepared.refused] == [
        (1, "E169"),
        (3, "E169"),
    ]


# ---- joins as SQL has them -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("SELECT * FROM Stock JOIN Quote ON Stock.Name = Quote.Name",
         "FROM Stock, Quote WHERE Stock.Name = Quote.Name"),
        ("SELECT a.Name FROM Stock [Now] AS a LEFT JOIN Stock [Now] AS b ON a.Name = b.Name",
         "FROM Stock [Now] AS a, Stock [Now] AS b WHERE a.Name = b.Name (there is no outer join"),
        ("SELECT a.Name FROM Stock a RIGHT OUTER JOIN Stock b ON a.Name = b.Name PUBLISH X",
         "FROM Stock a, Stock b WHERE a.Name = b.Name (there is no outer join"),
        ("SELECT a.Name FROM Stock a INNER JOIN Stock b ON (a.Name = b.Name)",
         "FROM Stock a, Stock b WHERE (a.Name = b.Name)"),
        ("SELECT * FROM Stock CROSS JOIN Quote", "FROM Stock, Quote"),
        ("SELECT * FROM Stock FULL JOIN Quote USING (Name)", "FROM Stock, Quote WHERE A.x = B.x"),
        ("SELECT * FROM (SELECT * FROM Stock) a JOIN Quote b ON a.x = b.x JOIN Z ON b.x = Z.x",
         "FROM (SELECT * FROM Stock) a, Quote b WHERE a.x = b.x"),
        ("SELECT * FROM Stock a, Quote b ON a.x = b.x", "Quote b WHERE a.x = b.x"),
        ("DETECT F FROM Stock a JOIN Quote b ON a.x = b.x", "FROM Stock a, Quote b WHERE a.x = b.x"),
    ],
)  # fmt: skip
def test_sql_joins(text: str, form: str) -> None:
    found = error(text)
    assert found.code == "E129"
    assert form in (found.hint or "")


def test_join_and_on_may_be_names() -> None:
    found = catalog()
    load("CREATE STREAM `JOIN` (ON INT, LEFT INT, ts TIMESTAMP) TIME ts;", found)
    compile_query("SELECT JOIN.ON, JOIN.LEFT FROM JOIN [Now] WHERE ON = 1", found)
    compile_query("SELECT * FROM Stock LEFT", found)


def test_a_character_that_stands_for_constants_inside() -> None:
    """Texts are cut into parts at such marks: one in the text itself is no constant."""
    streams = known()
    text = "FROM Stock FOLD{$2.Price > 1, Price_1 < 2,%s} Stock"
    for inside in ("", "", "\0i", "\0", " \0h 3 AS x", "\0p"):
        with suppress(BraidError):
            compile_query(text % inside, streams)
    assert error("FROM Stock \0").code == "E104"
