"""The loop of a join: each delta meets what the other inputs hold, and is then held itself.

Deltas of all inputs are taken in order of time; those of one instant one after the other, in any
order: the product of sums is the sum of products. For each, the other inputs are probed in the
order that the plan has for the input that drives. What is carried along is the set of output
nodes that hold all rows found so far; where it becomes empty the search goes back, so that a
combination is made once for all members, and not at all if it is nobody's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.kernels.instances import FREE, any_null, is_null
from braid.kernels.joins_sets import (
    ALL,
    BITS,
    KIND,
    NEXT,
    WEIGHT,
    clear_bits,
    load_half,
    lowest,
    meet,
    set_of,
    sort_list,
)
from braid.kernels.joins_store import (
    BAND,
    BASE,
    COLUMNS_AT,
    COUNT,
    FIRST_INDEX,
    FOUND,
    HEADS_AT,
    IN_BAND,
    INDEX_WORDS,
    KEYS,
    LINK_HASH,
    LINK_NEXT,
    LINK_WORDS,
    LINKS_AT,
    MASK,
    PROBES,
    ROWS_AT,
    STORE_WORDS,
    STRIDE,
    WANTED,
    WIDTH,
    add_bucket,
    add_to_hash,
    apply_delta,
    bucket_of,
    first_cell,
    float_bucket_of,
    hash_row,
    same_value,
)
from braid.kernels.memory import resized
from braid.kernels.runtime import (
    PREDICATE_TYPE,
    WORDS,
    address,
    kernel,
    load_float,
    load_int,
    prefetch,
    store_int,
)

#: The frame of a join. WORDS_OF_SET: words of a set of bits; MOST_LISTED: nodes in the longest
#: list; SETS_AT: room for sets, the first two of deltas, then one for each probe; PLAIN: the output
#: has no members. ASKED: the row that the residual looks at, the word of its first column, how many
#: columns come before its flags, and their number. EARLY_AT: constants that all members share. LATE:
#: whether members have constants; then ASKERS_AT has, for each node, the number of its constants,
#: ANSWERS_AT what was answered with them last (stamp << 1 | answer).
(
    INPUTS,
    STORES_AT,
    INDEXES_AT,
    POOL_AT,
    FEEDS_AT,
    STEPS_AT,
    LEVELS_AT,
    BOUND_AT,
    WORDS_OF_SET,
    MOST_LISTED,
    SETS_AT,
    EVERYONE_AT,
    PLAIN,
    EMIT_AT,
    EMITTED,
    OUT_BASE,
    ASKED_AT,
    ASKED_BASE,
    FLAGS_FROM,
    FLAGS,
    EARLY_AT,
    LATE,
    ASKERS_AT,
    ANSWERS_AT,
    STAMP,
    PARAMETERS_AT,
    PARAMETERS,
    STRINGS_AT,
    OUT_AT,
    OUT_ROOM,
    OUT_ROWS,
    PAIRS_AT,
    PAIRS_ROOM,
    PAIRS,
    FRAME,
) = range(35)

#: What comes from an input: rows and their number, bytes of a row, where the members of each row
#: begin, these (of 32 bits), how far it is read, whether it has members; the first output node of each of its nodes, the number of these, the next output node of each; what must hold of a row by itself
#: (four words each: column, another column or -1, whether it is a float, whether NULL is nothing);
#: columns that the residual looks at (column, and column there).
(
    FEED_ROWS_AT,
    FEED_ROWS,
    FEED_BYTES,
    FEED_STARTS_AT,
    FEED_MEMBERS_AT,
    FEED_ROW,
    FEED_MEMBERED,
    FANS_AT,
    FANS,
    FAN_NEXT_AT,
    CHECKS_AT,
    CHECKS,
    SHOWN_AT,
    SHOWN,
    FEED_WORDS,
) = range(15)

#: A probe of a plan: input, index, where the columns of the key are taken from (pairs: input,
#: column), what to ask of the residual (an address of flags, 0: nothing), what is below and above
#: the value that a band is around (an address).
STEP_INPUT, STEP_INDEX, STEP_SOURCES, STEP_FLAGS, STEP_BAND, STEP_WORDS = range(6)

#: A level of the search: hash of the key, next slot to look at, next cell of the row that is bound
#: (0: none); kind, place and weight of what is carried to it; hash of the key without its band,
#: the stretch of the band that is looked at, and the last one.
(
    AT_HASH,
    AT_SLOT,
    AT_CELL,
    AT_KIND,
    AT_SET,
    AT_WEIGHT,
    AT_BASE,
    AT_BUCKET,
    AT_LAST,
    LEVEL_WORDS,
) = range(10)

#: How many deltas ahead memory is asked for, and from how many rows on.
_AHEAD = 6
_LARGE = 8192
#: How much floats are rounded, at most.
_ROUNDING = 2.0**-50
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


@kernel()
def expand(frame: int, feed: int, first: int, last: int, out: int) -> int:
    """The output nodes of a delta's nodes, which are members of its feed; the kind of the set."""
    members, most = load_int(feed, FEED_MEMBERS_AT), load_int(frame, MOST_LISTED)
    if last - first > most:
        return _expand_bits(frame, feed, members, first, last, out)
    fans, known = load_int(feed, FANS_AT), load_int(feed, FANS)
    following = load_int(feed, FAN_NEXT_AT)
    count = np.int64(0)
    for p in range(first, last):
        node = load_half(members, p)
        if node >= known:
            continue
        member = load_int(fans, node)
        while member >= 0:
            if count == most:
                return _expand_bits(frame, feed, members, first, last, out)
            store_int(out, count, member)
            count += 1
            member = load_int(following, member)
    sort_list(out, count)
    return count


