"""What a join with constraints holds in memory: stores and indexes, and the frame of its loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from braid.jit import memory
from braid.jit.runtime import address
from braid.operators.constraint_join.kernels import frame as frames
from braid.operators.constraint_join.kernels import record_copies as holdings
from braid.operators.constraint_join.kernels import store as stores
from braid.operators.constraint_join.probes import ProbedStores
from braid.operators.constraint_join.spec import KEEPS, ConstraintJoinSpec
from braid.operators.core.columns import Rows
from braid.operators.core.values import Words
from braid.operators.join.probe_orders import Key, Lookup

#: Words that are saved of a store: events so far, the last one that has left its window, whether
#: rows leave after a result, results of rows, and what has been counted.
SAVED = [
    stores.ARRIVALS,
    stores.LEFT,
    stores.COVERS,
    stores.AGAIN,
    stores.FIRST,
    stores.PEAK,
    stores.EVICTED,
    stores.RETURNS,
]


@dataclass(frozen=True)
class Edge:
    """Two inputs with a common key, seen from the first: their indexes of it."""

    first: int
    second: int
    own: int
    other: int
    keys: tuple[int, ...]


class Stores(ProbedStores):
    """The rows in memory, for kernels to find."""

    def __init__(self, spec: ConstraintJoinSpec, keys: Sequence[Key]) -> None:
        super().__init__(spec, keys, frames.FRAME)
        self._number_indexes()
        self._describe_stores()
        self.describe_feeds()
        widest = max(int(w) for w in self.stores[:, stores.RECORD])
        self.event: Words = np.zeros(widest, np.int64)
        self._plan_probes()
        self._point()
        for number in range(self.count):
            self.forget(number)

    def _number_indexes(self) -> None:
        """An index for every way in which an input is looked up, those of an input together."""
        wanted = {probe.lookup for order in self._orders for probe in order}
        pairs = [(a, b) for a in range(self.count) for b in range(self.count) if a != b]
        self._common = {pair: common for pair in pairs if (common := self._keys_of(*pair))}
        wanted |= {(b, common) for (_, b), common in self._common.items()}
        self.lookups: list[Lookup] = sorted(wanted)
        self.indexes: Words = np.zeros((len(self.lookups), stores.INDEX_WORDS), np.int64)
        for lookup, record in zip(self.lookups, self.indexes, strict=True):
            record[stores.INDEX_STORE], record[stores.KEYS] = lookup[0], len(lookup[1])
            record[stores.COLUMNS_AT] = self._kept(self._key_columns(lookup))
        self.edges: list[list[Edge]] = [[] for _ in range(self.count)]
        for (a, b), common in self._common.items():
            own, other = self.lookups.index((a, common)), self.lookups.index((b, common))
            self.edges[a].append(Edge(a, b, own, other, common))

    def _keys_of(self, first: int, second: int) -> tuple[int, ...]:
        return tuple(
            k for k, key in enumerate(self._keys) if key.columns[first] and key.columns[second]
        )

    def _describe_stores(self) -> None:
        self._edges: Words = np.zeros((self.count, self.count, frames.EDGE_WORDS), np.int64)
        for number, (shape, store) in enumerate(zip(self._spec.inputs, self.stores, strict=True)):
            own = [n for n, (input_, _) in enumerate(self.lookups) if input_ == number]
            edges, inside = self.edges[number], self._spec.windows[number]
            record = shape.layout.width + stores.MARKS + len(edges)
            store[stores.WIDTH], store[stores.BASE] = shape.layout.width, shape.layout.base
            store[stores.RECORD] = record
            store[stores.STRIDE] = 8 * (record + stores.LINKS + stores.LINK_WORDS * len(own))
            store[stores.SIZE] = inside.size
            store[stores.BY_ROWS] = inside.kind == "rows"
            keeps = self._spec.keeps[number]
            store[stores.KEEPS] = shape.layout.column(KEEPS) if keeps else -1
            store[stores.FIRST_INDEX], store[stores.INDEXES] = own[0], len(own)
            store[stores.EDGES] = len(edges)
            for place, index in enumerate(own):
                at = record + stores.LINKS + stores.LINK_WORDS * place
                self.indexes[index, stores.LINK_AT] = at
            for place, edge in enumerate(edges):
                words = self._edges[number, place]
                words[frames.EDGE_OTHER] = edge.second
                words[frames.EDGE_INDEX], words[frames.EDGE_OWN] = edge.other, edge.own
                back = [e.second for e in self.edges[edge.second]].index(number)
                words[frames.EDGE_BACK], words[frames.EDGE_WATCH] = back, -1
                if self.is_only_way(edge):
                    having = [set(edge.keys) <= set(self.lookups[index][1]) for index in own]
                    words[frames.EDGE_MASK] = sum(1 << k for k, has in enumerate(having) if has)

    def bytes_and_time(self, rows: Words) -> float:
        """What so many rows of each input hold if nothing lets them go: bytes, for as long as they stay."""
        return float((rows * self.stores[:, stores.STRIDE] * self.stores[:, stores.STAYS]).sum())

    def is_only_way(self, edge: Edge) -> bool:
        """Whether nothing but the key of an edge leads from its first input to the second: the edge is
        on no cycle of the join graph. Inputs that share one key, however many, are no cycle.

        Only then a row that waits may be hidden from all other keys. Its partner looks for it as soon
        as all that lies behind the edge is there, since every search from there to anything else goes
        through this row. On a cycle a search may go the other way round, and end there for lack of a
        third row; that one would ask for the row by another key, and not find it.
        """
        members = [{n for n, columns in enumerate(k.columns) if columns} for k in self._keys]
        behind = members[edge.keys[0]]
        if any(members[k] != behind for k in edge.keys):
            return False
        found, new = {edge.first}, [edge.first]
        while new:
            number = new.pop()
            for k, joined in enumerate(members):
                if number in joined and not (number == edge.first and k in edge.keys):
                    new += joined - found
                    found |= joined
        return found & behind == {edge.first}

    def _point(self) -> None:
        super()._point()
        self.frame[frames.EVENT_AT] = address(self.event)
        self.frame[frames.EDGES_AT] = address(self._edges)

    def edge_words(self, number: int, place: int) -> Words:
        """An edge of an input, as kernels see it."""
        return self._edges[number, place]

    # ---- rows ----

    def forget(self, number: int) -> None:
        """Hold nothing of an input."""
        store = self.stores[number]
        memory.free(store[stores.SLOTS_AT])
        store[[stores.COUNT, stores.HIGH, stores.SLOTS_AT, stores.CAPACITY]] = 0
        store[[stores.FREE_HEAD, stores.OLDEST, stores.NEWEST]] = -1
        holdings.compact(self.frame, number)

    def records(self, number: int) -> Rows:
        """All records of an input, in order of arrival."""
        store = self.stores[number]
        out = np.empty((int(store[stores.COUNT]), int(store[stores.RECORD])), np.int64)
        holdings.copy_records(self.frame, number, out)
        return out

    def take(self, number: int, records: Rows, *, oldest: bool) -> None:
        """Hold records, given in order of arrival."""
        holdings.take_records(self.frame, number, np.ascontiguousarray(records), int(oldest))

    def hashes(self, index: int, records: Rows) -> Words:
        """The hash of each record's key."""
        return holdings.hashes(self.frame, index, np.ascontiguousarray(records), 0)

    def tidy(self) -> None:
        """Give memory back where most of it is of rows that have gone."""
        for number, store in enumerate(self.stores):
            if store[stores.CAPACITY] > 2 * store[stores.COUNT] + 64:
                holdings.compact(self.frame, number)

    @property
    def nbytes(self) -> int:
        slots = int((self.stores[:, stores.CAPACITY] * self.stores[:, stores.STRIDE]).sum())
        buffers = int((self.stores[:, stores.BUFFER_ROOM] * self.stores[:, stores.RECORD]).sum())
        heads = int((self.indexes[:, stores.MASK] + 1).sum())
        return slots + 8 * (buffers + heads)

    def release(self) -> None:
        """Give all memory back; nothing can be done with it any more."""
        for at in self.stores[:, [stores.SLOTS_AT, stores.BUFFER_AT]].ravel().tolist():
            memory.free(at)
        for at in self.indexes[:, stores.HEADS_AT].tolist():
            memory.free(at)
        memory.free(self.frame[frames.DONE_AT])
        self.stores[:, [stores.SLOTS_AT, stores.BUFFER_AT]] = 0
        self.indexes[:, stores.HEADS_AT] = 0
        self.frame[frames.DONE_AT] = 0
