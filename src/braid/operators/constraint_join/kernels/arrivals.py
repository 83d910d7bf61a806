"""Observes arrivals, event by event: how far the data miss each constraint.

- WAITS, of an edge: how many events of one input come until the partner of a row of the other is
  among them (RIDS).
- ASCENDS, DESCENDS, of a column: how many events after another one an event with a smaller (larger)
  value comes at most (OA). A watch remembers the past as *runs*: the largest value so far, and since
  when it is that. If there is no more room, the watch drops every second run, and overestimates
  distances.
- CLUSTERS, of a column: how many events with other values lie between events of one value (CA).
  For every value: the events so far less those with other values since its first one; of clusters in
  time, when it came last.

`watch.py` judges these distances.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.hashing import mix
from braid.jit.records import Words
from braid.jit.row_keys import SEED
from braid.jit.rows import is_null
from braid.jit.runtime import ROWS, address, kernel
from braid.operators.constraint_join.kernels.edges import (
    edge_hash,
    edges_of,
    find_partner,
    opposite,
)
from braid.operators.constraint_join.kernels.records import (
    ASCENDS,
    CLUSTERS,
    DECLARED,
    LOOKS,
    PROVES,
    WAITS,
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
from braid.operators.constraint_join.kernels.watch import (
    ENDLESS,
    clock_of,
    clusters_of,
    is_awake,
    observe,
    rest,
    runs_of,
    start,
    threshold_of,
    usable_k,
    value_of,
)

_LEAST = np.int64(-9223372036854775807)
#: A watch that looks beside a join that is done here observes one key in so many: a power of two.
_SAMPLED = 16


@kernel()
def is_skipped(frame: Frame, watch: Watch, hash_: int) -> bool:
    """Whether a watch doesn't observe a key."""
    one_in = frame.sampling
    if one_in == 0:
        if watch.phase != LOOKS:
            return False
        one_in = np.int64(_SAMPLED)
    return (hash_ & (one_in - 1)) != 0


# ---- order ----


