"""Shards: the stateful part of the pipeline, one engine for each share of the events.

In a streaming job a shard is a group of Spark's `transformWithState`; its pages live in the
state store, and Spark decides with its checkpoint which version of them is the true one. A
worker keeps the engines that it ran, because loading one costs more than a small batch. Such a
live engine is used only if it is exactly what the store has: every run writes a fresh token
beside the pages, and an engine is kept under the token it wrote. A batch that is run again after
a failure, or by another worker, finds another token and loads from the store.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor

from braid.algebra.schema import MICROSECONDS
from braid.engine.ordering import NEVER
from braid.engine.shard import Emission, Options, Shard
from braid.plan.distribution import Distribution, ShardPlan, channels_for
from braid.plan.keys import split_channel
from braid.spark.checkpoint import SavedPlan
from braid.spark.envelopes import (
    EVENTS,
    HEARTBEAT,
    LATE,
    PACKED,
    REFUSED,
    REJECTED,
    RESULT,
    STATS,
    Rows,
    open_events,
    open_payload,
    pieces,
)
from braid.spark.ingest import ARRIVAL, not_before
from braid.spark.shipping import Shipped

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import (
        StatefulProcessorHandle,
        TimerValues,
    )

#: Live engines that a worker process keeps.
MAX_LIVE = 32

#: The page that says how the shard's state was distributed; the others are the engine's.
PLAN_PAGE = "~plan"

#: The page that says which run wrote the state: time that passed between runs makes nobody idle.
RUN_PAGE = "~run"

#: In a batch job: events that are gathered before the engine runs.
RUN_ROWS = 1_000_000

_LIVE: OrderedDict[tuple[str, int], tuple[str, Shard]] = OrderedDict()


@dataclass(frozen=True)
class ShardJob:
    """What all shards of a pipeline run."""

    distribution: Distribution
    labels: tuple[int, ...]
    options: Options

    @property
    def arriving(self) -> frozenset[str]:
        streams = self.distribution.streams
        return frozenset(
            name for name in self.distribution.read_streams if streams[name].time == (ARRIVAL,)
        )

    def shard(self, label: int) -> int:
        return self.labels.index(label)

    def plan(self, label: int) -> ShardPlan:
        return channels_for(self.distribution, self.shard(label))

    def fresh(self, label: int) -> Shard:
        plan = self.plan(label)
        return Shard(
            plan.queries,
            plan.streams,
            channels=plan.channels,
            awaited=plan.streams,
            options=self.options,
        )

    def restored(self, label: int, pages: dict[str, bytes], *, resumed: bool) -> Shard:
        plan = self.plan(label)
        return Shard.load(
            pages,
            plan.queries,
            plan.streams,
            channels=plan.channels,
            awaited=plan.streams,
            options=self.options,
            resumed=resumed,
        )

    def pack(self, label: int, emission: Emission, rows: Rows) -> None:
        """What came out of a shard as rows for the sinks."""
        for result in emission.results:
            for part in pieces(result.table):
                count = sum(batch.num_rows for batch in part)
                rows.add(RESULT, result.query, result.stream, count, batches=part)
        for name, table in emission.late:
            if not self.distribution.shows_late(self.shard(label), name):
                continue
            for part in pieces(table):
                count = sum(batch.num_rows for batch in part)
                rows.add(LATE, None, split_channel(name)[0], count, batches=part)


@dataclass
class Arrivals:
    """The envelopes of one shard in one batch, opened as they come.

    Heartbeats count only after all events: what is late is decided by the time that earlier
    batches had reached, not by the order in which envelopes happen to arrive.
    """

    shard: Shard
    #: Streams whose time is that of the batch: they are never behind it.
    arriving: frozenset[str]
    now: int | None = None
    events: int = 0
    envelopes: int = 0

    def __post_init__(self) -> None:
        self._beats: dict[str, int | None] = {}

    def take(
        self, kind: int, name: str, time: int | None, rows: int, payload: Any, now: int
    ) -> None:
        self.now = now
        if kind == HEARTBEAT:
            self.events += rows
            known = self._beats.get(name)
            self._beats[name] = max((t for t in (known, time) if t is not None), default=None)
            return
        self.envelopes += 1
        arrives = split_channel(name)[0] in self.arriving
        for batch in open_events(payload):
            if arrives:
                batch = not_before(batch, self.shard.watermark.get(MICROSECONDS, NEVER))
            self.shard.accept(name, batch, now=now)

    def run(self) -> Emission:
        assert self.now is not None
        for stream in self.arriving:
            latest = max(self.now, self._beats.get(stream) or self.now)
            self._beats[stream] = latest + 1
        for stream, highest in self._beats.items():
            self.shard.observe(stream, highest, now=self.now)
        return self.shard.advance(now=self.now)


class ShardProcessor(StatefulProcessor):
    """The shards of a streaming job, on the state store."""

    def __init__(self, job: Shipped[ShardJob]) -> None:
        self._job = job

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._token = handle.getValueState("token", "token string")
        self._pages = handle.getMapState("pages", "name string", "page binary")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        (label,) = key
        label = int(label)
        shard, is_live = self._shard(label)
        arrivals = Arrivals(shard, self._job.open().arriving)
        out = Rows(PACKED)
        for frame in rows:
            for kind, name, time, count, payload, now in _envelopes(frame):
                if kind == REJECTED:
                    out.add(REFUSED, None, name, count, batches=open_payload(payload))
                else:
                    arrivals.take(kind, name, time, count, payload, now)
        emission = arrivals.run()
        job = self._job.open()
        job.pack(label, emission, out)
        saved = self._save(label, shard, with_plan=not is_live)
        numbers = {
            **emission.stats,
            "events": arrivals.events,
            "envelopes": arrivals.envelopes,
            "saved_bytes": saved,
            "restored": 0 if is_live else 1,
        }
        add_stats(out, job.shard(label), numbers, emission.suspended, shard.watermark)
        yield out.batch().to_pandas()

    def _shard(self, label: int) -> tuple[Shard, bool]:
        """The engine in the state that the store has, and whether it was alive."""
        stored = self._token.get() if self._token.exists() else None
        # Taken out: should this run fail, what it did to the engine must not be seen again.
        token, shard = _LIVE.pop((self._job.id, label), ("", None))
        if shard is not None and stored is not None and stored[0] == token:
            return shard, True
        job = self._job.open()
        if stored is None:
            return job.fresh(label), False
        names = [name for (name,) in list(self._pages.keys())]
        values = {name: self._pages.getValue((name,)) for name in names}
        pages = {name: bytes(value[0]) for name, value in values.items() if value is not None}
        saved = SavedPlan.from_json(zlib.decompress(pages.pop(PLAN_PAGE)).decode())
        saved.check(job.distribution)
        resumed = pages.pop(RUN_PAGE, b"").decode() != self._job.id
        return job.restored(label, pages, resumed=resumed), False

    def _save(self, label: int, shard: Shard, *, with_plan: bool) -> int:
        """Write what changed and the token that belongs to it; how many bytes that was."""
        delta = shard.save()
        token = uuid.uuid4().hex
        puts = dict(delta.puts)
        if with_plan:
            plan = SavedPlan.of(self._job.open().distribution).to_json()
            puts[PLAN_PAGE] = zlib.compress(plan.encode())
            puts[RUN_PAGE] = self._job.id.encode()
        for name in delta.removals:
            self._pages.removeKey((name,))
        for name, page in puts.items():
            self._pages.updateValue((name,), (page,))
        self._token.update((token,))
        _LIVE[self._job.id, label] = (token, shard)
        while len(_LIVE) > MAX_LIVE:
            _LIVE.popitem(last=False)
        return sum(len(page) for page in puts.values())

    def close(self) -> None:
        pass


def _envelopes(frame: pd.DataFrame) -> Iterator[tuple[int, str, int | None, int, Any, int]]:
    columns = (frame[c] for c in ("kind", "channel", "time", "rows", "payload", "now"))
    for kind, name, time, rows, payload, now in zip(*columns, strict=True):
        yield int(kind), name, None if pd.isna(time) else int(time), int(rows), payload, int(now)


def add_stats(
    rows: Rows,
    shard: int,
    numbers: dict[str, int],
    suspended: dict[str, str],
    watermarks: dict[str, int],
) -> None:
    """Figures travel with the results, in the same pass."""
    reached = {clock: time for clock, time in watermarks.items() if time > NEVER}
    text = json.dumps(
        {"shard": shard, "numbers": numbers, "suspended": suspended, "watermarks": reached}
    )
    part = pa.RecordBatch.from_pydict({"stats": [text]})
    rows.add(STATS, None, None, 1, batches=[part])


class BatchShards:
    """The shards of a batch job: envelopes come sorted by the lowest time in them.

    When one arrives whose lowest time is t, everything before t is there. So time can follow the
    envelopes, nothing is late, and a shard holds only what overlaps in the files.
    """

    def __init__(self, job: Shipped[ShardJob]) -> None:
        self._job = job

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run: _BatchRun | None = None
        for batch in batches:
            columns = [batch.column(n) for n in ("shard", "kind", "channel", "time", "now")]
            payloads = batch.column("payload")
            for i, values in enumerate(zip(*(c.to_pylist() for c in columns), strict=True)):
                label, kind, name, time, now = values
                if run is not None and run.label != label:
                    yield run.finish()
                    run = None
                run = run or _BatchRun(self._job.open(), label)
                yield from run.take(kind, name, time, now, payloads[i].as_buffer())
        if run is not None:
            yield run.finish()


class _BatchRun:
    """One shard of a batch job from its first envelope to its end."""

    def __init__(self, job: ShardJob, label: int) -> None:
        self.label = label
        self._job = job
        self._shard = job.fresh(label)
        self._waiting = 0
        self._total = 0

    def take(
        self, kind: int, name: str, time: int | None, now: int, payload: pa.Buffer
    ) -> Iterator[pa.RecordBatch]:
        out = Rows(PACKED)
        if kind == REJECTED:
            parts = open_payload(payload)
            out.add(REFUSED, None, name, sum(p.num_rows for p in parts), batches=parts)
            yield out.batch()
            return
        assert kind == EVENTS
        if time is not None and self._waiting >= RUN_ROWS:
            self._follow(time, split_channel(name)[0], now)
            self._job.pack(self.label, self._shard.advance(now=now), out)
            self._waiting = 0
            yield out.batch()
        for part in open_events(payload):
            self._shard.accept(name, part, now=now)
            self._waiting += part.num_rows
            self._total += part.num_rows

    def _follow(self, time: int, stream: str, now: int) -> None:
        """Every stream with the same clock has nothing older than `time` any more."""
        streams = self._job.distribution.streams
        for name in self._job.distribution.read_streams:
            if streams[name].unit == streams[stream].unit:
                self._shard.observe(name, time + streams[name].lateness, now=now)

    def finish(self) -> pa.RecordBatch:
        out = Rows(PACKED)
        emission = self._shard.finish()
        self._job.pack(self.label, emission, out)
        numbers = {**emission.stats, "events": self._total}
        add_stats(
            out, self._job.shard(self.label), numbers, emission.suspended, self._shard.watermark
        )
        return out.batch()


def suspended_and_numbers(batches: Sequence[Any]) -> list[dict[str, Any]]:
    """The stats of the payloads of STATS rows."""
    return [
        json.loads(text)
        for payload in batches
        for part in open_payload(bytes(payload))
        for text in part.column("stats").to_pylist()
    ]
