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

from typing import Annotated

import numpy as np
from numba import types

from braid.jit.records import Halves, Record, Words, i64, record
from braid.jit.runtime import ROWS, WORDS, address, kernel, prefetch
from braid.operators.core.kernels.clauses import NULL_KEY, atom_holds
from braid.operators.core.kernels.keys import key_of
from braid.operators.core.kernels.node_sets import lowest, without_lowest
from braid.operators.join.kernels.window_covers import WindowFrame
from braid.operators.selection_join.kernels.box_tree import Tree

#: How members are found: every combination by itself; of the event that comes, then of the others
#: among these; or by what was found when each event came.
NAIVE, PARTIAL, OWN = range(3)

#: The key of the time at which an event starts.
START_MODE = 4
#: Lines of a strip that are fetched before it is gone through, and their bytes.
_AHEAD, _LINE = 8, 64
#: Ends that are looked at first on either side of where one is guessed to be.
_NEAR = 8
#: Since when a number belongs to a node that sees nothing: never.
NEVER = np.int64(9223372036854775807)


@record
class Dimension(Record):
    """A column of an input, and how its key is made (`operators/core/kernels/keys.py`)."""

    column: i64
    mode: i64


@record
class Interval(Record):
    """The keys of a dimension that a node asks for, lo and hi; none, if lo is above hi."""

    lo: i64
    hi: i64


@record
class Extra(Record):
    """The tests of a node that are no box: the first, and how many there are."""

    first: i64
    count: i64


@record
class Test(Record):
    """A test of a key of an input that is no interval (`operators/core/kernels/clauses.py`)."""

    dimension: i64
    kind: i64
    lo: i64
    hi: i64


@record
class Side(Record):
    """What nodes ask of an input, and the lists of its held events."""

    #: The number of the first dimension among those of all inputs.
    first_dimension: i64
    dimensions: i64
    columns: Dimension
    #: The box of each node, one interval for each dimension.
    boxes: Interval
    #: For each dimension, the cuts between stretches.
    cuts: Words
    cut_count: i64
    strips: Words
    #: For each dimension, the nodes that are laid in order of lo, then in order of hi, these ends, and
    #: where each stretch begins in both.
    ends: Halves
    end_values: Words
    begins: Words
    laid: i64
    #: The nodes that came after strips were laid.
    recent: Words
    recent_length: i64
    #: One for each node; 0: no node has a test.
    extras: Extra
    tests: Test
    values: Words
    #: The lists of held events, in a ring: its room, the end of the newest and the begin of the oldest.
    listed: Halves
    listed_length: i64
    written: i64
    tail: i64
    #: The boxes of the nodes of one list side by side, and the number of that list.
    near: Words
    near_room: i64
    near_of: i64


@record
class Counts(Record):
    """What the loop counts: searches for the nodes of an event and the nodes that they found,
    combinations, lists that were kept and that were not, events, those that had anything to combine
    with, and what these had."""

    first_steps: i64
    first_found: i64
    combinations: i64
    kept: i64
    not_kept: i64
    arrivals: i64
    partnered: i64
    candidates: i64


@record
class SelectionFrame(WindowFrame):
    """The frame of a selection join."""

    #: How members are found: NAIVE, PARTIAL or OWN.
    form: i64
    #: One for each input.
    sides: Side
    #: The words of a list of nodes, and of a strip.
    node_room: i64
    strip_words: i64
    #: A list for each level.
    lists: Words
    #: The nodes of the event that drives, as bits.
    marked: Words
    #: For each node: the changes before it came (NEVER: no node has this number), and the time from
    #: which on it sees events.
    since: Words
    births: Words
    #: The keys of the events that are bound, and their ages.
    keys: Words
    ages: Words
    #: How often nodes have gone.
    changes: i64
    tree: Tree
    #: The nodes that want the event that drives, their count (-1: not searched yet), and the number of
    #: the list.
    first_list: Words
    first_count: i64
    first_number: i64
    counts: Annotated[Counts, 1]
    #: Whether nodes have births.
    born_later: i64
    #: The shortest window of each input.
    shortest: Words
    #: The nodes that see the last combination.
    seeing: Words


@kernel()
def keys_of(frame: SelectionFrame, side: Side) -> Words:
    """The keys of the event of an input."""
    return frame.keys.after(side.first_dimension)


