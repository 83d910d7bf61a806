"""Detections by bitmaps: whether paths have a connecting sequence, not how many.

A flag is a byte while it is multiplied, so that a turn has no branch; what is kept of a synopsis
are its entries (see `synopses.py`).
"""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel, load_half
from braid.operators.detect.kernels.synopses import (
    CELLS,
    FLIPPED,
    HALF,
    INPUT,
    KIND,
    LOW,
    ONE,
    place_of,
)


@kernel()
def find_batch(
    positions: np.ndarray,
    starts: np.ndarray,
    asking: int,
    lows: np.ndarray,
    highs: np.ndarray,
    flags: np.ndarray,
    counts: np.ndarray,
) -> None:
    """As `detection.count_batch`, but 1 where that counts any. The first zero vector ends a path,
    and the first path without a sequence all others."""
    forward, backward, spare = flags[0], flags[1], flags[2]
    counts[:] = 0
    for p in range(starts.shape[0] - 1):
        first, last = starts[p], starts[p + 1] - 1
        at = place_of(positions, first, last, asking)
        found = True
        for k in range(first, at):
            if found:
                found = _pass(positions, k, k == first, 1, lows, highs, forward, spare)
        for k in range(last, at, -1):
            if found:
                found = _pass(positions, k, k == last, 0, lows, highs, backward, spare)
        if found:
            found = _connects(positions, at, first, last, lows, highs, forward, backward)
        if not found:
            break
        counts[p] = 1


@kernel()
def _pass(
    positions: np.ndarray,
    k: int,
    begins: bool,
    ahead: int,
    lows: np.ndarray,
    highs: np.ndarray,
    vector: np.ndarray,
    spare: np.ndarray,
) -> bool:
    """The vector times the synopsis at k; whether anything is left of it."""
    number, cells = positions[k, INPUT], positions[k, CELLS]
    if begins:
        spare[:] = 1
    else:
        spare[:] = vector
    vector[:] = 0
    left = np.uint8(0)
    if positions[k, KIND] == ONE:
        for t in range(lows[number], highs[number]):
            cell = np.int64(load_half(cells, t))
            vector[cell] |= spare[cell]
            left |= spare[cell]
        return left != 0
    if (positions[k, FLIPPED] == 0) == (ahead == 1):
        for t in range(lows[number], highs[number]):
            cell = np.int64(load_half(cells, t))
            flag = spare[cell >> HALF]
            vector[cell & LOW] |= flag
            left |= flag
    else:
        for t in range(lows[number], highs[number]):
            cell = np.int64(load_half(cells, t))
            flag = spare[cell & LOW]
            vector[cell >> HALF] |= flag
            left |= flag
    return left != 0


@kernel()
def _connects(
    positions: np.ndarray,
    at: int,
    first: int,
    last: int,
    lows: np.ndarray,
    highs: np.ndarray,
    forward: np.ndarray,
    backward: np.ndarray,
) -> bool:
    """Whether some event at a position has a sequence that leads there and one that goes on."""
    number, cells, flipped = positions[at, INPUT], positions[at, CELLS], positions[at, FLIPPED]
    one = positions[at, KIND] == ONE
    for t in range(lows[number], highs[number]):
        cell = np.int64(load_half(cells, t))
        x, y = cell, cell
        if not one:
            x, y = cell >> HALF, cell & LOW
            if flipped != 0:
                x, y = y, x
        if (at == first or forward[x] != 0) and (at == last or backward[y] != 0):
            return True
    return False
