"""Joins that no equality begins: looked up in the order of values, document by document otherwise.

Where an equality has a comparison by order beside it, documents with the same value are gone through
if they are few. If they are many, those of them that compare so are looked up: values are in order
among documents that are equal. So a query costs what it finds, however few different values there are.
"""

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
from braid.kernels.documents_state import (
    BESIDE,
    FOREIGN,
    ORDERED,
    Found,
    Queries,
    State,
    Work,
)
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
                queries, state, strings, pool, work, found, index, start, right, -1, -1, current,
                oldest,
            ):  # fmt: skip
                return False
            start = queries.trie[start, 2]
    return True


@kernel()
def beside_equal(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    index: Sorted, current: int, oldest: int,
) -> bool:  # fmt: skip
    """All templates with a comparison by order beside an equality, for a document that comes."""
    for mine in range(state.documents[current, 1], state.documents[current + 1, 1]):
        value = state.rows[mine, 2]
        if value < 0 or state.rows[mine, 4] == FOREIGN:
            continue
        for equal in range(state.rows[mine, 3], state.rows[mine + 1, 3]):
            if look(queries.begins, BESIDE, state.edge[equal], 0, 0) < 0:
                continue
            until = _gone_through_from(state, index, value, oldest)
            if not _through_chain(
                queries, state, strings, pool, work, found, index, equal, value, current, until
            ):
                return False
            if until > oldest and not _among_equal(
                queries, state, strings, pool, work, found, index, equal, value, current, oldest
            ):
                return False
    return True


@kernel()
def _gone_through_from(state: State, index: Sorted, value: int, oldest: int) -> int:
    """The first document with a value that is gone through; those before it are looked up."""
    if index.until[1] == 0:
        return oldest
    row, count = state.by_value[value], 0
    while row >= 0 and state.rows[row, 0] >= oldest:
        count += 1
        if count > index.until[2]:
            return max(oldest, index.until[0])
        row = state.rows[row, 4]
    return oldest


@kernel()
def _through_chain(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    index: Sorted, equal: int, value: int, current: int, until: int,
) -> bool:  # fmt: skip
    """The documents that have a value, from the last one to `until`."""
    row, count = state.by_value[value], 0
    while row >= 0 and state.rows[row, 0] >= until:
        count += 1
        for left in range(state.rows[row, 3], state.rows[row + 1, 3]):
            start = look(queries.begins, state.edge[left], state.edge[equal], 1, 0)
            while start >= 0:
                template = queries.trie[start, 0]
                release(work, queries.templates[template, 1], 0)
                step = queries.templates[template, 2]
                if take(queries, state, work, step, left, equal, 0) and not descend(
                    queries, state, strings, pool, work, found, start, 1, state.rows[row, 0],
                    current,
                ):  # fmt: skip
                    return False
                start = queries.trie[start, 2]
        row = state.rows[row, 4]
    if count > index.until[2]:
        state.cache_counts[3] += count
    return True


@kernel()
def _among_equal(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    index: Sorted, equal: int, value: int, current: int, oldest: int,
) -> bool:  # fmt: skip
    """What compares so among the documents in segments that have a value."""
    begin = state.rows[state.documents[current, 1], 3]
    end = state.rows[state.documents[current + 1, 1], 3]
    for right in range(begin, end):
        start = look(queries.begins, ORDERED, state.edge[right], state.edge[equal] + 1, 0)
        while start >= 0:
            if not _from_start(
                queries, state, strings, pool, work, found, index, start, right, equal, value,
                current, oldest,
            ):  # fmt: skip
                return False
            start = queries.trie[start, 2]
    return True


