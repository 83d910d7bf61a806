"""The predicate index of a selection join over all dimensions of all inputs, as a tree of pages."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from braid.kernels import box_tree as kernel
from braid.kernels import grid_file, memory, rtree
from braid.kernels.clauses import HIGHEST, LOWEST, NULL_KEY
from braid.kernels.runtime import address
from braid.mops.nodes import grown
from braid.mops.values import Words

#: What a member that nothing is in has as its box.
NOTHING = (np.int64(1), np.int64(0))


class BoxTree(ABC):
    """Members under their numbers, each with a box: lo and hi of each dimension.

    Members that go leave room behind; when most have gone, the tree is built anew.
    """

    name = ""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._words: Words = np.zeros(kernel.TREE_WORDS, np.int64)
        self._box: Words = np.zeros(2 * dimensions + 1, np.int64)
        self._page_of: Words = np.full(8, -1, np.int64)
        self._most = 0
        self._begin()

    def _begin(self) -> None:
        self._words[:] = 0
        self._words[kernel.DIMENSIONS] = self.dimensions
        self._words[kernel.ROOT] = -1
        self._words[kernel.STACK_ROOM] = 1024
        self._words[kernel.STACK_AT] = memory.resized(0, 1024)
        self._words[kernel.PAGE_OF_AT] = address(self._page_of)
        self._most = 0

    @property
    def at(self) -> int:
        return int(address(self._words))

    @property
    def count(self) -> int:
        return int(self._words[kernel.MEMBERS])

    def build(self, members: Words, boxes: Words) -> None:
        """Have just these members; `boxes`: of each of them."""
        self.release()
        self._page_of = np.full(max(8, int(members.max(initial=0)) + 1), -1, np.int64)
        self._begin()
        self._lay(members, np.ascontiguousarray(boxes))
        self._most = self.count

    def _lay(self, members: Words, boxes: Words) -> None:
        self._insert(members, boxes)

    @abstractmethod
    def _insert(self, members: Words, boxes: Words) -> None: ...

    def add(self, members: Words, boxes: Words) -> None:
        self._page_of = grown(self._page_of, int(members.max(initial=0)) + 1, -1)
        self._words[kernel.PAGE_OF_AT] = address(self._page_of)
        self._insert(members, np.ascontiguousarray(boxes))
        self._most = max(self._most, self.count)

    def remove(self, members: Words) -> None:
        kernel.remove_members(self._words, members)

    @property
    def sparse(self) -> bool:
        """Whether most members have gone."""
        return self._most > 4 * kernel.FAN and 4 * self.count < self._most

    def find(
        self, keys: Words, first: int = 0, last: int | None = None, *, again: bool = False
    ) -> Words:
        """The members whose box has these keys in some dimensions; `again`: of those that the
        search before has found."""
        out = np.empty(self.count + 1, np.int64)
        end = self.dimensions if last is None else last
        found = kernel.find_members(self._words, keys, first, end, again, out)
        return out[:found]

    @property
    def nbytes(self) -> int:
        entry = 8 * (kernel.ENTRY_HEAD + 2 * self.dimensions)
        page = 8 * kernel.HEAD_WORDS + (kernel.FAN + 1) * entry + 32 * self.dimensions
        pages = int(self._words[kernel.PAGES_ROOM])
        return pages * page + self._page_of.nbytes + 8 * int(self._words[kernel.STACK_ROOM])

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

    def _lay(self, members: Words, boxes: Words) -> None:
        for d in range(self.dimensions):
            ends = boxes[:, 2 * d : 2 * d + 2]
            ends = ends[(ends > LOWEST) & (ends < HIGHEST) & (ends != NULL_KEY)]
            least, greatest = (int(ends.min()), int(ends.max())) if len(ends) else (0, 0)
            self._scales[2 * d : 2 * d + 2] = least, max(least + 1, greatest)
        order = np.arange(len(members))
        rtree.lay_out(order, self._middles(boxes), rtree.LAID)
        laid = np.ascontiguousarray(boxes[order])
        rtree.fill_pages(self._words, members[order], laid, self._box)

    def _middles(self, boxes: Words) -> np.ndarray:
        """The middles of boxes, twice, in the unit of each dimension."""
        least, greatest = self._scales[0:-1:2], self._scales[1:-1:2]
        clipped = [np.clip(boxes[:, k::2], least, greatest) - least for k in (0, 1)]
        return np.ascontiguousarray((clipped[0] + clipped[1]) / (greatest - least))

    def _insert(self, members: Words, boxes: Words) -> None:
        if int(self._words[kernel.ROOT]) < 0:
            self._lay(members, boxes)
            return
        rtree.insert_members(self._words, members, boxes, self._scales, self._box)


class GridFile(BoxTree):
    name = "multilevel grid file"

    def _insert(self, members: Words, boxes: Words) -> None:
        grid_file.insert_members(self._words, members, boxes, self._box)
