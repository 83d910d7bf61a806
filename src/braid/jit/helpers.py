"""Kernels that generated code calls by their address: loops over the bytes of strings, and rounding.

They are compiled and cached like other kernels, each when a predicate or a writer first needs it.
"""

from __future__ import annotations

import math

from numba import types

from braid.jit.runtime import kernel
from braid.jit.strings import (
    string_compare,
    string_contains,
    string_ends_with,
    string_length,
    string_like,
    string_starts_with,
)


@kernel((types.int64, types.int64, types.int64))
def compare(strings: int, a: int, b: int) -> int:
    return string_compare(strings, a, b)


@kernel((types.int64, types.int64))
def length(strings: int, text: int) -> int:
    return string_length(strings, text)


@kernel((types.int64, types.int64, types.int64))
def contains(strings: int, text: int, part: int) -> bool:
    return string_contains(strings, text, part)


@kernel((types.int64, types.int64, types.int64))
def starts_with(strings: int, text: int, part: int) -> bool:
    return string_starts_with(strings, text, part)


@kernel((types.int64, types.int64, types.int64))
def ends_with(strings: int, text: int, part: int) -> bool:
    return string_ends_with(strings, text, part)


@kernel((types.int64, types.int64, types.int64))
def like(strings: int, text: int, pattern: int) -> bool:
    return string_like(strings, text, pattern)


@kernel((types.float64, types.int64))
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
