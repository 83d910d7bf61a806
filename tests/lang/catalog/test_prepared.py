"""FOR EACH: one text with parameters, one member for each row that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from braid.algebra.expressions import Parameter, walk
from braid.algebra.nodes import Sequence as NextNode
from braid.algebra.nodes import walk_nodes
from braid.algebra.types import BIGINT, DOUBLE, STRING
from braid.errors import BraidError, ConfigError, QueryErrors
from braid.lang import Catalog, Prepared, compile_query, load, prepare
from braid.lang.templates.lifting import expressions_of
from tests.lang.support import catalog, pointed_at

BIG = (
    "CREATE QUERY big FOR EACH (who STRING, floor DOUBLE) AS\n"
    "  SELECT Name, Price FROM FILTER{Name = :who AND Price > :floor}(Stock) PUBLISH Big"
)
ROWS = {"who": ["IBM", "MSFT"], "floor": [83.0, 50.5]}


def prepared(
    parameters: str, query: str, rows: Any, known: Catalog | None = None, **options: Any
) -> Prepared:
    text = f"CREATE QUERY p FOR EACH ({parameters}) AS {query}"
    return prepare(text, rows, known or catalog(), **options)


def column(type_: str, values: Any, compared: str) -> tuple[list[Any], list[str]]:
    """The constants that one parameter gets from a column, and the codes of what is refused."""
    found = prepared(f"v {type_}", f"FROM FILTER{{{compared}}} Wide", {"v": values})
    constants = [row[0] for row in found.members.rows()]
    return constants, [refused.code for refused in found.refused]


# --- members ---


def test_each_row_is_a_member() -> None:
    known = catalog()
    found = prepare(BIG, ROWS, known)
    assert found.name == "big"
    assert found.members.ids.to_pylist() == ["big/0", "big/1"]
    assert list(found.members.rows()) == [("IBM", 83.0), ("MSFT", 50.5)]
    assert found.template.types == (STRING, DOUBLE)
    assert not found.refused
    assert not found.notices
    known.add_prepared(found)
    text = "SELECT Name, Price FROM FILTER{Name = 'MSFT' AND Price > 50.5}(Stock) PUBLISH Big2"
    written = compile_query(text, known).query
    member = known.queries["big/1"]
    assert member.outputs[-1].node == written.outputs[-1].node
    assert member.publishes == ("Big",)
    assert member.text == BIG


@pytest.mark.parametrize(
    "rows",
    [
        pa.table(ROWS),
        pa.table(ROWS).to_batches()[0],
        pa.table({"who": pa.array(ROWS["who"]).dictionary_encode(), "floor": ROWS["floor"]}),
        pd.DataFrame(ROWS),
        ROWS,
        {"who": np.array(["IBM", "MSFT"], dtype=object), "floor": pa.array([83.0, 50.5])},
        [{"who": "IBM", "floor": 83}, {"floor": 50.5, "who": "MSFT", "more": None}],
    ],
    ids=["table", "batch", "dictionary", "pandas", "dict", "arrays", "list"],
)
def test_rows_of_all_kinds(rows: Any) -> None:
    found = prepare(BIG, rows, catalog())
    assert list(found.members.rows()) == [("IBM", 83.0), ("MSFT", 50.5)]
    assert not found.refused


def test_rows_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.csv"
    path.write_text(
        'id,who,floor,note\na,IBM,83,x\nb,"",1e2,\nc,MSFT,abc,\nd,,5,\n,X,5,\n', "utf-8"
    )
    for rows in (path, str(path)):
        found = prepare(BIG, rows, catalog())
        assert found.members.ids.to_pylist() == ["big/a", "big/b"]
        assert list(found.members.rows()) == [("IBM", 83.0), ("", 100.0)]
        assert [(r.row, r.code) for r in found.refused] == [(2, "E169"), (3, "E168"), (4, "E170")]
        assert found.refused[0].shown == "id='c', who='MSFT', floor='abc'"
        assert found.refused[0].render() == (
            "[E169] row 2 (id='c', who='MSFT', floor='abc'): the parameter 'floor' does not fit DOUBLE"
        )


def test_ids_of_rows() -> None:
    rows = {"who": ["a", "b", "c", "d"], "floor": [1, 2, 3, 4], "id": [7, None, 7, 9]}
    for given in (rows, pd.DataFrame(rows)):  # pandas makes floats of numbers with a gap
        found = prepare(BIG, given, catalog())
        assert found.members.ids.to_pylist() == ["big/7", "big/9"]
        assert [(r.row, r.code) for r in found.refused] == [(1, "E170"), (2, "E171")]
    found = prepare(BIG, rows, catalog(), ids="who", name="other")
    assert found.members.ids.to_pylist() == ["other/a", "other/b", "other/c", "other/d"]
    one = prepared("id BIGINT", "FROM FILTER{l = :id} Wide", {"id": [5, 6]})
    assert one.members.ids.to_pylist() == ["p/0", "p/1"]


def test_a_refused_row_does_not_take_an_id() -> None:
    rows = {"who": [None, "b", "c"], "floor": [1, 2, 3], "id": ["x", "x", "x"]}
    found = prepare(BIG, rows, catalog())
    assert found.members.ids.to_pylist() == ["big/x"]
    assert [(r.row, r.code) for r in found.refused] == [(0, "E168"), (2, "E171")]


# --- values in the declared type, exactly or not at all ---


@pytest.mark.parametrize(
    ("type_", "values", "constants", "codes"),
    [
        ("TINYINT", [1, 127, 128, -129, None], [1, 127], ["E169", "E169", "E168"]),
        ("BIGINT", [1.0, 1.5, float("inf")], [1], ["E169", "E169"]),
        ("BIGINT", [2**63 - 1, 2**63, "5", True], [2**63 - 1], ["E169"] * 3),
        ("DOUBLE", [1, 2.5, Decimal("0.5"), "x"], [1.0, 2.5, 0.5], ["E169"]),
        ("FLOAT", [0.5, 1e300], [0.5], ["E169"]),
        ("DECIMAL(4, 2)", [1, 1.25, Decimal("9.999"), 100], [Decimal("1.00"), Decimal("1.25")],
         ["E169", "E169"]),
    ],
)  # fmt: skip
def test_numbers(type_: str, values: Any, constants: list[Any], codes: list[str]) -> None:
    for given in (values, pd.Series(values, dtype=object)):
        found, refused = column(type_, given, "x > CAST(:v AS DOUBLE)")
        assert refused == codes
        assert len(found) == len(constants)


@pytest.mark.parametrize(
    ("type_", "compared", "values", "constants", "codes"),
    [
        ("STRING", "s = :v", ["a", "", 5], ["a", ""], ["E169"]),
        ("BOOLEAN", "b = :v", [True, False, "yes", 1], [True, False], ["E169", "E169"]),
        ("DATE", "day = :v", [date(1970, 1, 2), "1970-01-03", "x"], [1, 2], ["E169"]),
        ("TIMESTAMP", "zoned < :v", [datetime(1970, 1, 1, 0, 0, 1), "1970-01-01T00:00:02Z", 5],
         [1_000_000, 2_000_000], ["E169"]),
        ("INTERVAL", "gap < :v", [timedelta(seconds=1), "1h 30min", "5 months"],
         [1_000_000, 5_400_000_000], ["E169"]),
        ("DECIMAL(6, 3)", "d = :v", [Decimal("1.5"), 2], [Decimal("1.500"), Decimal("2.000")], []),
        ("INT", "d = :v", [5], [Decimal("5.00")], []),
        ("INT", "l = :v", [5], [5], []),
        ("SMALLINT", "x = :v", [5], [5.0], []),
    ],
)  # fmt: skip
def test_constants(
    type_: str, compared: str, values: list[Any], constants: list[Any], codes: list[str]
) -> None:
    assert column(type_, values, compared) == (constants, codes)


@pytest.mark.parametrize(
    ("type_", "compared", "written", "constants"),
    [
        ("INT", "l = :v", ["5", " 6 ", "+7", "0x10", "5.0", "9999999999"], [5, 6, 7]),
        ("DOUBLE", "x = :v", ["5", ".5", "1e3", "nan?", "1_000", "1e999"], [5.0, 0.5, 1000.0]),
        ("FLOAT", "x = :v", ["0.5", "x"], [0.5]),
        ("BOOLEAN", "b = :v", ["true", "no", "maybe"], [True, False]),
        ("DECIMAL(4, 2)", "d = :v", ["1.5", "1.555", "x"], [Decimal("1.50")]),
        ("DATE", "day = :v", ["1970-01-02", "1970-01-02 10:00:00", "1970"], [1, 0]),
        ("TIMESTAMP", "zoned = :v", ["1970-01-01 00:00:01", "1970-01-01T01:00:00+01:00", "x"],
         [1_000_000, 0]),
        ("INTERVAL", "gap = :v", ["10 s", "5"], [10_000_000]),
        ("STRING", "s = :v", [" a", "5"], [" a", "5"]),
    ],
)  # fmt: skip
def test_what_a_file_says(
    tmp_path: Path, type_: str, compared: str, written: list[str], constants: list[Any]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("v\n" + "\n".join(written) + "\n", "utf-8")
    found = prepared(f"v {type_}", f"FROM FILTER{{{compared}}} Wide", path)
    assert [row[0] for row in found.members.rows()] == constants
    assert {r.code for r in found.refused} <= {"E169"}
    assert len(found.refused) == len(written) - len(constants)


def test_one_bad_value_among_many(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    numbers = [str(i) for i in range(5_000)]
    numbers[3_210] = "x"
    path.write_text("v\n" + "\n".join(numbers) + "\n", "utf-8")
    found = prepared("v BIGINT", "FROM FILTER{l = :v} Wide", path)
    assert [r.row for r in found.refused] == [3_210]
    assert len(found.members) == 4_999
    table = pa.table({"v": pa.array(range(5_000)).cast(pa.float64())})
    table = table.set_column(0, "v", pa.array([0.5, *range(1, 5_000)], pa.float64()))
    found = prepared("v INT", "FROM FILTER{i = :v} Wide", table)
    assert [r.row for r in found.refused] == [0]


def test_one_parameter_in_two_types() -> None:
    found = prepared("v INT", "FROM FILTER{x > :v AND i < :v AND l = :v} Wide", {"v": [1, 2]})
    assert found.template.types == (DOUBLE, pa.int32(), BIGINT)
    assert list(found.members.rows()) == [(1.0, 1, 1), (2.0, 2, 2)]


def test_what_may_fail_is_left_to_the_query() -> None:
    found = prepared("v BIGINT", "FROM FILTER{CAST(:v AS INT) = i} Wide", {"v": [2**40]})
    assert found.template.types == (BIGINT,)


def test_durations() -> None:
    known = catalog()
    pattern = "FROM Stock NEXT{{$1.Name = $2.Name AND DUR <= :w}} Stock"
    query = pattern.format()
    found = prepared("w INTERVAL", query, {"w": ["10min", "1h"]}, known)
    assert not found.notices
    node = found.template.instantiate(found.members.row(1))[-1].node
    assert isinstance(node, NextNode)
    assert node.horizon == 3_600_000_000
    template = found.template.outputs[-1].node
    assert isinstance(template, NextNode)
    assert template.horizon is None
    ticks = prepared("w BIGINT", "FROM Tick NEXT{DUR < :w} Tick", {"w": [5]}, known)
    (output,) = ticks.template.instantiate((5,))
    assert isinstance(output.node, NextNode)
    assert output.node.horizon == 5
    (notice,) = prepared("w STRING", "FROM Stock NEXT{$2.Name = :w} Stock", {"w": ["a"]}).notices
    assert (notice.code, notice.query) == ("W201", "p")


# --- errors ---


@pytest.mark.parametrize(
    ("text", "code", "under", "words"),
    [
        ("CREATE QUERY q FOR EACH (a INT) AS FROM FILTER{n = :b} Tick", "E161", ":b", "a"),
        ("CREATE QUERY q FOR EACH (a INT, b INT) AS FROM FILTER{n = :a} Tick", "E162", "b", ":b"),
        ("CREATE QUERY q FOR EACH (a INT, a INT) AS FROM FILTER{n = :a} Tick", "E108", "a", "a"),
        ("CREATE QUERY q FOR EACH (a ARRAY<INT>) AS FROM Tick", "E163", "ARRAY<INT>", "ARRAY"),
        ("CREATE QUERY q FOR EACH (a IMT) AS FROM Tick", "E121", "IMT", "did you mean INT?"),
        (
            "CREATE QUERY q FOR EACH (a STRING) AS FROM FILTER{n = :a} Tick",
            "E110",
            "n = :a",
            "INT and STRING",
        ),
        (
            "CREATE QUERY q FOR EACH (a INTERVAL) AS FROM Tick NEXT{DUR < :a} Tick",
            "E114",
            ":a",
            "ticks",
        ),
        (
            "CREATE QUERY q FOR EACH (a STRING) AS FROM FILTER{regexp_like(Name, :a)} Tick",
            "E110",
            ":a",
            "constant",
        ),
        ("CREATE QUERY q FOR EACH () AS FROM Tick", "E100", ")", "expected a name"),
        ("CREATE QUERY q FOR (a INT) AS FROM Tick", "E100", "(", "EACH"),
        ("CREATE QUERY q FOR EACH (a INT) AS FROM FILTER{n = :} Tick", "E100", "}", "a name"),
        ("CREATE QUERY q AS FROM Tick", "E172", "CREATE QUERY q AS FROM Tick", "FOR EACH"),
        ("FROM Tick", "E172", "FROM Tick", "FOR EACH"),
        ("CREATE QUERY q FOR EACH (a INT) AS FROM FILTER{n = :a} Tock", "E105", "Tock", "Tick"),
    ],
)
def test_errors_of_the_text(text: str, code: str, under: str, words: str) -> None:
    with pytest.raises(BraidError) as caught:
        prepare(text, {"a": [1]}, catalog())
    assert caught.value.code == code, caught.value.render()
    assert pointed_at(caught.value) == under
    assert words in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("rows", "code", "words"),
    [
        (5, "E165", "int"),
        ({"who": ["a"], "floor": 5}, "E165", "floor"),
        ({"who": ["a"], "floor": [1, 2]}, "E165", "different lengths"),
        ("nowhere.csv", "E165", "nowhere.csv"),
        ([1, 2], "E165", "list"),
        ({"who": ["a"], "flor": [1]}, "E166", "did you mean flor?"),
        (pa.table(ROWS).slice(0, 0), "E167", "no rows"),
        ({"who": [], "floor": []}, "E167", "no rows"),
    ],
)
def test_errors_of_the_rows(rows: Any, code: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        prepare(BIG, rows, catalog())
    assert caught.value.code == code
    assert words in caught.value.render()


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("who,floor\na,1,2\n", "utf-8")
    with pytest.raises(ConfigError, match="E165"):
        prepare(BIG, path, catalog())
    with pytest.raises(ConfigError, match="E166"):
        prepare(BIG, ROWS, catalog(), ids="key")


# --- the catalog ---


def registered(rows: Any = ROWS) -> Catalog:
    known = catalog()
    known.add_prepared(prepare(BIG, rows, known))
    return known


def test_the_catalog_answers_for_members() -> None:
    known = registered()
    assert list(known.queries) == ["ibm", "big/0", "big/1"]
    assert len(known.queries) == 3
    assert "big/1" in known.queries
    assert [i for i in ("big", "big/", "big/2", "ig/1", "/") if i in known.queries] == []
    assert [q.id for q in known.queries.values()] == list(known.queries)
    assert [i for i, _ in known.queries.items()] == list(known.queries)
    assert known.queries["big/0"].values == ("IBM", 83.0)
    assert known.queries.get("big/9") is None
    for query in known.queries.values():
        nodes = (n for o in query.outputs for n in walk_nodes(o.node))
        expressions = (e for n in nodes for e in expressions_of(n))
        assert not any(isinstance(p, Parameter) for e in expressions for p in walk(e))


def test_members_in_the_order_of_what_they_read() -> None:
    known = registered()
    load("CREATE QUERY reader AS SELECT Price FROM Big;", known)
    groups = known.members()
    published: set[str] = set(known.streams)
    for group in groups:
        assert set(group.template.reads) <= published
        published.update(group.template.publishes)
    assert [m.ids.to_pylist() for m in groups] == [["ibm"], ["big/0", "big/1"], ["reader"]]


def test_dropping() -> None:
    known = registered()
    known.remove_query("big/0")
    assert list(known.queries) == ["ibm", "big/1"]
    assert known.queries["big/1"].values == ("MSFT", 50.5)
    assert [len(m) for m in known.members()] == [1, 1]
    with pytest.raises(BraidError, match="E134"):
        known.remove_query("big/0")
    load("CREATE QUERY reader AS SELECT Price FROM Big;", known)
    with pytest.raises(BraidError, match="E135"):
        known.remove_query("big")
    load("DROP QUERY `big/1`; DROP QUERY reader;", known)
    assert len(known.queries) == 1
    assert known.source("Big") is not None
    load("DROP QUERY big;", known)
    assert known.source("Big") is None
    assert not known.prepared


def test_more_rows() -> None:
    known = registered()
    known.remove_query("big/0")
    more = prepare(None, {"who": ["a", None, "b"], "floor": [1, 1, 2]}, known, name="big")
    known.add_prepared(more)
    assert list(known.queries)[1:] == ["big/1", "big/2", "big/4"]
    again = {"who": ["x", "y", "z"], "floor": [1, 2, 3], "id": ["0", "1", "n"]}
    found = prepare(BIG, again, known)
    assert [(r.row, r.code) for r in found.refused] == [(1, "E171")]
    known.add_prepared(found)
    assert known.queries["big/0"].values == ("x", 1.0)
    assert len(known.members()) == 2
    with pytest.raises(BraidError, match="E173"):
        prepare(None, ROWS, known, name="bog")
    other = prepare(BIG.replace("Price >", "Price <"), ROWS, known)
    with pytest.raises(BraidError, match="E131"):
        known.add_prepared(other)


def test_ids_and_names_are_taken_once() -> None:
    known = registered()
    with pytest.raises(BraidError, match="E131"):
        known.add_query(compile_query("FROM Stock", known, query_id="big/1").query)
    with pytest.raises(BraidError, match="E131"):
        known.add_query(compile_query("FROM Stock", known, query_id="big").query)
    with pytest.raises(BraidError, match="E132"):
        known.add_query(compile_query("FROM Stock PUBLISH Big", known, query_id="x").query)
    known.add_query(compile_query("FROM Stock", known, query_id="big/7").query)
    found = prepare(BIG, {"who": ["a", "b"], "floor": [1, 2], "id": [6, 7]}, known)
    assert [(r.row, r.code) for r in found.refused] == [(1, "E171")]


def test_a_statement_in_a_file() -> None:
    known = catalog()
    text = f"CREATE QUERY reader AS SELECT Price FROM Big; {BIG};"
    loaded = load(text, known)
    assert [q.id for q in loaded.queries] == ["reader"]
    assert [(p.name, len(p.members)) for p in loaded.prepared] == [("big", 0)]
    assert [len(m) for m in known.members()] == [1, 0, 1]
    known.add_prepared(prepare(None, ROWS, known, name="big"))
    assert "big/1" in known.queries
    before = list(known.queries)
    with pytest.raises(QueryErrors, match="E131"):
        load(f"{BIG};", known)
    with pytest.raises(QueryErrors, match="E103"):
        load("DROP QUERY reader; DROP QUERY big; SELECT Prise FROM Stock;", known)
    assert list(known.queries) == before
    with pytest.raises(QueryErrors, match="E162"):
        load("CREATE QUERY x FOR EACH (a INT, b INT) AS FROM FILTER{n = :a} Tick PUBLISH X;", known)
    assert known.source("X") is None


def test_words_of_for_each_are_names_too() -> None:
    known = Catalog()
    load("CREATE STREAM For (each INT, `for` INT, t BIGINT) TIME t;", known)
    query = "CREATE QUERY each FOR EACH (for INT) AS SELECT each, for FROM FILTER{each > :for} For"
    found = prepare(query, [{"for": 5}], known)
    assert found.members.ids.to_pylist() == ["each/0"]


def test_many_rows_by_name() -> None:
    count = 20_000
    rows: Mapping[str, Sequence[Any]] = {
        "who": [f"N{i}" for i in range(count)],
        "floor": list(range(count)),
        "id": [f"r{i}" for i in reversed(range(count))],
    }
    known = registered(rows)
    assert known.queries["big/r0"].values == (f"N{count - 1}", count - 1.0)
    assert known.queries["big/r9999"].values == (f"N{count - 10_000}", count - 10_000.0)
    for number in range(0, count, 100):
        known.remove_query(f"big/r{number}")
    assert len(known.queries) == 1 + count - count // 100
