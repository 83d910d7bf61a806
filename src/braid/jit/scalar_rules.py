"""Which operations each function of the language consists of.

A rule gets the call, the code of its arguments and the builder of a program. Nothing branches: both
sides of a choice are computed, so operands that an operation can't take are replaced before it.
Where the definition in `reference/functions.py` says NULL, a word or a float is 0, so that words that
don't fit are not used, and a truth value is any.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa

from braid.algebra.expressions import Call
from braid.algebra.types import Kind, kind_of
from braid.jit.program import STRINGS, Builder, Code, Operand, zero

Rule = Callable[[Call, list[Code], Builder], Code]
#: Computes a value from values that are not NULL.
Compute = Callable[..., Operand]

SMALLEST = -(2**63)
SECOND = 1_000_000
DAY = 86_400 * SECOND


def strict(value: Compute, null_if: Compute | None = None) -> Rule:
    """NULL if an argument is, or where `null_if` says so."""

    def rule(call: Call, args: list[Code], b: Builder) -> Code:
        result = kind_of(call.type)
        null = b.any_of(*(a.null for a in args))
        if null is True:
            return Code(True, zero(result), result)
        values = [a.value for a in args]
        if null_if is not None:
            null = b.any_of(null, null_if(b, *values))
        computed = value(b, *values)
        if result is not Kind.BOOLEAN:
            computed = b.chosen(null, zero(result), computed, result)
        return Code(null, computed, result)

    return rule


def op(operation: str) -> Compute:
    return lambda b, *values: b.op(operation, *values)


def negation(compute: Compute) -> Compute:
    return lambda b, *values: b.negated(compute(b, *values))


def swapped(compute: Compute) -> Compute:
    return lambda b, x, y: compute(b, y, x)


def same(b: Builder, x: Operand) -> Operand:
    return x


def helper(name: str, *before: Operand) -> Rule:
    """A helper, which is called if no argument is NULL; some operands come before the arguments."""

    def rule(call: Call, args: list[Code], b: Builder) -> Code:
        result = kind_of(call.type)
        null = b.any_of(*(a.null for a in args))
        if null is True:
            return Code(True, zero(result), result)
        return Code(null, b.op(name, null, *before, *(a.value for a in args)), result)

    return rule


# ---- comparisons -----------------------------------------------------------------------------


def float_eq(b: Builder, x: Operand, y: Operand) -> Operand:
    """NaN equals NaN, as in Spark SQL. The first condition says no to most pairs."""
    alike = b.op("eq_b", b.op("is_nan", x), b.op("is_nan", y))
    return b.all_of(b.op("eq_or_nan", x, y), alike)


def float_lt(b: Builder, x: Operand, y: Operand) -> Operand:
    """NaN is greater than every other value."""
    return b.all_of(b.op("not_ge_f", x, y), b.negated(b.op("is_nan", x)))


def float_le(b: Builder, x: Operand, y: Operand) -> Operand:
    return b.negated(float_lt(b, y, x))


_EQUAL: dict[Kind, Compute] = {Kind.FLOAT: float_eq, Kind.BOOLEAN: op("eq_b")}
_LESS: dict[Kind, Compute] = {Kind.FLOAT: float_lt, Kind.BOOLEAN: op("lt_b")}
_EQUAL_INT, _LESS_INT = op("eq_i"), op("lt_i")


def equal(kind: Kind) -> Compute:
    """Of strings the codes are compared: equal strings have one code."""
    return _EQUAL.get(kind, _EQUAL_INT)


def at_most(kind: Kind) -> Compute:
    return float_le if kind is Kind.FLOAT else negation(swapped(_LESS.get(kind, _LESS_INT)))


def equality(*, holds: bool) -> Rule:
    def rule(call: Call, args: list[Code], b: Builder) -> Code:
        compute = equal(args[0].kind)
        return strict(compute if holds else negation(compute))(call, args, b)

    return rule


def order(*, swap: bool, strictly: bool) -> Rule:
    """`<` or `<=`, or the same with the arguments swapped. Strings are compared by their bytes."""

    def rule(call: Call, args: list[Code], b: Builder) -> Code:
        given = args[::-1] if swap else args
        kind = args[0].kind
        if kind is Kind.STRING:
            null = b.any_of(*(a.null for a in given))
            if null is True:
                return Code(True, False, Kind.BOOLEAN)
            sign = b.op("string_compare", null, STRINGS, *(a.value for a in given))
            given = [Code(null, sign, Kind.INTEGER), Code(False, 0, Kind.INTEGER)]
        compute = _LESS.get(kind, _LESS_INT) if strictly else at_most(kind)
        return strict(compute)(call, given, b)

    return rule


def _eq_null_safe(call: Call, args: list[Code], b: Builder) -> Code:
    x, y = _of_one_kind(args)
    both = b.all_of(x.null, y.null)
    neither = b.all_of(b.negated(x.null), b.negated(y.null))
    if neither is False:
        return Code(False, both, Kind.BOOLEAN)
    same_value = equal(x.kind)(b, x.value, y.value)
    return Code(False, b.any_of(both, b.all_of(neither, same_value)), Kind.BOOLEAN)


def _in(call: Call, args: list[Code], b: Builder) -> Code:
    x, *options = _of_one_kind(args)
    unknown = b.any_of(x.null, *(o.null for o in options))
    found: Operand = False
    if x.null is not True:
        hits = [
            b.all_of(b.negated(o.null), equal(x.kind)(b, x.value, o.value))
            for o in options
            if o.null is not True
        ]
        found = b.all_of(b.negated(x.null), b.any_of(*hits))
    return Code(b.all_of(b.negated(found), unknown), found, Kind.BOOLEAN)


def _of_one_kind(args: list[Code]) -> list[Code]:
    kind = next((a.kind for a in args if a.kind is not Kind.NULL), Kind.NULL)
    return [_typed(a, kind) for a in args]


def _typed(code: Code, kind: Kind) -> Code:
    """A bare NULL has no type of its own: give it the zero of the type it stands in for."""
    return Code(True, zero(kind), kind) if code.kind is Kind.NULL else code


# ---- truth values ----------------------------------------------------------------------------


def _and(call: Call, args: list[Code], b: Builder) -> Code:
    # No argument is false; then NULL if one is NULL.
    possible = b.all_of(*(b.any_of(a.null, a.value) for a in _truths(args)))
    null = b.all_of(possible, b.any_of(*(a.null for a in args)))
    return Code(null, b.all_of(possible, b.negated(null)), Kind.BOOLEAN)


def _or(call: Call, args: list[Code], b: Builder) -> Code:
    true = b.any_of(*(b.all_of(b.negated(a.null), a.value) for a in _truths(args)))
    null = b.all_of(b.negated(true), b.any_of(*(a.null for a in args)))
    return Code(null, true, Kind.BOOLEAN)


def _truths(args: list[Code]) -> list[Code]:
    return [_typed(a, Kind.BOOLEAN) for a in args]


def _is_null(call: Call, args: list[Code], b: Builder) -> Code:
    return Code(False, args[0].null, Kind.BOOLEAN)


def _is_nan(call: Call, args: list[Code], b: Builder) -> Code:
    x = _typed(args[0], Kind.FLOAT)
    holds = x.null is not True and b.all_of(b.negated(x.null), b.op("is_nan", x.value))
    return Code(False, holds, Kind.BOOLEAN)


# ---- choices ---------------------------------------------------------------------------------


def _case(call: Call, args: list[Code], b: Builder) -> Code:
    kind = kind_of(call.type)
    null, value, _ = _typed(args[-1], kind)
    conditions = _truths(args[:-1:2])
    for condition, then in reversed(list(zip(conditions, args[1:-1:2], strict=True))):
        holds = b.all_of(b.negated(condition.null), condition.value)
        taken = _typed(then, kind)
        null = b.chosen(holds, taken.null, null, Kind.BOOLEAN)
        value = b.chosen(holds, taken.value, value, kind)
    return Code(null, value, kind)


def _coalesce(call: Call, args: list[Code], b: Builder) -> Code:
    kind = kind_of(call.type)
    typed = [_typed(a, kind) for a in args]
    null, value, _ = typed[-1]
    for arg in reversed(typed[:-1]):
        value = b.chosen(arg.null, value, arg.value, kind)
        null = b.all_of(arg.null, null)
    return Code(null, value, kind)


def extreme(*, least: bool) -> Rule:
    """greatest or least of the arguments that are not NULL."""

    def better(arg: Code, best: Code, b: Builder) -> Operand:
        if Kind.STRING in (arg.kind, best.kind):
            unless = b.any_of(arg.null, best.null)
            if unless is True:
                return False
            sign = b.op("string_compare", unless, STRINGS, arg.value, best.value)
            return b.op("lt_i", sign, 0) if least else b.op("lt_i", 0, sign)
        less = _LESS.get(best.kind, _LESS_INT)
        pair = (arg.value, best.value) if least else (best.value, arg.value)
        return less(b, *pair)

    def rule(call: Call, args: list[Code], b: Builder) -> Code:
        kind = kind_of(call.type)
        best, *others = (_typed(a, kind) for a in args)
        for arg in others:
            take = b.any_of(best.null, b.all_of(b.negated(arg.null), better(arg, best, b)))
            value = b.chosen(take, arg.value, best.value, kind)
            best = Code(b.all_of(best.null, arg.null), value, kind)
        return best

    return rule


# ---- arithmetic ------------------------------------------------------------------------------


def by_kind(floating: Compute, integer: Compute, null_if: Compute | None = None) -> Rule:
    """A function of floats, and of words with a condition for NULL."""

    def rule(call: Call, args: list[Code], b: Builder) -> Code:
        if args[0].kind is Kind.FLOAT:
            return strict(floating)(call, args, b)
        return strict(integer, null_if)(call, args, b)

    return rule


def arithmetic(name: str) -> Rule:
    """BIGINT with NULL on overflow, DOUBLE as it is, DECIMAL as integers within its digits."""

    def rule(call: Call, args: list[Code], b: Builder) -> Code:
        if kind_of(call.type) is Kind.FLOAT:
            return strict(op(f"{name}_f"))(call, args, b)
        result = strict(op(f"{name}_i"), op(f"{name}_overflows"))(call, args, b)
        if kind_of(call.type) is Kind.DECIMAL:
            return within_digits(result, call.type, b)
        return result

    return rule


def within_digits(code: Code, type_: pa.DataType, b: Builder) -> Code:
    bound = 10**type_.precision
    if code.null is True:
        return code
    small = b.op("lt_i", code.value, bound)
    large = b.op("lt_i", -bound, code.value)
    null = b.any_of(code.null, b.negated(small), b.negated(large))
    return Code(null, b.integer(null, 0, code.value), code.kind)


def _is_zero(b: Builder, x: Operand, y: Operand) -> Operand:
    return b.op("eq_i", y, 0)


def _no_quotient(b: Builder, x: Operand, y: Operand) -> Operand:
    """Where a division of words has no result."""
    lowest = b.all_of(b.op("eq_i", y, -1), b.op("eq_i", x, SMALLEST))
    return b.any_of(_is_zero(b, x, y), lowest)


def _quotient(b: Builder, x: Operand, y: Operand) -> Operand:
    return b.op("div_i", x, b.integer(_no_quotient(b, x, y), 1, y))


def _remainder(b: Builder, x: Operand, y: Operand) -> Operand:
    """The sign of the dividend, as in Spark. By -1, as by 1, it is 0."""
    alone = b.any_of(_is_zero(b, x, y), b.op("eq_i", y, -1))
    return b.op("rem_i", x, b.integer(alone, 1, y))


def _float_is_zero(b: Builder, x: Operand, y: Operand) -> Operand:
    return b.op("eq_f", y, 0.0)


def _float_quotient(b: Builder, x: Operand, y: Operand) -> Operand:
    return b.op("div_f", x, b.floating(_float_is_zero(b, x, y), 1.0, y))


def _float_remainder(b: Builder, x: Operand, y: Operand) -> Operand:
    infinite = b.op("eq_f", b.op("fabs", x), math.inf)
    return b.floating(infinite, math.nan, b.op("fmod", x, y))


def _mod(call: Call, args: list[Code], b: Builder) -> Code:
    if args[0].kind is Kind.FLOAT:
        return strict(_float_remainder, _float_is_zero)(call, args, b)
    return strict(_remainder, _is_zero)(call, args, b)


def _negative(b: Builder, x: Operand) -> Operand:
    return b.op("sub_i", 0, x)


def absolute(b: Builder, x: Operand) -> Operand:
    return b.integer(b.op("lt_i", x, 0), _negative(b, x), x)


def _is_smallest(b: Builder, x: Operand) -> Operand:
    return b.op("eq_i", x, SMALLEST)


def _sign(call: Call, args: list[Code], b: Builder) -> Code:
    def of_float(b: Builder, x: Operand) -> Operand:
        sign = b.floating(b.op("lt_f", x, 0.0), -1.0, 0.0)
        return b.floating(b.op("is_nan", x), x, b.floating(b.op("lt_f", 0.0, x), 1.0, sign))

    def of_integer(b: Builder, x: Operand) -> Operand:
        unit = 10**call.type.scale if kind_of(call.type) is Kind.DECIMAL else 1
        return b.integer(b.op("lt_i", 0, x), unit, b.integer(b.op("lt_i", x, 0), -unit, 0))

    return by_kind(of_float, of_integer)(call, args, b)


# ---- functions of floats ---------------------------------------------------------------------


def outside_words(b: Builder, x: Operand) -> Operand:
    """Whether a float, or NaN, does not fit in a word."""
    low = b.op("le_f", -(2.0**63), x)
    return b.negated(b.all_of(low, b.op("lt_f", x, 2.0**63)))


def whole(direction: str) -> Rule:
    def compute(b: Builder, x: Operand) -> Operand:
        return b.op("float_to_int", b.op(direction, b.floating(outside_words(b, x), 0.0, x)))

    return strict(compute, outside_words)


def logarithm(function: str) -> Rule:
    return strict(op(function), lambda b, x: b.op("le_f", x, 0.0))


def _root(b: Builder, x: Operand) -> Operand:
    real = b.op("le_f", 0.0, x)
    return b.floating(real, b.op("sqrt", b.floating(real, x, 0.0)), math.nan)


# ---- calendar --------------------------------------------------------------------------------


def floor_of(b: Builder, x: Operand, by: int) -> Operand:
    """The quotient by a positive constant, rounded down."""
    quotient = b.op("div_i", x, by)
    below = b.op("lt_i", b.op("rem_i", x, by), 0)
    return b.integer(below, b.op("sub_i", quotient, 1), quotient)


def _rest(b: Builder, x: Operand, by: int) -> Operand:
    """What is left by `floor_of`."""
    return b.op("sub_i", x, b.op("mul_i", floor_of(b, x, by), by))


def scaled(b: Builder, x: Operand, by: int) -> Operand:
    return b.op("mul_i", x, by)


def _civil(b: Builder, days: Operand) -> tuple[Operand, Operand, Operand]:
    """Year, month and day of a day number (days since 1970-01-01), proleptic Gregorian."""

    def minus(x: Operand, y: Operand) -> Operand:
        return b.op("sub_i", x, y)

    def plus(x: Operand, y: Operand) -> Operand:
        return b.op("add_i", x, y)

    def by(x: Operand, divisor: int) -> Operand:
        return b.op("div_i", x, divisor)

    z = plus(days, 719_468)  # days since 0000-03-01: leap days come last in a year
    era = floor_of(b, z, 146_097)
    doe = minus(z, scaled(b, era, 146_097))
    leap = minus(plus(minus(doe, by(doe, 1_460)), by(doe, 36_524)), by(doe, 146_096))
    yoe = by(leap, 365)
    doy = minus(doe, minus(plus(scaled(b, yoe, 365), by(yoe, 4)), by(yoe, 100)))
    mp = by(plus(scaled(b, doy, 5), 2), 153)
    day = plus(minus(doy, by(plus(scaled(b, mp, 153), 2), 5)), 1)
    month = b.integer(b.op("lt_i", mp, 10), plus(mp, 3), minus(mp, 9))
    year = plus(plus(yoe, scaled(b, era, 400)), b.integer(b.op("lt_i", month, 3), 1, 0))
    return year, month, day


_CIVIL = {"year": 0, "month": 1, "day": 2}
#: The microseconds of the whole that a part of the time repeats in, and of its unit.
_TIME = {
    "hour": (DAY, 3_600 * SECOND),
    "minute": (3_600 * SECOND, 60 * SECOND),
    "second": (60 * SECOND, SECOND),
}


def calendar(part: str) -> Rule:
    """A part of a date or a timestamp (UTC)."""

    def rule(call: Call, args: list[Code], b: Builder) -> Code:
        is_date = args[0].kind is Kind.DATE

        def compute(b: Builder, x: Operand) -> Operand:
            if part in _TIME:
                period, unit = _TIME[part]
                return 0 if is_date else b.op("div_i", _rest(b, x, period), unit)
            days = x if is_date else floor_of(b, x, DAY)
            if part == "dayofweek":
                return b.op("add_i", _rest(b, b.op("add_i", days, 4), 7), 1)
            return _civil(b, days)[_CIVIL[part]]

        return strict(compute)(call, args, b)

    return rule


RULES: dict[str, Rule] = {
    "add": arithmetic("add"),
    "sub": arithmetic("sub"),
    "mul": arithmetic("mul"),
    "div": strict(_float_quotient, _float_is_zero),
    "int_div": strict(_quotient, _no_quotient),
    "mod": _mod,
    "neg": by_kind(op("neg_f"), _negative, _is_smallest),
    "abs": by_kind(op("fabs"), absolute, _is_smallest),
    "sign": _sign,
    "eq": equality(holds=True),
    "ne": equality(holds=False),
    "lt": order(swap=False, strictly=True),
    "le": order(swap=False, strictly=False),
    "gt": order(swap=True, strictly=True),
    "ge": order(swap=True, strictly=False),
    "eq_null_safe": _eq_null_safe,
    "and": _and,
    "or": _or,
    "not": strict(lambda b, x: b.negated(x)),
    "is_null": _is_null,
    "is_nan": _is_nan,
    "in": _in,
    "case": _case,
    "coalesce": _coalesce,
    "greatest": extreme(least=False),
    "least": extreme(least=True),
    "ceil": whole("ceil"),
    "floor": whole("floor"),
    "round": helper("round_half_up"),
    "sqrt": strict(_root),
    "exp": strict(op("exp")),
    "ln": logarithm("log"),
    "log10": logarithm("log10"),
    "log2": logarithm("log2"),
    "pow": strict(op("pow")),
    "length": helper("string_length", STRINGS),
    "contains": helper("string_contains", STRINGS),
    "starts_with": helper("string_starts_with", STRINGS),
    "ends_with": helper("string_ends_with", STRINGS),
    "like": helper("string_like", STRINGS),
    **{part: calendar(part) for part in (*_CIVIL, *_TIME, "dayofweek")},
}
