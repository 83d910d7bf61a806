"""How the groups of GROUP BY lie in memory: words behind addresses.

A *group* is a slot of words: a header, the key (which columns are NULL, then the values), the row
that was put out last (which columns are NULL, then the aggregates), and the *states* of its
aggregates. Aggregates of one column share a state. Slots are chained by the hash of node and key.

What has no fixed size lies elsewhere: the different values of a column (`groups_values`), and
sums of floats that are far apart (`groups_sums`).
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.runtime import kernel, load_int, store_int
from braid.operators.core.kernels.instances import canonical_float, is_null, mix

#: The frame: what does not change while a batch is worked on. MAP says for each node of the input
#: which one continues it (-1: none), INPUTS the other way round. `*_WORD` are words of a slot.
(
    MAP,
    MAP_SIZE,
    INPUTS,
    KEYS,
    KEY_FLOATS,
    KEY_COUNT,
    KEY_WORDS,
    IN_BASE,
    IN_WEIGHT,
    OUT_BASE,
    OUT_WIDTH,
    OUT_MASKS,
    IMAGE_WORD,
    AGGREGATES,
    AGGREGATE_COUNT,
    STATES,
    STATE_COUNT,
    STATE_WORD,
    STRIDE,
    ALWAYS,
    CHECKED,
    MULTISETS,
    STRINGS,
    SCRATCH,
    FRAME,
) = range(25)

#: A slot: its node (-1: free), hash, next slot of the chain or next free one, how many rows the
#: group has, the stamp of the instant that changed it last, whether its row is out; then the key.
NODE, HASH, LINK, COUNT, STAMP, SHOWN, KEY = range(7)

#: A state: kind, column, its first word in the slot, how its values are read (FLOATS, TEXTS, LOW,
#: HIGH), and which multiset it is.
STATE_WORDS = 5
S_KIND, S_COLUMN, S_AT, S_MODE, S_NUMBER = range(STATE_WORDS)
COUNTED, INTEGERS, REALS, MULTISET = range(4)
FLOATS, TEXTS, LOW, HIGH = 1, 2, 4, 8

#: An aggregate: kind, the first word of its state in the slot, its state's mode, and for decimals
#: the power of ten that their words are multiplied by.
AGGREGATE_WORDS = 4
A_KIND, A_AT, A_MODE, A_UNIT = range(AGGREGATE_WORDS)
(
    ROWS_COUNTED,
    VALUES_COUNTED,
    DIFFERENT_COUNTED,
    INTEGER_SUM,
    DECIMAL_SUM,
    REAL_SUM,
    INTEGER_MEAN,
    DECIMAL_MEAN,
    REAL_MEAN,
    LEAST,
    GREATEST,
) = range(11)

#: Counted: values that are not NULL. Every state but a multiset begins with their number.
N = 0
#: Integers: the sum in 128 bits.
SUM_LOW, SUM_HIGH, INTEGER_WORDS = 1, 2, 3
#: Reals: how many are NaN and infinite, and a sum of SMALL words from word BASE on (NONE: it is
#: zero; WIDE: the first word is the address of WIDE_WORDS words).
NANS, PLUS_INFINITE, MINUS_INFINITE, BASE, WORDS = 1, 2, 3, 4, 5
SMALL, WIDE_WORDS = 4, 35
NONE, WIDE = -1, -2
REAL_WORDS = WORDS + SMALL
#: A multiset: values with a count other than 0, those with one above 0, the directory of its
#: leaves (0: there is one leaf at most, described INLINE), how many leaves there are, and for how
#: many the directory has room.
ENTRIES, LIVE, DIRECTORY_AT, LEAVES, DIRECTORY_ROOM, INLINE = range(6)
#: A leaf: its first value, where it is, how many values it has, for how many there is room.
LEAF_FIRST, LEAF_AT, LEAF_SIZE, LEAF_ROOM, LEAF_WORDS = range(5)
MULTISET_WORDS = INLINE + LEAF_WORDS

#: All groups: live ones, slots ever used, first free slot, where slots are and for how many there
#: is room, the heads of the chains and their number less one. Values in multisets. Words of leaves,
#: directories and wide sums. Groups that the present instant changed. What is put out: rows and their nodes,
#: and nodes that stopped.
(
    G_COUNT,
    G_HIGH,
    G_FREE,
    G_AT,
    G_ROOM,
    G_HEADS,
    G_MASK,
    V_COUNT,
    BLOCK_WORDS,
    TOUCHED_AT,
    TOUCHED,
    TOUCHED_ROOM,
    STAMPS,
    OUT_AT,
    OUT_COUNT,
    MEMBERS_AT,
    STOPPED_AT,
    STOPPED,
    STOPPED_ROOM,
    NUMBERS,
) = range(20)

_POSITIVE = np.int64(0x7FFFFFFFFFFFFFFF)


@kernel()
def write_key(row: int, base: int, key: int, frame: int) -> int:
    """Write the key of an input row: equal keys are equal words. Its hash."""
    words, columns, floats = (
        load_int(frame, KEY_WORDS),
        load_int(frame, KEYS),
        load_int(frame, KEY_FLOATS),
    )
    count = load_int(frame, KEY_COUNT)
    masks = words - count
    for k in range(masks):
        store_int(key, k, 0)
    for k in range(count):
        column = load_int(columns, k)
        word = load_int(row, base + column)
        if is_null(row, column):
            place = k >> 6
            bit = np.int64(1) << np.int64(k & 63)
            store_int(key, place, load_int(key, place) | bit)
            word = np.int64(0)
        elif load_int(floats, k) != 0:
            word = canonical_float(word)
        store_int(key, masks + k, word)
    return hash_key(key, words)


@kernel()
def hash_key(key: int, words: int) -> int:
    value = np.int64(words)
    for k in range(words):
        value = mix(value + load_int(key, k) + np.int64(0x1E3779B97F4A7C15))
    return value


@kernel()
def hash_group(key_hash: int, node: int) -> int:
    return mix(key_hash + np.int64(node) * np.int64(0x1F83D9ABFB41BD6B)) & _POSITIVE


@kernel()
def slot_at(slot: int, numbers: int, frame: int) -> int:
    return load_int(numbers, G_AT) + slot * load_int(frame, STRIDE)


@kernel()
def find_group(hash_: int, node: int, key: int, numbers: int, frame: int) -> int:
    """The slot of a group, or -1."""
    slots, stride = load_int(numbers, G_AT), load_int(frame, STRIDE)
    words = load_int(frame, KEY_WORDS)
    at = load_int(load_int(numbers, G_HEADS), hash_ & load_int(numbers, G_MASK))
    while at >= 0:
        slot = slots + at * stride
        if load_int(slot, HASH) == hash_ and load_int(slot, NODE) == node:
            same = True
            for k in range(words):
                if load_int(slot, KEY + k) != load_int(key, k):
                    same = False
                    break
            if same:
                return at
        at = load_int(slot, LINK)
    return np.int64(-1)


@kernel()
def new_group(hash_: int, node: int, key: int, numbers: int, frame: int) -> int:
    """A slot for a group without rows; slots may have moved."""
    stride = load_int(frame, STRIDE)
    number = load_int(numbers, G_FREE)
    if number >= 0:
        slot = slot_at(number, numbers, frame)
        store_int(numbers, G_FREE, load_int(slot, LINK))
    else:
        number = load_int(numbers, G_HIGH)
        store_int(numbers, G_HIGH, number + 1)
        room = load_int(numbers, G_ROOM)
        if number == room:
            room = max(16, room + (room >> 1))
            store_int(numbers, G_AT, resized(load_int(numbers, G_AT), room * (stride >> 3)))
            store_int(numbers, G_ROOM, room)
        slot = slot_at(number, numbers, frame)
    for k in range(stride >> 3):
        store_int(slot, k, 0)
    store_int(slot, NODE, node)
    store_int(slot, HASH, hash_)
    for k in range(load_int(frame, KEY_WORDS)):
        store_int(slot, KEY + k, load_int(key, k))
    for s in range(load_int(frame, STATE_COUNT)):
        state = load_int(frame, STATES) + s * (8 * STATE_WORDS)
        if load_int(state, S_KIND) == REALS:
            store_int(slot, load_int(state, S_AT) + BASE, NONE)
    count = load_int(numbers, G_COUNT) + 1
    store_int(numbers, G_COUNT, count)
    if 2 * count > load_int(numbers, G_MASK):
        hang_groups(2 * (load_int(numbers, G_MASK) + 1), numbers, frame)
    else:
        _hang(number, slot, numbers)
    return number


@kernel()
def _hang(number: int, slot: int, numbers: int) -> None:
    heads = load_int(numbers, G_HEADS)
    bucket = load_int(slot, HASH) & load_int(numbers, G_MASK)
    store_int(slot, LINK, load_int(heads, bucket))
    store_int(heads, bucket, number)


@kernel()
def hang_groups(size: int, numbers: int, frame: int) -> None:
    """Hang all groups into `size` new chains."""
    heads = resized(load_int(numbers, G_HEADS), size)
    store_int(numbers, G_HEADS, heads)
    store_int(numbers, G_MASK, size - 1)
    for bucket in range(size):
        store_int(heads, bucket, -1)
    for number in range(load_int(numbers, G_HIGH)):
        slot = slot_at(number, numbers, frame)
        if load_int(slot, NODE) >= 0:
            _hang(number, slot, numbers)


@kernel()
def hash_again(numbers: int, frame: int) -> None:
    """Keys have other words than before."""
    for number in range(load_int(numbers, G_HIGH)):
        slot = slot_at(number, numbers, frame)
        if load_int(slot, NODE) >= 0:
            hashed = hash_key(slot + 8 * KEY, load_int(frame, KEY_WORDS))
            store_int(slot, HASH, hash_group(hashed, load_int(slot, NODE)))
    hang_groups(load_int(numbers, G_MASK) + 1, numbers, frame)


@kernel()
def resize_block(at: int, words: int, wanted: int, numbers: int) -> int:
    """Memory of a single group, with room for so many words instead; its size is counted."""
    store_int(numbers, BLOCK_WORDS, load_int(numbers, BLOCK_WORDS) + wanted - words)
    return resized(at, wanted)


@kernel()
def free_block(at: int, words: int, numbers: int) -> None:
    if at != 0:
        store_int(numbers, BLOCK_WORDS, load_int(numbers, BLOCK_WORDS) - words)
        release(at)
