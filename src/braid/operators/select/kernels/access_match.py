"""The search: for each row the clauses that hold for it, out of the buckets its keys lead to.

Probes are independent of each other, and most of the time is memory that is not in the cache. So
they go in groups, in three steps: hash all keys and ask for the slots, read the slots and ask for
the buckets, verify the records. Verifying does not branch on the outcome of intervals, which no
processor can guess.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from braid.jit.memory import release, resized
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import address, kernel, prefetch
from braid.operators.core.kernels.clauses import NULL_KEY, PATTERN, atom_holds
from braid.operators.select.kernels.access import (
    COLUMN_SHIFT,
    COUNT_BITS,
    COUNT_MASK,
    FURTHER,
    LINKED,
    LOW,
    PAIRED,
    RUN,
    SPARE,
    TAG,
    TEXTS,
    TREE,
    Atom,
    Bucket,
    Counts,
    Places,
    Store,
    cell_of,
    hash_of,
    places_of,
    tag_of,
)
from braid.operators.select.kernels.access_runs import search_run

#: Probes that are under way together, so that their memory comes at the same time.
TOGETHER = 256


@record
class Memo(Record):
    """Which patterns the texts of a column match: for each code, a part of `found`, sorted."""

    first: Words
    count: Words
    found: Words
    code_count: i64
    #: What is known of each code, and what it must be for the code to be fresh.
    known: Words
    fresh: i64


@record
class Probe(Record):
    """A node of a tree or a pattern that a row leads to."""

    hash: i64
    code: i64
    value: i64


@record
class Want(Record):
    """A bucket that a row looks for. `which` is a class, or -1 - the number of a `Probe`."""

    hash: i64
    which: i64


@record
class Hit(Record):
    """A bucket that a row may have found."""

    offset: i64
    slot: i64
    which: i64


class Probing(NamedTuple):
    """What a row is looked up by.

    `classes`: the columns of each class, filled up with a column that does not exist (its number
    is that of the columns); `widths`: how many it has; `hashed`: all columns of classes.
    `trees`: columns with a tree; `bounds[column]`: where its cells begin; `levels[column]`: a bit
    for each height at which there are nodes. `texts`: columns with patterns; `memos[column]`:
    what is known of texts, the words of a `Memo`.
    """

    classes: np.ndarray
    widths: np.ndarray
    hashed: np.ndarray
    trees: np.ndarray
    bounds: np.ndarray
    levels: np.ndarray
    texts: np.ndarray
    memos: np.ndarray


class Sources(NamedTuple):
    """Where a `Probing` is. Arrays handed to a function are counted, pointers not."""

    classes: Words
    class_n: int
    stride: int
    hashed: Words
    hashed_n: int
    trees: Words
    tree_n: int
    bounds: Words
    cells: int
    levels: Words
    texts: Words
    text_n: int
    memos: Memo


@kernel()
def sources_of(probing: Probing) -> Sources:
    return Sources(
        Words(address(probing.classes)),
        np.int64(probing.classes.shape[0]),
        np.int64(probing.classes.shape[1]),
        Words(address(probing.hashed)),
        np.int64(probing.hashed.shape[0]),
        Words(address(probing.trees)),
        np.int64(probing.trees.shape[0]),
        Words(address(probing.bounds)),
        np.int64(probing.bounds.shape[1]),
        Words(address(probing.levels)),
        Words(address(probing.texts)),
        np.int64(probing.texts.shape[0]),
        Memo(address(probing.memos)),
    )


class Found(NamedTuple):
    """Pairs as words row << 32 | id, in memory that belongs to the caller; -1: a text unknown."""

    words: int
    count: int


@kernel()
def text_matches(memo: Memo, code: int, number: int) -> bool:
    """Whether a known text matches a pattern."""
    lo, hi = memo.first[code], memo.first[code] + memo.count[code]
    while lo < hi:
        middle = (lo + hi) >> 1
        value = memo.found[middle]
        if value == number:
            return True
        if value < number:
            lo = middle + 1
        else:
            hi = middle
    return False


@kernel()
def others_hold(atoms: Atom, count: int, row: Words, sets: Words, memos: Memo) -> bool:
    """Whether atoms that are not intervals hold."""
    for k in range(count):
        atom = atoms[k]
        column, kind = atom.what & LOW, atom.what >> 32
        key = row[column]
        if kind == PATTERN:
            if key == NULL_KEY or not text_matches(memos[column], key, atom.lo):
                return False
        elif not atom_holds(kind, key, atom.lo, atom.hi, sets):
            return False
    return True


@kernel()
def _hash_row(row: Words, hashed: Words, count: int, mixed: Words) -> None:
    for k in range(count):
        column = hashed[k]
        mixed[column] = hash_of(column, row[column])


@kernel()
def _add_probe(probe: Probe, code: int, value: int) -> None:
    probe.hash, probe.code, probe.value = hash_of(code, value), code, value


@kernel()
def _extra_probes(row: Words, sources: Sources, out: Probe) -> int:
    """Write the nodes and patterns that a row leads to; how many."""
    count = np.int64(0)
    for k in range(sources.tree_n):
        column = sources.trees[k]
        key = row[column]
        if key == NULL_KEY:
            continue
        cell = cell_of(sources.bounds.after(sources.cells * column), sources.cells, key)
        levels = sources.levels[column]
        height = np.int64(0)
        while levels >> height != 0:
            if (levels >> height) & 1:
                _add_probe(out[count], TREE | (column << COLUMN_SHIFT) | height, cell >> height)
                count += 1
            height += 1
    for k in range(sources.text_n):
        column = sources.texts[k]
        key = row[column]
        if key == NULL_KEY:
            continue
        memo = sources.memos[column]
        first = memo.first[key]
        for i in range(first, first + memo.count[key]):
            _add_probe(out[count], TEXTS | (column << COLUMN_SHIFT), memo.found[i])
            count += 1
    return count


@kernel()
def most_extra_probes(keys: np.ndarray, probing: Probing) -> int:
    """How many nodes and patterns a row can lead to at most; -1 if a text is not known."""
    trees = np.int64(0)
    for k in range(probing.trees.shape[0]):
        levels = probing.levels[probing.trees[k]]
        while levels != 0:
            trees += levels & 1
            levels >>= 1
    most, memos = np.int64(0), Memo(address(probing.memos))
    if probing.texts.shape[0] == 0:
        return trees
    for r in range(keys.shape[0]):
        texts = np.int64(0)
        for k in range(probing.texts.shape[0]):
            column = probing.texts[k]
            key = keys[r, column]
            if key == NULL_KEY:
                continue
            memo = memos[column]
            if key < 0 or key >= memo.code_count or memo.known[key] != memo.fresh:
                return -1
            texts += memo.count[key]
        most = max(most, texts)
    return trees + most


@kernel()
def may_exist(bits: Words, mask: int, hash_: int) -> int:
    """0 if there is no bucket of a hash."""
    bit = (hash_ >> 8) & mask
    return (bits[bit >> 6] >> (bit & 63)) & 1


@kernel()
def _look_up(slots: Words, mask: int, pool: Words, want: Want, hit: Hit) -> int:
    """Write the bucket that a hash may mean as a hit and prefetch its memory; 1, or 0 for none."""
    at = want.hash & mask
    tag = tag_of(want.hash)
    word = slots[at]
    while word != 0:
        if (word & TAG) == tag:
            offset = word >> 30
            line = pool.after(offset)
            for k in range((word >> 24) & 63):
                prefetch(line + 64 * k)
            hit.offset, hit.slot, hit.which = offset, at, want.which
            return 1
        at = (at + 1) & mask
        word = slots[at]
    return 0


@kernel()
def _is_bucket(bucket: Bucket, which: int, row: Words, sources: Sources, widths: Words) -> bool:
    """Whether a bucket is that of a class and a row."""
    width = widths[which]
    if bucket.what != ((which << 8) | width):
        return False
    columns, same = sources.classes.after(which * sources.stride), True
    for k in range(width):
        same &= bucket.values[k] == row[columns[k]]
    return same


@kernel()
def _is_extra(bucket: Bucket, probe: Probe) -> bool:
    return bucket.what == ((probe.code << 8) | 1) and bucket.values[0] == probe.value


@kernel()
def _within(row: Words, column: int, ends: Words) -> bool:
    """Whether an interval holds, without a branch."""
    key = row[column]
    return (ends[0] <= key) & (key <= ends[1])


@kernel()
def _verify(
    record: Words, words: int, row: Words, label: int, sets: Words, memos: Memo, out: Words
) -> tuple[int, int]:
    """Write label | id for the records that hold for a row; how many, and how many were seen."""
    end = record + 8 * words
    count, seen = np.int64(0), np.int64(0)
    while record.address < end:
        head = record[0]
        holds = head >= 0
        atom = record.after(1)
        what = head >> 32
        # The commonest are faster without a loop.
        if head & PAIRED:
            holds &= _within(row, what & COUNT_MASK, atom)
            holds &= _within(row, (what >> COUNT_BITS) & COUNT_MASK, atom.after(2))
            atom = atom.after(4)
        elif what == 1:
            holds &= _within(row, atom[0], atom.after(1))
            atom = atom.after(3)
        elif head < 0 and head & RUN:
            held, compared = search_run(atom, head, row, label, out.after(count))
            count += held
            seen += compared
            record = atom.after(head & LOW)
            continue
        else:
            for _ in range(what & COUNT_MASK):
                holds &= _within(row, atom[0], atom.after(1))
                atom = atom.after(3)
            others = (what >> COUNT_BITS) & COUNT_MASK
            if others != 0 and holds:
                holds = others_hold(Atom(atom), others, row, sets, memos)
            if head & SPARE:
                others += 1
            atom = atom.after(3 * others)
            if head & LINKED:
                atom = atom.after(1)
        out[count] = label | (head & LOW)
        count += np.int64(holds)
        seen += 1
        record = atom
    return count, seen


@kernel()
def _want(
    row: Words,
    sources: Sources,
    mixed: Words,
    extra: Probe,
    extra_from: int,
    wanted: Want,
    places: Places,
) -> tuple[int, int]:
    """Write which buckets a row looks for, if they may exist; how many, and extra probes so far."""
    _hash_row(row, sources.hashed, sources.hashed_n, mixed)
    bits, stride = places.bits, sources.stride
    count = np.int64(0)
    for c in range(sources.class_n):
        hash_ = np.int64(0)
        for k in range(stride):
            hash_ += mixed[sources.classes[c * stride + k]]
        wanted[count].hash, wanted[count].which = hash_, c
        count += may_exist(bits, places.bits_mask, hash_)
    made = extra_from
    if sources.tree_n + sources.text_n > 0:
        made += _extra_probes(row, sources, extra[made])
        for k in range(extra_from, made):
            hash_ = extra[k].hash
            wanted[count].hash, wanted[count].which = hash_, -1 - k
            count += may_exist(bits, places.bits_mask, hash_)
    for k in range(count):
        prefetch(places.slots.after(wanted[k].hash & places.mask))
    return count, made


@kernel()
def match_rows(keys: np.ndarray, probing: Probing, store: Store, most: int) -> Found:
    """All pairs of rows and clauses; `most` is what `most_extra_probes` said."""
    places, sources = places_of(store), sources_of(probing)
    slots, pool, mask = places.slots, places.pool, places.mask
    sets, widths, class_n = (
        Words(address(store.sets)),
        Words(address(probing.widths)),
        sources.class_n,
    )
    keys_at, columns, n = Words(address(keys)), np.int64(keys.shape[1]), keys.shape[0]
    together = max(1, TOGETHER // max(1, class_n + most))
    mixed = Words(resized(0, columns + 1))
    mixed[columns] = 0
    extra = Probe(resized(0, together * most * 3))
    wanted = Want(resized(0, (together * (class_n + most) + 1) * 2))
    wanted_n = Words(resized(0, together + 1))
    hits = Hit(resized(0, together * (class_n + most) * 3))
    hits_n = Words(resized(0, together + 1))
    capacity = np.int64(4096)
    out = Words(resized(0, capacity))
    count, candidates, probes = np.int64(0), np.int64(0), np.int64(0)
    for start in range(0, n, together):
        rows = min(together, n - start)
        base = keys_at.after(columns * start)
        made, wants, hit = np.int64(0), np.int64(0), np.int64(0)
        wanted_n[0], hits_n[0] = 0, 0
        for r in range(rows):
            row = base.after(columns * r)
            more, made = _want(row, sources, mixed, extra, made, wanted[wants], places)
            wants += more
            wanted_n[r + 1] = wants
        probes += rows * class_n + made
        for r in range(rows):
            for k in range(wanted_n[r], wanted_n[r + 1]):
                hit += _look_up(slots, mask, pool, wanted[k], hits[hit])
            hits_n[r + 1] = hit
        for r in range(rows):
            row = base.after(columns * r)
            label = (start + r) << 32
            for k in range(hits_n[r], hits_n[r + 1]):
                slot, which = hits[k].slot, hits[k].which
                segment = Bucket(pool.after(hits[k].offset))
                word = np.int64(1)
                while word != 0:
                    # Another bucket with the same tag may be in the way.
                    if which >= 0:
                        if _is_bucket(segment, which, row, sources, widths):
                            break
                    elif _is_extra(segment, extra[-1 - which]):
                        break
                    slot = (slot + 1) & mask
                    word = slots[slot]
                    segment = Bucket(pool.after(word >> 30))
                if word == 0:
                    continue
                record = segment.values.after(segment.what & 255)
                while True:
                    words = segment.extent & LOW
                    if count + words > capacity:
                        capacity = max(2 * capacity, count + words)
                        out = Words(resized(out, capacity))
                    held, seen = _verify(
                        record, words, row, label, sets, sources.memos, out.after(count)
                    )
                    count += held
                    candidates += seen
                    if segment.next == 0:
                        break
                    segment = Bucket(pool.after(segment.next))
                    record = Words(segment).after(FURTHER)
    for memory in (mixed, wanted_n, hits_n):
        release(memory)
    release(extra)
    release(wanted)
    release(hits)
    counts = Counts(address(store.counts))
    counts.probes += probes
    counts.candidates += candidates
    counts.rows += n
    return Found(out.address, count)


@kernel((Words.type, types.int32[::1], types.int32[::1]))
def split_pairs(words: Words, rows: np.ndarray, clauses: np.ndarray) -> None:
    """The two halves of packed pairs."""
    for k in range(rows.shape[0]):
        word = words[k]
        rows[k] = np.int32(word >> 32)
        clauses[k] = np.int32(word & LOW)
