"""What is observed of relations that come and go, and which of their rows leave because of it.

- WAITS, of an input: how many rows come to the join, of whatever input, until a row of this one is in
  its first result (RIDS). One that has waited for longer leaves. It is in no result, so nobody misses
  it when it goes.
- ASCENDS, DESCENDS, of a column of a key (OA): rows of the input that looks this one up first, whose
  value is past, find no new partner. If they have none now they are in no result, and leave. Where
  only what comes is asked, of two inputs, they leave in any case.

Only what comes is observed: what goes was there before. Distances are those of `watch.py`.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.runtime import ROWS, WORDS, address, kernel, load_int, store_int
from braid.operators.constraint_join.kernels.arrivals import is_passed_over, reached, watch_order
from braid.operators.constraint_join.kernels.delta_spill import let_go
from braid.operators.constraint_join.kernels.delta_store import (
    IN_RESULT,
    SAMPLED,
    TICK,
    age_of,
    head_of,
    next_slot,
    row_at,
    tail_of,
)
from braid.operators.constraint_join.kernels.frame import (
    BOUND_AT,
    FRAME,
    INDEXES_AT,
    INPUTS,
    NOW,
    STEP_INDEX,
    STEP_INPUT,
    STEP_WORDS,
    STEPS_AT,
)
from braid.operators.constraint_join.kernels.join import fits, hash_of_sources, store_of
from braid.operators.constraint_join.kernels.spill_filter import may_be_aside
from braid.operators.constraint_join.kernels.store import (
    ARRIVALS,
    ASIDE,
    BASE,
    COVERS,
    DONE_WITH,
    FIRST_WATCH,
    HIGH,
    INDEX_WORDS,
    ITS_WATCHES,
)
from braid.operators.constraint_join.kernels.watch import (
    ASCENDS,
    BEGAN,
    COLUMN,
    GONE,
    INPUT,
    KIND,
    PROVED,
    STARTED,
    is_awake,
    observe,
    usable_k,
    value_of,
    watch_at,
)
from braid.operators.core.kernels.instances import is_null, mix

#: The frame has some words more: whether only what comes is asked; rows of the current instant that
#: go and were not held when it began (input, address), or where only what comes is asked those that
#: leave when it is over (input, slot), their number, and for how many there is room;
#: the pass through the rows of an instant that is under way (-1: none), and the row that it is at;
#: rows that may come or go before it is looked after what is held; whether rows are observed; whether
#: a row that is done with is put aside when its result has come (else when that has gone); where the
#: next rows are named with their hashes, and how many there are; where only what comes is asked,
#: whether results of the current instant may still go (0, GOES, WENT); whether rows that may leave
#: are to be looked for as soon as it is over.
(
    ONLY_COMING,
    PENDING_AT,
    PENDING,
    PENDING_ROOM,
    PASS,
    PASS_ROW,
    TURNS,
    OBSERVES,
    EARLY,
    AHEAD_AT,
    AHEAD,
    UNSURE,
    OWED,
    CHANGES_FRAME,
) = range(FRAME, FRAME + 14)

#: A row goes at this instant; a result has gone.
GOES, WENT = 1, 2

#: Rows whose places in memory are asked for before they are taken: they are there by then.
MOST_AHEAD = 32

#: How rows of an input leave by the order of another one: the watch, and their own column.
BY_WATCH, BY_COLUMN, BY_WORDS = range(3)


@kernel()
def whole(frame: int) -> int:
    """What is counted of all inputs together lies behind their stores."""
    return store_of(frame, load_int(frame, INPUTS))


@kernel()
def count_coming(frame: int, driver: int) -> int:
    """A row comes: how many there were in all."""
    store, all_ = store_of(frame, driver), whole(frame)
    store_int(store, ARRIVALS, load_int(store, ARRIVALS) + 1)
    store_int(all_, ARRIVALS, load_int(all_, ARRIVALS) + 1)
    return load_int(all_, ARRIVALS)


# ---- what is observed ----


@kernel()
def observe_values(frame: int, driver: int, row: int) -> None:
    """A row has come: its values, as the watches of its columns see them."""
    store = store_of(frame, driver)
    first, number = load_int(store, FIRST_WATCH), load_int(store, ARRIVALS)
    for k in range(first, first + load_int(store, ITS_WATCHES)):
        watch = watch_at(frame, k)
        if not is_awake(watch, store):
            continue
        if load_int(watch, STARTED) < 0:
            store_int(watch, STARTED, number - 1)
            store_int(watch, BEGAN, load_int(frame, NOW))
        column = load_int(watch, COLUMN)
        if is_null(row, column) or is_passed_over(frame, watch, mix(number)):
            continue
        value = value_of(watch, row, load_int(store, BASE), column)
        ascends = load_int(watch, KIND) == ASCENDS
        watch_order(frame, watch, store, value if ascends else ~value, number)


@kernel()
def observe_result(frame: int, input_: int, tail: int) -> None:
    """A row with this last word is in its first result."""
    watch, all_ = watch_at(frame, input_), whole(frame)
    if not is_awake(watch, all_):
        return
    rows = load_int(all_, ARRIVALS)
    if load_int(watch, STARTED) < 0:
        store_int(watch, STARTED, rows)
        store_int(watch, BEGAN, load_int(frame, NOW))
    distance = age_of(tail, rows)
    # Of a row that came before nobody knows whether this is the first one.
    if distance <= max(rows - load_int(watch, STARTED), np.int64(1) << TICK):
        observe(frame, watch, all_, distance, rows)


# ---- who leaves ----


@kernel()
def _is_past(frame: int, by: int, store: int, row: int) -> bool:
    """Whether no row comes any more that has the value of a row, as the order of that input says."""
    watch = watch_at(frame, load_int(by, BY_WATCH))
    other, column = store_of(frame, load_int(watch, INPUT)), load_int(by, BY_COLUMN)
    k = usable_k(watch)
    if k < 0 or not is_awake(watch, other) or is_null(row, column):
        return False
    value = value_of(watch, row, load_int(store, BASE), column)
    value = value if load_int(watch, KIND) == ASCENDS else ~value
    return value < reached(watch, load_int(other, ARRIVALS) - k)


@kernel()
def _has_partner(frame: int, driver: int, row: int) -> bool:
    """Whether the input that is looked up first has a row for one of another, in memory or aside."""
    step = load_int(frame, STEPS_AT) + driver * (load_int(frame, INPUTS) - 1) * (8 * STEP_WORDS)
    index = load_int(frame, INDEXES_AT) + load_int(step, STEP_INDEX) * (8 * INDEX_WORDS)
    other = store_of(frame, load_int(step, STEP_INPUT))
    store_int(load_int(frame, BOUND_AT), driver, row)
    hash_, base = hash_of_sources(frame, step, index), load_int(other, BASE)
    if load_int(other, ASIDE) > 0 and may_be_aside(index, hash_):
        return True
    slot = head_of(index, hash_)
    while slot >= 0:
        if fits(frame, step, index, row_at(other, slot), base):
            return True
        slot = next_slot(index, slot)
    return False


@kernel()
def _has_waited(frame: int, driver: int, row: int, tail: int, k: int) -> bool:
    """Whether a row has waited for longer than it would have to, as far as it was observed. One that
    came before may be in a result that nobody has noted."""
    rows = load_int(whole(frame), ARRIVALS)
    age = age_of(tail, rows)
    observed = rows - load_int(watch_at(frame, driver), PROVED)
    if min(age, observed) <= k + (np.int64(1) << TICK):
        return False
    return age < observed or not _has_partner(frame, driver, row)


@kernel((WORDS, types.int64, ROWS))
def collect_changes(words: np.ndarray, number: int, ways: np.ndarray) -> int:
    """Go through the rows of an input: who has waited for too long, whose value is past, and, where
    rows are put aside, who has had its only result. How many have left."""
    frame, driver = address(words), np.int64(number)
    store, waits, all_ = store_of(frame, driver), watch_at(frame, driver), whole(frame)
    left = np.int64(0)
    k = usable_k(waits) if is_awake(waits, all_) and load_int(waits, STARTED) >= 0 else np.int64(-1)
    done = load_int(frame, EARLY) != 0 and load_int(store, COVERS) == DONE_WITH
    alone = load_int(frame, ONLY_COMING) != 0 and load_int(frame, INPUTS) == 2
    for slot in range(load_int(store, HIGH)):
        row = row_at(store, slot)
        tail = tail_of(store, row)
        if tail == 0 or (tail & SAMPLED) != 0:
            continue
        if (tail & IN_RESULT) != 0:
            if done and let_go(frame, store, np.int64(slot)):
                left += 1
                continue
        elif k >= 0 and _has_waited(frame, driver, row, tail, k):
            if let_go(frame, store, np.int64(slot)):
                left += 1
                store_int(waits, GONE, load_int(waits, GONE) + 1)
            continue
        for way in range(ways.shape[0]):
            by = address(ways) + way * (8 * BY_WORDS)
            if not _is_past(frame, by, store, row):
                continue
            if (alone or not _has_partner(frame, driver, row)) and let_go(
                frame, store, np.int64(slot)
            ):
                watch = watch_at(frame, load_int(by, BY_WATCH))
                store_int(watch, GONE, load_int(watch, GONE) + 1)
                left += 1
            break
    return left
