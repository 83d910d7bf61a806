"""The rows that a join holds of each input: distinct rows in slots, chained by hash in several indexes.

A slot is a row of words. Its last word, the weight, begins the first cell of the row (see
`operators/core/kernels/node_sets.py`). The first index of an input chains equal rows, so that a row
is found again when copies of it go. The others chain rows with equal keys, for probes; one without
keys chains all rows. Chains are linked both ways: a row leaves at the same cost however many rows
share its key.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from braid.jit.memory import resized
from braid.jit.records import Floats, Record, Words, i64, record
from braid.jit.runtime import kernel
from braid.operators.core.kernels.instances import FREE, canonical_float, is_null, mix
from braid.operators.core.kernels.node_sets import (
    ALL,
    Cell,
    Pool,
    extend_cell,
    meet,
    new_cell,
    set_of,
    shrink_cell,
    take_out,
    tidy_cells,
)

#: Words that a slot has beyond the row.
EXTRA = 3

#: How a column of a key is compared: as equal words, as equal floats, or by a band around an integer
#: or a float.
AS_WORD, AS_FLOAT, IN_BAND, FLOAT_IN_BAND = range(4)

_SEED = np.int64(0x9E3779B97F4A7C)
_NULL = np.int64(0x5851F42D4C957F2D)
_HIGHEST = 1 << 60


@record
class Store(Record):
    """The rows that are held of one input."""

    count: i64
    #: Slots ever used, and the first free one of them (-1: none; a free slot begins with the next).
    high: i64
    free: i64
    rows: Words
    capacity: i64
    #: Words of a slot, words of a row, and the word of its first column.
    slot_words: i64
    width: i64
    base: i64
    #: The number of the first index.
    index: i64


@record
class Link(Record):
    """The place of a row in a chain."""

    next: i64
    previous: i64
    hash: i64


LINK_WORDS = Link.stride // 8


@record
class KeyColumn(Record):
    """A column of a key, and how it is compared."""

    column: i64
    how: i64


@record
class Index(Record):
    """The chains of the rows of one input by some of their columns."""

    #: One for each slot, and the first slot of each chain.
    links: Link
    heads: Words
    #: The number of chains less one.
    mask: i64
    keys: i64
    columns: KeyColumn
    #: The number of the next index of the input, or -1.
    following: i64
    #: Probes, rows that they found, and how many of these were wanted.
    probes: i64
    found: i64
    wanted: i64
    #: The width of a bucket of a band, an integer or a float; 0: one bucket has all values.
    band: Annotated[Words, 1]
    #: The buckets that have all values beyond them as well. If both are the same, there are none.
    first_bucket: i64
    last_bucket: i64


@record
class NodeSet(Record):
    """A set of nodes (see `operators/core/kernels/node_sets.py`), and the longest list of nodes."""

    kind: i64
    nodes: Words
    most: i64


@kernel()
def add_to_hash(value: int, row: Words, base: int, column: int, floating: int) -> int:
    if is_null(row, column):
        return mix(value + _NULL)
    word = row[base + column]
    if floating != 0:
        word = canonical_float(word)
    return mix(value + word + _SEED)


@kernel()
def bucket_of(word: int, width: int) -> int:
    """The bucket of a band's width that an integer lies in; a larger integer lies in none before."""
    if width == 0:
        return np.int64(0)
    return np.int64(word) // np.int64(width)


@kernel()
def float_bucket_of(value: float, width: float) -> int:
    """The same for floats; NaN is above all others."""
    if width == 0.0:
        return np.int64(0)
    if value != value:
        return np.int64(_HIGHEST + 1)
    place = np.floor(value / width)
    if place > _HIGHEST:
        return np.int64(_HIGHEST)
    if place < -_HIGHEST:
        return np.int64(-_HIGHEST)
    return np.int64(place)


@kernel()
def within(bucket: int, index: Index) -> int:
    """The bucket, or the last one on its side."""
    first, last = index.first_bucket, index.last_bucket
    return bucket if first == last else min(max(bucket, first), last)


