"""Detections by key inside kernels: events of many keys in one slab, each key a list through it.

A key is a *slot*. Its events follow one another by links, the oldest first; what is given back goes
to one list of free places. Batches are cut for each slot by itself, as `detection.cut_batches` does
for all events. To answer, the events of the keys that ask are laid out one key after the other
(`lay_out`), and then everything is as it is for one key: events from here to there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.jit import types
from braid.jit.runtime import ROWS, WORDS, kernel
from braid.operators.detect.kernels.synopses import deadline_of
from braid.operators.detect.kernels.verify import CAME, LEFT

NEVER = np.int64(2**63 - 1)

# What a log knows of a slot: its events from the oldest to the newest; the oldest that is in its
# window by rows; how many there are; the batch under way; how many rows have come.
OLDEST, NEWEST, INSIDE, HELD, OPEN, COUNT, SEEN = range(7)
SLOT = 7

# What a log knows of its slab: the first free place, how many places were ever used, how many hold
# an event, how many batches are under way, and when the first of these may end.
FREE, USED, LIVE, WAITING, SOONEST = range(5)
SLAB = 5

#: A batch that has ended: whose, its first instant, its last.
WHOSE, BEGAN, ENDED = 0, 1, 2

HALVES = types.Array(types.int32, 1, "C")
FLAGS = types.Array(types.boolean, 1, "C")


class Rule(NamedTuple):
    """How batches are cut, which window it is (`rows`: of how many, or below 0), and in which
    columns of an event it is when its batch ended and, for windows by rows, which row it was."""

    batch: int
    within: int
    last: int
    rows: int
    closed: int
    position: int


class Slab(NamedTuple):
    """`events`: when each came and left, its keys, when its batch ended. `following`: the next
    event of its key, or the next free place. `slots` and `state` as above."""

    events: np.ndarray
    following: np.ndarray
    slots: np.ndarray
    state: np.ndarray


_RULE = types.NamedUniTuple(types.int64, 6, Rule)
_SLAB = types.NamedTuple((ROWS, HALVES, ROWS, WORDS), Slab)


# ---- keys ----------------------------------------------------------------------------------------


@kernel((ROWS, FLAGS, ROWS, HALVES, HALVES, WORDS, types.int64, HALVES))
def number_keys(
    words: np.ndarray,
    known: np.ndarray,
    keys: np.ndarray,
    table: np.ndarray,
    free: np.ndarray,
    left: np.ndarray,
    begin: int,
    out: np.ndarray,
) -> int:
    """The slots of keys from number `begin` on, new ones from the end of the `left` free ones; below
    0 for a key that is not known. Where that ends: before all if no slot is free any more."""
    mask = table.shape[0] - 1
    for k in range(begin, words.shape[0]):
        if not known[k]:
            out[k] = -1
            continue
        place = _hash(words, k) & mask
        while table[place] >= 0 and not _same(words, k, keys, table[place]):
            place = (place + 1) & mask
        if table[place] < 0:
            if left[0] == 0:
                return k
            left[0] -= 1
            slot = free[left[0]]
            keys[slot] = words[k]
            table[place] = slot
        out[k] = table[place]
    return words.shape[0]


@kernel((ROWS, FLAGS, HALVES))
def hash_keys(keys: np.ndarray, used: np.ndarray, table: np.ndarray) -> None:
    """Hang the slots that are used into an empty table."""
    mask = table.shape[0] - 1
    for slot in range(keys.shape[0]):
        if used[slot]:
            place = _hash(keys, slot) & mask
            while table[place] >= 0:
                place = (place + 1) & mask
            table[place] = slot


@kernel()
def _hash(words: np.ndarray, k: int) -> int:
    value = np.uint64(0x9E3779B97F4A7C15)
    for c in range(words.shape[1]):
        value = (value ^ np.uint64(words[k, c])) * np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(29)
    return np.int64(value & np.uint64(0x7FFFFFFFFFFFFFFF))


@kernel()
def _same(words: np.ndarray, k: int, keys: np.ndarray, slot: int) -> bool:
    for c in range(words.shape[1]):
        if words[k, c] != keys[slot, c]:
            return False
    return True


@kernel((HALVES, HALVES, HALVES, HALVES))
def by_slot(
    slots: np.ndarray, marks: np.ndarray, order: np.ndarray, distinct: np.ndarray
) -> tuple[int, int]:
    """Numbers of events in an order in which those of a slot stand together, as they came; and the
    slots in that order. How many of each there are: events below slot 0 are left out. `marks` has
    -1 for every slot, and has it again in the end."""
    following = np.empty(slots.shape[0], np.int32)
    for k in range(slots.shape[0] - 1, -1, -1):
        if slots[k] >= 0:
            following[k] = marks[slots[k]]
            marks[slots[k]] = k
    count, many = 0, 0
    for k in range(slots.shape[0]):
        if slots[k] >= 0 and marks[slots[k]] == k:
            distinct[many] = slots[k]
            many += 1
            place = k
            while place >= 0:
                order[count] = place
                count += 1
                place = following[place]
            marks[slots[k]] = -1
    return count, many


# ---- events and batches --------------------------------------------------------------------------


@kernel((_SLAB, _RULE, HALVES, HALVES, ROWS, FLAGS, types.int64, HALVES, ROWS))
def take(
    slab: Slab,
    rule: Rule,
    order: np.ndarray,
    slots: np.ndarray,
    times: np.ndarray,
    counting: np.ndarray,
    bound: int,
    placed: np.ndarray,
    out: np.ndarray,
) -> int:
    """Events in whole epochs, those of a slot together by `order`: where each is put that counts,
    and the batches that end before `bound`. `times`: when each comes and, if that is known, leaves."""
    found, k = 0, 0
    count = order.shape[0]
    while k < count:
        slot, instant = slots[order[k]], times[order[k], 0]
        deadline = _deadline(slab, rule, slot)
        if instant > deadline:
            found = _close(slab, rule, slot, deadline, out, found)
        while k < count and slots[order[k]] == slot and times[order[k], 0] == instant:
            if rule.rows >= 0:
                _moved(slab, rule, slot, instant)
            if counting[order[k]]:
                placed[order[k]] = _put(slab, rule, slot, instant, times[order[k], 1])
            k += 1
        if slab.slots[slot, OPEN] >= 0 and slab.slots[slot, COUNT] >= rule.batch:
            found = _close(slab, rule, slot, instant, out, found)
    if slab.state[SOONEST] < bound:
        soonest = NEVER
        for slot in range(slab.slots.shape[0]):
            if slab.slots[slot, OPEN] >= 0:
                deadline = _deadline(slab, rule, slot)
                if deadline < bound:
                    found = _close(slab, rule, slot, deadline, out, found)
                else:
                    soonest = min(soonest, deadline)
        slab.state[SOONEST] = soonest
    return found


@kernel()
def _deadline(slab: Slab, rule: Rule, slot: int) -> int:
    """When the batch under way ends if nothing fills it; never if there is none."""
    if slab.slots[slot, OPEN] < 0:
        return NEVER
    return deadline_of(slab.events[slab.slots[slot, OPEN], CAME], rule.within, rule.last)


@kernel()
def _moved(slab: Slab, rule: Rule, slot: int, instant: int) -> None:
    """One more row: the one that is as many rows before it as the window has leaves."""
    slab.slots[slot, SEEN] += 1
    inside = slab.slots[slot, INSIDE]
    if inside >= 0 and slab.events[inside, rule.position] + rule.rows <= slab.slots[slot, SEEN]:
        slab.events[inside, LEFT] = instant
        slab.slots[slot, INSIDE] = slab.following[inside]


@kernel()
def _put(slab: Slab, rule: Rule, slot: int, instant: int, left: int) -> int:
    """A place for the newest event of a slot, in the batch under way."""
    place = slab.state[FREE]
    if place >= 0:
        slab.state[FREE] = slab.following[place]
    else:
        place = slab.state[USED]
        slab.state[USED] += 1
    slab.state[LIVE] += 1
    slab.events[place, CAME], slab.events[place, LEFT] = instant, left
    slab.events[place, rule.closed] = NEVER
    slab.following[place] = -1
    own = slab.slots[slot]
    if own[NEWEST] >= 0:
        slab.following[own[NEWEST]] = place
    else:
        own[OLDEST] = place
    own[NEWEST] = place
    own[HELD] += 1
    if rule.rows >= 0:
        slab.events[place, rule.position] = own[SEEN]
        if own[INSIDE] < 0:
            own[INSIDE] = place
    if own[OPEN] < 0:
        own[OPEN], own[COUNT] = place, 0
        slab.state[WAITING] += 1
        slab.state[SOONEST] = min(slab.state[SOONEST], _deadline(slab, rule, slot))
    own[COUNT] += 1
    return place


@kernel()
def _close(slab: Slab, rule: Rule, slot: int, instant: int, out: np.ndarray, found: int) -> int:
    place = slab.slots[slot, OPEN]
    out[found, WHOSE], out[found, BEGAN] = slot, slab.events[place, CAME]
    out[found, ENDED] = instant
    while place >= 0:
        slab.events[place, rule.closed] = instant
        place = slab.following[place]
    slab.slots[slot, OPEN] = -1
    slab.state[WAITING] -= 1
    return found + 1


@kernel((_SLAB, _RULE, HALVES, WORDS))
def give_back(slab: Slab, rule: Rule, slots: np.ndarray, horizons: np.ndarray) -> None:
    """Drop the oldest batches of slots that have ended and whose last event had left at an instant
    or before: the places of their events are free."""
    events, following = slab.events, slab.following
    for k in range(slots.shape[0]):
        own = slab.slots[slots[k]]
        while own[OLDEST] >= 0:
            first = own[OLDEST]
            last, many = first, 1
            closed = events[first, rule.closed]
            if closed == NEVER:
                break
            while following[last] >= 0 and events[following[last], rule.closed] == closed:
                last = following[last]
                many += 1
            if events[last, LEFT] > horizons[k]:
                break
            own[OLDEST] = following[last]
            if own[OLDEST] < 0:
                own[NEWEST] = -1
            following[last] = slab.state[FREE]
            slab.state[FREE] = first
            own[HELD] -= many
            slab.state[LIVE] -= many


# ---- what stands in a synopsis -------------------------------------------------------------------


@kernel((_SLAB, _RULE, HALVES, WORDS, HALVES, ROWS))
def lay_out(
    slab: Slab,
    rule: Rule,
    slots: np.ndarray,
    starts: np.ndarray,
    places: np.ndarray,
    times: np.ndarray,
) -> None:
    """The places of the events of slots, one slot after the other; of each event when it came, when
    its batch ended, and when the last event of that batch leaves. `starts`: where each slot's begin."""
    at = 0
    for k in range(slots.shape[0]):
        starts[k] = at
        place = slab.slots[slots[k], OLDEST]
        while place >= 0:
            places[at] = place
            times[at, 0] = slab.events[place, CAME]
            times[at, 1] = slab.events[place, rule.closed]
            times[at, 2] = slab.events[place, LEFT]
            at += 1
            place = slab.following[place]
        for t in range(at - 2, starts[k] - 1, -1):
            if times[t, 1] == times[t + 1, 1]:
                times[t, 2] = times[t + 1, 2]
    starts[slots.shape[0]] = at


