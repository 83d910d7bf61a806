"""Ingest: converts source rows to canonical events, and rejects invalid rows with a reason.

Stateless and picklable: the same code runs in process and in every ingest task on Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.streams import Stream
from braid.algebra.types import Kind, canonical, kind_of, sql_name
from braid.documents.reader import DocumentReader
from braid.documents.xml_table import Unreadable, decoded
from braid.engine.io.payload import to_json
from braid.errors import ConfigError

START = "__start"
END = "__end"
#: Times from -2**62 to 2**62 (146,000 years around 1970, in microseconds): the duration of
#: anything then fits 64 bits, and the largest number is free to mark an empty slot.
_RANGE = 2**62
_TICKS = pa.int64()

REJECTED = pa.schema([("stream", pa.string()), ("reason", pa.string()), ("row", pa.string())])


@dataclass(frozen=True)
class Ingested:
    """Canonical events (times, if the stream has them, then attributes), and rejected rows."""

    events: pa.RecordBatch
    rejected: pa.Table | None
    #: The ends of the events, if they are known.
    ends: Ends | None = None


class Ends(NamedTuple):
    """The ends of events: all of them, the least, the greatest, and whether they are in order."""

    words: np.ndarray
    lowest: int
    highest: int
    in_order: bool

    @staticmethod
    def of(events: pa.RecordBatch) -> Ends:
        return Ends.at(events.column(END).to_numpy(zero_copy_only=False))

    @staticmethod
    def at(words: np.ndarray) -> Ends:
        if not len(words):
            return Ends(words, 0, 0, True)
        if bool((words[1:] >= words[:-1]).all()):
            return Ends(words, int(words[0]), int(words[-1]), True)
        return Ends(words, int(words.min()), int(words.max()), False)


class _Reasons:
    """The first error of each row."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._codes = np.empty(0, np.int64)
        self._texts: list[str] = [""]

    def add(self, bad: np.ndarray, text: str) -> None:
        if not bad.any():
            return
        if len(self._texts) == 1:
            self._codes = np.zeros(self._count, np.int64)
        fresh = bad & (self._codes == 0)
        if fresh.any():
            self._texts.append(text)
            self._codes[fresh] = len(self._texts) - 1

    @property
    def bad(self) -> np.ndarray | None:
        return self._codes > 0 if len(self._texts) > 1 else None

    def texts(self) -> pa.Array:
        return pa.array(self._texts).take(pa.array(self._codes[self._codes > 0]))


