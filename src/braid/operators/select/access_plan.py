"""Which access predicates clauses get: decided for shapes, from what is believed of the keys.

A row costs a probe for every class (and for every height of a tree), and a look at every candidate.
Wide classes have few candidates but there may be very many of them: 20 columns have 190 pairs. So
every shape begins with the widest class it could use, and classes that do not earn their probe
are dissolved into narrower ones, those that many of the dissolved can share before others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braid.operators.core.kernels.clauses import NULL_KEY, Clauses
from braid.operators.select.clause_index import Keys
from braid.operators.select.kernels.access_build import (
    SYMBOLS,
    WIDEST,
    Beliefs,
    Decisions,
    Shapes,
    benefits,
    constant_statistics,
    refill_shapes,
    shape_statistics,
    shapes_of,
)

#: What a probe and a candidate cost, in nanoseconds; only their ratio matters.
PROBE, CANDIDATE = 20.0, 5.0
#: A class without a list takes one in only if it is likelier than this.
LIKELY = 0.01
#: Bits that count the distinct constants of a column, and ends of intervals that are remembered.
MARKS, ENDS = 1 << 14, 2048
#: The class of a shape that was met only as the beginning of others.
UNDECIDED = -1

Numbers = np.ndarray[Any, np.dtype[Any]]


class ShapeTree:
    """The shapes that were met; see `kernels.access_build`."""

    def __init__(self) -> None:
        self.shapes = Shapes(
            np.zeros((256, 2), np.int64),
            np.zeros(128, np.int64),
            np.zeros(128, np.int64),
            np.ones(1, np.int64),
        )

    @property
    def count(self) -> int:
        return int(self.shapes.count[0])

    def number(self, clauses: Clauses) -> Numbers:
        """The shape of every clause."""
        out = np.empty(clauses.total, np.int64)
        begin = shapes_of(clauses, self.shapes, 0, out)
        while begin < len(out):
            self._grow()
            begin = shapes_of(clauses, self.shapes, begin, out)
        return out

    def _grow(self) -> None:
        old = self.shapes
        table = np.zeros((2 * len(old.table), 2), np.int64)
        refill_shapes(old.table, table)
        room = 2 * len(old.parent)
        self.shapes = Shapes(
            table, np.resize(old.parent, room), np.resize(old.symbol, room), old.count
        )

    def symbols(self, shape: int) -> tuple[int, ...]:
        found = []
        while shape:
            found.append(int(self.shapes.symbol[shape]))
            shape = int(self.shapes.parent[shape])
        return tuple(reversed(found))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.shapes)


@dataclass
class Group:
    """Clauses that would use the same symbols: how many, and how likely each symbol is for them."""

    symbols: tuple[int, ...]
    likely: tuple[float, ...]
    count: float
    shapes: list[int]

    @property
    def candidates(self) -> float:
        return self.count * float(np.prod(self.likely))

    def narrower(self) -> Iterator[Group]:
        for k in range(len(self.symbols)):
            yield Group(
                self.symbols[:k] + self.symbols[k + 1 :],
                self.likely[:k] + self.likely[k + 1 :],
                self.count,
                self.shapes,
            )


def widest(symbols: Sequence[int], likely: Sequence[float]) -> list[int]:
    """Places of the symbols that a class can have at most: the least likely, with one list."""
    equal = [k for k, symbol in enumerate(symbols) if not symbol & 1]
    listed = [k for k, symbol in enumerate(symbols) if symbol & 1]
    chosen = sorted(equal, key=lambda k: likely[k])[:WIDEST]
    if listed and len(chosen) < WIDEST and np.prod([likely[k] for k in chosen]) > LIKELY:
        chosen.append(min(listed, key=lambda k: likely[k]))
    return sorted(chosen)


def choose_classes(groups: list[Group]) -> dict[int, Group]:
    """For each shape the group it ends up in."""
    final: dict[int, Group] = {}
    pending = _merged(groups)
    for width in range(WIDEST, 0, -1):
        here = [group for group in pending if len(group.symbols) == width]
        pending = [group for group in pending if len(group.symbols) < width]
        dissolved = []
        for group in here:
            spared = min(narrow.candidates for narrow in group.narrower()) - group.candidates
            if spared * CANDIDATE > PROBE:
                final.update(dict.fromkeys(group.shapes, group))
            else:
                dissolved.append(group)
        pending = _merged(pending + _narrowed(dissolved, pending))
    for group in pending:
        final.update(dict.fromkeys(group.shapes, group))
    return final


def _narrowed(groups: list[Group], others: list[Group]) -> list[Group]:
    """Each group without one symbol, such that probes are shared and candidates few."""
    popular: dict[tuple[int, ...], float] = {group.symbols: group.count for group in others}
    for group in groups:
        for narrow in group.narrower():
            popular[narrow.symbols] = popular.get(narrow.symbols, 0.0) + group.count

    def cost(group: Group) -> float:
        share = group.count / popular[group.symbols]
        return group.candidates * CANDIDATE + PROBE * share

    return [min(group.narrower(), key=cost) for group in groups]


def _merged(groups: list[Group]) -> list[Group]:
    """Groups of the same symbols as one."""
    merged: dict[tuple[int, ...], Group] = {}
    for group in groups:
        known = merged.get(group.symbols)
        if known is None:
            merged[group.symbols] = Group(
                group.symbols, group.likely, group.count, list(group.shapes)
            )
            continue
        total = known.count + group.count
        known.likely = tuple(
            (a * known.count + b * group.count) / total
            for a, b in zip(known.likely, group.likely, strict=True)
        )
        known.count = total
        known.shapes.extend(group.shapes)
    return list(merged.values())


class Plan:
    """Decisions for all shapes of an index, and what they rest on."""

    def __init__(
        self, columns: int, sample: Keys, texts: Mapping[int, float], clauses: Clauses
    ) -> None:
        self.columns = columns
        self.tree = ShapeTree()
        self._numbers: dict[tuple[int, ...], int] = {}
        self.classes = np.zeros((0, 1), np.int64)
        self.widths = np.zeros(0, np.int64)
        self.beliefs = _beliefs(columns, sample, texts, clauses)
        self.decisions = Decisions(
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
            np.zeros(0),
            np.zeros(columns, np.int64),
            np.zeros(columns, np.int64),
        )
        shapes = self.tree.number(clauses)
        self._room()
        self._decide(clauses, shapes)

    def _room(self) -> None:
        """Room for a decision on every shape."""
        have, need = len(self.decisions.class_), len(self.tree.shapes.parent)
        if have < need:
            class_, listed, likely = (
                np.pad(array, (0, need - have), constant_values=UNDECIDED)
                for array in self.decisions[:3]
            )
            self.decisions = Decisions(class_, listed, likely, *self.decisions[3:])

    def _decide(self, clauses: Clauses, shapes: Numbers) -> None:
        counts, sums = np.zeros(self.tree.count), np.zeros((self.tree.count, SYMBOLS))
        shape_statistics(clauses, shapes, self.beliefs, counts, sums)
        groups = []
        for shape in np.flatnonzero(counts).tolist():
            symbols = self.tree.symbols(shape)
            likely = (sums[shape, : len(symbols)] / counts[shape]).tolist()
            places = widest(symbols, likely)
            groups.append(
                Group(
                    tuple(symbols[k] for k in places),
                    tuple(likely[k] for k in places),
                    float(counts[shape]),
                    [shape],
                )
            )
        for shape, group in choose_classes(groups).items():
            self._enter(shape, group)
        trees, texts = benefits(clauses, shapes, self.decisions.likely, self.beliefs)
        heights = np.log2(self.beliefs.bounds.shape[1] + 1) + 1
        self.decisions.trees[:] = trees * CANDIDATE > heights * PROBE
        self.decisions.texts[:] = texts * CANDIDATE > 2 * PROBE

    def _enter(self, shape: int, group: Group) -> None:
        self.decisions.class_[shape] = self._class(tuple(s >> 1 for s in group.symbols))
        listed = [symbol >> 1 for symbol in group.symbols if symbol & 1]
        self.decisions.listed[shape] = listed[0] if listed else -1
        self.decisions.likely[shape] = float(np.prod(group.likely))

    def _class(self, columns: tuple[int, ...]) -> int:
        """The number of a class, which may be new."""
        if columns not in self._numbers:
            self._numbers[columns] = len(self._numbers)
            self._lay_out()
        return self._numbers[columns]

    def _lay_out(self) -> None:
        """Classes as arrays, filled up with a column that does not exist."""
        width = max(1, *(len(columns) for columns in self._numbers), 1)
        self.widths = np.array([len(columns) for columns in self._numbers], np.int64)
        self.classes = np.full((len(self._numbers), width), self.columns, np.int64)
        for columns, number in self._numbers.items():
            self.classes[number, : len(columns)] = columns

    def shapes_of(self, clauses: Clauses) -> Numbers:
        """The shapes of clauses that came later; those not met before are decided one by one."""
        shapes = self.tree.number(clauses)
        self._room()
        new = shapes[self.decisions.class_[shapes] == UNDECIDED]
        for shape in np.unique(new).tolist() if len(new) else ():
            symbols = self.tree.symbols(shape)
            likely = [1.0 / max(16.0, self.beliefs.distinct[symbol >> 1]) for symbol in symbols]
            self._enter(shape, self._fitting(symbols, likely))
        return shapes

    def _fitting(self, symbols: tuple[int, ...], likely: list[float]) -> Group:
        """A class that there is if it is selective, else a new one; the next plan sees to it."""
        places = widest(symbols, likely)
        best = Group((), (), 1.0, [])
        if len(self._numbers) > 64:
            options = places if len(places) <= 1 else [*places, -1]
            for first in options:
                for second in options:
                    pick = sorted({first, second} - {-1})
                    columns = tuple(symbols[k] >> 1 for k in pick)
                    group = _pick(symbols, likely, pick)
                    if columns in self._numbers and group.candidates < best.candidates:
                        best = group
            if best.candidates <= 2 * LIKELY:
                return best
        least = sorted(places, key=lambda k: likely[k])[:2]
        return _pick(symbols, likely, sorted(least))

    def widen(self, columns: int) -> None:
        more = columns - self.columns
        self.columns = columns
        if self._numbers:
            self._lay_out()
        old = self.beliefs
        self.beliefs = Beliefs(
            np.pad(old.sample, ((0, more), (0, 0))),
            np.pad(old.distinct, (0, more)),
            np.pad(old.bounds, ((0, more), (0, 0))),
            np.pad(old.mass, ((0, more), (0, 0))),
            np.pad(old.texts, (0, more), constant_values=1.0),
        )
        self.decisions = Decisions(
            *self.decisions[:3],
            np.pad(self.decisions.trees, (0, more)),
            np.pad(self.decisions.texts, (0, more)),
        )

    @property
    def hashed(self) -> Numbers:
        """Columns of any class."""
        used = np.unique(self.classes)
        return used[used < self.columns]

    @property
    def nbytes(self) -> int:
        arrays = (*self.beliefs, *self.decisions, self.classes, self.widths)
        return self.tree.nbytes + sum(array.nbytes for array in arrays)


def _pick(symbols: Sequence[int], likely: Sequence[float], places: Sequence[int]) -> Group:
    return Group(tuple(symbols[k] for k in places), tuple(likely[k] for k in places), 1.0, [])


def _beliefs(columns: int, sample: Keys, texts: Mapping[int, float], clauses: Clauses) -> Beliefs:
    """What clauses, and a sample of keys sorted by column, say about how likely atoms are."""
    marks = np.zeros((columns, MARKS), np.uint8)
    ends, seen = np.zeros((columns, ENDS), np.int64), np.zeros(columns, np.int64)
    constant_statistics(clauses, marks, ends, seen)
    empty = np.maximum(MARKS - np.count_nonzero(marks, axis=1), 0.5)
    distinct = -MARKS * np.log(empty / MARKS)
    cells = 64
    while cells < 1024 and cells * 64 < seen.max(initial=0):
        cells *= 2
    bounds = np.zeros((columns, cells - 1), np.int64)
    mass = np.tile(np.arange(cells + 1) / cells, (columns, 1))
    for column in np.flatnonzero(seen).tolist():
        known = sample[column][sample[column] != NULL_KEY] if sample.shape[1] else sample[column]
        bounds[column] = _bounds(np.sort(ends[column, : min(seen[column], ENDS)]), known, cells)
        if len(known):
            below = np.searchsorted(known, bounds[column], "left") / sample.shape[1]
            mass[column] = np.concatenate([[0.0], below, [1.0]])
    share = np.ones(columns)
    for column, likely in texts.items():
        share[column] = likely
    return Beliefs(sample, distinct, bounds, mass, share)


def _bounds(ends: Keys, known: Keys, cells: int) -> Keys:
    """Where cells begin: half of them at quantiles of the keys, half at quantiles of the ends."""
    by_keys = (cells - 1) // 2 if len(known) else 0
    chosen = [_quantiles(ends, cells - 1 - by_keys)]
    if by_keys:
        chosen.append(_quantiles(known, by_keys))
    return np.sort(np.concatenate(chosen))


def _quantiles(ordered: Keys, count: int) -> Keys:
    return ordered[(np.arange(1, count + 1) * len(ordered)) // (count + 1)]
