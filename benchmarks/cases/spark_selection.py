"""Selections by the hundred thousand end to end on Spark.

Against the same rows through an empty `mapInArrow`; against the rules as a table that Spark joins
by broadcast, which is what a good engineer would write for rules of one shape; and against a Spark
filter for each query, which is possible for ten. At full size there is one match for each quote, and
two of a hundred quotes have any. All read the same Parquet files in the same micro-batches and throw
their output away; all share one Spark. Answers are taken from unmeasured runs and must be those of a
count in arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import on_spark, selections
from benchmarks.harness import Case, Measured, Prepared, Ratio, Size, Variants
from benchmarks.on_spark import OnSpark, trigger_seconds
from benchmarks.rules_on_spark import (
    SELECTION,
    ManyRules,
    quotes,
    selection_times,
    times_digest,
)

SMALL: dict[str, Any] = {
    "events": 60_000,
    "rules": 1_000,
    "filters": (10,),
    "batches": 2,
    "files_per_batch": 2,
    "warm_ups": 0,
    "memory": "1g",
    "seed": 1,
}
FULL: dict[str, Any] = SMALL | {
    "events": 8_000_000,
    "rules": 100_000,
    "filters": (10,),
    "batches": 4,
    "warm_ups": 1,
    "memory": "4g",
}


class Passthrough(on_spark.Passthrough):
    def __init__(self, size: Size) -> None:
        super().__init__(size, quotes(size), partial(self._answer, size))

    @staticmethod
    def _answer(size: Size) -> dict[str, Any]:
        few = {f"first {count}": selection_times(size, count) for count in size["filters"]}
        return {"all": selection_times(size, size["rules"]), **few}


class Braid(ManyRules):
    def __init__(self, size: Size) -> None:
        rows = selections.rules(size["rules"], size["seed"]).table()
        super().__init__(size, SELECTION, rows)


class InSpark(OnSpark, ABC):
    """Rules as Spark itself can evaluate them."""

    question = "all"

    def __init__(self, size: Size) -> None:
        super().__init__(size, quotes(size))

    @abstractmethod
    def wanted(self, frame: Any) -> Any:
        """The rows of a frame that rules want, once for each."""

    def prepare(self) -> Prepared:
        found = self.folder / "found"

        def write(frame: Any, batch: int) -> None:
            kept = frame.persist()
            times = self.wanted(kept).selectExpr("ts AS start", "ts AS end")
            times.write.mode("overwrite").parquet(f"{found}/batch={batch}")
            kept.unpersist()

        self.finished(self.source().writeStream.foreachBatch(write))
        times = pq.read_table(found, columns=["start", "end"])
        self.answer = {self.question: times_digest(times)}
        self.warm_up(self.run)
        return Prepared()

    def run(self) -> Any:
        return self.finished(self.wanted(self.source()).writeStream.format("noop"))

    def measure(self) -> Measured:
        seconds, rows = trigger_seconds(self.run())
        return Measured(seconds, rows, self.answer)


class RulesTable(InSpark):
    def wanted(self, frame: Any) -> Any:
        from pyspark.sql import functions

        rules = selections.rules(self.size["rules"], self.size["seed"]).table()
        table = functions.broadcast(self.spark.createDataFrame(rules))
        return frame.join(table, (frame.Name == table.who) & (frame.Price > table.floor))


class Filters(InSpark):
    """A filter for each rule, over a micro-batch that is read once."""

    def __init__(self, size: Size, count: int) -> None:
        super().__init__(size)
        self.question = f"first {count}"
        self.rules: pa.Table = selections.rules(count, size["seed"]).table()

    def wanted(self, frame: Any) -> Any:
        kept = [
            frame.filter((frame.Name == rule["who"]) & (frame.Price > rule["floor"]))
            for rule in self.rules.to_pylist()
        ]
        return reduce(lambda some, more: some.unionAll(more), kept)

    def run(self) -> Any:
        def write(frame: Any, _batch: int) -> None:
            kept = frame.persist()
            self.wanted(kept).write.format("noop").mode("overwrite").save()
            kept.unpersist()

        return self.finished(self.source().writeStream.foreachBatch(write))


def variants(size: Size) -> Variants:
    made: dict[str, Any] = {
        "passthrough": Passthrough,
        "braid": Braid,
        "rules_table": RulesTable,
    }
    for count in size["filters"]:
        made[f"filters_{count}"] = partial(Filters, count=count)
    return made


def ratios(size: Size) -> tuple[Ratio, ...]:
    rivals = ["passthrough", "rules_table", *(f"filters_{count}" for count in size["filters"])]
    return tuple(Ratio(f"braid/{rival}", "throughput", "braid", rival) for rival in rivals)


CASE = Case(
    name="spark_selection",
    about="selection queries end to end on Spark, against an empty mapInArrow and Spark's own ways",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    shares_process=True,
)
