"""What it takes to register queries, to hold them, and to change them while events flow.

- by text: one call for each query, all of one shape, which is known after the first; and
  three-step patterns of many shapes;
- prepared: one text and a table of parameters, a query for each row;
- adding: one query to very many that are running, with what the next batch takes longer for it;
- churn: so many adds and drops a second while events flow, against the same without.

An event here is a query for the first three. Registering counts until the first batch of events has
come through, so that nothing is put off. Bytes are what the process has grown by, all told.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections import deque
from functools import partial
from typing import Any

import pyarrow as pa

from benchmarks import cayuga, selections, subscribed
from benchmarks.engines import Standing, label, use_one_core
from benchmarks.harness import (
    Case,
    Figure,
    Measured,
    Prepared,
    Ratio,
    Ratios,
    Size,
    Variants,
    Worked,
)
from benchmarks.memory import resident
from benchmarks.workloads import name_texts

DURATION = 10_000  # of patterns that are running

SMALL: dict[str, Any] = {
    "texts": 20_000,
    "patterns": 300,
    "rows": 20_000,
    "running": 1_000,
    "adds": 5,
    "churn_per_s": 1_000,
    "changes_at_once": 20,
    "events": 20_000,
    "batch": 1_000,
    "seed": 1,
}
FULL: dict[str, Any] = SMALL | {
    "texts": 100_000,
    "patterns": 100_000,
    "rows": 1_000_000,
    "running": 100_000,
    "adds": 50,
    "changes_at_once": 500,
    "events": 500_000,
    "batch": 5_000,
}


class Registering:
    """A fresh engine for every round; the first one only warms up."""

    def __init__(self, size: Size, kind: str) -> None:
        use_one_core()
        self.size, self.kind = size, kind
        self.queries = size[kind]
        if kind == "patterns":
            parameters = subscribed.parameters_of(subscribed.SMALL)
            self.texts = cayuga.Texts("filter", parameters, cayuga.events(2_000, parameters))
            self.feed = self.texts.seen.feed(2_000, gap=21)
        else:
            self.rules = selections.rules(self.queries, size["seed"])
            self.seen = selections.quotes(2_000, size["seed"])
            self.feed = self.seen.feed(2_000)

    def prepare(self) -> Prepared:
        """Bytes are those of the first time: later on, memory that was let go is used again."""
        started = time.perf_counter()
        self._running(max(1, self.queries // 100))
        warm = time.perf_counter()
        gc.collect()
        before = resident()
        running, *_ = self._running(self.queries)
        gc.collect()
        self.grown = resident() - before
        del running
        return Prepared(compile_s=warm - started, register_s=time.perf_counter() - warm)

    def _register(self, count: int) -> tuple[Standing, float]:
        source = cayuga.SOURCE if self.kind == "patterns" else selections.QUOTES
        standing = Standing([source])
        if self.kind == "patterns":
            return standing, standing.register(self.texts.queries(count))
        part = selections.Rules(self.rules.code[:count], self.rules.floor[:count])
        if self.kind == "rows":
            return standing, standing.register_rows("rules", selections.PREPARED, part.table())
        return standing, standing.register(selections.quote_queries(part))

    def _running(self, count: int) -> tuple[Standing, float, float]:
        """An engine that has taken its first batch; seconds of registering and of that batch."""
        standing, registering = self._register(count)
        (tables,) = self.feed.tables(0)
        return standing, registering, standing.process(tables)

    def measure(self) -> Measured:
        gc.collect()
        standing, registering, first = self._running(self.queries)
        matches = standing.matches + self._last(standing)
        extra = {
            "queries_per_s": self.queries / (registering + first),
            "bytes_per_query": self.grown / self.queries,
            "state_bytes_per_query": standing.engine.stats["state_bytes"] / self.queries,
            "register_s": registering,
            "first_batch_s": first,
            "matches": matches,
        }
        answer = None if self.kind == "patterns" else {f"matches@{self.queries}": matches}
        return Measured(registering + first, self.queries, answer, extra=extra)

    def _last(self, standing: Standing) -> int:
        standing.process(self.feed.ending(self.feed.ticks + self.feed.gap))
        return standing.matches

    def close(self) -> None:
        pass


class Expected(Worked):
    """How many matches the registered rules have, by a joined table."""

    def __init__(self, size: Size) -> None:
        answer = {}
        table = selections.quotes(2_000, size["seed"]).feed(2_000).tables(0)[0]["Stock"]
        for count in {size["texts"], size["rows"]}:
            joined = selections.RulesTable(selections.rules(count, size["seed"]))
            rows, _ = joined.join(table)
            answer[f"matches@{count}"] = len(rows)
        super().__init__(answer)


class Running:
    """Very many patterns that are running while events flow.

    Each wants a quote of a name above a price and then a lower one: a change has state to mind.
    """

    def __init__(self, size: Size) -> None:
        use_one_core()
        self.size = size
        self.rules = selections.rules(size["running"], size["seed"])
        self.names = name_texts(selections.NAMES).to_pylist()
        self.seen = selections.quotes(size["events"], size["seed"])
        self.feed = self.seen.feed(size["batch"])
        self.standing = Standing([selections.QUOTES])
        self.added = self.rounds = 0
        self.alive = deque((f"q{rule}", rule) for rule in range(len(self.rules)))

    def text(self, rule: int) -> str:
        name, floor = self.names[self.rules.code[rule]], self.rules.floor[rule]
        return (
            f"SELECT * FROM FILTER{{Name = '{name}' AND Price > {floor}}}(Stock)"
            f" NEXT{{$2.Name = '{name}' AND $2.Price < $1.Price AND DUR <= {DURATION}}} Stock"
        )

    def prepare(self) -> Prepared:
        texts = [(name, self.text(rule)) for name, rule in self.alive]
        register_s = self.standing.register(texts)
        started = time.perf_counter()
        self.process(self.batches()[0])
        return Prepared(time.perf_counter() - started, register_s)

    def batches(self) -> list[pa.Table]:
        """A round's tables; each round is later than the one before it."""
        offset = self.rounds * (self.feed.ticks + 2 * DURATION)
        self.rounds += 1
        return [tables["Stock"] for tables in self.feed.tables(offset)]

    def process(self, table: pa.Table) -> float:
        return self.standing.process({"Stock": table})

    def add(self, rule: int) -> None:
        name = f"new{self.added}"
        self.standing.engine.query(name, self.text(rule))
        self.alive.append((name, rule))
        self.added += 1

    def close(self) -> None:
        pass


