"""Constant folding: the values of expressions over constants, for many members at once.

`:lo + :w` in a prepared query is one number for each member. It is computed when the member is
admitted, so it is a constant like any other: an index can find it, and no predicate has to be
compiled for it.

The values are those of `algebra/functions.py`, with its rules: what does not fit its type is NULL,
and so is a division by zero. Each function works on whole columns. Casts that are not between
numbers, and parts of dates, are computed once for each distinct value. `is_foldable` says which
expressions can be computed here: not logarithms, exponentials and powers, whose last bit
depends on the library, and no function over texts but comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from braid.algebra.calendar import PARTS, calendar_part
from braid.algebra.casts import cast
from braid.algebra.expressions import Call, Expression, Literal, Parameter, walk
from braid.algebra.functions import is_vector
from braid.algebra.types import Kind, kind_of
from braid.operators.core.columns import array_of, words_of
from braid.operators.core.values import Values

Array = np.ndarray[Any, np.dtype[Any]]

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class Column(NamedTuple):
    """A value for each member, and where it is NULL. Decimals are scaled integers."""

    values: Array
    nulls: Array


def is_foldable(expression: Expression) -> bool:
    """Whether an expression is computed from constants alone, by functions that are known here."""
    return isinstance(expression, Call) and _is_foldable(expression)


@lru_cache(1 << 14)
def _is_foldable(call: Call) -> bool:
    return all(_is_known(part) for part in walk(call))


def _is_known(part: Expression) -> bool:
    if isinstance(part, Literal | Parameter):
        return kind_of(part.type) not in (Kind.OPAQUE, Kind.NULL)
    if not isinstance(part, Call) or kind_of(part.type) in (Kind.OPAQUE, Kind.NULL):
        return False
    if part.function == "cast":
        return not is_vector(part) or Kind.STRING in (
            kind_of(part.args[0].type),
            kind_of(part.type),
        )
    if part.function in ("add", "sub", "mul") and kind_of(part.type) is Kind.DECIMAL:
        return _scale_fits(part)
    has_text = any(kind_of(arg.type) is Kind.STRING for arg in part.args)
    if part.function in _ON_NUMBERS and has_text:
        return False
    if part.function == "round":
        return isinstance(part.args[1], Literal)
    is_decimal = kind_of(part.type) is Kind.DECIMAL
    return part.function in _RULES and not (part.function in ("mod", "sign") and is_decimal)


def _scale_fits(call: Call) -> bool:
    """Whether a decimal is the sum or product of the scaled integers."""
    if any(kind_of(arg.type) is not Kind.DECIMAL for arg in call.args):
        return False
    left, right = (arg.type.scale for arg in call.args)
    if call.function == "mul":
        return bool(left + right == call.type.scale)
    return bool(left == right == call.type.scale)


def folded(expression: Expression, constants: Sequence[pa.Array], count: int) -> pa.Array:
    """The value of an expression for each member, NULL among them."""
    with np.errstate(all="ignore"):
        found = _evaluated(expression, constants, count)
    kind = kind_of(expression.type)
    if kind is Kind.STRING:
        return pa.array(found.values, pa.string(), mask=found.nulls)
    values = found.values.astype(np.float64 if kind is Kind.FLOAT else np.int64)
    nulls = found.nulls if found.nulls.any() else None
    return array_of(values.view(np.int64), nulls, expression.type, Values())


def _evaluated(expression: Expression, constants: Sequence[pa.Array], count: int) -> Column:
    match expression:
        case Parameter(index=index, type=type_):
            return _column_of(constants[index], type_)
        case Literal(value=value, type=type_):
            column = _column_of(pa.array([_shown(value, type_)], _arrow_type(type_)), type_)
            return Column(*(np.repeat(part, count) for part in column))
        case Call(function=function, args=args):
            columns = [_evaluated(arg, constants, count) for arg in args]
            if function == "cast":
                return _cast(expression, columns[0])
            if function in PARTS:
                return _calendar(expression, columns[0])
            return _RULES[function](expression, columns)
    raise AssertionError("constants have no attributes")


def _arrow_type(type_: pa.DataType) -> pa.DataType:
    """Times and durations are numbers."""
    kind = kind_of(type_)
    return pa.int64() if kind in (Kind.TIMESTAMP, Kind.DURATION, Kind.DATE) else type_


def _shown(value: Any, type_: pa.DataType) -> Any:
    return float(value) if value is not None and kind_of(type_) is Kind.FLOAT else value


def _column_of(array: pa.Array, type_: pa.DataType) -> Column:
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    kind = kind_of(type_)
    if kind is Kind.STRING:
        return Column(array.fill_null("").to_numpy(zero_copy_only=False), nulls)
    if kind is Kind.DATE and pa.types.is_int64(array.type):
        array = array.cast(pa.int32())
    words = words_of(array, type_, Values())
    if kind is Kind.FLOAT:
        return Column(words.view(np.float64), nulls)
    return Column(words != 0 if kind is Kind.BOOLEAN else words, nulls)


# ---- rules: what a function makes of columns ----

Rule = Callable[[Call, list[Column]], Column]


def _any_null(columns: Sequence[Column]) -> Array:
    found: Array = columns[0].nulls.copy()
    for column in columns[1:]:
        found |= column.nulls
    return found


def _strict(compute: Callable[..., tuple[Array, Array] | Array]) -> Rule:
    """NULL if an argument is, and where `compute` says so."""

    def rule(call: Call, columns: list[Column]) -> Column:
        nulls = _any_null(columns)
        made = compute(*(column.values for column in columns))
        values, bad = made if isinstance(made, tuple) else (made, None)
        return Column(values, nulls if bad is None else nulls | bad)

    return rule


def _arithmetic(integers: Callable[..., tuple[Array, Array]], floats: Callable[..., Array]) -> Rule:
    """Integers with NULL on overflow, doubles as they are, decimals within their digits."""

    def rule(call: Call, columns: list[Column]) -> Column:
        if kind_of(call.type) is Kind.FLOAT:
            return _strict(floats)(call, columns)
        return _within_digits(_strict(integers)(call, columns), call.type)

    return rule


def _within_digits(column: Column, type_: pa.DataType) -> Column:
    if kind_of(type_) is not Kind.DECIMAL:
        return column
    limit = 10**type_.precision
    return Column(
        column.values, column.nulls | (column.values >= limit) | (column.values <= -limit)
    )


def _add(left: Array, right: Array) -> tuple[Array, Array]:
    made = left + right
    return made, ((left ^ made) & (right ^ made)) < 0


def _sub(left: Array, right: Array) -> tuple[Array, Array]:
    made = left - right
    return made, ((left ^ right) & (left ^ made)) < 0


def _mul(left: Array, right: Array) -> tuple[Array, Array]:
    made = left * right
    divisor = np.where((left == 0) | (left == -1), 1, left)
    wrong = (left != 0) & (left != -1) & (made // divisor != right)
    return made, wrong | ((left == -1) & (right == _LOWEST))


def _div(left: Array, right: Array) -> tuple[Array, Array]:
    return left / np.where(right == 0, 1.0, right), right == 0


def _int_div(left: Array, right: Array) -> tuple[Array, Array]:
    bad = (right == 0) | ((left == _LOWEST) & (right == -1))
    divisor = np.where(bad, 1, right)
    quotient = left // divisor
    rounded_down = (quotient * divisor != left) & ((left < 0) != (divisor < 0))
    return quotient + rounded_down, bad


def _mod(call: Call, columns: list[Column]) -> Column:
    left, right = (column.values for column in columns)
    nulls = _any_null(columns) | (right == 0)
    if kind_of(call.type) is Kind.FLOAT:
        return Column(np.fmod(left, np.where(right == 0, 1.0, right)), nulls)
    divisor = np.where((right == 0) | (right == -1), 1, right)
    return Column(np.fmod(left, divisor), nulls)


def _negative(values: Array) -> tuple[Array, Array]:
    return -values, values == _LOWEST


def _absolute(values: Array) -> tuple[Array, Array]:
    return np.abs(values), values == _LOWEST


def _sign(call: Call, columns: list[Column]) -> Column:
    values = columns[0].values
    made = np.where(values > 0, 1, np.where(values < 0, -1, 0))
    if kind_of(call.type) is Kind.FLOAT:
        made = np.where(np.isnan(values), values, made.astype(np.float64))
    return Column(made, columns[0].nulls)


def _whole(values: Array) -> tuple[Array, Array]:
    bad = ~((values >= float(_LOWEST)) & (values < -float(_LOWEST)))
    return np.where(bad, 0.0, values).astype(np.int64), bad


def _round(call: Call, columns: list[Column]) -> Column:
    """Half away from zero, in double operations."""
    digits = call.args[1]
    assert isinstance(digits, Literal)
    if digits.value is None:
        return Column(columns[0].values, np.ones(len(columns[0].values), np.bool_))
    values, scale = columns[0].values, 10.0 ** abs(digits.value)
    scaled = values * scale if digits.value >= 0 else values / scale
    whole = np.trunc(scaled)
    whole += np.where(np.abs(scaled - whole) >= 0.5, np.copysign(1.0, scaled), 0.0)
    made = whole / scale if digits.value >= 0 else whole * scale
    kept = ~np.isfinite(values) | ~np.isfinite(scaled) | (np.abs(scaled) >= 2.0**52)
    return Column(np.where(kept, values, made), columns[0].nulls)


def _root(values: Array) -> Array:
    return np.where(values < 0, np.nan, np.sqrt(np.abs(values)))


# ---- comparisons ----


def _equal(left: Array, right: Array) -> Array:
    if left.dtype != np.float64:
        return np.asarray(left == right, np.bool_)
    return (left == right) | (np.isnan(left) & np.isnan(right))


def _less(left: Array, right: Array) -> Array:
    """NaN is above all other numbers."""
    if left.dtype != np.float64:
        return np.asarray(left < right, np.bool_)
    return (left < right) | (~np.isnan(left) & np.isnan(right))


def _equal_null_safe(call: Call, columns: list[Column]) -> Column:
    left, right = columns
    same = (left.nulls & right.nulls) | (
        ~left.nulls & ~right.nulls & _equal(left.values, right.values)
    )
    return Column(same, np.zeros(len(same), np.bool_))


def _and(call: Call, columns: list[Column]) -> Column:
    false = np.logical_or.reduce([~c.nulls & ~c.values for c in columns])
    nulls = ~false & _any_null(columns)
    return Column(~false & ~nulls, nulls)


def _or(call: Call, columns: list[Column]) -> Column:
    true = np.logical_or.reduce([~c.nulls & c.values for c in columns])
    return Column(true, ~true & _any_null(columns))


def _in(call: Call, columns: list[Column]) -> Column:
    wanted, choices = columns[0], columns[1:]
    hits = [~c.nulls & _equal(wanted.values, c.values) for c in choices]
    found = ~wanted.nulls & np.logical_or.reduce(hits)
    return Column(found, ~found & _any_null(columns))


def _is_null(call: Call, columns: list[Column]) -> Column:
    return Column(columns[0].nulls, np.zeros(len(columns[0].nulls), np.bool_))


def _is_nan(call: Call, columns: list[Column]) -> Column:
    found = ~columns[0].nulls & np.isnan(columns[0].values)
    return Column(found, np.zeros(len(found), np.bool_))


# ---- choices ----


def _chosen(take: Array, one: Column, other: Column) -> Column:
    return Column(np.where(take, one.values, other.values), np.where(take, one.nulls, other.nulls))


def _case(call: Call, columns: list[Column]) -> Column:
    made = columns[-1]
    for condition, value in reversed(list(zip(columns[:-1:2], columns[1::2], strict=True))):
        made = _chosen(~condition.nulls & condition.values, value, made)
    return made


def _coalesce(call: Call, columns: list[Column]) -> Column:
    made = columns[-1]
    for column in reversed(columns[:-1]):
        made = _chosen(~column.nulls, column, made)
    return made


def _extreme(replaces: Callable[[Array, Array], Array]) -> Rule:
    """`replaces`: whether the second value is to replace the first. NULLs do not count."""

    def rule(call: Call, columns: list[Column]) -> Column:
        best = columns[0]
        for column in columns[1:]:
            better = ~column.nulls & (best.nulls | replaces(best.values, column.values))
            best = _chosen(better, column, best)
        return best

    return rule


# ---- casts and parts of dates ----

_COUNTS = (Kind.INTEGER, Kind.DURATION)


def _cast(call: Call, column: Column) -> Column:
    source, target = call.args[0].type, call.type
    of, to = kind_of(source), kind_of(target)
    if of in _COUNTS and to in _COUNTS:
        bits = 64 if to is Kind.DURATION else target.bit_width
        inside = (column.values >= -(2 ** (bits - 1))) & (column.values <= 2 ** (bits - 1) - 1)
        return Column(column.values, column.nulls | ~inside)
    if of in _COUNTS and target == pa.float64():
        return Column(column.values.astype(np.float64), column.nulls)
    return _for_each(column, source, target, lambda value: cast(value, source, target))


def _calendar(call: Call, column: Column) -> Column:
    source = call.args[0].type
    is_date = kind_of(source) is Kind.DATE

    def part(moment: int) -> int:
        return calendar_part(call.function, moment, is_date=is_date)

    return _for_each(column, source, call.type, part)


def _for_each(
    column: Column, source: pa.DataType, target: pa.DataType, change: Callable[[Any], Any]
) -> Column:
    """The values of a function of single values, computed once for each distinct one."""
    words = column.values
    if words.dtype == np.float64:
        words = words.view(np.int64)  # so that zeros of both signs are apart
    _, first, places = np.unique(words, return_index=True, return_inverse=True)
    values = column.values[first].tolist()
    if kind_of(source) is Kind.DECIMAL:
        values = array_of(column.values[first], None, source, Values()).to_pylist()
    made = [change(value) for value in values]
    distinct = _column_of(pa.array(made, _arrow_type(target)), target)
    return Column(distinct.values[places], column.nulls | distinct.nulls[places])


#: Rules that know numbers only.
_ON_NUMBERS: dict[str, Rule] = {
    "add": _arithmetic(_add, np.add),
    "sub": _arithmetic(_sub, np.subtract),
    "mul": _arithmetic(_mul, np.multiply),
    "div": _strict(_div),
    "int_div": _strict(_int_div),
    "mod": _mod,
    "neg": _arithmetic(_negative, np.negative),
    "abs": _arithmetic(_absolute, np.abs),
    "sign": _sign,
    "ceil": _strict(lambda values: _whole(np.ceil(values))),
    "floor": _strict(lambda values: _whole(np.floor(values))),
    "round": _round,
    "sqrt": _strict(_root),
    "is_nan": _is_nan,
}

_RULES: dict[str, Rule] = {
    **_ON_NUMBERS,
    "eq": _strict(_equal),
    "ne": _strict(lambda left, right: ~_equal(left, right)),
    "lt": _strict(_less),
    "le": _strict(lambda left, right: ~_less(right, left)),
    "gt": _strict(lambda left, right: _less(right, left)),
    "ge": _strict(lambda left, right: ~_less(left, right)),
    "eq_null_safe": _equal_null_safe,
    "and": _and,
    "or": _or,
    "not": _strict(lambda values: ~values),
    "in": _in,
    "is_null": _is_null,
    "case": _case,
    "coalesce": _coalesce,
    "greatest": _extreme(lambda best, value: _less(best, value)),
    "least": _extreme(lambda best, value: _less(value, best)),
    **dict.fromkeys(PARTS, lambda call, columns: _calendar(call, columns[0])),
}
