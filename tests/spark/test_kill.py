"""Exactly once: the driver and its JVM are killed at random moments, and nobody can tell afterwards.

The kill is SIGKILL to the whole process group, so nothing gets a chance to clean up. Some moments
are between batches, some while a batch is computed, while its state is written, or when some of
its sinks have been written and others have not.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.kill_driver import QUERIES, STREAMS
from tests.spark.support import Market, matched, news_rows, stock_rows

ROOT = Path(__file__).parents[2]

#: A run that makes no progress for so long is broken, not slow.
PATIENCE = 300.0


def entries(folder: Path) -> int:
    return sum(1 for p in folder.iterdir() if p.name.isdigit()) if folder.exists() else 0


def launch(folder: Path) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with (folder / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.kill_driver", str(folder)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def kill_somewhere(process: subprocess.Popen[bytes], folder: Path, draw: random.Random) -> bool:
    """Kill a run after it has begun a batch; False if it was done before."""
    begun = entries(folder / "checkpoint" / "offsets")
    committed = entries(folder / "checkpoint" / "commits")
    deadline = time.monotonic() + PATIENCE
    # The replay of an uncommitted batch adds no offset, only its commit.
    while (
        entries(folder / "checkpoint" / "offsets") == begun
        and entries(folder / "checkpoint" / "commits") == committed
    ):
        if ended(process, 0.02):
            return False
        assert time.monotonic() < deadline, (folder / "driver.log").read_text()[-2000:]
    if ended(process, draw.uniform(0.0, 4.0)):
        return False
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return True


def survive(market: Market, kills: int, files: int, seed: int) -> None:
    folder, draw = market.path, random.Random(seed)
    for i in range(files):
        market.write("Stock", stock_rows(30, 15 * i, seed=i), f"{i:03d}")
        market.write("News", news_rows(3, 15 * i, seed=100 + i), f"{i:03d}")
    done = 0
    while done < kills:
        process = launch(folder)
        assert kill_somewhere(process, folder, draw), (
            f"only {done} kills: the run ended before the next",
            (folder / "driver.log").read_text()[-2000:],
        )
        done += 1
    process = launch(folder)
    assert ended(process, 3 * PATIENCE), "the last run does not end"
    assert process.returncode == 0, (folder / "driver.log").read_text()[-2000:]
    check(market)


def check(market: Market) -> None:
    queries = market.session(QUERIES, streaming=False, streams=STREAMS).queries
    rows = market.spark.read.parquet(str(market.path / "out" / "matches")).collect()
    found = matched(rows, queries)
    assert found == market.expected(queries, STREAMS, market.watermark(STREAMS))
    assert len(found) > 100
    jumps = market.spark.read.json(str(market.path / "out" / "jump")).collect()
    by_row = Counter((row.Name, row.low, row.high) for row in jumps)
    assert by_row == Counter(k[4] for k in found.elements() if k[1] == "Jump")
    assert market.spark.read.parquet(str(market.path / "out" / "late")).count() == 0


def test_killed_a_few_times(market: Market) -> None:
    survive(market, kills=1, files=5, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_many_times(market: Market, seed: int) -> None:
    survive(market, kills=12, files=45, seed=seed)
