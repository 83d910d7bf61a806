"""Which engine a worker runs a batch with: the live one, one that follows, or a new one."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from braid.algebra.schema import TICKS
from braid.distribution.distribution import distribute
from braid.engine.io.ingest import Ingest
from braid.engine.options import Options, ShardOptions
from braid.lang import Catalog, compile_query, stream_from_schema
from braid.reference import answer, events_from_table
from braid.spark.environment import shard_labels
from braid.spark.pipeline.envelopes import RESULT, open_table
from braid.spark.pipeline.ingest import IngestJob
from braid.spark.pipeline.shipping import Shipped
from braid.spark.shards import hosting
from braid.spark.shards.checkpoint import SavedPlan
from braid.spark.shards.processor import ShardProcessor
from braid.spark.shards.shards import HostedShard, ShardJob

LABEL = 0
SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64()), ("t", pa.int64())])
PAIR = "SELECT k, x_1 AS a, x AS b FROM S NEXT{$1.k = $2.k AND DUR <= 100} S PUBLISH Pairs"


@dataclass
class Value:
    value: tuple[Any, ...] | None = None

    def exists(self) -> bool:
        return self.value is not None

    def get(self) -> tuple[Any, ...] | None:
        return self.value

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value


@dataclass
class Pages:
    values: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)

    def keys(self) -> Iterator[tuple[Any, ...]]:
        return iter(list(self.values))

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return self.values.get(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        self.values[key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:
        del self.values[key]


@dataclass
class Store:
    """A state store that takes what it is given."""

    token: Value = field(default_factory=Value)
    pages: Pages = field(default_factory=Pages)

    def getValueState(self, *_: Any) -> Value:
        return self.token

    def getMapState(self, *_: Any) -> Pages:
        return self.pages


class Cluster:
    """Shards that several worker processes run in turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, labels: tuple[int, ...] = (LABEL,)) -> None:
        self.catalog = Catalog()
        self.catalog.add_stream(stream_from_schema("S", SCHEMA, time="t"))
        assert self.catalog.streams["S"].unit == TICKS
        self.catalog.add_query(compile_query(PAIR, self.catalog, query_id="pair").query)
        self.distribution = distribute(self.catalog.members(), self.catalog.streams, len(labels))
        saved = SavedPlan.of(self.distribution).to_json().encode()
        options = ShardOptions(Options(idle_timeout=None))
        self.job = Shipped(ShardJob(self.distribution, labels, options, saved))
        self.labels = labels
        self.stores = {label: Store() for label in labels}
        self.alive: dict[str, OrderedDict[Any, Any]] = {}
        self.patch = monkeypatch
        self.batches = 0

    @property
    def store(self) -> Store:
        return self.stores[LABEL]

    def batch(self, workers: str | tuple[str, ...], *rows: tuple[str, int, int]) -> list[Any]:
        """What comes out for these events; which worker runs which shard."""
        self.batches += 1
        self.patch.setattr(hosting, "_stage", lambda: self.batches)
        columns = zip(*rows, strict=True)
        table = pa.table(dict(zip(SCHEMA.names, map(list, columns), strict=True)), SCHEMA)
        routes = self.distribution.routes
        ingest = IngestJob(Ingest(self.catalog.streams["S"]), routes, self.labels, True)
        envelopes = [b.to_pandas().assign(now=1) for b in ingest(iter(table.to_batches()))]
        found: list[tuple[Any, ...]] = []
        running = (workers,) if isinstance(workers, str) else workers
        for label, worker in zip(self.labels, running, strict=True):
            self.patch.setattr(hosting, "_ENGINES", self.alive.setdefault(worker, OrderedDict()))
            processor = ShardProcessor(self.job, "pipeline")
            processor.init(self.stores[label])
            own = [frame[frame["shard"] == label] for frame in envelopes]
            for frame in processor.handleInputRows((label,), iter(own), None):
                for kind, payload in zip(frame["kind"], frame["payload"], strict=True):
                    if kind == RESULT:
                        found += [tuple(row.values()) for row in open_table(payload).to_pylist()]
        return sorted(found)

    def engine(self, worker: str, label: int = LABEL) -> HostedShard:
        kept = self.alive[worker]["pipeline", label]
        assert isinstance(kept, hosting.CachedEngine)
        return kept.hosted