@kernel((types.int64, WORDS, WORDS, ROWS, WORDS, ROWS, ROWS, ROWS))
def stand(
    number: int,
    asking: np.ndarray,
    whose: np.ndarray,
    batches: np.ndarray,
    starts: np.ndarray,
    times: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
) -> None:
    """Which events stand for an input when batches are answered: `whose` has the number of the
    slot as it was laid out, `batches` when each began and ended. Of the one that asks, the batch;
    of others those that have come, without the batches that were over and had left."""
    for b in range(asking.shape[0]):
        low, end = starts[whose[b]], starts[whose[b] + 1]
        began, ended = batches[b, 0], batches[b, 1]
        if asking[b] == number:
            first = _first(times, low, end, 1, ended)
            lows[b, number] = first
            highs[b, number] = _first(times, first, end, 1, ended + 1)
            continue
        high = _first(times, low, end, 0, ended + 1)
        over = _first(times, low, high, 1, ended + 1)
        lows[b, number] = _first(times, low, over, 2, began + 1)
        highs[b, number] = high


@kernel()
def _first(times: np.ndarray, low: int, high: int, column: int, least: int) -> int:
    """The first event with at least this time in a column in which times only grow."""
    while low < high:
        middle = (low + high) // 2
        if times[middle, column] < least:
            low = middle + 1
        else:
            high = middle
    return low
