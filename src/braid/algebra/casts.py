"""Casts, as Spark's `try_cast`: a value that the target type cannot represent is NULL.

Where Spark has no rule or an odd one, Braid's is stated here: a duration and an integer are
converted by microseconds; a double just past the range of an integer type is NULL and not the
largest integer.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa

from braid.algebra.calendar import (
    MICROSECONDS_A_DAY,
    MICROSECONDS_A_SECOND,
    civil_from_days,
    days_from_civil,
)
from braid.algebra.types import Kind, kind_of

#: Wide enough for every exact result, so that rounding happens once, at the end.
WIDE = Context(prec=100, rounding=ROUND_HALF_UP)
_INT64 = (-(2**63), 2**63 - 1)
_INT32 = (-(2**31), 2**31 - 1)
_WHITESPACE = "".join(map(chr, range(33)))

_MOST_DIGITS = 40
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"([+-]?)(inf|infinity|nan)", re.IGNORECASE)
_DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")
_TIME = re.compile(
    r"[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?"
    r"\s*(Z|UTC|GMT|[+-][0-9]{1,2}(?::?[0-9]{2})?)?"
)
_TRUE_WORDS = frozenset({"t", "true", "y", "yes", "1"})
_FALSE_WORDS = frozenset({"f", "false", "n", "no", "0"})


def fit(value: Any, type_: pa.DataType) -> Any:
    """A computed value in the form of its type; NULL if it does not fit."""
    if value is None:
        return None
    match kind_of(type_):
        case Kind.INTEGER:
            bits: int = type_.bit_width
            return value if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None
        case Kind.TIMESTAMP | Kind.DURATION:
            return value if _INT64[0] <= value <= _INT64[1] else None
        case Kind.DATE:
            return value if _INT32[0] <= value <= _INT32[1] else None
        case Kind.FLOAT:
            return _single(value) if type_.bit_width == 32 else float(value)
        case _ if pa.types.is_decimal(type_):
            return _decimal(Decimal(value), type_)
        case _:
            return value


def cast(value: Any, source: pa.DataType, target: pa.DataType) -> Any:
    """`CAST(value AS target)` of a value of type `source`."""
    if value is None or source == target:
        return value
    to = Kind.DECIMAL if pa.types.is_decimal(target) else kind_of(target)
    of = Kind.DECIMAL if pa.types.is_decimal(source) else kind_of(source)
    if of is Kind.STRING:
        value = value.strip(_WHITESPACE) if to is not Kind.OPAQUE else value
    convert = _CASTS.get((of, to))
    if convert is not None:
        return fit(convert(value), target)
    if to is Kind.STRING:
        return _text(value, source)
    if of is Kind.STRING and pa.types.is_binary(target):
        return value.encode()
    return fit(value, target) if of is to else None


def _single(value: float) -> float:
    """The nearest 32-bit float."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _decimal(value: Decimal, type_: pa.DataType) -> Decimal | None:
    if value.adjusted() > type_.precision:  # far outside: it cannot even be rounded
        return None
    with localcontext(WIDE):
        rounded = value.quantize(Decimal(1).scaleb(-type_.scale))
        return rounded if abs(rounded) < Decimal(10) ** (type_.precision - type_.scale) else None


# ---- numbers ------------------------------------------------------------------------------------


def _truncate(value: Any) -> int | None:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return int(value)


def _float_to_decimal(value: float) -> Decimal | None:
    """Of the shortest decimal that names the double, not of its exact binary value."""
    return Decimal(repr(value)) if math.isfinite(value) else None


def _float_to_timestamp(seconds: float) -> int | None:
    return _truncate(seconds * MICROSECONDS_A_SECOND)


# ---- from strings -------------------------------------------------------------------------------


def _parse_boolean(text: str) -> bool | None:
    word = text.lower()
    return True if word in _TRUE_WORDS else False if word in _FALSE_WORDS else None


def _parse_integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _MOST_DIGITS:  # no integer type has so many, and `int` may refuse them
        return None
    value = int(digits or "0")
    return -value if text[0] == "-" else value


def _parse_float(text: str) -> float | None:
    if _DECIMAL.fullmatch(text) or _NOT_FINITE.fullmatch(text):
        return float(text)
    return None


def _parse_decimal(text: str) -> Decimal | None:
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _parse_date(text: str) -> int | None:
    found = _DATE.match(text)
    if found is None or (found.end() < len(text) and text[found.end()] not in " T"):
        return None
    if found.end() < len(text) and found[3] is None:
        return None
    year, month, day = (int(part or 1) for part in found.groups())
    return days_from_civil(year, month, day)


