"""Keys of rows, and the plainest way to find the clauses that hold: all of them in turn."""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.records import Words
from braid.jit.rows import is_null
from braid.jit.runtime import address, float_bits, kernel
from braid.operators.core.kernels.clauses import NULL_KEY, Clauses, atom_holds, float_key, int_key
from braid.plan.layout import END, START

#: How a key is made: from the word, from a float's bits, from an integer as a float, or from
#: the duration of the row.
WORD, FLOAT, NUMBER_AS_FLOAT, DURATION = range(4)


@kernel()
def key_of(row: Words, column: int, base: int, mode: int) -> int:
    """The key of a column of a row."""
    if mode == DURATION:
        return row[END] - row[START]
    if is_null(row, column):
        return NULL_KEY
    word = row[base + column]
    if mode == FLOAT:
        return float_key(word)
    if mode == NUMBER_AS_FLOAT:
        return float_key(float_bits(np.float64(word)))
    return int_key(word)


@kernel()
def keys_of(rows: np.ndarray, columns: np.ndarray, modes: np.ndarray, base: int) -> np.ndarray:
    """The keys of the chosen columns of all rows."""
    n, width = rows.shape[0], columns.shape[0]
    keys = np.empty((n, width), np.int64)
    masked = False
    for k in range(width):
        column, mode = columns[k], modes[k]
        if mode == DURATION:
            for r in range(n):
                keys[r, k] = rows[r, 1] - rows[r, 0]
        elif mode == WORD:
            for r in range(n):
                keys[r, k] = int_key(rows[r, base + column])
        elif mode == FLOAT:
            for r in range(n):
                keys[r, k] = float_key(rows[r, base + column])
        else:
            for r in range(n):
                keys[r, k] = float_key(float_bits(np.float64(rows[r, base + column])))
    for r in range(n):
        for m in range(2, base):
            masked |= rows[r, m] != 0
    if masked:
        for k in range(width):
            if modes[k] != DURATION:
                word, bit = 2 + (columns[k] >> 6), columns[k] & 63
                for r in range(n):
                    if (rows[r, word] >> bit) & 1:
                        keys[r, k] = NULL_KEY
    return keys


@kernel()
def match_in_turn(keys: np.ndarray, clauses: Clauses) -> tuple[int, int, int]:
    """Every clause against every row: where the pairs of rows and clauses are, how many."""
    sets = Words(address(clauses.sets))
    capacity = np.int64(1024)
    found_rows, found_clauses = Words(resized(0, capacity)), Words(resized(0, capacity))
    count = np.int64(0)
    for r in range(keys.shape[0]):
        for c in range(clauses.start.shape[0] - 1):
            holds = True
            for a in range(clauses.start[c], clauses.start[c + 1]):
                key = keys[r, clauses.column[a]]
                if not atom_holds(clauses.kind[a], key, clauses.lo[a], clauses.hi[a], sets):
                    holds = False
                    break
            if holds:
                if count == capacity:
                    capacity *= 2
                    found_rows = Words(resized(found_rows, capacity))
                    found_clauses = Words(resized(found_clauses, capacity))
                found_rows[count] = r
                found_clauses[count] = c
                count += 1
    return found_rows.address, found_clauses.address, count
