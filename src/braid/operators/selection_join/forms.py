"""How a selection join finds members: which form, chosen by what each costs, or always one.

| form         | index                | members of a combination                                   |
| ------------ | -------------------- | ---------------------------------------------------------- |
| `own`        | strips               | what the lists that events have had since they came share  |
| `pdfa_rtree` | R-tree               | of the event that comes, then narrowed event by event      |
| `pdfa_grid`  | multilevel grid file | the same                                                   |
| `naive_rtree`| R-tree               | one search with the keys of all events                     |
| `naive_grid` | multilevel grid file | the same                                                   |

Where nearly every event finds others to combine with, `own` costs least: an event is looked up once
in its life. Where few do, that is too much, and the others, which look up only what has been found,
cost less. So from time to time all that might do are tried on events that are held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from braid.jit import memory
from braid.operators.core.selection_choice import (
    ADAPTIVE,
    NAIVE_GRID,
    NAIVE_RTREE,
    OWN,
    PDFA_GRID,
    PDFA_RTREE,
)
from braid.operators.core.values import Words
from braid.operators.selection_join.box_trees import BoxTree, GridFile, RTree
from braid.operators.selection_join.index import Asked
from braid.operators.selection_join.kernels import boxes as kernel
from braid.operators.selection_join.kernels import trials
from braid.operators.selection_join.kernels.box_tree import Tree
from braid.operators.selection_join.kernels.boxes import Counts, SelectionFrame

#: Of each form: what it does, and the tree that it searches.
FORMS: dict[str, tuple[int, type[BoxTree] | None]] = {
    OWN: (kernel.OWN, None),
    PDFA_RTREE: (kernel.PARTIAL, RTree),
    PDFA_GRID: (kernel.PARTIAL, GridFile),
    NAIVE_RTREE: (kernel.NAIVE, RTree),
    NAIVE_GRID: (kernel.NAIVE, GridFile),
}


#: Events after which forms are compared, and again after as many times more.
COMPARE_AFTER, AGAIN = 4_096, 8
#: Events that a form is tried on, of each input.
TRIAL = 16
#: Trees are tried if fewer events find others to combine with, or if there are few members.
OFTEN, FEW = 0.5, 10_000
#: A form must cost so much less to be worth a change.
FASTER = 0.8


class Rates(NamedTuple):
    """How many events find others to combine with at all, and how many of them."""

    partnered: float
    candidates: float


class Chooser:
    """The form in use, and the tree that it searches if it does."""

    def __init__(
        self, choice: str, asked: Sequence[Asked], living: Callable[[], Words], *, complete: bool
    ) -> None:
        why = "nothing else has been tried yet" if choice == ADAPTIVE else "it was asked for"
        if complete and choice == ADAPTIVE:
            choice, why = OWN, "who wants an event has to be known when it leaves anyhow"
        self._choice = choice
        self._asked = asked
        self._living = living
        self.form = OWN if choice == ADAPTIVE else choice
        self._tree: BoxTree | None = None
        self._stale = True
        self.moved = True
        self.why = why
        self.costs: dict[str, float] = {}
        self.rates = Rates(0.0, 0.0)
        self._counted: Words = np.zeros(3, np.int64)
        self._compare_at = COMPARE_AFTER

    # ---- members ----

    def _boxes(self, nodes: Words) -> Words:
        """The boxes of nodes over all dimensions of all inputs."""
        return np.ascontiguousarray(np.concatenate([a.boxes[nodes] for a in self._asked], axis=1))

    def added(self, nodes: Words, *, wider: bool) -> None:
        if wider:
            self._stale = True
        if self._tree is not None and not self._stale:
            self._tree.add(nodes, self._boxes(nodes))
            self._stale = self._tree.worn

    def removed(self, nodes: Words) -> None:
        if self._tree is not None and not self._stale:
            self._tree.remove(nodes)
            self._stale = self._tree.worn

    def _built(self, kind: type[BoxTree]) -> BoxTree:
        tree = kind(sum(a.dimensions for a in self._asked))
        nodes = self._living()
        tree.build(nodes, self._boxes(nodes))
        return tree

    def point(self, frame: SelectionFrame) -> None:
        """Have the tree that the form searches, and say where it is."""
        how, kind = FORMS[self.form]
        if kind is None:
            self._drop()
        elif self._stale or not isinstance(self._tree, kind):
            self._drop()
            self._tree, self._stale = self._built(kind), False
        frame.form = how
        frame.tree = Tree(0) if self._tree is None else self._tree.tree
        self.moved = False

    def _drop(self) -> None:
        if self._tree is not None:
            self._tree.release()
            self._tree = None

    # ---- the choice ----

    @property
    def lays_strips(self) -> bool:
        """Whether strips are searched, or may be."""
        return self._choice == ADAPTIVE or FORMS[self.form][1] is None

    def consider(self, frame: SelectionFrame, held: Sequence[int]) -> None:
        """Compare forms from time to time; `held`: events of each input."""
        arrivals = frame.counts.arrivals
        if self._choice != ADAPTIVE or arrivals < self._compare_at or min(held) < TRIAL:
            return
        self._compare_at = AGAIN * arrivals
        counts = frame.counts
        now = np.array([counts.arrivals, counts.partnered, counts.candidates], np.int64)
        came, partnered, candidates = (now - self._counted).tolist()
        self._counted = now
        self._compare(frame, Rates(partnered / came, candidates / came))

    def _compare(self, frame: SelectionFrame, rates: Rates) -> None:
        counters = memory.view(frame.counts.address, Counts.stride // 8)
        before = counters.copy()
        self.rates, self.costs = rates, {}
        trees: dict[type[BoxTree], BoxTree] = {}
        kinds: list[type[BoxTree] | None] = [None]
        if rates.partnered < OFTEN or self._asked[0].count <= FEW:
            kinds += [RTree, GridFile]
        for kind in kinds:
            if kind is not None:
                tree = trees[kind] = self._built(kind)
                frame.tree = tree.tree
            else:
                frame.tree = Tree(0)
            own = costs(frame, len(self._asked), rates, kind is None)
            self.costs |= {form: own[how] for form, (how, of) in FORMS.items() if of is kind}
        counters[:] = before
        best = min(self.costs, key=self.costs.__getitem__)
        if self.costs[best] < FASTER * self.costs.get(self.form, np.inf):
            self.form = best
        self.why = f"the least cost when it was tried after {frame.counts.arrivals:,} events"
        if len(kinds) == 1:
            self.why = "most events find others: each is looked up once in its life"
        for tree in trees.values():
            tree.release()
        self._stale = self.moved = True

    @property
    def nbytes(self) -> int:
        return 0 if self._tree is None else self._tree.nbytes

    def describe(self) -> dict[str, Any]:
        index = {"index": "strips"} if self._tree is None else self._tree.describe()
        found: dict[str, Any] = {"form": self.form, "because": self.why, "predicate_index": index}
        if self.costs:
            found["microseconds_per_event"] = {f: round(c, 1) for f, c in self.costs.items()}
            found["partnered"] = round(self.rates.partnered, 3)
            found["candidates"] = round(self.rates.candidates, 2)
        return found


def costs(frame: SelectionFrame, inputs: int, rates: Rates, strips: bool) -> dict[int, float]:
    """Microseconds an event, of what can be done with strips or with the tree that is there."""
    pairs = [(i, (i + 1) % inputs) for i in range(inputs)]
    first = sum(_time(trials.try_first, frame, i, TRIAL) for i, _ in pairs) / (inputs * TRIAL)
    if strips:
        common = sum(_time(trials.try_common, frame, i, TRIAL) for i, _ in pairs)
        return {kernel.OWN: first + rates.candidates * common / (inputs * TRIAL)}
    asking = sum(_time(trials.try_asking, frame, i, j, TRIAL) for i, j in pairs)
    everybody = _time(trials.try_everybody, frame, TRIAL) / TRIAL
    return {
        kernel.PARTIAL: rates.partnered * first + rates.candidates * asking / (inputs * TRIAL),
        kernel.NAIVE: rates.candidates * everybody,
    }


def _time(trial: Callable[..., int], *args: Any) -> float:
    """Microseconds, the second time: the first one compiles and fills caches."""
    taken = 0.0
    for _ in range(2):
        begun = perf_counter_ns()
        trial(*args)
        taken = (perf_counter_ns() - begun) / 1_000
    return taken
