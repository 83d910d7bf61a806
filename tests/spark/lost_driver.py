"""A pipeline that is lost in three ways, one after the other, on one checkpoint and in one process.

python -m tests.spark.lost_driver FOLDER

It gets stuck; then a Python worker of it is killed; then the JVM is. The test does the killing:
here every phase is told (`ready PHASE`), and how it ended (`lost PHASE CODE`), and whether the handle says the same.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from braid.errors import PipelineError
from braid.spark import FileSink, Running, local_spark
from braid.spark.liveness import stop_spark
from tests.spark.support import KEYED, Market

#: Of a query whose events wait in a worker.
PAUSED = "SELECT Name, Price FROM FILTER{pause(Price) >= 0}(Stock)"
PHASES = {"stuck": "3 seconds", "worker": "5 minutes", "jvm": "5 minutes"}


def waiting(folder: str, phase: str) -> Callable[[float], float]:
    """A function that says in which process it is called, and does not return."""

    def pause(value: float) -> float:
        Path(folder, f"{phase}-{os.getpid()}").touch()
        time.sleep(600)
        return value

    return pause


def _is_known(running: Running, failure: PipelineError) -> bool:
    known = running.exception
    is_same = isinstance(known, PipelineError) and known.code == failure.code
    return is_same and not running.is_active


def main(folder: str) -> None:
    spark = local_spark(2, "1g")
    spark.sparkContext.setLogLevel("OFF")
    market = Market(spark, Path(folder))
    for phase, stall in PHASES.items():
        session = market.session({"jump": KEYED}, stall_timeout=stall)
        session.function("pause", waiting(folder, phase), ["DOUBLE"], "DOUBLE")
        session.query("paused", PAUSED)
        sinks = {"matches": FileSink(f"{folder}/out")}
        running = session.start(sinks, checkpoint=f"{folder}/checkpoint")
        print(f"ready {phase}", flush=True)
        try:
            running.await_termination()
        except PipelineError as failure:
            print(f"lost {phase} {failure.code} {_is_known(running, failure)}", flush=True)
        running.stop()
    stop_spark(spark)
    print("stopped", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
