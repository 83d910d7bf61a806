"""The loop of a join with constraints over relations: rows come, and go again.

A row that is in one result at most (the join is many-one from it) is not needed after that. What
that means depends on who reads the join. Istream asks only what comes: a row leaves after its
result has come. What goes is then joined whether the row is held or not: it is only compared with
what comes at that instant. Anybody else, a further join or DISTINCT, must also get what goes: a row
leaves after its result has come and has gone again, and so does what it is equal to, which then
means nothing. So what is put out is always the join of what is held: a part of the whole join.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from braid.kernels.instances import mix
from braid.kernels.k_change_store import (
    FLAG_BITS,
    IN_RESULT,
    SAMPLED,
    add_row,
    compacted,
    find_equal,
    hang_all,
    head_of,
    next_slot,
    remove_row,
    row_at,
    set_tail,
    slot_of,
    tail_of,
)
from braid.kernels.k_frame import (
    AT_SLOT,
    BOUND_AT,
    DONE,
    DONE_AT,
    EMITTED,
    FEED_BYTES,
    FEED_ROW,
    FEED_ROWS,
    FEED_ROWS_AT,
    FEED_WORDS,
    FEEDS_AT,
    FRAME,
    INDEXES_AT,
    INPUTS,
    LEVEL_WORDS,
    LEVELS_AT,
    LOST,
    NOW,
    OUT_AT,
    OUT_BASE,
    OUT_ROOM,
    OUT_ROWS,
    OUT_WIDTH,
    SAMPLES,
    STEP_INDEX,
    STEP_INPUT,
    STEP_WORDS,
    STEPS_AT,
)
from braid.kernels.k_join import (
    JOINS,
    compose,
    fits,
    grow,
    hash_of_sources,
    judged,
    next_feed,
    note,
    store_of,
    wanted,
)
from braid.kernels.k_store import (
    AGAIN,
    ARRIVALS,
    BASE,
    COUNT,
    COVERS,
    DONE_WITH,
    EVICTED,
    FIRST,
    FOUND,
    HIGH,
    INDEX_WORDS,
    PROBES,
    WIDTH,
)
from braid.kernels.runtime import (
    PREDICATE_TYPE,
    ROWS,
    WORDS,
    address,
    kernel,
    load_int,
    store_int,
)

#: The frame has some words more: whether only what comes is asked; rows of the current instant that
#: go and were not held when it began (input, address), their number, and for how many there is room.
ONLY_COMING, PENDING_AT, PENDING, PENDING_ROOM, CHANGES_FRAME = range(FRAME, FRAME + 5)

#: What a search is for.
_EMITS, _PROBES = range(2)


# ---- search ----


@kernel()
def _begin(frame: int, step: int, level: int) -> None:
    index = load_int(frame, INDEXES_AT) + load_int(step, STEP_INDEX) * (8 * INDEX_WORDS)
    store_int(index, PROBES, load_int(index, PROBES) + 1)
    store_int(level, AT_SLOT, head_of(index, hash_of_sources(frame, step, index)))


@kernel()
def _next(frame: int, step: int, level: int) -> bool:
    """Bind the next row that a probe finds; whether there is one."""
    slot, input_ = load_int(level, AT_SLOT), load_int(step, STEP_INPUT)
    index = load_int(frame, INDEXES_AT) + load_int(step, STEP_INDEX) * (8 * INDEX_WORDS)
    store = store_of(frame, input_)
    base = load_int(store, BASE)
    while slot >= 0:
        row = row_at(store, slot)
        slot = next_slot(index, slot)
        if fits(frame, step, index, row, base):
            store_int(index, FOUND, load_int(index, FOUND) + 1)
            store_int(load_int(frame, BOUND_AT), input_, row)
            store_int(level, AT_SLOT, slot)
            return True
    store_int(level, AT_SLOT, -1)
    return False


@kernel()
def _emit(frame: int, driver: int, weight: int) -> None:
    """Put out the rows that are bound, and note those that are in a result."""
    count = load_int(frame, OUT_ROWS)
    if count == load_int(frame, OUT_ROOM):
        grow(frame)
    out = load_int(frame, OUT_AT) + 8 * count * load_int(frame, OUT_WIDTH)
    compose(frame, out)
    store_int(frame, OUT_ROWS, count + 1)
    total, comes, sampled = weight, weight > 0, False
    leaves = comes == (load_int(frame, ONLY_COMING) != 0)
    for i in range(load_int(frame, INPUTS)):
        if i == driver:
            continue
        store, row = store_of(frame, i), load_int(load_int(frame, BOUND_AT), i)
        tail = tail_of(store, row)
        total *= tail >> FLAG_BITS
        if comes:
            place = AGAIN if (tail & IN_RESULT) != 0 else FIRST
            store_int(store, place, load_int(store, place) + 1)
            sampled = sampled or (tail & SAMPLED) != 0
            set_tail(store, row, tail | IN_RESULT)
        if leaves and load_int(store, COVERS) == DONE_WITH:
            note(frame, DONE_AT, i, slot_of(store, row))
    if sampled:
        store_int(frame, LOST, load_int(frame, LOST) + 1)
    store_int(out, load_int(frame, OUT_BASE) + load_int(frame, EMITTED), total)


@kernel()
def _search(frame: int, driver: int, weight: int, what: int, residual: Any) -> int:
    """The combinations of the row that is bound with what the others hold: how many."""
    for i in range(load_int(frame, INPUTS)):
        if i != driver and load_int(store_of(frame, i), COUNT) == 0:
            return np.int64(0)
    last, found = load_int(frame, INPUTS) - 2, np.int64(0)
    steps = load_int(frame, STEPS_AT) + driver * (last + 1) * (8 * STEP_WORDS)
    levels, depth = load_int(frame, LEVELS_AT), np.int64(0)
    _begin(frame, steps, levels)
    while depth >= 0:
        step, level = steps + depth * (8 * STEP_WORDS), levels + depth * (8 * LEVEL_WORDS)
        if not _next(frame, step, level):
            depth -= 1
        elif depth < last:
            depth += 1
            _begin(frame, step + 8 * STEP_WORDS, level + 8 * LEVEL_WORDS)
        elif wanted(frame, residual):
            found += 1
            if what == _PROBES:
                return found
            _emit(frame, driver, weight)
    return found


# ---- rows that are done with ----


@kernel()
def _is_sampled(frame: int, store: int, slot: int) -> bool:
    number = load_int(store, EVICTED) + (load_int(store, ARRIVALS) << 20) + slot
    return (mix(number) & 1023) < load_int(frame, SAMPLES)


@kernel()
def _let_go(frame: int, store: int, slot: int) -> None:
    """Forget a row that is done with, unless it is sampled."""
    row = row_at(store, slot)
    tail = tail_of(store, row)
    if tail == 0 or (tail & SAMPLED) != 0:
        return
    if _is_sampled(frame, store, slot):
        set_tail(store, row, tail | SAMPLED)
        return
    store_int(store, EVICTED, load_int(store, EVICTED) + 1)
    remove_row(load_int(frame, INDEXES_AT), store, slot)


@kernel()
def _finish(frame: int, input_: int, slot: int, residual: Any) -> None:
    """Forget a row that has had its result; where what goes is told, if it is in none now."""
    store = store_of(frame, input_)
    row = row_at(store, slot)
    if tail_of(store, row) == 0:
        return
    if load_int(frame, ONLY_COMING) == 0:
        store_int(load_int(frame, BOUND_AT), input_, row)
        if _search(frame, input_, np.int64(1), _PROBES, residual) > 0:
            return
    _let_go(frame, store, slot)


@kernel()
def _let_done_go(frame: int, residual: Any) -> None:
    at = load_int(frame, DONE_AT)
    for k in range(load_int(frame, DONE)):
        _finish(frame, load_int(at, 2 * k), load_int(at, 2 * k + 1), residual)
    store_int(frame, DONE, 0)


# ---- changes ----


@kernel()
def _come(frame: int, driver: int, row: int, residual: Any) -> None:
    store, indexes = store_of(frame, driver), load_int(frame, INDEXES_AT)
    weight = load_int(row, load_int(store, WIDTH) - 1)
    found = _search(frame, driver, weight, _EMITS, residual)
    flags = np.int64(0)
    if found > 0:
        flags = np.int64(IN_RESULT)
        store_int(store, FIRST, load_int(store, FIRST) + 1)
        store_int(store, AGAIN, load_int(store, AGAIN) + found - 1)
        if load_int(frame, DONE) > 0:
            _let_done_go(frame, residual)
        if load_int(frame, ONLY_COMING) != 0 and load_int(store, COVERS) == DONE_WITH:
            if not _is_sampled(frame, store, np.int64(0)):
                store_int(store, EVICTED, load_int(store, EVICTED) + 1)
                return
            flags |= SAMPLED
    slot = find_equal(indexes, store, row)
    if slot < 0:
        add_row(indexes, store, row, weight << FLAG_BITS | flags)
        return
    held = row_at(store, slot)
    set_tail(store, held, (tail_of(store, held) | flags) + (weight << FLAG_BITS))


@kernel()
def _go(frame: int, driver: int, row: int, slot: int, residual: Any) -> None:
    """A row goes, which is in a slot, or is not held (-1)."""
    store = store_of(frame, driver)
    weight = -load_int(row, load_int(store, WIDTH) - 1)
    held, tail = row, np.int64(0)
    if slot >= 0:
        held = row_at(store, slot)
        tail = tail_of(store, held)
        left = tail - (weight << FLAG_BITS)
        if left >> FLAG_BITS <= 0:
            if load_int(frame, ONLY_COMING) == 0:
                weight = tail >> FLAG_BITS
            remove_row(load_int(frame, INDEXES_AT), store, slot)
        else:
            set_tail(store, held, left)
    elif load_int(frame, ONLY_COMING) == 0:
        return
    _search(frame, driver, -weight, _EMITS, residual)
    if load_int(frame, DONE) > 0:
        _let_done_go(frame, residual)


@kernel()
def _bind(frame: int, driver: int, row: int) -> bool:
    """Look at a row that comes or goes: whether it can join at all."""
    store, feed = store_of(frame, driver), load_int(frame, FEEDS_AT) + driver * (8 * FEED_WORDS)
    store_int(store, ARRIVALS, load_int(store, ARRIVALS) + 1)
    if judged(feed, row, store) != JOINS:
        return False
    store_int(load_int(frame, BOUND_AT), driver, row)
    return True


# ---- instants ----


@kernel()
def _end_of(frame: int, input_: int, time: int) -> int:
    """The first row of an input that is later."""
    feed = load_int(frame, FEEDS_AT) + input_ * (8 * FEED_WORDS)
    row, rows = load_int(feed, FEED_ROW), load_int(feed, FEED_ROWS)
    at, stride = load_int(feed, FEED_ROWS_AT), load_int(feed, FEED_BYTES)
    while row < rows and load_int(at + row * stride, 1) == time:
        row += 1
    return row


@kernel()
def _take(frame: int, driver: int, end: int, coming: bool, residual: Any) -> None:
    """What comes of an instant, or what goes. Where what goes is told, a row that goes and is not
    held must wait: it may come at the same instant."""
    feed = load_int(frame, FEEDS_AT) + driver * (8 * FEED_WORDS)
    at, stride = load_int(feed, FEED_ROWS_AT), load_int(feed, FEED_BYTES)
    store, indexes = store_of(frame, driver), load_int(frame, INDEXES_AT)
    last, told = load_int(store, WIDTH) - 1, load_int(frame, ONLY_COMING) == 0
    for number in range(load_int(feed, FEED_ROW), end):
        row = at + number * stride
        if (load_int(row, last) > 0) != coming or not _bind(frame, driver, row):
            continue
        if coming:
            _come(frame, driver, row, residual)
            continue
        slot = find_equal(indexes, store, row)
        if slot < 0 and told:
            note(frame, PENDING_AT, driver, row)
        else:
            _go(frame, driver, row, slot, residual)


@kernel()
def _take_pending(frame: int, residual: Any) -> None:
    for k in range(load_int(frame, PENDING)):
        at = load_int(frame, PENDING_AT) + 16 * k
        driver, row = load_int(at, 0), load_int(at, 1)
        slot = find_equal(load_int(frame, INDEXES_AT), store_of(frame, driver), row)
        store_int(load_int(frame, BOUND_AT), driver, row)
        _go(frame, driver, row, slot, residual)
    store_int(frame, PENDING, 0)


@kernel((WORDS, PREDICATE_TYPE))
def run_changes(words: np.ndarray, residual: Any) -> None:
    """Take all that the feeds have, an instant after the other."""
    frame = address(words)
    feeds, inputs = load_int(frame, FEEDS_AT), load_int(frame, INPUTS)
    told = load_int(frame, ONLY_COMING) == 0
    first = next_feed(frame)
    while first >= 0:
        feed = feeds + first * (8 * FEED_WORDS)
        row = load_int(feed, FEED_ROWS_AT) + load_int(feed, FEED_ROW) * load_int(feed, FEED_BYTES)
        time = load_int(row, 1)
        store_int(frame, NOW, time)
        if told:
            for i in range(inputs):
                _take(frame, i, _end_of(frame, i, time), False, residual)
        for i in range(inputs):
            end = _end_of(frame, i, time)
            _take(frame, i, end, True, residual)
            if not told:
                _take(frame, i, end, False, residual)
        if told:
            _take_pending(frame, residual)
        for i in range(inputs):
            store_int(feeds + i * (8 * FEED_WORDS), FEED_ROW, _end_of(frame, i, time))
        first = next_feed(frame)


# ---- all that is held ----


@kernel((WORDS, types.int64))
def compact_changes(words: np.ndarray, number: int) -> None:
    frame = address(words)
    compacted(load_int(frame, INDEXES_AT), store_of(frame, number))


@kernel((WORDS, types.int64, types.int64, types.int64))
def index_changes(words: np.ndarray, number: int, index: int, heads: int) -> None:
    """Make an index anew, with so many chains."""
    frame = address(words)
    at = load_int(frame, INDEXES_AT) + index * (8 * INDEX_WORDS)
    hang_all(at, store_of(frame, number), heads)


@kernel((WORDS, types.int64, PREDICATE_TYPE))
def let_past_go(words: np.ndarray, number: int, residual: Any) -> None:
    """Forget the rows of an input that have been in their one result, when it has become known
    that this is all."""
    frame = address(words)
    store = store_of(frame, number)
    for slot in range(load_int(store, HIGH)):
        if (tail_of(store, row_at(store, slot)) & IN_RESULT) != 0:
            _finish(frame, np.int64(number), np.int64(slot), residual)


@kernel((WORDS, types.int64, ROWS))
def copy_changes(words: np.ndarray, number: int, out: np.ndarray) -> None:
    """All rows of an input without their times: null bits, columns, weight and flags."""
    store, place = store_of(address(words), number), 0
    for slot in range(load_int(store, HIGH)):
        row = row_at(store, slot)
        if tail_of(store, row) != 0:
            for word in range(out.shape[1]):
                out[place, word] = load_int(row, 2 + word)
            place += 1


@kernel((WORDS, types.int64, ROWS))
def take_changes(words: np.ndarray, number: int, rows: np.ndarray) -> None:
    frame = address(words)
    store, indexes = store_of(frame, number), load_int(frame, INDEXES_AT)
    for k in range(rows.shape[0]):
        tail = rows[k, rows.shape[1] - 1]
        add_row(indexes, store, address(rows) + k * (8 * rows.shape[1]) - 16, tail)
