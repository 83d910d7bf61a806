"""Emit: unpacks the rows of the shards into a typed DataFrame for each output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from braid.algebra.nodes import Node, reads
from braid.algebra.schema import TICKS, Schema, shown_names
from braid.algebra.streams import Stream
from braid.algebra.templates import Members
from braid.algebra.types import BIGINT, STRING, TIMESTAMP
from braid.engine.io.payload import to_json
from braid.spark.pipeline.envelopes import LATE, REFUSED, RESULT, STATS, open_payload, open_table
from braid.spark.pipeline.shipping import settle

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

    stream: str
    attributes: Schema
    time: pa.DataType

    def __call__(self, packed: DataFrame) -> DataFrame:
        wanted = packed.where((F.col("kind") == RESULT) & (F.col("stream") == self.stream))
        return _unpacked(wanted, _Typed(self.schema), self.schema)

    @property
    def schema(self) -> pa.Schema:
        types = (self.time, self.time, *(a.type for a in self.attributes))
        names = shown_names(self.attributes.names)
        return pa.schema(list(zip(names, types, strict=True)))


def published(groups: Iterable[Members], streams: Mapping[str, Stream]) -> dict[str, Results]:
    """What the templates publish, publishers before readers."""
    found: dict[str, Results] = {}
    for members in groups:
        for output in members.template.outputs:
            if output.publish is not None:
                time = time_of(output.node, streams, found)
                found[output.publish] = Results(output.publish, output.node.schema, time)
    return found


def result_times(groups: Iterable[Members], streams: Mapping[str, Stream]) -> list[pa.DataType]:
    """How the results of each template show their interval."""
    listed = list(groups)
    known = published(listed, streams)
    return [time_of(o.node, streams, known) for m in listed for o in m.template.outputs]


def time_of(node: Node, streams: Mapping[str, Stream], known: Mapping[str, Results]) -> pa.DataType:
    """How a query's results show their interval: as its sources do, if they agree."""
    if node.unit == TICKS:
        return BIGINT
    types = {known[n].time if n in known else shown_time(streams[n]) for n in reads(node)}
    return types.pop() if len(types) == 1 else TIMESTAMP


@dataclass(frozen=True)
class Matches:
    """Every result of every query: query, start, end, stream, payload (VARIANT)."""

    time: pa.DataType

    def __call__(self, packed: DataFrame) -> DataFrame:
        names = ("query", "start", "end", "stream", "payload")
        return _described(packed.where(F.col("kind") == RESULT), names, self.time)


@dataclass(frozen=True)
class Late:
    """Events that came after the watermark: stream, start, end, payload (VARIANT)."""

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
    def run(batches: _Batches) -> _Batches:
        yield from unpack(batches)
        settle("emit")

    return packed.mapInArrow(run, from_arrow_schema(schema))


@dataclass(frozen=True)
class _Typed:
    """Payloads that have the wanted columns already."""

    schema: pa.Schema

    def __call__(self, batches: _Batches) -> _Batches:
        for batch in batches:
            for payload, pairs in zip(batch.column("payload"), batch.column("pairs"), strict=True):
                table = open_table(payload.as_buffer()).select(self.schema.names)
                found = _pairs(pairs)
                if found is not None and not _is_each(found.column("row"), table.num_rows):
                    table = table.take(found.column("row"))
                yield from table.cast(self.schema).to_batches()


@dataclass(frozen=True)
class _Described:
    """Payloads of any columns, each row as JSON text beside where it is from."""

    schema: pa.Schema

    def __call__(self, batches: _Batches) -> _Batches:
        for batch in batches:
            columns = (batch.column("payload"), batch.column("pairs"), batch.column("stream"))
            for payload, pairs, stream in zip(*columns, strict=True):
                yield from self._rows(open_table(payload.as_buffer()), pairs, stream.as_py())

    def _rows(self, table: pa.Table, pairs: pa.Scalar, stream: str | None) -> _Batches:
        """The text of a row is made once, however many queries it is for."""
        found = _pairs(pairs)
        at = None if found is None else found.column("row")
        known = {
            "start": _as(table.column("start"), self.schema.field("start").type),
            "end": _as(table.column("end"), self.schema.field("end").type),
            "payload": to_json(table.drop_columns(["start", "end"])),
        }
        if at is not None and not _is_each(at, table.num_rows):
            known = {name: column.take(at) for name, column in known.items()}
        count = table.num_rows if at is None else len(at)
        known["stream"] = pa.repeat(pa.scalar(stream, STRING), count)
        known["query"] = None if found is None else found.column("query").dictionary_decode()
        yield from pa.table([known[name] for name in self.schema.names], self.schema).to_batches()


def _pairs(payload: pa.Scalar) -> pa.RecordBatch | None:
    """The row of each result and its query; nothing where rows are for no query."""
    parts = open_payload(payload.as_buffer())
    return parts[0] if parts else None


def _is_each(at: pa.Array, count: int) -> bool:
    """Whether every row is taken once, in order."""
    return len(at) == count and bool((at.to_numpy() == np.arange(count)).all())


def _as(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Times of ticks and of microseconds in one column: both as numbers."""
    if column.type == type_ or type_ != BIGINT:
        return column.cast(type_)
    return column.cast(pa.int64())
