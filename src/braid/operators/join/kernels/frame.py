"""The frame of a join: everything that its kernels need, behind one pointer.

Here are the kernels that do not depend on how rows are held: they find the members of a row that
arrives, check whether it can join at all, ask the residual, and write the output row.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from braid.jit.records import Halves, Record, Words, i64, record
from braid.jit.row_keys import same_value
from braid.jit.rows import any_null, is_null
from braid.jit.runtime import kernel
from braid.jit.vector import Vector, reserve
from braid.operators.core.kernels.node_sets import ALL, BITS, Cell, Pool, clear_bits, sort_list
from braid.operators.join.kernels.store import Index, NodeSet, Store


@record
class Check(Record):
    """What must hold of a row by itself."""

    column: i64
    #: A column that must equal it, or -1.
    other: i64
    floating: i64
    #: Whether a row with NULL joins nothing.
    not_null: i64


@record
class Shown(Record):
    """A column that the residual reads, and its column in the row of the residual."""

    column: i64
    target: i64


@record
class Source(Record):
    """A column of an input."""

    input: i64
    column: i64


@record
class Feed(Record):
    """The rows that have arrived from one input."""

    rows: Words
    count: i64
    row_words: i64
    #: Where the members of each row begin, and the members. `membered`: the input has members.
    starts: Words
    members: Halves
    #: The next row.
    row: i64
    membered: i64
    #: The first output node of each node of the input, how many nodes it has, and the next output
    #: node of each output node.
    fans: Words
    fan_count: i64
    fan_next: Words
    checks: Check
    check_count: i64
    shown: Shown
    shown_count: i64


@record
class Step(Record):
    """A probe of the plan."""

    input: i64
    index: i64
    #: Where each column of the key is taken from.
    sources: Source
    #: Which parts of the residual to ask; 0: none.
    flags: Words
    #: How far below and above a value the band reaches, as integers or floats.
    band: Words


@record
class Level(Record):
    """The state of the search at one probe."""

    #: The hash of the key, and the next slot to look at.
    hash: i64
    slot: i64
    #: The next cell of the row that is bound; 0: none.
    cell: Cell
    #: The nodes that hold all rows that are bound before this level, and the weight of these rows.
    kind: i64
    nodes: Words
    weight: i64
    #: The hash of the key without its band, the bucket that is looked at, and the last one.
    base: i64
    bucket: i64
    last: i64


@record
class Bound(Record):
    """The row of an input that is part of the combination."""

    row: Words


@record
class Frame(Record):
    """The frame of a join."""

    inputs: i64
    #: One for each input: the rows that are held, and the rows that have arrived.
    stores: Store
    feeds: Feed
    indexes: Index
    pool: Pool
    #: For each input that drives, the probes of the others.
    steps: Step
    levels: Level
    bound: Bound
    #: Words of a set of bits, nodes in the longest list, and room for sets: two for deltas, then one
    #: for each probe.
    set_words: i64
    most_listed: i64
    sets: Words
    #: The set of the row that is applied.
    delta: Annotated[NodeSet, 1]
    #: All output nodes, as bits.
    everyone: Words
    #: Whether the output has no members.
    plain: i64
    #: The columns of the output row, their number, and the word of the first.
    emit: Source
    emitted: i64
    out_base: i64
    #: The row that the residual reads, the word of its first column, how many columns come before its
    #: flags, and how many flags there are.
    asked: Words
    asked_base: i64
    first_flag: i64
    flags: i64
    #: The constants of the part of the residual that all members share.
    early_constants: Words
    #: Whether members have constants. For each node: the number of its constants. For each of these:
    #: the last answer (stamp << 1 | answer), and the constants, `parameters` of them.
    late: i64
    askers: Words
    answers: Words
    stamp: i64
    parameter_rows: Words
    parameters: i64
    strings: i64
    #: How many more rows may arrive before someone checks how many rows each node holds.
    allowed: i64
    #: The output: rows, their number, and pairs of row and node.
    out: Annotated[Vector, 1]
    out_rows: i64
    pairs: Annotated[Vector, 1]


@kernel()
def expand(frame: Frame, feed: Feed, first: int, last: int, out: Words) -> int:
    """The output nodes of some of the members of a feed; the kind of the set."""
    most = frame.most_listed
    if last - first > most:
        return _expand_bits(frame, feed, first, last, out)
    members, fans, known, following = feed.members, feed.fans, feed.fan_count, feed.fan_next
    count = np.int64(0)
    for p in range(first, last):
        node = members[p]
        if node >= known:
            continue
        member = fans[node]
        while member >= 0:
            if count == most:
                return _expand_bits(frame, feed, first, last, out)
            out[count] = member
            count += 1
            member = following[member]
    sort_list(out, count)
    return count


@kernel()
def _expand_bits(frame: Frame, feed: Feed, first: int, last: int, out: Words) -> int:
    """The same as bits. Neighbours mostly lie in the same word: it is written when it is left."""
    members, fans, known, following = feed.members, feed.fans, feed.fan_count, feed.fan_next
    clear_bits(out, frame.set_words)
    at, word, some = np.int64(0), np.int64(0), False
    for p in range(first, last):
        node = members[p]
        if node >= known:
            continue
        member = fans[node]
        while member >= 0:
            if member >> 6 != at:
                out[at] |= word
                at, word = member >> 6, np.int64(0)
            word |= np.int64(1) << np.int64(member & 63)
            some = True
            member = following[member]
    out[at] |= word
    return np.int64(BITS) if some else np.int64(0)


@kernel()
def can_join(feed: Feed, row: Words, base: int) -> bool:
    """Whether a row by itself does not exclude that it joins: no key is NULL, and columns that
    equal the same column of another input equal each other."""
    for k in range(feed.check_count):
        check = feed.checks[k]
        column, other = check.column, check.other
        if check.not_null != 0 and is_null(row, column):
            return False
        if other >= 0 and not same_value(row, base, column, row, base, other, check.floating):
            return False
    return True


@kernel()
def show(frame: Frame, feed: Feed, row: Words, base: int) -> None:
    """Copy the columns of a row that the residual reads."""
    asked, first = frame.asked, frame.asked_base
    for k in range(feed.shown_count):
        column, target = feed.shown[k].column, feed.shown[k].target
        asked[first + target] = row[base + column]
        word, bit = 2 + (target >> 6), np.int64(1) << np.int64(target & 63)
        mask = asked[word]
        asked[word] = mask | bit if is_null(row, column) else mask & ~bit


@kernel()
def holds(frame: Frame, flags: Words, early: Any) -> bool:
    """Ask the parts of the residual that the flags name."""
    asked = frame.asked
    first = frame.asked_base + frame.first_flag
    for k in range(frame.flags):
        asked[first + k] = flags[k]
    return early(np.int64(0), asked.address, frame.early_constants.address, frame.strings)


@kernel()
def bind(frame: Frame, input_: int, row: Words) -> None:
    """Let a row be part of the combination, and show it to the residual."""
    feed = frame.feeds[input_]
    frame.bound[input_].row = row
    if feed.shown_count > 0:
        show(frame, feed, row, frame.stores[input_].base)


@kernel()
def compose(frame: Frame, row: Words, time: int, weight: int) -> None:
    """Write the output row of the rows that are bound."""
    bound, stores = frame.bound, frame.stores
    base, emitted = frame.out_base, frame.emitted
    row[0] = time
    row[1] = time
    for word in range(2, base):
        row[word] = 0
    nulls = False
    for i in range(frame.inputs):
        nulls = nulls or any_null(bound[i].row, stores[i].base)
    for k in range(emitted):
        i, column = frame.emit[k].input, frame.emit[k].column
        source = bound[i].row
        row[base + k] = source[stores[i].base + column]
        if nulls and is_null(source, column):
            row[2 + (k >> 6)] |= np.int64(1) << np.int64(k & 63)
    row[base + emitted] = weight


@kernel()
def next_output(frame: Frame) -> Words:
    """Where the next output row is written; `out_rows` counts those that are kept."""
    width = frame.out_base + frame.emitted + 1
    reserve(frame.out, width, 256 * width)
    return frame.out.items.after(frame.out.count)


@kernel()
def keep_output(frame: Frame) -> None:
    """Keep the output row that was written last."""
    frame.out.count += frame.out_base + frame.emitted + 1
    frame.out_rows += 1


@kernel()
def wants(frame: Frame, node: int, late: Any) -> bool:
    """Ask the residual with the constants of an output node; once for all that have the same."""
    if frame.late == 0:
        return True
    asker = frame.askers[node]
    answers, stamp = frame.answers, frame.stamp
    answer = answers[asker]
    if answer >> 1 != stamp:
        own = frame.parameter_rows.after(asker * frame.parameters)
        holds = late(np.int64(0), frame.asked.address, own.address, frame.strings)
        answer = 2 * stamp + (1 if holds else 0)
        answers[asker] = answer
    return (answer & 1) != 0


@kernel()
def members_of(frame: Frame, feed: Feed, number: int) -> int:
    """Write the set of a row that has arrived to where deltas have theirs; the kind of it."""
    if feed.membered == 0:
        return np.int64(ALL)
    return expand(frame, feed, feed.starts[number], feed.starts[number + 1], frame.sets)


@kernel()
def arrived(feed: Feed, number: int) -> Words:
    """A row that has arrived."""
    return feed.rows.after(number * feed.row_words)


@kernel()
def next_row(feed: Feed) -> Words:
    """The next row of a feed, which is taken."""
    row = arrived(feed, feed.row)
    feed.row += 1
    return row


@kernel()
def next_feed(frame: Frame) -> int:
    """The input whose next row is the earliest, or -1."""
    best, earliest = np.int64(-1), np.int64(0)
    for i in range(frame.inputs):
        feed = frame.feeds[i]
        if feed.row < feed.count:
            time = arrived(feed, feed.row)[1]
            if best < 0 or time < earliest:
                best, earliest = np.int64(i), time
    return best


@kernel()
def all_hold(frame: Frame, driver: int) -> bool:
    """Whether every other input holds something."""
    for i in range(frame.inputs):
        if i != driver and frame.stores[i].count == 0:
            return False
    return True


@kernel()
def steps_of(frame: Frame, driver: int) -> Step:
    """The probes for an input that drives."""
    return frame.steps[driver * (frame.inputs - 1)]
