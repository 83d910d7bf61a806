"""Ranges that nothing can be in: rows of a prepared selection join that would never have a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.expressions import Literal, Parameter
from braid.algebra.nodes import walk_nodes
from braid.algebra.relations import Join, ToStream, walk_rows
from braid.algebra.templates import Template
from braid.plan.predicates import Clause, Constant
from braid.plan.selection_join import boxes_of


class Range(NamedTuple):
    """An attribute of an input between two constants; `strict`: they must not be equal either."""

    attribute: str
    low: Constant
    high: Constant
    strict: bool


def ranges_of(template: Template) -> tuple[Range, ...]:
    """The ranges that queries of a template ask of single inputs of their joins."""
    joins = [
        relation
        for output in template.outputs
        for node in walk_nodes(output.node)
        if isinstance(node, ToStream)
        for relation in walk_rows(node.relation)
        if isinstance(relation, Join)
    ]
    clauses = [clause for join in joins for clause in boxes_of(join) or ()]
    return tuple(found for clause in clauses for found in _ranges(clause))


def _ranges(clause: Clause) -> Iterator[Range]:
    """Every lower end of an attribute with every upper one."""
    between = [atom for atom in clause if atom.kind == "between"]
    for low, high in product(between, between):
        if low.key == high.key and low.low is not None and high.high is not None:
            told = low.low is not high.high
            if told and isinstance(low.low, Parameter) | isinstance(high.high, Parameter):
                strict = low.low_open or high.high_open
                yield Range(low.key.name or "DUR", low.low, high.high, strict)


def empty_rows(range_: Range, column: Callable[[Parameter], pa.Array], rows: int) -> np.ndarray:
    """The rows of parameters for which a range is empty; `column`: the values of a parameter."""

    def values(constant: Constant) -> pa.Array | pa.Scalar:
        if isinstance(constant, Literal):
            return pa.scalar(constant.value, constant.type)
        return column(constant)

    compare = pc.greater_equal if range_.strict else pc.greater
    found = compare(values(range_.low), values(range_.high))
    return np.broadcast_to(np.asarray(found.fill_null(False)), rows)
