"""All blocks of all queries against documents: one automaton over the nodes of each.

Paths of patterns are a trie: steps that begin alike are one state, however many queries have them.
A document is a table of nodes, parents first (attributes after all elements). Predicates are found
from the last node to the first, so that what lies below a node is known when it is asked; then
states are found from the first node to the last. For each state that is the end of an *edge* (a leaf
of a pattern together with the nodes above it that a query needs), the nodes on the way are written
out: these are the witnesses, R_bin, with the string values of the leaves, R_doc.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.kernels.runtime import kernel

ANY = -2
#: Axes as in `algebra.documents.Axis`, those that go one level down are even; SELF is a test of the
#: node itself.
CHILD, DESCENDANT, ATTRIBUTE, DESCENDANT_ATTRIBUTE, SELF = 0, 1, 2, 3, 4
EQUAL, DIFFERENT, LESS, AT_MOST, MORE, AT_LEAST = 0, 1, 2, 3, 4, 5
NOTHING, TEXT, NUMBER = 0, 1, 2
#: What there may be no room for.
DONE, PREDICATES, STATES, WITNESSES = 0, 1, 2, 3


class Nodes(NamedTuple):
    """The nodes of the documents of a batch; those of document d are start[d]..start[d+1]."""

    start: np.ndarray
    source: np.ndarray
    name: np.ndarray
    parent: np.ndarray
    attribute: np.ndarray
    value: np.ndarray
    number: np.ndarray


class Paths(NamedTuple):
    """States, predicates and edges; see `mops/document_paths.py`.

    `moves` finds the first state for (state, axis, name, predicate); `alike` the next one. `goes`: a
    bit for each axis that leads on from a state.
    """

    parent: np.ndarray
    axis: np.ndarray
    alike: np.ndarray
    asks_start: np.ndarray
    asks: np.ndarray
    goes: np.ndarray
    moves: np.ndarray
    edges: np.ndarray
    edge_next: np.ndarray
    edge_mask: np.ndarray
    #: Predicates: axis, name, operator, kind of constant, constant, parts, next of the same name.
    tests: np.ndarray
    parts: np.ndarray
    by_name: np.ndarray
    by_value: np.ndarray
    others: np.ndarray


class Witnesses(NamedTuple):
    """R_doc (node, value, first row of R_bin) and R_bin (edge, place of its nodes in `chain`).

    `counts`: rows of R_doc, of R_bin, and nodes in `chain`.
    """

    start: np.ndarray
    node: np.ndarray
    value: np.ndarray
    first: np.ndarray
    edge: np.ndarray
    place: np.ndarray
    chain: np.ndarray
    counts: np.ndarray


class Scratch(NamedTuple):
    """Room for one document: which predicates hold where, and which states are reached where."""

    holds: np.ndarray
    held: np.ndarray
    held_next: np.ndarray
    held_first: np.ndarray
    state: np.ndarray
    state_start: np.ndarray
    #: Of each state, the last node of the batch where it was reached, and one table of all of a document.
    last: np.ndarray
    reached: np.ndarray
    way: np.ndarray


@kernel()
def mixed(a: int, b: int, c: int, d: int) -> int:
    z = np.uint64(np.int64(a)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(np.int64(b))
    z = (z ^ (z >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(np.int64(c))
    z = (z ^ (z >> np.uint64(32))) * np.uint64(0x94D049BB133111EB) + np.uint64(np.int64(d))
    z = (z ^ (z >> np.uint64(29))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64(z ^ (z >> np.uint64(32)))


@kernel()
def look(table: np.ndarray, a: int, b: int, c: int, d: int) -> int:
    """What a table of (a, b, c, d, number) has for these; -1 if nothing."""
    mask = table.shape[0] - 1
    at = mixed(a, b, c, d) & mask
    while table[at, 4] >= 0:
        if table[at, 0] == a and table[at, 1] == b and table[at, 2] == c and table[at, 3] == d:
            return table[at, 4]
        at = (at + 1) & mask
    return -1


@kernel()
def note(table: np.ndarray, a: int, b: int, c: int, d: int, number: int) -> None:
    """Set what a table has for these."""
    mask = table.shape[0] - 1
    at = mixed(a, b, c, d) & mask
    while table[at, 4] >= 0:
        if table[at, 0] == a and table[at, 1] == b and table[at, 2] == c and table[at, 3] == d:
            break
        at = (at + 1) & mask
    table[at, 0], table[at, 1], table[at, 2], table[at, 3] = a, b, c, d
    table[at, 4] = number


@kernel()
def fill(table: np.ndarray, keys: np.ndarray, numbers: np.ndarray) -> None:
    for k in range(keys.shape[0]):
        note(table, keys[k, 0], keys[k, 1], keys[k, 2], keys[k, 3], numbers[k])


# ---- predicates, from the last node to the first ----


@kernel()
def _holds(scratch: Scratch, node: int, predicate: int) -> bool:
    return look(scratch.holds, node, predicate, 0, 0) >= 0


@kernel()
def _hold(scratch: Scratch, counts: np.ndarray, node: int, predicate: int) -> bool:
    """Note that a predicate holds at a node; whether there was room."""
    if _holds(scratch, node, predicate):
        return True
    number = counts[0]
    if number >= scratch.held.shape[0] or 2 * number >= scratch.holds.shape[0]:
        return False
    note(scratch.holds, node, predicate, 0, 0, number)
    scratch.held[number] = predicate
    scratch.held_next[number] = scratch.held_first[node]
    scratch.held_first[node] = number
    counts[0] = number + 1
    return True


@kernel()
def compared(operator: int, order: int) -> bool:
    """`order`: below, at or above 0 as the left is less than, equal to or more than the right."""
    if operator == EQUAL:
        return order == 0
    if operator == DIFFERENT:
        return order != 0
    if operator == LESS:
        return order < 0
    if operator == AT_MOST:
        return order <= 0
    if operator == MORE:
        return order > 0
    return order >= 0


@kernel()
def _passes(paths: Paths, predicate: int, value: int, number: float) -> bool:
    """Whether a value passes a test that is no equality of texts."""
    operator, kind = paths.tests[predicate, 2], paths.tests[predicate, 3]
    if kind == TEXT:
        return (value == paths.tests[predicate, 4]) == (operator == EQUAL)
    if np.isnan(number):
        return operator == DIFFERENT
    wanted = paths.tests[predicate : predicate + 1, 4].view(np.float64)[0]
    order = 0 if number == wanted else (-1 if number < wanted else 1)
    return compared(operator, order)


@kernel()
def _test_self(
    nodes: Nodes, paths: Paths, scratch: Scratch, counts: np.ndarray, at: int, node: int
) -> bool:
    if nodes.value[at] < 0:
        return True
    found = look(paths.by_value, nodes.value[at], 0, 0, 0)
    while found >= 0:
        if not _hold(scratch, counts, node, found):
            return False
        found = paths.tests[found, 7]
    for k in range(paths.others.shape[0]):
        predicate = paths.others[k]
        if _passes(paths, predicate, nodes.value[at], nodes.number[at]):
            if not _hold(scratch, counts, node, predicate):
                return False
    return True


@kernel()
def _test_above(
    nodes: Nodes, paths: Paths, scratch: Scratch, counts: np.ndarray, first: int, at: int, name: int
) -> bool:
    """Predicates of the nodes above that ask for a node of this name."""
    is_attribute = nodes.attribute[at]
    found = look(paths.by_name, name, 0, 0, 0)
    while found >= 0:
        axis = paths.tests[found, 0]
        if (axis >= ATTRIBUTE) == is_attribute:
            complete = True
            for k in range(paths.tests[found, 5], paths.tests[found, 6]):
                complete &= _holds(scratch, at - first, paths.parts[k])
            above = nodes.parent[at]
            while complete and above >= 0:
                if not _hold(scratch, counts, above, found):
                    return False
                if axis & 1 == 0:
                    break
                above = nodes.parent[first + above]
        found = paths.tests[found, 7]
    return True


@kernel()
def _predicates(
    nodes: Nodes, paths: Paths, scratch: Scratch, counts: np.ndarray, first: int, end: int
) -> bool:
    for node in range(end - first):
        scratch.held_first[node] = -1
    if paths.tests.shape[0] == 0:
        return True
    for at in range(end - 1, first - 1, -1):
        if not _test_self(nodes, paths, scratch, counts, at, at - first):
            return False
        if not _test_above(nodes, paths, scratch, counts, first, at, nodes.name[at]):
            return False
        if not _test_above(nodes, paths, scratch, counts, first, at, ANY):
            return False
    return True


# ---- states, from the first node to the last ----


@kernel()
def _reach(
    paths: Paths, scratch: Scratch, counts: np.ndarray, at: int, node: int, state: int, axis: int,
    name: int,
) -> bool:  # fmt: skip
    """The states after one for a node of this name; whether there was room."""
    held = -2
    while held != -1:
        asked = -1 if held == -2 else scratch.held[held]
        found = look(paths.moves, state, axis, name, asked)
        while found >= 0:
            complete = True
            for k in range(paths.asks_start[found], paths.asks_start[found + 1]):
                complete &= _holds(scratch, node, paths.asks[k])
            if complete and scratch.last[found] != at + 1:
                if counts[1] >= scratch.state.shape[0]:
                    return False
                scratch.last[found] = at + 1
                note(scratch.reached, node, found, 0, 0, 1)
                scratch.state[counts[1]] = found
                counts[1] += 1
            found = paths.alike[found]
        held = scratch.held_first[node] if held == -2 else scratch.held_next[held]
    return True


@kernel()
def _reach_both(
    nodes: Nodes, paths: Paths, scratch: Scratch, counts: np.ndarray, at: int, node: int,
    state: int, axis: int,
) -> bool:  # fmt: skip
    if nodes.name[at] >= 0 and not _reach(
        paths, scratch, counts, at, node, state, axis, nodes.name[at]
    ):
        return False
    return _reach(paths, scratch, counts, at, node, state, axis, ANY)


@kernel()
def _states(
    nodes: Nodes,
    paths: Paths,
    scratch: Scratch,
    counts: np.ndarray,
    first: int,
    end: int,
    root: int,
) -> bool:
    for at in range(first, end):
        node = at - first
        scratch.state_start[node] = counts[1]
        scratch.state_start[node + 1] = counts[1]
        attribute = 2 if nodes.attribute[at] else 0
        above = nodes.parent[at]
        if above < 0:
            if not _reach_both(nodes, paths, scratch, counts, at, node, root, CHILD + attribute):
                return False
        else:
            for k in range(scratch.state_start[above], scratch.state_start[above + 1]):
                state = scratch.state[k]
                if (paths.goes[state] >> (CHILD + attribute)) & 1 and not _reach_both(
                    nodes, paths, scratch, counts, at, node, state, CHILD + attribute
                ):
                    return False
        while above >= 0:
            for k in range(scratch.state_start[above], scratch.state_start[above + 1]):
                state = scratch.state[k]
                if (paths.goes[state] >> (DESCENDANT + attribute)) & 1 and not _reach_both(
                    nodes, paths, scratch, counts, at, node, state, DESCENDANT + attribute
                ):
                    return False
            above = nodes.parent[first + above]
        if (paths.goes[root] >> (DESCENDANT + attribute)) & 1 and not _reach_both(
            nodes, paths, scratch, counts, at, node, root, DESCENDANT + attribute
        ):
            return False
        scratch.state_start[node + 1] = counts[1]
    return True


# ---- witnesses ----


@kernel()
def _is_reached(scratch: Scratch, node: int, state: int) -> bool:
    return look(scratch.reached, node, state, 0, 0) >= 0


@kernel()
def _above(
    nodes: Nodes, paths: Paths, scratch: Scratch, first: int, state: int, node: int, after: int
) -> int:
    """The next node above `after` where the state before this one is reached; -1 if there is none.

    `after` is the node itself at the start. A child has one parent only.
    """
    axis = paths.axis[state]
    wanted = paths.parent[state]
    if axis & 1 == 0 and after != node:
        return -1
    above = nodes.parent[first + after]
    while above >= 0:
        if _is_reached(scratch, above, wanted):
            return above
        if axis & 1 == 0:
            return -1
        above = nodes.parent[first + above]
    return -1


@kernel()
def _same_chain(chain: np.ndarray, a: int, b: int, length: int) -> bool:
    for k in range(length):
        if chain[a + k] != chain[b + k]:
            return False
    return True


@kernel()
def _write_chain(
    scratch: Scratch, found: Witnesses, edge: int, mask: int, depth: int, begin: int
) -> bool:
    """One row of R_bin: the nodes of a way that the edge asks for; the same one is written once."""
    rows, place = found.counts[1], found.counts[2]
    if rows + 1 >= found.edge.shape[0] or place + depth >= found.chain.shape[0]:
        return False
    length = 0
    for level in range(depth):  # the way goes up: from the leaf to the top
        if (mask >> (depth - 1 - level)) & 1:
            found.chain[place + length] = scratch.way[level, 0]
            length += 1
    for row in range(begin, rows):
        if found.edge[row] == edge and _same_chain(found.chain, found.place[row], place, length):
            return True
    found.edge[rows] = edge
    found.place[rows] = place
    found.counts[1] = rows + 1
    found.counts[2] = place + length
    return True


@kernel()
def _write_edge(
    nodes: Nodes, paths: Paths, scratch: Scratch, found: Witnesses, first: int, node: int,
    state: int, edge: int, begin: int,
) -> bool:  # fmt: skip
    """All ways from a node up to the document, one row of R_bin for each that differs."""
    depth = 0
    above = state
    while paths.parent[above] >= 0:
        depth += 1
        above = paths.parent[above]
    mask = paths.edge_mask[edge]
    level = 0
    scratch.way[0, 0], scratch.way[0, 1], scratch.way[0, 2] = node, state, node
    while level >= 0:
        if level == depth - 1:
            if not _write_chain(scratch, found, edge, mask, depth, begin):
                return False
            level -= 1
            continue
        here, known, after = scratch.way[level, 0], scratch.way[level, 1], scratch.way[level, 2]
        found_above = _above(nodes, paths, scratch, first, known, here, after)
        if found_above < 0:
            level -= 1
            continue
        scratch.way[level, 2] = found_above
        level += 1
        scratch.way[level, 0], scratch.way[level, 1] = found_above, paths.parent[known]
        scratch.way[level, 2] = found_above
    return True


@kernel()
def _write(
    nodes: Nodes, paths: Paths, scratch: Scratch, found: Witnesses, first: int, end: int
) -> bool:
    for node in range(end - first):
        begin = found.counts[1]
        for k in range(scratch.state_start[node], scratch.state_start[node + 1]):
            state = scratch.state[k]
            edge = paths.edges[state]
            is_top = edge >= 0 and paths.parent[paths.parent[state]] < 0
            while edge >= 0:
                here, place = found.counts[1], found.counts[2]
                if is_top and here + 1 < found.edge.shape[0] and place < found.chain.shape[0]:
                    # Nothing is above it but the document: its own node is the whole way.
                    found.edge[here], found.place[here] = edge, place
                    found.chain[place] = node
                    found.counts[1], found.counts[2] = here + 1, place + 1
                elif not _write_edge(nodes, paths, scratch, found, first, node, state, edge, here):
                    return False
                edge = paths.edge_next[edge]
        if found.counts[1] > begin:
            row = found.counts[0]
            if row + 1 >= found.node.shape[0]:
                return False
            found.node[row] = node
            found.value[row] = nodes.value[first + node]
            found.first[row] = begin
            found.first[row + 1] = found.counts[1]
            found.counts[0] = row + 1
    return True


@kernel()
def match(nodes: Nodes, paths: Paths, scratch: Scratch, found: Witnesses) -> int:
    """The witnesses of all documents of a batch; else what there is not enough room for."""
    counts = np.zeros(2, np.int64)
    found.counts[:] = 0
    for document in range(nodes.source.shape[0]):
        first, end = nodes.start[document], nodes.start[document + 1]
        found.start[document] = found.counts[0]
        for k in range(counts[0]):
            scratch.held_next[k] = -1
        if counts[0]:
            scratch.holds[:, 4] = -1
        if counts[1]:
            scratch.reached[:, 4] = -1
        counts[:] = 0
        if not _predicates(nodes, paths, scratch, counts, first, end):
            return PREDICATES
        if not _states(nodes, paths, scratch, counts, first, end, nodes.source[document]):
            return STATES
        if not _write(nodes, paths, scratch, found, first, end):
            return WITNESSES
    found.start[nodes.source.shape[0]] = found.counts[0]
    return DONE
