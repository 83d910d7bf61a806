"""What each of Cayuga's techniques brings: figure 4.14, the modes of table 4.2, template Filter.

The engine as it is, the same engine without one technique, and without any: state merging (equal
prefixes are one), the FR index (static predicates of forward edges), the instance index (AN on
nodes, AI on instances); and without templates, which Cayuga does not have. `on/off` is throughput.
Modes without an index get fewer events: a rate is a rate.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import subscribed
from benchmarks.engines import (
    FR_INDEX,
    INSTANCE_INDEX,
    MERGING,
    NO_RULES,
    TEMPLATES,
    Rules,
    label,
    without,
)
from benchmarks.harness import Case, Ratio, Size, Variants
from benchmarks.subscribed import OneByOne, Subscribed

TEMPLATE = "filter"
OFF: dict[str, Rules] = {
    "state_merging": without(*MERGING),
    "fr_index": without(*FR_INDEX),
    "instance_index": without(*INSTANCE_INDEX),
    "templates": without(*TEMPLATES),
    "all": NO_RULES,
}
SMALL: dict[str, Any] = subscribed.SMALL | {
    "points": (200,),
    "events": 10_000,
    "off_events": 2_000,
}
FULL: dict[str, Any] = SMALL | {"points": (10_000, 20_000, 40_000), "events": 100_000}


def variants(size: Size) -> Variants:
    made: dict[str, Any] = {"one_by_one": partial(OneByOne, template=TEMPLATE)}
    for queries in size["points"]:
        subscribed_to = partial(Subscribed, template=TEMPLATE, queries=queries)
        made[f"on@{label(queries)}"] = subscribed_to
        for technique, rules in OFF.items():
            made[f"no_{technique}@{label(queries)}"] = partial(
                subscribed_to, rules=rules, ticks=size["off_events"]
            )
    return made


def ratios(size: Size) -> tuple[Ratio, ...]:
    return tuple(
        Ratio(f"on/off@{technique}_{point}", "throughput", f"on@{point}", f"no_{technique}@{point}")
        for point in map(label, size["points"])
        for technique in OFF
    )


CASE = Case(
    name="cayuga_ablation",
    about="subscriptions of the template Filter, with each technique on and off",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    env=subscribed.ENVIRONMENT,
)
