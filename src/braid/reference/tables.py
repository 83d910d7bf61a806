"""Arrow tables as events and back; the only thing here that is not a definition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from braid.algebra.schema import Schema
from braid.algebra.streams import Stream
from braid.algebra.types import Kind, canonical, kind_of
from braid.reference.events import Event


def events_from_table(
    stream: Stream, table: pa.Table, *, arrival: int | None = None
) -> list[Event]:
    """The events of a source table, without those that are rejected.

    A row is rejected if a time is NULL or it ends before it starts. `arrival` is the time of
    a stream that is stamped on arrival.
    """
    columns = [column_values(table.column(a.name)) for a in stream.schema]
    if stream.stamped_on_arrival:
        assert arrival is not None, f"{stream.name} is stamped on arrival: say when"
        starts: list[Any] = [arrival] * table.num_rows
        ends = starts
    else:
        starts = column_values(table.column(stream.time[0]))
        ends = column_values(table.column(stream.time[-1]))
    rows = _rows(columns, table.num_rows)
    return [
        Event(values, start, end)
        for values, start, end in zip(rows, starts, ends, strict=True)
        if start is not None and end is not None and start <= end
    ]


def events_from_result(table: pa.Table) -> list[Event]:
    """The events of a table as results have it: `start`, `end`, then the attributes."""
    columns = [column_values(table.column(i)) for i in range(table.num_columns)]
    rows = _rows(columns, table.num_rows)
    return [Event(row[2:], row[0], row[1]) for row in rows]


def table_from_events(
    events: Sequence[Event], schema: Schema, *, start: str, end: str, time_type: pa.DataType
) -> pa.Table:
    """A table with the attributes in order, then the time columns (one if they are the same)."""
    data = {a.name: to_array([e.values[i] for e in events], a.type) for i, a in enumerate(schema)}
    data[start] = to_array([e.start for e in events], time_type)
    if end != start:
        data[end] = to_array([e.end for e in events], time_type)
    return pa.table(data)


def column_values(column: pa.ChunkedArray) -> list[Any]:
    """Python values by the conventions of `algebra/expressions.py`."""
    type_ = canonical(column.type)
    column = column.cast(type_)
    if _is_time(type_):
        column = column.cast(pa.int32() if kind_of(type_) is Kind.DATE else pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def to_array(values: Iterable[Any], type_: pa.DataType) -> pa.Array:
    """The inverse of `column_values`."""
    if kind_of(type_) is Kind.DATE:
        return pa.array(values, pa.int32()).cast(type_)
    if _is_time(type_):
        return pa.array(values, pa.int64()).cast(type_)
    return pa.array(values, type_)


def _is_time(type_: pa.DataType) -> bool:
    return kind_of(type_) in (Kind.TIMESTAMP, Kind.DATE, Kind.DURATION)


def _rows(columns: Sequence[Sequence[Any]], count: int) -> list[tuple[Any, ...]]:
    return list(zip(*columns, strict=True)) if columns else [()] * count
