"""Whose instances there are: counted when somebody asks, so that the loop need not keep count."""

from __future__ import annotations

import numpy as np

from braid.kernels.instances import (
    DEAD,
    FREE,
    GROUP,
    HIGH,
    ROWS_AT,
    S_BOUND,
    S_GROUP,
    S_NEXT,
    STATE_WORDS,
    STATES,
    first_cell,
    member_at,
    next_cell,
    state_of,
)
from braid.kernels.runtime import address, kernel, load_int


@kernel()
def count_instances(
    frame_words: np.ndarray, slots: np.ndarray, now: int, counts: np.ndarray
) -> None:
    """Add to `counts`, for each state, the instances that wait there and are not too old."""
    frame, numbers = address(frame_words), address(slots)
    stride = 8 * (frame_words[GROUP] + 1)
    for slot in range(slots[HIGH]):
        row = slots[ROWS_AT] + slot * stride
        if load_int(row, 1) == FREE:
            continue
        word = load_int(row, frame_words[GROUP])
        age = now - load_int(row, 0)
        cell = first_cell(word)
        while cell >= 0:
            state = state_of(member_at(cell, numbers), frame)
            while state >= 0:
                record = load_int(frame, STATES) + state * (8 * STATE_WORDS)
                bound = load_int(record, S_BOUND)
                young = bound == -1 or age <= bound
                if load_int(record, S_GROUP) == word >> 32 and bound != DEAD and young:
                    counts[state] += 1
                state = load_int(record, S_NEXT)
            cell = next_cell(cell, numbers)
