"""The loop of a join with constraints: each event meets what the others hold, in memory or aside.

Whatever constraints have done, an event meets all rows that are in the windows: what is found is
what a plain join of sliding windows finds. Constraints only say where a row is kept, or, if rows
are dropped, that it is not kept at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.jit import types
from braid.jit.memory import resized
from braid.jit.records import Words
from braid.jit.runtime import (
    PREDICATE_TYPE,
    WORDS,
    address,
    kernel,
    load_int,
    predicate_at,
    store_int,
)
from braid.operators.constraint_join.kernels.arrivals import after, before
from braid.operators.constraint_join.kernels.eviction import (
    after_refusal,
    after_result,
    asked_by,
    evict,
    leave,
)
from braid.operators.constraint_join.kernels.frame import (
    ASKED_AT,
    ASKED_BASE,
    AT_HASH,
    AT_SLOT,
    BOUND_AT,
    BUDGET,
    CHECKS,
    CHECKS_AT,
    CONSTANTS_AT,
    DONE,
    DONE_AT,
    DUE,
    EDGE_INDEX,
    EMIT_AT,
    EMITTED,
    EVENT_AT,
    FEED_BYTES,
    FEED_ROW,
    FEED_ROWS,
    FEED_ROWS_AT,
    FEED_WORDS,
    FEEDS_AT,
    GOING,
    GOING_AT,
    GOING_WORDS,
    INDEXES_AT,
    INPUTS,
    KNOWN_AT,
    LEVEL_WORDS,
    LEVELS_AT,
    LOST,
    LOST_BY_AT,
    NOW,
    OUT_AT,
    OUT_BASE,
    OUT_ROOM,
    OUT_ROWS,
    OUT_WIDTH,
    RESULTS,
    SAMPLES,
    SHOWN,
    SHOWN_AT,
    SPILLS,
    STEP_INDEX,
    STEP_INPUT,
    STEP_SOURCES,
    STEP_WORDS,
    STEPS_AT,
    STORES_AT,
    STRINGS_AT,
    WANTED_HASH,
    WANTED_INDEX,
)
from braid.operators.constraint_join.kernels.rejected_keys import is_in_vain, refuse
from braid.operators.constraint_join.kernels.spill_filter import is_known, may_be_aside
from braid.operators.constraint_join.kernels.store import (
    AGAIN,
    ARRIVALS,
    ASIDE,
    BASE,
    BY_ROWS,
    CAME,
    COLUMNS_AT,
    COUNT,
    COVERS,
    DONE_WITH,
    FIRST,
    FLAGS,
    FOUND,
    IN_RESULT,
    INDEX_WORDS,
    KEEPS,
    KEYS,
    LEFT,
    MASKED,
    NUMBER,
    PROBES,
    RECORD,
    SAMPLED,
    SIZE,
    SLOTS_AT,
    STORE_WORDS,
    STRIDE,
    WATCHED,
    WIDTH,
    add_row,
    drop_over,
    find,
    following_of,
    slot_at,
)
from braid.operators.constraint_join.kernels.unique_keys import note_keys
from braid.operators.core.kernels.instances import FREE, canonical_float, is_null, mix
from braid.operators.join.kernels.store import same_value

_SEED = np.int64(0x9E3779B97F4A7C)
_NULL = np.int64(0x5851F42D4C957F2D)
_NEVER = np.int64(4611686018427387905)

#: A flag of a sampled row: it has been counted against what would have dropped it.
_COUNTED = 8

#: What may become of an event.
NEVER, REFUSED, JOINS = range(3)


@kernel()
def store_of(frame: int, input_: int) -> int:
    return load_int(frame, STORES_AT) + input_ * (8 * STORE_WORDS)


# ---- output ----


@kernel()
def wanted(frame: int, residual: Any) -> bool:
    """Ask the residual of the rows that are bound."""
    count = load_int(frame, SHOWN)
    if count == 0:
        return True
    asked, first, bound = (
        load_int(frame, ASKED_AT),
        load_int(frame, ASKED_BASE),
        load_int(frame, BOUND_AT),
    )
    shown = load_int(frame, SHOWN_AT)
    for _ in range(count):
        input_, column, target = load_int(shown, 0), load_int(shown, 1), load_int(shown, 2)
        row = load_int(bound, input_)
        base = load_int(store_of(frame, input_), BASE)
        store_int(asked, first + target, load_int(row, base + column))
        word, bit = 2 + (target >> 6), np.int64(1) << np.int64(target & 63)
        mask = load_int(asked, word)
        store_int(asked, word, mask | bit if is_null(row, column) else mask & ~bit)
        shown += 24
    constants, strings = load_int(frame, CONSTANTS_AT), load_int(frame, STRINGS_AT)
    return residual(np.int64(0), asked, constants, strings)


@kernel()
def grow(frame: int) -> None:
    room = max(np.int64(256), 2 * load_int(frame, OUT_ROOM))
    store_int(frame, OUT_AT, resized(load_int(frame, OUT_AT), room * load_int(frame, OUT_WIDTH)))
    if load_int(frame, GOING) != 0:
        words = room * load_int(frame, GOING_WORDS)
        store_int(frame, GOING_AT, resized(load_int(frame, GOING_AT), words))
    store_int(frame, OUT_ROOM, room)


@kernel()
def compose(frame: int, out: int) -> None:
    """Write the output row of the rows that are bound, with a weight of one."""
    bound, base, emitted = (
        load_int(frame, BOUND_AT),
        load_int(frame, OUT_BASE),
        load_int(frame, EMITTED),
    )
    now = load_int(frame, NOW)
    store_int(out, 0, now)
    store_int(out, 1, now)
    for word in range(2, base):
        store_int(out, word, 0)
    pair = load_int(frame, EMIT_AT)
    for k in range(emitted):
        input_, column = load_int(pair, 0), load_int(pair, 1)
        row = load_int(bound, input_)
        store_int(out, base + k, load_int(row, load_int(store_of(frame, input_), BASE) + column))
        if is_null(row, column):
            word = 2 + (k >> 6)
            store_int(out, word, load_int(out, word) | (np.int64(1) << np.int64(k & 63)))
        pair += 16
    store_int(out, base + emitted, 1)


@kernel()
def _follow(frame: int, out: int) -> None:
    """Write when a result goes: the first instant at which a window by time is over, and for each
    window by rows the event that pushes its row out."""
    bound, leaves, place = load_int(frame, BOUND_AT), _NEVER, np.int64(1)
    for i in range(load_int(frame, INPUTS)):
        store, row = store_of(frame, i), load_int(bound, i)
        size = load_int(store, SIZE)
        if size < 0:
            continue
        if load_int(store, BY_ROWS) != 0:
            store_int(out, place, load_int(row, load_int(store, WIDTH) + NUMBER) + size)
            place += 1
        elif size < _NEVER - 1 - load_int(row, 1):
            leaves = min(leaves, load_int(row, 1) + size + 1)
    store_int(out, 0, leaves)


@kernel()
def _emit(frame: int, driver: int, residual: Any) -> None:
    if not wanted(frame, residual):
        return
    count = load_int(frame, OUT_ROWS)
    if count == load_int(frame, OUT_ROOM):
        grow(frame)
    compose(frame, load_int(frame, OUT_AT) + 8 * count * load_int(frame, OUT_WIDTH))
    if load_int(frame, GOING) != 0:
        _follow(frame, load_int(frame, GOING_AT) + 8 * count * load_int(frame, GOING_WORDS))
    store_int(frame, OUT_ROWS, count + 1)
    if load_int(frame, SPILLS) == 0:
        store_int(frame, RESULTS, load_int(frame, RESULTS) + 1)
        _count_lost(frame, driver)
    for i in range(load_int(frame, INPUTS)):
        store = store_of(frame, i)
        if i != driver and load_int(store, COVERS) >= WATCHED:
            row = load_int(load_int(frame, BOUND_AT), i)
            note(frame, DONE_AT, i, (row - load_int(store, SLOTS_AT)) // load_int(store, STRIDE))


@kernel()
def _count_lost(frame: int, driver: int) -> None:
    """Count a result that would be lost but for rows that were sampled, and against what dropped
    them. One that needs two of these is found so many times less often, and counts as many times."""
    weight = np.int64(0)
    for i in range(load_int(frame, INPUTS)):
        if i != driver and (_flags_of(frame, i) & SAMPLED) != 0:
            rarer = 1024 // max(load_int(frame, SAMPLES), np.int64(1))
            weight = weight * rarer if weight > 0 else np.int64(1)
    if weight == 0:
        return
    store_int(frame, LOST, load_int(frame, LOST) + weight)
    by = load_int(frame, LOST_BY_AT)
    for i in range(load_int(frame, INPUTS)):
        if i != driver and (_flags_of(frame, i) & SAMPLED) != 0:
            flags, row = _flags_of(frame, i), load_int(load_int(frame, BOUND_AT), i)
            why = (flags >> MASKED) - 1
            if why >= 0 and (flags & _COUNTED) == 0:
                # One row is one piece of evidence, however many results it is in.
                store_int(row, load_int(store_of(frame, i), WIDTH) + FLAGS, flags | _COUNTED)
                store_int(by, why, load_int(by, why) + 1)


@kernel()
def _flags_of(frame: int, input_: int) -> int:
    """The flags of the row of an input that is bound."""
    return load_int(
        load_int(load_int(frame, BOUND_AT), input_),
        load_int(store_of(frame, input_), WIDTH) + FLAGS,
    )


@kernel()
def note(frame: int, list_: int, input_: int, row: int) -> None:
    """Add to a list of pairs: three words of the frame, where it is, how long, how much room."""
    count = load_int(frame, list_ + 1)
    if count == load_int(frame, list_ + 2):
        room = max(np.int64(64), 2 * count)
        store_int(frame, list_, resized(load_int(frame, list_), 2 * room))
        store_int(frame, list_ + 2, room)
    at = load_int(frame, list_) + 16 * count
    store_int(at, 0, input_)
    store_int(at, 1, row)
    store_int(frame, list_ + 1, count + 1)


# ---- search ----


@kernel()
def hash_of_sources(frame: int, step: int, index: int) -> int:
    value, columns = np.int64(0), load_int(index, COLUMNS_AT)
    pair, bound = load_int(step, STEP_SOURCES), load_int(frame, BOUND_AT)
    for k in range(load_int(index, KEYS)):
        input_, column = load_int(pair, 2 * k), load_int(pair, 2 * k + 1)
        row = load_int(bound, input_)
        if is_null(row, column):
            value = mix(value + _NULL)
            continue
        word = load_int(row, load_int(store_of(frame, input_), BASE) + column)
        if load_int(columns, 2 * k + 1) != 0:
            word = canonical_float(word)
        value = mix(value + word + _SEED)
    return value & FREE


@kernel()
def is_wanted(frame: int, number: int, index: int, store: int, hash_: int) -> bool:
    """Whether rows with a key must be brought back before it can be looked up."""
    if load_int(store, ASIDE) == 0 or not may_be_aside(index, hash_):
        return False
    if is_known(load_int(frame, KNOWN_AT), number, hash_):
        return False
    store_int(frame, WANTED_INDEX, number)
    store_int(frame, WANTED_HASH, hash_)
    return True


@kernel()
def _begin(frame: int, step: int, level: int) -> bool:
    """Look up the key of a probe; False if something must be brought back first."""
    number = load_int(step, STEP_INDEX)
    index = load_int(frame, INDEXES_AT) + number * (8 * INDEX_WORDS)
    store = store_of(frame, load_int(step, STEP_INPUT))
    hash_ = hash_of_sources(frame, step, index)
    if is_wanted(frame, number, index, store, hash_):
        return False
    store_int(index, PROBES, load_int(index, PROBES) + 1)
    store_int(level, AT_HASH, hash_)
    store_int(level, AT_SLOT, find(index, store, hash_))
    return True


@kernel()
def fits(frame: int, step: int, index: int, row: int, base: int) -> bool:
    columns = load_int(index, COLUMNS_AT)
    pair, bound = load_int(step, STEP_SOURCES), load_int(frame, BOUND_AT)
    for k in range(load_int(index, KEYS)):
        input_, source = load_int(pair, 2 * k), load_int(pair, 2 * k + 1)
        column, floating = load_int(columns, 2 * k), load_int(columns, 2 * k + 1)
        other = load_int(bound, input_)
        own = load_int(store_of(frame, input_), BASE)
        if not same_value(Words(row), base, column, Words(other), own, source, floating):
            return False
    return True


@kernel()
def _next(frame: int, step: int, level: int) -> bool:
    """Bind the next row that a probe finds; whether there is one."""
    slot, hash_ = load_int(level, AT_SLOT), load_int(level, AT_HASH)
    index = load_int(frame, INDEXES_AT) + load_int(step, STEP_INDEX) * (8 * INDEX_WORDS)
    input_ = load_int(step, STEP_INPUT)
    store = store_of(frame, input_)
    base = load_int(store, BASE)
    while slot >= 0:
        row = slot_at(store, slot)
        slot = following_of(index, store, slot, hash_)
        if fits(frame, step, index, row, base):
            store_int(index, FOUND, load_int(index, FOUND) + 1)
            store_int(load_int(frame, BOUND_AT), input_, row)
            store_int(level, AT_SLOT, slot)
            return True
    store_int(level, AT_SLOT, -1)
    return False


@kernel()
def _is_alone(frame: int, driver: int) -> bool:
    """Whether nothing has to be looked up, since another input has no row. Where rows are aside it has
    to all the same: one that waits for this event is found by its key alone (`asked_by`), and must be
    in memory when whoever comes to that input later asks for it by another key."""
    alone = False
    for i in range(load_int(frame, INPUTS)):
        if i != driver:
            store = store_of(frame, i)
            if load_int(store, ASIDE) != 0:
                return False
            alone = alone or load_int(store, COUNT) == 0
    return alone


@kernel()
def _search(frame: int, driver: int, residual: Any) -> bool:
    """All combinations of the event that is bound; False if something must be brought back."""
    if _is_alone(frame, driver):
        return True
    last = load_int(frame, INPUTS) - 2
    steps = load_int(frame, STEPS_AT) + driver * (last + 1) * (8 * STEP_WORDS)
    levels = load_int(frame, LEVELS_AT)
    if not _begin(frame, steps, levels):
        return False
    depth = np.int64(0)
    while depth >= 0:
        step, level = steps + depth * (8 * STEP_WORDS), levels + depth * (8 * LEVEL_WORDS)
        if not _next(frame, step, level):
            depth -= 1
        elif depth == last:
            _emit(frame, driver, residual)
        else:
            depth += 1
            if not _begin(frame, step + 8 * STEP_WORDS, level + 8 * LEVEL_WORDS):
                return False
    return True


# ---- rows that are done with ----


@kernel()
def _note_results(frame: int) -> None:
    """Count the rows of the others that are in results of this event; done with, they leave."""
    at, done = load_int(frame, DONE_AT), load_int(frame, DONE)
    for k in range(done):
        store, slot = store_of(frame, load_int(at, 2 * k)), load_int(at, 2 * k + 1)
        row = slot_at(store, slot)
        flags = load_int(store, WIDTH) + FLAGS
        word = load_int(row, flags)
        if (word & IN_RESULT) != 0:
            store_int(store, AGAIN, load_int(store, AGAIN) + 1)
        else:
            store_int(store, FIRST, load_int(store, FIRST) + 1)
            store_int(row, flags, word | IN_RESULT)
    for k in range(done):
        store, slot = store_of(frame, load_int(at, 2 * k)), load_int(at, 2 * k + 1)
        row = slot_at(store, slot)
        flags = load_int(store, WIDTH) + FLAGS
        # A slot that has left already is named twice: its flags are gone then.
        if load_int(store, COVERS) == DONE_WITH and (load_int(row, flags) & IN_RESULT) != 0:
            if evict(frame, store, slot, np.int64(0), after_result(frame, load_int(at, 2 * k))):
                store_int(row, flags, 0)
    store_int(frame, DONE, 0)


@kernel()
def _keep_event(frame: int, driver: int, found: int) -> None:
    """Hold the event, unless it is done with."""
    store, record = store_of(frame, driver), load_int(frame, EVENT_AT)
    if found > 0 and load_int(store, COVERS) >= WATCHED:
        store_int(store, FIRST, load_int(store, FIRST) + 1)
        store_int(store, AGAIN, load_int(store, AGAIN) + found - 1)
        store_int(record, load_int(store, WIDTH) + FLAGS, IN_RESULT)
        if load_int(store, COVERS) == DONE_WITH and leave(
            frame, store, record, np.int64(0), after_result(frame, driver)
        ):
            return
    add_row(load_int(frame, INDEXES_AT), store, record, 0)


@kernel()
def _leave_in_vain(frame: int, store: int, edge: int, record: int) -> bool:
    """An event that waits for a row which was refused."""
    mask, why = asked_by(frame, edge, store, record), load_int(edge, EDGE_INDEX)
    return leave(frame, store, record, mask, after_refusal(frame, why))


# ---- events ----


@kernel()
def judged(feed: int, row: int, store: int) -> int:
    """Whether a row may join (JOINS), is refused by WHERE alone (REFUSED), or can never join since
    a key of it is NULL, or columns that equal the same column of another input differ (NEVER)."""
    base, keeps = load_int(store, BASE), load_int(store, KEEPS)
    check = load_int(feed, CHECKS_AT)
    for _ in range(load_int(feed, CHECKS)):
        column, other = load_int(check, 0), load_int(check, 1)
        if load_int(check, 3) != 0 and is_null(row, column):
            return NEVER
        own, floating = Words(row), load_int(check, 2)
        if other >= 0 and not same_value(own, base, column, own, base, other, floating):
            return NEVER
        check += 32
    if keeps >= 0 and (is_null(row, keeps) or load_int(row, base + keeps) == 0):
        return REFUSED
    return JOINS


@kernel()
def _take(frame: int, driver: int, row: int, residual: Any) -> bool:
    """One event; False if something must be brought back and it is to come again."""
    store, record = store_of(frame, driver), load_int(frame, EVENT_AT)
    feed = load_int(frame, FEEDS_AT) + driver * (8 * FEED_WORDS)
    width, number = load_int(store, WIDTH), load_int(store, ARRIVALS) + 1
    for word in range(width):
        store_int(record, word, load_int(row, word))
    for word in range(width, load_int(store, RECORD)):
        store_int(record, word, -1)
    store_int(record, width + NUMBER, number)
    store_int(record, width + FLAGS, 0)
    if load_int(store, BY_ROWS) != 0 and number <= load_int(store, LEFT):
        store_int(store, ARRIVALS, number)
        return True
    verdict = judged(feed, row, store)
    joins = verdict == JOINS
    first = load_int(frame, OUT_ROWS)
    if joins:
        store_int(load_int(frame, BOUND_AT), driver, record)
        store_int(frame, DONE, 0)
        if not _search(frame, driver, residual):
            store_int(frame, OUT_ROWS, first)
            return False
    store_int(store, ARRIVALS, number)
    found = load_int(frame, OUT_ROWS) - first
    if verdict != NEVER:
        note_keys(frame, store, record)
    before(frame, driver, record, joins)
    if joins:
        store_int(store, CAME, load_int(store, CAME) + 1)
        if load_int(frame, DONE) > 0:
            _note_results(frame)
        if found == 0:
            after(frame, driver, record)
            edge = is_in_vain(frame, driver, record)
            if edge != 0 and _leave_in_vain(frame, store, edge, record):
                refuse(frame, driver, record)
                return True
        _keep_event(frame, driver, found)
    elif verdict == REFUSED:
        refuse(frame, driver, record)
    return True


@kernel()
def begin_instant(frame: int, time: int) -> None:
    """Let rows go whose windows are over, before anything comes."""
    store_int(frame, NOW, time)
    indexes = load_int(frame, INDEXES_AT)
    for i in range(load_int(frame, INPUTS)):
        store = store_of(frame, i)
        if load_int(store, BY_ROWS) != 0:
            feed = load_int(frame, FEEDS_AT) + i * (8 * FEED_WORDS)
            row, count = load_int(feed, FEED_ROW), np.int64(0)
            at, stride = load_int(feed, FEED_ROWS_AT), load_int(feed, FEED_BYTES)
            while row < load_int(feed, FEED_ROWS) and load_int(at + row * stride, 1) == time:
                row += 1
                count += 1
            left = load_int(store, ARRIVALS) + count - load_int(store, SIZE)
            store_int(store, LEFT, max(left, load_int(store, LEFT)))
        if load_int(store, COUNT) > 0:
            drop_over(indexes, store, time)


@kernel()
def next_feed(frame: int) -> int:
    """The input whose next event is the earliest, or -1."""
    best, earliest = np.int64(-1), np.int64(0)
    feed = load_int(frame, FEEDS_AT)
    for i in range(load_int(frame, INPUTS)):
        row = load_int(feed, FEED_ROW)
        if row < load_int(feed, FEED_ROWS):
            time = load_int(load_int(feed, FEED_ROWS_AT) + row * load_int(feed, FEED_BYTES), 1)
            if best < 0 or time < earliest:
                best, earliest = np.int64(i), time
        feed += 8 * FEED_WORDS
    return best


@kernel((WORDS, PREDICATE_TYPE))
def run(words: np.ndarray, residual: Any) -> int:
    """Take events of the feeds: 0 if all are taken, 1 if rows must be brought back (the frame says
    which), 2 if it is time to look after what is held."""
    residual = predicate_at(residual)
    frame = address(words)
    feeds, budget = load_int(frame, FEEDS_AT), load_int(frame, BUDGET)
    driver = next_feed(frame)
    while driver >= 0:
        if budget == 0 or load_int(frame, DUE) != 0:
            return 2
        budget -= 1
        feed = feeds + driver * (8 * FEED_WORDS)
        number = load_int(feed, FEED_ROW)
        row = load_int(feed, FEED_ROWS_AT) + number * load_int(feed, FEED_BYTES)
        if load_int(row, 1) != load_int(frame, NOW):
            begin_instant(frame, load_int(row, 1))
        if not _take(frame, driver, row, residual):
            return 1
        store_int(feed, FEED_ROW, number + 1)
        driver = next_feed(frame)
    return 0


@kernel((WORDS, types.int64))
def pass_time(words: np.ndarray, bound: int) -> None:
    """Forget what has left its window before this time."""
    frame = address(words)
    for i in range(load_int(frame, INPUTS)):
        store = store_of(frame, i)
        if load_int(store, COUNT) > 0:
            drop_over(load_int(frame, INDEXES_AT), store, bound)
