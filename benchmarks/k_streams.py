"""Streams that keep constraints to within a k that was asked for: the generator of section 3.5.

Join graphs of figure 7 (an arrow goes from many to one; children have a filter):

    a   S1 -> S2 (a), S1 -> S3 (b)        b   S1 -> S3, S2 -> S3 (a)        c   S1 -> S2 (a)

Every stream is drawn in its own order first, so that its distances are exact; then all are put into
one order of arrival, and the place in it is the time of an event: one event a tick. A `k` may be
an array, one for each event or value, where it changes over time.

How far things are out of order is decided by `slots`: things come in order, and each is put into
the free place that is at most so far behind the first free one. What comes later is put no earlier
than that place, so no distance is larger than was asked, and where the place is free it is that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.engines import TIME

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
#: One for all, or one for each.
Distance = int | Ints

#: How many of the parent join one of the child, on average.
MULTIPLICITY = 5
#: Filters are `f < selectivity` over percentages.
PERCENT = 100
#: Every so many-th distance is as large as it may be, so that k is what was asked.
_FORCED = 50


@dataclass(frozen=True)
class KStreams:
    """Columns by stream; the time of an event is its place among all."""

    columns: Mapping[str, Mapping[str, Ints]]

    @property
    def events(self) -> int:
        return sum(len(columns[TIME]) for columns in self.columns.values())

    def batches(self, ticks: int) -> list[dict[str, pa.Table]]:
        """What arrives in each so many ticks."""
        return [
            {name: _part(columns, start, start + ticks) for name, columns in self.columns.items()}
            for start in range(0, self.events, ticks)
        ]


def _part(columns: Mapping[str, Ints], start: int, stop: int) -> pa.Table:
    first, last = np.searchsorted(columns[TIME], [start, stop])
    return pa.table({name: values[first:last] for name, values in columns.items()})


# --- distances ---


def drawn(k: Distance, count: int, random: np.random.Generator) -> Ints:
    """Distances from 0 to k, each as likely, and some of them k."""
    most = np.broadcast_to(np.asarray(k, np.int64), count)
    found = random.integers(0, most + 1)
    found[_FORCED // 2 :: _FORCED] = most[_FORCED // 2 :: _FORCED]
    return found


def slots(behind: Sequence[int] | Ints) -> Ints:
    """Where each thing goes: the last free place that is at most so far behind the first free one."""
    wanted = np.asarray(behind).tolist()
    size = len(wanted) + max(wanted, default=0) + 1
    #: The last free place at or before each; shortened whenever it is asked.
    below = list(range(-1, size))
    first, found = 0, []
    taken = bytearray(size)
    for most in wanted:
        place = first + most
        root = place + 1
        while below[root] != root - 1:
            root = below[root] + 1
        at, place = place + 1, root - 1
        while below[at] != at - 1:
            below[at], at = place, below[at] + 1
        found.append(place)
        taken[place] = 1
        below[root] = below[root - 1] if root else -1
        while taken[first]:
            first += 1
    return np.array(found, np.int64)


def _compact(places: Ints) -> Ints:
    """The order of places, where some at the end were left free."""
    order = np.empty(len(places), np.int64)
    order[np.argsort(places)] = np.arange(len(places))
    return order


def clustered(multiplicity: Ints, k: Distance, random: np.random.Generator) -> Ints:
    """Values in order of arrival, of which each comes about so often, clustered within k.

    The first of a value takes the first free place, the last one that so far behind it that as many
    others are between them as its distance says, and the rest are in between. Where others have
    taken the places, a value is spread further, up to k; what finds no place is left out.
    """
    count = len(multiplicity)
    distance = drawn(k, count, random).tolist()
    most = np.broadcast_to(np.asarray(k, np.int64), count).tolist()
    share = random.random(int(multiplicity.sum())).tolist()
    places: list[int] = []
    values: list[int] = []
    taken = bytearray(len(share) + max(most) + int(multiplicity.max()) + 2)
    first = 0
    for value, often in enumerate(multiplicity.tolist()):
        own = _cluster(taken, first, often, (distance[value], most[value]), share)
        places += own
        values += [value] * len(own)
        while taken[first]:
            first += 1
    return np.array(values, np.int64)[np.argsort(places)]


def _cluster(
    taken: bytearray, begin: int, often: int, reach: tuple[int, int], share: list[float]
) -> list[int]:
    """Places of one value, the first of them `begin`."""
    distance, most = reach
    own = [begin]
    taken[begin] = 1
    for number in range(1, often):
        last = number == often - 1
        place = begin + (distance + len(own) if last else 1 + int(share.pop() * distance))
        if taken[place] and last:
            place = _free(taken, place, begin, -1)
        if taken[place]:
            place = _free(taken, place, begin + most + len(own), 1)
        if not taken[place]:
            taken[place] = 1
            own.append(place)
    return own


def _free(taken: bytearray, place: int, limit: int, step: int) -> int:
    """The next free place in a direction, or the limit."""
    while taken[place] and place != limit:
        place += step
    return place


def scrambled(values: Ints, k: Distance, random: np.random.Generator) -> Ints:
    """Values that are given in order in one of arrival, in order within k."""
    order = np.empty(len(values), np.int64)
    order[_compact(slots(drawn(k, len(values), random)))] = values
    return order


def referred(seen: Ints, count: int, k: Distance, recent: int, random: np.random.Generator) -> Ints:
    """For events before which so many of the child have come, the place of the one that each joins.

    Its distance is drawn from 0 to k; at distance 0 it is one of the `recent` last. -1: none.
    """
    distance = drawn(k, len(seen), random)
    before = seen - 1 - random.integers(0, np.clip(seen, 1, recent))
    place = np.where(distance > 0, seen + distance - 1, before)
    return np.where((place >= 0) & (place < count), place, -1)


def awaited(first: Floats, k: Distance, random: np.random.Generator) -> Floats:
    """When children come whose first parents come at these times, in order: within k of them."""
    distance = drawn(k, len(first), random)
    places = slots(np.maximum(distance - 1, 0))
    by_place = np.argsort(places)
    # A place is over once all before it are taken: by then the one that took the last has come.
    over = np.maximum.accumulate(by_place)
    late = (distance[over] > 0) & (places[over] <= np.arange(len(over)))
    times = first[over] + np.where(late, 1e-3, -1e-3) + np.arange(len(over)) * 1e-9
    found = np.empty(len(first), np.float64)
    found[by_place] = times
    return found


# --- streams ---


def together(streams: Mapping[str, tuple[Floats, Mapping[str, Ints]]]) -> KStreams:
    """Streams with times of their own in one order of arrival."""
    times = np.concatenate([times for times, _ in streams.values()])
    ranks = np.empty(len(times), np.int64)
    ranks[np.argsort(times, kind="stable")] = np.arange(len(times))
    found, start = {}, 0
    for name, (own, columns) in streams.items():
        place = ranks[start : start + len(own)]
        order = np.argsort(place)
        found[name] = {n: values[order] for n, values in columns.items()} | {TIME: place[order]}
        start += len(own)
    return KStreams(found)


def _regular(count: int, rate: float, shift: float) -> Floats:
    return np.arange(count) / rate + shift


def _percentages(count: int, random: np.random.Generator) -> Ints:
    return random.integers(0, PERCENT, count)


def _or_nothing(keys: Ints, places: Ints) -> Ints:
    """The keys at these places; where there is none, one that nobody else has."""
    none = -1 - np.arange(len(places))
    return np.where(places >= 0, keys[places], none)


def _multiplicities(events: int, average: int, random: np.random.Generator) -> Ints:
    """How often each value comes, that many events together."""
    found = random.integers(1, 2 * average, events // average + 1)
    return found[: np.searchsorted(np.cumsum(found), events) + 1]


def referring(
    events: int, k: Distance, seed: int, *, dangling: float = 0.0, recent: int = 100
) -> KStreams:
    """Graph a: join distances within k for S1 -> S2 and S1 -> S3 (figures 8 and 9).

    `k` may have one for each event of S1. `dangling`: which part of S1 has no partner in S3.
    """
    random = np.random.default_rng(seed)
    children = events // (MULTIPLICITY + 2)
    parents = children * MULTIPLICITY
    at = _regular(parents, MULTIPLICITY, 0.61)
    columns: dict[str, Ints] = {}
    sides = {}
    for name, key, shift in (("S2", "a", 0.0), ("S3", "b", 0.31)):
        times = _regular(children, 1.0, shift)
        keys = random.permutation(children)
        seen = np.searchsorted(times, at)
        places = referred(seen, children, k, recent, random)
        if name == "S3":
            places = np.where(random.random(parents) < dangling, -1, places)
        columns[key] = _or_nothing(keys, places)
        sides[name] = (times, {key: keys, "f": _percentages(children, random)})
    columns["v"] = np.arange(parents)
    return together({"S1": (at, columns), **sides})


def arranged(events: int, k: Distance, seed: int, arrangement: str) -> KStreams:
    """Graph b: S1.a and S2.a clustered or scrambled within k; S3 comes before both (figures 10 to 13).

    `k` may have one for each value. `arrangement` is "clustered" or "scrambled".
    """
    random = np.random.default_rng(seed)
    parents = events * MULTIPLICITY // (2 * MULTIPLICITY + 1)
    sides: dict[str, tuple[Floats, dict[str, Ints]]] = {}
    first: list[Floats] = []
    amounts = [_multiplicities(parents, MULTIPLICITY, random) for _ in range(2)]
    count = min(len(amount) for amount in amounts)
    for number, amount in enumerate(amounts, 1):
        own = k if isinstance(k, int) else np.resize(k, count)
        values = _arranged(amount[:count], own, arrangement, random)
        at = _regular(len(values), MULTIPLICITY, 0.13 * number)
        sides[f"S{number}"] = (at, {"a": values, "v": np.arange(len(values))})
        begin = np.full(count, np.inf)
        np.minimum.at(begin, values, at)
        first.append(begin)
    # Before the first parent of its own, and in no order that would tell anything.
    times = np.minimum(*first) - random.uniform(0.01, 20.0, count)
    sides["S3"] = (times, {"a": np.arange(count), "f": _percentages(count, random)})
    return together(_renamed(sides, count, random if arrangement == "clustered" else None))


def _arranged(amount: Ints, k: Distance, arrangement: str, random: np.random.Generator) -> Ints:
    if arrangement == "clustered":
        return clustered(amount, k, random)
    own = k if isinstance(k, int) else np.repeat(k, amount)
    return scrambled(np.repeat(np.arange(len(amount)), amount), own, random)


def _renamed(
    sides: Mapping[str, tuple[Floats, dict[str, Ints]]],
    count: int,
    random: np.random.Generator | None,
) -> dict[str, tuple[Floats, dict[str, Ints]]]:
    """Other values for the same ones, so that clusters are not in order as well."""
    if random is None:
        return dict(sides)
    names = random.permutation(count)
    return {
        stream: (times, columns | {"a": names[columns["a"]]})
        for stream, (times, columns) in sides.items()
    }


def ordered_children(events: int, k: Distance, seed: int, *, recent: int = 100) -> KStreams:
    """Graph c: S2.a in order within k, and S1 after its partner (figure 14)."""
    random = np.random.default_rng(seed)
    children = events // (MULTIPLICITY + 1)
    parents = children * MULTIPLICITY
    times = _regular(children, 1.0, 0.0)
    keys = scrambled(np.arange(children), k, random)
    at = _regular(parents, MULTIPLICITY, 0.61)
    places = referred(np.searchsorted(times, at), children, 0, recent, random)
    own = {"a": _or_nothing(keys, places), "v": np.arange(parents)}
    child = {"a": keys, "f": _percentages(children, random)}
    return together({"S1": (at, own), "S2": (times, child)})


def clusters_and_order(events: int, k: int, seed: int, *, dangling: float = 0.25) -> KStreams:
    """Graph a: CA(0) on S1.a, OAC(k) on S3.b, and a part of S1 without a partner (figure 15)."""
    random = np.random.default_rng(seed)
    children = events // (MULTIPLICITY + 2)
    amount = _multiplicities(children * MULTIPLICITY, MULTIPLICITY, random)
    values = clustered(amount, 0, random)
    at = _regular(len(values), MULTIPLICITY, 0.61)
    begin = np.full(len(amount), np.inf)
    np.minimum.at(begin, values, at)
    names = random.permutation(len(amount))
    second = begin - random.uniform(0.01, 20.0, len(amount))
    third = _regular(children, 1.0, 0.31)
    keys = scrambled(np.arange(children), k, random)
    places = referred(np.searchsorted(third, at), children, 0, 100, random)
    places = np.where(random.random(len(at)) < dangling, -1, places)
    # Somebody who has no partner asks for one that could be there, and never is.
    none = np.searchsorted(third, at) * 2 + 1
    own = {
        "a": names[values],
        "b": np.where(places >= 0, 2 * keys[places], none),
        "v": np.arange(len(at)),
    }
    return together(
        {
            "S1": (at, own),
            "S2": (second, {"a": names, "f": _percentages(len(names), random)}),
            "S3": (third, {"b": 2 * keys, "f": _percentages(children, random)}),
        }
    )


def clusters_that_refer(events: int, clustering: int, k: int, seed: int) -> KStreams:
    """Graph c: CA on S1.a and RIDS(k) on the join, two parents for each child (figure 16)."""
    random = np.random.default_rng(seed)
    children = events // 3
    amount = _multiplicities(2 * children, 2, random)
    values = clustered(amount, clustering, random)
    at = _regular(len(values), 2.0, 0.5)
    begin = np.full(len(amount), np.inf)
    np.minimum.at(begin, values, at)
    order = np.argsort(begin)
    times = np.empty(len(amount), np.float64)
    times[order] = awaited(begin[order], k, random)
    names = random.permutation(len(amount))
    own = {"a": names[values], "v": np.arange(len(at))}
    child = {"a": names, "f": _percentages(len(names), random)}
    return together({"S1": (at, own), "S2": (times, child)})
