"""Arrays that grow at one end and are given back from the other."""

from __future__ import annotations

import numpy as np

from braid.algebra.detection_memory import LEAST_ROOM


def room(array: np.ndarray, held: int, count: int) -> np.ndarray:
    """The array with room for more rows after those that it holds."""
    needed = held + count
    if needed <= len(array):
        return array
    size = max(needed, LEAST_ROOM, held + held // 4)
    out = np.zeros((size, *array.shape[1:]), array.dtype)
    out[:held] = array[:held]
    return out


def shifted(array: np.ndarray, low: int, high: int) -> np.ndarray:
    """The rows from `low` on at the start; room that is much too large is given back."""
    held = high - low
    if len(array) > max(LEAST_ROOM, held + held // 4):
        return array[low:high].copy()
    array[:held] = array[low:high].copy()
    return array
