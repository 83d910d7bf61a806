"""What a join with windows inside puts out: what comes, and for whom.

Where only what comes is asked (Istream), what goes matters only if an equal row comes for the
same node at the same instant. So nothing goes unasked: when a combination comes, it is looked
whether an older event, equal in the columns that are compared, leaves at this instant the window
of a node that it comes for. Only for such *suspects*, which are rare, all that goes at the instant
is put out as well.

Combinations of one event that look alike and are for the same nodes are one row with a weight:
where few columns are shown, most are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from braid.jit.memory import resized
from braid.jit.runtime import COMPILED, kernel, load_int, store_int
from braid.operators.core.kernels.instances import SET
from braid.operators.core.kernels.node_sets import ALL, BITS, has_bit, lowest, set_bit
from braid.operators.join.kernels.frame import (
    BOUND_AT,
    EMITTED,
    EVERYONE_AT,
    INPUTS,
    LATE,
    OUT_AT,
    OUT_BASE,
    OUT_ROOM,
    OUT_ROWS,
    PAIRS,
    PAIRS_AT,
    PAIRS_ROOM,
    SETS_AT,
    STAMP,
    WORDS_OF_SET,
    compose,
    wants,
)
from braid.operators.join.kernels.rings import (
    HASH,
    LINK,
    OLDER,
    OLDEST,
    event_at,
    index_of,
    link_at,
    ring_of,
)
from braid.operators.join.kernels.store import (
    FIRST_INDEX,
    HEADS_AT,
    LINKS_AT,
    MASK,
    ROWS_AT,
    STRIDE,
)
from braid.operators.join.kernels.window_covers import (
    BITS_AT,
    BITS_ROOM,
    BITS_ROWS,
    COMPLETE,
    COVER_WORDS,
    COVERS_AT,
    DRIVER,
    DRIVER_HASH,
    GOING,
    LAST_PAIRS,
    LONGEST,
    NETTED,
    NOW,
    ORDER_AT,
    SIZED,
    SIZES_AT,
    SUSPECTED,
    SUSPECTS_AT,
    first_of,
)

#: Equal events that are looked at one by one; if there are more, all nodes are suspects.
_FEW_EQUALS = 32
#: Nodes that are put out one by one.
_FEW_NODES = 4

#: The member of a pair.
_MEMBER = np.int64(0xFFFFFFFF)


@intrinsic
def _population(_context: Any, _word: Any) -> Any:
    def generate(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.int64), generate


if COMPILED:
    population = _population
else:

    def population(word: int) -> int:
        """How many bits are set."""
        return (int(word) & 0xFFFFFFFFFFFFFFFF).bit_count()


# ---- what goes at the instant at which something comes ----


@kernel()
def is_in(kind: int, at: int, node: int) -> bool:
    if kind == BITS:
        return has_bit(at, node)
    for k in range(kind):
        if load_int(at, k) == node:
            return True
    return False


@kernel()
def _suspect_all(frame: int, kind: int, at: int) -> None:
    suspects = load_int(frame, SUSPECTS_AT)
    store_int(frame, SUSPECTED, 1)
    if kind != BITS:
        for k in range(kind):
            set_bit(suspects, load_int(at, k))
        return
    for word in range(load_int(frame, WORDS_OF_SET)):
        store_int(suspects, word, load_int(suspects, word) | load_int(at, word))


@kernel()
def _suspect_leaving(frame: int, cover: int, age: int, kind: int, at: int) -> None:
    """Suspect the nodes of a set whose window an event leaves that was of this age before."""
    place, count = first_of(cover, age), load_int(cover, SIZED)
    sizes, order = load_int(cover, SIZES_AT), load_int(cover, ORDER_AT)
    while place < count and load_int(sizes, place) == age:
        node = load_int(order, place)
        if is_in(kind, at, node):
            set_bit(load_int(frame, SUSPECTS_AT), node)
            store_int(frame, SUSPECTED, 1)
        place += 1


@kernel()
def _suspect(frame: int, kind: int, at: int) -> None:
    """Look whether what is bound, which comes for a set, may be equal to something that goes.

    An event whose window is over for a node is older than the one that is equal to it and whose
    window is not: chains have the newest first, so it comes later in them.
    """
    now, driver = load_int(frame, NOW), load_int(frame, DRIVER)
    for i in range(load_int(frame, INPUTS)):
        cover = load_int(frame, COVERS_AT) + i * (8 * COVER_WORDS)
        if load_int(cover, NETTED) == 0:
            _suspect_all(frame, kind, at)
            return
        ring = ring_of(frame, i)
        index = index_of(frame, load_int(ring, FIRST_INDEX))
        if i == driver:
            hash_ = load_int(frame, DRIVER_HASH)
            number = load_int(load_int(index, HEADS_AT), hash_ & load_int(index, MASK))
        else:
            row = load_int(load_int(frame, BOUND_AT), i)
            slot = (row - load_int(ring, ROWS_AT)) // load_int(ring, STRIDE)
            link = load_int(index, LINKS_AT) + slot * (8 * LINK)
            hash_, number = load_int(link, HASH), load_int(link, OLDER)
        oldest, equals = load_int(ring, OLDEST), 0
        while number >= oldest:
            link = link_at(ring, index, number)
            if load_int(link, HASH) == hash_:
                age = now - 1 - load_int(event_at(ring, number), 1)
                if age > load_int(cover, LONGEST) or equals == _FEW_EQUALS:
                    break
                _suspect_leaving(frame, cover, age, kind, at)
                equals += 1
            number = load_int(link, OLDER)
        if equals == _FEW_EQUALS:
            _suspect_all(frame, kind, at)
            return


# ---- output ----


@kernel()
def _wanted(frame: int, kind: int, at: int, out: int, late: Any) -> int:
    """The nodes of a set whose constants let a combination through, written to `out`."""
    store_int(frame, STAMP, load_int(frame, STAMP) + 1)
    if kind != BITS:
        count = np.int64(0)
        for k in range(kind):
            node = load_int(at, k)
            if wants(frame, node, late):
                store_int(out, count, node)
                count += 1
        return count
    some = np.int64(0)
    for k in range(load_int(frame, WORDS_OF_SET)):
        word, kept = load_int(at, k), np.int64(0)
        while word != 0:
            bit = lowest(word)
            word ^= np.int64(1) << np.int64(bit)
            if wants(frame, 64 * k + bit, late):
                kept |= np.int64(1) << np.int64(bit)
        store_int(out, k, kept)
        some |= kept
    return np.int64(BITS) if some != 0 else np.int64(0)


@kernel()
def _put_members(frame: int, kind: int, at: int) -> None:
    """Pairs of the next row and the nodes of a set: itself as bits, if it has more than a few."""
    words, count = load_int(frame, WORDS_OF_SET), kind
    if kind == BITS:
        count = np.int64(0)
        for word in range(words):
            count += population(load_int(at, word))
    alone = kind != BITS or count <= _FEW_NODES
    used = load_int(frame, PAIRS)
    if used + count > load_int(frame, PAIRS_ROOM):
        room = max(1024, 2 * (used + count))
        store_int(frame, PAIRS_AT, resized(load_int(frame, PAIRS_AT), room))
        store_int(frame, PAIRS_ROOM, room)
    pairs, row = load_int(frame, PAIRS_AT), np.int64(load_int(frame, OUT_ROWS)) << np.int64(32)
    if not alone:
        number = load_int(frame, BITS_ROWS)
        if number == load_int(frame, BITS_ROOM):
            room = max(256, 2 * number)
            store_int(frame, BITS_AT, resized(load_int(frame, BITS_AT), room * words))
            store_int(frame, BITS_ROOM, room)
        out = load_int(frame, BITS_AT) + number * (8 * words)
        for word in range(words):
            store_int(out, word, load_int(at, word))
        store_int(frame, BITS_ROWS, number + 1)
        store_int(pairs, used, row | SET | number)
        store_int(frame, PAIRS, used + 1)
        return
    if kind != BITS:
        for k in range(kind):
            store_int(pairs, used + k, row | load_int(at, k))
    else:
        place = used
        for k in range(words):
            word = load_int(at, k)
            while word != 0:
                bit = lowest(word)
                word ^= np.int64(1) << np.int64(bit)
                store_int(pairs, place, row | (64 * k + bit))
                place += 1
    store_int(frame, PAIRS, used + count)


@kernel()
def _same_members(frame: int, kind: int, at: int) -> bool:
    """Whether the last row is for just the nodes of a set."""
    pairs, first = load_int(frame, PAIRS_AT), load_int(frame, LAST_PAIRS)
    count, words = load_int(frame, PAIRS) - first, load_int(frame, WORDS_OF_SET)
    member = load_int(pairs, first) & _MEMBER
    if member >= SET:
        if kind != BITS:
            return False
        known = load_int(frame, BITS_AT) + (member - SET) * (8 * words)
        for word in range(words):
            if load_int(known, word) != load_int(at, word):
                return False
        return True
    if kind != BITS:
        if kind != count:
            return False
        for k in range(kind):
            if load_int(pairs, first + k) & _MEMBER != load_int(at, k):
                return False
        return True
    own = np.int64(0)
    for word in range(words):
        own += population(load_int(at, word))
    if own != count:
        return False
    for k in range(count):
        if not has_bit(at, load_int(pairs, first + k) & _MEMBER):
            return False
    return True


@kernel()
def _is_last(frame: int, row: int, width: int, kind: int, at: int) -> bool:
    """Whether a row that was written after the last one is the same, of the same event, and for
    the same nodes."""
    if load_int(frame, LAST_PAIRS) < 0:
        return False
    for word in range(2, width - 1):
        if load_int(row, word) != load_int(row, word - width):
            return False
    return _same_members(frame, kind, at)


@kernel()
def emit(frame: int, kind: int, at: int, late: Any) -> None:
    """Put out the rows that are bound, as one, for the nodes of a set."""
    if kind == ALL:
        kind, at = np.int64(BITS), load_int(frame, EVERYONE_AT)
    if load_int(frame, LATE) != 0:
        words = load_int(frame, WORDS_OF_SET)
        out = load_int(frame, SETS_AT) + 8 * words
        kind = _wanted(frame, kind, at, out, late)
        at = out
        if kind == 0:
            return
    rows = load_int(frame, OUT_ROWS)
    width = load_int(frame, OUT_BASE) + load_int(frame, EMITTED) + 1
    if rows == load_int(frame, OUT_ROOM):
        room = max(256, 2 * rows)
        store_int(frame, OUT_AT, resized(load_int(frame, OUT_AT), room * width))
        store_int(frame, OUT_ROOM, room)
    going = load_int(frame, GOING) != 0
    weight, row = np.int64(-1 if going else 1), load_int(frame, OUT_AT) + rows * (8 * width)
    compose(frame, row, load_int(frame, NOW), weight)
    again = _is_last(frame, row, width, kind, at)
    # Of two inputs, the other one's events come newest first: their equals were looked at then.
    known = going or load_int(frame, COMPLETE) != 0
    if not known and not (again and load_int(frame, INPUTS) == 2):
        _suspect(frame, kind, at)
    if again:
        store_int(row, -1, load_int(row, -1) + weight)
        return
    store_int(frame, LAST_PAIRS, load_int(frame, PAIRS))
    _put_members(frame, kind, at)
    store_int(frame, OUT_ROWS, rows + 1)
