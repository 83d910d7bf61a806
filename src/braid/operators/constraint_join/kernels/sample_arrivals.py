"""Samples arrivals beside a join that is done elsewhere, to estimate what constraints would save.

The sample holds the rows of one key in some. It observes how long they wait and in what order they
come, and which of them could leave early. It produces no results. `Frame.saved` is what rows that could
leave would save, of the rows that came (`Store.accepted`).
"""

from __future__ import annotations

import numpy as np

from braid.jit.hashing import mix
from braid.jit.records import Words
from braid.jit.runtime import kernel
from braid.operators.constraint_join.kernels.arrivals import observe_columns, observe_waiting
from braid.operators.constraint_join.kernels.edges import edge_hash, edges_of, find_partner
from braid.operators.constraint_join.kernels.eviction import leave
from braid.operators.constraint_join.kernels.join import (
    JOINS,
    REJECTED,
    begin_instant,
    judge_event,
    make_record,
    note,
)
from braid.operators.constraint_join.kernels.records import Frame, Noted
from braid.operators.constraint_join.kernels.rejected_keys import reject, waits_for_rejected
from braid.operators.constraint_join.kernels.store import add_row, tail_of
from braid.operators.constraint_join.kernels.unique_keys import observe_keys
from braid.operators.constraint_join.kernels.watch import is_awake
from braid.operators.join.kernels.frame import arrived

#: After all times.
_LAST = np.int64(9223372036854775807)


@kernel()
def _observe_keys_of(frame: Frame, driver: int, record: Words, joins: bool) -> bool:
    """Observe how long rows waited for an event with a sampled key, and mark for which rows it waits
    itself; whether it has such a key."""
    store, edges = frame.stores[driver], edges_of(frame, driver)
    some = False
    for place in range(store.edge_count):
        edge = edges[place]
        hash_ = edge_hash(frame, edge, store, record)
        if (hash_ & (frame.sampling - 1)) != 0:
            continue
        some = True
        if joins:
            if is_awake(frame.watches[edge.watch], store):
                observe_waiting(frame, driver, edge, record, hash_)
            if find_partner(frame, edge, hash_) < 0:
                tail_of(store, record).marks[place] = frame.stores[edge.other].arrivals
    return some


@kernel()
def _is_skipped(frame: Frame, driver: int, row: Words, number: int) -> bool:
    """Whether an event isn't in the sample, by its number or by a key of it. Columns of longer keys are
    sampled by themselves."""
    store, edges = frame.stores[driver], edges_of(frame, driver)
    others = frame.sampling - 1
    if (mix(number) & others) == 0:
        return False
    for place in range(store.edge_count):
        edge = edges[place]
        several = frame.indexes[edge.own].keys > 1
        if several or (edge_hash(frame, edge, store, row) & others) == 0:
            return False
    return True


@kernel()
def _choose(frame: Frame) -> None:
    """Note the events of each feed that are in the sample."""
    sampled = frame.in_results
    sampled.count = 0
    for i in range(frame.inputs):
        feed = frame.feeds[i]
        number = frame.stores[i].arrivals
        feed.next_sampled = sampled.count // 2
        for k in range(feed.count):
            if not _is_skipped(frame, np.int64(i), arrived(feed, k), number + k + 1):
                note(sampled, i, k)
        feed.end_sampled = sampled.count // 2


@kernel()
def _next_sampled(frame: Frame) -> int:
    """The input whose next event in the sample is the earliest, or -1."""
    best, earliest = np.int64(-1), np.int64(0)
    for i in range(frame.inputs):
        feed = frame.feeds[i]
        if feed.next_sampled < feed.end_sampled:
            row = Noted(frame.in_results.items)[feed.next_sampled].row
            time = arrived(feed, row)[1]
            if best < 0 or time < earliest:
                best, earliest = np.int64(i), time
    return best


@kernel()
def _count_until(frame: Frame, driver: int, until: int, time: int) -> None:
    """Count the events that have come before this row of an input, or before a time if it is -1."""
    for i in range(frame.inputs):
        feed, store = frame.feeds[i], frame.stores[i]
        first = feed.row
        row = until if i == driver else first
        if i != driver:
            # Events of one instant come input by input.
            last = time if i < driver else time - 1
            while row < feed.count and arrived(feed, row)[1] <= last:
                row += 1
        feed.row = row
        store.arrivals += row - first


@kernel()
def _sample(frame: Frame, driver: int, row: Words) -> None:
    """Take an event of the sample."""
    store, record = frame.stores[driver], frame.event
    store.arrivals += 1
    if row[1] != frame.now:
        begin_instant(frame, row[1])
    make_record(store, row, store.arrivals, record)
    observe_columns(frame, driver, record)
    verdict = judge_event(frame.feeds[driver], row, store)
    joins = verdict == JOINS
    if not joins and verdict != REJECTED:
        return
    observe_keys(frame, store, record)
    if not _observe_keys_of(frame, driver, record, joins):
        return
    if not joins:
        reject(frame, driver, record)
        return
    store.accepted += 1
    if waits_for_rejected(frame, driver, record).address != 0:
        leave(frame, store, record, np.int64(0), np.int64(0))
        reject(frame, driver, record)
    else:
        add_row(frame.indexes, store, record, 0)


@kernel((Frame.type,))
def sample(frame: Frame) -> None:
    """Take all events of the feeds."""
    _choose(frame)
    driver = _next_sampled(frame)
    while driver >= 0:
        feed = frame.feeds[driver]
        number = Noted(frame.in_results.items)[feed.next_sampled].row
        row = arrived(feed, number)
        _count_until(frame, driver, number, row[1])
        _sample(frame, driver, row)
        feed.row = number + 1
        feed.next_sampled += 1
        driver = _next_sampled(frame)
    _count_until(frame, np.int64(-1), np.int64(-1), _LAST)
    frame.in_results.count = 0
