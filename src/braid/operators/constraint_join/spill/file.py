"""Words that are out of memory: in a temporary file of the process, which goes with it."""

from __future__ import annotations

import mmap
import tempfile
from bisect import insort
from io import BufferedRandom

import numpy as np

from braid.operators.core.values import Words

#: Where something is in the file, and how many bytes it has.
Place = tuple[int, int]


class SpillFile:
    """A file in which room is given back and used again."""

    def __init__(self) -> None:
        self._file: BufferedRandom | None = None
        self._places: list[Place] = []

    def write(self, *arrays: np.ndarray) -> Place:
        """Write arrays one after the other where there is room."""
        if self._file is None:
            made = tempfile.TemporaryFile(prefix="braid-")  # noqa: SIM115 -- it is kept
            assert isinstance(made, BufferedRandom)
            self._file = made
        size = sum(array.nbytes for array in arrays)
        place = (self._room(size + -size % mmap.ALLOCATIONGRANULARITY), size)
        self._file.seek(place[0])
        for array in arrays:
            self._file.write(np.ascontiguousarray(array).data)
        insort(self._places, place)
        return place

    def _room(self, size: int) -> int:
        end = 0
        for offset, taken in self._places:
            if offset - end >= size:
                break
            end = offset + taken + -taken % mmap.ALLOCATIONGRANULARITY
        return end

    def read(self, place: Place, first: int, words: int) -> Words:
        """Some words of what was written at a place."""
        assert self._file is not None
        self._file.seek(place[0] + 8 * first)
        found = np.empty(words, np.int64)
        self._file.readinto(found.data.cast("B"))
        return found

    def view(self, place: Place) -> Words:
        """What was written at a place, read where it is: memory of the file, not of the process.
        It must not be used once the place is free."""
        assert self._file is not None
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), place[1], access=mmap.ACCESS_READ, offset=place[0])
        return np.frombuffer(mapped, np.int64)

    def free(self, place: Place) -> None:
        self._places.remove(place)

    @property
    def nbytes(self) -> int:
        """Of what is in the file."""
        return sum(size for _, size in self._places)
