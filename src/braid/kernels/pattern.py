"""The loop of NEXT and FOLD: instances that wait for events, merged with them by time.

Instances live in slots of one array of rows and hang in chains by the hash of the values that
the predicate compares for equality (the dynamic index of the instances); whatever else the
predicate asks is left to a generated function. For each epoch, that is all events of one `end`:

1. every event of the second input is shown to the instances from before the epoch: one that
   does not overlap the event and satisfies the predicate is *affected*;
   NEXT emits the pair; FOLD, if the rebind predicate holds, makes a new instance and emits it;
2. affected instances leave;
3. new instances, of FOLD and of the first input, are installed.

So an instance made in an epoch is invisible to the other events of it, and their order does
not matter. An instance that is older than the horizon can no longer yield a wanted result and
is dropped when it is met, and in a sweep when there are many.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from braid.kernels.memory import release, resized
from braid.kernels.runtime import (
    PREDICATE_TYPE,
    ROWS,
    WORDS,
    WRITER_TYPE,
    address,
    kernel,
    load_int,
    prefetch,
    store_int,
)

#: The `end` that marks a free slot. No event can have it: ingest rejects it.
FREE = np.int64(9223372036854775807)
_NAN = np.int64(0x7FF8000000000000)
_NEGATIVE_ZERO = np.int64(-9223372036854775808)

#: Words that a slot has beyond the instance's row: the next slot of its chain, and its hash.
EXTRA = 2

#: How many events ahead memory is asked for.
AHEAD = 8

#: Indexes into `Shape.numbers`.
ITERATES, HORIZON, BUDGET, RESIDUAL, FIRST_MASKS, SECOND_MASKS, INSTANCE_MASKS, OUT_MASKS = range(8)
#: Indexes into the slots of an operator: how many instances there are, how many slots were ever
#: used, the first free one, instances after the last sweep; then where the rows are and for how
#: many there is room, and where the heads of the chains are and their number less one.
COUNT, HIGH, FREE_HEAD, SWEPT, ROWS_AT, CAPACITY, HEADS_AT, HEADS_MASK = range(8)


class Shape(NamedTuple):
    """What one pattern operator does, as arrays of column numbers.

    Keys: column numbers in the instance and in the event, and 1 where they hold floats.
    `bind`: for each instance column, the column of the first input it starts with, or -1 (NULL).
    `emit`: for each output column, the instance column (>= 0) or the event column c as -1-c.
    """

    instance_keys: np.ndarray
    event_keys: np.ndarray
    float_keys: np.ndarray
    bind: np.ndarray
    emit: np.ndarray
    numbers: np.ndarray


class Run(NamedTuple):
    """What a call gives back: `emitted` output rows at an address, and where it stopped.

    The memory of the output belongs to the caller. `stopped` is 1 if the budget was exceeded in
    the epoch `at`; outputs up to and including that epoch are there.
    """

    output: int
    emitted: int
    stopped: int
    at: int


#: A shape as plain words behind one address: calls then pass a single argument, and touch no
#: reference count. `*_BASE` is the word of the first column of a row.
(
    INSTANCE_KEYS,
    EVENT_KEYS,
    FLOAT_KEYS,
    KEYS,
    BIND,
    COLUMNS,
    EMIT,
    EMITTED,
    INSTANCE_BASE,
    EVENT_BASE,
    FIRST_BASE,
    OUT_BASE,
    LINK,
    HASH,
) = range(14)


@kernel()
def frame_of(shape: Shape) -> np.ndarray:
    numbers = shape.numbers
    frame = np.empty(14, np.int64)
    frame[INSTANCE_KEYS] = address(shape.instance_keys)
    frame[EVENT_KEYS] = address(shape.event_keys)
    frame[FLOAT_KEYS] = address(shape.float_keys)
    frame[KEYS] = shape.instance_keys.shape[0]
    frame[BIND] = address(shape.bind)
    frame[COLUMNS] = shape.bind.shape[0]
    frame[EMIT] = address(shape.emit)
    frame[EMITTED] = shape.emit.shape[0]
    frame[INSTANCE_BASE] = 2 + numbers[INSTANCE_MASKS]
    frame[EVENT_BASE] = 2 + numbers[SECOND_MASKS]
    frame[FIRST_BASE] = 2 + numbers[FIRST_MASKS]
    frame[OUT_BASE] = 2 + numbers[OUT_MASKS]
    frame[LINK] = frame[INSTANCE_BASE] + frame[COLUMNS]
    frame[HASH] = frame[LINK] + 1
    return frame


@kernel()
def mix(value: int) -> int:
    """A finaliser that spreads every bit (splitmix64)."""
    z = np.uint64(value)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


@kernel()
def canonical_float(word: int) -> int:
    """One word for every NaN and for both zeros, so that equal floats have equal words."""
    if word == _NEGATIVE_ZERO:
        return np.int64(0)
    exponent = word & np.int64(0x7FF0000000000000)
    if exponent == np.int64(0x7FF0000000000000) and (word & np.int64(0x000FFFFFFFFFFFFF)) != 0:
        return _NAN
    return word


@kernel()
def _is_null(row: int, column: int) -> bool:
    return ((load_int(row, 2 + (column >> 6)) >> (column & 63)) & 1) != 0


@kernel()
def _set_null(row: int, column: int) -> None:
    word = 2 + (column >> 6)
    store_int(row, word, load_int(row, word) | (np.int64(1) << np.int64(column & 63)))


@kernel()
def _any_null(row: int, base: int) -> bool:
    for word in range(2, base):
        if load_int(row, word) != 0:
            return True
    return False


@kernel()
def _hash(row: int, base: int, columns: int, frame: int) -> int:
    """The hash of a row's key columns, or -1 if one of them is NULL (then nothing equals it)."""
    value = np.int64(0)
    for k in range(load_int(frame, KEYS)):
        column = load_int(columns, k)
        if _is_null(row, column):
            return np.int64(-1)
        word = load_int(row, base + column)
        if load_int(load_int(frame, FLOAT_KEYS), k) != 0:
            word = canonical_float(word)
        value = mix(value + word + np.int64(0x9E3779B97F4A7C))
    return value & np.int64(0x7FFFFFFFFFFFFFFF)


