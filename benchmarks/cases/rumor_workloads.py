"""RUMOR's workloads 1 to 3 and the hybrid one: figures 5.8 to 5.10.

- w1: `FILTER{a0 = c} S NEXT{a0 = d, window} T`: an index on each constant (AN and FR);
- w2: `S NEXT{S.a0 = T.a0, window} T`: an index on what instances have bound (AI);
- both with iteration in place of the sequence;
- w3: w2 over ten first streams that are sharable, one channel or ten of everything; and by
  the number of streams in the channel;
- hybrid: a stream of CPU loads that a sliding average smooths, n start conditions that no index
  answers, rising loads, a stop (Query 2); by the share of the loads that start.

In w3 an event that belongs to ten streams counts as ten, and comes to the engine once with channels
and ten times without, as in the dissertation; each of these ten is read from memory of its own.
Events of T come once either way, so that channels of ten streams save nine tenths of everything but
that and what a batch costs by itself: by what is computed, the ratio comes near ten from below. In
long batches it may be more than ten, since the memory of ten copies goes back to the system and is
taken again with every batch. So it is taken for batches of two lengths, `w3` and `w3_batch_50k`. In
the hybrid workload the smoothing is shared either way.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import rumor
from benchmarks.engines import (
    CHANNELS,
    NO_RULES,
    Checked,
    Rules,
    Standing,
    digest,
    label,
    use_one_core,
    without,
)
from benchmarks.harness import Case, Measured, Prepared, Ratio, Size, Variants, Worked
from benchmarks.subscribed import ENVIRONMENT

SMALL: dict[str, Any] = {
    "points": (100, 1_000),
    "events_of": {"w1": 20_000, "w2": 4_000},
    "batch": 10_000,
    "channel_queries": 200,
    "capacities": (1, 10),
    "capacity": 10,
    "channel_batches": (20_000,),
    "channel_events": 20_000,
    "hybrid_queries": 10,
    "hybrid_share": 0.5,
    "hybrid_shares": (),
    "hybrid_events": 10_400,
    "hybrid_ticks": 8_320,
    "checked": 100,
    "checked_ticks": 2_000,
    "seed": 1,
}
FULL: dict[str, Any] = SMALL | {
    "points": (1_000, 10_000, 100_000),
    "events_of": {"w1": 100_000, "w2": 20_000},
    "batch": 50_000,
    "channel_queries": 1_000,
    "capacities": (1, 2, 5, 10, 20),
    "channel_batches": (100_000, 50_000),
    "channel_events": 400_000,
    "hybrid_queries": 100,
    "hybrid_shares": (0.1, 0.5, 0.9),
    "hybrid_events": 104_000,
}
#: Queries that are compared by how many readings start: figure 5.10 (b).
FEW_RAMPS = 10
#: What the unshared engine is measured on.
FEW_TICKS = 4_000
#: In w2 an event of S is a result of every other query. Batches are as long as results fit memory.
MATCHES_AT_ONCE = 50_000_000


class Workload:
    """Queries of one workload in one engine; the question answered is named after the workload."""

    def __init__(
        self,
        size: Size,
        question: str,
        standing: Standing,
        queries: Any,
        feed: Any,
        ticks: int | None = None,
    ) -> None:
        use_one_core()
        self.question, self.standing, self.queries, self.feed = question, standing, queries, feed
        ids = [f"q{n}" for n in range(size["checked"])]
        self.checked = Checked(ids, ticks or size["checked_ticks"])

    def prepare(self) -> Prepared:
        register_s = self.standing.register(self.queries)
        return Prepared(self.standing.warm_up(self.feed), register_s)

    def measure(self) -> Measured:
        run = self.standing.run(self.feed, self.checked)
        extra = {"matches": run.matches, "instances": run.instances}
        answer = {self.question: digest(run.found)}
        return Measured(run.seconds, run.events, answer, run.state_bytes, extra)

    def close(self) -> None:
        pass


def pairs(size: Size, workload: str, count: int, rules: Rules = None) -> Workload:
    """Workloads 1 and 2."""
    seen = rumor.tuples(size["events_of"][workload[:2]], size["seed"])
    feed = seen.feed(min(size["batch"], max(500, MATCHES_AT_ONCE // count)))
    if rules is not None:
        feed = feed.first(FEW_TICKS)
    standing = Standing(rumor.sources(1), rules=rules)
    queries = rumor.queries(workload, count, size["seed"])
    return Workload(size, workload, standing, queries, feed)


def channel(
    size: Size, workload: str, streams: int, *, channels: bool, batch: int | None = None
) -> Workload:
    """Workload 3."""
    seen = rumor.tuples(size["channel_events"], size["seed"])
    feed = seen.feed(batch or size["channel_batches"][0], streams, together=channels)
    standing = Standing(rumor.sources(streams), rules=None if channels else without(*CHANNELS))
    queries = rumor.queries(workload, size["channel_queries"], size["seed"], streams)
    return Workload(size, workload, standing, queries, feed)


def hybrid(size: Size, count: int, share: float, *, channels: bool) -> Workload:
    """Query 2, so many of it, of whose start conditions each holds for a share of the readings."""
    seen = rumor.loads(size["hybrid_events"], size["seed"])
    standing = Standing([rumor.LOADS], rules=None if channels else without(*CHANNELS))
    queries, feed = rumor.ramp_queries(count, share), seen.feed(size["batch"])
    return Workload(
        size, hybrid_question(count, share), standing, queries, feed, size["hybrid_ticks"]
    )


def hybrid_question(count: int, share: float) -> str:
    return f"hybrid {count} {share}"


def hybrid_points(size: Size) -> dict[str, tuple[int, float]]:
    """How many queries and the share of readings that start, by the point that is measured."""
    few = {f"hybrid_sel_{share}": (FEW_RAMPS, share) for share in size["hybrid_shares"]}
    return {"hybrid": (size["hybrid_queries"], size["hybrid_share"]), **few}


class OneByOne(Worked):
    """The checked queries of all workloads, worked out without any engine."""

    def __init__(self, size: Size) -> None:
        ticks, checked = size["checked_ticks"], size["checked"]
        seen = rumor.tuples(ticks, size["seed"])
        answer = {
            workload: digest(rumor.expected(workload, checked, size["seed"], seen))
            for workload in rumor.TEMPLATES
        }
        loads, ticks = rumor.loads(size["hybrid_events"], size["seed"]), size["hybrid_ticks"]
        part = rumor.Loads(loads.pid[:ticks], loads.load[:ticks])
        for count, share in hybrid_points(size).values():
            found = rumor.expected_ramps(min(checked, count), share, part)
            answer[hybrid_question(count, share)] = digest(found)
        super().__init__(answer, {f"checked_{name}": n for name, (n, _) in answer.items()})


def shorter(batch: int) -> str:
    """Workload 3 in batches that are not the ones it is measured in otherwise."""
    return f"w3_batch_{label(batch)}"


def variants(size: Size) -> Variants:
    made: dict[str, Any] = {"one_by_one": OneByOne}
    few = size["points"][0]
    for workload in rumor.TEMPLATES:
        for count in size["points"]:
            made[f"{workload}_{label(count)}"] = partial(pairs, workload=workload, count=count)
        made[f"{workload}_unshared"] = partial(pairs, workload=workload, count=few, rules=NO_RULES)
    for streams in size["capacities"]:
        made[f"w3_channel_{streams}"] = partial(
            channel, workload="w2", streams=streams, channels=True
        )
    alone = {"streams": size["capacity"], "channels": False}
    made["w3_no_channel"] = partial(channel, workload="w2", **alone)
    for batch in size["channel_batches"][1:]:
        for name, channels in (("channel", True), ("no_channel", False)):
            made[f"{shorter(batch)}_{name}"] = partial(
                channel, workload="w2", streams=size["capacity"], channels=channels, batch=batch
            )
    made["w3_iteration_channel"] = partial(
        channel, workload="w2_iteration", streams=size["capacity"], channels=True
    )
    made["w3_iteration_no_channel"] = partial(channel, workload="w2_iteration", **alone)
    for point, (count, share) in hybrid_points(size).items():
        asked = {"count": count, "share": share}
        made[f"{point}_channel"] = partial(hybrid, **asked, channels=True)
        made[f"{point}_no_channel"] = partial(hybrid, **asked, channels=False)
    return made


def ratios(size: Size) -> tuple[Ratio, ...]:
    few, *_, many = map(label, size["points"])
    capacity = size["capacity"]
    made = []
    for name in rumor.TEMPLATES:
        here, there = f"{name}_{many}", f"{name}_{few}"
        made.append(Ratio(f"time_{many}/time_{few}@{name}", "time", here, there))
        alone = f"{name}_unshared"
        made.append(Ratio(f"shared/unshared@{name}_{few}", "throughput", there, alone))
    for point, on, off in (
        ("w3", f"w3_channel_{capacity}", "w3_no_channel"),
        ("w3_iteration", "w3_iteration_channel", "w3_iteration_no_channel"),
        *(
            (at, f"{at}_channel", f"{at}_no_channel")
            for at in map(shorter, size["channel_batches"][1:])
        ),
        *((at, f"{at}_channel", f"{at}_no_channel") for at in hybrid_points(size)),
    ):
        made.append(Ratio(f"channels/no_channels@{point}", "throughput", on, off))
    lowest = min(size["capacities"])
    for streams in size["capacities"]:
        if streams != lowest:
            key = f"capacity_{streams}/capacity_{lowest}@w3"
            made.append(Ratio(key, "throughput", f"w3_channel_{streams}", f"w3_channel_{lowest}"))
    return tuple(made)


CASE = Case(
    name="rumor_workloads",
    about="patterns over two streams, over sharable streams and over CPU loads",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    env=ENVIRONMENT,
)
