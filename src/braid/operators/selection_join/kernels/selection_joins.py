"""The loop of a selection join: that of a join with windows inside (`operators/join/kernels/window_joins.py`),
but the inputs are whole streams, and the nodes that want an event are found here (`members.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from braid.jit.expiry_heap import pop_expiry, push_expiry
from braid.jit.records import Words
from braid.jit.ring import event_at, first_from
from braid.jit.runtime import PREDICATE_TYPE, kernel, predicate_at
from braid.operators.core.kernels.node_sets import ALL, has_bit
from braid.operators.join.kernels.expiry import instant_of
from braid.operators.join.kernels.frame import (
    Level,
    Step,
    all_hold,
    can_join,
    next_feed,
    next_row,
    steps_of,
)
from braid.operators.join.kernels.probe import begin, found, next_chain
from braid.operators.join.kernels.rings import add_event, cell_of, links_of, ring_of
from braid.operators.join.kernels.window_covers import drop_expired, first_of
from braid.operators.join.kernels.window_joins import (
    age_of,
    forget_suspects,
    latest_of,
    note_hash,
    same_size,
    seen_at,
    some_suspect,
    start,
)
from braid.operators.join.kernels.window_joins_output import emit
from braid.operators.selection_join.kernels.boxes import (
    OWN,
    SelectionFrame,
    read_keys,
    wanted_by,
)
from braid.operators.selection_join.kernels.members import (
    changes_of,
    find_first,
    keep_list,
    list_of,
    mark,
    narrow,
    note_first,
    note_list,
    see_all,
    sees,
    unmark,
)

_HALVES = types.Array(types.int32, 1, "C")
_MOST = np.int64(9223372036854775807)


# ---- search ----


@kernel()
def _next_event(frame: SelectionFrame, depth: int, step: Step, level: Level, early: Any) -> bool:
    """Bind the next event that a probe finds and carry its nodes on; whether there is one."""
    input_ = step.input
    ring, index, cover = ring_of(frame, input_), frame.indexes[step.index], frame.covers[input_]
    links, rows, slots, words = links_of(index), ring.rows, ring.capacity - 1, ring.slot_words
    base, oldest, longest = ring.base, ring.oldest, cover.longest
    instant, latest = seen_at(frame, input_), latest_of(frame)
    hash_, number = level.hash, level.slot
    while True:
        if number < oldest:
            if not next_chain(index, level):
                break
            hash_, number = level.hash, level.slot
            continue
        link, row = links[number & slots], rows.after((number & slots) * words)
        number = link.older
        if link.hash != hash_:
            continue
        age = age_of(row, instant, latest)
        if age > longest:
            number = np.int64(-1)
        elif (
            age >= 0
            and found(frame, step, index, row, base, early)
            and narrow(frame, depth, level, input_, row, age)
        ):
            index.wanted += 1
            level.slot = number
            return True
    level.slot = -1
    return False


@kernel()
def _search(frame: SelectionFrame, early: Any, late: Any) -> None:
    """Find all combinations of the event that is bound with those that the other inputs hold."""
    last = frame.inputs - 2
    steps, levels = steps_of(frame, frame.driver), frame.levels
    depth = np.int64(0)
    begin(frame, steps, levels)
    while depth >= 0:
        step, level = steps[depth], levels[depth]
        if not _next_event(frame, depth, step, level, early):
            depth -= 1
        elif depth < last:
            depth += 1
            begin(frame, step[1], level[1])
        else:
            count = see_all(frame, depth + 1, level[1].kind, level[1].nodes)
            if count > 0:
                emit(frame, count, frame.seeing, late)


@kernel()
def _drive(
    frame: SelectionFrame, input_: int, row: Words, kind: int, nodes: Words, early: Any, late: Any
) -> None:
    """Search with an event that the nodes of a list want, or ALL: who is not known yet."""
    frame.ages[input_] = -1
    start(frame, input_, row, kind, nodes)
    _search(frame, early, late)


# ---- combinations that leave ----


@kernel()
def _leave_suspects(
    frame: SelectionFrame, input_: int, first: int, last: int, early: Any, late: Any
) -> None:
    """Emit what leaves now because an event of an input leaves the windows, all of one size, of the
    nodes from one place to another, as far as they are suspects."""
    ring, cover, side = ring_of(frame, input_), frame.covers[input_], frame.sides[input_]
    size, out = cover.sizes[first], frame.first_list
    time = frame.now - 1 - size
    number = first_from(ring, time)
    while number < ring.next:
        row = event_at(ring, number)
        if row[1] != time:
            return
        keys, count = read_keys(frame, input_, row), np.int64(0)
        changes = changes_of(cell_of(ring, row))
        for place in range(first, last):
            node = cover.order[place]
            if (
                has_bit(frame.suspects, node)
                and wanted_by(side, node, keys)
                and sees(frame, input_, node, row, changes, size)
            ):
                out[count] = node
                count += 1
        if count > 0:
            note_first(frame, count)
            mark(frame)
            _drive(frame, input_, row, count, out, early, late)
            unmark(frame)
        number += 1


@kernel()
def _leave_all_suspects(frame: SelectionFrame, early: Any, late: Any) -> None:
    """Emit what leaves for suspects at this instant."""
    frame.leaving = 1
    for i in range(frame.inputs):
        if not all_hold(frame, i):
            continue
        cover, place = frame.covers[i], np.int64(0)
        while place < cover.nodes:
            last = same_size(cover, place)
            if some_suspect(frame, cover, place, last):
                _leave_suspects(frame, i, place, last, early, late)
            place = last
    forget_suspects(frame)
    frame.leaving = 0


@kernel()
def _listed(frame: SelectionFrame, input_: int, row: Words) -> int:
    """The nodes that want a held event, listed as those of the event that drives; how many."""
    cell, side = cell_of(ring_of(frame, input_), row), frame.sides[input_]
    count = cell.weight
    if count < 0:
        return find_first(frame, input_, row)
    out, listed = frame.first_list, list_of(side, cell)
    for k in range(count):
        out[k] = listed[k]
    note_first(frame, count)
    return count


@kernel()
def _await_next(frame: SelectionFrame, input_: int, number: int, size: int) -> None:
    """Add the expiry of an event from the next larger windows of anybody."""
    cover = frame.covers[input_]
    place = first_of(cover, size + 1)
    if place < cover.nodes:
        ring, following = ring_of(frame, input_), cover.sizes[place]
        instant = instant_of(event_at(ring, number)[1], following)
        push_expiry(frame.expiries, instant, input_, number, following)


@kernel()
def _await_first(frame: SelectionFrame, input_: int, number: int, found_: bool) -> None:
    """Add the first expiry of an event that has come; `found_`: the nodes that want it are listed."""
    if not found_:
        _await_next(frame, input_, number, np.int64(-1))
        return
    out, sizes, least = frame.first_list, frame.covers[input_].size_of, _MOST
    for k in range(frame.first_count):
        least = min(least, sizes[out[k]])
    instant = instant_of(event_at(ring_of(frame, input_), number)[1], least)
    push_expiry(frame.expiries, instant, input_, number, least)


@kernel()
def _leave(
    frame: SelectionFrame, input_: int, number: int, size: int, early: Any, late: Any
) -> None:
    """An event leaves windows of this size: emit the combinations that leave with it, and add its
    expiry from the next larger windows of the nodes that want it."""
    ring, sizes = ring_of(frame, input_), frame.covers[input_].size_of
    row, out = event_at(ring, number), frame.first_list
    changes = changes_of(cell_of(ring, row))
    count, following = np.int64(0), _MOST
    for k in range(_listed(frame, input_, row)):
        node = out[k]
        own = sizes[node]
        if own > size:
            following = min(following, own)
        elif own == size and sees(frame, input_, node, row, changes, size):
            out[count] = node
            count += 1
    if following < _MOST:
        push_expiry(frame.expiries, instant_of(row[1], following), input_, number, following)
    frame.first_count = count
    if count > 0 and all_hold(frame, input_):
        mark(frame)
        _drive(frame, input_, row, count, out, early, late)
        unmark(frame)


@kernel()
def _leave_until(frame: SelectionFrame, last: int, early: Any, late: Any) -> None:
    """Emit all that leaves up to an instant, in order of time."""
    frame.leaving = 1
    while pop_expiry(frame.expiries, last):
        expiry = frame.expiries.taken
        frame.now = expiry.instant
        # The nodes with the longest windows may be gone: then the event is no longer held.
        if expiry.number >= ring_of(frame, expiry.input).oldest:
            _leave(frame, expiry.input, expiry.number, expiry.size, early, late)
    frame.leaving = 0


@kernel()
def _arrive(frame: SelectionFrame, driver: int, row: Words, early: Any, late: Any) -> None:
    """An event comes: who wants it, what it combines with; then it is held, if anybody wants it."""
    ring, own, counts = ring_of(frame, driver), frame.form == OWN, frame.counts
    before, kind = counts.candidates, np.int64(ALL)
    counts.arrivals += 1
    frame.first_count = -1
    if own:
        kind = find_first(frame, driver, row)
        if kind == 0:
            return
    if all_hold(frame, driver):
        note_hash(frame, driver, row)
        if own:
            mark(frame)
        _drive(frame, driver, row, kind, frame.first_list, early, late)
        if own:
            unmark(frame)
        counts.partnered += counts.candidates > before
    number = ring.next
    add_event(frame, driver, row, np.int64(ALL))
    cell = cell_of(ring, event_at(ring, number))
    keep_list(frame, driver, cell, own)
    frame.allowed -= 1
    if frame.complete != 0:
        _await_first(frame, driver, number, own)


@kernel((SelectionFrame.type, PREDICATE_TYPE, PREDICATE_TYPE))
def run(frame: SelectionFrame, early: Any, late: Any) -> None:
    """Take all events of the feeds; the output is in memory that the frame then names.

    `early`: the part of the residual without constants; `late`: the part with them. It stops when
    nothing is allowed any more, and can be called again.
    """
    early, late = predicate_at(early), predicate_at(late)
    driver = next_feed(frame)
    while driver >= 0:
        feed = frame.feeds[driver]
        row = next_row(feed)
        time = row[1]
        if time != frame.now:
            if frame.suspected != 0:
                _leave_all_suspects(frame, early, late)
            if frame.complete != 0:
                _leave_until(frame, time, early, late)
            frame.now = time
            drop_expired(frame, time)
        if can_join(feed, row, ring_of(frame, driver).base):
            _arrive(frame, driver, row, early, late)
            if frame.allowed < 0:
                return
        driver = next_feed(frame)
    if frame.suspected != 0:
        _leave_all_suspects(frame, early, late)


@kernel((SelectionFrame.type, types.int64, PREDICATE_TYPE, PREDICATE_TYPE))
def let_leave(frame: SelectionFrame, bound: int, early: Any, late: Any) -> None:
    """Emit all that leaves before an instant: nothing arrives any more before it."""
    _leave_until(frame, bound - 1, predicate_at(early), predicate_at(late))


@kernel((SelectionFrame.type, types.int64))
def expire_from(frame: SelectionFrame, bound: int) -> None:
    """What is held was taken up again: build the heap of expiries anew, of each event from the next
    windows of anybody, at an instant or after it."""
    frame.expiries.count = 0
    for i in range(frame.inputs):
        ring = ring_of(frame, i)
        for number in range(ring.oldest, ring.next):
            _await_next(frame, i, number, bound - 2 - event_at(ring, number)[1])


@kernel((SelectionFrame.type,))
def forget_lists(frame: SelectionFrame) -> None:
    """What is held was taken up again: nobody knows who wants it, and it came in all lives."""
    for i in range(frame.inputs):
        ring = ring_of(frame, i)
        for number in range(ring.oldest, ring.next):
            cell = cell_of(ring, event_at(ring, number))
            note_list(cell, -1, -1, frame.changes)


@kernel((SelectionFrame.type, types.int64, Words.type))
def count_members(frame: SelectionFrame, input_: int, counts: Words) -> None:
    """Add to each node's count the events of an input that it wants and that are in its window."""
    ring, out = ring_of(frame, input_), frame.first_list
    for number in range(ring.oldest, ring.next):
        row = event_at(ring, number)
        age, changes = frame.now - row[1], changes_of(cell_of(ring, row))
        for k in range(find_first(frame, input_, row)):
            node = out[k]
            if sees(frame, input_, node, row, changes, age):
                counts[node] += 1


@kernel((SelectionFrame.type, types.int64, _HALVES, _HALVES))
def move_lists(frame: SelectionFrame, input_: int, before: np.ndarray, after: np.ndarray) -> None:
    """Lay the lists of the held events of an input anew, in more room."""
    ring, side, used = ring_of(frame, input_), frame.sides[input_], np.int64(0)
    for number in range(ring.oldest, ring.next):
        cell = cell_of(ring, event_at(ring, number))
        count, place = cell.weight, cell.set.address % before.shape[0]
        if count >= 0:
            for k in range(count):
                after[used + k] = before[place + k]
            cell.set = Words(used)
            used += count
    side.written, side.tail = used, 0
