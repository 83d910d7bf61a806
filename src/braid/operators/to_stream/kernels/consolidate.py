"""Equal rows: netting their weights within an instant, and multisets of them.

Rows are of a delta channel: the last column is the weight, all others are compared. NULL equals
NULL, NaN equals NaN, and -0.0 equals 0.0; strings are equal if their codes are.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.runtime import address, kernel, load_int, store_int
from braid.operators.core.kernels.instances import canonical_float, is_null, mix
from braid.operators.window.kernels.windows import free_slot, kept_row

#: Rows of one instant that are compared one by one.
FEW = 8
#: Nodes of one row that are put in order of their weights, instead of looked through for each.
MANY = 32


# ---- equality ----


@kernel()
def row_hash(row: int, base: int, floats: int, columns: int) -> int:
    """A hash of the columns; `floats` says of each whether it is one."""
    value, masked = np.int64(0), np.int64(0)
    for word in range(2, base):
        masked |= load_int(row, word)
    for column in range(columns):
        word = np.int64(load_int(row, base + column))
        if load_int(floats, column) != 0:
            word = canonical_float(word)
        if masked != 0 and is_null(row, column):
            word = np.int64(0x5BD1E995)
        value = mix(value + word + np.int64(0x9E3779B97F4A7C))
    return value


@kernel()
def same_rows(a: int, b: int, base: int, floats: int, columns: int) -> bool:
    masked = np.int64(0)
    for word in range(2, base):
        if load_int(a, word) != load_int(b, word):
            return False
        masked |= load_int(a, word)
    for column in range(columns):
        x, y = np.int64(load_int(a, base + column)), np.int64(load_int(b, base + column))
        if x == y:
            continue
        if masked != 0 and is_null(a, column):
            continue
        if load_int(floats, column) == 0 or canonical_float(x) != canonical_float(y):
            return False
    return True


# ---- within an instant ----


@kernel()
def group_rows(
    rows: np.ndarray, base: int, floats: np.ndarray, heads: np.ndarray, following: np.ndarray
) -> int:
    """Equal rows of one instant as lists, the first of each in `heads`; how many lists."""
    n, count, begin = rows.shape[0], np.int64(0), np.int64(0)
    source, width = address(rows), np.int64(8 * rows.shape[1])
    floats_at, columns = address(floats), np.int64(floats.shape[0])
    hashes, tails = np.empty(n, np.int64), np.empty(n, np.int64)
    table = np.empty(_table_size(rows), np.int64)
    while begin < n:
        end = begin + 1
        while end < n and rows[end, 1] == rows[begin, 1]:
            end += 1
        own, mask = count, np.int64(-1)
        if end - begin > FEW:
            mask = np.int64(16)
            while mask < 2 * (end - begin):
                mask *= 2
            table[:mask] = -1
            mask -= 1
        for r in range(begin, end):
            following[r] = -1
            row, group, at = source + width * r, np.int64(-1), np.int64(0)
            if end - begin > 1:
                hashes[r] = row_hash(row, base, floats_at, columns)
            if mask < 0:
                for g in range(own, count):
                    if hashes[heads[g]] == hashes[r] and same_rows(
                        source + width * heads[g], row, base, floats_at, columns
                    ):
                        group = g
                        break
            else:
                at = hashes[r] & mask
                while table[at] >= 0:
                    g = table[at]
                    if hashes[heads[g]] == hashes[r] and same_rows(
                        source + width * heads[g], row, base, floats_at, columns
                    ):
                        group = g
                        break
                    at = (at + 1) & mask
            if group >= 0:
                following[tails[group]] = r
                tails[group] = r
            else:
                if mask >= 0:
                    table[at] = count
                heads[count] = tails[count] = r
                count += 1
        begin = end
    return count


@kernel()
def _table_size(rows: np.ndarray) -> int:
    """Room for the rows of the longest instant, at most half full."""
    longest, length = np.int64(0), np.int64(0)
    for r in range(rows.shape[0]):
        length = length + 1 if r > 0 and rows[r, 1] == rows[r - 1, 1] else np.int64(1)
        longest = max(longest, length)
    size = np.int64(16)
    while size < 2 * longest:
        size *= 2
    return size


@kernel()
def net_rows(
    weights: np.ndarray, heads: np.ndarray, following: np.ndarray, count: int
) -> np.ndarray:
    """The weight of each list."""
    out = np.empty(count, np.int64)
    for g in range(count):
        total, r = np.int64(0), heads[g]
        while r >= 0:
            total += weights[r]
            r = following[r]
        out[g] = total
    return out


@kernel()
def net_pairs(
    weights: np.ndarray,
    heads: np.ndarray,
    following: np.ndarray,
    count: int,
    index: np.ndarray,
    members: np.ndarray,
    sources: np.ndarray,
    nets: np.ndarray,
    out_index: np.ndarray,
    out_members: np.ndarray,
) -> tuple[int, int]:
    """The weight of each list for each node that has rows of it: a row for each weight that there
    is, with its nodes. `sources` has room for a row for each pair. How many rows and pairs."""
    starts = np.zeros(weights.shape[0] + 1, np.int64)
    highest = np.int64(0)
    for k in range(index.shape[0]):
        starts[index[k] + 1] += 1
        highest = max(highest, np.int64(members[k]))
    for r in range(weights.shape[0]):
        starts[r + 1] += starts[r]
    totals = np.zeros(highest + 1, np.int64)
    stamps = np.full(highest + 1, -1, np.int64)
    touched = np.empty(highest + 1, np.int64)
    n, pairs = np.int64(0), np.int64(0)
    for g in range(count):
        r = heads[g]
        if following[r] < 0:  # alone: as it is
            if starts[r + 1] > starts[r]:
                for k in range(starts[r], starts[r + 1]):
                    out_index[pairs], out_members[pairs] = n, members[k]
                    pairs += 1
                sources[n], nets[n] = r, weights[r]
                n += 1
            continue
        some = np.int64(0)
        while r >= 0:
            for k in range(starts[r], starts[r + 1]):
                node = members[k]
                if stamps[node] != g:
                    stamps[node] = g
                    totals[node] = 0
                    touched[some] = node
                    some += 1
                totals[node] += weights[r]
            r = following[r]
        ordered = some > MANY
        if ordered:
            chosen = touched[:some].copy()
            touched[:some] = chosen[np.argsort(totals[chosen])]
        while some > 0:
            net, left, before = totals[touched[some - 1]], np.int64(0), pairs
            if ordered:
                left = some
            for k in range(some):
                node = touched[left - 1] if ordered else touched[k]
                if totals[node] != net:
                    if ordered:
                        break
                    touched[left] = node
                    left += 1
                    continue
                if ordered:
                    left -= 1
                if net != 0:
                    out_index[pairs], out_members[pairs] = n, node
                    pairs += 1
            some = left
            if pairs > before:
                sources[n], nets[n] = heads[g], net
                n += 1
    return n, pairs


# ---- multisets ----


#: Multisets of rows, one bag for each node; a row is there once for all. Where they are, as words
#: behind one address: rows, refs and slots (see `operators/window/kernels/windows.py`), words of a row; hashes of rows, table
#: of slots by content and its size less one; entries; table of these by slot and bag, its size
#: less one; the first entry of each bag; numbers of entries: ever used, first free one, live ones;
#: the word of the first column, which columns have floats, how many columns there are.
(
    ROWS_AT,
    REFS_AT,
    SLOTS_AT,
    WIDTH,
    HASHES_AT,
    TABLE_AT,
    MASK,
    ENTRIES_AT,
    ENTRY_TABLE_AT,
    ENTRY_MASK,
    HEADS_AT,
    NUMBERS_AT,
    BASE,
    FLOATS_AT,
    COLUMNS,
    FRAME,
) = range(16)

#: An entry: slot, bag, how many copies (0: it is free), next and previous of the bag.
E_SLOT, E_BAG, E_COUNT, E_NEXT, E_PREVIOUS, ENTRY = range(6)
ENTRIES_HIGH, ENTRIES_FREE, ENTRIES_LIVE, ENTRY_NUMBERS = range(4)


@kernel()
def _entry_hash(slot: int, bag: int) -> int:
    return mix((np.int64(slot) << 32) ^ np.int64(bag))


@kernel()
def _home(number: int, frame: int, of_entries: bool) -> int:
    """The hash of a slot or of an entry."""
    if of_entries:
        entry = load_int(frame, ENTRIES_AT) + 8 * ENTRY * number
        return _entry_hash(load_int(entry, E_SLOT), load_int(entry, E_BAG))
    return load_int(load_int(frame, HASHES_AT), number)


@kernel()
def _close_gap(table: int, mask: int, gap: int, frame: int, of_entries: bool) -> None:
    """Take what is at `gap` out of an open hash table."""
    store_int(table, gap, -1)
    at = (gap + 1) & mask
    while load_int(table, at) >= 0:
        other = load_int(table, at)
        home = _home(other, frame, of_entries) & mask
        if ((at - home) & mask) >= ((at - gap) & mask):
            store_int(table, gap, other)
            store_int(table, at, -1)
            gap = at
        at = (at + 1) & mask


@kernel()
def _enter(number: int, table: int, mask: int, frame: int, of_entries: bool) -> None:
    at = _home(number, frame, of_entries) & mask
    while load_int(table, at) >= 0:
        at = (at + 1) & mask
    store_int(table, at, number)


@kernel()
def _slot_of(row: int, frame: int) -> int:
    """The slot of a row, which is a new one if there is none like it."""
    base, floats, columns = (
        load_int(frame, BASE),
        load_int(frame, FLOATS_AT),
        load_int(frame, COLUMNS),
    )
    rows, width = load_int(frame, ROWS_AT), load_int(frame, WIDTH)
    table, mask, hashes = (
        load_int(frame, TABLE_AT),
        load_int(frame, MASK),
        load_int(frame, HASHES_AT),
    )
    hash_ = row_hash(row, base, floats, columns)
    at = hash_ & mask
    while load_int(table, at) >= 0:
        slot = load_int(table, at)
        if load_int(hashes, slot) == hash_ and same_rows(
            row, rows + 8 * slot * width, base, floats, columns
        ):
            return slot
        at = (at + 1) & mask
    slot = kept_row(row, rows, load_int(frame, REFS_AT), load_int(frame, SLOTS_AT), width)
    store_int(hashes, slot, hash_)
    store_int(table, at, slot)
    return slot


@kernel()
def _drop_slot(slot: int, frame: int) -> None:
    table, mask = load_int(frame, TABLE_AT), load_int(frame, MASK)
    at = load_int(load_int(frame, HASHES_AT), slot) & mask
    while load_int(table, at) != slot:
        at = (at + 1) & mask
    _close_gap(table, mask, at, frame, False)
    free_slot(slot, load_int(frame, REFS_AT), load_int(frame, SLOTS_AT))


@kernel()
def _count(slot: int, bag: int, weight: int, frame: int) -> None:
    """So many more copies of a row in a bag."""
    table, mask = load_int(frame, ENTRY_TABLE_AT), load_int(frame, ENTRY_MASK)
    entries, numbers = load_int(frame, ENTRIES_AT), load_int(frame, NUMBERS_AT)
    at = _entry_hash(slot, bag) & mask
    while load_int(table, at) >= 0:
        number = load_int(table, at)
        entry = entries + 8 * ENTRY * number
        if load_int(entry, E_SLOT) == slot and load_int(entry, E_BAG) == bag:
            count = load_int(entry, E_COUNT) + weight
            store_int(entry, E_COUNT, count)
            if count == 0:
                _close_gap(table, mask, at, frame, True)
                _drop_entry(number, frame)
            return
        at = (at + 1) & mask
    number = load_int(numbers, ENTRIES_FREE)
    if number >= 0:
        store_int(numbers, ENTRIES_FREE, load_int(entries, ENTRY * number + E_NEXT))
    else:
        number = load_int(numbers, ENTRIES_HIGH)
        store_int(numbers, ENTRIES_HIGH, number + 1)
    store_int(numbers, ENTRIES_LIVE, load_int(numbers, ENTRIES_LIVE) + 1)
    store_int(table, at, number)
    entry = entries + 8 * ENTRY * number
    store_int(entry, E_SLOT, slot)
    store_int(entry, E_BAG, bag)
    store_int(entry, E_COUNT, weight)
    _link(number, frame)


@kernel()
def _link(number: int, frame: int) -> None:
    """Put an entry at the head of its bag's list."""
    entries, heads, refs = (
        load_int(frame, ENTRIES_AT),
        load_int(frame, HEADS_AT),
        load_int(frame, REFS_AT),
    )
    entry = entries + 8 * ENTRY * number
    slot, bag = load_int(entry, E_SLOT), load_int(entry, E_BAG)
    first = load_int(heads, bag)
    store_int(entry, E_NEXT, first)
    store_int(entry, E_PREVIOUS, -1)
    if first >= 0:
        store_int(entries, ENTRY * first + E_PREVIOUS, number)
    store_int(heads, bag, number)
    store_int(refs, slot, load_int(refs, slot) + 1)


