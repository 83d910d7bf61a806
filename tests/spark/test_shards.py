"""Which engine a worker runs a batch with: the live one, one that follows, or a new one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from braid.algebra.schema import TICKS
from braid.engine.ingest import Ingest
from braid.engine.shard import Options
from braid.lang import Catalog, compile_query, stream_from_schema
from braid.plan.distribution import distribute
from braid.spark import shards
from braid.spark.checkpoint import SavedPlan
from braid.spark.envelopes import RESULT, open_table
from braid.spark.ingest import IngestJob
from braid.spark.processor import ShardProcessor
from braid.spark.shards import Hosted, ShardJob
from braid.spark.shipping import Shipped

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
    """One shard that several worker processes run in turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.catalog = Catalog()
        self.catalog.add_stream(stream_from_schema("S", SCHEMA, time="t"))
        assert self.catalog.streams["S"].unit == TICKS
        self.catalog.add_query(compile_query(PAIR, self.catalog, query_id="pair").query)
        self.distribution = distribute(self.catalog.members(), self.catalog.streams, 1)
        saved = SavedPlan.of(self.distribution).to_json().encode()
        options = Options(idle_timeout=None)
        self.job = Shipped(ShardJob(self.distribution, (LABEL,), options, saved))
        self.store = Store()
        self.alive: dict[str, OrderedDict[Any, Any]] = {}
        self.patch = monkeypatch

    def batch(self, worker: str, *rows: tuple[str, int, int]) -> list[tuple[Any, ...]]:
        """What a worker puts out for these events."""
        self.patch.setattr(shards, "_LIVE", self.alive.setdefault(worker, OrderedDict()))
        columns = zip(*rows, strict=True)
        table = pa.table(dict(zip(SCHEMA.names, map(list, columns), strict=True)), SCHEMA)
        routes = self.distribution.routes["S"]
        ingest = IngestJob("S", Ingest(self.catalog.streams["S"]), routes, (LABEL,), True)
        envelopes = [b.to_pandas().assign(now=1) for b in ingest(iter(table.to_batches()))]
        processor = ShardProcessor(self.job, "pipeline")
        processor.init(self.store)
        found: list[tuple[Any, ...]] = []
        for frame in processor.handleInputRows((LABEL,), iter(envelopes), None):
            for kind, payload in zip(frame["kind"], frame["payload"], strict=True):
                if kind == RESULT:
                    found += [tuple(row.values()) for row in open_table(payload).to_pylist()]
        return found

    def engine(self, worker: str) -> Hosted:
        (_, _, hosted) = self.alive[worker]["pipeline", LABEL]
        return hosted


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
