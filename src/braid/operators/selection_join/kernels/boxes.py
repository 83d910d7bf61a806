"""What each output node of a selection join asks of an event: a box, and tests that are no box.

A *dimension* is a key (`operators/core/kernels/clauses.py`) of a column of one input. A node asks an interval of each, so
of an event of an input it asks a box; a dimension that it does not restrict has the interval of all
keys, NULL among them. A test that is no interval (`IN`, `<>`) has the smallest interval around it,
and is asked once the box has been found.

*Strips* find the nodes whose box an event is in: the keys of a dimension are cut into stretches,
and each stretch has the set, as bits, of the nodes whose interval touches it. The sets of the
stretches that an event lies in have in common all nodes that it can be in the box of. The nodes whose
interval begins or ends in a stretch lie in order of that end: those that a key is beyond are taken
out, so that no box is looked at. Nodes that have come since strips were laid are asked one by one.
"""

from __future__ import annotations

import numpy as np

from braid.jit import types
from braid.jit.records import Words
from braid.jit.runtime import ROWS, WORDS, address, kernel, load_half, load_int, prefetch, store_int
from braid.operators.core.kernels.clauses import NULL_KEY, atom_holds
from braid.operators.core.kernels.keys import key_of
from braid.operators.core.kernels.node_sets import lowest, without_lowest
from braid.operators.join.kernels.frame import Frame
from braid.operators.join.kernels.window_covers import WindowFrame

