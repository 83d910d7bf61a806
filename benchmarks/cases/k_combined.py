"""Constraints together: CA with OAC, declared or found (figure 15), and CA with RIDS(k) (figure 16).

At the first points the streams are the same and what is declared differs; at the others both
constraints are declared and k of RIDS grows. A constraint that holds may be found although it was
not declared: `none_told` says what is gained without any declaration.
"""

from __future__ import annotations

from typing import Any

from benchmarks import k_joins, k_points
from benchmarks.harness import Case, Ratios, Size, Variants
from benchmarks.subscribed import ENVIRONMENT

SMALL: dict[str, Any] = k_points.SMALL | {"ks": (0, 250, 1_000)}
FULL: dict[str, Any] = k_points.FULL | {"ks": (0, 500, 2_000, 5_000, 10_000, 20_000)}


def variants(size: Size) -> Variants:
    return k_joins.variants(k_points.combinations(size))


def ratios(size: Size) -> Ratios:
    return k_joins.ratios(k_points.combinations(size), "both")


CASE = Case(
    name="k_combined",
    about="several constraints on one join, declared or found",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    shares_process=True,
    env=ENVIRONMENT,
)
