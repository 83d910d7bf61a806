"""The loop of a join: each delta meets what the other inputs hold, and is then held itself.

Deltas of all inputs are taken in order of time; those of one instant one after the other, in any
order: the product of sums is the sum of products. For each, the other inputs are probed in the
order that the plan has for the input that drives. What is carried along is the set of output
nodes that hold all rows found so far; where it becomes empty the search goes back, so that a
combination is made once for all members, and not at all if it is nobody's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.jit.memory import resized
from braid.jit.runtime import (
    PREDICATE_TYPE,
    WORDS,
    address,
    kernel,
    load_int,
    predicate_at,
    prefetch,
    store_int,
)
from braid.operators.core.kernels.instances import FREE
from braid.operators.core.kernels.node_sets import (
    ALL,
    BITS,
    KIND,
    NEXT,
    WEIGHT,
    lowest,
    meet,
    set_of,
)
from braid.operators.join.kernels.frame import (
    ALLOWED,
    AT_CELL,
    AT_HASH,
    AT_KIND,
    AT_SET,
    AT_SLOT,
    AT_WEIGHT,
    BOUND_AT,
    EMITTED,
    EVERYONE_AT,
    FEED_BYTES,
    FEED_ROW,
    FEED_ROWS,
    FEED_ROWS_AT,
    FEED_WORDS,
    FEEDS_AT,
    INDEXES_AT,
    INPUTS,
    LATE,
    LEVEL_WORDS,
    LEVELS_AT,
    MOST_LISTED,
    OUT_AT,
    OUT_BASE,
    OUT_ROOM,
    OUT_ROWS,
    PAIRS,
    PAIRS_AT,
    PAIRS_ROOM,
    PLAIN,
    POOL_AT,
    SETS_AT,
    SHOWN,
    STAMP,
    STEP_FLAGS,
    STEP_INDEX,
    STEP_INPUT,
    STEP_SOURCES,
    STEP_WORDS,
    STEPS_AT,
    STORES_AT,
    WORDS_OF_SET,
    all_hold,
    can_join,
    compose,
    holds,
    members_of,
    next_feed,
    show,
    wants,
)
from braid.operators.join.kernels.probe import begin, next_chain, same_keys
from braid.operators.join.kernels.store import (
    BASE,
    COLUMNS_AT,
    COUNT,
    FIRST_INDEX,
    FOUND,
    HEADS_AT,
    INDEX_WORDS,
    KEYS,
    LINK_HASH,
    LINK_NEXT,
    LINK_WORDS,
    LINKS_AT,
    MASK,
    ROWS_AT,
    STORE_WORDS,
    STRIDE,
    WANTED,
    WIDTH,
    add_to_hash,
    apply_delta,
    first_cell,
    hash_row,
)

#: How many deltas ahead memory is asked for, and from how many rows on.
_AHEAD = 6
_LARGE = 8192


@kernel()
def _emit_pairs(frame: int, kind: int, at: int, late: Any) -> int:
    """Pairs of the next row and the nodes of a set; how many."""
    words = load_int(frame, WORDS_OF_SET)
    if kind == ALL:
        kind, at = np.int64(BITS), load_int(frame, EVERYONE_AT)
    store_int(frame, STAMP, load_int(frame, STAMP) + 1)
    before = load_int(frame, PAIRS)
    needed = before + (64 * words if kind == BITS else kind)
    if needed > load_int(frame, PAIRS_ROOM):
        room = max(1024, 2 * needed)
        store_int(frame, PAIRS_AT, resized(load_int(frame, PAIRS_AT), room))
        store_int(frame, PAIRS_ROOM, room)
    pairs, row = load_int(frame, PAIRS_AT), np.int64(load_int(frame, OUT_ROWS)) << np.int64(32)
    count = before
    if kind != BITS:
        for k in range(kind):
            node = load_int(at, k)
            if wants(frame, node, late):
                store_int(pairs, count, row | node)
                count += 1
    else:
        asks = load_int(frame, LATE) != 0
        for k in range(words):
            word = load_int(at, k)
            while word != 0:
                bit = lowest(word)
                word ^= np.int64(1) << np.int64(bit)
                node = 64 * k + bit
                if not asks or wants(frame, node, late):
                    store_int(pairs, count, row | node)
                    count += 1
    store_int(frame, PAIRS, count)
    return count - before


@kernel()
def _emit(frame: int, kind: int, at: int, time: int, weight: int, late: Any) -> None:
    """Put out the rows that are bound, as one, for the nodes of a set."""
    if load_int(frame, PLAIN) == 0 and _emit_pairs(frame, kind, at, late) == 0:
        return
    rows = load_int(frame, OUT_ROWS)
    width = load_int(frame, OUT_BASE) + load_int(frame, EMITTED) + 1
    if rows == load_int(frame, OUT_ROOM):
        room = max(256, 2 * rows)
        store_int(frame, OUT_AT, resized(load_int(frame, OUT_AT), room * width))
        store_int(frame, OUT_ROOM, room)
    compose(frame, load_int(frame, OUT_AT) + rows * (8 * width), time, weight)
    store_int(frame, OUT_ROWS, rows + 1)


@kernel()
def _next_row(frame: int, step: int, level: int, early: Any) -> int:
    """Bind the next row that a probe finds: where its first cell is, or 0."""
    input_ = load_int(step, STEP_INPUT)
    store = load_int(frame, STORES_AT) + input_ * (8 * STORE_WORDS)
    feed = load_int(frame, FEEDS_AT) + input_ * (8 * FEED_WORDS)
    index = load_int(frame, INDEXES_AT) + load_int(step, STEP_INDEX) * (8 * INDEX_WORDS)
    links, rows = load_int(index, LINKS_AT), load_int(store, ROWS_AT)
    stride, base = load_int(store, STRIDE), load_int(store, BASE)
    hash_, flags = load_int(level, AT_HASH), load_int(step, STEP_FLAGS)
    slot = load_int(level, AT_SLOT)
    while True:
        if slot < 0:
            if not next_chain(index, level):
                break
            hash_, slot = load_int(level, AT_HASH), load_int(level, AT_SLOT)
            continue
        link = links + slot * (8 * LINK_WORDS)
        row = rows + slot * stride
        slot = load_int(link, LINK_NEXT)
        if load_int(link, LINK_HASH) == hash_ and same_keys(frame, step, index, row, base):
            store_int(index, FOUND, load_int(index, FOUND) + 1)
            store_int(load_int(frame, BOUND_AT), input_, row)
            if load_int(feed, SHOWN) > 0:
                show(frame, feed, row, base)
            if flags == 0 or holds(frame, flags, early):
                store_int(level, AT_SLOT, slot)
                return first_cell(store, row)
    store_int(level, AT_SLOT, -1)
    return np.int64(0)


@kernel()
def _carry(frame: int, depth: int, level: int, cell: int) -> bool:
    """Carry what a level has and a cell has as well to the next level; whether there is any."""
    words = load_int(frame, WORDS_OF_SET)
    kind, at = load_int(level, AT_KIND), load_int(level, AT_SET)
    own = load_int(cell, KIND)
    if own != ALL:
        place = set_of(cell, words)
        if kind == ALL:
            kind, at = own, place
        else:
            out = load_int(frame, SETS_AT) + (depth + 2) * (8 * words)
            kind = meet(kind, at, own, place, out, words)
            at = out
    if kind == 0:
        return False
    following = level + 8 * LEVEL_WORDS
    store_int(following, AT_KIND, kind)
    store_int(following, AT_SET, at)
    store_int(following, AT_WEIGHT, load_int(level, AT_WEIGHT) * load_int(cell, WEIGHT))
    return True


@kernel()
def _search(frame: int, driver: int, time: int, early: Any, late: Any) -> None:
    """All combinations of a row that is bound with what the other inputs hold."""
    last = load_int(frame, INPUTS) - 2
    steps = load_int(frame, STEPS_AT) + driver * (last + 1) * (8 * STEP_WORDS)
    levels = load_int(frame, LEVELS_AT)
    depth = np.int64(0)
    begin(frame, steps, levels)
    while depth >= 0:
        step, level = steps + depth * (8 * STEP_WORDS), levels + depth * (8 * LEVEL_WORDS)
        cell = load_int(level, AT_CELL)
        if cell == 0:
            cell = _next_row(frame, step, level, early)
            if cell == 0:
                depth -= 1
                continue
        store_int(level, AT_CELL, load_int(cell, NEXT))
        if not _carry(frame, depth, level, cell):
            continue
        index = load_int(frame, INDEXES_AT) + load_int(step, STEP_INDEX) * (8 * INDEX_WORDS)
        store_int(index, WANTED, load_int(index, WANTED) + 1)
        following = level + 8 * LEVEL_WORDS
        if depth < last:
            depth += 1
            begin(frame, step + 8 * STEP_WORDS, following)
        else:
            _emit(
                frame,
                load_int(following, AT_KIND),
                load_int(following, AT_SET),
                time,
                load_int(following, AT_WEIGHT),
                late,
            )


@kernel()
def _ask_for(store: int, index: int, hash_: int, near: bool) -> None:
    """Ask for the memory that a lookup will look at: the head of the chain, or the first row."""
    head = load_int(index, HEADS_AT) + 8 * (hash_ & load_int(index, MASK))
    if not near:
        prefetch(head)
        return
    slot = load_int(head, 0)
    if slot >= 0:
        prefetch(load_int(index, LINKS_AT) + slot * (8 * LINK_WORDS))
        row = load_int(store, ROWS_AT) + slot * load_int(store, STRIDE)
        prefetch(row)
        prefetch(row + 64)


@kernel()
def _look_ahead(frame: int, driver: int, row: int, base: int, near: bool) -> None:
    """Ask for what a delta that comes soon will need: the row itself, and the first probe."""
    indexes, stores = load_int(frame, INDEXES_AT), load_int(frame, STORES_AT)
    store = stores + driver * (8 * STORE_WORDS)
    own = indexes + load_int(store, FIRST_INDEX) * (8 * INDEX_WORDS)
    _ask_for(store, own, hash_row(row, base, own), near)
    last = load_int(frame, INPUTS) - 2
    step = load_int(frame, STEPS_AT) + driver * (last + 1) * (8 * STEP_WORDS)
    index = indexes + load_int(step, STEP_INDEX) * (8 * INDEX_WORDS)
    source, columns = load_int(step, STEP_SOURCES), load_int(index, COLUMNS_AT)
    value = np.int64(0)
    for k in range(load_int(index, KEYS)):
        floating = load_int(columns, 2 * k + 1)
        value = add_to_hash(value, row, base, load_int(source, 2 * k + 1), floating)
    other = stores + load_int(step, STEP_INPUT) * (8 * STORE_WORDS)
    _ask_for(other, index, value & FREE, near)


@kernel()
def _large(frame: int) -> bool:
    """Whether so much is held that memory is waited for."""
    rows = np.int64(0)
    for i in range(load_int(frame, INPUTS)):
        rows += load_int(load_int(frame, STORES_AT) + i * (8 * STORE_WORDS), COUNT)
    return rows > _LARGE


@kernel()
def hold(frame: int, input_: int, row: int, weight: int, kind: int) -> None:
    """Apply a delta whose set is where deltas have theirs."""
    words = load_int(frame, WORDS_OF_SET)
    # Kind, place and longest list, at the first level, which no search uses now.
    set_ = load_int(frame, LEVELS_AT)
    store_int(set_, 0, kind)
    store_int(set_, 1, load_int(frame, SETS_AT))
    store_int(set_, 2, load_int(frame, MOST_LISTED))
    apply_delta(
        load_int(frame, STORES_AT) + input_ * (8 * STORE_WORDS),
        load_int(frame, INDEXES_AT),
        load_int(frame, POOL_AT),
        row,
        weight,
        set_,
        load_int(frame, SETS_AT) + 8 * words,
        words,
    )


@kernel((WORDS, PREDICATE_TYPE, PREDICATE_TYPE))
def run(words: np.ndarray, early: Any, late: Any) -> None:
    """Take all deltas of the feeds; output is in memory that the frame then names.

    `early`: the part of the residual without constants; `late`: the part with them. It stops when
    nothing is allowed any more, and can be called again.
    """
    early, late = predicate_at(early), predicate_at(late)
    frame = address(words)
    stores, feeds = load_int(frame, STORES_AT), load_int(frame, FEEDS_AT)
    bound, levels = load_int(frame, BOUND_AT), load_int(frame, LEVELS_AT)
    large = _large(frame)
    driver = next_feed(frame)
    while driver >= 0:
        store, feed = stores + driver * (8 * STORE_WORDS), feeds + driver * (8 * FEED_WORDS)
        number, base = load_int(feed, FEED_ROW), load_int(store, BASE)
        row = load_int(feed, FEED_ROWS_AT) + number * load_int(feed, FEED_BYTES)
        store_int(feed, FEED_ROW, number + 1)
        if large and number + 2 * _AHEAD < load_int(feed, FEED_ROWS):
            ahead = _AHEAD * load_int(feed, FEED_BYTES)
            _look_ahead(frame, driver, row + 2 * ahead, base, False)
            _look_ahead(frame, driver, row + ahead, base, True)
        kind = members_of(frame, feed, number)
        if kind != 0 and can_join(feed, row, base):
            weight = load_int(row, load_int(store, WIDTH) - 1)
            if all_hold(frame, driver):
                store_int(bound, driver, row)
                if load_int(feed, SHOWN) > 0:
                    show(frame, feed, row, base)
                store_int(levels, AT_KIND, kind)
                store_int(levels, AT_SET, load_int(frame, SETS_AT))
                store_int(levels, AT_WEIGHT, weight)
                _search(frame, driver, load_int(row, 1), early, late)
            hold(frame, driver, row, weight, kind)
            store_int(frame, ALLOWED, load_int(frame, ALLOWED) - 1)
            if load_int(frame, ALLOWED) < 0:
                return
        driver = next_feed(frame)
