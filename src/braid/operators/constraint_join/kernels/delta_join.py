"""The loop of a join with constraints over relations: rows come, and go again.

A row that is in one result at most (the join is many-one from it) is not needed after that. What
that means depends on who reads the join. Istream asks only what comes: a row leaves after its
result has come. What goes is then joined whether the row is held or not: it is only compared with
what comes at that instant. So a row stays until the instant is over if anything goes at it: its
result may be with a row that goes, and must be found to go as well. Anybody else, a further join or DISTINCT, must also get what goes: a row
leaves after its result has come and has gone again, and so does what it is equal to, which then
means nothing. So what is put out is always the join of what is held: a part of the whole join.

Where no result may be lost, rows are put aside instead (`delta_spill.py`), also those that are in
a result: whoever looks a key up that may be aside waits until its rows have been brought back. Then
the loop stops, and goes on with the same row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.jit import types
from braid.jit.runtime import (
    PREDICATE_TYPE,
    WORDS,
    address,
    kernel,
    load_int,
    predicate_at,
    store_int,
)
from braid.operators.constraint_join.kernels.delta_eviction import (
    AHEAD,
    AHEAD_AT,
    EARLY,
    GOES,
    MOST_AHEAD,
    OBSERVES,
    ONLY_COMING,
    OWED,
    PASS,
    PASS_ROW,
    PENDING,
    PENDING_AT,
    TURNS,
    UNSURE,
    WENT,
    count_coming,
    observe_result,
    observe_values,
)
from braid.operators.constraint_join.kernels.delta_spill import (
    is_sampled,
    let_go,
    may_row_be_aside,
    note_gone,
    put_aside,
)
from braid.operators.constraint_join.kernels.delta_store import (
    FLAG_BITS,
    IN_RESULT,
    KEYED,
    SAMPLED,
    add_row,
    fetch_first,
    fetch_head,
    find_equal,
    head_of,
    leading,
    leading_hash,
    next_slot,
    note_equal,
    remove_row,
    row_at,
    set_tail,
    slot_of,
    stamp,
    tail_of,
    with_more,
)
from braid.operators.constraint_join.kernels.frame import (
    AT_SLOT,
    BOUND_AT,
    DONE,
    DONE_AT,
    EMITTED,
    EVENT_AT,
    FEED_BYTES,
    FEED_END,
    FEED_ROW,
    FEED_ROWS,
    FEED_ROWS_AT,
    FEED_WORDS,
    FEEDS_AT,
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
    RESULTS,
    SAMPLES,
    SPILLS,
    STEP_INDEX,
    STEP_INPUT,
    STEP_WORDS,
    STEPS_AT,
)
from braid.operators.constraint_join.kernels.join import (
    JOINS,
    compose,
    fits,
    grow,
    hash_of_sources,
    is_wanted,
    judged,
    next_feed,
    note,
    store_of,
    wanted,
)
from braid.operators.constraint_join.kernels.store import (
    AGAIN,
    ASIDE,
    BASE,
    COUNT,
    COVERS,
    DONE_WITH,
    EVICTED,
    FIRST,
    FOUND,
    HIGH,
    INDEX_WORDS,
    ITS_WATCHES,
    PROBES,
    WIDTH,
    hash_key,
)

#: What a search is for.
_EMITS, _PROBES = range(2)

#: What the loop returns: all is taken, rows must be brought back, it is time to look after what is
#: held.
TAKEN, WANTED, DUE_NOW = range(3)


# ---- search ----


@kernel()
def _begin(frame: int, step: int, level: int) -> bool:
    """Look up the key of a probe; False if something must be brought back first."""
    number = load_int(step, STEP_INDEX)
    index = load_int(frame, INDEXES_AT) + number * (8 * INDEX_WORDS)
    hash_ = hash_of_sources(frame, step, index)
    if is_wanted(frame, number, index, store_of(frame, load_int(step, STEP_INPUT)), hash_):
        return False
    store_int(index, PROBES, load_int(index, PROBES) + 1)
    store_int(level, AT_SLOT, head_of(index, hash_))
    return True


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
def _note_first(frame: int, input_: int, store: int, row: int, tail: int) -> None:
    """A row is in its first result."""
    store_int(store, FIRST, load_int(store, FIRST) + 1)
    set_tail(store, row, tail | IN_RESULT)
    observe_result(frame, input_, tail)


@kernel()
def _emit(frame: int, driver: int, weight: int) -> None:
    """Put out the rows that are bound, and note those that are in a result."""
    count = load_int(frame, OUT_ROWS)
    if count == load_int(frame, OUT_ROOM):
        grow(frame)
    out = load_int(frame, OUT_AT) + 8 * count * load_int(frame, OUT_WIDTH)
    compose(frame, out)
    store_int(frame, OUT_ROWS, count + 1)
    total, comes, rare = weight, weight > 0, np.int64(0)
    # Where rows are put aside the search may begin again: what is noted then is noted at its end.
    observes, spills = load_int(frame, OBSERVES) != 0, load_int(frame, SPILLS) != 0
    for i in range(load_int(frame, INPUTS)):
        if i == driver:
            continue
        store, row = store_of(frame, i), load_int(load_int(frame, BOUND_AT), i)
        tail = tail_of(store, row)
        total *= tail >> FLAG_BITS
        if (tail & SAMPLED) != 0:
            # One that needs two of these is found so many times less often.
            rarer = 1024 // max(load_int(frame, SAMPLES), np.int64(1))
            rare = rare * rarer if rare > 0 else np.int64(1)
        if not observes:
            continue
        first = comes and (tail & IN_RESULT) == 0
        if comes and not first:
            store_int(store, AGAIN, load_int(store, AGAIN) + 1)
        if first and not spills:
            _note_first(frame, i, store, row, tail)
        if (first and spills) or load_int(store, COVERS) == DONE_WITH:
            note(frame, DONE_AT, i, slot_of(store, row))
    if comes and not spills:
        store_int(frame, RESULTS, load_int(frame, RESULTS) + 1)
    if rare > 0 and comes:
        store_int(frame, LOST, load_int(frame, LOST) + rare)
    store_int(out, load_int(frame, OUT_BASE) + load_int(frame, EMITTED), total)


@kernel()
def _is_alone(frame: int, driver: int) -> bool:
    """Whether another input has no row at all."""
    for i in range(load_int(frame, INPUTS)):
        store = store_of(frame, i)
        if i != driver and load_int(store, COUNT) == 0 and load_int(store, ASIDE) == 0:
            return True
    return False


@kernel()
def _search(frame: int, driver: int, weight: int, what: int, residual: Any) -> int:
    """The combinations of the row that is bound with what the others hold: how many; -1 if
    something must be brought back before that is known."""
    last, found, first = load_int(frame, INPUTS) - 2, np.int64(0), load_int(frame, OUT_ROWS)
    steps = load_int(frame, STEPS_AT) + driver * (last + 1) * (8 * STEP_WORDS)
    levels, depth = load_int(frame, LEVELS_AT), np.int64(0)
    there = _begin(frame, steps, levels)
    while depth >= 0 and there:
        step, level = steps + depth * (8 * STEP_WORDS), levels + depth * (8 * LEVEL_WORDS)
        if not _next(frame, step, level):
            depth -= 1
        elif depth < last:
            depth += 1
            there = _begin(frame, step + 8 * STEP_WORDS, level + 8 * LEVEL_WORDS)
        elif wanted(frame, residual):
            found += 1
            if what == _PROBES:
                return found
            _emit(frame, driver, weight)
    if there:
        return found
    store_int(frame, OUT_ROWS, first)
    store_int(frame, DONE, 0)
    return np.int64(-1)


# ---- rows that are done with ----


@kernel()
def _is_in_result(frame: int, input_: int, row: int, residual: Any) -> bool:
    store_int(load_int(frame, BOUND_AT), input_, row)
    if _is_alone(frame, input_):
        return False
    return _search(frame, input_, np.int64(1), _PROBES, residual) != 0


@kernel()
def _finish(frame: int, input_: int, slot: int, residual: Any) -> None:
    """A row that has had its result leaves; where what goes is told, if it is in none now, unless it
    is put aside and can be found when its result goes."""
    store = store_of(frame, input_)
    row = row_at(store, slot)
    if tail_of(store, row) == 0:
        return
    if load_int(frame, UNSURE) != 0:
        note(frame, PENDING_AT, input_, slot)
        return
    if load_int(frame, ONLY_COMING) == 0 and load_int(frame, EARLY) == 0:
        if _is_in_result(frame, input_, row, residual):
            return
    let_go(frame, store, slot)


@kernel()
def _finish_instant(frame: int, residual: Any) -> None:
    """Let rows leave whose result has come at an instant that is over. One whose result has gone
    at once has had none. All are looked at before any leaves: their results may be the same."""
    at, went = load_int(frame, PENDING_AT), load_int(frame, UNSURE) == WENT
    for k in range(load_int(frame, PENDING) if went else 0):
        input_ = load_int(at, 2 * k)
        store = store_of(frame, input_)
        row = row_at(store, load_int(at, 2 * k + 1))
        tail = tail_of(store, row)
        if tail != 0 and not _is_in_result(frame, input_, row, residual):
            set_tail(store, row, tail & ~IN_RESULT)
    for k in range(load_int(frame, PENDING)):
        store, slot = store_of(frame, load_int(at, 2 * k)), load_int(at, 2 * k + 1)
        if (tail_of(store, row_at(store, slot)) & IN_RESULT) != 0:
            let_go(frame, store, slot)
    store_int(frame, PENDING, 0)
    store_int(frame, UNSURE, 0)


@kernel()
def _note_results(frame: int, comes: bool, residual: Any) -> None:
    """Note the rows of the others that are in a result for the first time, and let those leave that
    are done with."""
    at, done = load_int(frame, DONE_AT), load_int(frame, DONE)
    for k in range(done if comes else 0):
        input_ = load_int(at, 2 * k)
        store = store_of(frame, input_)
        row = row_at(store, load_int(at, 2 * k + 1))
        tail = tail_of(store, row)
        if (tail & IN_RESULT) == 0:
            _note_first(frame, input_, store, row, tail)
    if comes == (load_int(frame, ONLY_COMING) != 0 or load_int(frame, EARLY) != 0):
        for k in range(done):
            input_ = load_int(at, 2 * k)
            if load_int(store_of(frame, input_), COVERS) == DONE_WITH:
                _finish(frame, input_, load_int(at, 2 * k + 1), residual)
    store_int(frame, DONE, 0)


# ---- changes ----


@kernel()
def _come(frame: int, driver: int, row: int, hash_: int, residual: Any) -> bool:
    """A row comes; False if something must be brought back and it is to come again. The hash is that
    of its key in the leading index."""
    store, indexes = store_of(frame, driver), load_int(frame, INDEXES_AT)
    weight = load_int(row, load_int(store, WIDTH) - 1)
    store_int(frame, EVENT_AT, row)
    found = np.int64(0)
    if not _is_alone(frame, driver):
        found = _search(frame, driver, weight, _EMITS, residual)
        if found < 0:
            return False
    tail = weight << FLAG_BITS | stamp(count_coming(frame, driver))
    if load_int(store, KEYED) != 0:
        note_equal(indexes, store, row, weight, load_int(frame, NOW))
    observes = load_int(frame, OBSERVES) != 0
    if observes and load_int(store, ITS_WATCHES) != 0:
        observe_values(frame, driver, row)
    if found > 0 and observes:
        store_int(store, FIRST, load_int(store, FIRST) + 1)
        store_int(store, AGAIN, load_int(store, AGAIN) + found - 1)
        observe_result(frame, driver, tail)
        tail |= IN_RESULT
        if load_int(frame, DONE) > 0:
            _note_results(frame, True, residual)
    unsure = load_int(frame, UNSURE) != 0
    done = found > 0 and observes and load_int(store, COVERS) == DONE_WITH
    if done and not unsure:
        if load_int(frame, EARLY) != 0:
            put_aside(frame, store, row, tail)
            return True
        if load_int(frame, ONLY_COMING) != 0:
            if not is_sampled(frame, store, np.int64(0)):
                store_int(store, EVICTED, load_int(store, EVICTED) + 1)
                return True
            tail |= SAMPLED
    slot = find_equal(indexes, store, row, hash_)
    if slot < 0:
        slot = add_row(indexes, store, row, tail, hash_)
    else:
        held = row_at(store, slot)
        set_tail(store, held, with_more(tail_of(store, held), tail))
    if done and unsure:
        note(frame, PENDING_AT, driver, slot)
    return True


@kernel()
def _go(frame: int, driver: int, row: int, slot: int, residual: Any) -> bool:
    """A row goes, which is in a slot, or is not held (-1). False if something must be brought back
    and it is to go again."""
    store = store_of(frame, driver)
    asked = -load_int(row, load_int(store, WIDTH) - 1)
    held = tail_of(store, row_at(store, slot)) >> FLAG_BITS if slot >= 0 else np.int64(0)
    weight, beside = asked, np.int64(0)
    if held < asked and load_int(frame, ONLY_COMING) == 0:
        if may_row_be_aside(frame, store, row):
            beside = asked - held
        else:
            weight = held
        if weight == 0:
            return True
    if not _is_alone(frame, driver):
        found = _search(frame, driver, -weight, _EMITS, residual)
        if found < 0:
            return False
        if found > 0 and load_int(frame, UNSURE) != 0:
            store_int(frame, UNSURE, WENT)
    if slot >= 0:
        if held > asked:
            at = row_at(store, slot)
            set_tail(store, at, tail_of(store, at) - (asked << FLAG_BITS))
        else:
            remove_row(load_int(frame, INDEXES_AT), store, slot)
    if beside > 0:
        note_gone(store, row, beside)
    if load_int(frame, DONE) > 0:
        _note_results(frame, False, residual)
    return True


# ---- instants ----


@kernel()
def _begin_instant(frame: int, time: int) -> None:
    """Note of each input the first row that is later, and whether a row goes."""
    store_int(frame, NOW, time)
    store_int(frame, PASS_ROW, -1)
    for i in range(load_int(frame, INPUTS)):
        feed = load_int(frame, FEEDS_AT) + i * (8 * FEED_WORDS)
        row, rows = load_int(feed, FEED_ROW), load_int(feed, FEED_ROWS)
        at, stride = load_int(feed, FEED_ROWS_AT), load_int(feed, FEED_BYTES)
        last, goes = load_int(store_of(frame, i), WIDTH) - 1, False
        while row < rows and load_int(at + row * stride, 1) == time:
            goes = goes or load_int(at + row * stride, last) < 0
            row += 1
        if goes and load_int(frame, ONLY_COMING) != 0:
            store_int(frame, UNSURE, GOES)
        store_int(feed, FEED_END, row)


@kernel()
def _look_ahead(frame: int, driver: int, number: int, coming: bool) -> int:
    """Name the next rows that come, or go, with the hashes of their keys in the leading index, and
    have what they will ask for in the cache by then; the first row after these."""
    feed = load_int(frame, FEEDS_AT) + driver * (8 * FEED_WORDS)
    store, stride = store_of(frame, driver), load_int(feed, FEED_BYTES)
    index, last = leading(load_int(frame, INDEXES_AT), store), load_int(store, WIDTH) - 1
    end, base = load_int(feed, FEED_END), load_int(store, BASE)
    row, ahead = load_int(feed, FEED_ROWS_AT) + number * stride, load_int(frame, AHEAD_AT)
    count = np.int64(0)
    while number < end and count < MOST_AHEAD:
        if (load_int(row, last) > 0) == coming and judged(feed, row, store) == JOINS:
            hash_ = hash_key(row, base, index)
            store_int(ahead, 2 * count, row)
            store_int(ahead, 2 * count + 1, hash_)
            fetch_head(index, hash_)
            count += 1
        number += 1
        row += stride
    for k in range(count):
        fetch_first(index, store, load_int(ahead, 2 * k + 1))
    store_int(frame, AHEAD, count)
    return number


@kernel()
def _take(frame: int, driver: int, coming: bool, residual: Any) -> int:
    """What comes of an instant, or what goes, from the row on that it is at. Where what goes is told,
    a row that goes and is not held must wait: it may come at the same instant."""
    feed = load_int(frame, FEEDS_AT) + driver * (8 * FEED_WORDS)
    at, stride = load_int(feed, FEED_ROWS_AT), load_int(feed, FEED_BYTES)
    store, indexes = store_of(frame, driver), load_int(frame, INDEXES_AT)
    told = load_int(frame, ONLY_COMING) == 0
    end, turns = load_int(feed, FEED_END), load_int(frame, TURNS)
    number, ahead = (
        max(load_int(frame, PASS_ROW), load_int(feed, FEED_ROW)),
        load_int(frame, AHEAD_AT),
    )
    while number < end:
        number = _look_ahead(frame, driver, number, coming)
        for k in range(load_int(frame, AHEAD)):
            row, hash_ = load_int(ahead, 2 * k), load_int(ahead, 2 * k + 1)
            status, done = np.int64(TAKEN), True
            if turns <= 0:
                status = np.int64(DUE_NOW)
            else:
                store_int(load_int(frame, BOUND_AT), driver, row)
                if coming:
                    done = _come(frame, driver, row, hash_, residual)
                else:
                    slot = find_equal(indexes, store, row, hash_)
                    if slot < 0 and told:
                        note(frame, PENDING_AT, driver, row)
                    else:
                        done = _go(frame, driver, row, slot, residual)
                if not done:
                    status = np.int64(WANTED)
            if status != TAKEN:
                store_int(frame, PASS_ROW, (row - at) // stride)
                store_int(frame, TURNS, turns)
                return status
            turns -= 1
    store_int(frame, TURNS, turns)
    return np.int64(TAKEN)


@kernel()
def _take_pending(frame: int, residual: Any) -> int:
    for k in range(max(load_int(frame, PASS_ROW), np.int64(0)), load_int(frame, PENDING)):
        at = load_int(frame, PENDING_AT) + 16 * k
        driver, row = load_int(at, 0), load_int(at, 1)
        store, indexes = store_of(frame, driver), load_int(frame, INDEXES_AT)
        slot = find_equal(indexes, store, row, leading_hash(indexes, store, row))
        store_int(load_int(frame, BOUND_AT), driver, row)
        if not _go(frame, driver, row, slot, residual):
            store_int(frame, PASS_ROW, k)
            return np.int64(WANTED)
    store_int(frame, PENDING, 0)
    return np.int64(TAKEN)


@kernel()
def _pass(frame: int, number: int, residual: Any) -> int:
    """One pass through the rows of an instant. Where what goes is told: what goes of each input, what
    comes of each, then what has waited. Else what comes and what goes of each input in turn, then
    what leaves."""
    inputs, told = load_int(frame, INPUTS), load_int(frame, ONLY_COMING) == 0
    if number < 2 * inputs:
        if told:
            return _take(frame, number % inputs, number >= inputs, residual)
        return _take(frame, number // 2, number % 2 == 0, residual)
    if told:
        return _take_pending(frame, residual)
    _finish_instant(frame, residual)
    return np.int64(TAKEN)


@kernel((WORDS, PREDICATE_TYPE))
def run_changes(words: np.ndarray, residual: Any) -> int:
    """Take what the feeds have, an instant after the other, from where it stopped the last time."""
    residual = predicate_at(residual)
    frame = address(words)
    feeds, inputs = load_int(frame, FEEDS_AT), load_int(frame, INPUTS)
    while True:
        number = load_int(frame, PASS)
        if number < 0:
            first = next_feed(frame)
            if first < 0:
                return np.int64(TAKEN)
            if load_int(frame, OWED) != 0:
                return np.int64(DUE_NOW)
            feed = feeds + first * (8 * FEED_WORDS)
            row = load_int(feed, FEED_ROWS_AT)
            row += load_int(feed, FEED_ROW) * load_int(feed, FEED_BYTES)
            _begin_instant(frame, load_int(row, 1))
            number = np.int64(0)
        while number <= 2 * inputs:
            status = _pass(frame, number, residual)
            if status != TAKEN:
                store_int(frame, PASS, number)
                return status
            store_int(frame, PASS_ROW, -1)
            number += 1
        for i in range(inputs):
            feed = feeds + i * (8 * FEED_WORDS)
            store_int(feed, FEED_ROW, load_int(feed, FEED_END))
        store_int(frame, PASS, -1)


@kernel((WORDS, types.int64, PREDICATE_TYPE))
def let_past_go(words: np.ndarray, number: int, residual: Any) -> None:
    """Forget the rows of an input that have been in their one result, when it has become known
    that this is all."""
    residual = predicate_at(residual)
    frame = address(words)
    store = store_of(frame, number)
    for slot in range(load_int(store, HIGH)):
        if (tail_of(store, row_at(store, slot)) & IN_RESULT) != 0:
            _finish(frame, np.int64(number), np.int64(slot), residual)
