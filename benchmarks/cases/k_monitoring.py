"""Constraints whose k changes: what is missed while it rises, and otherwise (figures 9, 11 and 13).

k stays, rises slowly, stays high, falls slowly, jumps and falls at once. `does_not_hold` has streams
without any constraint: its time is that of watching for one in vain. `k_found` is the k that is used
over the true one, in the median of the batches in which one is in force (`k_in_force`). Where k
changes, what holds is used whether or not it is worth its time, as in the article (`worth` = 0).
"""

from __future__ import annotations

from typing import Any

from benchmarks import k_joins, k_points
from benchmarks.harness import Case, Figure, Ratios, Size, Variants
from benchmarks.k_joins import MONITORED
from benchmarks.subscribed import ENVIRONMENT

SMALL: dict[str, Any] = k_points.SMALL | {"low": 100, "high": 500, "warm": 0.1}
FULL: dict[str, Any] = k_points.FULL | {"low": 2_000, "high": 10_000, "warm": 0.1}


def variants(size: Size) -> Variants:
    return k_joins.variants(k_points.monitored(size))


def ratios(size: Size) -> Ratios:
    points = k_points.monitored(size)
    parts = [
        Figure(f"false_negatives_{part}@{point}", f"{MONITORED}@{point}", f"false_negatives_{part}")
        for point in points
        if point != "does_not_hold"
        for part in ("rising", "steady")
    ]
    tracked = [
        Figure(f"{what}@{point}", f"{MONITORED}@{point}", what)
        for point in points
        if point != "does_not_hold"
        for what in ("k_in_force", "k_found")
    ]
    return (*k_joins.ratios(points, "rids"), *parts, *tracked)


CASE = Case(
    name="k_monitoring",
    about="constraints whose k rises and falls, and one that does not hold",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    shares_process=True,
    env=ENVIRONMENT,
)
