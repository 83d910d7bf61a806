"""Windowed aggregates that differ in window, selection and grouping, by their number.

With all rules off each query has its own selection, window and groups, in the same engine; with two rules
off (own_buffers) there is a buffer for each grouping, as it needs other columns. Where the
queries are many they are measured without rules on fewer events. And one query with all aggregates by the
length of its window: the time per event does not depend on it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import relations, shared
from benchmarks.engines import Checked, Standing, digest, label, use_one_core
from benchmarks.harness import Case, Measured, Prepared, Ratio, Size, Variants
from benchmarks.shared import OneByOne, Together, Workload
from benchmarks.subscribed import ENVIRONMENT
from benchmarks.workloads import Ints

#: Without these, groupings have buffers of their own.
OWN_BUFFERS = {"s_grouping": False, "s_buffer": False}

SMALL: dict[str, Any] = shared.SMALL | {
    "own_buffers": (10,),
    "lengths": (100, 10_000),
    "length_events": 40_000,
    "length_ticks": 3_000,
}
FULL: dict[str, Any] = shared.FULL | {
    "own_buffers": (1, 100, 1_000),
    "lengths": (100, 1_000, 10_000, 100_000),
    "length_events": 400_000,
    "length_ticks": 3_000,
}

WORKLOAD = Workload(
    sources=(relations.READINGS,),
    queries=lambda count, seed: relations.sums(count, seed).queries(),
    feed=lambda events, batch, seed: relations.readings(events, seed).feed(batch),
    columns=("key", "total", "n"),
)


class Length:
    """One query with a window of so many ticks."""

    def __init__(self, size: Size, window: int) -> None:
        use_one_core()
        self.window = window
        seen = relations.readings(size["length_events"], size["seed"])
        self.feed = seen.feed(size["batch"], gap=window + 1)
        self.standing = Standing([relations.READINGS])
        columns = ("key", "total", "low", "high", "n")
        self.checked = Checked(["q0"], size["length_ticks"], columns)

    def prepare(self) -> Prepared:
        register_s = self.standing.register([("q0", relations.length_query(self.window))])
        return Prepared(self.standing.warm_up(self.feed), register_s)

    def measure(self) -> Measured:
        run = self.standing.run(self.feed, self.checked)
        answer = {length_name(self.window): digest(run.found)}
        extra = {"matches_per_event": run.matches / run.events, "held": run.instances}
        return Measured(run.seconds, run.events, answer, run.state_bytes, extra)

    def close(self) -> None:
        pass


def length_name(window: int) -> str:
    return f"window_{label(window)}"


def answers(size: Size) -> dict[str, Ints]:
    seen = relations.readings(size["events"], size["seed"])
    found = {}
    for count in shared.checked(size):
        wanted = relations.sums(count, size["seed"])
        found[shared.question(count)] = relations.expected_sums(wanted, seen, size["checked_ticks"])
    seen = relations.readings(size["length_events"], size["seed"])
    for window in size["lengths"]:
        ticks = size["length_ticks"]
        found[length_name(window)] = relations.expected_lengths(window, seen, ticks)
    return found


def variants(size: Size) -> Variants:
    lengths = {length_name(window): partial(Length, window=window) for window in size["lengths"]}
    own = {
        f"own_buffers@{label(count)}": partial(
            Together, workload=WORKLOAD, queries=count, rules=OWN_BUFFERS
        )
        for count in size["own_buffers"]
    }
    return {
        "one_by_one": partial(OneByOne, answers=answers),
        **shared.variants(WORKLOAD, size),
        **own,
        **lengths,
    }


def ratios(size: Size) -> tuple[Ratio, ...]:
    shortest, *longer = map(length_name, size["lengths"])
    grown = [Ratio(f"time_{name}/time_{shortest}", "time", name, shortest) for name in longer]
    own = [
        Ratio(
            f"shared/own_buffers@{point}", "throughput", f"shared@{point}", f"own_buffers@{point}"
        )
        for point in map(label, size["own_buffers"])
    ]
    return (*shared.ratios(size), *own, *grown)


CASE = Case(
    name="shared_windows",
    about="windowed aggregates with windows, selections and groupings of their own",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    env=ENVIRONMENT,
)
