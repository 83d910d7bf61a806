"""A pipeline at work: what it has done so far, how to wait for it and how to stop it."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from braid.errors import BraidError, CheckpointError, ConfigError
from braid.spark import emit
from braid.spark.envelopes import LATE, REFUSED, RESULT, STATS
from braid.spark.shards import suspended_and_numbers
from braid.spark.sinks import Sink


@dataclass(frozen=True)
class Progress:
    """Figures of a run: totals since it was started, and those of the last batch."""

    batch: int = -1
    batches: int = 0
    events: int = 0
    matches: int = 0
    late: int = 0
    rejected: int = 0
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


Outputs = Mapping[str, tuple[Callable[[DataFrame], DataFrame], Sink]]


class BatchWriter:
    """Writes every output of one batch from one computation of it."""

    def __init__(self, outputs: Outputs, on_progress: Callable[[Progress], None] | None) -> None:
        self._outputs = outputs
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._progress = Progress()
        self._suspended: dict[str, str] = {}
        self._failure: BaseException | None = None

    @property
    def progress(self) -> Progress:
        with self._lock:
            return self._progress

    @property
    def suspended(self) -> dict[str, str]:
        with self._lock:
            return dict(self._suspended)

    def wait_for(self, ready: Callable[[Progress], bool], timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: ready(self._progress), timeout)

    def __call__(self, packed: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        packed.persist()
        try:
            rows = emit.figures(packed).collect()
            counts = _counts(rows)
            for name, (view, sink) in self._outputs.items():
                # Only the first batch can be a replay of one that was written before, perhaps
                # with other queries: that one is replaced even by nothing.
                if counts.get(name, 0) or self.progress.batches == 0:
                    sink.write(view(packed), batch_id)
        finally:
            packed.unpersist()
        self._count(batch_id, rows, time.monotonic() - began)

    def _count(self, batch_id: int, rows: list[Any], seconds: float) -> None:
        stats = suspended_and_numbers([r.payload for r in rows if r.kind == STATS])
        counts = _counts(rows)
        numbers: dict[str, int] = {}
        for shard in stats:
            for name, value in shard["numbers"].items():
                numbers[name] = numbers.get(name, 0) + value
        events = numbers.get("events", 0)
        with self._changed:
            for shard in stats:
                self._suspended.update(shard["suspended"])
            old = self._progress
            self._progress = replace(
                old,
                batch=batch_id,
                batches=old.batches + 1,
                events=old.events + events,
                matches=old.matches + counts["matches"],
                late=old.late + counts["late"],
                rejected=old.rejected + counts["rejected"],
                restored=old.restored + numbers.get("restored", 0),
                events_per_second=events / seconds if seconds else 0.0,
                saved_bytes=numbers.get("saved_bytes", 0),
                instances=numbers.get("instances", 0),
                shards=len({shard["shard"] for shard in stats}),
                watermarks=_watermarks(stats) or old.watermarks,
                numbers=numbers,
                by_stream=counts,
            )
            self._changed.notify_all()
        if self._on_progress is not None:
            self._on_progress(self.progress)


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


class Running:
    """What `Session.start` returns."""

    def __init__(self, writer: BatchWriter, query: StreamingQuery | None) -> None:
        self._writer = writer
        #: Spark's own handle; None for a batch job, which is done when `start` returns.
        self.query = query

    @property
    def progress(self) -> Progress:
        return self._writer.progress

    @property
    def suspended(self) -> dict[str, str]:
        """Queries that exceeded their budget of instances, with the reason."""
        return self._writer.suspended

    @property
    def is_active(self) -> bool:
        return self.query is not None and self.query.isActive

    @property
    def exception(self) -> BaseException | None:
        """Why the pipeline ended, if it failed."""
        failure = self.query.exception() if self.query is not None else None
        return None if failure is None else translated(failure)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the pipeline ends (True) or seconds have passed (False); raises its failure."""
        if self.query is None:
            return True
        try:
            if timeout is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(math.ceil(timeout)))
        except StreamingQueryException as failure:
            raise translated(failure) from failure

    def wait_for(self, ready: Callable[[Progress], bool], timeout: float = 60.0) -> bool:
        """Wait until the figures satisfy a condition; False if seconds passed first."""
        return self._writer.wait_for(ready, timeout)

    def stop(self) -> None:
        """Stop between batches where possible; what was committed stays, the rest is replayed."""
        if self.query is not None:
            self.query.stop()


_OWN = re.compile(r"error\[(E4\d\d)\]: (.*?)(?:\n\s+(\S.*?))?(?:\n|$)")


def translated(failure: BaseException) -> BaseException:
    """Braid's own error if one is the cause: Spark shows it inside a Java stack trace."""
    found = _OWN.search(str(failure))
    if found is None:
        return failure
    kind: type[BraidError] = CheckpointError if found[1].startswith("E41") else ConfigError
    return kind(found[1], found[2], found[3])
