"""Events that become rows only where they are read give what rows that are there give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braid
from braid.engine.executor import Executor
from braid.operators.core import columnar_input as arriving
from braid.operators.core.columnar_input import Columns, Unread, rows_of

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("t", pa.int64())])
PAIR = "SELECT k, x, x_1 FROM A NEXT{$1.k = $2.k AND DUR <= 40} B PUBLISH Pairs"
RISING = "SELECT k, x FROM A FOLD{$1.k = $2.k AND DUR <= 90, $2.x > $.x, } B PUBLISH Runs"


def tables(seed: int) -> list[dict[str, pa.Table]]:
    """Batches of all sizes, some with one time for all that B has."""
    random = np.random.default_rng(seed)
    found, now = [], 0
    for size in (3, 40, 1, 120, 0, 25, 70):
        batch = {}
        for name in "AB":
            times = now + np.sort(random.integers(0, max(1, size), size))
            if name == "B" and size > 100:
                times[5:-5] = times[5]
            columns = [random.integers(0, 6, size), random.random(size), times]
            batch[name] = pa.table(columns, schema=SCHEMA)
        found.append(batch)
        now += size
    return found


def results(text: str, batches: list[dict[str, pa.Table]]) -> list[Any]:
    engine = braid.Engine(idle_timeout=None)
    for name in "AB":
        engine.stream(name, SCHEMA, time="t", lateness=3)
    engine.query("q", text)
    found = []
    for batch in batches:
        for table in engine.process(batch).values():
            found += table.to_pylist()
    return found + [row for table in engine.finish().values() for row in table.to_pylist()]


@pytest.mark.parametrize("text", [PAIR, RISING])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_ring_gives_what_rows_give(text: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it must grow, and if a batch is in several pieces."""
    monkeypatch.setattr(arriving, "_ROOM", 32)
    taken = []
    ring = Columns.ring
    monkeypatch.setattr(Columns, "ring", lambda self: taken.append(len(self.pieces)) or ring(self))
    batches = tables(seed)
    found = results(text, batches)
    assert max(taken) > 1
    monkeypatch.setattr(Executor, "_source_batch", _as_rows)
    assert found == results(text, batches)
    assert found


def _as_rows(self: Executor, name: str, shape: Any, events: Any) -> Any:
    width = shape.layout.width
    return arriving.Batch(np.empty((0, width), np.int64) if events is None else rows_of(events))


def test_whoever_asks_gets_rows() -> None:
    words = np.arange(10, dtype=np.int64)
    sources = np.array([words.ctypes.data, words.ctypes.data, 0, words.ctypes.data], np.int64)
    piece = arriving.Piece(sources, 2, 3, words)
    batch = Unread(Columns(4, [piece, arriving.Piece(sources, 7, 1, words)]))
    assert len(batch) == 4
    assert batch.spelled() is batch
    assert batch.alone().tolist() == [[n, n, 0, n] for n in (2, 3, 4, 7)]
