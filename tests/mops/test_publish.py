"""Queries of a channel that come and go are found and counted as by a look at each of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.operators.core import subscriber_index as laid
from braid.operators.core import subscribers as own
from braid.operators.core.batch import Batch
from braid.operators.core.node_sets import Sets
from braid.operators.core.subscriber_index import ALWAYS, NEVER
from braid.operators.core.subscribers import Subscribers

NODES = 4
LONGEST = st.sampled_from([-1, 0, 1, 2, 5, 1_000, int(NEVER)])
#: node, how long results may last, birth
QUERY = st.tuples(st.integers(0, NODES - 1), LONGEST, st.sampled_from([int(ALWAYS), 0, 4]))
#: start, duration, and a node or several
ROW = st.tuples(
    st.integers(0, 6),
    st.sampled_from([0, 1, 2, 3, 5, 999, 2_000]),
    st.sets(st.integers(0, NODES), min_size=1),
)
STEP = st.one_of(
    st.tuples(st.just("add"), st.lists(QUERY, min_size=1, max_size=4)),
    st.tuples(st.just("remove"), st.integers(0, 50)),
    st.tuples(st.just("end"), st.integers(0, 50), st.integers(0, 9)),
    st.tuples(st.just("batch"), st.lists(ROW, max_size=6), st.booleans()),
    st.tuples(st.just("tally")),
)


class Slow:
    """Each query is asked."""

    def __init__(self) -> None:
        self.queries: dict[int, list[int]] = {}
        self.tally: Counter[int] = Counter()

    def found(self, rows: Any) -> list[tuple[int, int]]:
        return [
            (place, query)
            for place, (start, lasted, nodes) in enumerate(rows)
            for query, (node, longest, birth, death) in self.queries.items()
            if node in nodes and lasted <= longest and start >= birth and start + lasted < death
        ]


def batch_of(rows: Any, sets: Sets | None) -> Batch:
    """Several nodes of a row are a set or, without sets, a pair each."""
    words = np.array([(s, s + d, 0) for s, d, _ in rows], np.int64).reshape(-1, 3)
    if sets is None:
        pairs = [(k, node) for k, (_, _, nodes) in enumerate(rows) for node in sorted(nodes)]
    else:
        pairs = [
            (k, sets.member(np.array(sorted(n), np.int64))) for k, (_, _, n) in enumerate(rows)
        ]
    found = np.array(pairs, np.int32).reshape(-1, 2)
    return Batch(words, found[:, 0].copy(), found[:, 1].copy(), sets)


@settings(max_examples=60, deadline=None)
@given(st.lists(QUERY, max_size=40), st.lists(STEP, max_size=12), st.sampled_from([1, 2, 256]))
def test_as_asking_each(first: Any, steps: Any, guided: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if guided < 256:
            patch.setattr(laid, "GUIDED", guided)
        patch.setattr(own, "RECENT", 2)
        _run([("add", first), *steps] if first else steps)


def _run(steps: Any) -> None:
    quick, slow, sets, last = Subscribers(), Slow(), Sets(), 0
    for what, *given_ in steps:
        known = list(slow.queries)
        if what == "add":
            (added,) = given_
            numbers = np.arange(last, last + len(added), dtype=np.int64)
            last += len(added)
            nodes, longest, births = (np.array(c, np.int64) for c in zip(*added, strict=True))
            quick.add(nodes, numbers, births, longest)
            for number, (node, most, birth) in zip(numbers.tolist(), added, strict=True):
                slow.queries[number] = [node, most, birth, int(NEVER)]
        elif what == "remove" and known:
            gone = known[given_[0] % len(known)]
            quick.remove(np.array([gone], np.int64))
            del slow.queries[gone], slow.tally[gone]
        elif what == "end" and known:
            ending, death = known[given_[0] % len(known)], given_[1]
            quick.end(np.array([ending], np.int64), np.array([death], np.int64))
            slow.queries[ending][3] = min(death, slow.queries[ending][3])
        elif what == "batch":
            rows, together = given_
            batch = batch_of(rows, sets if together else None)
            expected = slow.found(rows)
            assert quick.counted(batch) == len(expected)
            places, queries = quick.resolve(batch)
            assert sorted(zip(places.tolist(), queries.tolist(), strict=True)) == sorted(expected)
            assert places.tolist() == sorted(places.tolist())
            slow.tally.update(query for _, query in expected)
        elif what == "tally":
            assert_tally(quick, slow)
    assert_tally(quick, slow)
    assert quick.nodes.tolist() == sorted({node for node, *_ in slow.queries.values()})


def assert_tally(quick: Subscribers, slow: Slow) -> None:
    queries, counts = quick.tallied()
    assert dict(zip(queries.tolist(), counts.tolist(), strict=True)) == {
        query: count for query, count in slow.tally.items() if count
    }


def test_one_more_query_is_laid_out_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is found beside the others, until asking both has cost as much as one layout."""
    made = []
    lay = Subscribers._lay
    monkeypatch.setattr(
        Subscribers, "_lay", lambda self, a, b, sets: made.append((a, b)) or lay(self, a, b, sets)
    )
    subscribers, many = Subscribers(), np.arange(1_000)
    subscribers.add(many % 5, many, np.full(1_000, ALWAYS), np.full(1_000, NEVER))
    batch = batch_of([(1, 1, {0})] * 100, None)
    assert subscribers.counted(batch) == 20_000
    for number in (1_000, 1_001):
        new = np.array([number])
        subscribers.add(new * 0, new, np.array([ALWAYS]), np.array([NEVER]))
        assert subscribers.counted(batch) == 20_000 + 100 * (number - 999)
    assert made == [(0, 1_000), (1_000, 1_001), (1_000, 1_002)]
    for _ in range(20):
        assert subscribers.counted(batch) == 20_200
    assert made[3:] == [(0, 1_002)]
