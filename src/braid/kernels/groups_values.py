"""The different values of a column in each group, with how often each is there.

They lie in one hash table for all groups. For min and max, those that are there are in heaps
too, one for each group and direction, and each knows its places there: so a value is found and
taken out wherever it is, and nothing stale is kept.
"""

from __future__ import annotations

import numpy as np

from braid.kernels.groups_layout import (
    ENTRIES,
    FLOATS,
    HIGH,
    HIGH_AT,
    LIVE,
    LOW,
    LOW_AT,
    MULTISETS,
    NODE,
    S_AT,
    S_MODE,
    S_NUMBER,
    STRINGS,
    TEXTS,
    V_AT,
    V_COUNT,
    V_FREE,
    V_HEADS,
    V_HIGH,
    V_MASK,
    V_ROOM,
    resize_block,
    slot_at,
)
from braid.kernels.instances import mix
from braid.kernels.memory import resized
from braid.kernels.runtime import kernel, load_int, store_int
from braid.kernels.strings import string_compare

#: A value: slot and multiset that it is of (-1: free), the value itself so that equal ones are
#: equal words (floats as keys, in order), how often it is there, the next one of its chain or the
#: next free one, its places in the heap of the lowest and in that of the highest.
ENTRY_WORDS = 6
OWNER, VALUE, NUMBER, CHAIN, LOW_PLACE, HIGH_PLACE = range(ENTRY_WORDS)
_ENTRY = 8 * ENTRY_WORDS
_LARGEST = np.int64(0x7FFFFFFFFFFFFFFF)
#: A heap gives memory back below a quarter of its room, but not below this.
_LEAST_ROOM = 4


@kernel()
def float_of_key(key: int) -> int:
    """The bits of the float that a key stands for: the inverse of `float_key`."""
    return key if key >= 0 else (key - np.int64(1)) ^ _LARGEST


@kernel()
def _bucket(owner: int, value: int, numbers: int) -> int:
    hashed = mix(np.int64(owner) * np.int64(0x1E3779B97F4A7C15) + value)
    return hashed & load_int(numbers, V_MASK)


@kernel()
def _entry(number: int, numbers: int) -> int:
    return load_int(numbers, V_AT) + number * _ENTRY


@kernel()
def _find(owner: int, value: int, numbers: int) -> int:
    entries = load_int(numbers, V_AT)
    at = load_int(load_int(numbers, V_HEADS), _bucket(owner, value, numbers))
    while at >= 0:
        entry = entries + at * _ENTRY
        if load_int(entry, VALUE) == value and load_int(entry, OWNER) == owner:
            return at
        at = load_int(entry, CHAIN)
    return np.int64(-1)


@kernel()
def _new(owner: int, value: int, numbers: int) -> int:
    number = load_int(numbers, V_FREE)
    if number >= 0:
        store_int(numbers, V_FREE, load_int(_entry(number, numbers), CHAIN))
    else:
        number = load_int(numbers, V_HIGH)
        store_int(numbers, V_HIGH, number + 1)
        room = load_int(numbers, V_ROOM)
        if number == room:
            room = max(16, room + (room >> 1))
            store_int(numbers, V_AT, resized(load_int(numbers, V_AT), room * ENTRY_WORDS))
            store_int(numbers, V_ROOM, room)
    entry = _entry(number, numbers)
    store_int(entry, OWNER, owner)
    store_int(entry, VALUE, value)
    store_int(entry, NUMBER, 0)
    store_int(entry, LOW_PLACE, -1)
    store_int(entry, HIGH_PLACE, -1)
    count = load_int(numbers, V_COUNT) + 1
    store_int(numbers, V_COUNT, count)
    if count > load_int(numbers, V_MASK):
        hang_values(2 * (load_int(numbers, V_MASK) + 1), numbers)
    else:
        _hang(number, numbers)
    return number


@kernel()
def _hang(number: int, numbers: int) -> None:
    entry, heads = _entry(number, numbers), load_int(numbers, V_HEADS)
    bucket = _bucket(load_int(entry, OWNER), load_int(entry, VALUE), numbers)
    store_int(entry, CHAIN, load_int(heads, bucket))
    store_int(heads, bucket, number)


