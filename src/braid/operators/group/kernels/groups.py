"""The loop of GROUP BY: deltas change groups, and at the end of an instant each group whose row
has changed emits the change.

The cost of a delta is that of finding its group and of changing each state. It does not depend on
the number of rows of the group, except for the logarithm of the distinct values in min and max.
"""

from __future__ import annotations

import numpy as np

from braid.jit.hash_table import remove_by_search
from braid.jit.hashing import canonical_float
from braid.jit.records import Floats, Words
from braid.jit.rows import is_null
from braid.jit.runtime import address, float_bits, kernel, prefetch
from braid.jit.vector import push
from braid.operators.core.kernels.clauses import float_key
from braid.operators.group.kernels import layout as at
from braid.operators.group.kernels.exact_sums import (
    add_integer,
    add_real,
    decimal_as_float,
    decimal_fits,
    integer_fits,
    is_fresh_real,
    rounded,
)
from braid.operators.group.kernels.layout import (
    AggregateDescriptor,
    Counted,
    FloatSum,
    Frame,
    GroupTable,
    IntegerSum,
    Multiset,
    Slot,
    find_group,
    free_block,
    hash_group,
    new_group,
    same_words,
    slot_at,
    word_of,
    write_key,
)
from braid.operators.group.kernels.value_multisets import count_value, first_value, forget_values

#: From so many groups on, memory is prefetched for deltas so far ahead.
_MANY, _FAR, _NEAR = 4096, 16, 8
_NO_INSTANT = np.int64(-9223372036854775808)


@kernel((Frame.type, GroupTable.type))
def follow(frame: Frame, table: GroupTable) -> None:
    """Process the deltas of a batch: pairs of a row and a node of the input, by time.

    There is room for two rows of output for each: at an instant a group emits at most that one
    row goes and another one comes, and nothing without a delta.
    """
    index, members, hashes, count = frame.index, frame.members, frame.row_hashes, frame.delta_count
    before = np.int64(-1)
    for p in range(count):
        r = index[p]
        if r != before:
            hashes[r] = write_key(_row(r, frame), _key(r, frame), frame)
            before = r
    instant = _NO_INSTANT
    for p in range(count):
        if table.count > _MANY and p + _FAR < count:
            # Many groups are in no cache: prefetch what the next deltas need.
            far, near = p + _FAR, p + _NEAR
            _fetch_head(hashes[index[far]], members[far], table, frame)
            _fetch_slot(hashes[index[near]], members[near], table, frame)
        if members[p] >= frame.output_count or frame.outputs[members[p]] < 0:
            continue
        row = _row(index[p], frame)
        if row[1] != instant:
            _end_instant(instant, table, frame)
            instant = row[1]
        node = frame.outputs[members[p]]
        if node >= 0:  # it may have stopped just now
            hashed = hash_group(hashes[index[p]], node)
            _change(row, _key(index[p], frame), hashed, node, table, frame)
    _end_instant(instant, table, frame)


@kernel()
def _row(number: int, frame: Frame) -> Words:
    return frame.rows.after(number * frame.row_words)


@kernel()
def _key(number: int, frame: Frame) -> Words:
    return frame.row_keys.after(number * frame.key_words)


@kernel()
def _head(hashed: int, member: int, table: GroupTable, frame: Frame) -> Words:
    """The head of the chain that a delta will look at."""
    node = np.int64(0)
    if member < frame.output_count:
        node = frame.outputs[member]
    return table.heads.after(hash_group(hashed, node) & table.mask)


@kernel()
def _fetch_head(hashed: int, member: int, table: GroupTable, frame: Frame) -> None:
    prefetch(_head(hashed, member, table, frame).address)


@kernel()
def _fetch_slot(hashed: int, member: int, table: GroupTable, frame: Frame) -> None:
    number = _head(hashed, member, table, frame)[0]
    if number >= 0:
        slot = slot_at(number, table, frame)
        prefetch(slot.address)
        prefetch(slot + 64)