@kernel()
def _drop_entry(number: int, frame: int) -> None:
    """Free an entry that is not in the table any more; its row stays until that is looked at."""
    entries, numbers, refs = (
        load_int(frame, ENTRIES_AT),
        load_int(frame, NUMBERS_AT),
        load_int(frame, REFS_AT),
    )
    entry = entries + 8 * ENTRY * number
    following, previous = load_int(entry, E_NEXT), load_int(entry, E_PREVIOUS)
    if previous >= 0:
        store_int(entries, ENTRY * previous + E_NEXT, following)
    else:
        store_int(load_int(frame, HEADS_AT), load_int(entry, E_BAG), following)
    if following >= 0:
        store_int(entries, ENTRY * following + E_PREVIOUS, previous)
    slot = load_int(entry, E_SLOT)
    store_int(refs, slot, load_int(refs, slot) - 1)
    store_int(entry, E_NEXT, load_int(numbers, ENTRIES_FREE))
    store_int(numbers, ENTRIES_FREE, number)
    store_int(numbers, ENTRIES_LIVE, load_int(numbers, ENTRIES_LIVE) - 1)


@kernel()
def index_bags(frame: np.ndarray, high: int, anew: bool) -> None:
    """Fill both tables, of the slots below `high`; `anew`: the words of rows have changed."""
    at, table, mask = address(frame), frame[TABLE_AT], frame[MASK]
    for place in range(mask + 1):
        store_int(table, place, -1)
    for slot in range(high):
        if load_int(frame[REFS_AT], slot) <= 0:
            continue
        if anew:
            row = frame[ROWS_AT] + 8 * frame[WIDTH] * slot
            hash_ = row_hash(row, frame[BASE], frame[FLOATS_AT], frame[COLUMNS])
            store_int(frame[HASHES_AT], slot, hash_)
        _enter(slot, table, mask, at, False)
    table, mask = frame[ENTRY_TABLE_AT], frame[ENTRY_MASK]
    for place in range(mask + 1):
        store_int(table, place, -1)
    for number in range(load_int(frame[NUMBERS_AT], ENTRIES_HIGH)):
        if load_int(frame[ENTRIES_AT], ENTRY * number + E_COUNT) != 0:
            _enter(number, table, mask, at, True)


