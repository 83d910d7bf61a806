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
#: Indexes into `Slots.numbers`.
COUNT, HIGH, FREE_HEAD, SWEPT = range(4)


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


class Slots(NamedTuple):
    """Instances, a row and the `EXTRA` words each; the heads of the chains; counters."""

    rows: np.ndarray
    heads: np.ndarray
    numbers: np.ndarray


class Run(NamedTuple):
    """What a call gives back: the (perhaps grown) slots, output rows (the first
    `emitted` of `output`), and where it stopped.

    `stopped` is 1 if the budget was exceeded in the epoch `at`; outputs up to and including
    that epoch are there.
    """

    rows: np.ndarray
    heads: np.ndarray
    output: np.ndarray
    emitted: int
    stopped: int
    at: int


class Frame(NamedTuple):
    """A shape as plain words, so that passing it around touches no reference count.

    `*_base` is the word of the first column of a row, `link` and `hash` the extra words.
    """

    instance_keys: int
    event_keys: int
    float_keys: int
    keys: int
    bind: int
    columns: int
    emit: int
    emitted: int
    instance_base: int
    event_base: int
    first_base: int
    out_base: int
    link: int
    hash: int


@kernel()
def frame_of(shape: Shape) -> Frame:
    numbers = shape.numbers
    columns = shape.bind.shape[0]
    width = 2 + numbers[INSTANCE_MASKS] + columns
    return Frame(
        address(shape.instance_keys),
        address(shape.event_keys),
        address(shape.float_keys),
        np.int64(shape.instance_keys.shape[0]),
        address(shape.bind),
        np.int64(columns),
        address(shape.emit),
        np.int64(shape.emit.shape[0]),
        2 + numbers[INSTANCE_MASKS],
        2 + numbers[SECOND_MASKS],
        2 + numbers[FIRST_MASKS],
        2 + numbers[OUT_MASKS],
        width,
        width + 1,
    )


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
def _hash(row: int, base: int, columns: int, frame: Frame) -> int:
    """The hash of a row's key columns, or -1 if one of them is NULL (then nothing equals it)."""
    value = np.int64(0)
    for k in range(frame.keys):
        column = load_int(columns, k)
        if _is_null(row, column):
            return np.int64(-1)
        word = load_int(row, base + column)
        if load_int(frame.float_keys, k) != 0:
            word = canonical_float(word)
        value = mix(value + word + np.int64(0x9E3779B97F4A7C))
    return value & np.int64(0x7FFFFFFFFFFFFFFF)


@kernel()
def _hash_instance(row: int, frame: Frame) -> int:
    return _hash(row, frame.instance_base, frame.instance_keys, frame)


@kernel()
def _same_keys(instance: int, event: int, frame: Frame) -> bool:
    """Both rows are known to have no NULL key."""
    for k in range(frame.keys):
        x = load_int(instance, frame.instance_base + load_int(frame.instance_keys, k))
        y = load_int(event, frame.event_base + load_int(frame.event_keys, k))
        if x != y:
            if load_int(frame.float_keys, k) == 0 or canonical_float(x) != canonical_float(y):
                return False
    return True


@kernel()
def _bind(row: int, first: int, frame: Frame) -> None:
    """Write the instance that an event of the first input starts."""
    store_int(row, 0, load_int(first, 0))
    store_int(row, 1, load_int(first, 1))
    for word in range(2, frame.instance_base):
        store_int(row, word, 0)
    nulls = _any_null(first, frame.first_base)
    for column in range(frame.columns):
        source = load_int(frame.bind, column)
        if source < 0 or (nulls and _is_null(first, source)):
            _set_null(row, column)
            store_int(row, frame.instance_base + column, 0)
        else:
            word = load_int(first, frame.first_base + source)
            store_int(row, frame.instance_base + column, word)


