"""All blocks of all queries against documents: one automaton over the nodes of each.

Paths of patterns are a trie: steps that begin alike are one state, however many queries have them.
A document is a table of nodes, parents first (attributes after all elements). Predicates are found
from the last node to the first, so that what lies below a node is known when it is asked; then
states are found from the first node to the last. For each state that is the end of an *edge* (a leaf
of a pattern together with the nodes above it that a query needs), the nodes on the way are written
out: these are the witnesses, R_bin, with the string values of the leaves, R_doc.

Kernels have the addresses of all arrays in a frame (`frame.py`).
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from braid.jit.runtime import kernel, load_byte, load_float, load_int, store_int
from braid.operators.documents.kernels.frame import (
    ALIKE,
    ASKS,
    ASKS_START,
    AXIS,
    BY_NAME,
    BY_TEXT,
    EDGE_MASK,
    EDGE_NEXT,
    EDGES,
    ENTRY_BYTES,
    FOUND_CHAIN,
    FOUND_COUNTS,
    FOUND_EDGE,
    FOUND_FIRST,
    FOUND_NODE,
    FOUND_PLACE,
    FOUND_START,
    FOUND_VALUE,
    GOES,
    HELD,
    HELD_FIRST,
    HELD_NEXT,
    HOLDS,
    IS_ATTRIBUTE,
    LAST,
    MOVES,
    NAME,
    NUMBERS,
    OTHERS,
    PARENT,
    PARTS,
    REACHED,
    REACHED_STATES,
    ROOM_COUNTS,
    SOURCE,
    START,
    STATE_PARENT,
    STATE_START,
    TESTS,
    VALUE,
    WAY,
)

ANY = -2
#: Axes as in `algebra.documents.Axis`, those that go one level down are even; SELF is a test of the
#: node itself.
CHILD, DESCENDANT, ATTRIBUTE, DESCENDANT_ATTRIBUTE, SELF = 0, 1, 2, 3, 4
EQUAL, DIFFERENT, LESS, AT_MOST, MORE, AT_LEAST = 0, 1, 2, 3, 4, 5
NOTHING, TEXT, NUMBER = 0, 1, 2
#: What there may be no room for.
DONE, PREDICATES, STATES, WITNESSES = 0, 1, 2, 3


@kernel()
def mixed(a: int, b: int, c: int, d: int) -> int:
    z = np.uint64(np.int64(a)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(np.int64(b))
    z = (z ^ (z >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(np.int64(c))
    z = (z ^ (z >> np.uint64(32))) * np.uint64(0x94D049BB133111EB) + np.uint64(np.int64(d))
    z = (z ^ (z >> np.uint64(29))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64(z ^ (z >> np.uint64(32)))


@kernel()
def _entry(table: int, a: int, b: int, c: int, d: int) -> int:
    """Where a table of (a, b, c, d, number) has these, or would have them. `table`: where its address
    and the number of its rows are."""
    entries, mask = load_int(table, 0), load_int(table, 1) - 1
    at = mixed(a, b, c, d) & mask
    entry = entries + ENTRY_BYTES * at
    while load_int(entry, 4) >= 0:
        if (
            load_int(entry, 0) == a
            and load_int(entry, 1) == b
            and load_int(entry, 2) == c
            and load_int(entry, 3) == d
        ):
            break
        at = (at + 1) & mask
        entry = entries + ENTRY_BYTES * at
    return entry


@kernel()
def look(table: int, a: int, b: int, c: int, d: int) -> int:
    """What a table has for these; negative if nothing."""
    return load_int(_entry(table, a, b, c, d), 4)


@kernel()
def note(table: int, a: int, b: int, c: int, d: int, number: int) -> None:
    """Set what a table has for these."""
    entry = _entry(table, a, b, c, d)
    store_int(entry, 0, a)
    store_int(entry, 1, b)
    store_int(entry, 2, c)
    store_int(entry, 3, d)
    store_int(entry, 4, number)


@kernel((types.int64, types.int64, types.int64))
def fill(table: int, entries: int, count: int) -> None:
    """Take entries of another table, or new ones, into a table."""
    for k in range(count):
        entry = entries + ENTRY_BYTES * k
        note(
            table, load_int(entry, 0), load_int(entry, 1), load_int(entry, 2), load_int(entry, 3),
            load_int(entry, 4),
        )  # fmt: skip


@kernel()
def _empty(table: int) -> None:
    """Take all out of a table."""
    entries = load_int(table, 0)
    for k in range(load_int(table, 1)):
        store_int(entries, 5 * k + 4, -1)


# ---- predicates, from the last node to the first ----


@kernel()
def _holds(f: int, node: int, predicate: int) -> bool:
    return look(f + 8 * HOLDS, node, predicate, 0, 0) >= 0


@kernel()
def _hold(f: int, node: int, predicate: int) -> bool:
    """Note that a predicate holds at a node; whether there was room."""
    if _holds(f, node, predicate):
        return True
    counts = load_int(f, ROOM_COUNTS)
    number = load_int(counts, 0)
    if number >= load_int(f, HELD + 1) or 2 * number >= load_int(f, HOLDS + 1):
        return False
    note(f + 8 * HOLDS, node, predicate, 0, 0, number)
    first = load_int(f, HELD_FIRST)
    store_int(load_int(f, HELD), number, predicate)
    store_int(load_int(f, HELD_NEXT), number, load_int(first, node))
    store_int(first, node, number)
    store_int(counts, 0, number + 1)
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
def _passes(test: int, value: int, number: float) -> bool:
    """Whether a value passes a test that is no equality of texts."""
    operator = load_int(test, 2)
    if load_int(test, 3) == TEXT:
        return (value == load_int(test, 4)) == (operator == EQUAL)
    if math.isnan(number):
        return operator == DIFFERENT
    wanted = load_float(test, 4)
    order = 0 if number == wanted else (-1 if number < wanted else 1)
    return compared(operator, order)


@kernel()
def _test_self(f: int, at: int, node: int) -> bool:
    value = load_int(load_int(f, VALUE), at)
    if value < 0:
        return True
    tests = load_int(f, TESTS)
    found = look(f + 8 * BY_TEXT, value, 0, 0, 0)
    while found >= 0:
        if not _hold(f, node, found):
            return False
        found = load_int(tests, 8 * found + 7)
    others, number = load_int(f, OTHERS), load_float(load_int(f, NUMBERS), at)
    for k in range(load_int(f, OTHERS + 1)):
        predicate = load_int(others, k)
        if _passes(tests + 64 * predicate, value, number) and not _hold(f, node, predicate):
            return False
    return True


@kernel()
def _test_above(f: int, first: int, at: int, name: int) -> bool:
    """Predicates of the nodes above that ask for a node of this name."""
    is_attribute = load_byte(load_int(f, IS_ATTRIBUTE), at) != 0
    parents, parts = load_int(f, PARENT), load_int(f, PARTS)
    found = look(f + 8 * BY_NAME, name, 0, 0, 0)
    while found >= 0:
        test = load_int(f, TESTS) + 64 * found
        axis = load_int(test, 0)
        if (axis >= ATTRIBUTE) == is_attribute:
            complete = True
            for k in range(load_int(test, 5), load_int(test, 6)):
                complete &= _holds(f, at - first, load_int(parts, k))
            above = load_int(parents, at)
            while complete and above >= 0:
                if not _hold(f, above, found):
                    return False
                if axis & 1 == 0:
                    break
                above = load_int(parents, first + above)
        found = load_int(test, 7)
    return True


@kernel()
def _predicates(f: int, first: int, end: int) -> bool:
    held_first = load_int(f, HELD_FIRST)
    for node in range(end - first):
        store_int(held_first, node, -1)
    if load_int(f, TESTS + 1) == 0:
        return True
    names = load_int(f, NAME)
    for at in range(end - 1, first - 1, -1):
        if not _test_self(f, at, at - first):
            return False
        # Its own name, then any.
        for turn in range(2):
            if not _test_above(f, first, at, load_int(names, at) if turn == 0 else ANY):
                return False
    return True


# ---- states, from the first node to the last ----


@kernel()
def _reach(f: int, at: int, node: int, state: int, axis: int, name: int) -> bool:
    """The states after one for a node of this name; whether there was room."""
    counts, last, asks = load_int(f, ROOM_COUNTS), load_int(f, LAST), load_int(f, ASKS)
    held = -2
    while held != -1:
        asked = -1 if held == -2 else load_int(load_int(f, HELD), held)
        found = look(f + 8 * MOVES, state, axis, name, asked)
        while found >= 0:
            complete, starts = True, load_int(f, ASKS_START)
            for k in range(load_int(starts, found), load_int(starts, found + 1)):
                complete &= _holds(f, node, load_int(asks, k))
            if complete and load_int(last, found) != at + 1:
                number = load_int(counts, 1)
                if number >= load_int(f, REACHED_STATES + 1):
                    return False
                store_int(last, found, at + 1)
                note(f + 8 * REACHED, node, found, 0, 0, 1)
                store_int(load_int(f, REACHED_STATES), number, found)
                store_int(counts, 1, number + 1)
            found = load_int(load_int(f, ALIKE), found)
        if held == -2:
            held = load_int(load_int(f, HELD_FIRST), node)
        else:
            held = load_int(load_int(f, HELD_NEXT), held)
    return True


@kernel()
def _reach_both(f: int, at: int, node: int, state: int, axis: int) -> bool:
    """By its own name, and by any, if such an axis leads on from the state at all."""
    if (load_int(load_int(f, GOES), state) >> axis) & 1 == 0:
        return True
    name = load_int(load_int(f, NAME), at)
    if name >= 0 and not _reach(f, at, node, state, axis, name):
        return False
    return _reach(f, at, node, state, axis, ANY)


@kernel()
def _reach_from(f: int, at: int, node: int, above: int, axis: int) -> bool:
    """From all states that are reached at a node above."""
    starts, states = load_int(f, STATE_START), load_int(f, REACHED_STATES)
    for k in range(load_int(starts, above), load_int(starts, above + 1)):
        if not _reach_both(f, at, node, load_int(states, k), axis):
            return False
    return True


@kernel()
def _states(f: int, first: int, end: int, root: int) -> bool:
    counts, starts = load_int(f, ROOM_COUNTS), load_int(f, STATE_START)
    parents = load_int(f, PARENT)
    for at in range(first, end):
        node = at - first
        store_int(starts, node, load_int(counts, 1))
        store_int(starts, node + 1, load_int(counts, 1))
        attribute = 2 if load_byte(load_int(f, IS_ATTRIBUTE), at) else 0
        above, axis = load_int(parents, at), CHILD + attribute
        if above < 0 and not _reach_both(f, at, node, root, axis):
            return False
        # Its parent by one axis, it and all above it by the other.
        while above >= 0:
            if not _reach_from(f, at, node, above, axis):
                return False
            if axis == CHILD + attribute:
                axis = DESCENDANT + attribute
            else:
                above = load_int(parents, first + above)
        if not _reach_both(f, at, node, root, DESCENDANT + attribute):
            return False
        store_int(starts, node + 1, load_int(counts, 1))
    return True


# ---- witnesses ----


@kernel()
def _above(f: int, first: int, state: int, node: int, after: int) -> int:
    """The next node above `after` where the state before this one is reached; -1 if there is none.

    `after` is the node itself at the start. A child has one parent only.
    """
    axis, wanted = load_int(load_int(f, AXIS), state), load_int(load_int(f, STATE_PARENT), state)
    if axis & 1 == 0 and after != node:
        return -1
    parents = load_int(f, PARENT)
    above = load_int(parents, first + after)
    while above >= 0:
        if look(f + 8 * REACHED, above, wanted, 0, 0) >= 0:
            return above
        if axis & 1 == 0:
            return -1
        above = load_int(parents, first + above)
    return -1


@kernel()
def _write_chain(f: int, edge: int, mask: int, depth: int, begin: int) -> bool:
    """One row of R_bin: the nodes of a way that the edge asks for; the same one is written once."""
    counts, chain, way = load_int(f, FOUND_COUNTS), load_int(f, FOUND_CHAIN), load_int(f, WAY)
    rows, place = load_int(counts, 1), load_int(counts, 2)
    if rows + 1 >= load_int(f, FOUND_EDGE + 1) or place + depth >= load_int(f, FOUND_CHAIN + 1):
        return False
    length = 0
    for level in range(depth):  # the way goes up: from the leaf to the top
        if (mask >> (depth - 1 - level)) & 1:
            store_int(chain, place + length, load_int(way, 3 * level))
            length += 1
    edges, places = load_int(f, FOUND_EDGE), load_int(f, FOUND_PLACE)
    for row in range(begin, rows):
        if load_int(edges, row) == edge:
            other, same = load_int(places, row), 0
            while same < length and load_int(chain, other + same) == load_int(chain, place + same):
                same += 1
            if same == length:
                return True
    store_int(edges, rows, edge)
    store_int(places, rows, place)
    store_int(counts, 1, rows + 1)
    store_int(counts, 2, place + length)
    return True


@kernel()
def _write_edge(f: int, first: int, node: int, state: int, edge: int, begin: int) -> bool:
    """All ways from a node up to the document, one row of R_bin for each that differs."""
    parents, way = load_int(f, STATE_PARENT), load_int(f, WAY)
    depth = 0
    above = load_int(parents, state)
    while above >= 0:
        depth += 1
        above = load_int(parents, above)
    mask = load_int(load_int(f, EDGE_MASK), edge)
    level = 0
    store_int(way, 0, node)
    store_int(way, 1, state)
    store_int(way, 2, node)
    while level >= 0:
        if level == depth - 1:
            if not _write_chain(f, edge, mask, depth, begin):
                return False
            level -= 1
            continue
        known = load_int(way, 3 * level + 1)
        here, after = load_int(way, 3 * level), load_int(way, 3 * level + 2)
        found = _above(f, first, known, here, after)
        if found < 0:
            level -= 1
            continue
        store_int(way, 3 * level + 2, found)
        level += 1
        store_int(way, 3 * level, found)
        store_int(way, 3 * level + 1, load_int(parents, known))
        store_int(way, 3 * level + 2, found)
    return True


@kernel()
def _write_edges(f: int, first: int, node: int, state: int) -> bool:
    """All edges that end in a state."""
    counts, parents = load_int(f, FOUND_COUNTS), load_int(f, STATE_PARENT)
    edge = load_int(load_int(f, EDGES), state)
    is_top = edge >= 0 and load_int(parents, load_int(parents, state)) < 0
    while edge >= 0:
        here, place = load_int(counts, 1), load_int(counts, 2)
        if (
            is_top
            and here + 1 < load_int(f, FOUND_EDGE + 1)
            and place < load_int(f, FOUND_CHAIN + 1)
        ):
            # Nothing is above it but the document: its own node is the whole way.
            store_int(load_int(f, FOUND_EDGE), here, edge)
            store_int(load_int(f, FOUND_PLACE), here, place)
            store_int(load_int(f, FOUND_CHAIN), place, node)
            store_int(counts, 1, here + 1)
            store_int(counts, 2, place + 1)
        elif not _write_edge(f, first, node, state, edge, here):
            return False
        edge = load_int(load_int(f, EDGE_NEXT), edge)
    return True


@kernel()
def _write(f: int, first: int, end: int) -> bool:
    counts, starts = load_int(f, FOUND_COUNTS), load_int(f, STATE_START)
    states = load_int(f, REACHED_STATES)
    for node in range(end - first):
        begin = load_int(counts, 1)
        for k in range(load_int(starts, node), load_int(starts, node + 1)):
            if not _write_edges(f, first, node, load_int(states, k)):
                return False
        if load_int(counts, 1) > begin:
            row = load_int(counts, 0)
            if row + 1 >= load_int(f, FOUND_NODE + 1):
                return False
            store_int(load_int(f, FOUND_NODE), row, node)
            value = load_int(load_int(f, VALUE), first + node)
            store_int(load_int(f, FOUND_VALUE), row, value)
            store_int(load_int(f, FOUND_FIRST), row, begin)
            store_int(load_int(f, FOUND_FIRST), row + 1, load_int(counts, 1))
            store_int(counts, 0, row + 1)
    return True


@kernel((types.int64,))
def match(f: int) -> int:
    """The witnesses of all documents of a batch; else what there is not enough room for."""
    counts, found = load_int(f, ROOM_COUNTS), load_int(f, FOUND_COUNTS)
    starts, found_start = load_int(f, START), load_int(f, FOUND_START)
    documents = load_int(f, SOURCE + 1)
    for k in range(3):
        store_int(found, k, 0)
    for document in range(documents):
        first, end = load_int(starts, document), load_int(starts, document + 1)
        store_int(found_start, document, load_int(found, 0))
        if load_int(counts, 0):
            _empty(f + 8 * HOLDS)
        if load_int(counts, 1):
            _empty(f + 8 * REACHED)
        store_int(counts, 0, 0)
        store_int(counts, 1, 0)
        if not _predicates(f, first, end):
            return PREDICATES
        if not _states(f, first, end, load_int(load_int(f, SOURCE), document)):
            return STATES
        if not _write(f, first, end):
            return WITNESSES
    store_int(found_start, documents, load_int(found, 0))
    return DONE
