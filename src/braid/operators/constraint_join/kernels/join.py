"""The loop of a constraint join: each event meets the rows of the other inputs, in memory or on disk.

Whatever constraints have evicted, an event meets all rows that are in the windows: the join finds what
a plain join of sliding windows finds. Constraints decide only where a row is kept, or, if rows are
dropped, that it isn't kept at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from braid.jit.records import Words
from braid.jit.row_keys import add_to_hash, same_value
from braid.jit.rows import FREE, is_null, set_null
from braid.jit.runtime import PREDICATE_TYPE, kernel, predicate_at
from braid.jit.vector import Vector, push, reserve
from braid.operators.constraint_join.kernels.arrivals import mark_waiting, observe_arrival
from braid.operators.constraint_join.kernels.eviction import (
    evict,
    leave,
    lookup_mask,
    rejection_reason,
    result_reason,
)
from braid.operators.constraint_join.kernels.records import (
    ATTRIBUTED,
    CONFIRMED,
    IN_RESULT,
    MASKED,
    SAMPLED,
    UNCOUNTED,
    Edge,
    EventFeed,
    Frame,
    Index,
    Level,
    Noted,
    Step,
    Store,
)
from braid.operators.constraint_join.kernels.rejected_keys import reject, waits_for_rejected
from braid.operators.constraint_join.kernels.spill_filter import is_absent, may_be_spilled
from braid.operators.constraint_join.kernels.store import (
    add_row,
    find,
    following_of,
    remove_expired,
    row_at,
    slot_of,
    tail_of,
)
from braid.operators.constraint_join.kernels.unique_keys import observe_keys
from braid.operators.join.kernels.frame import arrived, can_join

#: An instant that never comes.
_NEVER = np.int64(4611686018427387905)

#: What the loop returns: all events are taken, rows must be brought back from disk (the frame says
#: which), or Python must look after the rows that are held.
TAKEN, WANTED, DUE = range(3)

#: What may become of an event: it never joins, WHERE rejects it, or it may join.
NEVER_JOINS, REJECTED, JOINS = range(3)


# ---- output ----


@kernel()
def residual_holds(frame: Frame, residual: Any) -> bool:
    """Ask the residual of the rows that are bound."""
    if frame.shown_count == 0:
        return True
    asked, first = frame.asked, frame.asked_base
    for k in range(frame.shown_count):
        shown = frame.shown[k]
        row, target = frame.bound[shown.input].row, shown.target
        asked[first + target] = row[frame.stores[shown.input].base + shown.column]
        word, bit = 2 + (target >> 6), np.int64(1) << np.int64(target & 63)
        mask = asked[word]
        asked[word] = mask | bit if is_null(row, shown.column) else mask & ~bit
    return residual(np.int64(0), asked.address, frame.constants.address, frame.strings)


@kernel()
def write_output(frame: Frame) -> Words:
    """Write the output row of the rows that are bound, with a weight of one."""
    base, emitted, width = frame.out_base, frame.emitted, frame.out_width
    reserve(frame.out, width, 256 * width)
    row = frame.out.items.after(frame.out.count)
    frame.out.count += width
    frame.out_rows += 1
    row[0] = frame.now
    row[1] = frame.now
    for word in range(2, base):
        row[word] = 0
    for k in range(emitted):
        emit = frame.emit[k]
        source = frame.bound[emit.input].row
        row[base + k] = source[frame.stores[emit.input].base + emit.column]
        if is_null(source, emit.column):
            set_null(row, k)
    row[base + emitted] = 1
    return row


@kernel()
def discard_output(frame: Frame, rows: int) -> None:
    """Keep the first output rows only."""
    frame.out_rows = rows
    frame.out.count = rows * frame.out_width
    frame.expiries.count = rows * frame.expiry_words


@kernel()
def _write_expiry(frame: Frame) -> None:
    """Write when a result expires: the first instant at which a window by time is over, and for each
    window by rows the event that pushes its row out."""
    words, leaves, place = frame.expiry_words, _NEVER, np.int64(1)
    reserve(frame.expiries, words, 256 * words)
    out = frame.expiries.items.after(frame.expiries.count)
    frame.expiries.count += words
    for i in range(frame.inputs):
        store, row = frame.stores[i], frame.bound[i].row
        size = store.size
        if size < 0:
            continue
        if store.by_rows != 0:
            out[place] = tail_of(store, row).number + size
            place += 1
        elif size < _NEVER - 1 - row[1]:
            leaves = min(leaves, row[1] + size + 1)
    out[0] = leaves


@kernel()
def _emit(frame: Frame, driver: int, residual: Any) -> None:
    if not residual_holds(frame, residual):
        return
    write_output(frame)
    if frame.expiry_words != 0:
        _write_expiry(frame)
    if frame.spills == 0:
        frame.results += 1
        _count_lost(frame, driver)
    for i in range(frame.inputs):
        store = frame.stores[i]
        if i != driver and store.one_result != UNCOUNTED:
            note(frame.in_results, i, slot_of(store, frame.bound[i].row))


@kernel()
def rarer(frame: Frame, weight: int) -> int:
    """The weight of a result that needs one more sampled row: it is found so many times less often, and
    counts as many times."""
    return weight * (1024 // max(frame.samples, 1)) if weight > 0 else np.int64(1)


@kernel()
def _count_lost(frame: Frame, driver: int) -> None:
    """Count a result that would be lost but for sampled rows, and count it against what would have
    dropped them."""
    weight = np.int64(0)
    for i in range(frame.inputs):
        if i != driver and (_bound_flags(frame, i) & SAMPLED) != 0:
            weight = rarer(frame, weight)
    if weight == 0:
        return
    frame.lost += weight
    for i in range(frame.inputs):
        flags = _bound_flags(frame, i)
        reason = (flags >> MASKED) - 1
        if i != driver and (flags & SAMPLED) != 0 and reason >= 0 and (flags & ATTRIBUTED) == 0:
            # One row is one piece of evidence, however many results it is in.
            tail_of(frame.stores[i], frame.bound[i].row).flags = flags | ATTRIBUTED
            frame.lost_by[reason] += 1


@kernel()
def _bound_flags(frame: Frame, input_: int) -> int:
    """The flags of the row of an input that is bound."""
    return tail_of(frame.stores[input_], frame.bound[input_].row).flags


@kernel()
def note(rows: Vector, input_: int, row: int) -> None:
    """Append a row of an input to a list of `Noted`."""
    push(rows, input_)
    push(rows, row)


# ---- search ----


@kernel()
def probe_hash(frame: Frame, step: Step, index: Index) -> int:
    """The hash of the key that a probe looks up."""
    value = np.int64(0)
    for k in range(index.keys):
        source, how = step.sources[k], index.columns[k].how
        row, base = frame.bound[source.input].row, frame.stores[source.input].base
        value = add_to_hash(value, row, base, source.column, how)
    return value & FREE


@kernel()
def must_wait(frame: Frame, number: int, store: Store, hash_: int) -> bool:
    """Whether rows with a key must be brought back from disk before the key is looked up."""
    if not may_be_spilled(frame.indexes[number], store, hash_):
        return False
    if is_absent(frame.absent, number, hash_):
        return False
    frame.wanted_index = number
    frame.wanted_hash = hash_
    return True


@kernel()
def _begin(frame: Frame, step: Step, level: Level) -> bool:
    """Look up the key of a probe; False if rows must be brought back first."""
    index, store = frame.indexes[step.index], frame.stores[step.input]
    hash_ = probe_hash(frame, step, index)
    if must_wait(frame, step.index, store, hash_):
        return False
    index.probes += 1
    level.hash = hash_
    level.slot = find(index, hash_)
    return True


@kernel()
def has_key(frame: Frame, step: Step, index: Index, row: Words, base: int) -> bool:
    """Whether a row has the key that a probe looks up."""
    for k in range(index.keys):
        key, source = index.columns[k], step.sources[k]
        other, other_base = frame.bound[source.input].row, frame.stores[source.input].base
        if not same_value(row, base, key.column, other, other_base, source.column, key.how):
            return False
    return True


@kernel()
def _next(frame: Frame, step: Step, level: Level) -> bool:
    """Bind the next row that a probe finds; whether there is one."""
    slot, hash_ = level.slot, level.hash
    index, store = frame.indexes[step.index], frame.stores[step.input]
    base = store.base
    while slot >= 0:
        row = row_at(store, slot)
        slot = following_of(index, slot, hash_)
        if has_key(frame, step, index, row, base):
            index.found += 1
            frame.bound[step.input].row = row
            level.slot = slot
            return True
    level.slot = -1
    return False


@kernel()
def _finds_nothing(frame: Frame, driver: int) -> bool:
    """Whether another input has no row, so that nothing need be looked up. If rows are on disk the
    search is made all the same: a row that waits for this event is found by its key alone
    (`lookup_mask`), and must be in memory when a later event looks it up by another key."""
    empty = False
    for i in range(frame.inputs):
        if i != driver:
            store = frame.stores[i]
            if store.spilled != 0:
                return False
            empty = empty or store.count == 0
    return empty


@kernel()
def _search(frame: Frame, driver: int, residual: Any) -> bool:
    """Find all combinations of the event that is bound; False if rows must be brought back."""
    if _finds_nothing(frame, driver):
        return True
    last = frame.inputs - 2
    steps, levels = frame.steps[driver * (last + 1)], frame.levels
    if not _begin(frame, steps, levels):
        return False
    depth = np.int64(0)
    while depth >= 0:
        if not _next(frame, steps[depth], levels[depth]):
            depth -= 1
        elif depth == last:
            _emit(frame, driver, residual)
        else:
            depth += 1
            if not _begin(frame, steps[depth], levels[depth]):
                return False
    return True


# ---- rows that leave after their result ----


@kernel()
def _note_results(frame: Frame) -> None:
    """Count the results of the other inputs' rows in results of this event. Rows that have one result
    at most leave."""
    noted, count = Noted(frame.in_results.items), frame.in_results.count // 2
    for k in range(count):
        store = frame.stores[noted[k].input]
        tail = tail_of(store, row_at(store, noted[k].row))
        if (tail.flags & IN_RESULT) != 0:
            store.further_results += 1
        else:
            store.first_results += 1
            tail.flags |= IN_RESULT
    for k in range(count):
        input_, slot = noted[k].input, noted[k].row
        store = frame.stores[input_]
        tail = tail_of(store, row_at(store, slot))
        # A row that has left already may be noted again: it has no flags then.
        if store.one_result == CONFIRMED and (tail.flags & IN_RESULT) != 0:
            if evict(frame, store, slot, np.int64(0), result_reason(frame, input_)):
                tail.flags = 0
    frame.in_results.count = 0


@kernel()
def _hold_event(frame: Frame, driver: int, found: int) -> None:
    """Hold the event, unless it has had its only result."""
    store, record = frame.stores[driver], frame.event
    if found > 0 and store.one_result != UNCOUNTED:
        store.first_results += 1
        store.further_results += found - 1
        tail_of(store, record).flags = IN_RESULT
        if store.one_result == CONFIRMED and leave(
            frame, store, record, np.int64(0), result_reason(frame, driver)
        ):
            return
    add_row(frame.indexes, store, record, 0)


@kernel()
def _leave_waiting(frame: Frame, store: Store, edge: Edge, record: Words) -> bool:
    """Let an event leave that waits for a rejected row; False if it is sampled and stays."""
    mask = lookup_mask(frame, edge, store, record)
    return leave(frame, store, record, mask, rejection_reason(frame, edge.index))


# ---- events ----


@kernel()
def judge_event(feed: EventFeed, row: Words, store: Store) -> int:
    """What may become of a row: `NEVER_JOINS` if a key of it is NULL, or if columns that equal the same
    column of another input differ."""
    base, keeps = store.base, store.keeps
    if not can_join(feed, row, base):
        return NEVER_JOINS
    if keeps >= 0 and (is_null(row, keeps) or row[base + keeps] == 0):
        return REJECTED
    return JOINS


@kernel()
def make_record(store: Store, row: Words, number: int, record: Words) -> None:
    """Write the held row of the event `number` of an input."""
    width = store.width
    for word in range(width):
        record[word] = row[word]
    for word in range(width, store.record_words):
        record[word] = -1
    tail = tail_of(store, record)
    tail.number = number
    tail.flags = 0


@kernel()
def _take(frame: Frame, driver: int, row: Words, residual: Any) -> bool:
    """Take one event; False if rows must be brought back and the event is to be taken again."""
    store, record = frame.stores[driver], frame.event
    number = store.arrivals + 1
    make_record(store, row, number, record)
    if store.by_rows != 0 and number <= store.last_left:
        store.arrivals = number
        return True
    verdict = judge_event(frame.feeds[driver], row, store)
    joins, first = verdict == JOINS, frame.out_rows
    if joins:
        frame.bound[driver].row = record
        frame.in_results.count = 0
        if not _search(frame, driver, residual):
            discard_output(frame, first)
            return False
    store.arrivals = number
    found = frame.out_rows - first
    if verdict != NEVER_JOINS:
        observe_keys(frame, store, record)
    observe_arrival(frame, driver, record, joins)
    if joins:
        store.accepted += 1
        if frame.in_results.count > 0:
            _note_results(frame)
        if found == 0:
            mark_waiting(frame, driver, record)
            edge = waits_for_rejected(frame, driver, record)
            if edge.address != 0 and _leave_waiting(frame, store, edge, record):
                reject(frame, driver, record)
                return True
        _hold_event(frame, driver, found)
    elif verdict == REJECTED:
        reject(frame, driver, record)
    return True


@kernel()
def begin_instant(frame: Frame, time: int) -> None:
    """Remove rows whose windows are over, before anything comes."""
    frame.now = time
    for i in range(frame.inputs):
        store = frame.stores[i]
        if store.by_rows != 0:
            feed, last = frame.feeds[i], store.arrivals - store.size
            row = feed.row
            while row < feed.count and arrived(feed, row)[1] == time:
                row += 1
                last += 1
            store.last_left = max(last, store.last_left)
        if store.count > 0:
            remove_expired(frame.indexes, store, time)


@kernel()
def next_feed(frame: Frame) -> int:
    """The input whose next event is the earliest, or -1."""
    best, earliest = np.int64(-1), np.int64(0)
    for i in range(frame.inputs):
        feed = frame.feeds[i]
        if feed.row < feed.count:
            time = arrived(feed, feed.row)[1]
            if best < 0 or time < earliest:
                best, earliest = np.int64(i), time
    return best


@kernel((Frame.type, PREDICATE_TYPE))
def run(frame: Frame, residual: Any) -> int:
    """Take events of the feeds; see `TAKEN`."""
    residual = predicate_at(residual)
    budget, driver = frame.budget, next_feed(frame)
    while driver >= 0:
        if budget == 0 or frame.due != 0:
            return DUE
        budget -= 1
        feed = frame.feeds[driver]
        row = arrived(feed, feed.row)
        if row[1] != frame.now:
            begin_instant(frame, row[1])
        if not _take(frame, driver, row, residual):
            return WANTED
        feed.row += 1
        driver = next_feed(frame)
    return TAKEN


@kernel((Frame.type, types.int64))
def pass_time(frame: Frame, bound: int) -> None:
    """Remove what has left its window before this time."""
    for i in range(frame.inputs):
        store = frame.stores[i]
        if store.count > 0:
            remove_expired(frame.indexes, store, bound)
