"""The exact join of one batch with the windows around it: is there a result?

The events of each other input that may be in a result are hashed by what they are compared by
with an input that comes before them; then each event of the batch is followed from input to
input until all have one. The first result ends it.
"""

from __future__ import annotations

import numpy as np

from braid.kernels.runtime import ROWS, WORDS, kernel, load_int

#: Words of a kept event before its keys: when it came, when it left its window.
CAME, LEFT, KEYS = 0, 1, 2

# What is known of an edge: its inputs, and where the columns of both begin in `columns`.
FIRST, SECOND, COLUMNS, FROM = 0, 1, 2, 3


@kernel((ROWS, WORDS, ROWS, WORDS, WORDS, WORDS, WORDS))
def has_result(
    edges: np.ndarray,
    columns: np.ndarray,
    order: np.ndarray,
    addresses: np.ndarray,
    widths: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
) -> bool:
    """`order` has the inputs, that of the batch first, each with the edge that it is found by.

    An edge has `COLUMNS` columns of its first input from `columns[FROM]` on, then as many of the
    second. Events of input j are those from `lows[j]` to `highs[j]`, each `widths[j]` words.
    """
    count = order.shape[0]
    begins = np.zeros(count + 1, np.int64)
    slots = np.ones(count, np.int64)
    tables = np.zeros(count + 1, np.int64)
    for s in range(1, count):
        size = highs[order[s, 0]] - lows[order[s, 0]]
        while slots[s] < 2 * size:
            slots[s] *= 2
        begins[s + 1] = begins[s] + size
        tables[s + 1] = tables[s] + slots[s]
    following = np.empty(begins[count], np.int64)
    heads = np.full(tables[count], -1, np.int64)
    for s in range(1, count):
        number, edge = order[s, 0], order[s, 1]
        for t in range(lows[number], highs[number]):
            slot = tables[s] + (
                _hash(edges, columns, edge, number, addresses, widths, t) & (slots[s] - 1)
            )
            following[begins[s] + t - lows[number]] = heads[slot]
            heads[slot] = t
    chosen = np.zeros(addresses.shape[0], np.int64)
    cursors = np.full(count, -1, np.int64)
    root = order[0, 0]
    for t in range(lows[root], highs[root]):
        instant = load_int(addresses[root], t * widths[root] + CAME)
        if load_int(addresses[root], t * widths[root] + LEFT) <= instant:
            continue
        chosen[root] = t
        depth = 1
        cursors[1] = _head(
            edges, columns, order, 1, addresses, widths, chosen, heads, tables, slots
        )
        while depth >= 1:
            number = order[depth, 0]
            k = cursors[depth]
            if k < 0:
                depth -= 1
                continue
            cursors[depth] = following[begins[depth] + k - lows[number]]
            at = k * widths[number]
            came, left = (
                load_int(addresses[number], at + CAME),
                load_int(addresses[number], at + LEFT),
            )
            if came > instant or left <= instant:
                continue
            chosen[number] = k
            if not _fits(edges, columns, order, depth, addresses, widths, chosen):
                continue
            if depth == count - 1:
                return True
            depth += 1
            cursors[depth] = _head(
                edges, columns, order, depth, addresses, widths, chosen, heads, tables, slots
            )
    return False


@kernel()
def _hash(
    edges: np.ndarray,
    columns: np.ndarray,
    edge: int,
    number: int,
    addresses: np.ndarray,
    widths: np.ndarray,
    t: int,
) -> int:
    """Of what an event is compared by at an edge."""
    many = edges[edge, COLUMNS]
    begin = edges[edge, FROM] + (0 if number == edges[edge, FIRST] else many)
    value = np.uint64(0x9E3779B97F4A7C15)
    for c in range(begin, begin + many):
        word = load_int(addresses[number], t * widths[number] + KEYS + columns[c])
        value = (value ^ np.uint64(np.int64(word))) * np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(29)
    return np.int64(value & np.uint64(0x7FFFFFFFFFFFFFFF))


@kernel()
def _head(
    edges: np.ndarray,
    columns: np.ndarray,
    order: np.ndarray,
    s: int,
    addresses: np.ndarray,
    widths: np.ndarray,
    chosen: np.ndarray,
    heads: np.ndarray,
    tables: np.ndarray,
    slots: np.ndarray,
) -> int:
    """The first event that may go on from those that are chosen."""
    edge = order[s, 1]
    first, second = edges[edge, FIRST], edges[edge, SECOND]
    known = second if first == order[s, 0] else first
    value = _hash(edges, columns, edge, known, addresses, widths, chosen[known])
    return heads[tables[s] + (value & (slots[s] - 1))]


@kernel()
def _fits(
    edges: np.ndarray,
    columns: np.ndarray,
    order: np.ndarray,
    depth: int,
    addresses: np.ndarray,
    widths: np.ndarray,
    chosen: np.ndarray,
) -> bool:
    """Whether the newest of the chosen events equals the others wherever it is compared with one."""
    number = order[depth, 0]
    for e in range(edges.shape[0]):
        first, second = edges[e, FIRST], edges[e, SECOND]
        if number not in (first, second):
            continue
        other = second if number == first else first
        known = False
        for s in range(depth):
            known |= order[s, 0] == other
        if not known:
            continue
        many, begin = edges[e, COLUMNS], edges[e, FROM]
        for c in range(begin, begin + many):
            x = load_int(addresses[first], chosen[first] * widths[first] + KEYS + columns[c])
            y = load_int(
                addresses[second], chosen[second] * widths[second] + KEYS + columns[c + many]
            )
            if x != y:
                return False
    return True
