"""Implicit and explicit casts to the type that a call needs.

The binder converts literals, so that a predicate such as `Price > 83` is a comparison with the
constant 83.0.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from math import isinf

import pyarrow as pa

from braid.algebra.expressions import Call, Expression, Literal
from braid.algebra.types import (
    BIGINT,
    DATE,
    DOUBLE,
    DURATION,
    MAX_KERNEL_DIGITS,
    Kind,
    kind_of,
    sql_name,
)
from braid.errors import ConfigError
from braid.lang.bind.constant_traces import Declared, derived
from braid.lang.parse import syntax
from braid.lang.parse.durations import parse_duration
from braid.lang.parse.limits import MAX_QUOTED, quoted, whole_number
from braid.lang.parse.problems import At, Problem

NUMERIC = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL})
TIMES = frozenset({Kind.TIMESTAMP, Kind.DATE})
_INT64 = 2**63

kind = lru_cache(maxsize=1024)(kind_of)


def is_null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and kind(expression.type) is Kind.NULL


def mismatch(what: str, left: Expression, right: Expression, at: At) -> Problem:
    types = f"{sql_name(left.type)} and {sql_name(right.type)}"
    return Problem("E110", f"{what} {types}", at, _mismatch_hint(left.type, right.type))


def _mismatch_hint(left: pa.DataType, right: pa.DataType) -> str | None:
    kinds = {kind(left), kind(right)}
    if Kind.OPAQUE in kinds:
        wide = [t for t in (left, right) if pa.types.is_decimal(t) and t.precision > 18]
        if wide:
            return f"decimals of more than {MAX_KERNEL_DIGITS} digits: CAST(... AS DOUBLE) first"
        return None
    if Kind.STRING in kinds:
        other = right if kind(left) is Kind.STRING else left
        return f"convert with CAST(... AS {sql_name(other)})"
    return None


def number(node: syntax.Number) -> Literal:
    """A number without context: BIGINT if it is whole, DOUBLE if it has a point."""
    text = node.text
    if "." in text or "e" in text or "E" in text:
        real = float(text)
        if isinf(real):
            message = f"{quoted(text)} is too large for DOUBLE"
            raise Problem("E112", message, node.at, "the largest DOUBLE is about 1.8e308")
        return Literal(real, DOUBLE)
    value = whole_number(text)
    if value is None or not -_INT64 <= value < _INT64:
        hint = f"write {text}.0 for a DOUBLE" if len(text) <= MAX_QUOTED else "write a DOUBLE"
        raise Problem("E112", f"{quoted(text)} is too large for BIGINT", node.at, hint)
    return Literal(value, BIGINT)


def decimal_number(node: syntax.Number) -> Literal | None:
    """A number beside a DECIMAL: exactly as written, or None if it has too many digits."""
    if "e" in node.text.lower():
        return None
    value = Decimal(node.text)
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits), scale + 1)
    if precision > MAX_KERNEL_DIGITS:
        return None
    return Literal(value, pa.decimal128(precision, scale))


def coerce(expression: Expression, type_: pa.DataType) -> Expression:
    """An expression in another type. A literal is converted, any other expression is cast."""
    if expression.type == type_:
        return expression
    if isinstance(expression, Literal):
        folded = derived(expression, "fold", type_, fold(expression, type_))
        if folded is not None:
            return folded
    if isinstance(expression, Declared):
        converted = expression.converted(type_)
        if converted is not None:
            return converted
    if kind(expression.type) is Kind.DURATION and kind(type_) is Kind.FLOAT:
        expression = coerce(expression, BIGINT)
    return Call("cast", (expression,), type_)


def negated(literal: Literal) -> Literal | None:
    """A constant with a minus before it; None if the result is out of range."""
    fits = literal.value is not None and literal.value != -_INT64
    result = Literal(-literal.value, literal.type) if fits else None
    return derived(literal, "negate", None, result)


def widen(expression: Expression) -> Expression:
    """A number in a type of arithmetic: BIGINT, DOUBLE, or its own DECIMAL."""
    match kind(expression.type):
        case Kind.INTEGER:
            return coerce(expression, BIGINT)
        case Kind.FLOAT:
            return coerce(expression, DOUBLE)
        case _:
            return expression


def fold(literal: Literal, type_: pa.DataType) -> Literal | None:
    """A constant in another type. None if that type has no equal value, or the conversion needs run
    time."""
    value = literal.value
    if value is None:
        return Literal(None, type_)
    of, to = kind(literal.type), kind(type_)
    if of not in NUMERIC | {Kind.DURATION} or isinstance(value, bool):
        return None
    if to is Kind.FLOAT and type_ == DOUBLE:
        return Literal(float(value), type_)
    if to in (Kind.INTEGER, Kind.DURATION) and of in (Kind.INTEGER, Kind.DURATION):
        bits = 64 if to is Kind.DURATION else type_.bit_width
        return Literal(value, type_) if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None
    if to is Kind.DECIMAL and of in (Kind.INTEGER, Kind.DECIMAL):
        return _as_decimal(Decimal(value), type_)
    return None


def _as_decimal(value: Decimal, type_: pa.DataType) -> Literal | None:
    scaled = value.scaleb(type_.scale)
    if scaled != scaled.to_integral_value() or len(str(abs(int(scaled)))) > type_.precision:
        return None
    return Literal(value.quantize(Decimal(1).scaleb(-type_.scale)), type_)


def text_as(node: syntax.Text, type_: pa.DataType) -> Literal:
    """A string beside a time, converted to a time."""
    try:
        match kind(type_):
            case Kind.DATE:
                return Literal((date.fromisoformat(node.value) - date(1970, 1, 1)).days, DATE)
            case Kind.DURATION:
                return Literal(parse_duration(node.value), DURATION)
            case _:
                return Literal(_microseconds(node.value), type_)
    except (ValueError, OverflowError):
        hint = "write it as '2024-05-17' or '2024-05-17 09:30:00'"
    except ConfigError as error:
        hint = error.hint or ""
    raise Problem("E112", f"{node.value!r} is not a {sql_name(type_)}", node.at, hint)


def time_literal(bound: Expression, node: syntax.Text, type_: pa.DataType) -> Expression:
    """The string `node`, already bound as one, as a time."""
    literal = text_as(node, type_)
    return read_again(bound, "time", type_, literal) or literal


def read_again(
    bound: Expression, way: str, type_: pa.DataType | None, literal: Literal | None
) -> Literal | None:
    """The constant `bound`, read from its text in another way, with its provenance."""
    return derived(bound, way, type_, literal) if isinstance(bound, Literal) else literal


def _microseconds(text: str) -> int:
    moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


_SCALARS = NUMERIC | TIMES | {Kind.BOOLEAN, Kind.DURATION}


def castable(of: pa.DataType, to: pa.DataType) -> bool:
    """Whether CAST allows these two types. A value that does not fit becomes NULL."""
    a = Kind.DECIMAL if pa.types.is_decimal(of) else kind(of)
    b = Kind.DECIMAL if pa.types.is_decimal(to) else kind(to)
    if of == to or a is Kind.NULL:
        return True
    if Kind.STRING in (a, b):
        return (b if a is Kind.STRING else a) in _SCALARS
    if a in NUMERIC | {Kind.BOOLEAN} and b in NUMERIC | {Kind.BOOLEAN}:
        return True
    if a in TIMES and b in TIMES:
        return True
    pair = {a, b}
    return pair == {Kind.DURATION, Kind.INTEGER} or (
        Kind.TIMESTAMP in pair and bool(pair & NUMERIC)
    )
