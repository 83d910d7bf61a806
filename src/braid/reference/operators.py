"""The operators of the event algebra, by their definitions: one function an operator.

Streams are finite multisets here, held as lists in no particular order. Nothing is
incremental, nothing is indexed; `horizon` is ignored, since it may only save memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from braid.algebra.documents import Documents
from braid.algebra.expressions import Source
from braid.algebra.nodes import Extension, Iterate, Node, Project, Read, SameTime, Select, Union
from braid.algebra.nodes import Sequence as SequenceNode
from braid.algebra.relations import ToStream
from braid.reference.aggregates import aggregate
from braid.reference.documents import evaluate_documents
from braid.reference.events import Bindings, Event, Udfs
from braid.reference.relations import to_stream
from braid.reference.scalars import holds, value

Streams = Mapping[str, Sequence[Event]]


class TooMany(Exception):
    """An answer has more events than the caller wants to wait for."""


@dataclass
class _Evaluation:
    """What one evaluation is given, and the streams that it has made of relations so far: a view
    that several inputs read is written out in each, and need not be worked out in each."""

    streams: Streams
    udfs: Udfs
    limit: int | None
    until: int | None
    made: dict[ToStream, list[Event]] = field(default_factory=dict)

    def run(self, node: Node) -> list[Event]:
        if isinstance(node, ToStream):
            if node not in self.made:
                inputs = [self.run(child) for child in node.inputs]
                self.made[node] = to_stream(node, inputs, self.udfs, self.until)
            result = self.made[node]
        else:
            inputs = [self.run(child) for child in node.inputs]
            result = _apply(node, inputs, self.streams, self.udfs, self.limit)
        _check(len(result), self.limit)
        return result


def evaluate(
    node: Node,
    streams: Streams,
    udfs: Udfs | None = None,
    limit: int | None = None,
    until: int | None = None,
) -> list[Event]:
    """The stream that an expression denotes, given all events of the streams that it reads.

    `limit`: give up, with `TooMany`, when a part of the answer is larger. Iterations over
    simultaneous events multiply, and whoever draws expressions at random will meet that. `until`:
    only what ends before this instant. Raises `Overflow` where a sum in a relation has no value.
    """
    if until is not None:
        streams = {n: [e for e in events if e.end < until] for n, events in streams.items()}
    return list(_Evaluation(streams, udfs or {}, limit, until).run(node))


def _check(size: int, limit: int | None) -> None:
    if limit is not None and size > limit:
        raise TooMany


def _apply(
    node: Read
    | Select
    | Project
    | Union
    | SequenceNode
    | Iterate
    | SameTime
    | Documents
    | Extension,
    inputs: list[list[Event]],
    streams: Streams,
    known: Udfs,
    limit: int | None,
) -> list[Event]:
    match node:
        case Read():
            return list(streams[node.stream])
        case Select():
            return select(node, inputs[0], known)
        case Project():
            return project(node, inputs[0], known)
        case Union():
            return inputs[0] + inputs[1]
        case SequenceNode():
            return sequence(node, inputs[0], inputs[1], known)
        case Iterate():
            return iterate(node, inputs[0], inputs[1], known, limit)
        case SameTime():
            return same_time(node, inputs[0], known)
        case Extension():
            return node.denotes(inputs)
        case Documents():
            return evaluate_documents(node, inputs)


def select(node: Select, events: Iterable[Event], udfs: Udfs) -> list[Event]:
    """{ e in S | e satisfies the predicate }"""
    return [e for e in events if holds(node.predicate, _unary(node.input, e, udfs))]


def project(node: Project, events: Iterable[Event], udfs: Udfs) -> list[Event]:
    """Each event with its attributes computed anew; time cannot be projected away."""
    return [
        Event(tuple(value(x, bindings) for _, x in node.items), e.start, e.end)
        for e in events
        for bindings in [_unary(node.input, e, udfs)]
    ]


def sequence(
    node: SequenceNode, first: Iterable[Event], second: Sequence[Event], udfs: Udfs
) -> list[Event]:
    """{ e1;e2 satisfies p | there is no e2' with a smaller end for which e1;e2' satisfies p }

    where `e1;e2` exists only if `e1.end < e2.start`: an event that overlaps e1 is neither
    matched nor in the way.
    """
    results = []
    for e1 in first:
        row = e1.row(node.first.schema)
        matches = [
            e2
            for e2 in second
            if e1.end < e2.start
            and holds(
                node.predicate,
                Bindings(
                    {Source.FIRST: row, Source.SECOND: e2.row(node.second.schema)},
                    e2.end - e1.start,
                    udfs,
                ),
            )
        ]
        results += [Event(e1.values + e2.values, e1.start, e2.end) for e2 in _earliest(matches)]
    return results


@dataclass(frozen=True)
class Instance:
    """An element of I[n]: the first event as it came, and the values of the last iteration."""

    first: Mapping[str, Any]
    last: Mapping[str, Any]
    start: int
    end: int


def iterate(
    node: Iterate,
    first: Iterable[Event],
    second: Sequence[Event],
    udfs: Udfs,
    limit: int | None = None,
) -> list[Event]:
    """The union of I[n] for n >= 1, where I[0] is the first input and I[n+1] = step(I[n])."""
    instances = []
    for e1 in first:
        row = e1.row(node.first.schema)
        instances.append(Instance(row, row, e1.start, e1.end))
    results = []
    while instances:
        instances = [new for old in instances for new in _step(node, old, second, udfs)]
        results += [_output(node, instance) for instance in instances]
        _check(len(results), limit)
    return results


def _step(node: Iterate, instance: Instance, second: Sequence[Event], udfs: Udfs) -> list[Instance]:
    """What becomes of one instance: sequencing by `predicate`, then `rebind`, then aggregates.

    The epoch is chosen by `predicate` alone: an instance whose first matching epoch has only
    events that fail `rebind` is gone.
    """

    def bindings(e2: Event) -> Bindings:
        rows = {
            Source.FIRST: instance.first,
            Source.LAST: instance.last,
            Source.SECOND: e2.row(node.second.schema),
        }
        return Bindings(rows, e2.end - instance.start, udfs)

    matches = [
        e2 for e2 in second if instance.end < e2.start and holds(node.predicate, bindings(e2))
    ]
    new = []
    for e2 in _earliest(matches):
        bound = bindings(e2)
        if holds(node.rebind, bound):
            # All aggregates see the values from before this iteration.
            updates = {name: value(expression, bound) for name, expression in node.aggregates}
            last = {**instance.last, **bound.rows[Source.SECOND], **updates}
            new.append(Instance(instance.first, last, instance.start, e2.end))
    return new


def _output(node: Iterate, instance: Instance) -> Event:
    """The first event's attributes, the last iteration's, the aggregates that neither has."""
    updated = {name for name, _ in node.aggregates}
    values = [
        instance.last[a.name]
        if a.name in updated and a.name not in node.second.schema
        else instance.first[a.name]
        for a in node.first.schema
    ]
    values += [instance.last[a.name] for a in node.second.schema]
    values += [
        instance.last[name]
        for name, _ in node.aggregates
        if name not in node.first.schema and name not in node.second.schema
    ]
    return Event(tuple(values), instance.start, instance.end)


def same_time(node: SameTime, events: Iterable[Event], udfs: Udfs) -> list[Event]:
    """For each instant at which something occurs, one point event with the aggregates."""
    epochs: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        epochs[event.end].append(event)
    return [
        Event(tuple(aggregate(a, node.input, epoch, udfs) for a in node.aggregates), end, end)
        for end, epoch in epochs.items()
    ]


def _unary(node: Node, event: Event, udfs: Udfs) -> Bindings:
    return Bindings({Source.INPUT: event.row(node.schema)}, event.duration, udfs)


def _earliest(events: Sequence[Event]) -> list[Event]:
    """Those that occur first: all of them, if several are simultaneous."""
    first = min((e.end for e in events), default=None)
    return [e for e in events if e.end == first]