@kernel()
def hang_values(size: int, numbers: int) -> None:
    """Hang all values into `size` new chains."""
    heads = resized(load_int(numbers, V_HEADS), size)
    store_int(numbers, V_HEADS, heads)
    store_int(numbers, V_MASK, size - 1)
    for bucket in range(size):
        store_int(heads, bucket, -1)
    for number in range(load_int(numbers, V_HIGH)):
        if load_int(_entry(number, numbers), OWNER) >= 0:
            _hang(number, numbers)


@kernel()
def _free(number: int, numbers: int) -> None:
    entry = _entry(number, numbers)
    store_int(entry, OWNER, -1)
    store_int(entry, CHAIN, load_int(numbers, V_FREE))
    store_int(numbers, V_FREE, number)
    store_int(numbers, V_COUNT, load_int(numbers, V_COUNT) - 1)


@kernel()
def _remove(number: int, numbers: int) -> None:
    entry = _entry(number, numbers)
    bucket = _bucket(load_int(entry, OWNER), load_int(entry, VALUE), numbers)
    heads = load_int(numbers, V_HEADS)
    at = load_int(heads, bucket)
    if at == number:
        store_int(heads, bucket, load_int(entry, CHAIN))
    else:
        while load_int(_entry(at, numbers), CHAIN) != number:
            at = load_int(_entry(at, numbers), CHAIN)
        store_int(_entry(at, numbers), CHAIN, load_int(entry, CHAIN))
    _free(number, numbers)


@kernel()
def count_value(slot: int, record: int, value: int, weight: int, numbers: int, frame: int) -> None:
    """A value comes or goes `weight` times in the multiset of a group that `record` describes."""
    owner = slot * load_int(frame, MULTISETS) + load_int(record, S_NUMBER)
    state = slot_at(slot, numbers, frame) + 8 * load_int(record, S_AT)
    mode, strings = load_int(record, S_MODE), load_int(frame, STRINGS)
    number = _find(owner, value, numbers)
    if number < 0:
        number = _new(owner, value, numbers)
        store_int(state, ENTRIES, load_int(state, ENTRIES) + 1)
    entry = _entry(number, numbers)
    old = load_int(entry, NUMBER)
    new = old + weight
    store_int(entry, NUMBER, new)
    live = load_int(state, LIVE)
    if old <= 0 < new:
        if mode & LOW:
            _push(state + 8 * LOW_AT, live, value, number, mode, False, numbers, strings)
        if mode & HIGH:
            _push(state + 8 * HIGH_AT, live, value, number, mode, True, numbers, strings)
        store_int(state, LIVE, live + 1)
    elif new <= 0 < old:
        if mode & LOW:
            place = load_int(entry, LOW_PLACE)
            _take(state + 8 * LOW_AT, live, place, mode, False, numbers, strings)
        if mode & HIGH:
            place = load_int(entry, HIGH_PLACE)
            _take(state + 8 * HIGH_AT, live, place, mode, True, numbers, strings)
        store_int(state, LIVE, live - 1)
    if new == 0:
        _remove(number, numbers)
        store_int(state, ENTRIES, load_int(state, ENTRIES) - 1)


# ---- heaps: pairs of a value and its number, the least (or greatest) first ----


@kernel()
def _before(a: int, b: int, mode: int, greatest: bool, strings: int) -> bool:
    if mode & TEXTS:
        order = string_compare(strings, a, b)
        return order > 0 if greatest else order < 0
    return a > b if greatest else a < b


@kernel()
def _put(heap: int, place: int, value: int, number: int, greatest: bool, numbers: int) -> None:
    store_int(heap, 2 * place, value)
    store_int(heap, 2 * place + 1, number)
    store_int(_entry(number, numbers), HIGH_PLACE if greatest else LOW_PLACE, place)


@kernel()
def _rise(
    heap: int,
    place: int,
    value: int,
    number: int,
    mode: int,
    greatest: bool,
    numbers: int,
    strings: int,
) -> None:
    """Put a value at a place or above it, where it belongs."""
    while place > 0:
        above = (place - 1) >> 1
        other = load_int(heap, 2 * above)
        if not _before(value, other, mode, greatest, strings):
            break
        _put(heap, place, other, load_int(heap, 2 * above + 1), greatest, numbers)
        place = above
    _put(heap, place, value, number, greatest, numbers)


