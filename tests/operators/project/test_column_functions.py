"""Functions over whole columns: one call for each distinct value, and values that convert back."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from braid.operators.project.column_functions import distinct, from_arrow, to_arrow


def test_a_function_is_called_once_for_each_distinct_value() -> None:
    calls: list[str] = []

    def shout(text: str) -> str:
        calls.append(text)
        return text.upper()

    column = pa.array(["a", "b", None, "a", "b", "a"])
    found = distinct(column, shout, pa.string(), pa.string())
    assert found.to_pylist() == ["A", "B", None, "A", "B", "A"]
    assert sorted(calls) == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "type_", "plain"),
    [
        (dt.datetime(1970, 1, 1, 0, 0, 1, 5), pa.timestamp("us"), 1_000_005),
        (dt.timedelta(milliseconds=-3), pa.duration("us"), -3_000),
        (dt.date(1969, 12, 31), pa.date32(), -1),
        ("text", pa.string(), "text"),
        (None, pa.timestamp("us"), None),
    ],
)
def test_values_convert_to_plain_python_and_back(
    value: Any, type_: pa.DataType, plain: Any
) -> None:
    assert from_arrow(pa.scalar(value, type_), type_) == plain
    assert pa.scalar(to_arrow(plain, type_), type_) == pa.scalar(value, type_)
