"""How the queries of a channel lie, so that those who want a result are found and counted."""

from __future__ import annotations

import numpy as np

from braid.jit.memory import taken
from braid.operators.core.batch import Batch
from braid.operators.core.kernels.output_router import Guide, count_members, expand_members
from braid.operators.core.node_sets import SET, Sets
from braid.operators.core.values import Words

ALWAYS, NEVER = np.int64(-(2**63)), np.int64(2**63 - 1)
#: Nodes with so many queries have a guide to them, of as many steps.
GUIDED = 256
_GUIDE_WORDS = Guide.stride // 8
#: What was counted is added up when this much of it lies apart.
_PENDING = 4_096


class Laid:
    """The queries of each node side by side, those that want the longest results first.

    Those of each set of nodes lie together once more, after all nodes.
    """

    def __init__(
        self,
        query: Words,
        node: Words,
        life: np.ndarray,
        longest: Words,
        sets: Sets | None = None,
    ) -> None:
        self._sets, self._known_sets = sets, 0 if sets is None else len(sets)
        self.single = int(node.max(initial=-1)) + 1
        if sets is not None:
            own, node = _of_sets(node, sets, self.single)
            query, life, longest = query[own], life[own], longest[own]
        order = np.lexsort((-longest, node))
        self.queries, self.longest, self.life = query[order], longest[order], life[order]
        ordered = node[order]
        begins = np.ones(len(ordered), np.bool_)
        begins[1:] = ordered[1:] != ordered[:-1]
        first = np.flatnonzero(begins)
        self.nodes, places = ordered[first], np.cumsum(begins) - 1
        self.starts = np.append(first, len(ordered)).astype(np.int64)
        self.tally: Words = np.zeros(len(query) + 1, np.int64)
        self.mixed = np.zeros(max(len(self.nodes), 1), np.bool_)
        lived = (self.life[:, 0] != ALWAYS) | (self.life[:, 1] != NEVER)
        self.mixed[places[lived]] = True
        self._dense = len(self.nodes) > 0 and int(self.nodes[-1]) == len(self.nodes) - 1
        self.guided, self.guides = _guides(self.starts, self.longest)

    @property
    def everlasting(self) -> bool:
        """Whether every query wants every result of its node that takes no time."""
        short = len(self.longest) > 0 and int(self.longest.min()) < 0
        return not (short or bool(self.mixed.any()))

    def counted(self, counts: Words) -> int:
        """Tally results, of which there are so many for each node, all wanted; how many."""
        known = self.nodes < len(counts)
        own = np.where(known, counts[np.where(known, self.nodes, 0)], 0)
        self.tally[self.starts[:-1]] += own
        self.tally[self.starts[1:]] -= own
        return int((own * np.diff(self.starts)).sum())

    def knows(self, sets: Sets | None) -> bool:
        return sets is None or (sets is self._sets and len(sets) == self._known_sets)

    def count(self, batch: Batch) -> int:
        """Tally the results of a batch; how many."""
        found: int = count_members(
            self.starts,
            self.longest,
            self.life,
            self.mixed,
            self.guided,
            self.guides,
            *self.parts(batch),
            self.tally,
        )
        return found

    def expand(self, batch: Batch) -> Words:
        """Words row << 32 | query of the results of a batch, in order of rows."""
        at, found = expand_members(
            self.starts, self.longest, self.life, self.queries, *self.parts(batch)
        )
        return taken(at, found)

    def parts(self, batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, and pairs of a row and the place of its node among those that are here."""
        rows = np.ascontiguousarray(batch.rows)
        if batch.index is None or batch.members is None:
            index = np.arange(len(rows), dtype=np.int32)
            return rows, index, np.zeros(len(rows), np.int32)
        members = batch.members
        if self._sets is not None:
            # Sets are numbered after the nodes that have queries; nodes that have none, not at all.
            among = members >= SET
            members = members - np.int32(SET - self.single)
            if not among.all():
                nobody_s = ~among & (batch.members >= self.single)
                members[~among] = batch.members[~among]
                members[nobody_s] = self.single + self._known_sets
        if self._dense or not len(self.nodes):
            return rows, batch.index, members
        places = np.searchsorted(self.nodes, members)
        known = self.nodes[np.minimum(places, len(self.nodes) - 1)] == members
        return rows, batch.index[known], places[known].astype(np.int32)

    @property
    def nbytes(self) -> int:
        arrays: list[np.ndarray] = [self.queries, self.starts, self.longest, self.life, self.mixed]
        arrays += [self.nodes, self.tally, self.guided, self.guides]
        return sum(array.nbytes for array in arrays)


def _guides(starts: Words, longest: Words) -> tuple[np.ndarray, Words]:
    """For nodes with many queries, how many want results that last at least so and so long.

    The number of its guide for each node, or -1; and guides: which queries' results end at all,
    the longest of these, how wide a step is in bits, and for each step where the queries end that
    want all that is as long.
    """
    sizes = np.diff(starts)
    large = np.flatnonzero(sizes >= GUIDED)
    guided = np.full(max(len(sizes), 1), -1, np.int32)
    guided[large] = np.arange(len(large), dtype=np.int32)
    guides = np.zeros((len(large), _GUIDE_WORDS + GUIDED + 1), np.int64)
    for guide, node in zip(guides, large.tolist(), strict=True):
        first, last = int(starts[node]), int(starts[node + 1])
        shorter = -longest[first:last]  # ascending
        unbounded = int(np.searchsorted(shorter, -NEVER, "right"))
        top = -int(shorter[unbounded]) if unbounded < last - first else -1
        shift = max(0, top.bit_length() - (GUIDED.bit_length() - 1))
        steps = np.arange(GUIDED + 1, dtype=np.int64) << shift
        steps[-1] = NEVER  # nobody is between the longest and that
        guide[:_GUIDE_WORDS] = first + unbounded, top, shift
        guide[_GUIDE_WORDS:] = first + np.searchsorted(shorter, -steps, "right")
    return guided, guides


def _of_sets(node: Words, sets: Sets, single: int) -> tuple[Words, Words]:
    """Queries by their place, at single nodes and then at sets, which are numbered from `single`."""
    order = np.argsort(node, kind="stable")
    own, at = [np.arange(len(node))], [node]
    for number, nodes in enumerate(sets.nodes):
        first = np.searchsorted(node[order], nodes, "left")
        last = np.searchsorted(node[order], nodes, "right")
        places = [order[a:b] for a, b in zip(first, last, strict=True)]
        found = np.concatenate(places)
        own.append(found)
        at.append(np.full(len(found), single + number, np.int64))
    return np.concatenate(own), np.concatenate(at)


def among(numbers: Words, some: Words) -> np.ndarray:
    """Which numbers of queries are among some others: they are small, so a table tells."""
    asked = np.zeros(max(int(numbers.max(initial=-1)), int(some.max(initial=-1))) + 1, np.bool_)
    asked[some] = True
    return asked[numbers]


class Tally:
    """How many results were counted for each query, wherever it lies or has lain."""

    def __init__(self) -> None:
        self._queries: Words = np.empty(0, np.int64)
        self._counts: Words = np.empty(0, np.int64)
        #: What is not added up yet.
        self._pending: list[tuple[Words, Words]] = []

    def take(self, laid: Laid | None) -> None:
        """What was counted where queries lie becomes theirs."""
        if laid is None or not laid.tally.any():
            return
        sums = np.cumsum(laid.tally[:-1])
        some = np.flatnonzero(sums)
        self._pending.append((laid.queries[some], sums[some]))
        laid.tally[:] = 0
        if sum(len(queries) for queries, _ in self._pending) > _PENDING + len(self._queries):
            self.sums()

    def sums(self) -> tuple[Words, Words]:
        """Queries that have results, in order, and how many."""
        if self._pending:
            parts = [(self._queries, self._counts), *self._pending]
            queries = np.concatenate([q for q, _ in parts])
            # Numbers of queries are small: a table adds them up, where sorting would take longer.
            total = np.zeros(int(queries.max(initial=-1)) + 1, np.int64)
            np.add.at(total, queries, np.concatenate([c for _, c in parts]))
            self._queries = np.flatnonzero(total)
            self._counts, self._pending = total[self._queries], []
        return self._queries, self._counts

    def forget(self, gone: Words) -> None:
        queries, counts = self.sums()
        left = ~among(queries, gone)
        self._queries, self._counts = queries[left], counts[left]

    @property
    def nbytes(self) -> int:
        pending = sum(q.nbytes + c.nbytes for q, c in self._pending)
        return self._queries.nbytes + self._counts.nbytes + pending
