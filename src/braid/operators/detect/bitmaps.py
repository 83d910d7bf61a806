"""The bitmaps of one synopsis, batch by batch, in bits.

A bit cannot be decremented when an event leaves its window, so a bitmap of the whole window could
not age. Batches leave as a whole, the oldest first: each batch has a bitmap of its own, and what
stands in a synopsis are the bitmaps of consecutive batches. A bitmap with few bits set is held as
the numbers of these bits (`operators/detect/kernels/packed_bits.py`). To answer, the batches are unpacked into
cells, and these are dropped at the end of the round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from braid.algebra.detection import code_bits
from braid.errors import damaged
from braid.operators.core import checks
from braid.operators.core.base import State
from braid.operators.core.values import Words
from braid.operators.detect.base_log import check_buckets
from braid.operators.detect.growable import room, shifted
from braid.operators.detect.kernels import packed_bits as kernel
from braid.operators.detect.spec import Dimension


class Bitmaps:
    """Events are told by their numbers, as in the log; `begins` are those that batches begin with."""

    def __init__(self, dimensions: Sequence[Dimension]) -> None:
        self._dimensions = tuple(dimensions)
        sizes = [d.buckets for d in dimensions]
        width, low = (0, 0) if len(sizes) == 1 else (sizes[1], code_bits(sizes[1:]))
        self._packing = kernel.Packing(math.prod(sizes), width, low, code_bits(sizes))
        self._pool = np.zeros(0, np.uint64)
        #: Where the oldest batch begins, the one under way, and what is free, in bits.
        self._oldest, self._open, self._end = 0, 0, 0
        #: The number of the first event of the batch under way, and of the next event to be packed.
        self._open_from, self._packed = 0, 0
        #: The cells of events that have come in this round.
        self._new = np.zeros(0, np.int32)

    def add(self, cells: Words) -> None:
        self._new = np.concatenate([self._new, cells.astype(np.int32)])

    def cells(self, begins: Words) -> np.ndarray:
        """The cells of all events, as many as there are events."""
        starts = np.append(begins[begins < self._packed], self._packed)
        found = np.empty(self._packed - int(starts[0]) + len(self._new), np.int32)
        kernel.unpack(self._packing, self._pool, self._oldest, starts - starts[0], found)
        found[len(found) - len(self._new) :] = self._new
        return found

    def pack(self, begins: Words, open_from: int) -> None:
        """The round is over: pack what has come. `open_from`: the first event of the batch that is
        under way now, or the next event."""
        if len(self._new):
            self._append(begins, open_from)
        elif open_from != self._open_from:
            # Nothing has come, and the batch that was under way has ended.
            self._open, self._open_from = self._end, open_from

    def _append(self, begins: Words, open_from: int) -> None:
        """The batch that was under way is packed anew with what has come to it."""
        under_way = self._packed - self._open_from
        cells = np.empty(under_way + len(self._new), np.int32)
        if under_way:
            starts = np.array([0, under_way], np.int64)
            kernel.unpack(self._packing, self._pool, self._open, starts, cells)
        cells[under_way:] = self._new
        self._packed += len(self._new)
        self._new = np.zeros(0, np.int32)
        starts = np.append(begins[begins >= self._open_from], self._packed)
        sizes = self._bits(np.diff(starts))
        self._clear(self._open, self._open + int(sizes.sum()))
        starts -= self._open_from
        self._end = kernel.pack(self._packing, cells, starts, self._pool, self._open)
        is_open = open_from < self._packed
        self._open = self._end - int(sizes[-1]) if is_open else self._end
        self._open_from = open_from

    def _bits(self, events: Words) -> Words:
        """What batches of so many events take."""
        return np.minimum(events * self._packing.code, self._packing.entries)

    def _clear(self, low: int, high: int) -> None:
        """Zeros from one bit to another, and room for them."""
        held, needed = (self._end + 63) // 64, (high + 63) // 64
        self._pool = room(self._pool, held, max(0, needed - held))
        word, bit = divmod(low, 64)
        if bit:
            self._pool[word] &= np.uint64((1 << bit) - 1)
            word += 1
        self._pool[word:] = 0

    def forget(self, begins: Words, first: int) -> None:
        """Only the batches from the one with event `first` on are left."""
        gone = np.append(begins[begins < first], first)
        self._oldest += int(self._bits(np.diff(gone)).sum())
        words = self._oldest // 64
        if words:
            self._pool = shifted(self._pool, words, (self._end + 63) // 64)
            self._oldest -= 64 * words
            self._open -= 64 * words
            self._end -= 64 * words

    # ---- state ----

    @property
    def nbytes(self) -> int:
        return self._pool.nbytes + self._new.nbytes

    def saved(self) -> State:
        assert not len(self._new), "a round is under way"
        numbers = (self._oldest, self._open, self._end, self._open_from, self._packed)
        words = self._pool[: (self._end + 63) // 64]
        return {"bits": words.copy().view(np.int64), "at": np.array(numbers, np.int64)}

    def check(self, state: State, begins: Words, first: int, next_: int) -> None:
        """What was saved has the batches that begin there, of the events from `first` to `next_`."""
        checks.sized(state["at"], 5, "places of bitmaps")
        oldest, open_, end, open_from, packed = state["at"].tolist()
        checks.within(np.array([oldest]), 0, 64, "the first bit of bitmaps")
        starts = np.append(begins[begins < next_], next_)
        if packed != next_ or open_from not in starts or int(starts[0]) != first:
            raise damaged("bitmaps are not of the events that are kept")
        sizes, at = self._bits(np.diff(starts)), int(np.searchsorted(starts, open_from))
        if open_ != oldest + int(sizes[:at].sum()) or end != oldest + int(sizes.sum()):
            raise damaged("bitmaps are not as long as their batches")
        checks.sized(state["bits"], (end + 63) // 64, "words of bitmaps")

    def load(self, state: State, begins: Words) -> None:
        self._pool = state["bits"].copy().view(np.uint64)
        self._oldest, self._open, self._end, self._open_from, self._packed = state["at"].tolist()
        check_buckets(self.cells(begins), self._dimensions)