def _parse_timestamp(text: str) -> int | None:
    found = _DATE.match(text)
    days = _parse_date(text)
    if found is None or days is None:
        return None
    if found.end() == len(text):
        return days * MICROSECONDS_A_DAY
    time = _TIME.fullmatch(text, found.end())
    if time is None:
        return None
    hour, minute, second = (int(time[i] or 0) for i in (1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        return None
    micros = int((time[4] or "").ljust(6, "0")[:6])
    of_day = ((hour * 60 + minute) * 60 + second) * MICROSECONDS_A_SECOND + micros
    return days * MICROSECONDS_A_DAY + of_day - _offset(time[5])


def _offset(zone: str | None) -> int:
    if zone is None or zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    size = (hours * 60 + minutes) * 60 * MICROSECONDS_A_SECOND
    return size if zone[0] == "+" else -size


# ---- to strings ---------------------------------------------------------------------------------


def _text(value: Any, type_: pa.DataType) -> str | None:
    match kind_of(type_):
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.INTEGER:
            return str(value)
        case Kind.FLOAT:
            return float_text(value, single=type_.bit_width == 32)
        case Kind.DATE:
            return _date_text(value)
        case Kind.TIMESTAMP:
            days, rest = divmod(value, MICROSECONDS_A_DAY)
            return f"{_date_text(days)} {_clock(rest)}"
        case Kind.DURATION:
            days, rest = divmod(abs(value), MICROSECONDS_A_DAY)
            sign = "-" if value < 0 else ""
            return f"INTERVAL '{sign}{days} {_clock(rest)}' DAY TO SECOND"
        case _ if pa.types.is_decimal(type_):
            return f"{value:f}"
        case _ if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        case _:
            return None


def _date_text(days: int) -> str:
    year, month, day = civil_from_days(days)
    return f"{year:04d}-{month:02d}-{day:02d}"


def _clock(micros: int) -> str:
    seconds, fraction = divmod(micros, MICROSECONDS_A_SECOND)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{clock}.{fraction:06d}".rstrip("0") if fraction else clock


def float_text(value: float, *, single: bool = False) -> str:
    """The shortest digits that name the number, as Java writes them: 1.0, 1.0E10, 1.5E-7."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(_shortest(value, single)).normalize(WIDE).as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits))
    minus = "-" if sign else ""
    point = len(figures) + exponent  # where the decimal point stands in the figures
    if value == 0:
        return f"{minus}0.0"
    if -3 < point <= 7:
        whole = figures[:point].ljust(point, "0") if point > 0 else "0"
        fraction = figures[point:] if point > 0 else "0" * -point + figures
        return f"{minus}{whole}.{fraction or '0'}"
    return f"{minus}{figures[0]}.{figures[1:] or '0'}E{point - 1}"


def _shortest(value: float, single: bool) -> str:
    if not single:
        return repr(value)
    candidates = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next(text for text in candidates if _single(float(text)) == value)


_CASTS: dict[tuple[Kind, Kind], Callable[[Any], Any]] = {
    (Kind.BOOLEAN, Kind.INTEGER): int,
    (Kind.BOOLEAN, Kind.FLOAT): float,
    (Kind.BOOLEAN, Kind.DECIMAL): lambda value: Decimal(int(value)),
    (Kind.INTEGER, Kind.BOOLEAN): lambda value: value != 0,
    (Kind.INTEGER, Kind.FLOAT): float,
    (Kind.INTEGER, Kind.DECIMAL): Decimal,
    (Kind.INTEGER, Kind.TIMESTAMP): lambda seconds: seconds * MICROSECONDS_A_SECOND,
    (Kind.INTEGER, Kind.DURATION): lambda micros: micros,
    (Kind.FLOAT, Kind.BOOLEAN): lambda value: value != 0,
    (Kind.FLOAT, Kind.INTEGER): _truncate,
    (Kind.FLOAT, Kind.DECIMAL): _float_to_decimal,
    (Kind.FLOAT, Kind.TIMESTAMP): _float_to_timestamp,
    (Kind.DECIMAL, Kind.BOOLEAN): lambda value: value != 0,
    (Kind.DECIMAL, Kind.INTEGER): _truncate,
    (Kind.DECIMAL, Kind.FLOAT): float,
    (Kind.TIMESTAMP, Kind.INTEGER): lambda moment: moment // MICROSECONDS_A_SECOND,
    (Kind.TIMESTAMP, Kind.FLOAT): lambda moment: moment / MICROSECONDS_A_SECOND,
    (Kind.TIMESTAMP, Kind.DATE): lambda moment: moment // MICROSECONDS_A_DAY,
    (Kind.DATE, Kind.TIMESTAMP): lambda days: days * MICROSECONDS_A_DAY,
    (Kind.DURATION, Kind.INTEGER): lambda micros: micros,
    (Kind.DURATION, Kind.FLOAT): float,
    (Kind.STRING, Kind.BOOLEAN): _parse_boolean,
    (Kind.STRING, Kind.INTEGER): _parse_integer,
    (Kind.STRING, Kind.FLOAT): _parse_float,
    (Kind.STRING, Kind.DECIMAL): _parse_decimal,
    (Kind.STRING, Kind.DATE): _parse_date,
    (Kind.STRING, Kind.TIMESTAMP): _parse_timestamp,
}
