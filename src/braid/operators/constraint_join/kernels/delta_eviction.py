"""What a constraint join observes of relations, and which of their rows leave because of it.

- WAITS, of an input: how many rows come to the join, of whatever input, until a row of this one is in
  its first result (RIDS). A row that has waited for longer leaves. It is in no result, so nothing needs
  it when it goes.
- ASCENDS, DESCENDS, of a column of a key (OA): rows of the input that looks this one up first, whose
  value is past, find no new partner. If they have none now they are in no result, and leave. If the
  output is read for what comes only, of two inputs, they leave in any case.

Only rows that come are observed: rows that go were there before. `watch.py` judges distances.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.hashing import mix
from braid.jit.records import Words
from braid.jit.rows import is_null
from braid.jit.runtime import kernel
from braid.operators.constraint_join.kernels.arrivals import is_skipped, largest_at, observe_order
from braid.operators.constraint_join.kernels.delta_spill import evict_change
from braid.operators.constraint_join.kernels.delta_store import (
    TICK,
    age_of,
    head_of,
    next_slot,
    row_at,
    tail_at,
)
from braid.operators.constraint_join.kernels.join import has_key, probe_hash
from braid.operators.constraint_join.kernels.records import (
    ASCENDS,
    CONFIRMED,
    IN_RESULT,
    SAMPLED,
    ChangesFrame,
    Criterion,
    Frame,
    Step,
    Store,
)
from braid.operators.constraint_join.kernels.spill_filter import may_be_spilled
from braid.operators.constraint_join.kernels.watch import (
    is_awake,
    observe,
    start,
    usable_k,
    value_of,
)


@kernel()
def all_inputs(frame: Frame) -> Store:
    """What is counted of all inputs together lies behind their stores."""
    return frame.stores[frame.inputs]


@kernel()
def first_step(frame: Frame, driver: int) -> Step:
    """The first probe of an input."""
    return frame.steps[driver * (frame.inputs - 1)]


@kernel()
def count_arrival(frame: Frame, driver: int) -> int:
    """A row comes: how many there were in all."""
    every = all_inputs(frame)
    frame.stores[driver].arrivals += 1
    every.arrivals += 1
    return every.arrivals


# ---- what is observed ----


@kernel()
def observe_values(frame: Frame, driver: int, row: Words) -> None:
    """A row has come: let the watches of its columns observe its values."""
    store = frame.stores[driver]
    first, number = store.first_watch, store.arrivals
    for k in range(first, first + store.watch_count):
        watch = frame.watches[k]
        if not is_awake(watch, store):
            continue
        start(frame, watch, number - 1)
        column = watch.column
        if is_null(row, column) or is_skipped(frame, watch, mix(number)):
            continue
        value = value_of(watch, row, store.base, column)
        observe_order(frame, watch, store, value if watch.kind == ASCENDS else ~value, number)


@kernel()
def observe_result(frame: Frame, input_: int, tail: int) -> None:
    """A row with this tail is in its first result."""
    watch, every = frame.watches[input_], all_inputs(frame)
    if not is_awake(watch, every):
        return
    rows = every.arrivals
    start(frame, watch, rows)
    distance = age_of(tail, rows)
    # Whether this is the first result is not known of a row that came before the watch began.
    if distance <= max(rows - watch.started, 1 << TICK):
        observe(frame, watch, every, distance, rows)


# ---- which rows leave ----


@kernel()
def _is_past(frame: Frame, criterion: Criterion, store: Store, row: Words) -> bool:
    """Whether no row comes any more that has the value of a row, as the order of that input says."""
    watch, column = frame.watches[criterion.watch], criterion.column
    other, k = frame.stores[watch.input], usable_k(watch)
    if k < 0 or not is_awake(watch, other) or is_null(row, column):
        return False
    value = value_of(watch, row, store.base, column)
    value = value if watch.kind == ASCENDS else ~value
    return value < largest_at(watch, other.arrivals - k)


@kernel()
def _has_partner(frame: Frame, driver: int, row: Words) -> bool:
    """Whether the input that a row looks up first has a row for it, in memory or on disk."""
    step = first_step(frame, driver)
    index, other = frame.indexes[step.index], frame.stores[step.input]
    frame.bound[driver].row = row
    hash_ = probe_hash(frame, step, index)
    if may_be_spilled(index, other, hash_):
        return True
    slot = head_of(index, hash_)
    while slot >= 0:
        if has_key(frame, step, index, row_at(other, slot), other.base):
            return True
        slot = next_slot(index, slot)
    return False


@kernel()
def _has_waited(frame: Frame, driver: int, row: Words, tail: int, k: int) -> bool:
    """Whether a row has waited for longer than k, as far as it was observed. A row that came before the
    watch began may be in a result that is not noted."""
    rows = all_inputs(frame).arrivals
    age = age_of(tail, rows)
    observed = rows - frame.watches[driver].proved
    if min(age, observed) <= k + (1 << TICK):
        return False
    return age < observed or not _has_partner(frame, driver, row)


@kernel((ChangesFrame.type, types.int64, Criterion.type, types.int64))
def collect_changes(frame: ChangesFrame, number: int, criteria: Criterion, count: int) -> int:
    """Evict the rows of an input that have waited for too long, whose value is past, and, if they go
    to disk, that have had their only result. How many have left."""
    driver = np.int64(number)
    store, waits, every = frame.stores[driver], frame.watches[driver], all_inputs(frame)
    left = np.int64(0)
    awake = is_awake(waits, every) and waits.started >= 0
    k = usable_k(waits) if awake else np.int64(-1)
    done = frame.early != 0 and store.one_result == CONFIRMED
    in_any_case = frame.only_coming != 0 and frame.inputs == 2
    for place in range(store.high):
        slot = np.int64(place)
        row = row_at(store, slot)
        tail = tail_at(store, row)
        if tail == 0 or (tail & SAMPLED) != 0:
            continue
        if (tail & IN_RESULT) != 0:
            if done and evict_change(frame, store, slot):
                left += 1
                continue
        elif k >= 0 and _has_waited(frame, driver, row, tail, k):
            if evict_change(frame, store, slot):
                left += 1
                waits.evicted += 1
            continue
        for c in range(count):
            if not _is_past(frame, criteria[c], store, row):
                continue
            leaves = in_any_case or not _has_partner(frame, driver, row)
            if leaves and evict_change(frame, store, slot):
                frame.watches[criteria[c].watch].evicted += 1
                left += 1
            break
    return left
