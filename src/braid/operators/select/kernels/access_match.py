"""The search: for each row the clauses that hold for it, out of the buckets its keys lead to.

Probes are independent of each other, and most of the time is memory that is not in the cache. So
they go in groups, in three steps: hash all keys and ask for the slots, read the slots and ask for
the buckets, verify the records. Verifying does not branch on the outcome of intervals, which no
processor can guess.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.records import Words
from braid.jit.runtime import address, kernel, load_int, prefetch, store_int
from braid.operators.core.kernels.clauses import NULL_KEY, PATTERN, atom_holds
from braid.operators.select.kernels.access import (
    CANDIDATES,
    COLUMN_SHIFT,
    COUNT_BITS,
    COUNT_MASK,
    FURTHER,
    HEADER,
    LINKED,
    LOW,
    PAIRED,
    PROBES,
    ROWS,
    RUN,
    SPARE,
    TAG,
    TEXTS,
    TREE,
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
#: Words of a hit: offset of the bucket, its slot, and which probe it was (class, or -1 - extra).
HIT = 3
#: Words of an extra probe: hash, code, value.
EXTRA = 3
#: Words that say where to find which patterns texts match: addresses of first, count and found by
#: code, how many codes there are, the address of what is known, and what must be known.
MEMO = 6


class Probing(NamedTuple):
    """What a row is looked up by.

    `classes`: the columns of each class, filled up with a column that does not exist (its number
    is that of the columns); `widths`: how many it has; `hashed`: all columns of classes.
    `trees`: columns with a tree; `bounds[column]`: where its cells begin; `levels[column]`: a bit
    for each height at which there are nodes. `texts`: columns with patterns; `memos[column]`:
    what is known of texts, `MEMO` words.
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
    """Where a `Probing` is. Arrays handed to a function are counted, addresses not."""

    classes: int
    class_n: int
    stride: int
    hashed: int
    hashed_n: int
    trees: int
    tree_n: int
    bounds: int
    cells: int
    levels: int
    texts: int
    text_n: int
    memos: int


@kernel()
def sources_of(probing: Probing) -> Sources:
    return Sources(
        address(probing.classes),
        np.int64(probing.classes.shape[0]),
        np.int64(probing.classes.shape[1]),
        address(probing.hashed),
        np.int64(probing.hashed.shape[0]),
        address(probing.trees),
        np.int64(probing.trees.shape[0]),
        address(probing.bounds),
        np.int64(probing.bounds.shape[1]),
        address(probing.levels),
        address(probing.texts),
        np.int64(probing.texts.shape[0]),
        address(probing.memos),
    )


class Found(NamedTuple):
    """Pairs as words row << 32 | id, in memory that belongs to the caller; -1: a text unknown."""

    words: int
    count: int


@kernel()
def text_matches(memos: int, column: int, code: int, number: int) -> bool:
    """Whether a known text matches a pattern."""
    memo = memos + 8 * MEMO * column
    first = load_int(load_int(memo, 0), code)
    found = load_int(memo, 2)
    lo, hi = first, first + load_int(load_int(memo, 1), code)
    while lo < hi:
        middle = (lo + hi) >> 1
        value = load_int(found, middle)
        if value == number:
            return True
        if value < number:
            lo = middle + 1
        else:
            hi = middle
    return False


@kernel()
def others_hold(record: int, count: int, row: int, sets: int, memos: int) -> bool:
    """Whether atoms that are not intervals hold."""
    for k in range(count):
        what = load_int(record, 3 * k)
        column, kind = what & LOW, what >> 32
        key = load_int(row, column)
        lo = load_int(record, 3 * k + 1)
        if kind == PATTERN:
            if key == NULL_KEY or not text_matches(memos, column, key, lo):
                return False
        elif not atom_holds(kind, key, lo, load_int(record, 3 * k + 2), Words(sets)):
            return False
    return True


@kernel()
def _hash_row(row: int, hashed: int, count: int, mixed: int) -> None:
    for k in range(count):
        column = load_int(hashed, k)
        store_int(mixed, column, hash_of(column, load_int(row, column)))


@kernel()
def _extra(out: int, at: int, code: int, value: int) -> int:
    store_int(out, EXTRA * at, hash_of(code, value))
    store_int(out, EXTRA * at + 1, code)
    store_int(out, EXTRA * at + 2, value)
    return at + 1


