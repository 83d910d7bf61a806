"""A hash table from four words to a number."""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.records import Record, i64, record
from braid.jit.runtime import kernel


@record
class Entry(Record):
    """A key of four words, and its number (-1: the entry is free)."""

    a: i64
    b: i64
    c: i64
    d: i64
    number: i64


@record
class KeyTable(Record):
    """Open addressing; the length is a power of two, and more than the entries in use."""

    entries: Entry
    entries_length: i64


@kernel()
def mixed(a: int, b: int, c: int, d: int) -> int:
    z = np.uint64(np.int64(a)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(np.int64(b))
    z = (z ^ (z >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(np.int64(c))
    z = (z ^ (z >> np.uint64(32))) * np.uint64(0x94D049BB133111EB) + np.uint64(np.int64(d))
    z = (z ^ (z >> np.uint64(29))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64(z ^ (z >> np.uint64(32)))


@kernel()
def _entry(table: KeyTable, a: int, b: int, c: int, d: int) -> Entry:
    """The entry of a key, or the free one where it belongs."""
    mask = table.entries_length - 1
    at = mixed(a, b, c, d) & mask
    entry = table.entries[at]
    while entry.number >= 0:
        if entry.a == a and entry.b == b and entry.c == c and entry.d == d:
            break
        at = (at + 1) & mask
        entry = table.entries[at]
    return entry


@kernel()
def look(table: KeyTable, a: int, b: int, c: int, d: int) -> int:
    """The number of a key; negative if it has none."""
    return _entry(table, a, b, c, d).number


@kernel()
def note(table: KeyTable, a: int, b: int, c: int, d: int, number: int) -> None:
    """Set the number of a key."""
    entry = _entry(table, a, b, c, d)
    entry.a, entry.b, entry.c, entry.d = a, b, c, d
    entry.number = number


@kernel((KeyTable.type, Entry.type, types.int64))
def fill(table: KeyTable, entries: Entry, count: int) -> None:
    """Add entries to a table."""
    for k in range(count):
        entry = entries[k]
        note(table, entry.a, entry.b, entry.c, entry.d, entry.number)


@kernel()
def clear(table: KeyTable) -> None:
    """Remove all entries."""
    for k in range(table.entries_length):
        table.entries[k].number = -1
