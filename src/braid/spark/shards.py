"""Shards: the stateful part of the pipeline, one engine for each share of the events.

In a streaming job a shard is a group of Spark's `transformWithState`; its pages live in the
state store, and Spark decides with its checkpoint which version of them is the true one. A
worker keeps the engines that it ran, because loading one costs more than a small batch. Such a
live engine is used only if it is exactly what the store has: every run writes a fresh token
beside the pages, and an engine is kept under the token it wrote. A batch that is run again after
a failure, or by another worker, finds another token and loads from the store. An engine that fell
behind because another worker had the shard meanwhile keeps what it knows of the queries, which is
what takes long to make, and takes its state from the store.
"""

from __future__ import annotations

import json
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.schema import MICROSECONDS
from braid.algebra.templates import Members
from braid.engine.ordering import NEVER
from braid.engine.results import Emission
from braid.engine.shard import Options, Shard
from braid.engine.statistics import statistics
from braid.lang import Catalog
from braid.plan.distribution import Distribution, ShardPlan, channels_for
from braid.plan.keys import split_channel
from braid.spark.checkpoint import SavedPlan
from braid.spark.control import NAME, Change, open_changes
from braid.spark.envelopes import (
    CONTROL,
    HEARTBEAT,
    LATE,
    PACKED,
    REFUSED,
    REJECTED,
    STATS,
    Rows,
    add_results,
    open_events,
    open_payload,
    pieces,
)
from braid.spark.ingest import ARRIVAL, not_before
from braid.spark.live import Live, Outcome, split_pages
from braid.spark.shipping import Shipped, settle

#: Live engines that a worker process keeps.
MAX_LIVE = 32

#: The pages that say how the shard's state was distributed; the others are the engine's.
PLAN_PAGE = "~plan/"
PLAN_BYTES = 1 << 20

#: The page that says which run wrote the state: time that passed between runs makes nobody idle.
RUN_PAGE = "~run"

#: What figures show: queries with most matches, m-ops, queries that came or went.
MOST_QUERIES, MOST_MOPS, MOST_CHANGED = 20, 1_000, 1_000


@dataclass
class Hosted:
    """A shard and, with a control stream, the queries that come and go on it."""

    shard: Shard
    live: Live | None = None


#: By pipeline and shard: the job that ran there last, the token that it wrote, and the engine.
_LIVE: OrderedDict[tuple[str, int], tuple[str, str, Hosted]] = OrderedDict()


@dataclass(frozen=True)
class ShardJob:
    """What all shards of a pipeline run. `saved`: the plan as the checkpoint has it; `catalog`:
    what exists, if queries may come and go."""

    distribution: Distribution
    labels: tuple[int, ...]
    options: Options
    saved: bytes = b""
    catalog: Catalog | None = None

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

    def fresh(self, label: int) -> Hosted:
        return self._hosted(label, {}, resumed=False)

    def restored(self, label: int, pages: dict[str, bytes], *, resumed: bool) -> Hosted:
        """A shard with the state that was saved; queries of it may have come and gone."""
        page = _take_plan(pages)
        if page != self.saved:
            saved = SavedPlan.from_json(page.decode())
            saved.check(self.distribution)
            changed = saved.changed(members for members, _ in self.distribution.placed())
            pages["roster"] = _without(pages["roster"], changed)
        return self._hosted(label, pages, resumed=resumed)

    def follow(self, hosted: Hosted, pages: dict[str, bytes], *, resumed: bool) -> bool:
        """Bring an engine that fell behind to the state that was saved, if it can follow.

        It has run the same queries of the same job, so that only its state is out of date. With a
        control stream the queries themselves may be.
        """
        if hosted.live is not None or _take_plan(pages) != self.saved:
            return False
        return hosted.shard.follow(pages, resumed=resumed)

    def _hosted(self, label: int, pages: dict[str, bytes], *, resumed: bool) -> Hosted:
        plan, live = self.plan(label), None
        queries: Sequence[Members] = plan.queries
        if self.catalog is not None:
            live = Live(self.catalog, self.distribution, self.shard(label), split_pages(pages))
            queries = live.members(plan.queries)
        channels, awaited, options = plan.channels, plan.streams, self.options
        if pages:
            made = Shard.load(
                pages, queries, plan.streams,
                channels=channels, awaited=awaited, options=options, resumed=resumed,
            )  # fmt: skip
        else:
            made = Shard(queries, plan.streams, channels=channels, awaited=awaited, options=options)
        if live is not None:
            live.begin(made)
        return Hosted(made, live)

    def pack(self, label: int, emission: Emission, rows: Rows) -> None:
        """What came out of a shard as rows for the sinks."""
        for group in emission.groups:
            add_results(rows, group)
        for name, table in emission.late:
            if not self.distribution.shows_late(self.shard(label), name):
                continue
            for part in pieces(table):
                count = sum(batch.num_rows for batch in part)
                rows.add(LATE, split_channel(name)[0], count, batches=part)

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


def _take_plan(pages: dict[str, bytes]) -> bytes:
    """Take the pages of the plan out of a shard's."""
    count = sum(name.startswith(PLAN_PAGE) for name in pages)
    return b"".join(pages.pop(f"{PLAN_PAGE}{i}") for i in range(count))


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


@dataclass
class Arrivals:
    """The envelopes of one shard in one batch, opened as they come.

    Heartbeats count only after all events: what is late is decided by the time that earlier
    batches had reached, not by the order in which envelopes happen to arrive.
    """

    hosted: Hosted
    #: Streams whose time is that of the batch: they are never behind it.
    arriving: frozenset[str]
    now: int | None = None
    events: int = 0
    envelopes: int = 0

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
        live = self.hosted.live
        if live is not None:
            changes: list[Change] = open_changes(self.changes)
            self.outcome = live.apply(changes, self.shard, now=self.now)
        emission = self.shard.advance(now=self.now)
        if live is not None:
            live.bury(self.shard)
        return emission


