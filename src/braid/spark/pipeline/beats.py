"""Beats: trigger a Spark batch when all sources are silent.

Spark runs a batch only when a source has something new. A shard that holds events says when the
idle timeout would release them (`Shard.due`); if no batch has come by then, the driver writes a
small file, a *beat*, into a directory of the checkpoint. The directory is one more source of the
pipeline, so that the beat starts a batch, and reaches every shard in it.

A beat carries no time. What the shards decide by is the time of the batch, which Spark keeps with
the batch's offsets: a batch that is run again after a crash has the same beats and the same time,
and decides the same. So that the time between two runs makes no stream idle, in the first attempt
at a batch as in the next one, the moments at which runs began are written down before each run.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from braid.spark.files import Files
from braid.spark.pipeline.envelopes import ENVELOPE, HEARTBEAT, Rows

_LOG = logging.getLogger("braid")

#: The stream of a heartbeat that is about none.
NO_STREAM = ""

#: Runs whose beginnings are kept: a batch is run again by one of the next.
_RUNS = 100

#: Seconds between looks at the clock, and before a beat is written again that changed nothing.
_POLL, _AGAIN = 0.2, 10.0


def now() -> int:
    """The driver's clock in microseconds, in the steps in which Spark stamps batches."""
    return time.time_ns() // 1_000_000 * 1_000


@dataclass(frozen=True)
class BeatJob:
    """What ingest does with a beat: it tells every shard that there is a batch."""

    labels: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if sum(batch.num_rows for batch in batches):
            rows = Rows(ENVELOPE)
            for label in self.labels:
                rows.add(label, HEARTBEAT, NO_STREAM, None, 0)
            yield rows.batch()


class Beats:
    """The beats of one checkpoint."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark = spark
        self._files = Files(spark)
        self._path = f"{checkpoint.rstrip('/')}/braid/beats"
        self._runs = f"{checkpoint.rstrip('/')}/braid/runs.json"

    def source(self) -> DataFrame:
        """The beats as a source. Spark deletes those whose batch has been committed."""
        self._files.make_directory(self._path)
        return self._spark.readStream.option("cleanSource", "delete").text(self._path)

    def begin(self) -> tuple[int, ...]:
        """Write down that a run begins; when this one and those before it began."""
        known = json.loads(self._files.read_text(self._runs)) if self._has_run() else []
        runs = [*known, now()][-_RUNS:]
        self._files.write_text(self._runs, json.dumps(runs))
        return tuple(runs)

    def _has_run(self) -> bool:
        return self._files.exists(self._runs)

    def beat(self) -> None:
        self._files.write_text(f"{self._path}/{uuid.uuid4().hex}", "beat\n")


class Pulse:
    """Writes a beat whenever one is due, as long as a pipeline runs."""

    def __init__(
        self, beats: Beats, due: Callable[[], int | None], is_active: Callable[[], bool]
    ) -> None:
        self._beats = beats
        self._due = due
        self._is_active = is_active
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _goes_on(self) -> bool:
        try:
            return self._is_active()
        except (Py4JError, OSError):  # Spark itself has been stopped
            return False

    def _run(self) -> None:
        last: tuple[int, float] | None = None
        while not self._stopped.wait(_POLL) and self._goes_on():
            due, moment = self._due(), time.monotonic()
            if due is None or now() < due:
                continue
            if last is not None and last[0] == due and moment - last[1] < _AGAIN:
                continue  # its batch has not come yet
            last = (due, moment)
            try:
                self._beats.beat()
            except Exception as failure:  # a file system that fails for a while ends no pipeline
                _LOG.warning("a batch for silent streams could not be started: %s", failure)
