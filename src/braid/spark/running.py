"""A running pipeline: its progress, how to wait for it and how to stop it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol, cast

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from braid.distribution.distribution import Standing
from braid.engine.explain.statistics import counted, merged
from braid.engine.reports import LOG, NoticeList
from braid.errors import Notice, PipelineError
from braid.spark.liveness import SILENT, STOPPING, Guard, translated, within
from braid.spark.pipeline import emit
from braid.spark.pipeline.beats import Beats, Pulse
from braid.spark.pipeline.control import ChangeResult
from braid.spark.pipeline.envelopes import LATE, REFUSED, RESULT, STATS
from braid.spark.shards.shards import MOST_QUERIES, open_stats
from braid.spark.sinks import Sink

#: Seconds between looks at whether a pipeline has to be started again.
_POLL = 0.2
#: Seconds that Spark waits at a time. What this process learns meanwhile takes effect then.
_SPELL = 1.0


@dataclass(frozen=True)
class Progress:
    """Figures of a run: totals since it was started, and those of the last batch."""

    batch: int = -1
    batches: int = 0
    events: int = 0
    matches: int = 0
    late: int = 0
    rejected: int = 0
    #: Calls of users' functions that raised, or returned what is not of their type.
    failed_calls: int = 0
    #: How often a shard was loaded from the state store and not taken alive.
    restored: int = 0
    #: Of the last batch.
    events_per_second: float = 0.0
    saved_bytes: int = 0
    instances: int = 0
    shards: int = 0
    #: How far time has come, by clock ("us": microseconds since 1970, "tick"): events that end
    #: before it are answered, later arrivals of such are late.
    watermarks: Mapping[str, int] = field(default_factory=dict)
    #: The shards' own figures, summed over them; of the last batch.
    numbers: Mapping[str, int] = field(default_factory=dict)
    #: How many rows each output had in the last batch, by stream.
    by_stream: Mapping[str, int] = field(default_factory=dict)
    #: Changes of queries that were made, how many wait for a route, and how often the pipeline
    #: was started again for one.
    changes: int = 0
    waiting: int = 0
    restarts: int = 0


Outputs = Mapping[str, tuple[Callable[[DataFrame], DataFrame], Sink]]


class RunFiles(Protocol):
    """The files that a run writes beside its checkpoint."""

    def write_statistics(self, figures: Mapping[str, Any]) -> None: ...

    def write_changes(self, batch: int, taken: Sequence[ChangeResult]) -> None: ...


class BatchWriter:
    """Writes every output of one batch from one computation of it."""

    def __init__(self, outputs: Outputs, on_progress: Callable[[Progress], None] | None) -> None:
        self._outputs = outputs
        self._on_progress = on_progress
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._progress = Progress()
        self._suspended: dict[str, str] = {}
        #: In the order in which they came. Shards find the same out by different events, which are
        #: said after a colon: the first one is kept.
        self._notices = NoticeList()
        #: By engine: workers change shards, and an engine tells what it has done itself.
        self._statistics: dict[str, dict[str, Any]] = {}
        #: By shard, the engine that ran it last.
        self._engines: dict[str, str] = {}
        self._changes: dict[str, Any] = {}
        self._taken: list[ChangeResult] = []
        self._time: str | None = None
        self._wanted: tuple[int, frozenset[Standing]] | None = None
        self._waits, self._due = False, cast("int | None", None)
        self._run_files: RunFiles | None = None
        self.has_begun = False
        self._is_first = True

    def begin(self, run_files: RunFiles, *, waits: bool = False, due: int | None = None) -> None:
        """A run begins, perhaps not the first: its first batch may replace one. `waits`: it goes
        on while its sources are silent; `due`: when a batch would then release what earlier runs
        have held back."""
        with self._lock:
            self._waits, self._due = waits, due
            self.has_begun, self._is_first = True, True
            self._run_files = run_files

    def restarted(self) -> None:
        """The pipeline was started again with the routes that were wanted."""
        with self._changed:
            self._wanted = None
            self._progress = replace(self._progress, restarts=self._progress.restarts + 1)
            self._changed.notify_all()

    @property
    def wanted(self) -> tuple[int, frozenset[Standing]] | None:
        """The batch after which the pipeline is to be started again, and with which routes."""
        with self._lock:
            return self._wanted

    def statistics(self) -> dict[str, Any]:
        """The shards' figures of the last batch of each, and what was counted before, together."""
        with self._lock:
            present = set(self._engines.values())
            found = merged(
                [
                    figures if engine in present else counted(figures)
                    for engine, figures in self._statistics.items()
                ],
                most=MOST_QUERIES * max(1, len(self._engines)),
            )
            progress = asdict(self._progress)
            head = {"batch": self._progress.batch, "time": self._time}
            return {**head, **found, "progress": progress, "changes": self._changes}

    @property
    def due(self) -> int | None:
        """The processing time at which a batch would release something though no event comes."""
        with self._lock:
            return self._due if self._waits else None

    @property
    def waits(self) -> bool:
        """Whether the run goes on while its sources are silent."""
        with self._lock:
            return self._waits

    @property
    def progress(self) -> Progress:
        with self._lock:
            return self._progress

    @property
    def suspended(self) -> dict[str, str]:
        with self._lock:
            return dict(self._suspended)

    @property
    def changes(self) -> tuple[ChangeResult, ...]:
        with self._lock:
            return tuple(self._taken)

    @property
    def notices(self) -> tuple[Notice, ...]:
        with self._lock:
            return tuple(self._notices)

    def wake(self) -> None:
        """Wake all waiting threads: something other than the figures has changed."""
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, ready: Callable[[Progress], bool], timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: ready(self._progress), timeout)

    def __call__(self, packed: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        packed.persist()
        try:
            rows = emit.figures(packed).collect()
            counts = _counts(rows)
            stats = open_stats([r.payload for r in rows if r.kind == STATS])
            taken = self._log_changes(batch_id, stats)
            for name, (view, sink) in self._outputs.items():
                # Only the first batch can be a replay of one that was written before, perhaps
                # with other queries: that one is replaced even by nothing.
                if counts.get(name, 0) or self._is_first:
                    sink.write(view(packed), batch_id)
        finally:
            packed.unpersist()
        self._is_first = False
        self._count(batch_id, stats, counts, time.monotonic() - began, taken)
        if self._run_files is not None:
            self._run_files.write_statistics(self.statistics())
        if self._on_progress is not None:
            self._on_progress(self.progress)

    def _log_changes(self, batch_id: int, stats: list[dict[str, Any]]) -> list[ChangeResult]:
        """Log the results of the changes of a batch before any sink shows an effect."""
        said = [one for shard in stats for one in shard.get("changes", {}).pop("taken", ())]
        taken = [replace(ChangeResult.from_json(one), batch=batch_id) for one in said]
        if taken and self._run_files is not None:
            self._run_files.write_changes(batch_id, taken)
        return taken

    def _count(
        self,
        batch_id: int,
        stats: list[dict[str, Any]],
        counts: dict[str, int],
        seconds: float,
        taken: list[ChangeResult],
    ) -> None:
        numbers: dict[str, int] = {}
        for shard in stats:
            for name, value in shard["numbers"].items():
                numbers[name] = numbers.get(name, 0) + value
        events = numbers.get("events", 0)
        with self._changed:
            self._time = datetime.now(UTC).isoformat(timespec="seconds")
            for shard in stats:
                self._suspended.update(shard["suspended"])
                for code, query, message in shard["notices"]:
                    self._notices.add_new([Notice(code, query, message)])
            self._due = min((s["due"] for s in stats if s["due"] is not None), default=None)
            old = self._progress
            self._progress = replace(
                old,
                batch=batch_id,
                batches=old.batches + 1,
                events=old.events + events,
                matches=old.matches + counts["matches"],
                late=old.late + counts["late"],
                rejected=old.rejected + counts["rejected"],
                failed_calls=old.failed_calls + numbers.get("failed_calls", 0),
                restored=old.restored + numbers.get("restored", 0),
                events_per_second=events / seconds if seconds else 0.0,
                saved_bytes=numbers.get("saved_bytes", 0),
                instances=numbers.get("instances", 0),
                shards=len({shard["shard"] for shard in stats}),
                watermarks=_watermarks(stats) or old.watermarks,
                numbers=numbers,
                by_stream=counts,
            )
            self._note_changes(batch_id, stats)
            # A batch that runs again replaces what it said.
            self._taken = [one for one in self._taken if one.batch != batch_id] + taken
            self._changed.notify_all()

    def _note_changes(self, batch_id: int, stats: list[dict[str, Any]]) -> None:
        for shard in stats:
            self._statistics[shard["engine"]] = shard["statistics"]
            self._engines[str(shard["shard"])] = shard["engine"]
            if "changes" in shard:
                self._changes = shard["changes"]
                applied = self._progress.changes + self._changes["applied"]
                waiting = len(self._changes["waiting"])
                self._progress = replace(self._progress, changes=applied, waiting=waiting)
                if self._changes["wanted"]:
                    wanted = frozenset((name, home) for name, home in self._changes["wanted"])
                    self._wanted = (batch_id, wanted)


def _watermarks(stats: list[dict[str, Any]]) -> dict[str, int]:
    """What all shards have reached."""
    found: dict[str, int] = {}
    for shard in stats:
        for clock, time_ in shard["watermarks"].items():
            found[clock] = min(time_, found.get(clock, time_))
    return found


def _counts(rows: list[Any]) -> dict[str, int]:
    """Rows of each output: the published streams, and the three reserved names."""
    found = {"matches": 0, "late": 0, "rejected": 0}
    reserved = {RESULT: "matches", LATE: "late", REFUSED: "rejected"}
    for row in rows:
        if row.kind in reserved:
            found[reserved[row.kind]] += row.rows
        if row.kind == RESULT and row.stream is not None:
            found[row.stream] = found.get(row.stream, 0) + row.rows
    return found


class Launch(Protocol):
    """Starts a pipeline, and starts it again with more routes."""

    def __call__(self, wanted: frozenset[Standing]) -> StreamingQuery: ...

    def is_committed(self, batch: int) -> bool: ...


class Running:
    """What `Session.start` returns."""

    def __init__(
        self,
        writer: BatchWriter,
        query: StreamingQuery | None,
        launch: Launch | None = None,
        beats: Beats | None = None,
        spark: SparkSession | None = None,
        stall: float | None = None,
    ) -> None:
        """`launch`: how to start again for a change that needs a route which is not in place.
        `beats`: how to start a batch when all sources are silent. `spark`: where it runs, and
        `stall`: seconds without progress in a batch after which it is given up."""
        self._writer = writer
        #: Spark's own handle; None for a batch job, which is done when `start` returns. Another
        #: one after the pipeline has started itself again.
        self.query = query
        self._launch = launch
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._watching: threading.Thread | None = None
        self._guard: Guard | None = None
        if query is not None and spark is not None:
            self._guard = Guard(spark, self, stall)
            self._guard.start()
        if launch is not None and query is not None:
            self._watching = threading.Thread(target=self._watch, daemon=True)
            self._watching.start()
        self._pulse = None
        if beats is not None and writer.waits:
            self._pulse = Pulse(beats, lambda: writer.due, lambda: self.is_active)

    @property
    def progress(self) -> Progress:
        return self._writer.progress

    def statistics(self) -> dict[str, Any]:
        """Figures of every m-op and of the queries with most matches, as of the last batch."""
        return self._writer.statistics()

    @property
    def suspended(self) -> dict[str, str]:
        """Queries that exceeded their budget of instances, with the reason."""
        return self._writer.suspended

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What was found while it ran that users of queries should know, each once."""
        return self._writer.notices

    @property
    def changes(self) -> tuple[ChangeResult, ...]:
        """What became of the changes that this run has taken, and from which event time they hold."""
        return self._writer.changes

    @property
    def is_active(self) -> bool:
        if self.query is None or self._failure is not None:
            return False
        try:
            return self.query.isActive or self._is_restarting
        except SILENT as silence:
            if self._gone(silence) is None:
                raise
            return False

    @property
    def exception(self) -> BaseException | None:
        """Why the pipeline ended, if it failed."""
        if self._failure is not None or self.query is None:
            return self._failure
        try:
            failure = self.query.exception()
        except SILENT as silence:
            return self._gone(silence) or silence
        return None if failure is None else translated(failure)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the pipeline ends (True) or seconds have passed (False); raises its failure.

        A pipeline whose JVM is gone has ended, and so has one that is stuck (`stall_timeout`).
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.query is not None and self._failure is None:
            left = _SPELL if deadline is None else min(_SPELL, deadline - time.monotonic())
            if left <= 0:
                return False
            try:
                if _awaited(self.query, left) and not self._is_restarting:
                    break
                if self._is_restarting:
                    self._writer.wait_for(lambda _: not self._is_restarting, left)
            except SILENT as silence:
                gone = self._gone(silence)
                if gone is None:
                    raise
                raise gone from silence
        if self._guard is not None:
            self._guard.finish()
        if self._failure is not None:
            raise self._failure
        return True

    def wait_for(self, ready: Callable[[Progress], bool], timeout: float = 60.0) -> bool:
        """Wait until the figures satisfy a condition; False if seconds passed first."""
        return self._writer.wait_for(ready, timeout)

    def stop(self) -> None:
        """Stop between batches where possible; what was committed stays, the rest is replayed."""
        self._stopped.set()
        if self._pulse is not None:
            self._pulse.stop()
        if self._guard is not None:
            self._guard.finish()
        if self._watching is not None:
            self._watching.join()
        if self.query is None or isinstance(self._failure, PipelineError):
            return
        try:
            self.query.stop()
        except SILENT as silence:
            if self._gone(silence) is None:
                raise

    # ---- what may happen to it ----

    def _gone(self, silence: BaseException) -> BaseException | None:
        """Why Spark does not answer, if that is because its JVM is gone."""
        lost = None if self._guard is None else self._guard.jvm.lost(silence)
        if lost is not None and self._failure is None:
            self._failure = lost
        return None if lost is None else self._failure

    @property
    def batches(self) -> int:
        """How many batches have been written."""
        return self.progress.batches

    def give_up(self, failure: PipelineError) -> None:
        """Give the pipeline up: wake waiting threads with the failure, and stop what is left."""
        self._failure = failure
        self._stopped.set()
        LOG.error("%s", failure.render())
        query = self.query
        if query is not None and failure.code != "E417":
            within(STOPPING, query.stop)
        self._writer.wake()

    # ---- starting again ----

    @property
    def _is_restarting(self) -> bool:
        if self._launch is None or self._failure is not None or self._stopped.is_set():
            return False
        failed = self.query is not None and self.query.exception() is not None
        return self._writer.wanted is not None and not failed

    def _watch(self) -> None:
        """Starts the pipeline again when a change needs a route that is not in place."""
        try:
            self._start_again()
        except SILENT as silence:  # the JVM is gone, and the guard says so
            LOG.debug("Spark does not answer: %r", silence)

    def _start_again(self) -> None:
        assert self._launch is not None
        while not self._stopped.wait(_POLL):
            query, wanted = self.query, self._writer.wanted
            if query is None or wanted is None:
                if query is None or not query.isActive:
                    return
                continue
            if query.isActive and not self._launch.is_committed(wanted[0]):
                continue
            if query.exception() is not None:
                return
            try:
                query.stop()
                channels = ", ".join(sorted({name for name, _ in wanted[1]}))
                LOG.info("starting again from the checkpoint, with a route for %s", channels)
                self.query = self._launch(wanted[1])
            except Exception as failure:
                self._failure = failure
            self._writer.restarted()


def _awaited(query: StreamingQuery, seconds: float | None) -> bool:
    try:
        if seconds is None:
            query.awaitTermination()
            return True
        return bool(query.awaitTermination(math.ceil(seconds)))
    except StreamingQueryException as failure:
        raise translated(failure) from failure
