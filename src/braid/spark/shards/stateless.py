"""Queries without state: ingest, engine and packing in one task, with no shuffle and no shard.

Nothing has to wait for time here, so nothing is held and nothing is late. A worker process plans
the queries once and uses that for every batch of rows of every task.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from braid.distribution.distribution import Distribution, channels_for
from braid.distribution.keys import split_channel
from braid.engine.io.ingest import Ingest
from braid.engine.options import ShardOptions
from braid.engine.shard import Shard
from braid.spark.pipeline.envelopes import PACKED, REFUSED, Rows, add_results
from braid.spark.pipeline.ingest import spaced
from braid.spark.pipeline.shipping import Shipped, settle
from braid.spark.shards.shards import HostedShard, add_stats


@dataclass(frozen=True)
class StatelessPlan:
    """All queries, planned where they are used, once in a process."""

    distribution: Distribution
    options: ShardOptions
    #: The published streams that some sink takes; None if one takes all results.
    wanted: frozenset[str] | None = None

    @cached_property
    def shard(self) -> Shard:
        plan = channels_for(self.distribution, 0)
        return Shard(
            plan.queries, plan.streams,
            channels=plan.channels, sharable=plan.sharable, options=self.options,
        )  # fmt: skip


@dataclass(frozen=True)
class StatelessJob:
    """All stateless queries over the rows of one source: events of these streams."""

    plan: Shipped[StatelessPlan]
    streams: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = self.plan.open()
        if not set(self.streams) & set(plan.distribution.read_streams):
            for _ in batches:
                pass
            return
        ingest = Ingest(plan.distribution.streams[self.streams[0]])
        seen = failed = 0
        for batch in batches:
            ingested = ingest(spaced(batch, seen))
            seen += batch.num_rows
            rows = Rows(PACKED)
            if ingested.rejected is not None and ingested.rejected.num_rows:
                parts = ingested.rejected.to_batches()
                rows.add(REFUSED, self.streams[0], ingested.rejected.num_rows, batches=parts)
                plan.shard.reports.reject(ingested.rejected)
            if ingested.events.num_rows:
                failed += self._run(plan, ingested.events, rows)
            if len(rows):
                yield rows.batch()
        rows = Rows(PACKED)
        # Workers, not shards: each tells what it has done so far.
        worker = f"worker {os.getpid()}"
        hosted = HostedShard(plan.shard, name=f"{worker} {self.plan.id}")
        add_stats(rows, worker, {"events": seen, "failed_calls": failed}, {}, hosted)
        yield rows.batch()
        settle(self.plan.id)

    def _run(self, plan: StatelessPlan, events: pa.RecordBatch, rows: Rows) -> int:
        """Answer events; how many calls of functions had no value."""
        failed = 0
        routes: dict[str, list[str]] = {}
        for name in plan.shard.plan.sources:
            stream, route = split_channel(name)
            if stream in self.streams:
                routes.setdefault(route, []).append(name)
        for names in routes.values():
            emission = plan.shard.answer(names, events)
            failed += emission.stats["failed_calls"]
            for group in emission.groups:
                add_results(rows, group, plan.wanted)
        return failed