class Ingest:
    """The ingest of one stream; `attributes` are those that queries read (None: all)."""

    def __init__(self, stream: Stream, attributes: Sequence[str] | None = None) -> None:
        self.stream = stream
        wanted = stream.schema.names if attributes is None else tuple(attributes)
        self.attributes = tuple(a for a in stream.schema if a.name in wanted)
        fields = [(START, _TICKS), (END, _TICKS)] if stream.time else []
        self._schema = pa.schema(fields + [(a.name, a.type) for a in self.attributes])
        #: The form of the last data that had all columns as declared, and the places of the
        #: columns.
        self._fitting: tuple[pa.Schema, list[int]] | None = None

    def __call__(
        self, data: pa.Table | pa.RecordBatch, reader: DocumentReader | None = None
    ) -> Ingested:
        """Canonical events. `reader` parses their documents and keeps them for later steps."""
        table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
        try:
            return self._ingested(table, reader or DocumentReader())
        except KeyError:
            self._check_columns(table)
            raise

    def _ingested(self, table: pa.Table, reader: DocumentReader) -> Ingested:
        reasons = _Reasons(table.num_rows)
        arrays, ends = self._times(table, reasons) if self.stream.time else ([], None)
        fitting = self._as_declared(table, arrays) if reasons.bad is None else None
        if fitting is not None:
            return Ingested(fitting, None, ends)
        documents, json = self.stream.documents, self.stream.json
        for attribute in self.attributes:
            name, column = attribute.name, _chunk(table, attribute.name)
            if name not in documents:
                arrays.append(_fitted(column, name, attribute.type, reasons))
                continue
            if _is_bytes(column.type):
                arrays.append(_decoded(column, name in json, reasons))
            else:
                arrays.append(_fitted(column, name, attribute.type, reasons))
            _check_documents(arrays[-1], name in json, reasons, reader)
        if arrays:
            events = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        else:
            events = _no_columns(table.num_rows)
        bad = reasons.bad
        if bad is None:
            return Ingested(events, None, ends)
        rejected = table.filter(pa.array(bad))
        rows = pa.table(
            {
                "stream": pa.array([self.stream.name] * rejected.num_rows, pa.string()),
                "reason": reasons.texts(),
                "row": to_json(rejected),
            },
            schema=REJECTED,
        )
        return Ingested(events.filter(pa.array(~bad)), rows)

    def _as_declared(self, table: pa.Table, times: list[pa.Array]) -> pa.RecordBatch | None:
        """Events whose columns all have the declared types, in one piece.

        They are chosen together: an object for each column of a small batch would cost more than
        all the rest of it.
        """
        schema = table.schema
        if self._fitting is None or not schema.equals(self._fitting[0], check_metadata=True):
            places = self._places(schema)
            if places is None:
                return None
            self._fitting = schema, places
        batches = table.to_batches()
        if len(batches) != 1:
            return None
        events = batches[0].select(self._fitting[1])
        if schema.metadata is not None:
            events = events.replace_schema_metadata(None)
        for name, time in zip((END, START), reversed(times), strict=False):
            events = events.add_column(0, name, time)
        return events

    def _places(self, schema: pa.Schema) -> list[int] | None:
        """The places of the attributes in data that has each of them once, as declared."""
        wanted = [pa.field(a.name, a.type) for a in self.attributes]
        if not wanted or self.stream.documents:
            return None
        found = [schema.get_field_index(field.name) for field in wanted]
        if -1 in found:
            return None
        fields = [schema.field(place) for place in found]
        fit = all(a.equals(b, check_metadata=True) for a, b in zip(fields, wanted, strict=True))
        return found if fit else None

    def _check_columns(self, table: pa.Table) -> None:
        there = table.column_names
        wanted = [*self.stream.time, *self._schema.names[2 if self.stream.time else 0 :]]
        missing = [name for name in wanted if name not in there]
        if missing:
            raise ConfigError(
                "E301",
                f"the data for stream {self.stream.name} lack {', '.join(missing)}",
                f"existing columns: {', '.join(there)}",
            )

    def _times(self, table: pa.Table, reasons: _Reasons) -> tuple[list[pa.Array], Ends]:
        times = [self._time(table, name, reasons) for name in self.stream.time]
        words = [array.to_numpy(zero_copy_only=False) for array in times]
        start, end = words[0], words[-1]
        if len(words) == 2:
            reasons.add(start > end, f"{self.stream.time[0]} is after {self.stream.time[1]}")
        ends = Ends.at(end)
        for name, found in zip(self.stream.time, words, strict=True):
            known = ends if found is end else Ends.at(found)
            if not -_RANGE < known.lowest <= known.highest < _RANGE:
                reasons.add((found >= _RANGE) | (found <= -_RANGE), f"{name} is out of range")
        return [times[0], times[-1]], ends

    def _time(self, table: pa.Table, name: str, reasons: _Reasons) -> pa.Array:
        """A time column in ticks: microseconds, or the integers themselves."""
        column = _chunk(table, name)
        if column.null_count:
            reasons.add(_flags(column.is_null()), f"time {name} is NULL")
        declared = self.stream.columns.type_of(name)
        fitted = _fitted(column, name, declared, reasons)
        if kind_of(declared) is Kind.DATE:
            fitted = fitted.cast(pa.timestamp("us"))
        elif kind_of(declared) is Kind.TIMESTAMP:
            fitted = fitted.cast(pa.timestamp("us", fitted.type.tz), safe=False)
        words = fitted if fitted.type == _TICKS else fitted.cast(_TICKS)
        return words.fill_null(0) if words.null_count else words


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_))


