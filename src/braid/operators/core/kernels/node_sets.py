"""Sets of output nodes of a join: the members of rows, and of combinations of rows.

A set is two words, its kind and where it lies: a sorted list of that many nodes, or BITS, or ALL
(the input has no members: what comes is everybody's). Bits have as many words as the join has
nodes, divided by 64; a list is never longer than that, nor than MOST. With up to 64 nodes a set is
one word and lies in its cell.

A *cell* says which nodes hold a row how often: weight, kind, place of the set, next cell of the
same row. Nodes of a row with the same weight share a cell, so that a combination of cells is one
output row. Cells and sets lie in blocks of a pool, which never move.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from braid.jit.memory import release, resized
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import COMPILED, kernel

BITS, ALL = -1, -2

#: Nodes in a list.
MOST = 32


@record
class Cell(Record):
    """The output nodes that hold a row with one weight."""

    weight: i64
    #: The length of a list of nodes, BITS, or ALL.
    kind: i64
    #: The nodes; if a set has one word, the set itself (see `set_of`).
    set: Words
    #: The next cell of the same row.
    next: Cell


@record
class Pool(Record):
    """The blocks that cells and sets lie in."""

    #: The first free block of 1, 2, 4, ..., 32 words and of bits.
    free: Annotated[Words, 7]
    #: The chunk that was added last, where it goes on, and the words that are left in it.
    chunk: Words
    next_word: Words
    left: i64
    #: Words in all, and words in blocks that are in use.
    held: i64
    used: i64


OF_BITS = 6
_OF_CELL = 2
_SET_WORD = Cell.word("set")
_LEAST_CHUNK = 1024


@intrinsic
def _trailing_zeros(_context: Any, _word: Any) -> Any:
    def generate(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


if COMPILED:
    lowest = _trailing_zeros
else:

    def lowest(word: int) -> int:
        """The number of the lowest bit that is set."""
        return (int(word) & -int(word)).bit_length() - 1


@kernel()
def without_lowest(word: int) -> int:
    """A word without its lowest bit."""
    least = -9223372036854775808
    return np.int64(0) if word == least else word & (word - 1)


@kernel()
def _class_of(count: int) -> int:
    """Which blocks have room for a list of so many nodes."""
    class_ = 0
    while (1 << class_) < count:
        class_ += 1
    return class_


@kernel()
def take_block(pool: Pool, class_: int, words: int) -> Words:
    """A block; `words` is how long bits are."""
    size = words if class_ == OF_BITS else np.int64(1) << np.int64(class_)
    pool.used += size
    block = Words(pool.free[class_])
    if block.address != 0:
        pool.free[class_] = block[0]
        return block
    if pool.left < size:
        room = max(_LEAST_CHUNK, pool.held // 4, size) + 1
        chunk = Words(resized(0, room))
        chunk[0] = pool.chunk.address
        pool.chunk = chunk
        pool.next_word = chunk.after(1)
        pool.left = room - 1
        pool.held += room
    block = pool.next_word
    pool.next_word = block.after(size)
    pool.left -= size
    return block


@kernel()
def give_block(pool: Pool, block: Words, class_: int, words: int) -> None:
    size = words if class_ == OF_BITS else np.int64(1) << np.int64(class_)
    pool.used -= size
    block[0] = pool.free[class_]
    pool.free[class_] = block.address


@kernel()
def empty_pool(pool: Pool) -> None:
    """Give all chunks back."""
    chunk = pool.chunk
    while chunk.address != 0:
        before = Words(chunk[0])
        release(chunk)
        chunk = before
    pool.chunk, pool.next_word = Words(0), Words(0)
    pool.left, pool.held, pool.used = 0, 0, 0
    for class_ in range(OF_BITS + 1):
        pool.free[class_] = 0


# ---- sets anywhere ----


@kernel()
def clear_bits(at: Words, words: int) -> None:
    for word in range(words):
        at[word] = 0


@kernel()
def set_bit(at: Words, node: int) -> None:
    at[node >> 6] |= np.int64(1) << np.int64(node & 63)


@kernel()
def has_bit(at: Words, node: int) -> bool:
    return ((at[node >> 6] >> np.int64(node & 63)) & 1) != 0


@kernel()
def sort_list(at: Words, count: int) -> None:
    """Put a short list in order."""
    for k in range(1, count):
        node = at[k]
        j = k - 1
        while j >= 0 and at[j] > node:
            at[j + 1] = at[j]
            j -= 1
        at[j + 1] = node


@kernel()
def meet(kind: int, at: Words, other_kind: int, other: Words, out: Words, words: int) -> int:
    """The nodes that are in both sets, neither of which is ALL, written to `out`: the kind of it,
    0 if there is none."""
    if kind == BITS and other_kind == BITS:
        some = np.int64(0)
        for word in range(words):
            both = at[word] & other[word]
            out[word] = both
            some |= both
        return np.int64(BITS) if some != 0 else np.int64(0)
    count = np.int64(0)
    if kind == BITS:
        for k in range(other_kind):
            node = other[k]
            if has_bit(at, node):
                out[count] = node
                count += 1
        return count
    if other_kind == BITS:
        for k in range(kind):
            node = at[k]
            if has_bit(other, node):
                out[count] = node
                count += 1
        return count
    a, b = np.int64(0), np.int64(0)
    while a < kind and b < other_kind:
        x, y = at[a], other[b]
        if x == y:
            out[count] = x
            count += 1
        if x <= y:
            a += 1
        if y <= x:
            b += 1
    return count


@kernel()
def take_out(kind: int, at: Words, other_kind: int, other: Words, words: int) -> int:
    """Remove from a set some of its nodes, found by `meet`: what kind it is then, 0 if empty."""
    if kind == ALL:
        return np.int64(0)
    if kind == BITS:
        if other_kind == BITS:
            for word in range(words):
                at[word] &= ~other[word]
        else:
            for k in range(other_kind):
                node = other[k]
                bit = np.int64(1) << np.int64(node & 63)
                at[node >> 6] &= ~bit
        for word in range(words):
            if at[word] != 0:
                return np.int64(BITS)
        return np.int64(0)
    kept, b = np.int64(0), np.int64(0)
    for a in range(kind):
        node = at[a]
        if b < other_kind and other[b] == node:
            b += 1
        else:
            at[kept] = node
            kept += 1
    return kept


# ---- cells ----


@kernel()
def set_of(cell: Cell, words: int) -> Words:
    """Where the set of a cell is."""
    return Words(cell).after(_SET_WORD) if words == 1 else cell.set


@kernel()
def new_cell(pool: Pool, words: int) -> Cell:
    cell = Cell(take_block(pool, _OF_CELL, words).address)
    cell.kind = 0
    cell.next = Cell(0)
    return cell


@kernel()
def give_cell(pool: Pool, cell: Cell, words: int) -> None:
    give_block(pool, Words(cell), _OF_CELL, words)


@kernel()
def give_set(pool: Pool, cell: Cell, kind: int, words: int) -> None:
    """Free the block of a cell's set, which was of this kind; the cell is empty then."""
    if words > 1 and kind != ALL and kind != 0:
        class_ = OF_BITS if kind == BITS else _class_of(kind)
        give_block(pool, cell.set, class_, words)
    cell.kind = 0


