"""Which memory there is, known only while the compiler is off: an address sanitizer for kernels.

Compiled kernels read and write plain memory by address, and nothing checks them. With the compiler
off the same kernels run as Python, and every access asks here whether it lies inside one live
allocation: an array whose address was taken, a buffer of Arrow, or memory of `memory.py`. So the
interpreted lane of the tests finds reads after the end, writes into memory that was given back, and
addresses that were never right.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from typing import Any

import numpy as np


class BadAccess(AssertionError):
    """A kernel has read or written outside of every allocation."""


#: Where allocations begin, in order, and for each where it ends and how often it is registered.
_begins: list[int] = []
_extents: dict[int, list[int]] = {}


def allocated(begin: int, size: int) -> None:
    """Memory that a kernel may read and write from now on."""
    begin, end = int(begin), int(begin) + int(size)
    known = _extents.get(begin)
    if known is None:
        _begins.insert(bisect_right(_begins, begin), begin)
        _extents[begin] = [end, 1]
    else:
        known[0], known[1] = max(known[0], end), known[1] + 1


def belongs_to_others(begin: int, size: int) -> None:
    """Memory of somebody who does not say when it goes, such as a buffer of Arrow."""
    begin = int(begin)
    if begin in _extents:
        _extents[begin][0] = max(_extents[begin][0], begin + int(size))
    else:
        allocated(begin, size)


def freed(begin: int) -> None:
    """Memory that is there no more; 0 is no memory."""
    begin = int(begin)
    known = _extents.get(begin)
    if known is None:
        return
    known[1] -= 1
    if not known[1]:
        del _extents[begin]
        del _begins[bisect_right(_begins, begin) - 1]


def size_of(begin: int) -> int:
    """How large an allocation is."""
    return _extents[int(begin)][0] - int(begin)


def check(address: int, size: int) -> None:
    """Raise `BadAccess` unless so many bytes at an address are inside one live allocation.

    Allocations may lie inside each other (a view of an array whose owner is unknown): whichever
    has room for the access allows it.
    """
    place = bisect_right(_begins, address) - 1
    end = address + size
    for at in range(place, max(place - _NESTED, -1), -1):
        if _extents[_begins[at]][0] >= end:
            return
    raise BadAccess(f"{size} bytes at {address:#x}: {_near(address, place)}")


#: How many allocations that begin before an address are looked at.
_NESTED = 64


def _near(address: int, place: int) -> str:
    if place < 0:
        return "there is no allocation before it"
    begin = _begins[place]
    size = _extents[begin][0] - begin
    return f"byte {address - begin} of an allocation of {size}, or of none"


def array_allocated(array: np.ndarray[Any, Any]) -> None:
    """The memory of an array, for as long as whatever owns it lives."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and isinstance(owner.base, np.ndarray):
        owner = owner.base
    key = id(owner)
    if key in _owners:
        return
    begin, end = np.lib.array_utils.byte_bounds(owner)
    allocated(begin, end - begin)
    _owners[key] = weakref.finalize(owner, _forget, key, begin)


_owners: dict[int, Any] = {}


def _forget(key: int, begin: int) -> None:
    del _owners[key]
    freed(begin)
