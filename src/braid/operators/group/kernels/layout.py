"""The memory of GROUP BY: a hash table of groups with the states of their aggregates.

A *group* is a slot: a header, the key (its NULL masks, then its values), the *image*, which is the
row that was emitted last (its NULL masks, then the aggregates), and the *states* of its aggregates.
Aggregates of one column share a state. Slots are chained by the hash of node and key.

What has no fixed size lies elsewhere: the values of a multiset (`value_multisets.py`), and sums of
floats of very different magnitudes (`exact_sums.py`).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from braid.jit.hash_table import OUTSIDE, HashTable, Link, first, insert, rechain
from braid.jit.hashing import canonical_float, mix
from braid.jit.memory import release, resized
from braid.jit.records import Halves, Record, Words, i64, record
from braid.jit.rows import is_null
from braid.jit.runtime import kernel
from braid.jit.vector import Vector

#: Kinds of states.
COUNTED, INTEGERS, REALS, MULTISET = range(4)
#: How a multiset reads its values: as floats, as texts; whether the least or the greatest is asked.
FLOATS, TEXTS, LOW, HIGH = 1, 2, 4, 8
#: Kinds of aggregates.
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
#: A sum of floats has so many words in place, and so many elsewhere if they are too few.
SMALL, WIDE_WORDS = 4, 35
#: The base of a sum of floats that is zero, and of one whose words are elsewhere.
NONE, WIDE = -1, -2

_POSITIVE = np.int64(0x7FFFFFFFFFFFFFFF)


@record
class StateDescriptor(Record):
    """Which state a slot has, for which column of the input."""

    kind: i64
    column: i64
    #: The number of its first word in a slot.
    place: i64
    #: FLOATS, TEXTS, LOW, HIGH.
    mode: i64
    #: The number of the multiset, or -1.
    multiset: i64


@record
class AggregateDescriptor(Record):
    """How an aggregate is computed from a state."""

    kind: i64
    #: The number of its state's first word in a slot.
    place: i64
    mode: i64
    #: For decimals, the power of ten that their words are multiplied by.
    unit: i64


@record
class Counted(Record):
    """How many values are not NULL. Every state except a multiset begins with it."""

    count: i64


@record
class IntegerSum(Record):
    """A sum of integers in 128 bits."""

    count: i64
    low: i64
    high: i64


@record
class FloatSum(Record):
    """A sum of floats: NaNs and infinities are counted, the rest is an integer.

    `words` are those of the integer from word `base` on. NONE: it is zero. WIDE: the first of them
    is the address of WIDE_WORDS words, which are all that there can be.
    """

    count: i64
    nans: i64
    plus_infinite: i64
    minus_infinite: i64
    base: i64
    words: Annotated[Words, SMALL]


@record
class Leaf(Record):
    """Values in order, then as many weights; there is room for more of each."""

    first: i64
    values: Words
    size: i64
    room: i64


@record
class Multiset(Record):
    """The distinct values of a column, each with a weight."""

    #: Values with a weight other than 0, and those with one above 0.
    entries: i64
    live: i64
    #: The leaves; 0 if there is at most one, which is `inline` then.
    directory: Leaf
    leaves: i64
    directory_room: i64
    inline: Annotated[Leaf, 1]


@record
class Slot(Record):
    """A group. Image and states follow the key: the frame says at which words."""

    #: -1: the slot is free.
    node: i64
    hash: i64
    #: The next slot of the chain, or the next free one; -1 at the end.
    next: i64
    rows: i64
    #: The instant that changed the group last.
    stamp: i64
    #: Whether the image has been emitted.
    shown: i64
    key: Annotated[Words, 1]


_LINK_OFFSET = Slot.fields["hash"].offset


@record
class Frame(Record):
    """What does not change while a batch is processed."""

    #: By node of the input, the node that continues it, or -1; and the other way round.
    outputs: Words
    output_count: i64
    inputs: Words
    #: The columns of the key, and whether each is a float.
    keys: Words
    key_floats: Words
    key_count: i64
    key_words: i64
    in_base: i64
    in_weight: i64
    out_base: i64
    out_width: i64
    out_masks: i64
    image_word: i64
    aggregates: AggregateDescriptor
    aggregate_count: i64
    states: StateDescriptor
    state_count: i64
    #: The size of a slot, in words.
    slot_words: i64
    #: Whether there is a row even for a group without rows.
    always: i64
    #: Whether sums must be checked against the range of their types.
    checked: i64
    multisets: i64
    strings: i64
    scratch: Words
    #: The batch: its rows, which of them each delta is, and of which node.
    rows: Words
    row_words: i64
    index: Halves
    members: Halves
    delta_count: i64
    #: Room for the key and the hash of each row.
    row_keys: Words
    row_hashes: Words


@record
class GroupTable(HashTable):
    """All groups, and what a batch emits."""

    count: i64
    #: Slots that were ever used.
    high: i64
    free: i64
    slots: Slot
    room: i64
    #: Values in all multisets.
    values: i64
    #: Words of leaves, directories and wide sums.
    block_words: i64
    #: Groups that the present instant has changed.
    touched: Annotated[Vector, 1]
    #: The number of the present instant.
    stamp: i64
    out: Words
    out_count: i64
    out_members: Words
    #: Nodes that stopped, each with its instant.
    stopped: Annotated[Vector, 1]


@kernel()
def write_key(row: Words, key: Words, frame: Frame) -> int:
    """Write the key of an input row and return its hash. Equal keys are equal words."""
    masks = frame.key_words - frame.key_count
    for k in range(masks):
        key[k] = 0
    for k in range(frame.key_count):
        column = frame.keys[k]
        word = row[frame.in_base + column]
        if is_null(row, column):
            key[k >> 6] |= np.int64(1) << np.int64(k & 63)
            word = np.int64(0)
        elif frame.key_floats[k] != 0:
            word = canonical_float(word)
        key[masks + k] = word
    return hash_key(key, frame.key_words)


@kernel()
def hash_key(key: Words, words: int) -> int:
    value = np.int64(words)
    for k in range(words):
        value = mix(value + key[k] + np.int64(0x1E3779B97F4A7C15))
    return value


@kernel()
def hash_group(key_hash: int, node: int) -> int:
    return mix(key_hash + np.int64(node) * np.int64(0x1F83D9ABFB41BD6B)) & _POSITIVE


@kernel()
def slot_at(number: int, table: GroupTable, frame: Frame) -> Slot:
    return Slot(table.slots + 8 * number * frame.slot_words)


@kernel()
def word_of(slot: Slot, word: int) -> Words:
    """A pointer to a word of a slot."""
    return Words(slot).after(word)


@kernel()
def find_group(hash_: int, node: int, key: Words, table: GroupTable, frame: Frame) -> int:
    """The slot of a group, or -1."""
    words = frame.key_words
    number = first(table, hash_)
    while number >= 0:
        slot = slot_at(number, table, frame)
        if slot.hash == hash_ and slot.node == node and same_words(slot.key, key, words):
            return number
        number = slot.next
    return np.int64(-1)


@kernel()
def same_words(a: Words, b: Words, count: int) -> bool:
    for k in range(count):
        if a[k] != b[k]:
            return False
    return True


@kernel()
def new_group(hash_: int, node: int, key: Words, table: GroupTable, frame: Frame) -> int:
    """A slot for a group without rows; slots may have moved."""
    number = table.free
    if number >= 0:
        table.free = slot_at(number, table, frame).next
    else:
        number = table.high
        table.high = number + 1
        if number == table.room:
            table.room = max(16, number + (number >> 1))
            place_slots(Slot(resized(table.slots, table.room * frame.slot_words)), table)
    slot = slot_at(number, table, frame)
    words = Words(slot)
    for k in range(frame.slot_words):
        words[k] = 0
    slot.node, slot.hash = node, hash_
    for k in range(frame.key_words):
        slot.key[k] = key[k]
    for s in range(frame.state_count):
        state = frame.states[s]
        if state.kind == REALS:
            FloatSum(word_of(slot, state.place)).base = NONE
    table.count += 1
    if 2 * table.count > table.mask:
        rechain(table, table.high, 2 * (table.mask + 1))
    else:
        insert(table, number, hash_)
    return number


@kernel()
def place_slots(slots: Slot, table: GroupTable) -> None:
    """The slots are here now, with their links inside them."""
    table.slots, table.links = slots, Link(slots + _LINK_OFFSET)


@kernel()
def rehash(table: GroupTable, frame: Frame) -> None:
    """Compute all hashes again: the words of keys have changed."""
    for number in range(table.high):
        slot = slot_at(number, table, frame)
        slot.hash = OUTSIDE
        if slot.node >= 0:
            slot.hash = hash_group(hash_key(slot.key, frame.key_words), slot.node)
    rechain(table, table.high, table.mask + 1)


@kernel()
def resize_block(block: int, words: int, wanted: int, table: GroupTable) -> int:
    """Memory of a single group, with room for so many words instead; its size is counted."""
    table.block_words += wanted - words
    return resized(block, wanted)


@kernel()
def free_block(block: Words, words: int, table: GroupTable) -> None:
    if block.address != 0:
        table.block_words -= words
        release(block)
