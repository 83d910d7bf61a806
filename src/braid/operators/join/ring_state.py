"""The memory of a join with windows inside: events of each input in order of time, each once.

See `operators/join/kernels/rings.py`; indexes and sets are those of `state.py`. The sizes of windows lie
beside them, in order, for each input.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.errors import damaged
from braid.jit import memory, records
from braid.jit.expiry_heap import Expiry
from braid.jit.hash_table import Link
from braid.operators.core import checks
from braid.operators.core.base import State
from braid.operators.core.columns import Rows
from braid.operators.core.nodes import grown
from braid.operators.core.values import Words
from braid.operators.join.kernels import ring_state as moving
from braid.operators.join.kernels import rings, window_joins
from braid.operators.join.kernels.window_covers import Cover, WindowFrame
from braid.operators.join.probe_orders import Key
from braid.operators.join.state import Holdings, columns_of, packed
from braid.plan.layout import END
from braid.plan.specs import Shape

#: Words that the sets of all sizes of an input may take together; beyond that, some are left out.
MASKS = 1 << 19


class Rings(Holdings):
    """Events of each input in rings, their indexes, sizes of windows, and the frame of the join.

    `netted`: of each input, the columns in which combinations that are compared are equal.
    """

    frame_type = WindowFrame
    frame_words = WindowFrame.stride // 8
    extra = rings.CELL_WORDS
    link_words = Link.stride // 8
    _no_slot = 0
    frame: WindowFrame

    def __init__(
        self, shapes: Sequence[Shape], keys: Sequence[Key], netted: Sequence[Sequence[str]]
    ) -> None:
        self._netted = netted
        self._covers = np.zeros(len(shapes), Cover.dtype)
        self._suspects: Words = np.zeros(1, np.int64)
        self._sizes: list[tuple[Words, ...]] = [() for _ in shapes]
        super().__init__(shapes, keys)
        self._covers["longest"] = -1
        self._covers["netted"] = [len(names) > 0 for names in netted]
        self._covers["compared"] = [self._numbers[number] for number in range(len(shapes))]
        self.frame.covers = Cover.at(self._covers)
        self.frame.now = int(np.iinfo(np.int64).min)

    def _compared(self, number: int, shape: Shape) -> Words:
        names, schema = self._netted[number], shape.schema
        return columns_of([(shape.layout.column(n), schema.type_of(n)) for n in names])

    def _build_index(self, store: int, number: int, chains: int) -> None:
        moving.build_index(self.frame, store, number, chains)

    # ---- windows ----

    def size_sets(self, nodes: int) -> None:
        super().size_sets(nodes)
        self._suspects = np.zeros(self.set_words, np.int64)
        self.frame.suspects = records.Words.at(self._suspects)

    def size_windows(self, nodes: Words, sizes: Sequence[Words]) -> None:
        """These output nodes see events; `sizes`: of each input, those of all nodes."""
        for number, of_all in enumerate(sizes):
            own = of_all[nodes]
            order = nodes[np.argsort(own, kind="stable")]
            shift = 0
            while (len(order) >> shift) * self.set_words > MASKS:
                shift += 1
            masks = np.zeros((max(1, -(-len(order) >> shift)), self.set_words), np.int64)
            moving.lay_masks(order, shift, masks)
            parts = (of_all[order], order, masks, of_all)
            self._sizes[number] = parts
            cover = self.frame.covers[number]
            cover.nodes = len(order)
            cover.sizes, cover.order = records.Words.at(parts[0]), records.Words.at(order)
            cover.masks, cover.shift = records.Words.at(masks), shift
            cover.size_of = records.Words.at(of_all)
            cover.longest = longest = int(own.max(initial=-1))
            cover.one_size = longest == int(own.min(initial=longest))

    @property
    def window_bytes(self) -> int:
        arrays = [array for parts in self._sizes for array in parts]
        return sum(array.nbytes for array in arrays)

    @property
    def expiry_bytes(self) -> int:
        return Expiry.stride * self.frame.expiries.room

    def forget(self) -> None:
        super().forget()
        self.frame.expiries.count = 0
        self._covers["awaited"] = 0

    def release(self) -> None:
        super().release()
        heap = self.frame.expiries
        memory.free(heap.first.address)
        heap.first, heap.room, heap.count = Expiry(0), 0, 0

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.expiry_bytes

    def pass_time(self, bound: int) -> None:
        """Forget what has left all windows before this time."""
        window_joins.pass_time(self.frame, bound)

    # ---- events ----

    def rows(self, number: int) -> Rows:
        """The events of an input, the oldest first."""
        width = self._shapes[number].layout.width
        out = np.empty((int(self._stores[number]["count"]), width), np.int64)
        moving.copy_events(self.frame, number, out)
        return out

    def rewrite(self, number: int, words: Words, values: Rows) -> None:
        moving.write_words(self.frame, number, words, np.ascontiguousarray(values))
        self._rehash(number)

    def _rehash(self, number: int) -> None:
        moving.rehash(self.frame, number)

    def _count(self, number: int, counts: Words) -> None:
        moving.count_events(self.frame, number, records.Words.at(counts))

    def purge(self, gone: Words) -> None:
        bits = packed(gone, self.set_words)
        for number in range(len(self._shapes)):
            moving.purge(self.frame, number, records.Words.at(bits))

    def saved(self, number: int, local: Words, nodes: int) -> State:
        """The slots of an input as they lie; see `moving.copy_ring`."""
        ring = rings.EventRing(self.frame.stores[number].address)
        width, room = max(1, (nodes + 63) // 64), ring.capacity
        rows = np.zeros((room, self._shapes[number].layout.width), np.int64)
        cells, written = np.zeros((room, 2), np.int64), np.zeros(1, np.int64)
        at = moving.copy_ring(
            self.frame, number, records.Words.at(local), width, rows, cells, written
        )
        marks = [ring.oldest, ring.next, room, width]
        return {
            "marks": np.array(marks, np.int64),
            "rows": rows,
            "cells": cells,
            "sets": memory.taken(int(at), int(written[0])),
        }

    def take(self, number: int, state: State, nodes: int, numbers: Words) -> None:
        """Hold what was saved; `numbers`: what each of the saved nodes is called now."""
        marks = state["marks"].astype(np.int64)
        checks.sized(marks, 4, "marks of events")
        if not marks[2]:
            return
        width = self._shapes[number].layout.width
        self._check(state, marks.tolist(), width, nodes)
        moving.hold_ring(
            self.frame,
            number,
            marks,
            np.ascontiguousarray(state["rows"].reshape(-1, width)),
            np.ascontiguousarray(state["cells"].reshape(-1, 2)),
            np.ascontiguousarray(state["sets"]),
            np.ascontiguousarray(numbers),
            np.zeros(nodes + 1, np.int32),
        )

    @staticmethod
    def _check(state: State, marks: list[int], width: int, nodes: int) -> None:
        """Events lie where their numbers say, in order of time."""
        oldest, after, room, words = marks
        rows, cells = checks.table(state, "rows", width), checks.table(state, "cells", 2)
        if room & (room - 1) or not 0 <= oldest <= after <= min(oldest + room, checks.NUMBERS):
            raise damaged("the numbers of events are not those of a ring")
        checks.sized(rows, room, "slots of events")
        checks.sized(cells, room, "members of events")
        if words != max(1, (nodes + 63) // 64):
            raise damaged("sets of nodes have another size")
        slots = np.arange(oldest, after) & (room - 1)
        checks.ascending(rows[slots, END], "times of events")
        kinds, begins = cells[slots].T
        checks.sets_within(kinds, begins, state["sets"], words, nodes, "nodes of events")


def with_sizes(known: Sequence[Words], nodes: Words, sizes: Sequence[Words]) -> list[Words]:
    """The sizes of all nodes of each input, with those of new ones."""
    high = int(nodes.max()) + 1
    found = [grown(of_all, high, -1) for of_all in known]
    for of_all, own in zip(found, sizes, strict=True):
        of_all[nodes] = own
    return found
