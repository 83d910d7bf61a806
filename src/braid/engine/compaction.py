"""Forgets strings and carried values that no instance refers to any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from braid.algebra.types import Kind, kind_of
from braid.operators.core.base import Held, Logic
from braid.operators.core.values import Values


def compact_values(
    values: Values, logics: Iterable[Logic], forget_codes: Callable[[], None]
) -> None:
    """Compact the tables of values by what the logics hold, and rewrite the codes there."""
    held = [(logic, h) for logic in logics if (h := logic.held()) is not None]
    changed = _remap(held, Kind.STRING, None, values.strings.compact)
    forget_codes()
    for type_, store in values.carried.items():
        changed |= _remap(held, Kind.OPAQUE, type_, store.compact)
    for logic, h in held:
        if id(h) in changed:
            logic.replace_held(h.rows)


def _remap(
    held: list[tuple[Logic, Held]], kind: Kind, type_: Any, compact: Callable[..., Any]
) -> set[int]:
    """Compact one table by the codes that are alive, and rewrite those."""
    places = [
        (h, h.layout.base + column)
        for _, h in held
        for column, t in enumerate(h.types)
        if kind_of(t) is kind and (type_ is None or t == type_)
    ]
    mapping = compact([_codes(h, word) for h, word in places])
    if mapping is None:
        return set()
    for h, word in places:
        known = ~_nulls(h, word)
        h.rows[known, word] = mapping[h.rows[known, word]]
    return {id(h) for h, _ in places}


def _nulls(held: Held, word: int) -> np.ndarray:
    column = word - held.layout.base
    bits = (held.rows[:, 2 + column // 64] >> np.int64(column % 64)) & 1
    return bits.astype(np.bool_)


def _codes(held: Held, word: int) -> np.ndarray:
    return held.rows[~_nulls(held, word), word]
