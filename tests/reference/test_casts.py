"""Casts against what Spark's `try_cast` gives, and the few rules that are Braid's own."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from braid.algebra.casts import cast, float_text
from braid.algebra.types import BIGINT, BOOLEAN, DATE, DOUBLE, DURATION, STRING, TIMESTAMP
from tests.scenarios.comparison import normal

INT, TINYINT, FLOAT = pa.int32(), pa.int8(), pa.float32()
MONEY = pa.decimal128(5, 2)
DAY = 86_400_000_000
NEW_YEAR = 1_230_768_000_000_000  # 2009-01-01

CASES: list[tuple[Any, pa.DataType, pa.DataType, Any]] = [
    ("true", STRING, BOOLEAN, True),
    (" YES ", STRING, BOOLEAN, True),
    ("0", STRING, BOOLEAN, False),
    ("2", STRING, BOOLEAN, None),
    (math.nan, DOUBLE, BOOLEAN, True),
    ("42", STRING, BIGINT, 42),
    (" +7\n", STRING, BIGINT, 7),
    ("1.5", STRING, BIGINT, None),
    ("", STRING, BIGINT, None),
    ("９", STRING, BIGINT, None),
    ("9223372036854775808", STRING, BIGINT, None),
    (300, BIGINT, TINYINT, None),
    (-128, BIGINT, TINYINT, -128),
    (1.9, DOUBLE, BIGINT, 1),
    (-1.9, DOUBLE, BIGINT, -1),
    (math.inf, DOUBLE, BIGINT, None),
    (2.0**63, DOUBLE, BIGINT, None),
    (2147483647.9, DOUBLE, INT, 2147483647),
    (True, BOOLEAN, BIGINT, 1),
    (Decimal("-1.99"), MONEY, BIGINT, -1),
    ("1e3", STRING, DOUBLE, 1000.0),
    (".5", STRING, DOUBLE, 0.5),
    ("-Infinity", STRING, DOUBLE, -math.inf),
    ("nan", STRING, DOUBLE, math.nan),
    ("1_000", STRING, DOUBLE, None),
    ("0x10", STRING, DOUBLE, None),
    (0.1, DOUBLE, FLOAT, 0.10000000149011612),
    (1e300, DOUBLE, FLOAT, math.inf),
    (2**53 + 1, BIGINT, DOUBLE, 2.0**53),
    (1.005, DOUBLE, MONEY, Decimal("1.01")),
    (-1.005, DOUBLE, MONEY, Decimal("-1.01")),
    (1000.0, DOUBLE, MONEY, None),
    (math.nan, DOUBLE, MONEY, None),
    ("12.345", STRING, MONEY, Decimal("12.35")),
    (999, BIGINT, MONEY, Decimal("999.00")),
    (1000, BIGINT, MONEY, None),
    (Decimal("1.50"), MONEY, STRING, "1.50"),
    (1.0, DOUBLE, STRING, "1.0"),
    (1e7, DOUBLE, STRING, "1.0E7"),
    (9999999.0, DOUBLE, STRING, "9999999.0"),
    (0.001, DOUBLE, STRING, "0.001"),
    (0.00012, DOUBLE, STRING, "1.2E-4"),
    (-0.0, DOUBLE, STRING, "-0.0"),
    (math.nan, DOUBLE, STRING, "NaN"),
    (0.10000000149011612, FLOAT, STRING, "0.1"),
    (False, BOOLEAN, STRING, "false"),
    (NEW_YEAR, TIMESTAMP, STRING, "2009-01-01 00:00:00"),
    (NEW_YEAR + 1_500_000, TIMESTAMP, STRING, "2009-01-01 00:00:01.5"),
    (-1, DATE, STRING, "1969-12-31"),
    (DAY + 90_000_000, DURATION, STRING, "INTERVAL '1 00:01:30' DAY TO SECOND"),
    ("2009-01-01", STRING, TIMESTAMP, NEW_YEAR),
    ("2009", STRING, TIMESTAMP, NEW_YEAR),
    ("2009-1-1T00:00:01.5Z", STRING, TIMESTAMP, NEW_YEAR + 1_500_000),
    ("2009-01-01 01:00+01:00", STRING, TIMESTAMP, NEW_YEAR),
    ("2009-02-29", STRING, TIMESTAMP, None),
    ("2009-01-01 24:00", STRING, TIMESTAMP, None),
    ("2000-02-29", STRING, DATE, 11_016),
    ("2009-01-01 12:00:00", STRING, DATE, 14_245),
    ("2009-01-01x", STRING, DATE, None),
    (-1, TIMESTAMP, DATE, -1),
    (1, DATE, TIMESTAMP, DAY),
    (-1, TIMESTAMP, BIGINT, -1),
    (1_999_999, TIMESTAMP, BIGINT, 1),
    (3, BIGINT, TIMESTAMP, 3_000_000),
    (2**62, BIGINT, TIMESTAMP, None),
    (5, DURATION, BIGINT, 5),
    (5, BIGINT, DURATION, 5),
    (None, BIGINT, STRING, None),
    (b"a\xff", pa.binary(), STRING, "a�"),
    ("é", STRING, pa.binary(), "é".encode()),
    ([1], pa.list_(BIGINT), STRING, None),
]


@pytest.mark.parametrize(("value", "source", "target", "wanted"), CASES)
def test_cast(value: Any, source: pa.DataType, target: pa.DataType, wanted: Any) -> None:
    found = cast(value, source, target)
    assert normal(found) == normal(wanted), found
    assert type(found) is type(wanted)


@pytest.mark.parametrize("value", [5e-324, 1.7976931348623157e308, 123456.789, 1 / 3, -2.5e-7])
def test_float_text_names_the_number(value: float) -> None:
    assert float(float_text(value)) == value
