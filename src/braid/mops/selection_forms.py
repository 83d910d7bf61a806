"""How a selection join finds members: which form, chosen by what each costs, or always one.

| form         | index                | members of a combination                                   |
| ------------ | -------------------- | ---------------------------------------------------------- |
| `own`        | strips               | what the lists that events have had since they came share  |
| `pdfa_rtree` | R-tree               | of the event that comes, then narrowed event by event      |
| `pdfa_grid`  | multilevel grid file | the same                                                   |
| `naive_rtree`| R-tree               | one search with the keys of all events                     |
| `naive_grid` | multilevel grid file | the same                                                   |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braid.kernels import selection_boxes as kernel
from braid.mops.box_trees import BoxTree, GridFile, RTree
from braid.mops.selection_choice import (
    ADAPTIVE,
    NAIVE_GRID,
    NAIVE_RTREE,
    OWN,
    PDFA_GRID,
    PDFA_RTREE,
)
from braid.mops.selection_index import Asked
from braid.mops.values import Words

#: Of each form: what it does, and the tree that it searches.
FORMS: dict[str, tuple[int, type[BoxTree] | None]] = {
    OWN: (kernel.OWN, None),
    PDFA_RTREE: (kernel.PARTIAL, RTree),
    PDFA_GRID: (kernel.PARTIAL, GridFile),
    NAIVE_RTREE: (kernel.NAIVE, RTree),
    NAIVE_GRID: (kernel.NAIVE, GridFile),
}


class Chooser:
    """The form in use, and the tree that it searches if it does."""

    def __init__(self, choice: str, asked: Sequence[Asked], living: Callable[[], Words]) -> None:
        self._choice = choice
        self._asked = asked
        self._living = living
        self.form = OWN if choice == ADAPTIVE else choice
        self._tree: BoxTree | None = None
        self._stale = True
        self.moved = True
        self.why = "the first form that is tried" if choice == ADAPTIVE else "it was asked for"

    # ---- members ----

    def _boxes(self, nodes: Words) -> Words:
        """The boxes of nodes over all dimensions of all inputs."""
        return np.ascontiguousarray(np.concatenate([a.boxes[nodes] for a in self._asked], axis=1))

    def added(self, nodes: Words, *, wider: bool) -> None:
        if wider:
            self._stale = True
        if self._tree is not None and not self._stale:
            self._tree.add(nodes, self._boxes(nodes))

    def removed(self, nodes: Words) -> None:
        if self._tree is not None and not self._stale:
            self._tree.remove(nodes)
            self._stale = self._tree.sparse

    def _built(self, kind: type[BoxTree]) -> BoxTree:
        tree = kind(sum(a.dimensions for a in self._asked))
        nodes = self._living()
        tree.build(nodes, self._boxes(nodes))
        return tree

    def point(self, frame: Words) -> None:
        """Have the tree that the form searches, and say where it is."""
        how, kind = FORMS[self.form]
        if kind is None:
            self._drop()
        elif self._stale or not isinstance(self._tree, kind):
            self._drop()
            self._tree, self._stale = self._built(kind), False
        frame[kernel.FORM] = how
        frame[kernel.TREE_AT] = 0 if self._tree is None else self._tree.at
        self.moved = False

    def _drop(self) -> None:
        if self._tree is not None:
            self._tree.release()
            self._tree = None

    # ---- the choice ----

    def consider(self, frame: Words) -> None:
        """Compare forms from time to time."""

    @property
    def nbytes(self) -> int:
        return 0 if self._tree is None else self._tree.nbytes

    def describe(self, frame: Words) -> dict[str, Any]:
        index = {"index": "strips"} if self._tree is None else self._tree.describe()
        return {"form": self.form, "because": self.why, "predicate_index": index}
