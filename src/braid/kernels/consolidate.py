"""Equal rows: netting their weights within an instant, and multisets of them.

Rows are of a delta channel: the last column is the weight, all others are compared. NULL equals
NULL, NaN equals NaN, and -0.0 equals 0.0; strings are equal if their codes are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.kernels.instances import canonical_float, is_null, mix
from braid.kernels.memory import release, resized
from braid.kernels.runtime import address, kernel, load_int, store_int
from braid.kernels.windows import free_slot, kept_row

#: Rows of one instant that are compared one by one.
FEW = 8
#: Nodes of one row that are put in order of their weights, instead of looked through for each.
MANY = 32


# ---- equality ----


@kernel()
def row_hash(row: int, base: int, floats: np.ndarray) -> int:
    """A hash of the columns; `floats` says of each whether it is one."""
    value, masked = np.int64(0), np.int64(0)
    for word in range(2, base):
        masked |= load_int(row, word)
    for column in range(floats.shape[0]):
        word = np.int64(load_int(row, base + column))
        if floats[column]:
            word = canonical_float(word)
        if masked != 0 and is_null(row, column):
            word = np.int64(0x5BD1E995)
        value = mix(value + word + np.int64(0x9E3779B97F4A7C))
    return value


@kernel()
def same_rows(a: int, b: int, base: int, floats: np.ndarray) -> bool:
    masked = np.int64(0)
    for word in range(2, base):
        if load_int(a, word) != load_int(b, word):
            return False
        masked |= load_int(a, word)
    for column in range(floats.shape[0]):
        x, y = np.int64(load_int(a, base + column)), np.int64(load_int(b, base + column))
        if x == y:
            continue
        if masked != 0 and is_null(a, column):
            continue
        if not floats[column] or canonical_float(x) != canonical_float(y):
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
                hashes[r] = row_hash(row, base, floats)
            if mask < 0:
                for g in range(own, count):
                    if hashes[heads[g]] == hashes[r] and same_rows(
                        source + width * heads[g], row, base, floats
                    ):
                        group = g
                        break
            else:
                at = hashes[r] & mask
                while table[at] >= 0:
                    g = table[at]
                    if hashes[heads[g]] == hashes[r] and same_rows(
                        source + width * heads[g], row, base, floats
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


class Bags(NamedTuple):
    """Multisets of rows, one for each node: a row is there once for all.

    `rows`, `refs`, `slots`: see `windows.py`. `hashes` of the rows; `table` of slots by content.
    `entries`: slot, bag, count, next and previous of the bag; `entry_table` by slot and bag;
    `heads`: the first entry of each bag; `numbers`: entries ever used, first free one, live ones.
    """

    rows: np.ndarray
    refs: np.ndarray
    slots: np.ndarray
    hashes: np.ndarray
    table: np.ndarray
    entries: np.ndarray
    entry_table: np.ndarray
    heads: np.ndarray
    numbers: np.ndarray


E_SLOT, E_BAG, E_COUNT, E_NEXT, E_PREVIOUS, ENTRY = range(6)
ENTRIES_HIGH, ENTRIES_FREE, ENTRIES_LIVE, BAG_NUMBERS = range(4)


@kernel()
def _entry_hash(slot: int, bag: int) -> int:
    return mix((np.int64(slot) << 32) ^ np.int64(bag))


@kernel()
def _close_gap(table: np.ndarray, gap: int, bags: Bags, of_entries: bool) -> None:
    """Take what is at `gap` out of an open hash table."""
    mask = table.shape[0] - 1
    table[gap] = -1
    at = (gap + 1) & mask
    while table[at] >= 0:
        other = table[at]
        if of_entries:
            home = _entry_hash(bags.entries[other, E_SLOT], bags.entries[other, E_BAG]) & mask
        else:
            home = bags.hashes[other] & mask
        if ((at - home) & mask) >= ((at - gap) & mask):
            table[gap] = other
            table[at] = -1
            gap = at
        at = (at + 1) & mask


@kernel()
def _slot_of(row: int, base: int, floats: np.ndarray, bags: Bags) -> int:
    """The slot of a row, which is a new one if there is none like it."""
    hash_ = row_hash(row, base, floats)
    place, width = address(bags.rows), np.int64(bags.rows.shape[1])
    mask = bags.table.shape[0] - 1
    at = hash_ & mask
    while bags.table[at] >= 0:
        slot = bags.table[at]
        if bags.hashes[slot] == hash_ and same_rows(row, place + 8 * slot * width, base, floats):
            return slot
        at = (at + 1) & mask
    slot = kept_row(row, bags.rows, bags.refs, bags.slots, width, place)
    bags.hashes[slot] = hash_
    bags.table[at] = slot
    return slot


@kernel()
def _drop_slot(slot: int, bags: Bags) -> None:
    mask = bags.table.shape[0] - 1
    at = bags.hashes[slot] & mask
    while bags.table[at] != slot:
        at = (at + 1) & mask
    _close_gap(bags.table, at, bags, False)
    free_slot(slot, bags.refs, bags.slots)


@kernel()
def _count(slot: int, bag: int, weight: int, bags: Bags) -> None:
    """So many more copies of a row in a bag."""
    mask = bags.entry_table.shape[0] - 1
    at = _entry_hash(slot, bag) & mask
    entries = bags.entries
    while bags.entry_table[at] >= 0:
        entry = bags.entry_table[at]
        if entries[entry, E_SLOT] == slot and entries[entry, E_BAG] == bag:
            entries[entry, E_COUNT] += weight
            if entries[entry, E_COUNT] == 0:
                _close_gap(bags.entry_table, at, bags, True)
                _drop_entry(entry, bags)
            return
        at = (at + 1) & mask
    entry = bags.numbers[ENTRIES_FREE]
    if entry >= 0:
        bags.numbers[ENTRIES_FREE] = entries[entry, E_NEXT]
    else:
        entry = bags.numbers[ENTRIES_HIGH]
        bags.numbers[ENTRIES_HIGH] += 1
    bags.numbers[ENTRIES_LIVE] += 1
    bags.entry_table[at] = entry
    entries[entry, E_SLOT], entries[entry, E_BAG], entries[entry, E_COUNT] = slot, bag, weight
    entries[entry, E_NEXT], entries[entry, E_PREVIOUS] = bags.heads[bag], -1
    if bags.heads[bag] >= 0:
        entries[bags.heads[bag], E_PREVIOUS] = entry
    bags.heads[bag] = entry
    bags.refs[slot] += 1


@kernel()
def _drop_entry(entry: int, bags: Bags) -> None:
    """Free an entry that is not in the table any more; its row stays until `_apply` is done."""
    entries = bags.entries
    following, previous = entries[entry, E_NEXT], entries[entry, E_PREVIOUS]
    if previous >= 0:
        entries[previous, E_NEXT] = following
    else:
        bags.heads[entries[entry, E_BAG]] = following
    if following >= 0:
        entries[following, E_PREVIOUS] = previous
    bags.refs[entries[entry, E_SLOT]] -= 1
    entries[entry, E_COUNT] = 0
    entries[entry, E_NEXT] = bags.numbers[ENTRIES_FREE]
    bags.numbers[ENTRIES_FREE] = entry
    bags.numbers[ENTRIES_LIVE] -= 1


@kernel()
def index_bags(bags: Bags, base: int, floats: np.ndarray, anew: bool) -> None:
    """Fill both tables; `anew`: the words of rows have changed."""
    bags.table[:] = -1
    bags.entry_table[:] = -1
    place, width = address(bags.rows), np.int64(8 * bags.rows.shape[1])
    mask = bags.table.shape[0] - 1
    for slot in range(bags.slots[0]):
        if bags.refs[slot] <= 0:
            continue
        if anew:
            bags.hashes[slot] = row_hash(place + width * slot, base, floats)
        at = bags.hashes[slot] & mask
        while bags.table[at] >= 0:
            at = (at + 1) & mask
        bags.table[at] = slot
    mask = bags.entry_table.shape[0] - 1
    for entry in range(bags.numbers[ENTRIES_HIGH]):
        if bags.entries[entry, E_COUNT] == 0:
            continue
        at = _entry_hash(bags.entries[entry, E_SLOT], bags.entries[entry, E_BAG]) & mask
        while bags.entry_table[at] >= 0:
            at = (at + 1) & mask
        bags.entry_table[at] = entry


@kernel()
def link_bags(bags: Bags) -> None:
    """The lists of all bags, of the entries that have a count; there is no free entry."""
    bags.heads[:] = -1
    for entry in range(bags.numbers[ENTRIES_HIGH]):
        bag = bags.entries[entry, E_BAG]
        first = bags.heads[bag]
        bags.entries[entry, E_NEXT], bags.entries[entry, E_PREVIOUS] = first, -1
        if first >= 0:
            bags.entries[first, E_PREVIOUS] = entry
        bags.heads[bag] = entry
        bags.refs[bags.entries[entry, E_SLOT]] += 1


@kernel()
def empty_bags(gone: np.ndarray, bags: Bags) -> None:
    """Nobody wants these bags any more."""
    for k in range(gone.shape[0]):
        while bags.heads[gone[k]] >= 0:
            entry = bags.heads[gone[k]]
            slot = bags.entries[entry, E_SLOT]
            _count(slot, gone[k], -bags.entries[entry, E_COUNT], bags)
            if bags.refs[slot] == 0:
                _drop_slot(slot, bags)


@kernel()
def _apply(
    rows: np.ndarray,
    row: int,
    begin: int,
    end: int,
    members: np.ndarray,
    bag_of: np.ndarray,
    base: int,
    floats: np.ndarray,
    bags: Bags,
) -> None:
    """One delta, for the nodes of the pairs from begin to end."""
    slot = np.int64(-1)
    place, weight = address(rows) + 8 * row * rows.shape[1], rows[row, rows.shape[1] - 1]
    for k in range(begin, end):
        if members[k] >= bag_of.shape[0] or bag_of[members[k]] < 0:
            continue
        if slot < 0:
            slot = _slot_of(place, base, floats, bags)
        _count(slot, bag_of[members[k]], weight, bags)
    if slot >= 0 and bags.refs[slot] == 0:
        _drop_slot(slot, bags)


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
    base: int,
    out_base: int,
    floats: np.ndarray,
    bags: Bags,
) -> tuple[int, int, int, int]:
    """Deltas into bags; at each of `times` (in order) the node in `speakers` says all rows of its
    bag. Returns rows and pairs (row << 32 | node), each as an address and a count."""
    columns = np.int64(floats.shape[0])
    width = 8 * (out_base + columns)
    room, pairs_room = np.int64(64), np.int64(64)
    out, pairs = resized(0, (width // 8) * room), resized(0, pairs_room)
    n, told = np.int64(0), np.int64(0)
    found_room = np.int64(64)
    found = resized(0, 3 * found_room)
    lengths, offsets = (
        np.zeros(bags.rows.shape[0], np.int64),
        np.zeros(bags.rows.shape[0], np.int64),
    )
    held, held_width = address(bags.rows), np.int64(8 * bags.rows.shape[1])
    k, s = np.int64(0), np.int64(0)
    while s < times.shape[0] or k < index.shape[0]:
        while k < index.shape[0] and (s == times.shape[0] or rows[index[k], 1] <= times[s]):
            begin, row = k, np.int64(index[k])
            while k < index.shape[0] and index[k] == row:
                k += 1
            _apply(rows, row, begin, k, members, bag_of, base, floats, bags)
        if s == times.shape[0]:
            break
        time, some = times[s], np.int64(0)
        while s < times.shape[0] and times[s] == time:
            entry = bags.heads[spoken_of[s]]
            while entry >= 0:
                if bags.entries[entry, E_COUNT] > 0:
                    if some == found_room:
                        found_room *= 2
                        found = resized(found, 3 * found_room)
                    slot = bags.entries[entry, E_SLOT]
                    store_int(found, 3 * some, slot)
                    store_int(found, 3 * some + 1, speakers[s])
                    store_int(found, 3 * some + 2, bags.entries[entry, E_COUNT])
                    lengths[slot] += 1
                    some += 1
                entry = bags.entries[entry, E_NEXT]
            s += 1
        # The nodes of each row side by side: its place is given when it is first seen.
        sorted_ = resized(0, 2 * some)
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
            slot = np.int64(load_int(found, 3 * f))
            if lengths[slot] == 0:
                continue
            last, first = offsets[slot], offsets[slot] + lengths[slot]
            lengths[slot] = 0
            copy, more = np.int64(1), True
            while more:
                if n == room:
                    room *= 2
                    out = resized(out, (width // 8) * room)
                _say(held + held_width * slot, out + width * n, time, base, columns, out_base)
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
        release(sorted_)
    release(found)
    return out, n, pairs, told
