"""Runs: records of a bucket that lie in the order of their bounds.

Very many rules are of the form `name = :who AND price > :floor`: all rules of a name lie in one
bucket, and a row would have to be compared with each of them. Records whose only atom is an
interval of the same column are put into an order, by low end and then by high end from above, so
that a row is done with them at the first one that begins above it. If the intervals of a run lie
within each other, as those that are open at one side do, it is done at the first that fails.

A run begins with one word that looks like a dead record, which is what everything but a search
takes it for; its low half says how many words of records follow.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import kernel
from braid.operators.core.kernels.clauses import INTERVAL, Clauses
from braid.operators.select.kernels.access import DEAD, LOW, NESTED, RUN, TREE
from braid.operators.select.kernels.access_build import (
    Access,
    Atoms,
    atoms_of,
    equal_to,
    is_equality,
)

#: Words of a record with one interval and no link.
SINGLE = 4
#: Records that are worth a run.
FEWEST = 8


@kernel()
def equality(atoms: Atoms, clause: int, column: int) -> int:
    """The first atom of a clause that compares a column for equality, or -1."""
    for atom in range(atoms.start[clause], atoms.start[clause + 1]):
        if atoms.column[atom] == column and is_equality(atoms, atom):
            return atom
    return -1


@kernel()
def _left_over(atoms: Atoms, clause: int, code: int, classes: np.ndarray, width: int) -> int:
    """The one atom of a clause that its bucket does not imply, if it is an interval, or -1."""
    for atom in range(atoms.start[clause], atoms.start[clause + 1]):
        implied = False
        for k in range(width):
            implied |= equality(atoms, clause, classes[code, k]) == atom
        if not implied:
            return atom if atoms.kind[atom] == INTERVAL else -1
    return -1


@kernel()
def _is_same_bucket(
    atoms: Atoms, clause: int, other: int, code: int, classes: np.ndarray, width: int
) -> bool:
    for k in range(width):
        mine = equality(atoms, clause, classes[code, k])
        its = equality(atoms, other, classes[code, k])
        if equal_to(atoms, mine) != equal_to(atoms, its):
            return False
    return True


@record
class Item(Record):
    """A record to be sorted: by column, low end, high end from above, and entry."""

    column: i64
    lo: i64
    hi: i64
    entry: i64


@kernel()
def _is_before(a: Item, b: Item) -> bool:
    if a.column != b.column:
        return a.column < b.column
    if a.lo != b.lo:
        return a.lo < b.lo
    return a.hi > b.hi if a.hi != b.hi else a.entry < b.entry


@kernel()
def _fill_item(item: Item, column: int, lo: int, hi: int, entry: int) -> None:
    item.column, item.lo, item.hi, item.entry = column, lo, hi, entry


@kernel()
def _swap(a: Item, b: Item) -> None:
    column, lo, hi, entry = a.column, a.lo, a.hi, a.entry
    _fill_item(a, b.column, b.lo, b.hi, b.entry)
    _fill_item(b, column, lo, hi, entry)


@kernel()
def _sink(items: Item, at: int, count: int) -> None:
    """Let an item of a heap, the last one on top, fall to where it belongs."""
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and _is_before(items[child], items[child + 1]):
            child += 1
        if not _is_before(items[at], items[child]):
            return
        _swap(items[at], items[child])
        at = child


@kernel()
def _sort(items: Item, count: int) -> None:
    for at in range(count // 2 - 1, -1, -1):
        _sink(items, at, count)
    for last in range(count - 1, 0, -1):
        _swap(items, items[last])
        _sink(items, 0, last)


@kernel()
def _note(items: Item, count: int, begin: int, runs: np.ndarray) -> None:
    """Write how long the runs of sorted items are, with NESTED, at the order's places."""
    first = np.int64(0)
    while first < count:
        last, nested = first + 1, True
        while last < count and items[last].column == items[first].column:
            nested &= items[last].hi <= items[last - 1].hi
            last += 1
        if last - first >= FEWEST:
            runs[begin + first] = (last - first) | (NESTED if nested else np.int64(0))
        first = last


@kernel()
def _sortable(
    atoms: Atoms, access: Access, clause: int, leader: int, classes: np.ndarray, widths: np.ndarray
) -> int:
    """The interval by which a clause can lie in a run with `leader` (-1: it is the first), or -1."""
    code = access.code[clause]
    if code >= TREE or access.atom[clause] >= 0:
        return -1
    if access.words[clause] != SINGLE or access.copies[clause] != 1:
        return -1
    width = widths[code]
    if leader >= 0:
        # Equal hashes are most likely one bucket, but need not be.
        if access.code[leader] != code:
            return -1
        if not _is_same_bucket(atoms, leader, clause, code, classes, width):
            return -1
    return _left_over(atoms, clause, code, classes, width)


@kernel()
def find_runs(
    clauses: Clauses,
    access: Access,
    hashes: np.ndarray,
    entry_clauses: np.ndarray,
    order: np.ndarray,
    classes: np.ndarray,
    widths: np.ndarray,
) -> np.ndarray:
    """Bring entries of equal hashes into the order of runs; where runs begin, how many records
    each has, with the flag `NESTED`."""
    atoms = atoms_of(clauses)
    n = order.shape[0]
    runs = np.zeros(n, np.int64)
    room = np.int64(0)
    items, others = Item(resized(0, 1)), Words(resized(0, 1))
    begin, end = np.int64(0), np.int64(0)
    while end < n:
        begin, end = end, end + 1
        while end < n and hashes[order[end]] == hashes[order[begin]]:
            end += 1
        if end - begin < FEWEST:
            continue
        if end - begin > room:
            room = max(end - begin, 2 * room)
            items, others = Item(resized(items, 4 * room)), Words(resized(others, room))
        count, left, leader = np.int64(0), np.int64(0), np.int64(-1)
        for e in range(begin, end):
            clause = entry_clauses[order[e]]
            atom = _sortable(atoms, access, clause, leader, classes, widths)
            if atom < 0:
                others[left] = order[e]
                left += 1
                continue
            leader = clause
            lo, hi = clauses.lo[atom], clauses.hi[atom]
            _fill_item(items[count], clauses.column[atom], lo, hi, order[e])
            count += 1
        _sort(items, count)
        for k in range(count):
            order[begin + k] = items[k].entry
        for k in range(left):
            order[begin + count + k] = others[k]
        _note(items, count, begin, runs)
    release(items)
    release(others)
    return runs


@kernel()
def run_head(words: int, run: int) -> int:
    return DEAD | RUN | (run & NESTED) | words


@kernel()
def search_run(record: Words, head: int, row: Words, label: int, out: Words) -> tuple[int, int]:
    """Write label | id for the records of a run that hold; how many, and how many were seen."""
    end = record + 8 * (head & LOW)
    key = row[record[1]]
    open_ = (head & NESTED) == 0
    count, seen = np.int64(0), np.int64(0)
    while record.address < end and record[2] <= key:
        within = key <= record[3]
        if not (within or open_):
            break
        head = record[0]
        out[count] = label | (head & LOW)
        count += np.int64(within and head >= 0)
        seen += 1
        record = record.after(SINGLE)
    return count, seen + 1
