"""The memory of a constraint join: stores and indexes, and the frame of its loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from braid.jit import memory, records
from braid.jit.hash_table import TwoWayLink
from braid.operators.constraint_join.fields import Records
from braid.operators.constraint_join.kernels import record_copies as copies
from braid.operators.constraint_join.kernels.records import Edge as EdgeRecord
from braid.operators.constraint_join.kernels.records import Frame, Index, Neighbours, Tail
from braid.operators.constraint_join.probes import ProbedStores
from braid.operators.constraint_join.spec import KEEPS, ConstraintJoinSpec
from braid.operators.core.columns import Rows
from braid.operators.core.values import Words
from braid.operators.join.probe_orders import Key, Lookup

_LINK_WORDS = TwoWayLink.stride // 8
#: The fields of a store that are saved.
SAVED = [
    "arrivals",
    "last_left",
    "one_result",
    "further_results",
    "first_results",
    "peak",
    "evicted",
    "returned",
]


@dataclass(frozen=True)
class Edge:
    """Two inputs with a common key, seen from the first: their indexes of it."""

    first: int
    second: int
    own: int
    other: int
    keys: tuple[int, ...]


class Stores(ProbedStores[Frame]):
    """The rows in memory, for kernels to find."""

    def __init__(self, spec: ConstraintJoinSpec, keys: Sequence[Key]) -> None:
        super().__init__(spec, keys, Frame)
        self._number_indexes()
        self._describe_stores()
        self.describe_feeds()
        widest = max(int(w) for w in self.stores["record_words"])
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
        self.indexes: Records = np.zeros(len(self.lookups), Index.dtype)
        for lookup, record in zip(self.lookups, self.indexes, strict=True):
            record["store"], record["keys"] = lookup[0], len(lookup[1])
            record["columns"] = self._kept(self._key_columns(lookup))
        self.edges: list[list[Edge]] = [[] for _ in range(self.count)]
        for (a, b), common in self._common.items():
            own, other = self.lookups.index((a, common)), self.lookups.index((b, common))
            self.edges[a].append(Edge(a, b, own, other, common))

    def _keys_of(self, first: int, second: int) -> tuple[int, ...]:
        return tuple(
            k for k, key in enumerate(self._keys) if key.columns[first] and key.columns[second]
        )

    def _describe_stores(self) -> None:
        self._edges = np.zeros((self.count, self.count), EdgeRecord.dtype)
        for number, (shape, store) in enumerate(zip(self._spec.inputs, self.stores, strict=True)):
            own = [n for n, (input_, _) in enumerate(self.lookups) if input_ == number]
            edges, inside = self.edges[number], self._spec.windows[number]
            record_words = shape.layout.width + Tail.word("marks") + len(edges)
            links_from = record_words + Neighbours.stride // 8
            store["width"], store["base"] = shape.layout.width, shape.layout.base
            store["record_words"] = record_words
            store["slot_words"] = links_from + _LINK_WORDS * len(own)
            store["size"] = inside.size
            store["by_rows"] = inside.kind == "rows"
            keeps = self._spec.keeps[number]
            store["keeps"] = shape.layout.column(KEEPS) if keeps else -1
            store["first_index"], store["index_count"] = own[0], len(own)
            store["edge_count"] = len(edges)
            for place, index in enumerate(own):
                self.indexes["link_word"][index] = links_from + _LINK_WORDS * place
            for place, edge in enumerate(edges):
                record = self._edges[number, place]
                record["other"] = edge.second
                record["index"], record["own"] = edge.other, edge.own
                back = [e.second for e in self.edges[edge.second]].index(number)
                record["back"], record["watch"] = back, -1
                if self.is_only_way(edge):
                    having = [set(edge.keys) <= set(self.lookups[index][1]) for index in own]
                    record["mask"] = sum(1 << k for k, has in enumerate(having) if has)

    def bytes_and_time(self, rows: Words) -> float:
        """What so many rows of each input hold if nothing evicts them: bytes, for as long as they stay."""
        return float((rows * self.slot_bytes * self.stores["lifetime"]).sum())

    @property
    def slot_bytes(self) -> Words:
        """The bytes of a slot of each input."""
        return np.asarray(8 * self.stores["slot_words"])

    def is_only_way(self, edge: Edge) -> bool:
        """Whether nothing but the key of an edge leads from its first input to the second: the edge is
        on no cycle of the join graph. Inputs that share one key, however many, are no cycle.

        Only then a row that waits may be on disk without its other keys. Its partner looks it up as soon
        as all rows behind the edge are there, because every search from there to other inputs goes
        through this row. On a cycle a search may go the other way round, and end there for lack of a
        third row. That one would look the row up by another key, and not find it.
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
        self.frame.event = records.Words.at(self.event)
        self.frame.edges = EdgeRecord.at(self._edges)

    def watch_edge(self, number: int, place: int, watch: int) -> None:
        """Let a watch observe how long rows wait for the rows of an input, by an edge of it."""
        self._edges[number, place]["watch"] = watch

    # ---- rows ----

    def forget(self, number: int) -> None:
        """Hold nothing of an input."""
        store = self.stores[number : number + 1]
        memory.free(store["slots"][0])
        store[["count", "high", "slots", "capacity"]] = 0
        store[["free", "oldest", "newest"]] = -1
        copies.compact(self.frame, number)

    def records(self, number: int) -> Rows:
        """All records of an input, in order of arrival."""
        store = self.stores[number]
        out = np.empty((int(store["count"]), int(store["record_words"])), np.int64)
        copies.copy_records(self.frame, number, out)
        return out

    def take(self, number: int, records: Rows, *, oldest: bool) -> None:
        """Hold records, given in order of arrival."""
        copies.take_records(self.frame, number, np.ascontiguousarray(records), int(oldest))

    def hashes(self, index: int, records: Rows) -> Words:
        """The hash of each record's key."""
        return copies.hashes(self.frame, index, np.ascontiguousarray(records), 0)

    def tidy(self) -> None:
        """Give memory back where most of it is of rows that have gone."""
        for number, store in enumerate(self.stores):
            if store["capacity"] > 2 * store["count"] + 64:
                copies.compact(self.frame, number)

    @property
    def nbytes(self) -> int:
        slots = int((self.stores["capacity"] * self.stores["slot_words"]).sum())
        buffers = int(self.stores["buffer"]["room"].sum())
        heads = int((self.indexes["chains"]["mask"] + 1).sum())
        return 8 * (slots + buffers + heads)

    def release(self) -> None:
        """Give all memory back; nothing can be done with it any more."""
        chains = self.indexes["chains"]
        for at in [*self.stores["slots"].tolist(), *chains["heads"].ravel().tolist()]:
            memory.free(at)
        self.stores["slots"] = chains["heads"] = 0
        self.release_vectors()
