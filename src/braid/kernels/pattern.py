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

from typing import NamedTuple

import numpy as np
from numba import types

from braid.kernels.runtime import (
    PREDICATE_TYPE,
    ROWS,
    WORDS,
    WRITER_TYPE,
    address,
    kernel,
)

#: The `end` that marks a free slot. No event can have it: ingest rejects it.
FREE = np.int64(9223372036854775807)
_NAN = np.int64(0x7FF8000000000000)
_NEGATIVE_ZERO = np.int64(-9223372036854775808)

#: Indexes into `Shape.numbers`.
ITERATES, HORIZON, BUDGET, RESIDUAL, FIRST_MASKS, SECOND_MASKS, INSTANCE_MASKS, OUT_MASKS = range(8)
#: Indexes into `Instances.numbers`.
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


class Instances(NamedTuple):
    """Slots of instances: their rows, chain links, hashes; heads of the chains; counters."""

    rows: np.ndarray
    links: np.ndarray
    hashes: np.ndarray
    heads: np.ndarray
    numbers: np.ndarray


class Run(NamedTuple):
    """What a call gives back: the (perhaps grown) slots, output rows, and where it stopped.

    `stopped` is 1 if the budget was exceeded in the epoch `at`; outputs up to and including
    that epoch are there.
    """

    rows: np.ndarray
    links: np.ndarray
    hashes: np.ndarray
    heads: np.ndarray
    output: np.ndarray
    stopped: int
    at: int


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
def _hash_keys(row: np.ndarray, columns: np.ndarray, floats: np.ndarray, masks: int) -> int:
    """The hash of a row's key columns, or -1 if one of them is NULL (then nothing equals it)."""
    value = np.int64(0)
    for k in range(columns.shape[0]):
        column = columns[k]
        if (row[2 + column // 64] >> (column % 64)) & 1:
            return np.int64(-1)
        word = row[2 + masks + column]
        if floats[k]:
            word = canonical_float(word)
        value = mix(value + word + np.int64(0x9E3779B97F4A7C) * (k + 1))
    return value & np.int64(0x7FFFFFFFFFFFFFFF)


@kernel()
def _same_keys(shape: Shape, instance: np.ndarray, event: np.ndarray) -> bool:
    """Both rows are known to have no NULL key."""
    a, b = 2 + shape.numbers[INSTANCE_MASKS], 2 + shape.numbers[SECOND_MASKS]
    for k in range(shape.instance_keys.shape[0]):
        x, y = instance[a + shape.instance_keys[k]], event[b + shape.event_keys[k]]
        if x != y:
            if not shape.float_keys[k] or canonical_float(x) != canonical_float(y):
                return False
    return True


@kernel()
def _set_null(row: np.ndarray, column: int) -> None:
    row[2 + column // 64] |= np.int64(1) << np.int64(column % 64)


@kernel()
def _is_null(row: np.ndarray, column: int) -> bool:
    return ((row[2 + column // 64] >> np.int64(column % 64)) & 1) != 0


@kernel()
def _bind(row: np.ndarray, first: np.ndarray, shape: Shape) -> None:
    """Write the instance that an event of the first input starts."""
    row[0], row[1] = first[0], first[1]
    masks = shape.numbers[INSTANCE_MASKS]
    for m in range(masks):
        row[2 + m] = 0
    base = 2 + shape.numbers[FIRST_MASKS]
    for column in range(shape.bind.shape[0]):
        source = shape.bind[column]
        if source < 0 or _is_null(first, source):
            _set_null(row, column)
            row[2 + masks + column] = 0
        else:
            row[2 + masks + column] = first[base + source]


@kernel()
def _emit(out: np.ndarray, instance: np.ndarray, event: np.ndarray, shape: Shape) -> None:
    """Write the composite of an instance and an event."""
    out[0], out[1] = instance[0], event[1]
    masks = shape.numbers[OUT_MASKS]
    for m in range(masks):
        out[2 + m] = 0
    a, b = 2 + shape.numbers[INSTANCE_MASKS], 2 + shape.numbers[SECOND_MASKS]
    for column in range(shape.emit.shape[0]):
        source = shape.emit[column]
        if source >= 0:
            out[2 + masks + column] = instance[a + source]
            if _is_null(instance, source):
                _set_null(out, column)
        else:
            out[2 + masks + column] = event[b - 1 - source]
            if _is_null(event, -1 - source):
                _set_null(out, column)


@kernel()
def _grown(rows: np.ndarray) -> np.ndarray:
    bigger = np.empty((max(16, rows.shape[0] * 2), rows.shape[1]), np.int64)
    bigger[: rows.shape[0]] = rows
    return bigger


@kernel()
def _grown_words(words: np.ndarray) -> np.ndarray:
    bigger = np.empty(max(16, words.shape[0] * 2), np.int64)
    bigger[: words.shape[0]] = words
    return bigger


@kernel()
def _unlink(slot: int, links: np.ndarray, hashes: np.ndarray, heads: np.ndarray) -> None:
    bucket = hashes[slot] & (heads.shape[0] - 1)
    at = heads[bucket]
    if at == slot:
        heads[bucket] = links[slot]
        return
    while links[at] != slot:
        at = links[at]
    links[at] = links[slot]


@kernel()
def _release(slot: int, rows: np.ndarray, links: np.ndarray, numbers: np.ndarray) -> None:
    rows[slot, 1] = FREE
    links[slot] = numbers[FREE_HEAD]
    numbers[FREE_HEAD] = slot
    numbers[COUNT] -= 1


@kernel()
def _link(slot: int, links: np.ndarray, hashes: np.ndarray, heads: np.ndarray) -> None:
    bucket = hashes[slot] & (heads.shape[0] - 1)
    links[slot] = heads[bucket]
    heads[bucket] = slot


@kernel()
def _rehashed(size: int, high: int, rows: np.ndarray, links: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """New heads of `size` chains for all slots in use."""
    heads = np.full(size, -1, np.int64)
    for slot in range(high):
        if rows[slot, 1] != FREE:
            _link(slot, links, hashes, heads)
    return heads


@kernel()
def sweep(
    rows: np.ndarray, links: np.ndarray, hashes: np.ndarray, heads: np.ndarray,
    numbers: np.ndarray, oldest: int,
) -> None:
    """Drop every instance that started before `oldest`."""
    for slot in range(numbers[HIGH]):
        if rows[slot, 1] != FREE and rows[slot, 0] < oldest:
            _unlink(slot, links, hashes, heads)
            _release(slot, rows, links, numbers)
    numbers[SWEPT] = numbers[COUNT]


@kernel()
def rebuild(shape: Shape, rows: np.ndarray, links: np.ndarray, hashes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Chains and counters for rows that were read back from a snapshot."""
    masks = shape.numbers[INSTANCE_MASKS]
    high = numbers[HIGH]
    numbers[COUNT] = 0
    numbers[FREE_HEAD] = -1
    size = 16
    while size < 2 * high:
        size *= 2
    heads = np.full(size, -1, np.int64)
    for slot in range(high):
        if rows[slot, 1] == FREE:
            links[slot] = numbers[FREE_HEAD]
            numbers[FREE_HEAD] = slot
        else:
            hashes[slot] = _hash_keys(rows[slot], shape.instance_keys, shape.float_keys, masks)
            _link(slot, links, hashes, heads)
            numbers[COUNT] += 1
    numbers[SWEPT] = numbers[COUNT]
    return heads


_SHAPE = types.NamedUniTuple(WORDS, 6, Shape)
_INSTANCES = types.NamedTuple([ROWS, WORDS, WORDS, WORDS, WORDS], Instances)


@kernel((_SHAPE, _INSTANCES, ROWS, ROWS, PREDICATE_TYPE, PREDICATE_TYPE, WRITER_TYPE, WORDS))
def follow(shape, instances, first, second, predicate, rebind, write, context):  # type: ignore[no-untyped-def]
    """Run a batch of whole epochs through one pattern operator; see the module's text.

    `first` and `second` are rows sorted by `end`; `context` holds the addresses of the
    parameters and of the description of the string pool.
    """
    rows, links, hashes, heads = instances.rows, instances.links, instances.hashes, instances.heads
    numbers = instances.numbers
    iterates = shape.numbers[ITERATES] != 0
    horizon, budget = shape.numbers[HORIZON], shape.numbers[BUDGET]
    residual = shape.numbers[RESIDUAL] != 0
    first_n, second_n = first.shape[0], second.shape[0]
    parameters, strings = context[0], context[1]
    stride = np.int64(rows.shape[1] * 8)
    event_stride = np.int64(second.shape[1] * 8)
    rows_at, events_at = address(rows), address(second)
    output = np.empty((1024, 2 + shape.numbers[OUT_MASKS] + shape.emit.shape[0]), np.int64)
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
        affected_n, pending_n = 0, 0
        for e in range(s, until):
            if numbers[COUNT] == 0 and pending_n == 0:
                break
            event = second[e]
            h = _hash_keys(event, shape.event_keys, shape.float_keys, shape.numbers[SECOND_MASKS])
            if h < 0:
                continue
            bucket = h & (heads.shape[0] - 1)
            previous, slot = np.int64(-1), heads[bucket]
            while slot >= 0:
                following = links[slot]
                if horizon >= 0 and now - rows[slot, 0] > horizon:
                    # Too old to give anything any more.
                    if previous < 0:
                        heads[bucket] = following
                    else:
                        links[previous] = following
                    _release(slot, rows, links, numbers)
                    slot = following
                    continue
                if (
                    hashes[slot] == h
                    and rows[slot, 1] < event[0]
                    and (horizon < 0 or now - rows[slot, 0] <= horizon)
                    and _same_keys(shape, rows[slot], event)
                    and (
                        not residual
                        or predicate(
                            rows_at + slot * stride, events_at + e * event_stride, parameters, strings
                        )
                    )
                ):
                    if emitted == output.shape[0]:
                        output = _grown(output)
                    goes_on = False
                    if not iterates:
                        _emit(output[emitted], rows[slot], event, shape)
                        emitted += 1
                    else:
                        goes_on = rebind(
                            rows_at + slot * stride, events_at + e * event_stride, parameters, strings
                        )
                    if alone and goes_on:
                        # Nobody else looks at this instance in this epoch: it becomes its successor.
                        here = rows_at + slot * stride
                        write(here, events_at + e * event_stride, parameters, strings, here)
                        rows[slot, 1] = now
                        _emit(output[emitted], rows[slot], event, shape)
                        emitted += 1
                        changed = _hash_keys(
                            rows[slot], shape.instance_keys, shape.float_keys,
                            shape.numbers[INSTANCE_MASKS],
                        )
                        if changed != h:
                            if previous < 0:
                                heads[bucket] = following
                            else:
                                links[previous] = following
                            if changed < 0:
                                _release(slot, rows, links, numbers)
                            else:
                                hashes[slot] = changed
                                if pending_n == pending.shape[0]:
                                    pending = _grown_words(pending)
                                pending[pending_n] = slot
                                pending_n += 1
                            slot = following
                            continue
                    elif alone:
                        if previous < 0:
                            heads[bucket] = following
                        else:
                            links[previous] = following
                        _release(slot, rows, links, numbers)
                        slot = following
                        continue
                    else:
                        if goes_on:
                            if numbers[FREE_HEAD] < 0 and numbers[HIGH] == rows.shape[0]:
                                rows, links, hashes = _grown(rows), _grown_words(links), _grown_words(hashes)
                                rows_at = address(rows)
                            if numbers[FREE_HEAD] >= 0:
                                made = numbers[FREE_HEAD]
                                numbers[FREE_HEAD] = links[made]
                            else:
                                made = numbers[HIGH]
                                numbers[HIGH] += 1
                            numbers[COUNT] += 1
                            rows[made] = rows[slot]
                            write(
                                rows_at + slot * stride, events_at + e * event_stride,
                                parameters, strings, rows_at + made * stride,
                            )
                            rows[made, 1] = now
                            _emit(output[emitted], rows[made], event, shape)
                            emitted += 1
                            hashes[made] = _hash_keys(
                                rows[made], shape.instance_keys, shape.float_keys,
                                shape.numbers[INSTANCE_MASKS],
                            )
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
        for k in range(affected_n):
            slot = affected[k]
            if rows[slot, 1] != FREE:  # several events may have affected the same one
                _unlink(slot, links, hashes, heads)
                _release(slot, rows, links, numbers)
        s = until
        for k in range(pending_n):
            slot = pending[k]
            if hashes[slot] < 0:
                _release(slot, rows, links, numbers)
            else:
                _link(slot, links, hashes, heads)
        while f < first_n and first[f, 1] == now:
            if numbers[FREE_HEAD] < 0 and numbers[HIGH] == rows.shape[0]:
                rows, links, hashes = _grown(rows), _grown_words(links), _grown_words(hashes)
                rows_at = address(rows)
            slot = numbers[FREE_HEAD] if numbers[FREE_HEAD] >= 0 else numbers[HIGH]
            row = rows[slot]
            taken = links[slot]
            _bind(row, first[f], shape)
            f += 1
            h = _hash_keys(
                row, shape.instance_keys, shape.float_keys, shape.numbers[INSTANCE_MASKS]
            )
            if h < 0:  # a NULL key equals nothing: this instance could never be affected
                row[1] = FREE
                continue
            if slot == numbers[FREE_HEAD]:
                numbers[FREE_HEAD] = taken
            else:
                numbers[HIGH] += 1
            hashes[slot] = h
            numbers[COUNT] += 1
            _link(slot, links, hashes, heads)
        if numbers[COUNT] > heads.shape[0]:
            heads = _rehashed(heads.shape[0] * 4, numbers[HIGH], rows, links, hashes)
        if horizon >= 0 and (numbers[COUNT] > budget or numbers[COUNT] > 2 * numbers[SWEPT] + 1024):
            sweep(rows, links, hashes, heads, numbers, now - horizon)
        if numbers[COUNT] > budget:
            return Run(rows, links, hashes, heads, output[:emitted].copy(), 1, now)
    return Run(rows, links, hashes, heads, output[:emitted].copy(), 0, 0)
