"""A column of parameters in the declared type. Each value is converted exactly or refused.

Arrow and NumPy convert whole columns. If some values do not fit, only the parts around them are
converted value by value.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.casts import cast, fit
from braid.algebra.expressions import Literal
from braid.algebra.types import DOUBLE, STRING, Kind, kind_of
from braid.errors import ConfigError
from braid.lang.bind.casts import TIMES, text_as
from braid.lang.parse import syntax
from braid.lang.parse.durations import parse_duration
from braid.lang.parse.problems import Problem
from braid.lang.templates.parameter_rows import Column

#: The size of the part that is converted value by value.
_PART = 512
#: The numbers that Arrow reads as users do: no hexadecimal numbers, no unusual signs.
_WRITTEN = {
    Kind.INTEGER: r"^-?[0-9]{1,18}$",
    Kind.FLOAT: r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$",
}


def converted(column: Column, type_: pa.DataType, *, written: bool) -> pa.Array:
    """The column in a type, with NULL for a missing value or one without an equal in the type."""
    if isinstance(column, list):
        return _one_by_one(column, type_, written=False)
    if column.type == type_ and not pa.types.is_floating(type_):
        return column
    return _in_parts(column, type_, _written if written else _typed, written=written)


_Fast = Callable[[pa.Array, pa.DataType], pa.Array | None]


def _in_parts(array: pa.Array, type_: pa.DataType, fast: _Fast, *, written: bool) -> pa.Array:
    """All at once if that works, otherwise in halves, finally value by value."""
    try:
        found = fast(array, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        found = None
    if found is not None:
        return found
    if len(array) <= _PART:
        return _one_by_one(array.to_pylist(), type_, written=written)
    half = len(array) // 2
    sides = (array.slice(0, half), array.slice(half))
    return pa.concat_arrays([_in_parts(side, type_, fast, written=written) for side in sides])


def _written(array: pa.Array, type_: pa.DataType) -> pa.Array | None:
    """Text in the one form that all readers interpret in the same way."""
    pattern = _WRITTEN.get(kind_of(type_))
    if type_ == STRING:
        return array
    if pattern is None or not pc.all(pc.match_substring_regex(array, pattern)).as_py():
        return None
    if type_ == pa.float32():
        return None
    made = array.cast(type_)
    # A number that is too large is not exact.
    too_large = pa.types.is_floating(type_) and pc.any(pc.is_inf(made)).as_py()
    return None if too_large else made


def _typed(array: pa.Array, type_: pa.DataType) -> pa.Array | None:
    """Numbers from numbers, times from times."""
    of, to = kind_of(array.type), kind_of(type_)
    if of is Kind.NULL:
        return pa.nulls(len(array), type_)
    if of is Kind.INTEGER and type_ == DOUBLE:
        return array.cast(type_, safe=False)
    if (of, to) == (Kind.FLOAT, Kind.FLOAT):
        return array.cast(type_) if array.type.bit_width <= type_.bit_width else None
    if of in (Kind.INTEGER, Kind.FLOAT) and to is Kind.INTEGER:
        return array.cast(type_)
    return array.cast(type_) if of is to and of in (Kind.DURATION, *TIMES) else None


def _one_by_one(values: list[Any], type_: pa.DataType, *, written: bool) -> pa.Array:
    read = _from_text if written else _from_value
    return pa.array([None if v is None else read(v, type_) for v in values], type_)


def _from_text(text: str, type_: pa.DataType) -> Any:
    """A text of a file as CAST reads it; None if that is not exact."""
    kind = kind_of(type_)
    if kind is Kind.DURATION:
        return _duration(text)
    value = cast(text, STRING, type_)
    if kind is Kind.DECIMAL and value is not None and value != Decimal(text.strip()):
        return None
    if kind is Kind.DATE and ":" in text:
        return None
    if kind is Kind.FLOAT and value is not None and np.isinf(value) and "f" not in text.lower():
        return None
    return value


def _from_value(value: Any, type_: pa.DataType) -> Any:
    """A Python value in a type; None if it is of another kind or does not fit."""
    value = value.item() if isinstance(value, np.generic) else value
    match kind_of(type_):
        case Kind.BOOLEAN:
            return value if isinstance(value, bool) else None
        case Kind.STRING:
            return value if isinstance(value, str) else None
        case Kind.DURATION:
            if isinstance(value, timedelta):
                return value // timedelta(microseconds=1)
            return _duration(value) if isinstance(value, str) else None
        case Kind.TIMESTAMP | Kind.DATE:
            return _time(value, type_)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return _number(value, type_)


def _number(value: float | Decimal, type_: pa.DataType) -> Any:
    kind = kind_of(type_)
    if kind is Kind.FLOAT:
        try:
            found = fit(float(value), type_)
        except OverflowError:
            return None
        return found if not np.isinf(found) or value in (float("inf"), float("-inf")) else None
    try:
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        if kind is Kind.INTEGER:
            return fit(int(exact), type_) if exact == int(exact) else None
        found = fit(exact, type_)
        return found if found == exact else None
    except (InvalidOperation, ValueError, OverflowError):
        return None


def _time(value: Any, type_: pa.DataType) -> Any:
    """A date, a time, or the text of one as in a query."""
    if isinstance(value, datetime | date):
        value = value.isoformat()
    if not isinstance(value, str):
        return None
    try:
        literal: Literal = text_as(syntax.Text(value, (0, 0)), type_)
    except Problem:
        return None
    return literal.value


def _duration(text: str) -> int | None:
    try:
        return parse_duration(text)
    except ConfigError:
        return None


def derived(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The constants of a parameter in a type that has an equal for each (see
    `constant_traces.Declared`)."""
    if kind_of(array.type) is Kind.DECIMAL and type_ == DOUBLE:
        # Arrow's own conversion does not always give the nearest double.
        return pa.array([float(value) for value in array.to_pylist()], DOUBLE)
    return array.cast(type_, safe=False)
