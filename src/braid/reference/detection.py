"""DETECT by its definition: which events make a batch, what a batch is answered, and when.

*Events that count.* Of each input, the events for which everything that WHERE asks of that input
alone is true, and whose join attributes are not NULL. The others only move a window by rows.

*Batches.* The events that count are cut, in the order of time and in whole epochs, into batches:
a batch begins with the first event after the last one, at its instant F. It ends at the first
instant at which it has BATCH events or more, else WITHIN after F, else at the end of time. What
occurs at the instant at which it ends is in it. The answer stands at that instant, T.

*Results.* A result of a batch is a combination of events, one of each input, that the join has
when an event of the batch comes: at the instant t of that event, all others have come and are in
their windows, and so is the event itself. So every combination that ever comes to the join is a
result of some batch: of the one in which its newest event is.

*Synopses.* In place of the batch's input stands the batch; in place of each other input stand its
events that have come by T, without the batches that have ended by T and whose last event had left
the window at F or before. These are at least the events that are in a result, whatever t is:
nothing is forgotten that a waiting batch may need. An entry of a synopsis is the number of events
of its buckets (bitmaps: whether there are any), and a path of the join graph is multiplied out
from entry to entry, which counts all results and perhaps more.

*Answers.* None if a path counts zero. Otherwise the bound is the least that a path gives: its
count, times the numbers of events of the inputs that are not on it. The packing density is the
mean, over all positions of all paths, of events by entries. If it is above the threshold, or
always, the answer is verified: there is one only if there is a result.

*By key.* PARTITION BY names attributes that the join equates over all inputs. Each combination of
their values that occurs is then a detection of its own, over the events that have these values:
it has its own windows (the last n rows of the key), batches, synopses and answers, and nothing of
another key is in them. An event with a NULL there belongs to none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from braid.algebra.detection import MOST, NEVER, Path, bucket_of, word_of
from braid.algebra.expressions import Literal, Source
from braid.algebra.join_graphs import Graph, graph_of
from braid.algebra.joins import parts_of
from braid.algebra.relations import Detection, Window, WindowKind
from braid.reference.events import Bindings, Event, Udfs
from braid.reference.ordering import order_key
from braid.reference.scalars import holds, value

#: The values of an event that one pair of inputs is compared by.
Key = tuple[Any, ...]


@dataclass
class Candidate:
    """An event that counts: when it came, when it left its window, its keys by edge."""

    end: int
    leave: int
    keys: Mapping[int, Key]
    buckets: Mapping[int, int]


@dataclass
class Batch:
    """Events of one input; `closed` is the instant of the answer."""

    first: int
    events: list[Candidate] = field(default_factory=list)
    closed: int = NEVER


def detect(
    detection: Detection, inputs: Sequence[Sequence[Event]], udfs: Udfs, until: int | None = None
) -> list[Event]:
    """The answers to all batches, as points; `until`: those before this instant."""
    return [
        Event((*key, detection.settings.labels[i], *row), batch.closed, batch.closed)
        for key, part, own in by_key(detection, inputs)
        for i, batch, row, _ in answers(part, own, udfs)
        if until is None or batch.closed < until
    ]


def by_key(
    detection: Detection, inputs: Sequence[Sequence[Event]]
) -> Iterator[tuple[Key, Detection, Sequence[Sequence[Event]]]]:
    """The detections that there are, each with its key and the events that it is over."""
    if not detection.partition:
        yield (), detection, inputs
        return
    alone = replace(detection, partition=())
    values: dict[Any, Key] = {}
    events: dict[Any, list[list[Event]]] = {}
    for number, came in enumerate(inputs):
        schema = detection.join.inputs[number].schema
        for event in came:
            row = event.row(schema)
            key = tuple(row[part.columns[number]] for part in detection.partition)
            if None not in key:
                called = order_key(key)
                values.setdefault(called, key)
                events.setdefault(called, [[] for _ in inputs])[number].append(event)
    for called, own in events.items():
        yield values[called], alone, own


def answers(
    detection: Detection, inputs: Sequence[Sequence[Event]], udfs: Udfs
) -> Iterator[tuple[int, Batch, tuple[Any, ...], int]]:
    """For each batch of a detection that is not by key, if it is answered: its input, it, the
    answer, the true number of results."""
    for number, batch, seen in looked_at(detection, inputs, udfs):
        graph, settings = graph_of(detection.join), detection.settings
        counts = [path_count(path, seen, settings.buckets) for path in graph.paths]
        if not all(counts):
            continue
        bound = min(
            count * prod(len(seen[j]) for j in range(len(seen)) if j not in path.inputs)
            for path, count in zip(graph.paths, counts, strict=True)
        )
        packing = packing_of(graph, seen, settings.buckets)
        true = results(graph, number, batch, seen)
        verified = settings.packing is not None and packing > settings.packing
        if verified and not true:
            continue
        yield (
            number,
            batch,
            (min(bound, MOST) if settings.counts else None, verified, packing),
            true,
        )


def looked_at(
    detection: Detection, inputs: Sequence[Sequence[Event]], udfs: Udfs
) -> Iterator[tuple[int, Batch, list[list[Candidate]]]]:
    """Every batch with its input, and the events that stand for each input in its synopses."""
    graph = graph_of(detection.join)
    own = [
        candidates(detection, graph, number, events, udfs) for number, events in enumerate(inputs)
    ]
    cut = [batches(detection, events) for events in own]
    for number, found in enumerate(cut):
        for batch in found:
            seen = [
                batch.events if j == number else list(_standing(others, batch.first, batch.closed))
                for j, others in enumerate(cut)
            ]
            yield number, batch, seen


def _standing(found: Sequence[Batch], first: int, instant: int) -> Iterator[Candidate]:
    for batch in found:
        if batch.closed <= instant and batch.events[-1].leave <= first:
            continue
        yield from (event for event in batch.events if event.end <= instant)


# ---- events and batches --------------------------------------------------------------------------


def candidates(
    detection: Detection, graph: Graph, number: int, events: Sequence[Event], udfs: Udfs
) -> list[Candidate]:
    """The events of an input that count, in the order in which its window has them."""
    window = detection.join.inputs[number]
    assert isinstance(window, Window)
    asked = parts_of(detection.join).selections[number]
    schema, buckets = window.input.schema, detection.settings.buckets
    ordered = sorted(events, key=lambda event: _order(window, event))
    found = []
    for place, event in enumerate(ordered):
        bindings = Bindings({Source.INPUT: event.row(schema)}, 0, udfs)
        keys = {e: tuple(value(x, bindings) for x in xs) for e, xs in graph.keys(number)}
        known = all(part is not None for key in keys.values() for part in key)
        if not known or not all(holds(part, bindings) for part in asked):
            continue
        types = {e: [x.type for x in xs] for e, xs in graph.keys(number)}
        hashed = {
            e: bucket_of([word_of(v, t) for v, t in zip(key, types[e], strict=True)], buckets[e])
            for e, key in keys.items()
        }
        found.append(Candidate(event.end, _leave(window, ordered, place), keys, hashed))
    return found


def _order(window: Window, event: Event) -> tuple[Any, ...]:
    row = event.row(window.input.schema)
    number = order_key(row[window.order]) if window.order is not None else ()
    return (event.end, number, order_key(event.values))


def _leave(window: Window, ordered: Sequence[Event], place: int) -> int:
    """The first instant at which an event is no longer in its window."""
    size = window.size.value if isinstance(window.size, Literal) else 0
    match window.kind:
        case WindowKind.UNBOUNDED:
            return NEVER
        case WindowKind.ROWS:
            return ordered[place + size].end if place + size < len(ordered) else NEVER
        case WindowKind.RANGE | WindowKind.NOW:
            return min(ordered[place].end + size + 1, NEVER)


def batches(detection: Detection, events: Sequence[Candidate]) -> list[Batch]:
    settings, unit = detection.settings, detection.unit
    found: list[Batch] = []
    for instant in sorted({event.end for event in events}):
        if not found or found[-1].closed < instant:
            found.append(Batch(instant))
        batch = found[-1]
        batch.events += [event for event in events if event.end == instant]
        deadline = settings.deadline(batch.first, unit)
        batch.closed = instant if len(batch.events) >= settings.batch else deadline
    return found


# ---- synopses ------------------------------------------------------------------------------------


def path_count(path: Path, seen: Sequence[Sequence[Candidate]], buckets: Sequence[int]) -> int:
    return sum(partial_vectors(path, seen, buckets)[-1])


def partial_vectors(
    path: Path, seen: Sequence[Sequence[Candidate]], buckets: Sequence[int]
) -> list[list[int]]:
    """The query equation from left to right: after each input the numbers of connecting sequences
    by the bucket that the next input continues from (after the last: that it ends in)."""
    vectors: list[list[int]] = []
    for position, number in enumerate(path.inputs):
        edges = path.around(position)
        before = edges[0] if position else None
        after = edges[-1]
        vector = [0] * buckets[after]
        for event in seen[number]:
            came = 1 if before is None else vectors[-1][event.buckets[before]]
            vector[event.buckets[after]] += came
        vectors.append(vector)
    return vectors


def packing_of(graph: Graph, seen: Sequence[Sequence[Candidate]], buckets: Sequence[int]) -> float:
    """The mean of events by entries over the positions of all paths, in their order."""
    found = [len(seen[n]) / graph.size(n, edges, buckets) for n, edges in graph.positions()]
    total = 0.0
    for density in found:
        total += density
    return total / len(found)


# ---- results -------------------------------------------------------------------------------------


def results(graph: Graph, number: int, batch: Batch, seen: Sequence[Sequence[Candidate]]) -> int:
    """How many combinations the join has of which an event of the batch is the newest."""
    return sum(_combinations(graph, number, event, seen) for event in batch.events)


def _combinations(
    graph: Graph, number: int, newest: Candidate, seen: Sequence[Sequence[Candidate]]
) -> int:
    instant = newest.end
    there = [
        [e for e in events if e.end <= instant < e.leave] if j != number else [newest]
        for j, events in enumerate(seen)
    ]
    if newest.leave <= instant:
        return 0

    def extended(chosen: tuple[Candidate, ...]) -> int:
        if len(chosen) == len(there):
            return 1
        more = (event for event in there[len(chosen)] if _fits(graph, (*chosen, event)))
        return sum(extended((*chosen, event)) for event in more)

    return extended(())


def _fits(graph: Graph, chosen: Sequence[Candidate]) -> bool:
    last = len(chosen) - 1
    for edge, (first, second) in enumerate(graph.edges):
        if second == last:
            left, right = chosen[first].keys[edge], chosen[second].keys[edge]
            if order_key(left) != order_key(right):
                return False
    return True
