"""The rows that a join holds, moved out and in, and cleaned of members that have gone.

Outside, members of rows are nodes of the input and not of the output: there are fewer of them,
and output nodes that come later on the same input nodes find the rows of those.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.memory import resized
from braid.jit.records import Halves, Record, Words, i64, record
from braid.jit.runtime import ROWS, WORDS, address, kernel
from braid.operators.core.kernels.instances import FREE
from braid.operators.core.kernels.node_sets import (
    ALL,
    BITS,
    lowest,
    meet,
    set_bit,
    set_of,
    shrink_cell,
    tidy_cells,
)
from braid.operators.join.kernels.frame import Frame, expand
from braid.operators.join.kernels.joins import hold
from braid.operators.join.kernels.store import (
    LINK_WORDS,
    Link,
    drop_slot,
    first_cell,
    link_all,
    make_heads,
    row_at,
)


@record
class SavedCell(Record):
    """A cell outside: the number of its row, its weight, the kind of its set, and where the words of
    the set begin."""

    row: i64
    weight: i64
    kind: i64
    begin: i64


_SAVED_WORDS = SavedCell.stride // 8


@kernel((Frame.type, types.int64, ROWS))
def copy_rows(frame: Frame, input_: int, out: np.ndarray) -> None:
    """Copy the rows of an input, in order of slots; their weights are 0."""
    store, count = frame.stores[input_], 0
    for slot in range(store.high):
        row = row_at(store, slot)
        if row[1] == FREE:
            continue
        for word in range(store.width - 1):
            out[count, word] = row[word]
        out[count, store.width - 1] = 0
        count += 1


@kernel((Frame.type, types.int64, WORDS, ROWS))
def write_words(frame: Frame, input_: int, places: np.ndarray, values: np.ndarray) -> None:
    """Replace some words of all rows, in order of slots; hashes are stale then."""
    store, count = frame.stores[input_], 0
    for slot in range(store.high):
        row = row_at(store, slot)
        if row[1] == FREE:
            continue
        for k in range(places.shape[0]):
            row[places[k]] = values[count, k]
        count += 1


@kernel((Frame.type, types.int64, types.int64, types.int64))
def build_index(frame: Frame, input_: int, number: int, size: int) -> None:
    """Chain all rows of an input in an index anew, in `size` chains or more."""
    store, index = frame.stores[input_], frame.indexes[number]
    index.links = Link(resized(index.links, LINK_WORDS * store.capacity))
    make_heads(index, size)
    link_all(store, index, True)


@kernel((Frame.type, types.int64))
def rehash(frame: Frame, input_: int) -> None:
    """Chain all rows of an input in all its indexes anew."""
    store = frame.stores[input_]
    number = store.index
    while number >= 0:
        index = frame.indexes[number]
        make_heads(index, index.mask + 1)
        link_all(store, index, True)
        number = index.following


@kernel((Frame.type, types.int64, Words.type))
def purge(frame: Frame, input_: int, gone: Words) -> None:
    """Take output nodes, as bits, out of all rows of an input; rows that nobody has are dropped."""
    store, pool, size, spare = frame.stores[input_], frame.pool, frame.set_words, frame.sets
    for slot in range(store.high):
        row = row_at(store, slot)
        if row[1] == FREE:
            continue
        first = first_cell(store, row)
        cell = first
        while cell.address != 0:
            kind = cell.kind
            if kind != ALL:
                both = meet(kind, set_of(cell, size), BITS, gone, spare, size)
                if both != 0:
                    shrink_cell(pool, cell, both, spare, size)
            cell = cell.next
        if not tidy_cells(pool, first, size):
            drop_slot(store, frame.indexes, slot)


@kernel()
def copy_set(kind: int, nodes: Words, size: int, local: Words, out: Words) -> int:
    """List the numbers of a set's input nodes; how many."""
    count = np.int64(0)
    if kind != BITS:
        for k in range(kind):
            node = local[nodes[k]]
            if node >= 0:
                out[count] = node
                count += 1
        return count
    for k in range(size):
        word = nodes[k]
        while word != 0:
            bit = lowest(word)
            word ^= np.int64(1) << np.int64(bit)
            node = local[64 * k + bit]
            if node >= 0:
                out[count] = node
                count += 1
    return count


@kernel()
def pack(nodes: Words, count: int, width: int) -> None:
    """Turn a list into bits of `width` words; there is room for both, one after the other."""
    bits = nodes.after(count)
    for word in range(width):
        bits[word] = 0
    for k in range(count):
        set_bit(bits, nodes[k])
    for word in range(width):
        nodes[word] = bits[word]


