"""The loop of a constraint join of relations: rows come, and go again.

If the join is many-one from an input, each of its rows is in one result at most, and isn't needed after
that. What that means depends on what reads the output.

- Istream reads what comes only: a row leaves after its result has come. A row that goes is joined
  whether it is held or not: its results are only compared with what comes at that instant. So rows stay
  until the instant is over if any row goes at it: their results may be with a row that goes, and must be
  found to go as well.
- A further join or DISTINCT reads what goes, too: a row leaves after its result has come and has gone
  again, and so does the row that it is equal to, which then has no effect. So the output is always the
  join of the rows that are held: a part of the whole join.

In exact mode rows are spilled instead (`delta_spill.py`), also those that are in a result. A probe whose
key may be on disk stops the loop until the rows of the key have been brought back. Then the loop goes on
with the same row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from braid.jit.records import Words
from braid.jit.runtime import PREDICATE_TYPE, kernel, predicate_at
from braid.operators.constraint_join.kernels.delta_eviction import (
    count_arrival,
    first_step,
    observe_result,
    observe_values,
)
from braid.operators.constraint_join.kernels.delta_spill import (
    evict_change,
    is_sampled,
    may_row_be_spilled,
    spill_change,
    spill_deletion,
)
from braid.operators.constraint_join.kernels.delta_store import (
    FLAG_BITS,
    add_row,
    fetch_first,
    fetch_head,
    find_equal,
    head_of,
    leading_hash,
    leading_number,
    merged_tails,
    next_slot,
    note_duplicate,
    remove_row,
    row_at,
    set_tail,
    slot_of,
    stamp,
    tail_at,
)
from braid.operators.constraint_join.kernels.join import (
    DUE,
    JOINS,
    TAKEN,
    WANTED,
    discard_output,
    has_key,
    judge_event,
    must_wait,
    next_feed,
    note,
    probe_hash,
    rarer,
    residual_holds,
    write_output,
)
from braid.operators.constraint_join.kernels.records import (
    CONFIRMED,
    IN_RESULT,
    SAMPLED,
    ChangesFrame,
    Level,
    Noted,
    Step,
    Store,
)
from braid.operators.constraint_join.kernels.store import hash_key
from braid.operators.join.kernels.frame import arrived

#: What a search is for: all results, or whether there is one.
_EMITS, _PROBES = range(2)

#: States of an instant (`ChangesFrame.unsure`): a row goes at it; a result has gone.
GOES, WENT = 1, 2

#: The rows that are prefetched before they are taken.
MOST_AHEAD = 32


# ---- search ----


@kernel()
def _begin(frame: ChangesFrame, step: Step, level: Level) -> bool:
    """Look up the key of a probe; False if rows must be brought back first."""
    index = frame.indexes[step.index]
    hash_ = probe_hash(frame, step, index)
    if must_wait(frame, step.index, frame.stores[step.input], hash_):
        return False
    index.probes += 1
    level.slot = head_of(index, hash_)
    return True


@kernel()
def _next(frame: ChangesFrame, step: Step, level: Level) -> bool:
    """Bind the next row that a probe finds; whether there is one."""
    slot, index, store = level.slot, frame.indexes[step.index], frame.stores[step.input]
    base = store.base
    while slot >= 0:
        row = row_at(store, slot)
        slot = next_slot(index, slot)
        if has_key(frame, step, index, row, base):
            index.found += 1
            frame.bound[step.input].row = row
            level.slot = slot
            return True
    level.slot = -1
    return False


@kernel()
def _note_first(frame: ChangesFrame, input_: int, store: Store, row: Words, tail: int) -> None:
    """A row is in its first result."""
    store.first_results += 1
    set_tail(store, row, tail | IN_RESULT)
    observe_result(frame, input_, tail)


@kernel()
def _emit(frame: ChangesFrame, driver: int, weight: int) -> None:
    """Write the result of the rows that are bound, and note which rows are in a result."""
    out = write_output(frame)
    total, comes, lost = weight, weight > 0, np.int64(0)
    # If rows are spilled the search may begin again: then first results are noted at its end.
    observes, spills = frame.observes != 0, frame.spills != 0
    for i in range(frame.inputs):
        if i == driver:
            continue
        store, row = frame.stores[i], frame.bound[i].row
        tail = tail_at(store, row)
        total *= tail >> FLAG_BITS
        if (tail & SAMPLED) != 0:
            lost = rarer(frame, lost)
        if not observes:
            continue
        first = comes and (tail & IN_RESULT) == 0
        if comes and not first:
            store.further_results += 1
        if first and not spills:
            _note_first(frame, i, store, row, tail)
        if (first and spills) or store.one_result == CONFIRMED:
            note(frame.in_results, i, slot_of(store, row))
    if comes and not spills:
        frame.results += 1
    if comes:
        frame.lost += lost
    out[frame.out_base + frame.emitted] = total


@kernel()
def _finds_nothing(frame: ChangesFrame, driver: int) -> bool:
    """Whether another input has no row at all."""
    for i in range(frame.inputs):
        store = frame.stores[i]
        if i != driver and store.count == 0 and store.spilled == 0:
            return True
    return False


@kernel()
def _search(frame: ChangesFrame, driver: int, weight: int, what: int, residual: Any) -> int:
    """Combine the row that is bound with the rows of the other inputs: how many results; -1 if rows
    must be brought back before that is known."""
    last, found, first = frame.inputs - 2, np.int64(0), frame.out_rows
    steps, levels, depth = first_step(frame, driver), frame.levels, np.int64(0)
    there = _begin(frame, steps, levels)
    while depth >= 0 and there:
        if not _next(frame, steps[depth], levels[depth]):
            depth -= 1
        elif depth < last:
            depth += 1
            there = _begin(frame, steps[depth], levels[depth])
        elif residual_holds(frame, residual):
            found += 1
            if what == _PROBES:
                return found
            _emit(frame, driver, weight)
    if there:
        return found
    discard_output(frame, first)
    frame.in_results.count = 0
    return np.int64(-1)


# ---- rows that leave after their result ----


@kernel()
def _is_in_result(frame: ChangesFrame, input_: int, row: Words, residual: Any) -> bool:
    frame.bound[input_].row = row
    if _finds_nothing(frame, input_):
        return False
    return _search(frame, input_, np.int64(1), _PROBES, residual) != 0


@kernel()
def _finish(frame: ChangesFrame, input_: int, slot: int, residual: Any) -> None:
    """Let a row leave that has had its only result. If the output is read for what goes, the row must be
    in no result now, unless it is spilled and can be found when its result goes."""
    store = frame.stores[input_]
    row = row_at(store, slot)
    if tail_at(store, row) == 0:
        return
    if frame.unsure != 0:
        note(frame.pending, input_, slot)
        return
    if frame.only_coming == 0 and frame.early == 0:
        if _is_in_result(frame, input_, row, residual):
            return
    evict_change(frame, store, slot)


@kernel()
def _finish_instant(frame: ChangesFrame, residual: Any) -> None:
    """Let rows leave whose result came at the instant that is over. A row whose result went at once
    has had none. All are looked at before any leaves: they may be in the same result."""
    pending, count = Noted(frame.pending.items), frame.pending.count // 2
    for k in range(count if frame.unsure == WENT else 0):
        store = frame.stores[pending[k].input]
        row = row_at(store, pending[k].row)
        tail = tail_at(store, row)
        if tail != 0 and not _is_in_result(frame, pending[k].input, row, residual):
            set_tail(store, row, tail & ~IN_RESULT)
    for k in range(count):
        store, slot = frame.stores[pending[k].input], pending[k].row
        if (tail_at(store, row_at(store, slot)) & IN_RESULT) != 0:
            evict_change(frame, store, slot)
    frame.pending.count = 0
    frame.unsure = 0


@kernel()
def _note_results(frame: ChangesFrame, comes: bool, residual: Any) -> None:
    """Note the rows of the other inputs that are in a result for the first time. Rows that have one
    result at most leave."""
    noted, count = Noted(frame.in_results.items), frame.in_results.count // 2
    for k in range(count if comes else 0):
        input_ = noted[k].input
        store = frame.stores[input_]
        row = row_at(store, noted[k].row)
        tail = tail_at(store, row)
        if (tail & IN_RESULT) == 0:
            _note_first(frame, input_, store, row, tail)
    if comes == (frame.only_coming != 0 or frame.early != 0):
        for k in range(count):
            if frame.stores[noted[k].input].one_result == CONFIRMED:
                _finish(frame, noted[k].input, noted[k].row, residual)
    frame.in_results.count = 0


# ---- changes ----


@kernel()
def _come(frame: ChangesFrame, driver: int, row: Words, hash_: int, residual: Any) -> bool:
    """A row comes; False if rows must be brought back and it is to come again. The hash is that of its
    key in the leading index."""
    store, indexes = frame.stores[driver], frame.indexes
    weight = row[store.width - 1]
    frame.event = row
    found = np.int64(0)
    if not _finds_nothing(frame, driver):
        found = _search(frame, driver, weight, _EMITS, residual)
        if found < 0:
            return False
    tail = weight << FLAG_BITS | stamp(count_arrival(frame, driver))
    if store.keyed != 0:
        note_duplicate(indexes, store, row, weight, frame.now)
    observes = frame.observes != 0
    if observes and store.watch_count != 0:
        observe_values(frame, driver, row)
    if found > 0 and observes:
        store.first_results += 1
        store.further_results += found - 1
        observe_result(frame, driver, tail)
        tail |= IN_RESULT
        if frame.in_results.count > 0:
            _note_results(frame, True, residual)
    unsure = frame.unsure != 0
    done = found > 0 and observes and store.one_result == CONFIRMED
    if done and not unsure:
        if frame.early != 0:
            spill_change(frame, store, row, tail)
            return True
        if frame.only_coming != 0:
            if not is_sampled(frame, store, np.int64(0)):
                store.evicted += 1
                return True
            tail |= SAMPLED
    slot = find_equal(indexes, store, row, hash_)
    if slot < 0:
        slot = add_row(indexes, store, row, tail, hash_)
    else:
        held = row_at(store, slot)
        set_tail(store, held, merged_tails(tail_at(store, held), tail))
    if done and unsure:
        note(frame.pending, driver, slot)
    return True


@kernel()
def _go(frame: ChangesFrame, driver: int, row: Words, slot: int, residual: Any) -> bool:
    """A row goes, which is in a slot, or isn't held (-1). False if rows must be brought back and it is
    to go again."""
    store = frame.stores[driver]
    asked = -row[store.width - 1]
    held = tail_at(store, row_at(store, slot)) >> FLAG_BITS if slot >= 0 else np.int64(0)
    weight, on_disk = asked, np.int64(0)
    if held < asked and frame.only_coming == 0:
        if may_row_be_spilled(frame, store, row):
            on_disk = asked - held
        else:
            weight = held
        if weight == 0:
            return True
    if not _finds_nothing(frame, driver):
        found = _search(frame, driver, -weight, _EMITS, residual)
        if found < 0:
            return False
        if found > 0 and frame.unsure != 0:
            frame.unsure = WENT
    if slot >= 0:
        if held > asked:
            own = row_at(store, slot)
            set_tail(store, own, tail_at(store, own) - (asked << FLAG_BITS))
        else:
            remove_row(frame.indexes, store, slot)
    if on_disk > 0:
        spill_deletion(store, row, on_disk)
    if frame.in_results.count > 0:
        _note_results(frame, False, residual)
    return True


# ---- instants ----


@kernel()
def _begin_instant(frame: ChangesFrame, time: int) -> None:
    """Note of each input the first row that is later, and whether a row goes."""
    frame.now = time
    frame.pass_row = -1
    for i in range(frame.inputs):
        feed, last, goes = frame.feeds[i], frame.stores[i].width - 1, False
        number = feed.row
        while number < feed.count and arrived(feed, number)[1] == time:
            goes = goes or arrived(feed, number)[last] < 0
            number += 1
        if goes and frame.only_coming != 0:
            frame.unsure = GOES
        feed.end = number


@kernel()
def _look_ahead(frame: ChangesFrame, driver: int, number: int, coming: bool) -> int:
    """List the next rows that come, or go, with the hashes of their keys in the leading index, and
    prefetch what they will look up; the first row after these."""
    feed, store, ahead = frame.feeds[driver], frame.stores[driver], frame.ahead
    index = frame.indexes[leading_number(frame.indexes, store)]
    last, base, count = store.width - 1, store.base, np.int64(0)
    while number < feed.end and count < MOST_AHEAD:
        row = arrived(feed, number)
        if (row[last] > 0) == coming and judge_event(feed, row, store) == JOINS:
            hash_ = hash_key(row, base, index)
            ahead[count].row = row
            ahead[count].hash = hash_
            fetch_head(index, hash_)
            count += 1
        number += 1
    for k in range(count):
        fetch_first(index, store, ahead[k].hash)
    frame.ahead_count = count
    return number


@kernel()
def _take_row(
    frame: ChangesFrame, driver: int, row: Words, hash_: int, coming: bool, residual: Any
) -> bool:
    """Let a row come, or go. False if rows must be brought back and it is to be taken again. If the
    output is read for what goes, a row that goes and isn't held waits: it may come at the same
    instant."""
    frame.bound[driver].row = row
    if coming:
        return _come(frame, driver, row, hash_, residual)
    slot = find_equal(frame.indexes, frame.stores[driver], row, hash_)
    if slot < 0 and frame.only_coming == 0:
        note(frame.pending, driver, row.address)
        return True
    return _go(frame, driver, row, slot, residual)


@kernel()
def _take(frame: ChangesFrame, driver: int, coming: bool, residual: Any) -> int:
    """Take what comes of an instant, or what goes, from the row on that it is at."""
    feed, ahead, turns = frame.feeds[driver], frame.ahead, frame.turns
    number = max(frame.pass_row, feed.row)
    while number < feed.end:
        number = _look_ahead(frame, driver, number, coming)
        for k in range(frame.ahead_count):
            row, status = ahead[k].row, np.int64(TAKEN)
            if turns <= 0:
                status = np.int64(DUE)
            elif not _take_row(frame, driver, row, ahead[k].hash, coming, residual):
                status = np.int64(WANTED)
            if status != TAKEN:
                frame.pass_row = (row.address - feed.rows.address) // (8 * feed.row_words)
                frame.turns = turns
                return status
            turns -= 1
    frame.turns = turns
    return np.int64(TAKEN)


@kernel()
def _take_pending(frame: ChangesFrame, residual: Any) -> int:
    indexes, pending = frame.indexes, Noted(frame.pending.items)
    for k in range(max(frame.pass_row, 0), frame.pending.count // 2):
        driver, row = pending[k].input, Words(pending[k].row)
        store = frame.stores[driver]
        slot = find_equal(indexes, store, row, leading_hash(indexes, store, row))
        frame.bound[driver].row = row
        if not _go(frame, driver, row, slot, residual):
            frame.pass_row = k
            return np.int64(WANTED)
    frame.pending.count = 0
    return np.int64(TAKEN)


@kernel()
def _pass(frame: ChangesFrame, number: int, residual: Any) -> int:
    """Make one pass through the rows of an instant. If the output is read for what goes: what goes of
    each input, what comes of each, then what has waited. Else what comes and what goes of each input in
    turn, then what leaves."""
    inputs, reads_all = frame.inputs, frame.only_coming == 0
    if number < 2 * inputs:
        if reads_all:
            return _take(frame, number % inputs, number >= inputs, residual)
        return _take(frame, number // 2, number % 2 == 0, residual)
    if reads_all:
        return _take_pending(frame, residual)
    _finish_instant(frame, residual)
    return np.int64(TAKEN)


@kernel((ChangesFrame.type, PREDICATE_TYPE))
def run_changes(frame: ChangesFrame, residual: Any) -> int:
    """Take the rows of the feeds, instant by instant, from where it stopped; see `join.TAKEN`."""
    residual = predicate_at(residual)
    inputs = frame.inputs
    while True:
        number = frame.passing
        if number < 0:
            first = next_feed(frame)
            if first < 0:
                return np.int64(TAKEN)
            if frame.owed != 0:
                return np.int64(DUE)
            feed = frame.feeds[first]
            _begin_instant(frame, arrived(feed, feed.row)[1])
            number = np.int64(0)
        while number <= 2 * inputs:
            status = _pass(frame, number, residual)
            if status != TAKEN:
                frame.passing = number
                return status
            frame.pass_row = -1
            number += 1
        for i in range(inputs):
            frame.feeds[i].row = frame.feeds[i].end
        frame.passing = -1


@kernel((ChangesFrame.type, types.int64, PREDICATE_TYPE))
def evict_past(frame: ChangesFrame, number: int, residual: Any) -> None:
    """Let the rows of an input leave that are in a result, when it has become known that rows have one
    at most."""
    residual = predicate_at(residual)
    store = frame.stores[number]
    for slot in range(store.high):
        if (tail_at(store, row_at(store, slot)) & IN_RESULT) != 0:
            _finish(frame, np.int64(number), np.int64(slot), residual)
