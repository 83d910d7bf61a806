"""Clauses found by an access predicate: buckets of records, filled, emptied and searched.

A clause lies in the bucket of its *access predicate*, with the atoms that are left to verify. The
*code* of a bucket says what it is of, and its values which:

* `HASHED`: equality on the columns of a class (code = number of the class, values = the keys;
  a class without columns has one bucket, which every row looks at);
* `TREE`: a node of the dyadic tree over the cells of a column (value = the node);
* `TEXTS`: a string pattern of a column (value = its number).

The store is one pool of words. A bucket is a chain of segments; the first one begins with
[next segment, used | room << 32, code << 8 | width, values ...], the others with the first two
words only. Then follow records, one after the other:
[id | intervals << 32 | others << 44 | flags, (kind << 32 | column, lo, hi) ..., link]. Intervals
come first, then other atoms, then, with the flag `SPARE`, an atom that the bucket implies, which is
kept because the clause may have to move. A clause with several records links them. A record of two
intervals and nothing else, the commonest, is `PAIRED`: [id | column << 32 | column << 44 | flags,
lo, hi, lo, hi]. Records with one interval each may lie in a run, sorted (see `access_runs`).

Slots of the hash table are single words, offset << 30 | lines << 24 | tag: the values in the bucket
decide, the tag only spares a look at them, and `lines` says how much memory to ask for. A bit for
(nearly) every hash in use, eight for each bucket, spares most looks at slots that are for others.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from braid.jit.hashing import mix
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import address, kernel
from braid.operators.core.kernels.clauses import NULL_KEY

#: Bits of a code that say what a bucket is of; without them it is a class.
TREE = np.int64(1 << 40)
TEXTS = np.int64(1 << 41)
#: What is above the lowest eight bits of a tree's code, and of patterns': the column.
COLUMN_SHIFT = 8

#: Flags of a record, above the counts of atoms; a dead record is negative.
COUNT_BITS = 12
COUNT_MASK = np.int64((1 << COUNT_BITS) - 1)
SPARE = np.int64(1 << 56)
SECOND = np.int64(1 << 57)
LINKED = np.int64(1 << 58)
DEAD = NULL_KEY
#: Flags of what looks like a dead record and begins a run (see `access_runs`).
RUN = np.int64(1 << 59)
NESTED = np.int64(1 << 60)

#: Flag of a record that says the columns of its two intervals where others count atoms.
PAIRED = np.int64(1 << 61)
PAIR_WORDS = 5


@record
class Bucket(Record):
    """A segment of a bucket. The first one has all fields, then records; others have two."""

    next: i64
    #: used | room << 32
    extent: i64
    #: code << 8 | width
    what: i64
    values: Annotated[Words, 1]


@record
class Atom(Record):
    """An atom of a record: kind << 32 | column, and its ends."""

    what: i64
    lo: i64
    hi: i64


#: Words before the values of a bucket, and before the records of a further segment.
HEADER = Bucket.word("values")
FURTHER = Bucket.word("what")


@record
class Counts(Record):
    """What the store counts."""

    #: Words of the pool in use, and buckets.
    used: i64
    buckets: i64
    #: Dead records, clauses, and records.
    garbage: i64
    live: i64
    records: i64
    #: Probes and candidates of classes, and rows, since the plan was last checked.
    probes: i64
    candidates: i64
    rows: i64


LOW = np.int64(0xFFFFFFFF)
TAG = np.int64(0xFFFFFF)


class Store(NamedTuple):
    """The words of an index: `position[id]` is where the last record of a clause is (0: none)."""

    pool: np.ndarray
    slots: np.ndarray
    bits: np.ndarray
    position: np.ndarray
    sets: np.ndarray
    counts: np.ndarray


class Places(NamedTuple):
    """Where the words of a store are. Arrays handed to a function are counted, pointers not."""

    pool: Words
    slots: Words
    mask: int
    bits: Words
    bits_mask: int
    counts: Counts


@kernel()
def bucket_at(pool: Words, offset: int) -> Bucket:
    return Bucket(pool.after(offset).address)


@kernel()
def places_of(store: Store) -> Places:
    return Places(
        Words(address(store.pool)),
        Words(address(store.slots)),
        np.int64(store.slots.shape[0] - 1),
        Words(address(store.bits)),
        np.int64(64 * store.bits.shape[0] - 1),
        Counts(address(store.counts)),
    )


@kernel()
def hash_of(code: int, key: int) -> int:
    """The share of one value in a bucket's hash: that of a class is the sum over its columns."""
    return mix(key + mix(code + np.int64(0x1E3779B97F4A7C15)))


@kernel()
def tag_of(hash_: int) -> int:
    return (hash_ >> np.int64(40)) & TAG | np.int64(1)


@kernel()
def cell_of(bounds: Words, count: int, key: int) -> int:
    """How many of the sorted words at `bounds` (one less than a power of two) are <= key."""
    at = np.int64(0)
    half = (count + 1) >> 1
    while half > 0:
        if bounds[at + half - 1] <= key:
            at += half
        half >>= 1
    return at


