"""The predicate index of a selection join over all dimensions of all inputs, as a tree of pages."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from braid.jit import memory
from braid.jit.runtime import address
from braid.operators.core.kernels.clauses import HIGHEST, LOWEST, NULL_KEY
from braid.operators.core.nodes import grown
from braid.operators.core.values import Words
from braid.operators.selection_join.kernels import box_tree as kernel
from braid.operators.selection_join.kernels import grid_file, rtree

#: Codes of keys.
Halves = npt.NDArray[np.int32]

#: What a member that nothing is in has as its box.
NOTHING = (np.int64(1), np.int64(0))

#: Codes of the ends that a tree is built with lie so far from the middle at most, and so much further
#: are those of ends that come later before they are far outside.
_HALF, _MARGIN = 1 << 30, 1 << 29
_FURTHEST = (1 << 63) - 2
#: Members that a tree is not built anew for.
_FEW = 128


class Codes:
    """How the keys of each dimension become codes of 32 bits whose order is theirs: see `operators/selection_join/kernels/box_tree.py`.

    Made for the ends that a tree is built with. `exact`: all ends so far have codes of their own.
    """

    def __init__(self, boxes: Words) -> None:
        count = boxes.shape[1] // 2
        self.words: Words = np.zeros((max(1, count), kernel.CODE_WORDS), np.int64)
        for d in range(count):
            ends = boxes[:, 2 * d : 2 * d + 2]
            ends = ends[(ends > LOWEST) & (ends < HIGHEST)]
            least, greatest = (int(ends.min()), int(ends.max())) if len(ends) else (0, 0)
            shift = max(0, (greatest - least).bit_length() - 31)
            middle = (least + greatest) // 2
            reach = min((_HALF + _MARGIN) << shift, _FURTHEST)
            below, above = max(int(LOWEST), middle - reach), min(int(HIGHEST), middle + reach)
            self.words[d] = below, above, middle, shift
        self.exact = not self.words[:, kernel.SHIFT].any()

    def of(self, boxes: Words) -> Halves:
        """The codes of the ends of boxes."""
        found = np.empty(boxes.shape, np.int32)
        for end in range(boxes.shape[1]):
            below, above, middle, shift = self.words[end // 2].tolist()
            keys = boxes[:, end]
            inner = (np.clip(keys, below, above) - middle) >> shift
            codes = np.where(keys <= below, kernel.LOWEST_CODE, inner)
            codes = np.where(keys >= above, kernel.ABOVE_CODE, codes)
            codes[keys == NULL_KEY] = kernel.NULL_CODE
            codes[keys == HIGHEST] = kernel.HIGHEST_CODE
            found[:, end] = codes
        return found

    def outside(self, boxes: Words) -> int:
        """How many ends are far outside, and share a code; an interval without an end has none."""
        lows, highs = boxes[:, 0::2], boxes[:, 1::2]
        below, above = self.words[: lows.shape[1], kernel.BELOW], self.words[: lows.shape[1], 1]
        far = (lows <= below) & (lows > LOWEST) | (lows >= above) & (lows < HIGHEST)
        far |= (highs <= below) & (highs > NULL_KEY) | (highs >= above) & (highs < HIGHEST)
        return int(np.count_nonzero(far))


class BoxTree(ABC):
    """Members under their numbers, each with a box: lo and hi of each dimension.

    Members that go leave room behind; when most have gone, the tree is to be built anew.
    """

    name = ""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._words: Words = np.zeros(kernel.TREE_WORDS, np.int64)
        self._box: Halves = np.zeros(2 * dimensions + 1, np.int32)
        self._coded: Halves = np.zeros((8, 2 * dimensions), np.int32)
        self._asked: Words = np.zeros(dimensions + 1, np.int64)
        self._page_of: Words = np.full(8, -1, np.int64)
        self._begin(np.empty((0, 2 * dimensions), np.int64))

    def _begin(self, boxes: Words) -> None:
        self._codes = Codes(boxes)
        self._most = self._outside = 0
        self._words[:] = 0
        self._words[kernel.DIMENSIONS] = self.dimensions
        self._words[kernel.ROOT] = -1
        self._words[kernel.STACK_ROOM] = 1024
        self._words[kernel.STACK_AT] = memory.resized(0, 1024)
        self._words[kernel.PAGE_OF_AT] = address(self._page_of)
        self._words[kernel.CODES_AT] = address(self._codes.words)
        self._words[kernel.ASKED_AT] = address(self._asked)
        self._words[kernel.EXACT] = self._codes.exact

    @property
    def at(self) -> int:
        return int(address(self._words))

    @property
    def count(self) -> int:
        return int(self._words[kernel.MEMBERS])

    @property
    def exact(self) -> bool:
        """Whether a search finds nobody whose box has not the keys."""
        return bool(self._words[kernel.EXACT])

    def build(self, members: Words, boxes: Words) -> None:
        """Have just these members; `boxes`: of each of them."""
        self.release()
        most = max(8, int(members.max(initial=0)) + 1)
        self._page_of = np.full(most, -1, np.int64)
        self._coded = np.zeros((most, 2 * self.dimensions), np.int32)
        self._begin(boxes)
        self._lay(members, self._code(members, boxes))
        self._most = self.count

    def _code(self, members: Words, boxes: Words) -> Halves:
        """The codes of boxes, kept by member as well."""
        outside = self._codes.outside(boxes)
        if outside:
            self._outside += outside
            self._words[kernel.EXACT] = 0
        codes = self._codes.of(boxes)
        self._coded = grown(self._coded, int(members.max(initial=0)) + 1)
        self._coded[members] = codes
        self._words[kernel.CODED_AT] = address(self._coded)
        return codes

    def _lay(self, members: Words, boxes: Halves) -> None:
        self._insert(members, boxes)

    @abstractmethod
    def _insert(self, members: Words, boxes: Halves) -> None: ...

    def add(self, members: Words, boxes: Words) -> None:
        self._page_of = grown(self._page_of, int(members.max(initial=0)) + 1, -1)
        self._words[kernel.PAGE_OF_AT] = address(self._page_of)
        self._insert(members, self._code(members, boxes))
        self._most = max(self._most, self.count)

    def remove(self, members: Words) -> None:
        kernel.remove_members(self._words, members)

    @property
    def worn(self) -> bool:
        """Whether it should be built anew: most members have gone, or many ends are far outside."""
        sparse = self._most > _FEW and 4 * self.count < self._most
        return sparse or 4 * self._outside > self.count

    def find(
        self, keys: Words, first: int = 0, last: int | None = None, *, again: bool = False
    ) -> Words:
        """The members whose box has these keys in some dimensions, and perhaps more of them if it is
        not `exact`; `again`: of those that the search before has found."""
        out = np.empty(self.count + 1, np.int64)
        end = self.dimensions if last is None else last
        found = kernel.find_members(self._words, keys, first, end, again, out)
        return out[:found]

    @property
    def nbytes(self) -> int:
        page = 4 * (kernel.BOXES + 2 * kernel.APART * self.dimensions) + 32 * self.dimensions
        pages = int(self._words[kernel.PAGES_ROOM])
        own = self._page_of.nbytes + self._coded.nbytes + 8 * int(self._words[kernel.STACK_ROOM])
        return pages * page + own

    def describe(self) -> dict[str, Any]:
        return {
            "index": self.name,
            "pages": int(self._words[kernel.PAGES]),
            "pages_looked_at": int(self._words[kernel.LOOKED_AT]),
            "bytes": self.nbytes,
        }

    def release(self) -> None:
        """Give the memory of pages back."""
        for word in (kernel.PAGES_AT, kernel.REGIONS_AT, kernel.STACK_AT):
            memory.free(int(self._words[word]))
            self._words[word] = 0

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.release()


class RTree(BoxTree):
    name = "R-tree"

    def __init__(self, dimensions: int) -> None:
        self._scales: Words = np.zeros(2 * dimensions + 1, np.int64)
        super().__init__(dimensions)

    def _lay(self, members: Words, boxes: Halves) -> None:
        for d in range(self.dimensions):
            ends = boxes[:, 2 * d : 2 * d + 2]
            ends = ends[(ends > kernel.LOWEST_CODE) & (ends < kernel.ABOVE_CODE)]
            least, greatest = (int(ends.min()), int(ends.max())) if len(ends) else (0, 0)
            self._scales[2 * d : 2 * d + 2] = least, max(least + 1, greatest)
        order = np.arange(len(members))
        rtree.lay_out(order, self._middles(boxes), rtree.LAID)
        laid = np.ascontiguousarray(boxes[order])
        rtree.fill_pages(self._words, members[order], laid, self._box)

    def _middles(self, boxes: Halves) -> np.ndarray:
        """The middles of boxes, twice, in the unit of each dimension."""
        least, greatest = self._scales[0:-1:2], self._scales[1:-1:2]
        clipped = [np.clip(boxes[:, k::2], least, greatest) - least for k in (0, 1)]
        return np.ascontiguousarray((clipped[0] + clipped[1]) / (greatest - least))

    def _insert(self, members: Words, boxes: Halves) -> None:
        if int(self._words[kernel.ROOT]) < 0:
            self._lay(members, boxes)
            return
        rtree.insert_members(self._words, members, boxes, self._scales, self._box)


class GridFile(BoxTree):
    name = "multilevel grid file"

    def _insert(self, members: Words, boxes: Halves) -> None:
        grid_file.insert_members(self._words, members, boxes, self._box)
