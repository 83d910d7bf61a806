"""A Bloom filter: which keys may be in a set, in a few bits for each.

A key sets five bits, or fewer, of one word. Where an error costs more than memory, a key sets bits of
two words: with two words of room for each key, one key in some millions is then found that is not in
the set, and one in ten thousand when a filter has five times the keys that it has room for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.jit.hashing import mix
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import address, kernel

#: What makes the second hash of a key.
_SECOND = np.int64(0x27D4EB2F165667C5)


@record
class BloomFilter(Record):
    """Bits of keys. A filter of zeros has no words and contains nothing."""

    words: Words
    #: The number of words, a power of two, less one; and the keys that were added.
    mask: i64
    keys: i64


@kernel()
def _bits_of(hash_: int) -> int:
    spread = mix(hash_)
    one = np.int64(1)
    bits = one << (spread & 63)
    bits |= one << ((spread >> 6) & 63)
    bits |= one << ((spread >> 12) & 63)
    bits |= one << ((spread >> 18) & 63)
    bits |= one << ((spread >> 24) & 63)
    return bits


@kernel()
def _set_bits(filter_: BloomFilter, hash_: int) -> None:
    filter_.words[(hash_ >> 20) & filter_.mask] |= _bits_of(hash_)


@kernel()
def _has_bits(filter_: BloomFilter, hash_: int) -> bool:
    bits = _bits_of(hash_)
    return (filter_.words[(hash_ >> 20) & filter_.mask] & bits) == bits


@kernel()
def add_key(filter_: BloomFilter, hash_: int) -> None:
    """Add a key."""
    _set_bits(filter_, hash_)
    filter_.keys += 1


@kernel()
def may_contain(filter_: BloomFilter, hash_: int) -> bool:
    """Whether a key may have been added."""
    return filter_.words.address != 0 and _has_bits(filter_, hash_)


@kernel()
def add_to_two_words(filter_: BloomFilter, hash_: int) -> None:
    """Add a key, with bits in two words."""
    _set_bits(filter_, hash_)
    _set_bits(filter_, mix(hash_ ^ _SECOND))
    filter_.keys += 1


@kernel()
def may_contain_in_two_words(filter_: BloomFilter, hash_: int) -> bool:
    """Whether a key may have been added with `add_to_two_words`."""
    if filter_.words.address == 0 or not _has_bits(filter_, hash_):
        return False
    return _has_bits(filter_, mix(hash_ ^ _SECOND))


def set_filter(filter_: Any, words: np.ndarray) -> None:
    """Let a filter, which is a field of an array of records, have these words and no keys.

    The array of words must live as long as the filter is used.
    """
    filter_["words"], filter_["mask"], filter_["keys"] = address(words), len(words) - 1, 0
