"""What the cases on Spark share: one Spark, files of rows, runs over them from a fresh checkpoint.

What is measured is the whole time of Spark's triggers, without the first batch of each run, which
starts Python workers. Spark's own code is compiled while it runs, and a batch of Braid takes more
ways through it than an empty one: all variants run a few times before they are measured.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Measured, Prepared, Size
from benchmarks.workloads import Quotes

DDL = "ts TIMESTAMP, Name STRING, Price DOUBLE, Volume BIGINT"


class Rows(Protocol):
    """Rows in order of time that can be had in parts."""

    def __len__(self) -> int: ...

    def table(self, start: int, stop: int) -> pa.Table: ...


class OnSpark:
    """What all variants have: Spark, the files, a fresh checkpoint for every run."""

    def __init__(self, size: Size, data: Rows, others: Mapping[str, Rows] | None = None) -> None:
        from pyspark.sql import SparkSession

        from braid.cli.run import QUIET, output_of_children
        from braid.spark import local_spark

        self.size = size
        self._is_shared = SparkSession.getActiveSession() is not None
        self.folder = Path(tempfile.mkdtemp(prefix="braid-bench-"))
        with output_of_children(self.folder / "spark.log"):
            self.spark = local_spark(2, memory=size["memory"], **QUIET)
        self.runs = 0
        for name, rows in {"input": data, **(others or {})}.items():
            write_files(rows, size, self.folder / name)

    def source(self, name: str = "input", ddl: str = DDL) -> Any:
        reader = self.spark.readStream.schema(ddl)
        reader = reader.option("maxFilesPerTrigger", self.size["files_per_batch"])
        return reader.parquet(str(self.folder / name))

    def checkpoint(self) -> str:
        self.runs += 1
        return str(self.folder / f"checkpoint-{self.runs}")

    def finished(self, writer: Any) -> Any:
        """Start a writer of a stream, and wait until all there is has gone through."""
        writer = writer.option("checkpointLocation", self.checkpoint()).trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination()
        return query

    def warm_up(self, run: Callable[[], Any]) -> None:
        for _ in range(self.size["warm_ups"]):
            run()

    def close(self) -> None:
        if not self._is_shared:  # it was there before, and is somebody else's
            self.spark.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def write_files(data: Rows, size: Size, folder: Path) -> None:
    folder.mkdir()
    files = size["batches"] * size["files_per_batch"]
    rows = -(-len(data) // files)
    for number in range(files):
        table = data.table(number * rows, (number + 1) * rows)
        path = folder / f"{number:04d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number,) * 2)  # Spark takes the oldest files first


def trigger_seconds(query: Any) -> tuple[float, int]:
    """Whole time and rows of a finished query's batches, without the first."""
    batches = [p for p in query.recentProgress if p["numInputRows"] > 0][1:]
    seconds = sum(p["durationMs"]["triggerExecution"] for p in batches) / 1000
    return seconds, sum(p["numInputRows"] for p in batches)


def first_seconds(query: Any) -> float:
    """Whole time of the first batch of a finished query, in which engines are made."""
    first = next(p for p in query.recentProgress if p["numInputRows"] > 0)
    return float(first["durationMs"]["triggerExecution"]) / 1000


class Passthrough(OnSpark):
    """The same rows through an empty `mapInArrow`; its answer is the one that is expected."""

    def __init__(self, size: Size, data: Quotes, expected: Callable[[], Any]) -> None:
        super().__init__(size, data)
        self.expected = expected

    def prepare(self) -> Prepared:
        self.answer = self.expected()
        self.warm_up(self.run)
        return Prepared()

    def run(self) -> Any:
        def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches

        return self.finished(self.source().mapInArrow(same, DDL).writeStream.format("noop"))

    def measure(self) -> Measured:
        seconds, rows = trigger_seconds(self.run())
        return Measured(seconds, rows, self.answer)


class BraidOnSpark(OnSpark, ABC):
    """A session that writes one output; a first run compiles, and writes the answer."""

    output = "Found"

    @abstractmethod
    def session(self) -> Any: ...

    @abstractmethod
    def found(self) -> Any:
        """The answer that the files in `found` have."""

    def prepare(self) -> Prepared:
        from braid.spark import FileSink

        started = time.perf_counter()
        session = self.session()
        registered = time.perf_counter()
        running = self.run(session, FileSink(str(self.folder / "found")))
        self.matches = running.progress.matches
        self.answer = self.found()
        self.warm_up(lambda: self.run(self.session(), "noop"))
        return Prepared(register_s=registered - started)

    def run(self, session: Any, sink: Any) -> Any:
        checkpoint = self.checkpoint()
        running = session.start({self.output: sink}, checkpoint=checkpoint, trigger="available now")
        running.await_termination()
        return running

    def measure(self) -> Measured:
        running = self.run(self.session(), "noop")
        return measured_session(running, lambda n: self.answer if n == self.matches else n)


def measured_session(running: Any, answer: Callable[[int], Any]) -> Measured:
    """A finished session's figures; `answer` gets the number of matches."""
    seconds, rows = trigger_seconds(running.query)
    progress = running.progress
    extra = {
        "matches": progress.matches,
        "first_batch_s": first_seconds(running.query),
        "instances": progress.instances,
        "saved_bytes_last_batch": progress.saved_bytes,
        "shards_restored": progress.restored,
    }
    state_bytes = progress.numbers.get("state_bytes", 0)
    return Measured(seconds, rows, answer(progress.matches), state_bytes, extra)
