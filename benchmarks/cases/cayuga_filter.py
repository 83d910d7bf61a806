"""Cayuga's technical benchmark, template Filter: the next events with the primary value, in time.

Time per event against the number of subscriptions (figure 4.13 a), against the same engine without
any sharing, and against a loop that was written for this template alone. Answers are compared on
subscriptions that were worked out one by one, and with the loop's.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import subscribed
from benchmarks.engines import label
from benchmarks.harness import Case, Ratio, Size, Variants
from benchmarks.subscribed import Prototype

TEMPLATE = "filter"
SMALL: dict[str, Any] = subscribed.SMALL | {"prototype": 1_000}
FULL: dict[str, Any] = SMALL | subscribed.FULL | {"prototype": 400_000}


def variants(size: Size) -> Variants:
    made = dict(subscribed.variants(TEMPLATE, size))
    made[f"prototype@{label(size['prototype'])}"] = partial(Prototype, queries=size["prototype"])
    return made


def ratios(size: Size) -> tuple[Ratio, ...]:
    point = label(size["prototype"])
    loop = Ratio(f"braid/prototype@{point}", "throughput", point, f"prototype@{point}")
    return (*subscribed.ratios(size), loop)


CASE = Case(
    name="cayuga_filter",
    about="patterns of the next events with a value in common, by numbers of subscriptions",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    env=subscribed.ENVIRONMENT,
)
