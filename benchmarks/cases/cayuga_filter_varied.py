"""Cayuga's template Filter, by the similarity of subscriptions and the selectivity of ranges.

Figures 4.13 b and c: how the first attribute's constants are spread, and how much of its domain a
range takes. What each variant finds is another thing, so answers are only compared between rounds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks import subscribed
from benchmarks.engines import label
from benchmarks.harness import Case, Ratio, Size, Variants
from benchmarks.subscribed import Subscribed, parameters_of

TEMPLATE = "filter"
SMALL: dict[str, Any] = subscribed.SMALL | {
    "varied": 1_000,
    "zipf_1": (0.8, 1.4),
    "selectivity": (0.5, 0.9),
}
FULL: dict[str, Any] = (
    SMALL
    | subscribed.FULL
    | {"varied": 100_000, "zipf_1": (0.8, 1.2, 1.4), "selectivity": (0.5, 0.6, 0.8, 0.9)}
)


def variants(size: Size) -> Variants:
    usual = parameters_of(size)
    made: dict[str, Any] = {
        "one_by_one": partial(subscribed.OneByOne, template=TEMPLATE),
        label(size["varied"]): partial(Subscribed, template=TEMPLATE, queries=size["varied"]),
    }
    for zipf in size["zipf_1"]:
        made[f"zipf_{zipf}"] = _varied(size, replace(usual, zipf=(zipf, *usual.zipf[1:])))
    for share in size["selectivity"]:
        made[f"selectivity_{share}"] = _varied(size, replace(usual, selectivity=share))
    return made


def _varied(size: Size, changed: Any) -> Any:
    return partial(Subscribed, template=TEMPLATE, queries=size["varied"], changed=changed)


def ratios(size: Size) -> tuple[Ratio, ...]:
    usual = label(size["varied"])
    varied = [f"zipf_{z}" for z in size["zipf_1"]]
    varied += [f"selectivity_{s}" for s in size["selectivity"]]
    return tuple(Ratio(f"time_{name}/time_{usual}", "time", name, usual) for name in varied)


CASE = Case(
    name="cayuga_filter_varied",
    about="patterns of the next events with a value in common, by how alike subscriptions are",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    env=subscribed.ENVIRONMENT,
)
