"""A look at arrivals beside a join that is done elsewhere: of one key in so many the rows are held, and
it is seen for how long they wait, in what order they come, and which could leave early.

Nothing is joined here. What leaves is counted (`LEFT_EARLY`, of rows that came: `CAME`), so that it can
be said beforehand what constraints would save.
"""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import WORDS, address, kernel, load_int, store_int
from braid.operators.constraint_join.kernels.arrivals import watch_columns, watch_waiting
from braid.operators.constraint_join.kernels.eviction import leave
from braid.operators.constraint_join.kernels.frame import (
    DONE,
    DONE_AT,
    EDGE_INDEX,
    EDGE_OTHER,
    EDGE_OWN,
    EDGE_WATCH,
    EDGE_WORDS,
    EDGES_AT,
    EVENT_AT,
    FEED_BYTES,
    FEED_END,
    FEED_NEXT,
    FEED_ROW,
    FEED_ROWS,
    FEED_ROWS_AT,
    FEED_WORDS,
    FEEDS_AT,
    INDEXES_AT,
    INPUTS,
    LOOKING,
    NOW,
)
from braid.operators.constraint_join.kernels.join import (
    JOINS,
    REFUSED,
    begin_instant,
    judged,
    note,
    store_of,
)
from braid.operators.constraint_join.kernels.rejected_keys import is_in_vain, refuse
from braid.operators.constraint_join.kernels.store import (
    ARRIVALS,
    BASE,
    CAME,
    EDGES,
    FLAGS,
    INDEX_WORDS,
    KEYS,
    MARKS,
    NUMBER,
    RECORD,
    WIDTH,
    add_row,
    find,
    hash_key,
)
from braid.operators.constraint_join.kernels.unique_keys import note_keys
from braid.operators.constraint_join.kernels.watch import is_awake, watch_at
from braid.operators.core.kernels.instances import mix

#: After all times.
_LAST = np.int64(9223372036854775807)


@kernel()
def _meet(frame: int, driver: int, record: int, joins: bool) -> bool:
    """Tell those who wait for an event with one of the keys that are looked at, and for whom it
    waits itself; whether it has such a key."""
    store, indexes = store_of(frame, driver), load_int(frame, INDEXES_AT)
    edges = load_int(frame, EDGES_AT) + driver * load_int(frame, INPUTS) * (8 * EDGE_WORDS)
    base, mark = load_int(store, BASE), load_int(store, WIDTH) + MARKS
    one_in, some = load_int(frame, LOOKING), False
    for place in range(load_int(store, EDGES)):
        edge = edges + place * (8 * EDGE_WORDS)
        own = indexes + load_int(edge, EDGE_OWN) * (8 * INDEX_WORDS)
        hash_ = hash_key(record, base, own)
        if (hash_ & (one_in - 1)) != 0:
            continue
        some = True
        if joins:
            if is_awake(watch_at(frame, load_int(edge, EDGE_WATCH)), store):
                watch_waiting(frame, driver, edge, record, hash_)
            other = store_of(frame, load_int(edge, EDGE_OTHER))
            index = indexes + load_int(edge, EDGE_INDEX) * (8 * INDEX_WORDS)
            if find(index, other, hash_) < 0:
                store_int(record, mark + place, load_int(other, ARRIVALS))
    return some


@kernel()
def _is_passed_over(frame: int, driver: int, row: int, number: int) -> bool:
    """Whether nobody looks at an event: at its number, or at a key of it. Columns of longer keys
    are looked at by themselves."""
    store, indexes = store_of(frame, driver), load_int(frame, INDEXES_AT)
    edges = load_int(frame, EDGES_AT) + driver * load_int(frame, INPUTS) * (8 * EDGE_WORDS)
    others, base = load_int(frame, LOOKING) - 1, load_int(store, BASE)
    if (mix(number) & others) == 0:
        return False
    for place in range(load_int(store, EDGES)):
        own = indexes + load_int(edges + place * (8 * EDGE_WORDS), EDGE_OWN) * (8 * INDEX_WORDS)
        if load_int(own, KEYS) > 1 or (hash_key(row, base, own) & others) == 0:
            return False
    return True


