"""Liveness: detects that Spark's JVM has died, or that a batch or task makes no progress.

Processes are killed, by people and by systems that run out of memory. Spark notices most of it, and
the pipeline fails with an error of Spark's. Two cases need a check from outside. If the JVM has
ended, every call into it fails in its own way. If a task waits for something that does not come,
Spark waits forever. So a thread checks every second, and a lost pipeline fails with one of Braid's
errors within a bounded time.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from braid.errors import BraidError, CheckpointError, ConfigError, PipelineError, damaged

#: Seconds between two checks.
LOOK = 1.0

#: Seconds within which the end of a JVM with broken connections is seen.
ENDING = 5.0

#: Seconds that Spark has to stop a lost pipeline, or itself.
STOPPING = 20.0

#: The exceptions of calls into a JVM that does not answer.
SILENT = (Py4JError, ConnectionError, EOFError, OSError)

_AGAIN = "start it again with the same checkpoint: it continues after the last committed batch"


class Jvm:
    """The process of Spark, if this process started it."""

    def __init__(self, spark: SparkSession) -> None:
        self._process: Any = getattr(spark.sparkContext._gateway, "proc", None)

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def ended(self, seconds: float = 0.0) -> bool:
        """Whether it has ended. Its connections break a moment before the end is visible."""
        deadline = time.monotonic() + seconds
        while not self.has_ended and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.has_ended

    def failure(self) -> PipelineError:
        status = None if self._process is None else self._process.poll()
        how = (
            f"killed by signal {-status}" if status is not None and status < 0 else "reason unknown"
        )
        return PipelineError("E417", f"Spark's JVM ended ({how}), and so did the pipeline", _AGAIN)

    def lost(self, silence: BaseException) -> PipelineError | None:
        """The failure that explains a failed call into the JVM, if the JVM has ended."""
        is_answer = isinstance(silence, Py4JJavaError)  # an error of Java's: it did answer
        return self.failure() if not is_answer and self.ended(ENDING) else None

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.kill()


class Guarded(Protocol):
    """The parts of a pipeline that a guard uses."""

    query: StreamingQuery | None

    @property
    def is_active(self) -> bool: ...

    @property
    def batches(self) -> int: ...

    def give_up(self, failure: PipelineError) -> None: ...


class Guard(threading.Thread):
    """The guard of one run of a pipeline. It gives the pipeline up once, with the reason.

    `stall`: after so many seconds in which a batch is under way and no task and no batch has ended,
    the pipeline is lost; None waits forever.
    """

    def __init__(self, spark: SparkSession, guarded: Guarded, stall: float | None) -> None:
        super().__init__(name="braid-guard", daemon=True)
        self.jvm = Jvm(spark)
        self._tracker = spark.sparkContext.statusTracker()
        self._guarded = guarded
        self._stall = stall
        self._over = threading.Event()

    def run(self) -> None:
        seen: object = None
        since = time.monotonic()
        while not self._over.wait(LOOK):
            if self.jvm.has_ended:
                self._guarded.give_up(self.jvm.failure())
                return
            try:
                if not self._guarded.is_active:
                    return
                now = self._figures()
            except SILENT:
                continue  # the JVM is ending, or Spark is: the next look tells which
            if now is None or now != seen:
                seen, since = now, time.monotonic()
            elif self._stall is not None and time.monotonic() - since >= self._stall:
                self._guarded.give_up(stalled(self._stall))
                return

    def finish(self) -> None:
        self._over.set()

    def _figures(self) -> object:
        """Values that change while a batch makes progress; None if none is under way."""
        query = self._guarded.query
        status = None if query is None else query.status
        if status is None or not status["isTriggerActive"]:
            return None
        stages = [
            (number, info.numCompletedTasks, info.numFailedTasks, info.numActiveTasks)
            for number in sorted(self._tracker.getActiveStageIds())
            if (info := self._tracker.getStageInfo(number)) is not None
        ]
        return self._guarded.batches, status["message"], stages


def stalled(seconds: float) -> PipelineError:
    return PipelineError(
        "E419",
        f"the pipeline is stuck: a batch is under way, and none of its tasks has ended for"
        f" {seconds:g} seconds",
        f"{_AGAIN}. If a batch may take so long, give stall_timeout a longer time",
    )


def within(seconds: float, call: Callable[[], object]) -> bool:
    """Call a function that may never return. Returns whether it ended, by return or exception."""
    thread = threading.Thread(target=_quietly, args=(call,), daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def _quietly(call: Callable[[], object]) -> None:
    with contextlib.suppress(Exception):
        call()


def stop_spark(spark: SparkSession) -> None:
    """Stop Spark, whether its JVM still answers or not, in a bounded time.

    PySpark raises if the JVM has ended, and waits forever if it does not answer. Then it remembers
    an unusable session. A JVM that does not stop is killed.
    """
    jvm = Jvm(spark)
    if not jvm.has_ended and within(STOPPING, spark.stop):
        return
    jvm.kill()
    jvm.ended(LOOK)
    _forget(spark)


def _forget(spark: SparkSession) -> None:
    """Allow a new session: PySpark keeps the last one, and the gateway to its JVM."""
    from pyspark import SparkContext

    with SparkContext._lock:
        SparkContext._active_spark_context = None
        SparkContext._gateway = None
        SparkContext._jvm = None
    SparkSession._instantiatedSession = None


_OWN = re.compile(r"error\[(E4\d\d)\]: (.*?)(?:\n\s+(\S.*?))?(?:\n|$)")

#: Spark's messages about a lost worker, or a lost process that forks workers.
_CRASHED = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "occurred while reading the port number from",
    "Failed to open socket to Python daemon",
)


#: How Spark says that it cannot read its part of a checkpoint: its logs, its state store, the
#: checksums of Hadoop and of RocksDB, and the file that names the query.
_UNREADABLE = re.compile(
    r"MALFORMED_LOG_FILE|CANNOT_LOAD_STATE_STORE|ChecksumException|StreamMetadata"
    r"|terminated with exception: [^\n]*\n at \[Source"
    r"|RocksDBException: .*(?:checksum mismatch|[Cc]orrupt)"
)
_CAUSES = re.compile(r"^(?:Caused|Wrapped) by: (\S.*)$|(\[MALFORMED_LOG_FILE\].*)$", re.MULTILINE)
#: The longest part of a cause that is shown.
_SHOWN = 300
_ANEW = "restore an older copy of the checkpoint, or start with a new checkpoint directory"


def translated(failure: BaseException) -> BaseException:
    """Braid's own error if one is the cause; Spark shows it inside a Java stack trace. If Spark
    cannot read a part of a checkpoint, the error is that it is damaged."""
    text = str(failure)
    found = _OWN.search(text)
    if found is not None:
        kind: type[BraidError] = CheckpointError if found[1][:3] in ("E41", "E42") else ConfigError
        return kind(found[1], found[2], found[3])
    if any(words in text for words in _CRASHED):
        return PipelineError(
            "E418",
            "a Python worker of the pipeline ended: it crashed or was killed, perhaps because"
            " memory ran out",
            _AGAIN,
        )
    if _UNREADABLE.search(text) is not None:
        causes = ["".join(groups) for groups in _CAUSES.findall(text)]
        cause = causes[-1] if causes else text.splitlines()[0]
        return damaged(f"Spark cannot read its part of the checkpoint ({cause[:_SHOWN]})", _ANEW)
    return failure
