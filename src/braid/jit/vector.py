"""A vector of words that grows inside a kernel."""

from __future__ import annotations

import numpy as np

from braid.jit.memory import free, release, resized, taken
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import kernel


@record
class Vector(Record):
    """The first `count` of the `room` words at `items`. A vector of zeros is empty."""

    items: Words
    room: i64
    count: i64


@kernel()
def push(vector: Vector, word: int) -> None:
    """Append a word."""
    count = vector.count
    if count == vector.room:
        vector.room = max(16, 2 * count)
        vector.items = Words(resized(vector.items, vector.room))
    vector.items[count] = word
    vector.count = count + 1


@kernel()
def free_vector(vector: Vector) -> None:
    """Give the memory of a vector back; it is empty then."""
    release(vector.items)
    vector.items, vector.room, vector.count = Words(0), 0, 0


@kernel()
def reserve(vector: Vector, more: int, least: int) -> None:
    """Have room for so many more words; at first, for at least so many."""
    needed = vector.count + more
    if needed > vector.room:
        vector.room = max(least, 2 * needed)
        vector.items = Words(resized(vector.items, vector.room))


# ---- from Python ----


def _forget(vector: Vector) -> None:
    vector.items, vector.room, vector.count = Words(0), 0, 0


def clear_vector(vector: Vector) -> None:
    """Give the memory of a vector back; it is empty then."""
    free(vector.items.address)
    _forget(vector)


def take_words(vector: Vector) -> np.ndarray:
    """The words of a vector, as an array that owns them; the vector is empty then."""
    words = taken(vector.items.address, vector.count)
    _forget(vector)
    return words
