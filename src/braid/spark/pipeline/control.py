"""The control stream: sends every change of queries to every shard, in one order.

A row of the control stream is `(op, id, text, at)`, and perhaps `seq`. Within a batch changes are
ordered by `seq` where it is given, then as they stand in the source's partitions; both are the
same on every shard and when the batch is run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from braid.algebra.schema import MICROSECONDS
from braid.errors import ConfigError
from braid.spark.pipeline.envelopes import CONTROL, ENVELOPE, Rows, open_payload

#: What `rejected` calls the source of a change.
NAME = "control"

#: Where a checkpoint has what became of changes: a file for each batch that had some.
CHANGES = "braid/changes"

_COLUMNS = ("op", "id", "text", "at")
_TEXT = StringType()
_INTEGERS = (LongType, IntegerType, ShortType, ByteType)
_TIMES = (TimestampType, TimestampNTZType, DateType)

_TRAVELLING = pa.schema(
    [
        ("seq", pa.int64()),
        ("part", pa.int64()),
        ("row", pa.int64()),
        ("op", pa.string()),
        ("id", pa.string()),
        ("text", pa.string()),
        ("at", pa.int64()),
        ("timed", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Change:
    """One query comes or goes. `timed`: `at` is a timestamp, not a number of the query's clock."""

    op: str | None
    id: str | None
    text: str | None
    at: int | None
    timed: bool
    #: The number that the source gave it, if any: it identifies the change in the log.
    seq: int | None = None

    def shown(self) -> str:
        """As JSON, for the `rejected` output."""
        at: Any = self.at
        if self.timed and self.at is not None:
            at = str(np.datetime64(self.at, "us"))
        return json.dumps({"op": self.op, "id": self.id, "text": self.text, "at": at})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


#: What becomes of a change. One that waits for a route is applied or refused later.
APPLIED, WAITING, REFUSED = "applied", "waiting", "refused"


@dataclass(frozen=True)
class ChangeResult:
    """What a pipeline made of a change, in which batch, and the event time from which it holds.

    `time` counts microseconds or ticks, as `unit` says. It is None for a change that was not
    applied, and for one that holds from the beginning because no time had been reached.
    """

    op: str | None
    id: str | None
    seq: int | None
    state: str
    unit: str | None = None
    time: int | None = None
    reason: str | None = None
    batch: int = 0

    @staticmethod
    def of(change: Change, state: str, **found: Any) -> ChangeResult:
        return ChangeResult(change.op, change.id, change.seq, state, **found)

    @property
    def at(self) -> str | int | None:
        """The time as a change gives it: a timestamp in ISO form, or a number of ticks."""
        if self.time is None or self.unit != MICROSECONDS:
            return self.time
        return f"{np.datetime64(self.time, 'us')}Z"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "at": self.at}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ChangeResult:
        return ChangeResult(**{field.name: data[field.name] for field in fields(ChangeResult)})


def control_columns(frame: DataFrame) -> DataFrame:
    """A user's DataFrame of changes in the form in which it travels; checked."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    missing = [name for name in _COLUMNS if name not in types]
    wrong: list[str] = [n for n in _COLUMNS[:3] if type(types.get(n, _TEXT)) is not StringType]
    timed = isinstance(types.get("at"), _TIMES)
    if "at" in types and not timed and not isinstance(types["at"], _INTEGERS):
        wrong.append("at")
    if missing or wrong:
        said = [f"it has no column {name}" for name in missing]
        said += [f"{name} is {types[name].simpleString()}" for name in wrong]
        raise ConfigError(
            "E416",
            f"this is not a stream of changes: {'; '.join(said)}",
            "columns: op STRING, id STRING, text STRING, at TIMESTAMP (or BIGINT for ticks)",
        )
    moment = F.col("at").cast("timestamp") if timed else None
    at = F.unix_micros(moment) if moment is not None else F.col("at").cast("long")
    seq = F.col("seq").cast("long") if "seq" in types else F.lit(None).cast("long")
    return frame.select(
        seq.alias("seq"), "op", "id", "text", at.alias("at"), F.lit(timed).alias("timed")
    )


@dataclass(frozen=True)
class ControlJob:
    """What ingest does with changes: all of them to all shards."""

    labels: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = int(context.partitionId()) if context is not None else 0
        seen, found = 0, []
        for batch in batches:
            known = {name: batch.column(name) for name in batch.schema.names}
            known["part"] = pa.array(np.full(batch.num_rows, part))
            known["row"] = pa.array(np.arange(seen, seen + batch.num_rows))
            seen += batch.num_rows
            columns = [known[field.name].cast(field.type) for field in _TRAVELLING]
            found.append(pa.RecordBatch.from_arrays(columns, schema=_TRAVELLING))
        if seen:
            rows = Rows(ENVELOPE)
            for label in self.labels:
                rows.add(label, CONTROL, NAME, None, seen, batches=found)
            yield rows.batch()


def open_changes(payloads: Iterable[Any]) -> list[Change]:
    """The changes of a batch in their order."""
    rows = [row for p in payloads for part in open_payload(p) for row in part.to_pylist()]
    last = np.iinfo(np.int64).max
    rows.sort(key=lambda r: (last if r["seq"] is None else r["seq"], r["part"], r["row"]))
    return [Change(r["op"], r["id"], r["text"], r["at"], r["timed"], r["seq"]) for r in rows]
