"""The value joins of all queries: one conjunctive query a template, for all its queries at once.

Queries of a template are rows of R_T: for each step of the template (a value join, or a leaf that is
only shown) the edges that it asks for, then the window. R_T is a trie over these labels, so queries
that begin alike are followed together. For a document that comes, the rows of R_doc that have its
values give R_L, its own witnesses are R_R; pairs of them of one earlier document are the facts of
that pair of documents, and a template's query is evaluated by going down the trie with them
(`documents_descend.py`). Templates that begin with another comparison, or have one by order beside
an equality, are in `documents_compare.py`.
"""

from __future__ import annotations

import numpy as np

from braid.kernels.documents_compare import beside_equal, compare
from braid.kernels.documents_descend import descend, from_root, release, take
from braid.kernels.documents_match import look
from braid.kernels.documents_order import Sorted
from braid.kernels.documents_state import (
    EQUALS,
    FOLLOWED,
    MANY,
    NEAR_MIRRORED,
    Found,
    Queries,
    State,
    Ways,
    Work,
)
from braid.kernels.documents_views import forget_facts, gather_facts, index_rows
from braid.kernels.documents_ways import ways_of
from braid.kernels.runtime import kernel


@kernel()
def _needs_fact(queries: Queries, template: int) -> bool:
    """Whether the second step is a join by equal values, too."""
    first, steps = queries.templates[template, 2], queries.templates[template, 3]
    return steps > 1 and queries.steps[first + 1, 0] == EQUALS


@kernel()
def _from_fact(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    fact: int, bits: int, earlier: int, current: int,
) -> bool:  # fmt: skip
    """The queries whose first join a fact is."""
    left, right = work.facts[fact, 0], work.facts[fact, 1]
    start = look(queries.begins, work.facts[fact, 3], work.facts[fact, 4], 0, 0)
    while start >= 0:
        template, leads = queries.trie[start, 0], queries.trie[start, 3]
        is_whole = queries.templates[template, 3] == 1
        if leads & bits or is_whole or not _needs_fact(queries, template):
            release(work, queries.templates[template, 1], 0)
            step = queries.templates[template, 2]
            if take(queries, state, work, step, left, right, 0) and not descend(
                queries, state, strings, pool, work, found, start, 1, earlier, current
            ):
                return False
        start = queries.trie[start, 2]
    return True


@kernel()
def _by_ways(
    queries: Queries, ways: Ways, state: State, strings: np.ndarray, pool: np.ndarray, work: Work,
    found: Found, entry: int, earlier: int, current: int,
) -> bool:  # fmt: skip
    """All templates by the ways that are known for these facts."""
    for way in range(ways.entries[entry, 2], ways.entries[entry, 3]):
        node, place, equal = ways.ways[way, 0], ways.ways[way, 1], ways.ways[way, 2]
        template = queries.trie[node, 0]
        first = queries.templates[template, 2]
        release(work, queries.templates[template, 1], 0)
        agree = True
        for step in range(equal):
            fact = ways.order[ways.steps[place + step]]
            left, right = work.facts[fact, 0], work.facts[fact, 1]
            if not take(queries, state, work, first + step, left, right, step):
                agree = False
                break
        if not agree:
            continue
        if ways.ways[way, 4] < 0:
            if not descend(
                queries, state, strings, pool, work, found, node, equal, earlier, current
            ):
                return False
        elif not _emit_way(queries, ways, state, work, found, way, earlier, current):
            return False
    return True


@kernel()
def _emit_way(
    queries: Queries,
    ways: Ways,
    state: State,
    work: Work,
    found: Found,
    way: int,
    earlier: int,
    current: int,
) -> bool:
    """As `_emit`, with the queries side by side."""
    leaf = ways.ways[way, 0]
    template = queries.trie[leaf, 0]
    pairing = queries.templates[template, 0]
    distance = state.documents[current, 0] - state.documents[earlier, 0]
    if (pairing == FOLLOWED and distance <= 0) or (pairing == NEAR_MIRRORED and earlier == current):
        return True
    row, pair = found.counts[0], found.counts[1]
    begin, end = ways.ways[way, 3], ways.ways[way, 4]
    if row >= found.rows.shape[0] or pair + end - begin > found.pairs.shape[0]:
        return False
    for query in range(begin, end):
        if distance <= ways.queries[query, 1]:
            found.pairs[pair, 0], found.pairs[pair, 1] = row, ways.queries[query, 0]
            pair += 1
    if pair > found.counts[1]:
        found.rows[row, 0], found.rows[row, 1], found.rows[row, 2] = leaf, earlier, current
        for slot in range(queries.templates[template, 1]):
            found.rows[row, 3 + slot] = work.bound[slot]
        found.counts[0], found.counts[1] = row + 1, pair
    return True