def _decoded(column: pa.Array, json: bool, reasons: _Reasons) -> pa.Array:
    """Documents in bytes as texts. Texts in an unknown encoding get a reason."""
    texts: list[str | None] = []
    for row, data in enumerate(column.to_pylist()):
        try:
            texts.append(None if data is None else decoded(data, json=json))
        except Unreadable as error:
            texts.append(None)
            bad = np.zeros(len(column), np.bool_)
            bad[row] = True
            reasons.add(bad, str(error))
    return pa.array(texts, pa.string())


def _check_documents(
    texts: pa.Array, json: bool, reasons: _Reasons, reader: DocumentReader
) -> None:
    """Reject rows with an invalid document. Each reason is written once for all its rows."""
    found: dict[str, list[int]] = {}
    for row, text in enumerate(texts.to_pylist()):
        reason = reader.refusal(text, json=json) if text is not None else None
        if reason is not None:
            found.setdefault(reason, []).append(row)
    for reason, rows in found.items():
        bad = np.zeros(len(texts), np.bool_)
        bad[rows] = True
        reasons.add(bad, reason)


def _no_columns(count: int) -> pa.RecordBatch:
    """Events without columns, which still need a length."""
    return pa.RecordBatch.from_arrays([pa.nulls(count)], ["__row"])


def _chunk(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return plain(chunk if isinstance(chunk, pa.Array) else pa.array([], column.type))


def plain(array: pa.Array) -> pa.Array:
    """A column without a dictionary."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def repeating(events: pa.RecordBatch) -> frozenset[str]:
    """The string columns in which each text occurs twice or more on average."""
    return frozenset(
        name
        for name, array in zip(events.schema.names, events.columns, strict=True)
        if pa.types.is_string(array.type) and 2 * pc.count_distinct(array).as_py() <= len(array)
    )


def encoded(events: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """Events with a dictionary for each of the named columns.

    Texts are then hashed once, for routing and for interning, and their codes are what is
    gathered, shipped and saved.
    """
    arrays = [
        array.dictionary_encode() if name in names else array
        for name, array in zip(events.schema.names, events.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, events.schema.names)


def _flags(array: pa.Array) -> np.ndarray:
    return array.to_numpy(zero_copy_only=False)


def _fitted(column: pa.Array, name: str, type_: pa.DataType, reasons: _Reasons) -> pa.Array:
    """A column in its declared type; rows whose value does not fit get a reason."""
    if column.type == type_:
        return column
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(type_):
        return column.cast(type_, safe=False)  # parts of a microsecond are cut off
    try:
        return column.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        fitted = _cast_one_by_one(column, type_)
        bad = _flags(pc.and_(column.is_valid(), fitted.is_null()))
        reasons.add(bad, f"a value of {name} does not fit {sql_name(type_)}")
        return fitted


def _cast_one_by_one(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Each distinct value separately, so that only invalid ones are lost."""
    if pa.types.is_nested(column.type):
        return pa.array([_try_cast(v, type_) for v in column], type_)
    encoded = column.dictionary_encode()
    return pa.array([_try_cast(v, type_) for v in encoded.dictionary], type_).take(encoded.indices)


def _try_cast(value: pa.Scalar, type_: pa.DataType) -> object:
    try:
        if kind_of(canonical(type_)) is Kind.TIMESTAMP and pa.types.is_string(value.type):
            return pc.cast(pa.array([value.as_py().strip()]), type_)[0].as_py()
        return value.cast(type_).as_py()
    except (pa.ArrowException, AttributeError, OverflowError, ValueError):
        return None
