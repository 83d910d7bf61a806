"""Shards: the stateful part of the pipeline, one engine for each share of the events.

What a job gives all shards, what a shard does with the envelopes of a batch, and how what comes
out of it is packed. Which engine that is, and where its state lies, is a matter of `hosting`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.documents import Documents
from braid.algebra.nodes import Read, walk_nodes
from braid.algebra.schema import MICROSECONDS
from braid.algebra.streams import ARRIVAL
from braid.algebra.templates import Members
from braid.distribution.distribution import Distribution, ShardPlan, channels_for
from braid.distribution.document_routes import ValueRoute, is_value_route
from braid.distribution.keys import FEED, WHOLE, channel, split_channel
from braid.documents.reader import DocumentReader
from braid.engine.checksums import reading
from braid.engine.explain.statistics import statistics
from braid.engine.io.ordering import NEVER
from braid.engine.io.results import Emission
from braid.engine.options import ShardOptions
from braid.engine.shard import Shard
from braid.lang import Catalog
from braid.spark.pipeline.control import NAME, Change, open_changes
from braid.spark.pipeline.envelopes import (
    CONTROL,
    HEARTBEAT,
    LATE,
    REFUSED,
    STATS,
    Rows,
    add_results,
    open_events,
    open_payload,
    pieces,
)
from braid.spark.pipeline.ingest import not_before
from braid.spark.pipeline.routing import document_shards
from braid.spark.shards.checkpoint import SavedPlan
from braid.spark.shards.live import Live, Outcome, split_pages

#: What figures show: queries with most matches, m-ops, queries that came or went.
MOST_QUERIES, MOST_MOPS, MOST_CHANGED, MOST_NOTICES = 20, 1_000, 1_000, 100


@dataclass
class HostedShard:
    """A shard and, with a control stream, the queries that come and go on it."""

    shard: Shard
    live: Live | None = None
    #: Figures count from when it was made: they are those of this engine.
    name: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True)
class ShardJob:
    """What all shards of a pipeline run. `saved`: the plan as the checkpoint has it; `catalog`:
    what exists, if queries may come and go; `wanted`: the published streams that some sink takes,
    None if one takes all results."""

    distribution: Distribution
    labels: tuple[int, ...]
    options: ShardOptions
    saved: bytes = b""
    catalog: Catalog | None = None
    wanted: frozenset[str] | None = None
    #: When each run on the checkpoint began, in microseconds, this one last; empty if unknown.
    runs: tuple[int, ...] = ()

    def began(self, now: int) -> int | None:
        """When the run began that made the batch of this time: one that is run again belongs to
        an earlier run, and decides as it did there who was silent."""
        return max((run for run in self.runs if run <= now), default=None)

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

    def fresh(self, label: int) -> HostedShard:
        return self._hosted(label, {}, resumed=False)

    @property
    def are_alike(self) -> bool:
        """Whether all shards run the same queries over the same channels."""
        parts, standing = self.distribution.components, self.distribution.standing
        is_spread = all(part.shard is None and not part.is_split for part in parts)
        names = {name for name, _ in self.distribution.filled}
        by_value = any(is_value_route(split_channel(name)[1]) for name in names)
        return is_spread and not by_value and all(home is None for _, home in standing)

    def restored(self, label: int, pages: dict[str, bytes], plan: bytes | None) -> HostedShard:
        """A shard with the state that was saved; queries of it may have come and gone.

        `plan`: as the store has it; None if this job has written the state itself.
        """
        if plan is not None and plan != self.saved:
            saved = SavedPlan.from_json(plan.decode(errors="replace"))
            saved.check(self.distribution)
            changed = saved.changed(members for members, _ in self.distribution.placed())
            with reading("the page roster"):
                pages["roster"] = _without(pages["roster"], changed)
        return self._hosted(label, pages, resumed=plan is not None and not self.runs)

    def follow(self, hosted: HostedShard, pages: dict[str, bytes]) -> bool:
        """Bring an engine of this job to the state that the job has saved, if it can follow.

        It has run the same queries, so that only its state is another. With a control stream the
        queries themselves may be.
        """
        return hosted.live is None and hosted.shard.follow(pages)

    def _hosted(self, label: int, pages: dict[str, bytes], *, resumed: bool) -> HostedShard:
        plan, live = self.plan(label), None
        queries: Sequence[Members] = plan.queries
        if self.catalog is not None:
            live = Live(self.catalog, self.distribution, self.shard(label), split_pages(pages))
            queries = live.members(plan.queries)
        frame: dict[str, Any] = {
            "channels": plan.channels, "sharable": plan.sharable, "awaited": plan.streams,
        }  # fmt: skip
        options = replace(self.options, share=(self.shard(label), len(self.labels)))
        if pages:
            made = Shard.load(
                pages, queries, plan.streams, options=options, resumed=resumed, **frame
            )
        else:
            made = Shard(queries, plan.streams, options=options, **frame)
        if live is not None:
            live.begin(made)
        return HostedShard(made, live)

    def pack(self, label: int, emission: Emission, rows: Rows) -> None:
        """What came out of a shard as rows for the sinks."""
        for group in emission.groups:
            add_results(rows, group, self.wanted)
        for name, table in emission.late:
            if not self.distribution.shows_late(self.shard(label), name):
                continue
            table = self._late_rows_reported_here(label, name, table)
            for part in pieces(table):
                count = sum(batch.num_rows for batch in part)
                rows.add(LATE, split_channel(name)[0], count, batches=part)

        for name, table in emission.rejected:
            if self._reports_unreadable(label, name):
                stream = split_channel(name)[0]
                rows.add(REFUSED, stream, table.num_rows, batches=table.to_batches())

    def _reports_unreadable(self, label: int, name: str) -> bool:
        """Whether this shard says that texts of a channel are no documents: of a declared stream they
        may come by several channels, and to several shards."""
        stream, route = split_channel(name)
        if not route or stream not in self._unreadable_reporters:
            return True  # published where it is read
        chosen, first = self._unreadable_reporters[stream]
        several = route == WHOLE or channel(stream, WHOLE) in self.distribution.aliases
        return name == chosen and (not several or self.shard(label) == first)

    @cached_property
    def _unreadable_reporters(self) -> dict[str, tuple[str, int]]:
        """Of each stream that is read as documents one channel, and the first shard that does."""
        found: dict[str, tuple[bool, bool, str, int]] = {}
        for shard in range(len(self.labels)):
            for members in channels_for(self.distribution, shard).queries:
                for name in _documents_of(members):
                    stream, route = split_channel(name)
                    place = (route == WHOLE, is_value_route(route), name, shard)
                    found[stream] = min(place, found.get(stream, place))
        return {stream: place[2:] for stream, place in found.items()}

    def _late_rows_reported_here(self, label: int, name: str, table: pa.Table) -> pa.Table:
        """Documents come to several shards: the first of them says that they are late."""
        route = split_channel(name)[1]
        if not is_value_route(route):
            return table
        rows, shards = document_shards(
            table, ValueRoute.parse(route), len(self.labels), DocumentReader()
        )
        _, first = np.unique(rows, return_index=True)
        return table.filter(pa.array(shards[first] == self.shard(label)))

    def pack_changes(self, label: int, outcome: Outcome, rows: Rows) -> None:
        """Changes that are not made: all shards know, one says so."""
        if not outcome.refused or self.shard(label) != 0:
            return
        columns = {
            "stream": [NAME] * len(outcome.refused),
            "reason": [reason for _, reason in outcome.refused],
            "row": [change.shown() for change, _ in outcome.refused],
        }
        part = pa.RecordBatch.from_pydict(columns)
        rows.add(REFUSED, NAME, part.num_rows, batches=[part])


def _documents_of(members: Members) -> set[str]:
    """The channels that queries of a template read as documents."""
    return {
        source.stream
        for output in members.template.outputs
        for node in walk_nodes(output.node)
        if isinstance(node, Documents)
        for source in node.sources
        if isinstance(source, Read)
    }


def _without(roster: bytes, names: frozenset[str]) -> bytes:
    """Queries that mean something else now are new ones."""
    if not names:
        return roster
    with pa.ipc.open_stream(roster) as reader:
        table = reader.read_all()
    known = pc.is_in(table.column("id"), value_set=pa.array(sorted(names), pa.string()))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.filter(pc.invert(known)))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def channels_of_envelope(
    name: str, aliases: Mapping[str, tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """The channels that the events of an envelope are read by: those that are one first."""
    named = tuple(name.split(FEED))
    return [named, *((other,) for first in named for other in aliases.get(first, ()))]


@dataclass
class ShardBatch:
    """The envelopes of one shard in one batch, opened as they come.

    Heartbeats count only after all events: what is late is decided by the time that earlier
    batches had reached, not by the order in which envelopes happen to arrive.
    """

    hosted: HostedShard
    #: Streams whose time is that of the batch: they are never behind it.
    arriving: frozenset[str]
    now: int | None = None
    #: Channels whose events are read under other names, too.
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: When the run began that made a batch of this time.
    began: Callable[[int], int | None] = lambda _: None
    events: int = 0
    envelopes: int = 0

    #: When another batch would release something though no event comes.
    due: int | None = None
    changes: list[Any] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)

    def __post_init__(self) -> None:
        self._beats: dict[str, int | None] = {}

    @property
    def shard(self) -> Shard:
        return self.hosted.shard

    def take(
        self, kind: int, name: str, time: int | None, rows: int, payload: Any, now: int
    ) -> None:
        self.now = now
        if kind == HEARTBEAT:
            self.events += rows
            known = self._beats.get(name)
            self._beats[name] = max((t for t in (known, time) if t is not None), default=None)
            return
        if kind == CONTROL:
            self.changes.append(payload)
            return
        self.envelopes += 1
        arrives = split_channel(name)[0] in self.arriving
        feeds = channels_of_envelope(name, self.aliases)
        for batch in open_events(payload):
            if arrives:
                batch = not_before(batch, self.shard.watermark.get(MICROSECONDS, NEVER))
            for channels in feeds:
                self.shard.accept_shared(channels, batch, now=now)

    def run(self) -> Emission:
        assert self.now is not None
        began = self.began(self.now)
        if began is not None:
            self.shard.listening_since(began)
        for stream in self.arriving:
            latest = max(self.now, self._beats.get(stream) or self.now)
            self._beats[stream] = latest + 1
        for stream, highest in self._beats.items():
            self.shard.observe(stream, highest, now=self.now)
        live = self.hosted.live
        if live is not None:
            changes: list[Change] = open_changes(self.changes)
            self.outcome = live.apply(changes, self.shard)
        emission = self.shard.advance(now=self.now)
        if live is not None:
            live.remove_expired(self.shard)
        self.due = self.shard.due(now=self.now)
        return emission


def add_stats(
    rows: Rows,
    shard: int | str,
    numbers: dict[str, int],
    suspended: dict[str, str],
    hosted: HostedShard,
    outcome: Outcome | None = None,
    due: int | None = None,
) -> None:
    """Figures travel with the results, in the same pass."""
    watermarks = hosted.shard.watermark
    figures = statistics(hosted.shard, most=MOST_QUERIES)
    figures["mops"] = figures["mops"][:MOST_MOPS]
    said: dict[str, Any] = {
        "shard": shard,
        "engine": hosted.name,
        "numbers": numbers,
        "due": due,
        "suspended": suspended,
        "watermarks": {clock: time for clock, time in watermarks.items() if time > NEVER},
        "statistics": figures,
        "notices": [astuple(notice) for notice in hosted.shard.notices[-MOST_NOTICES:]],
    }
    if outcome is not None and hosted.live is not None:
        said["suspended"] = {**suspended, **outcome.lost}
        if shard == 0:
            said["changes"] = _changes(hosted.live, outcome)
    part = pa.RecordBatch.from_pydict({"stats": [json.dumps(said)]})
    rows.add(STATS, None, 1, batches=[part])


def _changes(live: Live, outcome: Outcome) -> dict[str, Any]:
    return {
        "applied": outcome.applied,
        "refused": len(outcome.refused),
        "wanted": sorted(outcome.wanted, key=str),
        "added": list(live.added)[-MOST_CHANGED:],
        "dropped": [*live.dropped, *live.ending][-MOST_CHANGED:],
        "waiting": [change.id for change in live.waiting][-MOST_CHANGED:],
        "taken": [taken.to_json() for taken in outcome.taken],
    }


def open_stats(batches: Sequence[Any]) -> list[dict[str, Any]]:
    """The stats of the payloads of STATS rows."""
    return [
        json.loads(text)
        for payload in batches
        for part in open_payload(bytes(payload))
        for text in part.column("stats").to_pylist()
    ]
