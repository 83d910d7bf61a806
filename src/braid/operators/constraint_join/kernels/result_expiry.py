"""Hashes of results, and which results cancel each other out."""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.hashing import canonical_float, mix
from braid.jit.row_keys import SEED
from braid.jit.runtime import ROWS, WORDS, kernel


@kernel((WORDS,))
def canonical_floats(words: np.ndarray) -> np.ndarray:
    out = np.empty(words.shape[0], np.int64)
    for k in range(words.shape[0]):
        out[k] = canonical_float(words[k])
    return out


@kernel((WORDS, WORDS))
def combined(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    out = np.empty(words.shape[0], np.int64)
    for k in range(words.shape[0]):
        out[k] = mix(hashes[k] + mix(words[k] + SEED))
    return out


@kernel()
def _place(hash_: int, time: int, mask: int) -> int:
    return mix(hash_ + mix(time + SEED)) & mask


@kernel()
def _suspects(
    hashes: np.ndarray, times: np.ndarray, going: np.ndarray, gone_at: np.ndarray
) -> np.ndarray:
    """What comes that may be equal to something that goes at its instant: by bits, so that most of
    it need not be looked up."""
    words = np.int64(64)
    while 4 * words < going.shape[0]:
        words *= 2
    bits, mask = np.zeros(words, np.int64), 64 * words - 1
    for k in range(going.shape[0]):
        place = _place(going[k], gone_at[k], mask)
        bits[place >> 6] |= np.int64(1) << np.int64(place & 63)
    found, count = np.empty(hashes.shape[0], np.int64), 0
    for k in range(hashes.shape[0]):
        place = _place(hashes[k], times[k], mask)
        found[count] = k
        count += (bits[place >> 6] >> np.int64(place & 63)) & 1
    return found[:count]


@kernel((WORDS, WORDS, WORDS, WORDS))
def drop_equal(
    hashes: np.ndarray, times: np.ndarray, going: np.ndarray, gone_at: np.ndarray
) -> np.ndarray:
    """Which of the results that come stay news: one for each that goes at its instant does not."""
    news = np.ones(hashes.shape[0], np.bool_)
    suspects = _suspects(hashes, times, going, gone_at)
    size = np.int64(16)
    while size < 2 * suspects.shape[0]:
        size *= 2
    table = np.full(size, -1, np.int64)
    following = np.full(suspects.shape[0], -1, np.int64)
    for s in range(suspects.shape[0]):
        place = _place(hashes[suspects[s]], times[suspects[s]], size - 1)
        following[s] = table[place]
        table[place] = s
    for k in range(going.shape[0]):
        s = table[_place(going[k], gone_at[k], size - 1)]
        while s >= 0:
            other = suspects[s]
            if news[other] and hashes[other] == going[k] and times[other] == gone_at[k]:
                news[other] = False
                break
            s = following[s]
    return news


@kernel((ROWS, types.Array(types.uint8, 1, "C"), types.int64))
def go_once(going: np.ndarray, gone: np.ndarray, first: int) -> np.ndarray:
    """Of entries (when, hash, number) that are due, the earliest of each number that has not gone
    before; these have gone then. `gone` is of the numbers from `first` on."""
    best = np.full(gone.shape[0], -1, np.int64)
    for k in range(going.shape[0]):
        number = going[k, 2] - first
        other = best[number]
        if gone[number] == 0 and (other < 0 or going[k, 0] < going[other, 0]):
            best[number] = k
    chosen, count = np.empty(going.shape[0], np.int64), 0
    for k in range(going.shape[0]):
        number = going[k, 2] - first
        if best[number] == k:
            chosen[count] = k
            count += 1
            gone[number] = 1
    return chosen[:count]
