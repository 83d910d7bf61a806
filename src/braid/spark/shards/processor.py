"""The stateful processor: the interface between Spark and the shards of a streaming job.

Spark starts a process of its own only to ask which state a processor has. So this module is light:
the engine, and the compiler with it, are imported where the first rows are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import StatefulProcessor

from braid.spark.pipeline.shipping import Shipped

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

    from braid.spark.shards.shards import ShardJob


class ShardProcessor(StatefulProcessor):
    """The shards of a streaming job, on the state store."""

    def __init__(self, job: Shipped[ShardJob], pipeline: str) -> None:
        self._job = job
        self._pipeline = pipeline

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._token = handle.getValueState("token", "token string")
        self._pages = handle.getMapState("pages", "name string", "page binary")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        from braid.spark.shards.hosting import Hosting

        (label,) = key
        hosting = Hosting(self._job, self._pipeline, self._token, self._pages)
        yield from hosting.run(int(label), rows)

    def close(self) -> None:
        pass
