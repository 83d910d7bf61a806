"""The distinct values of a column in a group, each with a weight: a sorted multiset.

Values lie in order in *leaves* of at most LEAF of them, beside their weights, and a *directory* has
the first value of each leaf. Two binary searches find a value, and the values after it in its leaf
move by one place: for the values of a window that is one or two cache misses, fewer than any tree
or hash table has. The least value is the first of the first leaf, the greatest the last of the last
one.

Equal values are equal words: floats are keys (see `clauses.float_key`), in their order. Texts are
in the order of the texts if min or max asks for it, and otherwise in the order of their codes.
"""

from __future__ import annotations

import ctypes

import numpy as np

from braid.jit import types
from braid.jit.records import Words
from braid.jit.runtime import COMPILED, kernel
from braid.jit.strings import string_compare
from braid.operators.group.kernels.layout import (
    FLOATS,
    HIGH,
    LOW,
    MULTISET,
    TEXTS,
    Frame,
    GroupTable,
    Leaf,
    Multiset,
    free_block,
    resize_block,
    slot_at,
    word_of,
)

#: Values of a leaf, at most; two neighbours that have no more than MERGED together become one.
LEAF, LEAST, FEW, MERGED = 128, 4, 32, 96
#: Words of a leaf in the directory.
LEAF_WORDS = Leaf.stride // 8
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
def _leaf(state: Multiset, number: int) -> Leaf:
    """A leaf in the directory. A single leaf is in the group itself."""
    return state.inline if state.directory.address == 0 else state.directory[number]


@kernel()
def _leaf_for(state: Multiset, value: int, texts: bool, strings: int) -> int:
    """The leaf that has a value or should have it: the last one that does not start after it."""
    low, high = np.int64(1), np.int64(state.leaves)
    while low < high:
        middle = (low + high) >> 1
        if _before(value, _leaf(state, middle).first, texts, strings):
            high = middle
        else:
            low = middle + 1
    return low - 1


@kernel()
def _new_leaf(state: Multiset, number: int, room: int, table: GroupTable) -> None:
    """Insert an empty leaf of this number; those after it have higher ones now."""
    count, places = state.leaves, state.directory_room
    if count > 0 and count >= places:
        wider, old = max(LEAST, 2 * places), state.directory
        new = Leaf(resize_block(old, LEAF_WORDS * places, LEAF_WORDS * wider, table))
        if old.address == 0:
            _move(new, state.inline, LEAF_WORDS)
        state.directory, state.directory_room = new, wider
    leaf = _leaf(state, number)
    _move(leaf[1], leaf, LEAF_WORDS * (count - number))
    leaf.values = Words(resize_block(0, 0, 2 * room, table))
    leaf.size, leaf.room = 0, room
    state.leaves = count + 1


@kernel()
def _drop_leaf(state: Multiset, number: int, table: GroupTable) -> None:
    leaf = _leaf(state, number)
    free_block(leaf.values, 2 * leaf.room, table)
    state.leaves -= 1
    _move(leaf, leaf[1], LEAF_WORDS * (state.leaves - number))
    if state.leaves == 0:
        free_block(Words(state.directory), LEAF_WORDS * state.directory_room, table)
        state.directory, state.directory_room = Leaf(0), 0


# ---- leaves ----


@kernel()
def _weights(leaf: Leaf) -> Words:
    return leaf.values.after(leaf.room)


@kernel()
def _resize_leaf(leaf: Leaf, room: int, table: GroupTable) -> None:
    old = leaf.room
    if room < old:
        _move(leaf.values.after(room), _weights(leaf), leaf.size)
    leaf.values = Words(resize_block(leaf.values, 2 * old, 2 * room, table))
    if room > old:
        _move(leaf.values.after(room), _weights(leaf), leaf.size)
    leaf.room = room


@kernel()
def _place_for(leaf: Leaf, value: int, texts: bool, strings: int) -> int:
    """Where in a leaf a value is or should be."""
    values = leaf.values
    low, count = np.int64(0), np.int64(leaf.size)
    if texts:
        while count > 0:
            half = count >> 1
            if string_compare(strings, values[low + half], value) < 0:
                low, count = low + half + 1, count - half - 1
            else:
                count = half
        return low
    # The loop has no branch, because where a value lies cannot be predicted.
    while count > 1:
        half = count >> 1
        low += half if values[low + half - 1] < value else np.int64(0)
        count -= half
    if count == 1 and values[low] < value:
        low += 1
    return low


@kernel()
def _append(leaf: Leaf, other: Leaf, start: int, count: int) -> None:
    """Copy values of another leaf to the end of one that has room for them."""
    size = leaf.size
    _move(leaf.values.after(size), other.values.after(start), count)
    _move(_weights(leaf).after(size), _weights(other).after(start), count)
    leaf.size = size + count
    leaf.first = leaf.values[0]


@kernel()
def _split(state: Multiset, number: int, table: GroupTable) -> None:
    """A full leaf becomes two."""
    _new_leaf(state, number + 1, LEAF, table)
    leaf, kept = _leaf(state, number), LEAF // 2
    _append(_leaf(state, number + 1), leaf, kept, LEAF - kept)
    leaf.size = kept


