"""Conjunctions of tests on keys: what static predicates become, so that they are data, not code.

A *key* is the value of an attribute as a 64-bit integer whose order is the order of the values:
a comparison with a constant is then a closed interval. NULL is the smallest integer, which no
interval contains; floats are mapped so that NaN is the largest and both zeros are one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.jit.records import Words
from braid.jit.runtime import kernel

#: The key of NULL.
NULL_KEY = np.int64(-9223372036854775808)
LOWEST = np.int64(-9223372036854775807)
HIGHEST = np.int64(9223372036854775807)

#: Kinds of atoms: lo <= key <= hi; key != lo; key in sets[lo:hi] (sorted); not in it; is NULL;
#: is not NULL; a text with this code matches pattern number lo.
INTERVAL, NOT_EQUAL, IN, NOT_IN, IS_NULL, NOT_NULL, PATTERN = range(7)


class Clauses(NamedTuple):
    """Conjunctions: the atoms of clause c are those from start[c] up to start[c + 1]."""

    start: np.ndarray
    column: np.ndarray
    kind: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    sets: np.ndarray

    @property
    def total(self) -> int:
        return len(self.start) - 1


@kernel()
def float_key(word: int) -> int:
    """The key of a float, given as the word of its bits."""
    if word < 0:
        if word == NULL_KEY:  # minus zero
            return np.int64(0)
        flipped = word ^ HIGHEST
        if flipped < np.int64(-9218868437227405313):  # a NaN with the sign set
            return np.int64(0x7FF8000000000000)
        return flipped + np.int64(1)
    if word > np.int64(0x7FF0000000000000):
        return np.int64(0x7FF8000000000000)
    return word


@kernel()
def int_key(word: int) -> int:
    return max(word, LOWEST)


@kernel()
def contains(sets: Words, lo: int, hi: int, key: int) -> bool:
    """Whether the sorted words from `lo` to `hi` have the key."""
    while lo < hi:
        middle = (lo + hi) >> 1
        value = sets[middle]
        if value == key:
            return True
        if value < key:
            lo = middle + 1
        else:
            hi = middle
    return False


@kernel()
def atom_holds(kind: int, key: int, lo: int, hi: int, sets: Words) -> bool:
    """Whether an atom that is not a pattern holds."""
    if kind == INTERVAL:
        return lo <= key <= hi
    if kind == NOT_EQUAL:
        return key not in (lo, NULL_KEY)
    if kind == IN:
        return key != NULL_KEY and contains(sets, lo, hi, key)
    if kind == NOT_IN:
        return key != NULL_KEY and not contains(sets, lo, hi, key)
    if kind == IS_NULL:
        return key == NULL_KEY
    return key != NULL_KEY