@kernel()
def read_keys(frame: SelectionFrame, input_: int, row: Words) -> Words:
    """Make the keys of an event of an input."""
    side, base = frame.sides[input_], frame.stores[input_].base
    keys = keys_of(frame, side)
    for d in range(side.dimensions):
        keys[d] = key_of(row, side.columns[d].column, base, side.columns[d].mode)
    return keys


@kernel()
def in_box(side: Side, node: int, keys: Words) -> bool:
    """Whether an event with these keys is in the box of a node."""
    count = side.dimensions
    box = side.boxes[node * count]
    for d in range(count):
        if keys[d] < box[d].lo or keys[d] > box[d].hi:
            return False
    return True


@kernel()
def passes(side: Side, node: int, keys: Words) -> bool:
    """Whether the tests of a node that are no box hold."""
    if side.extras.address == 0:
        return True
    extra = side.extras[node]
    for t in range(extra.first, extra.first + extra.count):
        test = side.tests[t]
        if not atom_holds(test.kind, keys[test.dimension], test.lo, test.hi, side.values):
            return False
    return True


@kernel()
def wanted_by(side: Side, node: int, keys: Words) -> bool:
    return in_box(side, node, keys) and passes(side, node, keys)


# ---- strips ----


@kernel()
def stretch_of(cuts: Words, count: int, key: int) -> int:
    """The number of the stretch that a key is in; that of NULL is 0."""
    if key == NULL_KEY:
        return np.int64(0)
    low, high = np.int64(0), count
    while low < high:
        middle = (low + high) >> 1
        if cuts[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low + 1


@kernel()
def _clear(ids: Halves, begin: int, end: int, bits: Words) -> None:
    for place in range(begin, end):
        node = ids[place]
        bits[node >> 6] &= ~(np.int64(1) << np.int64(node & 63))


@kernel()
def first_above(values: Words, begin: int, end: int, guess: int, key: int) -> int:
    """The first of some values in order that is above a key, looked for from a guess on: what lies
    near to it has been fetched."""
    step = np.int64(_NEAR)
    if guess < end and values[guess] <= key:
        begin = guess + 1
        while begin + step < end and values[begin + step] <= key:
            begin += step + 1
            step *= 2
        end = min(end, begin + step)
    else:
        end = min(guess, end)
        while end - step > begin and values[end - step] > key:
            end -= step
            step *= 2
        begin = max(begin, end - step)
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] <= key:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel()
def cuts_of(side: Side, d: int) -> Words:
    return side.cuts.after(side.cut_count * d)


@kernel()
def _begins(side: Side, d: int, upper: int) -> Words:
    """Where the stretches of a dimension begin among the lower ends, or among the upper ones."""
    return side.begins.after((2 * d + upper) * (side.cut_count + 3))


@kernel()
def _values(side: Side, d: int, upper: int) -> Words:
    """The lower or upper ends of a dimension, in order."""
    return side.end_values.after((2 * d + upper) * side.laid)


@kernel()
def _nodes(side: Side, d: int, upper: int) -> Halves:
    """The nodes of the lower or upper ends of a dimension."""
    return side.ends.after((2 * d + upper) * side.laid)


@kernel()
def _guess(side: Side, d: int, stretch: int, first: int, last: int, key: int) -> int:
    """Where a key may lie among the ends of its stretch: as far from the first as from the cut."""
    if stretch < 2 or stretch > side.cut_count:
        return (first + last) >> 1
    cuts = cuts_of(side, d)
    below, above = float(cuts[stretch - 2]), float(cuts[stretch - 1])
    if above <= below:  # neighbours that are one as a float
        return first
    return first + np.int64((float(key) - below) / (above - below) * float(last - first))


@kernel()
def _take_out_beyond(side: Side, d: int, stretch: int, key: int, bits: Words) -> None:
    """Take out the nodes whose interval begins or ends in a stretch and does not have a key in it."""
    begins, values, nodes = _begins(side, d, 0), _values(side, d, 0), _nodes(side, d, 0)
    first, last = begins[stretch], begins[stretch + 1]
    guess = _guess(side, d, stretch, first, last, key)
    _clear(nodes, first_above(values, first, last, guess, key), last, bits)
    begins, values, nodes = _begins(side, d, 1), _values(side, d, 1), _nodes(side, d, 1)
    first, last = begins[stretch], begins[stretch + 1]
    guess = _guess(side, d, stretch, first, last, key)
    _clear(nodes, first, first_above(values, first, last, guess, key - 1), bits)


