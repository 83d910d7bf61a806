"""The points of the cases on constraints: what is drawn, how far it is from strict, what is asked.

Sizes have `events`, `rows` (what a window holds), `ks`, `batch` (in ticks), `warm` (the part of the
events after which windows are full and measuring begins), `seed`. The small size is the full one,
which is the article's, divided by twenty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np

from benchmarks import k_joins, k_streams
from benchmarks.k_joins import Maker, Work
from benchmarks.k_streams import Ints, KStreams

FULL: dict[str, Any] = {
    "events": 700_000,
    "rows": 50_000,
    "ks": (0, 1_000, 5_000, 10_000, 20_000),
    "main": 5_000,
    "batch": 10_000,
    "warm": 0.8,
    "seed": 1,
}
SMALL: dict[str, Any] = FULL | {
    "events": 35_000,
    "rows": 2_500,
    "ks": (0, 50, 250, 500, 1_000),
    "main": 250,
    "batch": 500,
}

#: By the constraint that holds: the join graph, and what draws its streams.
_DRAWN: dict[str, tuple[str, Callable[..., KStreams]]] = {
    "rids": ("a", k_streams.referring),
    "ca": ("b", partial(k_streams.arranged, arrangement="clustered")),
    "oap": ("b", partial(k_streams.arranged, arrangement="scrambled")),
    "oac": ("c", k_streams.ordered_children),
    "ca_and_oac": ("a", k_streams.clusters_and_order),
}


@lru_cache(4)
def drawn(kind: str, events: int, k: int, seed: int) -> KStreams:
    return _DRAWN[kind][1](events, k, seed)


@lru_cache(4)
def drawn_clusters(events: int, clustering: int, k: int, seed: int) -> KStreams:
    return k_streams.clusters_that_refer(events, clustering, k, seed)


def work(graph: str, streams: KStreams, size: Mapping[str, Any], **asked: Any) -> Work:
    """The query of a join graph over streams, with windows that hold `rows` of each."""
    rates = {name: len(c["t"]) / streams.events for name, c in streams.columns.items()}
    batches = streams.batches(size["batch"])
    warm = min(int(len(batches) * size["warm"]), len(batches) - 1)
    return Work(k_joins.statements(graph, size["rows"], rates, **asked), batches, warm)


def of_kind(size: Mapping[str, Any], kind: str, k: int) -> Work:
    streams = drawn(kind, size["events"], k, size["seed"])
    return work(_DRAWN[kind][0], streams, size)


def points(size: Mapping[str, Any], kind: str) -> dict[str, Maker]:
    """A point for each k, as figures 8, 10, 12 and 14 and table I have them."""
    return {f"k{k}": partial(of_kind, kind=kind, k=k) for k in size["ks"]}


# --- figures 15 and 16 ---

CLUSTERED = "CREATE CONSTRAINT together ON S1 (a) CLUSTERED WITHIN {0} ROWS;"
ORDERED = "CREATE CONSTRAINT ordered ON S3 (b) ASCENDING WITHIN {0} ROWS;"
REFERS = "CREATE CONSTRAINT refers ON S1 (a) REFERENCES S2 (a) WITHIN {0} ROWS;"


def combined(size: Mapping[str, Any], declared: tuple[str, ...]) -> Work:
    """CA(0) and OAC(k) hold; `declared` are those that are told (figure 15)."""
    streams = drawn("ca_and_oac", size["events"], size["main"], size["seed"])
    texts = {"ca": CLUSTERED.format(0), "oac": ORDERED.format(size["main"])}
    return work("a", streams, size, constraints=[texts[name] for name in declared])


def clusters(size: Mapping[str, Any], k: int) -> Work:
    """CA and RIDS(k) hold on a join with a filter that few pass (figure 16)."""
    streams = drawn_clusters(size["events"], size["main"], k, size["seed"])
    declared = [CLUSTERED.format(size["main"]), REFERS.format(k)]
    return work("c", streams, size, selectivity=10, constraints=declared)


def combinations(size: Mapping[str, Any]) -> dict[str, Maker]:
    told = {"none_told": (), "ca": ("ca",), "oac": ("oac",), "both": ("ca", "oac")}
    found: dict[str, Maker] = {n: partial(combined, declared=d) for n, d in told.items()}
    return found | {f"ca_rids_k{k}": partial(clusters, k=k) for k in size["ks"]}


# --- figures 9, 11 and 13: a k that changes ---

#: The parts of a stream, and whether k is low or high at the begin and at the end of each.
PHASES = (
    ("constant", 0.0, 0.0),
    ("rising", 0.0, 1.0),
    ("high", 1.0, 1.0),
    ("falling", 1.0, 0.0),
    ("low", 0.0, 0.0),
    ("jumped", 1.0, 1.0),
    ("fell", 0.0, 0.0),
)
#: How joins call the constraints that they find, and the input whose events they are about.
_NAMED = {"rids": ("references", 1), "ca": ("clustered", 0), "oap": ("ascending", 0)}
#: While k rises, and a while after it has jumped.
RISING = ("rising", "jumped")


def schedule(count: int, low: int, high: int) -> Ints:
    """k for each of so many events or values, phase by phase."""
    edges = np.linspace(0, count, len(PHASES) + 1).round().astype(np.int64)
    parts = [
        np.linspace(begin, end, size, dtype=np.float64)
        for (_, begin, end), size in zip(PHASES, np.diff(edges), strict=True)
    ]
    return np.round(low + (high - low) * np.concatenate(parts)).astype(np.int64)


def changing(size: Mapping[str, Any], kind: str) -> Work:
    """The streams of a kind with a k that rises and falls, and the batches of each phase."""
    events, low, high = size["events"], size["low"], size["high"]
    share = {"rids": 5 / 7, "ca": 1 / 11, "oap": 1 / 11}[kind]
    streams = _DRAWN[kind][1](events, schedule(int(events * share), low, high), size["seed"])
    made = work(_DRAWN[kind][0], streams, size)
    parts = np.array_split(np.arange(len(made.batches)), len(PHASES))
    rising = [
        int(b) for (name, _, _), p in zip(PHASES, parts, strict=True) for b in p if name in RISING
    ]
    steady = sorted(set(range(len(made.batches))) - set(rising))
    blocks = {"false_negatives_rising": rising, "false_negatives_steady": steady}
    truth = (_NAMED[kind], schedule(len(made.batches), low, high).tolist())
    # As in the article, which uses whatever holds: it is to be seen how k is followed.
    watching = {"worth": 0.0}
    return Work(made.statements, made.batches, made.warm, blocks, truth=truth, watching=watching)


def disordered(size: Mapping[str, Any]) -> Work:
    """No constraint holds: partners come anywhere in the windows. What is measured is the watching."""
    streams = drawn("rids", size["events"], size["rows"], size["seed"])
    return work("a", streams, size)


def monitored(size: Mapping[str, Any]) -> dict[str, Maker]:
    found: dict[str, Maker] = {kind: partial(changing, kind=kind) for kind in ("rids", "ca", "oap")}
    return found | {"does_not_hold": disordered}
