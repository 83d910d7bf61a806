"""Values that are not words by themselves: interned strings, and values that are only carried.

Both tables belong to one shard. A code means something only together with the table that gave
it; tables are part of the state, and forget what nothing refers to any more (`compact`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from braid.errors import damaged
from braid.jit.runtime import address
from braid.jit.strings import fill_table, intern_strings

Words = np.ndarray[Any, np.dtype[np.int64]]


class Strings:
    """Every distinct string once: equal strings have equal codes, for as long as they are held."""

    def __init__(self) -> None:
        self.count = 0
        self.offsets: Words = np.zeros(64, np.int64)
        self.pool = np.zeros(1024, np.uint8)
        self._table = np.zeros((128, 2), np.int64)
        self._pinned: dict[str, int] = {}
        self._held = np.zeros(64, np.bool_)
        #: Codes that stand for nothing: constants of queries keep their codes for ever, so
        #: forgetting what lies between them leaves holes.
        self.holes: Words = np.empty(0, np.int64)
        self.description: Words = np.zeros(2, np.int64)
        self._describe()

    def _describe(self) -> None:
        """Tell generated code where the pool is now; it holds the address of `description`."""
        self.description[0] = address(self.offsets)
        self.description[1] = address(self.pool)

    @property
    def size(self) -> int:
        return int(self.offsets[self.count])

    def pin(self, text: str) -> int:
        """The code of a constant of a query, which is held for as long as the shard lives."""
        if text not in self._pinned:
            code = self.codes(pa.array([text], pa.string()))
            self.hold(code)
            self._pinned[text] = int(code[0])
        return self._pinned[text]

    def hold(self, codes: Words) -> None:
        """These are constants of queries: they keep their codes for as long as the shard lives."""
        if len(self._held) < self.count:
            held = np.zeros(max(self.count, 2 * len(self._held)), np.bool_)
            held[: len(self._held)] = self._held
            self._held = held
        self._held[codes] = True

    @property
    def constants(self) -> Words:
        """The codes that are held, in order."""
        return np.flatnonzero(self._held[: self.count])

    def codes(self, array: pa.Array) -> Words:
        """The code of each string; NULLs get any (the row's mask says that they are NULL)."""
        if array.null_count == len(array):
            return np.zeros(len(array), np.int64)
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        values, indices = encoded.dictionary, encoded.indices
        if indices.null_count:
            indices = indices.fill_null(indices.drop_null()[0])
        places = indices.to_numpy(zero_copy_only=False)
        used = np.zeros(len(values), np.bool_)
        used[places] = True
        known = np.zeros(len(values), np.int64)
        known[used] = self._intern(values if used.all() else values.filter(pa.array(used)))
        return known[places]

    def _intern(self, values: pa.Array) -> Words:
        if len(values) == 0:
            return np.empty(0, np.int64)
        offsets, data = string_buffers(values)
        self._reserve(len(values), int(offsets[-1] - offsets[0]))
        codes, self.count = intern_strings(
            self._table, self.offsets, self.pool, self.count, offsets, data
        )
        return codes

    def _reserve(self, strings: int, size: int) -> None:
        """Room for so many more strings of so many bytes in all."""
        needed = self.count + strings + 1
        if needed > len(self.offsets):
            self.offsets = np.resize(self.offsets, max(needed, 2 * len(self.offsets)))
        if self.size + size > len(self.pool):
            self.pool = np.resize(self.pool, max(self.size + size, 2 * len(self.pool)))
        if 2 * needed > len(self._table):
            self._rebuild(needed)
        self._describe()

    def _rebuild(self, needed: int) -> None:
        capacity = len(self._table)
        while capacity < 4 * needed:
            capacity *= 2
        self._table = np.zeros((capacity, 2), np.int64)
        codes = np.arange(self.count, dtype=np.int64)
        if len(self.holes):
            codes = np.setdiff1d(codes, self.holes)
        fill_table(self._table, self.offsets, self.pool, codes)

    def array(self, codes: Words, nulls: np.ndarray | None) -> pa.Array:
        """The strings of codes, as Arrow."""
        if self.count == 0:
            return pa.nulls(len(codes), pa.string())
        return self._arrow().take(pa.array(codes, pa.int64(), mask=nulls)).cast(pa.string())

    def _arrow(self) -> pa.Array:
        """The pool as an Arrow array, which has offsets of 64 bits like ours."""
        offsets = pa.py_buffer(self.offsets[: self.count + 1])
        data = pa.py_buffer(self.pool[: self.size])
        return pa.Array.from_buffers(pa.large_string(), self.count, [None, offsets, data])

    def compact(self, live: Iterable[Words]) -> Words | None:
        """Forget strings that no live code nor constant refers to; the new code of each old one.

        Constants keep theirs, so that whatever was built from them stays as it is; the others
        move to the lowest codes that are free.
        """
        keep = np.zeros(self.count, np.bool_)
        for codes in live:
            keep[codes] = True
        fixed = np.zeros(self.count, np.bool_)
        fixed[: len(self._held)] = self._held[: self.count]
        keep |= fixed
        if len(self.holes) + np.count_nonzero(keep) >= self.count:
            return None
        mapping = np.zeros(self.count, np.int64)
        mapping[fixed] = np.flatnonzero(fixed)
        moved = np.flatnonzero(keep & ~fixed)
        mapping[moved] = np.flatnonzero(~fixed)[: len(moved)]
        kept = np.flatnonzero(keep)
        count = int(mapping[kept].max()) + 1 if len(kept) else 0
        place = np.full(count, -1, np.int64)
        place[mapping[kept]] = kept
        self.holes = np.flatnonzero(place < 0)
        old = pa.array(np.maximum(place, 0), pa.int64(), mask=place < 0)
        values = self._arrow().take(old).fill_null("").cast(pa.string())
        offsets, data = string_buffers(values)
        self._load(offsets - offsets[0], data[offsets[0] : offsets[-1]])
        return mapping

    def load(self, values: pa.Array) -> None:
        """Start over with these distinct strings as codes 0, 1, 2, ..."""
        offsets, data = string_buffers(values)
        self.load_pool(offsets - offsets[0], data[offsets[0] : offsets[-1]])

    def load_pool(self, offsets: Words, data: np.ndarray, holes: Words | None = None) -> None:
        """Start over with a pool as `offsets`, `pool` and `holes` describe it."""
        _check_pool(offsets, data, holes)
        self.holes = np.empty(0, np.int64) if holes is None else holes
        self._held[:] = False
        self._load(offsets, data)

    def _load(self, offsets: Words, data: np.ndarray) -> None:
        n, size = len(offsets) - 1, len(data)
        self.offsets = np.zeros(max(64, 2 * n), np.int64)
        self.offsets[: n + 1] = offsets
        self.pool = np.zeros(max(1024, 2 * size), np.uint8)
        self.pool[:size] = data
        self.count = n
        self._rebuild(n + 1)
        self._describe()


def _check_pool(offsets: Words, data: np.ndarray, holes: Words | None) -> None:
    """Strings lie one after the other, are UTF-8, and holes are among them."""
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(data):
        raise damaged("the table of strings has another size than its strings")
    if (np.diff(offsets) < 0).any():
        raise damaged("strings overlap")
    if holes is not None and len(holes) and not 0 <= holes.min() <= holes.max() < len(offsets) - 1:
        raise damaged("a hole is outside of the table of strings")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers).validate(full=True)


