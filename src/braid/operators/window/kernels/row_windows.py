"""Windows by number of rows: the last rows of each input node and partition.

A *partition* is an input node with the values of some columns. It has a list of *cells*, one for each
of its last rows. For each output node, it has the oldest cell of the window and the number of its
rows. A row that comes moves each window by one row, however many rows the window has.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from braid.jit.hash_table import HashTable, Link, chains_for, first, insert, make_chains
from braid.jit.hashing import mix
from braid.jit.memory import resized
from braid.jit.records import Record, Words, i64, record
from braid.jit.row_keys import KeyColumn, hash_key, same_key
from braid.jit.rows import FREE
from braid.jit.runtime import WORDS, kernel
from braid.jit.vector import Vector, free_vector, push, reserve
from braid.operators.window.kernels.deltas import Arrivals, Leaving, event_at, write_visit
from braid.operators.window.kernels.row_slots import RowSlots, free_slot, keep_row, row_at


@record
class Cell(Record):
    """A row of a partition, and the cell of the next row, or -1; also the next free cell."""

    slot: i64
    next: i64


@record
class Window(Record):
    """The rows of an output node: the oldest cell, and how many there are."""

    oldest: i64
    count: i64


@record
class Partition(Link):
    """The last rows of an input node, with one window for each of its output nodes."""

    input: i64
    #: The oldest and the newest cell, or -1, and the number of cells.
    oldest: i64
    newest: i64
    length: i64
    windows: Annotated[Window, 1]


_HEADER = Partition.word("windows")
_WINDOW_WORDS = Window.stride // 8


@record
class Input(Record):
    """The output nodes of an input node: where they begin, and how many there are."""

    first: i64
    count: i64


@record
class Frame(Record):
    """All partitions. A partition is known by its first word in the pool."""

    slots: RowSlots
    leaving: Leaving
    #: Slots that nothing refers to once what leaves has been written.
    unused: Annotated[Vector, 1]
    table: Annotated[HashTable, 1]
    pool: Annotated[Vector, 1]
    partitions: i64
    cells: Cell
    cell_room: i64
    #: Cells ever used, and the first free one, or -1.
    cell_high: i64
    cell_free: i64
    #: The columns that a partition is of, and the first word of a row's columns.
    keys: KeyColumn
    keys_length: i64
    base: i64
    inputs: Input
    inputs_length: i64
    #: Output nodes, and the sizes of their windows.
    outs: Words
    sizes: Words


@kernel()
def _partition_at(frame: Frame, place: int) -> Partition:
    return Partition(frame.pool.items.after(place).address)


@kernel()
def _words(frame: Frame, input_: int) -> int:
    """The words of a partition."""
    return _HEADER + _WINDOW_WORDS * frame.inputs[input_].count


@kernel()
def _rechain(frame: Frame, chains: int) -> None:
    """Put all partitions into so many new chains."""
    table, place = frame.table, np.int64(0)
    make_chains(table, chains)
    while place < frame.pool.count:
        partition = _partition_at(frame, place)
        insert(table, place, partition.hash)
        place += _words(frame, partition.input)


@kernel()
def _row_hash(frame: Frame, row: Words, input_: int) -> int:
    return mix(hash_key(row, frame.base, frame.keys, frame.keys_length) + input_) & FREE


@kernel()
def _newest_row(frame: Frame, partition: Partition) -> Words:
    return row_at(frame.slots, frame.cells[partition.newest].slot)


@kernel((Frame.type,))
def rehash(frame: Frame) -> None:
    """Compute all hashes again, because the words of keys have changed."""
    place = np.int64(0)
    while place < frame.pool.count:
        partition = _partition_at(frame, place)
        partition.hash = _row_hash(frame, _newest_row(frame, partition), partition.input)
        place += _words(frame, partition.input)
    _rechain(frame, chains_for(frame.partitions))


@kernel()
def _new_partition(frame: Frame, hash_: int, input_: int) -> Partition:
    """An empty partition; others may have moved."""
    pool, table, words = frame.pool, frame.table, _words(frame, input_)
    place = pool.count
    reserve(pool, words, 64)
    pool.count = place + words
    table.links, table.link_size = Link(pool.items.address), 8
    for word in range(words):
        pool.items[place + word] = 0
    partition = _partition_at(frame, place)
    partition.hash, partition.input = hash_, input_
    partition.oldest, partition.newest = -1, -1
    frame.partitions += 1
    if frame.partitions > table.mask:
        _rechain(frame, 2 * chains_for(frame.partitions))
    else:
        insert(table, place, hash_)
    return partition


@kernel()
def _partition_of(frame: Frame, row: Words, key_hash: int, input_: int) -> Partition:
    """The partition of a row; others may have moved."""
    hash_, base = mix(key_hash + input_) & FREE, frame.base
    place = first(frame.table, hash_) if frame.partitions > 0 else np.int64(-1)
    while place >= 0:
        partition = _partition_at(frame, place)
        if partition.hash == hash_ and partition.input == input_:
            newest = _newest_row(frame, partition)
            if same_key(row, newest, base, frame.keys, frame.keys_length):
                return partition
        place = partition.next
    return _new_partition(frame, hash_, input_)


@kernel()
def _append(frame: Frame, partition: Partition, slot: int) -> int:
    """A new cell at the end of a partition's list."""
    cell = frame.cell_free
    if cell >= 0:
        frame.cell_free = frame.cells[cell].next
    else:
        cell = frame.cell_high
        if cell == frame.cell_room:
            frame.cell_room = max(16, cell + cell // 2)
            frame.cells = Cell(resized(frame.cells, 2 * frame.cell_room))
        frame.cell_high = cell + 1
    own = frame.cells[cell]
    own.slot, own.next = slot, -1
    if partition.newest >= 0:
        frame.cells[partition.newest].next = cell
    else:
        partition.oldest = cell
    partition.newest = cell
    partition.length += 1
    frame.slots.refs[slot] += 1
    return cell


@kernel()
def _drop_oldest(frame: Frame, partition: Partition) -> None:
    """No window has the oldest row of a partition any more."""
    refs, oldest = frame.slots.refs, partition.oldest
    cell = frame.cells[oldest]
    slot = cell.slot
    partition.oldest = cell.next
    partition.length -= 1
    cell.next, frame.cell_free = frame.cell_free, oldest
    refs[slot] -= 1
    if refs[slot] == 0:
        push(frame.unused, slot)


@kernel()
def _move_windows(frame: Frame, partition: Partition, cell: int, time: int, instant: int) -> int:
    """Let a new cell enter the windows of its partition; the most rows that a window has."""
    node, leaving, cells, needed = (
        frame.inputs[partition.input],
        frame.leaving,
        frame.cells,
        np.int64(0),
    )
    for j in range(node.count):
        window = partition.windows[j]
        if window.count == 0:
            window.oldest = cell
        if window.count < frame.sizes[node.first + j]:
            window.count += 1
        else:
            left = cells[window.oldest]
            window.oldest = left.next
            push(leaving.nodes, frame.outs[node.first + j])
            order = (instant << 32) | left.slot
            write_visit(leaving, time, order, left.slot, leaving.nodes.count - 1)
        needed = max(needed, window.count)
    return needed


@kernel((Frame.type, Arrivals.type))
def arrive(frame: Frame, arrivals: Arrivals) -> None:
    """Let events enter the windows, and write visits of the rows that leave."""
    kept, slot, hash_, instant = np.int64(-1), np.int64(-1), np.int64(0), np.int64(0)
    for k in range(arrivals.members_length):
        node, event = arrivals.members[k], arrivals.index[k]
        if node >= frame.inputs_length or frame.inputs[node].count == 0:
            continue
        row = event_at(arrivals, event)
        if event != kept:
            if kept >= 0 and event_at(arrivals, kept)[1] != row[1]:
                instant += 1
            slot = keep_row(frame.slots, row)
            hash_ = hash_key(row, frame.base, frame.keys, frame.keys_length)
            kept = event
        partition = _partition_of(frame, row, hash_, node)
        cell = _append(frame, partition, slot)
        if partition.length > _move_windows(frame, partition, cell, row[1], instant):
            _drop_oldest(frame, partition)


@kernel((Frame.type,))
def free_unused_rows(frame: Frame) -> None:
    """Free the slots that nothing refers to, after what leaves has been written."""
    unused = frame.unused
    for k in range(unused.count):
        free_slot(frame.slots, unused.items[k])
    free_vector(unused)


@kernel((Frame.type,))
def count_cells(frame: Frame) -> int:
    """How many cells all partitions have."""
    total, place = np.int64(0), np.int64(0)
    while place < frame.pool.count:
        partition = _partition_at(frame, place)
        total += partition.length
        place += _words(frame, partition.input)
    return total


@kernel((Frame.type,))
def count_windows(frame: Frame) -> int:
    """How many windows all partitions have."""
    return (frame.pool.count - _HEADER * frame.partitions) // _WINDOW_WORDS


@record
class SavedPartition(Record):
    """A partition outside: the input node, and the number of rows."""

    input: i64
    length: i64


@record
class Saved(Record):
    """Partitions outside: the slots of the rows of each, oldest first, side by side; and of each
    output node of each partition, how many rows its window has."""

    partitions: SavedPartition
    partitions_length: i64
    slots: Words
    held: Words


@kernel((Frame.type, Saved.type))
def save(frame: Frame, saved: Saved) -> None:
    """Copy all partitions out."""
    place, p, c, h = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while place < frame.pool.count:
        partition = _partition_at(frame, place)
        own = saved.partitions[p]
        own.input, own.length = partition.input, partition.length
        cell = partition.oldest
        for _ in range(partition.length):
            saved.slots[c] = frame.cells[cell].slot
            cell = frame.cells[cell].next
            c += 1
        for j in range(frame.inputs[partition.input].count):
            saved.held[h] = partition.windows[j].count
            h += 1
        place += _words(frame, partition.input)
        p += 1


@kernel((Frame.type, Saved.type, Input.type, WORDS, WORDS))
def load(frame: Frame, saved: Saved, inputs: Input, places: np.ndarray, nodes: np.ndarray) -> None:
    """Take saved partitions in, after members have come and gone.

    `inputs`: the input nodes as they were. Their output node j is now at `places[j]` of input node
    `nodes[j]`; -1: nobody's.
    """
    c, h = np.int64(0), np.int64(0)
    for p in range(saved.partitions_length):
        old, length = inputs[saved.partitions[p].input], saved.partitions[p].length
        node, longest = np.int64(-1), np.int64(0)
        for j in range(old.count):
            if places[old.first + j] >= 0:
                node = nodes[old.first + j]
                longest = max(longest, saved.held[h + j])
        if longest > 0:
            newest = row_at(frame.slots, saved.slots[c + length - 1])
            partition = _new_partition(frame, _row_hash(frame, newest, node), node)
            for k in range(longest):
                cell = _append(frame, partition, saved.slots[c + length - longest + k])
                for j in range(old.count):
                    place = places[old.first + j]
                    if place >= 0 and saved.held[h + j] == longest - k:
                        window = partition.windows[place]
                        window.oldest, window.count = cell, saved.held[h + j]
        c += length
        h += old.count
