"""The aggregates of GROUP BY over the rows of one group, which come and go.

Unlike SAMETIME's, these must not depend on an order in which rows came, nor on rows that have
left. So a sum is exact: of integers and decimals as such, of floats as the real number that
their exact sum is, rounded to a double once. NULLs are skipped; of nothing, count is 0 and all
others are NULL. With NaN among the values, or both infinities, a sum is NaN, for as long as they
are there. A sum of floats that is too large is an infinity; one of integers or decimals that
does not fit its type has no value: `Overflow`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import localcontext
from fractions import Fraction
from typing import Any

import pyarrow as pa

from braid.algebra.casts import WIDE, cast, fit
from braid.algebra.nodes import Aggregate
from braid.algebra.types import BIGINT, DOUBLE, MAX_KERNEL_DIGITS, Kind, kind_of
from braid.reference.ordering import order_key


class Overflow(Exception):
    """A sum does not fit its type: the query has no answer at this instant, and none after it."""

    def __init__(self, aggregate: str, instant: int | None = None) -> None:
        super().__init__(f"{aggregate} does not fit its type at {instant}")
        self.aggregate = aggregate
        self.instant = instant


def group_aggregate(definition: Aggregate, rows: Sequence[tuple[Any, ...]]) -> Any:
    """The value of one aggregate; `rows` are the values of its arguments, a row of the group each."""
    if not definition.args:
        return len(rows)
    values = sorted((value for (value,) in rows if value is not None), key=order_key)
    if definition.distinct:
        values = [
            v for i, v in enumerate(values) if not i or order_key(v) != order_key(values[i - 1])
        ]
    match definition.function:
        case "count":
            return len(values)
        case "min":
            return values[0] if values else None
        case "max":
            return values[-1] if values else None
        case "sum":
            return _sum(values, definition) if values else None
        case "avg":
            return _average(values, definition) if values else None
    raise AssertionError(f"{definition.function} is no aggregate of GROUP BY")


def _sum(values: Sequence[Any], definition: Aggregate) -> Any:
    if isinstance(values[0], float):
        return _float_sum(values)
    with localcontext(WIDE):
        total = fit(sum(values[1:], start=values[0]), _total_type(definition))
    if total is None:
        raise Overflow(definition.function)
    return total


def _average(values: Sequence[Any], definition: Aggregate) -> float:
    """`CAST(sum AS DOUBLE) / count`."""
    total = cast(_sum(values, definition), _total_type(definition), DOUBLE)
    return float(total) / len(values)


def _total_type(definition: Aggregate) -> pa.DataType:
    """The type of the sum: that of the argument, a decimal with as many digits as there are."""
    type_ = definition.args[0].type
    if kind_of(type_) is Kind.DECIMAL:
        return pa.decimal128(MAX_KERNEL_DIGITS, type_.scale)
    return DOUBLE if kind_of(type_) is Kind.FLOAT else BIGINT


def _float_sum(values: Sequence[float]) -> float:
    infinite = {v for v in values if math.isinf(v)}
    if any(map(math.isnan, values)) or len(infinite) > 1:
        return math.nan
    if infinite:
        return infinite.pop()
    total = sum(map(Fraction, values), start=Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