@kernel()
def _expand_bits(frame: int, feed: int, members: int, first: int, last: int, out: int) -> int:
    """The same as bits. Neighbours mostly lie in the same word: it is written when it is left."""
    fans, known = load_int(feed, FANS_AT), load_int(feed, FANS)
    following = load_int(feed, FAN_NEXT_AT)
    clear_bits(out, load_int(frame, WORDS_OF_SET))
    at, word, some = np.int64(0), np.int64(0), False
    for p in range(first, last):
        node = load_half(members, p)
        if node >= known:
            continue
        member = load_int(fans, node)
        while member >= 0:
            if member >> 6 != at:
                store_int(out, at, load_int(out, at) | word)
                at, word = member >> 6, np.int64(0)
            word |= np.int64(1) << np.int64(member & 63)
            some = True
            member = load_int(following, member)
    store_int(out, at, load_int(out, at) | word)
    return np.int64(BITS) if some else np.int64(0)


@kernel()
def can_join(feed: int, row: int, base: int) -> bool:
    """Whether a row by itself does not exclude that it joins: no key is NULL, and columns that
    equal the same column of another input equal each other."""
    check = load_int(feed, CHECKS_AT)
    for _ in range(load_int(feed, CHECKS)):
        column, other = load_int(check, 0), load_int(check, 1)
        if load_int(check, 3) != 0 and is_null(row, column):
            return False
        if other >= 0 and not same_value(row, base, column, row, base, other, load_int(check, 2)):
            return False
        check += 32
    return True


@kernel()
def show(frame: int, feed: int, row: int, base: int) -> None:
    """Copy the columns of a row that the residual looks at."""
    asked, first = load_int(frame, ASKED_AT), load_int(frame, ASKED_BASE)
    pair = load_int(feed, SHOWN_AT)
    for _ in range(load_int(feed, SHOWN)):
        column, target = load_int(pair, 0), load_int(pair, 1)
        store_int(asked, first + target, load_int(row, base + column))
        word, bit = 2 + (target >> 6), np.int64(1) << np.int64(target & 63)
        mask = load_int(asked, word)
        store_int(asked, word, mask | bit if is_null(row, column) else mask & ~bit)
        pair += 16


@kernel()
def holds(frame: int, flags: int, early: Any) -> bool:
    """Ask what the flags say of the residual."""
    asked = load_int(frame, ASKED_AT)
    first = load_int(frame, ASKED_BASE) + load_int(frame, FLAGS_FROM)
    for k in range(load_int(frame, FLAGS)):
        store_int(asked, first + k, load_int(flags, k))
    return early(np.int64(0), asked, load_int(frame, EARLY_AT), load_int(frame, STRINGS_AT))


# ---- output ----