@kernel()
def _choose(frame: int) -> None:
    """Name the events of each feed that somebody looks at: they are few."""
    store_int(frame, DONE, 0)
    for i in range(load_int(frame, INPUTS)):
        feed = load_int(frame, FEEDS_AT) + i * (8 * FEED_WORDS)
        row, stride = load_int(feed, FEED_ROWS_AT), load_int(feed, FEED_BYTES)
        number = load_int(store_of(frame, i), ARRIVALS)
        store_int(feed, FEED_NEXT, load_int(frame, DONE))
        for k in range(load_int(feed, FEED_ROWS)):
            if not _is_passed_over(frame, np.int64(i), row, number + k + 1):
                note(frame, DONE_AT, i, k)
            row += stride
        store_int(feed, FEED_END, load_int(frame, DONE))


@kernel()
def _next_chosen(frame: int) -> int:
    """The input whose next event that is looked at is the earliest, or -1."""
    best, earliest = np.int64(-1), np.int64(0)
    for i in range(load_int(frame, INPUTS)):
        feed = load_int(frame, FEEDS_AT) + i * (8 * FEED_WORDS)
        place = load_int(feed, FEED_NEXT)
        if place < load_int(feed, FEED_END):
            row = load_int(load_int(frame, DONE_AT), 2 * place + 1)
            time = load_int(load_int(feed, FEED_ROWS_AT) + row * load_int(feed, FEED_BYTES), 1)
            if best < 0 or time < earliest:
                best, earliest = np.int64(i), time
    return best


@kernel()
def _count(frame: int, driver: int, until: int, time: int) -> None:
    """Count the events that have come before this row of an input, or before a time if it is -1."""
    for i in range(load_int(frame, INPUTS)):
        feed, store = load_int(frame, FEEDS_AT) + i * (8 * FEED_WORDS), store_of(frame, i)
        first, rows = load_int(feed, FEED_ROW), load_int(feed, FEED_ROWS)
        at, stride = load_int(feed, FEED_ROWS_AT), load_int(feed, FEED_BYTES)
        row = until if i == driver else first
        if i != driver:
            # Those of one instant come input by input.
            last = time if i < driver else time - 1
            while row < rows and load_int(at + row * stride, 1) <= last:
                row += 1
        store_int(feed, FEED_ROW, row)
        store_int(store, ARRIVALS, load_int(store, ARRIVALS) + row - first)


@kernel()
def _look_at(frame: int, driver: int, row: int) -> None:
    store, record = store_of(frame, driver), load_int(frame, EVENT_AT)
    feed = load_int(frame, FEEDS_AT) + driver * (8 * FEED_WORDS)
    width, number = load_int(store, WIDTH), load_int(store, ARRIVALS) + 1
    store_int(store, ARRIVALS, number)
    if load_int(row, 1) != load_int(frame, NOW):
        begin_instant(frame, load_int(row, 1))
    for word in range(width):
        store_int(record, word, load_int(row, word))
    for word in range(width, load_int(store, RECORD)):
        store_int(record, word, -1)
    store_int(record, width + NUMBER, number)
    store_int(record, width + FLAGS, 0)
    watch_columns(frame, driver, record)
    verdict = judged(feed, row, store)
    joins = verdict == JOINS
    if not joins and verdict != REFUSED:
        return
    note_keys(frame, store, record)
    if not _meet(frame, driver, record, joins):
        return
    if not joins:
        refuse(frame, driver, record)
        return
    store_int(store, CAME, load_int(store, CAME) + 1)
    if is_in_vain(frame, driver, record) != 0:
        leave(frame, store, record, np.int64(0), np.int64(0))
        refuse(frame, driver, record)
    else:
        add_row(load_int(frame, INDEXES_AT), store, record, 0)


@kernel((WORDS,))
def look(words: np.ndarray) -> None:
    """Take all events of the feeds."""
    frame = address(words)
    _choose(frame)
    feeds, driver = load_int(frame, FEEDS_AT), _next_chosen(frame)
    while driver >= 0:
        feed = feeds + driver * (8 * FEED_WORDS)
        place = load_int(feed, FEED_NEXT)
        number = load_int(load_int(frame, DONE_AT), 2 * place + 1)
        row = load_int(feed, FEED_ROWS_AT) + number * load_int(feed, FEED_BYTES)
        _count(frame, driver, number, load_int(row, 1))
        _look_at(frame, driver, row)
        store_int(feed, FEED_ROW, number + 1)
        store_int(feed, FEED_NEXT, place + 1)
        driver = _next_chosen(frame)
    _count(frame, np.int64(-1), np.int64(-1), _LAST)
    store_int(frame, DONE, 0)
