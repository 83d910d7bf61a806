"""Clauses put into buckets, and taken out of them again.

A clause's *shape* is which columns it compares for equality, or with a short list: the symbols
2 * column and 2 * column + 1 in order. Shapes are nodes of a tree of symbols, so that finding the
shape of a clause needs no object for it, and what was decided for a shape serves all its clauses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.jit.hashing import mix
from braid.jit.memory import release, resized
from braid.jit.records import Floats, Record, Words, i64, record
from braid.jit.runtime import address, kernel
from braid.operators.core.kernels.clauses import (
    HIGHEST,
    IN,
    INTERVAL,
    IS_NULL,
    LOWEST,
    NULL_KEY,
    PATTERN,
    Clauses,
)
from braid.operators.select.kernels.access import (
    COLUMN_SHIFT,
    COUNT_MASK,
    PAIR_WORDS,
    TEXTS,
    TREE,
    cell_of,
)

#: Lists up to this length may be an access predicate, with a record for every value.
SHORT = 64
#: Columns of a class at most, and symbols of a shape.
WIDEST = 8
SYMBOLS = 16
#: Nodes that an interval is covered by at most.
COVER = 4


class Atoms(NamedTuple):
    """Where the arrays of clauses are. Arrays handed to a function are counted, pointers not."""

    start: Words
    column: Words
    kind: Words
    lo: Words
    hi: Words
    sets: Words


@kernel()
def atoms_of(clauses: Clauses) -> Atoms:
    return Atoms(
        Words(address(clauses.start)),
        Words(address(clauses.column)),
        Words(address(clauses.kind)),
        Words(address(clauses.lo)),
        Words(address(clauses.hi)),
        Words(address(clauses.sets)),
    )


class Shapes(NamedTuple):
    """The tree of symbols: `table` is a hash table of (node << 32 | symbol + 1, child)."""

    table: np.ndarray
    parent: np.ndarray
    symbol: np.ndarray
    count: np.ndarray


class Beliefs(NamedTuple):
    """How likely atoms are: a sorted sample of each column's keys, or else counts of constants.

    `mass[column, cell]` is the share of keys below a cell, `texts[column]` that of patterns.
    """

    sample: np.ndarray
    distinct: np.ndarray
    bounds: np.ndarray
    mass: np.ndarray
    texts: np.ndarray


class Views(NamedTuple):
    """Where beliefs are; the last word of `bounds` and of `mass` of a column is not counted."""

    sample: Words
    sample_n: int
    distinct: Floats
    bounds: Words
    cells: int
    mass: Floats


@kernel()
def views_of(beliefs: Beliefs) -> Views:
    return Views(
        Words(address(beliefs.sample)),
        np.int64(beliefs.sample.shape[1]),
        Floats(address(beliefs.distinct)),
        Words(address(beliefs.bounds)),
        np.int64(beliefs.bounds.shape[1]),
        Floats(address(beliefs.mass)),
    )


class Decisions(NamedTuple):
    """For each shape its class, the column whose list is part of it (or -1), and how likely it is.

    `trees` and `texts` say for each column whether it has a tree, and whether patterns are used.
    """

    class_: np.ndarray
    listed: np.ndarray
    likely: np.ndarray
    trees: np.ndarray
    texts: np.ndarray


class Access(NamedTuple):
    """For each clause the code of its buckets, the atom that copies come from (or -1), how many
    records it has, and how long each is."""

    code: np.ndarray
    atom: np.ndarray
    copies: np.ndarray
    words: np.ndarray


@kernel()
def is_equality(atoms: Atoms, atom: int) -> bool:
    kind = atoms.kind[atom]
    return kind == IS_NULL or (kind == INTERVAL and atoms.lo[atom] == atoms.hi[atom])


@kernel()
def equal_to(atoms: Atoms, atom: int) -> int:
    """The key that an equality asks for."""
    if atoms.kind[atom] == IS_NULL:
        return NULL_KEY
    return atoms.lo[atom]


@kernel()
def _is_short_list(atoms: Atoms, atom: int) -> bool:
    lo, hi = atoms.lo[atom], atoms.hi[atom]
    if atoms.kind[atom] != IN or not 0 < hi - lo <= SHORT:
        return False
    return atoms.sets[hi - 1] != NULL_KEY


@kernel()
def symbols_of(atoms: Atoms, clause: int, out: Words) -> int:
    """The symbols of a clause in order, one for each column, equality rather than list."""
    count = np.int64(0)
    for atom in range(atoms.start[clause], atoms.start[clause + 1]):
        symbol = 2 * atoms.column[atom]
        if not is_equality(atoms, atom):
            if not _is_short_list(atoms, atom):
                continue
            symbol += 1
        at = count
        while at > 0 and out[at - 1] > symbol:
            at -= 1
        if at > 0 and out[at - 1] >> 1 == symbol >> 1:
            continue
        if at < count and out[at] >> 1 == symbol >> 1:
            out[at] = symbol
            continue
        if count == SYMBOLS:
            continue
        for k in range(count, at, -1):
            out[k] = out[k - 1]
        out[at] = symbol
        count += 1
    return count


@record
class Child(Record):
    """A place in the tree of symbols: node << 32 | symbol + 1, or 0, and the child."""

    key: i64
    node: i64


@kernel()
def _child(table: Child, mask: int, node: int, symbol: int) -> int:
    """The child of a node for a symbol, or -1 - the place in the table where it belongs."""
    key = (node << 32) | (symbol + 1)
    at = mix(key) & mask
    while table[at].key != 0:
        if table[at].key == key:
            return table[at].node
        at = (at + 1) & mask
    return -1 - at


@kernel()
def shapes_of(clauses: Clauses, shapes: Shapes, begin: int, out: np.ndarray) -> int:
    """The shapes of clauses from `begin` on; where it stopped because the tree has no more room."""
    atoms = atoms_of(clauses)
    table, mask = Child(address(shapes.table)), np.int64(shapes.table.shape[0] - 1)
    room, n = np.int64(shapes.parent.shape[0]), np.int64(out.shape[0])
    symbols = Words(resized(0, SYMBOLS))
    clause = np.int64(begin)
    while clause < n and shapes.count[0] + SYMBOLS <= room:
        node = np.int64(0)
        for k in range(symbols_of(atoms, clause, symbols)):
            symbol = symbols[k]
            child = _child(table, mask, node, symbol)
            if child < 0:
                place = -1 - child
                child = shapes.count[0]
                shapes.count[0] = child + 1
                table[place].key, table[place].node = (node << 32) | (symbol + 1), child
                shapes.parent[child] = node
                shapes.symbol[child] = symbol
            node = child
        out[clause] = node
        clause += 1
    release(symbols)
    return clause


@kernel()
def refill_shapes(old: np.ndarray, table: np.ndarray) -> None:
    mask = np.int64(table.shape[0] - 1)
    for k in range(old.shape[0]):
        if old[k, 0] != 0:
            at = mix(old[k, 0]) & mask
            while table[at, 0] != 0:
                at = (at + 1) & mask
            table[at, 0] = old[k, 0]
            table[at, 1] = old[k, 1]


@kernel()
def _count_below(values: Words, count: int, key: int) -> int:
    """How many of so many sorted words are < key."""
    lo, hi = np.int64(0), count
    while lo < hi:
        middle = (lo + hi) >> 1
        if values[middle] < key:
            lo = middle + 1
        else:
            hi = middle
    return lo


@kernel()
def _likely_equal(views: Views, column: int, key: int) -> float:
    """How likely a key has this value; what was not seen counts as half a row, or less."""
    n = views.sample_n
    distinct = views.distinct[column]
    if n == 0:
        return 1.0 / max(16.0, distinct)
    values = views.sample.after(n * column)
    below = _count_below(values, n, key)
    above = n
    if key != HIGHEST:
        above = _count_below(values, n, key + 1)
    if above == below:
        return min(0.5 / n, 1.0 / max(1.0, distinct))
    return (above - below) / n


@kernel()
def _likely_listed(views: Views, atoms: Atoms, atom: int) -> float:
    total = 0.0
    for k in range(atoms.lo[atom], atoms.hi[atom]):
        total += _likely_equal(views, atoms.column[atom], atoms.sets[k])
    return total


@kernel()
def cell_in(bounds: Words, cells: int, column: int, key: int) -> int:
    return cell_of(bounds.after(cells * column), cells, key)


@kernel()
def _likely_within(views: Views, atoms: Atoms, atom: int) -> float:
    column = atoms.column[atom]
    first = cell_in(views.bounds, views.cells, column, atoms.lo[atom])
    last = cell_in(views.bounds, views.cells, column, atoms.hi[atom])
    mass = views.mass.after((views.cells + 2) * column)
    return mass[max(first, last) + 1] - mass[first]


@kernel()
def _likely_symbol(views: Views, atoms: Atoms, clause: int, symbol: int) -> float:
    """How likely the atom is that gives a clause a symbol."""
    column = symbol >> 1
    for atom in range(atoms.start[clause], atoms.start[clause + 1]):
        if atoms.column[atom] != column:
            continue
        if symbol & 1:
            if _is_short_list(atoms, atom):
                return _likely_listed(views, atoms, atom)
        elif is_equality(atoms, atom):
            return _likely_equal(views, column, equal_to(atoms, atom))
    return 1.0


@kernel()
def shape_statistics(
    clauses: Clauses, shapes: np.ndarray, beliefs: Beliefs, counts: np.ndarray, sums: np.ndarray
) -> None:
    """For each shape how many clauses it has, and the sum of how likely each symbol of it is."""
    atoms, views = atoms_of(clauses), views_of(beliefs)
    symbols = Words(resized(0, SYMBOLS))
    for clause in range(shapes.shape[0]):
        shape = shapes[clause]
        counts[shape] += 1
        for k in range(symbols_of(atoms, clause, symbols)):
            sums[shape, k] += _likely_symbol(views, atoms, clause, symbols[k])
    release(symbols)


@kernel()
def constant_statistics(
    clauses: Clauses, marks: np.ndarray, ends: np.ndarray, seen: np.ndarray
) -> None:
    """Mark hashes of the constants that columns are compared with, and sample ends of intervals.

    `ends[column]` is filled by reservoir: the k-th end replaces a place that depends on k only.
    """
    atoms = atoms_of(clauses)
    size = np.int64(marks.shape[1] - 1)
    room = np.int64(ends.shape[1])
    for atom in range(clauses.column.shape[0]):
        column = atoms.column[atom]
        if atoms.kind[atom] == INTERVAL:
            if atoms.lo[atom] == atoms.hi[atom]:
                marks[column, mix(atoms.lo[atom]) & size] = 1
                continue
            for end in range(2):
                # The cell after an interval begins where the interval has ended.
                key = atoms.lo[atom]
                if end == 1:
                    key = atoms.hi[atom]
                if key in (LOWEST, HIGHEST):
                    continue
                place = seen[column]
                if place >= room:
                    place = (mix(place) & np.int64(0x7FFFFFFFFFFF)) % (place + 1)
                if place < room:
                    ends[column, place] = key + end
                seen[column] += 1
        elif _is_short_list(atoms, atom):
            for k in range(atoms.lo[atom], atoms.hi[atom]):
                marks[column, mix(atoms.sets[k]) & size] = 1


@kernel()
def benefits(
    clauses: Clauses, shapes: np.ndarray, likely: np.ndarray, beliefs: Beliefs
) -> tuple[np.ndarray, np.ndarray]:
    """Candidates that a tree, and patterns, of each column would spare a row.

    Each clause speaks for its best interval only, and for its best pattern.
    """
    atoms, views = atoms_of(clauses), views_of(beliefs)
    columns = beliefs.distinct.shape[0]
    trees, texts = np.zeros(columns), np.zeros(columns)
    for clause in range(shapes.shape[0]):
        base = likely[shapes[clause]]
        best_tree, tree, best_text, text = base, -1, base, -1
        for atom in range(atoms.start[clause], atoms.start[clause + 1]):
            column = atoms.column[atom]
            if atoms.kind[atom] == INTERVAL and atoms.lo[atom] != atoms.hi[atom]:
                p = _likely_within(views, atoms, atom)
                if p < best_tree:
                    best_tree, tree = p, column
            elif atoms.kind[atom] == PATTERN and beliefs.texts[column] < best_text:
                best_text, text = beliefs.texts[column], column
        if tree >= 0:
            trees[tree] += base - best_tree
        if text >= 0:
            texts[text] += base - best_text
    return trees, texts


@kernel()
def cover_next(first: int, last: int, height: int) -> tuple[int, int, int, int, int]:
    """The next node of a cover: node, its height, and what is left (none if first > last)."""
    while True:
        if first & 1 or first == last:
            return first, height, first + 1, last, height
        if not last & 1:
            return last, height, first, last - 1, height
        first >>= 1
        last >>= 1
        height += 1


@kernel()
def cover_start(first: int, last: int) -> int:
    """The height at which so many nodes as are allowed cover the cells from first to last."""
    height = np.int64(0)
    while (last >> height) - (first >> height) >= COVER:
        height += 1
    return height


@kernel()
def _cover_size(first: int, last: int) -> int:
    height = cover_start(first, last)
    first, last = first >> height, last >> height
    count = np.int64(0)
    while first <= last:
        _, _, first, last, height = cover_next(first, last, height)
        count += 1
    return count


@kernel()
def _list_size(atoms: Atoms, atom: int) -> int:
    """Distinct values of a sorted list that are not NULL."""
    count = np.int64(0)
    previous = NULL_KEY
    for k in range(atoms.lo[atom], atoms.hi[atom]):
        if atoms.sets[k] != previous:
            previous = atoms.sets[k]
            count += 1
    return count


@kernel()
def _are_paired(atoms: Atoms, clause: int, chosen: int, code: int) -> bool:
    """Whether the two atoms that a bucket leaves over are intervals: then all others are equalities,
    and none is of a list or a pattern."""
    if chosen >= 0 and not TREE <= code < TEXTS:
        return False
    for atom in range(atoms.start[clause], atoms.start[clause + 1]):
        if atoms.kind[atom] != INTERVAL or atoms.column[atom] > COUNT_MASK:
            return False
    return True


@kernel()
def choose(
    clauses: Clauses,
    shapes: np.ndarray,
    decisions: Decisions,
    widths: np.ndarray,
    beliefs: Beliefs,
    access: Access,
) -> float:
    """Choose the access predicate of each clause; the sum of how likely they are."""
    atoms, views = atoms_of(clauses), views_of(beliefs)
    total = 0.0
    for clause in range(shapes.shape[0]):
        shape = shapes[clause]
        best = decisions.likely[shape]
        code = decisions.class_[shape]
        listed = decisions.listed[shape]
        chosen = np.int64(-1)
        for atom in range(atoms.start[clause], atoms.start[clause + 1]):
            column, kind = atoms.column[atom], atoms.kind[atom]
            if kind == INTERVAL and decisions.trees[column] != 0:
                if atoms.lo[atom] != atoms.hi[atom]:
                    p = _likely_within(views, atoms, atom)
                    if p < 0.9 * best:
                        best, code, chosen = p, TREE | (column << COLUMN_SHIFT), atom
            elif kind == PATTERN and decisions.texts[column] != 0:
                if beliefs.texts[column] < 0.9 * best:
                    best, chosen = beliefs.texts[column], atom
                    code = TEXTS | (column << COLUMN_SHIFT)
            elif chosen < 0 and column == listed and _is_short_list(atoms, atom):
                chosen = atom
        total += best
        left = atoms.start[clause + 1] - atoms.start[clause]
        copies = np.int64(1)
        if code < TREE:
            if chosen >= 0:
                copies = _list_size(atoms, chosen)
                left += 1
            left -= widths[code]
        elif code < TEXTS:
            column = atoms.column[chosen]
            first = cell_in(views.bounds, views.cells, column, atoms.lo[chosen])
            copies = _cover_size(
                first,
                max(first, cell_in(views.bounds, views.cells, column, atoms.hi[chosen])),
            )
        access.code[clause] = code
        access.atom[clause] = chosen
        access.copies[clause] = copies
        access.words[clause] = 1 + 3 * left + (1 if copies > 1 else 0)
        if left == 2 and copies == 1 and _are_paired(atoms, clause, chosen, code):
            access.words[clause] = PAIR_WORDS
    return total
