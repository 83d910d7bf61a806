"""Joins that no equality begins: looked up in the order of values, document by document otherwise."""

from __future__ import annotations

import numpy as np

from braid.kernels.documents_descend import descend, from_root, release, row_of, take
from braid.kernels.documents_match import look
from braid.kernels.documents_order import (
    KINDS,
    Sorted,
    compares,
    end_place,
    first_place,
    group_of,
)
from braid.kernels.documents_state import ORDERED, Found, Queries, State, Work
from braid.kernels.runtime import kernel


@kernel()
def compare(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    index: Sorted, current: int, oldest: int,
) -> bool:  # fmt: skip
    """All templates that begin with a comparison, for a document that comes."""
    for k in range(queries.scanning.shape[0]):
        template = queries.scanning[k]
        first = oldest
        if queries.templates[template, 5] and index.until[0] > first:
            first = index.until[0]  # those before are in segments
        for earlier in range(first, current + 1):
            if not from_root(
                queries, state, strings, pool, work, found, template, earlier, current
            ):
                return False
    if index.segments.shape[0] == 0:
        return True
    begin = state.rows[state.documents[current, 1], 3]
    end = state.rows[state.documents[current + 1, 1], 3]
    for right in range(begin, end):
        start = look(queries.begins, ORDERED, state.edge[right], 0, 0)
        while start >= 0:
            if not _from_start(
                queries, state, strings, pool, work, found, index, start, right, current, oldest
            ):
                return False
            start = queries.trie[start, 2]
    return True


@kernel()
def _from_start(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    index: Sorted, start: int, right: int, current: int, oldest: int,
) -> bool:  # fmt: skip
    """The queries that begin at a node of the trie, with one leaf of the document that comes."""
    value = state.rows[row_of(state, current, right), 2]
    if value < 0:
        return True
    step = queries.templates[queries.trie[start, 0], 2]
    for segment in range(index.segments.shape[0]):
        if index.segments[segment, 3] <= oldest:
            continue
        for kind in range(KINDS):
            group = group_of(index, segment, queries.trie[start, 4], kind)
            if group < 0:
                continue
            text = kind == 0 or kind != state.kinds[value]
            operator = queries.steps[step, 1]
            low = first_place(state, strings, pool, index, group, text, operator, value)
            high = end_place(state, strings, pool, index, group, text, operator, value)
            if low < high and not _from_places(
                queries, state, strings, pool, work, found, index, start, group, text, low, high,
                right, current, oldest,
            ):  # fmt: skip
                return False
    return True


@kernel()
def _from_places(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    index: Sorted, start: int, group: int, text: bool, low: int, high: int, right: int, current: int,
    oldest: int,
) -> bool:  # fmt: skip
    """Leaves of earlier documents that compare so; of a band both borders are looked up."""
    template = queries.trie[start, 0]
    if queries.templates[template, 5] < 2:
        return _follow(
            queries, state, strings, pool, work, found, index, start, text, low, high, right, -1,
            -1, current, oldest,
        )  # fmt: skip
    operator = queries.steps[queries.templates[template, 2] + 1, 1]
    begin = state.rows[state.documents[current, 1], 3]
    end = state.rows[state.documents[current + 1, 1], 3]
    for other in range(begin, end):
        child = look(queries.children, start, queries.trie[start, 4], state.edge[other], 0)
        if child < 0:
            continue
        value = state.rows[row_of(state, current, other), 2]
        if value < 0:
            continue
        as_text = index.groups[group, 1] == 0 or index.groups[group, 1] != state.kinds[value]
        first, last, asked = low, high, value
        if as_text == text:
            first = max(low, first_place(state, strings, pool, index, group, text, operator, value))
            last = min(high, end_place(state, strings, pool, index, group, text, operator, value))
            asked = -1
        if not _follow(
            queries, state, strings, pool, work, found, index, child, text, first, last, right,
            other, asked, current, oldest,
        ):  # fmt: skip
            return False
    return True


@kernel()
def _follow(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    index: Sorted, node: int, text: bool, low: int, high: int, right: int, other: int, asked: int,
    current: int, oldest: int,
) -> bool:  # fmt: skip
    """Go on from a node of the trie with each place; `other`: the leaf of a second border, which
    the value `asked` has yet to be compared with, if there is one."""
    template = queries.trie[node, 0]
    step, slots = queries.templates[template, 2], queries.templates[template, 1]
    begun = 1 if other < 0 else 2
    for place in range(low, high):
        if text:
            left, row = index.by_text[place, 0], index.by_text[place, 1]
        else:
            left, row = index.by_order[place, 0], index.by_order[place, 1]
        earlier = state.rows[row, 0]
        if earlier < oldest:
            continue
        if asked >= 0 and not compares(
            state, strings, pool, queries.steps[step + 1, 1], state.rows[row, 2], asked
        ):
            continue
        release(work, slots, 0)
        if not take(queries, state, work, step, left, right, 0):
            continue
        if other >= 0 and not take(queries, state, work, step + 1, left, other, 1):
            continue
        if not descend(queries, state, strings, pool, work, found, node, begun, earlier, current):
            return False
    return True