#: More words of the frame: how members are found; where inputs are described; room for nodes;
#: words of a strip; lists of nodes, one for each level; the nodes of the event that drives, as
#: bits; since when a number is a node's, and from which time on it sees events; keys of the events
#: that are bound, how old these are; how many changes there have been; the index tree; a list of
#: what the event that drives has found, and how long it is (-1: not asked yet); how often that was
#: looked for, what was found in all; combinations, lists that were kept and that were not, events,
#: those that had anything to combine with, what these had; whether nodes have births; the shortest
#: window of each input; the nodes that see a combination; the number of the list of
#: the event that drives.
(
    FORM,
    SIDES_AT,
    NODE_ROOM,
    STRIP_WORDS,
    LISTS_AT,
    MARKED_AT,
    SINCE_AT,
    BIRTHS_AT,
    KEYS_AT,
    AGES_AT,
    CHANGES,
    TREE_AT,
    FIRST_LIST_AT,
    FIRST_COUNT,
    FIRST_STEPS,
    FIRST_FOUND,
    COMBINATIONS,
    KEPT,
    NOT_KEPT,
    ARRIVALS,
    PARTNERED,
    CANDIDATES,
    BORN_LATER,
    SHORTEST_AT,
    SEEN_AT,
    FIRST_NUMBER,
    SELECTION_FRAME,
) = range(WindowFrame.stride // 8, WindowFrame.stride // 8 + 27)

#: How members are found: every combination by itself; of the event that comes, then of the others
#: among these; or by what was found when each event came.
NAIVE, PARTIAL, OWN = range(3)

#: Of an input: its first dimension, how many it has, their columns and modes, boxes; cuts between
#: stretches, their number, strips; for each dimension the nodes in order of lo, then in order of hi,
#: these ends, where each stretch begins in both, how many nodes are laid, those that are not; tests that are no box (first and number for each node; input's
#: dimension, kind, lo, hi; values); the lists of held events: where, room, written, oldest; boxes
#: of the nodes in one list, side by side: where, room, of which list.
(
    FIRST_DIMENSION,
    DIMENSIONS,
    COLUMNS_AT,
    BOXES_AT,
    CUTS_AT,
    CUTS,
    STRIPS_AT,
    ENDS_AT,
    END_VALUES_AT,
    BEGINS_AT,
    LAID,
    RECENT_AT,
    RECENT,
    EXTRAS_AT,
    TESTS_AT,
    VALUES_AT,
    LISTED_AT,
    LISTED_ROOM,
    WRITTEN,
    TAIL,
    NEAR_AT,
    NEAR_ROOM,
    NEAR_OF,
    SIDE_WORDS,
) = range(24)

#: The key of the time at which an event starts.
START_MODE = 4
#: Lines of a strip that are fetched before it is gone through, and their bytes.
_AHEAD, _LINE = 8, 64
#: Ends that are looked at first on either side of where one is guessed to be.
_NEAR = 8
#: Since when a number belongs to a node that sees nothing: never.
NEVER = np.int64(9223372036854775807)


@kernel()
def side_of(frame: int, input_: int) -> int:
    return load_int(frame, SIDES_AT) + input_ * (8 * SIDE_WORDS)


@kernel()
def keys_at(frame: int, input_: int) -> int:
    """Where the keys of the event of an input are."""
    return load_int(frame, KEYS_AT) + 8 * load_int(side_of(frame, input_), FIRST_DIMENSION)


@kernel()
def read_keys(frame: int, input_: int, row: int) -> None:
    """Make the keys of an event."""
    side, base = side_of(frame, input_), Frame(frame).stores[input_].base
    column, keys = load_int(side, COLUMNS_AT), keys_at(frame, input_)
    for d in range(load_int(side, DIMENSIONS)):
        key = key_of(Words(row), load_int(column, 0), base, load_int(column, 1))
        store_int(keys, d, key)
        column += 16


@kernel()
def in_box(side: int, node: int, keys: int) -> bool:
    """Whether an event with these keys is in the box of a node."""
    count = load_int(side, DIMENSIONS)
    box = load_int(side, BOXES_AT) + node * (16 * count)
    for d in range(count):
        key = load_int(keys, d)
        if key < load_int(box, 2 * d) or key > load_int(box, 2 * d + 1):
            return False
    return True


@kernel()
def passes(side: int, node: int, keys: int) -> bool:
    """Whether the tests of a node that are no box hold."""
    extras = load_int(side, EXTRAS_AT)
    if extras == 0:
        return True
    first, count = load_int(extras, 2 * node), load_int(extras, 2 * node + 1)
    values = load_int(side, VALUES_AT)
    for t in range(first, first + count):
        test = load_int(side, TESTS_AT) + 32 * t
        key = load_int(keys, load_int(test, 0))
        if not atom_holds(
            load_int(test, 1), key, load_int(test, 2), load_int(test, 3), Words(values)
        ):
            return False
    return True


@kernel()
def wanted_by(side: int, node: int, keys: int) -> bool:
    return in_box(side, node, keys) and passes(side, node, keys)


# ---- strips ----


@kernel()
def stretch_of(cuts: int, count: int, key: int) -> int:
    """The number of the stretch that a key is in; that of NULL is 0."""
    if key == NULL_KEY:
        return np.int64(0)
    low, high = np.int64(0), count
    while low < high:
        middle = (low + high) >> 1
        if load_int(cuts, middle) <= key:
            low = middle + 1
        else:
            high = middle
    return low + 1


@kernel()
def _clear(ids: int, begin: int, end: int, bits: int) -> None:
    for place in range(begin, end):
        node = load_half(ids, place)
        word = load_int(bits, node >> 6)
        store_int(bits, node >> 6, word & ~(np.int64(1) << np.int64(node & 63)))


@kernel()
def first_above(values: int, begin: int, end: int, guess: int, key: int) -> int:
    """The first of some values in order that is above a key, looked for from a guess on: what lies
    near to it has been fetched."""
    step = np.int64(_NEAR)
    if guess < end and load_int(values, guess) <= key:
        begin = guess + 1
        while begin + step < end and load_int(values, begin + step) <= key:
            begin += step + 1
            step *= 2
        end = min(end, begin + step)
    else:
        end = min(guess, end)
        while end - step > begin and load_int(values, end - step) > key:
            end -= step
            step *= 2
        begin = max(begin, end - step)
    while begin < end:
        middle = (begin + end) >> 1
        if load_int(values, middle) <= key:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel()
def _guess(cuts: int, known: int, stretch: int, first: int, last: int, key: int) -> int:
    """Where a key may lie among the ends of its stretch: as far from the first as from the cut."""
    if stretch < 2 or stretch > known:
        return (first + last) >> 1
    below, above = float(load_int(cuts, stretch - 2)), float(load_int(cuts, stretch - 1))
    if above <= below:  # neighbours that are one as a float
        return first
    return first + np.int64((float(key) - below) / (above - below) * float(last - first))


@kernel()
def _take_out_beyond(side: int, d: int, stretch: int, key: int, bits: int) -> None:
    """Take out the nodes whose interval begins or ends in a stretch and does not have a key in it."""
    known, laid = load_int(side, CUTS), load_int(side, LAID)
    cuts = load_int(side, CUTS_AT) + 8 * known * d
    begins = load_int(side, BEGINS_AT) + 16 * d * (known + 3)
    ids = load_int(side, ENDS_AT) + 8 * d * laid
    values = load_int(side, END_VALUES_AT) + 16 * d * laid
    first, last = load_int(begins, stretch), load_int(begins, stretch + 1)
    guess = _guess(cuts, known, stretch, first, last, key)
    _clear(ids, first_above(values, first, last, guess, key), last, bits)
    begins += 8 * (known + 3)
    ids += 4 * laid
    values += 8 * laid
    first, last = load_int(begins, stretch), load_int(begins, stretch + 1)
    guess = _guess(cuts, known, stretch, first, last, key)
    _clear(ids, first, first_above(values, first, last, guess, key - 1), bits)


@kernel()
def _ask_ahead(side: int, d: int, stretch: int, key: int) -> None:
    """Have fetched where the ends of a stretch are searched first, and the nodes that are taken out."""
    known, laid = load_int(side, CUTS), load_int(side, LAID)
    begins = load_int(side, BEGINS_AT) + 16 * d * (known + 3)
    ids = load_int(side, ENDS_AT) + 8 * d * laid
    values = load_int(side, END_VALUES_AT) + 16 * d * laid
    for _ in range(2):
        first, last = load_int(begins, stretch), load_int(begins, stretch + 1)
        guess = _guess(load_int(side, CUTS_AT) + 8 * known * d, known, stretch, first, last, key)
        for line in range(-_LINE, 2 * _LINE, _LINE):
            prefetch(values + 8 * guess + line)
        prefetch(ids + 4 * guess)
        begins += 8 * (known + 3)
        ids += 4 * laid
        values += 8 * laid


@kernel()
def _ask_for_strips(frame: int, side: int, keys: int, stretches: int) -> None:
    """Note the stretch that each key is in, and have what is gone through for it fetched."""
    cuts, known, words = load_int(side, CUTS_AT), load_int(side, CUTS), load_int(frame, STRIP_WORDS)
    for d in range(load_int(side, DIMENSIONS)):
        key = load_int(keys, d)
        stretch = stretch_of(cuts + 8 * known * d, known, key)
        store_int(stretches, d, stretch)
        strip = load_int(side, STRIPS_AT) + 8 * words * (d * (known + 2) + stretch)
        for line in range(strip, strip + _AHEAD * _LINE, _LINE):
            prefetch(line)
        if stretch > 0:
            _ask_ahead(side, d, stretch, key)


@kernel()
def _lay_common(frame: int, side: int, keys: int, bits: int) -> None:
    """The nodes whose box has all keys in it, as bits."""
    known, words = load_int(side, CUTS), load_int(frame, STRIP_WORDS)
    dimensions, stretches = load_int(side, DIMENSIONS), bits + 8 * words
    _ask_for_strips(frame, side, keys, stretches)
    for d in range(dimensions):
        strip = d * (known + 2) + load_int(stretches, d)
        strip = load_int(side, STRIPS_AT) + 8 * words * strip
        if d == 0:
            for word in range(words):
                store_int(bits, word, load_int(strip, word))
        else:
            for word in range(words):
                store_int(bits, word, load_int(bits, word) & load_int(strip, word))
    for d in range(dimensions):
        if load_int(stretches, d) > 0:
            _take_out_beyond(side, d, load_int(stretches, d), load_int(keys, d), bits)


@kernel()
def _list_bits(bits: int, words: int, out: int) -> int:
    """The numbers of the bits that are set, listed; how many. Most words have one or none: the first
    is written without a branch."""
    found = np.int64(0)
    for word in range(words):
        some = load_int(bits, word)
        store_int(out, found, 64 * word + lowest(some))
        found += some != 0
        some = without_lowest(some)
        while some != 0:
            store_int(out, found, 64 * word + lowest(some))
            found += 1
            some = without_lowest(some)
    return found


@kernel()
def _find_all(frame: int, out: int) -> int:
    """All nodes that see anything: nothing is asked of an input."""
    since, found = load_int(frame, SINCE_AT), np.int64(0)
    for node in range(64 * load_int(frame, STRIP_WORDS)):
        if load_int(since, node) != NEVER:
            store_int(out, found, node)
            found += 1
    return found


@kernel()
def find_in_strips(frame: int, input_: int, bits: int, out: int) -> int:
    """The nodes that want the event whose keys are read; how many. `bits`: room for as many words as
    a strip has, and one for each dimension."""
    side, keys = side_of(frame, input_), keys_at(frame, input_)
    since = load_int(frame, SINCE_AT)
    if load_int(side, DIMENSIONS) == 0:
        return _find_all(frame, out)
    _lay_common(frame, side, keys, bits)
    found = _list_bits(bits, load_int(frame, STRIP_WORDS), out)
    if load_int(side, EXTRAS_AT) != 0:
        listed, found = found, np.int64(0)
        for k in range(listed):
            node = load_int(out, k)
            store_int(out, found, node)
            found += passes(side, node, keys)
    recent = load_int(side, RECENT_AT)
    for place in range(load_int(side, RECENT)):
        node = load_int(recent, place)
        if wanted_by(side, node, keys) and load_int(since, node) != NEVER:
            store_int(out, found, node)
            found += 1
    return found


@kernel((WORDS, WORDS, ROWS, WORDS))
def lay_strips(cuts: np.ndarray, nodes: np.ndarray, boxes: np.ndarray, strips: np.ndarray) -> None:
    """Put nodes into the strips of all dimensions. `boxes`: of all nodes, lo and hi by dimension."""
    dimensions = boxes.shape[1] // 2
    known = cuts.shape[0] // dimensions
    rows = known + 2
    words = strips.shape[0] // (dimensions * rows)
    at = address(cuts)
    for k in range(nodes.shape[0]):
        node = nodes[k]
        bit = np.int64(1) << np.int64(node & 63)
        for d in range(dimensions):
            lo, hi = boxes[node, 2 * d], boxes[node, 2 * d + 1]
            if lo > hi:
                continue
            own = at + 8 * known * d
            first, last = stretch_of(own, known, lo), stretch_of(own, known, hi)
            for stretch in range(first, last + 1):
                strips[(d * rows + stretch) * words + (node >> 6)] |= bit


@kernel((WORDS, WORDS, types.int64))
def clear_strips(nodes: np.ndarray, strips: np.ndarray, words: int) -> None:
    """Take nodes out of all strips, which have so many words each."""
    for k in range(nodes.shape[0]):
        node = nodes[k]
        kept = ~(np.int64(1) << np.int64(node & 63))
        for row in range(strips.shape[0] // words):
            strips[row * words + (node >> 6)] &= kept
