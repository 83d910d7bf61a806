"""Hashes of results, and what of them is no news."""

from __future__ import annotations

import numpy as np

from braid.kernels.instances import canonical_float, mix
from braid.kernels.runtime import WORDS, kernel

_SEED = np.int64(0x9E3779B97F4A7C)


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
        out[k] = mix(hashes[k] + mix(words[k] + _SEED))
    return out


@kernel()
def _place(hash_: int, time: int, mask: int) -> int:
    return mix(hash_ + mix(time + _SEED)) & mask


@kernel((WORDS, WORDS, WORDS, WORDS))
def drop_equal(
    hashes: np.ndarray, times: np.ndarray, going: np.ndarray, gone_at: np.ndarray
) -> np.ndarray:
    """Which of the results that come stay news: one for each that goes at its instant does not."""
    size = np.int64(16)
    while size < 2 * going.shape[0]:
        size *= 2
    table = np.full(size, -1, np.int64)
    following = np.full(going.shape[0], -1, np.int64)
    for k in range(going.shape[0]):
        place = _place(going[k], gone_at[k], size - 1)
        following[k] = table[place]
        table[place] = k
    news = np.ones(hashes.shape[0], np.bool_)
    used = np.zeros(going.shape[0], np.bool_)
    for k in range(hashes.shape[0]):
        other = table[_place(hashes[k], times[k], size - 1)]
        while other >= 0:
            if not used[other] and going[other] == hashes[k] and gone_at[other] == times[k]:
                used[other] = True
                news[k] = False
                break
            other = following[other]
    return news