@kernel()
def _from_start(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    index: Sorted, start: int, right: int, equal: int, same: int, current: int, oldest: int,
) -> bool:  # fmt: skip
    """The queries that begin at a node of the trie, with one leaf of the document that comes; `equal`:
    the leaf of it whose value is the `same` in the earlier document (-1: none)."""
    value = state.rows[row_of(state, current, right), 2]
    if value < 0:
        return True
    step = queries.templates[queries.trie[start, 0], 2]
    edge = -1
    if equal >= 0:
        step += 1
        edge = queries.trie[queries.trie[start, 5], 4]
    for segment in range(index.segments.shape[0]):
        if index.segments[segment, 3] <= oldest:
            continue
        for kind in range(KINDS):
            group = group_of(index, segment, edge, same, queries.trie[start, 4], kind)
            if group < 0:
                continue
            text = kind == 0 or kind != state.kinds[value]
            operator = queries.steps[step, 1]
            low = first_place(state, strings, pool, index, group, text, operator, value)
            high = end_place(state, strings, pool, index, group, text, operator, value)
            if low < high and not _from_places(
                queries, state, strings, pool, work, found, index, start, group, text, low, high,
                right, equal, current, oldest,
            ):  # fmt: skip
                return False
    return True


@kernel()
def _from_places(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    index: Sorted, start: int, group: int, text: bool, low: int, high: int, right: int, equal: int,
    current: int, oldest: int,
) -> bool:  # fmt: skip
    """Leaves of earlier documents that compare so; of a band both borders are looked up."""
    template = queries.trie[start, 0]
    if queries.templates[template, 5] < 2:
        return _follow(
            queries, state, strings, pool, work, found, index, start, text, low, high, right, -1,
            -1, equal, current, oldest,
        )  # fmt: skip
    operator = queries.steps[queries.templates[template, 2] + (2 if equal >= 0 else 1), 1]
    begin = state.rows[state.documents[current, 1], 3]
    end = state.rows[state.documents[current + 1, 1], 3]
    for other in range(begin, end):
        child = look(queries.children, start, queries.trie[start, 4], state.edge[other], 0)
        if child < 0:
            continue
        value = state.rows[row_of(state, current, other), 2]
        if value < 0:
            continue
        as_text = index.groups[group, 3] == 0 or index.groups[group, 3] != state.kinds[value]
        first, last, asked = low, high, value
        if as_text == text:
            first = max(low, first_place(state, strings, pool, index, group, text, operator, value))
            last = min(high, end_place(state, strings, pool, index, group, text, operator, value))
            asked = -1
        if not _follow(
            queries, state, strings, pool, work, found, index, child, text, first, last, right,
            other, asked, equal, current, oldest,
        ):  # fmt: skip
            return False
    return True


@kernel()
def _follow(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    index: Sorted, node: int, text: bool, low: int, high: int, right: int, other: int, asked: int,
    equal: int, current: int, oldest: int,
) -> bool:  # fmt: skip
    """Go on from a node of the trie with each place; `other`: the leaf of a second border, which
    the value `asked` has yet to be compared with, if there is one."""
    template = queries.trie[node, 0]
    step, slots = queries.templates[template, 2], queries.templates[template, 1]
    depth = 1 if equal >= 0 else 0
    step += depth
    begun = depth + (1 if other < 0 else 2)
    for place in range(low, high):
        if text:
            left, row, same = (
                index.by_text[place, 0],
                index.by_text[place, 1],
                index.by_text[place, 2],
            )
        else:
            left, row, same = (
                index.by_order[place, 0], index.by_order[place, 1], index.by_order[place, 2],
            )  # fmt: skip
        earlier = state.rows[row, 0]
        if earlier < oldest:
            continue
        if asked >= 0 and not compares(
            state, strings, pool, queries.steps[step + 1, 1], state.rows[row, 2], asked
        ):
            continue
        release(work, slots, 0)
        if equal >= 0 and not take(queries, state, work, step - 1, same, equal, 0):
            continue
        if not take(queries, state, work, step, left, right, depth):
            continue
        if other >= 0 and not take(queries, state, work, step + 1, left, other, depth + 1):
            continue
        if not descend(queries, state, strings, pool, work, found, node, begun, earlier, current):
            return False
    return True
