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
from braid.jit.runtime import kernel, load_int, store_int
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
#: Words of an item to be sorted: column, lo, hi, entry.
ITEM = 4


@kernel()
def equality(atoms: Atoms, clause: int, column: int) -> int:
    """The first atom of a clause that compares a column for equality, or -1."""
    for atom in range(load_int(atoms.start, clause), load_int(atoms.start, clause + 1)):
        if load_int(atoms.column, atom) == column and is_equality(atoms, atom):
            return atom
    return -1


@kernel()
def _left_over(atoms: Atoms, clause: int, code: int, classes: np.ndarray, width: int) -> int:
    """The one atom of a clause that its bucket does not imply, if it is an interval, or -1."""
    for atom in range(load_int(atoms.start, clause), load_int(atoms.start, clause + 1)):
        implied = False
        for k in range(width):
            implied |= equality(atoms, clause, classes[code, k]) == atom
        if not implied:
            return atom if load_int(atoms.kind, atom) == INTERVAL else -1
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


@kernel()
def _is_before(a: int, b: int) -> bool:
    """By column, low end, high end from above, and entry."""
    for k in range(ITEM):
        mine, its = load_int(a, k), load_int(b, k)
        if mine != its:
            return (mine < its) != (k == 2)
    return False


@kernel()
def _swap(a: int, b: int) -> None:
    for k in range(ITEM):
        word = load_int(a, k)
        store_int(a, k, load_int(b, k))
        store_int(b, k, word)


@kernel()
def _sink(items: int, at: int, count: int) -> None:
    """Let an item of a heap, the last one on top, fall to where it belongs."""
    size = 8 * ITEM
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and _is_before(items + size * child, items + size * (child + 1)):
            child += 1
        if not _is_before(items + size * at, items + size * child):
            return
        _swap(items + size * at, items + size * child)
        at = child


@kernel()
def _sort(items: int, count: int) -> None:
    for at in range(count // 2 - 1, -1, -1):
        _sink(items, at, count)
    for last in range(count - 1, 0, -1):
        _swap(items, items + 8 * ITEM * last)
        _sink(items, 0, last)


@kernel()
def _note(items: int, count: int, begin: int, runs: np.ndarray) -> None:
    """Write how long the runs of sorted items are, with NESTED, at the order's places."""
    first = np.int64(0)
    while first < count:
        last, nested = first + 1, True
        while last < count and (load_int(items, ITEM * last) == load_int(items, ITEM * first)):
            nested &= load_int(items, ITEM * last + 2) <= load_int(items, ITEM * (last - 1) + 2)
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
    items, others = resized(0, 1), resized(0, 1)
    begin, end = np.int64(0), np.int64(0)
    while end < n:
        begin, end = end, end + 1
        while end < n and hashes[order[end]] == hashes[order[begin]]:
            end += 1
        if end - begin < FEWEST:
            continue
        if end - begin > room:
            room = max(end - begin, 2 * room)
            items, others = resized(items, ITEM * room), resized(others, room)
        count, left, leader = np.int64(0), np.int64(0), np.int64(-1)
        for e in range(begin, end):
            clause = entry_clauses[order[e]]
            atom = _sortable(atoms, access, clause, leader, classes, widths)
            if atom < 0:
                store_int(others, left, order[e])
                left += 1
                continue
            leader = clause
            item = items + 8 * ITEM * count
            store_int(item, 0, clauses.column[atom])
            store_int(item, 1, clauses.lo[atom])
            store_int(item, 2, clauses.hi[atom])
            store_int(item, 3, order[e])
            count += 1
        _sort(items, count)
        for k in range(count):
            order[begin + k] = load_int(items, ITEM * k + 3)
        for k in range(left):
            order[begin + count + k] = load_int(others, k)
        _note(items, count, begin, runs)
    release(items)
    release(others)
    return runs


@kernel()
def run_head(words: int, run: int) -> int:
    return DEAD | RUN | (run & NESTED) | words


@kernel()
def search_run(record: int, head: int, row: int, label: int, out: int) -> tuple[int, int]:
    """Write label | id for the records of a run that hold; how many, and how many were seen."""
    end = record + 8 * (head & LOW)
    key = load_int(row, load_int(record, 1))
    open_ = (head & NESTED) == 0
    count, seen = np.int64(0), np.int64(0)
    while record < end and load_int(record, 2) <= key:
        within = key <= load_int(record, 3)
        if not (within or open_):
            break
        head = load_int(record, 0)
        store_int(out, count, label | (head & LOW))
        count += np.int64(within and head >= 0)
        seen += 1
        record += 8 * SINGLE
    return count, seen + 1
