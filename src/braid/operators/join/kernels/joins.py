"""The loop of a join: each delta meets the rows that the other inputs hold, and is then held itself.

Deltas of all inputs are taken in order of time, those of one instant in any order: the product of
sums is the sum of products. For each delta, the other inputs are probed in the order that the plan
has for the input that drives. The search carries the set of output nodes that hold all rows found so
far. Where the set becomes empty the search goes back. So a combination is made once for all members,
and not at all if no member wants it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.jit.records import Words
from braid.jit.runtime import PREDICATE_TYPE, kernel, predicate_at, prefetch
from braid.jit.vector import reserve
from braid.operators.core.kernels.instances import FREE
from braid.operators.core.kernels.node_sets import ALL, BITS, Cell, lowest, meet, set_of
from braid.operators.join.kernels.frame import (
    Frame,
    Level,
    Step,
    all_hold,
    arrived,
    bind,
    can_join,
    compose,
    keep_output,
    members_of,
    next_feed,
    next_output,
    next_row,
    steps_of,
    wants,
)
from braid.operators.join.kernels.probe import begin, found, next_chain
from braid.operators.join.kernels.store import (
    Index,
    Store,
    add_to_hash,
    apply_delta,
    first_cell,
    hash_row,
    row_at,
)

#: How many deltas ahead memory is asked for, and from how many rows on.
_AHEAD = 6
_LARGE = 8192


@kernel()
def _emit_pairs(frame: Frame, kind: int, nodes: Words, late: Any) -> int:
    """Write pairs of the next row and the nodes of a set; how many."""
    words = frame.set_words
    if kind == ALL:
        kind, nodes = np.int64(BITS), frame.everyone
    frame.stamp += 1
    reserve(frame.pairs, 64 * words if kind == BITS else kind, 1024)
    before, pairs = frame.pairs.count, frame.pairs.items
    row, count = np.int64(frame.out_rows) << np.int64(32), before
    if kind != BITS:
        for k in range(kind):
            node = nodes[k]
            if wants(frame, node, late):
                pairs[count] = row | node
                count += 1
    else:
        asks = frame.late != 0
        for k in range(words):
            word = nodes[k]
            while word != 0:
                bit = lowest(word)
                word ^= np.int64(1) << np.int64(bit)
                node = 64 * k + bit
                if not asks or wants(frame, node, late):
                    pairs[count] = row | node
                    count += 1
    frame.pairs.count = count
    return count - before


@kernel()
def _emit(frame: Frame, level: Level, time: int, late: Any) -> None:
    """Write the rows that are bound as one output row, for the nodes of a level."""
    if frame.plain == 0 and _emit_pairs(frame, level.kind, level.nodes, late) == 0:
        return
    compose(frame, next_output(frame), time, level.weight)
    keep_output(frame)


@kernel()
def _next_row(frame: Frame, step: Step, level: Level, early: Any) -> Cell:
    """Bind the next row that a probe finds: its first cell, or 0."""
    store, index = frame.stores[step.input], frame.indexes[step.index]
    links, base = index.links, store.base
    hash_, slot = level.hash, level.slot
    while True:
        if slot < 0:
            if not next_chain(index, level):
                break
            hash_, slot = level.hash, level.slot
            continue
        link, row = links[slot], row_at(store, slot)
        slot = link.next
        if link.hash == hash_ and found(frame, step, index, row, base, early):
            level.slot = slot
            return first_cell(store, row)
    level.slot = -1
    return Cell(0)


@kernel()
def _carry(frame: Frame, depth: int, level: Level, cell: Cell) -> bool:
    """Carry the nodes that a level and a cell have in common to the next level; whether there are
    any."""
    words = frame.set_words
    kind, nodes, own = level.kind, level.nodes, cell.kind
    if own != ALL:
        others = set_of(cell, words)
        if kind == ALL:
            kind, nodes = own, others
        else:
            out = frame.sets.after((depth + 2) * words)
            kind = meet(kind, nodes, own, others, out, words)
            nodes = out
    if kind == 0:
        return False
    following = level[1]
    following.kind = kind
    following.nodes = nodes
    following.weight = level.weight * cell.weight
    return True


@kernel()
def _search(frame: Frame, driver: int, time: int, early: Any, late: Any) -> None:
    """Find all combinations of a row that is bound with the rows that the other inputs hold."""
    last = frame.inputs - 2
    steps, levels = steps_of(frame, driver), frame.levels
    depth = np.int64(0)
    begin(frame, steps, levels)
    while depth >= 0:
        step, level = steps[depth], levels[depth]
        cell = level.cell
        if cell.address == 0:
            cell = _next_row(frame, step, level, early)
            if cell.address == 0:
                depth -= 1
                continue
        level.cell = cell.next
        if not _carry(frame, depth, level, cell):
            continue
        frame.indexes[step.index].wanted += 1
        if depth < last:
            depth += 1
            begin(frame, step[1], level[1])
        else:
            _emit(frame, level[1], time, late)


@kernel()
def _ask_for(store: Store, index: Index, hash_: int, near: bool) -> None:
    """Ask for the memory that a lookup reads: the head of the chain, or the first row."""
    head = index.heads.after(hash_ & index.mask)
    if not near:
        prefetch(head)
        return
    slot = head[0]
    if slot >= 0:
        prefetch(index.links[slot])
        row = row_at(store, slot)
        prefetch(row)
        prefetch(row + 64)


@kernel()
def _look_ahead(frame: Frame, driver: int, row: Words, base: int, near: bool) -> None:
    """Ask for what a delta that comes soon needs: the row itself, and the first probe."""
    store, step = frame.stores[driver], steps_of(frame, driver)
    own, index = frame.indexes[store.index], frame.indexes[step.index]
    _ask_for(store, own, hash_row(row, base, own), near)
    value = np.int64(0)
    for k in range(index.keys):
        value = add_to_hash(value, row, base, step.sources[k].column, index.columns[k].how)
    _ask_for(frame.stores[step.input], index, value & FREE, near)


@kernel()
def _large(frame: Frame) -> bool:
    """Whether the join holds so much that the processor waits for memory."""
    rows = np.int64(0)
    for i in range(frame.inputs):
        rows += frame.stores[i].count
    return rows > _LARGE


@kernel()
def hold(frame: Frame, input_: int, row: Words, weight: int, kind: int) -> None:
    """Apply a delta whose set is where deltas have theirs."""
    words, delta = frame.set_words, frame.delta
    delta.kind = kind
    delta.nodes = frame.sets
    delta.most = frame.most_listed
    spare = frame.sets.after(words)
    apply_delta(frame.stores[input_], frame.indexes, frame.pool, row, weight, delta, spare, words)


@kernel((Frame.type, PREDICATE_TYPE, PREDICATE_TYPE))
def run(frame: Frame, early: Any, late: Any) -> None:
    """Take all deltas of the feeds; the output is in memory that the frame then names.

    `early`: the part of the residual without constants; `late`: the part with them. It stops when
    nothing is allowed any more, and can be called again.
    """
    early, late = predicate_at(early), predicate_at(late)
    levels, large = frame.levels, _large(frame)
    driver = next_feed(frame)
    while driver >= 0:
        store, feed = frame.stores[driver], frame.feeds[driver]
        number, base = feed.row, store.base
        row = next_row(feed)
        if large and number + 2 * _AHEAD < feed.count:
            _look_ahead(frame, driver, arrived(feed, number + 2 * _AHEAD), base, False)
            _look_ahead(frame, driver, arrived(feed, number + _AHEAD), base, True)
        kind = members_of(frame, feed, number)
        if kind != 0 and can_join(feed, row, base):
            weight = row[store.width - 1]
            if all_hold(frame, driver):
                bind(frame, driver, row)
                levels.kind = kind
                levels.nodes = frame.sets
                levels.weight = weight
                _search(frame, driver, row[1], early, late)
            hold(frame, driver, row, weight, kind)
            frame.allowed -= 1
            if frame.allowed < 0:
                return
        driver = next_feed(frame)
