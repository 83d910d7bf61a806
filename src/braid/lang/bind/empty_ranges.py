"""Empty ranges: selection joins that never have a result.

A row of a prepared query with an empty range is refused. Another query gets a notice, so that the
other queries of its file are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.expressions import Literal, Parameter
from braid.algebra.nodes import walk_nodes
from braid.algebra.relations import Join, ToStream, walk_rows
from braid.algebra.templates import Output
from braid.lang.bind.warnings import Warnings
from braid.plan.boxes import boxes_of
from braid.plan.predicates import Clause, Constant


class Range(NamedTuple):
    """An attribute of an input between two constants; `strict`: they must not be equal either."""

    attribute: str
    low: Constant
    high: Constant
    strict: bool


def ranges_of(outputs: Sequence[Output]) -> tuple[Range, ...]:
    """The ranges that queries require of single inputs of their joins."""
    joins = [
        relation
        for output in outputs
        for node in walk_nodes(output.node)
        if isinstance(node, ToStream)
        for relation in walk_rows(node.relation)
        if isinstance(relation, Join)
    ]
    clauses = [clause for join in joins for clause in boxes_of(join) or ()]
    return tuple(found for clause in clauses for found in _ranges(clause))


def _ranges(clause: Clause) -> Iterator[Range]:
    """Each lower bound of an attribute with each upper one."""
    between = [atom for atom in clause if atom.kind == "between"]
    for low, high in product(between, between):
        if low.key == high.key and low.low is not None and high.high is not None:
            if low.low is not high.high:
                strict = low.low_open or high.high_open
                yield Range(low.key.name or "DUR", low.low, high.high, strict)


def warnings_of(ranges: Sequence[Range], values: Sequence[Any] = ()) -> Warnings:
    """The warnings for a query; `values` are those of its parameters."""

    def value(constant: Constant) -> Any:
        return constant.value if isinstance(constant, Literal) else values[constant.index]

    for range_ in ranges:
        low, high = value(range_.low), value(range_.high)
        if _are_alike(low, high) and (low >= high if range_.strict else low > high):
            message = (
                f"nothing can be in the range of {range_.attribute!r}: there is never a result"
            )
            return (("W204", message),)
    return ()


def _are_alike(low: Any, high: Any) -> bool:
    """Whether two constants are comparable. NULL is not a bound."""
    numbers = (int, float, Decimal)
    if isinstance(low, numbers) and isinstance(high, numbers):
        return True
    return low is not None and type(low) is type(high)


def empty_rows(range_: Range, column: Callable[[Parameter], pa.Array], rows: int) -> np.ndarray:
    """The rows of parameters with an empty range; `column` returns the values of a parameter."""

    def values(constant: Constant) -> pa.Array | pa.Scalar:
        if isinstance(constant, Literal):
            return pa.scalar(constant.value, constant.type)
        return column(constant)

    compare = pc.greater_equal if range_.strict else pc.greater
    found = compare(values(range_.low), values(range_.high))
    if isinstance(found, pa.Scalar):
        return np.full(rows, bool(found.as_py()))
    return np.asarray(found.fill_null(False))