@kernel()
def compose(frame: int, row: int, time: int, weight: int) -> None:
    """Write the output row of the rows that are bound."""
    bound, stores = load_int(frame, BOUND_AT), load_int(frame, STORES_AT)
    base, emitted = load_int(frame, OUT_BASE), load_int(frame, EMITTED)
    store_int(row, 0, time)
    store_int(row, 1, time)
    for word in range(2, base):
        store_int(row, word, 0)
    nulls = False
    for i in range(load_int(frame, INPUTS)):
        store = stores + i * (8 * STORE_WORDS)
        nulls = nulls or any_null(load_int(bound, i), load_int(store, BASE))
    pair = load_int(frame, EMIT_AT)
    for k in range(emitted):
        i, column = load_int(pair, 0), load_int(pair, 1)
        source = load_int(bound, i)
        own = load_int(stores + i * (8 * STORE_WORDS), BASE)
        store_int(row, base + k, load_int(source, own + column))
        if nulls and is_null(source, column):
            word = 2 + (k >> 6)
            store_int(row, word, load_int(row, word) | (np.int64(1) << np.int64(k & 63)))
        pair += 16
    store_int(row, base + emitted, weight)


@kernel()
def wants(frame: int, node: int, late: Any) -> bool:
    """Ask the residual with the constants of an output node; once for all that have the same."""
    if load_int(frame, LATE) == 0:
        return True
    asker = load_int(load_int(frame, ASKERS_AT), node)
    answers, stamp = load_int(frame, ANSWERS_AT), load_int(frame, STAMP)
    answer = load_int(answers, asker)
    if answer >> 1 != stamp:
        own = load_int(frame, PARAMETERS_AT) + 8 * asker * load_int(frame, PARAMETERS)
        holds = late(np.int64(0), load_int(frame, ASKED_AT), own, load_int(frame, STRINGS_AT))
        answer = 2 * stamp + (1 if holds else 0)
        store_int(answers, asker, answer)
    return (answer & 1) != 0


@kernel()
def _emit_pairs(frame: int, kind: int, at: int, late: Any) -> int:
    """Pairs of the next row and the nodes of a set; how many."""
    words = load_int(frame, WORDS_OF_SET)
    if kind == ALL:
        kind, at = np.int64(BITS), load_int(frame, EVERYONE_AT)
    store_int(frame, STAMP, load_int(frame, STAMP) + 1)
    before = load_int(frame, PAIRS)
    needed = before + (64 * words if kind == BITS else kind)
    if needed > load_int(frame, PAIRS_ROOM):
        room = max(1024, 2 * needed)
        store_int(frame, PAIRS_AT, resized(load_int(frame, PAIRS_AT), room))
        store_int(frame, PAIRS_ROOM, room)
    pairs, row = load_int(frame, PAIRS_AT), np.int64(load_int(frame, OUT_ROWS)) << np.int64(32)
    count = before
    if kind != BITS:
        for k in range(kind):
            node = load_int(at, k)
            if wants(frame, node, late):
                store_int(pairs, count, row | node)
                count += 1
    else:
        asks = load_int(frame, LATE) != 0
        for k in range(words):
            word = load_int(at, k)
            while word != 0:
                bit = lowest(word)
                word ^= np.int64(1) << np.int64(bit)
                node = 64 * k + bit
                if not asks or wants(frame, node, late):
                    store_int(pairs, count, row | node)
                    count += 1
    store_int(frame, PAIRS, count)
    return count - before


@kernel()
def _emit(frame: int, kind: int, at: int, time: int, weight: int, late: Any) -> None:
    """Put out the rows that are bound, as one, for the nodes of a set."""
    if load_int(frame, PLAIN) == 0 and _emit_pairs(frame, kind, at, late) == 0:
        return
    rows = load_int(frame, OUT_ROWS)
    width = load_int(frame, OUT_BASE) + load_int(frame, EMITTED) + 1
    if rows == load_int(frame, OUT_ROOM):
        room = max(256, 2 * rows)
        store_int(frame, OUT_AT, resized(load_int(frame, OUT_AT), room * width))
        store_int(frame, OUT_ROOM, room)
    compose(frame, load_int(frame, OUT_AT) + rows * (8 * width), time, weight)
    store_int(frame, OUT_ROWS, rows + 1)


# ---- search ----


@kernel()
def _look_up(index: int, level: int, value: int) -> None:
    """Begin with the chain of a hash."""
    value &= FREE
    bucket = value & load_int(index, MASK)
    store_int(level, AT_HASH, value)
    store_int(level, AT_SLOT, load_int(load_int(index, HEADS_AT), bucket))


@kernel()
def _added(value: int, change: int) -> int:
    """A sum, or the integer that is next to it."""
    if change > 0:
        return value + change if value <= _GREATEST - change else np.int64(_GREATEST)
    return value + change if value >= _LEAST - change else np.int64(_LEAST)


