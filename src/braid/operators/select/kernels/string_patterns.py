"""Many string patterns at once: an Aho-Corasick automaton over bytes.

Every pattern has an *anchor*, bytes that each text it matches contains: the whole of a prefix, a
suffix or a part, the longest literal run of a LIKE. One pass over a text finds all anchors in it;
what the pattern asks beyond its anchor is then checked. Edges of the automaton are in a hash table,
as most states have one, and states are many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.jit.memory import resized
from braid.jit.records import Bytes, Words
from braid.jit.runtime import address, kernel
from braid.jit.strings import like_bytes, string_size, string_start

#: What a pattern asks.
CONTAINS, STARTS_WITH, ENDS_WITH, LIKE = range(4)

_STATE_BITS = 28
_STATE_MASK = np.int64((1 << _STATE_BITS) - 1)


class Automaton(NamedTuple):
    """States and what they find.

    `edges` holds (state << 8 | byte) << 28 | next state, open addressing. `fail` is the state of
    the longest proper suffix, `outputs` the first pattern of a state plus one (or 0), `nearest` the
    next state by suffixes that has any, `following` the next pattern of the same state.
    """

    edges: np.ndarray
    fail: np.ndarray
    outputs: np.ndarray
    nearest: np.ndarray
    following: np.ndarray


class Patterns(NamedTuple):
    """Patterns of one automaton: number, birth, kind, length of the anchor, place of the text."""

    number: np.ndarray
    born: np.ndarray
    kind: np.ndarray
    anchor: np.ndarray
    start: np.ndarray
    text: np.ndarray


class Matches(NamedTuple):
    """Numbers of the patterns that texts match, in memory of the caller's: `count` words."""

    words: int
    count: int


@kernel()
def _edge_slot(edges: Words, mask: int, state: int, byte: int) -> int:
    """Where the edge is in the table, or -1 - where it belongs."""
    key = (state << 8) | byte
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    at = np.int64(mixed >> np.uint64(32)) & mask
    word = edges[at]
    while word != 0:
        if (word >> _STATE_BITS) == key:
            return at
        at = (at + 1) & mask
        word = edges[at]
    return -1 - at


@kernel()
def _step(edges: Words, mask: int, state: int, byte: int) -> int:
    """The state that an edge leads to, or 0."""
    slot = _edge_slot(edges, mask, state, byte)
    if slot < 0:
        return np.int64(0)
    return edges[slot] & _STATE_MASK


@kernel()
def build_automaton(anchors: np.ndarray, offsets: np.ndarray, automaton: Automaton) -> int:
    """Fill an automaton for anchors, laid out one after the other; how many states it has.

    There is room for one state more than bytes, and for twice as many edges.
    """
    edges, mask = Words(address(automaton.edges)), np.int64(automaton.edges.shape[0] - 1)
    fail, outputs, nearest = automaton.fail, automaton.outputs, automaton.nearest
    room = fail.shape[0]
    parent, byte_of = np.zeros(room, np.int64), np.zeros(room, np.int64)
    depth = np.zeros(room, np.int64)
    states = np.int64(1)
    deepest = np.int64(0)
    for k in range(offsets.shape[0] - 1):
        state = np.int64(0)
        for i in range(offsets[k], offsets[k + 1]):
            byte = np.int64(anchors[i])
            slot = _edge_slot(edges, mask, state, byte)
            if slot >= 0:
                state = edges[slot] & _STATE_MASK
                continue
            key = (state << 8) | byte
            edges[-1 - slot] = (key << _STATE_BITS) | states
            parent[states], byte_of[states], depth[states] = state, byte, depth[state] + 1
            deepest = max(deepest, depth[states])
            state = states
            states += 1
        automaton.following[k] = outputs[state]
        outputs[state] = k + 1
    begins = np.zeros(deepest + 2, np.int64)
    for state in range(states):
        begins[depth[state] + 1] += 1
    for level in range(deepest + 1):
        begins[level + 1] += begins[level]
    order = np.empty(states, np.int64)
    for state in range(states):
        order[begins[depth[state]]] = state
        begins[depth[state]] += 1
    for k in range(1, states):
        state = order[k]
        suffix = np.int64(0)
        if parent[state] != 0:
            shorter = fail[parent[state]]
            suffix = _step(edges, mask, shorter, byte_of[state])
            while suffix == 0 and shorter != 0:
                shorter = fail[shorter]
                suffix = _step(edges, mask, shorter, byte_of[state])
        fail[state] = suffix
        nearest[state] = suffix if suffix != 0 and outputs[suffix] != 0 else nearest[suffix]
    return states


@kernel()
def scan(
    automaton: Automaton,
    patterns: Patterns,
    strings: int,
    codes: np.ndarray,
    known: np.ndarray,
    alive: np.ndarray,
    counts: np.ndarray,
) -> Matches:
    """For each text the living patterns born since it was last scanned that it matches, in turn."""
    edges, mask = Words(address(automaton.edges)), np.int64(automaton.edges.shape[0] - 1)
    texts = address(patterns.text)
    seen = np.full(patterns.number.shape[0], -1, np.int64)
    capacity, total = np.int64(1024), np.int64(0)
    out = Words(resized(0, capacity))
    data = Words(strings)[1]
    for t in range(codes.shape[0]):
        code = codes[t]
        base = Bytes(data + string_start(strings, code))
        size = string_size(strings, code)
        state, position, first = np.int64(0), np.int64(0), total
        while True:
            # Patterns without an anchor are those of the first state, looked at once.
            source = state
            if position > 0 and (state == 0 or automaton.outputs[state] == 0):
                source = automaton.nearest[state]
            while source != 0 or position == 0:
                k = automaton.outputs[source] - 1
                while k >= 0:
                    if (
                        seen[k] != t
                        and patterns.born[k] >= known[code]
                        and alive[patterns.number[k]] != 0
                    ):
                        kind = patterns.kind[k]
                        holds = kind == CONTAINS
                        if kind == STARTS_WITH:
                            holds = position == patterns.anchor[k]
                        elif kind == ENDS_WITH:
                            holds = position == size or patterns.anchor[k] == 0
                        elif kind == LIKE:
                            y = texts + patterns.start[k]
                            length = patterns.start[k + 1] - patterns.start[k]
                            holds = like_bytes(base, size, y, length)
                        if holds:
                            if total == capacity:
                                capacity *= 2
                                out = Words(resized(out, capacity))
                            out[total] = patterns.number[k]
                            total += 1
                        if holds or kind == LIKE:
                            seen[k] = t
                    k = automaton.following[k] - 1
                if source == 0:
                    break
                source = automaton.nearest[source]
            if position == size:
                break
            byte = base[position]
            position += 1
            following = _step(edges, mask, state, byte)
            while following == 0 and state != 0:
                state = automaton.fail[state]
                following = _step(edges, mask, state, byte)
            state = following
        counts[t] = total - first
    return Matches(out.address, total)
