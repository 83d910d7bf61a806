"""The different values of a column in a group, with how often each is there: a sorted multiset.

Values lie in order in *leaves* of at most LEAF of them, their numbers beside them, and a
*directory* has the first value of each leaf. A value is found by two binary searches, and what
follows it in its leaf moves by one place: for a window's worth of values that is one or two
cache misses, fewer than any tree or hash table has. The least value is the first of the first
leaf, the greatest the last of the last one.

Equal values are equal words: floats are keys (see `clauses.float_key`), in their order. Texts
are in the order of the texts if that is asked for, and of their codes otherwise.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numba import types

from braid.jit.runtime import COMPILED, kernel, load_int, store_int
from braid.jit.strings import string_compare
from braid.operators.group.kernels.layout import (
    DIRECTORY_AT,
    DIRECTORY_ROOM,
    ENTRIES,
    FLOATS,
    HIGH,
    INLINE,
    LEAF_AT,
    LEAF_FIRST,
    LEAF_ROOM,
    LEAF_SIZE,
    LEAF_WORDS,
    LEAVES,
    LIVE,
    LOW,
    MULTISET,
    MULTISETS,
    NODE,
    S_AT,
    S_KIND,
    S_MODE,
    S_NUMBER,
    STATE_COUNT,
    STATE_WORDS,
    STATES,
    STRINGS,
    TEXTS,
    V_COUNT,
    free_block,
    resize_block,
    slot_at,
)

#: Values of a leaf, at most; two neighbours that have no more than MERGED together become one.
LEAF, LEAST, FEW, MERGED = 128, 4, 32, 96
_LARGEST = np.int64(0x7FFFFFFFFFFFFFFF)

if COMPILED:
    _memmove = types.ExternalFunction("memmove", types.int64(types.int64, types.int64, types.int64))
else:

    def _memmove(target: int, source: int, size: int) -> int:
        ctypes.memmove(int(target), int(source), int(size))
        return target


@kernel()
def _move(target: int, source: int, words: int) -> None:
    """Copy words to a place that may overlap theirs."""
    if words > 0:
        _memmove(target, source, np.int64(8 * words))


@kernel()
def float_of_key(key: int) -> int:
    """The bits of the float that a key stands for: the inverse of `float_key`."""
    return key if key >= 0 else (key - np.int64(1)) ^ _LARGEST


@kernel()
def _before(a: int, b: int, texts: bool, strings: int) -> bool:
    return string_compare(strings, a, b) < 0 if texts else a < b


@kernel()
def _by_text(mode: int) -> bool:
    return (mode & TEXTS) != 0 and (mode & (LOW | HIGH)) != 0


# ---- the directory ----


@kernel()
def _leaf(state: int, number: int) -> int:
    """Where the directory describes a leaf. A single leaf is described in the group itself."""
    directory = load_int(state, DIRECTORY_AT)
    if directory == 0:
        return state + 8 * INLINE
    return directory + number * (8 * LEAF_WORDS)


@kernel()
def _leaf_for(state: int, value: int, texts: bool, strings: int) -> int:
    """The leaf that has a value or should have it: the last one that does not start after it."""
    low, high = np.int64(1), np.int64(load_int(state, LEAVES))
    while low < high:
        middle = (low + high) >> 1
        if _before(value, load_int(_leaf(state, middle), LEAF_FIRST), texts, strings):
            high = middle
        else:
            low = middle + 1
    return low - 1


@kernel()
def _new_leaf(state: int, number: int, room: int, numbers: int) -> None:
    """An empty leaf of this number; those after it have higher ones now."""
    count, places = load_int(state, LEAVES), load_int(state, DIRECTORY_ROOM)
    if count > 0 and count >= places:
        wider = max(LEAST, 2 * places)
        old = load_int(state, DIRECTORY_AT)
        new = resize_block(old, LEAF_WORDS * places, LEAF_WORDS * wider, numbers)
        if old == 0:
            _move(new, state + 8 * INLINE, LEAF_WORDS)
        store_int(state, DIRECTORY_AT, new)
        store_int(state, DIRECTORY_ROOM, wider)
    leaf = _leaf(state, number)
    _move(leaf + 8 * LEAF_WORDS, leaf, LEAF_WORDS * (count - number))
    store_int(leaf, LEAF_AT, resize_block(np.int64(0), 0, 2 * room, numbers))
    store_int(leaf, LEAF_SIZE, 0)
    store_int(leaf, LEAF_ROOM, room)
    store_int(state, LEAVES, count + 1)


@kernel()
def _drop_leaf(state: int, number: int, numbers: int) -> None:
    leaf = _leaf(state, number)
    free_block(load_int(leaf, LEAF_AT), 2 * load_int(leaf, LEAF_ROOM), numbers)
    count = load_int(state, LEAVES) - 1
    _move(leaf, leaf + 8 * LEAF_WORDS, LEAF_WORDS * (count - number))
    store_int(state, LEAVES, count)
    if count == 0:
        directory, places = load_int(state, DIRECTORY_AT), load_int(state, DIRECTORY_ROOM)
        free_block(directory, LEAF_WORDS * places, numbers)
        store_int(state, DIRECTORY_AT, 0)
        store_int(state, DIRECTORY_ROOM, 0)


# ---- leaves: values, then as many numbers, each with room for more ----


@kernel()
def _resize_leaf(leaf: int, room: int, numbers: int) -> None:
    values, size, old = (
        load_int(leaf, LEAF_AT),
        load_int(leaf, LEAF_SIZE),
        load_int(leaf, LEAF_ROOM),
    )
    if room < old:
        _move(values + 8 * room, values + 8 * old, size)
    values = resize_block(values, 2 * old, 2 * room, numbers)
    if room > old:
        _move(values + 8 * room, values + 8 * old, size)
    store_int(leaf, LEAF_AT, values)
    store_int(leaf, LEAF_ROOM, room)


@kernel()
def _place_for(leaf: int, value: int, texts: bool, strings: int) -> int:
    """Where in a leaf a value is or should be."""
    values = load_int(leaf, LEAF_AT)
    low, count = np.int64(0), np.int64(load_int(leaf, LEAF_SIZE))
    if texts:
        while count > 0:
            half = count >> 1
            if string_compare(strings, load_int(values, low + half), value) < 0:
                low, count = low + half + 1, count - half - 1
            else:
                count = half
        return low
    # Without a branch in the loop: where a value lies cannot be foretold.
    while count > 1:
        half = count >> 1
        low += half if load_int(values, low + half - 1) < value else np.int64(0)
        count -= half
    if count == 1 and load_int(values, low) < value:
        low += 1
    return low


@kernel()
def _append(leaf: int, values: int, room: int, start: int, count: int) -> None:
    """Copy values of another leaf to the end of one that has room for them."""
    target, size, own = (
        load_int(leaf, LEAF_AT),
        load_int(leaf, LEAF_SIZE),
        load_int(leaf, LEAF_ROOM),
    )
    _move(target + 8 * size, values + 8 * start, count)
    _move(target + 8 * (own + size), values + 8 * (room + start), count)
    store_int(leaf, LEAF_SIZE, size + count)
    store_int(leaf, LEAF_FIRST, load_int(target, 0))


@kernel()
def _split(state: int, number: int, numbers: int) -> None:
    """A full leaf becomes two."""
    _new_leaf(state, number + 1, LEAF, numbers)
    leaf = _leaf(state, number)
    kept = LEAF // 2
    _append(_leaf(state, number + 1), load_int(leaf, LEAF_AT), LEAF, kept, LEAF - kept)
    store_int(leaf, LEAF_SIZE, kept)


@kernel()
def _insert(leaf: int, place: int, value: int, weight: int, numbers: int) -> None:
    """A value that is not there yet, into a leaf that is not full."""
    size, room = load_int(leaf, LEAF_SIZE), load_int(leaf, LEAF_ROOM)
    if size == room:
        room = 2 * room
        _resize_leaf(leaf, room, numbers)
    values = load_int(leaf, LEAF_AT)
    for at in (values, values + 8 * room):
        _move(at + 8 * (place + 1), at + 8 * place, size - place)
    store_int(values, place, value)
    store_int(values, room + place, weight)
    store_int(leaf, LEAF_SIZE, size + 1)
    store_int(leaf, LEAF_FIRST, load_int(values, 0))


@kernel()
def _remove(state: int, number: int, place: int, numbers: int) -> None:
    """A value of a leaf; a leaf that has few then is joined to its neighbour."""
    leaf = _leaf(state, number)
    values, size, room = (
        load_int(leaf, LEAF_AT),
        load_int(leaf, LEAF_SIZE) - 1,
        load_int(leaf, LEAF_ROOM),
    )
    for at in (values, values + 8 * room):
        _move(at + 8 * place, at + 8 * (place + 1), size - place)
    store_int(leaf, LEAF_SIZE, size)
    if size == 0:
        _drop_leaf(state, number, numbers)
        return
    store_int(leaf, LEAF_FIRST, load_int(values, 0))
    if size >= FEW or 4 * size >= room:
        return
    if load_int(state, LEAVES) > 1:
        first = number if number + 1 < load_int(state, LEAVES) else number - 1
        left, right = _leaf(state, first), _leaf(state, first + 1)
        more = load_int(right, LEAF_SIZE)
        if load_int(left, LEAF_SIZE) + more <= MERGED:
            _resize_leaf(left, LEAF, numbers)
            _append(left, load_int(right, LEAF_AT), load_int(right, LEAF_ROOM), 0, more)
            _drop_leaf(state, first + 1, numbers)
    elif room > LEAST:
        _resize_leaf(leaf, room >> 1, numbers)


# ---- counting ----


@kernel()
def count_value(state: int, mode: int, value: int, weight: int, numbers: int, strings: int) -> None:
    """A value comes or goes `weight` times."""
    texts = _by_text(mode)
    if load_int(state, LEAVES) == 0:
        _new_leaf(state, np.int64(0), LEAST, numbers)
    number = _leaf_for(state, value, texts, strings)
    leaf = _leaf(state, number)
    place, values = _place_for(leaf, value, texts, strings), load_int(leaf, LEAF_AT)
    if place < load_int(leaf, LEAF_SIZE) and load_int(values, place) == value:
        _change(state, number, place, weight, numbers)
        return
    if load_int(leaf, LEAF_SIZE) == LEAF:
        _split(state, number, numbers)
        leaf = _leaf(state, _leaf_for(state, value, texts, strings))
        place = _place_for(leaf, value, texts, strings)
    _insert(leaf, place, value, weight, numbers)
    store_int(state, ENTRIES, load_int(state, ENTRIES) + 1)
    store_int(numbers, V_COUNT, load_int(numbers, V_COUNT) + 1)
    if weight > 0:
        store_int(state, LIVE, load_int(state, LIVE) + 1)


@kernel()
def _change(state: int, number: int, place: int, weight: int, numbers: int) -> None:
    """More or fewer of a value that is known."""
    leaf = _leaf(state, number)
    values, at = load_int(leaf, LEAF_AT), load_int(leaf, LEAF_ROOM) + place
    old = load_int(values, at)
    new = old + weight
    if new == 0:
        _remove(state, number, place, numbers)
        store_int(state, ENTRIES, load_int(state, ENTRIES) - 1)
        store_int(numbers, V_COUNT, load_int(numbers, V_COUNT) - 1)
    else:
        store_int(values, at, new)
    if (old > 0) != (new > 0):
        store_int(state, LIVE, load_int(state, LIVE) + (1 if new > 0 else -1))


@kernel()
def first_value(state: int, mode: int, greatest: bool) -> int:
    """The word of the least or greatest value that is there; there is one."""
    count = load_int(state, LEAVES)
    for k in range(count):
        leaf = _leaf(state, count - 1 - k if greatest else k)
        values, size = load_int(leaf, LEAF_AT), load_int(leaf, LEAF_SIZE)
        for j in range(size):
            place = size - 1 - j if greatest else j
            if load_int(values, load_int(leaf, LEAF_ROOM) + place) > 0:
                value = load_int(values, place)
                return float_of_key(value) if mode & FLOATS else value
    return np.int64(0)


@kernel()
def forget_values(state: int, numbers: int) -> None:
    """All values of a multiset go."""
    store_int(numbers, V_COUNT, load_int(numbers, V_COUNT) - load_int(state, ENTRIES))
    store_int(state, ENTRIES, 0)
    store_int(state, LIVE, 0)
    for _ in range(load_int(state, LEAVES)):
        # The last one first: nothing has to move then.
        _drop_leaf(state, load_int(state, LEAVES) - 1, numbers)


# ---- all groups ----


@kernel()
def list_values(found: np.ndarray, numbers: int, high: int, frame: int) -> None:
    """The values of all groups: slot, multiset, value, number."""
    count = 0
    for number in range(high):
        slot = slot_at(number, numbers, frame)
        if load_int(slot, NODE) < 0 or load_int(frame, MULTISETS) == 0:
            continue
        for s in range(load_int(frame, STATE_COUNT)):
            record = load_int(frame, STATES) + s * (8 * STATE_WORDS)
            if load_int(record, S_KIND) != MULTISET:
                continue
            state = slot + 8 * load_int(record, S_AT)
            for k in range(load_int(state, LEAVES)):
                leaf = _leaf(state, k)
                values, room = load_int(leaf, LEAF_AT), load_int(leaf, LEAF_ROOM)
                for place in range(load_int(leaf, LEAF_SIZE)):
                    found[count, 0] = number
                    found[count, 1] = load_int(record, S_NUMBER)
                    found[count, 2] = load_int(values, place)
                    found[count, 3] = load_int(values, room + place)
                    count += 1


@kernel()
def load_values(records: int, saved: np.ndarray, numbers: int, frame: int) -> None:
    """Count what was listed; `records` are the addresses of the states of the multisets."""
    for k in range(saved.shape[0]):
        record = load_int(records, saved[k, 1])
        state = slot_at(saved[k, 0], numbers, frame) + 8 * load_int(record, S_AT)
        mode, strings = load_int(record, S_MODE), load_int(frame, STRINGS)
        count_value(state, mode, saved[k, 2], saved[k, 3], numbers, strings)


@kernel()
def clear_values(records: int, wanted: np.ndarray, numbers: int, high: int, frame: int) -> None:
    """Empty some multisets of all groups, by their numbers."""
    for number in range(high):
        slot = slot_at(number, numbers, frame)
        if load_int(slot, NODE) >= 0:
            for k in range(wanted.shape[0]):
                record = load_int(records, wanted[k])
                forget_values(slot + 8 * load_int(record, S_AT), numbers)
