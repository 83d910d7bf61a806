"""Which operations a CAST consists of, for each pair of kinds that have a form in words."""

from __future__ import annotations

import pyarrow as pa

from braid.algebra.expressions import Call
from braid.algebra.types import Kind, kind_of
from braid.jit.program import Builder, Code, Operand, zero
from braid.jit.scalar_rules import (
    DAY,
    SECOND,
    Compute,
    Rule,
    absolute,
    floor_of,
    op,
    outside_words,
    same,
    scaled,
    strict,
    within_digits,
)


def cast(call: Call, args: list[Code], b: Builder) -> Code:
    """CAST between kinds that have a form in words; NULL where the value does not fit."""
    arg = args[0]
    source, target = arg.kind, kind_of(call.type)
    if source is Kind.NULL:
        return Code(True, zero(target), target)
    rule = CASTS.get((source, target))
    assert rule is not None, f"no cast from {source} to {target}"
    return rule(call, args, b)


def to_integer(compute: Compute) -> Rule:
    """A word that the rule computes; NULL if it does not fit in the bits of the type."""

    def rule(call: Call, args: list[Code], b: Builder) -> Code:
        bits = call.type.bit_width
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

        def outside(b: Builder, x: Operand) -> Operand:
            word = compute(b, x)
            return b.any_of(b.op("lt_i", word, low), b.op("lt_i", high, word))

        return strict(compute, outside if bits < 64 else None)(call, args, b)

    return rule


def _float_to_integer(call: Call, args: list[Code], b: Builder) -> Code:
    """Truncates; NaN fails both comparisons."""
    bits = call.type.bit_width

    def outside(b: Builder, x: Operand) -> Operand:
        if bits == 64:
            return outside_words(b, x)
        low, high = -(2.0 ** (bits - 1)) - 1, 2.0 ** (bits - 1)
        return b.negated(b.all_of(b.op("lt_f", low, x), b.op("lt_f", x, high)))

    def compute(b: Builder, x: Operand) -> Operand:
        return b.op("float_to_int", b.floating(outside(b, x), 0.0, x))

    return strict(compute, outside)(call, args, b)


def to_float(compute: Compute) -> Rule:
    """A float that the rule computes, rounded to single precision if the type is FLOAT."""

    def rule(call: Call, args: list[Code], b: Builder) -> Code:
        if not pa.types.is_float32(call.type):
            return strict(compute)(call, args, b)
        return strict(lambda b, x: b.op("round_to_single", compute(b, x)))(call, args, b)

    return rule


def times(factor: int) -> Rule:
    """A multiple of a word; NULL if it overflows."""
    return strict(lambda b, x: scaled(b, x, factor), lambda b, x: b.op("mul_overflows", x, factor))


def _integer_to_decimal(call: Call, args: list[Code], b: Builder) -> Code:
    return within_digits(times(10**call.type.scale)(call, args, b), call.type, b)


def _boolean_to_decimal(call: Call, args: list[Code], b: Builder) -> Code:
    one = 10**call.type.scale
    return within_digits(strict(lambda b, x: b.integer(x, one, 0))(call, args, b), call.type, b)


def _rescale(call: Call, args: list[Code], b: Builder) -> Code:
    """Multiplies, or divides and rounds half away from zero."""
    digits = call.type.scale - call.args[0].type.scale
    if digits >= 0:
        return within_digits(times(10**digits)(call, args, b), call.type, b)
    by = 10**-digits

    def divided(b: Builder, x: Operand) -> Operand:
        quotient, rest = b.op("div_i", x, by), absolute(b, b.op("rem_i", x, by))
        away = b.integer(b.op("lt_i", 0, x), 1, -1)
        down = b.op("lt_i", rest, b.op("sub_i", by, rest))
        return b.integer(down, quotient, b.op("add_i", quotient, away))

    return within_digits(strict(divided)(call, args, b), call.type, b)


def _decimal_to_float(call: Call, args: list[Code], b: Builder) -> Code:
    one = float(10 ** call.args[0].type.scale)
    return to_float(lambda b, x: b.op("div_f", b.op("int_to_float", x), one))(call, args, b)


def _decimal_to_integer(call: Call, args: list[Code], b: Builder) -> Code:
    one = 10 ** call.args[0].type.scale
    return to_integer(lambda b, x: b.op("div_i", x, one))(call, args, b)


def floor_by(divisor: int) -> Compute:
    return lambda b, x: floor_of(b, x, divisor)


_SAME = strict(same)
_NOT_ZERO = strict(lambda b, x: b.negated(b.op("eq_i", x, 0)))
_I, _F, _B, _D = Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN, Kind.DECIMAL
CASTS: dict[tuple[Kind, Kind], Rule] = {
    (_I, _I): to_integer(same),
    (_F, _I): _float_to_integer,
    (_D, _I): _decimal_to_integer,
    (_B, _I): to_integer(op("bool_to_int")),
    (Kind.DURATION, _I): to_integer(same),
    (Kind.TIMESTAMP, _I): to_integer(floor_by(SECOND)),
    (_I, _F): to_float(op("int_to_float")),
    (_F, _F): to_float(same),
    (_B, _F): to_float(op("bool_to_float")),
    (_D, _F): _decimal_to_float,
    (_I, _D): _integer_to_decimal,
    (_B, _D): _boolean_to_decimal,
    (_D, _B): _NOT_ZERO,
    (Kind.DURATION, _F): to_float(op("int_to_float")),
    (_D, _D): _rescale,
    (_I, _B): _NOT_ZERO,
    (_F, _B): strict(lambda b, x: b.negated(b.op("eq_f", x, 0.0))),
    (_B, _B): _SAME,
    (_I, Kind.DURATION): _SAME,
    (Kind.DURATION, Kind.DURATION): _SAME,
    (_I, Kind.TIMESTAMP): times(SECOND),
    (Kind.TIMESTAMP, Kind.TIMESTAMP): _SAME,
    (Kind.DATE, Kind.TIMESTAMP): times(DAY),
    (Kind.TIMESTAMP, Kind.DATE): strict(floor_by(DAY)),
    (Kind.DATE, Kind.DATE): _SAME,
    (Kind.STRING, Kind.STRING): _SAME,
}
