"""A windowed join with nothing declared is a plain one until it has grown; answers stay the same."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import braid
from braid.operators.join.spec import GrowingJoinSpec

STREAMS = """
CREATE STREAM A (k BIGINT, v STRING, t BIGINT) TIME t;
CREATE STREAM B (k BIGINT, w BIGINT, t BIGINT) TIME t;
"""
TEXT = "Select v, w From A [Range 700], B [Range 700] Where A.k = B.k And w > 3"
#: Rows of about half a window.
SMALL = 40_000
FAR = 1 << 30


def started(**options: Any) -> braid.Engine:
    engine = braid.Engine(idle_timeout=None, **options)
    engine.execute(STREAMS)
    engine.query("q", TEXT)
    return engine


def batch(number: int) -> dict[str, dict[str, list[Any]]]:
    times = list(range(200 * number, 200 * number + 200))
    return {
        "A": {"k": times, "v": [f"text {t % 50}" for t in times], "t": times},
        "B": {"k": [t - t % 7 for t in times], "w": [t % 9 for t in times], "t": times},
    }


def results(engine: braid.Engine) -> Counter[tuple[Any, ...]]:
    tables = engine.results.values()
    return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())


def join_of(engine: braid.Engine) -> dict[str, Any]:
    (join,) = (m for m in engine.explain().to_dict()["mops"] if m["kind"] == "join")
    return join


@pytest.fixture(scope="module")
def wanted() -> list[Counter[tuple[Any, ...]]]:
    engine, found = started(constraints="off"), []
    for number in range(10):
        engine.process(batch(number))
        found.append(results(engine))
    assert all(found)
    return found


def test_a_plain_join_does_not_enter_the_constraint_machinery() -> None:
    engine, entered = started(), set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.add(Path(frame.f_code.co_filename).parent.name)

    engine.process(batch(0))
    sys.setprofile(note)
    engine.process(batch(1))
    sys.setprofile(None)
    assert "join" in entered
    assert "constraint_join" not in entered
    assert join_of(engine)["does"].startswith("window join")
    specs = [mop.spec for mop in engine._running().plan.mops.values()]
    assert sum(isinstance(spec, GrowingJoinSpec) for spec in specs) == 1


@pytest.mark.parametrize("options", [{"constraints": "monitored"}, {"spill_above": 0}])
def test_constraints_attach_at_once_where_that_is_asked_for(options: dict[str, Any]) -> None:
    assert join_of(started(**options))["does"].startswith("constraint join")


def test_constraints_attach_when_something_is_declared() -> None:
    engine = started()
    engine.constraint("one", "key", "A", "k")
    assert join_of(engine)["does"].startswith("constraint join")


@pytest.mark.parametrize("worth", [0, 0.25])
@pytest.mark.parametrize("restart", [None, 0, 2, 5, 8])
def test_a_join_that_grows_hands_over(
    wanted: list[Counter[tuple[Any, ...]]], worth: float, restart: int | None
) -> None:
    engine = started(spill_above=SMALL, watching={"worth": worth})
    for number in range(10):
        engine.process(batch(number))
        assert results(engine) == wanted[number]
        if number == 0:
            assert "too little is held to use constraints" in str(engine.explain())
        if number == restart:
            engine = braid.Engine.restore(engine.snapshot())
    assert join_of(engine)["detail"]["has_grown"]
    assert "uses constraints since it has grown" in str(engine.explain())


@pytest.mark.parametrize("above", [SMALL, FAR])
@pytest.mark.parametrize(("declared", "dropped"), [(0, 3), (2, 6), (5, 8), (5, None)])
def test_what_is_declared_later_finds_what_is_held(
    wanted: list[Counter[tuple[Any, ...]]], above: int, declared: int, dropped: int | None
) -> None:
    """The plain join goes on as one with constraints, and what that holds is not lost with them."""
    engine = started(spill_above=above)
    for number in range(10):
        engine.process(batch(number))
        assert results(engine) == wanted[number]
        if number == declared:
            engine.constraint("one", "key", "A", "k")
            engine = braid.Engine.restore(engine.snapshot())
        if number == dropped:
            engine.execute("DROP CONSTRAINT one")
            engine = braid.Engine.restore(engine.snapshot())


def test_codes_are_compacted_in_a_plain_join(wanted: list[Counter[tuple[Any, ...]]]) -> None:
    engine = started(spill_above=FAR)
    for number in range(10):
        engine.process(batch(number))
        assert results(engine) == wanted[number]
        executor = engine._running()._executor
        executor._alive = 0
        executor.compact()


def test_equal_queries_share_a_plain_join() -> None:
    engine = started()
    engine.query("r", TEXT)
    engine.process(batch(0))
    assert join_of(engine)["members"] == 2
    engine.drop("q")
    engine.process(batch(1))
    assert {name for name, _ in engine.results} == {"r"}
