"""A watch: how far a constraint is missed, and what comes of that.

Distances are found in `arrivals.py`. A watch has `K`, the most that it is missed by: the largest
distance among the last `WINDOW` events, or without end after a larger one has been seen. A distance
means something only if it is shorter than half the time that was watched. While a watch finds none
that is, it *looks*: it takes only one key in sixteen into account, for as long as would show the
largest k that is of use; then it sleeps, longer each time. When it has seen enough it *proves*:
every event counts, and K is used.

Distances are numbers of events, or times. Nobody knows beforehand which of them is bounded: where a
watch has looked in vain for the one it looks for the other next.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.runtime import WORDS, address, kernel, load_int, store_int
from braid.operators.constraint_join.kernels.frame import (
    EVENT_AT,
    LOOKING,
    NOW,
    SPILLS,
    STORES_AT,
    WATCHES,
    WATCHES_AT,
)
from braid.operators.constraint_join.kernels.store import ARRIVALS, BASE, STORE_WORDS
from braid.operators.core.kernels.clauses import float_key
from braid.operators.core.kernels.instances import canonical_float

WAITS, ASCENDS, DESCENDS, CLUSTERS = range(4)

#: A watch: its kind, input and column (of WAITS: the input that is waited for), k, the largest
#: distance and the events of the current window, its length, events until which it sleeps, how
#: often it slept in vain, whether it counts time, whether it was declared (2: and broken), events that
#: broke it, the first of them and when it came, rows that left because of it, k times this (of
#: 1024) until rows leave, k from which on it is not used; where its table is, rows of that, entries,
#: the largest value so far (of an order; of clusters 1: it had too little room), the events that there were when it last awoke; whether it
#: looks (LOOKS) or proves (PROVES), and the events that there were when it began to prove; distances
#: that it has taken into account, and what it has saved: of each row that left because of it the
#: bytes, for the time that it would have stayed; the column that is shown of an event that
#: breaks it; of the first such event the distance, and its value there; k from which on it is not
#: used if it counts time (0: it never does), the instant at which it last awoke, and whether the
#: values of its column are floats.
(
    KIND,
    INPUT,
    COLUMN,
    K,
    LARGEST,
    COUNTED,
    WINDOW,
    SLEEPS_UNTIL,
    SLEPT,
    TIMED,
    DECLARED,
    BROKEN,
    BREAKER,
    BROKEN_AT,
    GONE,
    FACTOR,
    THRESHOLD,
    TABLE_AT,
    ROOM,
    ENTRIES,
    HIGHEST,
    STARTED,
    PHASE,
    PROVED,
    OBSERVED,
    SAVED,
    EXAMPLE,
    BROKEN_BY,
    BROKEN_VALUE,
    TIME_THRESHOLD,
    BEGAN,
    FLOATING,
    WATCH_WORDS,
) = range(33)

PROVES, LOOKS = range(2)

#: No k is as large.
ENDLESS = np.int64(1) << np.int64(61)
#: The longest sleep, in times that were watched before: two to this.
_LONGEST = 4
#: Events for which one that is not worth its time counts as tried, at least.
_TRIED = 4096


@kernel()
def watch_at(frame: int, number: int) -> int:
    return load_int(frame, WATCHES_AT) + number * (8 * WATCH_WORDS)


@kernel()
def value_of(watch: int, record: int, base: int, column: int) -> int:
    """The value that a watch looks at, as a word: of an order, words are in the order of the values
    (of floats: both zeros are one, NaN is one and the largest); of clusters, equal values have the
    words that keys are hashed by."""
    word = load_int(record, base + column)
    if load_int(watch, FLOATING) == 0:
        return word
    return canonical_float(word) if load_int(watch, KIND) == CLUSTERS else float_key(word)


@kernel()
def clock_of(frame: int, watch: int, store: int) -> int:
    return load_int(frame, NOW) if load_int(watch, TIMED) != 0 else load_int(store, ARRIVALS)


@kernel()
def threshold_of(watch: int) -> int:
    return load_int(watch, TIME_THRESHOLD if load_int(watch, TIMED) != 0 else THRESHOLD)


@kernel()
def _watched(frame: int, watch: int, store: int) -> int:
    """For how long it has been awake, as it counts."""
    if load_int(watch, TIMED) != 0:
        return load_int(frame, NOW) - load_int(watch, BEGAN)
    return load_int(store, ARRIVALS) - load_int(watch, STARTED)


@kernel()
def is_awake(watch: int, store: int) -> bool:
    return load_int(store, ARRIVALS) >= load_int(watch, SLEEPS_UNTIL)


@kernel()
def _lasts(watch: int, k: int) -> int:
    """For how long rows stay that a watch with this k lets go."""
    return (k * load_int(watch, FACTOR) + 1023) // 1024


@kernel()
def usable_k(watch: int) -> int:
    """After how much rows leave, or -1 if it is not to be used."""
    k = load_int(watch, K)
    if k >= ENDLESS or (load_int(watch, DECLARED) != 1 and k > threshold_of(watch)):
        return np.int64(-1)
    return _lasts(watch, k)


@kernel()
def _begin_anew(watch: int, store: int, phase: int) -> None:
    """Watch from now on; what is remembered of the past is of no use. What was declared still holds,
    until it is seen to be broken."""
    store_int(watch, PHASE, phase)
    store_int(watch, STARTED, -1)
    store_int(watch, ENTRIES, 0)
    if load_int(watch, DECLARED) != 1:
        store_int(watch, K, ENDLESS)
    store_int(watch, LARGEST, 0)
    store_int(watch, COUNTED, 0)
    table = load_int(watch, TABLE_AT)
    if load_int(watch, KIND) == CLUSTERS:
        for k in range(load_int(watch, ROOM)):
            store_int(table, 2 * k + 1, -1)


@kernel()
def rest(watch: int, store: int, watched: int) -> None:
    """Look again later, and for distances of the other kind."""
    slept = load_int(watch, SLEPT)
    if load_int(watch, TIME_THRESHOLD) > 0 and load_int(watch, DECLARED) != 1:
        store_int(watch, TIMED, 1 - load_int(watch, TIMED))
    store_int(watch, SLEPT, min(slept + 1, np.int64(_LONGEST)))
    wait = max(watched, load_int(watch, WINDOW)) << slept
    store_int(watch, SLEEPS_UNTIL, load_int(store, ARRIVALS) + wait)
    _begin_anew(watch, store, np.int64(LOOKS))


@kernel()
def _look(watch: int, store: int) -> None:
    """See whether it is near enough at all, with few of the keys."""
    if load_int(watch, SLEPT) > 0:
        rest(watch, store, load_int(watch, WINDOW))
    else:
        _begin_anew(watch, store, np.int64(LOOKS))


@kernel((WORDS, types.int64, types.int64))
def watch_anew(words: np.ndarray, number: int, phase: int) -> None:
    """Watch from now on, whatever was known before."""
    frame = address(words)
    watch = watch_at(frame, number)
    store = load_int(frame, STORES_AT) + load_int(watch, INPUT) * (8 * STORE_WORDS)
    store_int(watch, SLEEPS_UNTIL, 0)
    store_int(watch, SLEPT, 0)
    store_int(watch, PROVED, load_int(store, ARRIVALS))
    _begin_anew(watch, store, phase)


@kernel((WORDS,))
def judge_looking(words: np.ndarray) -> None:
    """What watches have seen that only look: some prove it now, some give up for a while."""
    frame = address(words)
    for number in range(load_int(frame, WATCHES)):
        watch = watch_at(frame, number)
        store = load_int(frame, STORES_AT) + load_int(watch, INPUT) * (8 * STORE_WORDS)
        started = load_int(watch, STARTED)
        if load_int(watch, PHASE) != LOOKS or started < 0 or not is_awake(watch, store):
            continue
        watched, largest = _watched(frame, watch, store), load_int(watch, LARGEST)
        threshold, events = threshold_of(watch), load_int(store, ARRIVALS) - started
        if events < load_int(watch, WINDOW) * max(load_int(frame, LOOKING), np.int64(1)):
            continue
        if largest <= threshold and 2 * largest <= watched:
            store_int(watch, PHASE, PROVES)
            store_int(watch, PROVED, load_int(store, ARRIVALS))
            store_int(watch, COUNTED, 0)
        elif largest > threshold or watched > 3 * threshold:
            rest(watch, store, events)


@kernel((WORDS, types.int64, types.int64))
def give_up(words: np.ndarray, number: int, times: int) -> None:
    """A watch that is not worth its time is not used, and looks again later: after some times as long
    as it was tried, and the longer the more often that was in vain."""
    frame = address(words)
    watch = watch_at(frame, number)
    store = load_int(frame, STORES_AT) + load_int(watch, INPUT) * (8 * STORE_WORDS)
    tried = max(load_int(store, ARRIVALS) - load_int(watch, PROVED), np.int64(_TRIED))
    wait = 4 * tried << min(times, np.int64(_LONGEST))
    store_int(watch, SLEEPS_UNTIL, load_int(store, ARRIVALS) + wait)
    _begin_anew(watch, store, np.int64(LOOKS))


@kernel()
def _increase(frame: int, watch: int, distance: int, number: int) -> None:
    """It is missed by more than was believed. Where no result is lost by it, what was seen is
    believed at once."""
    wider = distance + distance // 4 if load_int(frame, SPILLS) != 0 else ENDLESS
    store_int(watch, K, wider)
    store_int(watch, COUNTED, 0)
    if load_int(watch, BROKEN) == 0:
        store = load_int(frame, STORES_AT) + load_int(watch, INPUT) * (8 * STORE_WORDS)
        value = load_int(store, BASE) + load_int(watch, EXAMPLE)
        store_int(watch, BREAKER, number)
        store_int(watch, BROKEN_AT, load_int(frame, NOW))
        store_int(watch, BROKEN_BY, distance)
        store_int(watch, BROKEN_VALUE, load_int(load_int(frame, EVENT_AT), value))
    store_int(watch, BROKEN, load_int(watch, BROKEN) + 1)
    if load_int(watch, DECLARED) == 1:
        store_int(watch, DECLARED, 2)


@kernel()
def observe(frame: int, watch: int, store: int, distance: int, number: int) -> None:
    """Take the distance of the event `number` into account."""
    store_int(watch, OBSERVED, load_int(watch, OBSERVED) + 1)
    largest = max(load_int(watch, LARGEST), distance)
    store_int(watch, LARGEST, largest)
    if load_int(watch, PHASE) == LOOKS:
        return
    k = load_int(watch, K)
    if distance > k and distance <= _lasts(watch, k):
        # Rows have stayed for as long: nothing is missed.
        store_int(watch, K, distance)
    elif distance > k:
        _increase(frame, watch, distance, number)
    counted = load_int(watch, COUNTED) + 1
    if counted < load_int(watch, WINDOW):
        store_int(watch, COUNTED, counted)
        return
    store_int(watch, LARGEST, 0)
    store_int(watch, COUNTED, 0)
    if load_int(watch, DECLARED) != 1:
        _judge(frame, watch, store, largest)


@kernel()
def _judge(frame: int, watch: int, store: int, largest: int) -> None:
    """A window is over."""
    events = load_int(store, ARRIVALS) - load_int(watch, STARTED)
    vague = 2 * largest > _watched(frame, watch, store)
    if largest > threshold_of(watch) or (vague and events >= 4 * load_int(watch, WINDOW)):
        _look(watch, store)
        return
    if vague:
        return
    k, proved = load_int(watch, K), load_int(store, ARRIVALS) - load_int(watch, PROVED)
    # It falls only once as much has been watched as would have shown it.
    if largest < k and (k == ENDLESS or proved >= 2 * k or load_int(watch, TIMED) != 0):
        store_int(watch, K, largest)
        store_int(watch, SLEPT, 0)