@kernel()
def unpack(
    sets: np.ndarray, kind: int, begin: int, width: int, numbers: np.ndarray, spare: np.ndarray
) -> int:
    """List the nodes of a saved set under their present numbers; how many."""
    count = np.int64(0)
    if kind != BITS:
        for k in range(kind):
            spare[k] = numbers[sets[begin + k]]
        return np.int64(kind)
    for k in range(width):
        word = sets[begin + k]
        while word != 0:
            bit = lowest(word)
            word ^= np.int64(1) << np.int64(bit)
            spare[count] = numbers[64 * k + bit]
            count += 1
    return count


@kernel((Frame.type, types.int64, Words.type, WORDS))
def copy_cells(
    frame: Frame, input_: int, local: Words, written: np.ndarray
) -> tuple[SavedCell, Words]:
    """The cells of an input's rows, and the words of their sets.

    `local`: for each output node, the number of its input node among those that are saved, or -1
    if another output node speaks for it. Sets are lists, or bits if those are shorter, of
    `written[0]` words. In `written` afterwards: how many cells and words there are.
    """
    store, size, width = frame.stores[input_], frame.set_words, written[0]
    cells, cells_room, cell_count = SavedCell(0), np.int64(0), np.int64(0)
    sets, sets_room, used = Words(0), np.int64(0), np.int64(0)
    longest = 64 * size + width
    number = np.int64(0)
    for slot in range(store.high):
        row = row_at(store, slot)
        if row[1] == FREE:
            continue
        cell = first_cell(store, row)
        while cell.address != 0:
            if cell_count == cells_room:
                cells_room = max(64, 2 * cells_room)
                cells = SavedCell(resized(cells, _SAVED_WORDS * cells_room))
            if used + longest > sets_room:
                sets_room = 2 * (used + longest)
                sets = Words(resized(sets, sets_room))
            count, begin = np.int64(ALL), used
            if cell.kind != ALL:
                own = sets.after(used)
                count = copy_set(cell.kind, set_of(cell, size), size, local, own)
                if count > width:
                    pack(own, count, width)
                    count = np.int64(BITS)
                used += width if count == BITS else count
            if count != 0:
                saved = cells[cell_count]
                saved.row = number
                saved.weight = cell.weight
                saved.kind = count
                saved.begin = begin
                cell_count += 1
            cell = cell.next
        number += 1
    written[0] = cell_count
    written[1] = used
    return cells, sets


_HALVES = types.Array(types.int32, 1, "C")


@kernel(
    (Frame.type, types.int64, ROWS, SavedCell.type, types.int64, WORDS, types.int64, WORDS, _HALVES)
)
def hold_cells(
    frame: Frame,
    input_: int,
    rows: np.ndarray,
    cells: SavedCell,
    count: int,
    sets: np.ndarray,
    width: int,
    numbers: np.ndarray,
    spare: np.ndarray,
) -> None:
    """Hold rows again with their cells, as `copy_cells` gives them.

    `numbers`: what the saved nodes are called now, above all nodes in use if they are gone;
    `spare`: room for all of them.
    """
    feed, base = frame.feeds[input_], Words(address(rows))
    feed.members = Halves(address(spare))
    for c in range(count):
        cell = cells[c]
        kind = cell.kind
        if kind != ALL:
            members = unpack(sets, kind, cell.begin, width, numbers, spare)
            kind = expand(frame, feed, 0, members, frame.sets)
        if kind != 0:
            hold(frame, input_, base.after(cell.row * rows.shape[1]), cell.weight, kind)


@kernel((Words.type, types.int64))
def split_pairs(pairs: Words, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of rows and nodes, apart."""
    index, members = np.empty(count, np.int32), np.empty(count, np.int32)
    for k in range(count):
        pair = pairs[k]
        index[k] = pair >> 32
        members[k] = pair & np.int64(0xFFFFFFFF)
    return index, members


@kernel()
def count_set(frame: Frame, kind: int, nodes: Words, counts: Words) -> None:
    """Count one more for each node of a set."""
    if kind == ALL:
        kind, nodes = np.int64(BITS), frame.everyone
    if kind != BITS:
        for k in range(kind):
            counts[nodes[k]] += 1
        return
    for k in range(frame.set_words):
        word = nodes[k]
        while word != 0:
            counts[64 * k + lowest(word)] += 1
            word &= word - 1


@kernel((Frame.type, types.int64, Words.type))
def count_rows(frame: Frame, input_: int, counts: Words) -> None:
    """Add to each node's count the rows of an input that it holds."""
    store, size = frame.stores[input_], frame.set_words
    for slot in range(store.high):
        row = row_at(store, slot)
        if row[1] == FREE:
            continue
        cell = first_cell(store, row)
        while cell.address != 0:
            count_set(frame, cell.kind, set_of(cell, size), counts)
            cell = cell.next
