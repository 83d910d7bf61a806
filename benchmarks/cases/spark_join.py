"""One two-way windowed equi-join end to end on Spark, against Spark's own stream-stream inner join.

Both read the same two streams of Parquet files in the same micro-batches, join rows of one key that are at most
ten seconds apart, and throw their output away; both share one Spark. Spark's join has the state store
that Spark comes with, watermarks without lateness, and the time condition that lets it forget rows. The answer
is taken from unmeasured runs and must be that of a join in arrays.
"""

from __future__ import annotations

from typing import Any

from benchmarks.harness import Case, Ratio, Size, Worked
from benchmarks.relations_on_spark import BraidJoin, SparkJoin, expected_pairs

SMALL: dict[str, Any] = {
    "events": 60_000,
    "keys": 5_000,
    "batches": 2,
    "files_per_batch": 2,
    "warm_ups": 0,
    "memory": "1g",
    "seed": 1,
}
FULL: dict[str, Any] = SMALL | {
    "events": 1_500_000,
    "batches": 4,
    "warm_ups": 1,
    "memory": "4g",
}


class InArrays(Worked):
    """The answer, without any engine."""

    def __init__(self, size: Size) -> None:
        answer = expected_pairs(size)
        super().__init__(answer, {"pairs": answer[0]})


CASE = Case(
    name="spark_join",
    about="a windowed equi-join end to end on Spark, against Spark's own stream-stream join",
    sizes={"small": SMALL, "full": FULL},
    variants={"in_arrays": InArrays, "braid": BraidJoin, "spark": SparkJoin},
    ratios=(Ratio("braid/spark", of="throughput", over="braid", by="spark"),),
    shares_process=True,
)
