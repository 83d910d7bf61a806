"""Which files a path, a folder or a pattern means, and what says which columns a stream has."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from braid.errors import BraidError
from braid.lang.catalog.files import loadable, query_files
from braid.lang.catalog.streams import schema_of
from tests.lang.support import catalog


def test_files_folders_and_patterns(tmp_path: Path) -> None:
    for name in ("b.cel", "a.SQL", "deep/c.cql", "x.txt", ".h/d.cel"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("FROM Stock;", encoding="utf-8")
    assert [p.name for p in query_files(tmp_path)] == ["a.SQL", "b.cel", "c.cql"]
    assert [p.name for p in query_files("**/*.c?l", tmp_path)] == ["b.cel", "c.cql"]
    assert [p.name for p in query_files("x.txt", tmp_path)] == ["x.txt"]
    assert query_files("none", tmp_path) == []


def test_files_that_are_not_there_or_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BraidError, match="E456"):
        loadable(tmp_path, catalog())
    (tmp_path / "a.cel").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BraidError, match="E456"):
        loadable(tmp_path / "a.cel", catalog())


def test_what_has_no_columns() -> None:
    schema = pa.schema([("a", pa.int64())])
    assert schema_of("X", pa.table({"a": [1]})) == schema
    with pytest.raises(BraidError, match="E321"):
        schema_of("X", "a INT")
