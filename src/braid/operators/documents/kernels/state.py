"""R_T as a trie that queries are taken into, and values of nodes that are held."""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.records import Words
from braid.jit.runtime import kernel
from braid.operators.documents.kernels.key_table import look, mixed, note
from braid.operators.documents.kernels.records import JoinFrame, Label, TrieCounts

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
def _begin_with(frame: JoinFrame, number: int, a: int, b: int, c: int) -> None:
    """A node of the trie that some pair of edges leads to from outside."""
    frame.trie[number].begins_alike = look(frame.begins, a, b, c, 0)
    note(frame.begins, a, b, c, 0, number)


@kernel()
def _add_child(
    frame: JoinFrame, template: int, step: int, at: int, labels: Label, child: int
) -> None:
    """A new node of the trie, for a step of a row of labels."""
    own = frame.templates[template]
    first, beside = own.first_step, own.is_beside
    left, right = labels[step].left, labels[step].right
    node, above = frame.trie[child], frame.trie[at]
    node.template = template
    node.first_query = -1
    node.begins_alike = -1
    node.leads = 0
    node.left_edge = left
    node.above = at
    above.leads |= np.int64(1) << bit_of(left, right)
    note(frame.children, at, left, right, 0, child)
    steps = frame.steps[first]
    if step == 0 and steps.kind == EQUALS:
        _begin_with(frame, child, left, right, beside)
    elif step == 0 and own.ordered_steps:
        _begin_with(frame, child, ORDERED, right, 0)
    elif step == 1 and beside:
        _begin_with(frame, child, ORDERED, right, labels[0].right + 1)
    if steps[step].kind == EQUALS:
        note(frame.begins, BESIDE if beside else FACT, right, 0, 0, 0)


@kernel(
    (JoinFrame.type, types.int64, Label.type, Words.type, Words.type, types.int64, TrieCounts.type)
)
def add_queries(
    frame: JoinFrame,
    template: int,
    labels: Label,
    nodes: Words,
    windows: Words,
    count: int,
    counts: TrieCounts,
) -> None:
    """Take queries into the trie; each has a label for each step."""
    own = frame.templates[template]
    steps, trie = own.step_count, frame.trie
    for row in range(count):
        at = own.root
        for step in range(steps):
            left, right = labels[step].left, labels[step].right
            child = look(frame.children, at, left, right, 0)
            if child < 0:
                child = counts.nodes
                counts.nodes = child + 1
                _add_child(frame, template, step, at, labels, child)
            at = child
        number = counts.queries
        counts.queries = number + 1
        query, leaf = frame.queries[number], trie[at]
        query.node = nodes[row]
        query.window = windows[row]
        query.next = leaf.first_query
        leaf.first_query = number
        labels = labels[steps]


@kernel((JoinFrame.type, Words.type, Words.type, Words.type, types.int64))
def values_at(frame: JoinFrame, documents: Words, nodes: Words, values: Words, count: int) -> None:
    """Write the value of each node of a document, -1 where it is not held."""
    rows = frame.rows
    for k in range(count):
        document = frame.documents[documents[k]]
        node, low, high = nodes[k], document.first_row, document[1].first_row
        end = high
        while high > low:
            middle = (low + high) // 2
            if rows[middle].node < node:
                low = middle + 1
            else:
                high = middle
        row, value = rows[low], np.int64(-1)
        if low < end and row.node == node:
            value = row.value
        values[k] = value
