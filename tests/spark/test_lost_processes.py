"""A pipeline whose processes are killed, or that is stuck, ends with one error within a known time."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError

from braid.errors import ConfigError, PipelineError
from braid.spark.liveness import Jvm, translated
from tests.spark.processes import JVM, WORKER, Job
from tests.spark.support import Market, stock_rows

ROOT = Path(__file__).parents[2]

#: Seconds within which a batch begins, and within which a lost pipeline has ended: on a machine
#: that has many other things to do.
PATIENCE, BOUND = 240.0, 60.0


class Driver:
    """The driver in a process of its own, and what it says."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self.folder = folder
        with (folder / "driver.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.lost_driver", str(folder)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
            )
        self.job = Job(self.process.pid)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.strip())

    def says(self, wanted: str, seconds: float) -> None:
        try:
            said = self._lines.get(timeout=seconds)
        except queue.Empty:
            said = "nothing"
        assert said == wanted, (self.folder / "driver.log").read_text()[-3000:]

    def paused(self, phase: str) -> int:
        """The worker in which the events of a batch wait."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for file in self.folder.glob(f"{phase}-*"):
                return int(file.name.partition("-")[2])
            self.job.processes()  # daemons are known by having been seen
            time.sleep(0.1)
        raise AssertionError("no batch has begun")

    def end(self) -> None:
        for pids in self.job.processes().values():
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def test_a_lost_pipeline_ends_with_one_error_in_time(tmp_path: Path) -> None:
    """Stuck, a Python worker killed, the JVM killed: each ends, and the next run goes on."""
    folder = tmp_path / "market"
    folder.mkdir()
    # No Spark is needed to write the files.
    Market(None, folder).write("Stock", stock_rows(80, 0, seed=1), "0")  # type: ignore[arg-type]
    driver = Driver(folder)
    try:
        driver.says("ready stuck", PATIENCE)
        driver.says("lost stuck E419 True", PATIENCE)
        driver.says("ready worker", PATIENCE)
        os.kill(driver.paused("worker"), signal.SIGKILL)
        driver.says("lost worker E418 True", BOUND)
        driver.says("ready jvm", PATIENCE)
        driver.paused("jvm")
        (jvm,) = driver.job.processes()[JVM]
        os.kill(jvm, signal.SIGKILL)
        driver.says("lost jvm E417 True", BOUND)
        driver.says("stopped", BOUND)
        assert driver.process.wait(BOUND) == 0
        assert driver.job.processes()[WORKER] == []
    finally:
        driver.end()


def test_what_spark_says_of_lost_workers_is_one_error() -> None:
    said = "Job aborted due to stage failure: ... Python worker exited unexpectedly (crashed) ..."
    found = translated(RuntimeError(said))
    assert isinstance(found, PipelineError)
    assert (found.code, "memory ran out" in found.message) == ("E418", True)
    own = translated(RuntimeError("java ... error[E409]: wrong\n  do it right\n at java"))
    assert isinstance(own, ConfigError)
    other = RuntimeError("EOFException: a file was cut short")
    assert translated(other) is other


def test_a_call_that_fails_because_the_jvm_is_gone(market: Market) -> None:
    """Other failures stay what they are."""
    jvm = Jvm(market.spark)
    assert jvm.lost(Py4JJavaError("of Java", SimpleNamespace(_target_id="o1"))) is None
    assert not jvm.has_ended
    with subprocess.Popen(["sleep", "600"]) as process:
        process.kill()
        jvm._process = process
        found = jvm.lost(ConnectionRefusedError())
    assert found is not None
    assert (found.code, "killed by signal 9" in found.message) == ("E417", True)


def test_a_stall_timeout_of_nothing_is_refused(market: Market) -> None:
    with pytest.raises(ConfigError, match="E409"):
        market.session({}, stall_timeout=0)