@kernel()
def add_bucket(value: int, bucket: int) -> int:
    return mix(value + bucket + _SEED)


@kernel()
def hash_row(row: Words, base: int, index: Index) -> int:
    value, columns = np.int64(0), index.columns
    for k in range(index.keys):
        column, how = columns[k].column, columns[k].how
        if how >= IN_BAND and not is_null(row, column):
            if how == IN_BAND:
                bucket = bucket_of(row[base + column], index.band[0])
            else:
                point = Floats(row.address)[base + column]
                bucket = float_bucket_of(point, Floats(index.band.address)[0])
            value = add_bucket(value, within(bucket, index))
        else:
            value = add_to_hash(value, row, base, column, how)
    return value & FREE


@kernel()
def same_value(
    row: Words,
    base: int,
    column: int,
    other: Words,
    other_base: int,
    other_column: int,
    floating: int,
) -> bool:
    """Whether two columns are equal, or both NULL."""
    null = is_null(row, column)
    if null or is_null(other, other_column):
        return null and is_null(other, other_column)
    x, y = row[base + column], other[other_base + other_column]
    if x == y:
        return True
    return floating != 0 and canonical_float(x) == canonical_float(y)


@kernel()
def _same_row(row: Words, other: Words, base: int, index: Index) -> bool:
    for k in range(index.keys):
        key = index.columns[k]
        if not same_value(row, base, key.column, other, base, key.column, key.how):
            return False
    return True


# ---- chains ----


@kernel()
def link(index: Index, slot: int, hash_: int) -> None:
    """Put a row at the head of its chain."""
    links, heads = index.links, index.heads
    bucket = hash_ & index.mask
    first, own = heads[bucket], links[slot]
    own.next = first
    own.previous = -1
    own.hash = hash_
    if first >= 0:
        links[first].previous = slot
    heads[bucket] = slot


@kernel()
def unlink(index: Index, slot: int) -> None:
    """Take a row out of its chain."""
    links = index.links
    own = links[slot]
    following, previous = own.next, own.previous
    if following >= 0:
        links[following].previous = previous
    if previous >= 0:
        links[previous].next = following
    else:
        index.heads[own.hash & index.mask] = following


@kernel()
def make_heads(index: Index, size: int) -> None:
    """Give an index so many empty chains."""
    heads = Words(resized(index.heads, size))
    index.heads = heads
    index.mask = size - 1
    for bucket in range(size):
        heads[bucket] = -1


@kernel()
def row_at(store: Store, slot: int) -> Words:
    return store.rows.after(slot * store.slot_words)


@kernel()
def link_all(store: Store, index: Index, rehash: bool) -> None:
    """Put all rows into empty chains; `rehash`: their hashes are not known."""
    for slot in range(store.high):
        row = row_at(store, slot)
        if row[1] == FREE:
            continue
        hash_ = hash_row(row, store.base, index) if rehash else index.links[slot].hash
        link(index, slot, hash_)


@kernel()
def _more_heads(store: Store, indexes: Index) -> None:
    """Have at least as many chains as rows."""
    number = store.index
    while number >= 0:
        index = indexes[number]
        mask = index.mask
        if index.keys > 0 and store.count > mask:
            make_heads(index, 2 * (mask + 1))
            link_all(store, index, False)
        number = index.following


