"""Anything is killed at random while queries come and go: results are those of the recorded times.

The driver, its process group, the JVM, Python workers and the processes that these are forked from
are killed with SIGKILL. Whatever it was, the job goes on or ends within a known time. Afterwards
the published streams are what they always are, and every query that was added has the results of
a query that lives from the event time which the checkpoint has recorded for it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from braid.reference import events_from_table
from braid.spark import MemorySink
from tests.spark.live_driver import NEAR, QUERIES, session_of
from tests.spark.processes import DAEMON, JVM, WORKER, Job
from tests.spark.support import (
    BOTH,
    CHAINED,
    FOLDED,
    KEYED,
    SPREAD,
    Market,
    Result,
    matched,
    news_rows,
    stock_rows,
    stream_of,
)
from tests.spark.support import expected as expected_of

ROOT = Path(__file__).parents[2]
DRIVER, GROUP = "driver", "group"

#: Seconds within which a job that was hit has ended or goes on, and within which a batch is done.
BOUND, PATIENCE = 180.0, 600.0

#: A query that needs a route of its own: the job starts itself again for it.
BUYERS = "SELECT Lot, Name FROM Stock NEXT{$1.Buyer = $2.Buyer} Stock"
FAR = NEAR.replace("PUBLISH Near", "").replace("Range 5", "Range 9")

ADDED = {
    "told": CHAINED,
    "rising": FOLDED,
    "buyers": BUYERS,
    "far": FAR,
    **{
        f"high{n}": SPREAD.replace("90", str(n)).replace(" PUBLISH High", "") for n in range(60, 65)
    },
    **{f"jump{n}": KEYED.replace("50", str(n)).replace("PUBLISH Jump", "") for n in range(30, 35)},
}
DROPPED = ("high60", "jump30", "told", "far", "high61", "rising")


def changes() -> list[dict[str, Any]]:
    """Twenty: some queries are dropped after they were added."""
    found = [{"op": "add", "id": name, "text": text} for name, text in ADDED.items()]
    found += [{"op": "drop", "id": name, "text": None} for name in DROPPED]
    return [{"seq": number, **change, "at": None} for number, change in enumerate(found)]


def write(folder: Path, change: Mapping[str, Any]) -> None:
    name = f"{change['seq']:03d}.json"
    (folder / f".{name}").write_text(json.dumps(change))
    (folder / f".{name}").rename(folder / name)


def taken(checkpoint: Path) -> list[dict[str, Any]]:
    """What the job has recorded of changes, in the order of batches."""
    files = sorted((checkpoint / "braid" / "changes").glob("[0-9]*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


class Killed:
    """A job that is started again whenever it has ended, and hit at random."""

    def __init__(self, folder: Path, files: int, seed: int) -> None:
        self.folder, self.files, self.draw = folder, files, random.Random(seed)
        self.asked = changes()
        self.hits: list[str] = []
        (folder / "control").mkdir()
        self.process = self._launch()
        self.job = Job(self.process.pid)

    def _launch(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with (self.folder / "driver.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.spark.live_driver", str(self.folder)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def committed(self) -> int:
        folder = self.folder / "checkpoint" / "commits"
        names = [p.name for p in folder.iterdir()] if folder.exists() else []
        return max((int(name) for name in names if name.isdigit()), default=-1) + 1

    def until(self, ready: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait, and ask for the next changes as the job gets on."""
        deadline = time.monotonic() + seconds
        while not ready():
            log = self.folder / "driver.log"
            assert time.monotonic() < deadline, (what, self.hits, log.read_text()[-3000:])
            self.job.processes()
            # By files, not by batches: a file that was listed before a kill joins the next batch.
            due = min(self._read(0), self._read(1)) * len(changes()) // self.files
            while self.asked and len(changes()) - len(self.asked) < due:
                write(self.folder / "control", self.asked.pop(0))
            time.sleep(0.05)

    def _read(self, source: int) -> int:
        """How many files Spark has taken from a source: one at a time."""
        folder = self.folder / "checkpoint" / "sources" / str(source)
        names = [p.name.partition(".")[0] for p in folder.iterdir()] if folder.exists() else []
        return max((int(name) for name in names if name.isdigit()), default=-1) + 1

    def hit(self, kind: str) -> None:
        """Kill something of a job that is at work; then it goes on, or it is started again."""
        before = self.committed
        self.until(lambda: self.committed > before or self.has_ended, PATIENCE, "no batch")
        assert not self.has_ended, (self.hits, (self.folder / "driver.log").read_text()[-3000:])
        self.until(_after(self.draw.uniform(0.0, 3.0)), 60.0, "time stands still")
        found = self.job.processes()
        victims = {DRIVER: [self.process.pid], GROUP: [-self.process.pid], **found}[kind]
        if not victims:
            return
        victim = self.draw.choice(victims)
        (os.killpg if victim < 0 else os.kill)(abs(victim), signal.SIGKILL)
        self.hits.append(f"{kind} at {self.committed}")
        before = self.committed
        self.until(lambda: self.has_ended or self.committed > before + 1, BOUND, f"hangs: {kind}")
        if self.has_ended:
            assert self.process.returncode in (3, -signal.SIGKILL), self.process.returncode
            self.until(lambda: not any(self.job.processes().values()), BOUND, "leftovers")
            self.process = self._launch()
            self.job = Job(self.process.pid)

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def finish(self) -> None:
        """Let it run to the end of the files and take all changes."""

        def is_done() -> bool:
            said = [one for one in taken(self.folder / "checkpoint") if one["state"] == "applied"]
            all_taken = len({(one["op"], one["id"]) for one in said}) == len(changes())
            return all_taken and min(self._read(0), self._read(1)) >= self.files

        self.until(lambda: is_done() or self.has_ended, 2 * PATIENCE, "the last run does not end")
        (self.folder / "finish").touch()
        self.until(lambda: self.has_ended, PATIENCE, "it does not finish")
        assert self.process.returncode == 0, (self.folder / "driver.log").read_text()[-3000:]

    def end(self) -> None:
        for pids in self.job.processes().values():
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def _after(seconds: float) -> Callable[[], bool]:
    over = time.monotonic() + seconds
    return lambda: time.monotonic() >= over


