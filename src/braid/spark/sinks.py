"""Sinks: write one batch of one output, idempotently.

Spark repeats a batch if the driver died before the commit. A repeated batch has the same id, and
the sink must replace the first write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import DataFrame, Row, SparkSession

from braid.errors import ConfigError
from braid.spark.files import Files


class Sink(Protocol):
    """Writes the rows of batches. A repeated batch id replaces the earlier rows."""

    def prepare(self, spark: SparkSession, *, resumes: bool) -> None:
        """Called once before the first batch; `resumes` if there is a checkpoint to go on from."""

    def write(self, frame: DataFrame, batch_id: int) -> None: ...


@dataclass(frozen=True)
class FileSink:
    """Files in `<path>/batch=<id>`, a directory per batch that is overwritten as a whole.

    Spark reads `path` as one table with the column `batch`.
    """

    path: str
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)

    def prepare(self, spark: SparkSession, *, resumes: bool) -> None:
        """Batch ids of a new checkpoint start at 0: they would replace those of another run."""
        if not resumes and Files(spark).has_child(self.path, "batch="):
            raise ConfigError(
                "E431",
                f"{self.path} has batches of an earlier run, and the checkpoint is new",
                "use the checkpoint of that run, or another output directory, or remove this one",
            )

    def write(self, frame: DataFrame, batch_id: int) -> None:
        writer = frame.write.mode("overwrite").format(self.format).options(**self.options)
        writer.save(f"{self.path.rstrip('/')}/batch={batch_id}")


@dataclass(frozen=True)
class FunctionSink:
    """A function of the DataFrame and the batch id; that it is idempotent is up to the user."""

    function: Callable[[DataFrame, int], Any]

    def prepare(self, spark: SparkSession, *, resumes: bool) -> None:
        pass

    def write(self, frame: DataFrame, batch_id: int) -> None:
        self.function(frame, batch_id)


@dataclass(frozen=True)
class ConsoleSink:
    """Prints the first rows of every batch that has some."""

    rows: int = 20

    def prepare(self, spark: SparkSession, *, resumes: bool) -> None:
        pass

    def write(self, frame: DataFrame, batch_id: int) -> None:
        frame.show(self.rows, truncate=False)


@dataclass(frozen=True)
class NoopSink:
    """Computes the output and discards it: for measurements."""

    def prepare(self, spark: SparkSession, *, resumes: bool) -> None:
        pass

    def write(self, frame: DataFrame, batch_id: int) -> None:
        frame.write.format("noop").mode("overwrite").save()


@dataclass
class MemorySink:
    """Keeps the rows on the driver, by batch: for tests and notebooks."""

    batches: dict[int, list[Row]] = field(default_factory=dict)

    def prepare(self, spark: SparkSession, *, resumes: bool) -> None:
        pass

    def write(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = frame.collect()

    @property
    def rows(self) -> list[Row]:
        return [row for _, rows in sorted(self.batches.items()) for row in rows]


def as_sink(value: Any) -> Sink:
    """A sink from what a user may give: a path, a function, a word, or a sink."""
    named: dict[str, Callable[[], Sink]] = {"console": ConsoleSink, "noop": NoopSink}
    if isinstance(value, str):
        return named[value]() if value in named else FileSink(value)
    if hasattr(value, "prepare") and hasattr(value, "write"):
        sink: Sink = value
        return sink
    if hasattr(value, "__fspath__"):
        return FileSink(str(value))
    if callable(value):
        return FunctionSink(value)
    raise ConfigError(
        "E432",
        f"{value!r} is not a sink",
        'give a path, "console", "noop", a function of (DataFrame, batch id), or a sink',
    )
