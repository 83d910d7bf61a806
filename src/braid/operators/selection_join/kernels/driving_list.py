"""The list of the event that drives, gone through once for each event that it is combined with.

The boxes of its nodes lie anywhere in memory. When the list is first gone through they are copied to
one place, all ends of a dimension side by side: several are then compared at once, and places in the
list are narrowed from one dimension to the next without a branch for any of them. Where a tree is
searched its codes are taken, which are half as long as keys (`box_tree.py`).
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.records import Halves, Words
from braid.jit.runtime import kernel, prefetch
from braid.operators.core.kernels.node_sets import lowest, without_lowest
from braid.operators.selection_join.kernels.box_tree import (
    AT_ONCE,
    HIGHEST_CODE,
    NULL_CODE,
    Tree,
    code_of,
    eight_inside,
    move_together,
)
from braid.operators.selection_join.kernels.boxes import SelectionFrame, Side, in_box, passes

#: Boxes are asked for so many nodes ahead of their use.
_AHEAD = 16
_LINE = 64


@kernel()
def _room_near(side: Side, words: int) -> Words:
    """Where boxes are laid side by side, with room for so many words."""
    if words > side.near_room:
        side.near_room = 2 * words
        side.near = Words(resized(side.near, side.near_room))
    return side.near


@kernel()
def _ask_ahead(boxes: int, size: int, kind: int, nodes: Words, k: int) -> None:
    """Have the box of a node that comes later in a list fetched; boxes have so many bytes."""
    ahead = boxes + size * nodes[min(k + _AHEAD, kind - 1)]
    prefetch(ahead)
    prefetch(ahead + min(size - 1, _LINE))


@kernel()
def _all_places(kind: int, out: Words) -> int:
    for place in range(kind):
        out[place] = place
    return np.int64(kind)


# ---- keys ----


@kernel()
def _lay_keys(side: Side, kind: int, nodes: Words) -> None:
    size, boxes = 2 * side.dimensions, Words(side.boxes)
    near = _room_near(side, kind * size)
    for k in range(kind):
        _ask_ahead(boxes.address, 8 * size, kind, nodes, k)
        box = boxes.after(size * nodes[k])
        for word in range(size):
            near[word * kind + k] = box[word]


@kernel()
def _narrow_keys(side: Side, keys: Words, kind: int, out: Words) -> int:
    """The places of a list whose boxes have these keys, written to `out`: how many."""
    near, dimensions = side.near, side.dimensions
    second = min(dimensions - 1, 1)
    key, other = keys[0], keys[second]
    highs, least = near.after(kind), near.after(2 * second * kind)
    greatest = least.after(kind)
    for place in range(kind):
        inside = (near[place] <= key) & (key <= highs[place])
        inside &= (least[place] <= other) & (other <= greatest[place])
        out[place] = np.int64(inside)
    left = move_together(kind, out)
    for d in range(2, dimensions):
        lows, key, count = near.after(2 * d * kind), keys[d], np.int64(0)
        highs = lows.after(kind)
        for c in range(left):
            place = out[c]
            out[count] = place
            count += (lows[place] <= key) & (key <= highs[place])
        left = count
    return left


# ---- codes ----


@kernel()
def _row(kind: int) -> int:
    """From one end of the nodes of a list to the next: whole words of bits, and a line more, since ends
    that lie a power of two apart would want the same places of a cache."""
    return ((kind + 63) & ~63) + _LINE // 4


@kernel()
def _lay_codes(tree: Tree, side: Side, kind: int, nodes: Words) -> None:
    size, row, whole = 2 * side.dimensions, _row(kind), 2 * tree.dimensions
    near = Halves(_room_near(side, row * size // 2))
    boxes = tree.coded.after(2 * side.first_dimension)
    for k in range(kind):
        _ask_ahead(boxes.address, 4 * whole, kind, nodes, k)
        box = boxes.after(whole * nodes[k])
        for end in range(size):
            near[end * row + k] = box[end]
    for k in range(kind, row):  # nothing is in what is nobody's
        near[k] = HIGHEST_CODE
        near[row + k] = NULL_CODE


@kernel()
def _narrow_codes(tree: Tree, side: Side, keys: Words, kind: int, out: Words) -> int:
    """As with keys, for as many places at once as a word has bits."""
    near, dimensions, row = Halves(side.near), side.dimensions, _row(kind)
    codings, asked, left = tree.codings[side.first_dimension], tree.asked, np.int64(0)
    for d in range(dimensions):
        asked[d] = code_of(codings[d], keys[d])
    for block in range(0, kind, 64):
        inside = np.int64(-1)
        for d in range(dimensions):
            code, lows, bits = asked[d], near.after(2 * d * row + block), np.int64(0)
            for k in range(0, 64, AT_ONCE):
                bits |= eight_inside(lows.after(k), lows.after(row + k), code) << np.int64(k)
            inside &= bits
            if inside == 0:
                break
        while inside != 0:
            out[left] = block + lowest(inside)
            left += 1
            inside = without_lowest(inside)
    return left


@kernel()
def ask_near(
    frame: SelectionFrame, side: Side, keys: Words, kind: int, nodes: Words, out: Words
) -> int:
    """The nodes of the list of the event that drives that want an event with these keys."""
    tree, exact = frame.tree, True
    fresh = side.near_of != frame.first_number
    side.near_of = frame.first_number
    if side.dimensions == 0:
        left = _all_places(kind, out)
    elif tree.address == 0:
        if fresh:
            _lay_keys(side, kind, nodes)
        left = _narrow_keys(side, keys, kind, out)
    else:
        if fresh:
            _lay_codes(tree, side, kind, nodes)
        left, exact = _narrow_codes(tree, side, keys, kind, out), tree.exact != 0
    count = np.int64(0)
    for c in range(left):
        node = nodes[out[c]]
        if (exact or in_box(side, node, keys)) and passes(side, node, keys):
            out[count] = node
            count += 1
    return count
