"""NEXMark's queries that are joins, windows and aggregates, together in one engine.

With all rules off each of them, and its changes in both directions, is evaluated alone in the same engine.
What is in each relation at the end must be what plain loops over the whole tables find. Each query is also
measured by itself, for orientation. q102, which compares every auction with all bids whenever one comes, is
only in the tests.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from functools import partial
from typing import Any

from benchmarks import nexmark
from benchmarks.engines import NO_RULES, Rules, one_pass, use_one_core
from benchmarks.harness import Case, Measured, Prepared, Ratio, Size, Variants, Worked
from benchmarks.nexmark_answers import ANSWERS, rows_in, words
from benchmarks.subscribed import ENVIRONMENT

SMALL: dict[str, Any] = {"events": 5_000, "batch_s": 10, "seed": 1}
FULL: dict[str, Any] = SMALL | {"events": 100_000, "batch_s": 100}

QUERIES = tuple(name for name in nexmark.QUERIES if name != "q102")


def digest(rows: list[list[str]]) -> tuple[int, str]:
    return len(rows), hashlib.sha256(repr(rows).encode()).hexdigest()


class Queries:
    """Some of the queries, in an engine that begins anew with each round."""

    def __init__(self, size: Size, queries: tuple[str, ...], rules: Rules = None) -> None:
        use_one_core()
        self.queries, self.rules = queries, rules
        market = nexmark.drawn(size["events"], size["seed"])
        self.batches = market.batches(timedelta(seconds=size["batch_s"]))
        self.statements = nexmark.statements(queries)

    def prepare(self) -> Prepared:
        first = one_pass(self.statements, self.batches, rules=self.rules)
        return Prepared(compile_s=first.plan_s + first.seconds)

    def measure(self) -> Measured:
        run = one_pass(self.statements, self.batches, rules=self.rules)
        answer = {query: digest(rows_in(run.results, query)) for query in self.queries}
        changes = sum(table.num_rows for tables in run.results.values() for table in tables)
        extra = {"plan_s": run.plan_s, "changes_per_event": changes / run.events}
        return Measured(run.seconds, run.events, answer, run.state_bytes, extra)

    def close(self) -> None:
        pass


class OneByOne(Worked):
    """What is in each relation at the end, without any engine."""

    def __init__(self, size: Size) -> None:
        market = nexmark.drawn(size["events"], size["seed"])
        answer = {query: digest(words(ANSWERS[query](market))) for query in QUERIES}
        super().__init__(answer, {f"rows: {query}": float(n) for query, (n, _) in answer.items()})


def variants(size: Size) -> Variants:
    made: dict[str, Any] = {
        "one_by_one": OneByOne,
        "shared": partial(Queries, queries=QUERIES),
        "unshared": partial(Queries, queries=QUERIES, rules=NO_RULES),
    }
    return made | {query: partial(Queries, queries=(query,)) for query in QUERIES}


CASE = Case(
    name="nexmark",
    about="NEXMark's joins, windows and aggregates in one engine, with rules and without",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=(
        Ratio("shared/unshared", "throughput", "shared", "unshared"),
        Ratio("memory/unshared", "memory", "shared", "unshared"),
    ),
    shares_process=True,
    env=ENVIRONMENT,
)
