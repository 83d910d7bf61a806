"""Payloads read back as the values they were made from."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.engine.io.payload import to_json


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return [json.loads(text) for text in to_json(table).to_pylist()]


def one(values: list[Any], type_: pa.DataType) -> list[Any]:
    return [row["a"] for row in rows(pa.table({"a": pa.array(values, type_)}))]


def test_an_object_per_row_in_column_order() -> None:
    table = pa.table({"Name": ["IBM", None], "Price": [90.5, 81.0], "ok": [True, False]})
    assert to_json(table).to_pylist() == [
        '{"Name":"IBM","Price":90.5,"ok":true}',
        '{"Name":null,"Price":81.0,"ok":false}',
    ]


@pytest.mark.parametrize("table", [pa.table({"a": pa.array([], pa.int64())}), pa.table({})])
def test_no_rows(table: pa.Table) -> None:
    assert to_json(table).to_pylist() == []


def test_rows_without_attributes() -> None:
    table = pa.table({"a": [1, 2]}).select([])
    assert to_json(table).to_pylist() == ["{}", "{}"]


@given(st.lists(st.one_of(st.none(), st.text()), min_size=1))
def test_strings(values: list[str | None]) -> None:
    assert one(values, pa.string()) == values


def test_control_characters_quotes_and_names() -> None:
    text = "".join(map(chr, range(32))) + '"\\/\x7f\u2028é😀'
    table = pa.table({'na"me\n': [text]})
    assert rows(table) == [{'na"me\n': text}]


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1))
def test_floats_are_exact(values: list[float | None]) -> None:
    read = one(values, pa.float64())
    for got, wanted in zip(read, values, strict=True):
        if wanted is None:
            assert got is None
        else:
            assert isinstance(got, float)
            assert got == wanted
            assert math.copysign(1, got) == math.copysign(1, wanted)


def test_floats_that_json_lacks() -> None:
    values = [math.nan, math.inf, -math.inf, 1.5, None]
    expected = ["NaN", "Infinity", "-Infinity", 1.5, None]
    assert one(values, pa.float64()) == expected
    assert one(values, pa.float32()) == expected


def test_float32_is_widened_exactly() -> None:
    value = pa.scalar(0.1, pa.float32()).as_py()
    assert one([0.1], pa.float32()) == [value]


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_integers(values: list[int | None]) -> None:
    assert one(values, pa.int64()) == values


def test_times() -> None:
    moment = datetime.datetime(2024, 1, 31, 9, 30, 0, 123456)
    aware = moment.replace(tzinfo=datetime.UTC)
    assert one([aware, None], pa.timestamp("us", "UTC")) == ["2024-01-31T09:30:00.123456Z", None]
    assert one([moment], pa.timestamp("us")) == ["2024-01-31T09:30:00.123456"]
    assert one([moment], pa.timestamp("ns")) == ["2024-01-31T09:30:00.123456"]
    assert one([aware], pa.timestamp("us", "+05:00")) == ["2024-01-31T09:30:00.123456Z"]
    assert one([moment.date()], pa.date32()) == ["2024-01-31"]
    assert one([datetime.timedelta(seconds=1.5)], pa.duration("us")) == [1_500_000]


def test_times_before_1970_and_far_away() -> None:
    moments = [datetime.datetime(1901, 2, 3, 4, 5, 6), datetime.datetime(9999, 12, 31, 23, 59, 59)]
    assert one(moments, pa.timestamp("us")) == [
        "1901-02-03T04:05:06.000000",
        "9999-12-31T23:59:59.000000",
    ]


def test_decimals_are_numbers_with_all_digits() -> None:
    values = [decimal.Decimal("12345678901234.5678"), decimal.Decimal("-0.0001"), None]
    table = pa.table({"a": pa.array(values, pa.decimal128(18, 4))})
    texts = to_json(table).to_pylist()
    read = [json.loads(text, parse_float=decimal.Decimal)["a"] for text in texts]
    assert read == values


def test_wide_and_tiny_decimals() -> None:
    values = [decimal.Decimal("0.000000000001"), decimal.Decimal(10) ** 25]
    table = pa.table({"a": pa.array(values, pa.decimal128(38, 12))})
    texts = to_json(table).to_pylist()
    assert [json.loads(t, parse_float=decimal.Decimal)["a"] for t in texts] == values


def test_nested_and_binary() -> None:
    struct = pa.struct({"x": pa.int64(), "when": pa.timestamp("us", "UTC"), "f": pa.float64()})
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    value = {"x": 1, "when": moment, "f": math.nan}
    assert one([value, None], struct) == [
        {"x": 1, "when": "2024-01-01T00:00:00.000000Z", "f": "NaN"},
        None,
    ]
    assert one([[1, None], []], pa.list_(pa.int64())) == [[1, None], []]
    assert one([[("k", 2)]], pa.map_(pa.string(), pa.int64())) == [{"k": 2}]
    assert one([b"\x00\xff"], pa.binary()) == ["AP8="]
    amounts = one([[decimal.Decimal("1.50")]], pa.list_(pa.decimal128(10, 2)))
    assert amounts == [[1.5]]


def test_dictionaries_chunks_and_nulls() -> None:
    names = pa.chunked_array([pa.array(["a", "b"]), pa.array(["a"])]).dictionary_encode()
    table = pa.table({"name": names, "none": pa.nulls(3)})
    assert rows(table) == [{"name": n, "none": None} for n in ("a", "b", "a")]


def test_sliced_tables() -> None:
    table = pa.table({"a": ["x", 'q"', None, "y"], "b": [1, 2, 3, 4]}).slice(1, 2)
    assert rows(table) == [{"a": 'q"', "b": 2}, {"a": None, "b": 3}]
