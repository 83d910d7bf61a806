"""All blocks of all queries against documents: one automaton over the nodes of each.

Paths of patterns are a trie: steps that begin alike are one state, however many queries have them.
A document is a table of nodes, parents first (attributes after all elements). Predicates are found
from the last node to the first, so that what lies below a node is known when it is asked; then
states are found from the first node to the last. For each state that is the end of an *edge* (a leaf
of a pattern together with the nodes above it that a query needs), the nodes on the way are written
out: these are the witnesses, R_bin, with the string values of the leaves, R_doc.
"""

from __future__ import annotations

import math

from braid.jit.records import Floats
from braid.jit.runtime import kernel
from braid.operators.documents.kernels.key_table import clear, look, note
from braid.operators.documents.kernels.records import MatchFrame, Predicate

ANY = -2
#: Axes as in `algebra.documents.Axis`, those that go one level down are even; SELF is a test of the
#: node itself.
CHILD, DESCENDANT, ATTRIBUTE, DESCENDANT_ATTRIBUTE, SELF = 0, 1, 2, 3, 4
EQUAL, DIFFERENT, LESS, AT_MOST, MORE, AT_LEAST = 0, 1, 2, 3, 4, 5
NOTHING, TEXT, NUMBER = 0, 1, 2
#: What there may be no room for.
DONE, PREDICATES, STATES, WITNESSES = 0, 1, 2, 3


# ---- predicates, from the last node to the first ----


@kernel()
def _holds(frame: MatchFrame, node: int, predicate: int) -> bool:
    return look(frame.holds, node, predicate, 0, 0) >= 0


@kernel()
def _hold(frame: MatchFrame, node: int, predicate: int) -> bool:
    """Note that a predicate holds at a node; whether there was room."""
    if _holds(frame, node, predicate):
        return True
    number = frame.held_count
    if number >= frame.held_length or 2 * number >= frame.holds.entries_length:
        return False
    note(frame.holds, node, predicate, 0, 0, number)
    held = frame.held[number]
    held.predicate, held.next = predicate, frame.held_first[node]
    frame.held_first[node] = number
    frame.held_count = number + 1
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
def _passes(predicate: Predicate, value: int, number: float) -> bool:
    """Whether a value passes a test that is no equality of texts."""
    operator = predicate.operator
    if predicate.kind == TEXT:
        return (value == predicate.constant[0]) == (operator == EQUAL)
    if math.isnan(number):
        return operator == DIFFERENT
    wanted = Floats(predicate.constant)[0]
    order = 0 if number == wanted else (-1 if number < wanted else 1)
    return compared(operator, order)


@kernel()
def _test_self(frame: MatchFrame, at: int, node: int) -> bool:
    value = frame.value[at]
    if value < 0:
        return True
    found = look(frame.by_text, value, 0, 0, 0)
    while found >= 0:
        if not _hold(frame, node, found):
            return False
        found = frame.predicates[found].next
    for k in range(frame.others_length):
        predicate = frame.others[k]
        if _passes(frame.predicates[predicate], value, frame.number[at]):
            if not _hold(frame, node, predicate):
                return False
    return True


@kernel()
def _test_above(frame: MatchFrame, first: int, at: int, name: int) -> bool:
    """Predicates of the nodes above that ask for a node of this name."""
    is_attribute = frame.is_attribute[at] != 0
    found = look(frame.by_name, name, 0, 0, 0)
    while found >= 0:
        predicate = frame.predicates[found]
        axis = predicate.axis
        if (axis >= ATTRIBUTE) == is_attribute:
            complete = True
            for k in range(predicate.parts_from, predicate.parts_to):
                complete &= _holds(frame, at - first, frame.parts[k])
            above = frame.parent[at]
            while complete and above >= 0:
                if not _hold(frame, above, found):
                    return False
                if axis & 1 == 0:
                    break
                above = frame.parent[first + above]
        found = predicate.next
    return True


