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

from typing import Any

import numpy as np

from braid.jit.memory import release, resized
from braid.jit.records import Words
from braid.jit.rows import FREE
from braid.jit.runtime import (
    PREDICATE_TYPE,
    ROWS,
    WORDS,
    WRITER_TYPE,
    address,
    kernel,
    predicate_at,
    prefetch,
    writer_at,
)
from braid.jit.vector import free_vector, push
from braid.operators.core.bounds import DEAD, UNBOUNDED
from braid.operators.core.kernels.clauses import atom_holds
from braid.operators.core.kernels.columnar_input import Ring, fill
from braid.operators.core.kernels.nodes import SET
from braid.operators.pattern.kernels.counting import count_waiting
from braid.operators.pattern.kernels.instance_keys import (
    has_hash,
    hash_event,
    hash_instance,
    is_first_alternative,
    same_keys,
    write_hashes,
)
from braid.operators.pattern.kernels.instances import atoms_hold, compose, tested_key
from braid.operators.pattern.kernels.members import (
    SINGLE,
    compact_members,
    first_cell,
    head_of,
    may_go_on,
    member_at,
    next_cell,
)
from braid.operators.pattern.kernels.records import (
    INDEXED,
    Frame,
    Link,
    Output,
    Owner,
    Slots,
)
from braid.operators.pattern.kernels.slots import (
    count_instance,
    free_slot,
    instance_at,
    link_slot,
    owner_of,
    rehash,
    sweep_slots,
    take_slot,
    unlink,
    unlink_others,
)
from braid.operators.pattern.kernels.start_instances import start_instances
from braid.plan.layout import END, START

#: In a pair: the node is a state whose edges are in an index.
MANY = np.int64(0x80000000)

#: How many events ahead memory is asked for.
AHEAD = 8


@kernel()
def _pair(out: Output, node: int) -> None:
    """The composite that is being made goes on to a node."""
    push(out.pairs, (out.count << 32) | node)


@kernel()
def _forward(
    node: int, group: int, duration: int, row: Words, frame: Frame, out: Output, accept: Any
) -> None:
    """Send a composite on from all states of a first node in a group."""
    number = head_of(node, frame).state
    base = frame.out_base
    while number >= 0:
        state = frame.states[number]
        test = state.test
        holds = state.group == group and (state.bound == UNBOUNDED or duration <= state.bound)
        if holds and test >= 0:
            holds = state.low <= tested_key(row, test, base) <= state.high
            if holds and test >> 32 > 0:
                _pair(out, (test >> 32) - 1)
                holds = False
        if holds:
            if state.out >= 0:
                _pair(out, state.out)
            if test == INDEXED:
                _pair(out, MANY | number)
            edge_number = state.edge
            while edge_number >= 0:
                edge = frame.edges[edge_number]
                holds = True
                if edge.atoms > 0:
                    key = tested_key(row, edge.test, base)
                    holds = atom_holds(edge.test & 255, key, edge.low, edge.high, frame.sets)
                    if holds and edge.atoms > 1:
                        holds = atoms_hold(edge.atoms - 1, edge.first_atom, row, base, frame)
                if holds and edge.parameters >= 0:
                    own = frame.parameters.after(edge.parameters)
                    holds = accept(np.int64(0), row.address, own.address, frame.strings.address)
                if holds:
                    _pair(out, edge.out)
                edge_number = edge.next
        number = state.next


@kernel()
def _choose(cell: int, row: Words, slots: Slots, frame: Frame, out: Output) -> None:
    """List the members of an instance from whose states the composite at `row` may go on.

    Memory is slow: each round asks for what the next one looks at.
    """
    heads, base = frame.first_heads, frame.out_base
    ahead = cell
    while ahead >= 0:
        prefetch(heads[member_at(ahead, slots) & (SET - 1)].address)
        ahead = next_cell(ahead, slots)
    out.chosen.count = 0
    while cell >= 0:
        node = member_at(cell, slots)
        cell = next_cell(cell, slots)
        if node & SET == 0 and not may_go_on(heads[node].digest, row, base):
            continue
        prefetch(frame.states[head_of(node, frame).state].address)
        push(out.chosen, node)


@kernel()
def _emit(
    instance: Words, event: Words, slots: Slots, frame: Frame, out: Output, accept: Any
) -> None:
    """The composite of an instance and an event, if some member goes on with it."""
    words = frame.out_base + frame.emitted
    if out.count == out.room:
        out.room = max(64, 2 * out.room)
        out.rows = Words(resized(out.rows, out.room * words))
    row = out.rows.after(out.count * words)
    compose(row, instance, event, frame)
    before = out.pairs.count
    duration = row[END] - row[START]
    owner = owner_of(instance, frame)
    cell = first_cell(owner)
    if cell & SINGLE:
        node = member_at(cell, slots)
        if node & SET != 0 or may_go_on(frame.first_heads[node].digest, row, frame.out_base):
            _forward(node, owner.group, duration, row, frame, out, accept)
    else:
        _choose(cell, row, slots, frame, out)
        for k in range(out.chosen.count):
            _forward(out.chosen.items[k], owner.group, duration, row, frame, out, accept)
    if out.pairs.count > before:
        out.count += 1