@kernel()
def shrink_cell(pool: Pool, cell: Cell, other_kind: int, other: Words, words: int) -> None:
    """Take nodes of a cell out of it."""
    kind = cell.kind
    left = take_out(kind, set_of(cell, words), other_kind, other, words)
    if left == 0:
        give_set(pool, cell, kind, words)
        return
    if left > 0 and words > 1 and _class_of(left) != _class_of(kind):
        old = cell.set
        new = take_block(pool, _class_of(left), words)
        for k in range(left):
            new[k] = old[k]
        give_block(pool, old, _class_of(kind), words)
        cell.set = new
    cell.kind = left


@kernel()
def _as_bits(pool: Pool, cell: Cell, words: int) -> Words:
    """Let the set of a cell be bits, which may have none set; where they are."""
    kind = cell.kind
    if kind == BITS:
        return set_of(cell, words)
    cell.kind = BITS
    if words == 1:
        cell.set = Words(0)
        return Words(cell).after(_SET_WORD)
    bits = take_block(pool, OF_BITS, words)
    clear_bits(bits, words)
    if kind > 0:
        old = cell.set
        for k in range(kind):
            set_bit(bits, old[k])
        give_block(pool, old, _class_of(kind), words)
    cell.set = bits
    return bits


@kernel()
def extend_cell(
    pool: Pool, cell: Cell, other_kind: int, other: Words, words: int, most: int
) -> None:
    """Put more nodes into a cell, which has none of them; lists are no longer than `most`."""
    kind = cell.kind
    if other_kind == ALL:
        cell.kind = ALL
        return
    if other_kind == BITS:
        bits = _as_bits(pool, cell, words)
        for word in range(words):
            bits[word] |= other[word]
        return
    if kind == BITS or kind + other_kind > most:
        bits = _as_bits(pool, cell, words)
        for k in range(other_kind):
            set_bit(bits, other[k])
        return
    count = kind + other_kind
    new = take_block(pool, _class_of(count), words)
    a, b = np.int64(0), np.int64(0)
    old = cell.set
    for k in range(count):
        if a < kind and (b == other_kind or old[a] < other[b]):
            new[k] = old[a]
            a += 1
        else:
            new[k] = other[b]
            b += 1
    if kind > 0:
        give_block(pool, old, _class_of(kind), words)
    cell.kind = count
    cell.set = new


@kernel()
def give_cells(pool: Pool, first: Cell, words: int) -> None:
    """Free all sets and cells of a row but the first cell, which lies in the row."""
    cell = first
    while cell.address != 0:
        following = cell.next
        give_set(pool, cell, cell.kind, words)
        if cell != first:
            give_cell(pool, cell, words)
        cell = following
    first.next = Cell(0)


@kernel()
def tidy_cells(pool: Pool, first: Cell, words: int) -> bool:
    """Drop the empty cells of a row; whether any is left."""
    before, cell = first, first.next
    while cell.address != 0:
        following = cell.next
        if cell.kind == 0:
            before.next = following
            give_cell(pool, cell, words)
        else:
            before = cell
        cell = following
    if first.kind != 0:
        return True
    second = first.next
    if second.address == 0:
        return False
    first.weight, first.kind, first.set = second.weight, second.kind, second.set
    first.next = second.next
    give_cell(pool, second, words)
    return True
