"""Numbers for things that are known by 128 bits of content: equal content, equal number.

The content of a node is whatever tells its queries apart (tests, constants, the node that it
continues), mixed into two words. The same content has the same words in every process, so saved
state finds its nodes again whatever their numbers are.
"""

from __future__ import annotations

import numpy as np

from braid.jit.hashing import mix
from braid.jit.runtime import kernel

#: A node with this bit is a set of nodes that an event belongs to all at once.
SET = np.int64(0x40000000)

_EMPTY = np.int64(-1)


@kernel()
def mix_column(signatures: np.ndarray, words: np.ndarray) -> None:
    """Mix one more word into the signature of each row; a single word is for all rows."""
    step = 1 if words.shape[0] > 1 else 0
    for r in range(signatures.shape[0]):
        word = words[r * step]
        signatures[r, 0] = mix(signatures[r, 0] + word + np.int64(0x2545F4914F6CDD1D))
        signatures[r, 1] = mix((signatures[r, 1] ^ word) - np.int64(0x61C8864680B583EB))


@kernel()
def _place(table: np.ndarray, known: np.ndarray, a: int, b: int) -> int:
    """The slot of a signature in an open hash table of node numbers, or the empty slot for it."""
    mask = table.shape[0] - 1
    at = mix(a ^ b) & mask
    while table[at] != _EMPTY:
        number = table[at]
        if known[number, 0] == a and known[number, 1] == b:
            return at
        at = (at + 1) & mask
    return at


@kernel()
def find_nodes(table: np.ndarray, known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The number of each signature, or -1."""
    found = np.empty(wanted.shape[0], np.int64)
    for r in range(wanted.shape[0]):
        found[r] = table[_place(table, known, wanted[r, 0], wanted[r, 1])]
    return found


@kernel()
def add_nodes(
    table: np.ndarray,
    known: np.ndarray,
    uses: np.ndarray,
    free: np.ndarray,
    counts: np.ndarray,
    wanted: np.ndarray,
    fresh: np.ndarray,
) -> np.ndarray:
    """The number of each signature, new ones given the next free number.

    `counts`: how many numbers were ever given, how many of `free` can be reused. There is room
    for all. New numbers have no use before this call counts one for each row. `fresh` gets which
    rows brought them.
    """
    found = np.empty(wanted.shape[0], np.int64)
    for r in range(wanted.shape[0]):
        at = _place(table, known, wanted[r, 0], wanted[r, 1])
        number = table[at]
        fresh[r] = number == _EMPTY
        if number == _EMPTY:
            if counts[1] > 0:
                counts[1] -= 1
                number = free[counts[1]]
            else:
                number = counts[0]
                counts[0] += 1
            known[number, 0] = wanted[r, 0]
            known[number, 1] = wanted[r, 1]
            uses[number] = 0
            table[at] = number
        uses[number] += 1
        found[r] = number
    return found


@kernel()
def remove_node(table: np.ndarray, known: np.ndarray, number: int) -> None:
    """Take a node out of the table, and close the gap in its run."""
    mask = table.shape[0] - 1
    gap = _place(table, known, known[number, 0], known[number, 1])
    if table[gap] == _EMPTY:
        return
    table[gap] = _EMPTY
    at = (gap + 1) & mask
    while table[at] != _EMPTY:
        other = table[at]
        home = mix(known[other, 0] ^ known[other, 1]) & mask
        if ((at - home) & mask) >= ((at - gap) & mask):
            table[gap] = other
            table[at] = _EMPTY
            gap = at
        at = (at + 1) & mask


@kernel()
def fill_nodes(table: np.ndarray, known: np.ndarray, numbers: np.ndarray) -> None:
    """Put nodes into a table that has none of them."""
    for k in range(numbers.shape[0]):
        number = numbers[k]
        table[_place(table, known, known[number, 0], known[number, 1])] = number