@kernel()
def _emit(out: int, instance: int, event: int, frame: Frame) -> None:
    """Write the composite of an instance and an event."""
    store_int(out, 0, load_int(instance, 0))
    store_int(out, 1, load_int(event, 1))
    for word in range(2, frame.out_base):
        store_int(out, word, 0)
    nulls = _any_null(instance, frame.instance_base) or _any_null(event, frame.event_base)
    for column in range(frame.emitted):
        source = load_int(frame.emit, column)
        if source >= 0:
            word = load_int(instance, frame.instance_base + source)
            null = nulls and _is_null(instance, source)
        else:
            word = load_int(event, frame.event_base - 1 - source)
            null = nulls and _is_null(event, -1 - source)
        store_int(out, frame.out_base + column, word)
        if null:
            _set_null(out, column)


@kernel()
def _grown(rows: np.ndarray) -> np.ndarray:
    # Word by word: assigning a slice takes the compiler seconds, for its error messages.
    bigger = np.empty((max(16, rows.shape[0] * 2), rows.shape[1]), np.int64)
    source, target = address(rows), address(bigger)
    for word in range(rows.shape[0] * rows.shape[1]):
        store_int(target, word, load_int(source, word))
    return bigger


@kernel()
def _grown_words(words: np.ndarray) -> np.ndarray:
    bigger = np.empty(max(16, words.shape[0] * 2), np.int64)
    for k in range(words.shape[0]):
        bigger[k] = words[k]
    return bigger


@kernel()
def _no_chains(size: int) -> np.ndarray:
    heads = np.empty(size, np.int64)
    for bucket in range(size):
        heads[bucket] = -1
    return heads


@kernel()
def _unlink(slot: int, rows: np.ndarray, heads: np.ndarray, frame: Frame) -> None:
    bucket = rows[slot, frame.hash] & (heads.shape[0] - 1)
    at = heads[bucket]
    if at == slot:
        heads[bucket] = rows[slot, frame.link]
        return
    while rows[at, frame.link] != slot:
        at = rows[at, frame.link]
    rows[at, frame.link] = rows[slot, frame.link]


@kernel()
def _release(slot: int, rows: np.ndarray, numbers: np.ndarray, frame: Frame) -> None:
    rows[slot, 1] = FREE
    rows[slot, frame.link] = numbers[FREE_HEAD]
    numbers[FREE_HEAD] = slot
    numbers[COUNT] -= 1


@kernel()
def _link(slot: int, rows: np.ndarray, heads: np.ndarray, frame: Frame) -> None:
    bucket = rows[slot, frame.hash] & (heads.shape[0] - 1)
    rows[slot, frame.link] = heads[bucket]
    heads[bucket] = slot


@kernel()
def _rehashed(size: int, high: int, rows: np.ndarray, frame: Frame) -> np.ndarray:
    """New heads of `size` chains for all slots in use."""
    heads = _no_chains(size)
    for slot in range(high):
        if rows[slot, 1] != FREE:
            _link(slot, rows, heads, frame)
    return heads


@kernel()
def _sweep(
    rows: np.ndarray, heads: np.ndarray, numbers: np.ndarray, frame: Frame, oldest: int
) -> None:
    for slot in range(numbers[HIGH]):
        if rows[slot, 1] != FREE and rows[slot, 0] < oldest:
            _unlink(slot, rows, heads, frame)
            _release(slot, rows, numbers, frame)
    numbers[SWEPT] = numbers[COUNT]


_SHAPE = types.NamedUniTuple(WORDS, 6, Shape)
_SLOTS = types.NamedTuple([ROWS, WORDS, WORDS], Slots)


@kernel((_SHAPE, _SLOTS, types.int64))
def sweep(shape: Shape, slots: Slots, oldest: int) -> None:
    """Drop every instance that started before `oldest`."""
    _sweep(slots.rows, slots.heads, slots.numbers, frame_of(shape), oldest)


