"""Cayuga's technical benchmark, template Filter: the next events with the primary value, in time.

Time per event against the number of subscriptions (figure 4.13 a), against the same engine without
any sharing, and against a loop that was written for this template alone. The full size has the
points of figures 4.13 b (similarity of subscriptions) and c (selectivity of ranges) too. Answers
are compared on subscriptions that were worked out one by one, and with the loop's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks import subscribed
from benchmarks.engines import label
from benchmarks.harness import Case, Ratio, Size, Variants
from benchmarks.subscribed import Prototype, Subscribed, parameters_of

TEMPLATE = "filter"
SMALL: dict[str, Any] = subscribed.SMALL | {
    "prototype": 1_000,
    "varied": 1_000,
    "zipf_1": (),
    "selectivity": (),
}
FULL: dict[str, Any] = (
    SMALL
    | subscribed.FULL
    | {
        "prototype": 400_000,
        "varied": 200_000,  # the default of table 4.1
        "zipf_1": (0.8, 1.2, 1.4),
        "selectivity": (0.5, 0.6, 0.8, 0.9),
    }
)


def variants(size: Size) -> Variants:
    made = dict(subscribed.variants(TEMPLATE, size))
    made[f"prototype@{label(size['prototype'])}"] = partial(Prototype, queries=size["prototype"])
    usual = parameters_of(size)
    for zipf in size["zipf_1"]:
        changed = replace(usual, zipf=(zipf, *usual.zipf[1:]))
        made[f"zipf_{zipf}"] = _varied(size, changed)
    for share in size["selectivity"]:
        made[f"selectivity_{share}"] = _varied(size, replace(usual, selectivity=share))
    return made


def _varied(size: Size, changed: Any) -> Any:
    return partial(Subscribed, template=TEMPLATE, queries=size["varied"], changed=changed)


def ratios(size: Size) -> tuple[Ratio, ...]:
    usual = label(size["varied"])
    varied = [f"zipf_{z}" for z in size["zipf_1"]]
    varied += [f"selectivity_{s}" for s in size["selectivity"]]
    point = label(size["prototype"])
    return (
        *subscribed.ratios(size),
        Ratio(f"braid/prototype@{point}", "throughput", point, f"prototype@{point}"),
        *(Ratio(f"time_{name}/time_{usual}", "time", name, usual) for name in varied),
    )


CASE = Case(
    name="cayuga_filter",
    about="patterns of the next events with a value in common, by numbers of subscriptions",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    env=subscribed.ENVIRONMENT,
)
