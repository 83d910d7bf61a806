"""Down the trie of R_T with two documents: what a template's conjunctive query is evaluated by.

What is bound on the way are the nodes of the template (slots): two leaves below one node agree in it.
"""

from __future__ import annotations

import numpy as np

from braid.kernels.documents_match import look
from braid.kernels.documents_order import compares
from braid.kernels.documents_state import (
    COMPARES,
    EQUALS,
    FOLLOWED,
    LEFT,
    NEAR_MIRRORED,
    RIGHT,
    Found,
    Queries,
    State,
    Work,
)
from braid.kernels.runtime import kernel


@kernel()
def release(work: Work, slots: int, depth: int) -> None:
    for slot in range(slots):
        if work.since[slot] >= depth:
            work.since[slot] = -1
            work.bound[slot] = -1


@kernel()
def _bind(
    queries: Queries, state: State, work: Work, begin: int, end: int, row: int, depth: int
) -> bool:
    """Bind the slots of one side of a step to the nodes of a row of R_bin; False if they differ."""
    place = state.place[row]
    for k in range(begin, end):
        slot, node = queries.slots[k], state.chain[place + k - begin]
        if work.since[slot] >= 0:
            if work.bound[slot] != node:
                return False
        else:
            work.bound[slot] = node
            work.since[slot] = depth
    return True


@kernel()
def take(
    queries: Queries, state: State, work: Work, step: int, left: int, right: int, depth: int
) -> bool:
    """Bind what a step asks of a pair of rows (-1: none of that side)."""
    if left >= 0 and not _bind(
        queries, state, work, queries.steps[step, 2], queries.steps[step, 3], left, depth
    ):
        return False
    return right < 0 or _bind(
        queries, state, work, queries.steps[step, 4], queries.steps[step, 5], right, depth
    )


@kernel()
def row_of(state: State, document: int, bin_row: int) -> int:
    """The row of R_doc that a row of R_bin belongs to."""
    low, high = state.documents[document, 1], state.documents[document + 1, 1]
    while high - low > 1:
        middle = (low + high) // 2
        if state.rows[middle, 3] <= bin_row:
            low = middle
        else:
            high = middle
    return low


@kernel()
def _emit(
    queries: Queries, state: State, work: Work, found: Found, leaf: int, earlier: int, current: int
) -> bool:
    """A row for what is bound, and a pair for each query whose window is long enough."""
    template = queries.trie[leaf, 0]
    pairing = queries.templates[template, 0]
    distance = state.documents[current, 0] - state.documents[earlier, 0]
    if pairing == FOLLOWED and distance <= 0:
        return True
    if pairing == NEAR_MIRRORED and earlier == current:
        return True
    row, written = found.counts[0], False
    query = queries.trie[leaf, 1]
    while query >= 0:
        if distance <= queries.queries[query, 1]:
            if not written:
                if row >= found.rows.shape[0]:
                    return False
                found.rows[row, 0], found.rows[row, 1], found.rows[row, 2] = leaf, earlier, current
                for slot in range(queries.templates[template, 1]):
                    found.rows[row, 3 + slot] = work.bound[slot]
                found.counts[0] = row + 1
                written = True
            pair = found.counts[1]
            if pair >= found.pairs.shape[0]:
                return False
            found.pairs[pair, 0], found.pairs[pair, 1] = row, queries.queries[query, 0]
            found.counts[1] = pair + 1
        query = queries.queries[query, 2]
    return True


@kernel()
def _begin(state: State, work: Work, kind: int, earlier: int, current: int) -> int:
    """Where a step begins to look."""
    if kind == EQUALS:
        return work.heads[earlier]
    if kind == RIGHT:
        return state.rows[state.documents[current, 1], 3]
    if kind == LEFT:
        return state.rows[state.documents[earlier, 1], 3]
    return 0


@kernel()
def descend(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    start: int, begun: int, earlier: int, current: int,
) -> bool:  # fmt: skip
    """Everything below a node of the trie; `begun` steps are bound already."""
    template = queries.trie[start, 0]
    slots, first = queries.templates[template, 1], queries.templates[template, 2]
    steps = queries.templates[template, 3]
    left_begin = state.rows[state.documents[earlier, 1], 3]
    left_end = state.rows[state.documents[earlier + 1, 1], 3]
    right_begin = state.rows[state.documents[current, 1], 3]
    right_end = state.rows[state.documents[current + 1, 1], 3]
    wide = right_end - right_begin
    depth = begun
    work.way[depth] = start
    leads = queries.trie[start, 3]
    if depth < steps:
        work.cursor[depth] = _begin(state, work, queries.steps[first + depth, 0], earlier, current)
    while depth >= begun:
        if depth == steps:
            if not _emit(queries, state, work, found, work.way[depth], earlier, current):
                return False
            depth -= 1
            if depth >= begun:
                release(work, slots, depth)
                leads = queries.trie[work.way[depth], 3]
            continue
        step = first + depth
        kind, cursor = queries.steps[step, 0], work.cursor[depth]
        left, right, more = -1, -1, True
        a, b = -1, -1
        if kind == EQUALS:
            while cursor >= 0 and not (leads >> work.facts[cursor, 5]) & 1:
                cursor = work.facts[cursor, 2]
            more = cursor >= 0
            if more:
                left, right = work.facts[cursor, 0], work.facts[cursor, 1]
                work.cursor[depth] = work.facts[cursor, 2]
                a, b = work.facts[cursor, 3], work.facts[cursor, 4]
        elif kind == LEFT:
            more = cursor < left_end
            if more:
                left, work.cursor[depth] = cursor, cursor + 1
                a = state.edge[left]
        elif kind == RIGHT:
            more = cursor < right_end
            if more:
                right, work.cursor[depth] = cursor, cursor + 1
                b = state.edge[right]
        else:
            more = cursor < (left_end - left_begin) * wide
            if more:
                left, right = left_begin + cursor // wide, right_begin + cursor % wide
                work.cursor[depth] = cursor + 1
                a, b = state.edge[left], state.edge[right]
        if not more:
            depth -= 1
            if depth >= begun:
                release(work, slots, depth)
                leads = queries.trie[work.way[depth], 3]
            continue
        child = look(queries.children, work.way[depth], a, b, 0)
        if child < 0:
            continue
        if kind == COMPARES:
            mine = state.rows[row_of(state, earlier, left), 2]
            theirs = state.rows[row_of(state, current, right), 2]
            if (
                mine < 0
                or theirs < 0
                or not compares(state, strings, pool, queries.steps[step, 1], mine, theirs)
            ):
                continue
        if not take(queries, state, work, step, left, right, depth):
            release(work, slots, depth)
            continue
        depth += 1
        work.way[depth] = child
        leads = queries.trie[child, 3]
        if depth < steps:
            kind = queries.steps[first + depth, 0]
            work.cursor[depth] = _begin(state, work, kind, earlier, current)
    return True


@kernel()
def from_root(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    template: int, earlier: int, current: int,
) -> bool:  # fmt: skip
    release(work, queries.templates[template, 1], 0)
    start = queries.templates[template, 4]
    return descend(queries, state, strings, pool, work, found, start, 0, earlier, current)
