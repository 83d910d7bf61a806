"""Equality and order of values, as Spark SQL has them.

NaN equals NaN and is greater than every other number, -0.0 equals 0.0, false is less than
true, strings are ordered by code point (which is the order of their UTF-8 bytes). NULL is no
value: the callers deal with it, except in `order_key`, where it comes first.
"""

from __future__ import annotations

import math
from typing import Any


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def compare(left: Any, right: Any) -> int:
    """Below, at or above zero as `left` is less than, equal to or greater than `right`."""
    a, b = order_key(left), order_key(right)
    return (a > b) - (a < b)


def equal(left: Any, right: Any) -> bool:
    return order_key(left) == order_key(right)


def order_key(value: Any) -> tuple[Any, ...]:
    """A key that Python orders as values are ordered; NULL first, NaN last.

    Values that are compared are of one type; the leading rank is what tells NULL, numbers and
    NaN apart. Arrays are ordered by their elements, structs by their fields.
    """
    if value is None:
        return (0,)
    if is_nan(value):
        return (2,)
    if isinstance(value, dict):
        return (1, tuple(order_key(v) for v in value.values()))
    if isinstance(value, list | tuple):
        return (1, tuple(order_key(v) for v in value))
    return (1, value)
