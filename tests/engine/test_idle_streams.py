"""Streams that fall silent: the clock releases what they said last."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import braid

SECOND = 1_000_000
TICKS = pa.schema([("x", pa.int64()), ("t", pa.int64())])
TIMES = pa.schema([("x", pa.int64()), ("t", pa.timestamp("us", "UTC"))])


def arrived(*rows: tuple[int, int]) -> dict[str, Any]:
    return {"x": [x for x, _ in rows], "t": [t for _, t in rows]}


def made(now: list[int], *streams: str, schema: pa.Schema = TICKS, **options: Any) -> braid.Engine:
    engine = braid.Engine(idle_timeout="2 s", clock=lambda: now[0])
    for name in streams:
        engine.stream(name, schema, time="t", **options)
    engine.query("q", f"SELECT x FROM {' UNION '.join(streams)} PUBLISH Q")
    return engine


def found(engine: braid.Engine, tables: dict[str, Any] | None = None) -> list[int]:
    values: list[int] = engine.process(tables or {})["Q"].column("x").to_pylist()
    return sorted(values)


def test_the_last_event_of_a_silent_stream_comes_out_once() -> None:
    now = [0]
    engine = made(now, "S")
    assert found(engine, {"S": arrived((1, 10), (2, 20), (3, 20))}) == [1]
    now[0] = 2 * SECOND - 1
    assert found(engine, {"S": arrived()}) == []
    now[0] = 2 * SECOND
    assert found(engine) == [2, 3]
    now[0] = 1000 * SECOND
    assert found(engine) == []
    assert engine.finish()["Q"].num_rows == 0


def test_what_comes_for_a_released_instant_is_late() -> None:
    now = [0]
    engine = made(now, "S")
    found(engine, {"S": arrived((1, 10))})
    now[0] = 3 * SECOND
    assert found(engine) == [1]
    assert found(engine, {"S": arrived((2, 10), (3, 11))}) == []
    assert engine.late.column("end").to_pylist() == [10]
    now[0] = 6 * SECOND
    assert found(engine) == [3]


def test_a_stream_that_goes_on_is_waited_for() -> None:
    """T says nothing any more and holds nobody back; S goes on, and holds its newest instant."""
    now = [0]
    engine = made(now, "S", "T")
    found(engine, {"S": arrived((1, 10)), "T": arrived((2, 30))})
    now[0] = 2 * SECOND
    assert found(engine, {"S": arrived((3, 20))}) == [1]
    now[0] = 3 * SECOND
    assert found(engine) == []
    now[0] = 4 * SECOND
    assert found(engine) == [2, 3]


def test_lateness_is_granted_by_the_clock_as_well() -> None:
    """An event that is late by as much as was declared is accepted, however short the timeout."""
    now = [0]
    engine = made(now, "S", schema=TIMES, lateness="5 s")
    found(engine, {"S": arrived((1, 10 * SECOND))})
    now[0] = 4 * SECOND
    assert found(engine) == []
    now[0] = 5 * SECOND - 1
    assert found(engine, {"S": arrived((2, 5 * SECOND))}) == []
    now[0] = 10 * SECOND - 1
    assert found(engine) == [1, 2]
    assert engine.late.num_rows == 0


def test_a_lateness_in_ticks_is_no_time_of_the_clock() -> None:
    now = [0]
    engine = made(now, "S", lateness=10**9)
    found(engine, {"S": arrived((1, 10))})
    now[0] = 2 * SECOND
    assert found(engine) == [1]


def test_a_stream_without_time_neither_waits_nor_is_waited_for() -> None:
    """Its clock is behind the times of S, and so are its stamps until S has been released."""
    now = [0]
    engine = made(now, "S", schema=TIMES)
    engine.execute("CREATE STREAM U (x BIGINT);")
    engine.query("u", "SELECT x FROM U PUBLISH U2")
    newest = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    found(engine, {"S": {"x": [1], "t": [newest]}, "U": {"x": [7]}})
    now[0] = 2 * SECOND
    assert found(engine, {"U": {"x": [8]}}) == [1]
    out = engine.process({"U": {"x": [9]}})["U2"]
    assert out.column("end").to_pylist() > [newest]


def test_without_a_timeout_the_newest_instant_waits_for_ever() -> None:
    now = [0]
    engine = braid.Engine(idle_timeout=None, clock=lambda: now[0])
    engine.stream("S", TICKS, time="t")
    engine.query("q", "SELECT x FROM S PUBLISH Q")
    found(engine, {"S": arrived((1, 10))})
    now[0] = 10**15
    assert found(engine) == []
    assert engine.finish()["Q"].num_rows == 1


@pytest.mark.parametrize("silent", ["S", "T"])
def test_silence_goes_on_after_a_restart(silent: str) -> None:
    """It counts from the first batch after it, also on streams that say nothing any more."""
    now = [0]
    engine = made(now, "S", "T")
    found(engine, {"S": arrived((1, 10)), "T": arrived((2, 10))})
    now[0] = 100 * SECOND
    engine = braid.Engine.restore(engine.snapshot(), clock=lambda: now[0])
    other = "T" if silent == "S" else "S"
    assert found(engine, {other: arrived((3, 20))}) == []
    now[0] = 102 * SECOND
    assert found(engine, {other: arrived((4, 21))}) == [1, 2, 3]
    now[0] = 104 * SECOND
    assert found(engine) == [4]


def test_a_query_that_comes_after_a_release_sees_what_starts_after_it() -> None:
    now = [0]
    engine = made(now, "S")
    found(engine, {"S": arrived((1, 10))})
    now[0] = 2 * SECOND
    found(engine)
    engine.query("next", "SELECT x_1 AS x FROM S NEXT S PUBLISH N")
    engine.process({"S": arrived((2, 11), (3, 12))})
    assert engine.finish()["N"].column("x").to_pylist() == [2]
    with pytest.raises(braid.BraidError, match="E306"):
        engine.query("late", "SELECT x FROM S", at=10)
