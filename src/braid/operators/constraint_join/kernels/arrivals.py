"""What joins watch of arrivals, event by event: how far each constraint is missed.

- WAITS, of an edge: how many events of one input come until the partner of a row of the other is
  among them (RIDS).
- ASCENDS, DESCENDS, of a column: how many events after another one an event with a smaller (larger)
  value comes at most (OA). What is remembered of the past are *runs*: the largest value so far, and
  since when it is that. There is room for so many; when it is used up every second run is forgotten,
  and distances are overestimated.
- CLUSTERS, of a column: how many events with other values lie between events of one value (CA).
  For every value: the events so far less those with other values since its first one; of clusters in
  time, when it came last.

What comes of these distances is decided in `watch.py`.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.runtime import ROWS, WORDS, address, kernel, load_int, store_int
from braid.operators.constraint_join.kernels.frame import (
    DUE,
    EDGE_BACK,
    EDGE_INDEX,
    EDGE_OTHER,
    EDGE_OWN,
    EDGE_WATCH,
    EDGE_WORDS,
    EDGES_AT,
    INDEXES_AT,
    INPUTS,
    LOOKING,
    NOW,
    STORES_AT,
)
from braid.operators.constraint_join.kernels.store import (
    ARRIVALS,
    BASE,
    EDGES,
    FIRST_WATCH,
    INDEX_WORDS,
    ITS_WATCHES,
    KEY_SEED,
    MARKS,
    NEWEST,
    NUMBER,
    OLDER,
    RECORD,
    STORE_WORDS,
    WIDTH,
    find,
    following_of,
    hash_key,
    slot_at,
)
from braid.operators.constraint_join.kernels.watch import (
    ASCENDS,
    BEGAN,
    CLUSTERS,
    COLUMN,
    DECLARED,
    ENDLESS,
    ENTRIES,
    HIGHEST,
    INPUT,
    KIND,
    LARGEST,
    LOOKS,
    PHASE,
    PROVES,
    ROOM,
    STARTED,
    TABLE_AT,
    TIMED,
    WAITS,
    WINDOW,
    K,
    clock_of,
    is_awake,
    observe,
    rest,
    threshold_of,
    usable_k,
    value_of,
    watch_at,
)
from braid.operators.core.kernels.instances import is_null, mix

_LEAST = np.int64(-9223372036854775807)
#: Of keys, while a watch looks and the join is done all the same: one in so many, which is two to
#: something.
_SAMPLED = 16


@kernel()
def is_passed_over(frame: int, watch: int, hash_: int) -> bool:
    """Whether a key is none of those that a watch takes into account."""
    one_in = load_int(frame, LOOKING)
    if one_in == 0:
        if load_int(watch, PHASE) != LOOKS:
            return False
        one_in = np.int64(_SAMPLED)
    return (hash_ & (one_in - 1)) != 0


# ---- order ----


@kernel()
def _thin(watch: int, clock: int) -> None:
    """Forget runs that are long past, or else every second one; the oldest and the newest stay, so
    that no distance seems shorter than it is."""
    table, entries = load_int(watch, TABLE_AT), load_int(watch, ENTRIES)
    longest: int = min(threshold_of(watch), ENDLESS // 8)
    long_past = clock - 4 * longest
    first = np.int64(0)
    while first < entries - 2 and load_int(table, 2 * first + 3) < long_past:
        first += 1
    step = 2 if 2 * first < entries else 1
    kept = np.int64(0)
    for k in range(first, entries, step):
        last = k if k + step < entries else entries - 1
        store_int(table, 2 * kept, load_int(table, 2 * last))
        store_int(table, 2 * kept + 1, load_int(table, 2 * last + 1))
        kept += 1
    store_int(watch, ENTRIES, kept)


@kernel()
def _first_above(watch: int, value: int) -> int:
    """The first run with a larger value."""
    table, low, high = load_int(watch, TABLE_AT), np.int64(0), load_int(watch, ENTRIES)
    while low < high:
        middle = (low + high) // 2
        if load_int(table, 2 * middle) > value:
            high = middle
        else:
            low = middle + 1
    return low


@kernel()
def reached(watch: int, clock: int) -> int:
    """The largest value that there was at a time, or less if that is not remembered."""
    table, low, high = load_int(watch, TABLE_AT), np.int64(0), load_int(watch, ENTRIES)
    while low < high:
        middle = (low + high) // 2
        if load_int(table, 2 * middle + 1) <= clock:
            low = middle + 1
        else:
            high = middle
    return load_int(table, 2 * (low - 1)) if low > 0 else _LEAST


@kernel()
def watch_order(frame: int, watch: int, store: int, value: int, number: int) -> None:
    entries, clock = load_int(watch, ENTRIES), clock_of(frame, watch, store)
    if entries == 0 or value > load_int(watch, HIGHEST):
        if entries == load_int(watch, ROOM):
            _thin(watch, clock)
            entries = load_int(watch, ENTRIES)
        table = load_int(watch, TABLE_AT)
        store_int(table, 2 * entries, value)
        store_int(table, 2 * entries + 1, clock)
        store_int(watch, ENTRIES, entries + 1)
        store_int(watch, HIGHEST, value)
        observe(frame, watch, store, np.int64(0), number)
        return
    distance = np.int64(0)
    if value < load_int(watch, HIGHEST):
        run = _first_above(watch, value)
        since = load_int(load_int(watch, TABLE_AT), 2 * run + 1)
        if run > 0 and load_int(watch, DECLARED) != 1:
            # What lies between this run and the one before may be forgotten. What was declared is
            # broken only by an event that is known to have come.
            since = min(since, load_int(load_int(watch, TABLE_AT), 2 * run - 1) + 1)
        distance = clock - since
    observe(frame, watch, store, distance, number)


# ---- clusters ----


@kernel()
def _find_value(watch: int, value: int) -> int:
    """Where a value is in the table, or where it would be."""
    table, mask = load_int(watch, TABLE_AT), load_int(watch, ROOM) - 1
    place = mix(np.int64(value)) & mask
    while load_int(table, 2 * place + 1) >= 0 and load_int(table, 2 * place) != value:
        place = (place + 1) & mask
    return place


@kernel()
def _passed(frame: int, watch: int, store: int) -> int:
    """What the counters of values are compared with."""
    if load_int(watch, TIMED) != 0:
        return load_int(frame, NOW) - load_int(watch, BEGAN)
    return load_int(store, ARRIVALS)


@kernel()
def has_ended(frame: int, watch: int, store: int, value: int, k: int) -> int:
    """Whether the cluster of a value is over: it has come, and will not come again. -1: it is not
    remembered."""
    table = load_int(watch, TABLE_AT)
    counter = load_int(table, 2 * _find_value(watch, value) + 1)
    if counter < 0:
        return np.int64(-1)
    return np.int64(counter < _passed(frame, watch, store) - k)


@kernel()
def _watch_clusters(frame: int, watch: int, store: int, value: int, number: int) -> None:
    table, place = load_int(watch, TABLE_AT), _find_value(watch, value)
    counter, passed = load_int(table, 2 * place + 1), _passed(frame, watch, store)
    if counter >= 0:
        timed = load_int(watch, TIMED) != 0
        store_int(table, 2 * place + 1, passed if timed else counter + 1)
        observe(frame, watch, store, passed - counter - (0 if timed else 1), number)
        return
    entries = load_int(watch, ENTRIES)
    if 2 * entries >= load_int(watch, ROOM) and usable_k(watch) >= 0:
        # What has ended is to be used before it is forgotten.
        store_int(frame, DUE, 1)
    if 4 * entries >= 3 * load_int(watch, ROOM):
        entries = _forget_ended(frame, watch, store)
        if 2 * entries >= load_int(watch, ROOM):
            rest(watch, store, load_int(watch, WINDOW))
            store_int(watch, HIGHEST, 1)
            return
        place = _find_value(watch, value)
    store_int(table, 2 * place, value)
    store_int(table, 2 * place + 1, passed)
    store_int(watch, ENTRIES, entries + 1)
    observe(frame, watch, store, np.int64(0), number)


@kernel()
def _forget_ended(frame: int, watch: int, store: int) -> int:
    """Forget values whose clusters ended long ago; how many are left."""
    table, room = load_int(watch, TABLE_AT), load_int(watch, ROOM)
    k = load_int(watch, K)
    if k == ENDLESS:
        k = min(load_int(watch, LARGEST), threshold_of(watch), ENDLESS // 8)
    # What was declared need not be found out: a break of up to twice its k is seen at least.
    far = room >> 2 if load_int(watch, DECLARED) == 1 else room
    oldest = _passed(frame, watch, store) - max(2 * k + 64, far)
    # Entries move to the front, and from there to their places.
    kept = np.int64(0)
    for place in range(room):
        counter = load_int(table, 2 * place + 1)
        if counter >= max(oldest, np.int64(0)):
            value = load_int(table, 2 * place)
            store_int(table, 2 * place + 1, -1)
            store_int(table, 2 * kept, value)
            store_int(table, 2 * kept + 1, -2 - counter)
            kept += 1
        else:
            store_int(table, 2 * place + 1, -1)
    _settle_values(watch, kept)
    store_int(watch, ENTRIES, kept)
    return kept


@kernel((WORDS, types.int64))
def forget_ended(words: np.ndarray, number: int) -> None:
    """Forget the values of a watch whose clusters are over, now that this has been used."""
    frame = address(words)
    watch = watch_at(frame, number)
    store = load_int(frame, STORES_AT) + load_int(watch, INPUT) * (8 * STORE_WORDS)
    _forget_ended(frame, watch, store)


@kernel((WORDS, types.int64, ROWS))
def widen(words: np.ndarray, number: int, table: np.ndarray) -> None:
    """Give the values of a watch of clusters a larger table, which is empty."""
    watch = watch_at(address(words), number)
    before, room = load_int(watch, TABLE_AT), load_int(watch, ROOM)
    store_int(watch, TABLE_AT, address(table))
    store_int(watch, ROOM, table.shape[0])
    for place in range(room):
        if load_int(before, 2 * place + 1) >= 0:
            value = load_int(before, 2 * place)
            found = _find_value(watch, value)
            table[found, 0], table[found, 1] = value, load_int(before, 2 * place + 1)


@kernel()
def _settle_values(watch: int, kept: int) -> None:
    """Give entries at the front their places: those that are waiting have counters below -1."""
    table = load_int(watch, TABLE_AT)
    for start in range(kept):
        value, counter = load_int(table, 2 * start), load_int(table, 2 * start + 1)
        if counter >= -1:
            continue
        store_int(table, 2 * start + 1, -1)
        while counter < -1:
            place = _find_waiting(watch, value)
            other, waiting = load_int(table, 2 * place), load_int(table, 2 * place + 1)
            store_int(table, 2 * place, value)
            store_int(table, 2 * place + 1, -2 - counter)
            value, counter = other, waiting


@kernel()
def _find_waiting(watch: int, value: int) -> int:
    """The first place from a value's own that no settled entry has."""
    table, mask = load_int(watch, TABLE_AT), load_int(watch, ROOM) - 1
    place = mix(np.int64(value)) & mask
    while load_int(table, 2 * place + 1) >= 0:
        place = (place + 1) & mask
    return place


