"""What is watched of declared constraints at the streams themselves, whatever joins do with them.

Of KEY, CLUSTERED and REFERENCES values are remembered, in the order in which each first came, with
all their words: two values are the same only if they are. When there is no more room the older
half is forgotten (`operators/constraint_join/declared_logic.py`), so that what is told is always true, and what is
not told happened too long ago. Orders are watched as joins do it (`arrivals.py`).

What is remembered of a value:

- KEY: that it has come;
- CLUSTERED: the events so far less those with other values since its first one, and when that came;
- REFERENCES: the events of the other stream when the first one that waits for it came, and when that
  was; or that its partner has come.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.runtime import ROWS, WORDS, address, float_bits, kernel, load_int, store_int
from braid.operators.constraint_join.kernels.arrivals import watch_order
from braid.operators.constraint_join.kernels.frame import EVENT_AT, NOW, STORES_AT
from braid.operators.constraint_join.kernels.store import ARRIVALS, BASE
from braid.operators.constraint_join.kernels.watch import ASCENDS, COLUMN, DECLARED, KIND, watch_at
from braid.operators.core.kernels.clauses import float_key
from braid.operators.core.kernels.instances import canonical_float, is_null, mix

#: Kinds of watches of values.
KEYS, CLUSTERS, REFERS = range(3)

#: What is watched: the kind, k, whether it counts time, attributes; of each side the first column of
#: its rows. Then for each side and attribute: column, how it is read, factor.
OF_KIND, OF_K, OF_TIMED, OF_ATTRIBUTES, OF_BASES, OF_COLUMNS = 0, 1, 2, 3, 4, 6
COLUMN_WORDS = 3

#: How a value is read: as it is, as a float, from an integer as a float, a number of times the
#: factor (a value that has no room then equals nothing), a part of the factor as a float.
PLAIN, FLOATING, AS_FLOAT, TIMES, PART_OF = range(5)

#: What is known: events of each side that came, how far each batch is read, values that are
#: remembered; the event that breaks it: its side and its row of the batch, and by how much (-1: of
#: a key).
CAME, READ, KNOWN, BROKEN_SIDE, BROKEN_ROW, BROKEN_BY, STATE = 0, 2, 4, 5, 6, 7, 8

#: What is remembered of a value, before its words.
MARK, SINCE, VALUE = range(3)

#: How a call ended: all is read; there is no more room; an event breaks it.
DONE, FULL, BROKEN = range(3)

_LARGEST = np.int64(9223372036854775807)
#: Bits of a slot in which the number of a value is.
_BITS = np.int64(20)
_NUMBER = (np.int64(1) << _BITS) - np.int64(1)


@kernel()
def _read(row: int, base: int, column: int) -> int:
    """A word of a value as it is compared."""
    word, how = load_int(row, base + load_int(column, 0)), load_int(column, 1)
    if how == PLAIN:
        return word
    if how == FLOATING:
        return canonical_float(word)
    if how == TIMES:
        return word * load_int(column, 2)
    if how == AS_FLOAT:
        return float_bits(np.float64(word))
    return float_bits(np.float64(word) / np.float64(load_int(column, 2)))


@kernel()
def _has_room(row: int, base: int, column: int) -> bool:
    if load_int(column, 1) != TIMES:
        return True
    word, most = load_int(row, base + load_int(column, 0)), _LARGEST // load_int(column, 2)
    return -most <= word <= most


@kernel()
def _take(row: int, what: int, side: int, entry: int) -> bool:
    """Write the words of an event's value; whether it has one: NULL keeps every constraint."""
    attributes, base = load_int(what, OF_ATTRIBUTES), load_int(what, OF_BASES + side)
    column = what + 8 * (OF_COLUMNS + side * attributes * COLUMN_WORDS)
    for k in range(attributes):
        if is_null(row, load_int(column, 0)) or not _has_room(row, base, column):
            return False
        store_int(entry, VALUE + k, _read(row, base, column))
        column += 8 * COLUMN_WORDS
    return True


@kernel()
def _hash(entry: int, attributes: int) -> int:
    """Of a value, with no bits where the number of one is."""
    found = mix(load_int(entry, VALUE))
    for k in range(1, attributes):
        found = mix(np.int64(found + load_int(entry, VALUE + k)))
    return found & ~_NUMBER


@kernel()
def _is_same(entry: int, other: int, attributes: int) -> bool:
    for k in range(attributes):
        if load_int(other, VALUE + k) != load_int(entry, VALUE + k):
            return False
    return True


@kernel()
def _place(slots: np.ndarray, entries: int, entry: int, attributes: int, hash_: int) -> int:
    """Where a value is, or where it would be. A slot has the number of a value, from 1 on, and bits of
    its hash above, so that few others are looked at."""
    mask, bytes_ = slots.shape[0] - 1, 8 * (VALUE + attributes)
    place = (hash_ >> _BITS) & mask
    while slots[place] != 0:
        slot = slots[place]
        if (slot & ~_NUMBER) == hash_:
            if _is_same(entry, entries + ((slot & _NUMBER) - 1) * bytes_, attributes):
                return place
        place = (place + 1) & mask
    return place


