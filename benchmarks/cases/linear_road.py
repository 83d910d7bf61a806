"""The four Linear Road queries of table III: the plain join against joins with constraints.

Memory and time are those of the joins of the query itself, as in the article: windows and groups
below them are the same in all variants. `total_memory/swj` and `total_time/swj` are those of the
whole plan, with all that the engine does for an event. The input of NegTollStr is worked out before,
so that the one block is measured. Nothing is declared: what holds is found.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import k_joins, linear_road
from benchmarks.harness import Case, Figure, Ratio, Ratios, Size, Variants
from benchmarks.k_joins import MODES, Maker, Work
from benchmarks.subscribed import ENVIRONMENT

SMALL: dict[str, Any] = {"cars": 1_500, "seconds": 1_500, "batch": 30, "warm": 0.5, "seed": 1}
FULL: dict[str, Any] = SMALL | {"cars": 26_000, "seconds": 10_800}


def work(size: Size, name: str) -> Work:
    seen = linear_road.reports(size["cars"], size["seconds"], size["seed"])
    batches: list[dict[str, Any]] = list(seen.batches(size["batch"]))
    if name == "NegTollStr":
        batches = linear_road.with_tolls(batches)
    warm = int(len(batches) * size["warm"])
    return Work(linear_road.block(name), batches, warm, query=name)


def points(size: Size) -> dict[str, Maker]:
    return {name: partial(work, name=name) for name in linear_road.QUERIES}


def variants(size: Size) -> Variants:
    return k_joins.variants(points(size))


def ratios(size: Size) -> Ratios:
    whole: list[Ratio | Figure] = []
    for name in linear_road.QUERIES:
        swj, exact, monitored = (f"{mode}@{name}" for mode in MODES)
        whole += [
            Ratio(f"total_time/swj@{name}", "time", monitored, swj),
            Ratio(f"exact_total_time/swj@{name}", "time", exact, swj),
            Ratio(f"total_memory/swj@{name}", "total_bytes", monitored, swj),
            Ratio(f"exact_total_memory/swj@{name}", "total_bytes", exact, swj),
        ]
    return (*k_joins.ratios(points(size), seconds="join_seconds"), *whole)


CASE = Case(
    name="linear_road",
    about="four queries of Linear Road with constraints that are found, and without",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    shares_process=True,
    env=ENVIRONMENT,
)
