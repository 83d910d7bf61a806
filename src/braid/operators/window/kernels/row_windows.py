"""Windows of rows: the last ones of each input node and partition.

Each input node and partition has a *record* and a list of *cells*, one for each of its last rows:
[slot, next cell]. Rows lie in slots (see `windows.py`), one copy for all lists. For each output
node the record has the oldest cell of its window and how many there are; a row that comes moves
each of these by one, however many rows the window has.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.runtime import address, kernel, load_int, store_int
from braid.operators.core.kernels.instances import canonical_float, is_null, mix
from braid.operators.window.kernels.windows import kept_row

#: Records of windows of rows: a hash table of where they are in the pool; cells, free ones.
(
    TABLE_AT,
    TABLE_SIZE,
    POOL_AT,
    POOL_ROOM,
    POOL_USED,
    CELLS_AT,
    CELLS_ROOM,
    CELLS_HIGH,
    CELLS_FREE,
    RECORDS,
    RECORD_NUMBERS,
) = range(11)

#: A record: hash, input node, oldest and newest cell, number of cells; then cursor and count of
#: each output node.
R_HASH, R_INPUT, R_HEAD, R_TAIL, R_LENGTH, R_OUTS = range(6)


@kernel()
def _key_hash(row: int, base: int, keys: int, count: int) -> int:
    """The hash of a partition; NULL is a value like others. Keys are pairs of a column and
    whether it has floats."""
    value = np.int64(0)
    for k in range(count):
        word, column = np.int64(0x5BD1E995), load_int(keys, 2 * k)
        if not is_null(row, column):
            word = np.int64(load_int(row, base + column))
            if load_int(keys, 2 * k + 1) != 0:
                word = canonical_float(word)
        value = mix(value + word + np.int64(0x9E3779B97F4A7C))
    return value


@kernel()
def _same_partition(a: int, b: int, base: int, keys: int, count: int) -> bool:
    for k in range(count):
        column = load_int(keys, 2 * k)
        null = is_null(a, column)
        if null != is_null(b, column):
            return False
        x, y = np.int64(load_int(a, base + column)), np.int64(load_int(b, base + column))
        if null or x == y:
            continue
        if load_int(keys, 2 * k + 1) == 0 or canonical_float(x) != canonical_float(y):
            return False
    return True


@kernel()
def _enter(hash_: int, offset: int, numbers: int) -> None:
    """Put a record that is not there into the table, which has room."""
    table, mask = load_int(numbers, TABLE_AT), load_int(numbers, TABLE_SIZE) - 1
    at = hash_ & mask
    while load_int(table, at) >= 0:
        at = (at + 1) & mask
    store_int(table, at, offset)


@kernel()
def _fill_table(numbers: int, counts: int) -> None:
    """Enter all records into the table anew."""
    for at in range(load_int(numbers, TABLE_SIZE)):
        store_int(load_int(numbers, TABLE_AT), at, -1)
    pool, offset = load_int(numbers, POOL_AT), np.int64(0)
    while offset < load_int(numbers, POOL_USED):
        _enter(load_int(pool, offset + R_HASH), offset, numbers)
        offset += R_OUTS + 2 * load_int(counts, load_int(pool, offset + R_INPUT))


@kernel()
def _grow_table(numbers: int, counts: int) -> None:
    """At most half full after one more record."""
    needed = load_int(numbers, RECORDS) + 1
    if 2 * needed <= load_int(numbers, TABLE_SIZE):
        return
    size = np.int64(16)
    while size < 4 * needed:
        size *= 2
    store_int(numbers, TABLE_AT, resized(load_int(numbers, TABLE_AT), size))
    store_int(numbers, TABLE_SIZE, size)
    _fill_table(numbers, counts)


@kernel()
def rehash(
    numbers: np.ndarray, counts: np.ndarray, rows: np.ndarray, base: int, keys: np.ndarray
) -> None:
    """The words of keys have changed."""
    place, width, offset = address(rows), np.int64(8 * rows.shape[1]), np.int64(0)
    pool, cells = numbers[POOL_AT], numbers[CELLS_AT]
    while offset < numbers[POOL_USED]:
        record = pool + 8 * offset
        row = place + width * load_int(cells, 2 * load_int(record, R_TAIL))
        node = np.int64(load_int(record, R_INPUT))
        hash_ = _key_hash(row, base, address(keys), keys.shape[0])
        store_int(record, R_HASH, mix(hash_ + node))
        offset += R_OUTS + 2 * counts[node]
    _fill_table(address(numbers), address(counts))


@kernel()
def _new_record(hash_: int, node: int, numbers: int, counts: int) -> int:
    """An empty record; where it is in the pool."""
    _grow_table(numbers, counts)
    offset, room = load_int(numbers, POOL_USED), load_int(numbers, POOL_ROOM)
    words = R_OUTS + 2 * load_int(counts, node)
    if offset + words > room:
        room = max(64, offset + words, room + room // 2)
        store_int(numbers, POOL_AT, resized(load_int(numbers, POOL_AT), room))
        store_int(numbers, POOL_ROOM, room)
    store_int(numbers, POOL_USED, offset + words)
    store_int(numbers, RECORDS, load_int(numbers, RECORDS) + 1)
    record = load_int(numbers, POOL_AT) + 8 * offset
    for word in range(words):
        store_int(record, word, 0)
    store_int(record, R_HASH, hash_)
    store_int(record, R_INPUT, node)
    store_int(record, R_HEAD, -1)
    store_int(record, R_TAIL, -1)
    _enter(hash_, offset, numbers)
    return offset


@kernel()
def _append(record: int, slot: int, numbers: int, refs: int) -> int:
    """A new cell at the end of a record's list."""
    cell = load_int(numbers, CELLS_FREE)
    if cell >= 0:
        following = load_int(load_int(numbers, CELLS_AT), 2 * cell + 1)
        store_int(numbers, CELLS_FREE, following)
    else:
        cell = load_int(numbers, CELLS_HIGH)
        if cell == load_int(numbers, CELLS_ROOM):
            room = max(16, cell + cell // 2)
            store_int(numbers, CELLS_AT, resized(load_int(numbers, CELLS_AT), 2 * room))
            store_int(numbers, CELLS_ROOM, room)
        store_int(numbers, CELLS_HIGH, cell + 1)
    cells, tail = load_int(numbers, CELLS_AT), load_int(record, R_TAIL)
    store_int(cells, 2 * cell, slot)
    store_int(cells, 2 * cell + 1, -1)
    if tail >= 0:
        store_int(cells, 2 * tail + 1, cell)
    else:
        store_int(record, R_HEAD, cell)
    store_int(record, R_TAIL, cell)
    store_int(record, R_LENGTH, load_int(record, R_LENGTH) + 1)
    store_int(refs, slot, load_int(refs, slot) + 1)
    return cell


@kernel()
def push(
    events: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
    base: int,
    keys: np.ndarray,
    starts: np.ndarray,
    counts: np.ndarray,
    outs: np.ndarray,
    sizes: np.ndarray,
    numbers: np.ndarray,
    rows: np.ndarray,
    refs: np.ndarray,
    slots: np.ndarray,
) -> tuple[int, int, int, int]:
    """Events in order, each with its nodes, into windows of rows.

    Returns what leaves, as (time, instant << 32 | slot, slot, output node), and the slots that are
    not needed after it is written: each as an address and a count.
    """
    source, place, width = address(events), address(rows), np.int64(rows.shape[1])
    refs_at, slots_at, counts_at = address(refs), address(slots), address(counts)
    keys_at, key_count, numbers_at = address(keys), np.int64(keys.shape[0]), address(numbers)
    visits_room, gone_room = np.int64(64), np.int64(64)
    visits, gone = resized(0, 4 * visits_room), resized(0, gone_room)
    visited, dropped = np.int64(0), np.int64(0)
    kept, slot, hash_, instant = np.int64(-1), np.int64(-1), np.int64(0), np.int64(0)
    for k in range(index.shape[0]):
        node = np.int64(members[k])
        if node >= counts.shape[0] or counts[node] == 0:
            continue
        event = np.int64(index[k])
        row = source + 8 * event * width
        if event != kept:
            if kept >= 0 and events[kept, 1] != events[event, 1]:
                instant += 1
            slot = kept_row(row, place, refs_at, slots_at, width)
            hash_ = _key_hash(row, base, keys_at, key_count)
            kept = event
        own = mix(hash_ + node)
        offset, at = np.int64(-1), own & (numbers[TABLE_SIZE] - 1)
        while numbers[TABLE_SIZE] > 0:
            offset = np.int64(load_int(numbers[TABLE_AT], at))
            if offset < 0:
                break
            record = numbers[POOL_AT] + 8 * offset
            if load_int(record, R_HASH) == own and load_int(record, R_INPUT) == node:
                newest = load_int(numbers[CELLS_AT], 2 * load_int(record, R_TAIL))
                if _same_partition(row, place + 8 * newest * width, base, keys_at, key_count):
                    break
            at = (at + 1) & (numbers[TABLE_SIZE] - 1)
        if offset < 0:
            offset = _new_record(own, node, numbers_at, counts_at)
        record = numbers[POOL_AT] + 8 * offset
        cell = _append(record, slot, numbers_at, refs_at)
        cells, needed = numbers[CELLS_AT], np.int64(0)
        for j in range(counts[node]):
            word = R_OUTS + 2 * j
            held = np.int64(load_int(record, word + 1))
            if held == 0:
                store_int(record, word, cell)
            if held < sizes[starts[node] + j]:
                held += 1
                store_int(record, word + 1, held)
            else:
                oldest = load_int(record, word)
                left = load_int(cells, 2 * oldest)
                store_int(record, word, load_int(cells, 2 * oldest + 1))
                if visited == visits_room:
                    visits_room *= 2
                    visits = resized(visits, 4 * visits_room)
                visit = visits + 32 * visited
                store_int(visit, 0, events[event, 1])
                store_int(visit, 1, (instant << 32) | left)
                store_int(visit, 2, left)
                store_int(visit, 3, outs[starts[node] + j])
                visited += 1
            needed = max(needed, held)
        if load_int(record, R_LENGTH) > needed:
            head = load_int(record, R_HEAD)
            left = load_int(cells, 2 * head)
            store_int(record, R_HEAD, load_int(cells, 2 * head + 1))
            store_int(record, R_LENGTH, load_int(record, R_LENGTH) - 1)
            store_int(cells, 2 * head + 1, numbers[CELLS_FREE])
            numbers[CELLS_FREE] = head
            refs[left] -= 1
            if refs[left] == 0:
                if dropped == gone_room:
                    gone_room *= 2
                    gone = resized(gone, gone_room)
                store_int(gone, dropped, left)
                dropped += 1
    return visits, visited, gone, dropped


@kernel()
def listed(numbers: np.ndarray, counts: np.ndarray) -> int:
    """How many cells all records have."""
    total, offset = np.int64(0), np.int64(0)
    while offset < numbers[POOL_USED]:
        record = numbers[POOL_AT] + 8 * offset
        total += load_int(record, R_LENGTH)
        offset += R_OUTS + 2 * counts[load_int(record, R_INPUT)]
    return total


@kernel()
def unrolled(
    numbers: np.ndarray, counts: np.ndarray, records: np.ndarray, cells: np.ndarray
) -> np.ndarray:
    """Records as (input node, number of cells), the slots of the cells; how many rows of its
    list each output node of a record has, side by side."""
    held = np.empty((numbers[POOL_USED] - R_OUTS * numbers[RECORDS]) // 2, np.int64)
    offset, r, c, h = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while offset < numbers[POOL_USED]:
        record = numbers[POOL_AT] + 8 * offset
        node, length = load_int(record, R_INPUT), load_int(record, R_LENGTH)
        records[r, 0], records[r, 1] = node, length
        cell = load_int(record, R_HEAD)
        for _ in range(length):
            cells[c] = load_int(numbers[CELLS_AT], 2 * cell)
            cell = load_int(numbers[CELLS_AT], 2 * cell + 1)
            c += 1
        for j in range(counts[node]):
            held[h] = load_int(record, R_OUTS + 2 * j + 1)
            h += 1
        offset += R_OUTS + 2 * counts[node]
        r += 1
    return held


@kernel()
def roll_up(
    records: np.ndarray,
    cells: np.ndarray,
    held: np.ndarray,
    old_starts: np.ndarray,
    old_counts: np.ndarray,
    places: np.ndarray,
    nodes: np.ndarray,
    base: int,
    keys: np.ndarray,
    counts: np.ndarray,
    numbers: np.ndarray,
    rows: np.ndarray,
    refs: np.ndarray,
) -> None:
    """The inverse of `unrolled`, after members have come and gone: what was output node j of an
    old input node is now at `places[j]` of input node `nodes[j]`; -1: nobody's."""
    address_, width = address(rows), np.int64(8 * rows.shape[1])
    numbers_at, refs_at = address(numbers), address(refs)
    c, h = np.int64(0), np.int64(0)
    for r in range(records.shape[0]):
        old, length = records[r, 0], records[r, 1]
        node, longest = np.int64(-1), np.int64(0)
        for j in range(old_counts[old]):
            if places[old_starts[old] + j] >= 0:
                node = nodes[old_starts[old] + j]
                longest = max(longest, held[h + j])
        if longest > 0:
            row = address_ + width * cells[c + length - 1]
            hash_ = mix(_key_hash(row, base, address(keys), keys.shape[0]) + node)
            offset = _new_record(hash_, node, numbers_at, address(counts))
            record = numbers[POOL_AT] + 8 * offset
            for k in range(longest):
                cell = _append(record, cells[c + length - longest + k], numbers_at, refs_at)
                for j in range(old_counts[old]):
                    place = places[old_starts[old] + j]
                    if place >= 0 and held[h + j] == longest - k:
                        store_int(record, R_OUTS + 2 * place, cell)
                        store_int(record, R_OUTS + 2 * place + 1, held[h + j])
        c += length
        h += old_counts[old]