@kernel()
def _insert(leaf: Leaf, place: int, value: int, weight: int, table: GroupTable) -> None:
    """Insert a new value into a leaf that is not full."""
    size = leaf.size
    if size == leaf.room:
        _resize_leaf(leaf, 2 * size, table)
    values, weights = leaf.values, _weights(leaf)
    _move(values.after(place + 1), values.after(place), size - place)
    _move(weights.after(place + 1), weights.after(place), size - place)
    values[place], weights[place] = value, weight
    leaf.size, leaf.first = size + 1, values[0]


@kernel()
def _remove(state: Multiset, number: int, place: int, table: GroupTable) -> None:
    """Remove a value of a leaf; a leaf that has few then is merged with its neighbour."""
    leaf = _leaf(state, number)
    values, weights, size, room = leaf.values, _weights(leaf), leaf.size - 1, leaf.room
    _move(values.after(place), values.after(place + 1), size - place)
    _move(weights.after(place), weights.after(place + 1), size - place)
    leaf.size = size
    if size == 0:
        _drop_leaf(state, number, table)
        return
    leaf.first = values[0]
    if size >= FEW or 4 * size >= room:
        return
    if state.leaves > 1:
        first = number if number + 1 < state.leaves else number - 1
        left, right = _leaf(state, first), _leaf(state, first + 1)
        if left.size + right.size <= MERGED:
            _resize_leaf(left, LEAF, table)
            _append(left, right, 0, right.size)
            _drop_leaf(state, first + 1, table)
    elif room > LEAST:
        _resize_leaf(leaf, room >> 1, table)


# ---- counting ----


@kernel()
def count_value(
    state: Multiset, mode: int, value: int, weight: int, table: GroupTable, strings: int
) -> None:
    """A value comes or goes `weight` times."""
    texts = _by_text(mode)
    if state.leaves == 0:
        _new_leaf(state, np.int64(0), LEAST, table)
    number = _leaf_for(state, value, texts, strings)
    leaf = _leaf(state, number)
    place = _place_for(leaf, value, texts, strings)
    if place < leaf.size and leaf.values[place] == value:
        _change(state, number, place, weight, table)
        return
    if leaf.size == LEAF:
        _split(state, number, table)
        leaf = _leaf(state, _leaf_for(state, value, texts, strings))
        place = _place_for(leaf, value, texts, strings)
    _insert(leaf, place, value, weight, table)
    state.entries += 1
    table.values += 1
    if weight > 0:
        state.live += 1


@kernel()
def _change(state: Multiset, number: int, place: int, weight: int, table: GroupTable) -> None:
    """Change the weight of a value that is there."""
    weights = _weights(_leaf(state, number))
    old = weights[place]
    new = old + weight
    if new == 0:
        _remove(state, number, place, table)
        state.entries -= 1
        table.values -= 1
    else:
        weights[place] = new
    if (old > 0) != (new > 0):
        state.live += 1 if new > 0 else -1


@kernel()
def first_value(state: Multiset, mode: int, greatest: bool) -> int:
    """The word of the least or greatest value with a weight above 0; there is one."""
    for k in range(state.leaves):
        leaf = _leaf(state, state.leaves - 1 - k if greatest else k)
        weights = _weights(leaf)
        for j in range(leaf.size):
            place = leaf.size - 1 - j if greatest else j
            if weights[place] > 0:
                value = leaf.values[place]
                return float_of_key(value) if mode & FLOATS else value
    return np.int64(0)


@kernel()
def forget_values(state: Multiset, table: GroupTable) -> None:
    """Remove all values of a multiset."""
    table.values -= state.entries
    state.entries, state.live = 0, 0
    for _ in range(state.leaves):
        # The last one first: nothing has to move then.
        _drop_leaf(state, state.leaves - 1, table)


# ---- all groups ----


@kernel()
def list_values(found: np.ndarray, table: GroupTable, frame: Frame) -> None:
    """The values of all groups: slot, multiset, value, weight."""
    count = 0
    if frame.multisets == 0:
        return
    for number in range(table.high):
        slot = slot_at(number, table, frame)
        if slot.node < 0:
            continue
        for s in range(frame.state_count):
            described = frame.states[s]
            if described.kind != MULTISET:
                continue
            state = Multiset(word_of(slot, described.place))
            for k in range(state.leaves):
                leaf = _leaf(state, k)
                weights = _weights(leaf)
                for place in range(leaf.size):
                    found[count, 0] = number
                    found[count, 1] = described.multiset
                    found[count, 2] = leaf.values[place]
                    found[count, 3] = weights[place]
                    count += 1


@kernel()
def load_values(described: np.ndarray, saved: np.ndarray, table: GroupTable, frame: Frame) -> None:
    """Count what was listed; `described` are the numbers of the multisets' states."""
    for k in range(saved.shape[0]):
        multiset = frame.states[described[saved[k, 1]]]
        state = Multiset(word_of(slot_at(saved[k, 0], table, frame), multiset.place))
        count_value(state, multiset.mode, saved[k, 2], saved[k, 3], table, frame.strings)


@kernel()
def clear_values(
    described: np.ndarray, wanted: np.ndarray, table: GroupTable, frame: Frame
) -> None:
    """Empty some multisets of all groups, by their numbers."""
    for number in range(table.high):
        slot = slot_at(number, table, frame)
        if slot.node >= 0:
            for k in range(wanted.shape[0]):
                place = frame.states[described[wanted[k]]].place
                forget_values(Multiset(word_of(slot, place)), table)
