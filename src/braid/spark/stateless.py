"""Queries without state: ingest, engine and packing in one task, with no shuffle and no shard.

Nothing has to wait for time here, so nothing is held and nothing is late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from braid.engine.ingest import Ingest
from braid.engine.shard import Options, Shard
from braid.plan.distribution import Distribution, channels_for
from braid.plan.keys import split_channel
from braid.spark.envelopes import PACKED, REFUSED, RESULT, Rows, pieces
from braid.spark.ingest import spaced
from braid.spark.shards import add_stats


@dataclass(frozen=True)
class StatelessJob:
    """All stateless queries over the rows of one stream."""

    distribution: Distribution
    stream: str
    options: Options

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self.stream not in self.distribution.read_streams:
            for _ in batches:
                pass
            return
        ingest = Ingest(self.distribution.streams[self.stream])
        seen = 0
        for batch in batches:
            ingested = ingest(spaced(batch, seen))
            seen += batch.num_rows
            rows = Rows(PACKED)
            if ingested.rejected is not None and ingested.rejected.num_rows:
                parts = ingested.rejected.to_batches()
                rows.add(REFUSED, None, self.stream, ingested.rejected.num_rows, batches=parts)
            if ingested.events.num_rows:
                self._run(ingested.events, rows)
            if len(rows):
                yield rows.batch()
        rows = Rows(PACKED)
        add_stats(rows, 0, {"events": seen}, {}, {})
        yield rows.batch()

    def _run(self, events: pa.RecordBatch, rows: Rows) -> None:
        plan = channels_for(self.distribution, 0)
        shard = Shard(plan.queries, plan.streams, channels=plan.channels, options=self.options)
        for name in plan.channels:
            if split_channel(name)[0] == self.stream:
                shard.accept(name, events, now=0)
        for result in shard.finish().results:
            for part in pieces(result.table):
                count = sum(piece.num_rows for piece in part)
                rows.add(RESULT, result.query, result.stream, count, batches=part)
