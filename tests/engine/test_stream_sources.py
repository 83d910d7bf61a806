"""Streams from tables and DataFrames; files, folders and patterns of queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import braid
from braid.errors import BraidError, QueryErrors

COLUMNS = {"Name": ["IBM", "MSFT"], "Price": [1.0, 2.0], "t": [1, 2]}


@pytest.mark.parametrize(
    "given",
    [
        pa.table(COLUMNS).schema,
        pa.table(COLUMNS),
        pa.table(COLUMNS).to_batches()[0],
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS, index=["a", "b"]),
        COLUMNS,
    ],
)
def test_a_stream_of_a_table(given: Any) -> None:
    engine = braid.Engine()
    engine.stream("L", given, time="t")
    engine.query("q", "SELECT Name FROM FILTER{Price > 1} L PUBLISH Q")
    data = COLUMNS if isinstance(given, pa.Schema) else given
    first = engine.process({"L": data})["Q"].num_rows
    assert first + engine.finish()["Q"].num_rows == 1


@pytest.mark.parametrize("given", [None, 5, "Name STRING", [1, 2], {"a": 5}, object()])
def test_what_is_no_table(given: Any) -> None:
    with pytest.raises(BraidError, match=r"E321.*\n.*Arrow schema"):
        braid.Engine().stream("L", given, time="t")


def test_a_dataframe_of_spark_belongs_to_a_session() -> None:
    class Frame:
        sparkSession = schema = None

    with pytest.raises(BraidError, match="Session"):
        braid.Engine().stream("L", Frame(), time="t")


STREAM = "CREATE STREAM Stock (Name STRING, Price DOUBLE, t BIGINT) TIME t;"


def files(folder: Path) -> None:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "a.cel").write_text("CREATE QUERY a AS SELECT Name FROM B PUBLISH A;")
    (folder / "deep" / "b.sql").write_text("CREATE QUERY b AS SELECT Name FROM C PUBLISH B;")
    (folder / "deep" / "er" / "c.cel").write_text(
        "CREATE QUERY c AS SELECT Name FROM Stock PUBLISH C;"
    )
    (folder / "z.cel").write_text(STREAM)
    (folder / "notes.txt").write_text("nothing of ours")
    (folder / ".hidden" / "d.cel").write_text("nor this")


@pytest.mark.parametrize("pattern", ["", "**/*.[cs]*l"])
def test_a_folder_and_a_pattern(tmp_path: Path, pattern: str) -> None:
    files(tmp_path)
    engine = braid.Engine()
    engine.load(tmp_path / pattern)
    assert sorted(engine.queries) == ["a", "b", "c"]
    events = {"Name": ["x"], "Price": [1.0], "t": [1]}
    found = engine.process({"Stock": events})["A"].num_rows
    assert found + engine.finish()["A"].num_rows == 1


def test_nothing_takes_effect_if_a_file_is_wrong(tmp_path: Path) -> None:
    files(tmp_path)
    (tmp_path / "bad.cel").write_text("FROM Stok; FROM Stonk;")
    (tmp_path / "worse.cel").write_text("FROM Stoke;")
    engine = braid.Engine()
    with pytest.raises(QueryErrors) as caught:
        engine.load(tmp_path)
    assert [error.code for error in caught.value.errors] == ["E105"] * 3
    assert (engine.queries, dict(engine.streams)) == ((), {})


def test_nothing_there(tmp_path: Path) -> None:
    for pattern in (tmp_path, tmp_path / "none.cel", tmp_path / "*.cel"):
        with pytest.raises(BraidError, match="E456"):
            braid.Engine().load(pattern)
