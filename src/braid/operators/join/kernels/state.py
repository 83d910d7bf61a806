"""What a join holds, moved out and in, and cleaned of members that have gone.

Outside, members of rows are nodes of the input and not of the output: there are fewer of them,
and output nodes that come later on the same input nodes find what those hold.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.memory import resized
from braid.jit.runtime import ROWS, WORDS, address, kernel, load_int, store_int
from braid.operators.core.kernels.instances import FREE
from braid.operators.core.kernels.node_sets import (
    ALL,
    BITS,
    KIND,
    NEXT,
    WEIGHT,
    lowest,
    meet,
    set_of,
    shrink_cell,
    tidy_cells,
)
from braid.operators.join.kernels.frame import (
    EVERYONE_AT,
    FEED_MEMBERS_AT,
    FEED_WORDS,
    FEEDS_AT,
    INDEXES_AT,
    POOL_AT,
    SETS_AT,
    STORES_AT,
    WORDS_OF_SET,
    expand,
)
from braid.operators.join.kernels.joins import hold
from braid.operators.join.kernels.store import (
    CAPACITY,
    FIRST_INDEX,
    FOLLOWING,
    HIGH,
    INDEX_WORDS,
    LINK_WORDS,
    LINKS_AT,
    MASK,
    ROWS_AT,
    STORE_WORDS,
    STRIDE,
    WIDTH,
    drop_slot,
    first_cell,
    forget_rows,
    hang_all,
    make_heads,
)


@kernel()
def _store(frame: int, input_: int) -> int:
    return load_int(frame, STORES_AT) + input_ * (8 * STORE_WORDS)


@kernel((WORDS, types.int64, ROWS))
def copy_rows(words: np.ndarray, input_: int, out: np.ndarray) -> None:
    """The rows of an input, in order of slots; their weights are 0."""
    store = _store(address(words), input_)
    rows, stride, width = load_int(store, ROWS_AT), load_int(store, STRIDE), load_int(store, WIDTH)
    count = 0
    for slot in range(load_int(store, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        for word in range(width - 1):
            out[count, word] = load_int(row, word)
        out[count, width - 1] = 0
        count += 1


@kernel((WORDS, types.int64, WORDS, ROWS))
def write_words(words: np.ndarray, input_: int, places: np.ndarray, values: np.ndarray) -> None:
    """Replace some words of all rows, in order of slots; hashes are stale then."""
    store = _store(address(words), input_)
    rows, stride = load_int(store, ROWS_AT), load_int(store, STRIDE)
    count = 0
    for slot in range(load_int(store, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        for k in range(places.shape[0]):
            store_int(row, places[k], values[count, k])
        count += 1


@kernel((WORDS, types.int64, types.int64, types.int64))
def build_index(words: np.ndarray, input_: int, number: int, size: int) -> None:
    """Chain all rows of an input in an index anew, with at least `size` chains."""
    frame = address(words)
    store = _store(frame, input_)
    index = load_int(frame, INDEXES_AT) + number * (8 * INDEX_WORDS)
    links = resized(load_int(index, LINKS_AT), LINK_WORDS * load_int(store, CAPACITY))
    store_int(index, LINKS_AT, links)
    make_heads(index, size)
    hang_all(store, index, True)


@kernel((WORDS, types.int64))
def rehash(words: np.ndarray, input_: int) -> None:
    """Chain all rows of an input in all its indexes anew."""
    frame = address(words)
    store = _store(frame, input_)
    number = load_int(store, FIRST_INDEX)
    while number >= 0:
        index = load_int(frame, INDEXES_AT) + number * (8 * INDEX_WORDS)
        make_heads(index, load_int(index, MASK) + 1)
        hang_all(store, index, True)
        number = load_int(index, FOLLOWING)


@kernel((WORDS, types.int64))
def forget(words: np.ndarray, input_: int) -> None:
    """Hold nothing of an input."""
    frame = address(words)
    forget_rows(
        _store(frame, input_),
        load_int(frame, INDEXES_AT),
        load_int(frame, POOL_AT),
        load_int(frame, WORDS_OF_SET),
    )


@kernel((WORDS, types.int64, WORDS))
def purge(words: np.ndarray, input_: int, gone: np.ndarray) -> None:
    """Take output nodes, as bits, out of all rows of an input; rows that nobody has are dropped."""
    frame = address(words)
    store, indexes, pool = (
        _store(frame, input_),
        load_int(frame, INDEXES_AT),
        load_int(frame, POOL_AT),
    )
    size, spare = load_int(frame, WORDS_OF_SET), load_int(frame, SETS_AT)
    rows, stride, others = load_int(store, ROWS_AT), load_int(store, STRIDE), address(gone)
    for slot in range(load_int(store, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        first = first_cell(store, row)
        cell = first
        while cell != 0:
            kind = load_int(cell, KIND)
            if kind != ALL:
                both = meet(kind, set_of(cell, size), BITS, others, spare, size)
                if both != 0:
                    shrink_cell(pool, cell, both, spare, size)
            cell = load_int(cell, NEXT)
        if not tidy_cells(pool, first, size):
            drop_slot(store, indexes, slot)


@kernel()
def copy_set(kind: int, at: int, size: int, local: int, out: int) -> int:
    """The numbers of a set's input nodes as a list; how many."""
    count = np.int64(0)
    if kind != BITS:
        for k in range(kind):
            node = load_int(local, load_int(at, k))
            if node >= 0:
                store_int(out, count, node)
                count += 1
        return count
    for k in range(size):
        word = load_int(at, k)
        while word != 0:
            bit = lowest(word)
            word ^= np.int64(1) << np.int64(bit)
            node = load_int(local, 64 * k + bit)
            if node >= 0:
                store_int(out, count, node)
                count += 1
    return count


