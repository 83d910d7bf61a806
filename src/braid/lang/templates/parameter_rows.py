"""Rows of parameters in the forms that users have: tables, DataFrames, dicts, lists, CSV files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import csv

from braid.errors import ConfigError
from braid.lang.parse.limits import quoted

#: A column: an Arrow array, or plain values of several types.
Column: TypeAlias = pa.Array | list[Any]

_HINT = "give an Arrow table, a DataFrame, a dict of columns, a list of dicts, or a CSV file's path"


@dataclass(frozen=True)
class Rows:
    """Columns by name. The values from a file (`written`) are text."""

    columns: Mapping[str, Column]
    count: int
    written: bool = False

    def shown(self, row: int, names: Iterable[str]) -> str:
        """Some columns of one row, for a message."""
        return ", ".join(f"{name}={_shown(self.columns[name][row])}" for name in names)


def _shown(value: Any) -> str:
    value = value.as_py() if isinstance(value, pa.Scalar) else value
    if isinstance(value, int) and abs(value) >> 1024:
        return "a number of very many digits"  # which Python may refuse to convert to text
    return quoted(repr(value))


def read_rows(rows: Any) -> Rows:
    """Rows in any accepted form, as columns."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return _from_table(rows, written=False)
    if isinstance(rows, str | Path):
        return _from_file(Path(rows))
    if isinstance(rows, Mapping):
        return _from_columns(rows)
    if hasattr(rows, "columns") and hasattr(rows, "to_numpy"):
        return _from_columns({str(name): rows[name] for name in rows.columns})
    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        names = dict.fromkeys(name for row in rows for name in row)
        return _from_columns({name: [row.get(name) for row in rows] for name in names})
    raise ConfigError("E165", f"cannot read rows from a {type(rows).__name__}", _HINT)


def _from_table(table: pa.Table, *, written: bool) -> Rows:
    if len(set(table.column_names)) < table.num_columns:
        raise ConfigError("E165", "two columns of the rows have the same name")
    columns = {name: _whole(table.column(name)) for name in table.column_names}
    return Rows(columns, table.num_rows, written)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # Arrow returns one without chunks, or with several
        array = pa.concat_arrays(array.chunks) if array.chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type in (pa.large_string(), pa.string_view()):
        array = array.cast(pa.string())
    return array


def _from_columns(given: Mapping[Any, Any]) -> Rows:
    columns = {str(name): _column(str(name), values) for name, values in given.items()}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise ConfigError("E165", "the columns of the rows have different lengths")
    return Rows(columns, lengths.pop() if lengths else 0)


def _column(name: str, values: Any) -> Column:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _whole(values)
    if isinstance(values, str) or not hasattr(values, "__len__"):
        message = f"the column {name!r} of the rows is a {type(values).__name__}"
        raise ConfigError("E165", message, _HINT)
    try:
        return _whole(pa.array(values, from_pandas=True))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return list(values)  # of several types: each value is converted by itself


def _from_file(path: Path) -> Rows:
    """A CSV file with a header. An empty field is NULL; an empty string is written as \"\"."""
    if not path.is_file():
        raise ConfigError("E165", f"there is no file {str(path)!r} of rows", _HINT)
    convert = csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    parse = csv.ParseOptions(newlines_in_values=True)
    try:
        with csv.open_csv(path, parse_options=parse) as reader:
            names = reader.schema.names
        convert.column_types = {name: pa.string() for name in names}
        table = csv.read_csv(path, parse_options=parse, convert_options=convert)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        message = f"{str(path)!r} cannot be read as CSV: {str(error).splitlines()[0]}"
        raise ConfigError("E165", message, "the first line has the names of the columns") from None
    return _from_table(table, written=True)