def test_the_same_worker_goes_on_with_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    assert cluster.batch("one", ("a", 1, 1), ("z", 0, 2)) == []
    first = cluster.engine("one")
    assert cluster.batch("one", ("a", 2, 3), ("z", 0, 4)) == [(1, 3, "a", 1, 2)]
    assert cluster.engine("one") is first


def test_workers_in_turns_keep_their_engines_and_take_the_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    assert cluster.batch("one", ("a", 1, 1), ("y", 0, 2)) == []
    first = cluster.engine("one")
    assert cluster.batch("two", ("a", 2, 3), ("b", 5, 4), ("x", 0, 5)) == [(1, 3, "a", 1, 2)]
    second = cluster.engine("two")
    found = cluster.batch("one", ("a", 3, 6), ("b", 6, 7), ("w", 0, 8))
    assert found == [(3, 6, "a", 2, 3), (4, 7, "b", 5, 6)]
    assert cluster.batch("two", ("a", 4, 9), ("v", 0, 10)) == [(6, 9, "a", 3, 4)]
    assert cluster.engine("one") is first
    assert cluster.engine("two") is second


def test_a_batch_that_was_not_committed_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is put back to what was committed; the engine has seen more."""
    cluster = Cluster(monkeypatch)
    cluster.batch("one", ("a", 1, 1), ("z", 0, 2))
    token, pages = cluster.store.token.value, dict(cluster.store.pages.values)
    rows = (("a", 2, 3), ("z", 0, 4))
    once = cluster.batch("one", *rows)
    cluster.store.token.value, cluster.store.pages.values = token, pages
    assert cluster.batch("one", *rows) == once == [(1, 3, "a", 1, 2)]


def test_another_job_makes_its_own_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.batch("one", ("a", 1, 1), ("z", 0, 2))
    first = cluster.engine("one")
    cluster.job = Shipped(cluster.job.open())
    assert cluster.batch("one", ("a", 2, 3), ("z", 0, 4)) == [(1, 3, "a", 1, 2)]
    assert cluster.engine("one") is not first


def test_workers_that_change_shards_keep_one_engine_each(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, tuple(shard_labels(2)))
    one, two = cluster.labels
    keys = [f"k{i}" for i in range(8)]

    def rows(tick: int) -> list[tuple[str, int, int]]:
        return [(key, tick, 10 * tick + i) for i, key in enumerate(keys)]

    assert cluster.batch(("a", "b"), *rows(1)) == []
    engines = {cluster.engine("a", one).name, cluster.engine("b", two).name}
    for tick, workers in enumerate([("b", "a"), ("b", "a"), ("a", "b"), ("b", "a")], 2):
        found = cluster.batch(workers, *rows(tick))
        # The last instant waits for the next batch.
        ended = [10 * (tick - 1) + 7, *(10 * tick + i for i in range(7))]
        assert sorted(row[1] for row in found) == (ended if tick > 2 else ended[1:])
        at_work = {cluster.engine(workers[0], one).name, cluster.engine(workers[1], two).name}
        assert at_work == engines
    assert all(len(kept) == 1 for kept in cluster.alive.values())


def test_a_worker_with_several_shards_has_an_engine_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, tuple(shard_labels(2)))
    one, two = cluster.labels
    cluster.batch(("a", "a"), ("x", 1, 1), ("y", 1, 2), ("z", 1, 3))
    first, second = cluster.engine("a", one), cluster.engine("a", two)
    assert first is not second
    found = cluster.batch(("a", "a"), ("x", 2, 4), ("y", 2, 5), ("z", 2, 6), ("w", 0, 7))
    assert [row[2] for row in found] == ["x", "y", "z"]
    assert (cluster.engine("a", one), cluster.engine("a", two)) == (first, second)


@pytest.mark.parametrize("seed", range(8))
def test_whichever_workers_run_the_shards_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The law over batch splits and simultaneous events, with workers at random."""
    random = np.random.default_rng(seed)
    ticks = np.sort(random.integers(0, 60, 120))  # several events at most instants
    rows = [(f"k{random.integers(6)}", x, t) for x, t in enumerate(ticks.tolist())]
    ending = [("end", 0, 1_000)]
    cuts = sorted(random.choice(np.arange(1, len(rows)), 7, replace=False).tolist())
    cluster = Cluster(monkeypatch, tuple(shard_labels(2)))
    found: list[Any] = []
    for first, last in itertools.pairwise([0, *cuts, len(rows)]):
        found += cluster.batch(tuple(random.choice(["a", "b", "c"], 2)), *rows[first:last])
    found += cluster.batch(("a", "b"), *ending)
    columns = dict(zip(SCHEMA.names, map(list, zip(*rows, *ending, strict=True)), strict=True))
    events = events_from_table(cluster.catalog.streams["S"], pa.table(columns, SCHEMA))
    ((_, expected),) = answer([cluster.catalog.queries["pair"]], {"S": events}).items()
    assert expected
    assert sorted(found) == sorted((e.start, e.end, *e.values) for e in expected)


