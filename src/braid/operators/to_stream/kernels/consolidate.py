"""Equal rows: netting their weights within an instant, and multisets of them.

Rows are of a delta channel: the last column is the weight, all others are compared. NULL equals
NULL, NaN equals NaN, and -0.0 equals 0.0; strings are equal if their codes are.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.hashing import canonical_float, mix
from braid.jit.memory import release, resized
from braid.jit.records import Record, Words, i64, record
from braid.jit.rows import is_null
from braid.jit.runtime import address, kernel
from braid.operators.window.kernels.row_slots import RowSlots, free_slot, keep_row, row_at

#: Up to so many rows of one instant are compared one by one.
FEW = 8
#: More nodes of one row than these are sorted by weight instead of scanned for each weight.
MANY = 32


@record
class Columns(Record):
    """The columns of rows that are compared: the first word, and for each whether it is a float."""

    base: i64
    floats: Words
    count: i64


# ---- equality ----


@kernel()
def row_hash(row: Words, columns: Columns) -> int:
    """A hash of the columns."""
    base, value, masked = columns.base, np.int64(0), np.int64(0)
    for word in range(2, base):
        masked |= row[word]
    for column in range(columns.count):
        word = np.int64(row[base + column])
        if columns.floats[column] != 0:
            word = canonical_float(word)
        if masked != 0 and is_null(row, column):
            word = np.int64(0x5BD1E995)
        value = mix(value + word + np.int64(0x9E3779B97F4A7C))
    return value


@kernel()
def same_rows(a: Words, b: Words, columns: Columns) -> bool:
    base, masked = columns.base, np.int64(0)
    for word in range(2, base):
        if a[word] != b[word]:
            return False
        masked |= a[word]
    for column in range(columns.count):
        x, y = np.int64(a[base + column]), np.int64(b[base + column])
        if x == y:
            continue
        if masked != 0 and is_null(a, column):
            continue
        if columns.floats[column] == 0 or canonical_float(x) != canonical_float(y):
            return False
    return True


# ---- within an instant ----


@kernel()
def group_rows(
    rows: np.ndarray, columns_words: np.ndarray, heads: np.ndarray, following: np.ndarray
) -> int:
    """Equal rows of one instant as lists, the first of each in `heads`; how many lists."""
    n, count, begin = rows.shape[0], np.int64(0), np.int64(0)
    source, width = Words(address(rows)), np.int64(rows.shape[1])
    columns = Columns(address(columns_words))
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
            row, group, at = source.after(width * r), np.int64(-1), np.int64(0)
            if end - begin > 1:
                hashes[r] = row_hash(row, columns)
            if mask < 0:
                for g in range(own, count):
                    if hashes[heads[g]] == hashes[r] and same_rows(
                        source.after(width * heads[g]), row, columns
                    ):
                        group = g
                        break
            else:
                at = hashes[r] & mask
                while table[at] >= 0:
                    g = table[at]
                    if hashes[heads[g]] == hashes[r] and same_rows(
                        source.after(width * heads[g]), row, columns
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


@record
class Entry(Record):
    """A row in a bag."""

    slot: i64
    bag: i64
    #: How many copies there are; 0: the entry is free.
    count: i64
    #: The neighbours in the list of the bag; `next` is the next free entry as well.
    next: i64
    previous: i64


@record
class Bags(Record):
    """Multisets of rows, one bag for each node. A row is stored once for all bags."""

    slots: RowSlots
    #: The hashes of rows, and a hash table of slots by content: its size is `mask` + 1.
    hashes: Words
    table: Words
    mask: i64
    #: Entries, and a hash table of them by slot and bag.
    entries: Entry
    entry_table: Words
    entry_mask: i64
    #: The first entry of each bag, or -1.
    heads: Words
    #: Entries ever used, the first free one, and how many are live.
    entry_high: i64
    entry_free: i64
    entry_live: i64
    columns: Columns


@kernel()
def _entry_hash(slot: int, bag: int) -> int:
    return mix((np.int64(slot) << 32) ^ np.int64(bag))


@kernel()
def _home(number: int, bags: Bags, of_entries: bool) -> int:
    """The hash of a slot or of an entry."""
    if of_entries:
        entry = bags.entries[number]
        return _entry_hash(entry.slot, entry.bag)
    return bags.hashes[number]


@kernel()
def _close_gap(table: Words, mask: int, gap: int, bags: Bags, of_entries: bool) -> None:
    """Remove the number at `gap` from an open hash table."""
    table[gap] = -1
    at = (gap + 1) & mask
    while table[at] >= 0:
        home = _home(table[at], bags, of_entries) & mask
        if ((at - home) & mask) >= ((at - gap) & mask):
            table[gap] = table[at]
            table[at] = -1
            gap = at
        at = (at + 1) & mask


@kernel()
def _enter(number: int, table: Words, mask: int, bags: Bags, of_entries: bool) -> None:
    at = _home(number, bags, of_entries) & mask
    while table[at] >= 0:
        at = (at + 1) & mask
    table[at] = number


@kernel()
def _slot_of(row: Words, bags: Bags) -> int:
    """The slot of a row: a new one if there is no equal row."""
    table, mask = bags.table, bags.mask
    hash_ = row_hash(row, bags.columns)
    at = hash_ & mask
    while table[at] >= 0:
        slot = table[at]
        if bags.hashes[slot] == hash_ and same_rows(row, row_at(bags.slots, slot), bags.columns):
            return slot
        at = (at + 1) & mask
    slot = keep_row(bags.slots, row)
    bags.hashes[slot] = hash_
    table[at] = slot
    return slot


@kernel()
def _drop_slot(slot: int, bags: Bags) -> None:
    at = bags.hashes[slot] & bags.mask
    while bags.table[at] != slot:
        at = (at + 1) & bags.mask
    _close_gap(bags.table, bags.mask, at, bags, False)
    free_slot(bags.slots, slot)


@kernel()
def _count(slot: int, bag: int, weight: int, bags: Bags) -> None:
    """So many more copies of a row in a bag."""
    table, mask, entries = bags.entry_table, bags.entry_mask, bags.entries
    at = _entry_hash(slot, bag) & mask
    while table[at] >= 0:
        number = table[at]
        entry = entries[number]
        if entry.slot == slot and entry.bag == bag:
            entry.count += weight
            if entry.count == 0:
                _close_gap(table, mask, at, bags, True)
                _drop_entry(number, bags)
            return
        at = (at + 1) & mask
    number = bags.entry_free
    if number >= 0:
        bags.entry_free = entries[number].next
    else:
        number = bags.entry_high
        bags.entry_high = number + 1
    bags.entry_live += 1
    table[at] = number
    entry = entries[number]
    entry.slot, entry.bag, entry.count = slot, bag, weight
    _link(number, bags)


@kernel()
def _link(number: int, bags: Bags) -> None:
    """Insert an entry at the head of its bag's list."""
    entry = bags.entries[number]
    first = bags.heads[entry.bag]
    entry.next, entry.previous = first, -1
    if first >= 0:
        bags.entries[first].previous = number
    bags.heads[entry.bag] = number
    bags.slots.refs[entry.slot] += 1


