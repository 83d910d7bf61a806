"""The loop of NEXT and FOLD: instances that wait for events, merged with them by time.

Instances hang in chains by the hash of the values that they have bound and that the predicate
compares for equality (the AI index), together with the constants that their group asks of an
event (the AN index); other tests and whatever is compiled are asked of those that are found. For
each epoch, that is all events of one `end`:

1. every event of the second input is shown to the instances from before the epoch: one that
   does not overlap the event and satisfies the predicate is *affected*;
   NEXT makes the composite; FOLD, if the rebind predicate holds, a new instance and its
   composite; the composite goes on along the forward edges of the members' states;
2. affected instances leave;
3. new instances, of FOLD and of the first input, are installed.

So an instance made in an epoch is invisible to the other events of it, and their order does
not matter. An instance that is older than every bound of its group can no longer yield a wanted
result and is dropped when it is met, and in a sweep when there are many.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.runtime import (
    PREDICATE_TYPE,
    ROWS,
    WORDS,
    WRITER_TYPE,
    address,
    kernel,
    load_half,
    load_int,
    predicate_at,
    prefetch,
    store_half,
    store_int,
    writer_at,
)
from braid.operators.core.kernels.clauses import atom_holds
from braid.operators.core.kernels.columnar_input import AT, MASK, PLACED, STRIDE, fill
from braid.operators.core.kernels.columnar_input import COUNT as COUNT_ALL
from braid.operators.core.kernels.instances import (
    ADDED,
    ALIAS_COUNT,
    ALIASES,
    ALLOWED,
    ARENA_LIMIT,
    ARENA_USED,
    BUDGET,
    C_LIVE,
    CLASS_COUNT,
    CLASS_WORDS,
    CLASSES,
    COUNT,
    DEAD,
    E_AT,
    E_ATOMS,
    E_HIGH,
    E_LOW,
    E_NEXT,
    E_OUT,
    E_PARAMETERS,
    E_TEST,
    EDGE_WORDS,
    EDGES,
    EMITTED,
    EVENT_BASE,
    FIRST_HEADS,
    FREE,
    G_AT,
    G_ATOMS,
    G_BOUND,
    G_PARAMETERS,
    GROUP,
    GROUP_WORDS,
    GROUPS,
    HASH,
    HEADS_AT,
    HEADS_MASK,
    INDEXED,
    ITERATES,
    LINK,
    OUT_BASE,
    PARAMETERS,
    RESIDUAL,
    ROWS_AT,
    S_BOUND,
    S_EDGE,
    S_GROUP,
    S_HIGH,
    S_LOW,
    S_NEXT,
    S_OUT,
    S_TEST,
    SET,
    SETS,
    STATE_COUNT,
    STATE_WORDS,
    STATES,
    STRINGS,
    SWEPT,
    WAYS,
    atoms_hold,
    class_of,
    compose,
    free_slot,
    hash_event,
    hash_instance,
    hash_ways,
    is_first_way,
    leads_somewhere,
    link_slot,
    rehash,
    same_keys,
    sweep_slots,
    take_slot,
    unlink,
    unlink_others,
)
from braid.operators.core.kernels.keys import key_of
from braid.operators.core.kernels.members import (
    SINGLE,
    compact_members,
    first_cell,
    is_worth_a_look,
    member_at,
    next_cell,
    state_of,
)
from braid.operators.pattern.kernels.counting import count_waiting
from braid.operators.pattern.kernels.start_instances import begin

#: In a pair: the node is a state whose edges are in an index.
MANY = np.int64(0x80000000)

#: How many events ahead memory is asked for.
AHEAD = 8

#: What a run puts out: rows (address, room, number), pairs of row and output node (address,
#: room, number), states that exceeded their budget (address, number, since when); and a list of
#: members that is used again and again.
(
    OUT_AT,
    OUT_ROOM,
    OUT_ROWS,
    PAIRS_AT,
    PAIRS_ROOM,
    PAIRS,
    STOPPED_AT,
    STOPPED_ROOM,
    STOPPED,
    CHOSEN_AT,
    CHOSEN_ROOM,
    CHOSEN,
) = range(12)


class Run(NamedTuple):
    """What a call gives back, in memory that belongs to the caller: `rows` output rows at an
    address, `pairs` words of row << 32 | node (or MANY | state), and two words (state, time) for each of the
    states that were `stopped` because of their budget."""

    output: int
    rows: int
    pairs_at: int
    pairs: int
    stopped_at: int
    stopped: int


@kernel()
def _pair(out: int, node: int) -> None:
    count, room = load_int(out, PAIRS), load_int(out, PAIRS_ROOM)
    if count == room:
        room *= 2
        store_int(out, PAIRS_AT, resized(load_int(out, PAIRS_AT), room))
        store_int(out, PAIRS_ROOM, room)
    store_int(load_int(out, PAIRS_AT), count, (load_int(out, OUT_ROWS) << 32) | node)
    store_int(out, PAIRS, count + 1)


@kernel()
def _forward(
    node: int, group: int, lasted: int, row: int, frame: int, out: int, accept: Any
) -> None:
    """Send the composite at `row` on from all states of a first node in a group."""
    state = state_of(node, frame)
    base = load_int(frame, OUT_BASE)
    while state >= 0:
        record = load_int(frame, STATES) + state * (8 * STATE_WORDS)
        bound = load_int(record, S_BOUND)
        test = load_int(record, S_TEST)
        holds = load_int(record, S_GROUP) == group and (bound == -1 or lasted <= bound)
        if holds and test >= 0:
            key = key_of(row, (test >> 16) & 0xFFFF, base, (test >> 8) & 255)
            holds = load_int(record, S_LOW) <= key <= load_int(record, S_HIGH)
            if holds and test >> 32 > 0:
                _pair(out, (test >> 32) - 1)
                holds = False
        if holds:
            if load_int(record, S_OUT) >= 0:
                _pair(out, load_int(record, S_OUT))
            if test == INDEXED:
                _pair(out, MANY | state)
            edge = load_int(record, S_EDGE)
            while edge >= 0:
                at = load_int(frame, EDGES) + edge * (8 * EDGE_WORDS)
                count = load_int(at, E_ATOMS)
                holds = True
                if count > 0:
                    test = load_int(at, E_TEST)
                    key = key_of(row, test >> 16, base, (test >> 8) & 255)
                    holds = atom_holds(
                        test & 255,
                        key,
                        load_int(at, E_LOW),
                        load_int(at, E_HIGH),
                        load_int(frame, SETS),
                    )
                    if holds and count > 1:
                        holds = atoms_hold(count - 1, load_int(at, E_AT), row, base, frame)
                own = load_int(at, E_PARAMETERS)
                if holds and own >= 0:
                    holds = accept(
                        np.int64(0),
                        row,
                        load_int(frame, PARAMETERS) + 8 * own,
                        load_int(frame, STRINGS),
                    )
                if holds:
                    _pair(out, load_int(at, E_OUT))
                edge = load_int(at, E_NEXT)
        state = load_int(record, S_NEXT)


@kernel()
def _push(list_: int, slot: int) -> None:
    """Append to a list of words: address, room, number."""
    count, room = load_int(list_, 2), load_int(list_, 1)
    if count == room:
        room *= 2
        store_int(list_, 0, resized(load_int(list_, 0), room))
        store_int(list_, 1, room)
    store_int(load_int(list_, 0), count, slot)
    store_int(list_, 2, count + 1)


@kernel()
def _choose(cell: int, row: int, numbers: int, frame: int, out: int) -> None:
    """List the members of an instance from whose states the composite at `row` may go on.

    Memory is slow: each round asks for what the next one looks at.
    """
    heads, base = load_int(frame, FIRST_HEADS), load_int(frame, OUT_BASE)
    at = cell
    while at >= 0:
        prefetch(heads + 16 * (member_at(at, numbers) & (SET - 1)))
        at = next_cell(at, numbers)
    store_int(out, CHOSEN, 0)
    while cell >= 0:
        node = member_at(cell, numbers)
        cell = next_cell(cell, numbers)
        if node & SET == 0 and not is_worth_a_look(load_int(heads, 2 * node + 1), row, base):
            continue
        prefetch(load_int(frame, STATES) + state_of(node, frame) * (8 * STATE_WORDS))
        _push(out + 8 * CHOSEN_AT, node)


@kernel()
def _emit(instance: int, event: int, numbers: int, frame: int, out: int, accept: Any) -> None:
    """The composite of an instance and an event, if some member goes on with it."""
    rows, room = load_int(out, OUT_ROWS), load_int(out, OUT_ROOM)
    words = load_int(frame, OUT_BASE) + load_int(frame, EMITTED)
    if rows == room:
        room *= 2
        store_int(out, OUT_AT, resized(load_int(out, OUT_AT), room * words))
        store_int(out, OUT_ROOM, room)
    row = load_int(out, OUT_AT) + rows * (8 * words)
    compose(row, instance, event, frame)
    before = load_int(out, PAIRS)
    lasted = load_int(row, 1) - load_int(row, 0)
    word = load_int(instance, load_int(frame, GROUP))
    cell = first_cell(word)
    if cell & SINGLE:
        node = member_at(cell, numbers)
        heads, base = load_int(frame, FIRST_HEADS), load_int(frame, OUT_BASE)
        if node & SET != 0 or is_worth_a_look(load_int(heads, 2 * node + 1), row, base):
            _forward(node, word >> 32, lasted, row, frame, out, accept)
    else:
        _choose(cell, row, numbers, frame, out)
        for k in range(load_int(out, CHOSEN)):
            node = load_int(load_int(out, CHOSEN_AT), k)
            _forward(node, word >> 32, lasted, row, frame, out, accept)
    if load_int(out, PAIRS) > before:
        store_int(out, OUT_ROWS, rows + 1)


@kernel()
def _check_budgets(now: int, numbers: int, stride: int, frame: int, out: int) -> None:
    """Stop every state that has more live instances than it may have."""
    budget = load_int(frame, BUDGET)
    sweep_slots(numbers, stride, frame, now)
    states = load_int(frame, STATE_COUNT)
    counts = resized(0, states)
    for state in range(states):
        store_int(counts, state, 0)
    count_waiting(frame, numbers, stride, now, counts)
    for k in range(load_int(frame, ALIAS_COUNT)):
        # What waits in a state of a set waits in the states that it stands for.
        alias = load_int(load_int(frame, ALIASES), 2 * k)
        state = load_int(load_int(frame, ALIASES), 2 * k + 1)
        store_int(counts, state, load_int(counts, state) + load_int(counts, alias))
    for k in range(load_int(frame, ALIAS_COUNT)):
        store_int(counts, load_int(load_int(frame, ALIASES), 2 * k), 0)
    most = np.int64(0)
    before = load_int(out, STOPPED)
    for state in range(states):
        count = load_int(counts, state)
        if count > budget:
            store_int(load_int(frame, STATES) + state * (8 * STATE_WORDS), S_BOUND, DEAD)
            _push(out + 8 * STOPPED_AT, state)
            _push(out + 8 * STOPPED_AT, now)
        else:
            most = max(most, count)
    release(counts)
    if load_int(out, STOPPED) > before:
        compact_members(numbers, stride, frame, False)
        rehash(load_int(numbers, HEADS_MASK) + 1, numbers, stride, frame)
    store_int(numbers, ADDED, 0)
    store_int(numbers, ALLOWED, budget - most)


@kernel(
    (
        WORDS,
        WORDS,
        ROWS,
        WORDS,
        ROWS,
        WORDS,
        PREDICATE_TYPE,
        PREDICATE_TYPE,
        PREDICATE_TYPE,
        WRITER_TYPE,
    )
)
def follow(
    frame_words: np.ndarray,
    slots: np.ndarray,
    first: np.ndarray,
    pairs: np.ndarray,
    second: np.ndarray,
    arriving: np.ndarray,
    predicate: Any,
    rebind: Any,
    accept: Any,
    write: Any,
) -> Run:
    """Run a batch of whole epochs through one step; see the module's text.

    `first` and `second` are rows sorted by `end`; `pairs` are words row << 32 | node of the
    first input, sorted. `arriving`: the ring that second events come through, instead of rows
    that are there, or nothing.
    """
    predicate, rebind = predicate_at(predicate), predicate_at(rebind)
    accept, write = predicate_at(accept), writer_at(write)
    # Only addresses in the loop: what touches an array variable there counts references, and
    # atomic counters cost more than all the rest of it.
    numbers, frame = address(slots), address(frame_words)
    link, hash_, place = frame_words[LINK], frame_words[HASH], frame_words[GROUP]
    stride = 8 * (place + 1)
    groups, event_base = frame_words[GROUPS], frame_words[EVENT_BASE]
    iterates, residual = frame_words[ITERATES] != 0, frame_words[RESIDUAL] != 0
    parameters, strings = frame_words[PARAMETERS], frame_words[STRINGS]
    classes, class_count = frame_words[CLASSES], frame_words[CLASS_COUNT]
    ways = frame_words[WAYS]
    pairs_n, second_n = pairs.shape[0], second.shape[0]
    pairs_from = address(pairs)
    first_at, first_stride = address(first), np.int64(first.shape[1] * 8)
    second_at, second_stride = address(second), np.int64(second.shape[1] * 8)
    ring, turn, placed = address(arriving), np.int64(-1), second_n
    if arriving.shape[0] > 0:
        second_n, second_stride, placed = arriving[COUNT_ALL], arriving[STRIDE], np.int64(0)
    out_words = np.zeros(12, np.int64)
    out = address(out_words)
    out_words[OUT_ROOM], out_words[PAIRS_ROOM] = 1024, 1024
    out_words[OUT_AT] = resized(0, 1024 * (frame_words[OUT_BASE] + frame_words[EMITTED]))
    out_words[PAIRS_AT] = resized(0, 1024)
    out_words[STOPPED_AT], out_words[STOPPED_ROOM] = resized(0, 16), 16
    out_words[CHOSEN_AT], out_words[CHOSEN_ROOM] = resized(0, 16), 16
    lists = np.zeros(6, np.int64)
    affected, pending = address(lists), address(lists) + 24
    lists[0], lists[1], lists[3], lists[4] = resized(0, 16), 16, resized(0, 16), 16
    p, s = 0, 0
    while p < pairs_n or s < second_n:
        if s + 2 * AHEAD >= placed and placed < second_n:
            fill(ring, s, min(second_n, s + 2 * AHEAD + 1))
            second_at, turn, placed = arriving[AT], arriving[MASK], arriving[PLACED]
        # The next epoch: the smallest end that either input still has.
        now = FREE
        if p < pairs_n:
            now = load_int(first_at + (load_int(pairs_from, p) >> 32) * first_stride, 1)
        if s < second_n:
            now = min(now, load_int(second_at + (s & turn) * second_stride, 1))
        until = s
        while until < second_n:
            if until == placed:
                fill(ring, s, until + 1)
                second_at, turn, placed = arriving[AT], arriving[MASK], arriving[PLACED]
            if load_int(second_at + (until & turn) * second_stride, 1) != now:
                break
            until += 1
        alone = until - s == 1
        heads_at, mask = load_int(numbers, HEADS_AT), load_int(numbers, HEADS_MASK)
        rows_at = load_int(numbers, ROWS_AT)
        if class_count == 1 and until + AHEAD < placed:
            # Memory is slow: ask for the chains of the events that come next.
            event = second_at + ((until + AHEAD) & turn) * second_stride
            prefetch(heads_at + 8 * (hash_event(event, 0, 0, frame) & mask))
            event = second_at + ((until + AHEAD // 2) & turn) * second_stride
            prefetch(rows_at + load_int(heads_at, hash_event(event, 0, 0, frame) & mask) * stride)
        for e in range(s, until):
            if load_int(numbers, COUNT) == 0:
                break
            event = second_at + (e & turn) * second_stride
            began = load_int(event, 0)
            class_, way = np.int64(0), np.int64(-1)
            for _ in range(class_count * ways):
                way += 1
                if way == ways:
                    class_, way = class_ + 1, np.int64(0)
                if load_int(classes + class_ * (8 * CLASS_WORDS), C_LIVE) == 0:
                    continue
                h = hash_event(event, class_, way, frame)
                if h < 0:
                    continue
                bucket, linked = way * (mask + 1) + (h & mask), link + 2 * way
                hashed = hash_ + 2 * way
                previous, slot = np.int64(-1), load_int(heads_at, bucket)
                while slot >= 0:
                    instance = rows_at + slot * stride
                    following = np.int64(load_half(instance, linked))
                    prefetch(rows_at + following * stride)
                    group = groups + (load_int(instance, place) >> 32) * (8 * GROUP_WORDS)
                    bound = load_int(group, G_BOUND)
                    if bound >= 0 and now - load_int(instance, 0) > bound:
                        # Too old to give anything any more.
                        if previous < 0:
                            store_int(heads_at, bucket, following)
                        else:
                            store_half(rows_at + previous * stride, linked, following)
                        if ways > 1:
                            unlink_others(slot, way, rows_at, stride, heads_at, mask, frame)
                        free_slot(slot, rows_at, stride, numbers, frame)
                        slot = following
                        continue
                    own = parameters + 8 * load_int(group, G_PARAMETERS)
                    if (
                        load_half(instance, hashed) != h
                        or load_int(instance, 1) >= began
                        or not same_keys(instance, event, class_, group, frame)
                        or (ways > 1 and not is_first_way(instance, event, way, group, frame))
                        or not atoms_hold(
                            load_int(group, G_ATOMS),
                            load_int(group, G_AT),
                            event,
                            event_base,
                            frame,
                        )
                        or (residual and not predicate(instance, event, own, strings))
                    ):
                        previous = slot
                        slot = following
                        continue
                    # The event affects this instance.
                    goes_on = False
                    if not iterates:
                        _emit(instance, event, numbers, frame, out, accept)
                    else:
                        goes_on = rebind(instance, event, own, strings)
                    if not alone:
                        # Others of this epoch must still find it as it is: successors are made
                        # aside.
                        if goes_on:
                            made = take_slot(numbers, stride, frame)
                            rows_at = load_int(numbers, ROWS_AT)
                            instance = rows_at + slot * stride
                            store_int(numbers, COUNT, load_int(numbers, COUNT) + 1)
                            successor = rows_at + made * stride
                            for word in range(place + 1):
                                store_int(successor, word, load_int(instance, word))
                            counted = class_of(successor, frame)
                            store_int(counted, C_LIVE, load_int(counted, C_LIVE) + 1)
                            write(instance, event, own, strings, successor)
                            store_int(successor, 1, now)
                            hash_ways(successor, group, frame)
                            _emit(successor, event, numbers, frame, out, accept)
                            _push(pending, made)
                            store_int(numbers, ADDED, load_int(numbers, ADDED) + 1)
                        _push(affected, slot)
                        previous = slot
                        slot = following
                        continue
                    changed = np.int64(-1)
                    if goes_on:
                        # Nobody else looks at it in this epoch: it becomes its own successor.
                        write(instance, event, own, strings, instance)
                        store_int(instance, 1, now)
                        _emit(instance, event, numbers, frame, out, accept)
                        changed = hash_instance(instance, group, way, frame)
                    if changed == h and ways == 1:
                        previous = slot
                    else:
                        if previous < 0:
                            store_int(heads_at, bucket, following)
                        else:
                            store_half(rows_at + previous * stride, linked, following)
                        if ways > 1:
                            unlink_others(slot, way, rows_at, stride, heads_at, mask, frame)
                        if goes_on and hash_ways(instance, group, frame):
                            _push(pending, slot)
                        else:
                            free_slot(slot, rows_at, stride, numbers, frame)
                    slot = following
        s = until
        for k in range(lists[2]):
            slot = load_int(lists[0], k)
            # Several events may have affected the same one.
            if load_int(rows_at + slot * stride, 1) != FREE:
                unlink(slot, rows_at, stride, heads_at, mask, frame)
                free_slot(slot, rows_at, stride, numbers, frame)
        for k in range(lists[5]):
            slot = load_int(lists[3], k)
            if leads_somewhere(rows_at + slot * stride, frame):
                link_slot(slot, rows_at, stride, heads_at, mask, frame)
            else:
                free_slot(slot, rows_at, stride, numbers, frame)
        lists[2], lists[5] = 0, 0
        p = begin(p, pairs_from, pairs_n, first_at, first_stride, now, numbers, stride, frame)
        count, swept = load_int(numbers, COUNT), load_int(numbers, SWEPT)
        if count > 2 * (load_int(numbers, HEADS_MASK) + 1):
            rehash(2 * (load_int(numbers, HEADS_MASK) + 1), numbers, stride, frame)
        if 8 * count > 9 * swept + 8192:
            sweep_slots(numbers, stride, frame, now)
        if load_int(numbers, ARENA_USED) > load_int(numbers, ARENA_LIMIT):
            sweep_slots(numbers, stride, frame, now)
            compact_members(numbers, stride, frame, True)
            rehash(load_int(numbers, HEADS_MASK) + 1, numbers, stride, frame)
        if load_int(numbers, ADDED) > load_int(numbers, ALLOWED):
            _check_budgets(now, numbers, stride, frame, out)
    release(lists[0])
    release(lists[3])
    release(out_words[CHOSEN_AT])
    if arriving.shape[0] > 0:
        release(arriving[AT])
    return Run(
        out_words[OUT_AT],
        out_words[OUT_ROWS],
        out_words[PAIRS_AT],
        out_words[PAIRS],
        out_words[STOPPED_AT],
        out_words[STOPPED],
    )
