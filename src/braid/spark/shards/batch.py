"""The shards of a batch job: no state store, no heartbeats, one pass in the order of time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from braid.distribution.keys import split_channel
from braid.spark.pipeline.control import open_changes
from braid.spark.pipeline.envelopes import (
    CONTROL,
    EVENTS,
    PACKED,
    REFUSED,
    REJECTED,
    Rows,
    open_events,
    open_payload,
)
from braid.spark.pipeline.shipping import Shipped
from braid.spark.shards.live import Outcome
from braid.spark.shards.shards import ShardJob, add_stats, channels_of_envelope

#: Events that are gathered before the engine runs.
RUN_ROWS = 1_000_000


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
        self._hosted = job.fresh(label)
        self._shard = self._hosted.shard
        self._changes: list[pa.Buffer] = []
        self._outcome = Outcome()
        self._waiting = 0
        self._total = 0

    def take(
        self, kind: int, name: str, time: int | None, now: int, payload: pa.Buffer
    ) -> Iterator[pa.RecordBatch]:
        out = Rows(PACKED)
        if kind == REJECTED:
            parts = open_payload(payload)
            out.add(REFUSED, name, sum(p.num_rows for p in parts), batches=parts)
            yield out.batch()
            return
        if kind == CONTROL:
            self._changes.append(payload)
            return
        assert kind == EVENTS
        self._change()
        if time is not None and self._waiting >= RUN_ROWS:
            self._follow(time, split_channel(name)[0], now)
            self._job.pack(self.label, self._shard.advance(now=now), out)
            self._waiting = 0
            yield out.batch()
        feeds = channels_of_envelope(name, self._job.distribution.aliases)
        for part in open_events(payload):
            for channels in feeds:
                self._shard.accept_shared(channels, part, now=now)
            self._waiting += part.num_rows
            self._total += part.num_rows

    def _change(self) -> None:
        """Changes have no time of arrival here: they are made before the first event."""
        live = self._hosted.live
        if live is not None and self._changes:
            changes, self._changes = open_changes(self._changes), []
            self._outcome = live.apply(changes, self._shard)

    def _follow(self, time: int, stream: str, now: int) -> None:
        """Every stream with the same clock has nothing older than `time` any more."""
        streams = self._job.distribution.streams
        for name in self._job.distribution.read_streams:
            if streams[name].unit == streams[stream].unit:
                self._shard.observe(name, time + streams[name].lateness, now=now)

    def finish(self) -> pa.RecordBatch:
        out = Rows(PACKED)
        self._change()
        emission = self._shard.finish()
        self._job.pack(self.label, emission, out)
        self._job.pack_changes(self.label, self._outcome, out)
        numbers = {**emission.stats, **self._shard.sizes, "events": self._total}
        number = self._job.shard(self.label)
        add_stats(out, number, numbers, emission.suspended, self._hosted, self._outcome)
        return out.batch()
