"""What a join holds of each input: distinct rows in slots, chained by hash in several indexes.

A slot is a row of words whose last one, the weight, begins the first cell of the row (see
`operators/core/kernels/node_sets.py`). The first index of an input chains equal rows, so that a row is found again when
copies of it go; the others chain rows with equal keys, for probes; one without keys chains all.
Chains are linked both ways: a row leaves at the same cost however many share its key.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.runtime import kernel, load_float, load_int, store_int
from braid.operators.core.kernels.instances import FREE, canonical_float, is_null, mix
from braid.operators.core.kernels.node_sets import (
    ALL,
    KIND,
    NEXT,
    WEIGHT,
    extend_cell,
    give_cells,
    meet,
    new_cell,
    set_of,
    shrink_cell,
    take_out,
    tidy_cells,
)

#: Words that a slot has beyond the row.
EXTRA = 3

#: What is held of an input: rows, slots ever used, first free slot, where rows are, for how many
#: there is room, bytes of a slot, words of a row, word of the first column, first index.
(
    COUNT,
    HIGH,
    FREE_HEAD,
    ROWS_AT,
    CAPACITY,
    STRIDE,
    WIDTH,
    BASE,
    FIRST_INDEX,
    STORE_WORDS,
) = range(10)

#: An index: three words of each slot (next, previous, hash), heads of chains, their number less
#: one, number of keys, where their columns are (pairs: column, and how it is compared), next index
#: of the input; probes, rows found, those of them that were wanted; the width of a band (0: all);
#: its first and last stretch, in which all is that lies beyond (the same: there are none).
(
    LINKS_AT,
    HEADS_AT,
    MASK,
    KEYS,
    COLUMNS_AT,
    FOLLOWING,
    PROBES,
    FOUND,
    WANTED,
    BAND,
    FIRST_STRETCH,
    LAST_STRETCH,
    INDEX_WORDS,
) = range(13)

#: A column of a key: equal words, equal floats, or integers or floats in a band.
AS_WORD, AS_FLOAT, IN_BAND, FLOAT_IN_BAND = range(4)

#: A link.
LINK_NEXT, LINK_PREVIOUS, LINK_HASH, LINK_WORDS = range(4)

_SEED = np.int64(0x9E3779B97F4A7C)
_NULL = np.int64(0x5851F42D4C957F2D)
_HIGHEST = 1 << 60


@kernel()
def add_to_hash(value: int, row: int, base: int, column: int, floating: int) -> int:
    if is_null(row, column):
        return mix(value + _NULL)
    word = load_int(row, base + column)
    if floating != 0:
        word = canonical_float(word)
    return mix(value + word + _SEED)


@kernel()
def bucket_of(word: int, width: int) -> int:
    """Which stretch of a band's width an integer lies in: what is larger lies in none before."""
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
def within(bucket: int, index: int) -> int:
    """The stretch, or the last one on its side: what is larger lies in none before."""
    first, last = load_int(index, FIRST_STRETCH), load_int(index, LAST_STRETCH)
    return bucket if first == last else min(max(bucket, first), last)


@kernel()
def add_bucket(value: int, bucket: int) -> int:
    return mix(value + bucket + _SEED)


@kernel()
def hash_row(row: int, base: int, index: int) -> int:
    value, columns = np.int64(0), load_int(index, COLUMNS_AT)
    for k in range(load_int(index, KEYS)):
        column, how = load_int(columns, 2 * k), load_int(columns, 2 * k + 1)
        if how >= IN_BAND and not is_null(row, column):
            if how == IN_BAND:
                bucket = bucket_of(load_int(row, base + column), load_int(index, BAND))
            else:
                at = row + 8 * (base + column)
                bucket = float_bucket_of(load_float(at, 0), load_float(index, BAND))
            value = add_bucket(value, within(bucket, index))
        else:
            value = add_to_hash(value, row, base, column, how)
    return value & FREE


@kernel()
def same_value(
    row: int, base: int, column: int, other: int, other_base: int, other_column: int, floating: int
) -> bool:
    """Whether two columns are equal, or both NULL."""
    null = is_null(row, column)
    if null or is_null(other, other_column):
        return null and is_null(other, other_column)
    x, y = load_int(row, base + column), load_int(other, other_base + other_column)
    if x == y:
        return True
    return floating != 0 and canonical_float(x) == canonical_float(y)


@kernel()
def _same_row(row: int, other: int, base: int, index: int) -> bool:
    columns = load_int(index, COLUMNS_AT)
    for k in range(load_int(index, KEYS)):
        column = load_int(columns, 2 * k)
        if not same_value(row, base, column, other, base, column, load_int(columns, 2 * k + 1)):
            return False
    return True


