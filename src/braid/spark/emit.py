"""Emit: what the shards packed becomes typed rows again, a DataFrame for each output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from braid.algebra.schema import TICKS, shown_names
from braid.algebra.streams import Stream
from braid.algebra.types import BIGINT, STRING, TIMESTAMP
from braid.engine.payload import to_json
from braid.plan.plan import Outlet
from braid.spark.envelopes import LATE, REFUSED, RESULT, STATS, open_table

_Batches = Iterator[pa.RecordBatch]

REJECTED_SCHEMA = pa.schema([("stream", STRING), ("reason", STRING), ("row", STRING)])


def common_time(types: Iterable[pa.DataType]) -> pa.DataType:
    """One type for start and end of results of many queries: numbers if any clock counts ticks."""
    found = set(types)
    if BIGINT in found:
        return BIGINT
    return found.pop() if len(found) == 1 else TIMESTAMP


def shown_time(stream: Stream) -> pa.DataType:
    """How the times of a stream's events are shown."""
    if stream.unit == TICKS:
        return BIGINT
    return stream.time_type if pa.types.is_timestamp(stream.time_type) else TIMESTAMP


@dataclass(frozen=True)
class Results:
    """The events of one published stream: start, end, attributes."""

    outlet: Outlet

    def __call__(self, packed: DataFrame) -> DataFrame:
        wanted = packed.where((F.col("kind") == RESULT) & (F.col("stream") == self.outlet.stream))
        return _unpacked(wanted, _Typed(self.schema), self.schema)

    @property
    def schema(self) -> pa.Schema:
        time = self.outlet.time_type
        types = (time, time, *(a.type for a in self.outlet.schema))
        names = shown_names(self.outlet.schema.names)
        return pa.schema(list(zip(names, types, strict=True)))


@dataclass(frozen=True)
class Matches:
    """Every result of every query: query, start, end, stream, payload (VARIANT)."""

    time: pa.DataType

    def __call__(self, packed: DataFrame) -> DataFrame:
        names = ("query", "start", "end", "stream", "payload")
        return _described(packed.where(F.col("kind") == RESULT), names, self.time)


@dataclass(frozen=True)
class Late:
    """Events that came after their time had been closed: stream, start, end, payload (VARIANT)."""

    time: pa.DataType

    def __call__(self, packed: DataFrame) -> DataFrame:
        names = ("stream", "start", "end", "payload")
        return _described(packed.where(F.col("kind") == LATE), names, self.time)


def _described(packed: DataFrame, names: tuple[str, ...], time: pa.DataType) -> DataFrame:
    schema = pa.schema([(n, time if n in ("start", "end") else STRING) for n in names])
    rows = _unpacked(packed, _Described(schema), schema)
    return rows.withColumn("payload", F.parse_json("payload"))


def rejected(packed: DataFrame) -> DataFrame:
    """Rows that do not fit their stream: stream, reason, row (as JSON text)."""
    wanted = packed.where(F.col("kind") == REFUSED)
    return _unpacked(wanted, _Typed(REJECTED_SCHEMA), REJECTED_SCHEMA)


def figures(packed: DataFrame) -> DataFrame:
    """How many rows each kind and stream has, and the payloads of the shards' stats."""
    payload = F.when(F.col("kind") == STATS, F.col("payload"))
    return packed.select("kind", "stream", "rows", payload.alias("payload"))


def _unpacked(
    packed: DataFrame, unpack: Callable[[_Batches], _Batches], schema: pa.Schema
) -> DataFrame:
    return packed.mapInArrow(lambda batches: unpack(batches), from_arrow_schema(schema))


@dataclass(frozen=True)
class _Typed:
    """Payloads that have the wanted columns already."""

    schema: pa.Schema

    def __call__(self, batches: _Batches) -> _Batches:
        for batch in batches:
            for payload in batch.column("payload"):
                table = open_table(payload.as_buffer()).select(self.schema.names)
                yield from table.cast(self.schema).to_batches()


@dataclass(frozen=True)
class _Described:
    """Payloads of any columns, each row as JSON text beside where it is from."""

    schema: pa.Schema

    def __call__(self, batches: _Batches) -> _Batches:
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in ("query", "stream")]
            payloads = batch.column("payload")
            for i, (query, stream) in enumerate(zip(*columns, strict=True)):
                yield from self._rows(open_table(payloads[i].as_buffer()), query, stream)

    def _rows(self, table: pa.Table, query: str | None, stream: str | None) -> _Batches:
        count = table.num_rows
        known = {
            "query": pa.repeat(pa.scalar(query, STRING), count),
            "stream": pa.repeat(pa.scalar(stream, STRING), count),
            "start": _as(table.column("start"), self.schema.field("start").type),
            "end": _as(table.column("end"), self.schema.field("end").type),
            "payload": to_json(table.drop_columns(["start", "end"])),
        }
        yield from pa.table([known[name] for name in self.schema.names], self.schema).to_batches()


def _as(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Times of ticks and of microseconds in one column: both as numbers."""
    if column.type == type_ or type_ != BIGINT:
        return column.cast(type_)
    return column.cast(pa.int64())
