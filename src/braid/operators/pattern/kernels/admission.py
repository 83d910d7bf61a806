"""Members of a step come and go: states and edges in linked lists that a running loop reads."""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel
from braid.operators.core.kernels.clauses import INTERVAL
from braid.operators.core.kernels.instances import (
    DEAD,
    E_ATOMS,
    E_HIGH,
    E_LOW,
    E_NEXT,
    E_OUT,
    E_PARAMETERS,
    E_TEST,
    G_BOUND,
    INDEXED,
    NO_STATE,
    NO_TEST,
    S_BOUND,
    S_EDGE,
    S_GROUP,
    S_HIGH,
    S_LOW,
    S_NEXT,
    S_OUT,
    S_TEST,
    SEVERAL,
    TWO,
    TWO_BITS,
)
from braid.operators.core.kernels.members import (
    CODE_BITS,
    MOST_TESTS,
    NO_DIGEST,
    SEVERAL_TESTS,
    WIDEST_COLUMN,
    digest_of,
    first_state,
    head_of,
    test_of,
    with_test,
)

#: The bound of a group that no state has given one yet.
UNSET = -9


@kernel()
def _head(first: int, states: np.ndarray) -> int:
    """What to write down for a node whose states begin with this one."""
    if first < 0:
        return NO_STATE
    one, other = states[first, S_GROUP], np.int64(-1)
    state = first
    while state >= 0:
        group = states[state, S_GROUP]
        if states[state, S_BOUND] == DEAD:
            return head_of(first, SEVERAL)
        if group != one and group != other:
            if other >= 0:
                return head_of(first, SEVERAL)
            other = group
        state = states[state, S_NEXT]
    if other < 0:
        return head_of(first, one)
    if max(one, other) >> TWO_BITS != 0:
        return head_of(first, SEVERAL)
    return head_of(first, TWO | (one << TWO_BITS) | other)


@kernel()
def link_states(
    heads: np.ndarray, states: np.ndarray, groups: np.ndarray, firsts: np.ndarray, new: np.ndarray
) -> None:
    """Hang new states under their first nodes, and let groups live as long as they need."""
    for k in range(new.shape[0]):
        state, first = new[k], firsts[k]
        bound, group = states[state, S_BOUND], states[state, S_GROUP]
        states[state, S_NEXT] = first_state(heads[first, 0])
        heads[first, 0] = _head(state, states)
        known = groups[group, G_BOUND]
        if bound == DEAD:
            if known == UNSET:
                groups[group, G_BOUND] = 0
        elif bound == -1 or known == -1:
            groups[group, G_BOUND] = -1
        else:
            groups[group, G_BOUND] = max(known, bound)


@kernel()
def lengthen(states: np.ndarray, groups: np.ndarray, which: np.ndarray, bounds: np.ndarray) -> None:
    """Let states, and their groups, wait as long as the longest of their members wants."""
    for k in range(which.shape[0]):
        state, bound = which[k], bounds[k]
        group = states[state, S_GROUP]
        if states[state, S_BOUND] == DEAD:
            continue
        if bound == -1 or states[state, S_BOUND] == -1:
            states[state, S_BOUND] = -1
            groups[group, G_BOUND] = -1
        else:
            states[state, S_BOUND] = max(states[state, S_BOUND], bound)
            if groups[group, G_BOUND] != -1:
                groups[group, G_BOUND] = max(groups[group, G_BOUND], bound)


@kernel()
def unlink_states(
    heads: np.ndarray, states: np.ndarray, firsts: np.ndarray, gone: np.ndarray
) -> None:
    for k in range(gone.shape[0]):
        state, first = gone[k], firsts[k]
        states[state, S_BOUND] = DEAD
        head = first_state(heads[first, 0])
        if head == state:
            head = states[state, S_NEXT]
        else:
            at = head
            while states[at, S_NEXT] != state:
                at = states[at, S_NEXT]
            states[at, S_NEXT] = states[state, S_NEXT]
        heads[first, 0] = _head(head, states)


@kernel()
def look_further(heads: np.ndarray, firsts: np.ndarray) -> None:
    """States of these nodes have stopped: whoever starts with them has to ask."""
    for k in range(firsts.shape[0]):
        if heads[firsts[k], 0] != NO_STATE:
            heads[firsts[k], 0] = head_of(first_state(heads[firsts[k], 0]), SEVERAL)


