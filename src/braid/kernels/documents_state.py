"""What is kept of documents and of the queries over them, as arrays."""

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
#: In place of the row before it: the value of a row belongs to another shard.
FOREIGN = -2
#: From so many facts of two documents on, every template is tried.
MANY = 4
#: In place of a left edge: nodes of the trie that begin with a comparison by order; leaves by whose
#: equal values and an order beside them templates begin; leaves by whose equal values others join.
ORDERED, BESIDE, FACT = -7, -8, -9


class Ways(NamedTuple):
    """What lists of pairs of edges lead to; see `documents_ways.py`.

    `table`: digest of a list and the number of its entry. `entries`: first and end of its `labels`, first
    and end of its `ways`: node of the trie, first of its `steps` (places in the list), how many, first
    and end of its `queries` (node, window; end -1: they are not copied). `order`: room for the facts of
    the list at hand. `counts`: how much of entries, labels, ways, steps and queries is used.
    """

    table: np.ndarray
    entries: np.ndarray
    labels: np.ndarray
    ways: np.ndarray
    steps: np.ndarray
    queries: np.ndarray
    order: np.ndarray
    counts: np.ndarray


class Queries(NamedTuple):
    """Templates, R_T as a trie, and the queries at its leaves.

    `templates`: pairing, slots, first step, steps, root in the trie, how many comparisons at the
    beginning are looked up in the order of values (2: a band), and whether these are behind a first
    step by equal values, `beside` it. `steps`: kind, operator, first and end of its left slots, first
    and end of its right ones. `trie`: template, first query, next that begins with the same pair of
    edges, and 64 bits of which those of its children are set: most pairs of edges lead nowhere, and
    are not looked up; the left edge that leads to it; the node above it. `begins`: nodes of first
    steps, by both edges if these are equal values (and 1 if an order is beside), by ORDERED and the
    right edge if ordered; nodes of second steps that are beside, by ORDERED and both right edges.
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
    """Documents with their witnesses, in order of time; `by_value`: of each value the last row of R_doc.

    `documents`: time, first row of R_doc (one more for the end). `rows`: document, node, value,
    first row of R_bin, the row before it that has the same value (or FOREIGN: it joins nothing here). `kinds`, `orders`: kind and place
    of a value among others, for comparisons.

    The view cache has slices of R_L by value, each of so many cells in a row (document, first row of
    R_bin and the end of them): `slice_of` has the value, the number of cells and when it was used last.
    A value has its place in one of WAYS slices; that which was used least recently gives way.
    `cache_counts`: uses, hits, misses; rows of long chains that were gone through for a comparison
    beside an equality.
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
    root, beside = queries.templates[template, 4], queries.templates[template, 6]
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
                queries.trie[child, 4] = left
                queries.trie[child, 5] = at
                queries.trie[at, 3] |= np.int64(1) << bit_of(left, right)
                note(queries.children, at, left, right, 0, child)
                if step == 0 and begins:
                    queries.trie[child, 2] = look(queries.begins, left, right, beside, 0)
                    note(queries.begins, left, right, beside, 0, child)
                elif step == 0 and queries.templates[template, 5]:
                    queries.trie[child, 2] = look(queries.begins, ORDERED, right, 0, 0)
                    note(queries.begins, ORDERED, right, 0, 0, child)
                elif step == 1 and beside:
                    equal = labels[row, 1]
                    queries.trie[child, 2] = look(queries.begins, ORDERED, right, equal + 1, 0)
                    note(queries.begins, ORDERED, right, equal + 1, 0, child)
                if queries.steps[first + step, 0] == EQUALS:
                    note(queries.begins, BESIDE if beside else FACT, right, 0, 0, 0)
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