@kernel()
def _predicates(frame: MatchFrame, first: int, end: int) -> bool:
    for node in range(end - first):
        frame.held_first[node] = -1
    if frame.predicates_length == 0:
        return True
    for at in range(end - 1, first - 1, -1):
        if not _test_self(frame, at, at - first):
            return False
        # Its own name, then any.
        for turn in range(2):
            if not _test_above(frame, first, at, frame.name[at] if turn == 0 else ANY):
                return False
    return True


# ---- states, from the first node to the last ----


@kernel()
def _reach(frame: MatchFrame, at: int, node: int, state: int, axis: int, name: int) -> bool:
    """The states after one for a node of this name; whether there was room."""
    held = -2
    while held != -1:
        asked = -1 if held == -2 else frame.held[held].predicate
        found = look(frame.moves, state, axis, name, asked)
        while found >= 0:
            complete, own = True, frame.states[found]
            for k in range(own.asks_from, own.asks_to):
                complete &= _holds(frame, node, frame.asks[k])
            if complete and frame.last_reached[found] != at + 1:
                number = frame.reached_count
                if number >= frame.reached_states_length:
                    return False
                frame.last_reached[found] = at + 1
                note(frame.reached, node, found, 0, 0, 1)
                frame.reached_states[number] = found
                frame.reached_count = number + 1
            found = own.alike
        held = frame.held_first[node] if held == -2 else frame.held[held].next
    return True


@kernel()
def _reach_both(frame: MatchFrame, at: int, node: int, state: int, axis: int) -> bool:
    """By its own name, and by any, if such an axis leads on from the state at all."""
    if (frame.states[state].axes >> axis) & 1 == 0:
        return True
    name = frame.name[at]
    if name >= 0 and not _reach(frame, at, node, state, axis, name):
        return False
    return _reach(frame, at, node, state, axis, ANY)


@kernel()
def _reach_from(frame: MatchFrame, at: int, node: int, above: int, axis: int) -> bool:
    """From all states that are reached at a node above."""
    for k in range(frame.reached_start[above], frame.reached_start[above + 1]):
        if not _reach_both(frame, at, node, frame.reached_states[k], axis):
            return False
    return True


@kernel()
def _states(frame: MatchFrame, first: int, end: int, root: int) -> bool:
    starts = frame.reached_start
    for at in range(first, end):
        node = at - first
        starts[node] = frame.reached_count
        starts[node + 1] = frame.reached_count
        attribute = 2 if frame.is_attribute[at] else 0
        above, axis = frame.parent[at], CHILD + attribute
        if above < 0 and not _reach_both(frame, at, node, root, axis):
            return False
        # Its parent by one axis, it and all above it by the other.
        while above >= 0:
            if not _reach_from(frame, at, node, above, axis):
                return False
            if axis == CHILD + attribute:
                axis = DESCENDANT + attribute
            else:
                above = frame.parent[first + above]
        if not _reach_both(frame, at, node, root, DESCENDANT + attribute):
            return False
        starts[node + 1] = frame.reached_count
    return True


# ---- witnesses ----


@kernel()
def _above(frame: MatchFrame, first: int, state: int, node: int, after: int) -> int:
    """The next node above `after` where the state before this one is reached; -1 if there is none.

    `after` is the node itself at the start. A child has one parent only.
    """
    axis, wanted = frame.states[state].axis, frame.states[state].parent
    if axis & 1 == 0 and after != node:
        return -1
    above = frame.parent[first + after]
    while above >= 0:
        if look(frame.reached, above, wanted, 0, 0) >= 0:
            return above
        if axis & 1 == 0:
            return -1
        above = frame.parent[first + above]
    return -1


@kernel()
def _write_bin(frame: MatchFrame, edge: int, length: int) -> None:
    """A row of R_bin for the last `length` nodes that were written behind the chain."""
    row = frame.bin_count
    frame.found_edge[row] = edge
    frame.found_place[row] = frame.chain_count
    frame.bin_count = row + 1
    frame.chain_count += length


