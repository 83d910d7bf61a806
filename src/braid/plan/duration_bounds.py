"""Bounds on how long a result lasts, found in predicates: `DUR <= 10 min`."""

from __future__ import annotations

from functools import lru_cache

from braid.algebra.expressions import (
    Call,
    Duration,
    Expression,
    Literal,
    Parameter,
    conjuncts,
)
from braid.algebra.types import Kind, kind_of
from braid.plan.routes import Bound

_MIRRORED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt", "eq": "eq"}


@lru_cache(1 << 16)
def bounds_of(predicate: Expression) -> tuple[Bound, ...]:
    """The constants that conjuncts `DUR <= c`, `DUR < c` and `DUR = c` bound a result with."""
    found = (_bound(part) for part in conjuncts(predicate))
    return tuple(bound for bound, _ in found if bound is not None)


def is_exact_bound(part: Expression) -> bool:
    """Whether the bound says all that the conjunct does."""
    bound, exact = _bound(part)
    return bound is not None and exact


def _bound(part: Expression) -> tuple[Bound | None, bool]:
    if not (isinstance(part, Call) and part.function in _MIRRORED):
        return None, False
    left, right = part.args
    function = part.function
    if isinstance(left, Literal | Parameter):
        left, right, function = right, left, _MIRRORED[function]
    if not isinstance(left, Duration) or function not in ("le", "lt", "eq"):
        return None, False
    if not isinstance(right, Literal | Parameter):
        return None, False
    if kind_of(right.type) not in (Kind.INTEGER, Kind.DURATION):
        return None, False
    if isinstance(right, Literal) and right.value is None:
        return None, False
    return Bound(right, strict=function == "lt"), function != "eq"