@kernel()
def _thin(watch: Watch, clock: int) -> None:
    """Drop runs that are long past, or else every second one. The oldest and the newest stay, so that
    no distance seems shorter than it is."""
    runs, entries = runs_of(watch), watch.entries
    longest: int = min(threshold_of(watch), ENDLESS // 8)
    long_past = clock - 4 * longest
    first = np.int64(0)
    while first < entries - 2 and runs[first + 1].since < long_past:
        first += 1
    step = 2 if 2 * first < entries else 1
    kept = np.int64(0)
    for k in range(first, entries, step):
        last = k if k + step < entries else entries - 1
        runs[kept].value = runs[last].value
        runs[kept].since = runs[last].since
        kept += 1
    watch.entries = kept


@kernel()
def _first_above(watch: Watch, value: int) -> int:
    """The first run with a larger value."""
    runs, low, high = runs_of(watch), np.int64(0), watch.entries
    while low < high:
        middle = (low + high) // 2
        if runs[middle].value > value:
            high = middle
        else:
            low = middle + 1
    return low


@kernel()
def largest_at(watch: Watch, clock: int) -> int:
    """The largest value that there was at a time, or less if the watch doesn't remember it."""
    runs, low, high = runs_of(watch), np.int64(0), watch.entries
    while low < high:
        middle = (low + high) // 2
        if runs[middle].since <= clock:
            low = middle + 1
        else:
            high = middle
    return runs[low - 1].value if low > 0 else _LEAST


@kernel()
def observe_order(frame: Frame, watch: Watch, store: Store, value: int, number: int) -> None:
    """Observe the value of an event. Of a descending order, values are inverted."""
    runs, clock = runs_of(watch), clock_of(frame, watch, store)
    if watch.entries == 0 or value > watch.highest:
        if watch.entries == watch.room:
            _thin(watch, clock)
        run = runs[watch.entries]
        run.value = value
        run.since = clock
        watch.entries += 1
        watch.highest = value
        observe(frame, watch, store, np.int64(0), number)
        return
    distance = np.int64(0)
    if value < watch.highest:
        above = _first_above(watch, value)
        since = runs[above].since
        if above > 0 and watch.declared != DECLARED:
            # Runs between this one and the one before may have been dropped. A declared constraint is
            # broken only by an event that is known to have come.
            since = min(since, runs[above - 1].since + 1)
        distance = clock - since
    observe(frame, watch, store, distance, number)


# ---- clusters ----


@kernel()
def _find_value(watch: Watch, value: int) -> int:
    """The place of a value in the table, or where it would be."""
    clusters, mask = clusters_of(watch), watch.room - 1
    place = mix(np.int64(value)) & mask
    while clusters[place].counter >= 0 and clusters[place].value != value:
        place = (place + 1) & mask
    return place


@kernel()
def _passed(frame: Frame, watch: Watch, store: Store) -> int:
    """What the counters of values are compared with."""
    if watch.timed != 0:
        return frame.now - watch.began
    return store.arrivals


@kernel()
def has_ended(frame: Frame, watch: Watch, store: Store, value: int, k: int) -> int:
    """Whether the cluster of a value is over: the value has come, and won't come again. -1: the watch
    doesn't remember the value."""
    counter = clusters_of(watch)[_find_value(watch, value)].counter
    if counter < 0:
        return np.int64(-1)
    return np.int64(counter < _passed(frame, watch, store) - k)


@kernel()
def _observe_cluster(frame: Frame, watch: Watch, store: Store, value: int, number: int) -> None:
    clusters = clusters_of(watch)
    cluster, passed = clusters[_find_value(watch, value)], _passed(frame, watch, store)
    counter = cluster.counter
    if counter >= 0:
        timed = watch.timed != 0
        cluster.counter = passed if timed else counter + 1
        observe(frame, watch, store, passed - counter - (0 if timed else 1), number)
        return
    if 2 * watch.entries >= watch.room and usable_k(watch) >= 0:
        # Rows are to leave because of clusters that are over before these are forgotten.
        frame.due = 1
    if 4 * watch.entries >= 3 * watch.room:
        _forget_ended(frame, watch, store)
        if 2 * watch.entries >= watch.room:
            rest(watch, store, watch.window)
            watch.highest = 1
            return
        cluster = clusters[_find_value(watch, value)]
    cluster.value = value
    cluster.counter = passed
    watch.entries += 1
    observe(frame, watch, store, np.int64(0), number)


@kernel()
def _forget_ended(frame: Frame, watch: Watch, store: Store) -> None:
    """Forget values whose clusters ended long ago."""
    clusters, room = clusters_of(watch), watch.room
    k = watch.k
    if k == ENDLESS:
        k = min(watch.largest, threshold_of(watch), ENDLESS // 8)
    # A break of a declared constraint by up to twice its k is seen at least.
    far = room >> 2 if watch.declared == DECLARED else room
    oldest = _passed(frame, watch, store) - max(2 * k + 64, far)
    # Entries move to the front, and from there to their places.
    kept = np.int64(0)
    for place in range(room):
        value, counter = clusters[place].value, clusters[place].counter
        clusters[place].counter = -1
        if counter >= max(oldest, 0):
            clusters[kept].value = value
            clusters[kept].counter = -2 - counter
            kept += 1
    _place_values(watch, kept)
    watch.entries = kept


@kernel((Frame.type, types.int64))
def forget_ended(frame: Frame, number: int) -> None:
    """Forget the values of a watch whose clusters are over, after rows have left because of them."""
    watch = frame.watches[number]
    _forget_ended(frame, watch, frame.stores[watch.input])


@kernel((Frame.type, types.int64, ROWS))
def widen(frame: Frame, number: int, table: np.ndarray) -> None:
    """Give a watch of clusters a larger table, which is empty."""
    watch = frame.watches[number]
    before, room = clusters_of(watch), watch.room
    watch.table = Words(address(table))
    watch.room = table.shape[0]
    for place in range(room):
        if before[place].counter >= 0:
            found = clusters_of(watch)[_find_value(watch, before[place].value)]
            found.value = before[place].value
            found.counter = before[place].counter


@kernel()
def _place_values(watch: Watch, kept: int) -> None:
    """Move entries from the front to their places. Entries that wait have counters below -1."""
    clusters = clusters_of(watch)
    for first in range(kept):
        value, counter = clusters[first].value, clusters[first].counter
        if counter >= -1:
            continue
        clusters[first].counter = -1
        while counter < -1:
            cluster = clusters[_find_waiting(watch, value)]
            other, waiting = cluster.value, cluster.counter
            cluster.value = value
            cluster.counter = -2 - counter
            value, counter = other, waiting


@kernel()
def _find_waiting(watch: Watch, value: int) -> int:
    """The first place from a value's own that no placed entry has."""
    clusters, mask = clusters_of(watch), watch.room - 1
    place = mix(np.int64(value)) & mask
    while clusters[place].counter >= 0:
        place = (place + 1) & mask
    return place


# ---- partners ----


@kernel()
def observe_waiting(frame: Frame, driver: int, edge: Edge, record: Words, hash_: int) -> None:
    """Observe how long rows of the other input have waited for an event, by the hash of their key. A row
    whose partner came while the watch slept counts as well: then the distance is overestimated."""
    watch = frame.watches[edge.watch]
    store, other = frame.stores[driver], frame.stores[edge.other]
    index = frame.indexes[edge.index]
    start(frame, watch, store.arrivals)
    if is_skipped(frame, watch, hash_):
        return
    largest, timed = np.int64(0), watch.timed != 0
    slot = find(index, hash_)
    while slot >= 0:
        row = row_at(other, slot)
        marks = tail_of(other, row).marks
        since = marks[edge.back]
        if since >= 0:
            marks[edge.back] = -1
            if timed:
                largest = max(largest, frame.now - row[1])
            else:
                largest = max(largest, store.arrivals - since)
        slot = following_of(index, slot, hash_)
    observe(frame, watch, store, largest, tail_of(store, record).number)


@kernel()
def _rehearse_waiting(frame: Frame, driver: int, number: int, record: Words) -> int:
    """Find the rows that wait for a row, and change nothing."""
    store, edges = frame.stores[driver], edges_of(frame, driver)
    found = np.int64(0)
    for place in range(store.edge_count):
        edge = edges[place]
        if edge.watch == number:
            found += find_partner(frame, edge, edge_hash(frame, edge, store, record))
    return found


@kernel((Frame.type, types.int64, types.int64))
def rehearse(frame: Frame, number: int, rows: int) -> int:
    """Do what an observation does with the newest rows, to measure how long it takes; with how many."""
    watch = frame.watches[number]
    driver = watch.input
    store = frame.stores[driver]
    slot, tried, found = store.newest, np.int64(0), np.int64(0)
    while slot >= 0 and tried < rows:
        row = row_at(store, slot)
        value = value_of(watch, row, store.base, watch.column)
        if watch.kind == WAITS:
            found += _rehearse_waiting(frame, driver, number, row)
        elif watch.kind == CLUSTERS:
            found += _find_value(watch, value)
        else:
            found += _first_above(watch, value)
        tried += 1
        slot = neighbours_of(store, row).older
    return tried if found > -rows - 1 else np.int64(0)


@kernel()
def observe_columns(frame: Frame, driver: int, record: Words) -> None:
    """An event has come: let the watches of its columns observe its values."""
    store = frame.stores[driver]
    first = store.first_watch
    for k in range(first, first + store.watch_count):
        watch = frame.watches[k]
        kind = watch.kind
        if not is_awake(watch, store):
            continue
        start(frame, watch, store.arrivals - 1)
        column = watch.column
        if is_null(record, column):
            continue
        value = value_of(watch, record, store.base, column)
        number = tail_of(store, record).number
        # A value is observed if it is as a key: then a sample need not look at other events.
        spread = mix(np.int64(value + SEED)) if kind == CLUSTERS else mix(number)
        if is_skipped(frame, watch, spread):
            continue
        if kind == CLUSTERS:
            _observe_cluster(frame, watch, store, value, number)
        else:
            observe_order(frame, watch, store, value if kind == ASCENDS else ~value, number)


@kernel()
def observe_arrival(frame: Frame, driver: int, record: Words, joins: bool) -> None:
    """An event has come, whether or not it can join; it is not held yet."""
    observe_columns(frame, driver, record)
    if not joins:
        return
    store, edges = frame.stores[driver], edges_of(frame, driver)
    for place in range(store.edge_count):
        edge = edges[place]
        if is_awake(frame.watches[edge.watch], store):
            observe_waiting(frame, driver, edge, record, edge_hash(frame, edge, store, record))


@kernel()
def mark_waiting(frame: Frame, driver: int, record: Words) -> None:
    """Mark by which edges an event waits that is in no result and is going to be held.

    If no watch observes how long rows wait, nothing asks here whether the partner is there already: that
    is asked before the row would leave.
    """
    store, edges = frame.stores[driver], edges_of(frame, driver)
    for place in range(store.edge_count):
        edge = edges[place]
        other = frame.stores[edge.other]
        if frame.inputs > 2:
            watch = frame.watches[opposite(frame, edge).watch]
            if is_awake(watch, other):
                hash_ = edge_hash(frame, edge, store, record)
                counts = watch.phase == PROVES or (hash_ & (_SAMPLED - 1)) == 0
                if counts and find_partner(frame, edge, hash_) >= 0:
                    continue
        tail_of(store, record).marks[place] = other.arrivals
