"""What the models of joins agree on: rows (k, x), which equalities and an order put together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from braid.operators.join.spec import Equality


def belong(
    rows: tuple[tuple[Any, ...], ...], equalities: Iterable[Equality], *, rising: bool
) -> bool:
    """Whether rows are equal where they must be; `rising`: k of the first is not above x of the
    last."""
    for e in equalities:
        a = rows[e.first]["kx".index(e.first_column)]
        b = rows[e.second]["kx".index(e.second_column)]
        if a != b or (a is None and not e.null_safe):
            return False
    low, high = rows[0][0], rows[-1][1]
    return not rising or (low is not None and high is not None and low <= high)
