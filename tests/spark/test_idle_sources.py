"""Sources that fall silent: what they said last comes out after the idle timeout, once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from braid import Session
from braid.spark import MemorySink, Running

JUMP = "SELECT x FROM S NEXT{$1.k = $2.k AND $2.x > $1.x} S PUBLISH Jump"
BOTH = "SELECT x FROM S UNION T PUBLISH Both"


def write(folder: Path, name: str, *rows: tuple[int, int, int]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"k": k, "x": x, "t": t}) for k, x, t in rows]
    (folder / f"{name}.json").write_text("\n".join(lines))


def started(
    spark: SparkSession, path: Path, streams: str, query: str, sink: MemorySink, **options: Any
) -> Running:
    """A run on the one checkpoint of a test; times count ticks."""
    session = Session(spark, shards=2, idle_timeout="2 seconds")
    for name in streams:
        (path / name).mkdir(exist_ok=True)
        frame = spark.readStream.schema("k LONG, x LONG, t LONG").json(str(path / name))
        session.stream(name, frame, time="t")
    session.query("q", query)
    return session.start({"matches": sink}, checkpoint=path / "checkpoint", **options)


def settled(commit: Path) -> bool:
    """Whether a batch has been committed; Spark does that after the sinks have it."""
    deadline = time.monotonic() + 60
    while not commit.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return commit.exists()


def found(sink: MemorySink) -> list[tuple[int, int, int]]:
    return [(r.start, r.end, r.payload.toPython()["x"]) for r in sink.rows]


def test_the_last_word_of_a_source_comes_out_once_over_restarts(spark, tmp_path: Path) -> None:
    """First a run that ends before the timeout; then one in which nothing comes at all; then that
    one's last batch again, as after a crash."""
    write(tmp_path / "S", "1", (7, 1, 10), (7, 2, 20))
    early, sink, again = MemorySink(), MemorySink(), MemorySink()
    running = started(spark, tmp_path, "S", JUMP, early, trigger="available now")
    assert running.await_termination(120)
    assert early.rows == []
    assert running.progress.numbers["held"] == 1

    running = started(spark, tmp_path, "S", JUMP, sink)
    assert running.wait_for(lambda p: p.matches == 1, 120)
    (batch,) = (number for number, rows in sink.batches.items() if rows)
    commits = tmp_path / "checkpoint" / "commits"
    assert settled(commits / f"{batch}")
    running.stop()
    assert found(sink) == [(10, 20, 2)]

    for file in (commits / f"{batch}", commits / f".{batch}.crc"):
        file.unlink(missing_ok=True)
    running = started(spark, tmp_path, "S", JUMP, again)
    assert running.wait_for(lambda p: p.matches == 1, 120)
    assert [batch] == [number for number, rows in again.batches.items() if rows]
    assert found(again) == found(sink)
    write(tmp_path / "S", "2", (7, 5, 20), (7, 3, 21))
    assert running.wait_for(lambda p: p.late == 1 and p.matches == 2, 120)
    running.stop()
    assert found(again) == [(10, 20, 2), (20, 21, 3)]


def test_a_pipeline_that_only_waits_runs_no_batches(spark, tmp_path: Path) -> None:
    """T never says anything. Both are released by one batch after the timeout, and none follows."""
    write(tmp_path / "S", "1", (1, 1, 10), (2, 2, 20), (3, 3, 20))
    sink = MemorySink()
    running = started(spark, tmp_path, "ST", BOTH, sink)
    assert running.wait_for(lambda p: p.matches == 3, 120)
    assert not running.wait_for(lambda p: p.batches > 2, 5)
    assert sorted(x for _, _, x in found(sink)) == [1, 2, 3]
    running.stop()


@pytest.mark.parametrize("streaming", [False, True])
def test_clocks_that_are_too_far_apart_are_noticed(spark, tmp_path: Path, streaming: bool) -> None:
    """S has times of its own; U, of the same rows, is stamped with the time of the batch."""
    for number in range(6 if streaming else 1):
        for folder in "SU":
            write(tmp_path / folder, f"{number}", (7, 1, number))
    session = Session(spark, shards=2)
    reader = spark.readStream.option("maxFilesPerTrigger", 1) if streaming else spark.read
    for name in "SU":
        frame = reader.schema("k LONG, x LONG, t LONG").json(str(tmp_path / name))
        time = {"time": "ts"} if name == "S" else {}
        session.stream(name, frame.selectExpr("k", "x", "timestamp_micros(t) AS ts"), **time)
    session.query("apart", "SELECT S.x FROM S [Range 1 hour], U [Range 1 hour] WHERE S.k = U.k")
    session.query("near", "SELECT S.x FROM S [Range Unbounded], U [Range 1 hour] WHERE S.k = U.k")
    options = {"checkpoint": tmp_path / "c", "trigger": "available now"} if streaming else {}
    running = session.start({"matches": MemorySink()}, **options)
    assert running.await_termination(240)
    (notice,) = (n for n in running.notices if n.code == "W208")
    assert notice.query == "apart"
    assert "S has 1970-01-01" in notice.message or "S is at 1970-01-01" in notice.message
    assert "(no time column: stamped on arrival)" in notice.message
