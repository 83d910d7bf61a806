"""The loop of GROUP BY: deltas change groups, and at the end of an instant each group whose row
is another one than before says so.

The cost of a delta is that of finding its group and of changing each state; it does not depend
on how many rows the group has, but for the logarithm of different values in min and max.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.runtime import address, float_bits, kernel, load_float, load_int, prefetch, store_int
from braid.operators.core.kernels.clauses import float_key
from braid.operators.core.kernels.instances import canonical_float, is_null
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
    find_group,
    free_block,
    hash_group,
    new_group,
    slot_at,
    write_key,
)
from braid.operators.group.kernels.value_multisets import count_value, first_value, forget_values

#: From so many groups on, deltas are looked at so far before their turn.
_MANY, _FAR, _NEAR = 4096, 16, 8
_NO_INSTANT = np.int64(-9223372036854775808)


@kernel()
def follow(
    frame_words: np.ndarray,
    number_words: np.ndarray,
    rows: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
    keys: np.ndarray,
    hashes: np.ndarray,
) -> None:
    """Work on the deltas of a batch: pairs of a row and a node of the input, by time.

    There is room for two rows of output for each: no group says more at an instant than that one
    row goes and another one comes, and none without a delta. `keys` and `hashes` have room for
    those of all rows.
    """
    frame, numbers = address(frame_words), address(number_words)
    follow_pairs(frame, numbers, rows, index, members, 0, index.shape[0], keys, hashes)


@kernel()
def follow_pairs(
    frame: int,
    numbers: int,
    rows: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
    first: int,
    last: int,
    keys: np.ndarray,
    hashes: np.ndarray,
) -> None:
    """The same for some of the pairs; only the rows that they name are looked at."""
    base, stride = address(rows), np.int64(8 * rows.shape[1])
    nodes, node_count = load_int(frame, at.MAP), load_int(frame, at.MAP_SIZE)
    in_base, weight_word = load_int(frame, at.IN_BASE), load_int(frame, at.IN_WEIGHT)
    key_size = np.int64(8 * load_int(frame, at.KEY_WORDS))
    first_key, before = address(keys), np.int64(-1)
    for p in range(first, last):
        r = np.int64(index[p])
        if r != before:
            hashes[r] = write_key(base + r * stride, in_base, first_key + r * key_size, frame)
            before = r
    instant = _NO_INSTANT
    for p in range(first, last):
        if load_int(numbers, at.G_COUNT) > _MANY and p + _FAR < last:
            # Many groups are in no cache: have what will be needed brought there.
            far, near = p + _FAR, p + _NEAR
            _fetch_head(hashes[index[far]], np.int64(members[far]), numbers, frame)
            _fetch_slot(hashes[index[near]], np.int64(members[near]), numbers, frame)
        if members[p] >= node_count or load_int(nodes, np.int64(members[p])) < 0:
            continue
        r = np.int64(index[p])
        row = base + r * stride
        if load_int(row, 1) != instant:
            _end_instant(instant, numbers, frame)
            instant = load_int(row, 1)
        node = load_int(nodes, np.int64(members[p]))
        if node >= 0:  # it may have stopped just now
            key, weight = first_key + r * key_size, load_int(row, weight_word)
            hashed = hash_group(hashes[r], node)
            _change(row, in_base, key, hashed, node, weight, numbers, frame)
    _end_instant(instant, numbers, frame)


@kernel()
def _bucket(hashed: int, member: int, numbers: int, frame: int) -> int:
    """Where the head of a chain is that a delta will look at."""
    node = np.int64(0)
    if member < load_int(frame, at.MAP_SIZE):
        node = load_int(load_int(frame, at.MAP), member)
    place = hash_group(hashed, node) & load_int(numbers, at.G_MASK)
    return load_int(numbers, at.G_HEADS) + 8 * place


@kernel()
def _fetch_head(hashed: int, member: int, numbers: int, frame: int) -> None:
    prefetch(_bucket(hashed, member, numbers, frame))


@kernel()
def _fetch_slot(hashed: int, member: int, numbers: int, frame: int) -> None:
    number = load_int(_bucket(hashed, member, numbers, frame), 0)
    if number >= 0:
        slot = slot_at(number, numbers, frame)
        prefetch(slot)
        prefetch(slot + 64)


@kernel()
def _change(
    row: int, base: int, key: int, hashed: int, node: int, weight: int, numbers: int, frame: int
) -> None:
    """One delta of one node."""
    number = find_group(hashed, node, key, numbers, frame)
    if number < 0:
        number = new_group(hashed, node, key, numbers, frame)
        if load_int(frame, at.ALWAYS) != 0:
            # Its row was there before its first one came: of nothing.
            slot = slot_at(number, numbers, frame)
            _evaluate(slot, slot + 8 * load_int(frame, at.IMAGE_WORD), frame)
            store_int(slot, at.SHOWN, 1)
    slot = slot_at(number, numbers, frame)
    store_int(slot, at.COUNT, load_int(slot, at.COUNT) + weight)
    if load_int(slot, at.STAMP) != load_int(numbers, at.STAMPS):
        store_int(slot, at.STAMP, load_int(numbers, at.STAMPS))
        _touch(number, numbers)
    for s in range(load_int(frame, at.STATE_COUNT)):
        record = load_int(frame, at.STATES) + s * (8 * at.STATE_WORDS)
        column = load_int(record, at.S_COLUMN)
        if is_null(row, column):
            continue
        kind, word = load_int(record, at.S_KIND), load_int(row, base + column)
        state = slot + 8 * load_int(record, at.S_AT)
        if kind == at.COUNTED:
            store_int(state, at.N, load_int(state, at.N) + weight)
        elif kind == at.INTEGERS:
            add_integer(state, word, weight)
        elif kind == at.REALS:
            add_real(state, word, weight, numbers)
        else:
            value = float_key(word) if load_int(record, at.S_MODE) & at.FLOATS else word
            mode, strings = load_int(record, at.S_MODE), load_int(frame, at.STRINGS)
            count_value(state, mode, value, weight, numbers, strings)


@kernel()
def _touch(number: int, numbers: int) -> None:
    count, room = load_int(numbers, at.TOUCHED), load_int(numbers, at.TOUCHED_ROOM)
    if count == room:
        room = max(64, 2 * room)
        store_int(numbers, at.TOUCHED_AT, resized(load_int(numbers, at.TOUCHED_AT), room))
        store_int(numbers, at.TOUCHED_ROOM, room)
    store_int(load_int(numbers, at.TOUCHED_AT), count, number)
    store_int(numbers, at.TOUCHED, count + 1)


# ---- the end of an instant ----


@kernel()
def _end_instant(instant: int, numbers: int, frame: int) -> None:
    count = load_int(numbers, at.TOUCHED)
    if load_int(frame, at.CHECKED) != 0:
        for k in range(count):
            slot = slot_at(load_int(load_int(numbers, at.TOUCHED_AT), k), numbers, frame)
            if not _has_value(slot, frame):
                _stop(load_int(slot, at.NODE), instant, numbers, frame)
    for k in range(count):
        number = load_int(load_int(numbers, at.TOUCHED_AT), k)
        slot = slot_at(number, numbers, frame)
        node = load_int(slot, at.NODE)
        if load_int(load_int(frame, at.MAP), load_int(load_int(frame, at.INPUTS), node)) >= 0:
            _put_out(slot, node, instant, numbers, frame)
            if _is_fresh(slot, numbers, frame):
                free_group(number, numbers, frame)
    store_int(numbers, at.TOUCHED, 0)
    store_int(numbers, at.STAMPS, load_int(numbers, at.STAMPS) + 1)


@kernel()
def _has_value(slot: int, frame: int) -> bool:
    """Whether all sums of a group that is there fit their types."""
    if load_int(slot, at.COUNT) <= 0 and load_int(frame, at.ALWAYS) == 0:
        return True
    for a in range(load_int(frame, at.AGGREGATE_COUNT)):
        record = load_int(frame, at.AGGREGATES) + a * (8 * at.AGGREGATE_WORDS)
        kind, state = load_int(record, at.A_KIND), slot + 8 * load_int(record, at.A_AT)
        if kind in (at.INTEGER_SUM, at.INTEGER_MEAN):
            if load_int(state, at.N) > 0 and not integer_fits(state):
                return False
        if kind in (at.DECIMAL_SUM, at.DECIMAL_MEAN):
            if load_int(state, at.N) > 0 and not decimal_fits(state):
                return False
    return True


@kernel()
def _stop(node: int, instant: int, numbers: int, frame: int) -> None:
    """A node puts out nothing any more, and looks at no delta."""
    place = load_int(load_int(frame, at.INPUTS), node)
    if load_int(load_int(frame, at.MAP), place) < 0:
        return
    store_int(load_int(frame, at.MAP), place, -1)
    count, room = load_int(numbers, at.STOPPED), load_int(numbers, at.STOPPED_ROOM)
    if count == room:
        room = max(8, 2 * room)
        store_int(numbers, at.STOPPED_AT, resized(load_int(numbers, at.STOPPED_AT), 2 * room))
        store_int(numbers, at.STOPPED_ROOM, room)
    store_int(load_int(numbers, at.STOPPED_AT), 2 * count, node)
    store_int(load_int(numbers, at.STOPPED_AT), 2 * count + 1, instant)
    store_int(numbers, at.STOPPED, count + 1)


@kernel()
def _put_out(slot: int, node: int, instant: int, numbers: int, frame: int) -> None:
    """The old row of a group goes and the new one comes, if they differ."""
    image = slot + 8 * load_int(frame, at.IMAGE_WORD)
    fresh = load_int(frame, at.SCRATCH)
    words = load_int(frame, at.OUT_MASKS) + load_int(frame, at.AGGREGATE_COUNT)
    shown = load_int(slot, at.SHOWN) != 0
    present = load_int(slot, at.COUNT) > 0 or load_int(frame, at.ALWAYS) != 0
    if present:
        _evaluate(slot, fresh, frame)
        if shown:
            same = True
            for k in range(words):
                if load_int(image, k) != load_int(fresh, k):
                    same = False
                    break
            if same:
                return
    if shown:
        _emit(slot, node, instant, np.int64(-1), numbers, frame)
    if present:
        for k in range(words):
            store_int(image, k, load_int(fresh, k))
        _emit(slot, node, instant, np.int64(1), numbers, frame)
    store_int(slot, at.SHOWN, 1 if present else 0)


@kernel()
def _emit(slot: int, node: int, instant: int, weight: int, numbers: int, frame: int) -> None:
    """Put out the row that a slot has."""
    width, base = load_int(frame, at.OUT_WIDTH), load_int(frame, at.OUT_BASE)
    count = load_int(numbers, at.OUT_COUNT)
    store_int(numbers, at.OUT_COUNT, count + 1)
    store_int(load_int(numbers, at.MEMBERS_AT), count, node)
    out = load_int(numbers, at.OUT_AT) + 8 * width * count
    image = slot + 8 * load_int(frame, at.IMAGE_WORD)
    masks, keys = load_int(frame, at.OUT_MASKS), load_int(frame, at.KEY_COUNT)
    key = slot + 8 * (at.KEY + load_int(frame, at.KEY_WORDS) - keys)
    store_int(out, 0, instant)
    store_int(out, 1, instant)
    for k in range(masks):
        store_int(out, 2 + k, load_int(image, k))
    for k in range(keys):
        store_int(out, base + k, load_int(key, k))
    for k in range(load_int(frame, at.AGGREGATE_COUNT)):
        store_int(out, base + keys + k, load_int(image, masks + k))
    store_int(out, width - 1, weight)


@kernel()
def _evaluate(slot: int, image: int, frame: int) -> None:
    """Write which columns of a group's row are NULL, and its aggregates."""
    masks, keys = load_int(frame, at.OUT_MASKS), load_int(frame, at.KEY_COUNT)
    key_masks = load_int(frame, at.KEY_WORDS) - keys
    for k in range(masks):
        store_int(image, k, load_int(slot, at.KEY + k) if k < key_masks else np.int64(0))
    for a in range(load_int(frame, at.AGGREGATE_COUNT)):
        record = load_int(frame, at.AGGREGATES) + a * (8 * at.AGGREGATE_WORDS)
        kind, state = load_int(record, at.A_KIND), slot + 8 * load_int(record, at.A_AT)
        if kind == at.ROWS_COUNTED:
            store_int(image, masks + a, load_int(slot, at.COUNT))
        elif kind == at.VALUES_COUNTED:
            store_int(image, masks + a, load_int(state, at.N))
        elif kind == at.DIFFERENT_COUNTED:
            store_int(image, masks + a, load_int(state, at.LIVE))
        elif load_int(state, at.LIVE if kind >= at.LEAST else at.N) <= 0:
            store_int(image, masks + a, 0)
            column = keys + a
            bit = np.int64(1) << np.int64(column & 63)
            store_int(image, column >> 6, load_int(image, column >> 6) | bit)
        else:
            place = image + 8 * (masks + a)
            store_int(place, 0, _value(kind, state, record, place))


