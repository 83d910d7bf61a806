"""What constraints save, as joins measure it: rows count for as long as they would have stayed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

import braid
from braid.operators.constraint_join.fields import write_fields
from braid.operators.constraint_join.kernels.records import LONGEST_LIFETIME, Store
from braid.operators.constraint_join.state import Stores
from braid.operators.constraint_join.watch.cost_choice import Paces

_LONGEST = LONGEST_LIFETIME


def stays(paces: Paces, windows: list[tuple[int, bool]]) -> list[int]:
    """How long rows of windows stay, which have a size each and count rows or not."""
    stores = np.zeros(len(windows), Store.dtype)
    write_fields(stores, ["size", "by_rows"], np.array(windows, np.int64))
    paces.set_stays(cast(Stores, SimpleNamespace(stores=stores)))
    return [int(stay) for stay in stores["lifetime"]]


def test_rows_stay_for_the_time_of_their_windows() -> None:
    windows = [(50, False), (200, False), (0, False), (-1, False)]
    assert stays(Paces(), windows) == [_LONGEST // 4, _LONGEST, 0, _LONGEST]


def test_rows_of_windows_by_rows_stay_until_as_many_have_come() -> None:
    paces, windows = Paces(), [(100, True), (100, True), (400, False)]
    assert stays(paces, windows) == [_LONGEST, _LONGEST, _LONGEST], "nothing is known yet"
    for now in (0, 50, 100):
        paces.note(now, np.array([now, now // 2, now]))
    assert stays(paces, windows) == [_LONGEST // 4, _LONGEST // 2, _LONGEST]


_TICKS, _SHORT, _LONG_WINDOW = 32_000, 2_000, 100_000


def batches() -> list[dict[str, pa.Table]]:
    """Eight rows of A a tick wait in vain. Every eighth tick a row of B comes, and a fourth of these have
    been waited for by one of A, for nearly a whole window of it; nobody asks for the others any more."""
    ticks = np.arange(_TICKS)
    asked = ticks[ticks % 32 == 0]
    waited = np.maximum(asked - _SHORT + asked % 7 * 4 + 1, 0)
    keys = np.concatenate([10 * _TICKS + np.arange(8 * _TICKS), asked])
    times = np.concatenate([np.repeat(ticks, 8), waited])
    order = np.argsort(times, kind="stable")
    a, b = (keys[order], times[order]), ticks[ticks % 8 == 0]
    found = []
    for start in range(0, _TICKS, 2_000):
        first, last = np.searchsorted(a[1], [start, start + 2_000])
        own = b[(b >= start) & (b < start + 2_000)]
        found.append(
            {
                "A": pa.table(
                    {"k": a[0][first:last], "v": a[1][first:last], "t": a[1][first:last]}
                ),
                "B": pa.table({"k": own, "w": own, "t": own}),
            }
        )
    return found


def uses_constraints(engine: braid.Engine, batch: dict[str, pa.Table]) -> bool:
    """Whether the join of an engine does, after a batch."""
    engine.process(batch)
    (join,) = [m for m in engine.explain().to_dict()["mops"] if m["kind"] == "join"]
    return bool(join["detail"]["watches"])


@pytest.mark.parametrize("mode", ["exact", "monitored"])
def test_a_join_uses_constraints_for_few_rows_that_stay_long(mode: str) -> None:
    engine = braid.Engine(idle_timeout=None, constraints=mode, spill_above=0)
    engine.execute("CREATE STREAM A (k BIGINT, v BIGINT, t BIGINT) TIME t;")
    engine.execute("CREATE STREAM B (k BIGINT, w BIGINT, t BIGINT) TIME t;")
    engine.query(
        "q",
        f"SELECT v, w FROM A [Range {_SHORT}], B [Range {_LONG_WINDOW}] WHERE A.k = B.k",
    )
    assert any(uses_constraints(engine, batch) for batch in batches())