@kernel(WORDS(_SHAPE, ROWS, WORDS))
def rebuild(shape: Shape, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Chains and counters for rows that were read back from a snapshot."""
    frame = frame_of(shape)
    high = numbers[HIGH]
    numbers[COUNT] = 0
    numbers[FREE_HEAD] = -1
    size = 16
    while size < 2 * high:
        size *= 2
    heads = _no_chains(size)
    base, stride = address(rows), np.int64(rows.shape[1] * 8)
    for slot in range(high):
        if rows[slot, 1] == FREE:
            rows[slot, frame.link] = numbers[FREE_HEAD]
            numbers[FREE_HEAD] = slot
        else:
            rows[slot, frame.hash] = _hash_instance(base + slot * stride, frame)
            _link(slot, rows, heads, frame)
            numbers[COUNT] += 1
    numbers[SWEPT] = numbers[COUNT]
    return heads


@kernel((_SHAPE, _SLOTS, ROWS, ROWS, PREDICATE_TYPE, PREDICATE_TYPE, WRITER_TYPE, WORDS))
def follow(
    shape: Shape,
    slots: Slots,
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
    rows, heads, numbers = slots.rows, slots.heads, slots.numbers
    frame = frame_of(shape)
    iterates = shape.numbers[ITERATES] != 0
    horizon, budget = shape.numbers[HORIZON], shape.numbers[BUDGET]
    residual = shape.numbers[RESIDUAL] != 0
    parameters, strings = context[0], context[1]
    first_n, second_n = first.shape[0], second.shape[0]
    first_at, first_stride = address(first), np.int64(first.shape[1] * 8)
    second_at, second_stride = address(second), np.int64(second.shape[1] * 8)
    rows_at, stride = address(rows), np.int64(rows.shape[1] * 8)
    heads_at = address(heads)
    output = np.empty((1024, frame.out_base + frame.emitted), np.int64)
    out_at, out_stride = address(output), np.int64(output.shape[1] * 8)
    emitted = 0
    affected = np.empty(16, np.int64)
    pending = np.empty(16, np.int64)
    f, s = 0, 0
    while f < first_n or s < second_n:
        # The next epoch: the smallest end that either input still has.
        if s >= second_n or (f < first_n and first[f, 1] <= second[s, 1]):
            now = first[f, 1]
        else:
            now = second[s, 1]
        until = s
        while until < second_n and second[until, 1] == now:
            until += 1
        alone = until - s == 1
        if until + AHEAD < second_n:
            # Memory is slow: ask for the chains of the events that come next.
            event = second_at + (until + AHEAD) * second_stride
            h = _hash(event, frame.event_base, frame.event_keys, frame)
            prefetch(heads_at + 8 * (h & (heads.shape[0] - 1)))
            event = second_at + (until + AHEAD // 2) * second_stride
            h = _hash(event, frame.event_base, frame.event_keys, frame)
            prefetch(rows_at + heads[h & (heads.shape[0] - 1)] * stride)
        affected_n, pending_n = 0, 0
        for e in range(s, until):
            if numbers[COUNT] == 0:
                break
            event = second_at + e * second_stride
            h = _hash(event, frame.event_base, frame.event_keys, frame)
            if h < 0:
                continue
            began = load_int(event, 0)
            bucket = h & (heads.shape[0] - 1)
            previous, slot = np.int64(-1), heads[bucket]
            while slot >= 0:
                instance = rows_at + slot * stride
                following = load_int(instance, frame.link)
                prefetch(rows_at + following * stride)
                if horizon >= 0 and now - load_int(instance, 0) > horizon:
                    # Too old to give anything any more.
                    if previous < 0:
                        heads[bucket] = following
                    else:
                        rows[previous, frame.link] = following
                    _release(slot, rows, numbers, frame)
                    slot = following
                    continue
                if (
                    load_int(instance, frame.hash) != h
                    or load_int(instance, 1) >= began
                    or not _same_keys(instance, event, frame)
                    or (residual and not predicate(instance, event, parameters, strings))
                ):
                    previous = slot
                    slot = following
                    continue
                # The event affects this instance.
                if emitted == output.shape[0]:
                    output = _grown(output)
                    out_at = address(output)
                goes_on = False
                if not iterates:
                    _emit(out_at + emitted * out_stride, instance, event, frame)
                    emitted += 1
                else:
                    goes_on = rebind(instance, event, parameters, strings)
                if not alone:
                    # Others of this epoch must still find it as it is: successors are made aside.
                    if goes_on:
                        if numbers[FREE_HEAD] < 0 and numbers[HIGH] == rows.shape[0]:
                            rows = _grown(rows)
                            rows_at = address(rows)
                            instance = rows_at + slot * stride
                        if numbers[FREE_HEAD] >= 0:
                            made = numbers[FREE_HEAD]
                            numbers[FREE_HEAD] = rows[made, frame.link]
                        else:
                            made = numbers[HIGH]
                            numbers[HIGH] += 1
                        numbers[COUNT] += 1
                        for word in range(frame.link):
                            rows[made, word] = rows[slot, word]
                        successor = rows_at + made * stride
                        write(instance, event, parameters, strings, successor)
                        rows[made, 1] = now
                        rows[made, frame.hash] = _hash_instance(successor, frame)
                        _emit(out_at + emitted * out_stride, successor, event, frame)
                        emitted += 1
                        if pending_n == pending.shape[0]:
                            pending = _grown_words(pending)
                        pending[pending_n] = made
                        pending_n += 1
                    if affected_n == affected.shape[0]:
                        affected = _grown_words(affected)
                    affected[affected_n] = slot
                    affected_n += 1
                    previous = slot
                    slot = following
                    continue
                stays = False
                if goes_on:
                    # Nobody else looks at it in this epoch: it becomes its own successor.
                    write(instance, event, parameters, strings, instance)
                    store_int(instance, 1, now)
                    _emit(out_at + emitted * out_stride, instance, event, frame)
                    emitted += 1
                    changed = _hash_instance(instance, frame)
                    stays = changed == h
                    if changed >= 0 and not stays:
                        store_int(instance, frame.hash, changed)
                        if pending_n == pending.shape[0]:
                            pending = _grown_words(pending)
                        pending[pending_n] = slot
                        pending_n += 1
                if stays:
                    previous = slot
                else:
                    if previous < 0:
                        heads[bucket] = following
                    else:
                        rows[previous, frame.link] = following
                    if not goes_on or changed < 0:
                        _release(slot, rows, numbers, frame)
                slot = following
        s = until
        for k in range(affected_n):
            slot = affected[k]
            if rows[slot, 1] != FREE:  # several events may have affected the same one
                _unlink(slot, rows, heads, frame)
                _release(slot, rows, numbers, frame)
        for k in range(pending_n):
            slot = pending[k]
            if rows[slot, frame.hash] < 0:
                _release(slot, rows, numbers, frame)
            else:
                _link(slot, rows, heads, frame)
        while f < first_n and first[f, 1] == now:
            if numbers[FREE_HEAD] < 0 and numbers[HIGH] == rows.shape[0]:
                rows = _grown(rows)
                rows_at = address(rows)
            recycled = numbers[FREE_HEAD] >= 0
            slot = numbers[FREE_HEAD] if recycled else numbers[HIGH]
            instance = rows_at + slot * stride
            _bind(instance, first_at + f * first_stride, frame)
            f += 1
            h = _hash_instance(instance, frame)
            if h < 0:  # a NULL key equals nothing: this instance could never be affected
                store_int(instance, 1, FREE)
                continue
            if recycled:
                numbers[FREE_HEAD] = rows[slot, frame.link]
            else:
                numbers[HIGH] += 1
            rows[slot, frame.hash] = h
            numbers[COUNT] += 1
            _link(slot, rows, heads, frame)
        if numbers[COUNT] > heads.shape[0]:
            heads = _rehashed(heads.shape[0] * 4, numbers[HIGH], rows, frame)
            heads_at = address(heads)
        if horizon >= 0 and (numbers[COUNT] > budget or numbers[COUNT] > 2 * numbers[SWEPT] + 1024):
            _sweep(rows, heads, numbers, frame, now - horizon)
        if numbers[COUNT] > budget:
            return Run(rows, heads, output, emitted, 1, now)
    return Run(rows, heads, output, emitted, 0, 0)
