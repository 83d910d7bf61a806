"""The cases of the technical benchmark: one template, growing numbers of subscriptions."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cayuga import SOURCE, Events, Parameters, Texts, events, subscriptions
from benchmarks.cayuga_answers import expected
from benchmarks.engines import (
    NO_RULES,
    Checked,
    Rules,
    Standing,
    digest,
    label,
    use_one_core,
)
from benchmarks.harness import Case, Measured, Prepared, Ratio, Size, Variants

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

SMALL: dict[str, Any] = {
    "points": (100, 1_000),
    "growth": ((100, 1_000),),
    "unshared": 100,
    "events": 20_000,
    "unshared_events": 2_000,
    "batch": 10_000,
    "checked": 100,
    "checked_ticks": 2_000,
}
FULL: dict[str, Any] = SMALL | {
    "points": (10_000, 100_000, 400_000, 1_000_000),
    "growth": ((10_000, 400_000), (10_000, 1_000_000)),
    "unshared": 10_000,
    "events": 100_000,
    "batch": 50_000,
}


def parameters_of(size: Size) -> Parameters:
    return Parameters(planted=size["checked"], planted_ticks=size["checked_ticks"])


def stream_of(template: str, count: int, parameters: Parameters) -> Events:
    """Linear templates look at events in a row; the others pass events over."""
    return events(count, parameters, apart=1 if template.startswith("linear") else 3)


class Subscribed:
    """Braid with so many subscriptions of one template."""

    def __init__(
        self,
        size: Size,
        template: str,
        queries: int,
        *,
        rules: Rules = None,
        ticks: int | None = None,
        changed: Parameters | None = None,
    ) -> None:
        use_one_core()
        self.queries = queries
        self.parameters = changed or parameters_of(size)
        self.is_comparable = changed is None
        self.texts = Texts(
            template, self.parameters, stream_of(template, size["events"], self.parameters)
        )
        feed = self.texts.seen.feed(size["batch"], gap=self.parameters.duration + 1)
        self.feed = feed.first(ticks) if ticks else feed
        sums = ("sum_c0",) if template == "nondeterministic_agg" else ()
        ids = [f"q{n}" for n in range(size["checked"])]
        self.checked = Checked(ids, size["checked_ticks"], sums)
        self.standing = Standing([SOURCE], rules=rules)

    def prepare(self) -> Prepared:
        register_s = self.standing.register(self.texts.queries(self.queries))
        return Prepared(self.standing.warm_up(self.feed), register_s)

    def measure(self) -> Measured:
        run = self.standing.run(self.feed, self.checked)
        answer: dict[str, Any] = {"checked": digest(run.found)} if self.is_comparable else {}
        if len(self.feed.columns["S"]["t"]) == len(self.texts.seen):
            answer[f"matches@{label(self.queries)}"] = run.matches
        extra = {
            "matches": run.matches,
            "instances": run.instances,
            "state_bytes_per_query": run.state_bytes / self.queries,
        }
        return Measured(run.seconds, run.events, answer, run.state_bytes, extra)

    def close(self) -> None:
        pass


class OneByOne:
    """The checked subscriptions, worked out without any engine: an answer, no rival."""

    def __init__(self, size: Size, template: str) -> None:
        parameters, ticks = parameters_of(size), size["checked_ticks"]
        seen = stream_of(template, size["events"], parameters)
        drawn = subscriptions(0, parameters, seen)
        part = Events(seen.discrete[:ticks], seen.continuous[:ticks], seen.runs, seen.run_attribute)
        started = time.perf_counter()
        found = expected(template, drawn, size["checked"], part, parameters)
        self.measured = Measured(
            time.perf_counter() - started,
            ticks,
            {"checked": digest(found)},
            extra={"checked_queries": size["checked"], "checked_matches": len(found)},
        )

    def prepare(self) -> Prepared:
        return Prepared()

    def measure(self) -> Measured:
        return self.measured

    def close(self) -> None:
        pass


class Prototype:
    """The loop written for the `filter` template alone."""

    def __init__(self, size: Size, queries: int) -> None:
        use_one_core()
        self.queries, self.ticks = queries, size["checked_ticks"]
        self.checked = size["checked"]
        self.parameters = parameters_of(size)
        self.seen = stream_of("filter", size["events"], self.parameters)

    def prepare(self) -> Prepared:
        from benchmarks.cayuga_prototype import compile_rules

        started = time.perf_counter()
        self.rules = compile_rules(self.queries, self.parameters, self.seen)
        registered = time.perf_counter()
        self.measure()
        return Prepared(time.perf_counter() - registered, registered - started)

    def measure(self) -> Measured:
        from benchmarks.cayuga_prototype import find_matches, matches, waiting

        held, found = waiting(1_000_000, self.parameters), matches(1_000_000)
        domain, duration = self.parameters.domain, self.parameters.duration
        started = time.perf_counter()
        count = find_matches(
            self.seen.discrete, self.seen.continuous, self.rules, held, found, domain, duration
        )
        seconds = time.perf_counter() - started
        assert 0 <= count <= len(found.rule), "the prototype has room for all of it"
        rows = np.stack([c[:count] for c in found], axis=1)
        rows = rows[(rows[:, 0] < self.checked) & (rows[:, 2] < self.ticks)]
        answer = {"checked": digest(rows), f"matches@{label(self.queries)}": count}
        return Measured(seconds, len(self.seen), answer, extra={"matches": count})

    def close(self) -> None:
        pass


def growth_case(template: str, about: str) -> Case:
    """Time per event against the number of subscriptions, and the same with all sharing off."""
    return Case(
        name=f"cayuga_{template}",
        about=about,
        sizes={"small": SMALL, "full": FULL},
        variants=partial(variants, template),
        ratios=ratios,
        env=ENVIRONMENT,
    )


def variants(template: str, size: Size) -> Variants:
    unshared = size["unshared"]
    made: dict[str, Any] = {"one_by_one": partial(OneByOne, template=template)}
    for queries in dict.fromkeys((unshared, *size["points"])):
        made[label(queries)] = partial(Subscribed, template=template, queries=queries)
    made[f"unshared@{label(unshared)}"] = partial(
        Subscribed,
        template=template,
        queries=unshared,
        rules=NO_RULES,
        ticks=size["unshared_events"],
    )
    return made


def ratios(size: Size) -> tuple[Ratio, ...]:
    grown = tuple(
        Ratio(f"time_{label(many)}/time_{label(few)}", "time", label(many), label(few))
        for few, many in size["growth"]
    )
    point = label(size["unshared"])
    return (*grown, Ratio(f"shared/unshared@{point}", "throughput", point, f"unshared@{point}"))