@kernel()
def _begin_band(level: int, index: int, at: int, around: int, how: int) -> None:
    """The stretches that a band around a value touches. Floats were or will be rounded where the
    residual is asked, so their band is a little wider."""
    if how == IN_BAND:
        value, below, above = load_int(at, 0), load_int(around, 0), load_int(around, 1)
        width = load_int(index, BAND)
        store_int(level, AT_BUCKET, bucket_of(_added(value, -below), width))
        store_int(level, AT_LAST, bucket_of(_added(value, above), width))
        return
    point, under, over = load_float(at, 0), load_float(around, 0), load_float(around, 1)
    lowest_, highest = point, point
    if abs(point) < np.inf:
        slack = (abs(point) + abs(under) + abs(over)) * _ROUNDING
        lowest_, highest = point - under - slack, point + over + slack
    wide = load_float(index, BAND)
    store_int(level, AT_BUCKET, float_bucket_of(lowest_, wide))
    store_int(level, AT_LAST, float_bucket_of(highest, wide))


@kernel()
def next_chain(index: int, level: int) -> bool:
    """Go on with the next stretch of a band; whether there is one."""
    bucket = load_int(level, AT_BUCKET) + 1
    if bucket > load_int(level, AT_LAST):
        return False
    store_int(level, AT_BUCKET, bucket)
    _look_up(index, level, add_bucket(load_int(level, AT_BASE), bucket))
    return True


@kernel()
def begin(frame: int, step: int, level: int) -> None:
    """Look for the first row of a probe."""
    index = load_int(frame, INDEXES_AT) + load_int(step, STEP_INDEX) * (8 * INDEX_WORDS)
    bound, stores = load_int(frame, BOUND_AT), load_int(frame, STORES_AT)
    source, columns = load_int(step, STEP_SOURCES), load_int(index, COLUMNS_AT)
    value = np.int64(0)
    store_int(level, AT_CELL, 0)
    store_int(level, AT_BUCKET, 0)
    store_int(level, AT_LAST, 0)
    store_int(index, PROBES, load_int(index, PROBES) + 1)
    for k in range(load_int(index, KEYS)):
        i = load_int(source, 2 * k)
        row, base = load_int(bound, i), load_int(stores + i * (8 * STORE_WORDS), BASE)
        column, how = load_int(source, 2 * k + 1), load_int(columns, 2 * k + 1)
        if how >= IN_BAND:
            # It is the last of the keys.
            _begin_band(level, index, row + 8 * (base + column), load_int(step, STEP_BAND), how)
            store_int(level, AT_BASE, value)
            value = add_bucket(value, load_int(level, AT_BUCKET))
        else:
            value = add_to_hash(value, row, base, column, how)
    _look_up(index, level, value)


@kernel()
def same_keys(frame: int, step: int, index: int, row: int, base: int) -> bool:
    bound, stores = load_int(frame, BOUND_AT), load_int(frame, STORES_AT)
    source, columns = load_int(step, STEP_SOURCES), load_int(index, COLUMNS_AT)
    for k in range(load_int(index, KEYS)):
        if load_int(columns, 2 * k + 1) >= IN_BAND:
            return True
        i = load_int(source, 2 * k)
        if not same_value(
            row,
            base,
            load_int(columns, 2 * k),
            load_int(bound, i),
            load_int(stores + i * (8 * STORE_WORDS), BASE),
            load_int(source, 2 * k + 1),
            load_int(columns, 2 * k + 1),
        ):
            return False
    return True


@kernel()
def _next_row(frame: int, step: int, level: int, early: Any) -> int:
    """Bind the next row that a probe finds: where its first cell is, or 0."""
    input_ = load_int(step, STEP_INPUT)
    store = load_int(frame, STORES_AT) + input_ * (8 * STORE_WORDS)
    feed = load_int(frame, FEEDS_AT) + input_ * (8 * FEED_WORDS)
    index = load_int(frame, INDEXES_AT) + load_int(step, STEP_INDEX) * (8 * INDEX_WORDS)
    links, rows = load_int(index, LINKS_AT), load_int(store, ROWS_AT)
    stride, base = load_int(store, STRIDE), load_int(store, BASE)
    hash_, flags = load_int(level, AT_HASH), load_int(step, STEP_FLAGS)
    slot = load_int(level, AT_SLOT)
    while True:
        if slot < 0:
            if not next_chain(index, level):
                break
            hash_, slot = load_int(level, AT_HASH), load_int(level, AT_SLOT)
            continue
        link = links + slot * (8 * LINK_WORDS)
        row = rows + slot * stride
        slot = load_int(link, LINK_NEXT)
        if load_int(link, LINK_HASH) == hash_ and same_keys(frame, step, index, row, base):
            store_int(index, FOUND, load_int(index, FOUND) + 1)
            store_int(load_int(frame, BOUND_AT), input_, row)
            if load_int(feed, SHOWN) > 0:
                show(frame, feed, row, base)
            if flags == 0 or holds(frame, flags, early):
                store_int(level, AT_SLOT, slot)
                return first_cell(store, row)
    store_int(level, AT_SLOT, -1)
    return np.int64(0)


