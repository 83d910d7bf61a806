"""What becomes of the composite of an instance and an event: it goes on along the forward edges
of its members' states, and those are looked for in memory before they are needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.kernels.clauses import atom_holds
from braid.kernels.instances import (
    C_LIVE,
    CLASS_COUNT,
    CLASS_WORDS,
    CLASSES,
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
    G_BOUND,
    GROUP,
    GROUP_WORDS,
    GROUPS,
    HASH,
    HEADS_AT,
    HEADS_MASK,
    INDEXED,
    LINK,
    OUT_BASE,
    PARAMETERS,
    ROWS_AT,
    S_BOUND,
    S_EDGE,
    S_GROUP,
    S_HIGH,
    S_LOW,
    S_NEXT,
    S_OUT,
    S_TEST,
    SETS,
    STATE_WORDS,
    STATES,
    STRINGS,
    atoms_hold,
    compose,
    first_cell,
    hash_event,
    member_at,
    next_cell,
    state_of,
)
from braid.kernels.keys import key_of
from braid.kernels.memory import resized
from braid.kernels.runtime import kernel, load_half, load_int, prefetch, store_int

#: In a pair: the node is a state whose edges are in an index.
MANY = np.int64(0x80000000)

#: What a run puts out: rows (address, room, number), pairs of row and output node (address,
#: room, number), states that exceeded their budget (address, number, since when).
(OUT_AT, OUT_ROOM, OUT_ROWS, PAIRS_AT, PAIRS_ROOM, PAIRS, STOPPED_AT, STOPPED_ROOM, STOPPED) = (
    range(9)
)


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
def ask_for_states(first: int, numbers: int, frame: int) -> None:
    """Ask for the memory of all states of an instance, then for the edges of some, before use."""
    states, edges = load_int(frame, STATES), load_int(frame, EDGES)
    cell = first
    while cell >= 0:
        prefetch(states + state_of(member_at(cell, numbers), frame) * (8 * STATE_WORDS))
        cell = next_cell(cell, numbers)
    cell = first
    while cell >= 0:
        state = state_of(member_at(cell, numbers), frame)
        if state >= 0:
            record = states + state * (8 * STATE_WORDS)
            if load_int(record, S_TEST) < 0:
                prefetch(edges + load_int(record, S_EDGE) * (8 * EDGE_WORDS))
        cell = next_cell(cell, numbers)


@kernel()
def emit(instance: int, event: int, numbers: int, frame: int, out: int, accept: Any) -> None:
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
    ask_for_states(cell, numbers, frame)
    while cell >= 0:
        _forward(member_at(cell, numbers), word >> 32, lasted, row, frame, out, accept)
        cell = next_cell(cell, numbers)
    if load_int(out, PAIRS) > before:
        store_int(out, OUT_ROWS, rows + 1)


@kernel()
def ask_ahead(event: int, numbers: int, stride: int, frame: int) -> None:
    """Ask for the states that an event will need which is to come soon."""
    states, groups = load_int(frame, STATES), load_int(frame, GROUPS)
    rows, heads = load_int(numbers, ROWS_AT), load_int(numbers, HEADS_AT)
    link, hash_, place = load_int(frame, LINK), load_int(frame, HASH), load_int(frame, GROUP)
    for class_ in range(load_int(frame, CLASS_COUNT)):
        if load_int(load_int(frame, CLASSES) + class_ * (8 * CLASS_WORDS), C_LIVE) == 0:
            continue
        h = hash_event(event, class_, frame)
        if h < 0:
            continue
        slot = load_int(heads, h & load_int(numbers, HEADS_MASK))
        while slot >= 0:
            instance = rows + slot * stride
            word = load_int(instance, place)
            bound = load_int(groups + (word >> 32) * (8 * GROUP_WORDS), G_BOUND)
            lasts = load_int(event, 1) - load_int(instance, 0)
            if load_half(instance, hash_) == h and (bound < 0 or lasts <= bound):
                cell = first_cell(word)
                while cell >= 0:
                    state = state_of(member_at(cell, numbers), frame)
                    prefetch(states + state * (8 * STATE_WORDS))
                    cell = next_cell(cell, numbers)
            slot = np.int64(load_half(instance, link))
