"""Held rows of a constraint join, many at a time: copied, taken back, hashed."""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.bloom_filter import add_key
from braid.jit.records import Words
from braid.jit.runtime import ROWS, WORDS, address, kernel
from braid.operators.constraint_join.kernels.records import Frame
from braid.operators.constraint_join.kernels.store import (
    add_row,
    compacted,
    hash_key,
    neighbours_of,
    row_at,
)


@kernel((Frame.type, types.int64))
def compact(frame: Frame, number: int) -> None:
    """Move the rows of an input to memory that has little room to spare, in order."""
    compacted(frame.indexes, frame.stores[number])


@kernel((Frame.type, types.int64, ROWS))
def copy_records(frame: Frame, number: int, out: np.ndarray) -> None:
    store = frame.stores[number]
    slot, place = store.oldest, 0
    while slot >= 0:
        row = row_at(store, slot)
        for word in range(store.record_words):
            out[place, word] = row[word]
        place += 1
        slot = neighbours_of(store, row).newer


@kernel((Frame.type, types.int64, ROWS, types.int64))
def take_records(frame: Frame, number: int, records: np.ndarray, oldest: int) -> None:
    store, first = frame.stores[number], Words(address(records))
    for k in range(records.shape[0]):
        add_row(frame.indexes, store, first.after(k * records.shape[1]), oldest)


@kernel((Frame.type, types.int64, ROWS, types.int64))
def hashes(frame: Frame, number: int, records: np.ndarray, left_out: int) -> np.ndarray:
    """The hash of the key of each record, without its first `left_out` words."""
    index = frame.indexes[number]
    out, base = np.empty(records.shape[0], np.int64), frame.stores[index.store].base
    first = Words(address(records))
    for k in range(records.shape[0]):
        out[k] = hash_key(first.after(k * records.shape[1] - left_out), base, index)
    return out


@kernel((Frame.type, types.int64, WORDS))
def add_spilled_keys(frame: Frame, number: int, keys: np.ndarray) -> None:
    """Add keys, which are hashed already, to the filter of an index."""
    filter_ = frame.indexes[number].spilled
    for k in range(keys.shape[0]):
        add_key(filter_, keys[k])
