"""Bloom filters find every key that was added, and few others."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from braid.jit.bloom_filter import (
    BloomFilter,
    add_key,
    add_to_two_words,
    may_contain,
    may_contain_in_two_words,
    set_filter,
)
from braid.jit.hashing import mix

HASHES = st.integers(0, 2**63 - 1)


def made(words: int) -> tuple[BloomFilter, list[np.ndarray]]:
    """An empty filter, and the memory that it needs."""
    memory = [np.zeros(1, BloomFilter.dtype), np.zeros(words, np.int64)]
    set_filter(memory[0][0], memory[1])
    return BloomFilter.at(memory[0]), memory


@given(st.sets(HASHES), st.sampled_from([1, 2, 64]))
def test_a_key_that_was_added_is_found(keys: set[int], words: int) -> None:
    one, _memory = made(words)
    two, _others = made(words)
    for key in keys:
        add_key(one, key)
        add_to_two_words(two, key)
    assert one.keys == two.keys == len(keys)
    assert all(may_contain(one, key) and may_contain_in_two_words(two, key) for key in keys)


@given(HASHES)
def test_an_empty_filter_contains_nothing(key: int) -> None:
    filter_, _memory = made(4)
    without_words = np.zeros(1, BloomFilter.dtype)
    for empty in (filter_, BloomFilter.at(without_words)):
        assert not may_contain(empty, key)
        assert not may_contain_in_two_words(empty, key)


def test_bits_of_two_words_err_less_often() -> None:
    one, _memory = made(1024)
    two, _others = made(1024)
    for number in range(1024):
        add_key(one, mix(number) & (2**63 - 1))
        add_to_two_words(two, mix(number) & (2**63 - 1))
    others = [int(mix(number)) & (2**63 - 1) for number in range(10_000, 30_000)]
    errors = sum(may_contain(one, key) for key in others)
    errors_in_two = sum(may_contain_in_two_words(two, key) for key in others)
    assert errors_in_two <= 20 < 2000 > errors
    assert errors_in_two <= errors
