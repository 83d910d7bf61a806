"""Payloads: rows as JSON text, a column at a time, for `matches`.

Spark parses the text into a VARIANT, so the conventions are those of Spark's `to_json`: NaN and
the infinities are strings, timestamps are ISO-8601 (`Z` for those with a time zone), decimals
are numbers. Unlike Spark, a NULL is written as null, so that every row shows every attribute.
Floats are written so that reading them gives exactly the same value. Durations are integer
microseconds, binary is base64.

Flat types never meet Python row by row; nested values and binary do.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.types import Kind, canonical, kind_of

#: Control characters and the two that JSON escapes, with their escapes; backslash comes first.
_ESCAPES = [("\\", "\\\\"), ('"', '\\"'), ("\b", "\\b"), ("\t", "\\t"), ("\n", "\\n")]
_ESCAPES += [("\f", "\\f"), ("\r", "\\r")]
_ESCAPES += [(chr(c), f"\\u{c:04x}") for c in range(32) if chr(c) not in "\b\t\n\f\r"]
_NEEDS_ESCAPE = r'[\x00-\x1f"\\]'


def to_json(table: pa.Table) -> pa.Array:
    """One JSON object per row, in the order of the columns."""
    if table.num_rows == 0:
        return pa.array([], pa.string())
    if table.num_columns == 0:
        return pa.array(["{}"] * table.num_rows, pa.string())
    parts: list[Any] = []
    for position, name in enumerate(table.column_names):
        opening = "," if position else "{"
        parts.append(pa.scalar(f"{opening}{json.dumps(name, ensure_ascii=False)}:"))
        parts.append(_column(_whole(table.column(position))))
    parts.append(pa.scalar("}"))
    return pc.binary_join_element_wise(*parts, "")


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one array of its canonical type."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    wanted = canonical(column.type)
    return column if column.type == wanted else column.cast(wanted, safe=False)


def _column(values: pa.Array) -> pa.Array:
    """Each value as JSON text, NULL as `null`."""
    if pa.types.is_decimal(values.type):
        text = _decimal(values)
    else:
        text = _WRITERS[kind_of(values.type)](values)
    return pc.fill_null(text, "null") if text.null_count else text


def _plain(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())


def _null(values: pa.Array) -> pa.Array:
    return pa.nulls(len(values), pa.string())


def _float(values: pa.Array) -> pa.Array:
    """The shortest text that reads back as the same double, never one that reads as an integer.

    A FLOAT is widened first, as JSON has one kind of number.
    """
    text = values.cast(pa.float64()).cast(pa.string())
    if pc.any(pc.equal(pc.trunc(values), values)).as_py():
        text = pc.replace_substring_regex(text, r"^(-?[0-9]+)$", r"\1.0")
    finite = pc.is_finite(values)
    if pc.all(finite).as_py() is not False:
        return text
    special = pc.case_when(
        pc.make_struct(pc.is_nan(values), pc.greater(values, 0.0)),
        pa.scalar('"NaN"'),
        pa.scalar('"Infinity"'),
        pa.scalar('"-Infinity"'),
    )
    return pc.if_else(finite, text, special)


def _decimal(values: pa.Array) -> pa.Array:
    """As numbers without an exponent: Arrow writes 1E-7 for small ones, which JSON reads too."""
    return values.cast(pa.string())


def _string(values: pa.Array) -> pa.Array:
    values = values.cast(pa.string())
    if pc.any(pc.match_substring_regex(values, _NEEDS_ESCAPE)).as_py():
        # Few distinct strings are usual: escape each once.
        encoded = values.dictionary_encode()
        values = _escape(encoded.dictionary).take(encoded.indices)
    return _quoted(values)


def _escape(values: pa.Array) -> pa.Array:
    for character, escape in _ESCAPES:
        values = pc.replace_substring(values, character, escape)
    return values


def _quoted(values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', values, '"', "")


def _timestamp(values: pa.Array) -> pa.Array:
    """2024-01-31T09:30:00.123456Z, always with six digits; no Z for timestamps without a zone."""
    zone = "Z" if values.type.tz else ""
    clock = values.cast(pa.int64()).cast(pa.timestamp("us"))
    text = pc.replace_substring(clock.cast(pa.string()), " ", "T")
    return pc.binary_join_element_wise('"', text, f'{zone}"', "")


def _date(values: pa.Array) -> pa.Array:
    return _quoted(values.cast(pa.string()))


def _duration(values: pa.Array) -> pa.Array:
    return values.cast(pa.int64()).cast(pa.string())


def _opaque(values: pa.Array) -> pa.Array:
    """Arrays, structs, maps and binary: row by row, by the same conventions."""
    plain = _plainer(values.type)
    rows = [None if row is None else _dump(plain(row)) for row in values.to_pylist()]
    return pa.array(rows, pa.string())


def _dump(value: Any) -> str:
    """json.dumps, with decimals as numbers of all their digits."""
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, dict):
        fields = (f"{json.dumps(str(k), ensure_ascii=False)}:{_dump(v)}" for k, v in value.items())
        return "{" + ",".join(fields) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _plainer(type_: pa.DataType) -> Callable[[Any], Any]:
    """What turns a Python value of an Arrow type into what `_dump` can write."""
    if pa.types.is_struct(type_):
        fields = {field.name: _plainer(field.type) for field in type_}
        return _nullable(lambda row: {name: fields[name](v) for name, v in row.items()})
    if pa.types.is_map(type_):
        key, item = _plainer(type_.key_type), _plainer(type_.item_type)
        return _nullable(lambda row: {key(k): item(v) for k, v in _pairs(row)})
    if pa.types.is_nested(type_):
        element = _plainer(type_.value_type)
        return _nullable(lambda row: [element(v) for v in row])
    return _nullable(_plain_value)


def _pairs(row: Any) -> Sequence[tuple[Any, Any]]:
    return list(row.items()) if isinstance(row, dict) else row


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _plain_value(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case datetime.datetime():
            zone = "" if value.tzinfo is None else "Z"
            clock = value.astimezone(datetime.UTC) if value.tzinfo else value
            return clock.replace(tzinfo=None).isoformat(timespec="microseconds") + zone
        case datetime.timedelta():
            return value // datetime.timedelta(microseconds=1)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case _:
            return value


_WRITERS: dict[Kind, Callable[[pa.Array], pa.Array]] = {
    Kind.BOOLEAN: _plain,
    Kind.INTEGER: _plain,
    Kind.FLOAT: _float,
    Kind.STRING: _string,
    Kind.TIMESTAMP: _timestamp,
    Kind.DATE: _date,
    Kind.DURATION: _duration,
    Kind.OPAQUE: _opaque,
    Kind.NULL: _null,
}