# ---- partners ----


@kernel()
def watch_waiting(frame: int, driver: int, edge: int, record: int, hash_: int) -> None:
    """Rows of another input that wait for the partner which has come, with a key that hashes so. One
    that had its partner while nobody watched counts as well: then the distance is overestimated."""
    watch = watch_at(frame, load_int(edge, EDGE_WATCH))
    store = load_int(frame, STORES_AT) + driver * (8 * STORE_WORDS)
    other = load_int(frame, STORES_AT) + load_int(edge, EDGE_OTHER) * (8 * STORE_WORDS)
    indexes = load_int(frame, INDEXES_AT)
    index = indexes + load_int(edge, EDGE_INDEX) * (8 * INDEX_WORDS)
    mark = load_int(other, WIDTH) + MARKS + load_int(edge, EDGE_BACK)
    if load_int(watch, STARTED) < 0:
        store_int(watch, STARTED, load_int(store, ARRIVALS))
        store_int(watch, BEGAN, load_int(frame, NOW))
    if is_passed_over(frame, watch, hash_):
        return
    largest, timed = np.int64(0), load_int(watch, TIMED) != 0
    slot = find(index, other, hash_)
    while slot >= 0:
        row = slot_at(other, slot)
        since = load_int(row, mark)
        if since >= 0:
            store_int(row, mark, -1)
            if timed:
                largest = max(largest, load_int(frame, NOW) - load_int(row, 1))
            else:
                largest = max(largest, load_int(store, ARRIVALS) - since)
        slot = following_of(index, other, slot, hash_)
    number = load_int(record, load_int(store, WIDTH) + NUMBER)
    observe(frame, watch, store, largest, number)


