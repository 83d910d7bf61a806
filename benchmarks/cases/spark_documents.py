"""Joins over the items of feeds with windows that never end, end to end on Spark.

As `xml_feed`, but items are read from files by Spark in micro-batches, sent to shards, and what is
remembered is saved after each batch. Results are counted by the shards and not written: equal channels
alone give each pair of items results for more than a thousand queries. An engine in process must find
as many.
"""

from __future__ import annotations

from typing import Any

from benchmarks.documents_on_spark import JoinedInProcess, JoinedOnSpark, Passed
from benchmarks.harness import Case, Figure, Ratio

SMALL: dict[str, Any] = {
    "queries": 200,
    "items": 120,
    "batches": 2,
    "files_per_batch": 2,
    "warm_ups": 0,
    "memory": "1g",
}
FULL: dict[str, Any] = SMALL | {
    "queries": 100_000,
    "items": 20_000,
    "batches": 5,
    "warm_ups": 1,
    "memory": "3g",
}

CASE = Case(
    name="spark_documents",
    about="joins over items of feeds end to end on Spark, with windows that never end",
    sizes={"small": SMALL, "full": FULL},
    variants={"passthrough": Passed, "in_process": JoinedInProcess, "braid": JoinedOnSpark},
    ratios=(
        Ratio("braid/passthrough", of="throughput", over="braid", by="passthrough"),
        Ratio("braid/in_process", of="throughput", over="braid", by="in_process"),
        Figure("items_per_s", "braid", "items_per_s"),
        Figure("first_batch_s", "braid", "first_batch_s"),
    ),
    shares_process=True,
)
