"""R_T as a trie that queries are taken into, and values of nodes that are held."""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.runtime import kernel, load_int, load_narrow, store_int
from braid.operators.documents.kernels.frame import (
    BEGINS,
    BEGINS_ALIKE,
    CHILDREN,
    DOCUMENTS,
    FIRST_QUERY,
    FIRST_STEP,
    IS_BESIDE,
    KIND,
    LEADS,
    LEFT_EDGE,
    NEXT_QUERY,
    NODE_ABOVE,
    ORDERED_STEPS,
    QUERIES,
    QUERY_BYTES,
    QUERY_NODE,
    ROOT,
    ROW_BYTES,
    ROW_NODE,
    ROW_VALUE,
    ROWS,
    STEP_BYTES,
    STEP_COUNT,
    STEPS,
    TEMPLATE,
    TEMPLATE_BYTES,
    TEMPLATES,
    TRIE,
    TRIE_BYTES,
    WINDOW,
)
from braid.operators.documents.kernels.match import look, mixed, note

#: What a step does: joins by equal values, compares values, or only binds a leaf of one side.
EQUALS, COMPARES, LEFT, RIGHT = 0, 1, 2, 3
#: How two documents are paired; ALONE: there is one only.
FOLLOWED, NEAR, NEAR_MIRRORED, ALONE = 0, 1, 2, 3
#: In how many slices of the view cache a value may be, and how long a chain is worth one.
WAYS_OF_SLICE = 4
WORTH = 4
#: In place of the row before it: the value of a row belongs to another shard.
FOREIGN = -2
#: From so many facts of two documents on, every template is tried.
MANY = 4
#: In place of a left edge: nodes of the trie that begin with a comparison by order; leaves by whose
#: equal values and an order beside them templates begin; leaves by whose equal values others join.
ORDERED, BESIDE, FACT = -7, -8, -9


@kernel()
def bit_of(left: int, right: int) -> int:
    return mixed(left, right, 0, 0) & 63


@kernel()
def _begin_with(f: int, node: int, a: int, b: int, c: int) -> None:
    """A node of the trie that some pair of edges leads to from outside."""
    store_int(node, BEGINS_ALIKE, look(f + 8 * BEGINS, a, b, c, 0))
    note(f + 8 * BEGINS, a, b, c, 0, (node - load_int(f, TRIE)) // TRIE_BYTES)


@kernel()
def _add_child(f: int, template: int, step: int, at: int, labels: int, child: int) -> None:
    """A new node of the trie, for a step of a row of labels."""
    own = load_int(f, TEMPLATES) + TEMPLATE_BYTES * template
    first, beside = load_int(own, FIRST_STEP), load_int(own, IS_BESIDE)
    left, right = load_int(labels, 2 * step), load_int(labels, 2 * step + 1)
    node, above = load_int(f, TRIE) + TRIE_BYTES * child, load_int(f, TRIE) + TRIE_BYTES * at
    store_int(node, TEMPLATE, template)
    store_int(node, FIRST_QUERY, -1)
    store_int(node, BEGINS_ALIKE, -1)
    store_int(node, LEADS, 0)
    store_int(node, LEFT_EDGE, left)
    store_int(node, NODE_ABOVE, at)
    store_int(above, LEADS, load_int(above, LEADS) | (np.int64(1) << bit_of(left, right)))
    note(f + 8 * CHILDREN, at, left, right, 0, child)
    steps = load_int(f, STEPS) + STEP_BYTES * first
    if step == 0 and load_int(steps, KIND) == EQUALS:
        _begin_with(f, node, left, right, beside)
    elif step == 0 and load_int(own, ORDERED_STEPS):
        _begin_with(f, node, ORDERED, right, 0)
    elif step == 1 and beside:
        _begin_with(f, node, ORDERED, right, load_int(labels, 1) + 1)
    if load_int(steps + STEP_BYTES * step, KIND) == EQUALS:
        note(f + 8 * BEGINS, BESIDE if beside else FACT, right, 0, 0, 0)


@kernel((types.int64,) * 7)
def add_queries(
    f: int, template: int, labels: int, nodes: int, windows: int, count: int, counts: int
) -> None:
    """Take queries into the trie; `counts`: nodes of the trie, queries."""
    own = load_int(f, TEMPLATES) + TEMPLATE_BYTES * template
    steps, trie = load_int(own, STEP_COUNT), load_int(f, TRIE)
    for row in range(count):
        at = load_int(own, ROOT)
        for step in range(steps):
            left, right = load_int(labels, 2 * step), load_int(labels, 2 * step + 1)
            child = look(f + 8 * CHILDREN, at, left, right, 0)
            if child < 0:
                child = load_int(counts, 0)
                store_int(counts, 0, child + 1)
                _add_child(f, template, step, at, labels, child)
            at = child
        number = load_int(counts, 1)
        store_int(counts, 1, number + 1)
        query, leaf = load_int(f, QUERIES) + QUERY_BYTES * number, trie + TRIE_BYTES * at
        store_int(query, QUERY_NODE, load_int(nodes, row))
        store_int(query, WINDOW, load_int(windows, row))
        store_int(query, NEXT_QUERY, load_int(leaf, FIRST_QUERY))
        store_int(leaf, FIRST_QUERY, number)
        labels += 16 * steps


@kernel((types.int64,) * 5)
def values_at(f: int, documents: int, nodes: int, values: int, count: int) -> None:
    """Write the value of each node of a document, -1 where it is not held."""
    rows = load_int(f, ROWS)
    for k in range(count):
        document = load_int(f, DOCUMENTS) + 16 * load_int(documents, k)
        node, low, high = load_int(nodes, k), load_int(document, 1), load_int(document, 3)
        end = high
        while high > low:
            middle = (low + high) // 2
            if load_narrow(rows + ROW_BYTES * middle, ROW_NODE) < node:
                low = middle + 1
            else:
                high = middle
        row, value = rows + ROW_BYTES * low, np.int64(-1)
        if low < end and load_narrow(row, ROW_NODE) == node:
            value = load_narrow(row, ROW_VALUE)
        store_int(values, k, value)