@kernel()
def _drop_entry(number: int, bags: Bags) -> None:
    """Free an entry that is no longer in the table. The caller frees its row."""
    entry = bags.entries[number]
    if entry.previous >= 0:
        bags.entries[entry.previous].next = entry.next
    else:
        bags.heads[entry.bag] = entry.next
    if entry.next >= 0:
        bags.entries[entry.next].previous = entry.previous
    bags.slots.refs[entry.slot] -= 1
    entry.next = bags.entry_free
    bags.entry_free = number
    bags.entry_live -= 1


@kernel((Bags.type, types.int64, types.boolean))
def index_bags(bags: Bags, high: int, anew: bool) -> None:
    """Fill both tables, of the slots below `high`; `anew`: the words of rows have changed."""
    for place in range(bags.mask + 1):
        bags.table[place] = -1
    for slot in range(high):
        if bags.slots.refs[slot] > 0:
            if anew:
                bags.hashes[slot] = row_hash(row_at(bags.slots, slot), bags.columns)
            _enter(slot, bags.table, bags.mask, bags, False)
    for place in range(bags.entry_mask + 1):
        bags.entry_table[place] = -1
    for number in range(bags.entry_high):
        if bags.entries[number].count != 0:
            _enter(number, bags.entry_table, bags.entry_mask, bags, True)


@kernel((Bags.type, types.int64))
def link_bags(bags: Bags, count: int) -> None:
    """Make the lists of all bags again; no entry is free."""
    for bag in range(count):
        bags.heads[bag] = -1
    for number in range(bags.entry_high):
        _link(number, bags)


