"""What a join with constraints holds of relations that come and go; see `operators/constraint_join/kernels/delta_store.py`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.algebra.types import Kind, kind_of
from braid.jit import memory
from braid.operators.constraint_join.kernels import delta_store as kernel
from braid.operators.constraint_join.kernels import frame as frames
from braid.operators.constraint_join.kernels import store as stores
from braid.operators.constraint_join.kernels.delta_eviction import (
    AHEAD_AT,
    CHANGES_FRAME,
    MOST_AHEAD,
    PASS,
    PENDING_AT,
    PENDING_ROOM,
    UNSURE,
)
from braid.operators.constraint_join.kernels.delta_store import BY_WORDS
from braid.operators.constraint_join.kernels.record_copies import hashes
from braid.operators.constraint_join.probes import ProbedStores
from braid.operators.constraint_join.spec import ConstraintJoinSpec
from braid.operators.core.columns import Rows
from braid.operators.core.values import Words
from braid.operators.join.probe_orders import Key, Lookup
from braid.plan.layout import MASK

#: Words that are saved of a store.
SAVED = [
    stores.ARRIVALS,
    stores.COVERS,
    stores.AGAIN,
    stores.FIRST,
    stores.PEAK,
    stores.EVICTED,
    stores.RETURNS,
]

#: Rows that are looked at for each that goes, from which on equal rows have an index of their own;
#: and after how many that is asked.
_LONG, _ASKED = 6, 256
#: What is looked at of a store for that, and of its first index.
_TIDIED = [stores.CAPACITY, stores.COUNT, stores.FIRST_INDEX]
_FOUND = [stores.PROBES, stores.FOUND, stores.HEADS_AT]


class ChangeStores(ProbedStores):
    """The rows in memory and their indexes, for kernels to find."""

    def __init__(self, spec: ConstraintJoinSpec, keys: Sequence[Key]) -> None:
        super().__init__(spec, keys, CHANGES_FRAME)
        self.frame[PASS] = -1
        self.frame[AHEAD_AT] = self._kept([0] * 2 * MOST_AHEAD)
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
        self.indexes: Words = np.zeros((len(self.lookups), stores.INDEX_WORDS), np.int64)
        first = 0
        for number, (shape, store) in enumerate(zip(self._spec.inputs, self.stores, strict=True)):
            store[stores.WIDTH], store[stores.BASE] = shape.layout.width, shape.layout.base
            store[stores.STRIDE] = 8 * (shape.layout.width - 2)
            store[stores.SIZE] = store[stores.KEEPS] = -1
            store[stores.FIRST_INDEX], store[stores.INDEXES] = first, 1 + len(own[number])
            for place, lookup in enumerate([None, *own[number]]):
                columns = self._columns(number, lookup)
                record = self.indexes[first + place]
                record[stores.INDEX_STORE], record[stores.KEYS] = number, len(columns) // 2
                record[stores.COLUMNS_AT] = self._kept(columns)
                record[BY_WORDS] = lookup is None and not any(columns[1::2])
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
        store[[stores.COUNT, stores.HIGH]] = 0
        first = int(store[stores.FIRST_INDEX])
        for index in range(first, first + int(store[stores.INDEXES])):
            if self.indexes[index, stores.HEADS_AT] or self.lookups[index] is not None:
                kernel.index_changes(self.frame, number, index, 16)
        kernel.compact_changes(self.frame, number)

    def records(self, number: int) -> Rows:
        """All rows of an input without their times: null bits, columns, weight and flags."""
        store = self.stores[number]
        out = np.empty((int(store[stores.COUNT]), int(store[stores.STRIDE]) // 8), np.int64)
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
        """Give memory back that is of rows that have gone; find equal rows faster if that is slow."""
        for number, (room, count, index) in enumerate(self.stores[:, _TIDIED].tolist()):
            # Rows that leave when the instant is over are known by their slots.
            if room > count + count // 4 + 64 and not self.frame[UNSURE]:
                kernel.compact_changes(self.frame, number)
            equal = self.indexes[index]
            probes, found, heads_at = equal[_FOUND].tolist()
            if probes < _ASKED:
                continue
            if found > _LONG * probes and not heads_at:
                heads = int(self.indexes[index + 1, stores.MASK]) + 1
                kernel.index_changes(self.frame, number, index, heads)
            equal[_FOUND[:2]] = 0

    @property
    def nbytes(self) -> int:
        """All memory that is taken, whether or not a row is in it."""
        slots = int((self.stores[:, stores.CAPACITY] * self.stores[:, stores.STRIDE]).sum())
        made = self.indexes[self.indexes[:, stores.HEADS_AT] != 0]
        capacity = self.stores[made[:, stores.INDEX_STORE], stores.CAPACITY]
        links = 8 * int(capacity.sum())
        heads = 4 * int((made[:, stores.MASK] + 1).sum())
        waiting = 16 * int(self.frame[PENDING_ROOM] + self.frame[frames.DONE_ROOM])
        buffers = int((self.stores[:, stores.BUFFER_ROOM] * self.stores[:, stores.STRIDE]).sum())
        return slots + links + heads + waiting + buffers

    def release(self) -> None:
        """Give all memory back; nothing can be done with it any more."""
        columns = self.indexes[:, [stores.HEADS_AT, stores.LINK_AT]].ravel().tolist()
        own = self.frame[[frames.DONE_AT, PENDING_AT]].tolist()
        rows = self.stores[:, [stores.SLOTS_AT, stores.BUFFER_AT]].ravel().tolist()
        for at in [*rows, *columns, *own]:
            memory.free(at)
        self.stores[:, [stores.SLOTS_AT, stores.BUFFER_AT]] = 0
        self.indexes[:, [stores.HEADS_AT, stores.LINK_AT]] = 0
        self.frame[[frames.DONE_AT, PENDING_AT]] = 0