@kernel()
def _hash_instance(row: int, frame: int) -> int:
    return _hash(row, load_int(frame, INSTANCE_BASE), load_int(frame, INSTANCE_KEYS), frame)


@kernel()
def _same_keys(instance: int, event: int, frame: int) -> bool:
    """Both rows are known to have no NULL key."""
    for k in range(load_int(frame, KEYS)):
        x = load_int(
            instance, load_int(frame, INSTANCE_BASE) + load_int(load_int(frame, INSTANCE_KEYS), k)
        )
        y = load_int(event, load_int(frame, EVENT_BASE) + load_int(load_int(frame, EVENT_KEYS), k))
        if x != y:
            if load_int(load_int(frame, FLOAT_KEYS), k) == 0 or canonical_float(
                x
            ) != canonical_float(y):
                return False
    return True


@kernel()
def _bind(row: int, first: int, frame: int) -> None:
    """Write the instance that an event of the first input starts."""
    store_int(row, 0, load_int(first, 0))
    store_int(row, 1, load_int(first, 1))
    for word in range(2, load_int(frame, INSTANCE_BASE)):
        store_int(row, word, 0)
    nulls = _any_null(first, load_int(frame, FIRST_BASE))
    for column in range(load_int(frame, COLUMNS)):
        source = load_int(load_int(frame, BIND), column)
        if source < 0 or (nulls and _is_null(first, source)):
            _set_null(row, column)
            store_int(row, load_int(frame, INSTANCE_BASE) + column, 0)
        else:
            word = load_int(first, load_int(frame, FIRST_BASE) + source)
            store_int(row, load_int(frame, INSTANCE_BASE) + column, word)


@kernel()
def _emit(out: int, instance: int, event: int, frame: int) -> None:
    """Write the composite of an instance and an event."""
    store_int(out, 0, load_int(instance, 0))
    store_int(out, 1, load_int(event, 1))
    for word in range(2, load_int(frame, OUT_BASE)):
        store_int(out, word, 0)
    nulls = _any_null(instance, load_int(frame, INSTANCE_BASE)) or _any_null(
        event, load_int(frame, EVENT_BASE)
    )
    for column in range(load_int(frame, EMITTED)):
        source = load_int(load_int(frame, EMIT), column)
        if source >= 0:
            word = load_int(instance, load_int(frame, INSTANCE_BASE) + source)
            null = nulls and _is_null(instance, source)
        else:
            word = load_int(event, load_int(frame, EVENT_BASE) - 1 - source)
            null = nulls and _is_null(event, -1 - source)
        store_int(out, load_int(frame, OUT_BASE) + column, word)
        if null:
            _set_null(out, column)


