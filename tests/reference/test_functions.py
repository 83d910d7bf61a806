"""Every function of the language against values worked out by hand."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from braid.algebra import functions
from braid.algebra.expressions import Call, Literal
from braid.algebra.types import BIGINT, BOOLEAN, DATE, DOUBLE, DURATION, STRING, TIMESTAMP
from braid.reference import Bindings, value
from braid.reference.functions import ARITHMETIC, LENIENT, STRICT
from tests.scenarios.comparison import normal

NOTHING = Bindings({})
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
MONEY = pa.decimal128(5, 2)
DAY = 86_400_000_000


def typed(argument: Any) -> Literal:
    """The literal of the type that Python's type suggests."""
    types = {bool: BOOLEAN, int: BIGINT, float: DOUBLE, str: STRING, Decimal: MONEY}
    return Literal(argument, types.get(type(argument), BIGINT))


def compute(function: str, type_: pa.DataType, *arguments: Any) -> Any:
    args = tuple(a if isinstance(a, Literal) else typed(a) for a in arguments)
    return value(Call(function, args, type_), NOTHING)


CASES: list[tuple[str, pa.DataType, tuple[Any, ...], Any]] = [
    ("add", BIGINT, (2, 3), 5),
    ("add", BIGINT, (LARGEST, 1), None),
    ("add", BIGINT, (None, 1), None),
    ("add", DOUBLE, (1e308, 1e308), math.inf),
    ("add", MONEY, (Decimal("999.99"), Decimal("0.01")), None),
    ("sub", BIGINT, (SMALLEST, 1), None),
    ("mul", BIGINT, (2**32, 2**31), None),
    ("mul", BIGINT, (-(2**32), 2**31), SMALLEST),
    ("mul", MONEY, (Decimal("1.05"), Decimal("1.10")), Decimal("1.16")),
    ("div", DOUBLE, (1.0, 4.0), 0.25),
    ("div", DOUBLE, (1.0, 0.0), None),
    ("div", DOUBLE, (math.nan, -0.0), None),
    ("int_div", BIGINT, (7, -2), -3),
    ("int_div", BIGINT, (SMALLEST, -1), None),
    ("int_div", BIGINT, (1, 0), None),
    ("mod", BIGINT, (-7, 2), -1),
    ("mod", BIGINT, (7, -2), 1),
    ("mod", BIGINT, (SMALLEST, -1), 0),
    ("mod", DOUBLE, (-5.5, 2.0), -1.5),
    ("mod", DOUBLE, (math.inf, 2.0), math.nan),
    ("mod", DOUBLE, (2.0, math.inf), 2.0),
    ("mod", DOUBLE, (2.0, 0.0), None),
    ("neg", BIGINT, (SMALLEST,), None),
    ("abs", BIGINT, (SMALLEST,), None),
    ("abs", DOUBLE, (-1.5,), 1.5),
    ("sign", BIGINT, (-5,), -1),
    ("sign", DOUBLE, (math.nan,), math.nan),
    ("sign", MONEY, (Decimal("2.50"),), Decimal("1.00")),
    ("eq", BOOLEAN, (math.nan, math.nan), True),
    ("eq", BOOLEAN, (0.0, -0.0), True),
    ("eq", BOOLEAN, (None, None), None),
    ("ne", BOOLEAN, (math.nan, 1.0), True),
    ("lt", BOOLEAN, (math.inf, math.nan), True),
    ("gt", BOOLEAN, (math.nan, math.nan), False),
    ("le", BOOLEAN, ("a", "B"), False),
    ("lt", BOOLEAN, ("Z", "é"), True),
    ("lt", BOOLEAN, ("\uffff", "😀"), True),
    ("lt", BOOLEAN, (False, True), True),
    ("ge", BOOLEAN, (None, 1), None),
    ("eq_null_safe", BOOLEAN, (None, None), True),
    ("eq_null_safe", BOOLEAN, (None, 1), False),
    ("and", BOOLEAN, (None, False), False),
    ("and", BOOLEAN, (None, True), None),
    ("and", BOOLEAN, (True,), True),
    ("or", BOOLEAN, (None, True), True),
    ("or", BOOLEAN, (None, False), None),
    ("not", BOOLEAN, (None,), None),
    ("is_null", BOOLEAN, (None,), True),
    ("is_nan", BOOLEAN, (None,), False),
    ("is_nan", BOOLEAN, (math.nan,), True),
    ("in", BOOLEAN, (1, 1, None), True),
    ("in", BOOLEAN, (2, 1, None), None),
    ("in", BOOLEAN, (2, 1, 3), False),
    ("in", BOOLEAN, (None, 1), None),
    ("case", BIGINT, (None, 1, False, 2, True, 3, 4), 3),
    ("case", BIGINT, (False, 1, None), None),
    ("coalesce", BIGINT, (None, 2, 3), 2),
    ("greatest", DOUBLE, (1.0, math.nan, None), math.nan),
    ("least", DOUBLE, (1.0, math.nan, None), 1.0),
    ("greatest", BIGINT, (None, None), None),
    ("ceil", BIGINT, (-1.5,), -1),
    ("floor", BIGINT, (-1.5,), -2),
    ("floor", BIGINT, (math.nan,), None),
    ("ceil", BIGINT, (9.3e18,), None),
    ("round", DOUBLE, (2.5, 0), 3.0),
    ("round", DOUBLE, (-2.5, 0), -3.0),
    ("round", DOUBLE, (1234.567, 2), 1234.57),
    ("round", DOUBLE, (1250.0, -2), 1300.0),
    ("round", DOUBLE, (0.49999999999999994, 0), 0.0),
    ("round", DOUBLE, (4503599627370497.0, 0), 4503599627370497.0),
    ("round", DOUBLE, (math.nan, 0), math.nan),
    ("round", DOUBLE, (1e300, 20), 1e300),
    ("sqrt", DOUBLE, (-1.0,), math.nan),
    ("sqrt", DOUBLE, (9.0,), 3.0),
    ("exp", DOUBLE, (1000.0,), math.inf),
    ("ln", DOUBLE, (0.0,), None),
    ("ln", DOUBLE, (1.0,), 0.0),
    ("ln", DOUBLE, (math.nan,), math.nan),
    ("log10", DOUBLE, (1000.0,), 3.0),
    ("log2", DOUBLE, (-1.0,), None),
    ("pow", DOUBLE, (2.0, 10.0), 1024.0),
    ("pow", DOUBLE, (-8.0, 0.5), math.nan),
    ("pow", DOUBLE, (0.0, -1.0), math.inf),
    ("pow", DOUBLE, (-0.0, -1.0), -math.inf),
    ("pow", DOUBLE, (-1e300, 3.0), -math.inf),
    ("pow", DOUBLE, (1.0, math.nan), 1.0),
    ("length", BIGINT, ("é😀",), 2),
    ("contains", BOOLEAN, ("abc", ""), True),
    ("contains", BOOLEAN, ("abc", None), None),
    ("starts_with", BOOLEAN, ("abc", "ab"), True),
    ("ends_with", BOOLEAN, ("abc", "ab"), False),
    ("like", BOOLEAN, ("abc", "a%"), True),
    ("like", BOOLEAN, ("abc", "a_"), False),
    ("like", BOOLEAN, ("a\nc", "a_c"), True),
    ("like", BOOLEAN, ("a%", "a\\%"), True),
    ("like", BOOLEAN, ("ab", "a\\%"), False),
    ("like", BOOLEAN, ("a\\", "a\\"), True),
    ("like", BOOLEAN, ("a.c", "a.c"), True),
    ("like", BOOLEAN, ("abc", "a.c"), False),
    ("upper", STRING, ("straße",), "STRASSE"),
    ("lower", STRING, ("ÀB",), "àb"),
    ("trim", STRING, ("  a\t ",), "a\t"),
    ("ltrim", STRING, ("  a ",), "a "),
    ("rtrim", STRING, (" a  ",), " a"),
    ("reverse", STRING, ("aé",), "éa"),
    ("substring", STRING, ("abcde", 2, 3), "bcd"),
    ("substring", STRING, ("abcde", -2, 5), "de"),
    ("substring", STRING, ("abc", -5, 3), "a"),
    ("substring", STRING, ("abc", 0, 2), "ab"),
    ("substring", STRING, ("abc", 2, -1), ""),
    ("concat", STRING, ("a", "b", "c"), "abc"),
    ("concat", STRING, ("a", None), None),
    ("xml", STRING, ("<a>", "b", "</a>"), "<a>b</a>"),
    (
        "xml_escape",
        STRING,
        ("&<>\"'\t\n\r\x01\uffff",),
        "&amp;&lt;&gt;&quot;&#39;&#9;&#10;&#13;\ufffd\ufffd",
    ),
    ("xml_escape", STRING, (None,), None),
    ("xml_attribute", STRING, ("'\n",), "&#39;&#10;"),
    ("xml_attribute", STRING, (None,), ""),
    ("xml_text", STRING, ("&<>\"'\t\n\r\x01",), "&amp;&lt;&gt;\"'\t\n&#13;\ufffd"),
    ("xml_text", STRING, (None,), ""),
    ("xml_content", STRING, ("<a/>",), "<a/>"),
    ("xml_content", STRING, ('{"a": "<"}',), '{"a": "&lt;"}'),
    ("xml_content", STRING, (None,), ""),
    ("replace", STRING, ("aXbX", "X", ""), "ab"),
    ("replace", STRING, ("ab", "", "-"), "ab"),
    ("regexp_like", BOOLEAN, ("xaab", "a+b$"), True),
    ("year", BIGINT, (Literal(-1, TIMESTAMP),), 1969),
    ("month", BIGINT, (Literal(59, DATE),), 3),
    ("day", BIGINT, (Literal(11_016, DATE),), 29),
    ("hour", BIGINT, (Literal(-1, TIMESTAMP),), 23),
    ("hour", BIGINT, (Literal(5, DATE),), 0),
    ("minute", BIGINT, (Literal(61_000_000, TIMESTAMP),), 1),
    ("second", BIGINT, (Literal(61_999_999, TIMESTAMP),), 1),
    ("dayofweek", BIGINT, (Literal(0, DATE),), 5),
    ("dayofweek", BIGINT, (Literal(3, DATE),), 1),
    ("year", BIGINT, (Literal(None, DATE),), None),
    ("add", TIMESTAMP, (Literal(DAY, TIMESTAMP), Literal(1, DURATION)), DAY + 1),
    ("sub", DURATION, (Literal(5, TIMESTAMP), Literal(7, TIMESTAMP)), -2),
    ("get_field", BIGINT, (Literal({"a": 1}, pa.struct([("a", BIGINT)])), "a"), 1),
    ("get_field", BIGINT, (Literal(None, pa.struct([("a", BIGINT)])), "a"), None),
    ("get_item", BIGINT, (Literal([1, 2], pa.list_(BIGINT)), 1), 2),
    ("get_item", BIGINT, (Literal([1, 2], pa.list_(BIGINT)), 2), None),
    ("get_item", BIGINT, (Literal([1, 2], pa.list_(BIGINT)), -1), None),
    ("get_item", BIGINT, (Literal([("k", 1)], pa.map_(STRING, BIGINT)), "k"), 1),
    ("get_item", BIGINT, (Literal([("k", 1)], pa.map_(STRING, BIGINT)), "x"), None),
    ("cast", BIGINT, (1.9,), 1),
]


@pytest.mark.parametrize(("function", "type_", "arguments", "wanted"), CASES)
def test_function(
    function: str, type_: pa.DataType, arguments: tuple[Any, ...], wanted: Any
) -> None:
    found = compute(function, type_, *arguments)
    assert normal(found) == normal(wanted), found
    assert type(found) is type(wanted)


def test_every_function_is_defined_and_tested() -> None:
    listed = functions.KERNEL | functions.VECTOR | {"cast"}
    assert listed == {case[0] for case in CASES}
    calendar = {"year", "month", "day", "hour", "minute", "second", "dayofweek"}
    own = calendar | {"cast", "get_item"}
    assert listed == own | set(ARITHMETIC) | set(LENIENT) | set(STRICT)


def test_user_defined_functions_see_null_and_may_fail() -> None:
    bindings = Bindings({}, udfs={"f": lambda x: "none" if x is None else 1 // x})
    assert value(Call("udf:f", (Literal(None, BIGINT),), STRING), bindings) == "none"
    assert value(Call("udf:f", (Literal(0, BIGINT),), STRING), bindings) is None
