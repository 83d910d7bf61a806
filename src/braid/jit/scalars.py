"""Scalar functions that generated code calls: comparisons, overflow checks, calendars.

Each mirrors the definition of the same function in `reference/functions.py`.
"""

from __future__ import annotations

import math

import numpy as np

from braid.jit.runtime import kernel

LARGEST = 9223372036854775807
SMALLEST = -9223372036854775808
MICROSECONDS_A_DAY = 86_400_000_000


@kernel()
def float_eq(a: float, b: float) -> bool:
    """NaN equals NaN, as in Spark SQL."""
    return a == b or (a != a and b != b)


@kernel()
def float_lt(a: float, b: float) -> bool:
    """NaN is greater than every other value."""
    return a < b or (b != b and a == a)


@kernel()
def float_le(a: float, b: float) -> bool:
    return a <= b or b != b


@kernel()
def add_overflows(a: int, b: int) -> bool:
    return (b > 0 and a > LARGEST - b) or (b < 0 and a < SMALLEST - b)


@kernel()
def sub_overflows(a: int, b: int) -> bool:
    return (b < 0 and a > LARGEST + b) or (b > 0 and a < SMALLEST + b)


@kernel()
def mul_overflows(a: int, b: int) -> bool:
    if a == 0 or b == 0:
        return False
    if a < 0 and b > 0:
        a, b = b, a
    bound = SMALLEST if a > 0 and b < 0 else LARGEST
    quotient = bound // a
    if a > 0 and b > 0:
        return b > quotient
    # Both remaining cases need b >= bound / a, rounded up.
    least = quotient if quotient * a == bound else quotient + 1
    return b < least


@kernel()
def int_div(a: int, b: int) -> int:
    """Truncates towards zero; the caller has checked b != 0 and the one overflow."""
    q = a // b
    if q < 0 and q * b != a:
        q += 1
    return q


@kernel()
def int_mod(a: int, b: int) -> int:
    """The sign of the dividend, as in Spark."""
    if b == -1:
        return 0
    return a - int_div(a, b) * b


@kernel()
def float_mod(a: float, b: float) -> float:
    return math.nan if math.isinf(a) else np.fmod(a, b)


@kernel()
def round_half_up(value: float, digits: int) -> float:
    """Half away from zero, at a number of decimal digits."""
    if value != value or math.isinf(value):
        return value
    scale = 10.0 ** float(abs(digits))
    scaled = value * scale if digits >= 0 else value / scale
    if math.isinf(scaled) or abs(scaled) >= 4503599627370496.0:  # no fraction left to round
        return value
    whole = float(math.trunc(scaled))
    if abs(scaled - whole) >= 0.5:
        whole += math.copysign(1.0, scaled)
    return whole / scale if digits >= 0 else whole * scale


@kernel()
def decimal_rescale(value: int, up: int, down: int) -> int:
    """Multiply by `up`, then divide by `down`, half away from zero."""
    value = value * up
    if down == 1:
        return value
    q = int_div(value, down)
    rest = abs(value - q * down)
    if rest >= down - rest:
        q = q + 1 if value > 0 else q - 1
    return q


@kernel()
def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day number (days since 1970-01-01), proleptic Gregorian."""
    z = days + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day = doy - (153 * mp + 2) // 5 + 1
    month = mp + 3 if mp < 10 else mp - 9
    year = yoe + era * 400 + (1 if month <= 2 else 0)
    return year, month, day


@kernel()
def float_exp(value: float) -> float:
    """Infinity where the result is too large, as in Spark (Python's own would raise)."""
    if value > 709.782712893384:
        return math.inf
    return math.exp(value)


@kernel()
def float_pow(base: float, exponent: float) -> float:
    """IEEE power: infinities and NaN instead of exceptions."""
    if base == 0.0 and exponent < 0.0:
        odd = not math.isinf(exponent) and abs(np.fmod(exponent, 2.0)) == 1.0
        return -math.inf if odd and math.copysign(1.0, base) < 0 else math.inf
    if base < 0.0 and not math.isinf(base) and exponent != math.floor(exponent):
        return math.nan
    if base != 0.0 and exponent != 0.0 and math.isfinite(base) and math.isfinite(exponent):
        if exponent * math.log(abs(base)) > 709.8:
            odd = abs(np.fmod(exponent, 2.0)) == 1.0
            return -math.inf if base < 0.0 and odd else math.inf
    return math.pow(base, exponent)