@kernel()
def _value(kind: int, state: int, record: int, place: int) -> int:
    """The word of an aggregate of some values; it will be at `place`, which is free to use."""
    if kind in (at.LEAST, at.GREATEST):
        return first_value(state, load_int(record, at.A_MODE), kind == at.GREATEST)
    if kind in (at.INTEGER_SUM, at.DECIMAL_SUM):
        return load_int(state, at.SUM_LOW)
    if kind == at.REAL_SUM:
        return rounded(state)
    return canonical_float(float_bits(_mean(kind, state, record, place)))


@kernel()
def _mean(kind: int, state: int, record: int, place: int) -> float:
    count = np.float64(load_int(state, at.N))
    if kind == at.INTEGER_MEAN:
        return np.float64(load_int(state, at.SUM_LOW)) / count
    if kind == at.DECIMAL_MEAN:
        unit = load_int(record, at.A_UNIT)
        return decimal_as_float(load_int(state, at.SUM_LOW), unit) / count
    store_int(place, 0, rounded(state))
    return load_float(place, 0) / count


@kernel()
def _is_fresh(slot: int, numbers: int, frame: int) -> bool:
    """Whether a group is as if nothing had ever come: then nobody has to remember it.

    It may have no rows and still be another one, if rows went that had never come.
    """
    if load_int(slot, at.COUNT) != 0:
        return False
    for s in range(load_int(frame, at.STATE_COUNT)):
        record = load_int(frame, at.STATES) + s * (8 * at.STATE_WORDS)
        kind, state = load_int(record, at.S_KIND), slot + 8 * load_int(record, at.S_AT)
        if kind == at.REALS:
            if not is_fresh_real(state, numbers):
                return False
        elif load_int(state, at.N) != 0:  # for a multiset: ENTRIES
            return False
        elif kind == at.INTEGERS:
            if load_int(state, at.SUM_LOW) != 0 or load_int(state, at.SUM_HIGH) != 0:
                return False
    return True


