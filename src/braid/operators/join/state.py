"""The memory of a join: rows of each input with their members, and indexes made when needed.

Everything lies behind addresses, in a *frame* that kernels read (`operators/join/kernels/frame.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from braid.algebra.types import Kind, kind_of
from braid.jit import memory, records
from braid.jit.hash_table import TwoWayLink
from braid.jit.runtime import address
from braid.jit.vector import Vector
from braid.operators.core import checks
from braid.operators.core.columns import Rows, nulls_of
from braid.operators.core.kernels import node_sets as sets
from braid.operators.core.kernels.node_sets import Pool
from braid.operators.core.values import Words
from braid.operators.join.bands import fitted
from braid.operators.join.kernels import frame as kernel
from braid.operators.join.kernels import state as moving
from braid.operators.join.kernels import store as slots
from braid.operators.join.kernels.frame import Feed, Frame
from braid.operators.join.probe_orders import Key, Lookup, Probe
from braid.plan.specs import Shape

#: Room that is not worth giving back.
_LEAST_ROOM = 1024


class Holdings:
    """Rows of each input in slots, their indexes, and the frame of the join."""

    #: The frame and its words, words of a slot beyond the row, and words of a link.
    frame_type: type[Frame] = Frame
    frame_words = Frame.stride // 8
    extra = slots.EXTRA
    link_words = TwoWayLink.stride // 8
    #: What is in the place of the first free slot if there is none.
    _no_slot = -1

    def __init__(self, shapes: Sequence[Shape], keys: Sequence[Key]) -> None:
        self._keys = keys
        self._shapes = shapes
        count = len(shapes)
        self.words: Words = np.zeros(self.frame_words, np.int64)
        self.frame = self.frame_type.at(self.words)
        self.feeds = np.zeros(count, Feed.dtype)
        self._stores, self._pool = self._make_stores()
        # Finalizers call this, and may run while the compiler is at work: it must be loaded by then.
        sets.empty_pool(self._pool_at)
        #: Numbers of indexes by what they look up; the first of each input finds equal rows.
        self._numbers: dict[Lookup | int, int] = {}
        self._indexes = np.zeros(0, slots.Index.dtype)
        self._columns: list[Words] = []
        self._levels = np.zeros(count, kernel.Level.dtype)
        self._bound: Words = np.zeros(count, np.int64)
        self._sets: Words = np.zeros(1, np.int64)
        self._steps = np.zeros((count, count - 1), kernel.Step.dtype)
        self._parts: list[Words] = []
        bands = sum(key.band is not None for key in keys)
        #: None: fitted to what is held, of each index by itself.
        self._widths: list[int | None] = [0] * bands
        self._bands: Words = np.zeros((bands, 4), np.int64)
        self.size_sets(1)
        self._point()
        for number, shape in enumerate(shapes):
            self._add_index(number, number, self._compared(number, shape))

    def _make_stores(self) -> tuple[np.ndarray, np.ndarray]:
        """A store for each input, and the pool of their sets."""
        stores = np.zeros(len(self._shapes), slots.Store.dtype)
        stores["free"] = self._no_slot
        stores["index"] = -1
        for shape, store in zip(self._shapes, stores, strict=True):
            self._lay_out(store, shape)
        return stores, np.zeros(1, Pool.dtype)

    def _lay_out(self, store: np.void, shape: Shape) -> None:
        """Let a store have rows of this shape."""
        store["width"] = shape.layout.width
        store["base"] = shape.layout.base
        store["slot_words"] = shape.layout.width + self.extra

    @property
    def _pool_at(self) -> Pool:
        return Pool.at(self._pool)

    def _compared(self, number: int, shape: Shape) -> Words:
        """The columns that the first index of an input is of: all, without the weight."""
        return columns_of([(c, a.type) for c, a in enumerate(shape.schema)][:-1])

    def _point(self) -> None:
        frame = self.frame
        frame.inputs = len(self._shapes)
        frame.stores = slots.Store.at(self._stores)
        frame.feeds = Feed.at(self.feeds)
        frame.indexes = slots.Index.at(self._indexes)
        frame.pool = Pool.at(self._pool)
        frame.levels = kernel.Level.at(self._levels)
        frame.bound = kernel.Bound.at(self._bound)
        frame.steps = kernel.Step.at(self._steps)
        frame.sets = records.Words.at(self._sets)

    # ---- sets of nodes ----

    @property
    def set_words(self) -> int:
        return self.frame.set_words

    def size_sets(self, nodes: int) -> None:
        """Let sets have room for so many output nodes; nothing is held."""
        words = max(1, (nodes + 63) // 64)
        sets_of = len(self._shapes) + 2
        self._sets = np.zeros(sets_of * words, np.int64)
        self.frame.sets = records.Words.at(self._sets)
        self.frame.set_words = words
        self.frame.most_listed = 0 if words == 1 else min(words, sets.MOST)

    # ---- indexes ----

    def _add_index(self, what: Lookup | int, store: int, columns: Words) -> None:
        number = next(
            (n for n in range(len(self._indexes)) if n not in self._numbers.values()), None
        )
        if number is None:
            number = len(self._indexes)
            fresh = np.zeros(1, slots.Index.dtype)
            self._indexes = np.concatenate([self._indexes, fresh])
            self._columns.append(columns)
            self._point()
        self._columns[number] = columns
        self._numbers[what] = number
        record = self._indexes[number]
        self._indexes[number] = 0
        record["link_size"] = 8 * self.link_words
        record["keys"] = len(columns) // 2
        record["columns"] = address(columns)
        self._lay_band(what)
        # The one that finds equal rows stays the first of its input.
        if isinstance(what, int):
            record["following"] = -1
            self._stores[store]["index"] = number
            chains = 16
        else:
            first = self._indexes[self._stores[store]["index"]]
            record["following"] = first["following"]
            first["following"] = number
            chains = int(first["mask"]) + 1 if len(columns) else 1
        self._build_index(store, number, chains)

    def _build_index(self, store: int, number: int, chains: int) -> None:
        moving.build_index(self.frame, store, number, chains)

    def _drop_index(self, lookup: Lookup) -> None:
        number = self._numbers.pop(lookup)
        before = self._indexes[self._stores[lookup[0]]["index"]]
        while before["following"] != number:
            before = self._indexes[before["following"]]
        record = self._indexes[number]
        before["following"] = record["following"]
        memory.free(record["links"])
        memory.free(record["heads"])
        self._indexes[number] = 0

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
                step["input"] = probe.lookup[0]
                step["index"] = self._numbers[probe.lookup]
                step["sources"] = self._kept([w for s in probe.sources for w in s])
                flags = [int(g in ready) for g in range(len(groups))]
                step["flags"] = self._kept(flags) if ready else 0
                step["band"] = self._band_at(probe.lookup)

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
        record["band"][0], record["first_bucket"] = width, first
        record["last_bucket"] = last

    def _rehash(self, number: int) -> None:
        moving.rehash(self.frame, number)

    def measures(self) -> dict[Lookup, tuple[int, int, int]]:
        """Of each index: probes, rows found, rows wanted; counted since the last call."""
        counters = ["probes", "found", "wanted"]
        found = {}
        for lookup, number in self._numbers.items():
            if not isinstance(lookup, int):
                record = self._indexes[number]
                probes, rows, wanted = (int(record[name]) for name in counters)
                found[lookup] = (probes, rows, wanted)
                for name in counters:
                    record[name] = 0
        return found

    # ---- rows ----

    def counts(self) -> list[int]:
        return [int(c) for c in self._stores["count"]]

    def rows(self, number: int) -> Rows:
        """The rows of an input, in order of slots, without weights."""
        shape = self._shapes[number]
        out = np.empty((int(self._stores[number]["count"]), shape.layout.width), np.int64)
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
        moving.count_rows(self.frame, number, records.Words.at(counts))

    def purge(self, gone: Words) -> None:
        """Forget what only these output nodes hold."""
        bits = packed(gone, self.set_words)
        for number in range(len(self._shapes)):
            moving.purge(self.frame, number, records.Words.at(bits))

    def forget(self) -> None:
        """Hold nothing, and give the memory back."""
        sets.empty_pool(self._pool_at)
        for number, store in enumerate(self._stores):
            memory.free(store["rows"])
            for name in ("count", "high", "rows", "capacity"):
                store[name] = 0
            store["free"] = self._no_slot
            for lookup, index in self._numbers.items():
                if number == (lookup if isinstance(lookup, int) else lookup[0]):
                    record = self._indexes[index]
                    memory.free(record["heads"])
                    record["heads"] = 0
                    chains = 16 if record["keys"] else 1
                    self._build_index(number, index, chains)

    @property
    def roomy(self) -> bool:
        """Whether most of the memory is of rows that have gone."""
        held, used = self.frame.pool.held, self.frame.pool.used
        if held > 8 * _LEAST_ROOM and held > 4 * used:
            return True
        rooms, counts = self._stores["capacity"], self._stores["count"]
        return bool(((rooms > _LEAST_ROOM) & (rooms > 4 * counts)).any())

    def cells(self, number: int, local: Words, nodes: int) -> tuple[Words, Words]:
        """Which nodes hold the rows of an input how often; see `moving.copy_cells`."""
        written = np.array([max(1, (nodes + 63) // 64), 0], np.int64)
        cells, words = moving.copy_cells(self.frame, number, records.Words.at(local), written)
        return (
            memory.taken(int(cells), 4 * int(written[0])).reshape(-1, 4),
            memory.taken(int(words), int(written[1])),
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
        cells = np.ascontiguousarray(cells)
        moving.hold_cells(
            self.frame,
            number,
            np.ascontiguousarray(rows),
            moving.SavedCell.at(cells),
            len(cells),
            np.ascontiguousarray(words),
            width,
            np.ascontiguousarray(numbers),
            spare,
        )

    @property
    def nbytes(self) -> int:
        rows = 8 * int((self._stores["capacity"] * self._stores["slot_words"]).sum())
        return rows + 8 * self.frame.pool.held + sum(self._index_sizes().values())

    def _index_sizes(self) -> dict[Lookup | int, int]:
        sizes = {}
        for lookup, number in self._numbers.items():
            room = self._stores[lookup if isinstance(lookup, int) else lookup[0]]["capacity"]
            heads = self._indexes[number]["mask"] + 1
            sizes[lookup] = 8 * int(self.link_words * room + heads)
        return sizes

    def describe(self) -> list[dict[str, Any]]:
        """Rows and bytes of each input."""
        return [
            {
                "rows": int(store["count"]),
                "bytes": 8 * int(store["capacity"] * store["slot_words"]),
            }
            for store in self._stores
        ]

    def release(self) -> None:
        """Give all memory back; nothing can be done with it any more."""
        sets.empty_pool(self._pool_at)
        for column in (self._stores["rows"], self._indexes["links"], self._indexes["heads"]):
            for at in column.tolist():
                memory.free(at)
            column[:] = 0


def columns_of(columns: Sequence[tuple[int, pa.DataType]]) -> Words:
    """Columns, and which are floats, for an index."""
    pairs = [w for c, type_ in columns for w in (c, int(kind_of(type_) is Kind.FLOAT))]
    return np.array(pairs, np.int64)


def packed(nodes: Words, words: int) -> Words:
    """A set of nodes as bits."""
    bits = np.zeros(64 * words, np.uint8)
    bits[nodes] = 1
    return np.packbits(bits, bitorder="little").view(np.int64)


def clear(vector: Vector) -> None:
    """A vector has lost its memory."""
    vector.items, vector.room, vector.count = records.Words(0), 0, 0


def taken(frame: Frame, width: int) -> tuple[Rows, np.ndarray, np.ndarray]:
    """The output rows of a join and their memory, and the pairs of rows and members apart."""
    rows = memory.taken(frame.out.items.address, frame.out.count).reshape(-1, width)
    index, members = moving.split_pairs(frame.pairs.items, frame.pairs.count)
    memory.free(frame.pairs.items.address)
    clear(frame.out)
    clear(frame.pairs)
    frame.out_rows = 0
    return rows, index, members
