"""The value joins of all queries: one conjunctive query a template, for all its queries at once.

Queries of a template are rows of R_T: for each step of the template (a value join, or a leaf that is
only shown) the edges that it asks for, then the window. R_T is a trie over these labels, so queries
that begin alike are followed together. For a document that comes, the rows of R_doc that have its
values give R_L, its own witnesses are R_R; pairs of them of one earlier document are the facts of
that pair of documents, and a template's query is evaluated by going down the trie with them. What is
bound on the way are the nodes of the template (slots): two leaves below one node agree in it.
"""

from __future__ import annotations

import numpy as np

from braid.kernels.documents_match import look
from braid.kernels.documents_state import (
    COMPARES,
    EQUALS,
    FOLLOWED,
    LEFT,
    MANY,
    NEAR_MIRRORED,
    RIGHT,
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
def _release(work: Work, slots: int, depth: int) -> None:
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
def _take(
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
def _ordered(state: State, strings: np.ndarray, pool: np.ndarray, a: int, b: int) -> int:
    """How two values compare: as numbers, as times, or as texts."""
    if a == b:
        return 0
    kind = state.kinds[a]
    if kind == state.kinds[b] and kind > 0:
        first, second = state.orders[a], state.orders[b]
        return 0 if first == second else (-1 if first < second else 1)
    at, other = strings[a], strings[b]
    while at < strings[a + 1] and other < strings[b + 1]:
        if pool[at] != pool[other]:
            return -1 if pool[at] < pool[other] else 1
        at += 1
        other += 1
    return (strings[a + 1] - at) - (strings[b + 1] - other)


@kernel()
def _satisfies(operator: int, order: int) -> bool:
    if operator == 1:
        return order != 0
    if operator == 2:
        return order < 0
    if operator == 3:
        return order <= 0
    if operator == 4:
        return order > 0
    return order >= 0


@kernel()
def _row_of(state: State, document: int, bin_row: int) -> int:
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
def _descend(
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
                _release(work, slots, depth)
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
                _release(work, slots, depth)
                leads = queries.trie[work.way[depth], 3]
            continue
        child = look(queries.children, work.way[depth], a, b, 0)
        if child < 0:
            continue
        if kind == COMPARES:
            mine = state.rows[_row_of(state, earlier, left), 2]
            theirs = state.rows[_row_of(state, current, right), 2]
            if (
                mine < 0
                or theirs < 0
                or not _satisfies(
                    queries.steps[step, 1], _ordered(state, strings, pool, mine, theirs)
                )
            ):
                continue
        if not _take(queries, state, work, step, left, right, depth):
            _release(work, slots, depth)
            continue
        depth += 1
        work.way[depth] = child
        leads = queries.trie[child, 3]
        if depth < steps:
            kind = queries.steps[first + depth, 0]
            work.cursor[depth] = _begin(state, work, kind, earlier, current)
    return True


@kernel()
def _needs_fact(queries: Queries, template: int) -> bool:
    """Whether the second step is a join by equal values, too."""
    first, steps = queries.templates[template, 2], queries.templates[template, 3]
    return steps > 1 and queries.steps[first + 1, 0] == EQUALS


@kernel()
def _from_root(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    template: int, earlier: int, current: int,
) -> bool:  # fmt: skip
    _release(work, queries.templates[template, 1], 0)
    start = queries.templates[template, 4]
    return _descend(queries, state, strings, pool, work, found, start, 0, earlier, current)


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
            _release(work, queries.templates[template, 1], 0)
            step = queries.templates[template, 2]
            if _take(queries, state, work, step, left, right, 0) and not _descend(
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
        _release(work, queries.templates[template, 1], 0)
        agree = True
        for step in range(equal):
            fact = ways.order[ways.steps[place + step]]
            left, right = work.facts[fact, 0], work.facts[fact, 1]
            if not _take(queries, state, work, first + step, left, right, step):
                agree = False
                break
        if not agree:
            continue
        if ways.ways[way, 4] < 0:
            if not _descend(
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
                    if not _from_root(
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
    """Whether the first step of a template is a join by equal values."""
    steps = queries.templates[template, 3]
    return steps > 0 and queries.steps[queries.templates[template, 2], 0] == EQUALS


@kernel()
def _join_one(
    queries: Queries, ways: Ways, state: State, strings: np.ndarray, pool: np.ndarray, work: Work,
    found: Found, current: int, oldest: int, near: bool, views: bool,
) -> bool:  # fmt: skip
    for k in range(queries.alone.shape[0]):
        if not _from_root(
            queries, state, strings, pool, work, found, queries.alone[k], current, current
        ):
            return False
    for k in range(queries.scanning.shape[0]):
        for earlier in range(oldest, current + 1):
            if not _from_root(
                queries, state, strings, pool, work, found, queries.scanning[k], earlier, current
            ):
                return False
    if views:
        if not gather_facts(state, work, current, oldest, near, views):
            return False
        return _from_facts(queries, ways, state, strings, pool, work, found, current)
    for template in range(queries.templates.shape[0]):  # each joins for itself
        if _is_equal(queries, template):
            forget_facts(work)
            if not gather_facts(state, work, current, oldest, near, views):
                return False
            for k in range(work.counts[1]):
                if not _from_root(
                    queries, state, strings, pool, work, found, template, work.touched[k], current
                ):
                    return False
    return True


@kernel()
def join(
    queries: Queries, ways: Ways, state: State, strings: np.ndarray, pool: np.ndarray, work: Work,
    found: Found, progress: np.ndarray, end: int, longest: int, near: bool, views: bool,
) -> bool:  # fmt: skip
    """Join documents one after the other with all before them.

    `progress`: the next document, how many are indexed, the oldest that is near enough. False if
    there is not enough room: what the document that stopped it has put out is taken back.
    """
    while progress[0] < end:
        current = progress[0]
        if progress[1] <= current:
            index_rows(state, state.documents[current, 1], state.documents[current + 1, 1])
            progress[1] = current + 1
        least = state.documents[current, 0] - longest
        while state.documents[progress[2], 0] < least:
            progress[2] += 1
        rows, pairs = found.counts[0], found.counts[1]
        if not _join_one(
            queries, ways, state, strings, pool, work, found, current, progress[2], near, views
        ):
            found.counts[0], found.counts[1] = rows, pairs
            forget_facts(work)
            return False
        forget_facts(work)
        progress[0] = current + 1
    return True
