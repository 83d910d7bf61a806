"""The keyed two-step pattern end to end on Spark, against the same rows through an empty mapInArrow.

Both read the same Parquet files in the same micro-batches and throw their output away. What is
measured is the whole time of Spark's triggers, without the first batch of each run, which starts
Python workers. The two share one Spark. The answer is taken from files that an unmeasured run
writes, and must be that of a plain loop; the measured runs must find as many matches.
"""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq

from benchmarks import on_spark
from benchmarks.harness import Case, Ratio, Size
from benchmarks.on_spark import BraidOnSpark
from benchmarks.workloads import Quotes, answer_of, expected_jumps, pattern, quotes

SMALL = {
    "events": 120_000,
    "names": 1_000,
    "noise": 0.015,
    "seed": 1,
    "within": "10 s",
    "within_us": 10_000_000,
    "batches": 2,
    "files_per_batch": 2,
    "checked_names": 1_000,
    "warm_ups": 0,
    "memory": "1g",
}
FULL = SMALL | {
    "events": 8_000_000,
    "names": 10_000,
    "within": "1 min",
    "within_us": 60_000_000,
    "batches": 4,
    "checked_names": 500,
    "warm_ups": 1,
    "memory": "4g",
}


class Passthrough(on_spark.Passthrough):
    def __init__(self, size: Size) -> None:
        data = quotes(size)
        # The newest epoch is held back until time moves on: here that is the last quote.
        seen = Quotes(data.time[:-1], data.codes[:-1], data.price[:-1], data.volume[:-1])
        super().__init__(size, data, lambda: expected_jumps(seen, size))


class Braid(BraidOnSpark):
    output = "Jump"

    def __init__(self, size: Size) -> None:
        super().__init__(size, quotes(size))

    def session(self) -> Any:
        import braid

        session = braid.Session(
            self.spark, shards=2, instance_budget=2 * self.size["events"], idle_timeout=None
        )
        session.stream("Stock", self.source(), time="ts")
        session.query("jump", pattern(self.size["within"]))
        return session

    def found(self) -> Any:
        return answer_of([pq.read_table(self.folder / "found")], self.size)


CASE = Case(
    name="spark_pattern",
    about="the keyed two-step pattern end to end on Spark, against an empty mapInArrow",
    sizes={"small": SMALL, "full": FULL},
    variants={"passthrough": Passthrough, "braid": Braid},
    ratios=(Ratio("braid/passthrough", of="throughput", over="braid", by="passthrough"),),
    shares_process=True,
)