# ---- chains ----


@kernel()
def link(index: int, slot: int, hash_: int) -> None:
    links, heads = load_int(index, LINKS_AT), load_int(index, HEADS_AT)
    bucket = hash_ & load_int(index, MASK)
    first = load_int(heads, bucket)
    at = links + slot * (8 * LINK_WORDS)
    store_int(at, LINK_NEXT, first)
    store_int(at, LINK_PREVIOUS, -1)
    store_int(at, LINK_HASH, hash_)
    if first >= 0:
        store_int(links + first * (8 * LINK_WORDS), LINK_PREVIOUS, slot)
    store_int(heads, bucket, slot)


@kernel()
def unlink(index: int, slot: int) -> None:
    links = load_int(index, LINKS_AT)
    at = links + slot * (8 * LINK_WORDS)
    following, previous = load_int(at, LINK_NEXT), load_int(at, LINK_PREVIOUS)
    if following >= 0:
        store_int(links + following * (8 * LINK_WORDS), LINK_PREVIOUS, previous)
    if previous >= 0:
        store_int(links + previous * (8 * LINK_WORDS), LINK_NEXT, following)
    else:
        bucket = load_int(at, LINK_HASH) & load_int(index, MASK)
        store_int(load_int(index, HEADS_AT), bucket, following)


@kernel()
def make_heads(index: int, size: int) -> None:
    heads = resized(load_int(index, HEADS_AT), size)
    store_int(index, HEADS_AT, heads)
    store_int(index, MASK, size - 1)
    for bucket in range(size):
        store_int(heads, bucket, -1)


