"""The pipeline: from the users' DataFrames to packed results, streaming or as one batch."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from braid.algebra.streams import ARRIVAL
from braid.distribution.distribution import Distribution
from braid.engine.io.ingest import Ingest
from braid.engine.options import ShardOptions
from braid.lang import Catalog
from braid.spark.environment import shard_labels
from braid.spark.pipeline.beats import BeatJob, Beats
from braid.spark.pipeline.control import ControlJob, control_columns
from braid.spark.pipeline.envelopes import ENVELOPE_SQL, PACKED_SQL
from braid.spark.pipeline.ingest import IngestJob
from braid.spark.pipeline.shipping import Shipped
from braid.spark.shards.batch import BatchShards
from braid.spark.shards.checkpoint import SavedPlan
from braid.spark.shards.processor import ShardProcessor
from braid.spark.shards.shards import ShardJob
from braid.spark.shards.stateless import StatelessJob, StatelessPlan

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Pipeline:
    """One pass over the sources for all queries."""

    distribution: Distribution
    #: The sources, by the streams that their events are of.
    frames: Mapping[tuple[str, ...], DataFrame]
    options: ShardOptions
    #: Whether to keep the stateful form without need, because the checkpoint has it.
    stateful: bool = False
    #: The changes while it runs, and the catalog that they are bound against.
    control: DataFrame | None = None
    catalog: Catalog | None = None
    #: What starts a batch when all sources are silent, and when runs on this checkpoint began.
    beats: Beats | None = None
    runs: tuple[int, ...] = ()
    #: The published streams that some sink takes; None if one takes all results.
    wanted: frozenset[str] | None = None
    #: Workers keep live engines by this name; the same when a pipeline is started again.
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def is_streaming(self) -> bool:
        return any(frame.isStreaming for frame in self.frames.values())

    @property
    def has_state(self) -> bool:
        stateful = self.stateful or self.control is not None
        return stateful or not self.distribution.is_stateless

    @property
    def has_beats(self) -> bool:
        """Whether it can wait for time. Without state, it holds nothing."""
        return self.beats is not None and self.is_streaming and self.has_state

    @cached_property
    def saved(self) -> SavedPlan:
        """The plan as a checkpoint has it."""
        control = self.control is not None
        return SavedPlan.of(
            self.distribution,
            stateful=self.has_state,
            control=control,
            options=self.options,
            sources=self.frames,
            beats=self.has_beats,
        )

    def packed(self) -> DataFrame:
        """All output, as rows of `envelopes.PACKED`."""
        if not self.has_state:
            return self._stateless()
        return self._streaming() if self.is_streaming else self._batch()

    def _sources(self) -> list[tuple[tuple[str, ...], DataFrame]]:
        """The sources by their streams, the same in every run: Spark knows them by their order.

        In a streaming job also those that no query reads, so that a query that does can be added
        to the checkpoint later.
        """
        found = sorted(self.frames)
        if not self.is_streaming:
            read = set(self.distribution.read_streams)
            found = [streams for streams in found if read & set(streams)]
        return [(streams, self._columns(streams, self.frames[streams])) for streams in found]

    def _stateless(self) -> DataFrame:
        """One pass without a shuffle: a result depends on one event."""
        plan = Shipped(StatelessPlan(self.distribution, self.options, self.wanted))
        parts = []
        for streams, columns in self._sources():
            job = StatelessJob(plan, streams)
            parts.append(columns.mapInArrow(_running(job), PACKED_SQL))
        return reduce(DataFrame.unionAll, parts)

    def _envelopes(self, labels: tuple[int, ...]) -> DataFrame:
        parts = []
        known = self.distribution.routes
        for streams, columns in self._sources():
            routes = {name: known[name] for name in streams if name in known}
            ingest = Ingest(self.distribution.streams[streams[0]])
            job = IngestJob(ingest, routes, labels, self.is_streaming)
            parts.append(columns.mapInArrow(_running(job), ENVELOPE_SQL))
        if self.control is not None:
            changes = control_columns(self.control)
            parts.append(changes.mapInArrow(_running(ControlJob(labels)), ENVELOPE_SQL))
        if self.beats is not None and self.has_beats:
            parts.append(self.beats.source().mapInArrow(_running(BeatJob(labels)), ENVELOPE_SQL))
        # The time of the batch, not of the task: the same on every shard, and when it is replayed.
        return reduce(DataFrame.unionAll, parts).withColumn(
            "now", F.unix_micros(F.current_timestamp())
        )

    def _columns(self, streams: tuple[str, ...], frame: DataFrame) -> DataFrame:
        stream = self.distribution.streams[streams[0]]
        if stream.time == (ARRIVAL,):
            frame = frame.withColumn(ARRIVAL, F.current_timestamp())
        if set(streams) & set(self.distribution.read_streams):
            names = list(stream.columns.names)
        else:
            names = list(stream.time)
        return frame.select([F.col(f"`{name.replace('`', '``')}`") for name in names])

    def _labels(self) -> tuple[int, ...]:
        return tuple(shard_labels(self.distribution.shards))

    def _job(self, labels: tuple[int, ...]) -> Shipped[ShardJob]:
        saved = self.saved.to_json().encode()
        catalog = self.catalog if self.control is not None else None
        # All data of a batch job are present, so no stream is silent.
        user = (
            self.options.user
            if self.is_streaming
            else replace(self.options.user, idle_timeout=None)
        )
        options = replace(self.options, user=user)
        job = ShardJob(self.distribution, labels, options, saved, catalog, self.wanted, self.runs)
        return Shipped(job)

    def _streaming(self) -> DataFrame:
        labels = self._labels()
        groups = self._envelopes(labels).groupBy("shard")
        return groups.transformWithStateInPandas(
            statefulProcessor=ShardProcessor(self._job(labels), self.name),
            outputStructType=PACKED_SQL,
            outputMode="append",
            timeMode="none",
        )

    def _batch(self) -> DataFrame:
        labels = self._labels()
        sorted_envelopes = (
            self._envelopes(labels)
            .repartition(self.distribution.shards, "shard")
            .sortWithinPartitions("shard", "time")
        )
        shards = BatchShards(self._job(labels))
        return sorted_envelopes.mapInArrow(lambda batches: shards(batches), PACKED_SQL)


def _running(job: BatchFunction) -> BatchFunction:
    return lambda batches: job(batches)
