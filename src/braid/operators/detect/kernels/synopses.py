"""Detections inside kernels: cutting batches, and multiplying synopses out along paths.

A synopsis lies here as the entries of its events, one after the other: a matrix with few events
is mostly zeros, and multiplying a vector by it is one turn for each event.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.runtime import ROWS, WORDS, kernel, load_half

#: A bound never says more.
MOST = np.int64(2**63 - 1)

# What `cut_batches` knows of the batch under way.
OPEN, COUNT, FIRST = 0, 1, 2
#: A batch that has ended: its first instant, its last, and after how many events that was.
BEGAN, ENDED, UPTO = 0, 1, 2

# What is known of a position of a path.
INPUT, CELLS, FLIPPED, KIND, BUCKETS = 0, 1, 2, 3, 4
POSITION = 5
#: An entry is one bucket for both sides, or two of 15 bits: `x << HALF | y`.
ONE, TWO = 0, 1
HALF, LOW = 16, 0xFFFF


@kernel((WORDS, WORDS, types.int64, types.int64, types.int64, types.int64, ROWS))
def cut_batches(
    ends: np.ndarray,
    state: np.ndarray,
    batch: int,
    within: int,
    last: int,
    bound: int,
    out: np.ndarray,
) -> int:
    """The batches that end before `bound`, into `out`; `state` is left as the batch under way is.

    `ends` are those of events in whole epochs. A batch that nothing fills ends `within` after it
    began, or at the instant `last` if that is below 0.
    """
    found = 0
    count = ends.shape[0]
    for k in range(count):
        if state[OPEN] != 0 and ends[k] > deadline_of(state[FIRST], within, last):
            _note(out, found, state[FIRST], deadline_of(state[FIRST], within, last), k)
            found += 1
            state[OPEN] = 0
        if state[OPEN] == 0:
            state[OPEN], state[COUNT], state[FIRST] = 1, 0, ends[k]
        state[COUNT] += 1
        whole = k + 1 == count or ends[k + 1] != ends[k]
        if whole and state[COUNT] >= batch:
            _note(out, found, state[FIRST], ends[k], k + 1)
            found += 1
            state[OPEN] = 0
    if state[OPEN] != 0 and deadline_of(state[FIRST], within, last) < bound:
        _note(out, found, state[FIRST], deadline_of(state[FIRST], within, last), count)
        found += 1
        state[OPEN] = 0
    return found


@kernel()
def deadline_of(first: int, within: int, last: int) -> int:
    if within < 0:
        return max(first, last)
    return MOST if first > MOST - within else first + within


@kernel()
def _note(out: np.ndarray, place: int, began: int, ended: int, upto: int) -> None:
    out[place, BEGAN], out[place, ENDED], out[place, UPTO] = began, ended, upto


@kernel()
def count_batch(
    positions: np.ndarray,
    starts: np.ndarray,
    asking: int,
    lows: np.ndarray,
    highs: np.ndarray,
    sums: np.ndarray,
    counts: np.ndarray,
) -> None:
    """How many connecting sequences each path has for a batch.

    `positions` of path p are those from `starts[p]`; `asking` is the input whose batch it is; `lows`
    and `highs` say which events of each input stand in its synopsis; `sums` has room for three
    vectors. A path without the input is multiplied out as it is.
    """
    forward, backward, spare = sums[0], sums[1], sums[2]
    for p in range(starts.shape[0] - 1):
        first, last = starts[p], starts[p + 1] - 1
        at = place_of(positions, first, last, asking)
        for k in range(first, at):
            _step(positions, k, k == first, 1, lows, highs, forward, spare)
        for k in range(last, at, -1):
            _step(positions, k, k == last, 0, lows, highs, backward, spare)
        counts[p] = _meet(positions, at, first, last, lows, highs, forward, backward)


@kernel()
def place_of(positions: np.ndarray, first: int, last: int, asking: int) -> int:
    """The position of the input that asks; the last one if it is not on the path."""
    at = last
    for k in range(first, last + 1):
        if positions[k, INPUT] == asking:
            at = k
    return at


@kernel()
def _step(
    positions: np.ndarray,
    k: int,
    begins: bool,
    ahead: int,
    lows: np.ndarray,
    highs: np.ndarray,
    vector: np.ndarray,
    spare: np.ndarray,
) -> None:
    """The vector times the synopsis at k, towards the end of the path (`ahead`) or its start."""
    number, cells = positions[k, INPUT], positions[k, CELLS]
    if not begins:
        spare[:] = vector
    vector[:] = 0
    if positions[k, KIND] == ONE:
        for t in range(lows[number], highs[number]):
            cell = np.int64(load_half(cells, t))
            vector[cell] = added(vector[cell], 1 if begins else spare[cell])
        return
    turned = (positions[k, FLIPPED] == 0) != (ahead == 1)
    for t in range(lows[number], highs[number]):
        cell = np.int64(load_half(cells, t))
        x, y = cell >> HALF, cell & LOW
        if turned:
            x, y = y, x
        vector[y] = added(vector[y], spare[x])


@kernel()
def _meet(
    positions: np.ndarray,
    at: int,
    first: int,
    last: int,
    lows: np.ndarray,
    highs: np.ndarray,
    forward: np.ndarray,
    backward: np.ndarray,
) -> int:
    """The sum over the events at a position, of what leads there times what goes on from there."""
    number, cells, flipped = positions[at, INPUT], positions[at, CELLS], positions[at, FLIPPED]
    one = positions[at, KIND] == ONE
    total = np.int64(0)
    for t in range(lows[number], highs[number]):
        cell = np.int64(load_half(cells, t))
        x, y = cell, cell
        if not one:
            x, y = cell >> HALF, cell & LOW
            if flipped != 0:
                x, y = y, x
        ways = np.int64(1)
        if at != first:
            ways = forward[x]
        if at != last:
            ways = multiplied(ways, backward[y])
        total = added(total, ways)
    return total


@kernel()
def added(a: int, b: int) -> int:
    return MOST if a > MOST - b else a + b


@kernel()
def multiplied(a: int, b: int) -> int:
    if a == 0 or b == 0:
        return np.int64(0)
    return MOST if a > MOST // b else a * b


@kernel()
def least_bound(counts: np.ndarray, on: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> int:
    """The least that a path gives: its count, times the numbers of events of inputs that are not
    `on` it; 0 if any path counts none."""
    least, none = MOST, False
    for p in range(counts.shape[0]):
        product = counts[p]
        none |= product == 0
        for number in range(lows.shape[0]):
            if not on[p, number]:
                product = multiplied(product, highs[number] - lows[number])
        least = min(least, product)
    return np.int64(0) if none else least