@kernel()
def _ask_ahead(side: Side, d: int, stretch: int, key: int) -> None:
    """Have fetched where the ends of a stretch are searched first, and the nodes that are taken out."""
    for upper in range(2):
        begins, values = _begins(side, d, upper), _values(side, d, upper)
        guess = _guess(side, d, stretch, begins[stretch], begins[stretch + 1], key)
        for line in range(-_LINE, 2 * _LINE, _LINE):
            prefetch(values + (8 * guess + line))
        prefetch(_nodes(side, d, upper).after(guess))


@kernel()
def _strip(frame: SelectionFrame, side: Side, d: int, stretch: int) -> Words:
    return side.strips.after(frame.strip_words * (d * (side.cut_count + 2) + stretch))


@kernel()
def _ask_for_strips(frame: SelectionFrame, side: Side, keys: Words, stretches: Words) -> None:
    """Note the stretch that each key is in, and have what is gone through for it fetched."""
    for d in range(side.dimensions):
        key = keys[d]
        stretch = stretch_of(cuts_of(side, d), side.cut_count, key)
        stretches[d] = stretch
        strip = _strip(frame, side, d, stretch).address
        for line in range(strip, strip + _AHEAD * _LINE, _LINE):
            prefetch(line)
        if stretch > 0:
            _ask_ahead(side, d, stretch, key)


@kernel()
def _lay_common(frame: SelectionFrame, side: Side, keys: Words, bits: Words) -> None:
    """The nodes whose box has all keys in it, as bits."""
    words, dimensions = frame.strip_words, side.dimensions
    stretches = bits.after(words)
    _ask_for_strips(frame, side, keys, stretches)
    for d in range(dimensions):
        strip = _strip(frame, side, d, stretches[d])
        if d == 0:
            for word in range(words):
                bits[word] = strip[word]
        else:
            for word in range(words):
                bits[word] &= strip[word]
    for d in range(dimensions):
        if stretches[d] > 0:
            _take_out_beyond(side, d, stretches[d], keys[d], bits)


@kernel()
def _list_bits(bits: Words, words: int, out: Words) -> int:
    """The numbers of the bits that are set, listed; how many. Most words have one or none: the first
    is written without a branch."""
    found = np.int64(0)
    for word in range(words):
        some = bits[word]
        out[found] = 64 * word + lowest(some)
        found += some != 0
        some = without_lowest(some)
        while some != 0:
            out[found] = 64 * word + lowest(some)
            found += 1
            some = without_lowest(some)
    return found


@kernel()
def _find_all(frame: SelectionFrame, out: Words) -> int:
    """All nodes that see anything: nothing is asked of an input."""
    found = np.int64(0)
    for node in range(64 * frame.strip_words):
        if frame.since[node] != NEVER:
            out[found] = node
            found += 1
    return found


@kernel()
def find_in_strips(frame: SelectionFrame, side: Side, keys: Words, bits: Words, out: Words) -> int:
    """The nodes that want an event with these keys; how many. `bits`: room for as many words as a
    strip has, and one for each dimension."""
    if side.dimensions == 0:
        return _find_all(frame, out)
    _lay_common(frame, side, keys, bits)
    found = _list_bits(bits, frame.strip_words, out)
    if side.extras.address != 0:
        listed, found = found, np.int64(0)
        for k in range(listed):
            node = out[k]
            out[found] = node
            found += passes(side, node, keys)
    for place in range(side.recent_length):
        node = side.recent[place]
        if wanted_by(side, node, keys) and frame.since[node] != NEVER:
            out[found] = node
            found += 1
    return found


@kernel((WORDS, WORDS, ROWS, WORDS))
def lay_strips(cuts: np.ndarray, nodes: np.ndarray, boxes: np.ndarray, strips: np.ndarray) -> None:
    """Put nodes into the strips of all dimensions. `boxes`: of all nodes, lo and hi by dimension."""
    dimensions = boxes.shape[1] // 2
    known = cuts.shape[0] // dimensions
    rows = known + 2
    words = strips.shape[0] // (dimensions * rows)
    at = Words(address(cuts))
    for k in range(nodes.shape[0]):
        node = nodes[k]
        bit = np.int64(1) << np.int64(node & 63)
        for d in range(dimensions):
            lo, hi = boxes[node, 2 * d], boxes[node, 2 * d + 1]
            if lo > hi:
                continue
            own = at.after(known * d)
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
