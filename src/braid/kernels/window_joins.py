"""The loop of a join with windows inside: each event meets what is still in the windows of others.

A combination comes when the last of its events does, for the output nodes that see all of them
and whose window of each input is at least as long as that input's event is old. For each input
the nodes lie in order of their sizes, and with every place of that order (or every few) goes the
set of the nodes from there on: how many windows cover an event costs one search and an AND.

A combination goes for a node at the first instant at which one of its events is too old for it.
Where only what comes is asked (Istream), what goes matters only if an equal row comes for the
same node at the same instant. So nothing goes unasked: when a combination comes, it is looked
whether an older event, equal in the columns that are compared, leaves at this instant the window
of a node that it comes for. Only for such *suspects*, which are rare, all that goes at the instant
is put out as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from braid.kernels.instances import SET
from braid.kernels.joins import (
    AT_HASH,
    AT_KIND,
    AT_SET,
    AT_SLOT,
    BOUND_AT,
    EMITTED,
    EVERYONE_AT,
    FEED_BYTES,
    FEED_ROW,
    FEED_ROWS_AT,
    FEED_WORDS,
    FEEDS_AT,
    FRAME,
    INPUTS,
    LATE,
    LEVEL_WORDS,
    LEVELS_AT,
    OUT_AT,
    OUT_BASE,
    OUT_ROOM,
    OUT_ROWS,
    PAIRS,
    PAIRS_AT,
    PAIRS_ROOM,
    SETS_AT,
    SHOWN,
    STAMP,
    STEP_FLAGS,
    STEP_INDEX,
    STEP_INPUT,
    STEP_WORDS,
    STEPS_AT,
    WORDS_OF_SET,
    all_hold,
    begin,
    can_join,
    compose,
    holds,
    members_of,
    next_feed,
    same_keys,
    show,
    wants,
)
from braid.kernels.joins_sets import (
    ALL,
    BITS,
    KIND,
    clear_bits,
    has_bit,
    lowest,
    meet,
    set_bit,
    set_of,
)
from braid.kernels.joins_store import (
    BASE,
    CAPACITY,
    COUNT,
    FIRST_INDEX,
    FOUND,
    HEADS_AT,
    LINKS_AT,
    MASK,
    ROWS_AT,
    STRIDE,
    WANTED,
    hash_row,
)
from braid.kernels.memory import resized
from braid.kernels.rings import (
    HASH,
    LINK,
    NUMBER,
    OLDER,
    OLDEST,
    add_event,
    cell_of,
    drop_events,
    event_at,
    first_from,
    index_of,
    link_at,
    ring_of,
)
from braid.kernels.runtime import (
    COMPILED,
    PREDICATE_TYPE,
    WORDS,
    address,
    kernel,
    load_int,
    store_int,
)

#: More words of the frame: where the sizes of inputs are described; suspects as bits, and whether
#: there are any; the instant; the input that drives, the hash of its event by what is compared,
#: whether combinations go; output sets as bits.
(
    COVERS_AT,
    SUSPECTS_AT,
    SUSPECTED,
    NOW,
    DRIVER,
    DRIVER_HASH,
    GOING,
    BITS_AT,
    BITS_ROOM,
    BITS_ROWS,
    WINDOW_FRAME,
) = range(FRAME, FRAME + 11)

#: The sizes of an input: number of output nodes, their sizes in order, the nodes in that order, for
#: every 2^SHIFT-th of them the set of all from there on, the size of each node, the longest, and
#: whether columns of the input are among those that are compared.
(SIZED, SIZES_AT, ORDER_AT, MASKS_AT, SHIFT, SIZE_OF_AT, LONGEST, NETTED, COVER_WORDS) = range(9)

#: Equal events that are looked at one by one; if there are more, all nodes are suspects.
_FEW_EQUALS = 32
#: Nodes that are put out one by one.
_FEW_NODES = 4

_MOST = np.int64(9223372036854775807)


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


# ---- windows ----


@kernel()
def _first_of(cover: int, age: int) -> int:
    """The place of the first node whose window is at least so long."""
    sizes, low, high = load_int(cover, SIZES_AT), np.int64(0), load_int(cover, SIZED)
    while low < high:
        middle = (low + high) >> 1
        if load_int(sizes, middle) < age:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def _covered(cover: int, first: int, age: int, kind: int, at: int, out: int, words: int) -> int:
    """Of a set the nodes from a place on, that of this age, written to `out`: the kind of it."""
    if kind > 0:
        count, sizes = np.int64(0), load_int(cover, SIZE_OF_AT)
        for k in range(kind):
            node = load_int(at, k)
            if load_int(sizes, node) >= age:
                store_int(out, count, node)
                count += 1
        return count
    shift, some = load_int(cover, SHIFT), np.int64(0)
    mask = load_int(cover, MASKS_AT) + (first >> shift) * (8 * words)
    begin_ = (first >> shift) << shift
    for word in range(words):
        both = load_int(mask, word)
        if kind == BITS:
            both &= load_int(at, word)
        store_int(out, word, both)
        some |= both
    if some != 0 and begin_ < first:
        order = load_int(cover, ORDER_AT)
        for place in range(begin_, first):
            node = load_int(order, place)
            bit = np.int64(1) << np.int64(node & 63)
            store_int(out, node >> 6, load_int(out, node >> 6) & ~bit)
        some = np.int64(0)
        for word in range(words):
            some |= load_int(out, word)
    return np.int64(BITS) if some != 0 else np.int64(0)


@kernel()
def _carry(frame: int, depth: int, level: int, cell: int, cover: int, age: int) -> bool:
    """Carry to the next level the nodes that also see an event of this age; whether there are."""
    first = _first_of(cover, age)
    if first == load_int(cover, SIZED):
        return False
    words = load_int(frame, WORDS_OF_SET)
    kind, at, own = load_int(level, AT_KIND), load_int(level, AT_SET), load_int(cell, KIND)
    out = load_int(frame, SETS_AT) + (depth + 2) * (8 * words)
    if own != ALL:
        place = set_of(cell, words)
        if kind == ALL:
            kind, at = own, place
        else:
            kind = meet(kind, at, own, place, out, words)
            at = out
    if kind != 0 and first > 0:
        kind = _covered(cover, first, age, kind, at, out, words)
        at = out
    if kind == 0:
        return False
    following = level + 8 * LEVEL_WORDS
    store_int(following, AT_KIND, kind)
    store_int(following, AT_SET, at)
    return True


# ---- what goes at the instant at which something comes ----


@kernel()
def _is_in(kind: int, at: int, node: int) -> bool:
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
    place, count = _first_of(cover, age), load_int(cover, SIZED)
    sizes, order = load_int(cover, SIZES_AT), load_int(cover, ORDER_AT)
    while place < count and load_int(sizes, place) == age:
        node = load_int(order, place)
        if _is_in(kind, at, node):
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
def _emit(frame: int, kind: int, at: int, late: Any) -> None:
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
    going = load_int(frame, GOING) != 0
    if not going:
        _suspect(frame, kind, at)
    _put_members(frame, kind, at)
    rows = load_int(frame, OUT_ROWS)
    width = load_int(frame, OUT_BASE) + load_int(frame, EMITTED) + 1
    if rows == load_int(frame, OUT_ROOM):
        room = max(256, 2 * rows)
        store_int(frame, OUT_AT, resized(load_int(frame, OUT_AT), room * width))
        store_int(frame, OUT_ROOM, room)
    weight = np.int64(-1) if going else np.int64(1)
    compose(frame, load_int(frame, OUT_AT) + rows * (8 * width), load_int(frame, NOW), weight)
    store_int(frame, OUT_ROWS, rows + 1)


# ---- search ----


@kernel()
def _next_event(frame: int, depth: int, step: int, level: int, early: Any) -> bool:
    """Bind the next event that a probe finds and carry its nodes on; whether there is one.

    What comes is asked with the windows as they are now. What goes was there an instant ago; it
    goes with the first of its events to leave, that of the first input if there are several.
    """
    input_ = load_int(step, STEP_INPUT)
    ring, index = ring_of(frame, input_), index_of(frame, load_int(step, STEP_INDEX))
    feed = load_int(frame, FEEDS_AT) + input_ * (8 * FEED_WORDS)
    cover = load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    links, rows, base = load_int(index, LINKS_AT), load_int(ring, ROWS_AT), load_int(ring, BASE)
    slots, stride = load_int(ring, CAPACITY) - 1, load_int(ring, STRIDE)
    hash_, flags, longest = (
        load_int(level, AT_HASH),
        load_int(step, STEP_FLAGS),
        load_int(cover, LONGEST),
    )
    going, number, oldest = (
        load_int(frame, GOING) != 0,
        load_int(level, AT_SLOT),
        load_int(ring, OLDEST),
    )
    time, latest = load_int(frame, NOW), load_int(frame, NOW)
    if going:
        latest -= 1
        if input_ > load_int(frame, DRIVER):
            time -= 1
    while number >= oldest:
        link = links + (number & slots) * (8 * LINK)
        row = rows + (number & slots) * stride
        number = load_int(link, OLDER)
        if load_int(link, HASH) != hash_:
            continue
        came = load_int(row, 1)
        if came > latest:
            continue
        age = time - came
        if age < 0:
            age = _MOST
        if age > longest:
            break
        if not same_keys(frame, step, index, row, base):
            continue
        store_int(index, FOUND, load_int(index, FOUND) + 1)
        store_int(load_int(frame, BOUND_AT), input_, row)
        if load_int(feed, SHOWN) > 0:
            show(frame, feed, row, base)
        if flags != 0 and not holds(frame, flags, early):
            continue
        if _carry(frame, depth, level, cell_of(ring, row), cover, age):
            store_int(index, WANTED, load_int(index, WANTED) + 1)
            store_int(level, AT_SLOT, number)
            return True
    store_int(level, AT_SLOT, -1)
    return False


@kernel()
def _search(frame: int, early: Any, late: Any) -> None:
    """All combinations of the event that is bound with those that the other inputs hold."""
    last = load_int(frame, INPUTS) - 2
    steps = load_int(frame, STEPS_AT) + load_int(frame, DRIVER) * (last + 1) * (8 * STEP_WORDS)
    levels = load_int(frame, LEVELS_AT)
    depth = np.int64(0)
    begin(frame, steps, levels)
    while depth >= 0:
        step, level = steps + depth * (8 * STEP_WORDS), levels + depth * (8 * LEVEL_WORDS)
        if not _next_event(frame, depth, step, level, early):
            depth -= 1
            continue
        following = level + 8 * LEVEL_WORDS
        if depth < last:
            depth += 1
            begin(frame, step + 8 * STEP_WORDS, following)
        else:
            _emit(frame, load_int(following, AT_KIND), load_int(following, AT_SET), late)


@kernel()
def _drive(frame: int, input_: int, row: int, kind: int, at: int, early: Any, late: Any) -> None:
    """Search with an event that the nodes of a set see."""
    feed = load_int(frame, FEEDS_AT) + input_ * (8 * FEED_WORDS)
    levels = load_int(frame, LEVELS_AT)
    store_int(frame, DRIVER, input_)
    store_int(load_int(frame, BOUND_AT), input_, row)
    if load_int(feed, SHOWN) > 0:
        show(frame, feed, row, load_int(ring_of(frame, input_), BASE))
    store_int(levels, AT_KIND, kind)
    store_int(levels, AT_SET, at)
    _search(frame, early, late)


@kernel()
def _go(frame: int, input_: int, size: int, first: int, last: int, early: Any, late: Any) -> None:
    """Put out what goes now because an event of an input leaves windows of this size, those of
    the nodes from one place to another, as far as they are suspects."""
    cover = load_int(frame, COVERS_AT) + input_ * (8 * COVER_WORDS)
    order, suspects = load_int(cover, ORDER_AT), load_int(frame, SUSPECTS_AT)
    ring, words = ring_of(frame, input_), load_int(frame, WORDS_OF_SET)
    time, out = load_int(frame, NOW) - 1 - size, load_int(frame, SETS_AT)
    number, end = first_from(ring, time), load_int(ring, NUMBER)
    while number < end:
        row = event_at(ring, number)
        if load_int(row, 1) != time:
            return
        cell = cell_of(ring, row)
        kind, some = load_int(cell, KIND), False
        clear_bits(out, words)
        for place in range(first, last):
            node = load_int(order, place)
            if has_bit(suspects, node) and (kind == ALL or _is_in(kind, set_of(cell, words), node)):
                set_bit(out, node)
                some = True
        if some:
            _drive(frame, input_, row, np.int64(BITS), out, early, late)
        number += 1


@kernel()
def _let_go(frame: int, early: Any, late: Any) -> None:
    """Put out all that goes for suspects at this instant."""
    store_int(frame, GOING, 1)
    suspects = load_int(frame, SUSPECTS_AT)
    for i in range(load_int(frame, INPUTS)):
        if not all_hold(frame, i):
            continue
        cover = load_int(frame, COVERS_AT) + i * (8 * COVER_WORDS)
        sizes, order = load_int(cover, SIZES_AT), load_int(cover, ORDER_AT)
        place, count = np.int64(0), load_int(cover, SIZED)
        while place < count:
            first, size, some = place, load_int(sizes, place), False
            while place < count and load_int(sizes, place) == size:
                some = some or has_bit(suspects, load_int(order, place))
                place += 1
            if some:
                _go(frame, i, size, first, place, early, late)
    clear_bits(suspects, load_int(frame, WORDS_OF_SET))
    store_int(frame, SUSPECTED, 0)
    store_int(frame, GOING, 0)


@kernel(types.void(WORDS, PREDICATE_TYPE, PREDICATE_TYPE))
def run(words: np.ndarray, early: Any, late: Any) -> None:
    """Take all events of the feeds; output is in memory that the frame then names.

    `early`: the part of the residual without constants; `late`: the part with them.
    """
    frame = address(words)
    feeds, sets = load_int(frame, FEEDS_AT), load_int(frame, SETS_AT)
    driver = next_feed(frame)
    while driver >= 0:
        ring, feed = ring_of(frame, driver), feeds + driver * (8 * FEED_WORDS)
        number = load_int(feed, FEED_ROW)
        row = load_int(feed, FEED_ROWS_AT) + number * load_int(feed, FEED_BYTES)
        store_int(feed, FEED_ROW, number + 1)
        time = load_int(row, 1)
        if time != load_int(frame, NOW):
            if load_int(frame, SUSPECTED) != 0:
                _let_go(frame, early, late)
            store_int(frame, NOW, time)
        kind = members_of(frame, feed, number)
        if kind != 0 and can_join(feed, row, load_int(ring, BASE)):
            if all_hold(frame, driver):
                index = index_of(frame, load_int(ring, FIRST_INDEX))
                store_int(frame, DRIVER_HASH, hash_row(row, load_int(ring, BASE), index))
                _drive(frame, driver, row, kind, sets, early, late)
            add_event(frame, driver, row, kind)
        driver = next_feed(frame)
    if load_int(frame, SUSPECTED) != 0:
        _let_go(frame, early, late)


@kernel(types.void(WORDS, types.int64))
def pass_time(words: np.ndarray, bound: int) -> None:
    """Forget what has left all windows; all that comes is of this time or later.

    What leaves at the very instant may have to go together with something that comes at it.
    """
    frame = address(words)
    for i in range(load_int(frame, INPUTS)):
        cover = load_int(frame, COVERS_AT) + i * (8 * COVER_WORDS)
        longest = load_int(cover, LONGEST)
        before = bound - 1 - longest
        if load_int(ring_of(frame, i), COUNT) > 0 and (before < bound or longest < 0):
            drop_events(frame, i, before)
