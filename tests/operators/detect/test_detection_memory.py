"""MEMORY of detections: what is planned is what is held, and bitmaps hold bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import braid
from braid.engine.explain.statistics import statistics
from braid.errors import QueryError

STREAMS = """
CREATE STREAM A (x BIGINT, t BIGINT) TIME t;
CREATE STREAM B (x BIGINT, y BIGINT, t BIGINT) TIME t;
CREATE STREAM C (y BIGINT, t BIGINT) TIME t;
"""
FORMS = ("COUNTS", "BITMAPS", "COUNTS VERIFY NEVER", "BITMAPS VERIFY NEVER")


def engine() -> braid.Engine:
    made = braid.Engine(idle_timeout=None)
    made.execute(STREAMS)
    return made


def events(first: int, count: int, each: int = 1) -> dict[str, pa.Table]:
    """`each` events of every stream a tick, about half of which have a partner."""
    random = np.random.default_rng(first)
    ticks = np.repeat(np.arange(first, first + count), each)
    columns = {name: random.integers(0, 200, len(ticks)) for name in "xy"}
    return {
        "A": pa.table({"x": columns["x"], "t": ticks}),
        "B": pa.table({**columns, "t": ticks}),
        "C": pa.table({"y": columns["y"], "t": ticks}),
    }


def held(made: braid.Engine) -> int:
    mops = [m for m in statistics(made._running())["mops"] if m["kind"] == "detection"]
    return sum(m["detail"]["synopsis_bytes"] + m["detail"]["key_bytes"] for m in mops)


def path(rows: int, settings: str) -> str:
    windows = f"A [Rows {rows}], B [Rows {rows}], C [Rows {rows}]"
    return f"DETECT F FROM {windows} WHERE A.x = B.x AND B.y = C.y {settings}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch", [1, 3, 100])
@pytest.mark.parametrize("by", ["", "PARTITION BY x"])
def test_a_few_rows_fit_into_any_memory_that_is_taken(form: str, batch: int, by: str) -> None:
    for window in ("Rows 9", "Range 9", "Rows 1000000"):
        for memory in (300, 4_000, 65_536, 10**8):
            made = engine()
            query = f"""DETECT F FROM A [{window}], B [{window}] WHERE A.x = B.x
              {form} BATCH {batch} MEMORY {memory} bytes {by}"""
            if memory < 1000:
                with pytest.raises(QueryError, match="E207"):
                    made.query("q", query)
                continue
            made.query("q", query)
            for tick in range(8):
                made.process(events(tick, 1))
                assert not made.suspended, (window, memory)
                assert held(made) <= memory


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("rows", "batch"), [(9, 1), (50, 1), (50, 7), (200, 100), (1, 30)])
def test_windows_by_rows_are_planned_full(form: str, rows: int, batch: int) -> None:
    """Whether events come one by one or all at once."""
    for memory in (32 << 10, 64 << 10, 1 << 20):
        made = engine()
        made.query("q", path(rows, f"{form} BATCH {batch} MEMORY {memory} bytes"))
        if rows == 200 and memory < 64 << 10:
            continue  # the plan says that the windows may not fit
        first = 0
        for count in (1, 2, 30, 1, 5000, 3, 400, 1):
            made.process(events(first, count))
            first += count
            assert not made.suspended, memory
            assert held(made) <= memory


def test_bitmaps_are_bits() -> None:
    """Ten batches of a hundred in 256 buckets: 32 bytes each for the vectors of A and C, and for the
    matrix of B two bytes for each event; and 16 bytes for each batch."""
    sizes = {}
    for form in ("COUNTS", "BITMAPS"):
        made = engine()
        windows = "A [Range 999], B [Range 999], C [Range 999]"
        made.query(
            "q",
            f"DETECT F FROM {windows} WHERE A.x = B.x AND B.y = C.y {form} BATCH 100 VERIFY NEVER",
        )
        for first in range(0, 3000, 100):
            made.process(events(first, 100))
        sizes[form] = held(made)
    batches = 11
    exact = batches * (32 + 32 + 2 * 100 + 3 * 16)
    assert exact * 0.9 <= sizes["BITMAPS"] <= exact * 1.5
    assert sizes["COUNTS"] > 3 * sizes["BITMAPS"]


def test_others_on_the_same_streams_do_not_count() -> None:
    made = engine()
    made.query("q", path(9, "BITMAPS MEMORY 8 KB"))
    made.query("large", path(9, "COUNTS BUCKETS 32768 VERIFY ALWAYS").replace("F FROM", "G FROM"))
    made.process(events(0, 50))
    assert held(made) > 8 << 10
    assert not made.suspended


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("by", ["", "PARTITION BY x"])
@pytest.mark.parametrize("gone", ["q", "other"])
def test_a_synopsis_is_found_again_though_others_have_gone(form: str, by: str, gone: str) -> None:
    """A query was dropped whose synopses of the same windows came first."""
    made = engine()
    for name, buckets in (("q", 3), ("other", 50)):
        made.query(
            name,
            f"""DETECT {name}s FROM A [Rows 20], B [Rows 20] WHERE A.x = B.x
              {form} BATCH 2 {by} BUCKETS {buckets}""",
        )
    made.process(events(0, 15, each=3))
    made.drop(gone)
    again = braid.Engine.restore(made.snapshot())
    left = "others" if gone == "q" else "qs"
    found = []
    for one in (made, again):
        one.process(events(15, 10, each=3))
        answers = one.finish()[left].to_pylist()
        found.append([row for row in answers if row["end"] >= 15])
    assert found[0]
    assert found[0] == found[1]
