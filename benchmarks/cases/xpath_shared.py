"""Blocks of very many queries over documents of three levels: one automaton, or lxml one by one."""

from __future__ import annotations

from functools import partial

from benchmarks.document_runs import Paths
from benchmarks.documents import deep_leaves, document, drawn
from benchmarks.engines import label
from benchmarks.harness import Case, Ratio, Ratios, Runner, Size, Variants
from benchmarks.subscribed import ENVIRONMENT


def _paths(size: Size, count: int, shared: bool) -> Runner:
    """Every document lacks some leaves, so that not every block matches."""
    leaves = deep_leaves()
    texts = [
        document(kept, ["v"] * len(kept))
        for n in range(size["documents"] if shared else size["checked"])
        for kept in [[leaf for k, leaf in enumerate(leaves) if (k + n % 2) % 4]]
    ]
    return Paths(drawn(leaves, 4, count), texts, shared)


def variants(size: Size) -> Variants:
    found = {}
    for count in size["points"]:
        found[f"shared@{label(count)}"] = partial(_paths, count=count, shared=True)
        found[f"one_by_one@{label(count)}"] = partial(_paths, count=count, shared=False)
    return found


def ratios(size: Size) -> Ratios:
    return tuple(
        Ratio(f"shared/one_by_one@{p}", "throughput", f"shared@{p}", f"one_by_one@{p}")
        for p in map(label, size["points"])
    )


CASE = Case(
    name="xpath_shared",
    about="blocks over one document each, in one automaton and one by one by lxml",
    sizes={
        "small": {"points": (100, 1_000), "documents": 200, "checked": 20},
        "full": {"points": (1_000, 10_000, 100_000), "documents": 2_000, "checked": 4},
    },
    variants=variants,
    ratios=ratios,
    env=ENVIRONMENT,
)
