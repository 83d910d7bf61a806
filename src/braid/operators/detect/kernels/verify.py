"""The exact join of one batch with the windows around it: is there a result?

The events that are kept of each input hang in chains by the hash of what they are compared by at
an edge, the newest first. Each event of the batch is followed along the edges from input to input
until all have one. The first result ends it.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numba import types

from braid.jit.records import Halves, Record, Words, i64, record
from braid.jit.runtime import WORDS, address, kernel


@record
class Event(Record):
    """A kept event: when it came, when it left its window, and its keys."""

    came: i64
    left: i64
    keys: Annotated[Words, 1]


@record
class Kept(Record):
    """The events of an input, and the words of each."""

    events: Words
    width: i64


@record
class Edge(Record):
    """The inputs of an edge, the number of columns, and the place of the first: those of the first
    input come before those of the second."""

    first: i64
    second: i64
    columns: i64
    begin: i64


@record
class Step(Record):
    """An input, the edge that leads to it, and the chains of its events at that edge.

    A link is the place of an event less `shift`.
    """

    input: i64
    edge: i64
    heads: Halves
    mask: i64
    following: Halves
    shift: i64


CAME, LEFT, KEYS = (Event.word(name) for name in ("came", "left", "keys"))
STEP = Step.stride // 8

_HALVES = types.Array(types.int32, 1, "C")


class Search(NamedTuple):
    """How inputs are compared, where their events lie, and which of them are chosen. `lows` and
    `highs`: the events of each input that count."""

    edges: Edge
    edge_count: int
    columns: Words
    steps: Step
    inputs: int
    kept: Kept
    lows: Words
    highs: Words
    chosen: Words
    cursors: Words


@kernel()
def _event_at(kept: Kept, place: int) -> Event:
    return Event(kept.events.after(place * kept.width).address)


@kernel((types.int64, types.int64, WORDS, _HALVES, _HALVES, types.int64, types.int64, types.int64))
def hang(
    kept: int,
    width: int,
    columns: np.ndarray,
    heads: np.ndarray,
    following: np.ndarray,
    low: int,
    high: int,
    shift: int,
) -> None:
    """Hang the events from `low` to `high` into chains; in these they are called `place - shift`."""
    mask, events, count = heads.shape[0] - 1, Words(kept), columns.shape[0]
    for t in range(low, high):
        event = Event(events.after(t * width).address)
        slot = _hash(event, Words(address(columns)), count) & mask
        following[t] = heads[slot]
        heads[slot] = t - shift


@kernel()
def has_result(
    edges: np.ndarray,
    columns: np.ndarray,
    steps: np.ndarray,
    kept: np.ndarray,
    asking: int,
    lows: np.ndarray,
    highs: np.ndarray,
    chosen: np.ndarray,
    cursors: np.ndarray,
) -> bool:
    """Whether a batch of the input `asking` has a result.

    `steps` has those from input i from `i * inputs` on: the inputs, that of the batch first, each
    with the edge that it is found by. `lows` and `highs` say which events of each input count.
    `chosen` and `cursors` have room for a word for each input, because to allocate it takes as long
    as to verify a batch of one event.
    """
    return _has_result(
        Search(
            Edge(address(edges)),
            np.int64(edges.shape[0]),
            Words(address(columns)),
            Step(address(steps))[asking * kept.shape[0]],
            np.int64(kept.shape[0]),
            Kept(address(kept)),
            Words(address(lows)),
            Words(address(highs)),
            Words(address(chosen)),
            Words(address(cursors)),
        )
    )


@kernel()
def _has_result(search: Search) -> bool:
    steps, chosen, cursors = search.steps, search.chosen, search.cursors
    root = steps.input
    for t in range(search.lows[root], search.highs[root]):
        first = _event_at(search.kept[root], t)
        instant = first.came
        if first.left <= instant:
            continue
        chosen[root] = t
        depth = np.int64(1)
        cursors[1] = _head(search, steps[1])
        while depth >= 1:
            step = steps[depth]
            number, k = step.input, cursors[depth]
            if k < search.lows[number]:
                depth -= 1
                continue
            cursors[depth] = _placed(step.following[k], step.shift)
            event = _event_at(search.kept[number], k)
            if k >= search.highs[number] or event.came > instant or event.left <= instant:
                continue
            chosen[number] = k
            if not _fits(search, depth):
                continue
            if depth == search.inputs - 1:
                return True
            depth += 1
            cursors[depth] = _head(search, steps[depth])
    return False


@kernel()
def _placed(link: int, shift: int) -> int:
    """Where the event of a link lies; below 0 if there is none, or none any more."""
    return np.int64(-1) if link < 0 else link + shift


@kernel()
def _hash(event: Event, columns: Words, count: int) -> int:
    """Of some columns of a kept event."""
    value = np.uint64(0x9E3779B97F4A7C15)
    for c in range(count):
        word = event.keys[columns[c]]
        value = (value ^ np.uint64(np.int64(word))) * np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(29)
    return np.int64(value & np.uint64(0x7FFFFFFFFFFFFFFF))


@kernel()
def _chosen(search: Search, number: int) -> Event:
    """The event of an input that is chosen."""
    return _event_at(search.kept[number], search.chosen[number])


@kernel()
def _head(search: Search, step: Step) -> int:
    """The first event that may go on from those that are chosen."""
    edge = search.edges[step.edge]
    known = edge.second if edge.first == step.input else edge.first
    columns = search.columns.after(edge.begin + (0 if known == edge.first else edge.columns))
    value = _hash(_chosen(search, known), columns, edge.columns)
    return _placed(step.heads[value & step.mask], step.shift)


@kernel()
def _fits(search: Search, depth: int) -> bool:
    """Whether the newest of the chosen events equals the others wherever it is compared with one."""
    number = search.steps[depth].input
    for e in range(search.edge_count):
        edge = search.edges[e]
        if number not in (edge.first, edge.second):
            continue
        other = edge.second if number == edge.first else edge.first
        known = False
        for s in range(depth):
            known |= search.steps[s].input == other
        if not known:
            continue
        first, second = _chosen(search, edge.first), _chosen(search, edge.second)
        own = search.columns.after(edge.begin)
        for c in range(edge.columns):
            if first.keys[own[c]] != second.keys[own[c + edge.columns]]:
                return False
    return True