@kernel((Words.type, types.int64, Bags.type))
def empty_bags(gone: Words, count: int, bags: Bags) -> None:
    """Remove all rows of bags that no member uses any more."""
    for k in range(count):
        while bags.heads[gone[k]] >= 0:
            entry = bags.entries[bags.heads[gone[k]]]
            slot = entry.slot
            _count(slot, gone[k], -entry.count, bags)
            if bags.slots.refs[slot] == 0:
                _drop_slot(slot, bags)


@kernel()
def _write_event(source: Words, target: Words, time: int, out_base: int, columns: Columns) -> None:
    """Write a row of a delta channel as a point event, which has no weight."""
    target[0], target[1] = time, time
    for word in range(2, out_base):
        target[word] = source[word]
    for column in range(columns.count):
        target[out_base + column] = source[columns.base + column]


@record
class Found(Record):
    """A row of a bag at an instant: its slot, the node that emits it, how many copies."""

    slot: i64
    node: i64
    count: i64


@record
class Copies(Record):
    """A node that emits a row, and how many copies of it."""

    node: i64
    count: i64


@kernel()
def follow_bags(
    rows: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
    bag_of: np.ndarray,
    times: np.ndarray,
    emitters: np.ndarray,
    emitted: np.ndarray,
    out_base: int,
    bags_words: np.ndarray,
    lengths: np.ndarray,
    offsets: np.ndarray,
) -> tuple[int, int, int, int]:
    """Apply deltas to bags. At each of `times`, in order, a node of `emitters` emits all rows of
    its bag, which `emitted` has. Returns rows and pairs (row << 32 | node), each as an address and
    a count. `lengths` and `offsets` have a word for each slot; those of `lengths` are zeros."""
    bags, source, last_word = Bags(address(bags_words)), Words(address(rows)), rows.shape[1] - 1
    words = out_base + bags.columns.count
    room, pairs_room, found_room = np.int64(64), np.int64(64), np.int64(64)
    out, pairs = Words(resized(0, words * room)), Words(resized(0, pairs_room))
    found, by_row = Found(resized(0, 3 * found_room)), Copies(resized(0, 2 * found_room))
    n, pair_count, k, s = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while s < times.shape[0] or k < index.shape[0]:
        while k < index.shape[0] and (s == times.shape[0] or rows[index[k], 1] <= times[s]):
            row, slot = np.int64(index[k]), np.int64(-1)
            while k < index.shape[0] and index[k] == row:
                if members[k] < bag_of.shape[0] and bag_of[members[k]] >= 0:
                    if slot < 0:
                        slot = np.int64(_slot_of(source.after(row * (last_word + 1)), bags))
                    _count(slot, bag_of[members[k]], rows[row, last_word], bags)
                k += 1
            if slot >= 0 and bags.slots.refs[slot] == 0:
                _drop_slot(slot, bags)
        if s == times.shape[0]:
            break
        time, some = times[s], np.int64(0)
        while s < times.shape[0] and times[s] == time:
            number = bags.heads[emitted[s]]
            while number >= 0:
                entry = bags.entries[number]
                if entry.count > 0:
                    if some == found_room:
                        found_room *= 2
                        found = Found(resized(found, 3 * found_room))
                        by_row = Copies(resized(by_row, 2 * found_room))
                    one = found[some]
                    one.slot, one.node, one.count = entry.slot, emitters[s], entry.count
                    lengths[entry.slot] += 1
                    some += 1
                number = entry.next
            s += 1
        # The nodes of each row side by side: the row gets its place when it is first seen.
        used = np.int64(0)
        for f in range(some):
            slot = found[f].slot
            if lengths[slot] > 0:
                offsets[slot] = used
                used += lengths[slot]
                lengths[slot] = -lengths[slot]
            copies = by_row[offsets[slot]]
            copies.node, copies.count = found[f].node, found[f].count
            offsets[slot] += 1
        for f in range(some):
            slot = found[f].slot
            last, first = offsets[slot], offsets[slot] + lengths[slot]
            copy, more = np.int64(1), lengths[slot] != 0
            lengths[slot] = 0
            while more:
                if n == room:
                    room *= 2
                    out = Words(resized(out, words * room))
                _write_event(
                    row_at(bags.slots, slot), out.after(words * n), time, out_base, bags.columns
                )
                more = False
                for j in range(first, last):
                    if by_row[j].count >= copy:
                        if pair_count == pairs_room:
                            pairs_room *= 2
                            pairs = Words(resized(pairs, pairs_room))
                        pairs[pair_count] = (n << 32) | by_row[j].node
                        pair_count += 1
                        more = more or by_row[j].count > copy
                n += 1
                copy += 1
    release(found)
    release(by_row)
    return out.address, n, pairs.address, pair_count
