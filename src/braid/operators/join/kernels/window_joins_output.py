"""The output of a join with windows inside: which combinations arrive, and for which nodes.

Where only arrivals are asked for (Istream), a combination that leaves matters only if an equal row
arrives for the same node at the same instant. So nothing that leaves is looked for unasked. When a
combination arrives, the join checks whether an older event, equal in the columns that are compared,
leaves at this instant the window of a node that the combination arrives for. Only for such
*suspects*, which are rare, the combinations that leave at the instant are emitted as well.

Combinations of one event that look alike and are for the same nodes are one row with a weight:
where few columns are shown, most are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.jit import types
from braid.jit.hash_table import first
from braid.jit.records import Words
from braid.jit.ring import event_at, slot_of
from braid.jit.runtime import COMPILED, kernel
from braid.jit.types import intrinsic
from braid.jit.vector import reserve
from braid.operators.core.kernels.node_sets import ALL, BITS, has_bit, lowest, set_bit
from braid.operators.core.kernels.nodes import SET
from braid.operators.join.kernels.frame import compose, keep_output, next_output, wants
from braid.operators.join.kernels.rings import ring_of
from braid.operators.join.kernels.window_covers import Cover, WindowFrame, first_of

#: Equal events that are checked one by one; if there are more, all nodes are suspects.
_FEW_EQUALS = 32
#: Nodes that are emitted one by one.
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


# ---- combinations that leave at the instant at which another one arrives ----


@kernel()
def is_in(kind: int, nodes: Words, node: int) -> bool:
    if kind == BITS:
        return has_bit(nodes, node)
    for k in range(kind):
        if nodes[k] == node:
            return True
    return False


@kernel()
def _suspect_all(frame: WindowFrame, kind: int, nodes: Words) -> None:
    suspects = frame.suspects
    frame.suspected = 1
    if kind != BITS:
        for k in range(kind):
            set_bit(suspects, nodes[k])
        return
    for word in range(frame.set_words):
        suspects[word] |= nodes[word]


@kernel()
def _suspect_leaving(frame: WindowFrame, cover: Cover, age: int, kind: int, nodes: Words) -> None:
    """Suspect the nodes of a set whose window an event leaves that was of this age before."""
    place = first_of(cover, age)
    while place < cover.nodes and cover.sizes[place] == age:
        node = cover.order[place]
        if is_in(kind, nodes, node):
            set_bit(frame.suspects, node)
            frame.suspected = 1
        place += 1


@kernel()
def _suspect(frame: WindowFrame, kind: int, nodes: Words) -> None:
    """Check whether the combination, which arrives for a set, may be equal to one that leaves.

    An event whose window is over for a node is older than the one that is equal to it and whose
    window is not: chains have the newest first, so it is later in them.
    """
    now, driver = frame.now, frame.driver
    for i in range(frame.inputs):
        cover = frame.covers[i]
        if cover.netted == 0:
            _suspect_all(frame, kind, nodes)
            return
        ring = ring_of(frame, i)
        index = frame.indexes[cover.compared]
        links = index.links
        if i == driver:
            hash_ = frame.driver_hash
            number = first(index, hash_)
        else:
            size = 8 * ring.slot_words
            link = links[(frame.bound[i].row.address - ring.rows.address) // size]
            hash_, number = link.hash, link.next
        oldest, equals = ring.oldest, 0
        while number >= oldest:
            link = links[slot_of(ring, number)]
            if link.hash == hash_:
                age = now - 1 - event_at(ring, number)[1]
                if age > cover.longest or equals == _FEW_EQUALS:
                    break
                _suspect_leaving(frame, cover, age, kind, nodes)
                equals += 1
            number = link.next
        if equals == _FEW_EQUALS:
            _suspect_all(frame, kind, nodes)
            return


# ---- output ----


@kernel()
def _wanted(frame: WindowFrame, kind: int, nodes: Words, out: Words, late: Any) -> int:
    """Write the nodes of a set whose constants let the combination through to `out`; the kind of
    it."""
    frame.stamp += 1
    if kind != BITS:
        count = np.int64(0)
        for k in range(kind):
            node = nodes[k]
            if wants(frame, node, late):
                out[count] = node
                count += 1
        return count
    some = np.int64(0)
    for k in range(frame.set_words):
        word, kept = nodes[k], np.int64(0)
        while word != 0:
            bit = lowest(word)
            word ^= np.int64(1) << np.int64(bit)
            if wants(frame, 64 * k + bit, late):
                kept |= np.int64(1) << np.int64(bit)
        out[k] = kept
        some |= kept
    return np.int64(BITS) if some != 0 else np.int64(0)


@kernel()
def _count_bits(nodes: Words, words: int) -> int:
    count = np.int64(0)
    for word in range(words):
        count += population(nodes[word])
    return count


@kernel()
def _put_members(frame: WindowFrame, kind: int, nodes: Words) -> None:
    """Write pairs of the next row and the nodes of a set; of bits with many nodes, a pair of the row
    and the set."""
    words = frame.set_words
    count = _count_bits(nodes, words) if kind == BITS else kind
    reserve(frame.pairs, count, 1024)
    pairs, used = frame.pairs.items, frame.pairs.count
    row = np.int64(frame.out_rows) << np.int64(32)
    if kind == BITS and count > _FEW_NODES:
        reserve(frame.out_sets, words, 256 * words)
        out = frame.out_sets.items.after(frame.out_sets.count)
        for word in range(words):
            out[word] = nodes[word]
        pairs[used] = row | SET | frame.out_set_rows
        frame.out_sets.count += words
        frame.out_set_rows += 1
        frame.pairs.count = used + 1
        return
    if kind != BITS:
        for k in range(kind):
            pairs[used + k] = row | nodes[k]
    else:
        place = used
        for k in range(words):
            word = nodes[k]
            while word != 0:
                bit = lowest(word)
                word ^= np.int64(1) << np.int64(bit)
                pairs[place] = row | (64 * k + bit)
                place += 1
    frame.pairs.count = used + count


@kernel()
def _same_members(frame: WindowFrame, kind: int, nodes: Words) -> bool:
    """Whether the last row is for just the nodes of a set."""
    pairs, words = frame.pairs.items.after(frame.last_pairs), frame.set_words
    count = frame.pairs.count - frame.last_pairs
    member = pairs[0] & _MEMBER
    if member >= SET:
        if kind != BITS:
            return False
        known = frame.out_sets.items.after((member - SET) * words)
        for word in range(words):
            if known[word] != nodes[word]:
                return False
        return True
    if kind != BITS:
        if kind != count:
            return False
        for k in range(kind):
            if pairs[k] & _MEMBER != nodes[k]:
                return False
        return True
    if _count_bits(nodes, words) != count:
        return False
    for k in range(count):
        if not has_bit(nodes, pairs[k] & _MEMBER):
            return False
    return True


@kernel()
def _is_last(frame: WindowFrame, row: Words, width: int, kind: int, nodes: Words) -> bool:
    """Whether a row that was written after the last one is the same, of the same event, and for
    the same nodes."""
    if frame.last_pairs < 0:
        return False
    for word in range(2, width - 1):
        if row[word] != row[word - width]:
            return False
    return _same_members(frame, kind, nodes)


@kernel()
def emit(frame: WindowFrame, kind: int, nodes: Words, late: Any) -> None:
    """Write the rows that are bound as one output row, for the nodes of a set."""
    if kind == ALL:
        kind, nodes = np.int64(BITS), frame.everyone
    if frame.late != 0:
        out = frame.sets.after(frame.set_words)
        kind = _wanted(frame, kind, nodes, out, late)
        nodes = out
        if kind == 0:
            return
    leaving = frame.leaving != 0
    weight, row = np.int64(-1 if leaving else 1), next_output(frame)
    compose(frame, row, frame.now, weight)
    again = _is_last(frame, row, frame.out_base + frame.emitted + 1, kind, nodes)
    # Of two inputs, the other one's events come newest first: their equals were looked at then.
    known = leaving or frame.complete != 0
    if not known and not (again and frame.inputs == 2):
        _suspect(frame, kind, nodes)
    if again:
        row[-1] += weight
        return
    frame.last_pairs = frame.pairs.count
    _put_members(frame, kind, nodes)
    keep_output(frame)