@kernel()
def _unlink(slot: int, rows: int, stride: int, heads: int, mask: int, frame: int) -> None:
    link = load_int(frame, LINK)
    row = rows + slot * stride
    bucket = load_int(row, load_int(frame, HASH)) & mask
    at = load_int(heads, bucket)
    if at == slot:
        store_int(heads, bucket, load_int(row, link))
        return
    while load_int(rows + at * stride, link) != slot:
        at = load_int(rows + at * stride, link)
    store_int(rows + at * stride, link, load_int(row, link))


@kernel()
def _release(slot: int, rows: int, stride: int, numbers: int, frame: int) -> None:
    row = rows + slot * stride
    store_int(row, 1, FREE)
    store_int(row, load_int(frame, LINK), load_int(numbers, FREE_HEAD))
    store_int(numbers, FREE_HEAD, slot)
    store_int(numbers, COUNT, load_int(numbers, COUNT) - 1)


@kernel()
def _link(slot: int, rows: int, stride: int, heads: int, mask: int, frame: int) -> None:
    row = rows + slot * stride
    bucket = load_int(row, load_int(frame, HASH)) & mask
    store_int(row, load_int(frame, LINK), load_int(heads, bucket))
    store_int(heads, bucket, slot)


@kernel()
def _rehash(size: int, numbers: int, stride: int, frame: int) -> None:
    """Hang all slots in use into `size` new chains."""
    heads = resized(load_int(numbers, HEADS_AT), size)
    store_int(numbers, HEADS_AT, heads)
    store_int(numbers, HEADS_MASK, size - 1)
    for bucket in range(size):
        store_int(heads, bucket, -1)
    rows = load_int(numbers, ROWS_AT)
    for slot in range(load_int(numbers, HIGH)):
        if load_int(rows + slot * stride, 1) != FREE:
            _link(slot, rows, stride, heads, size - 1, frame)