@kernel()
def _check_budgets(now: int, slots: Slots, frame: Frame, out: Output) -> None:
    """Stop every state that has more live instances than it may have."""
    sweep_slots(slots, now, frame)
    states = frame.state_count
    counts = Words(resized(0, states))
    for number in range(states):
        counts[number] = 0
    count_waiting(slots, now, counts, frame)
    for k in range(frame.alias_count):
        # What waits in a state of a set waits in the states that it stands for.
        alias = frame.aliases[k]
        counts[alias.meant] += counts[alias.state]
    for k in range(frame.alias_count):
        counts[frame.aliases[k].state] = 0
    most = np.int64(0)
    before = out.stopped.count
    for number in range(states):
        count = counts[number]
        if count > frame.budget:
            frame.states[number].bound = DEAD
            push(out.stopped, number)
            push(out.stopped, now)
        else:
            most = max(most, count)
    release(counts)
    if out.stopped.count > before:
        compact_members(slots, False, frame)
        rehash(slots, slots.mask + 1, frame)
    slots.added = 0
    slots.allowed = frame.budget - most


@kernel()
def _end_epoch(slots: Slots, frame: Frame, out: Output) -> None:
    """Let affected instances leave, and install those that FOLD has made."""
    for k in range(out.affected.count):
        slot = out.affected.items[k]
        # Several events may have affected the same one.
        if instance_at(slots, slot, frame)[END] != FREE:
            unlink(slots, slot, frame)
            free_slot(slots, slot, frame)
    for k in range(out.made.count):
        slot = out.made.items[k]
        if has_hash(instance_at(slots, slot, frame), frame):
            link_slot(slots, slot, frame)
        else:
            free_slot(slots, slot, frame)
    out.affected.count = out.made.count = 0


@kernel()
def _maintain(now: int, slots: Slots, frame: Frame, out: Output) -> None:
    """More chains, fewer old instances, a smaller arena, when it is time for it."""
    if slots.count > 2 * (slots.mask + 1):
        rehash(slots, 2 * (slots.mask + 1), frame)
    if 8 * slots.count > 9 * slots.swept + 8192:
        sweep_slots(slots, now, frame)
    if slots.arena_used > slots.arena_limit:
        sweep_slots(slots, now, frame)
        compact_members(slots, True, frame)
        rehash(slots, slots.mask + 1, frame)
    if slots.added > slots.allowed:
        _check_budgets(now, slots, frame, out)


