"""The query equation for a batch of few events: from the batch outwards, bucket by bucket.

The events of a synopsis also hang in chains by the bucket of each side, the newest first. From an
event of the batch the buckets that its neighbours must have are known, and so on to both ends of the
path: only events that connect are looked at. The count is the one that multiplying all synopses
out gives (`synopses.py`); where that would take less, it is left to it.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.runtime import kernel, load_half
from braid.operators.detect.kernels.synopses import (
    CELLS,
    FLIPPED,
    HALF,
    INPUT,
    KIND,
    LOW,
    ONE,
    added,
    multiplied,
    place_of,
)

#: The chains of a position by which a path comes to it from its start, and from its end.
HEADS, FOLLOWING, SHIFT, LINK = 0, 1, 2, 3

#: What an event of a chain costs, in events of a synopsis.
_CHAINED = 4
#: Which half of an entry a chain is by: all of it, the upper one, the lower one.
WHOLE, UPPER, LOWER = 0, 1, 2

_HALVES = types.Array(types.int32, 1, "C")


@kernel((_HALVES, _HALVES, _HALVES, types.int64, types.int64, types.int64, types.int64))
def hang_cells(
    cells: np.ndarray,
    heads: np.ndarray,
    following: np.ndarray,
    low: int,
    high: int,
    shift: int,
    part: int,
) -> None:
    """Hang the entries from `low` to `high` into chains; in these they are called `place - shift`."""
    for t in range(low, high):
        bucket = np.int64(cells[t])
        if part == UPPER:
            bucket >>= HALF
        elif part == LOWER:
            bucket &= LOW
        following[t] = heads[bucket]
        heads[bucket] = t - shift


@kernel()
def follow_batch(
    positions: np.ndarray,
    links: np.ndarray,
    starts: np.ndarray,
    asking: int,
    lows: np.ndarray,
    highs: np.ndarray,
    vectors: np.ndarray,
    touched: np.ndarray,
    steps: np.ndarray,
    counts: np.ndarray,
) -> bool:
    """As `detection.count_batch`, if it pays: whether it has been done. `vectors` are zero, and are
    so again in the end; `steps` has room for how many are left."""
    own = highs[asking] - lows[asking]
    every = np.int64(0)
    for k in range(positions.shape[0]):
        every += highs[positions[k, INPUT]] - lows[positions[k, INPUT]]
    steps[0] = every // _CHAINED
    if own * positions.shape[0] * _CHAINED > every:
        return False
    for p in range(starts.shape[0] - 1):
        first, last = starts[p], starts[p + 1] - 1
        at = place_of(positions, first, last, asking)
        counts[p] = _followed(
            positions, links, at, first, last, lows, highs, vectors, touched, steps
        )
        if steps[0] < 0:
            return False
    return True


@kernel()
def _followed(
    positions: np.ndarray,
    links: np.ndarray,
    at: int,
    first: int,
    last: int,
    lows: np.ndarray,
    highs: np.ndarray,
    vectors: np.ndarray,
    touched: np.ndarray,
    steps: np.ndarray,
) -> int:
    """The sum over the events at a position, of the ways from there to both ends of a path."""
    number, cells, flipped = positions[at, INPUT], positions[at, CELLS], positions[at, FLIPPED]
    one, total = positions[at, KIND] == ONE, np.int64(0)
    for t in range(lows[number], highs[number]):
        cell = np.int64(load_half(cells, t))
        x, y = cell, cell
        if not one:
            x, y = cell >> HALF, cell & LOW
            if flipped != 0:
                x, y = y, x
        steps[0] -= 1
        ways = np.int64(1)
        if at != first:
            ways = _outwards(
                positions, links, at, first, 0, x, lows, highs, vectors, touched, steps
            )
        if at != last and ways != 0:
            ahead = _outwards(
                positions, links, at, last, 1, y, lows, highs, vectors, touched, steps
            )
            ways = multiplied(ways, ahead)
        total = added(total, ways)
        if steps[0] < 0:
            break
    return total


@kernel()
def _outwards(
    positions: np.ndarray,
    links: np.ndarray,
    at: int,
    end: int,
    ahead: int,
    bucket: int,
    lows: np.ndarray,
    highs: np.ndarray,
    vectors: np.ndarray,
    touched: np.ndarray,
    steps: np.ndarray,
) -> int:
    """The number of ways from a bucket next to a position to one end of the path."""
    now, count = 0, np.int64(1)
    vectors[0, bucket], touched[0, 0] = 1, bucket
    step = 1 if ahead == 1 else -1
    for k in range(at + step, end + step, step):
        number, cells, base = positions[k, INPUT], positions[k, CELLS], (1 - ahead) * LINK
        heads, following = links[k, base + HEADS], links[k, base + FOLLOWING]
        shift, two = links[k, base + SHIFT], positions[k, KIND] != ONE
        upper = (positions[k, FLIPPED] == 0) == (ahead == 0)
        found = np.int64(0)
        for c in range(count):
            entering = touched[now, c]
            ways = vectors[now, entering]
            vectors[now, entering] = 0
            link = np.int64(load_half(heads, entering))
            place = link + shift if link >= 0 else np.int64(-1)
            while place >= lows[number] and steps[0] >= 0:
                steps[0] -= 1
                if place < highs[number]:
                    leaving = np.int64(load_half(cells, place))
                    if two:
                        leaving = leaving >> HALF if upper else leaving & LOW
                    if k == end:
                        leaving = np.int64(0)
                    known = vectors[1 - now, leaving]
                    if known == 0:
                        touched[1 - now, found] = leaving
                        found += 1
                    vectors[1 - now, leaving] = added(known, ways)
                link = np.int64(load_half(following, place))
                place = link + shift if link >= 0 else np.int64(-1)
        now, count = 1 - now, found
        if count == 0:
            return np.int64(0)
    total = np.int64(0)
    for c in range(count):
        total = added(total, vectors[now, touched[now, c]])
        vectors[now, touched[now, c]] = 0
    return total
