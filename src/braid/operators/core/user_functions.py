"""Calls of functions that users register, and what becomes of calls that fail.

A function that raises, or that returns what is not of its declared type, must not stop the stream:
the value is NULL there. `Failures` counts such calls, so that the user learns of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from braid.algebra.types import sql_name
from braid.algebra.user_functions import Function

#: What Arrow and Python say of values that do not fit: UnicodeEncodeError is a ValueError.
_UNFIT = (pa.ArrowException, OverflowError, ValueError, TypeError)


class Failure(NamedTuple):
    """The first failed call of one kind: what the function does, and what it said."""

    function: str
    does: str
    first: str


class Failures:
    """The failed calls of one shard since they were last taken."""

    def __init__(self) -> None:
        self.count = 0
        self._kinds: dict[tuple[str, str], Failure] = {}

    def add(self, function: str, does: str, first: str) -> None:
        self.count += 1
        if (function, does) not in self._kinds:
            self._kinds[function, does] = Failure(function, does, first)

    def take(self) -> tuple[int, list[Failure]]:
        """How many calls failed, and one for each kind; counting starts again."""
        found = self.count, list(self._kinds.values())
        self.count, self._kinds = 0, {}
        return found


def call(function: Function, args: list[pa.Array], failures: Failures) -> pa.Array:
    """The values of a function that the user has registered, for the rows of some columns.

    The value is NULL where the function raises, or returns what is not of its type. If a vectorized
    function fails, it is called row by row: so a row has the same value in every batch.
    """
    if function.vectorized and len(args[0]):
        try:
            return function.values(args)
        except Exception:
            return _call_for_each_row(function, args, failures)
    return _call_for_each_row(function, args, failures)


def _call_for_each_row(function: Function, args: list[pa.Array], failures: Failures) -> pa.Array:
    name, type_ = function.name, function.returns

    def called(values: tuple[Any, ...]) -> Any:
        try:
            return function(*values)
        except Exception as error:
            failures.add(name, f"raises {type(error).__name__}", str(error))
            return None

    def of_type(value: Any) -> Any:
        try:
            return pa.scalar(value, type_).as_py()
        except _UNFIT:
            does = f"returns what is no {sql_name(type_)}"
            failures.add(name, does, f"{type(value).__name__} {value!r}")
            return None

    columns = [_python_values(array) for array in args]
    results = [called(values) for values in zip(*columns, strict=True)]
    try:
        return pa.array(results, type_)
    except _UNFIT:
        return pa.array([of_type(value) for value in results], type_)


def _python_values(array: pa.Array) -> list[Any]:
    """The values as Python has them; NULL where it cannot (a time after the year 9999)."""
    try:
        values: list[Any] = array.to_pylist()
    except _UNFIT:
        values = [_python_value(scalar) for scalar in array]
    return values


def _python_value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except _UNFIT:
        return None
