"""Saved arrays are checked before a kernel follows the numbers in them.

Kernels read memory by the numbers of slots, nodes and codes that they are given, and trust them.
Checksums tell damage; these checks tell contents that no m-op has written, so that those are
refused (E421) instead of followed. Each takes a name that says what is wrong.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from braid.algebra.types import Kind, kind_of
from braid.errors import damaged
from braid.operators.core.base import Held, State
from braid.operators.core.columns import Rows, nulls_of
from braid.operators.core.values import Values, Words

#: Numbers of events and rows stay far below the largest word, so that one more is a word, too.
NUMBERS = 1 << 62

#: A row is never there so often.
MOST = 1 << 31


def table(state: State, name: str, width: int) -> Rows:
    """An array as rows of so many words."""
    array = state[name]
    if width < 1 or array.size % width:
        raise damaged(f"{name} is not a table of {width} columns")
    return np.ascontiguousarray(array.reshape(-1, width))


def sized(array: npt.NDArray[np.generic], count: int, what: str) -> None:
    """An array has so many elements."""
    if len(array) != count:
        raise damaged(f"{what}: {len(array)} entries instead of {count}")


def within(values: npt.NDArray[np.integer], low: int, high: int, what: str) -> None:
    """Every value is at least `low` and less than `high`."""
    if values.size and (int(values.min()) < low or int(values.max()) >= high):
        raise damaged(f"{what}: a value is not between {low} and {high - 1}")


def ascending(values: npt.NDArray[np.integer], what: str) -> None:
    if (values[1:] < values[:-1]).any():
        raise damaged(f"{what}: not in order")


def offsets(values: Words, total: int, what: str) -> None:
    """Where parts of a list of `total` entries begin, and last where it ends."""
    if not len(values) or values[0] != 0 or values[-1] != total:
        raise damaged(f"{what}: does not begin at 0 and end at {total}")
    ascending(values, what)


def ranges_within(starts: Words, lengths: Words, size: int, what: str) -> None:
    """Each range lies in an array of so many entries."""
    within(starts, 0, size + 1, what)
    within(lengths, 0, size + 1, what)
    within(starts + lengths, 0, size + 1, what)


def spelled(starts: Words, lengths: Words) -> Words:
    """All places of some ranges, one after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    places: Words = np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
    return places


def sets_within(
    kinds: Words, begins: Words, sets: Words, width: int, nodes: int, what: str
) -> None:
    """Sets of saved nodes: ALL (-2), BITS (-1: `width` words), or so many numbers."""
    within(kinds, -2, nodes + 1, what)
    bits = kinds == -1
    lengths = np.where(bits, width, np.maximum(kinds, 0))
    # A set without members has no place of its own.
    begins, lengths, bits = begins[lengths > 0], lengths[lengths > 0], bits[lengths > 0]
    ranges_within(begins, lengths, len(sets), what)
    within(sets[spelled(begins[~bits], lengths[~bits])], 0, max(nodes, 1), what)
    spare = 64 * width - nodes
    if bits.any() and spare:
        last = sets[begins[bits] + width - 1].view(np.uint64)
        if spare >= 64 or (last >> np.uint64(64 - spare)).any():
            raise damaged(f"{what}: a set has a node that is not there")


def held_codes(held: Held | None, values: Values) -> None:
    """Codes of strings and of carried values in rows that an m-op holds are those of some."""
    if held is None:
        return
    for column, type_ in enumerate(held.types):
        kind = kind_of(type_)
        if kind is Kind.STRING:
            size = values.strings.count
        elif kind is Kind.OPAQUE:
            size = len(values.carried[type_].values) if type_ in values.carried else 0
        else:
            continue
        codes = held.rows[:, held.layout.base + column]
        nulls = nulls_of(held.rows, column)
        within(codes if nulls is None else codes[~nulls], 0, size, "codes of texts and values")
