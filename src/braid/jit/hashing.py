"""Hashes of words."""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel

_NAN = np.int64(0x7FF8000000000000)
_NEGATIVE_ZERO = np.int64(-9223372036854775808)


@kernel()
def mix(value: int) -> int:
    """A finaliser that spreads every bit (splitmix64)."""
    z = np.uint64(np.int64(value))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


@kernel()
def canonical_float(word: int) -> int:
    """One word for every NaN and for both zeros, so that equal floats have equal words."""
    if word == _NEGATIVE_ZERO:
        return np.int64(0)
    exponent = word & np.int64(0x7FF0000000000000)
    if exponent == np.int64(0x7FF0000000000000) and (word & np.int64(0x000FFFFFFFFFFFFF)) != 0:
        return _NAN
    return word