@kernel((ROWS, WORDS, types.int64))
def enter(entries: np.ndarray, slots: np.ndarray, known: int) -> None:
    """Find values again that were moved: no two are the same."""
    at, attributes, mask = address(entries), entries.shape[1] - VALUE, slots.shape[0] - 1
    for k in range(known):
        hash_ = _hash(at + k * 8 * (VALUE + attributes), attributes)
        place = (hash_ >> _BITS) & mask
        while slots[place] != 0:
            place = (place + 1) & mask
        slots[place] = hash_ | (k + 1)


@kernel()
def _miss(what: int, entry: int, side: int, came: int, now: int) -> int:
    """By how much an event misses a constraint whose value has come before; take note of it."""
    mark, kind = load_int(entry, MARK), load_int(what, OF_KIND)
    timed = load_int(what, OF_TIMED) != 0
    if kind == CLUSTERS:
        store_int(entry, MARK, mark + 1)
        return now - load_int(entry, SINCE) if timed else came - mark - 1
    if side == 0 or mark < 0:
        return np.int64(-1)
    store_int(entry, MARK, -1)
    return now - load_int(entry, SINCE) if timed else came - mark


@kernel((ROWS, ROWS, WORDS, WORDS, ROWS, WORDS))
def watch_values(
    own: np.ndarray,
    others: np.ndarray,
    watched: np.ndarray,
    state: np.ndarray,
    entries: np.ndarray,
    slots: np.ndarray,
) -> int:
    """Take events in the order of their time, `others` (of REFERENCES: those that are referred to)
    before `own` at one instant: how it ended."""
    what, at = address(watched), address(entries)
    kind, k, attributes = watched[OF_KIND], watched[OF_K], watched[OF_ATTRIBUTES]
    room, bytes_ = entries.shape[0] - 1, 8 * (VALUE + attributes)
    own_at, others_at = address(own), address(others)
    first, second, known = state[READ], state[READ + 1], state[KNOWN]
    # So many came before the first of these batches.
    before, others_before = state[CAME] - first, state[CAME + 1] - second
    ended = np.int64(DONE)
    while first < own.shape[0] or second < others.shape[0]:
        if known >= room:
            ended = np.int64(FULL)
            break
        row, side = own_at + first * 8 * own.shape[1], np.int64(0)
        if second < others.shape[0]:
            if first >= own.shape[0] or others[second, 1] <= own[first, 1]:
                row, side = others_at + second * 8 * others.shape[1], np.int64(1)
        first += 1 - side
        second += side
        entry = at + known * bytes_
        if not _take(row, what, side, entry):
            continue
        hash_ = _hash(entry, attributes)
        place = _place(slots, at, entry, attributes, hash_)
        came = others_before + second if side == 1 or kind == REFERS else before + first
        if slots[place] == 0:
            store_int(entry, MARK, -1 if side == 1 else came)
            store_int(entry, SINCE, load_int(row, 1))
            known += 1
            slots[place] = hash_ | known
            continue
        distance = np.int64(-1)
        if kind != KEYS:
            found = at + ((slots[place] & _NUMBER) - 1) * bytes_
            distance = _miss(what, found, side, came, load_int(row, 1))
        if kind == KEYS or distance > k:
            state[BROKEN_SIDE], state[BROKEN_BY] = side, distance
            state[BROKEN_ROW] = (second if side == 1 else first) - 1
            ended = np.int64(BROKEN)
            break
    state[READ], state[READ + 1], state[KNOWN] = first, second, known
    state[CAME], state[CAME + 1] = before + first, others_before + second
    return ended


@kernel((WORDS, ROWS, types.boolean))
def watch_values_in_order(words: np.ndarray, rows: np.ndarray, floating: bool) -> int:
    """Take events whose values are in an order: the one that breaks it, or -1."""
    frame = address(words)
    watch, store = watch_at(frame, np.int64(0)), load_int(frame, STORES_AT)
    column, base = load_int(watch, COLUMN), load_int(store, BASE)
    ascends = load_int(watch, KIND) == ASCENDS
    for place in range(rows.shape[0]):
        row = address(rows) + place * 8 * rows.shape[1]
        number = load_int(store, ARRIVALS) + 1
        store_int(store, ARRIVALS, number)
        store_int(frame, NOW, load_int(row, 1))
        store_int(frame, EVENT_AT, row)
        if is_null(row, column):
            continue
        value = load_int(row, base + column)
        if floating:
            value = float_key(value)
        watch_order(frame, watch, store, value if ascends else ~value, number)
        if load_int(watch, DECLARED) != 1:
            return place
    return np.int64(-1)
