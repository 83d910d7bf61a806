"""Records written into buckets, and clauses read back from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.records import Words
from braid.jit.runtime import address, kernel
from braid.operators.core.kernels.clauses import IN, INTERVAL, IS_NULL, NOT_IN, NULL_KEY, Clauses
from braid.operators.select.kernels.access import (
    COLUMN_SHIFT,
    COUNT_BITS,
    COUNT_MASK,
    FURTHER,
    HEADER,
    LINKED,
    LOW,
    PAIR_WORDS,
    PAIRED,
    SECOND,
    SPARE,
    TEXTS,
    TREE,
    Atom,
    Store,
    bucket_at,
    hash_of,
    places_of,
    record_words,
    room_in_bucket,
)
from braid.operators.select.kernels.access_build import (
    WIDEST,
    Access,
    Atoms,
    atoms_of,
    cell_in,
    cover_next,
    cover_start,
    equal_to,
)
from braid.operators.select.kernels.access_runs import SINGLE, equality, run_head

#: Words of a bucket beyond its records, at most; it may begin some words further on.
OVERHEAD = HEADER + WIDEST + 7


class Entries(NamedTuple):
    """Records to be: the hash of the bucket, which clause, the code, and the value of the copy."""

    hash: np.ndarray
    clause: np.ndarray
    code: np.ndarray
    value: np.ndarray


@kernel()
def own_sets(clauses: Clauses, base: int, sets: np.ndarray) -> int:
    """Copy lists to `sets` from `base` on and change the atoms accordingly; where it ended.

    With an empty `sets` nothing is changed: the answer is what room is needed.
    """
    count = base
    for atom in range(clauses.kind.shape[0]):
        if clauses.kind[atom] not in (IN, NOT_IN):
            continue
        lo, hi = clauses.lo[atom], clauses.hi[atom]
        if sets.shape[0] > 0:
            for k in range(lo, hi):
                sets[count + k - lo] = clauses.sets[k]
            clauses.lo[atom] = count
            clauses.hi[atom] = count + max(hi - lo, 0)
        count += max(hi - lo, 0)
    return count


@kernel()
def _enter(entries: Entries, at: int, hash_: int, clause: int, code: int, value: int) -> int:
    entries.hash[at], entries.clause[at] = hash_, clause
    entries.code[at], entries.value[at] = code, value
    return at + 1


@kernel()
def fill_entries(
    clauses: Clauses,
    access: Access,
    classes: np.ndarray,
    widths: np.ndarray,
    bounds: np.ndarray,
    entries: Entries,
) -> None:
    """All records of all clauses: one for each value of a list, or node of a cover."""
    atoms = atoms_of(clauses)
    cells, bounds_at = np.int64(bounds.shape[1]), Words(address(bounds))
    at = np.int64(0)
    for clause in range(access.code.shape[0]):
        code, atom = access.code[clause], access.atom[clause]
        if code < TREE:
            listed = atoms.column[atom] if atom >= 0 else np.int64(-1)
            hash_ = np.int64(0)
            for k in range(widths[code]):
                column = classes[code, k]
                if column != listed:
                    key = equal_to(atoms, equality(atoms, clause, column))
                    hash_ += hash_of(column, key)
            if atom < 0:
                at = _enter(entries, at, hash_, clause, code, 0)
                continue
            previous = NULL_KEY
            for k in range(atoms.lo[atom], atoms.hi[atom]):
                value = atoms.sets[k]
                if value != previous:
                    previous = value
                    share = hash_of(listed, value)
                    at = _enter(entries, at, hash_ + share, clause, code, value)
        elif code < TEXTS:
            column = atoms.column[atom]
            first = cell_in(bounds_at, cells, column, atoms.lo[atom])
            last = cell_in(bounds_at, cells, column, atoms.hi[atom])
            last = max(first, last)
            height = cover_start(first, last)
            first, last = first >> height, last >> height
            while first <= last:
                node, at_height, first, last, height = cover_next(first, last, height)
                hash_ = hash_of(code | at_height, node)
                at = _enter(entries, at, hash_, clause, code | at_height, node)
        else:
            number = atoms.lo[atom]
            at = _enter(entries, at, hash_of(code, number), clause, code, number)


@kernel()
def claim_ids(position: np.ndarray, ids: np.ndarray) -> int:
    """Mark ids as about to be used; the index of one that is in use already, or -1."""
    for k in range(ids.shape[0]):
        if position[ids[k]] != 0:
            for before in range(k):
                position[ids[before]] = 0
            return k
        position[ids[k]] = -1
    return -1


@kernel()
def _write_atom(out: Atom, atoms: Atoms, atom: int) -> None:
    out.what = (atoms.kind[atom] << 32) | atoms.column[atom]
    out.lo, out.hi = atoms.lo[atom], atoms.hi[atom]


@kernel()
def _is_implied(implied: Words, atom: int) -> bool:
    """Whether an atom is in a list that ends with -1."""
    k = 0
    while implied[k] >= 0 and implied[k] != atom:
        k += 1
    return implied[k] == atom


@kernel()
def _write_pair(out: Words, atoms: Atoms, clause: int, implied: Words) -> int:
    """Write the two intervals that are not implied; what the head says."""
    head, written = PAIRED, np.int64(0)
    for atom in range(atoms.start[clause], atoms.start[clause + 1]):
        if not _is_implied(implied, atom):
            head |= atoms.column[atom] << (32 + COUNT_BITS * written)
            out[1 + 2 * written] = atoms.lo[atom]
            out[2 + 2 * written] = atoms.hi[atom]
            written += 1
    return head


@kernel()
def _write_record(out: Words, atoms: Atoms, clause: int, implied: Words, spare: int) -> int:
    """Write the atoms of a clause but those at `implied`; what its head says."""
    written, intervals, others = Atom(out.after(1).address), np.int64(0), np.int64(0)
    for turn in range(2):
        for atom in range(atoms.start[clause], atoms.start[clause + 1]):
            if (atoms.kind[atom] == INTERVAL) != (turn == 0) or atom == spare:
                continue
            if _is_implied(implied, atom):
                continue
            _write_atom(written[intervals + others], atoms, atom)
            if turn == 0:
                intervals += 1
            else:
                others += 1
    head = (intervals << 32) | (others << 44)
    if spare >= 0:
        _write_atom(written[intervals + others], atoms, spare)
        head |= SPARE
    return head


@kernel()
def insert_entries(
    store: Store,
    clauses: Clauses,
    ids: np.ndarray,
    access: Access,
    entries: Entries,
    order: np.ndarray,
    classes: np.ndarray,
    widths: np.ndarray,
    runs: np.ndarray,
    begin: int,
) -> int:
    """Write the records of entries, in an order in which equal hashes are neighbours.

    `runs` says where runs begin and how many records they have (see `access_runs`).

    The caller saw to room in the pool for all of them with `OVERHEAD`. If slots become scarce it
    stops, and says before which entry.
    """
    atoms, places, position = atoms_of(clauses), places_of(store), store.position
    counts = places.counts
    size = np.int64(store.pool.shape[0])
    values, implied = Words(resized(0, WIDEST)), Words(resized(0, WIDEST + 1))
    n = order.shape[0]
    rest = np.int64(0)
    for e in range(begin, n):
        rest += OVERHEAD + access.words[entries.clause[order[e]]]
    until, wish = begin, np.int64(0)
    in_run, at = np.int64(0), np.int64(0)
    fullest = places.mask - (places.mask >> 2)
    end = n
    for e in range(begin, n):
        if in_run == 0 and counts.buckets > fullest:
            end = e
            break
        entry = order[e]
        clause, code, hash_ = entries.clause[entry], entries.code[entry], entries.hash[entry]
        words, copies = access.words[clause], access.copies[clause]
        rest -= OVERHEAD + words
        if e == until:
            wish = np.int64(0)
            while until < n and entries.hash[order[until]] == hash_:
                wish += access.words[entries.clause[order[until]]]
                until += 1
        width, skipped = np.int64(1), np.int64(0)
        spare = access.atom[clause]
        if code < TREE:
            width = widths[code]
            for k in range(width):
                column = classes[code, k]
                if spare >= 0 and atoms.column[spare] == column:
                    values[k] = entries.value[entry]
                    continue
                atom = equality(atoms, clause, column)
                values[k] = equal_to(atoms, atom)
                implied[skipped] = atom
                skipped += 1
        else:
            values[0] = entries.value[entry]
            if code < TEXTS:  # the cover may be wider than the interval
                spare = np.int64(-1)
        implied[skipped] = -1
        if in_run == 0:
            in_run = max(runs[e] & LOW, np.int64(1))
            taken, ahead = words, wish
            if runs[e] != 0:
                # Few rows get far: more than the first lines would be asked for in vain.
                taken, ahead = 1 + in_run * words, np.int64(1 + 2 * SINGLE)
                wish += 1
            most = size - counts.used - OVERHEAD - (rest - (in_run - 1) * words)
            what = (code << 8) | width
            at = room_in_bucket(places, hash_, what, values, taken, wish, most, ahead)
            wish -= taken
            if runs[e] != 0:
                places.pool[at] = run_head(taken - 1, runs[e])
                at += 1
        in_run -= 1
        record = places.pool.after(at)
        number = np.int64(ids[clause])
        if words == PAIR_WORDS and copies == 1:
            head = _write_pair(record, atoms, clause, implied) | number
        else:
            head = _write_record(record, atoms, clause, implied, spare) | number
        if copies > 1:
            head |= LINKED
            if position[number] > 0:
                head |= SECOND
            record[words - 1] = max(position[number], np.int64(0))
        record[0] = head
        position[number] = at
        at += words
        counts.records += 1
    release(values)
    release(implied)
    return end


@kernel()
def count_atoms(store: Store) -> tuple[int, int]:
    """How many clauses there are in all buckets, and how many atoms they have."""
    pool, slots = Words(address(store.pool)), store.slots
    clauses, atoms = np.int64(0), np.int64(0)
    for k in range(slots.shape[0]):
        segment = slots[k] >> 30
        if segment == 0:
            continue
        what = bucket_at(pool, segment).what
        code, width = what >> 8, what & 255
        at = segment + HEADER + width
        while segment != 0:
            end = at + (bucket_at(pool, segment).extent & LOW)
            while at < end:
                head = pool[at]
                if head >= 0 and not head & SECOND:
                    clauses += 1
                    atoms += 2 if head & PAIRED else (record_words(head) - 1) // 3
                    if code < TREE:
                        atoms += width - (1 if head & SPARE else 0)
                at += record_words(head)
            segment = bucket_at(pool, segment).next
            at = segment + FURTHER
    return clauses, atoms


@kernel()
def extract(store: Store, classes: np.ndarray, out: Clauses, ids: np.ndarray) -> None:
    """All clauses as they were given, but for the order of atoms."""
    pool, slots = Words(address(store.pool)), store.slots
    n, atoms = np.int64(0), np.int64(0)
    for k in range(slots.shape[0]):
        first = slots[k] >> 30
        if first == 0:
            continue
        segment = first
        bucket = bucket_at(pool, first)
        code, width = bucket.what >> 8, bucket.what & 255
        at = first + HEADER + width
        while segment != 0:
            end = at + (bucket_at(pool, segment).extent & LOW)
            while at < end:
                head = pool[at]
                words = record_words(head)
                if head >= 0 and not head & SECOND:
                    ids[n] = head & LOW
                    out.start[n] = atoms
                    n += 1
                    listed = np.int64(-1)
                    if head & PAIRED:
                        for a in range(2):
                            out.kind[atoms] = INTERVAL
                            out.column[atoms] = (head >> (32 + COUNT_BITS * a)) & COUNT_MASK
                            out.lo[atoms] = pool[at + 1 + 2 * a]
                            out.hi[atoms] = pool[at + 2 + 2 * a]
                            atoms += 1
                    for a in range(0 if head & PAIRED else (words - 1) // 3):
                        atom = Atom(pool.after(at + 1).address)[a]
                        out.kind[atoms], out.column[atoms] = atom.what >> 32, atom.what & LOW
                        out.lo[atoms], out.hi[atoms] = atom.lo, atom.hi
                        atoms += 1
                    if head & SPARE:
                        listed = out.column[atoms - 1]
                    for i in range(width if code < TREE else 0):
                        column, value = classes[code, i], bucket.values[i]
                        if column == listed:
                            continue
                        out.column[atoms] = column
                        out.kind[atoms] = IS_NULL if value == NULL_KEY else INTERVAL
                        out.lo[atoms] = value
                        out.hi[atoms] = value
                        atoms += 1
                at += words
            segment = bucket_at(pool, segment).next
            at = segment + FURTHER
    out.start[n] = atoms


@kernel()
def active_heights(codes: np.ndarray, levels: np.ndarray) -> bool:
    """Note at which heights of which columns' trees there are nodes; whether any is new."""
    changed = False
    for k in range(codes.shape[0]):
        code = codes[k]
        if TREE <= code < TEXTS:
            column = (code ^ TREE) >> COLUMN_SHIFT
            bit = np.int64(1) << (code & 255)
            if not levels[column] & bit:
                levels[column] |= bit
                changed = True
    return changed
