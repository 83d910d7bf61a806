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

from braid.jit import types
from braid.jit.memory import release, resized
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import COMPILED, kernel, load_int, load_narrow, store_int
from braid.jit.types import intrinsic

#: Nodes are words of 32 bits.
load_half = load_narrow

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


#: The words of cells and pools, for those that know them by their addresses.
WEIGHT, KIND, SET, NEXT = map(Cell.word, Cell.fields)
HELD, USED, POOL = Pool.word("held"), Pool.word("used"), Pool.stride // 8

OF_BITS = 6
_OF_CELL = 2
_SET_OFFSET = 8 * SET
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
def take_block(pool: int, class_: int, words: int) -> int:
    """A block; `words` is how long bits are."""
    size = words if class_ == OF_BITS else np.int64(1) << np.int64(class_)
    Pool(pool).used += size
    free = Pool(pool).free[class_]
    if free != 0:
        Pool(pool).free[class_] = load_int(free, 0)
        return free
    if Pool(pool).left < size:
        room = max(_LEAST_CHUNK, Pool(pool).held // 4, size) + 1
        chunk = resized(0, room)
        store_int(chunk, 0, Pool(pool).chunk.address)
        Pool(pool).chunk = Words(chunk)
        Pool(pool).next_word = Words(chunk + 8)
        Pool(pool).left = room - 1
        Pool(pool).held += room
    block = Pool(pool).next_word.address
    Pool(pool).next_word = Words(block + 8 * size)
    Pool(pool).left -= size
    return block


@kernel()
def give_block(pool: int, block: int, class_: int, words: int) -> None:
    size = words if class_ == OF_BITS else np.int64(1) << np.int64(class_)
    Pool(pool).used -= size
    store_int(block, 0, Pool(pool).free[class_])
    Pool(pool).free[class_] = block


@kernel()
def empty_pool(pool: int) -> None:
    """Give all chunks back."""
    chunk = Pool(pool).chunk.address
    while chunk != 0:
        before = load_int(chunk, 0)
        release(chunk)
        chunk = before
    for word in range(POOL):
        store_int(pool, word, 0)


# ---- sets anywhere ----


@kernel()
def clear_bits(at: int, words: int) -> None:
    for word in range(words):
        store_int(at, word, 0)


@kernel()
def set_bit(at: int, node: int) -> None:
    store_int(at, node >> 6, load_int(at, node >> 6) | (np.int64(1) << np.int64(node & 63)))


@kernel()
def has_bit(at: int, node: int) -> bool:
    return ((load_int(at, node >> 6) >> np.int64(node & 63)) & 1) != 0


@kernel()
def sort_list(at: int, count: int) -> None:
    """Put a short list in order."""
    for k in range(1, count):
        node = load_int(at, k)
        j = k - 1
        while j >= 0 and load_int(at, j) > node:
            store_int(at, j + 1, load_int(at, j))
            j -= 1
        store_int(at, j + 1, node)


@kernel()
def meet(kind: int, at: int, other_kind: int, other: int, out: int, words: int) -> int:
    """The nodes that are in both sets, neither of which is ALL, written to `out`: the kind of it,
    0 if there is none."""
    if kind == BITS and other_kind == BITS:
        some = np.int64(0)
        for word in range(words):
            both = load_int(at, word) & load_int(other, word)
            store_int(out, word, both)
            some |= both
        return np.int64(BITS) if some != 0 else np.int64(0)
    count = np.int64(0)
    if kind == BITS:
        for k in range(other_kind):
            node = load_int(other, k)
            if has_bit(at, node):
                store_int(out, count, node)
                count += 1
        return count
    if other_kind == BITS:
        for k in range(kind):
            node = load_int(at, k)
            if has_bit(other, node):
                store_int(out, count, node)
                count += 1
        return count
    a, b = np.int64(0), np.int64(0)
    while a < kind and b < other_kind:
        x, y = load_int(at, a), load_int(other, b)
        if x == y:
            store_int(out, count, x)
            count += 1
        if x <= y:
            a += 1
        if y <= x:
            b += 1
    return count


@kernel()
def take_out(kind: int, at: int, other_kind: int, other: int, words: int) -> int:
    """Remove from a set some of its nodes, found by `meet`: what kind it is then, 0 if empty."""
    if kind == ALL:
        return np.int64(0)
    if kind == BITS:
        if other_kind == BITS:
            for word in range(words):
                store_int(at, word, load_int(at, word) & ~load_int(other, word))
        else:
            for k in range(other_kind):
                node = load_int(other, k)
                bit = np.int64(1) << np.int64(node & 63)
                store_int(at, node >> 6, load_int(at, node >> 6) & ~bit)
        for word in range(words):
            if load_int(at, word) != 0:
                return np.int64(BITS)
        return np.int64(0)
    kept, b = np.int64(0), np.int64(0)
    for a in range(kind):
        node = load_int(at, a)
        if b < other_kind and load_int(other, b) == node:
            b += 1
        else:
            store_int(at, kept, node)
            kept += 1
    return kept


# ---- cells ----


@kernel()
def set_of(cell: int, words: int) -> int:
    """Where the set of a cell is."""
    return cell + _SET_OFFSET if words == 1 else Cell(cell).set.address


@kernel()
def new_cell(pool: int, words: int) -> int:
    cell = take_block(pool, _OF_CELL, words)
    Cell(cell).kind = 0
    Cell(cell).next = Cell(0)
    return cell


@kernel()
def give_cell(pool: int, cell: int, words: int) -> None:
    give_block(pool, cell, _OF_CELL, words)


@kernel()
def give_set(pool: int, cell: int, kind: int, words: int) -> None:
    """Free the block of a cell's set, which was of this kind; the cell is empty then."""
    if words > 1 and kind != ALL and kind != 0:
        class_ = OF_BITS if kind == BITS else _class_of(kind)
        give_block(pool, Cell(cell).set.address, class_, words)
    Cell(cell).kind = 0


@kernel()
def shrink_cell(pool: int, cell: int, other_kind: int, other: int, words: int) -> None:
    """Take nodes of a cell out of it."""
    kind = Cell(cell).kind
    left = take_out(kind, set_of(cell, words), other_kind, other, words)
    if left == 0:
        give_set(pool, cell, kind, words)
        return
    if left > 0 and words > 1 and _class_of(left) != _class_of(kind):
        old = Cell(cell).set.address
        new = take_block(pool, _class_of(left), words)
        for k in range(left):
            store_int(new, k, load_int(old, k))
        give_block(pool, old, _class_of(kind), words)
        Cell(cell).set = Words(new)
    Cell(cell).kind = left


@kernel()
def _as_bits(pool: int, cell: int, words: int) -> int:
    """Let the set of a cell be bits, which may have none set; where they are."""
    kind = Cell(cell).kind
    if kind == BITS:
        return set_of(cell, words)
    Cell(cell).kind = BITS
    if words == 1:
        Cell(cell).set = Words(0)
        return cell + _SET_OFFSET
    bits = take_block(pool, OF_BITS, words)
    clear_bits(bits, words)
    if kind > 0:
        old = Cell(cell).set.address
        for k in range(kind):
            set_bit(bits, load_int(old, k))
        give_block(pool, old, _class_of(kind), words)
    Cell(cell).set = Words(bits)
    return bits


@kernel()
def extend_cell(pool: int, cell: int, other_kind: int, other: int, words: int, most: int) -> None:
    """Put more nodes into a cell, which has none of them; lists are no longer than `most`."""
    kind = Cell(cell).kind
    if other_kind == ALL:
        Cell(cell).kind = ALL
        return
    if other_kind == BITS:
        bits = _as_bits(pool, cell, words)
        for word in range(words):
            store_int(bits, word, load_int(bits, word) | load_int(other, word))
        return
    if kind == BITS or kind + other_kind > most:
        bits = _as_bits(pool, cell, words)
        for k in range(other_kind):
            set_bit(bits, load_int(other, k))
        return
    count = kind + other_kind
    new = take_block(pool, _class_of(count), words)
    a, b = np.int64(0), np.int64(0)
    old = Cell(cell).set.address
    for k in range(count):
        if a < kind and (b == other_kind or load_int(old, a) < load_int(other, b)):
            store_int(new, k, load_int(old, a))
            a += 1
        else:
            store_int(new, k, load_int(other, b))
            b += 1
    if kind > 0:
        give_block(pool, old, _class_of(kind), words)
    Cell(cell).kind = count
    Cell(cell).set = Words(new)


@kernel()
def give_cells(pool: int, first: int, words: int) -> None:
    """Free all sets and cells of a row but the first cell, which lies in the row."""
    cell = first
    while cell != 0:
        following = Cell(cell).next.address
        give_set(pool, cell, Cell(cell).kind, words)
        if cell != first:
            give_cell(pool, cell, words)
        cell = following
    Cell(first).next = Cell(0)


@kernel()
def tidy_cells(pool: int, first: int, words: int) -> bool:
    """Drop the empty cells of a row; whether any is left."""
    before, cell = first, Cell(first).next.address
    while cell != 0:
        following = Cell(cell).next.address
        if Cell(cell).kind == 0:
            Cell(before).next = Cell(following)
            give_cell(pool, cell, words)
        else:
            before = cell
        cell = following
    if Cell(first).kind != 0:
        return True
    second = Cell(first).next.address
    if second == 0:
        return False
    for word in range(4):
        store_int(first, word, load_int(second, word))
    give_cell(pool, second, words)
    return True