@kernel()
def _change(
    row: Words, key: Words, hashed: int, node: int, table: GroupTable, frame: Frame
) -> None:
    """One delta of one node."""
    weight = row[frame.in_weight]
    number = find_group(hashed, node, key, table, frame)
    if number < 0:
        number = new_group(hashed, node, key, table, frame)
        if frame.always != 0:
            # The row of no rows was there before the first row came.
            slot = slot_at(number, table, frame)
            _evaluate(slot, word_of(slot, frame.image_word), frame)
            slot.shown = 1
    slot = slot_at(number, table, frame)
    slot.rows += weight
    if slot.stamp != table.stamp:
        slot.stamp = table.stamp
        push(table.touched, number)
    for s in range(frame.state_count):
        described = frame.states[s]
        if is_null(row, described.column):
            continue
        kind, word = described.kind, row[frame.in_base + described.column]
        state = word_of(slot, described.place)
        if kind == at.COUNTED:
            Counted(state).count += weight
        elif kind == at.INTEGERS:
            add_integer(IntegerSum(state), word, weight)
        elif kind == at.REALS:
            add_real(FloatSum(state), word, weight, table)
        else:
            value = float_key(word) if described.mode & at.FLOATS else word
            count_value(Multiset(state), described.mode, value, weight, table, frame.strings)


# ---- the end of an instant ----


@kernel()
def _end_instant(instant: int, table: GroupTable, frame: Frame) -> None:
    touched = table.touched
    if frame.checked != 0:
        for k in range(touched.count):
            slot = slot_at(touched.items[k], table, frame)
            if not _has_value(slot, frame):
                _stop(slot.node, instant, table, frame)
    for k in range(touched.count):
        number = touched.items[k]
        slot = slot_at(number, table, frame)
        if frame.outputs[frame.inputs[slot.node]] >= 0:
            _emit_change(slot, instant, table, frame)
            if _is_fresh(slot, table, frame):
                free_group(number, table, frame)
    touched.count = 0
    table.stamp += 1


@kernel()
def _has_value(slot: Slot, frame: Frame) -> bool:
    """Whether all sums of a group that has a row fit their types."""
    if slot.rows <= 0 and frame.always == 0:
        return True
    for a in range(frame.aggregate_count):
        kind = frame.aggregates[a].kind
        state = IntegerSum(word_of(slot, frame.aggregates[a].place))
        if kind in (at.INTEGER_SUM, at.INTEGER_MEAN):
            if state.count > 0 and not integer_fits(state):
                return False
        if kind in (at.DECIMAL_SUM, at.DECIMAL_MEAN):
            if state.count > 0 and not decimal_fits(state):
                return False
    return True


@kernel()
def _stop(node: int, instant: int, table: GroupTable, frame: Frame) -> None:
    """From now on, a node emits nothing and ignores deltas."""
    place = frame.inputs[node]
    if frame.outputs[place] >= 0:
        frame.outputs[place] = -1
        push(table.stopped, node)
        push(table.stopped, instant)


@kernel()
def _emit_change(slot: Slot, instant: int, table: GroupTable, frame: Frame) -> None:
    """The old row of a group goes and the new one comes, if they differ."""
    image, fresh = word_of(slot, frame.image_word), frame.scratch
    words = frame.out_masks + frame.aggregate_count
    shown = slot.shown != 0
    present = slot.rows > 0 or frame.always != 0
    if present:
        _evaluate(slot, fresh, frame)
        if shown and same_words(image, fresh, words):
            return
    if shown:
        _emit(slot, instant, np.int64(-1), table, frame)
    if present:
        for k in range(words):
            image[k] = fresh[k]
        _emit(slot, instant, np.int64(1), table, frame)
    slot.shown = 1 if present else 0


@kernel()
def _emit(slot: Slot, instant: int, weight: int, table: GroupTable, frame: Frame) -> None:
    """Emit the image of a slot."""
    width, base, count = frame.out_width, frame.out_base, table.out_count
    table.out_count = count + 1
    table.out_members[count] = slot.node
    out, image = table.out.after(width * count), word_of(slot, frame.image_word)
    masks, keys = frame.out_masks, frame.key_count
    key = slot.key.after(frame.key_words - keys)
    out[0], out[1] = instant, instant
    for k in range(masks):
        out[2 + k] = image[k]
    for k in range(keys):
        out[base + k] = key[k]
    for k in range(frame.aggregate_count):
        out[base + keys + k] = image[masks + k]
    out[width - 1] = weight


