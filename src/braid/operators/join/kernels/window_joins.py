"""The loop of a join with windows inside: each event meets the events in the windows of the others.

A combination arrives when the last of its events does, for the output nodes that see all of them
and whose window of each input is at least as long as that input's event is old. It leaves for a node
at the first instant at which one of its events is too old for it. Under Istream only suspects are
asked for that (`window_joins_output.py`). Other readers need all that leaves (`complete`): an event
that leaves windows meets the events that were there an instant ago (`expiry.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.jit import types
from braid.jit.expiry_heap import pop_expiry
from braid.jit.records import Words
from braid.jit.ring import event_at, first_from
from braid.jit.runtime import PREDICATE_TYPE, kernel, predicate_at
from braid.operators.core.kernels.node_sets import ALL, BITS, clear_bits, has_bit, set_bit, set_of
from braid.operators.join.kernels.expiry import await_after, await_all, leaving_at
from braid.operators.join.kernels.frame import (
    Level,
    Step,
    all_hold,
    bind,
    can_join,
    members_of,
    next_feed,
    next_row,
    steps_of,
)
from braid.operators.join.kernels.probe import begin, found, next_chain
from braid.operators.join.kernels.rings import add_event, cell_of, ring_of
from braid.operators.join.kernels.store import hash_row
from braid.operators.join.kernels.window_covers import Cover, WindowFrame, carry, drop_expired
from braid.operators.join.kernels.window_joins_output import emit, is_in

_MOST = np.int64(9223372036854775807)


# ---- for the loop of selection joins as well ----


@kernel()
def latest_of(frame: WindowFrame) -> int:
    """The time of the latest events that can be part of a combination.

    A combination that arrives is of the windows as they are now, one that leaves is of the windows
    as they were an instant ago.
    """
    return frame.now - 1 if frame.leaving != 0 else frame.now


@kernel()
def seen_at(frame: WindowFrame, input_: int) -> int:
    """The instant at which an event of an input must be in a window.

    A combination leaves with the first of its events, that of the first input if there are several.
    """
    return frame.now - 1 if frame.leaving != 0 and input_ > frame.driver else frame.now


@kernel()
def age_of(row: Words, instant: int, latest: int) -> int:
    """The age of an event at an instant; -1 if it is too late for a combination."""
    time = row[1]
    if time > latest:
        return np.int64(-1)
    age = instant - time
    return age if age >= 0 else _MOST


@kernel()
def start(frame: WindowFrame, input_: int, row: Words, kind: int, nodes: Words) -> None:
    """Let an event of an input, which the nodes of a set see, drive a search."""
    frame.driver = input_
    frame.last_pairs = -1
    bind(frame, input_, row)
    frame.levels.kind = kind
    frame.levels.nodes = nodes


@kernel()
def note_hash(frame: WindowFrame, driver: int, row: Words) -> None:
    """Note the hash of the event that drives by the columns that are compared."""
    ring = ring_of(frame, driver)
    compared = frame.indexes[frame.covers[driver].compared]
    frame.driver_hash = hash_row(row, ring.base, compared)


@kernel()
def same_size(cover: Cover, first: int) -> int:
    """The place after the last node with a window of the size that the node at a place has."""
    last = first + 1
    while last < cover.nodes and cover.sizes[last] == cover.sizes[first]:
        last += 1
    return last


@kernel()
def some_suspect(frame: WindowFrame, cover: Cover, first: int, last: int) -> bool:
    """Whether a node from one place to another is a suspect."""
    for place in range(first, last):
        if has_bit(frame.suspects, cover.order[place]):
            return True
    return False


@kernel()
def forget_suspects(frame: WindowFrame) -> None:
    clear_bits(frame.suspects, frame.set_words)
    frame.suspected = 0


@kernel()
def next_event(frame: WindowFrame, step: Step, level: Level, early: Any) -> int:
    """Bind the next event that a probe finds and that is in the longest window; its age, or -1 if there
    is none."""
    input_ = step.input
    ring, index, longest = (
        ring_of(frame, input_),
        frame.indexes[step.index],
        frame.covers[input_].longest,
    )
    links, rows, slots, words = index.links, ring.rows, ring.capacity - 1, ring.slot_words
    base, oldest = ring.base, ring.oldest
    instant, latest = seen_at(frame, input_), latest_of(frame)
    hash_, number = level.hash, level.slot
    while True:
        if number < oldest:
            if not next_chain(index, level):
                break
            hash_, number = level.hash, level.slot
            continue
        link, row = links[number & slots], rows.after((number & slots) * words)
        number = link.next
        if link.hash != hash_:
            continue
        age = age_of(row, instant, latest)
        if age > longest:
            number = np.int64(-1)
        elif age >= 0 and found(frame, step, index, row, base, early):
            level.slot = number
            return age
    level.slot = -1
    return np.int64(-1)


@kernel()
def note_wanted(frame: WindowFrame, step: Step) -> bool:
    """Some node sees the event that was found."""
    frame.indexes[step.index].wanted += 1
    return True


# ---- search ----


@kernel()
def _next_event(frame: WindowFrame, depth: int, step: Step, level: Level, early: Any) -> bool:
    """Bind the next event that a probe finds and carry its nodes on; whether there is one."""
    input_ = step.input
    ring, cover = ring_of(frame, input_), frame.covers[input_]
    age = next_event(frame, step, level, early)
    while age >= 0:
        if carry(frame, depth, level, cell_of(ring, frame.bound[input_].row), cover, age):
            return note_wanted(frame, step)
        age = next_event(frame, step, level, early)
    return False


@kernel()
def _search(frame: WindowFrame, early: Any, late: Any) -> None:
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
            emit(frame, level[1].kind, level[1].nodes, late)


@kernel()
def drive(
    frame: WindowFrame, input_: int, row: Words, kind: int, nodes: Words, early: Any, late: Any
) -> None:
    """Search with an event that the nodes of a set see."""
    start(frame, input_, row, kind, nodes)
    _search(frame, early, late)


# ---- combinations that leave ----


@kernel()
def _leave_suspects(
    frame: WindowFrame, input_: int, first: int, last: int, early: Any, late: Any
) -> None:
    """Emit what leaves now because an event of an input leaves the windows, all of one size, of the
    nodes from one place to another, as far as they are suspects."""
    ring, cover, words, out = (
        ring_of(frame, input_),
        frame.covers[input_],
        frame.set_words,
        frame.sets,
    )
    time = frame.now - 1 - cover.sizes[first]
    number = first_from(ring, time)
    while number < ring.next:
        row = event_at(ring, number)
        if row[1] != time:
            return
        if not can_join(frame.feeds[input_], row, ring.base):
            # Another form holds it.
            number += 1
            continue
        cell = cell_of(ring, row)
        kind, some = cell.kind, False
        nodes = set_of(cell, words)
        clear_bits(out, words)
        for place in range(first, last):
            node = cover.order[place]
            if has_bit(frame.suspects, node) and (kind == ALL or is_in(kind, nodes, node)):
                set_bit(out, node)
                some = True
        if some:
            drive(frame, input_, row, np.int64(BITS), out, early, late)
        number += 1


@kernel()
def leave_all_suspects(frame: WindowFrame, early: Any, late: Any) -> None:
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
def _leave(frame: WindowFrame, input_: int, number: int, size: int, early: Any, late: Any) -> None:
    """An event leaves windows of this size: emit the combinations that leave with it."""
    ring = ring_of(frame, input_)
    # The nodes with the longest windows may be gone: then the event is no longer held.
    if number < ring.oldest or not all_hold(frame, input_):
        return
    row = event_at(ring, number)
    kind = leaving_at(frame, frame.covers[input_], cell_of(ring, row), size)
    if kind != 0:
        drive(frame, input_, row, kind, frame.sets, early, late)


@kernel()
def _leave_until(frame: WindowFrame, last: int, early: Any, late: Any) -> None:
    """Emit all that leaves up to an instant, in order of time."""
    frame.leaving = 1
    while pop_expiry(frame.expiries, last):
        expiry = frame.expiries.taken
        input_, number, size = expiry.input, expiry.number, expiry.size
        frame.now = expiry.instant
        _leave(frame, input_, number, size, early, late)
        await_after(frame, input_, number, size)
    frame.leaving = 0


@kernel((WindowFrame.type, PREDICATE_TYPE, PREDICATE_TYPE))
def run(frame: WindowFrame, early: Any, late: Any) -> None:
    """Take all events of the feeds; the output is in memory that the frame then names.

    `early`: the part of the residual without constants; `late`: the part with them. It stops when
    nothing is allowed any more, and can be called again.
    """
    early, late = predicate_at(early), predicate_at(late)
    complete = frame.complete != 0
    driver = next_feed(frame)
    while driver >= 0:
        ring, feed = ring_of(frame, driver), frame.feeds[driver]
        number, row = feed.row, next_row(feed)
        time = row[1]
        if time != frame.now:
            if frame.suspected != 0:
                leave_all_suspects(frame, early, late)
            if complete:
                _leave_until(frame, time, early, late)
            frame.now = time
            drop_expired(frame, time)
        kind = members_of(frame, feed, number)
        if kind != 0 and can_join(feed, row, ring.base):
            if all_hold(frame, driver):
                note_hash(frame, driver, row)
                drive(frame, driver, row, kind, frame.sets, early, late)
            add_event(frame, driver, row, kind)
            if complete:
                await_after(frame, driver, ring.next - 1, np.int64(-1))
            frame.allowed -= 1
            if frame.allowed < 0:
                return
        driver = next_feed(frame)
    if frame.suspected != 0:
        leave_all_suspects(frame, early, late)


@kernel((WindowFrame.type, types.int64))
def pass_time(frame: WindowFrame, bound: int) -> None:
    """Forget the events that have left all windows before this time."""
    drop_expired(frame, bound)


@kernel((WindowFrame.type, types.int64, PREDICATE_TYPE, PREDICATE_TYPE))
def let_leave(frame: WindowFrame, bound: int, early: Any, late: Any) -> None:
    """Emit all that leaves before an instant: nothing arrives any more before it."""
    _leave_until(frame, bound - 1, predicate_at(early), predicate_at(late))


@kernel((WindowFrame.type, types.int64))
def expire_from(frame: WindowFrame, bound: int) -> None:
    """Build the heap of expiries anew; what leaves before an instant was emitted."""
    await_all(frame, bound)
