"""CA(k): equal values come together within k; figure 10 and table I.

The plain sliding-window join against the same join with constraints, for each k. At every point the
streams keep the constraint within exactly that k, and no other one.
"""

from __future__ import annotations

from benchmarks import k_joins, k_points
from benchmarks.harness import Case, Ratios, Size, Variants
from benchmarks.subscribed import ENVIRONMENT


def variants(size: Size) -> Variants:
    return k_joins.variants(k_points.points(size, "ca"))


def ratios(size: Size) -> Ratios:
    return k_joins.ratios(k_points.points(size, "ca"), f"k{size['main']}")


CASE = Case(
    name="k_ca",
    about="CA(k): equal values come together within k",
    sizes={"small": k_points.SMALL, "full": k_points.FULL},
    variants=variants,
    ratios=ratios,
    shares_process=True,
    env=ENVIRONMENT,
)
