"""A watch: how far the data miss a constraint, and whether the constraint can be used.

`arrivals.py` finds distances. `k` is the most that the constraint is missed by: the largest distance
among the last `window` events, or `ENDLESS` after a larger one has been seen. A distance counts only if
it is shorter than half the time that was watched. While a watch finds none that is, it *looks*: it
observes one key in sixteen, for as long as would show the largest k that is of use. Then it sleeps,
longer each time. When it has seen enough it *proves*: it observes every event, and k is used.

Distances are numbers of events, or times. Which of them is bounded depends on the data, so a watch
that looked at one and found nothing looks at the other next.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.hashing import canonical_float
from braid.jit.records import Words
from braid.jit.runtime import kernel
from braid.operators.constraint_join.kernels.records import (
    BROKEN,
    CLUSTERS,
    DECLARED,
    LOOKS,
    PROVES,
    Cluster,
    Frame,
    Run,
    Store,
    Watch,
)
from braid.operators.core.kernels.clauses import float_key

#: No k is as large.
ENDLESS = np.int64(1) << np.int64(61)
#: The longest sleep, as a power of two of the time that was watched before.
_LONGEST = 4
#: The events for which a watch that is not worth its time counts as tried, at least.
_TRIED = 4096


@kernel()
def runs_of(watch: Watch) -> Run:
    """The runs of a watch of an order."""
    return Run(watch.table)


@kernel()
def clusters_of(watch: Watch) -> Cluster:
    """The hash table of a watch of clusters."""
    return Cluster(watch.table)


@kernel()
def value_of(watch: Watch, record: Words, base: int, column: int) -> int:
    """The value that a watch observes, as a word. Of an order, words are in the order of the values
    (both zeros are one float, NaN is one and the largest). Of clusters, equal values have the words
    that keys are hashed by."""
    word = record[base + column]
    if watch.floating == 0:
        return word
    return canonical_float(word) if watch.kind == CLUSTERS else float_key(word)


@kernel()
def clock_of(frame: Frame, watch: Watch, store: Store) -> int:
    return frame.now if watch.timed != 0 else store.arrivals


@kernel()
def threshold_of(watch: Watch) -> int:
    return watch.time_threshold if watch.timed != 0 else watch.threshold


@kernel()
def _watched(frame: Frame, watch: Watch, store: Store) -> int:
    """How long a watch has been awake, in its unit."""
    if watch.timed != 0:
        return frame.now - watch.began
    return store.arrivals - watch.started


@kernel()
def is_awake(watch: Watch, store: Store) -> bool:
    return store.arrivals >= watch.sleeps_until


@kernel()
def start(frame: Frame, watch: Watch, arrivals: int) -> None:
    """Observe from this event on, unless it began before."""
    if watch.started < 0:
        watch.started = arrivals
        watch.began = frame.now


@kernel()
def _lasts(watch: Watch, k: int) -> int:
    """How long rows stay that a watch with this k lets go."""
    return (k * watch.factor + 1023) // 1024


@kernel()
def usable_k(watch: Watch) -> int:
    """How long rows stay before they are evicted, or -1 if the watch is not used."""
    k = watch.k
    if k >= ENDLESS or (watch.declared != DECLARED and k > threshold_of(watch)):
        return np.int64(-1)
    return _lasts(watch, k)


@kernel()
def _restart(watch: Watch, phase: int) -> None:
    """Watch from now on, and forget the past. What was declared still holds until the data break it."""
    watch.phase = phase
    watch.started = -1
    watch.entries = 0
    if watch.declared != DECLARED:
        watch.k = ENDLESS
    watch.largest = 0
    watch.counted = 0
    if watch.kind == CLUSTERS:
        clusters = clusters_of(watch)
        for k in range(watch.room):
            clusters[k].counter = -1


@kernel()
def rest(watch: Watch, store: Store, watched: int) -> None:
    """Look again later, and at distances of the other unit."""
    sleeps = watch.sleeps
    if watch.time_threshold > 0 and watch.declared != DECLARED:
        watch.timed = 1 - watch.timed
    watch.sleeps = min(sleeps + 1, _LONGEST)
    watch.sleeps_until = store.arrivals + (max(watched, watch.window) << sleeps)
    _restart(watch, np.int64(LOOKS))


@kernel()
def _look(watch: Watch, store: Store) -> None:
    """See with a few of the keys whether distances are short enough at all."""
    if watch.sleeps > 0:
        rest(watch, store, watch.window)
    else:
        _restart(watch, np.int64(LOOKS))


@kernel((Frame.type, types.int64, types.int64))
def restart_watch(frame: Frame, number: int, phase: int) -> None:
    """Watch from now on, whatever was known before."""
    watch = frame.watches[number]
    watch.sleeps_until = 0
    watch.sleeps = 0
    watch.proved = frame.stores[watch.input].arrivals
    _restart(watch, phase)


@kernel((Frame.type,))
def judge_looking(frame: Frame) -> None:
    """Judge the watches that look: some begin to prove, some sleep."""
    for number in range(frame.watch_count):
        watch = frame.watches[number]
        store = frame.stores[watch.input]
        started = watch.started
        if watch.phase != LOOKS or started < 0 or not is_awake(watch, store):
            continue
        watched, largest = _watched(frame, watch, store), watch.largest
        threshold, events = threshold_of(watch), store.arrivals - started
        if events < watch.window * max(frame.sampling, 1):
            continue
        if largest <= threshold and 2 * largest <= watched:
            watch.phase = PROVES
            watch.proved = store.arrivals
            watch.counted = 0
        elif largest > threshold or watched > 3 * threshold:
            rest(watch, store, events)


@kernel((Frame.type, types.int64, types.int64))
def give_up(frame: Frame, number: int, times: int) -> None:
    """Stop using a watch that is not worth its time. It looks again after some times as long as it was
    tried, and later the more often (`times`) it was given up."""
    watch = frame.watches[number]
    store = frame.stores[watch.input]
    tried = max(store.arrivals - watch.proved, _TRIED)
    watch.sleeps_until = store.arrivals + (4 * tried << min(times, _LONGEST))
    _restart(watch, np.int64(LOOKS))


@kernel()
def _increase(frame: Frame, watch: Watch, distance: int, number: int) -> None:
    """An event misses the constraint by more than k. Where this loses no result, k becomes the distance
    and some more."""
    watch.k = distance + distance // 4 if frame.spills != 0 else ENDLESS
    watch.counted = 0
    if watch.breaks == 0:
        watch.breaker = number
        watch.broken_at = frame.now
        watch.broken_by = distance
        watch.broken_value = frame.event[frame.stores[watch.input].base + watch.example]
    watch.breaks += 1
    if watch.declared == DECLARED:
        watch.declared = BROKEN


@kernel()
def observe(frame: Frame, watch: Watch, store: Store, distance: int, number: int) -> None:
    """Observe the distance of the event `number`."""
    watch.observed += 1
    largest = max(watch.largest, distance)
    watch.largest = largest
    if watch.phase == LOOKS:
        return
    k = watch.k
    if distance > k and distance <= _lasts(watch, k):
        # Rows have stayed for as long: nothing is missed.
        watch.k = distance
    elif distance > k:
        _increase(frame, watch, distance, number)
    counted = watch.counted + 1
    if counted < watch.window:
        watch.counted = counted
        return
    watch.largest = 0
    watch.counted = 0
    if watch.declared != DECLARED:
        _judge(frame, watch, store, largest)


@kernel()
def _judge(frame: Frame, watch: Watch, store: Store, largest: int) -> None:
    """A window of events is over."""
    events = store.arrivals - watch.started
    vague = 2 * largest > _watched(frame, watch, store)
    if largest > threshold_of(watch) or (vague and events >= 4 * watch.window):
        _look(watch, store)
        return
    if vague:
        return
    k, proved = watch.k, store.arrivals - watch.proved
    # k becomes smaller only after as many events as would have shown a larger distance.
    if largest < k and (k == ENDLESS or proved >= 2 * k or watch.timed != 0):
        watch.k = largest
        watch.sleeps = 0