@kernel()
def _carry(frame: int, depth: int, level: int, cell: int) -> bool:
    """Carry what a level has and a cell has as well to the next level; whether there is any."""
    words = load_int(frame, WORDS_OF_SET)
    kind, at = load_int(level, AT_KIND), load_int(level, AT_SET)
    own = load_int(cell, KIND)
    if own != ALL:
        place = set_of(cell, words)
        if kind == ALL:
            kind, at = own, place
        else:
            out = load_int(frame, SETS_AT) + (depth + 2) * (8 * words)
            kind = meet(kind, at, own, place, out, words)
            at = out
    if kind == 0:
        return False
    following = level + 8 * LEVEL_WORDS
    store_int(following, AT_KIND, kind)
    store_int(following, AT_SET, at)
    store_int(following, AT_WEIGHT, load_int(level, AT_WEIGHT) * load_int(cell, WEIGHT))
    return True


@kernel()
def _search(frame: int, driver: int, time: int, early: Any, late: Any) -> None:
    """All combinations of a row that is bound with what the other inputs hold."""
    last = load_int(frame, INPUTS) - 2
    steps = load_int(frame, STEPS_AT) + driver * (last + 1) * (8 * STEP_WORDS)
    levels = load_int(frame, LEVELS_AT)
    depth = np.int64(0)
    begin(frame, steps, levels)
    while depth >= 0:
        step, level = steps + depth * (8 * STEP_WORDS), levels + depth * (8 * LEVEL_WORDS)
        cell = load_int(level, AT_CELL)
        if cell == 0:
            cell = _next_row(frame, step, level, early)
            if cell == 0:
                depth -= 1
                continue
        store_int(level, AT_CELL, load_int(cell, NEXT))
        if not _carry(frame, depth, level, cell):
            continue
        index = load_int(frame, INDEXES_AT) + load_int(step, STEP_INDEX) * (8 * INDEX_WORDS)
        store_int(index, WANTED, load_int(index, WANTED) + 1)
        following = level + 8 * LEVEL_WORDS
        if depth < last:
            depth += 1
            begin(frame, step + 8 * STEP_WORDS, following)
        else:
            _emit(
                frame,
                load_int(following, AT_KIND),
                load_int(following, AT_SET),
                time,
                load_int(following, AT_WEIGHT),
                late,
            )


@kernel()
def next_feed(frame: int) -> int:
    """The input whose next delta is the earliest, or -1."""
    best, earliest = np.int64(-1), np.int64(0)
    feed = load_int(frame, FEEDS_AT)
    for i in range(load_int(frame, INPUTS)):
        row = load_int(feed, FEED_ROW)
        if row < load_int(feed, FEED_ROWS):
            time = load_int(load_int(feed, FEED_ROWS_AT) + row * load_int(feed, FEED_BYTES), 1)
            if best < 0 or time < earliest:
                best, earliest = np.int64(i), time
        feed += 8 * FEED_WORDS
    return best


@kernel()
def members_of(frame: int, feed: int, number: int) -> int:
    """The set of a delta, written where deltas have theirs: its kind."""
    if load_int(feed, FEED_MEMBERED) == 0:
        return np.int64(ALL)
    starts = load_int(feed, FEED_STARTS_AT)
    first, last = load_int(starts, number), load_int(starts, number + 1)
    return expand(frame, feed, first, last, load_int(frame, SETS_AT))


@kernel()
def _ask_for(store: int, index: int, hash_: int, near: bool) -> None:
    """Ask for the memory that a lookup will look at: the head of the chain, or the first row."""
    head = load_int(index, HEADS_AT) + 8 * (hash_ & load_int(index, MASK))
    if not near:
        prefetch(head)
        return
    slot = load_int(head, 0)
    if slot >= 0:
        prefetch(load_int(index, LINKS_AT) + slot * (8 * LINK_WORDS))
        row = load_int(store, ROWS_AT) + slot * load_int(store, STRIDE)
        prefetch(row)
        prefetch(row + 64)


