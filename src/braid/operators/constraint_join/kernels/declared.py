"""Observes declared constraints at the streams themselves, whatever joins do with them.

Of KEY, CLUSTERED and REFERENCES it remembers values, in the order in which each first came, with all
their words: two values are the same only if their words are. If there is no more room, the older half is
dropped (`declared_logic.py`). So every break that is reported is true, and one that isn't reported is by
values that came too far apart. `arrivals.py` observes orders.

Of a value it remembers:

- KEY: that it has come;
- CLUSTERED: the events so far less those with other values since its first one, and when that came;
- REFERENCES: the events of the other stream when the first event came that waits for the value, and when
  that was; or that its partner has come.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numba import types

from braid.jit.hashing import canonical_float, mix
from braid.jit.records import Record, Words, i64, record
from braid.jit.rows import is_null
from braid.jit.runtime import ROWS, WORDS, address, float_bits, kernel
from braid.operators.constraint_join.kernels.arrivals import observe_order
from braid.operators.constraint_join.kernels.records import ASCENDS, DECLARED, Frame
from braid.operators.core.kernels.clauses import float_key

#: What values are observed for.
KEYS, CLUSTERS, REFERS = range(3)

#: How a value is read: as it is, as a float, from an integer as a float, times the factor (a value that
#: is too large then equals nothing), divided by the factor as a float.
PLAIN, FLOATING, AS_FLOAT, TIMES, PART_OF = range(5)

#: How a call ended: all events are taken; there is no more room; an event breaks the constraint.
DONE, FULL, BROKEN = range(3)

_LARGEST = np.int64(9223372036854775807)
#: The bits of a slot that have the number of a value.
_BITS = np.int64(20)
_NUMBER = (np.int64(1) << _BITS) - np.int64(1)


@record
class Attribute(Record):
    """An attribute of a constraint: its column, and how it is read."""

    column: i64
    how: i64
    factor: i64


@record
class Observed(Record):
    """What is observed of values."""

    #: `KEYS`, `CLUSTERS` or `REFERS`.
    constraint: i64
    k: i64
    timed: i64
    #: How many attributes a value has; those of each side, one side after the other.
    attribute_count: i64
    attributes: Attribute
    #: Of each side, the word of the first column of its rows.
    bases: Annotated[Words, 2]


@record
class Progress(Record):
    """How far events are taken."""

    #: The events of each side that came, and how far each batch is read.
    came: Annotated[Words, 2]
    read: Annotated[Words, 2]
    #: Values that are remembered.
    known: i64
    #: The event that breaks the constraint: its side, its row of the batch, and by how much it misses
    #: the constraint (-1: of a key).
    broken_side: i64
    broken_row: i64
    broken_by: i64


@record
class Entry(Record):
    """What is remembered of a value, and its words: as many as there are attributes."""

    #: The counter of a cluster, or the events when the first one came that waits; -1: none waits.
    mark: i64
    since: i64
    value: Annotated[Words, 1]


#: The words of an entry before its value.
ENTRY_WORDS = Entry.word("value")


@kernel()
def _entry(entries: Words, number: int, attributes: int) -> Entry:
    return Entry(entries.after(number * (ENTRY_WORDS + attributes)))


@kernel()
def _read(row: Words, base: int, attribute: Attribute) -> int:
    """A word of a value as it is compared."""
    word, how = row[base + attribute.column], attribute.how
    if how == PLAIN:
        return word
    if how == FLOATING:
        return canonical_float(word)
    if how == TIMES:
        return word * attribute.factor
    if how == AS_FLOAT:
        return float_bits(np.float64(word))
    return float_bits(np.float64(word) / np.float64(attribute.factor))


@kernel()
def _is_comparable(row: Words, base: int, attribute: Attribute) -> bool:
    if attribute.how != TIMES:
        return True
    word, most = row[base + attribute.column], _LARGEST // attribute.factor
    return -most <= word <= most


@kernel()
def _take(row: Words, observed: Observed, side: int, entry: Entry) -> bool:
    """Write the words of an event's value; whether it has one: NULL keeps every constraint."""
    base, count = observed.bases[side], observed.attribute_count
    for k in range(count):
        attribute = observed.attributes[side * count + k]
        if is_null(row, attribute.column) or not _is_comparable(row, base, attribute):
            return False
        entry.value[k] = _read(row, base, attribute)
    return True


@kernel()
def _hash(entry: Entry, attributes: int) -> int:
    """The hash of a value, without the bits that have a number."""
    found = mix(entry.value[0])
    for k in range(1, attributes):
        found = mix(np.int64(found + entry.value[k]))
    return found & ~_NUMBER


@kernel()
def _is_same(entry: Entry, other: Entry, attributes: int) -> bool:
    for k in range(attributes):
        if other.value[k] != entry.value[k]:
            return False
    return True


