"""Three-step patterns by the hundred thousand end to end on Spark, against an empty `mapInArrow`.

Each wants three quotes of a name in a row, each above a price of its own, within ten seconds. At
full size a quote begins one pattern, as it matches one query in `spark_selection`, and there is a
match for every 25 quotes; in the dense variant a quote begins twenty, and there are 0.8 matches for
each. Spark has no filter and no join that says this over a stream, so that there is no other rival. Both read the same
Parquet files in the same micro-batches and throw their output away. The answer is taken from files
that an unmeasured run writes, and must be that of a plain walk, name by name.
"""

from __future__ import annotations

from typing import Any

from benchmarks import on_spark
from benchmarks.harness import Case, Ratio, Ratios, Size, Variants
from benchmarks.rules_on_spark import PATTERN, ManyRules, pattern_rows, pattern_times, quotes

SMALL: dict[str, Any] = {
    "events": 60_000,
    "rules": 1_000,
    "crowds": ("sparse",),
    "batches": 2,
    "files_per_batch": 2,
    "warm_ups": 0,
    "memory": "1g",
    "seed": 1,
}
FULL: dict[str, Any] = SMALL | {
    "events": 8_000_000,
    "rules": 100_000,
    "crowds": ("sparse", "dense"),
    "batches": 4,
    "warm_ups": 1,
    "memory": "4g",
}


class Passthrough(on_spark.Passthrough):
    def __init__(self, size: Size) -> None:
        super().__init__(
            size,
            quotes(size),
            lambda: {crowd: pattern_times(size, crowd) for crowd in size["crowds"]},
        )


class Braid(ManyRules):
    crowd = "sparse"

    def __init__(self, size: Size) -> None:
        super().__init__(size, PATTERN, pattern_rows(size, self.crowd), self.crowd)


class Dense(Braid):
    crowd = "dense"


def variants(size: Size) -> Variants:
    dense: Variants = {"dense": Dense} if "dense" in size["crowds"] else {}
    return {"passthrough": Passthrough, "braid": Braid, **dense}


def ratios(size: Size) -> Ratios:
    names = [name for name in variants(size) if name != "passthrough"]
    return tuple(Ratio(f"{n}/passthrough", "throughput", n, "passthrough") for n in names)


CASE = Case(
    name="spark_patterns_100k",
    about="three-step patterns end to end on Spark, against an empty mapInArrow",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    shares_process=True,
)
