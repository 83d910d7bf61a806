"""Subscriptions to feed articles: the four templates of table 4.3, figure 4.18.

Time per event against the number of subscriptions for each template, and the same engine without
any sharing. Answers are compared on subscriptions that were worked out one by one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.articles import SOURCE, TEMPLATES, Articles, articles, expected, queries
from benchmarks.engines import NO_RULES, Checked, Rules, Standing, digest, label, use_one_core
from benchmarks.harness import Case, Measured, Prepared, Ratio, Size, Variants, Worked
from benchmarks.subscribed import ENVIRONMENT

SMALL: dict[str, Any] = {
    "events": 5_000,
    "points": (500, 2_000),
    "unshared_events": 2_000,
    "checked": 400,
    "checked_ticks": 2_000,
    "batch": 5_000,
    "seed": 1,
}
FULL: dict[str, Any] = SMALL | {"events": 26_623, "points": (10_000, 40_000), "batch": 50_000}


class Subscribers:
    """So many subscriptions of one template."""

    def __init__(
        self,
        size: Size,
        template: str,
        count: int,
        *,
        rules: Rules = None,
        ticks: int | None = None,
    ) -> None:
        use_one_core()
        self.size, self.template, self.count = size, template, count
        feed = articles(size["events"], size["seed"]).feed(size["batch"])
        self.feed = feed.first(ticks) if ticks else feed
        ids = [f"q{n}" for n in range(size["checked"])]
        self.checked = Checked(ids, size["checked_ticks"])
        self.standing = Standing([SOURCE], rules=rules)

    def prepare(self) -> Prepared:
        texts = queries(self.template, self.count, self.size["seed"])
        register_s = self.standing.register(texts)
        return Prepared(self.standing.warm_up(self.feed), register_s)

    def measure(self) -> Measured:
        run = self.standing.run(self.feed, self.checked)
        extra = {"matches": run.matches, "instances": run.instances}
        answer = {self.template: digest(run.found)}
        return Measured(run.seconds, run.events, answer, run.state_bytes, extra)

    def close(self) -> None:
        pass


class OneByOne(Worked):
    """The checked subscriptions of all templates, worked out without any engine."""

    def __init__(self, size: Size) -> None:
        seen, ticks = articles(size["events"], size["seed"]), size["checked_ticks"]
        part = Articles(seen.site[:ticks], seen.channel[:ticks], seen.popularity[:ticks])
        answer = {
            template: digest(expected(template, size["checked"], size["seed"], part))
            for template in TEMPLATES
        }
        super().__init__(answer, {f"checked_{name}": n for name, (n, _) in answer.items()})


def variants(size: Size) -> Variants:
    made: dict[str, Any] = {"one_by_one": OneByOne}
    few = size["points"][0]
    for template in TEMPLATES:
        for count in size["points"]:
            made[f"{template}_{label(count)}"] = partial(
                Subscribers, template=template, count=count
            )
        made[f"{template}_unshared_{label(few)}"] = partial(
            Subscribers,
            template=template,
            count=few,
            rules=NO_RULES,
            ticks=size["unshared_events"],
        )
    return made


def ratios(size: Size) -> tuple[Ratio, ...]:
    few, *_, many = map(label, size["points"])
    made = []
    for name in TEMPLATES:
        here, there = f"{name}_{many}", f"{name}_{few}"
        made.append(Ratio(f"time_{many}/time_{few}@{name}", "time", here, there))
        alone = f"{name}_unshared_{few}"
        made.append(Ratio(f"shared/unshared@{name}_{few}", "throughput", there, alone))
    return tuple(made)


CASE = Case(
    name="cayuga_rss",
    about="four kinds of subscriptions to feed articles",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    env=ENVIRONMENT,
)
