"""Published streams and results: from the nodes of a channel to the queries that they are for.

A query sees the events that start at its birth or later, and puts out nothing that ends at its
death or later; both are event times. A result's start is that of its first event, so members of
one node that came at different times share everything and are told apart here. So are members
that differ only in how long a result may last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.kernels.exits import count_members, expand_members
from braid.kernels.memory import taken
from braid.mops.base import Stateless
from braid.mops.batch import Batch
from braid.mops.bit_sets import BitSets
from braid.mops.columns import merged
from braid.mops.constants import Constants
from braid.mops.membership import Origin, nobody
from braid.mops.nodes import grown
from braid.mops.sets import SET, Sets
from braid.mops.values import Words
from braid.plan.routes import PlainRecipe
from braid.plan.specs import PublishSpec

ALWAYS, NEVER = np.int64(-(2**63)), np.int64(2**63 - 1)


class Subscribers:
    """The queries of each node of one channel, when they live, how long results may last."""

    def __init__(self) -> None:
        self._query: Words = np.zeros(8, np.int64)
        self._node: Words = np.zeros(8, np.int64)
        self._life = np.zeros((8, 2), np.int64)
        self._longest: Words = np.zeros(8, np.int64)
        self.count = 0
        #: Changes with every query that comes or goes.
        self.version = 0
        self._laid: _Laid | None = None
        self._tallied: tuple[Words, Words] = (np.empty(0, np.int64), np.empty(0, np.int64))

    def add(self, nodes: Words, queries: Words, births: Words, longest: Words) -> None:
        first, last = self.count, self.count + len(queries)
        self._query = grown(self._query, last)
        self._node = grown(self._node, last)
        self._life = grown(self._life, last)
        self._longest = grown(self._longest, last)
        self._query[first:last], self._node[first:last] = queries, nodes
        self._life[first:last, 0], self._life[first:last, 1] = births, NEVER
        self._longest[first:last] = longest
        self.count = last
        self._discard()

    def end(self, queries: Words, deaths: Words) -> None:
        """From these times on they put out nothing."""
        order = np.argsort(queries)
        places = np.flatnonzero(_among(self._query[: self.count], queries))
        which = order[np.searchsorted(queries[order], self._query[places])]
        self._life[places, 1] = np.minimum(self._life[places, 1], deaths[which])
        self._discard()

    def remove(self, queries: Words) -> None:
        kept = np.flatnonzero(~_among(self._query[: self.count], queries))
        self._query, self._node = self._query[kept], self._node[kept]
        self._life, self._longest = self._life[kept], self._longest[kept]
        self.count = len(kept)
        self._discard()
        known, counts = self._tallied
        left = ~_among(known, queries)
        self._tallied = (known[left], counts[left])

    @property
    def nodes(self) -> Words:
        """The nodes that some query is at, in order."""
        laid = self._layout()
        return laid.nodes[laid.nodes < laid.single]

    def _layout(self, sets: Sets | None = None) -> _Laid:
        if self._laid is not None and not self._laid.knows(sets):
            self._keep_tally()
            self._laid = None
        if self._laid is None:
            n = self.count
            self._laid = _Laid(
                self._query[:n], self._node[:n], self._life[:n], self._longest[:n], sets
            )
        return self._laid

    def counted(self, batch: Batch) -> int:
        """How many results a batch has for all queries."""
        if isinstance(batch.sets, BitSets):
            laid = self._layout()
            if laid.everlasting and batch.members is not None:
                return laid.counted(batch.sets.counted(batch.members))
            batch = batch.spelled()
        laid = self._layout(_numbered(batch))
        rows, index, members = laid.parts(batch)
        found: int = count_members(
            laid.starts, laid.longest, laid.life, laid.mixed, rows, index, members, laid.tally
        )
        return found

    def tallied(self) -> tuple[Words, Words]:
        """Queries that have results, in order, and how many were counted for each."""
        self._keep_tally()
        return self._tallied

    def _keep_tally(self) -> None:
        """What was counted where queries lie becomes theirs."""
        laid = self._laid
        if laid is not None and laid.tally.any():
            known, counts = self._tallied
            sums = np.cumsum(laid.tally[:-1])
            some = np.flatnonzero(sums)
            of = laid.queries[some]
            # Numbers of queries are small: a table adds them up, where sorting would take longer.
            total = np.zeros(max(int(known.max(initial=-1)), int(of.max(initial=-1))) + 1, np.int64)
            total[known] = counts
            np.add.at(total, of, sums[some])
            queries = np.flatnonzero(total)
            total = total[queries]
            self._tallied = (queries, total)
            laid.tally[:] = 0

    def _discard(self) -> None:
        """Queries are about to lie elsewhere."""
        self._keep_tally()
        self._laid = None
        self.version += 1

    def resolve(self, batch: Batch) -> tuple[Words, Words]:
        """Pairs of a row and a query, in order of rows."""
        if isinstance(batch.sets, BitSets):
            batch = batch.spelled()
        laid = self._layout(_numbered(batch))
        rows, index, members = laid.parts(batch)
        at, count = expand_members(
            laid.starts, laid.longest, laid.life, laid.queries, rows, index, members
        )
        pairs = taken(at, count)
        return pairs >> 32, pairs & 0xFFFFFFFF

    @property
    def nbytes(self) -> int:
        laid = 0 if self._laid is None else self._laid.nbytes
        own = (self._query, self._node, self._life, self._longest, *self._tallied)
        return laid + sum(array.nbytes for array in own)


def _among(numbers: Words, some: Words) -> np.ndarray:
    """Which numbers of queries are among some others: they are small, so a table tells."""
    asked = np.zeros(max(int(numbers.max(initial=-1)), int(some.max(initial=-1))) + 1, np.bool_)
    asked[some] = True
    return asked[numbers]


class _Laid:
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

    def parts(self, batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, and pairs of a row and the place of its node among those that are here."""
        rows = np.ascontiguousarray(batch.rows)
        if batch.index is None or batch.members is None:
            index = np.arange(len(rows), dtype=np.int32)
            return rows, index, np.zeros(len(rows), np.int32)
        members = batch.members
        if batch.sets is not None:
            # Sets are numbered after the nodes that have queries; nodes that have none, not at all.
            among = members >= SET
            members = np.where(among, members - np.int32(SET - self.single), members)
            nobody_s = ~among & (batch.members >= self.single)
            members[nobody_s] = self.single + self._known_sets
        if self._dense or not len(self.nodes):
            return rows, batch.index, members
        places = np.searchsorted(self.nodes, members)
        known = self.nodes[np.minimum(places, len(self.nodes) - 1)] == members
        return rows, batch.index[known], places[known].astype(np.int32)

    @property
    def nbytes(self) -> int:
        arrays = (self.queries, self.starts, self.longest, self.life, self.mixed, self.nodes)
        return self.tally.nbytes + sum(array.nbytes for array in arrays)


def _numbered(batch: Batch) -> Sets | None:
    assert not isinstance(batch.sets, BitSets)
    return batch.sets


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


class PublishLogic(Stateless):
    """All events of a published stream, one for each query that puts it out."""

    takes_sets = True
    takes_bits = True

    def __init__(self, spec: PublishSpec) -> None:
        self._spec = spec
        self.sources: list[Subscribers] = []

    def admit(
        self, recipe: PlainRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        return nobody(constants.count)

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        parts = [
            batch.rows[source.resolve(batch)[0]]
            for source, batch in zip(self.sources, inputs, strict=True)
        ]
        return Batch(merged(parts))
