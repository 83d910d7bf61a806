"""The memory of a join: rows of each input with their members, and indexes made when needed.

Everything lies behind addresses, in a *frame* that kernels read (`operators/join/kernels/frame.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from braid.algebra.types import Kind, kind_of
from braid.jit import memory
from braid.jit.runtime import address
from braid.operators.core import checks
from braid.operators.core.columns import Rows, nulls_of
from braid.operators.core.kernels import node_sets as sets
from braid.operators.core.values import Words
from braid.operators.join.bands import fitted
from braid.operators.join.kernels import frame as kernel
from braid.operators.join.kernels import state as moving
from braid.operators.join.kernels import store as slots
from braid.operators.join.probe_orders import Key, Lookup, Probe
from braid.plan.specs import Shape

#: Room that is not worth giving back.
_LEAST_ROOM = 1024


class Holdings:
    """Rows of each input in slots, their indexes, and the frame of the join."""

    #: Words of the frame, those of a slot beyond the row, those of a link.
    frame_words = kernel.FRAME
    extra = slots.EXTRA
    link_words = slots.LINK_WORDS

    def __init__(self, shapes: Sequence[Shape], keys: Sequence[Key]) -> None:
        self._keys = keys
        self._shapes = shapes
        count = len(shapes)
        self.frame: Words = np.zeros(self.frame_words, np.int64)
        self.feeds: Words = np.zeros((count, kernel.FEED_WORDS), np.int64)
        self._stores: Words = np.zeros((count, slots.STORE_WORDS), np.int64)
        self._pool: Words = np.zeros(sets.POOL, np.int64)
        # Finalizers call this, and may run while the compiler is at work: it must be loaded by then.
        sets.empty_pool(address(self._pool))
        #: Numbers of indexes by what they look up; the first of each input finds equal rows.
        self._numbers: dict[Lookup | int, int] = {}
        self._indexes: Words = np.zeros((0, slots.INDEX_WORDS), np.int64)
        self._columns: list[Words] = []
        self._levels: Words = np.zeros((count, kernel.LEVEL_WORDS), np.int64)
        self._bound: Words = np.zeros(count, np.int64)
        self._sets: Words = np.zeros((count + 1) * 1, np.int64)
        self._steps: Words = np.zeros((count, max(1, count - 1), kernel.STEP_WORDS), np.int64)
        self._parts: list[Words] = []
        bands = sum(key.band is not None for key in keys)
        #: None: fitted to what is held, of each index by itself.
        self._widths: list[int | None] = [0] * bands
        self._bands: Words = np.zeros((bands, 4), np.int64)
        for shape, store in zip(shapes, self._stores, strict=True):
            store[slots.FREE_HEAD] = self._no_slot
            store[slots.FIRST_INDEX] = -1
            store[slots.WIDTH] = shape.layout.width
            store[slots.BASE] = shape.layout.base
            store[slots.STRIDE] = 8 * (shape.layout.width + self.extra)
        self.size_sets(1)
        self._point()
        for number, shape in enumerate(shapes):
            self._add_index(number, number, self._compared(number, shape))

    #: What is in the place of the first free slot if there is none.
    _no_slot = -1

    def _compared(self, number: int, shape: Shape) -> Words:
        """The columns that the first index of an input is of: all, without the weight."""
        return columns_of([(c, a.type) for c, a in enumerate(shape.schema)][:-1])

    def _point(self) -> None:
        frame = self.frame
        frame[kernel.INPUTS] = len(self._shapes)
        frame[kernel.STORES_AT] = address(self._stores)
        frame[kernel.FEEDS_AT] = address(self.feeds)
        frame[kernel.INDEXES_AT] = address(self._indexes)
        frame[kernel.POOL_AT] = address(self._pool)
        frame[kernel.LEVELS_AT] = address(self._levels)
        frame[kernel.BOUND_AT] = address(self._bound)
        frame[kernel.STEPS_AT] = address(self._steps)
        frame[kernel.SETS_AT] = address(self._sets)

    # ---- sets of nodes ----

    @property
    def set_words(self) -> int:
        return int(self.frame[kernel.WORDS_OF_SET])

    def size_sets(self, nodes: int) -> None:
        """Let sets have room for so many output nodes; nothing is held."""
        words = max(1, (nodes + 63) // 64)
        sets_of = len(self._shapes) + 2
        self._sets = np.zeros(sets_of * words, np.int64)
        self.frame[kernel.SETS_AT] = address(self._sets)
        self.frame[kernel.WORDS_OF_SET] = words
        self.frame[kernel.MOST_LISTED] = 0 if words == 1 else min(words, sets.MOST)

    # ---- indexes ----

    def _add_index(self, what: Lookup | int, store: int, columns: Words) -> None:
        number = next(
            (n for n in range(len(self._indexes)) if n not in self._numbers.values()), None
        )
        if number is None:
            number = len(self._indexes)
            fresh = np.zeros((1, slots.INDEX_WORDS), np.int64)
            self._indexes = np.concatenate([self._indexes, fresh])
            self._columns.append(columns)
            self._point()
        self._columns[number] = columns
        self._numbers[what] = number
        record = self._indexes[number]
        record[:] = 0
        record[slots.KEYS] = len(columns) // 2
        record[slots.COLUMNS_AT] = address(columns)
        self._lay_band(what)
        # The one that finds equal rows stays the first of its input.
        if isinstance(what, int):
            record[slots.FOLLOWING] = -1
            self._stores[store, slots.FIRST_INDEX] = number
            chains = 16
        else:
            first = self._indexes[self._stores[store, slots.FIRST_INDEX]]
            record[slots.FOLLOWING] = first[slots.FOLLOWING]
            first[slots.FOLLOWING] = number
            chains = int(first[slots.MASK]) + 1 if len(columns) else 1
        self._build_index(store, number, chains)

    def _build_index(self, store: int, number: int, chains: int) -> None:
        moving.build_index(self.frame, store, number, chains)

    def _drop_index(self, lookup: Lookup) -> None:
        number = self._numbers.pop(lookup)
        before = self._indexes[self._stores[lookup[0], slots.FIRST_INDEX]]
        while before[slots.FOLLOWING] != number:
            before = self._indexes[before[slots.FOLLOWING]]
        record = self._indexes[number]
        before[slots.FOLLOWING] = record[slots.FOLLOWING]
        memory.free(record[slots.LINKS_AT])
        memory.free(record[slots.HEADS_AT])
        record[:] = 0

    def follow(self, orders: Sequence[Sequence[Probe]], groups: Sequence[frozenset[int]]) -> None:
        """Probe in these orders from now on. `groups`: the inputs of each part of a residual,
        which is asked as soon as they are bound."""
        wanted = {probe.lookup for order in orders for probe in order}
        for lookup in [k for k in self._numbers if not isinstance(k, int) and k not in wanted]:
            self._drop_index(lookup)
        for lookup in sorted(wanted - self._numbers.keys()):
            self._add_index(lookup, lookup[0], self._key_columns(lookup))
        self._parts = []
        for driver, order in enumerate(orders):
            asked: set[int] = set()
            for step, probe in zip(self._steps[driver], order, strict=True):
                now = probe.bound | {probe.lookup[0]}
                ready = {g for g, inputs in enumerate(groups) if inputs <= now} - asked
                asked |= ready
                step[kernel.STEP_INPUT] = probe.lookup[0]
                step[kernel.STEP_INDEX] = self._numbers[probe.lookup]
                step[kernel.STEP_SOURCES] = self._kept([w for s in probe.sources for w in s])
                flags = [int(g in ready) for g in range(len(groups))]
                step[kernel.STEP_FLAGS] = self._kept(flags) if ready else 0
                step[kernel.STEP_BAND] = self._band_at(probe.lookup)

    def _kept(self, values: list[int]) -> int:
        part = np.array([*values, 0], np.int64)
        self._parts.append(part)
        return int(address(part))

    def _key_columns(self, lookup: Lookup) -> Words:
        number, keys = lookup
        chosen = (self._keys[k] for k in keys)
        pairs = [w for k in chosen for w in (k.columns[number][0], k.how)]
        return np.array(pairs, np.int64)

    # ---- bands ----

    def _band_of(self, lookup: Lookup | int) -> int | None:
        if isinstance(lookup, int):
            return None
        return next((b for k in lookup[1] if (b := self._keys[k].band) is not None), None)

    def _band_at(self, lookup: Lookup) -> int:
        """Where it is said how far below and above a value the band reaches that is looked up."""
        band = self._band_of(lookup)
        if band is None:
            return 0
        columns = next(k.columns for k in self._keys if k.band == band)
        first = next(i for i, own in enumerate(columns) if own)
        return int(address(self._bands)) + 8 * (4 * band + (0 if lookup[0] == first else 2))

    def size_bands(self, words: Sequence[tuple[int | None, int, int]]) -> None:
        """The width of each band, and how far the first column may be below and above the second."""
        widths = [width for width, _, _ in words]
        changed = widths != self._widths
        self._widths = widths
        for around, (_, below, above) in zip(self._bands, words, strict=True):
            around[:] = below, above, above, below
        if changed:
            self._lay_bands(range(len(self._shapes)))

    def fit_bands(self) -> None:
        """Fit those again that are bounded on one side: other values may be held by now."""
        fitted_ = [
            lookup[0]
            for lookup in self._numbers
            if not isinstance(lookup, int) and self._is_fitted(lookup)
        ]
        self._lay_bands(sorted(set(fitted_)))

    def _is_fitted(self, lookup: Lookup) -> bool:
        band = self._band_of(lookup)
        return band is not None and self._widths[band] is None

    def _lay_bands(self, inputs: Iterable[int]) -> None:
        for number in inputs:
            for lookup in self._numbers:
                if not isinstance(lookup, int) and lookup[0] == number:
                    self._lay_band(lookup)
            self._rehash(number)

    def _lay_band(self, lookup: Lookup | int) -> None:
        """Say how wide the stretches of an index are, and which are the first and the last."""
        record, band = self._indexes[self._numbers[lookup]], self._band_of(lookup)
        width, first, last = 0 if band is None else self._widths[band], 0, 0
        if width is None:
            assert not isinstance(lookup, int)
            (key,) = lookup[1]
            (column,) = self._keys[key].columns[lookup[0]]
            rows = self.rows(lookup[0])
            nulls = nulls_of(rows, column)
            words = np.ascontiguousarray(rows[:, self._shapes[lookup[0]].layout.base + column])
            words = words if nulls is None else words[~nulls]
            width, first, last = fitted(words, self._keys[key].floating)
        record[slots.BAND], record[slots.FIRST_STRETCH] = width, first
        record[slots.LAST_STRETCH] = last

    def _rehash(self, number: int) -> None:
        moving.rehash(self.frame, number)

    def measures(self) -> dict[Lookup, tuple[int, int, int]]:
        """Of each index: probes, rows found, rows wanted; counted since the last call."""
        counters = [slots.PROBES, slots.FOUND, slots.WANTED]
        found = {}
        for lookup, number in self._numbers.items():
            if not isinstance(lookup, int):
                probes, rows, wanted = self._indexes[number, counters].tolist()
                found[lookup] = (probes, rows, wanted)
                self._indexes[number, counters] = 0
        return found

    # ---- rows ----

    def counts(self) -> list[int]:
        return [int(c) for c in self._stores[:, slots.COUNT]]

    def rows(self, number: int) -> Rows:
        """The rows of an input, in order of slots, without weights."""
        shape = self._shapes[number]
        out = np.empty((int(self._stores[number, slots.COUNT]), shape.layout.width), np.int64)
        moving.copy_rows(self.frame, number, out)
        return out

    def rewrite(self, number: int, words: Words, values: Rows) -> None:
        """Replace some words of all rows of an input."""
        moving.write_words(self.frame, number, words, np.ascontiguousarray(values))
        self._rehash(number)

    def held_by(self, nodes: int) -> Words:
        """How many rows each of so many output nodes holds."""
        counts = np.zeros(64 * self.set_words, np.int64)
        for number in range(len(self._shapes)):
            self._count(number, counts)
        return counts[:nodes]

    def _count(self, number: int, counts: Words) -> None:
        moving.count_rows(self.frame, number, counts)

    def purge(self, gone: Words) -> None:
        """Forget what only these output nodes hold."""
        bits = packed(gone, self.set_words)
        for number in range(len(self._shapes)):
            moving.purge(self.frame, number, bits)

    def forget(self) -> None:
        """Hold nothing, and give the memory back."""
        sets.empty_pool(address(self._pool))
        for number, store in enumerate(self._stores):
            memory.free(store[slots.ROWS_AT])
            store[[slots.COUNT, slots.HIGH, slots.ROWS_AT, slots.CAPACITY]] = 0
            store[slots.FREE_HEAD] = self._no_slot
            for lookup, index in self._numbers.items():
                if number == (lookup if isinstance(lookup, int) else lookup[0]):
                    record = self._indexes[index]
                    memory.free(record[slots.HEADS_AT])
                    record[slots.HEADS_AT] = 0
                    chains = 16 if record[slots.KEYS] else 1
                    self._build_index(number, index, chains)

    @property
    def roomy(self) -> bool:
        """Whether most of the memory is of rows that have gone."""
        held, used = int(self._pool[sets.HELD]), int(self._pool[sets.USED])
        if held > 8 * _LEAST_ROOM and held > 4 * used:
            return True
        rooms, counts = self._stores[:, slots.CAPACITY], self._stores[:, slots.COUNT]
        return bool(((rooms > _LEAST_ROOM) & (rooms > 4 * counts)).any())

    def cells(self, number: int, local: Words, nodes: int) -> tuple[Words, Words]:
        """Which nodes hold the rows of an input how often; see `moving.copy_cells`."""
        written = np.array([max(1, (nodes + 63) // 64), 0], np.int64)
        cells, words = moving.copy_cells(self.frame, number, local, written)
        return (
            memory.taken(cells, 4 * written[0]).reshape(-1, 4),
            memory.taken(words, int(written[1])),
        )

    def hold(
        self, number: int, rows: Rows, cells: Words, words: Words, nodes: int, numbers: Words
    ) -> None:
        """Take rows and cells back; `numbers`: what each of the saved nodes is called now."""
        checks.within(cells[:, 0], 0, len(rows), "rows of cells")
        checks.within(cells[:, 1], -checks.MOST, checks.MOST, "how often rows are there")
        width = max(1, (nodes + 63) // 64)
        checks.sets_within(cells[:, 2], cells[:, 3], words, width, nodes, "nodes of rows")
        spare = np.zeros(nodes + 1, np.int32)
        moving.hold_cells(
            self.frame,
            number,
            np.ascontiguousarray(rows),
            np.ascontiguousarray(cells),
            np.ascontiguousarray(words),
            max(1, (nodes + 63) // 64),
            np.ascontiguousarray(numbers),
            spare,
        )

    @property
    def nbytes(self) -> int:
        rows = int((self._stores[:, slots.CAPACITY] * self._stores[:, slots.STRIDE]).sum())
        return rows + 8 * int(self._pool[sets.HELD]) + sum(self._index_sizes().values())

    def _index_sizes(self) -> dict[Lookup | int, int]:
        sizes = {}
        for lookup, number in self._numbers.items():
            room = self._stores[lookup if isinstance(lookup, int) else lookup[0], slots.CAPACITY]
            heads = self._indexes[number, slots.MASK] + 1
            sizes[lookup] = 8 * int(self.link_words * room + heads)
        return sizes

    def describe(self) -> list[dict[str, Any]]:
        """Rows and bytes of each input."""
        return [
            {
                "rows": int(store[slots.COUNT]),
                "bytes": int(store[slots.CAPACITY] * store[slots.STRIDE]),
            }
            for store in self._stores
        ]

    def release(self) -> None:
        """Give all memory back; nothing can be done with it any more."""
        sets.empty_pool(address(self._pool))
        for at in self._stores[:, slots.ROWS_AT].tolist():
            memory.free(at)
        for at in self._indexes[:, [slots.LINKS_AT, slots.HEADS_AT]].ravel().tolist():
            memory.free(at)
        self._stores[:, slots.ROWS_AT] = 0
        self._indexes[:, [slots.LINKS_AT, slots.HEADS_AT]] = 0


def columns_of(columns: Sequence[tuple[int, pa.DataType]]) -> Words:
    """Columns, and which are floats, for an index."""
    pairs = [w for c, type_ in columns for w in (c, int(kind_of(type_) is Kind.FLOAT))]
    return np.array(pairs, np.int64)


def packed(nodes: Words, words: int) -> Words:
    """A set of nodes as bits."""
    bits = np.zeros(64 * words, np.uint8)
    bits[nodes] = 1
    return np.packbits(bits, bitorder="little").view(np.int64)
