"""Queries as people write them, of which hardly two have one shape, in one engine and one engine each.

The rival would be as many engines as queries, each over all events. Only some of these are run, drawn
evenly from the set; their mean time stands for each of the others, so `seconds` of `one_each` is
extrapolated. The sampled queries must give the same results in both.

`mops/subexpressions`: operators of the shared plan over the distinct sub-expressions of the texts, which
are the operators that sharing of equal text alone would need.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.engines import Checked, Run, Standing, digest, use_one_core
from benchmarks.harness import Case, Figure, Measured, Prepared, Ratio, Size, Variants
from benchmarks.memory import resident
from benchmarks.mixed_rules import CHANGE, EVENT, Writer, distinct_parts, events
from benchmarks.subscribed import ENVIRONMENT

SMALL: dict[str, Any] = {
    "queries": 80,
    "sampled": 16,
    "events": 3_000,
    "batch": 1_500,
    "seed": 1,
}
FULL: dict[str, Any] = SMALL | {
    "queries": 10_000,
    "sampled": 50,
    "events": 20_000,
    "batch": 10_000,
}
_SOURCES = (EVENT, CHANGE)


class _Mixed:
    """The queries and the events that both variants have."""

    def __init__(self, size: Size) -> None:
        use_one_core()
        self.size = size
        self.queries = list(Writer(size["seed"]).queries(size["queries"]))
        self.feed = events(size["events"], size["seed"], size["batch"])
        self.sample = self.queries[:: max(1, size["queries"] // size["sampled"])]
        self.checked = Checked([name for name, _ in self.sample], self.feed.ticks)

    def close(self) -> None:
        pass


class Together(_Mixed):
    """All queries in one engine."""

    def prepare(self) -> Prepared:
        gc.collect()
        before = resident()
        self.standing = Standing(_SOURCES)
        register_s = self.standing.register(self.queries)
        compile_s = self.standing.warm_up(self.feed)
        gc.collect()
        self.grown = resident() - before
        self.mops = len(self.standing.engine.explain().to_dict()["mops"])
        self.parts = len({part for _, text in self.queries for part in distinct_parts(text)})
        return Prepared(compile_s, register_s)

    def measure(self) -> Measured:
        run = self.standing.run(self.feed, self.checked)
        extra = {
            "matches": run.matches,
            "mops": self.mops,
            "subexpressions": self.parts,
            "mops/subexpressions": self.mops / self.parts,
            "bytes_per_query": self.grown / len(self.queries),
        }
        return Measured(run.seconds, run.events, digest(run.found), run.state_bytes, extra)


class OneEach(_Mixed):
    """An engine for each of the sampled queries; their mean stands for the others."""

    def prepare(self) -> Prepared:
        self.engines = list(self._engines())
        compile_s = sum(standing.warm_up(self.feed) for standing in self.engines)
        return Prepared(compile_s)

    def _engines(self) -> Iterator[Standing]:
        for query in self.sample:
            standing = Standing(_SOURCES)
            standing.register([query])
            yield standing

    def measure(self) -> Measured:
        runs: list[Run] = [engine.run(self.feed, self.checked) for engine in self.engines]
        share = len(self.queries) / len(runs)
        seconds = share * sum(run.seconds for run in runs)
        found = np.concatenate([run.found for run in runs])
        state = round(share * sum(run.state_bytes for run in runs))
        extra = {"engines": len(runs), "matches_of_sampled": sum(run.matches for run in runs)}
        return Measured(seconds, runs[0].events, digest(found), state, extra)


def variants(size: Size) -> Variants:
    return {"together": Together, "one_each": OneEach}


def ratios(size: Size) -> tuple[Ratio | Figure, ...]:
    return (
        Ratio("together/one_each", "throughput", "together", "one_each"),
        Ratio("memory/one_each", "memory", "together", "one_each"),
        Figure("mops/subexpressions", "together", "mops/subexpressions"),
        Figure("bytes_per_query", "together", "bytes_per_query"),
    )


CASE = Case(
    name="mixed_rules",
    about="queries as people write them, of which hardly two have one shape",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    env=ENVIRONMENT,
)
