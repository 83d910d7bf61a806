"""Entries of a synopsis in chains by the bucket of each side, for batches of few events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.jit.runtime import address
from braid.operators.detect.growable import room, shifted
from braid.operators.detect.kernels import follow as kernel
from braid.operators.detect.spec import Dimension

#: Links are 32 bits: beyond so many events chains are hung anew.
_MOST_LINKS = 2**31 - 1


class BucketChains:
    """The chains of one synopsis, by each of its dimensions. Links are numbers of events, counted
    from `base`; the newest comes first, so what is gone ends a chain by itself."""

    def __init__(self, dimensions: Sequence[Dimension]) -> None:
        self._parts = (kernel.WHOLE,) if len(dimensions) == 1 else (kernel.UPPER, kernel.LOWER)
        self._heads = [np.full(d.buckets, -1, np.int32) for d in dimensions]
        self._following = [np.zeros(0, np.int32) for _ in dimensions]
        self._base = 0

    def hang(self, cells: np.ndarray, low: int, high: int, first: int) -> None:
        """Entries from `low` to `high` have come; `first`: the number of the first that is kept."""
        if first + high - self._base > _MOST_LINKS:
            self.rehang(cells, high, first)
            return
        for side, part in enumerate(self._parts):
            self._following[side] = room(self._following[side], low, high - low)
            shift = self._base - first
            heads, following = self._heads[side], self._following[side]
            kernel.hang_cells(cells, heads, following, low, high, shift, part)

    def rehang(self, cells: np.ndarray, held: int, first: int) -> None:
        self._base = first
        for heads in self._heads:
            heads[:] = -1
        self.hang(cells, 0, held, first)

    def move(self, low: int, high: int) -> None:
        """Only the entries from `low` to `high` are left."""
        self._following = [shifted(array, low, high) for array in self._following]

    def links(self, first: int, flipped: bool) -> tuple[int, ...]:
        """For the kernel: the chains from the side of the start of a path, and of its end."""
        sides = [
            (address(heads), address(following), self._base - first)
            for heads, following in zip(self._heads, self._following, strict=True)
        ]
        if flipped:
            sides.reverse()
        return (*sides[0], *sides[-1])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self._heads, *self._following))
