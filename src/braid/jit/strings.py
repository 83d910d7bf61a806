"""Strings inside kernels: codes into a pool of UTF-8 bytes, and an interning hash table.

A pool is described to generated code by the address of two words: the address of the offsets
(code c has bytes offsets[c] .. offsets[c+1]) and the address of the bytes.
"""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel, load_byte, load_int


@kernel()
def string_start(strings: int, code: int) -> int:
    return load_int(load_int(strings, 0), code)


@kernel()
def string_size(strings: int, code: int) -> int:
    offsets = load_int(strings, 0)
    return load_int(offsets, code + 1) - load_int(offsets, code)


@kernel()
def string_compare(strings: int, a: int, b: int) -> int:
    """Less than, equal to or greater than 0, by bytes, which is the order of code points."""
    if a == b:
        return 0
    data = load_int(strings, 1)
    x = data + string_start(strings, a)
    y = data + string_start(strings, b)
    n, m = string_size(strings, a), string_size(strings, b)
    for k in range(min(n, m)):
        p, q = load_byte(x, k), load_byte(y, k)
        if p != q:
            return -1 if p < q else 1
    return n - m


@kernel()
def string_length(strings: int, code: int) -> int:
    """In characters: every byte that does not continue one."""
    base = load_int(strings, 1) + string_start(strings, code)
    count = 0
    for k in range(string_size(strings, code)):
        if (load_byte(base, k) & 0xC0) != 0x80:
            count += 1
    return count


@kernel()
def _matches_at(strings: int, text: int, pattern: int, at: int) -> bool:
    data = load_int(strings, 1)
    x = data + string_start(strings, text) + at
    y = data + string_start(strings, pattern)
    for k in range(string_size(strings, pattern)):
        if load_byte(x, k) != load_byte(y, k):
            return False
    return True


@kernel()
def string_starts_with(strings: int, text: int, pattern: int) -> bool:
    if string_size(strings, pattern) > string_size(strings, text):
        return False
    return _matches_at(strings, text, pattern, 0)


@kernel()
def string_ends_with(strings: int, text: int, pattern: int) -> bool:
    rest = string_size(strings, text) - string_size(strings, pattern)
    return rest >= 0 and _matches_at(strings, text, pattern, rest)


@kernel()
def string_contains(strings: int, text: int, pattern: int) -> bool:
    rest = string_size(strings, text) - string_size(strings, pattern)
    for at in range(rest + 1):
        if _matches_at(strings, text, pattern, at):
            return True
    return False


@kernel()
def _next_character(base: int, at: int, size: int) -> int:
    at += 1
    while at < size and (load_byte(base, at) & 0xC0) == 0x80:
        at += 1
    return at


@kernel()
def like_bytes(x: int, n: int, y: int, m: int) -> bool:
    """Whether n bytes at x are LIKE the m bytes at y."""
    i, j = np.int64(0), np.int64(0)
    star, resume = np.int64(-1), np.int64(0)
    while i < n:
        if j < m and load_byte(y, j) == 37:  # %
            star, resume = j, i
            j += 1
            continue
        if j < m and load_byte(y, j) == 95:  # _
            i = _next_character(x, i, n)
            j += 1
            continue
        literal = j
        if j < m and load_byte(y, j) == 92 and j + 1 < m:  # backslash
            literal = j + 1
        if literal < m and load_byte(x, i) == load_byte(y, literal):
            i += 1
            j = literal + 1
            continue
        if star < 0:
            return False
        resume = _next_character(x, resume, n)
        i = resume
        j = star + 1
    while j < m and load_byte(y, j) == 37:
        j += 1
    return j == m


@kernel()
def string_like(strings: int, text: int, pattern: int) -> bool:
    """SQL LIKE: `%` any characters, `_` one, backslash takes the next one literally."""
    data = load_int(strings, 1)
    x = data + string_start(strings, text)
    y = data + string_start(strings, pattern)
    n, m = string_size(strings, text), string_size(strings, pattern)
    return like_bytes(x, n, y, m)


@kernel()
def hash_bytes(data: np.ndarray, start: int, end: int) -> int:
    """FNV-1a with a final mix; never 0, which marks an empty slot."""
    value = np.uint64(0xCBF29CE484222325)
    for k in range(start, end):
        value = (value ^ np.uint64(data[k])) * np.uint64(0x100000001B3)
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xD6E8FEB86659FD93)
    value ^= value >> np.uint64(32)
    return np.int64(value | np.uint64(1))


@kernel()
def intern_strings(
    table: np.ndarray,
    offsets: np.ndarray,
    pool: np.ndarray,
    count: int,
    new_offsets: np.ndarray,
    new_data: np.ndarray,
) -> tuple[np.ndarray, int]:
    """The codes of the given strings; unknown ones are added to the pool.

    `table` holds (hash, code) pairs, open addressing, a power of two of them, at most half full
    after the call; `offsets` and `pool` have room for all given strings (the caller saw to it).
    """
    n = new_offsets.shape[0] - 1
    codes = np.empty(n, np.int64)
    mask = table.shape[0] - 1
    for i in range(n):
        start, end = new_offsets[i], new_offsets[i + 1]
        h = hash_bytes(new_data, start, end)
        at = (h >> 1) & mask
        code = -1
        while table[at, 0] != 0:
            if table[at, 0] == h:
                c = table[at, 1]
                same = offsets[c + 1] - offsets[c] == end - start
                k = 0
                while same and k < end - start:
                    same = pool[offsets[c] + k] == new_data[start + k]
                    k += 1
                if same:
                    code = c
                    break
            at = (at + 1) & mask
        if code < 0:
            code = count
            count += 1
            base = offsets[code]
            for k in range(end - start):
                pool[base + k] = new_data[start + k]
            offsets[code + 1] = base + end - start
            table[at, 0] = h
            table[at, 1] = code
        codes[i] = code
    return codes, count


@kernel()
def fill_table(table: np.ndarray, offsets: np.ndarray, pool: np.ndarray, codes: np.ndarray) -> None:
    """Enter the strings of a pool that have these codes into an empty table."""
    mask = table.shape[0] - 1
    for code in codes:
        h = hash_bytes(pool, offsets[code], offsets[code + 1])
        at = (h >> 1) & mask
        while table[at, 0] != 0:
            at = (at + 1) & mask
        table[at, 0] = h
        table[at, 1] = code


@kernel()
def hash_codes(offsets: np.ndarray, pool: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """A hash of the string of each code: the same in every process."""
    out = np.empty(codes.shape[0], np.int64)
    for k in range(codes.shape[0]):
        out[k] = hash_bytes(pool, offsets[codes[k]], offsets[codes[k] + 1])
    return out


@kernel()
def mix_codes(offsets: np.ndarray, pool: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Another hash of the string of each code, of another family: both together are an identity."""
    out = np.empty(codes.shape[0], np.int64)
    for k in range(codes.shape[0]):
        first, last = offsets[codes[k]], offsets[codes[k] + 1]
        value = np.uint64(last - first) * np.uint64(0x9E3779B97F4A7C15)
        for at in range(first, last):
            value = (value + np.uint64(pool[at]) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
            value ^= value >> np.uint64(29)
        value = (value ^ (value >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
        out[k] = np.int64(value ^ (value >> np.uint64(31)))
    return out


@kernel()
def hash_strings(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """A hash of every string, for routing: the same in every process."""
    n = offsets.shape[0] - 1
    out = np.empty(n, np.int64)
    for i in range(n):
        out[i] = hash_bytes(data, offsets[i], offsets[i + 1])
    return out
