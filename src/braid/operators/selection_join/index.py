"""What the members of a selection join ask of each input: boxes in arrays, strips, and tests.

See `kernels/boxes.py`. Members come and go one by one or by the hundred thousand; an
attribute that nobody restricted so far becomes a dimension when the first one does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from braid.jit import records
from braid.operators.core.constants import Constants
from braid.operators.core.kernels.clauses import (
    HIGHEST,
    IN,
    INTERVAL,
    IS_NULL,
    LOWEST,
    NOT_IN,
    NOT_NULL,
    NULL_KEY,
)
from braid.operators.core.nodes import grown
from braid.operators.core.values import Words
from braid.operators.select.clause_table import among, limits, mode_of
from braid.operators.selection_join.kernels import boxes as kernel
from braid.operators.selection_join.kernels.boxes import Dimension, Extra, Interval, Side, Test
from braid.plan.predicates import Clause, KeyColumn
from braid.plan.specs import Shape

#: Cuts of a dimension, by the number of members that there are at least.
_CUTS = ((100_000, 126), (4_096, 62), (0, 14))
#: Nodes that may be asked one by one before strips are laid anew: these, and a part of all.
_RECENT, _RECENT_PART = 512, 32
#: Tests that are nobody's any more before the others are moved together.
_GARBAGE = 1_024


class Asked:
    """The boxes of all nodes over one input."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.keys: dict[KeyColumn, int] = {}
        self.boxes: Words = np.empty((64, 0), np.int64)
        self.columns: Words = np.zeros(1, np.int64)
        self.cuts: Words = np.zeros(1, np.int64)
        self.strips: Words = np.zeros(1, np.int64)
        self._ends: np.ndarray = np.zeros(1, np.int32)
        self._end_values: Words = np.zeros(1, np.int64)
        self._begins: Words = np.zeros(1, np.int64)
        self._laid = 0
        self._recent: Words = np.zeros(8, np.int64)
        self._recently = 0
        self._stale = True
        self._extras: Words = np.zeros((0, 2), np.int64)
        self._tests: Words = np.zeros((0, 4), np.int64)
        self._values: Words = np.zeros(0, np.int64)
        self._garbage = 0
        self.lists: Words = np.zeros(1, np.int32)
        self.count = 0

    @property
    def dimensions(self) -> int:
        return len(self.keys)

    # ---- members ----

    def add(self, nodes: Words, clause: Clause, constants: Constants) -> bool:
        """Let nodes ask a conjunction; whether there are dimensions that there were not."""
        wider = self._widen([atom.key for atom in clause])
        self._reserve(int(nodes.max()) + 1)
        own = np.empty((len(nodes), 2 * self.dimensions), np.int64)
        own[:, 0::2], own[:, 1::2] = NULL_KEY, HIGHEST
        tests: list[tuple[int, int, Words, Words, Words | None]] = []
        for atom in clause:
            kind, low, high = limits(atom, constants)
            values = among(atom, constants) if atom.among else None
            d = self.keys[atom.key]
            if kind == IN and values is not None:
                low, high = np.maximum(values[:, 0], LOWEST), values[:, -1]
            elif kind == IS_NULL:
                low = high = np.array([NULL_KEY])
            elif kind != INTERVAL:
                low, high = np.array([LOWEST]), np.array([HIGHEST])
            if kind not in (INTERVAL, IS_NULL, NOT_NULL):
                tests.append((d, kind, *limits(atom, constants)[1:], values))
            own[:, 2 * d] = np.maximum(own[:, 2 * d], low)
            own[:, 2 * d + 1] = np.minimum(own[:, 2 * d + 1], high)
        self.boxes[nodes] = own
        self._add_tests(nodes, tests)
        self.count += len(nodes)
        if not self._stale:
            recently = self._recently + len(nodes)
            self._recent = grown(self._recent, recently)
            self._recent[self._recently : recently] = nodes
            self._recently = recently
            self._stale = recently > max(_RECENT, self.count // _RECENT_PART)
        return wider

    def _widen(self, keys: list[KeyColumn]) -> bool:
        new = [key for key in dict.fromkeys(keys) if key not in self.keys]
        for key in new:
            self.keys[key] = len(self.keys)
        if new:
            more = np.empty((len(self.boxes), 2 * len(new)), np.int64)
            more[:, 0::2], more[:, 1::2] = NULL_KEY, HIGHEST
            self.boxes = np.ascontiguousarray(np.concatenate([self.boxes, more], axis=1))
            layout = self._shape.layout
            columns = [0 if k.name is None else layout.column(k.name) for k in self.keys]
            pairs = zip(columns, (mode_of(k) for k in self.keys), strict=True)
            self.columns = np.array([w for pair in pairs for w in pair], np.int64)
            self._stale = True
        return bool(new)

    def _reserve(self, needed: int) -> None:
        room = len(self.boxes)
        if needed > room:
            wanted = 64 * -(-max(needed, room + room // 2) // 64)
            boxes = np.empty((wanted, self.boxes.shape[1]), np.int64)
            boxes[:room] = self.boxes
            boxes[room:, 0::2], boxes[room:, 1::2] = 1, 0
            self.boxes = boxes
            self._stale = True

    def _add_tests(self, nodes: Words, tests: list[Any]) -> None:
        """Keep what is asked beyond boxes, the tests of each node one after the other."""
        if not tests:
            if len(self._extras):
                self._extras = grown(self._extras, len(self.boxes))
                self._extras[nodes] = 0
            return
        first, size = len(self._tests), len(tests)
        made = np.zeros((len(nodes), size, 4), np.int64)
        for k, (d, kind, low, high, values) in enumerate(tests):
            made[:, k, 0], made[:, k, 1] = d, kind
            made[:, k, 2], made[:, k, 3] = low, high
            if values is not None:
                begin = len(self._values) + values.shape[1] * np.arange(len(nodes))
                made[:, k, 2], made[:, k, 3] = begin, begin + values.shape[1]
                self._values = np.concatenate([self._values, values.reshape(-1)])
        self._tests = np.concatenate([self._tests, made.reshape(-1, 4)])
        self._extras = grown(self._extras, len(self.boxes))
        self._extras[nodes, 0] = first + size * np.arange(len(nodes))
        self._extras[nodes, 1] = size

    def remove(self, nodes: Words) -> None:
        """Let nodes want nothing."""
        if self.dimensions and not self._stale:
            kernel.clear_strips(nodes, self.strips, self._words)
            kept = self._recent[: self._recently]
            kept = kept[~np.isin(kept, nodes)]
            self._recent[: len(kept)], self._recently = kept, len(kept)
        self.boxes[nodes, 0::2], self.boxes[nodes, 1::2] = 1, 0
        self.count -= len(nodes)
        if len(self._extras):
            self._garbage += int(self._extras[nodes, 1].sum())
            self._extras[nodes] = 0
            if self._garbage > max(_GARBAGE, len(self._tests) // 2):
                self._gather()

    def _gather(self) -> None:
        """Move the tests that are somebody's together, and their values."""
        some = np.flatnonzero(self._extras[:, 1])
        tests = self._tests[_ranges(self._extras[some, 0], self._extras[some, 1])].copy()
        sizes = self._extras[some, 1]
        self._extras[some, 0] = np.cumsum(sizes) - sizes
        lists = np.flatnonzero(np.isin(tests[:, 1], (IN, NOT_IN)))
        begins, ends = tests[lists, 2], tests[lists, 3]
        self._values = self._values[_ranges(begins, ends - begins)].copy()
        tests[lists, 3] = np.cumsum(ends - begins)
        tests[lists, 2] = tests[lists, 3] - (ends - begins)
        self._tests, self._garbage = tests, 0

    # ---- strips ----

    @property
    def _words(self) -> int:
        return len(self.boxes) // 64

    def lay(self, living: Callable[[], Words]) -> None:
        """Cut dimensions where intervals end, and lay strips, if they are not there already."""
        if not self._stale:
            return
        nodes = living()
        self._stale, self._laid, self._recently = False, len(nodes), 0
        cuts = next(cuts for least, cuts in _CUTS if len(nodes) >= least)
        sample = nodes[:: max(1, len(nodes) // 16_384)]
        found = np.zeros((self.dimensions, cuts), np.int64)
        for d in range(self.dimensions):
            ends = self.boxes[sample, 2 * d : 2 * d + 2].reshape(-1)
            ends = np.sort(ends[(ends > LOWEST) & (ends < HIGHEST)])
            if len(ends):
                found[d] = ends[np.arange(1, cuts + 1) * len(ends) // (cuts + 1)]
        self.cuts = np.ascontiguousarray(found.reshape(-1))
        self.strips = np.zeros(self.dimensions * (cuts + 2) * self._words, np.int64)
        if self.dimensions:
            kernel.lay_strips(self.cuts, nodes, self.boxes, self.strips)
        self._order_ends(nodes, found)

    def _order_ends(self, nodes: Words, cuts: Words) -> None:
        """Nodes in order of where their intervals begin, and of where they end; and where each
        stretch begins in these. The stretch of NULL has nothing in it."""
        ends = np.empty((self.dimensions, 2, len(nodes)), np.int32)
        in_order = np.empty((self.dimensions, 2, len(nodes)), np.int64)
        begins = np.zeros((self.dimensions, 2, cuts.shape[1] + 3), np.int64)
        for d in range(self.dimensions):
            for k in range(2):
                values = self.boxes[nodes, 2 * d + k]
                order = np.argsort(values)
                ends[d, k], in_order[d, k] = nodes[order], values[order]
                begins[d, k, 2:-1] = np.searchsorted(in_order[d, k], cuts[d])
                begins[d, k, -1] = len(nodes)
        self._ends, self._end_values = ends.reshape(-1), in_order.reshape(-1)
        self._begins = begins.reshape(-1)

    # ---- lists of held events ----

    @property
    def list_room(self) -> int:
        return len(self.lists)

    def size_lists(self, room: int) -> Words:
        """Room for so many nodes in lists; what there was before, to be moved."""
        before, self.lists = self.lists, np.empty(room, np.int32)
        return before

    @property
    def list_bytes(self) -> int:
        return int(self.lists.nbytes)

    def point(self, side: Side, first: int) -> None:
        """Say where everything is."""
        side.first_dimension, side.dimensions = first, self.dimensions
        side.columns, side.boxes = Dimension.at(self.columns), Interval.at(self.boxes)
        side.cuts, side.cut_count = (
            records.Words.at(self.cuts),
            len(self.cuts) // max(1, self.dimensions),
        )
        side.strips, side.ends = records.Words.at(self.strips), records.Halves.at(self._ends)
        side.end_values, side.begins = (
            records.Words.at(self._end_values),
            records.Words.at(self._begins),
        )
        side.laid = self._laid
        side.recent, side.recent_length = records.Words.at(self._recent), self._recently
        side.extras = Extra.at(self._extras) if len(self._tests) else Extra(0)
        side.tests, side.values = Test.at(self._tests), records.Words.at(self._values)
        side.listed, side.listed_length = records.Halves.at(self.lists), self.list_room

    @property
    def nbytes(self) -> int:
        laid = (self.boxes, self.cuts, self.strips, self._begins, self._recent)
        ends = (self._ends, self._end_values)
        tests = (self._extras, self._tests, self._values)
        return sum(array.nbytes for array in (*laid, *ends, *tests))

    def names(self) -> list[str]:
        return [key.name or "DUR" for key in self.keys]


def _ranges(starts: Words, counts: Words) -> Words:
    """All numbers of some ranges, one after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - counts), counts)
