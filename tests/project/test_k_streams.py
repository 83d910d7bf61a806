"""The streams that are drawn for constraints keep them within the k that was asked, and no less."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import k_streams
from benchmarks.k_streams import KStreams
from braid.algebra.constraints import Constraint, ConstraintKind
from braid.reference import Arrival, adherence

CLUSTERED, ASCENDING = ConstraintKind.CLUSTERED, ConstraintKind.ASCENDING
EVENTS = 1_000
KS = [0, 1, 7, 40]


def arrivals(streams: KStreams) -> list[Arrival]:
    found = [
        Arrival(name, row["t"], row)
        for name, columns in streams.columns.items()
        for row in (
            dict(zip(columns, values, strict=True))
            for values in zip(*(v.tolist() for v in columns.values()), strict=True)
        )
    ]
    return sorted(found, key=lambda arrival: arrival.time)


def k_of(kind: ConstraintKind, stream: str, attribute: str, came: list[Arrival]) -> int:
    return adherence(Constraint("c", kind, stream, (attribute,)), came)


def join_distance(parent: str, child: str, attribute: str, came: list[Arrival]) -> int:
    kind, names = ConstraintKind.REFERENCES, (attribute,)
    return adherence(Constraint("c", kind, parent, names, child, names), came)


@pytest.mark.parametrize("k", KS)
def test_references(k: int) -> None:
    came = arrivals(k_streams.referring(EVENTS, k, seed=1))
    assert join_distance("S1", "S2", "a", came) == k
    assert join_distance("S1", "S3", "b", came) == k


@pytest.mark.parametrize("k", KS)
def test_clusters(k: int) -> None:
    came = arrivals(k_streams.arranged(EVENTS, k, 2, "clustered"))
    assert [k_of(CLUSTERED, s, "a", came) for s in ("S1", "S2")] == [k, k]
    assert [join_distance(s, "S3", "a", came) for s in ("S1", "S2")] == [0, 0]
    assert k_of(ASCENDING, "S1", "a", came) > 100, "only what is asked for holds"


@pytest.mark.parametrize("k", KS)
def test_orders_of_parents(k: int) -> None:
    came = arrivals(k_streams.arranged(EVENTS, k, 3, "scrambled"))
    assert [k_of(ASCENDING, s, "a", came) for s in ("S1", "S2")] == [k, k]
    assert [join_distance(s, "S3", "a", came) for s in ("S1", "S2")] == [0, 0]


@pytest.mark.parametrize("k", KS)
def test_order_of_children(k: int) -> None:
    came = arrivals(k_streams.ordered_children(EVENTS, k, seed=4))
    assert k_of(ASCENDING, "S2", "a", came) == k
    assert join_distance("S1", "S2", "a", came) == 0


@pytest.mark.parametrize("k", KS)
def test_clusters_and_order(k: int) -> None:
    streams = k_streams.clusters_and_order(EVENTS, k, seed=5)
    came = arrivals(streams)
    assert k_of(CLUSTERED, "S1", "a", came) == 0
    assert k_of(ASCENDING, "S3", "b", came) == k
    lonely = ~np.isin(streams.columns["S1"]["b"], streams.columns["S3"]["b"])
    assert 0.15 < lonely.mean() < 0.35


@pytest.mark.parametrize("k", KS)
def test_clusters_that_refer(k: int) -> None:
    came = arrivals(k_streams.clusters_that_refer(EVENTS, 20, k, seed=6))
    assert k_of(CLUSTERED, "S1", "a", came) == 20
    assert join_distance("S1", "S2", "a", came) == k


def test_a_k_that_changes() -> None:
    parents = EVENTS // 7 * 5
    k = np.where(np.arange(parents) < parents // 2, 3, 30)
    streams = k_streams.referring(EVENTS, k, seed=7)
    came = arrivals(streams)
    half = int(streams.columns["S1"]["t"][parents // 2])
    early = [a for a in came if a.time < half + 100 and (a.stream != "S1" or a.time < half)]
    assert join_distance("S1", "S2", "a", early) == 3
    assert join_distance("S1", "S2", "a", came) == 30


def test_multiplicity_and_selectivity() -> None:
    streams = k_streams.arranged(22_000, 500, 8, "clustered")
    counts = np.unique(streams.columns["S1"]["a"], return_counts=True)[1]
    assert 4.5 < counts.mean() < 5.5
    assert 45 < np.mean(streams.columns["S3"]["f"] < 50) * 100 < 55


def test_one_event_a_tick_and_the_same_again() -> None:
    streams = k_streams.referring(EVENTS, 5, seed=9)
    ticks = np.concatenate([columns["t"] for columns in streams.columns.values()])
    assert np.array_equal(np.sort(ticks), np.arange(streams.events))
    assert all(np.all(np.diff(columns["t"]) > 0) for columns in streams.columns.values())
    again = k_streams.referring(EVENTS, 5, seed=9)
    for name, columns in streams.columns.items():
        assert all(np.array_equal(v, again.columns[name][n]) for n, v in columns.items())
    parts = streams.batches(100)
    assert sum(t.num_rows for part in parts for t in part.values()) == streams.events