@kernel()
def _evaluate(slot: Slot, image: Words, frame: Frame) -> None:
    """Write the NULL masks of a group's row, and its aggregates."""
    masks, keys = frame.out_masks, frame.key_count
    key_masks = frame.key_words - keys
    for k in range(masks):
        image[k] = slot.key[k] if k < key_masks else np.int64(0)
    for a in range(frame.aggregate_count):
        described = frame.aggregates[a]
        kind, state = described.kind, word_of(slot, described.place)
        if kind == at.ROWS_COUNTED:
            image[masks + a] = slot.rows
        elif kind == at.VALUES_COUNTED:
            image[masks + a] = Counted(state).count
        elif kind == at.DIFFERENT_COUNTED:
            image[masks + a] = Multiset(state).live
        elif (Multiset(state).live if kind >= at.LEAST else Counted(state).count) <= 0:
            image[masks + a] = 0
            column = keys + a
            image[column >> 6] |= np.int64(1) << np.int64(column & 63)
        else:
            image[masks + a] = _value(state, described, image.after(masks + a))


@kernel()
def _value(state: Words, described: AggregateDescriptor, place: Words) -> int:
    """The word of an aggregate of some values. Its place is free to use until then."""
    kind = described.kind
    if kind in (at.LEAST, at.GREATEST):
        return first_value(Multiset(state), described.mode, kind == at.GREATEST)
    if kind in (at.INTEGER_SUM, at.DECIMAL_SUM):
        return IntegerSum(state).low
    if kind == at.REAL_SUM:
        return rounded(FloatSum(state))
    return canonical_float(float_bits(_mean(state, described, place)))


@kernel()
def _mean(state: Words, described: AggregateDescriptor, place: Words) -> float:
    count = np.float64(Counted(state).count)
    if described.kind == at.INTEGER_MEAN:
        return np.float64(IntegerSum(state).low) / count
    if described.kind == at.DECIMAL_MEAN:
        return decimal_as_float(IntegerSum(state).low, described.unit) / count
    place[0] = rounded(FloatSum(state))
    return Floats(place)[0] / count


@kernel()
def _is_fresh(slot: Slot, table: GroupTable, frame: Frame) -> bool:
    """Whether a group is as if nothing had ever come, so that it can be freed.

    A group without rows may still differ from that, if rows went that had never come.
    """
    if slot.rows != 0:
        return False
    for s in range(frame.state_count):
        kind, state = frame.states[s].kind, word_of(slot, frame.states[s].place)
        if kind == at.REALS:
            if not is_fresh_real(FloatSum(state), table):
                return False
        elif kind == at.MULTISET:
            if Multiset(state).entries != 0:
                return False
        elif Counted(state).count != 0:
            return False
        elif kind == at.INTEGERS:
            if IntegerSum(state).low != 0 or IntegerSum(state).high != 0:
                return False
    return True


# ---- all groups ----


@kernel()
def free_group(number: int, table: GroupTable, frame: Frame) -> None:
    """Free a slot and the memory that it holds elsewhere."""
    slot = slot_at(number, table, frame)
    remove_by_search(table, number)
    for s in range(frame.state_count):
        kind, state = frame.states[s].kind, word_of(slot, frame.states[s].place)
        if kind == at.REALS and FloatSum(state).base == at.WIDE:
            free_block(Words(FloatSum(state).words[0]), at.WIDE_WORDS, table)
        if kind == at.MULTISET:
            forget_values(Multiset(state), table)
    slot.node, slot.next = -1, table.free
    table.free = number
    table.count -= 1


@kernel()
def purge(frame_words: np.ndarray, table_words: np.ndarray, gone: np.ndarray) -> None:
    """Free the groups of nodes, by whether each is gone."""
    frame, table = Frame(address(frame_words)), GroupTable(address(table_words))
    for number in range(table.high):
        node = slot_at(number, table, frame).node
        if node >= 0 and gone[node]:
            free_group(number, table, frame)


@kernel()
def release_all(frame_words: np.ndarray, table_words: np.ndarray) -> None:
    """Free all groups."""
    frame, table = Frame(address(frame_words)), GroupTable(address(table_words))
    for number in range(table.high):
        if slot_at(number, table, frame).node >= 0:
            free_group(number, table, frame)
