"""Joins over the items of feeds with windows that never end (figure 6.16).

Items are drawn in place of the real feeds: 418 channels, now and then the same title. One by one,
each query evaluates its paths and its join for itself; it is measured on fewer items.
"""

from __future__ import annotations

from functools import partial

from benchmarks.document_runs import ENDLESS, OneByOne, Together
from benchmarks.documents import drawn, feed, feed_leaves
from benchmarks.engines import label
from benchmarks.harness import Case, Figure, Ratio, Ratios, Runner, Size, Variants
from benchmarks.subscribed import ENVIRONMENT


def _together(size: Size, count: int, views: bool) -> Runner:
    return Together(
        drawn(feed_leaves(), 5, count),
        feed(size["items"] + size["checked"]),
        size["checked"],
        question=label(count),
        window=ENDLESS,
        root="item",
        rules=None if views else {"xml_views": False},
    )


def _one_by_one(size: Size, count: int) -> Runner:
    items = feed(size["items"] + size["checked"])[: size["checked"]]
    queries = drawn(feed_leaves(), 5, count)
    return OneByOne(queries, items, 1 << 40, question=label(count), root="item")


def variants(size: Size) -> Variants:
    found = {}
    for count in size["points"]:
        found[f"shared@{label(count)}"] = partial(_together, count=count, views=True)
        found[f"one_by_one@{label(count)}"] = partial(_one_by_one, count=count)
    found["none"] = partial(_together, count=size["points"][-1], views=False)
    return found


def ratios(size: Size) -> Ratios:
    points = [label(count) for count in size["points"]]
    return (
        *(
            Ratio(f"shared/one_by_one@{p}", "throughput", f"shared@{p}", f"one_by_one@{p}")
            for p in points
        ),
        Ratio("view_cache/none", "throughput", f"shared@{points[-1]}", "none"),
        *(Figure(f"items_per_s@{p}", f"shared@{p}", "documents_per_s") for p in points),
        Figure("bytes_per_value", f"shared@{points[-1]}", "bytes_per_value"),
    )


CASE = Case(
    name="xml_feed",
    about="joins over items of feeds without an end of the window, together and one by one",
    sizes={
        "small": {"points": (100, 1_000), "items": 500, "checked": 20},
        "full": {"points": (1_000, 10_000, 100_000), "items": 20_000, "checked": 6},
    },
    variants=variants,
    ratios=ratios,
    env=ENVIRONMENT,
)
