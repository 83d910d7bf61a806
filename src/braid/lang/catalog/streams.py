"""Declarations of streams, from an Arrow schema or from CREATE STREAM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from braid.algebra.schema import MICROSECONDS, TICKS, Schema
from braid.algebra.streams import Stream
from braid.algebra.types import Kind, canonical, kind_of, sql_name
from braid.errors import ConfigError
from braid.lang.parse import syntax
from braid.lang.parse.durations import parse_duration
from braid.lang.parse.limits import quoted, whole_number
from braid.lang.parse.problems import At, Gather, Problem, alternatives
from braid.lang.parse.type_names import bind_type

#: The range of times, in 64 bits. A time minus a lateness has the same range.
_LATEST = 2**62
_TIME_KINDS = frozenset({Kind.TIMESTAMP, Kind.DATE, Kind.INTEGER})


def stream_from_schema(
    name: str,
    schema: pa.Schema,
    *,
    time: str | Sequence[str] | None = None,
    lateness: str | int | None = None,
    sequence: str | None = None,
    sharable: Sequence[str] = (),
) -> Stream:
    """A stream of an Arrow schema; `lateness` is "10 seconds" or a number of ticks."""
    columns = _columns(name, schema)
    times = _time_columns(name, columns, (time,) if isinstance(time, str) else tuple(time or ()))
    if sequence is not None:
        _sequence_column(name, columns, sequence, times)
    bare = Stream(name, columns, times)
    late = _lateness(bare, lateness)
    return Stream(name, columns, times, late, sequence, tuple(sharable))


def schema_of(name: str, given: Any) -> pa.Schema:
    """The schema of a declaration: a schema, or a table that has one."""
    if isinstance(given, pa.Schema):
        return given
    if isinstance(schema := getattr(given, "schema", None), pa.Schema):
        return schema  # a table, a batch, a reader, a dataset
    hint = "give an Arrow schema, an Arrow table, a pandas DataFrame, or a dict of columns"
    if hasattr(given, "sparkSession"):
        hint = "DataFrames of Spark are streams of a braid.spark Session: session.stream(name, df)"
    elif not isinstance(given, str | bytes):
        try:
            frame = hasattr(given, "columns") and hasattr(given, "dtypes")
            if frame and not hasattr(given, "to_arrow"):
                return pa.Schema.from_pandas(given, preserve_index=False)
            return pa.table(given).schema
        except (TypeError, ValueError, AttributeError, pa.ArrowException) as error:
            hint += f" ({quoted(str(error))})"
    kind = type(given).__name__
    raise ConfigError(
        "E321", f"stream {name!r}: a {kind} does not say which columns there are", hint
    )


def _columns(name: str, schema: pa.Schema) -> Schema:
    twice = sorted(n for n, count in Counter(schema.names).items() if count > 1)
    if twice:
        raise ConfigError("E108", f"stream {name!r} has columns of the same name: {twice}")
    ours = [n for n in schema.names if n.startswith("__")]
    if ours:
        message = (
            f"stream {name!r} has a column {ours[0]!r}: names with two underscores are Braid's"
        )
        raise ConfigError("E154", message, "rename it")
    return Schema.of((field.name, canonical(field.type)) for field in schema)


def _time_columns(name: str, columns: Schema, times: tuple[str, ...]) -> tuple[str, ...]:
    if len(times) > 2 or len(set(times)) < len(times):
        raise ConfigError("E150", f"stream {name!r}: time is one column, or a start and an end")
    for time in times:
        if time not in columns:
            hint = alternatives("columns", time, columns.names)
            raise ConfigError("E150", f"stream {name!r} has no column {time!r} for its time", hint)
        type_ = columns.type_of(time)
        if kind_of(type_) not in _TIME_KINDS:
            message = f"stream {name!r}: {time!r} is {sql_name(type_)}, which is not a time"
            hint = "a time is a TIMESTAMP, a DATE, or an integer that counts ticks"
            raise ConfigError("E151", message, hint)
    if len({kind_of(columns.type_of(time)) for time in times}) > 1:
        types = " and ".join(sql_name(columns.type_of(time)) for time in times)
        raise ConfigError("E151", f"stream {name!r}: start and end have different types: {types}")
    return times


def _sequence_column(name: str, columns: Schema, sequence: str, times: tuple[str, ...]) -> None:
    if sequence not in columns or sequence in times:
        known = (n for n in columns.names if n not in times)
        hint = alternatives("columns", sequence, known)
        message = f"stream {name!r} has no column {sequence!r} to order equal times by"
        raise ConfigError("E153", message, hint)
    type_ = columns.type_of(sequence)
    if kind_of(type_) is Kind.OPAQUE:
        message = f"stream {name!r}: {sequence!r} is {sql_name(type_)}, which has no order"
        raise ConfigError("E153", message)


def _lateness(stream: Stream, lateness: str | int | None) -> int:
    if lateness is None:
        return 0
    if stream.stamped_on_arrival and lateness not in (0, ""):
        message = f"stream {stream.name!r} has no time column, so its events cannot be late"
        raise ConfigError("E152", message, "name the time column, or leave out the lateness")
    ticks = _ticks(stream, lateness)
    if ticks < 0:
        raise ConfigError("E152", f"stream {stream.name!r}: a lateness cannot be negative")
    if ticks >= _LATEST:
        raise ConfigError("E152", f"stream {stream.name!r}: this lateness is longer than all time")
    return ticks


def _ticks(stream: Stream, lateness: str | int) -> int:
    if isinstance(lateness, int):
        return lateness
    if (number := whole_number(lateness)) is not None:
        return number
    if stream.unit == TICKS:
        message = f"stream {stream.name!r} counts ticks: its lateness is a whole number of them"
        raise ConfigError("E152", message)
    assert stream.unit == MICROSECONDS
    return parse_duration(lateness)


def bind_stream(node: syntax.CreateStream) -> Stream:
    """CREATE STREAM; errors point at the clause."""
    fields: dict[str, pa.DataType] = {}
    gather = Gather()
    for ident, type_ in node.columns:
        with gather:
            if ident.name in fields:
                raise Problem("E108", f"column {ident.name!r} is there twice", ident.at)
            fields[ident.name] = bind_type(type_)
    options = {option.kind: option for option in node.options}
    with gather:
        _check_options(node)
    gather.check()
    try:
        stream = stream_from_schema(
            node.name.name,
            pa.schema(list(fields.items())),
            time=[ident.name for ident in options["time"].names] if "time" in options else None,
            lateness=_amount(options.get("lateness")),
            sequence=options["sequence"].names[0].name if "sequence" in options else None,
            sharable=[i.name for i in options["sharable"].names] if "sharable" in options else (),
        )
        xml, json = _columns_of(node, "XML"), _columns_of(node, "JSON")
        return replace(stream, documents=xml + json, json=json)
    except ConfigError as error:
        at = _place(node, options, error.code)
        raise Problem(error.code, error.message, at, error.hint) from None


def _columns_of(node: syntax.CreateStream, name: str) -> tuple[str, ...]:
    """The columns that were declared with a type of this name."""
    return tuple(i.name for i, type_ in node.columns if type_.name.name.upper() == name)


def _place(node: syntax.CreateStream, options: Mapping[str, syntax.Option], code: str) -> At:
    """The clause that an error is about."""
    clauses = {"E150": "time", "E151": "time", "E152": "lateness", "E153": "sequence"}
    option = options.get(clauses.get(code, ""))
    return option.at if option is not None else node.name.at


def _check_options(node: syntax.CreateStream) -> None:
    seen: set[str] = set()
    for option in node.options:
        if option.kind in seen:
            raise Problem("E136", f"{option.kind.upper()} is there twice", option.at)
        seen.add(option.kind)


def _amount(option: syntax.Option | None) -> str | int | None:
    if option is None or option.amount is None:
        return None
    if isinstance(option.amount, syntax.Number):
        return option.amount.text
    return f"{option.amount.microseconds} us"
