"""Whose instances there are: counted when somebody asks, so that the loop need not keep count."""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import address, kernel, load_int, store_int
from braid.operators.core.kernels.instances import (
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
)
from braid.operators.core.kernels.members import first_cell, member_at, next_cell, state_of


@kernel()
def count_waiting(frame: int, numbers: int, stride: int, now: int, counts: int) -> None:
    """Add to the words at `counts`, for each state, the instances that wait there and are not
    too old."""
    rows, place = load_int(numbers, ROWS_AT), load_int(frame, GROUP)
    for slot in range(load_int(numbers, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        word = load_int(row, place)
        age = now - load_int(row, 0)
        cell = first_cell(word)
        while cell >= 0:
            state = state_of(member_at(cell, numbers), frame)
            while state >= 0:
                record = load_int(frame, STATES) + state * (8 * STATE_WORDS)
                bound = load_int(record, S_BOUND)
                young = bound == -1 or age <= bound
                if load_int(record, S_GROUP) == word >> 32 and bound != DEAD and young:
                    store_int(counts, state, load_int(counts, state) + 1)
                state = load_int(record, S_NEXT)
            cell = next_cell(cell, numbers)


@kernel()
def count_instances(
    frame_words: np.ndarray, slots: np.ndarray, now: int, counts: np.ndarray
) -> None:
    """`count_waiting` for whoever has arrays."""
    stride = 8 * (frame_words[GROUP] + 1)
    count_waiting(address(frame_words), address(slots), stride, now, address(counts))