@kernel()
def _rehearse_waiting(frame: int, driver: int, number: int, record: int) -> int:
    """Find whoever waits for a row, without taking note of it."""
    store = load_int(frame, STORES_AT) + driver * (8 * STORE_WORDS)
    edges = load_int(frame, EDGES_AT) + driver * load_int(frame, INPUTS) * (8 * EDGE_WORDS)
    indexes, found = load_int(frame, INDEXES_AT), np.int64(0)
    for place in range(load_int(store, EDGES)):
        edge = edges + place * (8 * EDGE_WORDS)
        if load_int(edge, EDGE_WATCH) == number:
            other = load_int(frame, STORES_AT) + load_int(edge, EDGE_OTHER) * (8 * STORE_WORDS)
            index = indexes + load_int(edge, EDGE_INDEX) * (8 * INDEX_WORDS)
            own = indexes + load_int(edge, EDGE_OWN) * (8 * INDEX_WORDS)
            found += find(index, other, hash_key(record, load_int(store, BASE), own))
    return found


@kernel((WORDS, types.int64, types.int64))
def rehearse(words: np.ndarray, number: int, rows: int) -> int:
    """Do what an observation does with the newest rows, to see how long it takes; with how many."""
    frame = address(words)
    watch = watch_at(frame, number)
    driver = load_int(watch, INPUT)
    store = load_int(frame, STORES_AT) + driver * (8 * STORE_WORDS)
    slot, tried, found = load_int(store, NEWEST), np.int64(0), np.int64(0)
    while slot >= 0 and tried < rows:
        row = slot_at(store, slot)
        value = value_of(watch, row, load_int(store, BASE), load_int(watch, COLUMN))
        if load_int(watch, KIND) == WAITS:
            found += _rehearse_waiting(frame, driver, number, row)
        elif load_int(watch, KIND) == CLUSTERS:
            found += _find_value(watch, value)
        else:
            found += _first_above(watch, value)
        tried += 1
        slot = load_int(row + 8 * load_int(store, RECORD), OLDER)
    return tried if found > -rows - 1 else np.int64(0)