@kernel()
def record_words(head: int) -> int:
    """How long a record is."""
    if head & PAIRED:
        return np.int64(PAIR_WORDS)
    atoms = ((head >> 32) & COUNT_MASK) + ((head >> 44) & COUNT_MASK)
    if head & SPARE:
        atoms += 1
    words = 1 + 3 * atoms
    if head & LINKED:
        words += 1
    return words


@kernel()
def slot_word(offset: int, words: int, hash_: int) -> int:
    lines = min((words + 7) >> 3, 63)
    return (offset << 30) | (lines << 24) | tag_of(hash_)


@kernel()
def find_slot(places: Places, hash_: int, what: int, values: Words) -> int:
    """The slot of a bucket, or -1 - the free slot where it belongs; `what` is code << 8 | width."""
    at = hash_ & places.mask
    tag = tag_of(hash_)
    width = what & 255
    word = places.slots[at]
    while word != 0:
        if (word & TAG) == tag:
            bucket = bucket_at(places.pool, word >> 30)
            same = bucket.what == what
            for k in range(width):
                same = same and bucket.values[k] == values[k]
            if same:
                return at
        at = (at + 1) & places.mask
        word = places.slots[at]
    return -1 - at


@kernel()
def set_bit(bits: Words, mask: int, hash_: int) -> None:
    bit = (hash_ >> 8) & mask
    bits[bit >> 6] |= np.int64(1) << (bit & 63)


@kernel()
def _aligned(offset: int, words: int) -> int:
    """The next offset at which so many words touch as few lines of memory as they can."""
    into = offset & 7
    if into + words > ((words + 7) & -8):
        return offset + 8 - into
    return offset


@kernel()
def room_in_bucket(
    places: Places,
    hash_: int,
    what: int,
    values: Words,
    words: int,
    wish: int,
    most: int,
    ahead: int,
) -> int:
    """Where records may be written; a new segment gets room for `wish` words, or for `most`, and
    `ahead` words of a new bucket are asked for when it is met."""
    pool, counts = places.pool, places.counts
    slot = find_slot(places, hash_, what, values)
    new = counts.used
    wish = max(min(wish, most), words)
    if slot < 0:
        start = HEADER + (what & 255)
        new = _aligned(new, start + wish)
        bucket = bucket_at(pool, new)
        bucket.next, bucket.extent, bucket.what = 0, words | (wish << 32), what
        for k in range(what & 255):
            bucket.values[k] = values[k]
        places.slots[-1 - slot] = slot_word(new, start + min(ahead, wish), hash_)
        set_bit(places.bits, places.bits_mask, hash_)
        counts.buckets += 1
        counts.used = new + start + wish
        return new + start
    offset = places.slots[slot] >> 30
    first = bucket_at(pool, offset)
    segment, start = first, offset + HEADER + (what & 255)
    if first.next != 0:
        segment, start = bucket_at(pool, first.next), first.next + FURTHER
    used, room = segment.extent & LOW, segment.extent >> 32
    if used + words <= room:
        segment.extent += words
        return start + used
    # The newest further segment comes right after the first, so that it is the one to have room.
    wish = max(min(max(wish, room), np.int64(4096), most), wish)
    further = bucket_at(pool, new)
    further.next, further.extent = first.next, words | (wish << 32)
    first.next = new
    counts.used = new + FURTHER + wish
    return new + FURTHER


@kernel()
def refill_slots(old: np.ndarray, store: Store, columns: np.ndarray) -> None:
    """Enter all buckets of one table into a larger one; `columns` are those of the classes."""
    places = places_of(store)
    for k in range(old.shape[0]):
        if old[k] == 0:
            continue
        bucket = bucket_at(places.pool, old[k] >> 30)
        code, width = bucket.what >> 8, bucket.what & 255
        hash_ = np.int64(0)
        if code >= TREE:
            hash_ = hash_of(code, bucket.values[0])
        else:
            for i in range(width):
                hash_ += hash_of(columns[code, i], bucket.values[i])
        at = hash_ & places.mask
        while places.slots[at] != 0:
            at = (at + 1) & places.mask
        places.slots[at] = old[k]
        set_bit(places.bits, places.bits_mask, hash_)


@kernel()
def remove_clauses(store: Store, ids: np.ndarray) -> int:
    """Mark all records of clauses as dead; the index of an id that is not there, or -1."""
    pool, position, counts = store.pool, store.position, Counts(address(store.counts))
    for k in range(ids.shape[0]):
        number = np.int64(ids[k])
        if number < 0 or number >= position.shape[0] or position[number] == 0:
            return k
        at = position[number]
        position[number] = 0
        counts.live -= 1
        while at != 0:
            head = pool[at]
            words = record_words(head)
            pool[at] = head | DEAD
            counts.garbage += 1
            counts.records -= 1
            at = pool[at + words - 1] if head & LINKED else np.int64(0)
    return -1
