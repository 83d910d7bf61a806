"""Joins in words: how partners are found, and which windows are inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from braid.operators.core.family import Detail, Explain
from braid.operators.core.wording import counted, length
from braid.operators.join.spec import AttributeJoinSpec, JoinSpec, WindowJoinSpec


def without_constraints(lines: Explain) -> Explain:
    """The lines of a join that queries share, with what it does about constraints."""

    def explain(spec: Any, found: Detail, unit: str) -> Iterator[str]:
        yield from lines(spec, found, unit)
        yield "queries share it: it holds all rows, and uses no constraint, declared or observed"

    return explain


def join_lines(spec: JoinSpec, found: Detail, unit: str) -> Iterator[str]:
    how = "every combination is looked at"
    if spec.equalities or found["bands"]:
        how = "hash on the equalities" if spec.equalities else "hash on a band"
    yield f"{counted(found['nodes'], 'output')}; {how}"
    if len(spec.inputs) > 2:
        orders = [
            f"{first} > {' > '.join(map(str, order))}"
            for first, order in enumerate(found["orders"])
        ]
        yield f"probe orders: {', '.join(orders)}"


def window_join_lines(spec: WindowJoinSpec, found: Detail, unit: str) -> Iterator[str]:
    """Also what windows are inside, and what they keep of each input."""
    yield from join_lines(spec, found, unit)
    yield from _windows(found, unit)
    if spec.birth is not None:
        yield f"sees what starts at {spec.birth} or later"
    if spec.complete:
        yield "tells what goes as well: groups are made of it"


def attribute_join_lines(spec: AttributeJoinSpec, found: Detail, unit: str) -> Iterator[str]:
    """How many forms share the buffers, and by how many indexes partners are found."""
    yield f"{counted(found['forms'], 'form')} of joins; {counted(found['nodes'], 'output')}"
    for number in found["indexes"]:
        yield f"found by {counted(number, 'hash')} on the equalities"
    yield from _windows(found, unit)
    if spec.birth is not None:
        yield f"sees what starts at {spec.birth} or later"


def _windows(found: Detail, unit: str) -> Iterator[str]:
    for sizes, longest, held in zip(found["sizes"], found["longest"], found["inputs"], strict=True):
        windows = "no windows inside"
        if longest is not None:
            shown = length(longest, unit)
            many = f"{sizes:,} sizes, up to {shown}"
            windows = f"windows inside, of {shown if sizes == 1 else many}"
        yield f"{windows}; keeps {counted(held['rows'], 'event')}, each once"
