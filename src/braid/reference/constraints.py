"""How closely arrivals keep a constraint: its least k, by looking at every pair of events.

Rows are counted and time is passed in the order in which events are given. Events of one instant
are there together: of two that have the same time, neither has come after the other as far as
REFERENCES is concerned, so a partner of the same time is no late one. An event in which an
attribute is NULL joins nothing, and keeps every constraint; it counts as a row like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from braid.algebra.constraints import Constraint, ConstraintKind
from braid.reference.ordering import compare, equal, order_key

#: What a key that is none is missed by: there is no k for which it would be kept.
BROKEN = 2**63 - 1


@dataclass(frozen=True)
class Arrival:
    """An event that came: of which stream, when, with which values."""

    stream: str
    time: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Counterexample:
    """Two events and by how much they miss a constraint; the second is the one that breaks it."""

    first: Arrival
    second: Arrival
    distance: int


def adherence(constraint: Constraint, arrivals: Iterable[Arrival]) -> int:
    """The least k with which a constraint is kept; `BROKEN` for a key that is none."""
    return max((pair.distance for pair in _distances(constraint, list(arrivals))), default=0)


def keeps(constraint: Constraint, arrivals: Iterable[Arrival]) -> bool:
    """Whether a constraint is kept within its own k."""
    return adherence(constraint, arrivals) <= constraint.k


def counterexample(constraint: Constraint, arrivals: Iterable[Arrival]) -> Counterexample | None:
    """Of the pairs that miss a constraint, the one that is complete first; None if it is kept."""
    came = list(arrivals)
    order = {id(arrival): place for place, arrival in enumerate(came)}
    missed = [pair for pair in _distances(constraint, came) if pair.distance > constraint.k]
    return min(missed, key=lambda pair: order[id(pair.second)], default=None)


def _distances(constraint: Constraint, came: Sequence[Arrival]) -> Iterable[Counterexample]:
    """Every pair of events that a constraint speaks of, with the k that it takes."""
    match constraint.kind:
        case ConstraintKind.REFERENCES:
            return _references(constraint, came)
        case ConstraintKind.KEY:
            return _equal(constraint, came, lambda *_: BROKEN)
        case ConstraintKind.CLUSTERED:
            return _equal(constraint, came, _clustering)
        case _:
            return _scrambled(constraint, came)


def _references(constraint: Constraint, came: Sequence[Arrival]) -> Iterable[Counterexample]:
    """The join distance: events of the target after the first one, up to and with its partner."""
    for place, first in enumerate(came):
        if first.stream != constraint.stream:
            continue
        own = _key(first, constraint.attributes)
        rows = 0
        for second in came[place + 1 :]:
            if second.stream != constraint.target or second.time == first.time:
                continue
            rows += 1
            if own is not None and _key(second, constraint.target_attributes) == own:
                distance = second.time - first.time if constraint.timed else rows
                yield Counterexample(first, second, distance)


def _equal(
    constraint: Constraint, came: Sequence[Arrival], distance: Any
) -> Iterable[Counterexample]:
    """Pairs of events of the stream that have the same values."""
    own = [arrival for arrival in came if arrival.stream == constraint.stream]
    keys = [_key(arrival, constraint.attributes) for arrival in own]
    for i, first in enumerate(own):
        for j in range(i + 1, len(own)):
            if keys[i] is not None and keys[i] == keys[j]:
                between = keys[i + 1 : j]
                yield Counterexample(
                    first, own[j], distance(constraint, first, own[j], keys[i], between)
                )


def _clustering(
    constraint: Constraint, first: Arrival, second: Arrival, key: Any, between: Sequence[Any]
) -> int:
    """The clustering distance: events with other values between two of the same."""
    if constraint.timed:
        return second.time - first.time
    return sum(other != key for other in between)


def _scrambled(constraint: Constraint, came: Sequence[Arrival]) -> Iterable[Counterexample]:
    """The scrambling distance: events after the first one, up to and with one that is before it."""
    (attribute,) = constraint.attributes
    own = [arrival for arrival in came if arrival.stream == constraint.stream]
    descending = constraint.kind is ConstraintKind.DESCENDING
    for i, first in enumerate(own):
        for j in range(i + 1, len(own)):
            earlier, later = first.values[attribute], own[j].values[attribute]
            if earlier is None or later is None or equal(earlier, later):
                continue
            if (compare(later, earlier) > 0) == descending:
                distance = own[j].time - first.time if constraint.timed else j - i
                yield Counterexample(first, own[j], distance)


def _key(arrival: Arrival, attributes: Sequence[str]) -> tuple[Any, ...] | None:
    values = tuple(arrival.values[name] for name in attributes)
    return None if any(value is None for value in values) else order_key(values)