@kernel()
def _look_ahead(frame: int, driver: int, row: int, base: int, near: bool) -> None:
    """Ask for what a delta that comes soon will need: the row itself, and the first probe."""
    indexes, stores = load_int(frame, INDEXES_AT), load_int(frame, STORES_AT)
    store = stores + driver * (8 * STORE_WORDS)
    own = indexes + load_int(store, FIRST_INDEX) * (8 * INDEX_WORDS)
    _ask_for(store, own, hash_row(row, base, own), near)
    last = load_int(frame, INPUTS) - 2
    step = load_int(frame, STEPS_AT) + driver * (last + 1) * (8 * STEP_WORDS)
    index = indexes + load_int(step, STEP_INDEX) * (8 * INDEX_WORDS)
    source, columns = load_int(step, STEP_SOURCES), load_int(index, COLUMNS_AT)
    value = np.int64(0)
    for k in range(load_int(index, KEYS)):
        floating = load_int(columns, 2 * k + 1)
        value = add_to_hash(value, row, base, load_int(source, 2 * k + 1), floating)
    other = stores + load_int(step, STEP_INPUT) * (8 * STORE_WORDS)
    _ask_for(other, index, value & FREE, near)


@kernel()
def _large(frame: int) -> bool:
    """Whether so much is held that memory is waited for."""
    rows = np.int64(0)
    for i in range(load_int(frame, INPUTS)):
        rows += load_int(load_int(frame, STORES_AT) + i * (8 * STORE_WORDS), COUNT)
    return rows > _LARGE


@kernel()
def all_hold(frame: int, driver: int) -> bool:
    """Whether every other input holds something."""
    for i in range(load_int(frame, INPUTS)):
        if i != driver:
            store = load_int(frame, STORES_AT) + i * (8 * STORE_WORDS)
            if load_int(store, COUNT) == 0:
                return False
    return True


@kernel()
def hold(frame: int, input_: int, row: int, weight: int, kind: int) -> None:
    """Apply a delta whose set is where deltas have theirs."""
    words = load_int(frame, WORDS_OF_SET)
    # Kind, place and longest list, at the first level, which no search uses now.
    set_ = load_int(frame, LEVELS_AT)
    store_int(set_, 0, kind)
    store_int(set_, 1, load_int(frame, SETS_AT))
    store_int(set_, 2, load_int(frame, MOST_LISTED))
    apply_delta(
        load_int(frame, STORES_AT) + input_ * (8 * STORE_WORDS),
        load_int(frame, INDEXES_AT),
        load_int(frame, POOL_AT),
        row,
        weight,
        set_,
        load_int(frame, SETS_AT) + 8 * words,
        words,
    )


@kernel((WORDS, PREDICATE_TYPE, PREDICATE_TYPE))
def run(words: np.ndarray, early: Any, late: Any) -> None:
    """Take all deltas of the feeds; output is in memory that the frame then names.

    `early`: the part of the residual without constants; `late`: the part with them.
    """
    frame = address(words)
    stores, feeds = load_int(frame, STORES_AT), load_int(frame, FEEDS_AT)
    bound, levels = load_int(frame, BOUND_AT), load_int(frame, LEVELS_AT)
    large = _large(frame)
    driver = next_feed(frame)
    while driver >= 0:
        store, feed = stores + driver * (8 * STORE_WORDS), feeds + driver * (8 * FEED_WORDS)
        number, base = load_int(feed, FEED_ROW), load_int(store, BASE)
        row = load_int(feed, FEED_ROWS_AT) + number * load_int(feed, FEED_BYTES)
        store_int(feed, FEED_ROW, number + 1)
        if large and number + 2 * _AHEAD < load_int(feed, FEED_ROWS):
            ahead = _AHEAD * load_int(feed, FEED_BYTES)
            _look_ahead(frame, driver, row + 2 * ahead, base, False)
            _look_ahead(frame, driver, row + ahead, base, True)
        kind = members_of(frame, feed, number)
        if kind != 0 and can_join(feed, row, base):
            weight = load_int(row, load_int(store, WIDTH) - 1)
            if all_hold(frame, driver):
                store_int(bound, driver, row)
                if load_int(feed, SHOWN) > 0:
                    show(frame, feed, row, base)
                store_int(levels, AT_KIND, kind)
                store_int(levels, AT_SET, load_int(frame, SETS_AT))
                store_int(levels, AT_WEIGHT, weight)
                _search(frame, driver, load_int(row, 1), early, late)
            hold(frame, driver, row, weight, kind)
        driver = next_feed(frame)
