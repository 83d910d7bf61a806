"""From the nodes of a channel to the queries that they are for: of results, and of published streams.

A query sees the events that start at its birth or later, and puts out nothing that ends at its
death or later; both are event times. A result's start is that of its first event, so members of
one node that came at different times share everything and are told apart here. So are members
that differ only in how long a result may last.
"""

from __future__ import annotations

import numpy as np

from braid.operators.core.batch import Batch
from braid.operators.core.bit_sets import BitSets
from braid.operators.core.node_sets import Sets
from braid.operators.core.nodes import grown
from braid.operators.core.subscriber_index import NEVER, Laid, Tally, among
from braid.operators.core.values import Words

#: Queries that came later lie apart as long as they are fewer than the others by so much.
RECENT = 8


class Subscribers:
    """The queries of each node of one channel, when they live, how long results may last.

    They lie in the order that results are looked up in. Queries that come while there are many lie
    apart, in a layout of their own, so that one more is not paid for by all; both are asked until
    that has cost as much as laying all of them out together.
    """

    def __init__(self) -> None:
        self._query: Words = np.zeros(8, np.int64)
        self._node: Words = np.zeros(8, np.int64)
        self._life = np.zeros((8, 2), np.int64)
        self._longest: Words = np.zeros(8, np.int64)
        self.count = 0
        #: Changes with every query that comes or goes.
        self.version = 0
        #: Of the first `_settled` queries, and of those that came after them.
        self._laid: Laid | None = None
        self._recent: Laid | None = None
        self._settled = 0
        #: How many pairs were shown to the recent ones.
        self._looked = 0
        self._tally = Tally()

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
        if self._laid is None or RECENT * (last - self._settled) > self._settled:
            self._discard()
        else:
            self._tally.take(self._recent)
            self._recent = None
            self.version += 1

    def end(self, queries: Words, deaths: Words) -> None:
        """From these times on they put out nothing."""
        order = np.argsort(queries)
        places = np.flatnonzero(among(self._query[: self.count], queries))
        which = order[np.searchsorted(queries[order], self._query[places])]
        self._life[places, 1] = np.minimum(self._life[places, 1], deaths[which])
        self._discard()

    def remove(self, queries: Words) -> None:
        kept = np.flatnonzero(~among(self._query[: self.count], queries))
        self._query, self._node = self._query[kept], self._node[kept]
        self._life, self._longest = self._life[kept], self._longest[kept]
        self.count = len(kept)
        self._discard()
        self._tally.forget(queries)

    @property
    def nodes(self) -> Words:
        """The nodes that some query is at, in order."""
        found = [laid.nodes[laid.nodes < laid.single] for laid in self._layouts()]
        return found[0] if len(found) == 1 else np.union1d(*found)

    def _layouts(self, sets: Sets | None = None) -> list[Laid]:
        """What a batch with such sets is shown to."""
        if self._looked > self._settled:
            self._tally.take(self._laid)
            self._tally.take(self._recent)
            self._laid = self._recent = None
        if self._laid is None:
            self._settled, self._looked = self.count, 0
        elif not self._laid.knows(sets):
            self._tally.take(self._laid)
            self._laid = None
        if self._laid is None:
            self._laid = self._lay(0, self._settled, sets)
        if self._settled == self.count:
            return [self._laid]
        if self._recent is not None and not self._recent.knows(sets):
            self._tally.take(self._recent)
            self._recent = None
        if self._recent is None:
            self._recent = self._lay(self._settled, self.count, sets)
        return [self._laid, self._recent]

    def _lay(self, first: int, last: int, sets: Sets | None) -> Laid:
        part = slice(first, last)
        return Laid(
            self._query[part], self._node[part], self._life[part], self._longest[part], sets
        )

    def _shown(self, batch: Batch, sets: Sets | None) -> list[Laid]:
        layouts = self._layouts(sets)
        if len(layouts) > 1:
            self._looked += len(batch)
        return layouts

    def counted(self, batch: Batch) -> int:
        """How many results a batch has for all queries."""
        if isinstance(batch.sets, BitSets):
            layouts = self._shown(batch, None)
            if batch.members is not None and all(laid.everlasting for laid in layouts):
                counts = batch.sets.counted(batch.members)
                return sum(laid.counted(counts) for laid in layouts)
            batch = batch.spelled()
        return sum(laid.count(batch) for laid in self._shown(batch, _numbered(batch)))

    def tallied(self) -> tuple[Words, Words]:
        """Queries that have results, in order, and how many were counted for each."""
        self._tally.take(self._laid)
        self._tally.take(self._recent)
        return self._tally.sums()

    def _discard(self) -> None:
        """Queries are about to lie elsewhere."""
        self._tally.take(self._laid)
        self._tally.take(self._recent)
        self._laid = self._recent = None
        self.version += 1

    def resolve(self, batch: Batch) -> tuple[Words, Words]:
        """Pairs of a row and a query, in order of rows."""
        if isinstance(batch.sets, BitSets):
            batch = batch.spelled()
        found = [laid.expand(batch) for laid in self._shown(batch, _numbered(batch))]
        pairs = found[0]
        if len(found) > 1 and len(found[1]):
            pairs = np.concatenate(found)
            pairs = pairs[np.argsort(pairs >> 32, kind="stable")]
        return pairs >> 32, pairs & 0xFFFFFFFF

    @property
    def nbytes(self) -> int:
        laid = sum(laid.nbytes for laid in (self._laid, self._recent) if laid is not None)
        own = (self._query, self._node, self._life, self._longest)
        return laid + self._tally.nbytes + sum(array.nbytes for array in own)


def _numbered(batch: Batch) -> Sets | None:
    assert not isinstance(batch.sets, BitSets)
    return batch.sets
