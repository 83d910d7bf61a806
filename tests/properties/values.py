"""Values of every type, drawn from small pools: what is interesting is what coincides."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from braid.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    DURATION,
    STRING,
    TIMESTAMP,
    Kind,
    kind_of,
)

MONEY = pa.decimal128(9, 2)
SMALL_INT = pa.int32()
SINGLE = pa.float32()
#: Decimals of other digits, to and from which MONEY is cast.
WIDE_MONEY, WHOLE_MONEY = pa.decimal128(18, 4), pa.decimal128(6, 0)

#: Types that predicates of the law compare; `EVERY_TYPE` is for expressions alone.
LAW_TYPES = (STRING, DOUBLE, BIGINT, BOOLEAN)
EVERY_TYPE = (*LAW_TYPES, TIMESTAMP, DATE, DURATION, MONEY, SMALL_INT, SINGLE)

_DAY = 86_400_000_000
_POOLS: dict[pa.DataType, list[Any]] = {
    STRING: [
        "a",
        "b",
        "ab",
        "abc",
        "",
        " a ",
        "B",
        "a%",
        "a_b",
        "\\",
        "é",
        "日本",
        "😀a",
        "1",
        "2.5",
    ],
    DOUBLE: [0.0, 1.0, 2.0, -1.0, 0.5, 2.5, -0.0, math.nan, math.inf, -math.inf, 1e300, 0.1],
    BIGINT: [0, 1, 2, 3, -1, -2, 7, 10, 2**62, 2**63 - 1, -(2**63), 10**12],
    BOOLEAN: [True, False],
    TIMESTAMP: [0, 1, 59_999_999, _DAY, -1, 1_230_768_000_000_000, -62_135_596_800_000_000],
    DATE: [0, 1, -1, 59, 14_610, -719_162],
    DURATION: [0, 1, -1, 60_000_000, _DAY],
    MONEY: [Decimal(t) for t in ("0.00", "1.00", "-1.00", "0.05", "2.50", "9999999.99")],
    WIDE_MONEY: [
        Decimal(t) for t in ("0.0000", "0.0050", "-0.0050", "2.4950", "99999999999999.9999")
    ],
    WHOLE_MONEY: [Decimal(t) for t in ("0", "1", "-1", "999999", "-999999")],
    SMALL_INT: [0, 1, -1, 2**31 - 1, -(2**31)],
    SINGLE: [0.0, 1.0, -2.5, 0.10000000149011612, math.nan, math.inf],
}


def present(type_: pa.DataType) -> st.SearchStrategy[Any]:
    """A value that is not NULL; the first ones of a pool are the likeliest."""
    pool = _POOLS[type_]
    return st.one_of(st.sampled_from(pool[:3]), st.sampled_from(pool))


def nullable(type_: pa.DataType) -> st.SearchStrategy[Any]:
    return st.one_of(present(type_), present(type_), present(type_), st.none())


def any_number() -> st.SearchStrategy[float]:
    return st.floats(width=64)


def wide(type_: pa.DataType) -> st.SearchStrategy[Any]:
    """The whole range of a type."""
    match kind_of(type_):
        case Kind.FLOAT:
            return st.floats(width=type_.bit_width)
        case Kind.INTEGER:
            bits = type_.bit_width
            return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        case Kind.STRING:
            return st.text(alphabet=st.characters(codec="utf-8"), max_size=6)
        case Kind.TIMESTAMP:
            return st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
        case Kind.DATE:
            return st.integers(-719_162, 2_932_896)
        case Kind.DURATION:
            return st.integers(-(2**53), 2**53)
        case Kind.DECIMAL:
            limit = 10**type_.precision - 1
            return st.integers(-limit, limit).map(lambda n: Decimal(n).scaleb(-type_.scale))
        case _:
            return st.booleans()


def mixed(type_: pa.DataType) -> st.SearchStrategy[Any]:
    return st.one_of(nullable(type_), wide(type_))
