"""Types and casts of scalar expressions."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pyarrow as pa
import pytest

from braid.algebra.expressions import Call, Duration, Expression, Literal, Ref, walk
from braid.algebra.functions import KERNEL, UDF_PREFIX, VECTOR
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE, DURATION, STRING, TIMESTAMP, TIMESTAMP_NTZ
from braid.errors import BraidError
from braid.lang import compile_query
from tests.lang.support import catalog, error, predicate, types, value


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("i + i", "int64"),
        ("i + l", "int64"),
        ("i / i", "double"),
        ("f * 2", "double"),
        ("f + f", "double"),
        ("l % 2", "int64"),
        ("l DIV 2", "int64"),
        ("x % 2", "double"),
        ("d + d", "decimal128(11, 2)"),
        ("d + 1", "decimal128(11, 2)"),
        ("d * 1.5", "decimal128(12, 3)"),
        ("d * x", "double"),
        ("d / 2", "double"),
        ("-i", "int64"),
        ("-d", "decimal128(10, 2)"),
        ("zoned - zoned", "duration[us]"),
        ("day - day", "duration[us]"),
        ("zoned + 10min", "timestamp[us, tz=UTC]"),
        ("10min + at", "timestamp[us]"),
        ("at - gap", "timestamp[us]"),
        ("gap + 1h", "duration[us]"),
        ("gap / 1h", "double"),
        ("2 * gap", "int64"),
        ("DUR", "duration[us]"),
        ("DUR + 1", "int64"),
        ("CASE WHEN b THEN i ELSE x END", "double"),
        ("CASE s WHEN 'a' THEN 1 END", "int64"),
        ("coalesce(i, 0)", "int64"),
        ("nullif(s, 'x')", "string"),
        ("if(b, 1, 2.5)", "double"),
        ("greatest(x, 1)", "double"),
        ("ceil(x)", "int64"),
        ("floor(i)", "int64"),
        ("round(x, 2)", "double"),
        ("abs(i)", "int64"),
        ("abs(gap)", "duration[us]"),
        ("sqrt(i)", "double"),
        ("length(s)", "int64"),
        ("substring(s, 2)", "string"),
        ("s || 'x'", "string"),
        ("year(zoned)", "int64"),
        ("CAST(i AS STRING)", "string"),
        ("CAST(s AS DECIMAL(8, 3))", "decimal128(8, 3)"),
        ("CAST(NULL AS DATE)", "date32[day]"),
        ("list[0]", "string"),
        ("map['k']", "double"),
        ("rec.u", "string"),
        ("rec.v[1]", "int32"),
        ("x > 1 AND NOT b", "bool"),
        ("1", "int64"),
        ("1.5", "double"),
        ("1e3", "double"),
        ("'a'", "string"),
        ('"a"', "string"),
        ("TRUE", "bool"),
    ],
)
def test_type_of(text: str, type_: str) -> None:
    assert types(f"SELECT {text} AS it FROM Wide") == [type_]


def ref(name: str, type_: pa.DataType) -> Ref:
    found = value(name)
    assert isinstance(found, Ref)
    assert found.type == type_
    return found


def test_literals_take_the_type_of_the_other_side() -> None:
    price = ref("x", DOUBLE)
    assert predicate("x > 83") == Call("gt", (price, Literal(83.0, DOUBLE)), BOOLEAN)
    number = ref("i", pa.int32())
    assert predicate("i > 5") == Call("gt", (number, Literal(5, pa.int32())), BOOLEAN)
    money = ref("d", pa.decimal128(10, 2))
    wanted = Literal(Decimal("1.50"), pa.decimal128(10, 2))
    assert predicate("d > 1.5") == Call("gt", (money, wanted), BOOLEAN)
    assert predicate("x = NULL") == Call("eq", (price, Literal(None, DOUBLE)), BOOLEAN)


def test_a_literal_that_does_not_fit_widens_the_column() -> None:
    wide = Call("cast", (ref("i", pa.int32()),), BIGINT)
    assert predicate("i > 5000000000") == Call(
        "gt", (wide, Literal(5_000_000_000, BIGINT)), BOOLEAN
    )
    double = Call("cast", (ref("i", pa.int32()),), DOUBLE)
    assert predicate("i > 1.5") == Call("gt", (double, Literal(1.5, DOUBLE)), BOOLEAN)


def test_strings_beside_times_are_read_as_times() -> None:
    moment = 1_704_103_200_000_000
    assert predicate("at > '2024-01-01 10:00:00'") == Call(
        "gt", (ref("at", TIMESTAMP_NTZ), Literal(moment, TIMESTAMP_NTZ)), BOOLEAN
    )
    assert predicate("zoned > '2024-01-01T11:00:00+01:00'") == Call(
        "gt", (ref("zoned", TIMESTAMP), Literal(moment, TIMESTAMP)), BOOLEAN
    )
    assert predicate("day = '2024-01-01'") == Call(
        "eq", (ref("day", pa.date32()), Literal(19_723, pa.date32())), BOOLEAN
    )
    assert predicate("gap < '1h'") == predicate("gap < 1h")


def test_duration_against_durations_and_numbers() -> None:
    dur = Duration(DURATION)
    assert predicate("DUR ≥ 10min") == Call("ge", (dur, Literal(600_000_000, DURATION)), BOOLEAN)
    ticks = Call("cast", (dur,), BIGINT)
    assert predicate("DUR < 1000") == Call("lt", (ticks, Literal(1000, BIGINT)), BOOLEAN)
    assert predicate("DUR < 10", "Tick") == Call(
        "lt", (Duration(BIGINT), Literal(10, BIGINT)), BOOLEAN
    )


def test_between_in_like_and_is_null() -> None:
    assert predicate("x BETWEEN 1 AND 2") == predicate("x >= 1 AND x <= 2")
    assert predicate("x NOT BETWEEN 1 AND 2") == predicate("NOT (x >= 1 AND x <= 2)")
    wanted = Call("in", (ref("s", STRING), Literal("a", STRING), Literal("b", STRING)), BOOLEAN)
    assert predicate("s IN ('a', 'b')") == wanted
    assert predicate("s NOT IN ('a', 'b')") == Call("not", (wanted,), BOOLEAN)
    assert predicate("x IN (1, l)") == predicate("x = 1 OR x = l")
    assert predicate("s NOT LIKE 'a%'") == predicate("NOT s LIKE 'a%'")
    assert predicate("s IS NOT NULL") == predicate("NOT s IS NULL")


def test_conjunctions_are_flat() -> None:
    flat = predicate("b AND x > 1 AND i > 2")
    assert isinstance(flat, Call)
    assert len(flat.args) == 3
    assert predicate("b AND (x > 1 AND i > 2)") == flat


@pytest.mark.parametrize(
    ("one", "other"),
    [("≤", "<="), ("≥", ">="), ("≠", "!="), ("<>", "!="), ("==", "=")],
)
def test_spellings_of_comparisons(one: str, other: str) -> None:
    assert predicate(f"x {one} 1") == predicate(f"x {other} 1")


def test_precedence() -> None:
    assert predicate("NOT b OR b AND x > 1 + 2 * 3") == predicate(
        "(NOT b) OR (b AND (x > (1 + (2 * 3))))"
    )
    assert value("x - 1 - 1") == value("(x - 1) - 1")
    assert value("-x * 2") == value("(-x) * 2")


def test_strings_and_comments() -> None:
    assert value("'it''s; -- no comment'") == Literal("it's; -- no comment", STRING)
    assert value('"say ""x"""') == Literal('say "x"', STRING)
    assert value("1 -- a comment; with 'quotes\n") == Literal(1, BIGINT)


