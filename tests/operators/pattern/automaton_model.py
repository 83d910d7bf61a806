"""Cayuga automata run by their formal model, event by event: a third way to the same answers.

At each instant all events of it are read. An instance is unchanged if every event of its
state's stream traverses the filter edge; otherwise each event makes a new instance along each
other edge whose predicate it satisfies, and the old instance goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from braid.algebra.expressions import Source
from braid.operators.pattern.automaton import EVENT_DURATION, Automaton, Edge, Kind
from braid.reference import Event
from braid.reference.events import Bindings
from braid.reference.scalars import value


@dataclass(frozen=True)
class Instance:
    state: int
    values: tuple[tuple[str, Any], ...]
    start: int
    end: int


def run(
    automaton: Automaton,
    streams: Mapping[str, Sequence[tuple[dict[str, Any], Event]]],
) -> list[Event]:
    """What reaches the end state; `streams` has each event with its attributes by name."""
    found: list[Event] = []
    instances: list[Instance] = []
    times = sorted({e.end for events in streams.values() for _, e in events})
    for now in times:
        epoch = {s: [x for x in events if x[1].end == now] for s, events in streams.items()}
        survivors, made = [], []
        for instance in instances:
            out = _edges(automaton, instance.state)
            events = [
                x for x in epoch[automaton.streams[instance.state]] if instance.end < x[1].start
            ]
            (filter_,) = (e for e in out if e.kind is Kind.FILTER)
            affecting = [x for x in events if _holds(filter_, instance, x)]
            if not affecting:
                survivors.append(instance)
            for x in affecting:
                made += [
                    _taken(e, instance, x)
                    for e in out
                    if e is not filter_ and _holds(e, instance, x)
                ]
        for start in automaton.starts:
            for x in epoch[automaton.streams[start]]:
                nobody = Instance(start, (), x[1].start, x[1].start)
                made += [
                    _taken(e, nobody, x) for e in _edges(automaton, start) if _holds(e, nobody, x)
                ]
        for instance in made:
            if instance.state == automaton.end:
                values = tuple(v for _, v in instance.values)
                found.append(Event(values, instance.start, instance.end))
        instances = survivors + [i for i in made if i.state != automaton.end]
    return found


def _edges(automaton: Automaton, state: int) -> list[Edge]:
    return [e for e in automaton.edges if e.source == state]


def _bindings(instance: Instance, x: tuple[dict[str, Any], Event]) -> Bindings:
    row, event = x
    held = dict(instance.values)
    return Bindings(
        {
            Source.FIRST: {n: v for n, v in held.items() if not n.startswith("$.")},
            Source.LAST: {n[2:]: v for n, v in held.items() if n.startswith("$.")},
            Source.SECOND: {**row, EVENT_DURATION: event.end - event.start},
        },
        event.end - instance.start,
        {},
    )


def _holds(edge: Edge, instance: Instance, x: tuple[dict[str, Any], Event]) -> bool:
    bindings = _bindings(instance, x)
    return all(value(c, bindings) is True for c in edge.conjuncts)


def _taken(edge: Edge, instance: Instance, x: tuple[dict[str, Any], Event]) -> Instance:
    bindings = _bindings(instance, x)
    values = tuple((n, value(e, bindings)) for n, e in edge.items)
    return Instance(edge.target, values, instance.start, x[1].end)