@kernel()
def _from_facts(
    queries: Queries, ways: Ways, state: State, strings: np.ndarray, pool: np.ndarray, work: Work,
    found: Found, current: int,
) -> bool:  # fmt: skip
    """All templates, with the facts of each pair of documents.

    Few facts say which queries they begin; of many, most templates have some use.
    """
    for k in range(work.counts[1]):
        earlier = work.touched[k]
        entry = ways_of(queries, ways, work, earlier)
        if entry >= 0:
            if not _by_ways(
                queries, ways, state, strings, pool, work, found, entry, earlier, current
            ):
                return False
            continue
        fact, count = work.heads[earlier], 0
        bits = np.int64(0)  # of all facts of this pair: what needs another has no use for it
        while fact >= 0:
            bits |= np.int64(1) << work.facts[fact, 5]
            fact = work.facts[fact, 2]
            count += 1
        if count >= MANY:
            for template in range(queries.templates.shape[0]):
                if queries.trie[queries.templates[template, 4], 3] & bits and _is_equal(
                    queries, template
                ):
                    if not from_root(
                        queries, state, strings, pool, work, found, template, earlier, current
                    ):
                        return False
            continue
        fact = work.heads[earlier]
        while fact >= 0:
            if not _from_fact(
                queries, state, strings, pool, work, found, fact, bits, earlier, current
            ):
                return False
            fact = work.facts[fact, 2]
    return True


@kernel()
def _is_equal(queries: Queries, template: int) -> bool:
    """Whether the first step of a template is a join by equal values that are looked up as facts."""
    steps, beside = queries.templates[template, 3], queries.templates[template, 6]
    return steps > 0 and not beside and queries.steps[queries.templates[template, 2], 0] == EQUALS


@kernel()
def _join_one(
    queries: Queries, ways: Ways, state: State, strings: np.ndarray, pool: np.ndarray, work: Work,
    found: Found, index: Sorted, current: int, oldest: int, near: bool, views: bool, equal: bool,
    beside: bool,
) -> bool:  # fmt: skip
    """`equal`: whether some template begins with equal values; `beside`: with an order beside them."""
    for k in range(queries.alone.shape[0]):
        if not from_root(
            queries, state, strings, pool, work, found, queries.alone[k], current, current
        ):
            return False
    if queries.scanning.shape[0] and not compare(
        queries, state, strings, pool, work, found, index, current, oldest
    ):
        return False
    if beside and not beside_equal(
        queries, state, strings, pool, work, found, index, current, oldest
    ):
        return False
    if not equal:
        return True
    if views:
        if not gather_facts(queries, state, work, current, oldest, near, views, beside):
            return False
        return _from_facts(queries, ways, state, strings, pool, work, found, current)
    for template in range(queries.templates.shape[0]):  # each joins for itself
        if _is_equal(queries, template):
            forget_facts(work)
            if not gather_facts(queries, state, work, current, oldest, near, views, beside):
                return False
            for k in range(work.counts[1]):
                if not from_root(
                    queries, state, strings, pool, work, found, template, work.touched[k], current
                ):
                    return False
    return True


@kernel()
def join(
    queries: Queries, ways: Ways, state: State, strings: np.ndarray, pool: np.ndarray, work: Work,
    found: Found, index: Sorted, progress: np.ndarray, end: int, longest: int, near: bool, views: bool,
) -> bool:  # fmt: skip
    """Join documents one after the other with all before them.

    `progress`: the next document, how many are indexed, the oldest that is near enough. False if
    there is not enough room: what the document that stopped it has put out is taken back.
    """
    equal, beside = False, False
    for template in range(queries.templates.shape[0]):
        equal |= _is_equal(queries, template)
        beside |= queries.templates[template, 6] != 0
    while progress[0] < end:
        current = progress[0]
        if progress[1] <= current:
            index_rows(state, state.documents[current, 1], state.documents[current + 1, 1])
            progress[1] = current + 1
        least = state.documents[current, 0] - longest
        while progress[2] < current and state.documents[progress[2], 0] < least:
            progress[2] += 1
        rows, pairs = found.counts[0], found.counts[1]
        if not _join_one(
            queries, ways, state, strings, pool, work, found, index, current, progress[2], near,
            views, equal, beside,
        ):  # fmt: skip
            found.counts[0], found.counts[1] = rows, pairs
            forget_facts(work)
            return False
        forget_facts(work)
        progress[0] = current + 1
    return True