def lives_of(log: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Birth and death of every query, as recorded."""
    lives = dict.fromkeys(QUERIES, (-(2**62), 2**62))
    for one in log:
        if one["state"] == "applied":
            time_ = -(2**62) if one["time"] is None else one["time"]
            born, dies = lives.get(one["id"], (time_, 2**62))
            lives[one["id"]] = (born, dies if one["op"] == "add" else time_)
    return lives


def expected(market: Market, lives: Mapping[str, tuple[int, int]]) -> Counter[Result]:
    """What the reference says of queries that see events from their birth on."""
    queries = market.session({**QUERIES, **ADDED}, streaming=False, streams=BOTH).queries
    events = {name: events_from_table(stream_of(name), market.table(name)) for name in BOTH}
    until, found = market.watermark(BOTH), Counter[Result]()
    for query in queries:
        born, dies = lives[query.id]
        seen = {name: [e for e in those if e.start >= born] for name, those in events.items()}
        others = [other for other in queries if other.id in QUERIES and other.id != query.id]
        answers = expected_of([*others, query], seen, min(until, dies))
        found += Counter({key: n for key, n in answers.items() if key[0] == query.id})
    return found


def check(market: Market) -> None:
    log = taken(market.path / "checkpoint")
    applied = [(one["op"], one["id"]) for one in log if one["state"] == "applied"]
    assert Counter(applied) == Counter((c["op"], c["id"]) for c in changes())
    lives = lives_of(log)
    queries = market.session({**QUERIES, **ADDED}, streaming=False, streams=BOTH).queries
    rows = market.spark.read.parquet(str(market.path / "out" / "matches")).collect()
    found = matched(rows, queries)
    assert found == expected(market, lives)
    assert len({key[0] for key in found} & set(ADDED)) > len(ADDED) // 2
    for output, name in (("Jump", "jump"), ("Near", "near")):
        count = market.spark.read.parquet(str(market.path / "out" / name)).count()
        assert count == sum(n for key, n in found.items() if key[1] == output)
    assert found == uninterrupted(market, log)


def uninterrupted(market: Market, log: list[dict[str, Any]]) -> Counter[Result]:
    """Another run over the same files, by itself, with the recorded times as `at`."""
    control = market.path / "again"
    control.mkdir()
    times = {(one["op"], one["id"]): one["at"] for one in log if one["state"] == "applied"}
    for change in changes():
        at = times[change["op"], change["id"]]
        write(control, {**change, "at": None if at is None else str(pd.Timestamp(at))})
    session = session_of(market, control)
    sink = MemorySink()
    running = session.start(
        {"matches": sink}, checkpoint=market.path / "second", trigger="available now"
    )
    assert running.await_termination(2 * PATIENCE)
    states = Counter(change.state for change in running.changes)
    assert states["applied"] == len(changes())
    return matched(sink.rows, market.session({**QUERIES, **ADDED}, streams=BOTH).queries)


def survive(market: Market, kinds: list[str], files: int, seed: int) -> None:
    for i in range(files):
        market.write("Stock", stock_rows(30, 15 * i, seed=i), f"{i:03d}")
        market.write("News", news_rows(3, 15 * i, seed=100 + i), f"{i:03d}")
    killed = Killed(market.path, files, seed)
    try:
        for kind in kinds:
            killed.hit(kind)
        killed.finish()
    finally:
        killed.end()
    assert len(killed.hits) >= len(kinds) // 2
    check(market)


@pytest.mark.slow  # a dozen starts of a JVM, some minutes
def test_anything_is_killed_while_queries_come_and_go(market: Market) -> None:
    kinds = [DRIVER, GROUP, JVM, WORKER, WORKER, DAEMON] * 2 + [WORKER, JVM]
    random.Random(7).shuffle(kinds)
    survive(market, kinds, files=70, seed=7)