@kernel()
def _push(
    own: int,
    size: int,
    value: int,
    number: int,
    mode: int,
    greatest: bool,
    numbers: int,
    strings: int,
) -> None:
    """One more value; `own` is where the address of the heap and its room are."""
    room = load_int(own, 1)
    if size == room:
        wider = max(_LEAST_ROOM, 2 * room)
        store_int(own, 0, resize_block(load_int(own, 0), 2 * room, 2 * wider, numbers))
        store_int(own, 1, wider)
    _rise(load_int(own, 0), size, value, number, mode, greatest, numbers, strings)


@kernel()
def _take(
    own: int, size: int, place: int, mode: int, greatest: bool, numbers: int, strings: int
) -> None:
    """One value less: the last one takes its place, and sinks or rises from there."""
    heap, last = load_int(own, 0), size - 1
    if place != last:
        value, number = load_int(heap, 2 * last), load_int(heap, 2 * last + 1)
        start = place
        while True:
            below = 2 * place + 1
            if below >= last:
                break
            other = load_int(heap, 2 * below)
            if below + 1 < last:
                right = load_int(heap, 2 * below + 2)
                if _before(right, other, mode, greatest, strings):
                    below, other = below + 1, right
            if not _before(other, value, mode, greatest, strings):
                break
            _put(heap, place, other, load_int(heap, 2 * below + 1), greatest, numbers)
            place = below
        if place == start:
            _rise(heap, place, value, number, mode, greatest, numbers, strings)
        else:
            _put(heap, place, value, number, greatest, numbers)
    room = load_int(own, 1)
    if room > _LEAST_ROOM and 4 * last < room:
        less = room >> 1
        store_int(own, 0, resize_block(heap, 2 * room, 2 * less, numbers))
        store_int(own, 1, less)


@kernel()
def first_value(state: int, mode: int, greatest: bool) -> int:
    """The word of the least or greatest value; there is one."""
    value = load_int(load_int(state, HIGH_AT if greatest else LOW_AT), 0)
    return float_of_key(value) if mode & FLOATS else value


# ---- all of them ----


@kernel()
def forget_values(numbers: int, frame: int) -> None:
    """Drop the values of groups whose slots are free."""
    multisets = load_int(frame, MULTISETS)
    if multisets == 0:
        return
    for number in range(load_int(numbers, V_HIGH)):
        owner = load_int(_entry(number, numbers), OWNER)
        if owner >= 0 and load_int(slot_at(owner // multisets, numbers, frame), NODE) < 0:
            _free(number, numbers)
    hang_values(load_int(numbers, V_MASK) + 1, numbers)


@kernel()
def codes_changed(records: int, numbers: int, frame: int) -> None:
    """Texts have other codes than before: their order is the same, not where they hash to.

    `records` are the addresses of the states of the multisets.
    """
    hang_values(load_int(numbers, V_MASK) + 1, numbers)
    multisets = load_int(frame, MULTISETS)
    for number in range(load_int(numbers, V_HIGH)):
        entry = _entry(number, numbers)
        owner = load_int(entry, OWNER)
        if owner < 0 or load_int(entry, NUMBER) <= 0:
            continue
        record = load_int(records, owner % multisets)
        state = slot_at(owner // multisets, numbers, frame) + 8 * load_int(record, S_AT)
        mode, value = load_int(record, S_MODE), load_int(entry, VALUE)
        if mode & LOW:
            store_int(load_int(state, LOW_AT), 2 * load_int(entry, LOW_PLACE), value)
        if mode & HIGH:
            store_int(load_int(state, HIGH_AT), 2 * load_int(entry, HIGH_PLACE), value)


@kernel()
def load_values(records: int, saved: np.ndarray, numbers: int, frame: int) -> None:
    """Count saved values: slot, multiset, value, number."""
    for k in range(saved.shape[0]):
        record = load_int(records, saved[k, 1])
        count_value(saved[k, 0], record, saved[k, 2], saved[k, 3], numbers, frame)
