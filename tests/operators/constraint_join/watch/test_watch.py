"""Watches find the k that streams keep, and notice when it grows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braid
from braid.jit.runtime import COMPILED
from braid.operators.constraint_join.watch import cost_choice as constraint_choice
from braid.operators.constraint_join.watch import watch as constraint_watch

STREAMS = """
CREATE STREAM P (a BIGINT, v BIGINT, t BIGINT) TIME t;
CREATE STREAM C (a BIGINT, w BIGINT, t BIGINT) TIME t;
"""
QUERY = "Istream(Select P.a, v, w From P [Range 60000], C [Range 60000] Where P.a = C.a)"
COUNT = 12_000 if COMPILED else 2_500

Keys = np.ndarray[Any, np.dtype[np.int64]]


def scrambled(count: int, k: int, seed: int) -> Keys:
    """Keys in order but for pairs that are at most k apart."""
    places = np.arange(count) + np.random.default_rng(seed).uniform(0, k + 0.5, count)
    return np.argsort(places, kind="stable")


def run(
    children: Keys, parents: Keys, mode: str = "monitored", **more: Any
) -> tuple[braid.Engine, int]:
    """Of every instant one event of each stream; the engine, and how many results there were."""
    # Whatever is found is followed, whether or not it is worth its time.
    engine = braid.Engine(constraints=mode, watching={"worth": 0}, **more)
    engine.execute(STREAMS)
    engine.query("q", QUERY)
    found = 0
    for first in range(0, len(parents), 500):
        last = first + 500
        times = np.arange(first, min(last, len(parents)))
        engine.process(
            {
                "P": {"a": parents[first:last], "v": times, "t": 2 * times + 1},
                "C": {"a": children[first:last], "w": times, "t": 2 * times},
            }
        )
        found += engine.stats["matches"]
    engine.finish()
    return engine, found + engine.stats["matches"]


def watched(engine: braid.Engine, kind: str, **about: Any) -> dict[str, Any]:
    mops = engine.explain().to_dict()["mops"]
    (join,) = (mop for mop in mops if mop["does"].startswith("constraint join"))
    found = [c for c in join["detail"]["constraints"] if c["kind"] == kind]
    return next(c for c in found if about.items() <= c.items())


@pytest.mark.parametrize("k", [0, 20, 200])
def test_the_k_of_an_order_is_found(k: int) -> None:
    keys = scrambled(COUNT, k, 1)
    engine, found = run(keys, np.arange(COUNT))
    assert found == COUNT
    seen = [step[1] for step in watched(engine, "ascending", input=1)["history"] if step[1]]
    # The largest distance of the last window, or more where little is remembered.
    assert max(seen, default=0) <= k + k // 4 + 16
    assert not k or max(seen) >= k // 2


@pytest.mark.parametrize("k", [0, 20, 200])
def test_the_k_of_references_is_found(k: int) -> None:
    """A parent comes before its child, by k events of the children at most."""
    engine, found = run(scrambled(COUNT, k, 2), np.arange(COUNT))
    assert found == COUNT
    seen = [step[1] for step in watched(engine, "references", input=1)["history"] if step[1]]
    assert max(seen, default=0) <= k
    assert not k or max(seen) >= k // 2


def test_the_k_of_clusters_is_found() -> None:
    parents = np.arange(COUNT) // 4
    engine, found = run(np.arange(COUNT), parents)
    assert found == COUNT
    assert watched(engine, "clustered", input=0)["k"] == 0


def test_results_are_lost_only_while_k_grows_and_only_if_rows_are_dropped() -> None:
    """Children come ever later: first at once, then after up to 400 others."""
    half = COUNT // 2
    late = np.concatenate([np.arange(half), half + scrambled(COUNT - half, 400, 3)])
    _, all_of_them = run(late, np.arange(COUNT), "off")
    assert all_of_them == COUNT
    assert run(late, np.arange(COUNT), "exact")[1] == all_of_them
    engine, found = run(late, np.arange(COUNT))
    assert found >= 0.977 * all_of_them
    assert watched(engine, "references", input=1)["increases"] > 0


def test_where_numbers_of_events_are_not_bounded_times_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A child comes 40 ticks after its parent, whatever comes in between: now and then many do."""
    monkeypatch.setattr(constraint_choice, "_LEAST_THRESHOLD", 64)
    monkeypatch.setattr(constraint_watch, "_FIRST_THRESHOLD", 64)
    watching = {"threshold": 0.02, "window": 50, "worth": 0}
    engine = braid.Engine(constraints="monitored", watching=watching)
    engine.execute(STREAMS)
    engine.query("q", QUERY.replace("60000", "6000"))
    found = 0
    for first in range(0, 12_000 if COMPILED else 6_000, 400):
        times = np.arange(first, first + 400, 4)
        crowd = np.arange(200)
        children = np.concatenate([times - 40, -1 - crowd - first])
        came = np.concatenate([times, first + 100 + crowd // 20])
        order = np.argsort(came, kind="stable")
        engine.process(
            {
                "P": {"a": times, "v": times, "t": times},
                "C": {"a": children[order], "w": children[order], "t": came[order]},
            }
        )
        found += engine.stats["matches"]
    told = watched(engine, "references", input=1, unit="time")
    assert told["k"] == 40 or 40 in [step[1] for step in told["history"]]


def test_clusters_within_a_time_are_used_and_nothing_is_lost_if_they_break() -> None:
    """Equal parents come within 5 ticks: the child is then done with; later one more comes."""
    engine = braid.Engine(constraints="exact", spill_above=0)
    engine.execute(STREAMS + "CREATE CONSTRAINT c ON P (a) CLUSTERED WITHIN 5 TICKS;")
    engine.query("q", QUERY)
    ids = np.random.default_rng(4).permutation(1500)
    parents, times = (
        np.repeat(ids, 2),
        np.repeat(4 * np.arange(1500), 2) + np.tile([1, 3], len(ids)),
    )
    engine.process(
        {
            "C": {"a": ids, "w": ids, "t": 4 * np.arange(1500)},
            "P": {"a": parents, "v": parents, "t": times},
        }
    )
    found = engine.stats["matches"]
    assert found >= 2 * len(ids) - 4
    told = watched(engine, "clustered", input=0)
    assert (told["k"], told["unit"]) == (5, "time")
    assert told["rows"] > len(ids) // 2
    assert engine.notices == []
    late = int(times[-1]) + 100
    engine.process(
        {"P": {"a": [7], "v": [7], "t": [late]}, "C": {"a": [-1], "w": [0], "t": [late]}}
    )
    found += engine.stats["matches"]
    engine.finish()
    found += engine.stats["matches"]
    assert found == 2 * len(ids) + 1, "the child that was put aside came back"


TWO_PARENTS = """
CREATE STREAM P (a BIGINT, v BIGINT, t BIGINT) TIME t;
CREATE STREAM Q (a BIGINT, v BIGINT, t BIGINT) TIME t;
CREATE STREAM C (a BIGINT, w BIGINT, t BIGINT) TIME t;
"""
OF_BOTH = """
Istream(Select P.v, Q.v As u, w From P [Range 900000], Q [Range 900000], C [Range 900000]
Where P.a = C.a And Q.a = C.a)
"""


def join_of_both(values: int, later: int, mode: str, **watching: float) -> tuple[Any, int]:
    """A value comes of C, then twice of P, and `later` values after that twice of Q: what the join
    holds at the end, and how many results there were."""
    engine = braid.Engine(constraints=mode, spill_above=0, watching=watching)
    engine.execute(TWO_PARENTS)
    engine.query("q", OF_BOTH)
    names = np.random.default_rng(5).permutation(values)
    found = 0
    for first in range(0, values, 100):
        at = np.arange(first, first + 100)
        twice, times = np.repeat(at, 2), np.repeat(10 * at, 2) + np.tile([2, 3], len(at))
        past = twice >= later
        engine.process(
            {
                "C": {"a": names[at], "w": at, "t": 10 * at},
                "P": {"a": names[twice], "v": twice, "t": times},
                "Q": {"a": names[twice[past] - later], "v": twice[past], "t": times[past] + 3},
            }
        )
        found += engine.stats["matches"]
    mops = engine.explain().to_dict()["mops"]
    (join,) = (mop for mop in mops if mop["does"].startswith("constraint join"))
    engine.finish()
    return join["detail"], found + engine.stats["matches"]


@pytest.mark.parametrize("worth", [0, 0.25])
def test_a_row_leaves_after_the_clusters_of_all_its_parents(worth: float) -> None:
    """That one of them is over is long forgotten when the last one is."""
    values, later = (12_000, 3_000) if COMPILED else (3_000, 1_500)
    detail, found = join_of_both(values, later, "exact", worth=worth)
    assert found == 4 * (values - later)
    held = [rows["rows"] for rows in detail["inputs"]]
    # Those that wait for Q; and what has come since it was last gone through what is held.
    most = later + values // 3
    assert held[2] < most
    assert held[0] < 2 * most