@kernel(
    (
        Frame.type,
        Slots.type,
        Output.type,
        ROWS,
        WORDS,
        ROWS,
        Ring.type,
        PREDICATE_TYPE,
        PREDICATE_TYPE,
        PREDICATE_TYPE,
        WRITER_TYPE,
    )
)
def follow(
    frame: Frame,
    slots: Slots,
    out: Output,
    first: np.ndarray,
    pairs: np.ndarray,
    second: np.ndarray,
    ring: Ring,
    predicate: Any,
    rebind: Any,
    accept: Any,
    write: Any,
) -> None:
    """Run a batch of whole epochs through one step; see the module's text.

    `first` and `second` are rows sorted by `end`; `pairs` are words row << 32 | node of the
    first input, sorted. `ring`: where second events come through if they are not rows yet, or a
    pointer to nothing. `out` is empty.
    """
    predicate, rebind = predicate_at(predicate), predicate_at(rebind)
    accept, write = predicate_at(accept), writer_at(write)
    # Only addresses in the loop: what touches an array variable there counts references, and
    # atomic counters cost more than all the rest of it.
    links, owners, stride = frame.link_offset, frame.owner_offset, frame.slot_size
    groups, event_base, parameters = frame.groups, frame.event_base, frame.parameters
    iterates, residual, strings = frame.iterates != 0, frame.residual != 0, frame.strings.address
    classes, class_count, alternatives = frame.classes, frame.class_count, frame.alternatives
    pair_count, second_count = pairs.shape[0], second.shape[0]
    pairs_at = Words(address(pairs))
    first_at, first_stride = address(first), np.int64(first.shape[1] * 8)
    second_at, second_stride = address(second), np.int64(second.shape[1] * 8)
    turn, placed = np.int64(-1), second_count
    if ring.address != 0:
        second_count, second_stride, placed = ring.count, ring.row_size, np.int64(0)
    p, s = 0, 0
    while p < pair_count or s < second_count:
        if s + 2 * AHEAD >= placed and placed < second_count:
            fill(ring, s, min(second_count, s + 2 * AHEAD + 1))
            second_at, turn, placed = ring.rows.address, ring.mask, ring.placed
        # The next epoch: the smallest end that either input still has.
        now = FREE
        if p < pair_count:
            now = Words(first_at + (pairs_at[p] >> 32) * first_stride)[END]
        if s < second_count:
            now = min(now, Words(second_at + (s & turn) * second_stride)[END])
        until = s
        while until < second_count:
            if until == placed:
                fill(ring, s, until + 1)
                second_at, turn, placed = ring.rows.address, ring.mask, ring.placed
            if Words(second_at + (until & turn) * second_stride)[END] != now:
                break
            until += 1
        alone = until - s == 1
        heads, mask, rows = slots.heads, slots.mask, slots.rows
        if class_count == 1 and until + AHEAD < placed:
            # Memory is slow: ask for the chains of the events that come next.
            event = Words(second_at + ((until + AHEAD) & turn) * second_stride)
            prefetch(heads + 8 * (hash_event(event, 0, 0, frame) & mask))
            event = Words(second_at + ((until + AHEAD // 2) & turn) * second_stride)
            prefetch(rows + heads[hash_event(event, 0, 0, frame) & mask] * stride)
        for e in range(s, until):
            if slots.count == 0:
                break
            event = Words(second_at + (e & turn) * second_stride)
            began = event[START]
            class_, alternative = np.int64(0), np.int64(-1)
            for _ in range(class_count * alternatives):
                alternative += 1
                if alternative == alternatives:
                    class_, alternative = class_ + 1, np.int64(0)
                if classes[class_].live == 0:
                    continue
                h = hash_event(event, class_, alternative, frame)
                if h < 0:
                    continue
                bucket = alternative * (mask + 1) + (h & mask)
                linked = links + 8 * alternative
                previous, slot = np.int64(-1), heads[bucket]
                while slot >= 0:
                    instance = Words(rows + slot * stride)
                    link = Link(instance + linked)
                    following = link.next
                    prefetch(rows + following * stride)
                    group = groups[Owner(instance + owners).group]
                    if group.bound >= 0 and now - instance[START] > group.bound:
                        # Too old to give anything any more.
                        if previous < 0:
                            heads[bucket] = following
                        else:
                            Link(rows + previous * stride + linked).next = following
                        if alternatives > 1:
                            unlink_others(slots, slot, alternative, frame)
                        free_slot(slots, slot, frame)
                        slot = following
                        continue
                    own = parameters + 8 * group.parameters
                    if (
                        link.hash != h
                        or instance[END] >= began
                        or not same_keys(instance, event, class_, group, frame)
                        or (
                            alternatives > 1
                            and not is_first_alternative(instance, event, alternative, group, frame)
                        )
                        or not atoms_hold(group.atoms, group.first_atom, event, event_base, frame)
                        or (
                            residual
                            and not predicate(instance.address, event.address, own, strings)
                        )
                    ):
                        previous = slot
                        slot = following
                        continue
                    # The event affects this instance.
                    goes_on = False
                    if not iterates:
                        _emit(instance, event, slots, frame, out, accept)
                    else:
                        goes_on = rebind(instance.address, event.address, own, strings)
                    if not alone:
                        # Others of this epoch must still find it as it is: its successor is
                        # another instance.
                        if goes_on:
                            made = take_slot(slots, frame)
                            rows = slots.rows
                            instance = Words(rows + slot * stride)
                            successor = Words(rows + made * stride)
                            for word in range(stride >> 3):
                                successor[word] = instance[word]
                            count_instance(slots, group, 1, frame)
                            write(instance.address, event.address, own, strings, successor.address)
                            successor[END] = now
                            write_hashes(successor, group, frame)
                            _emit(successor, event, slots, frame, out, accept)
                            push(out.made, made)
                            slots.added += 1
                        push(out.affected, slot)
                        previous = slot
                        slot = following
                        continue
                    changed = np.int64(-1)
                    if goes_on:
                        # Nobody else looks at it in this epoch: it becomes its own successor.
                        write(instance.address, event.address, own, strings, instance.address)
                        instance[END] = now
                        _emit(instance, event, slots, frame, out, accept)
                        changed = hash_instance(instance, group, alternative, frame)
                    if changed == h and alternatives == 1:
                        previous = slot
                    else:
                        if previous < 0:
                            heads[bucket] = following
                        else:
                            Link(rows + previous * stride + linked).next = following
                        if alternatives > 1:
                            unlink_others(slots, slot, alternative, frame)
                        if goes_on and write_hashes(instance, group, frame):
                            push(out.made, slot)
                        else:
                            free_slot(slots, slot, frame)
                    slot = following
        s = until
        _end_epoch(slots, frame, out)
        p = start_instances(p, pairs_at, pair_count, first_at, first_stride, now, slots, frame)
        _maintain(now, slots, frame, out)
    free_vector(out.chosen)
    free_vector(out.affected)
    free_vector(out.made)
    if ring.address != 0:
        release(ring.rows)
