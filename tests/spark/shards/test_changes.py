"""Changes on several shards, without a JVM: ingest, envelopes, shards and pages are the real ones.

A query that comes later gives what the reference gives for it, restricted to results that start at
its birth or later and end before its death; nobody else notices. So it is on any number of shards,
after every restart from pages, and when a batch is run again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from braid.distribution.distribution import Standing, distribute
from braid.engine.io.ingest import Ingest
from braid.engine.io.ordering import NEVER
from braid.engine.options import Options, ShardOptions
from braid.lang import Catalog, compile_query
from braid.lang.catalog.prepared import prepare
from braid.reference import events_from_table
from braid.spark.pipeline.control import APPLIED, ControlJob
from braid.spark.pipeline.ingest import IngestJob
from braid.spark.shards.checkpoint import SavedPlan
from braid.spark.shards.live import Outcome
from braid.spark.shards.shards import HostedShard, ShardBatch, ShardJob
from tests.spark.support import (
    BEGIN,
    CHAINED,
    CROSSED,
    FOLDED,
    KEYED,
    SECOND,
    SPREAD,
    WHOLE,
    Result,
    expected,
    news_rows,
    schema_of,
    stock_rows,
    stream_of,
)

STREAMS = ("Stock", "News")
LABELS = (10, 20)


@dataclass
class Cluster:
    """Two shards and what is before them; `restart` leaves only the pages."""

    queries: dict[str, str]
    standing: frozenset[Standing] = frozenset()
    pages: dict[int, dict[str, bytes]] = field(default_factory=dict)
    plans: dict[int, bytes] = field(default_factory=dict)
    hosted: dict[int, HostedShard] = field(default_factory=dict)
    found: Counter[Result] = field(default_factory=Counter)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    written: int = 0
    bound: int = NEVER
    #: Of processing time, as of the batch at hand.
    now: int = 1
    idle_timeout: int | None = None

    def __post_init__(self) -> None:
        self.catalog = Catalog()
        for name in STREAMS:
            self.catalog.add_stream(stream_of(name))
        for name, text in self.queries.items():
            self.catalog.add_query(compile_query(text, self.catalog, query_id=name).query)
        self.restart()

    def restart(self, wanted: frozenset[Standing] = frozenset()) -> None:
        """As the driver does: with the routes that there were, and those that are wanted."""
        self.hosted = {}
        self.standing |= wanted
        groups, streams = self.catalog.members(), self.catalog.streams
        distribution = distribute(groups, streams, len(LABELS), standing=self.standing)
        self.standing = distribution.filled
        distribution = distribute(groups, streams, len(LABELS), standing=self.standing)
        saved = SavedPlan.of(distribution, control=True).to_json().encode()
        options = ShardOptions(Options(idle_timeout=self.idle_timeout), whole_streams=True)
        self.job = ShardJob(distribution, LABELS, options, saved, self.catalog)

    def batch(self, changes: Sequence[Mapping[str, Any]] = (), **arrived: list[Any]) -> Outcome:
        envelopes = [row for name in STREAMS for row in self._ingested(name, arrived.get(name, []))]
        if changes:
            columns = ("seq", "op", "id", "text", "at")
            given = {c: [change.get(c) for change in changes] for c in columns}
            given["timed"] = [True] * len(changes)
            types = [pa.int64(), *[pa.string()] * 3, pa.int64(), pa.bool_()]
            schema = pa.schema(list(zip(given, types, strict=True)))
            part = pa.RecordBatch.from_pydict(given, schema)
            envelopes += _rows(ControlJob(LABELS)(iter([part])))
        outcomes = [self._run(label, envelopes) for label in LABELS]
        assert outcomes[0].taken == outcomes[1].taken
        assert outcomes[0].refused == outcomes[1].refused
        assert (outcomes[0].applied, outcomes[0].wanted) == (
            outcomes[1].applied,
            outcomes[1].wanted,
        )
        return outcomes[0]

    def _ingested(self, name: str, rows: list[Any]) -> list[dict[str, Any]]:
        self.rows.setdefault(name, []).extend(rows)
        known = self.job.distribution.routes
        routes = {name: known[name]} if name in known else {}
        job = IngestJob(Ingest(self.catalog.streams[name]), routes, LABELS, True)
        table = pa.Table.from_pylist(rows, schema_of(name))
        return _rows(job(iter(table.to_batches() or [])))

    def _run(self, label: int, envelopes: list[dict[str, Any]]) -> Outcome:
        hosted = self.hosted.pop(label, None)
        if hosted is None and label in self.pages:
            hosted = self.job.restored(label, dict(self.pages[label]), self.plans[label])
        hosted = hosted or self.job.fresh(label)
        incoming = ShardBatch(hosted, frozenset(), now=self.now)
        for row in envelopes:
            if row["shard"] == label:
                keys = ("kind", "channel", "time", "rows", "payload")
                incoming.take(*(row[key] for key in keys), now=self.now)
        for result in incoming.run().results:
            for row in result.table.to_pylist():
                times = [_microseconds(row.pop(name)) for name in ("start", "end")]
                self.found[result.query, result.stream, *times, tuple(row.values())] += 1
        self._save(label, hosted)
        return incoming.outcome

    def _save(self, label: int, hosted: HostedShard) -> None:
        pages = self.pages.setdefault(label, {})
        delta = hosted.shard.save()
        assert hosted.live is not None
        puts, removals = hosted.live.save()
        self.written = sum(map(len, (*puts.values(), *delta.puts.values())))
        for name in (*delta.removals, *removals):
            del pages[name]
        pages |= {**delta.puts, **puts}
        self.plans[label] = self.job.saved
        self.hosted[label] = hosted
        self.bound = hosted.shard.bound("us")

    def expected(self, texts: Mapping[str, str], lives: Mapping[str, tuple[int, int]]) -> Any:
        """What the reference says of queries that live for a time; `jump` is there for them all."""
        catalog = Catalog()
        for name in STREAMS:
            catalog.add_stream(stream_of(name))
        for name, text in texts.items():
            catalog.add_query(compile_query(text, catalog, query_id=name).query)
        events = {
            name: events_from_table(
                stream_of(name), pa.Table.from_pylist(self.rows.get(name, []), schema_of(name))
            )
            for name in STREAMS
        }
        answers = expected(list(catalog.queries.values()), events, self.bound)
        return Counter(
            key
            for key in answers.elements()
            if lives[key[0]][0] <= key[2] and key[3] < lives[key[0]][1]
        )


def _rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def _microseconds(value: Any) -> int:
    return pa.scalar(value, pa.timestamp("us", "UTC")).value


FOREVER = 2**62

JUMP = """SELECT {0} FROM FILTER{{Price_1 > 10}}
          ((FILTER{{{1}}}(Stock)) NEXT{{$2.Name = $1.Name AND $2.Price > $1.Price}} Stock)"""


def change(op: str, name: str, text: str | None = None, at: int | None = None) -> dict[str, Any]:
    return {"op": op, "id": name, "text": text, "at": at}


@pytest.mark.parametrize("seed", range(3))
def test_queries_come_and_go_and_live_as_long_as_was_asked(seed: int) -> None:
    """Keyed, whole, stateless and chained ones; restarts and repeated batches at random."""
    draw = random.Random(seed)
    base = {"jump": KEYED, "crossed": CROSSED, "whole": WHOLE}
    cluster = Cluster(base, frozenset({("News@About", None)}))
    pool = {
        "told": CHAINED,
        "rising": FOLDED,
        "high": SPREAD,
        "high2": SPREAD.replace("90", "70").replace("High", "High2"),
        "pairs": WHOLE.replace("Lot = 1", "Lot = 2"),
        "again": WHOLE,
        "lots": "SELECT Lot FROM FILTER{Lot = 0}(Stock)",
        # They need other attributes of the pattern that `jump` has.
        "buyers": JUMP.format("Buyer_1 AS first, Buyer", "Price < 50"),
        "marked": JUMP.format("Name_1 AS n, Lot, Price * 2 AS twice", "Lot = 2 AND Price < 50"),
    }
    texts = dict(base)
    lives = dict.fromkeys(base, (NEVER, FOREVER))
    running, number = list(base), 0
    for step in range(14):
        changes = []
        upcoming = {}
        for name in draw.sample(list(pool), 2):
            at = draw.choice([None, BEGIN + (20 * step + draw.randrange(40)) * SECOND])
            if name not in lives and (name != "told" or "jump" in running):
                changes.append(change("add", name, pool[name], at))
                texts[name], running = pool[name], [*running, name]
                upcoming[name] = (at, True)
        free = [n for n in running if n not in upcoming and (n != "jump" or "told" in lives)]
        free = [n for n in free if n != "jump" or lives["told"][1] < FOREVER]
        if step > 3 and free and draw.random() < 0.6:
            name = draw.choice(free)
            changes.append(change("drop", name))
            running.remove(name)
            upcoming[name] = (None, False)
        if draw.random() < 0.4:
            cluster.restart()
        before = cluster.bound
        late = [c for c in changes if c["at"] is not None and c["at"] < before]
        outcome = cluster.batch(
            changes,
            Stock=stock_rows(40, 20 * step, seed=100 * seed + step),
            News=news_rows(6, 20 * step, seed=step),
        )
        assert sorted(c.id for c, _ in outcome.refused) == sorted(c["id"] for c in late)
        for name, (at, comes) in upcoming.items():
            moment = before if at is None else at
            if any(c["id"] == name for c in late):
                running.remove(name)
                texts.pop(name)
            elif comes:
                lives[name] = (moment, FOREVER)
            else:
                lives[name] = (lives[name][0], moment)
            said = next(t for t in outcome.taken if t.id == name)
            if said.state == APPLIED:
                assert said.time == (None if moment == NEVER else moment)
        number += outcome.applied
    assert number > 5
    assert cluster.found == cluster.expected(texts, lives)
    assert {key[0] for key in cluster.found} >= set(base)


def test_a_change_that_needs_a_route_waits_for_it_and_then_sees_all_from_its_birth() -> None:
    cluster = Cluster({"jump": KEYED})
    cluster.batch(Stock=stock_rows(60, 0, seed=1))
    lots = "SELECT Lot, Name FROM Stock NEXT{$1.Lot = $2.Lot} Stock"
    asked = change("add", "lots", lots, BEGIN + 40 * SECOND)
    outcome = cluster.batch([asked], Stock=stock_rows(60, 30, seed=2))
    assert (outcome.applied, outcome.refused) == (0, [])
    assert {name for name, _ in outcome.wanted} == {"Stock@Lot"}
    again = cluster.batch([change("add", "lots", lots)], Stock=stock_rows(20, 60, seed=3))
    assert ["it waits for a restart" in reason for _, reason in again.refused] == [True]
    # The routes are there after the restart, but what was held back did not come by them.
    reached = max(row["ts"] for row in cluster.rows["Stock"])
    cluster.restart(frozenset(again.wanted))
    assert cluster.batch(Stock=stock_rows(60, 90, seed=4)).applied == 1
    cluster.batch(Stock=stock_rows(60, 150, seed=5))
    lives = {"jump": (NEVER, FOREVER), "lots": (reached + 1, FOREVER)}
    assert cluster.found == cluster.expected({"jump": KEYED, "lots": lots}, lives)
    assert any(key[0] == "lots" for key in cluster.found)


def test_changes_that_cannot_be_made_are_refused_with_the_reason_and_change_nothing() -> None:
    cluster = Cluster({"jump": KEYED, "told": CHAINED})
    cluster.batch(Stock=stock_rows(60, 0, seed=1), News=news_rows(12, 0, seed=2))
    reasons = {
        "unknown op": change("replace", "jump", KEYED),
        "needs the id": change("add", "", SPREAD),
        "needs its text": change("add", "x", None),
        "in the past": change("add", "x", SPREAD, BEGIN),
        "query 'jump' already exists": change("add", "jump", SPREAD),
        "publishes 'Jump'": change("add", "x", SPREAD.replace("High", "Jump")),
        "no attribute": change("add", "x", "SELECT Nope FROM Stock"),
        "there is no query 'nobody'": change("drop", "nobody"),
        "which is read by: told": change("drop", "jump"),
        "divided over the shards": change("add", "x", "SELECT low FROM Jump NEXT{} News"),
    }
    outcome = cluster.batch(list(reasons.values()), Stock=stock_rows(60, 60, seed=3))
    shown = [reason for _, reason in outcome.refused]
    assert (outcome.applied, outcome.wanted, len(shown)) == (0, set(), len(reasons))
    for said, wanted in zip(shown, reasons, strict=True):
        assert wanted.replace("unknown op", "there is no change 'replace'") in said
    lives = dict.fromkeys(("jump", "told"), (NEVER, FOREVER))
    assert cluster.found == cluster.expected({"jump": KEYED, "told": CHAINED}, lives)


def test_members_of_prepared_queries_are_dropped_and_stay_dropped() -> None:
    """Of a thousand members one, then all; what is not changed is not written again."""
    cluster = Cluster({"jump": KEYED})
    text = """CREATE QUERY big FOR EACH (lot INT, floor DOUBLE) AS
              SELECT Name FROM (FILTER{Lot = :lot AND Price >= :floor}(Stock)) NEXT{} Stock"""
    values = {"lot": [i % 3 for i in range(1000)], "floor": [float(i % 100) for i in range(1000)]}
    cluster.catalog.add_prepared(prepare(text, values, cluster.catalog))
    cluster.restart()
    cluster.batch(Stock=stock_rows(60, 0, seed=1))
    first = cluster.written
    cluster.batch(
        [change("drop", "big/7"), change("drop", "big/8")], Stock=stock_rows(60, 60, seed=2)
    )
    gone = cluster.bound
    cluster.batch(Stock=[])
    assert cluster.written < min(first, 5_000)
    cluster.restart()
    outcome = cluster.batch([change("drop", "big/7")], Stock=stock_rows(60, 120, seed=3))
    assert len(outcome.refused) == 1
    assert not any(k[0] in ("big/7", "big/8") and k[3] >= gone for k in cluster.found)
    assert any(k[0] == "big/107" and k[3] >= gone for k in cluster.found)
    cluster.batch([change("drop", "big")], Stock=stock_rows(60, 180, seed=4))
    over = cluster.bound
    cluster.restart()
    cluster.batch(
        [change("add", "jump2", KEYED.replace("Jump", "Jump2"))], Stock=stock_rows(60, 240, seed=5)
    )
    cluster.batch(Stock=stock_rows(60, 300, seed=6))
    assert {k[0] for k in cluster.found if k[3] >= over} == {"jump", "jump2"}
    shards = [hosted.shard.executor.registry.count for hosted in cluster.hosted.values()]
    assert shards == [2, 2]


@pytest.mark.parametrize("is_idle", [True, False])
def test_a_change_keeps_its_time_when_its_batch_runs_again_after_a_crash(is_idle: bool) -> None:
    """The run that goes on does not know how long a stream had been idle; the change holds from
    the time that the last committed batch had reached, whatever the batch itself reaches."""
    cluster = Cluster({"told": "SELECT Name, Mood FROM Stock NEXT{$1.Name = $2.About} News"})
    cluster.idle_timeout = 5 * SECOND
    cluster.restart()
    cluster.batch(Stock=stock_rows(60, 0, seed=1), News=news_rows(3, 0, seed=2))
    reached, pages = cluster.bound, {label: dict(p) for label, p in cluster.pages.items()}
    plans = dict(cluster.plans)
    assert reached > NEVER
    cluster.now += 10 * SECOND if is_idle else 0
    changes = [change("add", "high", SPREAD), change("drop", "told")]
    first = cluster.batch(changes, Stock=stock_rows(60, 60, seed=3))
    assert (cluster.bound > reached) == is_idle
    cluster.pages, cluster.plans = pages, plans
    cluster.restart()
    again = cluster.batch(changes, Stock=stock_rows(60, 60, seed=3))
    assert first.taken == again.taken
    assert [(t.op, t.state, t.time) for t in again.taken] == [
        ("add", APPLIED, reached),
        ("drop", APPLIED, reached),
    ]