@kernel()
def _extra_probes(row: int, sources: Sources, out: int) -> int:
    """Write the nodes and patterns that a row leads to; how many."""
    count = np.int64(0)
    for k in range(sources.tree_n):
        column = load_int(sources.trees, k)
        key = load_int(row, column)
        if key == NULL_KEY:
            continue
        cell = cell_of(sources.bounds + 8 * sources.cells * column, sources.cells, key)
        levels = load_int(sources.levels, column)
        height = np.int64(0)
        while levels >> height != 0:
            if (levels >> height) & 1:
                code = TREE | (column << COLUMN_SHIFT) | height
                count = _extra(out, count, code, cell >> height)
            height += 1
    for k in range(sources.text_n):
        column = load_int(sources.texts, k)
        key = load_int(row, column)
        if key == NULL_KEY:
            continue
        memo = sources.memos + 8 * MEMO * column
        first = load_int(load_int(memo, 0), key)
        for i in range(first, first + load_int(load_int(memo, 1), key)):
            number = load_int(load_int(memo, 2), i)
            count = _extra(out, count, TEXTS | (column << COLUMN_SHIFT), number)
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
    most = np.int64(0)
    if probing.texts.shape[0] == 0:
        return trees
    for r in range(keys.shape[0]):
        texts = np.int64(0)
        for k in range(probing.texts.shape[0]):
            column = probing.texts[k]
            key = keys[r, column]
            if key == NULL_KEY:
                continue
            if key < 0 or key >= probing.memos[column, 3]:
                return -1
            if load_int(probing.memos[column, 4], key) != probing.memos[column, 5]:
                return -1
            texts += load_int(probing.memos[column, 1], key)
        most = max(most, texts)
    return trees + most


@kernel()
def may_exist(bits: int, mask: int, hash_: int) -> int:
    """0 if there is no bucket of a hash."""
    bit = (hash_ >> 8) & mask
    return (load_int(bits, bit >> 6) >> (bit & 63)) & 1


@kernel()
def _look_up(slots: int, mask: int, pool: int, hash_: int, hit: int, which: int) -> int:
    """Write the bucket that a hash may mean as a hit and ask for its memory; 1, or 0 for none."""
    at = hash_ & mask
    tag = tag_of(hash_)
    word = load_int(slots, at)
    while word != 0:
        if (word & TAG) == tag:
            offset = word >> 30
            line = pool + 8 * offset
            for k in range((word >> 24) & 63):
                prefetch(line + 64 * k)
            store_int(hit, 0, offset)
            store_int(hit, 1, at)
            store_int(hit, 2, which)
            return 1
        at = (at + 1) & mask
        word = load_int(slots, at)
    return 0


@kernel()
def _is_bucket(bucket: int, which: int, row: int, classes: int, widths: int, stride: int) -> bool:
    """Whether a bucket is that of a class and a row."""
    width = load_int(widths, which)
    if load_int(bucket, 2) != ((which << 8) | width):
        return False
    same = True
    for k in range(width):
        key = load_int(row, load_int(classes, which * stride + k))
        same &= load_int(bucket, HEADER + k) == key
    return same


@kernel()
def _is_extra(bucket: int, probe: int) -> bool:
    return (load_int(bucket, 2) == ((load_int(probe, 1) << 8) | 1)) and (
        load_int(bucket, HEADER) == load_int(probe, 2)
    )


@kernel()
def _within(row: int, column: int, ends: int) -> bool:
    """Whether an interval holds, without a branch."""
    key = load_int(row, column)
    return (load_int(ends, 0) <= key) & (key <= load_int(ends, 1))


@kernel()
def _verify(
    record: int, words: int, row: int, label: int, sets: int, memos: int, out: int
) -> tuple[int, int]:
    """Write label | id for the records that hold for a row; how many, and how many were seen."""
    end = record + 8 * words
    count, seen = np.int64(0), np.int64(0)
    while record < end:
        head = load_int(record, 0)
        holds = head >= 0
        atom = record + 8
        what = head >> 32
        # The commonest are faster without a loop.
        if head & PAIRED:
            holds &= _within(row, what & COUNT_MASK, atom)
            holds &= _within(row, (what >> COUNT_BITS) & COUNT_MASK, atom + 16)
            atom += 32
        elif what == 1:
            holds &= _within(row, load_int(atom, 0), atom + 8)
            atom += 24
        elif head < 0 and head & RUN:
            held, compared = search_run(atom, head, row, label, out + 8 * count)
            count += held
            seen += compared
            record = atom + 8 * (head & LOW)
            continue
        else:
            for _ in range(what & COUNT_MASK):
                holds &= _within(row, load_int(atom, 0), atom + 8)
                atom += 24
            others = (what >> COUNT_BITS) & COUNT_MASK
            if others != 0 and holds:
                holds = others_hold(atom, others, row, sets, memos)
            atom += 24 * others
            if head & SPARE:
                atom += 24
            if head & LINKED:
                atom += 8
        store_int(out, count, label | (head & LOW))
        count += np.int64(holds)
        seen += 1
        record = atom
    return count, seen


