"""What constraints say will not join any more leaves memory: a walk over all that is held.

It is done from time to time, when about as many events have come as rows are held, so that it
costs each event a constant.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.runtime import ROWS, WORDS, address, kernel, load_int, store_int
from braid.operators.constraint_join.kernels.arrivals import has_ended, reached
from braid.operators.constraint_join.kernels.eviction import (
    after_result,
    asked_by,
    evict,
    still_to_come,
)
from braid.operators.constraint_join.kernels.frame import (
    EDGE_INDEX,
    EDGE_OTHER,
    EDGE_OWN,
    EDGE_WORDS,
    EDGES_AT,
    INDEXES_AT,
    INPUTS,
    NOW,
    STORES_AT,
)
from braid.operators.constraint_join.kernels.store import (
    ARRIVALS,
    BASE,
    COVERS,
    DONE_WITH,
    EDGES,
    FLAGS,
    IN_RESULT,
    INDEX_WORDS,
    IS_ONE,
    MARKS,
    NEWER,
    OLDEST,
    OVER,
    RECORD,
    SAMPLED,
    STORE_WORDS,
    WIDTH,
    find,
    following_of,
    hash_key,
    slot_at,
)
from braid.operators.constraint_join.kernels.watch import (
    ASCENDS,
    CLUSTERS,
    GONE,
    INPUT,
    KIND,
    PROVED,
    SAVED,
    STARTED,
    TIMED,
    WAITS,
    is_awake,
    usable_k,
    value_of,
    watch_at,
)
from braid.operators.core.kernels.instances import is_null

#: How a watch lets rows of an input leave: the watch, the edge of the input that it is about, the
#: row's own column that is compared, and whether it is about partners that come no more (WAITING:
#: those of a row that has had none) or about what else will ask for it (ASKED); whether it has had a
#: part in letting the row go that is looked at.
BY_WATCH, BY_EDGE, BY_COLUMN, BY_ROLE, BY_PART, BY_WORDS = range(6)
WAITING, ASKED = range(2)


@kernel()
def _partner(frame: int, edge: int, store: int, row: int) -> int:
    """The newest row in memory that has the key of this one, or -1."""
    other = load_int(frame, STORES_AT) + load_int(edge, EDGE_OTHER) * (8 * STORE_WORDS)
    indexes = load_int(frame, INDEXES_AT)
    index = indexes + load_int(edge, EDGE_INDEX) * (8 * INDEX_WORDS)
    own = indexes + load_int(edge, EDGE_OWN) * (8 * INDEX_WORDS)
    return find(index, other, hash_key(row, load_int(store, BASE), own))


@kernel()
def _came_before(
    frame: int, edge: int, watch: int, other: int, store: int, row: int, k: int
) -> bool:
    """Whether a value that a watch of clusters does not remember came before that began, and more than
    k events ago: one that has it is in memory."""
    began = max(load_int(watch, STARTED), load_int(watch, PROVED))
    if load_int(watch, STARTED) < 0 or load_int(watch, TIMED) != 0:
        return False
    return load_int(other, ARRIVALS) - began > k and _partner(frame, edge, store, row) >= 0


@kernel()
def _comes_no_more(frame: int, by: int, edges: int, store: int, row: int) -> bool:
    """Whether no event comes any more that has the key of a row, as a watch of that input says."""
    edge = edges + load_int(by, BY_EDGE) * (8 * EDGE_WORDS)
    watch = watch_at(frame, load_int(by, BY_WATCH))
    k = usable_k(watch)
    other = load_int(frame, STORES_AT) + load_int(watch, INPUT) * (8 * STORE_WORDS)
    if k < 0:
        return False
    kind, arrivals, now = load_int(watch, KIND), load_int(other, ARRIVALS), load_int(frame, NOW)
    if kind == WAITS:
        since = load_int(row, load_int(store, WIDTH) + MARKS + load_int(by, BY_EDGE))
        if load_int(watch, STARTED) < 0 or since < load_int(watch, PROVED):
            return False
        return load_int(row, 1) + k < now if load_int(watch, TIMED) != 0 else since + k <= arrivals
    column = load_int(by, BY_COLUMN)
    if not is_awake(watch, other) or is_null(row, column):
        return False
    value = value_of(watch, row, load_int(store, BASE), column)
    if kind == CLUSTERS:
        mark = load_int(store, WIDTH) + MARKS + load_int(by, BY_EDGE)
        ended = has_ended(frame, watch, other, value, k)
        if ended < 0 and load_int(row, mark) != OVER:
            ended = np.int64(_came_before(frame, edge, watch, other, store, row, k))
        if ended > 0:
            store_int(row, mark, OVER)
        return ended != 0
    before = now - k - 1 if load_int(watch, TIMED) != 0 else arrivals - k
    return (value if kind == ASCENDS else ~value) < reached(watch, before)


@kernel()
def _is_there(frame: int, edge: int, store: int, row: int) -> bool:
    """Whether a partner of a row is in memory. Of two inputs one that is there has joined it."""
    return load_int(frame, INPUTS) != 2 and _partner(frame, edge, store, row) >= 0


@kernel()
def _is_asked_for(frame: int, edge: int, store: int, row: int, whole: int) -> bool:
    """Whether a row of another input that joins this one waits for further partners. `whole`: one
    that has been in a result does not."""
    other = load_int(frame, STORES_AT) + load_int(edge, EDGE_OTHER) * (8 * STORE_WORDS)
    indexes = load_int(frame, INDEXES_AT)
    index = indexes + load_int(edge, EDGE_INDEX) * (8 * INDEX_WORDS)
    own = indexes + load_int(edge, EDGE_OWN) * (8 * INDEX_WORDS)
    hash_ = hash_key(row, load_int(store, BASE), own)
    slot, width = find(index, other, hash_), load_int(other, WIDTH)
    place = load_int(edge, EDGE_OTHER) * load_int(frame, INPUTS)
    theirs = load_int(frame, EDGES_AT) + place * (8 * EDGE_WORDS)
    while slot >= 0:
        partner = slot_at(other, slot)
        flags = load_int(partner, width + FLAGS)
        if (flags & SAMPLED) == 0 and not (whole != 0 and (flags & IN_RESULT) != 0):
            if whole != 0:
                return True
            for k in range(load_int(other, EDGES)):
                further = theirs + k * (8 * EDGE_WORDS)
                number = load_int(further, EDGE_INDEX)
                one = load_int(indexes + number * (8 * INDEX_WORDS), IS_ONE) != 0
                if one and load_int(partner, width + MARKS + k) >= 0:
                    # While nobody watches how long rows wait, nobody notes that they do not.
                    if not _is_there(frame, further, other, partner):
                        return True
                    store_int(partner, width + MARKS + k, -1)
        slot = following_of(index, other, slot, hash_)
    return False


@kernel()
def _drop_partners(frame: int, edge: int, ways: np.ndarray, store: int, row: int, why: int) -> None:
    """Rows that join one which leaves, and nothing else, leave with it."""
    other = load_int(frame, STORES_AT) + load_int(edge, EDGE_OTHER) * (8 * STORE_WORDS)
    indexes = load_int(frame, INDEXES_AT)
    index = indexes + load_int(edge, EDGE_INDEX) * (8 * INDEX_WORDS)
    own = indexes + load_int(edge, EDGE_OWN) * (8 * INDEX_WORDS)
    hash_ = hash_key(row, load_int(store, BASE), own)
    slot = find(index, other, hash_)
    while slot >= 0:
        following = following_of(index, other, slot, hash_)
        left = still_to_come(frame, other, slot_at(other, slot))
        if evict(frame, other, slot, np.int64(0), why):
            _credit(frame, ways, left)
        slot = following


@kernel()
def _credit(frame: int, ways: np.ndarray, saved: int) -> None:
    """A row has left by the ways that have had a part in it. Each of them is needed, so that each has
    saved all of it: without it the row would have stayed."""
    for k in range(ways.shape[0]):
        if ways[k, BY_PART] != 0:
            watch = watch_at(frame, ways[k, BY_WATCH])
            store_int(watch, GONE, load_int(watch, GONE) + 1)
            store_int(watch, SAVED, load_int(watch, SAVED) + saved)


@kernel()
def _waits_in_vain(frame: int, edges: int, ways: np.ndarray, store: int, row: int) -> int:
    """The way by which some partner of a row comes no more, or -1."""
    width = load_int(store, WIDTH)
    for k in range(ways.shape[0]):
        ways[k, BY_PART] = 0
        if ways[k, BY_ROLE] != WAITING:
            continue
        by = address(ways) + k * (8 * BY_WORDS)
        if load_int(row, width + MARKS + ways[k, BY_EDGE]) < 0:
            continue
        if _comes_no_more(frame, by, edges, store, row):
            edge = edges + ways[k, BY_EDGE] * (8 * EDGE_WORDS)
            if _is_there(frame, edge, store, row):
                # It was there from the beginning, and nobody looked.
                store_int(row, width + MARKS + ways[k, BY_EDGE], -1)
            else:
                ways[k, BY_PART] = 1
                return np.int64(k)
    return np.int64(-1)


@kernel()
def _nobody_asks(frame: int, edges: int, ways: np.ndarray, whole: int, store: int, row: int) -> int:
    """The watch by which nothing asks for a row any more, or -1. Ways of one edge are alternatives;
    there must be one of every edge that there is a way of."""
    found, edge_before, met, all_ = np.int64(-1), np.int64(-1), True, True
    for k in range(ways.shape[0]):
        if ways[k, BY_ROLE] != ASKED:
            continue
        place = ways[k, BY_EDGE]
        if place != edge_before:
            # The others are gone through all the same: a cluster that is over is to be noted in the
            # row before it is forgotten.
            all_ = all_ and met
            edge_before, met = place, False
        if met:
            continue
        if _comes_no_more(frame, address(ways) + k * (8 * BY_WORDS), edges, store, row) and all_:
            edge = edges + place * (8 * EDGE_WORDS)
            met = not _is_asked_for(frame, edge, store, row, whole)
            ways[k, BY_PART] = met
            found = ways[k, BY_WATCH]
    return found if all_ and met else np.int64(-1)


@kernel((WORDS, types.int64, ROWS, types.int64))
def collect(words: np.ndarray, number: int, ways: np.ndarray, whole: int) -> None:
    """Let rows of an input leave. `ways`: see BY_WATCH; those of one edge are together. `whole`:
    whether one other input decides alone about what else is asked for."""
    frame = address(words)
    store = load_int(frame, STORES_AT) + number * (8 * STORE_WORDS)
    edges = load_int(frame, EDGES_AT) + number * load_int(frame, INPUTS) * (8 * EDGE_WORDS)
    record, width = load_int(store, RECORD), load_int(store, WIDTH)
    slot = load_int(store, OLDEST)
    while slot >= 0:
        row = slot_at(store, slot)
        following = load_int(row + 8 * record, NEWER)
        flags = load_int(row, width + FLAGS)
        watch = np.int64(-1)
        if (flags & SAMPLED) != 0:
            slot = following
            continue
        if load_int(store, COVERS) == DONE_WITH and (flags & IN_RESULT) != 0:
            evict(frame, store, slot, np.int64(0), after_result(frame, np.int64(number)))
            slot = following
            continue
        mask = np.int64(0)
        if ways.shape[0] > 0:
            way = _waits_in_vain(frame, edges, ways, store, row)
            if way >= 0:
                watch = ways[way, BY_WATCH]
                edge = edges + ways[way, BY_EDGE] * (8 * EDGE_WORDS)
                mask = asked_by(frame, edge, store, row)
            else:
                watch = _nobody_asks(frame, edges, ways, whole, store, row)
                if watch >= 0 and whole == 0:
                    for k in range(ways.shape[0]):
                        if ways[k, BY_ROLE] == ASKED:
                            edge = edges + ways[k, BY_EDGE] * (8 * EDGE_WORDS)
                            _drop_partners(frame, edge, ways, store, row, watch)
        left = still_to_come(frame, store, row)
        if watch >= 0 and evict(frame, store, slot, mask, watch):
            _credit(frame, ways, left)
        slot = following
