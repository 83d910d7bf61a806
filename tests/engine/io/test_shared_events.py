"""Events that belong to several sharable streams, for queries that read one of these by itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import braid

STREAMS = """
CREATE STREAM A (id BIGINT, t BIGINT) TIME t;
CREATE STREAM B (id BIGINT, t BIGINT) TIME t SHARABLE WITH A;
CREATE STREAM C (id BIGINT, t BIGINT) TIME t;
CREATE CONSTRAINT one ON A (id) KEY;
"""
#: By itself a join that uses constraints, and it reads its streams as they are.
JOINED = "Istream(Select A.id, C.id As u From A {0}, C {0} Where A.id = C.id)"
OTHER = "SELECT id FROM FILTER{id > 1} B"


def run(mode: str, together: bool, queries: list[str]) -> tuple[Any, Any]:
    """Results and what is told; some events are of A and of B, one is of A alone."""
    running = braid.Engine(constraints=mode, spill_above=0)
    running.execute(STREAMS)
    for number, text in enumerate(queries):
        running.query(f"q{number}", text)
    found: Counter[Any] = Counter()
    told: list[str] = []
    for first in (0, 10):
        shared = {"id": [1, 2, 1], "t": [first + 1, first + 2, first + 4]}
        several: Any = {("A", "B"): shared} if together else {"A": shared, "B": shared}
        running.process(several | {"C": {"id": [1, 2, 5], "t": [first + 2, first + 3, first + 4]}})
        _note(running, found)
        told += [notice.message for notice in running.notices]
        running = braid.Engine.restore(running.snapshot())
        running.process({"A": {"id": [5], "t": [first + 5]}})
        _note(running, found)
    running.finish()
    _note(running, found)
    return found, told


def _note(running: braid.Engine, found: Counter[Any]) -> None:
    for (query, _), table in running.results.items():
        found.update((query, *row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("window", ["[Range 100]", "[Rows 100]", "[Partition By id Rows 1]"])
@pytest.mark.parametrize("others", [[], [OTHER]])
def test_a_join_by_itself_sees_events_that_belong_to_several_streams(
    window: str, others: list[str]
) -> None:
    queries = [JOINED.format(window), *others]
    plain, told = run("off", False, queries)
    assert plain
    assert len(told) == 1
    for mode in ("off", "exact"):
        assert run(mode, True, queries)[0] == plain, mode
    assert run("off", True, queries)[1] == told
