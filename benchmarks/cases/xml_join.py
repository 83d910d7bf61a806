"""Joins between documents of two and of three levels (figures 6.8 to 6.15), by their number.

Documents come in pairs with the same values; a query pairs a document with the next one. One by one,
each query evaluates its paths and its join for itself; it is measured on fewer documents. Joins by
order, and beside an equality of few values, are measured with values in order and without.
"""

from __future__ import annotations

from functools import partial

from benchmarks.document_bands import Bands
from benchmarks.document_runs import OneByOne, Together
from benchmarks.documents import deep_leaves, drawn, flat_leaves, pairs
from benchmarks.engines import label
from benchmarks.harness import Case, Figure, Ratio, Ratios, Runner, Size, Variants
from benchmarks.subscribed import ENVIRONMENT

_SCHEMAS = {"": (flat_leaves(6), 6), "-deep": (deep_leaves(), 4)}


def _points(size: Size) -> list[tuple[int, str]]:
    """How many queries, over which schema."""
    return [*((count, "") for count in size["points"]), (size["deep"], "-deep")]


def _point(count: int, schema: str) -> str:
    return f"{label(count)}{schema}"


def _together(size: Size, count: int, schema: str, views: bool) -> Runner:
    leaves, most = _SCHEMAS[schema]
    return Together(
        drawn(leaves, most, count),
        pairs(leaves, size["documents"] + size["checked"]),
        size["checked"],
        question=_point(count, schema),
        rules=None if views else {"xml_views": False},
    )


def _one_by_one(size: Size, count: int, schema: str) -> Runner:
    leaves, most = _SCHEMAS[schema]
    texts = pairs(leaves, size["checked"])
    return OneByOne(drawn(leaves, most, count), texts, 1, question=_point(count, schema))


def _bands(size: Size, in_order: bool, kinds: int = 1) -> Runner:
    return Bands(10, size["band"], matches=2.0, in_order=in_order, kinds=kinds)


def variants(size: Size) -> Variants:
    found = {}
    for count, schema in _points(size):
        point = _point(count, schema)
        found[f"shared@{point}"] = partial(_together, count=count, schema=schema, views=True)
        found[f"one_by_one@{point}"] = partial(_one_by_one, count=count, schema=schema)
    found["sorted@band"] = partial(_bands, in_order=True)
    found["scan@band"] = partial(_bands, in_order=False)
    found["sorted@beside"] = partial(_bands, in_order=True, kinds=5)
    found["scan@beside"] = partial(_bands, in_order=False, kinds=5)
    found["none"] = partial(_together, count=size["deep"], schema="-deep", views=False)
    return found


def ratios(size: Size) -> Ratios:
    points = [_point(*point) for point in _points(size)]
    deep = points[-1]
    return (
        *(
            Ratio(f"shared/one_by_one@{p}", "throughput", f"shared@{p}", f"one_by_one@{p}")
            for p in points
        ),
        Ratio("view_cache/none", "throughput", f"shared@{deep}", "none"),
        *(
            Ratio(f"sorted/scan@{p}", "throughput", f"sorted@{p}", f"scan@{p}")
            for p in ("band", "beside")
        ),
        *(Figure(f"documents_per_s@{p}", f"shared@{p}", "documents_per_s") for p in points),
    )


CASE = Case(
    name="xml_join",
    about="joins between documents of two and three levels, together and one by one",
    sizes={
        "small": {"points": (100, 1_000), "deep": 1_000, "documents": 200, "checked": 10, "band": 1_000},
        "full": {
            "points": (1_000, 10_000, 100_000), "deep": 100_000, "documents": 2_000, "checked": 4, "band": 5_000,
        },
    },
    variants=variants,
    ratios=ratios,
    env=ENVIRONMENT,
)  # fmt: skip
