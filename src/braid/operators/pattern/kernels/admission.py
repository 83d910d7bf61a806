"""Members of a step come and go: states and edges in linked lists that a running loop reads."""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel
from braid.operators.core.bounds import DEAD, UNBOUNDED
from braid.operators.core.kernels.clauses import INTERVAL
from braid.operators.pattern.kernels.members import (
    CODE_BITS,
    MOST_TESTS,
    NO_DIGEST,
    SEVERAL_TESTS,
    WIDEST_COLUMN,
    digest_of,
    test_of,
    with_test,
)
from braid.operators.pattern.kernels.records import (
    INDEXED,
    NO_TEST,
    SEVERAL,
    TWO,
    TWO_BITS,
    UNSET,
    Edge,
    Group,
    Head,
    State,
)


@kernel()
def _groups_of(first: int, states: State) -> int:
    """The group of a head whose states begin with this one."""
    if first < 0:
        return np.int64(-1)
    one, other, number = states[first].group, np.int64(-1), first
    while number >= 0:
        state = states[number]
        if state.bound == DEAD:
            return SEVERAL
        if state.group != one and state.group != other:
            if other >= 0:
                return SEVERAL
            other = state.group
        number = state.next
    if other < 0:
        return one
    if (one | other) >> TWO_BITS != 0:
        return SEVERAL
    return TWO | (one << TWO_BITS) | other


@kernel()
def link_states(
    heads: Head, states: State, groups: Group, firsts: np.ndarray, new: np.ndarray
) -> None:
    """Hang new states under their first nodes, and let groups live as long as they need."""
    for k in range(new.shape[0]):
        state, head = states[new[k]], heads[firsts[k]]
        group = groups[state.group]
        state.next = head.state
        head.state = new[k]
        head.group = _groups_of(new[k], states)
        if state.bound == DEAD:
            if group.bound == UNSET:
                group.bound = 0
        elif state.bound == UNBOUNDED or group.bound == UNBOUNDED:
            group.bound = UNBOUNDED
        else:
            group.bound = max(group.bound, state.bound)


@kernel()
def lengthen(states: State, groups: Group, which: np.ndarray, bounds: np.ndarray) -> None:
    """Let states, and their groups, wait as long as the longest of their members wants."""
    for k in range(which.shape[0]):
        state, bound = states[which[k]], bounds[k]
        group = groups[state.group]
        if state.bound == DEAD:
            continue
        if bound == UNBOUNDED or state.bound == UNBOUNDED:
            state.bound = group.bound = UNBOUNDED
        else:
            state.bound = max(state.bound, bound)
            if group.bound != UNBOUNDED:
                group.bound = max(group.bound, bound)


@kernel()
def unlink_states(heads: Head, states: State, firsts: np.ndarray, gone: np.ndarray) -> None:
    for k in range(gone.shape[0]):
        state, head = states[gone[k]], heads[firsts[k]]
        state.bound = DEAD
        if head.state == gone[k]:
            head.state = state.next
        else:
            before = states[head.state]
            while before.next != gone[k]:
                before = states[before.next]
            before.next = state.next
        head.group = _groups_of(head.state, states)


@kernel()
def mark_stopped(heads: Head, firsts: np.ndarray) -> None:
    """States of these nodes have stopped: whoever starts with a node looks at its states."""
    for k in range(firsts.shape[0]):
        if heads[firsts[k]].state >= 0:
            heads[firsts[k]].group = SEVERAL


@kernel()
def link_edges(states: State, edges: Edge, owners: np.ndarray, new: np.ndarray) -> None:
    """Hang new edges under their states."""
    for k in range(new.shape[0]):
        edges[new[k]].next = states[owners[k]].edge
        states[owners[k]].edge = new[k]


@kernel()
def unlink_edges(states: State, edges: Edge, owners: np.ndarray, gone: np.ndarray) -> None:
    for k in range(gone.shape[0]):
        edge, state = edges[gone[k]], states[owners[k]]
        if state.edge == gone[k]:
            state.edge = edge.next
            continue
        before = edges[state.edge]
        while before.next != gone[k]:
            before = edges[before.next]
        before.next = edge.next


@kernel()
def write_tests(states: State, edges: Edge, owners: np.ndarray) -> None:
    """Copy the tests of single edges to their states."""
    for k in range(owners.shape[0]):
        state = states[owners[k]]
        if state.test == INDEXED:
            continue
        state.test = NO_TEST
        if state.edge < 0 or state.out >= 0:
            continue
        edge = edges[state.edge]
        if edge.next >= 0 or edge.atoms == 0:
            continue
        test = edge.test
        if (test & 255) == INTERVAL:
            if edge.atoms == 1 and edge.parameters < 0:
                test |= (edge.out + 1) << 32
            state.test, state.low, state.high = test, edge.low, edge.high


@kernel()
def write_digests(heads: Head, states: State, edges: Edge, nodes: np.ndarray) -> None:
    """Write the digests of first nodes, of those that ask for few values."""
    for k in range(nodes.shape[0]):
        if nodes[k] < 0:
            continue
        head = heads[nodes[k]]
        head.digest = NO_DIGEST
        if head.state < 0:
            continue
        state = states[head.state]
        if state.next >= 0 or state.test == NO_TEST:
            head.digest = _digest_of_several(head.state, states, edges)
            continue
        code = _code(state.test)
        if state.test < 0 or state.low != state.high or code >> CODE_BITS != 0:
            continue
        head.digest = digest_of(code, state.low)


@kernel()
def _code(test: int) -> int:
    """Column << 8 | mode of a test."""
    return (test >> 8) & np.int64(0xFFFFFF)


@kernel()
def _digest_of_several(first: int, states: State, edges: Edge) -> int:
    """The digest of all edges of all states from one on, if each begins with an equality."""
    digest, count, number = SEVERAL_TESTS, 0, first
    while number >= 0:
        state = states[number]
        if state.out >= 0 or state.test == INDEXED:
            return NO_DIGEST
        edge_number = state.edge
        while edge_number >= 0:
            edge = edges[edge_number]
            equal = edge.atoms > 0 and edge.test & 255 == INTERVAL
            if not equal or edge.low != edge.high:
                return NO_DIGEST
            if count == MOST_TESTS or _code(edge.test) >> 8 > WIDEST_COLUMN:
                return NO_DIGEST
            digest = with_test(digest, count, test_of(_code(edge.test), edge.low))
            count += 1
            edge_number = edge.next
        number = state.next
    return digest if count > 0 else NO_DIGEST
