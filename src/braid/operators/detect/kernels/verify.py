"""The exact join of one batch with the windows around it: is there a result?

The events that are kept of each input hang in chains by the hash of what they are compared by at
an edge, the newest first. Each event of the batch is followed along the edges from input to input
until all have one. The first result ends it.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.runtime import WORDS, kernel, load_half, load_int

#: Words of a kept event before its keys: when it came, when it left its window.
CAME, LEFT, KEYS = 0, 1, 2

# What is known of an edge: its inputs, and where the columns of both begin in `columns`.
FIRST, SECOND, COLUMNS, FROM = 0, 1, 2, 3

#: Where the events of an input lie, and how many words each has.
ADDRESS, WIDTH = 0, 1

# What is known of a step: the input, the edge that it is found by, its chains at that edge.
INPUT, EDGE, HEADS, MASK, FOLLOWING, SHIFT = 0, 1, 2, 3, 4, 5
STEP = 6

_HALVES = types.Array(types.int32, 1, "C")


@kernel((types.int64, types.int64, WORDS, _HALVES, _HALVES, types.int64, types.int64, types.int64))
def hang(
    kept: int,
    width: int,
    columns: np.ndarray,
    heads: np.ndarray,
    following: np.ndarray,
    low: int,
    high: int,
    shift: int,
) -> None:
    """Hang the events from `low` to `high` into chains; in these they are called `place - shift`."""
    mask = heads.shape[0] - 1
    for t in range(low, high):
        slot = _hash(kept, t * width, columns, 0, columns.shape[0]) & mask
        following[t] = heads[slot]
        heads[slot] = t - shift


@kernel()
def has_result(
    edges: np.ndarray,
    columns: np.ndarray,
    steps: np.ndarray,
    kept: np.ndarray,
    asking: int,
    lows: np.ndarray,
    highs: np.ndarray,
    chosen: np.ndarray,
    cursors: np.ndarray,
) -> bool:
    """Whether a batch of the input `asking` has a result.

    `steps` has those from input i from `i * inputs` on: the inputs, that of the batch first, each
    with the edge that it is found by. An edge has `COLUMNS` columns of its first input from
    `columns[FROM]` on, then as many of the second. `kept` says where the events of each input lie and
    how many words they have; those that stand are from `lows` to `highs`. `chosen` and `cursors`
    have room for a word for each input: to make it takes as long as to verify a batch of one event.
    """
    count = kept.shape[0]
    own = steps[asking * count : (asking + 1) * count]
    return _has_result(edges, columns, own, kept, lows, highs, chosen, cursors)


@kernel()
def _has_result(
    edges: np.ndarray,
    columns: np.ndarray,
    steps: np.ndarray,
    kept: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    chosen: np.ndarray,
    cursors: np.ndarray,
) -> bool:
    count = steps.shape[0]
    root = steps[0, INPUT]
    for t in range(lows[root], highs[root]):
        instant = load_int(kept[root, ADDRESS], t * kept[root, WIDTH] + CAME)
        if load_int(kept[root, ADDRESS], t * kept[root, WIDTH] + LEFT) <= instant:
            continue
        chosen[root] = t
        depth = 1
        cursors[1] = _head(edges, columns, steps, 1, kept, chosen)
        while depth >= 1:
            number = steps[depth, INPUT]
            k = cursors[depth]
            if k < lows[number]:
                depth -= 1
                continue
            cursors[depth] = _placed(load_half(steps[depth, FOLLOWING], k), steps[depth, SHIFT])
            at = k * kept[number, WIDTH]
            came = load_int(kept[number, ADDRESS], at + CAME)
            left = load_int(kept[number, ADDRESS], at + LEFT)
            if k >= highs[number] or came > instant or left <= instant:
                continue
            chosen[number] = k
            if not _fits(edges, columns, steps, depth, kept, chosen):
                continue
            if depth == count - 1:
                return True
            depth += 1
            cursors[depth] = _head(edges, columns, steps, depth, kept, chosen)
    return False


@kernel()
def _placed(link: int, shift: int) -> int:
    """Where the event of a link lies; below 0 if there is none, or none any more."""
    return np.int64(-1) if link < 0 else np.int64(link) + shift


@kernel()
def _hash(kept: int, at: int, columns: np.ndarray, begin: int, end: int) -> int:
    """Of some columns of a kept event."""
    value = np.uint64(0x9E3779B97F4A7C15)
    for c in range(begin, end):
        word = load_int(kept, at + KEYS + columns[c])
        value = (value ^ np.uint64(np.int64(word))) * np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(29)
    return np.int64(value & np.uint64(0x7FFFFFFFFFFFFFFF))


@kernel()
def _head(
    edges: np.ndarray,
    columns: np.ndarray,
    steps: np.ndarray,
    s: int,
    kept: np.ndarray,
    chosen: np.ndarray,
) -> int:
    """The first event that may go on from those that are chosen."""
    edge = steps[s, EDGE]
    first, second = edges[edge, FIRST], edges[edge, SECOND]
    known = second if first == steps[s, INPUT] else first
    many = edges[edge, COLUMNS]
    begin = edges[edge, FROM] + (0 if known == first else many)
    value = _hash(
        kept[known, ADDRESS], chosen[known] * kept[known, WIDTH], columns, begin, begin + many
    )
    return _placed(load_half(steps[s, HEADS], value & steps[s, MASK]), steps[s, SHIFT])


@kernel()
def _fits(
    edges: np.ndarray,
    columns: np.ndarray,
    steps: np.ndarray,
    depth: int,
    kept: np.ndarray,
    chosen: np.ndarray,
) -> bool:
    """Whether the newest of the chosen events equals the others wherever it is compared with one."""
    number = steps[depth, INPUT]
    for e in range(edges.shape[0]):
        first, second = edges[e, FIRST], edges[e, SECOND]
        if number not in (first, second):
            continue
        other = second if number == first else first
        known = False
        for s in range(depth):
            known |= steps[s, INPUT] == other
        if not known:
            continue
        many, begin = edges[e, COLUMNS], edges[e, FROM]
        for c in range(begin, begin + many):
            x = load_int(
                kept[first, ADDRESS], chosen[first] * kept[first, WIDTH] + KEYS + columns[c]
            )
            y = load_int(
                kept[second, ADDRESS],
                chosen[second] * kept[second, WIDTH] + KEYS + columns[c + many],
            )
            if x != y:
                return False
    return True
