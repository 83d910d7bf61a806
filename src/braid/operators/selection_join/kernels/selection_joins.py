"""The loop of a selection join: as that of a join with windows inside (`operators/join/kernels/window_joins.py`), but the
inputs are whole streams, and who wants an event is found here (`members.py`).
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
    load_half,
    load_int,
    predicate_at,
    store_int,
)
from braid.operators.core.kernels.node_sets import ALL, NEXT, SET, WEIGHT, clear_bits, has_bit
from braid.operators.join.kernels.expiry_heap import (
    INSTANT,
    VISITED,
    VISITED_NUMBER,
    VISITED_SIZE,
    drop_visit,
    instant_of,
    put_visit,
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
    SIZE_OF_AT,
    SIZED,
    SIZES_AT,
    SUSPECTED,
    SUSPECTS_AT,
    VISITS,
    VISITS_AT,
    first_of,
    forget_left,
)
from braid.operators.join.kernels.window_joins_output import emit
from braid.operators.selection_join.kernels.boxes import (
    AGES_AT,
    ARRIVALS,
    CANDIDATES,
    CHANGES,
    FIRST_COUNT,
    FIRST_LIST_AT,
    FIRST_NUMBER,
    FORM,
    LISTED_AT,
    LISTED_ROOM,
    OWN,
    PARTNERED,
    SEEN_AT,
    TAIL,
    WRITTEN,
    keys_at,
    read_keys,
    side_of,
    wanted_by,
)
from braid.operators.selection_join.kernels.members import (
    find_first,
    keep_list,
    mark,
    narrow,
    see_all,
    sees,
    unmark,
)

_HALVES = types.Array(types.int32, 1, "C")
_MOST = np.int64(9223372036854775807)


# ---- search ----


@kernel()
def _next_event(frame: int, depth: int, step: int, level: int, early: Any) -> bool:
    """Bind the next event that a probe finds and carry its nodes on; whether there is one."""
    input_ = load_int(step, STEP_INPUT)
    ring, index = ring_of(frame, input_), index_of(frame, load_int(step, STEP_INDEX))
    feed = load_int(frame, FEEDS_AT) + input_ * (8 * FEED_WORDS)
    cover = load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    links, rows, base = load_int(index, LINKS_AT), load_int(ring, ROWS_AT), load_int(ring, BASE)
    slots, stride = load_int(ring, CAPACITY) - 1, load_int(ring, STRIDE)
    flags, longest = load_int(step, STEP_FLAGS), load_int(cover, LONGEST)
    hash_, number = load_int(level, AT_HASH), load_int(level, AT_SLOT)
    oldest = load_int(ring, OLDEST)
    time, latest = load_int(frame, NOW), load_int(frame, NOW)
    if load_int(frame, GOING) != 0:
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
        if narrow(frame, depth, level, input_, row, age):
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
            kind, at = load_int(following, AT_KIND), load_int(following, AT_SET)
            count = see_all(frame, depth + 1, kind, at)
            if count > 0:
                emit(frame, count, load_int(frame, SEEN_AT), late)


@kernel()
def _drive(frame: int, input_: int, row: int, kind: int, at: int, early: Any, late: Any) -> None:
    """Search with an event that is wanted by the nodes of a list, or ALL: who is not known yet."""
    feed = load_int(frame, FEEDS_AT) + input_ * (8 * FEED_WORDS)
    levels = load_int(frame, LEVELS_AT)
    store_int(frame, DRIVER, input_)
    store_int(frame, LAST_PAIRS, -1)
    store_int(load_int(frame, BOUND_AT), input_, row)
    store_int(load_int(frame, AGES_AT), input_, -1)
    if load_int(feed, SHOWN) > 0:
        show(frame, feed, row, load_int(ring_of(frame, input_), BASE))
    store_int(levels, AT_KIND, kind)
    store_int(levels, AT_SET, at)
    _search(frame, early, late)


# ---- what goes ----


@kernel()
def _go(frame: int, input_: int, size: int, first: int, last: int, early: Any, late: Any) -> None:
    """Put out what goes now because an event of an input leaves windows of this size, those of
    the nodes from one place to another, as far as they are suspects."""
    cover = load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    order, suspects = load_int(cover, ORDER_AT), load_int(frame, SUSPECTS_AT)
    ring, side = ring_of(frame, input_), side_of(frame, input_)
    time, out = load_int(frame, NOW) - 1 - size, load_int(frame, FIRST_LIST_AT)
    number, end = first_from(ring, time), load_int(ring, NUMBER)
    while number < end:
        row = event_at(ring, number)
        if load_int(row, 1) != time:
            return
        read_keys(frame, input_, row)
        keys, count = keys_at(frame, input_), np.int64(0)
        changes = load_int(cell_of(ring, row), NEXT)
        for place in range(first, last):
            node = load_int(order, place)
            if (
                has_bit(suspects, node)
                and wanted_by(side, node, keys)
                and sees(frame, input_, node, row, changes, size)
            ):
                store_int(out, count, node)
                count += 1
        if count > 0:
            store_int(frame, FIRST_COUNT, count)
            store_int(frame, FIRST_NUMBER, load_int(frame, FIRST_NUMBER) + 1)
            mark(frame)
            _drive(frame, input_, row, count, out, early, late)
            unmark(frame)
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
def _listed(frame: int, input_: int, row: int) -> int:
    """The nodes that want a held event, listed as those of the event that drives; how many."""
    cell, side = cell_of(ring_of(frame, input_), row), side_of(frame, input_)
    count = load_int(cell, WEIGHT)
    if count < 0:
        read_keys(frame, input_, row)
        return find_first(frame, input_)
    out = load_int(frame, FIRST_LIST_AT)
    listed = load_int(side, LISTED_AT)
    listed += 4 * (load_int(cell, SET) % load_int(side, LISTED_ROOM))
    for k in range(count):
        store_int(out, k, load_half(listed, k))
    store_int(frame, FIRST_NUMBER, load_int(frame, FIRST_NUMBER) + 1)
    return count


@kernel()
def _visit_next(frame: int, input_: int, number: int, size: int) -> None:
    """Visit an event when it leaves the next larger windows of anybody."""
    cover = load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    place = first_of(cover, size + 1)
    if place < load_int(cover, SIZED):
        ring, following = ring_of(frame, input_), load_int(load_int(cover, SIZES_AT), place)
        instant = instant_of(load_int(event_at(ring, number), 1), following)
        put_visit(frame, instant, input_, number, following)


@kernel()
def _visit_first(frame: int, input_: int, number: int, found: bool) -> None:
    """Visit an event that has come when it first leaves a window; `found`: who wants it is listed."""
    if not found:
        _visit_next(frame, input_, number, np.int64(-1))
        return
    cover = load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    out, sizes, least = load_int(frame, FIRST_LIST_AT), load_int(cover, SIZE_OF_AT), _MOST
    for k in range(load_int(frame, FIRST_COUNT)):
        least = min(least, load_int(sizes, load_int(out, k)))
    instant = instant_of(load_int(event_at(ring_of(frame, input_), number), 1), least)
    put_visit(frame, instant, input_, number, least)


@kernel()
def _leave(frame: int, input_: int, number: int, size: int, early: Any, late: Any) -> None:
    """An event leaves windows of this size: put out what goes with it, and visit it again when it
    leaves the next larger ones of those who want it."""
    ring = ring_of(frame, input_)
    row, out = event_at(ring, number), load_int(frame, FIRST_LIST_AT)
    cover = load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    sizes, changes = load_int(cover, SIZE_OF_AT), load_int(cell_of(ring, row), NEXT)
    count, following = np.int64(0), _MOST
    for k in range(_listed(frame, input_, row)):
        node = load_int(out, k)
        own = load_int(sizes, node)
        if own > size:
            following = min(following, own)
        elif own == size and sees(frame, input_, node, row, changes, size):
            store_int(out, count, node)
            count += 1
    if following < _MOST:
        put_visit(frame, instant_of(load_int(row, 1), following), input_, number, following)
    store_int(frame, FIRST_COUNT, count)
    if count > 0 and all_hold(frame, input_):
        mark(frame)
        _drive(frame, input_, row, count, out, early, late)
        unmark(frame)


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
        # Who had the longest windows may have left: then it is no longer held.
        if number >= load_int(ring_of(frame, input_), OLDEST):
            _leave(frame, input_, number, size, early, late)
    store_int(frame, GOING, 0)


@kernel()
def _arrive(frame: int, driver: int, row: int, early: Any, late: Any) -> None:
    """An event comes: who wants it, what it combines with; then it is held, if anybody wants it."""
    ring, own = ring_of(frame, driver), load_int(frame, FORM) == OWN
    before = load_int(frame, CANDIDATES)
    store_int(frame, ARRIVALS, load_int(frame, ARRIVALS) + 1)
    kind, at = np.int64(ALL), load_int(frame, FIRST_LIST_AT)
    store_int(frame, FIRST_COUNT, -1)
    if own:
        read_keys(frame, driver, row)
        kind = find_first(frame, driver)
        if kind == 0:
            return
    if all_hold(frame, driver):
        index = index_of(frame, load_int(ring, FIRST_INDEX))
        store_int(frame, DRIVER_HASH, hash_row(row, load_int(ring, BASE), index))
        if own:
            mark(frame)
        _drive(frame, driver, row, kind, at, early, late)
        if own:
            unmark(frame)
        if load_int(frame, CANDIDATES) > before:
            store_int(frame, PARTNERED, load_int(frame, PARTNERED) + 1)
    number = load_int(ring, NUMBER)
    add_event(frame, driver, row, np.int64(ALL))
    cell = cell_of(ring, event_at(ring, number))
    keep_list(frame, driver, cell, own, load_int(frame, CHANGES))
    store_int(frame, ALLOWED, load_int(frame, ALLOWED) - 1)
    if load_int(frame, COMPLETE) != 0:
        _visit_first(frame, driver, number, own)


@kernel((WORDS, PREDICATE_TYPE, PREDICATE_TYPE))
def run(words: np.ndarray, early: Any, late: Any) -> None:
    """Take all events of the feeds; output is in memory that the frame then names.

    `early`: the part of the residual without constants; `late`: the part with them. It stops when
    nothing is allowed any more, and can be called again.
    """
    early, late = predicate_at(early), predicate_at(late)
    frame = address(words)
    feeds = load_int(frame, FEEDS_AT)
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
            if load_int(frame, COMPLETE) != 0:
                _leave_until(frame, time, early, late)
            store_int(frame, NOW, time)
            forget_left(frame, time)
        if can_join(feed, row, load_int(ring, BASE)):
            _arrive(frame, driver, row, early, late)
            if load_int(frame, ALLOWED) < 0:
                return
        driver = next_feed(frame)
    if load_int(frame, SUSPECTED) != 0:
        _let_go(frame, early, late)


@kernel((WORDS, types.int64, PREDICATE_TYPE, PREDICATE_TYPE))
def let_leave(words: np.ndarray, bound: int, early: Any, late: Any) -> None:
    """Put out all that goes before an instant: nothing comes any more before it."""
    _leave_until(address(words), bound - 1, predicate_at(early), predicate_at(late))


@kernel((WORDS, types.int64))
def visit_all(words: np.ndarray, bound: int) -> None:
    """What is held was taken up again: visit each event when it leaves the next windows of anybody,
    at an instant or after it; what went before is known."""
    frame = address(words)
    store_int(frame, VISITS, 0)
    for i in range(load_int(frame, INPUTS)):
        ring = ring_of(frame, i)
        for number in range(load_int(ring, OLDEST), load_int(ring, NUMBER)):
            _visit_next(frame, i, number, bound - 2 - load_int(event_at(ring, number), 1))


@kernel((WORDS,))
def forget_lists(words: np.ndarray) -> None:
    """What is held was taken up again: nobody knows who wants it, and it came in all lives."""
    frame = address(words)
    for i in range(load_int(frame, INPUTS)):
        ring = ring_of(frame, i)
        for number in range(load_int(ring, OLDEST), load_int(ring, NUMBER)):
            cell = cell_of(ring, event_at(ring, number))
            store_int(cell, WEIGHT, -1)
            store_int(cell, SET, -1)
            store_int(cell, NEXT, load_int(frame, CHANGES))


@kernel((WORDS, types.int64, WORDS))
def count_members(words: np.ndarray, input_: int, counts: np.ndarray) -> None:
    """Add to each node's count the events of an input that it wants and that are in its window."""
    frame = address(words)
    ring, out, now = ring_of(frame, input_), load_int(frame, FIRST_LIST_AT), load_int(frame, NOW)
    for number in range(load_int(ring, OLDEST), load_int(ring, NUMBER)):
        row = event_at(ring, number)
        age, changes = now - load_int(row, 1), load_int(cell_of(ring, row), NEXT)
        read_keys(frame, input_, row)
        for k in range(find_first(frame, input_)):
            node = load_int(out, k)
            if sees(frame, input_, node, row, changes, age):
                counts[node] += 1


@kernel((WORDS, types.int64, _HALVES, _HALVES))
def move_lists(words: np.ndarray, input_: int, before: np.ndarray, after: np.ndarray) -> None:
    """Lay the lists of the held events of an input anew, in more room."""
    frame = address(words)
    ring, side, used = ring_of(frame, input_), side_of(frame, input_), np.int64(0)
    for number in range(load_int(ring, OLDEST), load_int(ring, NUMBER)):
        cell = cell_of(ring, event_at(ring, number))
        count, place = load_int(cell, WEIGHT), load_int(cell, SET) % before.shape[0]
        if count >= 0:
            for k in range(count):
                after[used + k] = before[place + k]
            store_int(cell, SET, used)
            used += count
    store_int(side, WRITTEN, used)
    store_int(side, TAIL, 0)
