"""Rows on disk: in a temporary file of the process, with only bits of their keys in memory.

Rows that constraints evict are written in pieces. A piece has the hashes of its rows' keys, by index, and
the held rows. It is searched only when the filter of an index (`kernels/spill_filter.py`) says that a key
may be in it, and is dropped when all its rows have left their window.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from braid.jit import memory
from braid.jit.bloom_filter import set_filter
from braid.jit.vector import Vector, clear_vector
from braid.operators.constraint_join.fields import Records
from braid.operators.constraint_join.kernels.record_copies import add_spilled_keys
from braid.operators.constraint_join.kernels.records import MASKED, RETURNED, Frame, Tail
from braid.operators.constraint_join.probes import AbsentKeyTable
from braid.operators.constraint_join.spill.file import Place, SpillFile
from braid.operators.constraint_join.state import Stores
from braid.operators.core.columns import Rows
from braid.operators.core.values import Words

#: Rows that are written at once, at least.
PIECE = 1024

#: Pieces of one size that become one.
_TOGETHER = 8

#: Keys for each word of a filter, at most: 16 bits a key and more; words of the smallest one.
_CROWDED = 4
_LEAST_FILTER = 256


@dataclass(eq=False)
class Piece:
    """Rows that were written together."""

    place: Place
    #: Of each index the hashes in order and the rows that have them, then the records.
    words: Words
    rows: int
    #: The last of them leaves with this `end`, or with this number among the events.
    last_end: int
    last_number: int
    #: How often it was made of others.
    tier: int = 0
    #: Rows that have been brought back.
    taken: set[int] = field(default_factory=set)


class Held(Protocol):
    """The stores and indexes in memory, and the keys of held rows."""

    stores: Records
    indexes: Records
    absent: AbsentKeyTable

    @property
    def frame(self) -> Frame: ...

    def hashes(self, index: int, records: Rows) -> Words: ...


class SpilledPieces:
    """The rows of one input on disk: a file of pieces, a buffer of the rows of the next piece, and the
    filters of their keys."""

    def __init__(self, held: Held, number: int, indexes: range, words: int) -> None:
        self._held, self._number = held, number
        self._store = held.stores[number]
        self._indexes, self._record = indexes, words
        self._file = SpillFile()
        self.pieces: list[Piece] = []
        self._filters: dict[int, Words] = {}
        for index in self._indexes:
            self._make_filter(index, _LEAST_FILTER)

    def _make_filter(self, index: int, words: int) -> None:
        self._filters[index] = np.zeros(words, np.int64)
        set_filter(self._held.indexes["spilled"][index], self._filters[index])

    @property
    def _buffer(self) -> Vector:
        return self._held.frame.stores[self._number].buffer

    # ---- out ----

    def write(self) -> None:
        """Write the rows of the buffer to disk, if there are enough."""
        if self._buffer.count >= PIECE * self._record:
            records = self._settled(self._waiting())
            if len(records):
                self._add_piece(records)
            self._empty_buffer()
        if any(self._crowded(index) for index in self._indexes):
            self._rebuild_filters()

    def _waiting(self) -> Rows:
        """The rows of the buffer, as a view."""
        buffer = self._buffer
        return memory.view(buffer.items.address, buffer.count).reshape(-1, self._record)

    def _empty_buffer(self) -> None:
        clear_vector(self._buffer)

    def _add_piece(self, records: Rows, tier: int = 0) -> None:
        parts = []
        for index in self._indexes:
            hashes = self._held.hashes(index, records)
            order = np.argsort(hashes)
            parts += [hashes[order], order]
        place = self._file.write(*parts, records)
        words = self._file.view(place)
        self.pieces.append(Piece(place, words, len(records), *self._last(records), tier))
        same = [p for p in self.pieces if p.tier == tier]
        if len(same) == _TOGETHER:
            self._merge(same, tier + 1)

    def _last(self, records: Rows) -> tuple[int, int]:
        """When the last of some records leaves: its `end`, and its number among the events."""
        return 0, 0

    def _merge(self, pieces: list[Piece], tier: int) -> None:
        """Make one piece of several, so that few have to be looked through."""
        records = self._settled(np.concatenate([self._left(piece) for piece in pieces]))
        self._drop(pieces)
        if len(records):
            self._add_piece(records, tier)

    def _settled(self, records: Rows) -> Rows:
        """What is left of records that come together."""
        return records

    def _drop(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            self._file.free(piece.place)
        self.pieces = [p for p in self.pieces if p not in pieces]

    def _left(self, piece: Piece) -> Rows:
        """The rows of a piece that have not been brought back."""
        kept = np.ones(piece.rows, np.bool_)
        kept[list(piece.taken)] = False
        return self._records(piece)[kept]

    def add(self, records: Rows) -> None:
        """Spill rows that come from elsewhere."""
        if len(records):
            self._add_piece(records)
            self._store["spilled"] += len(records)
            for index in self._indexes:
                self._crowd(index, self._held.hashes(index, records))

    # ---- filters ----

    def _crowded(self, index: int) -> bool:
        filter_ = self._held.indexes["spilled"][index]
        return bool(filter_["keys"] > _CROWDED * (filter_["mask"] + 1))

    def _crowd(self, index: int, keys: Words) -> None:
        add_spilled_keys(self._held.frame, index, keys)
        if self._crowded(index):
            self._rebuild_filters()

    def _rebuild_filters(self) -> None:
        """Build the filters again of the rows that are on disk, with room for half as many again at least."""
        waiting = self._waiting()
        lasting = [self._lasting(self._records(piece)) for piece in self.pieces]
        count = len(waiting) + sum(int(own.sum()) for own in lasting)
        words = _LEAST_FILTER
        while 2 * words * _CROWDED < 3 * count:
            words *= 2
        for place, index in enumerate(self._indexes):
            self._make_filter(index, words)
            for piece, own in zip(self.pieces, lasting, strict=True):
                first = (2 * place + 1) * piece.rows
                order = piece.words[first : first + piece.rows]
                asked = (own & self._asked_by(self._records(piece), place))[order]
                add_spilled_keys(self._held.frame, index, self._hashes(piece, place)[asked])
            if len(waiting):
                asked = self._asked_by(waiting, place)
                hashes = self._held.hashes(index, waiting)
                add_spilled_keys(self._held.frame, index, hashes[asked])

    def _asked_by(self, records: Rows, place: int) -> np.ndarray:
        """Which records have to be found by an index."""
        return np.ones(len(records), np.bool_)

    def _lasting(self, records: Rows) -> np.ndarray:
        """Which records have to be found at all."""
        return np.ones(len(records), np.bool_)

    # ---- back ----

    def _hashes(self, piece: Piece, place: int) -> Words:
        return piece.words[2 * place * piece.rows : (2 * place + 1) * piece.rows]

    def _rows_with(self, piece: Piece, place: int, hash_: int) -> list[int]:
        """The rows of a piece that have a key and have not been brought back."""
        hashes = self._hashes(piece, place)
        first = int(np.searchsorted(hashes, hash_))
        rows = []
        while first < piece.rows and hashes[first] == hash_:
            row = int(piece.words[(2 * place + 1) * piece.rows + first])
            if row not in piece.taken:
                rows.append(row)
            first += 1
        return rows

    def _records(self, piece: Piece) -> Rows:
        first = 2 * len(self._indexes) * piece.rows
        return piece.words[first:].reshape(piece.rows, self._record)

    def _taken(self, index: int, hash_: int) -> Rows:
        """Take the records with a key out."""
        place = self._indexes.index(index)
        found = [np.empty((0, self._record), np.int64)]
        for piece in self.pieces:
            rows = self._rows_with(piece, place, hash_)
            if rows:
                piece.taken.update(rows)
                found.append(self._records(piece)[rows])
        waiting = self._waiting()
        if len(waiting):
            same = self._held.hashes(index, waiting) == hash_
            if same.any():
                found.append(waiting[same])
                kept = waiting[~same]
                waiting[: len(kept)] = kept
                self._buffer.count = kept.size
        records = np.concatenate(found)
        self._store["spilled"] -= len(records)
        return records

    def _all(self) -> Rows:
        parts = [self._waiting().copy()]
        parts += [self._left(piece) for piece in self.pieces]
        return np.concatenate(parts)

    def forget(self) -> None:
        """Forget all rows on disk."""
        self._empty_buffer()
        self._drop(self.pieces)
        self._store["spilled"] = 0
        self._rebuild_filters()
        self._held.absent.forget()

    @property
    def nbytes(self) -> int:
        """Memory: filters, and what is known of pieces. Buffers are counted by the store."""
        return sum(f.nbytes for f in self._filters.values()) + 64 * len(self.pieces)

    @property
    def file_bytes(self) -> int:
        return self._file.nbytes


class SpilledRows(SpilledPieces):
    """The rows of one input on disk, with their windows."""

    def __init__(self, held: Stores, number: int) -> None:
        store = held.stores[number]
        first = int(store["first_index"])
        indexes = range(first, first + int(store["index_count"]))
        width = int(store["width"])
        self._number_at, self._flags_at = width + Tail.word("number"), width + Tail.word("flags")
        super().__init__(held, number, indexes, int(store["record_words"]))
        self._stores = held

    def _last(self, records: Rows) -> tuple[int, int]:
        return int(records[:, 1].max()), int(records[:, self._number_at].max())

    def _asked_by(self, records: Rows, place: int) -> np.ndarray:
        masks = records[:, self._flags_at] >> MASKED
        return np.asarray((masks == 0) | ((masks >> place) & 1 != 0))

    def _lasting(self, records: Rows) -> np.ndarray:
        """Those whose windows are not over: pieces go as a whole, when the last of their rows does."""
        return ~self._over(records, self._held.frame.now)

    def add(self, records: Rows) -> None:
        """Spill rows that come from elsewhere, to be found by every key: which keys look them up isn't
        known here."""
        own = records.copy()
        own[:, self._flags_at] &= (1 << MASKED) - 1
        super().add(own)

    def bring_back(self, index: int, hash_: int, now: int) -> None:
        """Take the rows with a key into memory, if their windows are not over."""
        records = self._taken(index, hash_)
        if not len(records):
            return
        records = records[~self._over(records, now)]
        records = records[np.argsort(records[:, self._number_at], kind="stable")]
        flags = self._flags_at
        records[:, flags] = records[:, flags] & (1 << MASKED) - 1 | RETURNED
        self._store["returned"] += len(records)
        self._stores.take(self._number, records, oldest=True)

    def _over(self, records: Rows, now: int) -> np.ndarray:
        size = int(self._store["size"])
        if size < 0:
            return np.zeros(len(records), np.bool_)
        if self._store["by_rows"]:
            return np.asarray(records[:, self._number_at] <= self._store["last_left"])
        return np.asarray(records[:, 1] < now - size)

    def records(self, now: int) -> Rows:
        """All rows on disk that are in their windows."""
        records = self._all()
        return records[~self._over(records, now)]

    # ---- time ----

    def pass_time(self, now: int) -> None:
        """Drop pieces whose rows have all left their windows."""
        size, store = int(self._store["size"]), self._store
        if size < 0 or not self.pieces:
            return
        if store["by_rows"]:
            over = [p for p in self.pieces if p.last_number <= store["last_left"]]
        else:
            over = [p for p in self.pieces if p.last_end < now - size]
        if not over:
            return
        self._drop(over)
        store["spilled"] -= sum(p.rows - len(p.taken) for p in over)
        if not store["spilled"]:
            self._rebuild_filters()
