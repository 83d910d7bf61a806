"""Records of a join with constraints, many at a time: copied, taken back, hashed."""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.runtime import ROWS, WORDS, address, kernel, load_int
from braid.operators.constraint_join.kernels.frame import INDEXES_AT, STORES_AT
from braid.operators.constraint_join.kernels.spill_filter import note_key
from braid.operators.constraint_join.kernels.store import (
    BASE,
    INDEX_STORE,
    INDEX_WORDS,
    NEWER,
    OLDEST,
    RECORD,
    STORE_WORDS,
    add_row,
    compacted,
    hash_key,
    slot_at,
)


@kernel((WORDS, types.int64))
def compact(words: np.ndarray, number: int) -> None:
    """Lay rows out anew, in order, with little room to spare."""
    frame = address(words)
    store = load_int(frame, STORES_AT) + number * (8 * STORE_WORDS)
    compacted(load_int(frame, INDEXES_AT), store)


@kernel((WORDS, types.int64, ROWS))
def copy_records(words: np.ndarray, number: int, out: np.ndarray) -> None:
    frame = address(words)
    store = load_int(frame, STORES_AT) + number * (8 * STORE_WORDS)
    slot, place, count = load_int(store, OLDEST), 0, load_int(store, RECORD)
    while slot >= 0:
        row = slot_at(store, slot)
        for word in range(count):
            out[place, word] = load_int(row, word)
        place += 1
        slot = load_int(row + 8 * count, NEWER)


@kernel((WORDS, types.int64, ROWS, types.int64))
def take_records(words: np.ndarray, number: int, records: np.ndarray, oldest: int) -> None:
    frame = address(words)
    store = load_int(frame, STORES_AT) + number * (8 * STORE_WORDS)
    at, stride = address(records), np.int64(8 * records.shape[1])
    for k in range(records.shape[0]):
        add_row(load_int(frame, INDEXES_AT), store, at + k * stride, oldest)


@kernel((WORDS, types.int64, ROWS, types.int64))
def hashes(words: np.ndarray, number: int, records: np.ndarray, left_out: int) -> np.ndarray:
    """The hash of the key of each record, of which so many words at the begin are left out."""
    frame = address(words)
    index = load_int(frame, INDEXES_AT) + number * (8 * INDEX_WORDS)
    store = load_int(frame, STORES_AT) + load_int(index, INDEX_STORE) * (8 * STORE_WORDS)
    out = np.empty(records.shape[0], np.int64)
    at, stride, base = address(records), np.int64(8 * records.shape[1]), load_int(store, BASE)
    for k in range(records.shape[0]):
        out[k] = hash_key(at + k * stride - 8 * left_out, base, index)
    return out


@kernel((WORDS, types.int64, WORDS))
def note_keys(words: np.ndarray, number: int, keys: np.ndarray) -> None:
    """Put keys, which are hashed already, into the filter of an index."""
    frame = address(words)
    index = load_int(frame, INDEXES_AT) + number * (8 * INDEX_WORDS)
    for k in range(keys.shape[0]):
        note_key(index, keys[k])
