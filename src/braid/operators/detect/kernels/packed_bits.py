"""Bitmaps of detections inside kernels: packing the entries of batches into bits, and unpacking them.

Batches lie one after the other in one string of bits. A batch of *n* events takes the smaller of
two forms: a bit for each entry of the synopsis, or the numbers of its entries, each in as few bits
as there are entries to tell apart. The number of events decides which, so nothing else is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.jit import types
from braid.jit.runtime import WORDS, kernel
from braid.operators.detect.kernels.synopses import HALF, LOW
from braid.operators.select.kernels.asc import lowest_bit, without_lowest


class Packing(NamedTuple):
    """How entries are written. `entries`: how many the synopsis has; `width`: how many of them are in
    a row (0: it is a vector); `low`: the bits of a column number; `code`: those of an entry number."""

    entries: int
    width: int
    low: int
    code: int


_PACKING = types.NamedUniTuple(types.int64, 4, Packing)
_CELLS = types.Array(types.int32, 1, "C")
_POOL = types.Array(types.uint64, 1, "C")
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel((_PACKING, _CELLS, WORDS, _POOL, types.int64))
def pack(packing: Packing, cells: np.ndarray, starts: np.ndarray, pool: np.ndarray, at: int) -> int:
    """Write batches from bit `at` on, where all bits are zero; the bit after them. `starts`: where
    the cells of each batch begin, and where the last one's end."""
    for b in range(starts.shape[0] - 1):
        low, high = starts[b], starts[b + 1]
        if (high - low) * packing.code < packing.entries:
            for t in range(low, high):
                x, y = _split(packing, np.int64(cells[t]))
                _write(pool, at, packing.code, (x << packing.low) | y)
                at += packing.code
        else:
            for t in range(low, high):
                x, y = _split(packing, np.int64(cells[t]))
                bit = at + x * max(packing.width, 1) + y
                pool[bit >> 6] |= _ONE << np.uint64(bit & 63)
            at += packing.entries
    return at


@kernel((_PACKING, _POOL, types.int64, WORDS, _CELLS))
def unpack(
    packing: Packing, pool: np.ndarray, at: int, starts: np.ndarray, cells: np.ndarray
) -> None:
    """The cells of batches that lie from bit `at` on. A batch has as many cells as events: where
    fewer entries are set, the last of them stands for the rest."""
    for b in range(starts.shape[0] - 1):
        low, high = starts[b], starts[b + 1]
        if (high - low) * packing.code < packing.entries:
            for t in range(low, high):
                code = _read(pool, at, packing.code)
                if packing.width != 0:
                    code = ((code >> packing.low) << HALF) | (code & ((1 << packing.low) - 1))
                cells[t] = code
                at += packing.code
        else:
            place = low
            for first in range(0, packing.entries, 64):
                left = _read(pool, at + first, min(64, packing.entries - first))
                while left != 0:
                    entry = first + lowest_bit(left)
                    left = without_lowest(left)
                    if packing.width != 0:
                        entry = ((entry // packing.width) << HALF) | (entry % packing.width)
                    cells[place] = entry
                    place += 1
            cells[place:high] = cells[place - 1]
            at += packing.entries


@kernel()
def _split(packing: Packing, cell: int) -> tuple[int, int]:
    if packing.width == 0:
        return cell, np.int64(0)
    return cell >> HALF, cell & LOW


@kernel()
def _write(pool: np.ndarray, at: int, bits: int, value: int) -> None:
    """Some bits, fewer than 64, into one or two words that have zeros there."""
    if bits == 0:
        return
    word, shift = at >> 6, at & 63
    pool[word] |= np.uint64(value) << np.uint64(shift)
    if shift + bits > 64:
        pool[word + 1] |= np.uint64(value) >> np.uint64(64 - shift)


@kernel()
def _read(pool: np.ndarray, at: int, bits: int) -> int:
    """Up to 64 bits, as a word."""
    if bits == 0:
        return np.int64(0)
    word, shift = at >> 6, at & 63
    value = pool[word] >> np.uint64(shift)
    if shift + bits > 64:
        value |= pool[word + 1] << np.uint64(64 - shift)
    if bits < 64:
        value &= _ALL >> np.uint64(64 - bits)
    return np.int64(value)