class Adding(Running):
    """What one more query costs: its own call, and what the next batch takes longer than usual."""

    def measure(self) -> Measured:
        tables, adds = self.batches(), self.size["adds"]
        quiet = statistics.median(self.process(table) for table in tables[:adds])
        calls, batches = [], []
        for table in tables[adds : 2 * adds]:
            started = time.perf_counter()
            self.add(self.added % len(self.rules))
            calls.append(time.perf_counter() - started)
            batches.append(self.process(table))
        costs = [call + max(0.0, b - quiet) for call, b in zip(calls, batches, strict=True)]
        extra = {
            "add_ms": 1_000 * statistics.median(costs),
            "add_ms_worst": 1_000 * max(costs),
            "call_ms": 1_000 * statistics.median(calls),
        }
        return Measured(sum(costs), len(costs), extra=extra)


class Steady(Running):
    def measure(self) -> Measured:
        tables = self.batches()
        started = time.perf_counter()
        for table in tables:
            self.process(table)
        return Measured(time.perf_counter() - started, self.feed.events, self.afterwards())

    def afterwards(self) -> int:
        """Matches of a few more batches, which are the same if the queries are."""
        matches = 0
        for table in self.batches()[:20]:
            self.process(table)
            matches += self.standing.matches
        return matches


class Churn(Steady):
    """After each batch as many queries as are due by the clock give way to equal ones, with new ids.

    Where changes take too long for the rate that is asked, the rate that was reached is told.
    """

    def measure(self) -> Measured:
        tables, rate = self.batches(), self.size["churn_per_s"]
        changed, started = 0, time.perf_counter()
        for table in tables:
            self.process(table)
            due = int(rate * (time.perf_counter() - started)) - changed
            due = min(due, self.size["changes_at_once"])
            for _ in range(due):
                self.replace_oldest()
            changed += due
        seconds = time.perf_counter() - started
        extra = {"adds_and_drops_per_s": changed / seconds}
        return Measured(seconds, self.feed.events, self.afterwards(), extra=extra)

    def replace_oldest(self) -> None:
        name, rule = self.alive.popleft()
        self.standing.drop(name)
        self.add(rule)


def variants(size: Size) -> Variants:
    return {
        "expected": Expected,
        "texts": partial(Registering, kind="texts"),
        "patterns": partial(Registering, kind="patterns"),
        "prepared": partial(Registering, kind="rows"),
        "adding": Adding,
        "steady": Steady,
        "churn": Churn,
    }


def ratios(size: Size) -> Ratios:
    names = ("texts", "patterns", "prepared")
    running = label(size["running"])
    return (
        Figure("queries_per_s", "texts", "queries_per_s"),
        Figure("bytes_per_query", "prepared", "bytes_per_query"),
        *(Figure(f"queries_per_s@{name}", name, "queries_per_s") for name in names),
        *(Figure(f"bytes_per_query@{name}", name, "bytes_per_query") for name in names),
        Figure(f"add_ms@{running}", "adding", "add_ms"),
        Ratio(f"churn/steady@{running}", "throughput", "churn", "steady"),
    )


CASE = Case(
    name="registration",
    about="registering, holding, adding and dropping queries",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    env=subscribed.ENVIRONMENT,
)
