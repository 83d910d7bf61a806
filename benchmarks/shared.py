"""What `shared_windows` and `shared_joins` share: queries by their number, with rules and without."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.engines import (
    NO_RULES,
    Checked,
    Feed,
    Rules,
    Source,
    Standing,
    digest,
    label,
    use_one_core,
)
from benchmarks.harness import Measured, Prepared, Ratio, Size, Variants, Worked
from benchmarks.workloads import Ints

#: Queries that share less than they could are measured on fewer events where they are many.
SMALL: dict[str, Any] = {
    "points": (1, 10, 100),
    "events": 20_000,
    "unshared_events": {},
    "batch": 10_000,
    "checked": 100,
    "checked_ticks": 5_000,
    "seed": 1,
}
FULL: dict[str, Any] = SMALL | {
    "points": (1, 10, 100, 1_000, 10_000),
    "events": 100_000,
    "unshared_events": {1_000: 20_000, 10_000: 10_000},
}


@dataclass(frozen=True)
class Workload:
    """Queries by their number, what they read, and the columns of results that are compared."""

    sources: tuple[Source, ...]
    queries: Callable[[int, int], Iterable[tuple[str, str]]]
    feed: Callable[[int, int, int], Feed]
    columns: tuple[str, ...]


def question(queries: int) -> str:
    return f"first {queries}"


def checked(size: Size) -> Iterable[int]:
    """How many queries are compared one by one."""
    return dict.fromkeys(min(count, size["checked"]) for count in size["points"])


class Together:
    """So many queries in one engine; the first of them are checked."""

    def __init__(
        self, size: Size, workload: Workload, queries: int, *, rules: Rules = None
    ) -> None:
        use_one_core()
        self.size, self.count = size, queries
        events = size["unshared_events"].get(queries) if rules else None
        feed = workload.feed(size["events"], size["batch"], size["seed"])
        self.feed = feed.first(events) if events else feed
        self.queries = workload.queries(queries, size["seed"])
        self.standing = Standing(workload.sources, rules=rules)
        self.first = min(queries, size["checked"])
        ids = [f"q{number}" for number in range(self.first)]
        self.checked = Checked(ids, size["checked_ticks"], workload.columns)

    def prepare(self) -> Prepared:
        register_s = self.standing.register(self.queries)
        return Prepared(self.standing.warm_up(self.feed), register_s)

    def measure(self) -> Measured:
        run = self.standing.run(self.feed, self.checked)
        answer = {
            question(self.first): digest(run.found),
            f"matches of {self.count} in {self.feed.ticks} ticks": run.matches,
        }
        extra = {"matches_per_event": run.matches / run.events, "held": run.instances}
        return Measured(run.seconds, run.events, answer, run.state_bytes, extra)

    def close(self) -> None:
        pass


class OneByOne(Worked):
    """The checked queries, worked out without any engine."""

    def __init__(self, size: Size, answers: Callable[[Size], Mapping[str, Ints]]) -> None:
        found = answers(size)
        answer = {question: digest(rows) for question, rows in found.items()}
        super().__init__(answer, {f"found: {q}": float(len(rows)) for q, rows in found.items()})


def variants(workload: Workload, size: Size) -> Variants:
    made: dict[str, Any] = {}
    for count in size["points"]:
        point = {"workload": workload, "queries": count}
        made[f"shared@{label(count)}"] = partial(Together, **point)
        made[f"unshared@{label(count)}"] = partial(Together, **point, rules=NO_RULES)
    return made


def ratios(size: Size) -> tuple[Ratio, ...]:
    return tuple(
        Ratio(f"shared/unshared@{point}", "throughput", f"shared@{point}", f"unshared@{point}")
        for point in map(label, size["points"])
    )
