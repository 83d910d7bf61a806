"""The frame of a join, as words behind one address, and what is done with it whatever is held.

Members of what comes, what a row must be to join at all, what the residual sees of it, and the row
that comes out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.jit.runtime import kernel, load_int, store_int
from braid.operators.core.kernels.instances import any_null, is_null
from braid.operators.core.kernels.node_sets import ALL, BITS, clear_bits, load_half, sort_list
from braid.operators.join.kernels.store import BASE, COUNT, STORE_WORDS, same_value

#: The frame of a join. WORDS_OF_SET: words of a set of bits; MOST_LISTED: nodes in the longest
#: list; SETS_AT: room for sets, the first two of deltas, then one for each probe; PLAIN: the output
#: has no members. ASKED: the row that the residual looks at, the word of its first column, how many
#: columns come before its flags, and their number. EARLY_AT: constants that all members share. LATE:
#: whether members have constants; then ASKERS_AT has, for each node, the number of its constants,
#: ANSWERS_AT what was answered with them last (stamp << 1 | answer). ALLOWED: how many rows may come
#: before it is looked whether a node holds too many.
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
    ALLOWED,
    OUT_AT,
    OUT_ROOM,
    OUT_ROWS,
    PAIRS_AT,
    PAIRS_ROOM,
    PAIRS,
    FRAME,
) = range(36)

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
def members_of(frame: int, feed: int, number: int) -> int:
    """The set of a delta, written where deltas have theirs: its kind."""
    if load_int(feed, FEED_MEMBERED) == 0:
        return np.int64(ALL)
    starts = load_int(feed, FEED_STARTS_AT)
    first, last = load_int(starts, number), load_int(starts, number + 1)
    return expand(frame, feed, first, last, load_int(frame, SETS_AT))


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
def all_hold(frame: int, driver: int) -> bool:
    """Whether every other input holds something."""
    for i in range(load_int(frame, INPUTS)):
        if i != driver:
            store = load_int(frame, STORES_AT) + i * (8 * STORE_WORDS)
            if load_int(store, COUNT) == 0:
                return False
    return True
