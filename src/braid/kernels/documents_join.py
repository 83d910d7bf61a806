"""The value joins of all queries: one conjunctive query a template, for all its queries at once.

Queries of a template are rows of R_T: for each step of the template (a value join, or a leaf that is
only shown) the edges that it asks for, then the window. R_T is a trie over these labels, so queries
that begin alike are followed together. For a document that comes, the rows of R_doc that have its
values give R_L, its own witnesses are R_R; pairs of them of one earlier document are the facts of
that pair of documents, and a template's query is evaluated by going down the trie with them. What is
bound on the way are the nodes of the template (slots): two leaves below one node agree in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.kernels.documents_match import look, mixed, note
from braid.kernels.runtime import kernel

#: What a step does: joins by equal values, compares values, or only binds a leaf of one side.
EQUALS, COMPARES, LEFT, RIGHT = 0, 1, 2, 3
#: How two documents are paired; ALONE: there is one only.
FOLLOWED, NEAR, NEAR_MIRRORED, ALONE = 0, 1, 2, 3
#: In how many slices of the view cache a value may be, and how long a chain is worth one.
WAYS = 4
WORTH = 4
#: From so many facts of two documents on, every template is tried.
MANY = 4


class Queries(NamedTuple):
    """Templates, R_T as a trie, and the queries at its leaves.

    `templates`: pairing, slots, first step, steps, root in the trie. `steps`: kind, operator, first
    and end of its left slots, first and end of its right ones. `trie`: template, first query, next
    that begins with the same pair of edges, and 64 bits of which those of its children are set: most
    pairs of edges lead nowhere, and are not looked up.
    """

    templates: np.ndarray
    steps: np.ndarray
    slots: np.ndarray
    trie: np.ndarray
    children: np.ndarray
    begins: np.ndarray
    #: Query: number of its node, window, the next at the same leaf.
    queries: np.ndarray
    #: Templates that no equality begins: those of one document, and those of all pairs.
    alone: np.ndarray
    scanning: np.ndarray


class State(NamedTuple):
    """Documents with their witnesses, in order of time; `by_value` finds the last row of R_doc.

    `documents`: time, first row of R_doc (one more for the end). `rows`: document, node, value,
    first row of R_bin, the row before it that has the same value. `kinds`, `orders`: kind and place
    of a value among others, for comparisons.

    The view cache has slices of R_L by value, each of so many cells in a row (document, first row of
    R_bin and the end of them): `slice_of` has the value, the number of cells and when it was used last.
    A value has its place in one of WAYS slices; that which was used least recently gives way.
    `cache_counts`: uses, hits, misses.
    """

    documents: np.ndarray
    rows: np.ndarray
    edge: np.ndarray
    place: np.ndarray
    chain: np.ndarray
    by_value: np.ndarray
    kinds: np.ndarray
    orders: np.ndarray
    slice_of: np.ndarray
    cells: np.ndarray
    cache_counts: np.ndarray


class Found(NamedTuple):
    """Results: leaf of the trie, the two documents, then the slots; pairs of a row and a node."""

    rows: np.ndarray
    pairs: np.ndarray
    counts: np.ndarray


class Work(NamedTuple):
    """Room for one document: facts chained by the earlier document, and the way down the trie."""

    facts: np.ndarray
    heads: np.ndarray
    touched: np.ndarray
    counts: np.ndarray
    way: np.ndarray
    cursor: np.ndarray
    bound: np.ndarray
    since: np.ndarray


@kernel()
def bit_of(left: int, right: int) -> int:
    return mixed(left, right, 0, 0) & 63


@kernel()
def add_queries(
    queries: Queries, template: int, labels: np.ndarray, nodes: np.ndarray, windows: np.ndarray,
    counts: np.ndarray,
) -> None:  # fmt: skip
    """Take queries into the trie; `counts`: nodes of the trie, queries."""
    first, steps = queries.templates[template, 2], queries.templates[template, 3]
    root = queries.templates[template, 4]
    begins = steps > 0 and queries.steps[first, 0] == EQUALS
    for row in range(labels.shape[0]):
        at = root
        for step in range(steps):
            left, right = labels[row, 2 * step], labels[row, 2 * step + 1]
            child = look(queries.children, at, left, right, 0)
            if child < 0:
                child = counts[0]
                counts[0] += 1
                queries.trie[child, 0] = template
                queries.trie[child, 1] = -1
                queries.trie[child, 2] = -1
                queries.trie[child, 3] = 0
                queries.trie[at, 3] |= np.int64(1) << bit_of(left, right)
                note(queries.children, at, left, right, 0, child)
                if step == 0 and begins:
                    queries.trie[child, 2] = look(queries.begins, left, right, 0, 0)
                    note(queries.begins, left, right, 0, 0, child)
            at = child
        number = counts[1]
        counts[1] += 1
        queries.queries[number, 0] = nodes[row]
        queries.queries[number, 1] = windows[row]
        queries.queries[number, 2] = queries.trie[at, 1]
        queries.trie[at, 1] = number


@kernel()
def refill(table: np.ndarray, entries: np.ndarray) -> None:
    """The entries of a table in a larger one."""
    for k in range(entries.shape[0]):
        row = entries[k]
        note(table, row[0], row[1], row[2], row[3], row[4])


# ---- the view cache ----


@kernel()
def _slice(state: State, value: int) -> int:
    """The slice of a value; -1 if it is not in the cache."""
    if state.slice_of.shape[0] == 0:
        return -1
    first = (mixed(value, 0, 0, 0) & (state.slice_of.shape[0] // WAYS - 1)) * WAYS
    for way in range(first, first + WAYS):
        if state.slice_of[way, 0] == value:
            return way
    return -1


@kernel()
def _append(state: State, value: int, row: int) -> None:
    """A new row of R_L in the slice of its value, if that is in the cache; one that is full leaves."""
    found = _slice(state, value)
    if found < 0:
        return
    length = state.slice_of[found, 1]
    if length == state.cells.shape[1]:
        state.slice_of[found, 0] = -1
        return
    state.cells[found, length, 0] = state.rows[row, 0]
    state.cells[found, length, 1] = state.rows[row, 3]
    state.cells[found, length, 2] = state.rows[row + 1, 3]
    state.slice_of[found, 1] = length + 1


@kernel()
def _materialised(state: State, value: int, oldest: int) -> int:
    """Put the slice of a value into the cache; -1 if that does not pay or there is no room."""
    if state.slice_of.shape[0] == 0:
        return -1
    row, length = look(state.by_value, value, 0, 0, 0), 0
    while row >= 0 and state.rows[row, 0] >= oldest:
        length += 1
        row = state.rows[row, 4]
    if length < WORTH or length > state.cells.shape[1]:
        return -1
    first = (mixed(value, 0, 0, 0) & (state.slice_of.shape[0] // WAYS - 1)) * WAYS
    chosen = first
    for way in range(first + 1, first + WAYS):
        if state.slice_of[way, 2] < state.slice_of[chosen, 2]:
            chosen = way
    state.slice_of[chosen, 0], state.slice_of[chosen, 1] = value, length
    row = look(state.by_value, value, 0, 0, 0)
    for k in range(length - 1, -1, -1):
        state.cells[chosen, k, 0] = state.rows[row, 0]
        state.cells[chosen, k, 1] = state.rows[row, 3]
        state.cells[chosen, k, 2] = state.rows[row + 1, 3]
        row = state.rows[row, 4]
    return chosen


@kernel()
def index_rows(state: State, first: int, end: int) -> None:
    """Chain rows of R_doc by their values."""
    for row in range(first, end):
        value = state.rows[row, 2]
        state.rows[row, 4] = -1
        if value >= 0:
            state.rows[row, 4] = look(state.by_value, value, 0, 0, 0)
            note(state.by_value, value, 0, 0, 0, row)
            _append(state, value, row)


# ---- facts: R_L joined with R_R by value ----


@kernel()
def _gather(state: State, work: Work, current: int, oldest: int, near: bool, views: bool) -> bool:
    """The facts of a document that comes with each one from `oldest` on; `near`: with itself, too.
    `views`: by the view cache."""
    begin, end = state.documents[current, 1], state.documents[current + 1, 1]
    for mine in range(begin, end):
        value = state.rows[mine, 2]
        if value < 0:
            continue
        found = _slice(state, value) if views else -1
        if views:
            state.cache_counts[1 if found >= 0 else 2] += 1
            if found < 0:
                found = _materialised(state, value, oldest)
        if found >= 0:
            if not _from_slice(state, work, found, mine, current, oldest, near):
                return False
            continue
        # The last row of a value is of this document: it is the one that was indexed last.
        row = look(state.by_value, value, 0, 0, 0) if near else state.rows[mine, 4]
        while row >= 0 and state.rows[row, 0] >= oldest:
            if (near or state.rows[row, 0] != current) and not _pair(
                state, work, state.rows[row, 0], state.rows[row, 3], state.rows[row + 1, 3], mine
            ):
                return False
            row = state.rows[row, 4]
    return True


@kernel()
def _from_slice(
    state: State, work: Work, found: int, mine: int, current: int, oldest: int, near: bool
) -> bool:
    """The facts of a row with a slice of the view cache, from the last document to the oldest."""
    state.cache_counts[0] += 1
    state.slice_of[found, 2] = state.cache_counts[0]
    for k in range(state.slice_of[found, 1] - 1, -1, -1):
        document = state.cells[found, k, 0]
        if document < oldest:
            break
        if (near or document != current) and not _pair(
            state, work, document, state.cells[found, k, 1], state.cells[found, k, 2], mine
        ):
            return False
    return True


@kernel()
def _pair(state: State, work: Work, document: int, begin: int, end: int, mine: int) -> bool:
    """The facts of rows of R_bin of an earlier document with those of a row of this one."""
    for left in range(begin, end):
        for right in range(state.rows[mine, 3], state.rows[mine + 1, 3]):
            number = work.counts[0]
            if number >= work.facts.shape[0]:
                return False
            if work.heads[document] < 0:
                work.touched[work.counts[1]] = document
                work.counts[1] += 1
            work.facts[number, 0] = left
            work.facts[number, 1] = right
            work.facts[number, 2] = work.heads[document]
            a, b = state.edge[left], state.edge[right]
            work.facts[number, 3], work.facts[number, 4] = a, b
            work.facts[number, 5] = bit_of(a, b)
            work.heads[document] = number
            work.counts[0] = number + 1
    return True


@kernel()
def _forget(work: Work) -> None:
    for k in range(work.counts[1]):
        work.heads[work.touched[k]] = -1
    work.counts[0] = 0
    work.counts[1] = 0


# ---- down the trie ----


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
def _from_facts(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    current: int,
) -> bool:  # fmt: skip
    """All templates, with the facts of each pair of documents.

    Few facts say which queries they begin; of many, most templates have some use.
    """
    for k in range(work.counts[1]):
        earlier = work.touched[k]
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
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    current: int, oldest: int, near: bool, views: bool,
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
        if not _gather(state, work, current, oldest, near, views):
            return False
        return _from_facts(queries, state, strings, pool, work, found, current)
    for template in range(queries.templates.shape[0]):  # each joins for itself
        if _is_equal(queries, template):
            _forget(work)
            if not _gather(state, work, current, oldest, near, views):
                return False
            for k in range(work.counts[1]):
                if not _from_root(
                    queries, state, strings, pool, work, found, template, work.touched[k], current
                ):
                    return False
    return True


@kernel()
def join(
    queries: Queries, state: State, strings: np.ndarray, pool: np.ndarray, work: Work, found: Found,
    progress: np.ndarray, end: int, longest: int, near: bool, views: bool,
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
            queries, state, strings, pool, work, found, current, progress[2], near, views
        ):
            found.counts[0], found.counts[1] = rows, pairs
            _forget(work)
            return False
        _forget(work)
        progress[0] = current + 1
    return True


@kernel()
def values_at(state: State, documents: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """The value of each node of a document, -1 where it is not held."""
    values = np.full(documents.shape[0], -1, np.int64)
    for k in range(documents.shape[0]):
        low, high = state.documents[documents[k], 1], state.documents[documents[k] + 1, 1]
        end = high
        while high > low:
            middle = (low + high) // 2
            if state.rows[middle, 1] < nodes[k]:
                low = middle + 1
            else:
                high = middle
        if low < end and state.rows[low, 1] == nodes[k]:
            values[k] = state.rows[low, 2]
    return values
