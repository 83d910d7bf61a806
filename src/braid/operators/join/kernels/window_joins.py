"""The loop of a join with windows inside: each event meets what is still in the windows of others.

A combination comes when the last of its events does, for the output nodes that see all of them
and whose window of each input is at least as long as that input's event is old. It goes for a node
at the first instant at which one of its events is too old for it. Under Istream that is asked only
for suspects (`window_joins_output.py`). Others must be told of all that goes (COMPLETE): an event
that leaves windows meets what was there an instant ago (`expiry_heap.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from braid.jit.runtime import (
    PREDICATE_TYPE,
    WORDS,
    address,
    kernel,
    load_int,
    predicate_at,
    store_int,
)
from braid.operators.core.kernels.node_sets import (
    ALL,
    BITS,
    KIND,
    clear_bits,
    has_bit,
    set_bit,
    set_of,
)
from braid.operators.join.kernels.expiry_heap import (
    INSTANT,
    VISITED,
    VISITED_NUMBER,
    VISITED_SIZE,
    drop_visit,
    leaving_at,
    visit_after,
    visit_held,
)
from braid.operators.join.kernels.frame import (
    ALLOWED,
    AT_HASH,
    AT_KIND,
    AT_SET,
    AT_SLOT,
    BOUND_AT,
    FEED_BYTES,
    FEED_ROW,
    FEED_ROWS_AT,
    FEED_WORDS,
    FEEDS_AT,
    INPUTS,
    LEVEL_WORDS,
    LEVELS_AT,
    SETS_AT,
    SHOWN,
    STEP_FLAGS,
    STEP_INDEX,
    STEP_INPUT,
    STEP_WORDS,
    STEPS_AT,
    WORDS_OF_SET,
    all_hold,
    can_join,
    holds,
    members_of,
    next_feed,
    show,
)
from braid.operators.join.kernels.probe import begin, next_chain, same_keys
from braid.operators.join.kernels.rings import (
    HASH,
    LINK,
    NUMBER,
    OLDER,
    OLDEST,
    add_event,
    cell_of,
    event_at,
    first_from,
    index_of,
    ring_of,
)
from braid.operators.join.kernels.store import (
    BASE,
    CAPACITY,
    FIRST_INDEX,
    FOUND,
    LINKS_AT,
    ROWS_AT,
    STRIDE,
    WANTED,
    hash_row,
)
from braid.operators.join.kernels.window_covers import (
    COMPLETE,
    COVER_WORDS,
    COVERS_AT,
    DRIVER,
    DRIVER_HASH,
    GOING,
    LAST_PAIRS,
    LONGEST,
    NOW,
    ORDER_AT,
    SIZED,
    SIZES_AT,
    SUSPECTED,
    SUSPECTS_AT,
    VISITS,
    VISITS_AT,
    carry,
    forget_left,
)
from braid.operators.join.kernels.window_joins_output import emit, is_in

_MOST = np.int64(9223372036854775807)


# ---- search ----


@kernel()
def _next_event(frame: int, depth: int, step: int, level: int, early: Any) -> bool:
    """Bind the next event that a probe finds and carry its nodes on; whether there is one.

    What comes is asked with the windows as they are now. What goes was there an instant ago; it
    goes with the first of its events to leave, that of the first input if there are several.
    """
    input_ = load_int(step, STEP_INPUT)
    ring, index = ring_of(frame, input_), index_of(frame, load_int(step, STEP_INDEX))
    feed = load_int(frame, FEEDS_AT) + input_ * (8 * FEED_WORDS)
    cover = load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    links, rows, base = load_int(index, LINKS_AT), load_int(ring, ROWS_AT), load_int(ring, BASE)
    slots, stride = load_int(ring, CAPACITY) - 1, load_int(ring, STRIDE)
    hash_, flags, longest = (
        load_int(level, AT_HASH),
        load_int(step, STEP_FLAGS),
        load_int(cover, LONGEST),
    )
    going, number, oldest = (
        load_int(frame, GOING) != 0,
        load_int(level, AT_SLOT),
        load_int(ring, OLDEST),
    )
    time, latest = load_int(frame, NOW), load_int(frame, NOW)
    if going:
        latest -= 1
        if input_ > load_int(frame, DRIVER):
            time -= 1
    while True:
        if number < oldest:
            if not next_chain(index, level):
                break
            hash_, number = load_int(level, AT_HASH), load_int(level, AT_SLOT)
            continue
        link = links + (number & slots) * (8 * LINK)
        row = rows + (number & slots) * stride
        number = load_int(link, OLDER)
        if load_int(link, HASH) != hash_:
            continue
        came = load_int(row, 1)
        if came > latest:
            continue
        age = time - came
        if age < 0:
            age = _MOST
        if age > longest:
            number = np.int64(-1)
            continue
        if not same_keys(frame, step, index, row, base):
            continue
        store_int(index, FOUND, load_int(index, FOUND) + 1)
        store_int(load_int(frame, BOUND_AT), input_, row)
        if load_int(feed, SHOWN) > 0:
            show(frame, feed, row, base)
        if flags != 0 and not holds(frame, flags, early):
            continue
        if carry(frame, depth, level, cell_of(ring, row), cover, age):
            store_int(index, WANTED, load_int(index, WANTED) + 1)
            store_int(level, AT_SLOT, number)
            return True
    store_int(level, AT_SLOT, -1)
    return False


@kernel()
def _search(frame: int, early: Any, late: Any) -> None:
    """All combinations of the event that is bound with those that the other inputs hold."""
    last = load_int(frame, INPUTS) - 2
    steps = load_int(frame, STEPS_AT) + load_int(frame, DRIVER) * (last + 1) * (8 * STEP_WORDS)
    levels = load_int(frame, LEVELS_AT)
    depth = np.int64(0)
    begin(frame, steps, levels)
    while depth >= 0:
        step, level = steps + depth * (8 * STEP_WORDS), levels + depth * (8 * LEVEL_WORDS)
        if not _next_event(frame, depth, step, level, early):
            depth -= 1
            continue
        following = level + 8 * LEVEL_WORDS
        if depth < last:
            depth += 1
            begin(frame, step + 8 * STEP_WORDS, following)
        else:
            emit(frame, load_int(following, AT_KIND), load_int(following, AT_SET), late)


@kernel()
def _drive(frame: int, input_: int, row: int, kind: int, at: int, early: Any, late: Any) -> None:
    """Search with an event that the nodes of a set see."""
    feed = load_int(frame, FEEDS_AT) + input_ * (8 * FEED_WORDS)
    levels = load_int(frame, LEVELS_AT)
    store_int(frame, DRIVER, input_)
    store_int(frame, LAST_PAIRS, -1)
    store_int(load_int(frame, BOUND_AT), input_, row)
    if load_int(feed, SHOWN) > 0:
        show(frame, feed, row, load_int(ring_of(frame, input_), BASE))
    store_int(levels, AT_KIND, kind)
    store_int(levels, AT_SET, at)
    _search(frame, early, late)


@kernel()
def _go(frame: int, input_: int, size: int, first: int, last: int, early: Any, late: Any) -> None:
    """Put out what goes now because an event of an input leaves windows of this size, those of
    the nodes from one place to another, as far as they are suspects."""
    cover = load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    order, suspects = load_int(cover, ORDER_AT), load_int(frame, SUSPECTS_AT)
    ring, words = ring_of(frame, input_), load_int(frame, WORDS_OF_SET)
    time, out = load_int(frame, NOW) - 1 - size, load_int(frame, SETS_AT)
    number, end = first_from(ring, time), load_int(ring, NUMBER)
    while number < end:
        row = event_at(ring, number)
        if load_int(row, 1) != time:
            return
        cell = cell_of(ring, row)
        kind, some = load_int(cell, KIND), False
        clear_bits(out, words)
        for place in range(first, last):
            node = load_int(order, place)
            if has_bit(suspects, node) and (kind == ALL or is_in(kind, set_of(cell, words), node)):
                set_bit(out, node)
                some = True
        if some:
            _drive(frame, input_, row, np.int64(BITS), out, early, late)
        number += 1


@kernel()
def _let_go(frame: int, early: Any, late: Any) -> None:
    """Put out all that goes for suspects at this instant."""
    store_int(frame, GOING, 1)
    suspects = load_int(frame, SUSPECTS_AT)
    for i in range(load_int(frame, INPUTS)):
        if not all_hold(frame, i):
            continue
        cover = load_int(frame, COVERS_AT) + i * (8 * COVER_WORDS)
        sizes, order = load_int(cover, SIZES_AT), load_int(cover, ORDER_AT)
        place, count = np.int64(0), load_int(cover, SIZED)
        while place < count:
            first, size, some = place, load_int(sizes, place), False
            while place < count and load_int(sizes, place) == size:
                some = some or has_bit(suspects, load_int(order, place))
                place += 1
            if some:
                _go(frame, i, size, first, place, early, late)
    clear_bits(suspects, load_int(frame, WORDS_OF_SET))
    store_int(frame, SUSPECTED, 0)
    store_int(frame, GOING, 0)


@kernel()
def _leave(frame: int, input_: int, number: int, size: int, early: Any, late: Any) -> None:
    """An event leaves windows of this size: put out what goes with it."""
    ring, cover = ring_of(frame, input_), load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    # Who had the longest windows may have left: then it is no longer held.
    if number < load_int(ring, OLDEST) or not all_hold(frame, input_):
        return
    row = event_at(ring, number)
    kind = leaving_at(frame, cover, cell_of(ring, row), size)
    if kind != 0:
        _drive(frame, input_, row, kind, load_int(frame, SETS_AT), early, late)


@kernel()
def _leave_until(frame: int, last: int, early: Any, late: Any) -> None:
    """Put out all that goes up to an instant, in order of time."""
    store_int(frame, GOING, 1)
    while load_int(frame, VISITS) > 0 and load_int(load_int(frame, VISITS_AT), INSTANT) <= last:
        visit = load_int(frame, VISITS_AT)
        input_, number = load_int(visit, VISITED), load_int(visit, VISITED_NUMBER)
        size = load_int(visit, VISITED_SIZE)
        store_int(frame, NOW, load_int(visit, INSTANT))
        drop_visit(frame)
        _leave(frame, input_, number, size, early, late)
        visit_after(frame, input_, number, size)
    store_int(frame, GOING, 0)


@kernel((WORDS, PREDICATE_TYPE, PREDICATE_TYPE))
def run(words: np.ndarray, early: Any, late: Any) -> None:
    """Take all events of the feeds; output is in memory that the frame then names.

    `early`: the part of the residual without constants; `late`: the part with them. It stops when
    nothing is allowed any more, and can be called again.
    """
    early, late = predicate_at(early), predicate_at(late)
    frame = address(words)
    feeds, sets = load_int(frame, FEEDS_AT), load_int(frame, SETS_AT)
    complete = load_int(frame, COMPLETE) != 0
    driver = next_feed(frame)
    while driver >= 0:
        ring, feed = ring_of(frame, driver), feeds + driver * (8 * FEED_WORDS)
        number = load_int(feed, FEED_ROW)
        row = load_int(feed, FEED_ROWS_AT) + number * load_int(feed, FEED_BYTES)
        store_int(feed, FEED_ROW, number + 1)
        time = load_int(row, 1)
        if time != load_int(frame, NOW):
            if load_int(frame, SUSPECTED) != 0:
                _let_go(frame, early, late)
            if complete:
                _leave_until(frame, time, early, late)
            store_int(frame, NOW, time)
            forget_left(frame, time)
        kind = members_of(frame, feed, number)
        if kind != 0 and can_join(feed, row, load_int(ring, BASE)):
            if all_hold(frame, driver):
                index = index_of(frame, load_int(ring, FIRST_INDEX))
                store_int(frame, DRIVER_HASH, hash_row(row, load_int(ring, BASE), index))
                _drive(frame, driver, row, kind, sets, early, late)
            add_event(frame, driver, row, kind)
            if complete:
                visit_after(frame, driver, load_int(ring, NUMBER) - 1, np.int64(-1))
            store_int(frame, ALLOWED, load_int(frame, ALLOWED) - 1)
            if load_int(frame, ALLOWED) < 0:
                return
        driver = next_feed(frame)
    if load_int(frame, SUSPECTED) != 0:
        _let_go(frame, early, late)


@kernel((WORDS, types.int64))
def pass_time(words: np.ndarray, bound: int) -> None:
    """Forget what has left all windows before this time."""
    forget_left(address(words), bound)


@kernel((WORDS, types.int64, PREDICATE_TYPE, PREDICATE_TYPE))
def let_leave(words: np.ndarray, bound: int, early: Any, late: Any) -> None:
    """Put out all that goes before an instant: nothing comes any more before it."""
    _leave_until(address(words), bound - 1, predicate_at(early), predicate_at(late))


@kernel((WORDS, types.int64))
def visit_all(words: np.ndarray, bound: int) -> None:
    """Know anew when events leave windows; what goes before an instant is known."""
    visit_held(address(words), bound)
