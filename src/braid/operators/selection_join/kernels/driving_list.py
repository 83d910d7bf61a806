"""The list of the event that drives, gone through once for each event that it is combined with.

The boxes of its nodes lie anywhere in memory. When the list is first gone through they are copied to
one place, all ends of a dimension side by side: several are then compared at once, and places in the
list are narrowed from one dimension to the next without a branch for any of them. Where a tree is
searched its codes are taken, which are half as long as keys (`box_tree.py`).
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.runtime import kernel, load_half, load_int, prefetch, store_half, store_int
from braid.operators.core.kernels.node_sets import lowest, without_lowest
from braid.operators.selection_join.kernels.box_tree import (
    ASKED_AT,
    AT_ONCE,
    CODE_WORDS,
    CODED_AT,
    CODES_AT,
    EXACT,
    HIGHEST_CODE,
    NULL_CODE,
    code_of,
    eight_inside,
    move_together,
)
from braid.operators.selection_join.kernels.box_tree import DIMENSIONS as TREE_DIMENSIONS
from braid.operators.selection_join.kernels.boxes import (
    BOXES_AT,
    DIMENSIONS,
    FIRST_DIMENSION,
    FIRST_NUMBER,
    NEAR_AT,
    NEAR_OF,
    NEAR_ROOM,
    TREE_AT,
    in_box,
    passes,
)

#: Boxes are asked for so many nodes ahead of their use.
_AHEAD = 16
_LINE = 64


@kernel()
def _room_near(side: int, words: int) -> int:
    """Where boxes are laid side by side, with room for so many words."""
    if words > load_int(side, NEAR_ROOM):
        store_int(side, NEAR_ROOM, 2 * words)
        store_int(side, NEAR_AT, resized(load_int(side, NEAR_AT), 2 * words))
    return load_int(side, NEAR_AT)


@kernel()
def _ask_ahead(boxes: int, size: int, kind: int, at: int, k: int) -> None:
    """Have the box of a node that comes later in a list fetched; boxes have so many bytes."""
    ahead = boxes + size * load_int(at, min(k + _AHEAD, kind - 1))
    prefetch(ahead)
    prefetch(ahead + min(size - 1, _LINE))


@kernel()
def _all_places(kind: int, out: int) -> int:
    for place in range(kind):
        store_int(out, place, place)
    return np.int64(kind)


# ---- keys ----


@kernel()
def _lay_keys(side: int, kind: int, at: int) -> None:
    size = 2 * load_int(side, DIMENSIONS)
    near, boxes = _room_near(side, kind * size), load_int(side, BOXES_AT)
    for k in range(kind):
        _ask_ahead(boxes, 8 * size, kind, at, k)
        box = boxes + 8 * size * load_int(at, k)
        for word in range(size):
            store_int(near, word * kind + k, load_int(box, word))


@kernel()
def _narrow_keys(side: int, keys: int, kind: int, out: int) -> int:
    """The places of a list whose boxes have these keys, written to `out`: how many."""
    near, dimensions = load_int(side, NEAR_AT), load_int(side, DIMENSIONS)
    second = min(dimensions - 1, 1)
    key, other = load_int(keys, 0), load_int(keys, second)
    highs, least = near + 8 * kind, near + 16 * second * kind
    greatest = least + 8 * kind
    for place in range(kind):
        inside = (load_int(near, place) <= key) & (key <= load_int(highs, place))
        inside &= (load_int(least, place) <= other) & (other <= load_int(greatest, place))
        store_int(out, place, np.int64(inside))
    left = move_together(kind, out)
    for d in range(2, dimensions):
        lows, key, count = near + 16 * d * kind, load_int(keys, d), np.int64(0)
        highs = lows + 8 * kind
        for c in range(left):
            place = load_int(out, c)
            store_int(out, count, place)
            count += (load_int(lows, place) <= key) & (key <= load_int(highs, place))
        left = count
    return left


# ---- codes ----


@kernel()
def _row(kind: int) -> int:
    """From one end of the nodes of a list to the next: whole words of bits, and a line more, since ends
    that lie a power of two apart would want the same places of a cache."""
    return ((kind + 63) & ~63) + _LINE // 4


@kernel()
def _lay_codes(tree: int, side: int, kind: int, at: int) -> None:
    size, row = 2 * load_int(side, DIMENSIONS), _row(kind)
    near, whole = _room_near(side, row * size // 2), 8 * load_int(tree, TREE_DIMENSIONS)
    boxes = load_int(tree, CODED_AT) + 8 * load_int(side, FIRST_DIMENSION)
    for k in range(kind):
        _ask_ahead(boxes, whole, kind, at, k)
        box = boxes + whole * load_int(at, k)
        for end in range(size):
            store_half(near, end * row + k, load_half(box, end))
    for k in range(kind, row):  # nothing is in what is nobody's
        store_half(near, k, HIGHEST_CODE)
        store_half(near, row + k, NULL_CODE)


@kernel()
def _narrow_codes(tree: int, side: int, keys: int, kind: int, out: int) -> int:
    """As with keys, for as many places at once as a word has bits."""
    near, dimensions, row = load_int(side, NEAR_AT), load_int(side, DIMENSIONS), _row(kind)
    codes = load_int(tree, CODES_AT) + 8 * CODE_WORDS * load_int(side, FIRST_DIMENSION)
    asked, left = load_int(tree, ASKED_AT), np.int64(0)
    for d in range(dimensions):
        store_int(asked, d, code_of(codes + 8 * CODE_WORDS * d, load_int(keys, d)))
    for block in range(0, kind, 64):
        inside = np.int64(-1)
        for d in range(dimensions):
            code, lows, bits = load_int(asked, d), near + 4 * (2 * d * row + block), np.int64(0)
            for k in range(0, 64, AT_ONCE):
                bits |= eight_inside(lows + 4 * k, lows + 4 * (row + k), code) << np.int64(k)
            inside &= bits
            if inside == 0:
                break
        while inside != 0:
            store_int(out, left, block + lowest(inside))
            left += 1
            inside = without_lowest(inside)
    return left


@kernel()
def ask_near(frame: int, side: int, keys: int, kind: int, at: int, out: int) -> int:
    """The nodes of the list of the event that drives that want an event with these keys."""
    tree, exact = load_int(frame, TREE_AT), True
    fresh = load_int(side, NEAR_OF) != load_int(frame, FIRST_NUMBER)
    store_int(side, NEAR_OF, load_int(frame, FIRST_NUMBER))
    if load_int(side, DIMENSIONS) == 0:
        left = _all_places(kind, out)
    elif tree == 0:
        if fresh:
            _lay_keys(side, kind, at)
        left = _narrow_keys(side, keys, kind, out)
    else:
        if fresh:
            _lay_codes(tree, side, kind, at)
        left, exact = _narrow_codes(tree, side, keys, kind, out), load_int(tree, EXACT) != 0
    count = np.int64(0)
    for c in range(left):
        node = load_int(at, load_int(out, c))
        if (exact or in_box(side, node, keys)) and passes(side, node, keys):
            store_int(out, count, node)
            count += 1
    return count