IDLE = 100


def test_a_batch_that_runs_again_in_a_later_run_waits_for_the_same_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Streams are idle by the time of the batch. Whether time between two runs counts depends on
    the run that made the batch: not on the run that happens to execute it."""
    catalog = Catalog()
    for name in ("S", "T"):
        catalog.add_stream(stream_from_schema(name, SCHEMA, time="t"))
    text = "SELECT k, x FROM S NEXT{$1.k = $2.k} T"
    catalog.add_query(compile_query(text, catalog, query_id="both").query)
    distribution = distribute(catalog.members(), catalog.streams, 1)
    saved = SavedPlan.of(distribution).to_json().encode()

    def batch(store: Store, now: int, *runs: int, **rows: list[int]) -> int:
        """How far time is after a batch, by a run in a worker of its own."""
        job = ShardJob(
            distribution, (LABEL,), ShardOptions(Options(idle_timeout=IDLE)), saved, runs=runs
        )
        monkeypatch.setattr(hosting, "_ENGINES", OrderedDict())
        processor = ShardProcessor(Shipped(job), "pipeline")
        processor.init(store)
        frames = []
        for name, times in rows.items():
            table = pa.table({"k": ["a"] * len(times), "x": times, "t": times}, SCHEMA)
            routes = {name: distribution.routes[name]}
            ingest = IngestJob(Ingest(catalog.streams[name]), routes, (LABEL,), True)
            frames += [b.to_pandas().assign(now=now) for b in ingest(iter(table.to_batches()))]
        list(processor.handleInputRows((LABEL,), iter(frames), None))
        return next(iter(hosting._ENGINES.values())).hosted.shard.bound(TICKS)

    def copied(store: Store) -> Store:
        return Store(Value(store.token.value), Pages(dict(store.pages.values)))

    store = Store()
    assert batch(store, 1, 0, S=[1, 2], T=[1]) == 1
    # The first run: by then T is idle. It is killed, and the second run repeats the batch.
    killed = copied(store)
    assert batch(killed, 1 + IDLE, 0, S=[3]) == 3
    assert batch(store, 1 + IDLE, 0, 5 * IDLE, S=[3]) == 3
    # Time has passed until the second run has a batch of its own: T has had no chance.
    late = 9 * IDLE - 1
    assert batch(copied(store), 9 * IDLE, 0, late, S=[5], T=[3]) == 3
    assert batch(copied(store), 9 * IDLE, 0, late, S=[5]) == 3
    # It is killed, too, and a third run repeats it: it belongs to the second run as before.
    assert batch(store, 9 * IDLE, 0, late, 20 * IDLE, S=[5]) == 3
