"""Horizons: `DUR <= c` bounds how long an instance is useful.

A conjunct `DUR <= c`, `DUR < c` or `DUR = c` in the predicate of a Sequence, in the predicate
or rebind of an Iterate, or in a Select above them says that no longer result is wanted. The
bound also holds for both inputs: a composite lasts at least as long as each of its parts, so
a part that is longer can only make results that are too long. That dropping such a part frees
an instance to meet a later event changes nothing, since that result would be longer still.

The Select stays where it is: a horizon permits forgetting, it does not filter.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from braid.algebra.documents import Documents
from braid.algebra.expressions import Call, Duration, Expression, Literal, conjuncts
from braid.algebra.nodes import (
    Extension,
    Iterate,
    Node,
    Project,
    Read,
    SameTime,
    Select,
    Sequence,
    Union,
)
from braid.algebra.relations import ToStream
from braid.algebra.types import BIGINT, DOUBLE, DURATION, Kind, kind_of

#: Below this, integers are the same as doubles.
_EXACT = 2**52

_MIRRORED = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt", "eq": "eq", "eq_null_safe": "eq"}


def bound_durations(node: Node) -> Node:
    """The same expression with all horizons that its duration predicates allow."""
    return _bounded(node, None)


def _bounded(node: Node, bound: int | None) -> Node:
    """`bound`: the longest duration of this node's events that an operator above can use."""
    match node:
        case Read() | Documents():
            return node
        case Select(input=input_, predicate=predicate):
            below = _bounded(input_, _least(bound, longest(predicate)))
            return node if below is input_ else replace(node, input=below)
        case Project(input=input_):
            below = _bounded(input_, bound)
            return node if below is input_ else replace(node, input=below)
        case SameTime(input=input_):
            # Its events are points, which do not show the durations of their inputs.
            below = _bounded(input_, None)
            return node if below is input_ else replace(node, input=below)
        case Extension():
            return node.over(tuple(_bounded(input_, None) for input_ in node.inputs))
        case ToStream():
            # Points too: a window takes an event by its end, whatever its duration.
            return node.over(tuple(_bounded(input_, None) for input_ in node.inputs))
        case Union():
            return _with_inputs(node, bound)
        case Sequence(predicate=predicate):
            horizon = _least(bound, longest(predicate), node.horizon)
            return _with_horizon(node, horizon)
        case Iterate(predicate=predicate, rebind=rebind):
            horizon = _least(bound, longest(predicate), longest(rebind), node.horizon)
            return _with_horizon(node, horizon)


def _with_inputs(node: Union | Sequence | Iterate, bound: int | None) -> Node:
    first, second = _bounded(node.first, bound), _bounded(node.second, bound)
    if first is node.first and second is node.second:
        return node
    return replace(node, first=first, second=second)


def _with_horizon(node: Sequence | Iterate, horizon: int | None) -> Node:
    with_horizon = node if horizon == node.horizon else replace(node, horizon=horizon)
    return _with_inputs(with_horizon, horizon)


@lru_cache(1 << 16)
def longest(predicate: Expression) -> int | None:
    """The longest duration, in ticks, with which the predicate can be true; None if any."""
    return _least(*(_limit(part) for part in conjuncts(predicate)))


def _least(*bounds: int | None) -> int | None:
    return min((b for b in bounds if b is not None), default=None)


def _limit(part: Expression) -> int | None:
    if not isinstance(part, Call) or part.function not in _MIRRORED:
        return None
    left, right = part.args
    function = part.function
    if isinstance(left, Literal):
        left, right, function = right, left, _MIRRORED[function]
    if not _is_duration(left) or not isinstance(right, Literal) or right.value is None:
        return None
    if function not in ("le", "lt", "eq", "eq_null_safe") or not math.isfinite(right.value):
        return None
    limit: int = math.floor(right.value)
    if kind_of(right.type) is Kind.FLOAT and abs(limit) >= _EXACT:
        return None  # a duration may be rounded down to it
    return max(0, limit)


def _is_duration(expression: Expression) -> bool:
    """DUR itself, or DUR as a number of ticks: only casts that keep the order of numbers."""
    while isinstance(expression, Call) and expression.function == "cast":
        if expression.type not in (BIGINT, DURATION, DOUBLE):
            return False
        (expression,) = expression.args
    return isinstance(expression, Duration)
