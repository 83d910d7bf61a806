"""Joins that share their predicate and differ in windows and selections, by their number.

With all rules off each query has its own selections, windows and join, in the same engine. A row is
buffered once for all queries that want it, or once for each. Where the queries are many they are
measured without rules on fewer events.
"""

from __future__ import annotations

from functools import partial

from benchmarks import relations, shared
from benchmarks.engines import label
from benchmarks.harness import Case, Ratio, Size, Variants
from benchmarks.shared import OneByOne, Workload
from benchmarks.subscribed import ENVIRONMENT
from benchmarks.workloads import Ints

WORKLOAD = Workload(
    sources=relations.SIDES,
    queries=lambda count, seed: relations.joins(count, seed).queries(),
    feed=lambda events, batch, seed: relations.sided(events, seed).feed(batch),
    columns=("one", "other"),
)


def answers(size: Size) -> dict[str, Ints]:
    seen = relations.sided(size["events"], size["seed"])
    found = {}
    for count in shared.checked(size):
        wanted = relations.joins(count, size["seed"])
        found[shared.question(count)] = relations.expected_pairs(
            wanted, seen, size["checked_ticks"]
        )
    return found


def variants(size: Size) -> Variants:
    return {"one_by_one": partial(OneByOne, answers=answers), **shared.variants(WORKLOAD, size)}


def ratios(size: Size) -> tuple[Ratio, ...]:
    held = [
        Ratio(f"memory/unshared@{point}", "memory", f"shared@{point}", f"unshared@{point}")
        for point in map(label, size["points"])
    ]
    return (*shared.ratios(size), *held)


CASE = Case(
    name="shared_joins",
    about="joins of one predicate with windows and selections of their own, with rules and without",
    sizes={"small": shared.SMALL, "full": shared.FULL},
    variants=variants,
    ratios=ratios,
    env=ENVIRONMENT,
)
