"""The memory of a constraint join of relations: stores and indexes, and the frame of its loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.algebra.types import Kind, kind_of
from braid.jit import memory
from braid.jit.vector import clear_vector
from braid.operators.constraint_join.fields import Records
from braid.operators.constraint_join.kernels import delta_store as kernel
from braid.operators.constraint_join.kernels.delta_join import MOST_AHEAD
from braid.operators.constraint_join.kernels.record_copies import hashes
from braid.operators.constraint_join.kernels.records import Ahead, ChangesFrame, Index
from braid.operators.constraint_join.probes import ProbedStores
from braid.operators.constraint_join.spec import ConstraintJoinSpec
from braid.operators.core.columns import Rows
from braid.operators.core.values import Words
from braid.operators.join.probe_orders import Key, Lookup
from braid.plan.layout import MASK

#: The fields of a store that are saved.
SAVED = [
    "arrivals",
    "one_result",
    "further_results",
    "first_results",
    "peak",
    "evicted",
    "returned",
]

#: Equal rows have an index of their own if more rows are compared for each that goes; and how many
#: must go before that is judged.
_LONG, _JUDGED = 6, 256


class ChangeStores(ProbedStores[ChangesFrame]):
    """The rows in memory and their indexes, for kernels to find."""

    def __init__(self, spec: ConstraintJoinSpec, keys: Sequence[Key]) -> None:
        super().__init__(spec, keys, ChangesFrame)
        self.frame.passing = -1
        self._ahead = np.zeros(MOST_AHEAD, Ahead.dtype)
        self.frame.ahead = Ahead.at(self._ahead)
        self._describe_stores()
        self.describe_feeds()
        self._plan_probes()
        self._point()
        for number in range(self.count):
            self.forget(number)

    # ---- what is described ----

    def _describe_stores(self) -> None:
        """An index for every way in which an input is looked up, after the one of equal rows."""
        wanted = {probe.lookup for order in self._orders for probe in order}
        own = [sorted(lookup for lookup in wanted if lookup[0] == n) for n in range(self.count)]
        self.lookups: list[Lookup | None] = []
        for lookups in own:
            self.lookups += [None, *lookups]
        self.indexes: Records = np.zeros(len(self.lookups), Index.dtype)
        first = 0
        for number, (shape, store) in enumerate(zip(self._spec.inputs, self.stores, strict=True)):
            store["width"], store["base"] = shape.layout.width, shape.layout.base
            store["slot_words"] = shape.layout.width - MASK
            store["size"] = store["keeps"] = -1
            store["first_index"], store["index_count"] = first, 1 + len(own[number])
            for place, lookup in enumerate([None, *own[number]]):
                columns = self._columns(number, lookup)
                record = self.indexes[first + place]
                record["store"], record["keys"] = number, len(columns) // 2
                record["columns"] = self._kept(columns)
                record["by_words"] = lookup is None and not any(columns[1::2])
            first += 1 + len(own[number])

    def _columns(self, number: int, lookup: Lookup | None) -> list[int]:
        """Pairs of a column and whether it is a float; those of a whole row without one."""
        if lookup is None:
            kinds = [kind_of(a.type) for a in self._spec.inputs[number].schema][:-1]
            return [w for k, kind in enumerate(kinds) for w in (k, int(kind is Kind.FLOAT))]
        return self._key_columns(lookup)

    # ---- rows ----

    def forget(self, number: int) -> None:
        """Hold nothing of an input."""
        store = self.stores[number]
        store["count"] = store["high"] = 0
        first = int(store["first_index"])
        for index in range(first, first + int(store["index_count"])):
            if self.indexes["half_heads"][index] or self.lookups[index] is not None:
                kernel.index_changes(self.frame, number, index, 16)
        kernel.compact_changes(self.frame, number)

    def records(self, number: int) -> Rows:
        """All rows of an input without their times: null bits, columns, weight and flags."""
        store = self.stores[number]
        out = np.empty((int(store["count"]), int(store["slot_words"])), np.int64)
        kernel.copy_changes(self.frame, number, out)
        return out

    def take(self, number: int, records: Rows) -> None:
        kernel.take_changes(self.frame, number, np.ascontiguousarray(records))

    def hashes(self, index: int, records: Rows) -> Words:
        """The hash of each record's key."""
        return hashes(self.frame, index, np.ascontiguousarray(records), MASK)

    def first_lookup(self, number: int) -> Lookup:
        """What a row of an input looks up first."""
        return self._orders[number][0].lookup

    def tidy(self) -> None:
        """Give the memory of rows that have gone back; find equal rows faster if that is slow."""
        tidied = self.stores[["capacity", "count", "first_index"]].tolist()
        for number, (room, count, index) in enumerate(tidied):
            # Rows that leave when the instant is over are known by their slots.
            if room > count + count // 4 + 64 and not self.frame.unsure:
                kernel.compact_changes(self.frame, number)
            equal = self.indexes[index]
            if equal["probes"] < _JUDGED:
                continue
            if equal["found"] > _LONG * equal["probes"] and not equal["half_heads"]:
                heads = int(self.indexes["half_mask"][index + 1]) + 1
                kernel.index_changes(self.frame, number, index, heads)
            equal["probes"] = equal["found"] = 0

    @property
    def nbytes(self) -> int:
        """All memory that is taken, whether or not a row is in it."""
        slots = int((self.stores["capacity"] * self.stores["slot_words"]).sum())
        made = self.indexes[self.indexes["half_heads"] != 0]
        links = int(self.stores["capacity"][made["store"]].sum())
        heads = int((made["half_mask"] + 1).sum())
        noted = self.frame.pending.room + self.frame.in_results.room
        buffers = int(self.stores["buffer"]["room"].sum())
        return 8 * (slots + links + noted + buffers) + 4 * heads

    def release(self) -> None:
        """Give all memory back; nothing can be done with it any more."""
        indexes = [*self.indexes["half_heads"].tolist(), *self.indexes["half_links"].tolist()]
        for at in [*self.stores["slots"].tolist(), *indexes]:
            memory.free(at)
        self.stores["slots"] = 0
        self.indexes[["half_heads", "half_links"]] = 0
        clear_vector(self.frame.pending)
        self.release_vectors()
