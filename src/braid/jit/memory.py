"""Memory that grows inside a kernel.

A kernel that replaces an array by a larger one inside a loop makes the compiler count
references in every turn of it, with atomic instructions that cost more than the loop's own work
(measured: two thirds of the time of the pattern loop). So what must grow there is plain memory,
known by its address.
"""

from __future__ import annotations

import ctypes

import numpy as np

from braid.jit import allocations, types
from braid.jit.runtime import COMPILED, kernel

_libc = ctypes.CDLL(None)
_libc.realloc.restype = ctypes.c_void_p
_libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.free.restype = None
_libc.free.argtypes = [ctypes.c_void_p]

if COMPILED:
    _realloc = types.ExternalFunction("realloc", types.int64(types.int64, types.int64))
    _free = types.ExternalFunction("free", types.void(types.int64))
else:

    def _free(base: int) -> None:
        free(base)

    def _realloc(base: int, size: int) -> int:
        # Elsewhere each time: an address from before is then always wrong, as it may be compiled.
        moved = int(_libc.realloc(None, int(size)) or 0)
        if base:
            ctypes.memmove(moved, int(base), min(allocations.size_of(base), int(size)))
            free(base)
        allocations.allocated(moved, size)
        return moved


@kernel()
def resized(base: int, words: int) -> int:
    """The address of memory for so many words that begins with what was at `base` (0: nothing)."""
    moved = _realloc(base, 8 * max(words, 1))
    if moved == 0:
        raise MemoryError("out of memory")
    return moved


@kernel()
def release(base: int) -> None:
    """`free`, from inside a kernel."""
    _free(base)


def free(base: int) -> None:
    """Give memory back; 0 is nothing."""
    if not COMPILED:
        allocations.freed(base)
    _libc.free(int(base) or None)


def address_of(array: np.ndarray) -> int:
    """Where the data of an array of any type are: kernels may use it as long as the array lives.

    `runtime.address` is faster, but is compiled for each type of array.
    """
    if not COMPILED:
        allocations.array_allocated(array)
    return int(array.ctypes.data)


def resized_array(array: np.ndarray, size: int) -> np.ndarray:
    """An array of another size that begins with the same elements; the given one is gone.

    With the compiler off it is always another array: the address of the old one is wrong then.
    """
    if COMPILED:
        array.resize(size, refcheck=False)
        return array
    made = np.zeros(size, array.dtype)
    made[: len(array)] = array[:size]
    return made


def view(base: int, words: int) -> np.ndarray:
    """The memory as an array, which must not outlive it."""
    if words == 0:
        return np.empty(0, np.int64)
    pointer = ctypes.cast(int(base), ctypes.POINTER(ctypes.c_int64))
    return np.ctypeslib.as_array(pointer, (int(words),))


#: Memory of more words is not copied when it becomes an array.
_LARGE = 1 << 12


class _Owner:
    """Memory that lives as long as the arrays over it."""

    def __init__(self, base: int, words: int) -> None:
        self._base = base
        data = {"data": (base, False), "shape": (words,), "typestr": "<i8", "version": 3}
        self.__array_interface__ = data

    def __del__(self) -> None:
        free(self._base)


def taken(base: int, words: int) -> np.ndarray:
    """The memory as an array, which gives it back when nobody has it any more."""
    if words > _LARGE:
        # What a kernel made room for and did not use goes back at once.
        if not COMPILED:
            allocations.freed(base)
        kept = _libc.realloc(int(base), 8 * int(words)) or int(base)
        if not COMPILED:
            allocations.allocated(kept, 8 * int(words))
        return np.asarray(_Owner(kept, int(words)))
    copied = np.empty(int(words), np.int64)
    if words:
        ctypes.memmove(copied.ctypes.data, int(base), 8 * int(words))
    free(base)
    return copied