@kernel()
def link_bags(frame: np.ndarray, count: int) -> None:
    """Make the lists of all bags anew; no entry is free."""
    for bag in range(count):
        store_int(frame[HEADS_AT], bag, -1)
    for number in range(load_int(frame[NUMBERS_AT], ENTRIES_HIGH)):
        _link(number, address(frame))


@kernel()
def empty_bags(gone: np.ndarray, frame: np.ndarray) -> None:
    """Nobody wants these bags any more."""
    at = address(frame)
    for k in range(gone.shape[0]):
        while load_int(frame[HEADS_AT], gone[k]) >= 0:
            entry = frame[ENTRIES_AT] + 8 * ENTRY * load_int(frame[HEADS_AT], gone[k])
            slot = load_int(entry, E_SLOT)
            _count(slot, gone[k], -load_int(entry, E_COUNT), at)
            if load_int(frame[REFS_AT], slot) == 0:
                _drop_slot(slot, at)


@kernel()
def _say(source: int, target: int, time: int, base: int, columns: int, out_base: int) -> None:
    """A row of a delta channel as a point event, which has no weight."""
    store_int(target, 0, time)
    store_int(target, 1, time)
    for word in range(2, out_base):
        store_int(target, word, load_int(source, word))
    for column in range(columns):
        store_int(target, out_base + column, load_int(source, base + column))