@kernel()
def _take_slot(store: Store, indexes: Index) -> int:
    """A slot that nobody uses; rows and links may have moved."""
    slot = store.free
    if slot >= 0:
        store.free = row_at(store, slot)[0]
        return slot
    slot = store.high
    store.high = slot + 1
    capacity = store.capacity
    if slot == capacity:
        capacity += max(16, capacity // 4)
        store.rows = Words(resized(store.rows, capacity * store.slot_words))
        store.capacity = capacity
        number = store.index
        while number >= 0:
            index = indexes[number]
            index.links = Link(resized(index.links, LINK_WORDS * capacity))
            number = index.following
    return slot


@kernel()
def drop_slot(store: Store, indexes: Index, slot: int) -> None:
    """Free the slot of a row that nobody holds."""
    number = store.index
    while number >= 0:
        index = indexes[number]
        unlink(index, slot)
        number = index.following
    row = row_at(store, slot)
    row[0] = store.free
    row[1] = FREE
    store.free = slot
    store.count -= 1


@kernel()
def first_cell(store: Store, row: Words) -> Cell:
    return Cell(row.after(store.width - 1).address)


# ---- deltas ----


@kernel()
def _new_row(
    store: Store,
    indexes: Index,
    pool: Pool,
    row: Words,
    weight: int,
    hash_: int,
    delta: NodeSet,
    words: int,
) -> None:
    """Hold a row that is not held yet."""
    slot = _take_slot(store, indexes)
    own = row_at(store, slot)
    width, base = store.width, store.base
    own[0] = 0
    own[1] = 0
    for word in range(2, width - 1):
        own[word] = row[word]
    cell = first_cell(store, own)
    cell.weight = weight
    cell.kind = 0
    cell.next = Cell(0)
    extend_cell(pool, cell, delta.kind, delta.nodes, words, delta.most)
    first = indexes[store.index]
    link(first, slot, hash_)
    number = first.following
    while number >= 0:
        index = indexes[number]
        link(index, slot, hash_row(own, base, index))
        number = index.following
    store.count += 1
    if store.count > first.mask:
        _more_heads(store, indexes)


@kernel()
def _find(store: Store, index: Index, row: Words, hash_: int) -> int:
    """The slot of a row, or -1."""
    slot = index.heads[hash_ & index.mask]
    while slot >= 0:
        own = index.links[slot]
        if own.hash == hash_ and _same_row(row_at(store, slot), row, store.base, index):
            return slot
        slot = own.next
    return np.int64(-1)


@kernel()
def _cell_of(pool: Pool, first: Cell, weight: int, words: int) -> Cell:
    """The cell of a row for nodes that hold it so often: one that is there, or a new one."""
    cell, empty = first, Cell(0)
    while cell.address != 0:
        if cell.kind == 0:
            empty = cell
        elif cell.weight == weight:
            return cell
        cell = cell.next
    if empty.address == 0:
        empty = new_cell(pool, words)
        empty.next = first.next
        first.next = empty
    empty.weight = weight
    return empty


@kernel()
def apply_delta(
    store: Store,
    indexes: Index,
    pool: Pool,
    row: Words,
    weight: int,
    delta: NodeSet,
    spare: Words,
    words: int,
) -> None:
    """Let the nodes of a set, which is used up, hold so many more copies of a row.

    `spare`: room for a set.
    """
    index = indexes[store.index]
    hash_ = hash_row(row, store.base, index)
    slot = _find(store, index, row, hash_)
    if slot < 0:
        _new_row(store, indexes, pool, row, weight, hash_, delta, words)
        return
    first = first_cell(store, row_at(store, slot))
    kind, nodes, most = delta.kind, delta.nodes, delta.most
    cell = first
    while cell.address != 0 and kind != 0:
        own = cell.kind
        if own == ALL:
            both = np.int64(ALL)
        else:
            both = meet(own, set_of(cell, words), kind, nodes, spare, words)
        if both != 0:
            # Nodes that have moved are no longer in the set: a later cell does not move them again.
            kind = take_out(kind, nodes, both, spare, words)
            total = cell.weight + weight
            shrink_cell(pool, cell, both, spare, words)
            if total != 0:
                extend_cell(pool, _cell_of(pool, first, total, words), both, spare, words, most)
        cell = cell.next
    if kind != 0:
        extend_cell(pool, _cell_of(pool, first, weight, words), kind, nodes, words, most)
    if not tidy_cells(pool, first, words):
        drop_slot(store, indexes, slot)
