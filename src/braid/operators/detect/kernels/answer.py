"""All that is said of the batches of one detection: packing, bounds, what was verified.

One call for all batches of a round; which of verification and synopses comes first, and how the
synopses are multiplied out, is decided batch by batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.jit import types
from braid.jit.runtime import ROWS, WORDS, kernel
from braid.operators.detect.kernels.bits import find_batch
from braid.operators.detect.kernels.follow import follow_batch
from braid.operators.detect.kernels.synopses import INPUT, count_batch, least_bound
from braid.operators.detect.kernels.verify import has_result

#: What is said of a batch: that there is an answer, that verification was due, that it was done.
KEPT, ASKED, DONE = 1, 2, 4

# What became of all batches.
BATCHES, ZEROS, VERIFIED, REFUTED, UNVERIFIED = range(5)
TALLY = 5


class Form(NamedTuple):
    """What a detection multiplies and compares. `positions` of path p are those from `starts[p]`;
    `entries`: how many the synopsis there has; `on`: which inputs are on a path; `edges` and
    `columns` as `detection_verify` has them."""

    positions: np.ndarray
    starts: np.ndarray
    entries: np.ndarray
    on: np.ndarray
    edges: np.ndarray
    columns: np.ndarray


class Lying(NamedTuple):
    """Where events lie: chains of each position by bucket (`detection_follow`), the steps from each
    input and the kept events of each (`detection_verify`)."""

    links: np.ndarray
    steps: np.ndarray
    kept: np.ndarray


class Manner(NamedTuple):
    """Whether synopses count, answers may be verified, events hang in chains by bucket; how long a
    vector gets; what following an event to one input takes, in events of a synopsis."""

    counts: int
    verifies: int
    chained: int
    room: int
    followed: int


class Said(NamedTuple):
    bounds: np.ndarray
    packing: np.ndarray
    flags: np.ndarray
    tally: np.ndarray


_FLOATS = types.Array(types.float64, 1, "C")
_BYTES = types.Array(types.uint8, 1, "C")
_FLAGS = types.Array(types.boolean, 2, "C")
_FORM = types.NamedTuple((ROWS, WORDS, WORDS, _FLAGS, ROWS, WORDS), Form)
_LYING = types.NamedUniTuple(ROWS, 3, Lying)
_MANNER = types.NamedUniTuple(types.int64, 5, Manner)
_SAID = types.NamedTuple((WORDS, _FLOATS, _BYTES, WORDS), Said)


@kernel((_FORM, _LYING, _MANNER, types.float64, WORDS, ROWS, ROWS, _SAID))
def answer(
    form: Form,
    lying: Lying,
    manner: Manner,
    threshold: float,
    asking: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    said: Said,
) -> None:
    """`asking` has the input whose batch it is; `lows` and `highs` say which events of each input
    stand in its synopsis, of that input the batch itself.

    An answer is the same whichever of verification and synopses is done first: what one of them
    finds empty is no answer. What bitmaps would say of a batch that has a result is known.
    """
    # Arrays by themselves: a tuple of them costs as much to pass on as a small batch to answer.
    positions, starts, edges, columns = form.positions, form.starts, form.edges, form.columns
    entries, on, links = form.entries, form.on, lying.links
    steps, places, left = lying.steps, lying.kept, np.zeros(1, np.int64)
    none = np.int64(0)
    sums, flags = np.zeros((3, none), np.int64), np.zeros((3, none), np.uint8)
    vectors, touched = np.zeros((2, none), np.int64), np.zeros((2, none), np.int64)
    if manner.chained:
        vectors = np.zeros((2, manner.room), np.int64)
        touched = np.zeros((2, manner.room), np.int64)
    counts = np.zeros(starts.shape[0] - 1, np.int64)
    chosen, cursors = np.zeros(places.shape[0], np.int64), np.zeros(places.shape[0], np.int64)
    for b in range(asking.shape[0]):
        low, high, own = lows[b], highs[b], asking[b]
        said.packing[b] = _density(positions, entries, low, high)
        asked = manner.verifies != 0 and said.packing[b] > threshold
        done = asked and _is_cheap(low, high, own, manner.followed)
        true = done and has_result(edges, columns, steps, places, own, low, high, chosen, cursors)
        bound = np.int64(1) if true else np.int64(0)
        if (true or not done) and not (true and manner.counts == 0):
            followed = False
            if manner.chained:
                followed = follow_batch(
                    positions, links, starts, own, low, high, vectors, touched, left, counts
                )
            if not followed and manner.counts != 0:
                if sums.shape[1] == 0:
                    sums = np.zeros((3, manner.room), np.int64)
                count_batch(positions, starts, own, low, high, sums, counts)
            elif not followed:
                if flags.shape[1] == 0:
                    flags = np.zeros((3, manner.room), np.uint8)
                find_batch(positions, starts, own, low, high, flags, counts)
            bound = least_bound(counts, on, low, high)
        if asked and not done and bound > 0:
            done = True
            true = has_result(edges, columns, steps, places, own, low, high, chosen, cursors)
        kept = bound > 0 and (true or not asked)
        said.bounds[b] = bound
        said.flags[b] = (KEPT if kept else 0) | (ASKED if asked else 0)
        said.tally[BATCHES] += 1
        said.tally[ZEROS] += bound == 0 and not done
        said.tally[VERIFIED] += done
        said.tally[REFUTED] += done and not kept
        said.tally[UNVERIFIED] += kept and not done


@kernel()
def _density(
    positions: np.ndarray, entries: np.ndarray, lows: np.ndarray, highs: np.ndarray
) -> float:
    """The mean of events by entries, added up in the order of the positions."""
    total = 0.0
    for k in range(positions.shape[0]):
        number = positions[k, INPUT]
        total += (highs[number] - lows[number]) / entries[k]
    return total / positions.shape[0]


@kernel()
def _is_cheap(lows: np.ndarray, highs: np.ndarray, asking: int, followed: int) -> bool:
    """Whether following the events of a batch takes less than multiplying the synopses out."""
    own = highs[asking] - lows[asking]
    every = np.int64(0)
    for number in range(lows.shape[0]):
        every += highs[number] - lows[number]
    return followed * own * lows.shape[0] < every - own
