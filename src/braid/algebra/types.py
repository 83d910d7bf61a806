"""The types of attributes: Arrow's own, and what each becomes inside a kernel.

A kernel sees 64-bit words only. `Kind` says how a value of a type is written into a word:
numbers as themselves (floats by their bits), strings as codes of the shard's intern table,
decimals of up to 18 digits as scaled integers, times and durations as microseconds. Whatever
has no such form (`OPAQUE`: arrays, structs, wide decimals, binary) can be carried and
returned, and taken apart by functions outside the kernels, but not compared inside them.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

import pyarrow as pa

BOOLEAN = pa.bool_()
BIGINT = pa.int64()
DOUBLE = pa.float64()
STRING = pa.string()
TIMESTAMP = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
DATE = pa.date32()
DURATION = pa.duration("us")

MAX_KERNEL_DIGITS = 18


class Kind(Enum):
    """How a value is held in a word."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    STRING = "string"
    TIMESTAMP = "timestamp"
    DATE = "date"
    DURATION = "duration"
    OPAQUE = "opaque"
    NULL = "null"


@lru_cache(1024)
def kind_of(type_: pa.DataType) -> Kind:
    """The kernel form of an Arrow type."""
    if pa.types.is_boolean(type_):
        return Kind.BOOLEAN
    if pa.types.is_integer(type_):
        return Kind.INTEGER
    if pa.types.is_floating(type_):
        return Kind.FLOAT
    if pa.types.is_decimal(type_):
        return Kind.DECIMAL if type_.precision <= MAX_KERNEL_DIGITS else Kind.OPAQUE
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return Kind.STRING
    if pa.types.is_timestamp(type_):
        return Kind.TIMESTAMP
    if pa.types.is_date(type_):
        return Kind.DATE
    if pa.types.is_duration(type_):
        return Kind.DURATION
    if pa.types.is_null(type_):
        return Kind.NULL
    return Kind.OPAQUE


def canonical(type_: pa.DataType) -> pa.DataType:
    """The one form in which Braid carries a type: microseconds for times, plain strings."""
    if pa.types.is_dictionary(type_):
        return canonical(type_.value_type)
    if pa.types.is_timestamp(type_):
        return TIMESTAMP if type_.tz else TIMESTAMP_NTZ
    if pa.types.is_date(type_):
        return DATE
    if pa.types.is_duration(type_):
        return DURATION
    if pa.types.is_large_string(type_) or type_ == pa.string_view():
        return STRING
    if pa.types.is_large_binary(type_):
        return pa.binary()
    if pa.types.is_uint64(type_):
        return pa.decimal128(20, 0)
    if pa.types.is_unsigned_integer(type_):
        return BIGINT
    if pa.types.is_float16(type_):
        return pa.float32()
    if pa.types.is_decimal(type_) and type_.precision <= 38:
        return pa.decimal128(type_.precision, type_.scale)
    return type_


_NAMES = {
    "BOOLEAN": BOOLEAN,
    "BOOL": BOOLEAN,
    "TINYINT": pa.int8(),
    "BYTE": pa.int8(),
    "SMALLINT": pa.int16(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": BIGINT,
    "LONG": BIGINT,
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "VARCHAR": STRING,
    "TEXT": STRING,
    "BINARY": pa.binary(),
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMP_NTZ": TIMESTAMP_NTZ,
    "INTERVAL": DURATION,
    "XML": STRING,
    "JSON": STRING,
}


def type_named(name: str) -> pa.DataType | None:
    """The type of a SQL name without parameters; None if there is none."""
    return _NAMES.get(name.upper())


def type_names() -> tuple[str, ...]:
    return tuple(_NAMES)


def sql_name(type_: pa.DataType) -> str:
    """The SQL name of a type."""
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if pa.types.is_list(type_):
        return f"ARRAY<{sql_name(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"MAP<{sql_name(type_.key_type)}, {sql_name(type_.item_type)}>"
    if pa.types.is_struct(type_):
        fields = (f"{f.name}: {sql_name(f.type)}" for f in type_)
        return f"STRUCT<{', '.join(fields)}>"
    for name, known in _NAMES.items():
        if known == type_:
            return name
    return str(type_).upper()


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The common type of two values for a comparison or a CASE; None if there is none."""
    if left == right:
        return left
    a, b = kind_of(left), kind_of(right)
    if a is Kind.NULL:
        return right
    if b is Kind.NULL:
        return left
    numeric = {Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL}
    if a in numeric and b in numeric:
        if Kind.FLOAT in (a, b):
            return DOUBLE
        if Kind.DECIMAL in (a, b):
            return _common_decimal(left, right)
        return BIGINT
    times = {Kind.TIMESTAMP, Kind.DATE}
    if a in times and b in times:
        return left if a is Kind.TIMESTAMP else right
    if {a, b} == {Kind.DURATION, Kind.INTEGER}:
        return BIGINT
    return None


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    (p1, s1), (p2, s2) = decimal_shape(left), decimal_shape(right)
    scale = max(s1, s2)
    digits = min(max(p1 - s1, p2 - s2) + scale, MAX_KERNEL_DIGITS)
    return pa.decimal128(digits, scale) if scale <= digits else None


def decimal_shape(type_: pa.DataType) -> tuple[int, int]:
    """Precision and scale; an integer type counts as a decimal with 18 digits."""
    if pa.types.is_decimal(type_):
        return type_.precision, type_.scale
    return MAX_KERNEL_DIGITS, 0
