"""Windows of rows: the last ones of each input node and partition.

Each input node and partition has a *record* and a list of *cells*, one for each of its last rows:
[slot, next cell]. Rows lie in slots (see `windows.py`), one copy for all lists. For each output
node the record has the oldest cell of its window and how many there are; a row that comes moves
each of these by one, however many rows the window has.
"""

from __future__ import annotations

import numpy as np

from braid.kernels.instances import canonical_float, is_null, mix
from braid.kernels.memory import resized
from braid.kernels.runtime import address, kernel, load_int, store_int
from braid.kernels.windows import kept_row

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
def key_hash(row: int, base: int, keys: np.ndarray, floats: np.ndarray) -> int:
    """The hash of a partition; NULL is a value like others."""
    value = np.int64(0)
    for k in range(keys.shape[0]):
        word = np.int64(0x5BD1E995)
        if not is_null(row, keys[k]):
            word = np.int64(load_int(row, base + keys[k]))
            if floats[k]:
                word = canonical_float(word)
        value = mix(value + word + np.int64(0x9E3779B97F4A7C))
    return value


@kernel()
def _same_partition(a: int, b: int, base: int, keys: np.ndarray, floats: np.ndarray) -> bool:
    for k in range(keys.shape[0]):
        null = is_null(a, keys[k])
        if null != is_null(b, keys[k]):
            return False
        if null:
            continue
        x, y = load_int(a, base + keys[k]), load_int(b, base + keys[k])
        if x != y and (
            not floats[k] or canonical_float(np.int64(x)) != canonical_float(np.int64(y))
        ):
            return False
    return True


@kernel()
def _enter(hash_: int, offset: int, numbers: np.ndarray) -> None:
    """Put a record that is not there into the table, which has room."""
    table, mask = numbers[TABLE_AT], numbers[TABLE_SIZE] - 1
    at = hash_ & mask
    while load_int(table, at) >= 0:
        at = (at + 1) & mask
    store_int(table, at, offset)


@kernel()
def _grow_table(numbers: np.ndarray, counts: np.ndarray) -> None:
    """At most half full after one more record."""
    size = numbers[TABLE_SIZE]
    if 2 * (numbers[RECORDS] + 1) <= size:
        return
    size = max(np.int64(16), 4 * (numbers[RECORDS] + 1))
    rounded = np.int64(16)
    while rounded < size:
        rounded *= 2
    numbers[TABLE_AT] = resized(numbers[TABLE_AT], rounded)
    numbers[TABLE_SIZE] = rounded
    fill_table(numbers, counts)


@kernel()
def fill_table(numbers: np.ndarray, counts: np.ndarray) -> None:
    """Enter all records into the table anew."""
    for at in range(numbers[TABLE_SIZE]):
        store_int(numbers[TABLE_AT], at, -1)
    pool, offset = numbers[POOL_AT], np.int64(0)
    while offset < numbers[POOL_USED]:
        _enter(load_int(pool, offset + R_HASH), offset, numbers)
        offset += R_OUTS + 2 * counts[load_int(pool, offset + R_INPUT)]


@kernel()
def rehash(
    numbers: np.ndarray,
    counts: np.ndarray,
    rows: np.ndarray,
    base: int,
    keys: np.ndarray,
    floats: np.ndarray,
) -> None:
    """The words of keys have changed."""
    place, width, offset = address(rows), np.int64(8 * rows.shape[1]), np.int64(0)
    pool, cells = numbers[POOL_AT], numbers[CELLS_AT]
    while offset < numbers[POOL_USED]:
        record = pool + 8 * offset
        row = place + width * load_int(cells, 2 * load_int(record, R_TAIL))
        node = np.int64(load_int(record, R_INPUT))
        store_int(record, R_HASH, mix(key_hash(row, base, keys, floats) + node))
        offset += R_OUTS + 2 * counts[node]
    fill_table(numbers, counts)


@kernel()
def _new_record(hash_: int, node: int, numbers: np.ndarray, counts: np.ndarray) -> int:
    """An empty record; where it is in the pool."""
    _grow_table(numbers, counts)
    offset, words = numbers[POOL_USED], R_OUTS + 2 * counts[node]
    if offset + words > numbers[POOL_ROOM]:
        room = max(np.int64(64), offset + words, numbers[POOL_ROOM] + numbers[POOL_ROOM] // 2)
        numbers[POOL_AT] = resized(numbers[POOL_AT], room)
        numbers[POOL_ROOM] = room
    numbers[POOL_USED] = offset + words
    numbers[RECORDS] += 1
    record = numbers[POOL_AT] + 8 * offset
    for word in range(words):
        store_int(record, word, 0)
    store_int(record, R_HASH, hash_)
    store_int(record, R_INPUT, node)
    store_int(record, R_HEAD, -1)
    store_int(record, R_TAIL, -1)
    _enter(hash_, offset, numbers)
    return offset


@kernel()
def _append(record: int, slot: int, numbers: np.ndarray, refs: np.ndarray) -> int:
    """A new cell at the end of a record's list."""
    cell = numbers[CELLS_FREE]
    if cell >= 0:
        numbers[CELLS_FREE] = load_int(numbers[CELLS_AT], 2 * cell + 1)
    else:
        cell = numbers[CELLS_HIGH]
        if cell == numbers[CELLS_ROOM]:
            room = max(np.int64(16), cell + cell // 2)
            numbers[CELLS_AT] = resized(numbers[CELLS_AT], 2 * room)
            numbers[CELLS_ROOM] = room
        numbers[CELLS_HIGH] = cell + 1
    cells = numbers[CELLS_AT]
    store_int(cells, 2 * cell, slot)
    store_int(cells, 2 * cell + 1, -1)
    tail = load_int(record, R_TAIL)
    if tail >= 0:
        store_int(cells, 2 * tail + 1, cell)
    else:
        store_int(record, R_HEAD, cell)
    store_int(record, R_TAIL, cell)
    store_int(record, R_LENGTH, load_int(record, R_LENGTH) + 1)
    refs[slot] += 1
    return cell


@kernel()
def push(
    events: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
    base: int,
    keys: np.ndarray,
    floats: np.ndarray,
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
            slot = kept_row(row, rows, refs, slots, width, place)
            hash_ = key_hash(row, base, keys, floats)
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
                if _same_partition(row, place + 8 * newest * width, base, keys, floats):
                    break
            at = (at + 1) & (numbers[TABLE_SIZE] - 1)
        if offset < 0:
            offset = _new_record(own, node, numbers, counts)
        record = numbers[POOL_AT] + 8 * offset
        cell = _append(record, slot, numbers, refs)
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
    floats: np.ndarray,
    counts: np.ndarray,
    numbers: np.ndarray,
    rows: np.ndarray,
    refs: np.ndarray,
) -> None:
    """The inverse of `unrolled`, after members have come and gone: what was output node j of an
    old input node is now at `places[j]` of input node `nodes[j]`; -1: nobody's."""
    address_, width = address(rows), np.int64(8 * rows.shape[1])
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
            hash_ = mix(key_hash(row, base, keys, floats) + node)
            offset = _new_record(hash_, node, numbers, counts)
            record = numbers[POOL_AT] + 8 * offset
            for k in range(longest):
                cell = _append(record, cells[c + length - longest + k], numbers, refs)
                for j in range(old_counts[old]):
                    place = places[old_starts[old] + j]
                    if place >= 0 and held[h + j] == longest - k:
                        store_int(record, R_OUTS + 2 * place, cell)
                        store_int(record, R_OUTS + 2 * place + 1, held[h + j])
        c += length
        h += old_counts[old]