@kernel()
def _want(
    row: int, sources: Sources, mixed: int, extra: int, extra_from: int, wanted: int, places: Places
) -> tuple[int, int]:
    """Write which buckets a row looks for, if they may exist; how many, and extra probes so far."""
    _hash_row(row, sources.hashed, sources.hashed_n, mixed)
    classes, stride = sources.classes, sources.stride
    count = np.int64(0)
    for c in range(sources.class_n):
        hash_ = np.int64(0)
        for k in range(stride):
            hash_ += load_int(mixed, load_int(classes, c * stride + k))
        store_int(wanted, 2 * count, hash_)
        store_int(wanted, 2 * count + 1, c)
        count += may_exist(places.bits, places.bits_mask, hash_)
    made = extra_from
    if sources.tree_n + sources.text_n > 0:
        made += _extra_probes(row, sources, extra + 8 * EXTRA * made)
        for k in range(extra_from, made):
            hash_ = load_int(extra, EXTRA * k)
            store_int(wanted, 2 * count, hash_)
            store_int(wanted, 2 * count + 1, -1 - k)
            count += may_exist(places.bits, places.bits_mask, hash_)
    for k in range(count):
        prefetch(places.slots + 8 * (load_int(wanted, 2 * k) & places.mask))
    return count, made


@kernel()
def match_rows(keys: np.ndarray, probing: Probing, store: Store, most: int) -> Found:
    """All pairs of rows and clauses; `most` is what `most_extra_probes` said."""
    places, sources = places_of(store), sources_of(probing)
    slots, pool, mask, sets = places.slots, places.pool, places.mask, address(store.sets)
    classes, widths, memos = sources.classes, address(probing.widths), sources.memos
    class_n, stride = sources.class_n, sources.stride
    keys_at, columns, n = address(keys), np.int64(keys.shape[1]), keys.shape[0]
    together = max(1, TOGETHER // max(1, class_n + most))
    mixed = resized(0, columns + 1)
    store_int(mixed, columns, 0)
    extra = resized(0, together * most * EXTRA)
    wanted = resized(0, (together * (class_n + most) + 1) * 2)
    wanted_n = resized(0, together + 1)
    hits = resized(0, together * (class_n + most) * HIT)
    hits_n = resized(0, together + 1)
    capacity = np.int64(4096)
    out = resized(0, capacity)
    count, candidates, probes = np.int64(0), np.int64(0), np.int64(0)
    for start in range(0, n, together):
        rows = min(together, n - start)
        base = keys_at + 8 * columns * start
        made, wants, hit = np.int64(0), np.int64(0), np.int64(0)
        store_int(wanted_n, 0, 0)
        for r in range(rows):
            more, made = _want(
                base + 8 * columns * r, sources, mixed, extra, made, wanted + 16 * wants, places
            )
            wants += more
            store_int(wanted_n, r + 1, wants)
        probes += rows * class_n + made
        store_int(hits_n, 0, 0)
        for r in range(rows):
            for k in range(load_int(wanted_n, r), load_int(wanted_n, r + 1)):
                hash_, which = load_int(wanted, 2 * k), load_int(wanted, 2 * k + 1)
                hit += _look_up(slots, mask, pool, hash_, hits + 8 * HIT * hit, which)
            store_int(hits_n, r + 1, hit)
        for r in range(rows):
            row = base + 8 * columns * r
            label = (start + r) << 32
            for k in range(load_int(hits_n, r), load_int(hits_n, r + 1)):
                slot = load_int(hits, HIT * k + 1)
                which = load_int(hits, HIT * k + 2)
                segment = pool + 8 * load_int(hits, HIT * k)
                word = np.int64(1)
                while word != 0:
                    # Another bucket with the same tag may be in the way.
                    if which >= 0:
                        if _is_bucket(segment, which, row, classes, widths, stride):
                            break
                    elif _is_extra(segment, extra + 8 * EXTRA * (-1 - which)):
                        break
                    slot = (slot + 1) & mask
                    word = load_int(slots, slot)
                    segment = pool + 8 * (word >> 30)
                if word == 0:
                    continue
                record = segment + 8 * (HEADER + (load_int(segment, 2) & 255))
                while True:
                    words = load_int(segment, 1) & LOW
                    if count + words > capacity:
                        capacity = max(2 * capacity, count + words)
                        out = resized(out, capacity)
                    held, seen = _verify(record, words, row, label, sets, memos, out + 8 * count)
                    count += held
                    candidates += seen
                    following = load_int(segment, 0)
                    if following == 0:
                        break
                    segment = pool + 8 * following
                    record = segment + 8 * FURTHER
    for memory in (mixed, extra, wanted, wanted_n, hits, hits_n):
        release(memory)
    numbers = store.numbers
    numbers[PROBES] += probes
    numbers[CANDIDATES] += candidates
    numbers[ROWS] += n
    return Found(out, count)


@kernel()
def split_pairs(words: int, rows: np.ndarray, clauses: np.ndarray) -> None:
    """The two halves of packed pairs."""
    for k in range(rows.shape[0]):
        word = load_int(words, k)
        rows[k] = np.int32(word >> 32)
        clauses[k] = np.int32(word & LOW)