@kernel()
def pack(at: int, count: int, width: int) -> None:
    """Turn a list into bits of `width` words; there is room for both, one after the other."""
    bits = at + 8 * count
    for word in range(width):
        store_int(bits, word, 0)
    for k in range(count):
        node = load_int(at, k)
        word, bit = node >> 6, np.int64(1) << np.int64(node & 63)
        store_int(bits, word, load_int(bits, word) | bit)
    for word in range(width):
        store_int(at, word, load_int(bits, word))


@kernel((WORDS, types.int64, WORDS, WORDS))
def copy_cells(
    words: np.ndarray, input_: int, local: np.ndarray, written: np.ndarray
) -> tuple[int, int]:
    """The cells of an input's rows: four words each (number of the row, weight, kind of the set,
    where its words begin), and the words of the sets; where both are.

    `local`: for each output node, the number of its input node among those that are saved, or -1
    if another output node speaks for it. Sets are lists, or bits if those are shorter, of as many
    words as are `written[0]`. In `written` afterwards: how many cells and words there are.
    """
    frame = address(words)
    store, size = _store(frame, input_), load_int(frame, WORDS_OF_SET)
    rows, stride, width = load_int(store, ROWS_AT), load_int(store, STRIDE), written[0]
    cells, cells_room, cell_count = np.int64(0), np.int64(0), np.int64(0)
    sets, sets_room, used = np.int64(0), np.int64(0), np.int64(0)
    longest = 64 * size + width
    number = np.int64(0)
    for slot in range(load_int(store, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        cell = first_cell(store, row)
        while cell != 0:
            if cell_count == cells_room:
                cells_room = max(64, 2 * cells_room)
                cells = resized(cells, 4 * cells_room)
            if used + longest > sets_room:
                sets_room = 2 * (used + longest)
                sets = resized(sets, sets_room)
            kind = load_int(cell, KIND)
            count = np.int64(ALL)
            begin = used
            if kind != ALL:
                count = copy_set(kind, set_of(cell, size), size, address(local), sets + 8 * used)
                if count > width:
                    pack(sets + 8 * used, count, width)
                    count = np.int64(BITS)
                used += width if count == BITS else count
            if count != 0:
                at = cells + cell_count * 32
                store_int(at, 0, number)
                store_int(at, 1, load_int(cell, WEIGHT))
                store_int(at, 2, count)
                store_int(at, 3, begin)
                cell_count += 1
            cell = load_int(cell, NEXT)
        number += 1
    written[0] = cell_count
    written[1] = used
    return cells, sets


_HALVES = types.Array(types.int32, 1, "C")


@kernel((WORDS, types.int64, ROWS, ROWS, WORDS, types.int64, WORDS, _HALVES))
def hold_cells(
    words: np.ndarray,
    input_: int,
    rows: np.ndarray,
    cells: np.ndarray,
    sets: np.ndarray,
    width: int,
    numbers: np.ndarray,
    spare: np.ndarray,
) -> None:
    """Hold rows again with their cells, as `copy_cells` gives them.

    `numbers`: what the saved nodes are called now, above all nodes in use if they are gone;
    `spare`: room for all of them.
    """
    frame = address(words)
    feed = load_int(frame, FEEDS_AT) + input_ * (8 * FEED_WORDS)
    store_int(feed, FEED_MEMBERS_AT, address(spare))
    out = load_int(frame, SETS_AT)
    base, stride = address(rows), rows.shape[1] * 8
    for c in range(cells.shape[0]):
        kind, begin = cells[c, 2], cells[c, 3]
        if kind != ALL:
            count = 0
            if kind == BITS:
                for k in range(width):
                    word = sets[begin + k]
                    while word != 0:
                        bit = lowest(word)
                        word ^= np.int64(1) << np.int64(bit)
                        spare[count] = numbers[64 * k + bit]
                        count += 1
            else:
                for k in range(kind):
                    spare[count] = numbers[sets[begin + k]]
                    count += 1
            kind = expand(frame, feed, 0, count, out)
        if kind != 0:
            hold(frame, input_, base + cells[c, 0] * stride, cells[c, 1], kind)


@kernel((types.int64, types.int64))
def split_pairs(at: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of rows and nodes, apart."""
    index, members = np.empty(count, np.int32), np.empty(count, np.int32)
    for k in range(count):
        pair = load_int(at, k)
        index[k] = pair >> 32
        members[k] = pair & np.int64(0xFFFFFFFF)
    return index, members


@kernel()
def count_set(frame: int, kind: int, at: int, counts: int) -> None:
    """Count one more for each node of a set."""
    words = load_int(frame, WORDS_OF_SET)
    if kind == ALL:
        kind, at = np.int64(BITS), load_int(frame, EVERYONE_AT)
    if kind != BITS:
        for k in range(kind):
            node = load_int(at, k)
            store_int(counts, node, load_int(counts, node) + 1)
        return
    for k in range(words):
        word = load_int(at, k)
        while word != 0:
            node = 64 * k + lowest(word)
            word &= word - 1
            store_int(counts, node, load_int(counts, node) + 1)


@kernel((WORDS, types.int64, WORDS))
def count_rows(words: np.ndarray, input_: int, counts: np.ndarray) -> None:
    """Add to each node's count the rows of an input that it holds."""
    frame = address(words)
    store, size = _store(frame, input_), load_int(frame, WORDS_OF_SET)
    rows, stride = load_int(store, ROWS_AT), load_int(store, STRIDE)
    for slot in range(load_int(store, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        cell = first_cell(store, row)
        while cell != 0:
            count_set(frame, load_int(cell, KIND), set_of(cell, size), address(counts))
            cell = load_int(cell, NEXT)