@kernel()
def follow_bags(
    rows: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
    bag_of: np.ndarray,
    times: np.ndarray,
    speakers: np.ndarray,
    spoken_of: np.ndarray,
    out_base: int,
    frame: np.ndarray,
    lengths: np.ndarray,
    offsets: np.ndarray,
) -> tuple[int, int, int, int]:
    """Deltas into bags; at each of `times` (in order) the node in `speakers` says all rows of its
    bag. Returns rows and pairs (row << 32 | node), each as an address and a count. `lengths` and
    `offsets` are room for a word for each slot, the first of zeros."""
    source, at, last_word = address(rows), address(frame), rows.shape[1] - 1
    base, columns = frame[BASE], frame[COLUMNS]
    words = out_base + columns
    room, pairs_room, found_room = np.int64(64), np.int64(64), np.int64(64)
    out, pairs = resized(0, words * room), resized(0, pairs_room)
    found, sorted_ = resized(0, 3 * found_room), resized(0, 2 * found_room)
    n, told, k, s = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while s < times.shape[0] or k < index.shape[0]:
        while k < index.shape[0] and (s == times.shape[0] or rows[index[k], 1] <= times[s]):
            row, slot = np.int64(index[k]), np.int64(-1)
            while k < index.shape[0] and index[k] == row:
                if members[k] < bag_of.shape[0] and bag_of[members[k]] >= 0:
                    if slot < 0:
                        slot = np.int64(_slot_of(source + 8 * row * (last_word + 1), at))
                    _count(slot, bag_of[members[k]], rows[row, last_word], at)
                k += 1
            if slot >= 0 and load_int(frame[REFS_AT], slot) == 0:
                _drop_slot(slot, at)
        if s == times.shape[0]:
            break
        time, some = times[s], np.int64(0)
        while s < times.shape[0] and times[s] == time:
            number = load_int(frame[HEADS_AT], spoken_of[s])
            while number >= 0:
                entry = frame[ENTRIES_AT] + 8 * ENTRY * number
                if load_int(entry, E_COUNT) > 0:
                    if some == found_room:
                        found_room *= 2
                        found = resized(found, 3 * found_room)
                        sorted_ = resized(sorted_, 2 * found_room)
                    store_int(found, 3 * some, load_int(entry, E_SLOT))
                    store_int(found, 3 * some + 1, speakers[s])
                    store_int(found, 3 * some + 2, load_int(entry, E_COUNT))
                    lengths[load_int(entry, E_SLOT)] += 1
                    some += 1
                number = load_int(entry, E_NEXT)
            s += 1
        # The nodes of each row side by side: its place is given when it is first seen.
        used = np.int64(0)
        for f in range(some):
            slot = load_int(found, 3 * f)
            if lengths[slot] > 0:
                offsets[slot] = used
                used += lengths[slot]
                lengths[slot] = -lengths[slot]
            store_int(sorted_, 2 * offsets[slot], load_int(found, 3 * f + 1))
            store_int(sorted_, 2 * offsets[slot] + 1, load_int(found, 3 * f + 2))
            offsets[slot] += 1
        for f in range(some):
            slot = load_int(found, 3 * f)
            last, first = offsets[slot], offsets[slot] + lengths[slot]
            copy, more = np.int64(1), lengths[slot] != 0
            lengths[slot] = 0
            while more:
                if n == room:
                    room *= 2
                    out = resized(out, words * room)
                row = frame[ROWS_AT] + 8 * frame[WIDTH] * slot
                _say(row, out + 8 * words * n, time, base, columns, out_base)
                more = False
                for j in range(first, last):
                    count = load_int(sorted_, 2 * j + 1)
                    if count >= copy:
                        if told == pairs_room:
                            pairs_room *= 2
                            pairs = resized(pairs, pairs_room)
                        store_int(pairs, told, (n << 32) | load_int(sorted_, 2 * j))
                        told += 1
                        more = more or count > copy
                n += 1
                copy += 1
    release(found)
    release(sorted_)
    return out, n, pairs, told