# ---- all groups ----


@kernel()
def free_group(number: int, numbers: int, frame: int) -> None:
    """Give a slot back, and what it holds elsewhere."""
    slot = slot_at(number, numbers, frame)
    heads, bucket = (
        load_int(numbers, at.G_HEADS),
        load_int(slot, at.HASH) & load_int(numbers, at.G_MASK),
    )
    other = load_int(heads, bucket)
    if other == number:
        store_int(heads, bucket, load_int(slot, at.LINK))
    else:
        while load_int(slot_at(other, numbers, frame), at.LINK) != number:
            other = load_int(slot_at(other, numbers, frame), at.LINK)
        store_int(slot_at(other, numbers, frame), at.LINK, load_int(slot, at.LINK))
    for s in range(load_int(frame, at.STATE_COUNT)):
        state = load_int(frame, at.STATES) + s * (8 * at.STATE_WORDS)
        own = slot + 8 * load_int(state, at.S_AT)
        if load_int(state, at.S_KIND) == at.REALS and load_int(own, at.BASE) == at.WIDE:
            free_block(load_int(own, at.WORDS), at.WIDE_WORDS, numbers)
        if load_int(state, at.S_KIND) == at.MULTISET:
            forget_values(own, numbers)
    store_int(slot, at.NODE, -1)
    store_int(slot, at.LINK, load_int(numbers, at.G_FREE))
    store_int(numbers, at.G_FREE, number)
    store_int(numbers, at.G_COUNT, load_int(numbers, at.G_COUNT) - 1)


@kernel()
def purge(frame_words: np.ndarray, number_words: np.ndarray, gone: np.ndarray) -> None:
    """Forget the groups of nodes, by whether each is gone."""
    frame, numbers = address(frame_words), address(number_words)
    for number in range(load_int(numbers, at.G_HIGH)):
        node = load_int(slot_at(number, numbers, frame), at.NODE)
        if node >= 0 and gone[node]:
            free_group(number, numbers, frame)


@kernel()
def release_all(frame_words: np.ndarray, number_words: np.ndarray) -> None:
    """Free what single groups hold elsewhere."""
    frame, numbers = address(frame_words), address(number_words)
    for number in range(load_int(numbers, at.G_HIGH)):
        if load_int(slot_at(number, numbers, frame), at.NODE) >= 0:
            free_group(number, numbers, frame)