def test_numbers_at_the_edge() -> None:
    assert value("-9223372036854775808") == Literal(-(2**63), BIGINT)
    assert error("SELECT 9223372036854775808 AS n FROM Stock").code == "E112"


@pytest.mark.parametrize(
    ("text", "ticks"),
    [("10min", 600_000_000), ("30 s", 30_000_000), ("52 weeks", 31_449_600_000_000),
     ("1.5 h", 5_400_000_000), ("1h 30min", 5_400_000_000), ("2 DAYS", 172_800_000_000)],
)  # fmt: skip
def test_durations(text: str, ticks: int) -> None:
    assert value(text) == Literal(ticks, DURATION)


def test_registered_functions_only() -> None:
    known = catalog()
    known.functions.register("spread", lambda a, b: a - b, ["DOUBLE", pa.float64()], "DOUBLE")
    bound = compile_query("SELECT spread(Price, Volume) AS s FROM Stock", known).query.node
    calls = [e for e in walk(bound.items[0][1]) if isinstance(e, Call)]
    assert calls[0].function == f"{UDF_PREFIX}spread"
    assert calls[1] == Call("cast", (calls[1].args[0],), DOUBLE)
    with pytest.raises(Exception, match="E155"):
        known.functions.register("upper", str.upper, ["STRING"], "STRING")
    with pytest.raises(Exception, match="E156"):
        known.functions.register("a b", str.upper, ["STRING"], "STRING")
    assert error("SELECT spread(Price) AS s FROM Stock").code == "E106"
    with pytest.raises(Exception, match="E111"):
        compile_query("SELECT spread(Price) AS s FROM Stock", known)


def test_every_call_is_a_function_of_the_algebra() -> None:
    for text in ("upper(s) || lower(s)", "isnull(s)", "rlike(s, 'a+')", "nvl(x, 1)", "mod(l, 3)"):
        bound = value(text)
        assert isinstance(bound, Call)
        for part in walk(bound):
            if isinstance(part, Call):
                assert part.function in KERNEL | VECTOR | {"cast"}


def test_comparisons_have_equal_types_on_both_sides() -> None:
    columns = ["d", "i", "l", "f", "x", "s", "day", "at", "zoned", "gap", "b", "DUR", "1", "'x'"]
    refused: set[str] = set()
    for left, right in product(columns, columns):
        try:
            bound = predicate(f"{left} = {right}")
        except BraidError as problem:
            refused.add(problem.code)
            continue
        assert isinstance(bound, Call)
        assert bound.args[0].type == bound.args[1].type
    assert refused == {"E110", "E112"}


def test_vector_functions_over_one_source_are_fine_in_patterns() -> None:
    bound: Expression
    text = "FROM Stock NEXT{upper($1.Name) = lower($2.Name)} Stock"
    bound = compile_query(text, catalog()).query.node.predicate
    assert isinstance(bound, Call)
