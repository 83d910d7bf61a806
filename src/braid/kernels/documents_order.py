"""Values of documents in their order, for joins that compare them by more than equality.

Documents before the last few are in segments. In each the values of every leaf that is compared so are
sorted: numbers among numbers, times among times, and every kind by its texts, since a number and
a text are compared as texts. What compares so with a value is then one piece of each. Where a query
has an equality beside the comparison, values are in order among documents that are equal in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.kernels.documents_match import AT_MOST, DIFFERENT, EQUAL, MORE, compared
from braid.kernels.documents_state import State
from braid.kernels.runtime import kernel

KINDS = 3


class Sorted(NamedTuple):
    """`segments`: first and end of its groups, and of its documents. `groups`: edge and value that are
    equal (-1: none), edge and kind of the value in order, first and end of its places; in order of all
    these. `by_text`, `by_order`: places, each a row of R_bin and its row of R_doc, and the row of R_bin
    that is equal. `until`: documents from here on are in no segment; whether segments have what is
    beside equal values; how many documents with a value are gone through before it is looked up."""

    segments: np.ndarray
    groups: np.ndarray
    by_text: np.ndarray
    by_order: np.ndarray
    until: np.ndarray


@kernel()
def text_order(strings: np.ndarray, pool: np.ndarray, a: int, b: int) -> int:
    """How two values compare as texts."""
    if a == b:
        return 0
    at, other = strings[a], strings[b]
    while at < strings[a + 1] and other < strings[b + 1]:
        if pool[at] != pool[other]:
            return -1 if pool[at] < pool[other] else 1
        at += 1
        other += 1
    return (strings[a + 1] - at) - (strings[b + 1] - other)


@kernel()
def ordered(state: State, strings: np.ndarray, pool: np.ndarray, a: int, b: int) -> int:
    """How two values compare: as numbers, as times, or as texts."""
    kind = state.kinds[a]
    if kind == state.kinds[b] and kind > 0:
        first, second = state.orders[a], state.orders[b]
        return 0 if first == second else (-1 if first < second else 1)
    return text_order(strings, pool, a, b)


@kernel()
def compares(
    state: State, strings: np.ndarray, pool: np.ndarray, operator: int, a: int, b: int
) -> bool:
    """Whether two values compare so. Whether they are equal is asked of their texts."""
    if operator == DIFFERENT:
        return a != b
    if operator == EQUAL:
        return a == b
    return compared(operator, ordered(state, strings, pool, a, b))


@kernel()
def _behind(index: Sorted, group: int, equal: int, value: int, edge: int, kind: int) -> int:
    """Below, at or above 0 as a group is before, at or behind a place among groups."""
    if index.groups[group, 0] != equal:
        return index.groups[group, 0] - equal
    if index.groups[group, 1] != value:
        return index.groups[group, 1] - value
    if index.groups[group, 2] != edge:
        return index.groups[group, 2] - edge
    return index.groups[group, 3] - kind


@kernel()
def group_of(index: Sorted, segment: int, equal: int, value: int, edge: int, kind: int) -> int:
    """The group of a segment with the values of an edge that are of a kind, in documents with a
    value at the edge `equal` (-1: in all); -1 if it has none."""
    low, end = index.segments[segment, 0], index.segments[segment, 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if _behind(index, middle, equal, value, edge, kind) < 0:
            low = middle + 1
        else:
            high = middle
    return low if low < end and _behind(index, low, equal, value, edge, kind) == 0 else -1


@kernel()
def _border(
    state: State, strings: np.ndarray, pool: np.ndarray, index: Sorted, group: int, text: bool,
    value: int, after: bool,
) -> int:  # fmt: skip
    """The first place of a group that is not before a value, or, if `after`, that is behind it."""
    low, high = index.groups[group, 4], index.groups[group, 5]
    while low < high:
        middle = (low + high) // 2
        if text:
            mine = state.rows[index.by_text[middle, 1], 2]
            order = text_order(strings, pool, mine, value)
        else:
            first, second = (
                state.orders[state.rows[index.by_order[middle, 1], 2]],
                state.orders[value],
            )
            order = 0 if first == second else (-1 if first < second else 1)
        if order < 0 or (after and order == 0):
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def first_place(
    state: State, strings: np.ndarray, pool: np.ndarray, index: Sorted, group: int, text: bool,
    operator: int, value: int,
) -> int:  # fmt: skip
    """Where those begin that compare so with a value."""
    if operator <= AT_MOST:
        return index.groups[group, 4]
    return _border(state, strings, pool, index, group, text, value, operator == MORE)


@kernel()
def end_place(
    state: State, strings: np.ndarray, pool: np.ndarray, index: Sorted, group: int, text: bool,
    operator: int, value: int,
) -> int:  # fmt: skip
    """Where those end that compare so with a value."""
    if operator >= MORE:
        return index.groups[group, 5]
    return _border(state, strings, pool, index, group, text, value, operator == AT_MOST)