@kernel()
def _place(slots: np.ndarray, entries: Words, entry: Entry, attributes: int, hash_: int) -> int:
    """The slot of a value, or where it would be. A slot has the number of a value, from 1 on, and bits
    of its hash above, so that few others are compared."""
    mask = slots.shape[0] - 1
    place = (hash_ >> _BITS) & mask
    while slots[place] != 0:
        slot = slots[place]
        if (slot & ~_NUMBER) == hash_:
            if _is_same(entry, _entry(entries, (slot & _NUMBER) - 1, attributes), attributes):
                return place
        place = (place + 1) & mask
    return place


@kernel((ROWS, WORDS, types.int64))
def enter(entries: np.ndarray, slots: np.ndarray, known: int) -> None:
    """Enter values that were moved into empty slots: no two are the same."""
    attributes, mask = entries.shape[1] - ENTRY_WORDS, slots.shape[0] - 1
    for k in range(known):
        hash_ = _hash(_entry(Words(address(entries)), k, attributes), attributes)
        place = (hash_ >> _BITS) & mask
        while slots[place] != 0:
            place = (place + 1) & mask
        slots[place] = hash_ | (k + 1)


@kernel()
def _distance(observed: Observed, entry: Entry, side: int, came: int, now: int) -> int:
    """By how much an event misses a constraint whose value has come before; the value is marked."""
    mark, timed = entry.mark, observed.timed != 0
    if observed.constraint == CLUSTERS:
        entry.mark = mark + 1
        return now - entry.since if timed else came - mark - 1
    if side == 0 or mark < 0:
        return np.int64(-1)
    entry.mark = -1
    return now - entry.since if timed else came - mark


@kernel((ROWS, ROWS, Observed.type, Progress.type, ROWS, WORDS))
def observe_events(
    own: np.ndarray,
    others: np.ndarray,
    observed: Observed,
    progress: Progress,
    entries: np.ndarray,
    slots: np.ndarray,
) -> int:
    """Take events in the order of their time, `others` (of REFERENCES: those that are referred to)
    before `own` at one instant; how it ended."""
    memory, attributes, kind = (
        Words(address(entries)),
        observed.attribute_count,
        observed.constraint,
    )
    room = entries.shape[0] - 1
    own_rows, other_rows = Words(address(own)), Words(address(others))
    first, second, known = progress.read[0], progress.read[1], progress.known
    # So many came before the first of these batches.
    before, others_before = progress.came[0] - first, progress.came[1] - second
    ended = np.int64(DONE)
    while first < own.shape[0] or second < others.shape[0]:
        if known >= room:
            ended = np.int64(FULL)
            break
        row, side = own_rows.after(first * own.shape[1]), np.int64(0)
        if second < others.shape[0]:
            if first >= own.shape[0] or others[second, 1] <= own[first, 1]:
                row, side = other_rows.after(second * others.shape[1]), np.int64(1)
        first += 1 - side
        second += side
        entry = _entry(memory, known, attributes)
        if not _take(row, observed, side, entry):
            continue
        hash_ = _hash(entry, attributes)
        place = _place(slots, memory, entry, attributes, hash_)
        came = others_before + second if side == 1 or kind == REFERS else before + first
        if slots[place] == 0:
            entry.mark = -1 if side == 1 else came
            entry.since = row[1]
            known += 1
            slots[place] = hash_ | known
            continue
        distance = np.int64(-1)
        if kind != KEYS:
            found = _entry(memory, (slots[place] & _NUMBER) - 1, attributes)
            distance = _distance(observed, found, side, came, row[1])
        if kind == KEYS or distance > observed.k:
            progress.broken_side = side
            progress.broken_by = distance
            progress.broken_row = (second if side == 1 else first) - 1
            ended = np.int64(BROKEN)
            break
    progress.read[0] = first
    progress.read[1] = second
    progress.known = known
    progress.came[0] = before + first
    progress.came[1] = others_before + second
    return ended


@kernel((Frame.type, ROWS, types.boolean))
def observe_ordered_events(frame: Frame, rows: np.ndarray, floating: bool) -> int:
    """Take events whose values are in an order: the one that breaks it, or -1."""
    watch, store = frame.watches, frame.stores
    column, base, first = watch.column, store.base, Words(address(rows))
    ascends = watch.kind == ASCENDS
    for place in range(rows.shape[0]):
        row = first.after(place * rows.shape[1])
        store.arrivals += 1
        frame.now = row[1]
        frame.event = row
        if is_null(row, column):
            continue
        value = row[base + column]
        if floating:
            value = float_key(value)
        observe_order(frame, watch, store, value if ascends else ~value, store.arrivals)
        if watch.declared != DECLARED:
            return place
    return np.int64(-1)
