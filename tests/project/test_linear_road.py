"""Linear Road: the texts of the page, the loader, drawn cars, and the block that is measured."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import braid
from benchmarks import data, linear_road
from benchmarks.k_joins import Work, run
from braid.lang import Catalog, load

PAGE = Path(__file__).parents[2] / "docs" / "linear_road.md"

INPUT = """\
0,0,7,55,0,1,0,2,10560,-1,-1,-1,-1,-1,-1
2,0,7,-1,-1,-1,-1,-1,-1,33,-1,-1,-1,-1,-1
0,0,8,60,0,1,1,97,512200,-1,-1,-1,-1,-1,-1
0,30,7,55,0,2,0,3,15900,-1,-1,-1,-1,-1,-1
0,31,8,60,1,2,1,97,512200,-1,-1,-1,-1,-1,-1
"""


def test_the_page_has_the_statements_that_run() -> None:
    blocks = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    known = Catalog()
    loaded = load("\n".join(blocks), known)
    assert [query.id for query in loaded.queries] == [
        "CurCarSeg", "AccSeg", "CarExitStr", "tolls", "NegTollStr",
    ]  # fmt: skip
    assert not loaded.notices
    page = " ".join("\n".join(blocks).split())
    for name in linear_road.QUERIES:
        for statement in linear_road.statements(name).split(";"):
            assert " ".join(statement.split()) in page


@pytest.mark.parametrize("compressed", [True, False])
def test_reports_are_read(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / ("car.dat.gz" if compressed else "car.dat")
    path.write_bytes(gzip.compress(INPUT.encode()) if compressed else INPUT.encode())
    found = linear_road.read(path)
    assert found.cid.tolist() == [7, 8, 7, 8]
    assert found.seconds.tolist() == [0, 0, 30, 31]
    # The other direction and the other expressway have segments and positions of their own.
    assert found.sid.tolist() == [2, 1_002, 3, 3_002]
    assert len(set(found.xpos.tolist())) == 4
    assert len(linear_road.read(path, seconds=30)) == 2
    table = found.table()
    assert table.schema.field("ts").type == pa.timestamp("us", "UTC")
    batches = list(found.batches(30))
    assert [batch["CarStr"].num_rows for batch in batches] == [2, 2]


def test_cars_are_drawn_where_there_is_no_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BRAID_DATA", str(tmp_path))
    assert data.real_data("linear_road/car.dat.gz") is None
    linear_road.reports.cache_clear()
    found = linear_road.reports(400, 1_200, 1)
    linear_road.reports.cache_clear()
    assert np.all(np.diff(found.seconds) >= 0)
    assert found.seconds[-1] < 1_200
    of_one = np.flatnonzero(found.cid == found.cid[0])
    assert set(np.diff(found.seconds[of_one]).tolist()) == {30}
    stopped = run(_work(found, "AccSeg"), "off")
    assert len(stopped.results) > 0, "some cars have stopped"


def _work(reports: linear_road.Reports, name: str) -> Work:
    return Work(linear_road.block(name), list(reports.batches(30)), 0, query=name)


def test_the_block_of_negative_tolls_is_the_whole_query() -> None:
    seen = linear_road.drawn(120, 900, 2)
    batches = list(seen.batches(30))
    engine = braid.Engine(idle_timeout=None)
    engine.execute(linear_road.statements("NegTollStr"))
    whole = []
    for batch in batches:
        engine.process(batch)
        whole += engine.results.get(("NegTollStr", None), pa.table({})).to_pylist()
    engine.finish()
    whole += engine.results.get(("NegTollStr", None), pa.table({})).to_pylist()
    work = Work(
        linear_road.block("NegTollStr"), linear_road.with_tolls(batches), 0, query="NegTollStr"
    )
    found = run(work, "off").results
    assert len(whole) == len(found) > 50
    ours = sorted((row["cid"], row["sid"], row["toll"]) for row in whole)
    assert ours == sorted(map(tuple, found[:, 2:].tolist()))


@pytest.mark.parametrize("name", ["CurCarSeg", "AccSeg", "CarExitStr"])
def test_constraints_keep_joins_of_relations_small(name: str) -> None:
    """Of cars that have left nothing is held, and all results are there."""
    batches = list(linear_road.drawn(2_000, 2_400, 3).batches(30))
    work = Work(linear_road.block(name), batches, len(batches) // 2, query=name)
    plain, small = run(work, "off"), run(work, "monitored")
    assert len(plain.results) > 4
    assert plain.results.tolist() == small.results.tolist()
    assert small.state_bytes < plain.state_bytes / 4