@kernel()
def hang_all(store: int, index: int, anew: bool) -> None:
    """Chain all rows in empty chains; `anew`: their hashes are not known."""
    rows, stride = load_int(store, ROWS_AT), load_int(store, STRIDE)
    links, base = load_int(index, LINKS_AT), load_int(store, BASE)
    for slot in range(load_int(store, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        hash_ = (
            hash_row(row, base, index)
            if anew
            else load_int(links + slot * (8 * LINK_WORDS), LINK_HASH)
        )
        link(index, slot, hash_)


@kernel()
def _record(indexes: int, number: int) -> int:
    return indexes + number * (8 * INDEX_WORDS)


@kernel()
def _more_heads(store: int, indexes: int) -> None:
    """As many chains as rows, at least."""
    number = load_int(store, FIRST_INDEX)
    while number >= 0:
        index = _record(indexes, number)
        mask = load_int(index, MASK)
        if load_int(index, KEYS) > 0 and load_int(store, COUNT) > mask:
            make_heads(index, 2 * (mask + 1))
            hang_all(store, index, False)
        number = load_int(index, FOLLOWING)


@kernel()
def _take_slot(store: int, indexes: int) -> int:
    """A slot that nobody uses; rows and links may have moved."""
    slot = load_int(store, FREE_HEAD)
    if slot >= 0:
        row = load_int(store, ROWS_AT) + slot * load_int(store, STRIDE)
        store_int(store, FREE_HEAD, load_int(row, 0))
        return slot
    slot = load_int(store, HIGH)
    store_int(store, HIGH, slot + 1)
    capacity = load_int(store, CAPACITY)
    if slot == capacity:
        capacity += max(16, capacity // 4)
        words = capacity * (load_int(store, STRIDE) // 8)
        store_int(store, ROWS_AT, resized(load_int(store, ROWS_AT), words))
        store_int(store, CAPACITY, capacity)
        number = load_int(store, FIRST_INDEX)
        while number >= 0:
            index = _record(indexes, number)
            moved = resized(load_int(index, LINKS_AT), LINK_WORDS * capacity)
            store_int(index, LINKS_AT, moved)
            number = load_int(index, FOLLOWING)
    return slot


@kernel()
def drop_slot(store: int, indexes: int, slot: int) -> None:
    number = load_int(store, FIRST_INDEX)
    while number >= 0:
        index = _record(indexes, number)
        unlink(index, slot)
        number = load_int(index, FOLLOWING)
    row = load_int(store, ROWS_AT) + slot * load_int(store, STRIDE)
    store_int(row, 0, load_int(store, FREE_HEAD))
    store_int(row, 1, FREE)
    store_int(store, FREE_HEAD, slot)
    store_int(store, COUNT, load_int(store, COUNT) - 1)


@kernel()
def first_cell(store: int, row: int) -> int:
    return row + 8 * (load_int(store, WIDTH) - 1)


# ---- deltas ----


@kernel()
def _new_row(
    store: int, indexes: int, pool: int, row: int, weight: int, hash_: int, set_: int, words: int
) -> None:
    """Hold a row that is not held yet; `set_` is the address of kind, place and longest list."""
    slot = _take_slot(store, indexes)
    at = load_int(store, ROWS_AT) + slot * load_int(store, STRIDE)
    width, base = load_int(store, WIDTH), load_int(store, BASE)
    store_int(at, 0, 0)
    store_int(at, 1, 0)
    for word in range(2, width - 1):
        store_int(at, word, load_int(row, word))
    cell = at + 8 * (width - 1)
    store_int(cell, WEIGHT, weight)
    store_int(cell, KIND, 0)
    store_int(cell, NEXT, 0)
    extend_cell(pool, cell, load_int(set_, 0), load_int(set_, 1), words, load_int(set_, 2))
    number = load_int(store, FIRST_INDEX)
    link(_record(indexes, number), slot, hash_)
    number = load_int(_record(indexes, number), FOLLOWING)
    while number >= 0:
        index = _record(indexes, number)
        link(index, slot, hash_row(at, base, index))
        number = load_int(index, FOLLOWING)
    store_int(store, COUNT, load_int(store, COUNT) + 1)
    if load_int(store, COUNT) > load_int(_record(indexes, load_int(store, FIRST_INDEX)), MASK):
        _more_heads(store, indexes)


@kernel()
def _find(store: int, index: int, row: int, hash_: int) -> int:
    """The slot of a row, or -1."""
    links, rows = load_int(index, LINKS_AT), load_int(store, ROWS_AT)
    slot = load_int(load_int(index, HEADS_AT), hash_ & load_int(index, MASK))
    while slot >= 0:
        at = links + slot * (8 * LINK_WORDS)
        if load_int(at, LINK_HASH) == hash_ and _same_row(
            rows + slot * load_int(store, STRIDE), row, load_int(store, BASE), index
        ):
            return slot
        slot = load_int(at, LINK_NEXT)
    return np.int64(-1)


@kernel()
def _cell_of(pool: int, first: int, weight: int, words: int) -> int:
    """The cell of a row for nodes that hold it so often: one that is there, or a new one."""
    cell, empty = first, np.int64(0)
    while cell != 0:
        if load_int(cell, KIND) == 0:
            empty = cell
        elif load_int(cell, WEIGHT) == weight:
            return cell
        cell = load_int(cell, NEXT)
    if empty == 0:
        empty = new_cell(pool, words)
        store_int(empty, NEXT, load_int(first, NEXT))
        store_int(first, NEXT, empty)
    store_int(empty, WEIGHT, weight)
    return empty


@kernel()
def apply_delta(
    store: int, indexes: int, pool: int, row: int, weight: int, set_: int, spare: int, words: int
) -> None:
    """Let the nodes of a set hold so many more copies of a row.

    `set_`: kind, place and longest list of the set, which is used up; `spare`: room for a set.
    """
    index = _record(indexes, load_int(store, FIRST_INDEX))
    hash_ = hash_row(row, load_int(store, BASE), index)
    slot = _find(store, index, row, hash_)
    if slot < 0:
        _new_row(store, indexes, pool, row, weight, hash_, set_, words)
        return
    first = first_cell(store, load_int(store, ROWS_AT) + slot * load_int(store, STRIDE))
    kind, at, most = load_int(set_, 0), load_int(set_, 1), load_int(set_, 2)
    cell = first
    while cell != 0 and kind != 0:
        own = load_int(cell, KIND)
        if own == ALL:
            both = np.int64(ALL)
        else:
            both = meet(own, set_of(cell, words), kind, at, spare, words)
        if both != 0:
            # Nodes that have moved are no longer in the set: a later cell does not move them again.
            kind = take_out(kind, at, both, spare, words)
            total = load_int(cell, WEIGHT) + weight
            shrink_cell(pool, cell, both, spare, words)
            if total != 0:
                extend_cell(pool, _cell_of(pool, first, total, words), both, spare, words, most)
        cell = load_int(cell, NEXT)
    if kind != 0:
        extend_cell(pool, _cell_of(pool, first, weight, words), kind, at, words, most)
    if not tidy_cells(pool, first, words):
        drop_slot(store, indexes, slot)


@kernel()
def forget_rows(store: int, indexes: int, pool: int, words: int) -> None:
    """Hold nothing; memory is kept."""
    rows, stride = load_int(store, ROWS_AT), load_int(store, STRIDE)
    for slot in range(load_int(store, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) != FREE:
            give_cells(pool, first_cell(store, row), words)
            drop_slot(store, indexes, slot)