@kernel()
def move_words(
    source: np.ndarray, target: np.ndarray, used: int, places: np.ndarray, sizes: np.ndarray
) -> int:
    """Copy slices of a pool to the end of another; `places` says where each was, then is."""
    for k in range(places.shape[0]):
        at = places[k]
        places[k] = used
        for word in range(sizes[k]):
            target[used + word] = source[at + word]
        used += sizes[k]
    return used


@kernel()
def link_edges(states: np.ndarray, edges: np.ndarray, owners: np.ndarray, new: np.ndarray) -> None:
    """Hang new edges under their states."""
    for k in range(new.shape[0]):
        edge, state = new[k], owners[k]
        edges[edge, E_NEXT] = states[state, S_EDGE]
        states[state, S_EDGE] = edge


@kernel()
def unlink_edges(
    states: np.ndarray, edges: np.ndarray, owners: np.ndarray, gone: np.ndarray
) -> None:
    for k in range(gone.shape[0]):
        edge, state = gone[k], owners[k]
        if states[state, S_EDGE] == edge:
            states[state, S_EDGE] = edges[edge, E_NEXT]
            continue
        at = states[state, S_EDGE]
        while edges[at, E_NEXT] != edge:
            at = edges[at, E_NEXT]
        edges[at, E_NEXT] = edges[edge, E_NEXT]


@kernel()
def know_tests(states: np.ndarray, edges: np.ndarray, owners: np.ndarray) -> None:
    """Write down for states in which interval everything is that goes on from them."""
    for k in range(owners.shape[0]):
        state = owners[k]
        edge = states[state, S_EDGE]
        if states[state, S_TEST] == INDEXED:
            continue
        states[state, S_TEST] = NO_TEST
        if edge < 0 or states[state, S_OUT] >= 0:
            continue
        if edges[edge, E_NEXT] >= 0 or edges[edge, E_ATOMS] == 0:
            continue
        test = edges[edge, E_TEST]
        if (test & 255) == INTERVAL:
            if edges[edge, E_ATOMS] == 1 and edges[edge, E_PARAMETERS] < 0:
                test |= (edges[edge, E_OUT] + 1) << 32
            states[state, S_TEST] = test
            states[state, S_LOW] = edges[edge, E_LOW]
            states[state, S_HIGH] = edges[edge, E_HIGH]


@kernel()
def know_digests(
    heads: np.ndarray, states: np.ndarray, edges: np.ndarray, nodes: np.ndarray
) -> None:
    """Write down the values that first nodes ask for, of those that ask for few."""
    for k in range(nodes.shape[0]):
        node = nodes[k]
        if node < 0:
            continue
        heads[node, 1] = NO_DIGEST
        head = heads[node, 0]
        if head == NO_STATE:
            continue
        state = first_state(head)
        test = states[state, S_TEST]
        if states[state, S_NEXT] >= 0 or test == NO_TEST:
            heads[node, 1] = _digest_of_several(state, states, edges)
            continue
        code = _code(test)
        if test < 0 or states[state, S_LOW] != states[state, S_HIGH] or code >> CODE_BITS != 0:
            continue
        heads[node, 1] = digest_of(code, states[state, S_LOW])


@kernel()
def _code(test: int) -> int:
    """Column << 8 | mode of a test."""
    return (test >> 8) & np.int64(0xFFFFFF)


@kernel()
def _digest_of_several(state: int, states: np.ndarray, edges: np.ndarray) -> int:
    """The digest of all edges of all states from one on, if each begins with an equality."""
    digest, count = SEVERAL_TESTS, 0
    while state >= 0:
        if states[state, S_OUT] >= 0 or states[state, S_TEST] == INDEXED:
            return NO_DIGEST
        edge = states[state, S_EDGE]
        while edge >= 0:
            test, low = edges[edge, E_TEST], edges[edge, E_LOW]
            equal = edges[edge, E_ATOMS] > 0 and test & 255 == INTERVAL
            if not equal or low != edges[edge, E_HIGH]:
                return NO_DIGEST
            if count == MOST_TESTS or _code(test) >> 8 > WIDEST_COLUMN:
                return NO_DIGEST
            digest = with_test(digest, count, test_of(_code(test), low))
            count += 1
            edge = edges[edge, E_NEXT]
        state = states[state, S_NEXT]
    return digest if count > 0 else NO_DIGEST