@kernel()
def _more_rows(numbers: int, stride: int) -> None:
    """Room for an eighth more slots."""
    capacity = load_int(numbers, CAPACITY)
    capacity = max(16, capacity + max(16, capacity // 8))
    store_int(numbers, ROWS_AT, resized(load_int(numbers, ROWS_AT), capacity * (stride // 8)))
    store_int(numbers, CAPACITY, capacity)


@kernel()
def _sweep(
    rows: int, stride: int, heads: int, mask: int, numbers: int, frame: int, oldest: int
) -> None:
    for slot in range(load_int(numbers, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) != FREE and load_int(row, 0) < oldest:
            _unlink(slot, rows, stride, heads, mask, frame)
            _release(slot, rows, stride, numbers, frame)
    store_int(numbers, SWEPT, load_int(numbers, COUNT))


_SHAPE = types.NamedUniTuple(WORDS, 6, Shape)


@kernel((_SHAPE, WORDS, types.int64))
def sweep(shape: Shape, slots: np.ndarray, oldest: int) -> None:
    """Drop every instance that started before `oldest`."""
    words = frame_of(shape)
    stride = 8 * (words[HASH] + 1)
    numbers, frame = address(slots), address(words)
    _sweep(slots[ROWS_AT], stride, slots[HEADS_AT], slots[HEADS_MASK], numbers, frame, oldest)


@kernel((_SHAPE, WORDS))
def rebuild(shape: Shape, slots: np.ndarray) -> None:
    """Chains and counters for the first HIGH rows at ROWS_AT, which have neither."""
    words = frame_of(shape)
    frame, numbers = address(words), address(slots)
    stride = 8 * (words[HASH] + 1)
    slots[COUNT] = 0
    slots[FREE_HEAD] = -1
    for slot in range(slots[HIGH]):
        row = slots[ROWS_AT] + slot * stride
        if load_int(row, 1) == FREE:
            store_int(row, words[LINK], slots[FREE_HEAD])
            slots[FREE_HEAD] = slot
        else:
            store_int(row, words[HASH], _hash_instance(row, frame))
            slots[COUNT] += 1
    slots[SWEPT] = slots[COUNT]
    size = np.int64(16)
    while 2 * size < slots[COUNT]:
        size *= 2
    _rehash(size, numbers, stride, frame)


@kernel((_SHAPE, WORDS, ROWS, ROWS, PREDICATE_TYPE, PREDICATE_TYPE, WRITER_TYPE, WORDS))
def follow(
    shape: Shape,
    slots: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    predicate: Any,
    rebind: Any,
    write: Any,
    context: np.ndarray,
) -> Run:
    """Run a batch of whole epochs through one pattern operator; see the module's text.

    `first` and `second` are rows sorted by `end`; `context` holds the addresses of the
    parameters and of the description of the string pool.
    """
    # Only addresses in the loop: what touches an array variable there counts references, and
    # atomic counters cost more than all the rest of it.
    numbers = address(slots)
    rows_at, capacity = slots[ROWS_AT], slots[CAPACITY]
    heads_at, mask = slots[HEADS_AT], slots[HEADS_MASK]
    words = frame_of(shape)
    frame, link, hash_ = address(words), words[LINK], words[HASH]
    stride = 8 * (hash_ + 1)
    event_base, event_keys = words[EVENT_BASE], words[EVENT_KEYS]
    iterates = shape.numbers[ITERATES] != 0
    horizon, budget = shape.numbers[HORIZON], shape.numbers[BUDGET]
    residual = shape.numbers[RESIDUAL] != 0
    parameters, strings = context[0], context[1]
    first_n, second_n = first.shape[0], second.shape[0]
    first_at, first_stride = address(first), np.int64(first.shape[1] * 8)
    second_at, second_stride = address(second), np.int64(second.shape[1] * 8)
    out_words, out_capacity = words[OUT_BASE] + words[EMITTED], np.int64(1024)
    out_at, out_stride, emitted = resized(0, out_capacity * out_words), 8 * out_words, np.int64(0)
    affected_capacity = pending_capacity = np.int64(16)
    affected_at, pending_at = resized(0, 16), resized(0, 16)
    stopped, at = np.int64(0), np.int64(0)
    f, s = 0, 0
    while f < first_n or s < second_n:
        # The next epoch: the smallest end that either input still has.
        now = FREE
        if f < first_n:
            now = load_int(first_at + f * first_stride, 1)
        if s < second_n:
            now = min(now, load_int(second_at + s * second_stride, 1))
        until = s
        while until < second_n and load_int(second_at + until * second_stride, 1) == now:
            until += 1
        alone = until - s == 1
        if until + AHEAD < second_n:
            # Memory is slow: ask for the chains of the events that come next.
            event = second_at + (until + AHEAD) * second_stride
            prefetch(heads_at + 8 * (_hash(event, event_base, event_keys, frame) & mask))
            event = second_at + (until + AHEAD // 2) * second_stride
            bucket = _hash(event, event_base, event_keys, frame) & mask
            prefetch(rows_at + load_int(heads_at, bucket) * stride)
        affected_n, pending_n = 0, 0
        for e in range(s, until):
            if load_int(numbers, COUNT) == 0:
                break
            event = second_at + e * second_stride
            h = _hash(event, event_base, event_keys, frame)
            if h < 0:
                continue
            began = load_int(event, 0)
            bucket = h & mask
            previous, slot = np.int64(-1), load_int(heads_at, bucket)
            while slot >= 0:
                instance = rows_at + slot * stride
                following = load_int(instance, link)
                prefetch(rows_at + following * stride)
                if horizon >= 0 and now - load_int(instance, 0) > horizon:
                    # Too old to give anything any more.
                    if previous < 0:
                        store_int(heads_at, bucket, following)
                    else:
                        store_int(rows_at + previous * stride, link, following)
                    _release(slot, rows_at, stride, numbers, frame)
                    slot = following
                    continue
                if (
                    load_int(instance, hash_) != h
                    or load_int(instance, 1) >= began
                    or not _same_keys(instance, event, frame)
                    or (residual and not predicate(instance, event, parameters, strings))
                ):
                    previous = slot
                    slot = following
                    continue
                # The event affects this instance.
                if emitted == out_capacity:
                    out_capacity *= 2
                    out_at = resized(out_at, out_capacity * out_words)
                goes_on = False
                if not iterates:
                    _emit(out_at + emitted * out_stride, instance, event, frame)
                    emitted += 1
                else:
                    goes_on = rebind(instance, event, parameters, strings)
                if not alone:
                    # Others of this epoch must still find it as it is: successors are made aside.
                    if goes_on:
                        made = load_int(numbers, FREE_HEAD)
                        if made >= 0:
                            store_int(numbers, FREE_HEAD, load_int(rows_at + made * stride, link))
                        else:
                            made = load_int(numbers, HIGH)
                            store_int(numbers, HIGH, made + 1)
                            if made == capacity:
                                _more_rows(numbers, stride)
                                rows_at, capacity = slots[ROWS_AT], slots[CAPACITY]
                                instance = rows_at + slot * stride
                        store_int(numbers, COUNT, load_int(numbers, COUNT) + 1)
                        successor = rows_at + made * stride
                        for word in range(link):
                            store_int(successor, word, load_int(instance, word))
                        write(instance, event, parameters, strings, successor)
                        store_int(successor, 1, now)
                        store_int(successor, hash_, _hash_instance(successor, frame))
                        _emit(out_at + emitted * out_stride, successor, event, frame)
                        emitted += 1
                        if pending_n == pending_capacity:
                            pending_capacity *= 2
                            pending_at = resized(pending_at, pending_capacity)
                        store_int(pending_at, pending_n, made)
                        pending_n += 1
                    if affected_n == affected_capacity:
                        affected_capacity *= 2
                        affected_at = resized(affected_at, affected_capacity)
                    store_int(affected_at, affected_n, slot)
                    affected_n += 1
                    previous = slot
                    slot = following
                    continue
                changed = np.int64(-1)
                if goes_on:
                    # Nobody else looks at it in this epoch: it becomes its own successor.
                    write(instance, event, parameters, strings, instance)
                    store_int(instance, 1, now)
                    _emit(out_at + emitted * out_stride, instance, event, frame)
                    emitted += 1
                    changed = _hash_instance(instance, frame)
                if changed == h:
                    previous = slot
                else:
                    if previous < 0:
                        store_int(heads_at, bucket, following)
                    else:
                        store_int(rows_at + previous * stride, link, following)
                    if changed < 0:
                        _release(slot, rows_at, stride, numbers, frame)
                    else:
                        store_int(instance, hash_, changed)
                        if pending_n == pending_capacity:
                            pending_capacity *= 2
                            pending_at = resized(pending_at, pending_capacity)
                        store_int(pending_at, pending_n, slot)
                        pending_n += 1
                slot = following
        s = until
        for k in range(affected_n):
            slot = load_int(affected_at, k)
            # Several events may have affected the same one.
            if load_int(rows_at + slot * stride, 1) != FREE:
                _unlink(slot, rows_at, stride, heads_at, mask, frame)
                _release(slot, rows_at, stride, numbers, frame)
        for k in range(pending_n):
            slot = load_int(pending_at, k)
            if load_int(rows_at + slot * stride, hash_) < 0:
                _release(slot, rows_at, stride, numbers, frame)
            else:
                _link(slot, rows_at, stride, heads_at, mask, frame)
        while f < first_n and load_int(first_at + f * first_stride, 1) == now:
            slot = load_int(numbers, FREE_HEAD)
            recycled = slot >= 0
            if not recycled:
                slot = load_int(numbers, HIGH)
                if slot == capacity:
                    _more_rows(numbers, stride)
                    rows_at, capacity = slots[ROWS_AT], slots[CAPACITY]
            instance = rows_at + slot * stride
            _bind(instance, first_at + f * first_stride, frame)
            f += 1
            h = _hash_instance(instance, frame)
            if h < 0:  # a NULL key equals nothing: this instance could never be affected
                store_int(instance, 1, FREE)
                continue
            if recycled:
                store_int(numbers, FREE_HEAD, load_int(instance, link))
            else:
                store_int(numbers, HIGH, slot + 1)
            store_int(instance, hash_, h)
            store_int(numbers, COUNT, load_int(numbers, COUNT) + 1)
            _link(slot, rows_at, stride, heads_at, mask, frame)
        count, swept = load_int(numbers, COUNT), load_int(numbers, SWEPT)
        if count > 2 * (mask + 1):
            _rehash(2 * (mask + 1), numbers, stride, frame)
            heads_at, mask = slots[HEADS_AT], slots[HEADS_MASK]
        if horizon >= 0 and (count > budget or 8 * count > 9 * swept + 8192):
            _sweep(rows_at, stride, heads_at, mask, numbers, frame, now - horizon)
            count = load_int(numbers, COUNT)
        if count > budget:
            stopped, at = np.int64(1), now
            break
    release(affected_at)
    release(pending_at)
    return Run(out_at, emitted, stopped, at)
