"""The aggregates of SAMETIME over the events of one epoch."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import localcontext
from typing import Any

import pyarrow as pa

from braid.algebra.casts import WIDE, fit
from braid.algebra.expressions import Source
from braid.algebra.nodes import Aggregate, Node
from braid.reference.events import Bindings, Event, Udfs
from braid.reference.ordering import order_key
from braid.reference.scalars import value


def aggregate(definition: Aggregate, node: Node, epoch: Sequence[Event], udfs: Udfs) -> Any:
    """The value of one aggregate; the order of the epoch's events does not matter."""
    rows = [
        tuple(
            value(arg, Bindings({Source.INPUT: e.row(node.schema)}, e.duration, udfs))
            for arg in definition.args
        )
        for e in sorted(epoch, key=lambda e: order_key(e.values))
    ]
    function = definition.function
    if function == "count" and not definition.args:
        return len(rows)
    if function in ("max_by", "min_by"):
        return _extreme_by(rows, largest=function == "max_by")
    values = sorted((row[0] for row in rows if row[0] is not None), key=order_key)
    if definition.distinct:
        values = _distinct(values)
    if function == "count":
        return len(values)
    if not values:
        return None
    match function:
        case "min":
            return values[0]
        case "max":
            return values[-1]
        case "sum":
            with localcontext(WIDE):
                return fit(_total(values), definition.type)
        case "avg":
            with localcontext(WIDE):
                return _average(values, definition)
    raise AssertionError(f"unknown aggregate {function}")


def _extreme_by(rows: Sequence[tuple[Any, ...]], *, largest: bool) -> Any:
    """The value at the extreme `by`; the rows come smallest event first, which decides ties."""
    known = [row for row in rows if row[1] is not None]
    if not known:
        return None
    keys = [order_key(row[1]) for row in known]
    extreme = max(keys) if largest else min(keys)
    return known[keys.index(extreme)][0]


def _distinct(values: Sequence[Any]) -> list[Any]:
    return [v for i, v in enumerate(values) if i == 0 or order_key(v) != order_key(values[i - 1])]


def _total(values: Sequence[Any]) -> Any:
    """From the smallest to the largest. Integers and decimals are exact until the end."""
    total = values[0]
    for v in values[1:]:
        total += v
    return total


def _average(values: Sequence[Any], definition: Aggregate) -> Any:
    """In the type of the result: decimals exactly, everything else as doubles."""
    if not pa.types.is_decimal(definition.type):
        values = [float(v) for v in values]
    return fit(_total(values) / len(values), definition.type)
