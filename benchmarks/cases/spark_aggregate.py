"""A windowed aggregate end to end on Spark, against Spark's own windowed aggregate.

Sum, count and maximum for each name over windows of fixed length: one after the other (tumbling), and
overlapping (sliding). Spark groups by window and name and puts out a window once it is complete. In Braid a
stream of ticks asks for the aggregate of each name just before each end of a window; ticks are read too, and not
counted as events. Both read the same Parquet files in the same micro-batches, throw their output away, and share
one Spark. The answer is taken from unmeasured runs and must be that of sums in arrays.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.harness import Case, Ratio, Size, Variants, Worked
from benchmarks.relations_on_spark import (
    BraidAggregate,
    Sliding,
    SparkAggregate,
    expected_windows,
)

SMALL: dict[str, Any] = {
    "events": 60_000,
    "names": 50,
    "windows": {"tumbling": (10, 10), "sliding": (10, 2)},
    "batches": 2,
    "files_per_batch": 2,
    "warm_ups": 0,
    "memory": "1g",
    "seed": 1,
}
FULL: dict[str, Any] = SMALL | {
    "events": 8_000_000,
    "names": 1_000,
    "windows": {"tumbling": (60, 60), "sliding": (60, 10)},
    "batches": 4,
    "warm_ups": 1,
    "memory": "4g",
}


class InArrays(Worked):
    """The answers, without any engine."""

    def __init__(self, size: Size) -> None:
        answer = {
            kind: expected_windows(size, Sliding(*windows))
            for kind, windows in size["windows"].items()
        }
        super().__init__(answer, {f"{kind}: rows": float(n) for kind, (n, _) in answer.items()})


class Braid(BraidAggregate):
    def __init__(self, size: Size, kind: str) -> None:
        super().__init__(size, Sliding(*size["windows"][kind]))
        self.kind = kind

    def found(self) -> Any:
        return {self.kind: super().found()}


class Spark(SparkAggregate):
    def __init__(self, size: Size, kind: str) -> None:
        super().__init__(size, Sliding(*size["windows"][kind]))
        self.kind = kind

    def found(self) -> Any:
        return {self.kind: super().found()}


def variants(size: Size) -> Variants:
    made: dict[str, Any] = {"in_arrays": InArrays}
    for kind in size["windows"]:
        made[f"braid_{kind}"] = partial(Braid, kind=kind)
        made[f"spark_{kind}"] = partial(Spark, kind=kind)
    return made


CASE = Case(
    name="spark_aggregate",
    about="a windowed aggregate end to end on Spark, against Spark's own",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=(
        Ratio("braid/spark", "throughput", "braid_tumbling", "spark_tumbling"),
        Ratio("braid/spark@sliding", "throughput", "braid_sliding", "spark_sliding"),
    ),
    shares_process=True,
)
