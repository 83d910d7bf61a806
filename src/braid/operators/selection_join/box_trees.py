"""The predicate index of a selection join over all dimensions of all inputs, as a tree of pages."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from braid.jit import memory, records
from braid.operators.core.kernels.clauses import HIGHEST, LOWEST, NULL_KEY
from braid.operators.core.nodes import grown
from braid.operators.core.values import Words
from braid.operators.selection_join.kernels import box_tree as kernel
from braid.operators.selection_join.kernels import grid_file, rtree
from braid.operators.selection_join.kernels.box_tree import Coding, Page, Range, Tree

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
    """How the keys of each dimension become codes of 32 bits in the same order (`kernels/box_tree.py`).

    The codes suit the ends that a tree is built with. `exact`: no two ends have one code.
    """

    def __init__(self, boxes: Words) -> None:
        count = boxes.shape[1] // 2
        self.codings = np.zeros(max(1, count), Coding.dtype)
        for d in range(count):
            ends = boxes[:, 2 * d : 2 * d + 2]
            ends = ends[(ends > LOWEST) & (ends < HIGHEST)]
            least, greatest = (int(ends.min()), int(ends.max())) if len(ends) else (0, 0)
            shift = max(0, (greatest - least).bit_length() - 31)
            middle = (least + greatest) // 2
            reach = min((_HALF + _MARGIN) << shift, _FURTHEST)
            below, above = max(int(LOWEST), middle - reach), min(int(HIGHEST), middle + reach)
            self.codings[d] = below, above, middle, shift
        self.exact = not self.codings["shift"].any()

    def of(self, boxes: Words) -> Halves:
        """The codes of the ends of boxes."""
        found = np.empty(boxes.shape, np.int32)
        for end in range(boxes.shape[1]):
            below, above, middle, shift = self.codings[end // 2].tolist()
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
        codings = self.codings[: lows.shape[1]]
        below, above = codings["below"], codings["above"]
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
        self._memory = np.zeros(1, Tree.dtype)
        self.tree = Tree.at(self._memory)
        self._box: Halves = np.zeros(2 * dimensions + 1, np.int32)
        self._coded: Halves = np.zeros((8, 2 * dimensions), np.int32)
        self._asked: Words = np.zeros(dimensions + 1, np.int64)
        self._page_of: Words = np.full(8, -1, np.int64)
        self._begin(np.empty((0, 2 * dimensions), np.int64))

    def _begin(self, boxes: Words) -> None:
        self._codes = Codes(boxes)
        self._most = self._outside = 0
        self._memory[:] = 0
        tree = self.tree
        tree.dimensions, tree.root, tree.stack_room = self.dimensions, -1, 1024
        tree.stack = records.Words(memory.resized(0, tree.stack_room))
        tree.page_of, tree.asked = records.Words.at(self._page_of), records.Words.at(self._asked)
        tree.codings, tree.exact = Coding.at(self._codes.codings), self._codes.exact

    @property
    def count(self) -> int:
        return int(self.tree.members)

    @property
    def exact(self) -> bool:
        """Whether a search finds nobody whose box has not the keys."""
        return bool(self.tree.exact)

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
            self.tree.exact = 0
        codes = self._codes.of(boxes)
        self._coded = grown(self._coded, int(members.max(initial=0)) + 1)
        self._coded[members] = codes
        self.tree.coded = records.Halves.at(self._coded)
        return codes

    def _lay(self, members: Words, boxes: Halves) -> None:
        self._insert(members, boxes)

    @abstractmethod
    def _insert(self, members: Words, boxes: Halves) -> None: ...

    def add(self, members: Words, boxes: Words) -> None:
        self._page_of = grown(self._page_of, int(members.max(initial=0)) + 1, -1)
        self.tree.page_of = records.Words.at(self._page_of)
        self._insert(members, self._code(members, boxes))
        self._most = max(self._most, self.count)

    def remove(self, members: Words) -> None:
        kernel.remove_members(self.tree, members)

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
        asked, found = records.Words.at(keys), records.Words.at(out)
        count = kernel.find_members(self.tree, asked, first, end, again, found)
        return out[:count]

    @property
    def nbytes(self) -> int:
        page = Page.fields["boxes"].offset + 8 * kernel.APART * self.dimensions
        regions = 2 * Range.stride * self.dimensions
        own = self._page_of.nbytes + self._coded.nbytes + 8 * self.tree.stack_room
        return int(self.tree.page_room * (page + regions) + own)

    def describe(self) -> dict[str, Any]:
        return {
            "index": self.name,
            "pages": self.tree.page_count,
            "pages_looked_at": self.tree.looked,
            "bytes": self.nbytes,
        }

    def release(self) -> None:
        """Give the memory of pages back."""
        tree = self.tree
        for pointer in (tree.pages, tree.regions, tree.stack):
            memory.free(pointer.address)
        tree.pages, tree.regions, tree.stack = Page(0), Range(0), records.Words(0)

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.release()


class RTree(BoxTree):
    name = "R-tree"

    def __init__(self, dimensions: int) -> None:
        self._scales = np.zeros(dimensions + 1, Range.dtype)
        super().__init__(dimensions)

    def _lay(self, members: Words, boxes: Halves) -> None:
        for d in range(self.dimensions):
            ends = boxes[:, 2 * d : 2 * d + 2]
            ends = ends[(ends > kernel.LOWEST_CODE) & (ends < kernel.ABOVE_CODE)]
            least, greatest = (int(ends.min()), int(ends.max())) if len(ends) else (0, 0)
            self._scales[d] = least, max(least + 1, greatest)
        order = np.arange(len(members))
        rtree.lay_out(order, self._middles(boxes), rtree.LAID)
        laid = np.ascontiguousarray(boxes[order])
        rtree.fill_pages(self.tree, members[order], laid, self._box)

    def _middles(self, boxes: Halves) -> np.ndarray:
        """The middles of boxes, twice, in the unit of each dimension."""
        least, greatest = self._scales["least"][:-1], self._scales["greatest"][:-1]
        clipped = [np.clip(boxes[:, k::2], least, greatest) - least for k in (0, 1)]
        return np.ascontiguousarray((clipped[0] + clipped[1]) / (greatest - least))

    def _insert(self, members: Words, boxes: Halves) -> None:
        if self.tree.root < 0:
            self._lay(members, boxes)
            return
        rtree.insert_members(self.tree, members, boxes, Range.at(self._scales), self._box)


class GridFile(BoxTree):
    name = "multilevel grid file"

    def _insert(self, members: Words, boxes: Halves) -> None:
        grid_file.insert_members(self.tree, members, boxes, self._box)