@kernel()
def watch_columns(frame: int, driver: int, record: int) -> None:
    """An event has come: its values, as the watches of its columns see them."""
    store = load_int(frame, STORES_AT) + driver * (8 * STORE_WORDS)
    first = load_int(store, FIRST_WATCH)
    for k in range(first, first + load_int(store, ITS_WATCHES)):
        watch = watch_at(frame, k)
        kind = load_int(watch, KIND)
        if not is_awake(watch, store):
            continue
        if load_int(watch, STARTED) < 0:
            store_int(watch, STARTED, load_int(store, ARRIVALS) - 1)
            store_int(watch, BEGAN, load_int(frame, NOW))
        column = load_int(watch, COLUMN)
        if is_null(record, column):
            continue
        value = value_of(watch, record, load_int(store, BASE), column)
        number = load_int(record, load_int(store, WIDTH) + NUMBER)
        # A value counts if it does as a key, so that whoever looks need not look at other events.
        by = value + KEY_SEED if kind == CLUSTERS else number
        if is_passed_over(frame, watch, mix(np.int64(by))):
            continue
        if kind == CLUSTERS:
            _watch_clusters(frame, watch, store, value, number)
        else:
            watch_order(frame, watch, store, value if kind == ASCENDS else ~value, number)


@kernel()
def before(frame: int, driver: int, record: int, joins: bool) -> None:
    """An event has come, whether or not it joins; it is not held yet."""
    watch_columns(frame, driver, record)
    if not joins:
        return
    store = load_int(frame, STORES_AT) + driver * (8 * STORE_WORDS)
    indexes = load_int(frame, INDEXES_AT)
    edges = load_int(frame, EDGES_AT) + driver * load_int(frame, INPUTS) * (8 * EDGE_WORDS)
    for place in range(load_int(store, EDGES)):
        edge = edges + place * (8 * EDGE_WORDS)
        if is_awake(watch_at(frame, load_int(edge, EDGE_WATCH)), store):
            own = indexes + load_int(edge, EDGE_OWN) * (8 * INDEX_WORDS)
            hash_ = hash_key(record, load_int(store, BASE), own)
            watch_waiting(frame, driver, edge, record, hash_)


@kernel()
def after(frame: int, driver: int, record: int) -> None:
    """An event that is in no result is going to be held: for whom does it wait?

    Whether the partner is there already is asked only if somebody watches how long it takes; else
    it is asked when the row would leave for waiting in vain.
    """
    stores = load_int(frame, STORES_AT)
    store = stores + driver * (8 * STORE_WORDS)
    edges = load_int(frame, EDGES_AT) + driver * load_int(frame, INPUTS) * (8 * EDGE_WORDS)
    indexes, mark = load_int(frame, INDEXES_AT), load_int(store, WIDTH) + MARKS
    for place in range(load_int(store, EDGES)):
        edge = edges + place * (8 * EDGE_WORDS)
        other = stores + load_int(edge, EDGE_OTHER) * (8 * STORE_WORDS)
        if load_int(frame, INPUTS) > 2:
            theirs = load_int(edge, EDGE_OTHER) * load_int(frame, INPUTS) + load_int(
                edge, EDGE_BACK
            )
            back = load_int(frame, EDGES_AT) + theirs * (8 * EDGE_WORDS)
            watch = watch_at(frame, load_int(back, EDGE_WATCH))
            if is_awake(watch, other):
                index = indexes + load_int(edge, EDGE_INDEX) * (8 * INDEX_WORDS)
                own = indexes + load_int(edge, EDGE_OWN) * (8 * INDEX_WORDS)
                hash_ = hash_key(record, load_int(store, BASE), own)
                counts = load_int(watch, PHASE) == PROVES or (hash_ & (_SAMPLED - 1)) == 0
                if counts and find(index, other, hash_) >= 0:
                    continue
        store_int(record, mark + place, load_int(other, ARRIVALS))
