"""The keyed two-step pattern end to end on Spark, against the same rows through an empty mapInArrow.

Both read the same Parquet files in the same micro-batches and throw their output away. What is
measured is the whole time of Spark's triggers, without the first batch of each run, which starts
Python workers. The two share one Spark. The answer is taken from files that an unmeasured run
writes, and must be that of a plain loop; the measured runs must find as many matches.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Case, Measured, Prepared, Ratio, Size
from benchmarks.workloads import Quotes, answer_of, expected_jumps, pattern, quotes

SMALL = {
    "events": 120_000,
    "names": 1_000,
    "noise": 0.015,
    "seed": 1,
    "within": "10 s",
    "within_us": 10_000_000,
    "batches": 3,
    "files_per_batch": 2,
    "checked_names": 1_000,
    "memory": "1g",
}
FULL = SMALL | {
    "events": 10_000_000,
    "names": 10_000,
    "within": "1 min",
    "within_us": 60_000_000,
    "batches": 5,
    "checked_names": 500,
    "memory": "4g",
}
DDL = "ts TIMESTAMP, Name STRING, Price DOUBLE, Volume BIGINT"


class OnSpark:
    """What both variants have: Spark, the files, a fresh checkpoint for every run."""

    def __init__(self, size: Size) -> None:
        from braid.cli.run import QUIET, output_of_children
        from braid.spark import local_spark

        self.size = size
        self.folder = Path(tempfile.mkdtemp(prefix="braid-bench-"))
        with output_of_children(self.folder / "spark.log"):
            self.spark = local_spark(2, memory=size["memory"], **QUIET)
        self.runs = 0
        write_files(size, self.folder / "input")

    def source(self) -> Any:
        reader = self.spark.readStream.schema(DDL)
        reader = reader.option("maxFilesPerTrigger", self.size["files_per_batch"])
        return reader.parquet(str(self.folder / "input"))

    def checkpoint(self) -> str:
        self.runs += 1
        return str(self.folder / f"checkpoint-{self.runs}")

    def close(self) -> None:
        self.spark.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def write_files(size: Size, folder: Path) -> None:
    folder.mkdir()
    data = quotes(size)
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


@cache
def expected(items: tuple[tuple[str, Any], ...]) -> tuple[int, int]:
    """The newest epoch is held back until time moves on: here that is the last quote."""
    size = dict(items)
    data = quotes(size)
    seen = Quotes(data.time[:-1], data.codes[:-1], data.price[:-1], data.volume[:-1])
    return expected_jumps(seen, size)


class Passthrough(OnSpark):
    def prepare(self) -> Prepared:
        self.run()
        return Prepared()

    def run(self) -> Any:
        def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches

        writer = self.source().mapInArrow(same, DDL).writeStream.format("noop")
        writer = writer.option("checkpointLocation", self.checkpoint()).trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination()
        return query

    def measure(self) -> Measured:
        seconds, rows = trigger_seconds(self.run())
        answer = expected(tuple(self.size.items()))
        return Measured(seconds, rows, answer)


class Braid(OnSpark):
    def prepare(self) -> Prepared:
        """A first run compiles, and writes the answer."""
        from braid.spark import FileSink

        started = time.perf_counter()
        session = self.session()
        registered = time.perf_counter()
        found = self.folder / "found"
        running = self.run(session, FileSink(str(found)))
        self.matches = running.progress.matches
        self.answer = answer_of([pq.read_table(found)], self.size)
        return Prepared(register_s=registered - started)

    def session(self) -> Any:
        import braid

        session = braid.Session(
            self.spark, shards=2, instance_budget=2 * self.size["events"], idle_timeout=None
        )
        session.stream("Stock", self.source(), time="ts")
        session.query("jump", pattern(self.size["within"]))
        return session

    def run(self, session: Any, sink: Any) -> Any:
        checkpoint = self.checkpoint()
        running = session.start({"Jump": sink}, checkpoint=checkpoint, trigger="available now")
        running.await_termination()
        return running

    def measure(self) -> Measured:
        running = self.run(self.session(), "noop")
        seconds, rows = trigger_seconds(running.query)
        progress = running.progress
        answer = self.answer if progress.matches == self.matches else progress.matches
        extra = {
            "matches": progress.matches,
            "instances": progress.instances,
            "saved_bytes_last_batch": progress.saved_bytes,
            "shards_restored": progress.restored,
        }
        return Measured(seconds, rows, answer, progress.numbers.get("state_bytes", 0), extra)


CASE = Case(
    name="spark_pattern",
    about="the keyed two-step pattern end to end on Spark, against an empty mapInArrow",
    sizes={"small": SMALL, "full": FULL},
    variants={"passthrough": Passthrough, "braid": Braid},
    ratios=(Ratio("braid/passthrough", of="throughput", over="braid", by="passthrough"),),
    shares_process=True,
)
