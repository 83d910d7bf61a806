"""Windows: rows wait in one copy until the longest window over them is over.

A row lies in a *slot*, with a count of what refers to it. Its START word is its number in the
order of arrival: a row of a relation has no interval.

**Range.** Input nodes with the same list of sizes have one *profile*. A profile has a queue of
entries, [slot, number of bindings, bindings packed in pairs]; a *binding* is an input node with
its output nodes, one for each size. Each size has a cursor into the queue: what it passes leaves
the window of that size. So an event costs what it has of bindings and of profiles when it
comes, and what it has of output nodes when it leaves, however long it stays.

What leaves is written as *visits*: time, a number that orders them, slot, and the output nodes.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.runtime import address, kernel, load_int, store_int
from braid.operators.core.kernels.instances import mix

#: The end of time: what would leave a window after it stays.
LAST = np.int64(2**62)
NEVER = np.int64(2**63 - 1)
_LOW = np.int64(0xFFFFFFFF)

#: Slots: how many were ever used, the free ones (taken from the head, given back to the tail, so
#: that rows which come and leave in order lie in order), live ones, the number of the next row.
HIGH, FREE_HEAD, FREE_TAIL, LIVE, SEQUENCE, SLOT_NUMBERS = range(6)

#: A profile: where its queue is, room, first entry, end, last entry, the row that is of, when the
#: next one leaves, its first size and how many, whether something has left since `let_go`.
P_AT, P_ROOM, P_HEAD, P_TAIL, P_LATEST, P_OPEN, P_NEXT, P_FIRST, P_COUNT, P_TOUCHED = range(10)
PROFILE_WORDS = 10

#: A visit: time, order among those of one time, slot, its output nodes.
VISIT = 5


# ---- slots ----


@kernel()
def take_slot(refs: int, slots: int) -> int:
    """A slot that nobody uses; there is room."""
    slot = load_int(slots, FREE_HEAD)
    if slot >= 0:
        following = -2 - load_int(refs, slot)
        store_int(slots, FREE_HEAD, following)
        if following < 0:
            store_int(slots, FREE_TAIL, -1)
    else:
        slot = load_int(slots, HIGH)
        store_int(slots, HIGH, slot + 1)
    store_int(refs, slot, 0)
    store_int(slots, LIVE, load_int(slots, LIVE) + 1)
    return slot


@kernel()
def free_slot(slot: int, refs: int, slots: int) -> None:
    """Free slots are a list: `refs` has -2 less the next one, -1 at the end."""
    store_int(refs, slot, -1)
    tail = load_int(slots, FREE_TAIL)
    if tail >= 0:
        store_int(refs, tail, -2 - slot)
    else:
        store_int(slots, FREE_HEAD, slot)
    store_int(slots, FREE_TAIL, slot)
    store_int(slots, LIVE, load_int(slots, LIVE) - 1)


@kernel()
def free_slots(base: int, count: int, refs: np.ndarray, slots: np.ndarray) -> None:
    """Free a list of slots, and the list."""
    for k in range(count):
        free_slot(load_int(base, k), address(refs), address(slots))
    release(base)


@kernel()
def free_unused(refs: np.ndarray, slots: np.ndarray) -> None:
    """Make the list of free slots anew: all to which nothing refers."""
    refs_at, slots_at = address(refs), address(slots)
    slots[FREE_HEAD] = slots[FREE_TAIL] = -1
    slots[LIVE] = slots[HIGH]
    for slot in range(slots[HIGH]):
        if refs[slot] <= 0:
            free_slot(slot, refs_at, slots_at)


@kernel()
def kept_row(row: int, rows: int, refs: int, slots: int, width: int) -> int:
    """A copy of the row of so many words at an address, in a slot."""
    slot = take_slot(refs, slots)
    target = rows + 8 * slot * width
    for word in range(1, width):
        store_int(target, word, load_int(row, word))
    number = load_int(slots, SEQUENCE)
    store_int(target, 0, number)
    store_int(slots, SEQUENCE, number + 1)
    return slot


# ---- range ----


@kernel()
def _make_room(profile: int, cursors: int, words: int) -> None:
    """Room for so many more words at the end of a queue."""
    head, tail, room = (
        load_int(profile, P_HEAD),
        load_int(profile, P_TAIL),
        load_int(profile, P_ROOM),
    )
    at = load_int(profile, P_AT)
    if 2 * head > room:
        for word in range(head, tail):
            store_int(at, word - head, load_int(at, word))
        tail -= head
        store_int(profile, P_HEAD, 0)
        store_int(profile, P_TAIL, tail)
        store_int(profile, P_LATEST, load_int(profile, P_LATEST) - head)
        first = load_int(profile, P_FIRST)
        for c in range(first, first + load_int(profile, P_COUNT)):
            store_int(cursors, c, load_int(cursors, c) - head)
    if tail + words > room:
        room = max(16, tail + words, room + room // 2)
        store_int(profile, P_AT, resized(at, room))
        store_int(profile, P_ROOM, room)


@kernel()
def _enqueue(profile: int, slot: int, number: int, binding: int, cursors: int, refs: int) -> None:
    """Add a binding of a row to a profile's queue, in the row's own entry."""
    if load_int(profile, P_TAIL) + 3 > load_int(profile, P_ROOM):
        _make_room(profile, cursors, 3)
    at, tail = load_int(profile, P_AT), load_int(profile, P_TAIL)
    if load_int(profile, P_OPEN) != number:
        store_int(at, tail, slot)
        store_int(at, tail + 1, 1)
        store_int(at, tail + 2, binding)
        store_int(profile, P_LATEST, tail)
        store_int(profile, P_OPEN, number)
        store_int(profile, P_TAIL, tail + 3)
        store_int(refs, slot, load_int(refs, slot) + 1)
        return
    latest = load_int(profile, P_LATEST)
    count = load_int(at, latest + 1)
    if count & 1:
        store_int(at, tail - 1, load_int(at, tail - 1) | (binding << 32))
    else:
        store_int(at, tail, binding)
        store_int(profile, P_TAIL, tail + 1)
    store_int(at, latest + 1, count + 1)


@kernel()
def arrive(
    events: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
    current: np.ndarray,
    profile_of: np.ndarray,
    profiles: np.ndarray,
    sizes: np.ndarray,
    cursors: np.ndarray,
    rows: np.ndarray,
    refs: np.ndarray,
    slots: np.ndarray,
) -> None:
    """Keep the events that will leave a window; pairs of an event and a node, in order of events."""
    source, place, width = address(events), address(rows), np.int64(rows.shape[1])
    refs_at, slots_at, cursors_at = address(refs), address(slots), address(cursors)
    table = address(profiles)
    kept, slot, number = np.int64(-1), np.int64(-1), np.int64(-1)
    for k in range(index.shape[0]):
        if members[k] >= current.shape[0]:
            continue
        binding = current[members[k]]
        if binding < 0:
            continue
        event, p = np.int64(index[k]), profile_of[binding]
        end, least = events[event, 1], sizes[profiles[p, P_FIRST]]
        if least > LAST - 1 - end:
            continue
        if event != kept:
            number = slots[SEQUENCE]
            slot = kept_row(source + 8 * event * width, place, refs_at, slots_at, width)
            kept = event
        _enqueue(table + 8 * PROFILE_WORDS * p, slot, number, binding, cursors_at, refs_at)
        profiles[p, P_NEXT] = min(profiles[p, P_NEXT], end + least + 1)


@kernel()
def leave(
    bound: int,
    count: int,
    profiles: np.ndarray,
    sizes: np.ndarray,
    cursors: np.ndarray,
    outs_at: np.ndarray,
    outs: np.ndarray,
    rows: np.ndarray,
    silent: bool,
) -> tuple[int, int, int, int, int, int]:
    """Move the cursors over all that leaves before `bound`.

    Returns visits, output nodes and where runs begin (a run is in order of time and arrival),
    each as an address and a count. `silent`: that has been told already.
    """
    visits_room, nodes_room, runs_room = np.int64(64), np.int64(64), np.int64(16)
    visits, nodes, runs = resized(0, VISIT * visits_room), resized(0, nodes_room), resized(0, 16)
    visited, named, begun = np.int64(0), np.int64(0), np.int64(0)
    for p in range(count):
        if profiles[p, P_NEXT] >= bound:
            continue
        profiles[p, P_TOUCHED] = 1
        at, tail, next_time = profiles[p, P_AT], profiles[p, P_TAIL], NEVER
        first = profiles[p, P_FIRST]
        for c in range(first, first + profiles[p, P_COUNT]):
            size, place, before = sizes[c], cursors[c], visited
            while place < tail:
                slot, bindings = load_int(at, place), load_int(at, place + 1)
                end = rows[slot, 1]
                following = place + 2 + ((bindings + 1) >> 1)
                if size > LAST - 1 - end:
                    place = following
                    continue
                time = end + size + 1
                if time >= bound:
                    next_time = min(next_time, time)
                    break
                if not silent:
                    if visited == visits_room:
                        visits_room *= 2
                        visits = resized(visits, VISIT * visits_room)
                    if named + bindings > nodes_room:
                        nodes_room = 2 * (named + bindings)
                        nodes = resized(nodes, nodes_room)
                    begin = named
                    for j in range(bindings):
                        word = load_int(at, place + 2 + (j >> 1))
                        binding = (word >> 32) if j & 1 else (word & _LOW)
                        out = outs[outs_at[binding] + c - first]
                        if out >= 0:
                            store_int(nodes, named, out)
                            named += 1
                    if named > begin:
                        visit = visits + 8 * VISIT * visited
                        store_int(visit, 0, time)
                        store_int(visit, 1, rows[slot, 0])
                        store_int(visit, 2, slot)
                        store_int(visit, 3, begin)
                        store_int(visit, 4, named - begin)
                        visited += 1
                place = following
            cursors[c] = place
            if visited > before:
                if begun == runs_room:
                    runs_room *= 2
                    runs = resized(runs, runs_room)
                store_int(runs, begun, before)
                begun += 1
        profiles[p, P_NEXT] = next_time
    return visits, visited, nodes, named, runs, begun


@kernel()
def let_go(
    count: int,
    profiles: np.ndarray,
    cursors: np.ndarray,
    refs: np.ndarray,
    slots: np.ndarray,
) -> None:
    """Drop entries that all cursors have passed, and rows that no entry is of any more."""
    refs_at, slots_at = address(refs), address(slots)
    for p in range(count):
        if profiles[p, P_TOUCHED] == 0:
            continue
        profiles[p, P_TOUCHED] = 0
        at, head, slowest = profiles[p, P_AT], profiles[p, P_HEAD], profiles[p, P_TAIL]
        first, last = profiles[p, P_FIRST], profiles[p, P_FIRST] + profiles[p, P_COUNT]
        for c in range(first, last):
            slowest = min(slowest, cursors[c])
        while head < slowest:
            slot = load_int(at, head)
            head += 2 + ((load_int(at, head + 1) + 1) >> 1)
            refs[slot] -= 1
            if refs[slot] == 0:
                free_slot(slot, refs_at, slots_at)
        profiles[p, P_HEAD] = head
        if head == profiles[p, P_TAIL]:
            profiles[p, P_HEAD] = profiles[p, P_TAIL] = 0
            profiles[p, P_OPEN] = -1
            for c in range(first, last):
                cursors[c] = 0


@kernel()
def queued(count: int, profiles: np.ndarray) -> tuple[int, int]:
    """All bindings of all rows, as slot << 32 | binding: where, how many."""
    room, found = np.int64(64), np.int64(0)
    out = resized(0, room)
    for p in range(count):
        at, place = profiles[p, P_AT], profiles[p, P_HEAD]
        while place < profiles[p, P_TAIL]:
            slot, bindings = load_int(at, place), load_int(at, place + 1)
            if found + bindings > room:
                room = 2 * (found + bindings)
                out = resized(out, room)
            for j in range(bindings):
                word = load_int(at, place + 2 + (j >> 1))
                binding = (word >> 32) if j & 1 else (word & _LOW)
                store_int(out, found, (slot << 32) | binding)
                found += 1
            place += 2 + ((bindings + 1) >> 1)
    return out, found


@kernel()
def enqueue_all(
    pairs: np.ndarray,
    profile_of: np.ndarray,
    profiles: np.ndarray,
    cursors: np.ndarray,
    rows: np.ndarray,
    refs: np.ndarray,
) -> None:
    """Fill empty queues with pairs in order of arrival."""
    table, cursors_at, refs_at = address(profiles), address(cursors), address(refs)
    for k in range(pairs.shape[0]):
        slot, binding = pairs[k] >> 32, pairs[k] & _LOW
        p = profile_of[binding]
        if p < 0:
            continue
        profile = table + 8 * PROFILE_WORDS * p
        _enqueue(profile, slot, rows[slot, 0], binding, cursors_at, refs_at)
        profiles[p, P_NEXT] = -NEVER  # the next `leave` finds out


@kernel()
def list_words(starts: np.ndarray, sizes: np.ndarray, seed: int) -> np.ndarray:
    """A word for each list of sizes."""
    out = np.empty(starts.shape[0] - 1, np.int64)
    for k in range(out.shape[0]):
        value = np.int64(seed)
        for j in range(starts[k], starts[k + 1]):
            value = mix(value + sizes[j] + np.int64(0x9E3779B97F4A7C))
        out[k] = value
    return out


@kernel()
def merge_runs(source: np.ndarray, target: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Merge neighbouring runs of (time, order, visit); where the runs of the target begin."""
    count = starts.shape[0]
    out = np.empty((count + 1) // 2, np.int64)
    for r in range(out.shape[0]):
        low = starts[2 * r]
        out[r] = low
        middle = starts[2 * r + 1] if 2 * r + 1 < count else source.shape[0]
        high = starts[2 * r + 2] if 2 * r + 2 < count else source.shape[0]
        a, b = low, middle
        for k in range(low, high):
            first = a < middle
            if first and b < high:
                first = source[a, 0] < source[b, 0] or (
                    source[a, 0] == source[b, 0] and source[a, 1] <= source[b, 1]
                )
            if first:
                target[k, 0], target[k, 1], target[k, 2] = source[a, 0], source[a, 1], source[a, 2]
                a += 1
            else:
                target[k, 0], target[k, 1], target[k, 2] = source[b, 0], source[b, 1], source[b, 2]
                b += 1
    return out


# ---- output ----


@kernel()
def write_delta(
    source: int, target: int, time: int, weight: int, base: int, columns: int, out_base: int
) -> None:
    """A row of a stream as a row of a delta channel, which has one more column."""
    store_int(target, 0, time)
    store_int(target, 1, time)
    store_int(target, out_base - 1, 0)
    for word in range(2, base):
        store_int(target, word, load_int(source, word))
    for column in range(columns):
        store_int(target, out_base + column, load_int(source, base + column))
    store_int(target, out_base + columns, weight)


@kernel()
def write_deltas(
    events: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
    order: np.ndarray,
    visits: np.ndarray,
    nodes: np.ndarray,
    rows: np.ndarray,
    base: int,
    columns: int,
    out_base: int,
    out: np.ndarray,
    out_index: np.ndarray,
    out_members: np.ndarray,
) -> tuple[int, int]:
    """What comes (pairs of an event and an output node) and what leaves (visits, in order), in
    order of time; how many rows and pairs there are. Visits of one row at one time are one."""
    source, width = address(events), np.int64(8 * events.shape[1])
    held, target, out_width = address(rows), address(out), np.int64(8 * out.shape[1])
    k, v, n, pairs = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while k < index.shape[0] or v < order.shape[0]:
        coming = k < index.shape[0]
        if coming and v < order.shape[0]:
            coming = events[index[k], 1] <= visits[order[v], 0]
        if coming:
            event = np.int64(index[k])
            write_delta(
                source + width * event,
                target + out_width * n,
                events[event, 1],
                1,
                base,
                columns,
                out_base,
            )
            while k < index.shape[0] and index[k] == event:
                out_index[pairs], out_members[pairs] = n, members[k]
                pairs += 1
                k += 1
        else:
            time, slot = visits[order[v], 0], visits[order[v], 2]
            write_delta(
                held + width * slot, target + out_width * n, time, -1, base, columns, out_base
            )
            while (
                v < order.shape[0] and visits[order[v], 2] == slot and visits[order[v], 0] == time
            ):
                begin = visits[order[v], 3]
                for j in range(begin, begin + visits[order[v], 4]):
                    out_index[pairs], out_members[pairs] = n, nodes[j]
                    pairs += 1
                v += 1
        n += 1
    return n, pairs