def string_buffers(array: pa.Array) -> tuple[Words, np.ndarray]:
    """Offsets (int64) and bytes of a string array without copying the bytes."""
    if array.type != pa.string():
        array = array.cast(pa.string())
    _, raw_offsets, raw_data = array.buffers()
    offsets = np.frombuffer(raw_offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(raw_data, np.uint8) if raw_data is not None else np.empty(0, np.uint8)
    return offsets.astype(np.int64), data


class Carried:
    """Values that kernels only pass on (arrays, structs, wide decimals): a numbered store."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_
        self.values: pa.Array = pa.array([], type_)

    def codes(self, array: pa.Array) -> Words:
        start = len(self.values)
        self.values = pa.concat_arrays([self.values, array.cast(self.type)])
        return np.arange(start, len(self.values), dtype=np.int64)

    def array(self, codes: Words, nulls: np.ndarray | None) -> pa.Array:
        return self.values.take(pa.array(codes, pa.int64(), mask=nulls))

    def compact(self, live: Iterable[Words]) -> Words | None:
        keep = np.zeros(len(self.values), np.bool_)
        for codes in live:
            keep[codes] = True
        if keep.all():
            return None
        self.values = self.values.filter(pa.array(keep))
        return (np.cumsum(keep) - 1).astype(np.int64)


class Values:
    """The tables of one shard."""

    def __init__(self) -> None:
        self.strings = Strings()
        self.carried: dict[pa.DataType, Carried] = {}

    def store(self, type_: pa.DataType) -> Carried:
        return self.carried.setdefault(type_, Carried(type_))
