"""Collects rows that can't join any more, as constraints say: a walk over all rows of an input.

A walk is made when about as many events have come as rows are held, so that it costs each event a
constant.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.records import Words
from braid.jit.rows import is_null
from braid.jit.runtime import kernel
from braid.operators.constraint_join.kernels.arrivals import has_ended, largest_at
from braid.operators.constraint_join.kernels.edges import edge_hash, edges_of, find_partner
from braid.operators.constraint_join.kernels.eviction import (
    evict,
    lookup_mask,
    result_reason,
    still_to_come,
)
from braid.operators.constraint_join.kernels.records import (
    ASCENDS,
    ASKED,
    CLUSTERS,
    CONFIRMED,
    IN_RESULT,
    OVER,
    SAMPLED,
    WAITING,
    WAITS,
    Criterion,
    Edge,
    Frame,
    Store,
    Watch,
)
from braid.operators.constraint_join.kernels.store import (
    find,
    following_of,
    neighbours_of,
    row_at,
    tail_of,
)
from braid.operators.constraint_join.kernels.watch import is_awake, usable_k, value_of


@kernel()
def _has_partner(frame: Frame, edge: Edge, store: Store, row: Words) -> bool:
    """Whether a row in memory has the key of this one."""
    return find_partner(frame, edge, edge_hash(frame, edge, store, row)) >= 0


@kernel()
def _came_before(
    frame: Frame, edge: Edge, watch: Watch, other: Store, store: Store, row: Words, k: int
) -> bool:
    """Whether a value that a watch of clusters doesn't remember came before the watch began, and more
    than k events ago: a row that has it is in memory."""
    began = max(watch.started, watch.proved)
    if watch.started < 0 or watch.timed != 0:
        return False
    return other.arrivals - began > k and _has_partner(frame, edge, store, row)


@kernel()
def _comes_no_more(
    frame: Frame, criterion: Criterion, edge: Edge, store: Store, row: Words
) -> bool:
    """Whether no event comes any more that has the key of a row, as a watch of that input says."""
    watch = frame.watches[criterion.watch]
    k = usable_k(watch)
    if k < 0:
        return False
    other, marks = frame.stores[watch.input], tail_of(store, row).marks
    if watch.kind == WAITS:
        since = marks[criterion.edge]
        if watch.started < 0 or since < watch.proved:
            return False
        return row[1] + k < frame.now if watch.timed != 0 else since + k <= other.arrivals
    if not is_awake(watch, other) or is_null(row, criterion.column):
        return False
    value = value_of(watch, row, store.base, criterion.column)
    if watch.kind == CLUSTERS:
        ended = has_ended(frame, watch, other, value, k)
        if ended < 0 and marks[criterion.edge] != OVER:
            ended = np.int64(_came_before(frame, edge, watch, other, store, row, k))
        if ended > 0:
            marks[criterion.edge] = OVER
        return ended != 0
    before = frame.now - k - 1 if watch.timed != 0 else other.arrivals - k
    return (value if watch.kind == ASCENDS else ~value) < largest_at(watch, before)


@kernel()
def _is_there(frame: Frame, edge: Edge, store: Store, row: Words) -> bool:
    """Whether a partner of a row is in memory. Of two inputs, one that is there has joined it."""
    return frame.inputs != 2 and _has_partner(frame, edge, store, row)


@kernel()
def _needs_others(frame: Frame, input_: int, row: Words) -> bool:
    """Whether a row waits for further partners with unique keys."""
    store, edges = frame.stores[input_], edges_of(frame, input_)
    marks = tail_of(store, row).marks
    for k in range(store.edge_count):
        edge = edges[k]
        if frame.indexes[edge.index].unique != 0 and marks[k] >= 0:
            # While no watch observes how long rows wait, nothing notes that they don't.
            if not _is_there(frame, edge, store, row):
                return True
            marks[k] = -1
    return False


@kernel()
def _is_asked_for(frame: Frame, edge: Edge, store: Store, row: Words, alone: int) -> bool:
    """Whether a row of another input that joins this one waits for further partners. `alone`: it does,
    unless it is in a result."""
    index, other = frame.indexes[edge.index], frame.stores[edge.other]
    hash_ = edge_hash(frame, edge, store, row)
    slot = find(index, hash_)
    while slot >= 0:
        partner = row_at(other, slot)
        flags = tail_of(other, partner).flags
        if (flags & SAMPLED) == 0:
            if alone != 0:
                if (flags & IN_RESULT) == 0:
                    return True
            elif _needs_others(frame, edge.other, partner):
                return True
        slot = following_of(index, slot, hash_)
    return False


@kernel()
def _credit(frame: Frame, saved: int) -> None:
    """A row has left by the criteria that apply. Each of them was needed, so each has saved all of it."""
    for k in range(frame.criterion_count):
        criterion = frame.criteria[k]
        if criterion.applies != 0:
            watch = frame.watches[criterion.watch]
            watch.evicted += 1
            watch.saved += saved


@kernel()
def _evict_partners(frame: Frame, edge: Edge, store: Store, row: Words, reason: int) -> None:
    """Evict the rows that join one which leaves, and nothing else."""
    index, other = frame.indexes[edge.index], frame.stores[edge.other]
    hash_ = edge_hash(frame, edge, store, row)
    slot = find(index, hash_)
    while slot >= 0:
        following = following_of(index, slot, hash_)
        saved = still_to_come(frame, other, row_at(other, slot))
        if evict(frame, other, slot, np.int64(0), reason):
            _credit(frame, saved)
        slot = following


@kernel()
def _missing_partner(frame: Frame, edges: Edge, store: Store, row: Words) -> int:
    """The criterion by which a partner of a row comes no more, or -1."""
    marks = tail_of(store, row).marks
    for k in range(frame.criterion_count):
        criterion = frame.criteria[k]
        criterion.applies = 0
        if criterion.role != WAITING or marks[criterion.edge] < 0:
            continue
        edge = edges[criterion.edge]
        if _comes_no_more(frame, criterion, edge, store, row):
            if _is_there(frame, edge, store, row):
                # It was there from the beginning, and nothing has noted that.
                marks[criterion.edge] = -1
            else:
                criterion.applies = 1
                return np.int64(k)
    return np.int64(-1)


@kernel()
def _unasked(frame: Frame, edges: Edge, alone: int, store: Store, row: Words) -> int:
    """The watch by which nothing looks a row up any more, or -1. Criteria of one edge are alternatives;
    one must apply of every edge that there is a criterion of."""
    found, before, met, all_met = np.int64(-1), np.int64(-1), True, True
    for k in range(frame.criterion_count):
        criterion = frame.criteria[k]
        if criterion.role != ASKED:
            continue
        if criterion.edge != before:
            # The other edges are asked all the same: the row must remember a cluster that is over
            # before the watch forgets it.
            all_met = all_met and met
            before, met = criterion.edge, False
        if met:
            continue
        edge = edges[criterion.edge]
        if _comes_no_more(frame, criterion, edge, store, row) and all_met:
            met = not _is_asked_for(frame, edge, store, row, alone)
            criterion.applies = 1 if met else 0
            found = criterion.watch
    return found if all_met and met else np.int64(-1)


@kernel()
def _collect_row(frame: Frame, input_: int, slot: int, alone: int) -> None:
    store, edges = frame.stores[input_], edges_of(frame, input_)
    row = row_at(store, slot)
    place, mask = _missing_partner(frame, edges, store, row), np.int64(0)
    if place >= 0:
        criterion = frame.criteria[place]
        watch = criterion.watch
        mask = lookup_mask(frame, edges[criterion.edge], store, row)
    else:
        watch = _unasked(frame, edges, alone, store, row)
        if watch >= 0 and alone == 0:
            for k in range(frame.criterion_count):
                criterion = frame.criteria[k]
                if criterion.role == ASKED:
                    _evict_partners(frame, edges[criterion.edge], store, row, watch)
    saved = still_to_come(frame, store, row)
    if watch >= 0 and evict(frame, store, slot, mask, watch):
        _credit(frame, saved)


@kernel((Frame.type, types.int64, Criterion.type, types.int64, types.int64))
def collect(frame: Frame, number: int, criteria: Criterion, count: int, alone: int) -> None:
    """Evict the rows of an input that meet criteria. `alone`: one other input decides alone whether
    anything looks a row up."""
    frame.criteria = criteria
    frame.criterion_count = count
    number = np.int64(number)
    store = frame.stores[number]
    slot = store.oldest
    while slot >= 0:
        row = row_at(store, slot)
        following = neighbours_of(store, row).newer
        flags = tail_of(store, row).flags
        if (flags & SAMPLED) == 0:
            if store.one_result == CONFIRMED and (flags & IN_RESULT) != 0:
                evict(frame, store, slot, np.int64(0), result_reason(frame, number))
            elif count > 0:
                _collect_row(frame, number, slot, np.int64(alone))
        slot = following
