"""What subscriptions of the technical benchmark find, worked out one by one without any engine.

The conditions of a step are evaluated for all events at once; what remains are the few events
that start a pattern, and a plain walk from each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.cayuga import RISE, Events, Mask, Parameters, Step, Subscriptions
from benchmarks.workloads import Floats, Ints


def expected(
    template: str, drawn: Subscriptions, count: int, seen: Events, parameters: Parameters
) -> Ints:
    """Rows of query, start, end (and for the template with sums the bits of the first one).

    Over the first `count` subscriptions and all events given.
    """
    rows = [
        (query, *found)
        for query in range(count)
        for found in _found(template, drawn, query, seen, parameters)
    ]
    width = 4 if template == "nondeterministic_agg" else 3
    return np.array(rows, np.int64).reshape(len(rows), width)


def _found(
    template: str, drawn: Subscriptions, query: int, seen: Events, parameters: Parameters
) -> Iterator[tuple[int, ...]]:
    one, two, three = (_holds(step, query, seen, parameters) for step in drawn.steps)
    if template.startswith("linear"):
        rising = drawn.rising[query] if template == "linear_dyn" else None
        return _linear(one, two, three, seen.continuous, rising)
    primary = np.flatnonzero(seen.discrete[:, drawn.primary[query]] == drawn.value[query])
    starts = np.flatnonzero(one).tolist()
    if template == "filter":
        return _filtered(starts, two, three, primary.tolist(), parameters.duration)
    chains = _chains(starts, two, three, primary.tolist(), parameters.duration)
    if template == "nondeterministic":
        return ((chain[0], chain[-1]) for chain in chains)
    return ((chain[0], chain[-1], _sum_bits(chain, seen)) for chain in chains)


def _holds(step: Step, query: int, seen: Events, parameters: Parameters) -> Mask:
    low, high = parameters.bounds(step.number[query])
    equal = seen.discrete[:, step.equal[query]] == step.value[query]
    values = seen.continuous[:, step.range[query]]
    return equal.all(axis=1) & (low <= values).all(axis=1) & (values <= high).all(axis=1)


def _linear(
    one: Mask, two: Mask, three: Mask, continuous: Floats, rising: int | None
) -> Iterator[tuple[int, int]]:
    """Three events in a row."""
    holds = one[:-2] & two[1:-1] & three[2:]
    if rising is not None:
        rises = continuous[1:, rising] > RISE * continuous[:-1, rising]
        holds &= rises[:-1] & rises[1:]
    return ((start, start + 2) for start in np.flatnonzero(holds).tolist())


def _filtered(
    starts: list[int], two: Mask, three: Mask, primary: list[int], duration: int
) -> Iterator[tuple[int, int]]:
    """Each time the very next event with the primary value, within the duration from the start."""
    for start in starts:
        second, third = _next(primary, start, 1), _next(primary, start, 2)
        if second is None or third is None or third - start > duration:
            continue
        if two[second] and three[third]:
            yield start, third


def _next(primary: list[int], start: int, which: int) -> int | None:
    """The first or second position with the primary value after the start."""
    place = int(np.searchsorted(primary, start, side="right")) + which - 1
    return primary[place] if place < len(primary) else None


def _chains(
    starts: list[int], two: Mask, three: Mask, primary: list[int], duration: int
) -> Iterator[list[int]]:
    """Every second and third event with the primary value in time, whatever lies between.

    A chain has all events with the primary value from the start to the third event: what is
    summed up. The third one may be any after the second.
    """
    for start in starts:
        later = [tick for tick in primary if start < tick <= start + duration]
        for second in range(len(later)):
            for third in range(second + 1, len(later)):
                if two[later[second]] and three[later[third]]:
                    yield [start, *later[: third + 1]]


def _sum_bits(chain: list[int], seen: Events) -> int:
    """The running sum of c0 in the order of events, as the bits of a DOUBLE."""
    total = seen.continuous[chain[0], 0]
    for tick in chain[1:]:
        total = total + seen.continuous[tick, 0]
    return int(np.float64(total).view(np.int64))
