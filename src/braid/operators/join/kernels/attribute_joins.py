"""The loop of a join of several forms: each event meets the events that the forms ask for.

Most probes find nothing. So a form is entered only if an event with the same hash is held: to see
that takes its `FirstProbe` and the index, and not the frame of the form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.jit import types
from braid.jit.hash_table import first
from braid.jit.records import Record, Words, i64, record
from braid.jit.ring import slot_of
from braid.jit.row_keys import add_to_hash
from braid.jit.rows import FREE, is_null
from braid.jit.runtime import PREDICATE_TYPE, kernel, predicate_at
from braid.operators.core.kernels.node_sets import ALL
from braid.operators.join.kernels.frame import all_hold, can_join, next_feed, next_row
from braid.operators.join.kernels.rings import EventRing, add_event, ring_of
from braid.operators.join.kernels.store import Index
from braid.operators.join.kernels.window_covers import WindowFrame, drop_expired
from braid.operators.join.kernels.window_joins import drive, leave_all_suspects, note_hash


@record
class FirstProbe(Record):
    """What a form looks up for an event of an input."""

    #: The frame of the form, which has the stores and indexes of the join.
    frame: WindowFrame
    #: How many columns are compared. Of a single one: the index, the column of the event, how it is
    #: compared, and whether NULL is found nowhere.
    keys: i64
    index: i64
    column: i64
    how: i64
    not_null: i64


@kernel()
def _can_join(probe: FirstProbe, driver: int, row: Words, base: int) -> bool:
    if probe.keys != 1:
        return can_join(probe.frame.feeds[driver], row, base)
    return probe.not_null == 0 or not is_null(row, probe.column)


@kernel()
def _may_find(probe: FirstProbe, index: Index, ring: EventRing, row: Words, base: int) -> bool:
    """Whether the other input holds an event with the hash of what is looked up."""
    if probe.keys != 1:
        return True
    hash_ = add_to_hash(np.int64(0), row, base, probe.column, probe.how) & FREE
    number, oldest, links = first(index, hash_), ring.oldest, index.links
    while number >= oldest:
        link = links[slot_of(ring, number)]
        if link.hash == hash_:
            return True
        number = link.next
    return False


@kernel()
def _let_leave(frame: WindowFrame, probes: FirstProbe, count: int, always: Any) -> None:
    """Emit what leaves for the suspects of all forms at this instant."""
    for k in range(count):
        if probes[k].frame.suspected != 0:
            leave_all_suspects(probes[k].frame, always, always)
    frame.suspected = 0


@kernel((WindowFrame.type, FirstProbe.type, types.int64, PREDICATE_TYPE))
def run_forms(frame: WindowFrame, probes: FirstProbe, count: int, always: Any) -> None:
    """Take all events of the feeds, of two inputs, which all forms see. An event is held once.

    `probes`: those of the forms for the first input, then those for the second. Nothing is asked
    beyond equalities: `always` stands for what would be asked. It stops when nothing is allowed any
    more, and can be called again.
    """
    always = predicate_at(always)
    driver = next_feed(frame)
    while driver >= 0:
        ring, row = ring_of(frame, driver), next_row(frame.feeds[driver])
        other, base, now = ring_of(frame, 1 - driver), ring.base, row[1]
        if now != frame.now:
            if frame.suspected != 0:
                _let_leave(frame, probes, count, always)
            frame.now = now
            drop_expired(frame, now)
        joins, wanted = all_hold(frame, driver), False
        for k in range(count):
            probe = probes[driver * count + k]
            if not _can_join(probe, driver, row, base):
                continue
            wanted = True
            if joins and _may_find(probe, frame.indexes[probe.index], other, row, base):
                own = probe.frame
                own.now = now
                note_hash(own, driver, row)
                drive(own, driver, row, np.int64(ALL), own.sets, always, always)
                frame.suspected |= own.suspected
        if wanted:
            add_event(frame, driver, row, np.int64(ALL))
            frame.allowed -= 1
            if frame.allowed < 0:
                return
        driver = next_feed(frame)
    if frame.suspected != 0:
        _let_leave(frame, probes, count, always)