class Hosting:
    """What a task does for the shards that it has: their pages and tokens are Spark's state."""

    def __init__(self, job: Shipped[ShardJob], pipeline: str, token: Any, pages: Any) -> None:
        self._job = job
        self._pipeline = pipeline
        self._token = token
        self._pages = pages

    def run(self, label: int, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Give a shard its envelopes; what comes out of it, packed."""
        hosted, is_live = self._shard(label)
        job = self._job.open()
        arrivals = Arrivals(hosted, job.arriving)
        out = Rows(PACKED)
        for frame in rows:
            for kind, name, time, count, payload, now in _envelopes(frame):
                if kind == REJECTED:
                    out.add(REFUSED, name, count, batches=open_payload(payload))
                else:
                    arrivals.take(kind, name, time, count, payload, now)
        emission = arrivals.run()
        job.pack(label, emission, out)
        job.pack_changes(label, arrivals.outcome, out)
        saved = self._save(label, hosted, loaded=not is_live)
        numbers = {
            **emission.stats,
            "events": arrivals.events,
            "envelopes": arrivals.envelopes,
            "saved_bytes": saved,
            "restored": 0 if is_live else 1,
        }
        add_stats(out, job.shard(label), numbers, emission.suspended, hosted, arrivals.outcome)
        yield out.batch().to_pandas()
        if self._is_new:
            settle()

    def _shard(self, label: int) -> tuple[Hosted, bool]:
        """The engine in the state that the store has, and whether it was alive."""
        self._is_new = False
        stored = self._token.get() if self._token.exists() else None
        # Taken out: should this run fail, what it did to the engine must not be seen again.
        known = _LIVE.pop((self._pipeline, label), None)
        self._old_plan: dict[str, bytes] = {}
        if known is not None and stored is not None and known[:2] == (self._job.id, stored[0]):
            return known[2], True
        stale = known[2] if known is not None and known[0] == self._job.id else None
        del known
        job = self._job.open()
        if stored is None:
            self._is_new = True
            return job.fresh(label), False
        names = [name for (name,) in list(self._pages.keys())]
        values = {name: self._pages.getValue((name,)) for name in names}
        pages = {name: bytes(value[0]) for name, value in values.items() if value is not None}
        self._old_plan = {n: page for n, page in pages.items() if n.startswith(PLAN_PAGE)}
        resumed = pages.pop(RUN_PAGE, b"").decode() != self._job.id
        if stale is not None and job.follow(stale, dict(pages), resumed=resumed):
            return stale, False
        del stale
        self._is_new = True
        return job.restored(label, pages, resumed=resumed), False

    def _save(self, label: int, hosted: Hosted, *, loaded: bool) -> int:
        """Write what changed and the token that belongs to it; how many bytes that was."""
        delta = hosted.shard.save()
        token = uuid.uuid4().hex
        puts, removals = dict(delta.puts), list(delta.removals)
        if hosted.live is not None:
            own, gone = hosted.live.save()
            puts |= own
            removals += gone
        if loaded:
            puts[RUN_PAGE] = self._job.id.encode()
            plan = _plan_pages(self._job.open().saved)
            puts |= {n: page for n, page in plan.items() if self._old_plan.get(n) != page}
            removals += [name for name in self._old_plan if name not in plan]
        for name in removals:
            self._pages.removeKey((name,))
        for name, page in puts.items():
            self._pages.updateValue((name,), (page,))
        self._token.update((token,))
        _LIVE[self._pipeline, label] = (self._job.id, token, hosted)
        while len(_LIVE) > MAX_LIVE:
            _LIVE.popitem(last=False)
        return sum(len(page) for page in puts.values())


def _envelopes(frame: pd.DataFrame) -> Iterator[tuple[int, str, int | None, int, Any, int]]:
    columns = (frame[c] for c in ("kind", "channel", "time", "rows", "payload", "now"))
    for kind, name, time, rows, payload, now in zip(*columns, strict=True):
        yield int(kind), name, None if pd.isna(time) else int(time), int(rows), payload, int(now)


def _plan_pages(plan: bytes) -> dict[str, bytes]:
    starts = range(0, len(plan), PLAN_BYTES)
    return {f"{PLAN_PAGE}{i}": plan[at : at + PLAN_BYTES] for i, at in enumerate(starts)}


def add_stats(
    rows: Rows,
    shard: int | str,
    numbers: dict[str, int],
    suspended: dict[str, str],
    hosted: Hosted,
    outcome: Outcome | None = None,
) -> None:
    """Figures travel with the results, in the same pass."""
    watermarks = hosted.shard.watermark
    figures = statistics(hosted.shard, most=MOST_QUERIES)
    figures["mops"] = figures["mops"][:MOST_MOPS]
    said: dict[str, Any] = {
        "shard": shard,
        "numbers": numbers,
        "suspended": suspended,
        "watermarks": {clock: time for clock, time in watermarks.items() if time > NEVER},
        "statistics": figures,
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
        "dropped": [*live.dead, *live.dying][-MOST_CHANGED:],
        "waiting": [change.id for change in live.waiting][-MOST_CHANGED:],
    }


def open_stats(batches: Sequence[Any]) -> list[dict[str, Any]]:
    """The stats of the payloads of STATS rows."""
    return [
        json.loads(text)
        for payload in batches
        for part in open_payload(bytes(payload))
        for text in part.column("stats").to_pylist()
    ]