@kernel()
def _write_chain(frame: MatchFrame, edge: int, mask: int, depth: int, begin: int) -> bool:
    """One row of R_bin: the nodes of a way that the edge asks for; the same one is written once."""
    rows, place, chain = frame.bin_count, frame.chain_count, frame.found_chain
    if rows + 1 >= frame.found_edge_length or place + depth >= frame.found_chain_length:
        return False
    length = 0
    for level in range(depth):  # the way goes up: from the leaf to the top
        if (mask >> (depth - 1 - level)) & 1:
            chain[place + length] = frame.climb[level].node
            length += 1
    for row in range(begin, rows):
        if frame.found_edge[row] == edge:
            other, same = frame.found_place[row], 0
            while same < length and chain[other + same] == chain[place + same]:
                same += 1
            if same == length:
                return True
    _write_bin(frame, edge, length)
    return True


@kernel()
def _set_level(frame: MatchFrame, level: int, node: int, state: int) -> None:
    here = frame.climb[level]
    here.node, here.state, here.tried = node, state, node


@kernel()
def _write_edge(
    frame: MatchFrame, first: int, node: int, state: int, edge: int, begin: int
) -> bool:
    """All ways from a node up to the document, one row of R_bin for each that differs."""
    depth = 0
    above = frame.states[state].parent
    while above >= 0:
        depth += 1
        above = frame.states[above].parent
    mask = frame.edges[edge].mask
    level = 0
    _set_level(frame, 0, node, state)
    while level >= 0:
        if level == depth - 1:
            if not _write_chain(frame, edge, mask, depth, begin):
                return False
            level -= 1
            continue
        here = frame.climb[level]
        found = _above(frame, first, here.state, here.node, here.tried)
        if found < 0:
            level -= 1
            continue
        here.tried = found
        level += 1
        _set_level(frame, level, found, frame.states[here.state].parent)
    return True


@kernel()
def _write_edges(frame: MatchFrame, first: int, node: int, state: int) -> bool:
    """All edges that end in a state."""
    edge = frame.states[state].first_edge
    is_top = edge >= 0 and frame.states[frame.states[state].parent].parent < 0
    while edge >= 0:
        here, place = frame.bin_count, frame.chain_count
        if is_top and here + 1 < frame.found_edge_length and place < frame.found_chain_length:
            # Nothing is above it but the document: its own node is the whole way.
            frame.found_chain[place] = node
            _write_bin(frame, edge, 1)
        elif not _write_edge(frame, first, node, state, edge, here):
            return False
        edge = frame.edges[edge].next
    return True


@kernel()
def _write(frame: MatchFrame, first: int, end: int) -> bool:
    for node in range(end - first):
        begin = frame.bin_count
        for k in range(frame.reached_start[node], frame.reached_start[node + 1]):
            if not _write_edges(frame, first, node, frame.reached_states[k]):
                return False
        if frame.bin_count > begin:
            row = frame.row_count
            if row + 1 >= frame.found_node_length:
                return False
            frame.found_node[row] = node
            frame.found_value[row] = frame.value[first + node]
            frame.found_first[row] = begin
            frame.found_first[row + 1] = frame.bin_count
            frame.row_count = row + 1
    return True


@kernel((MatchFrame.type,))
def match(frame: MatchFrame) -> int:
    """The witnesses of all documents of a batch; else what there is not enough room for."""
    for document in range(frame.sources_length):
        first, end = frame.document_start[document], frame.document_start[document + 1]
        frame.found_start[document] = frame.row_count
        if frame.held_count:
            clear(frame.holds)
        if frame.reached_count:
            clear(frame.reached)
        frame.held_count = 0
        frame.reached_count = 0
        if not _predicates(frame, first, end):
            return PREDICATES
        if not _states(frame, first, end, frame.sources[document]):
            return STATES
        if not _write(frame, first, end):
            return WITNESSES
    frame.found_start[frame.sources_length] = frame.row_count
    return DONE
