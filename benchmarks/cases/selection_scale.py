"""Selections by the thousand and by the million, against a table of rules that is joined.

Workload A, `Name = X AND Price > Y`, is what a table of rules is good at: the table is joined in the
same process, on one core, by hash on the name. Workload B, two equalities and two ranges on four of
twenty attributes, has too many shapes for a table: Braid alone. Matches are counted for all rules
and compared one by one for the first ones.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks import selections
from benchmarks.engines import (
    NO_RULES,
    Checked,
    Feed,
    Rules,
    Standing,
    digest,
    label,
    use_one_core,
)
from benchmarks.harness import Case, Measured, Prepared, Ratio, Size, Variants
from benchmarks.subscribed import ENVIRONMENT

SMALL: dict[str, Any] = {
    "points": (100, 1_000, 10_000),
    "growth": ((1_000, 10_000),),
    "shapes": (1_000,),
    "unshared": 100,
    "events": 20_000,
    "events_at": {},
    "batch": 10_000,
    "checked": 100,
    "checked_ticks": 20_000,
    "checked_readings": 1_000,
    "seed": 1,
}
FULL: dict[str, Any] = SMALL | {
    "points": (1_000, 10_000, 100_000, 1_000_000),
    "growth": ((10_000, 1_000_000),),
    "shapes": (10_000, 100_000, 1_000_000),
    "unshared": 10_000,
    "events": 500_000,
    "events_at": {100_000: 200_000, 1_000_000: 100_000},
    "batch": 50_000,
    "checked": 1_000,
}


class Quotes:
    """What the variants of workload A have in common: the quotes and the rules."""

    def __init__(self, size: Size, queries: int, ticks: int | None = None) -> None:
        use_one_core()
        self.size, self.queries = size, queries
        count = ticks or selections.size_of(size, queries)
        self.seen = selections.quotes(count, size["seed"])
        self.wanted = selections.rules(queries, size["seed"])
        self.feed = self.seen.feed(size["batch"])

    def answer(self, rows: Any, matches: int) -> dict[str, Any]:
        return {"checked": digest(rows), f"matches@{label(self.queries)},{len(self.seen)}": matches}

    def close(self) -> None:
        pass


class Braid(Quotes):
    def __init__(
        self, size: Size, queries: int, rules: Rules = None, ticks: int | None = None
    ) -> None:
        super().__init__(size, queries, ticks)
        self.standing = Standing([selections.QUOTES], rules=rules)

    def prepare(self) -> Prepared:
        register_s = self.standing.register(selections.quote_queries(self.wanted))
        return Prepared(self.standing.warm_up(self.feed), register_s)

    def measure(self) -> Measured:
        ids = [f"q{n}" for n in range(self.size["checked"])]
        run = self.standing.run(self.feed, Checked(ids, self.size["checked_ticks"]))
        answer = self.answer(run.found, run.matches)
        return Measured(run.seconds, run.events, answer, run.state_bytes, {"matches": run.matches})


class RulesTable(Quotes):
    def prepare(self) -> Prepared:
        started = time.perf_counter()
        self.table = selections.RulesTable(self.wanted)
        registered = time.perf_counter()
        self.measure()
        return Prepared(time.perf_counter() - registered, registered - started)

    def measure(self) -> Measured:
        seconds, matches, checked = 0.0, 0, []
        for tables in self.feed.tables(0):
            started = time.perf_counter()
            rows, rules = self.table.join(tables["Stock"])
            seconds += time.perf_counter() - started
            matches += len(rows)
            at = tables["Stock"].column("t").to_numpy()[rows]
            checked.append(np.column_stack([rules, at, at])[self._is_checked(rules, at)])
        answer = self.answer(np.concatenate(checked), matches)
        return Measured(seconds, len(self.seen), answer, extra={"matches": matches})

    def _is_checked(self, rules: Any, at: Any) -> Any:
        return (rules < self.size["checked"]) & (at < self.size["checked_ticks"])


class Readings:
    """Workload B."""

    def __init__(self, size: Size, queries: int) -> None:
        use_one_core()
        self.size, self.queries = size, queries
        values = selections.readings(selections.size_of(size, queries), size["seed"])
        self.feed: Feed = selections.reading_feed(values, size["batch"])
        ticks = size["checked_ticks"]
        self.standing = Standing([selections.READINGS])
        checked = min(queries, size["checked_readings"])
        self.checked = Checked([f"q{n}" for n in range(checked)], ticks)
        self.expected = digest(selections.readings_wanted(values[:ticks], checked, size["seed"]))

    def prepare(self) -> Prepared:
        texts = selections.reading_queries(self.queries, self.size["seed"])
        register_s = self.standing.register(texts)
        return Prepared(self.standing.warm_up(self.feed), register_s)

    def measure(self) -> Measured:
        run = self.standing.run(self.feed, self.checked)
        found = digest(run.found)
        assert found == self.expected, f"found {found}, expected {self.expected}"
        extra = {"matches": run.matches, "checked_matches": found[0]}
        return Measured(run.seconds, run.events, None, run.state_bytes, extra)

    def close(self) -> None:
        pass


class OneByOne:
    """The checked rules of workload A, compared with every quote."""

    def __init__(self, size: Size) -> None:
        seen = selections.quotes(size["checked_ticks"], size["seed"])
        started = time.perf_counter()
        found = selections.quotes_wanted(seen, selections.rules(size["checked"], size["seed"]))
        seconds = time.perf_counter() - started
        self.measured = Measured(seconds, len(seen), {"checked": digest(found)})

    def prepare(self) -> Prepared:
        return Prepared()

    def measure(self) -> Measured:
        return self.measured

    def close(self) -> None:
        pass


def variants(size: Size) -> Variants:
    made: dict[str, Any] = {"one_by_one": OneByOne}
    for queries in size["points"]:
        made[f"braid@{label(queries)}"] = partial(Braid, queries=queries)
        made[f"rules_table@{label(queries)}"] = partial(RulesTable, queries=queries)
    for queries in size["shapes"]:
        made[f"many_shapes@{label(queries)}"] = partial(Readings, queries=queries)
    made[f"unshared@{label(size['unshared'])}"] = partial(
        Braid, queries=size["unshared"], rules=NO_RULES, ticks=size["checked_ticks"]
    )
    return made


def ratios(size: Size) -> tuple[Ratio, ...]:
    against = [
        Ratio(f"braid/rules_table@{n}", "throughput", f"braid@{n}", f"rules_table@{n}")
        for n in map(label, size["points"])
    ]
    grown = [
        Ratio(f"time_{many}/time_{few}", "time", f"braid@{many}", f"braid@{few}")
        for few, many in (map(label, pair) for pair in size["growth"])
    ]
    alone = label(size["unshared"])
    shared = Ratio(f"shared/unshared@{alone}", "throughput", f"braid@{alone}", f"unshared@{alone}")
    return (*against, *grown, shared)


CASE = Case(
    name="selection_scale",
    about="selection queries by their number, against a joined table of rules",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    env=ENVIRONMENT,
)
