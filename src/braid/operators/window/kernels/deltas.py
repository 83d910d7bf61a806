"""Deltas of windows: the rows that come, and the rows that leave, in order of time.

A row that leaves is a *visit* until it is written: the slot of the row, with output nodes.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from braid.jit.records import Halves, Record, Words, i64, record
from braid.jit.runtime import kernel
from braid.jit.vector import Vector, free_vector, reserve
from braid.operators.window.kernels.row_slots import RowSlots, row_at


@record
class Visit(Record):
    """A row that leaves some windows."""

    time: i64
    #: The order among the visits of one time.
    order: i64
    slot: i64
    #: The first of its output nodes, and their number.
    begin: i64
    count: i64


VISIT_WORDS = Visit.stride // 8


@record
class Leaving(Record):
    """What leaves windows: visits, their output nodes, and where runs of visits begin.

    A run is in order of time and arrival.
    """

    visits: Annotated[Vector, 1]
    nodes: Annotated[Vector, 1]
    runs: Annotated[Vector, 1]


@record
class Arrivals(Record):
    """Events in order of time, and pairs of an event and a node in order of events."""

    events: Words
    width: i64
    index: Halves
    members: Halves
    members_length: i64


@kernel()
def event_at(arrivals: Arrivals, event: int) -> Words:
    return arrivals.events.after(arrivals.width * event)


@kernel()
def write_visit(leaving: Leaving, time: int, order: int, slot: int, begin: int) -> None:
    """Write a visit of the output nodes from `begin` on."""
    visits = leaving.visits
    reserve(visits, VISIT_WORDS, 64 * VISIT_WORDS)
    visit = Visit(visits.items.after(visits.count).address)
    visit.time, visit.order, visit.slot = time, order, slot
    visit.begin, visit.count = begin, leaving.nodes.count - begin
    visits.count += VISIT_WORDS


@kernel((Leaving.type,))
def forget_visits(leaving: Leaving) -> None:
    """The visits have been written."""
    free_vector(leaving.visits)
    free_vector(leaving.nodes)
    free_vector(leaving.runs)


@kernel()
def merge_runs(source: np.ndarray, target: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Merge neighbouring runs of (time, order, visit); where the runs of the target begin."""
    count = starts.shape[0]
    out = np.empty((count + 1) // 2, np.int64)
    for r in range(out.shape[0]):
        low = starts[2 * r]
        out[r] = low
        middle = starts[2 * r + 1] if 2 * r + 1 < count else source.shape[0]
        high = starts[2 * r + 2] if 2 * r + 2 < count else source.shape[0]
        a, b = low, middle
        for k in range(low, high):
            first = a < middle
            if first and b < high:
                first = source[a, 0] < source[b, 0] or (
                    source[a, 0] == source[b, 0] and source[a, 1] <= source[b, 1]
                )
            if first:
                target[k, 0], target[k, 1], target[k, 2] = source[a, 0], source[a, 1], source[a, 2]
                a += 1
            else:
                target[k, 0], target[k, 1], target[k, 2] = source[b, 0], source[b, 1], source[b, 2]
                b += 1
    return out


@record
class Deltas(Record):
    """Where deltas are written, and how many there are."""

    #: The first column of an input row, the number of columns, the first column of an output row.
    base: i64
    columns: i64
    out_base: i64
    width: i64
    #: Output rows, and pairs of a row and an output node.
    rows: Words
    index: Halves
    members: Halves
    row_count: i64
    pair_count: i64


@kernel()
def _write_row(deltas: Deltas, row: Words, time: int, weight: int) -> None:
    """A row of the stream as a row of a delta channel, which has one more column."""
    base, columns, out_base = deltas.base, deltas.columns, deltas.out_base
    target = deltas.rows.after(deltas.width * deltas.row_count)
    target[0] = time
    target[1] = time
    target[out_base - 1] = 0
    for word in range(2, base):
        target[word] = row[word]
    for column in range(columns):
        target[out_base + column] = row[base + column]
    target[out_base + columns] = weight
    deltas.row_count += 1


@kernel()
def _write_pair(deltas: Deltas, node: int) -> None:
    """The row that was written last is a delta of a node."""
    deltas.index[deltas.pair_count] = deltas.row_count - 1
    deltas.members[deltas.pair_count] = node
    deltas.pair_count += 1


@kernel((Arrivals.type, Leaving.type, Words.type, RowSlots.type, Deltas.type))
def write_deltas(
    arrivals: Arrivals, leaving: Leaving, order: Words, slots: RowSlots, deltas: Deltas
) -> None:
    """Write what comes (pairs of an event and an output node) and what leaves (visits in this
    order), in order of time. Visits of one row at one time are one delta."""
    visits, nodes = Visit(leaving.visits.items.address), leaving.nodes.items
    k, v = np.int64(0), np.int64(0)
    pairs, count = arrivals.members_length, leaving.visits.count // VISIT_WORDS
    while k < pairs or v < count:
        comes = k < pairs
        if comes and v < count:
            comes = event_at(arrivals, arrivals.index[k])[1] <= visits[order[v]].time
        if comes:
            event = arrivals.index[k]
            row = event_at(arrivals, event)
            _write_row(deltas, row, row[1], np.int64(1))
            while k < pairs and arrivals.index[k] == event:
                _write_pair(deltas, arrivals.members[k])
                k += 1
        else:
            visit = visits[order[v]]
            time, slot = visit.time, visit.slot
            _write_row(deltas, row_at(slots, slot), time, np.int64(-1))
            while v < count and visit.slot == slot and visit.time == time:
                for j in range(visit.begin, visit.begin + visit.count):
                    _write_pair(deltas, nodes[j])
                v += 1
                if v < count:
                    visit = visits[order[v]]
