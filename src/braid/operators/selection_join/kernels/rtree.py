"""An R-tree on the boxes of members (Guttman; 003 keeps each query as a hypercube in it).

Many members at once are laid out in pages by halving: along the dimension in which the middles of
boxes lie furthest apart. One more goes where the sides of a box grow least, and a page that is
full is divided in the same way as a layout.

Sides are measured in the unit of each dimension: boxes have infinite sides, and dimensions that
have nothing in common. `scales` has the least and the greatest end that is finite.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.records import Halves
from braid.jit.runtime import WORDS, address, kernel
from braid.operators.selection_join.kernels.box_tree import (
    APART,
    CODE_ROWS,
    CODES,
    FAN,
    TOGETHER,
    Page,
    Range,
    Tree,
    belongs,
    box_of,
    copy_box,
    copy_entry,
    new_page,
    page_at,
    place_in,
    put_entry,
)

#: Members of a page that is laid out: there is room for more.
LAID = 208


@kernel()
def _unit(scales: Range, dimension: int, value: int) -> float:
    """Where a value lies between the least and the greatest end of its dimension."""
    least, greatest = scales[dimension].least, scales[dimension].greatest
    if value <= least:
        return 0.0
    if value >= greatest:
        return 1.0
    return (float(value) - float(least)) / (float(greatest) - float(least))


@kernel()
def _growth(box: Halves, new: Halves, dimensions: int, scales: Range) -> float:
    """By how much the sides of the box of an entry would grow if it had to have a new one inside."""
    grown = 0.0
    for d in range(dimensions):
        low, high = box[APART * 2 * d], box[APART * (2 * d + 1)]
        least, greatest = new[TOGETHER * 2 * d], new[TOGETHER * (2 * d + 1)]
        if least < low:
            grown += _unit(scales, d, low) - _unit(scales, d, least)
        if greatest > high:
            grown += _unit(scales, d, greatest) - _unit(scales, d, high)
    return grown


@kernel()
def _widen(box: Halves, apart: int, other: Halves, distant: int, dimensions: int) -> None:
    """Let a box have another one inside; from one end to the next there are so many halves."""
    for d in range(dimensions):
        low, high = apart * 2 * d, apart * (2 * d + 1)
        box[low] = min(box[low], other[distant * 2 * d])
        box[high] = max(box[high], other[distant * (2 * d + 1)])


@kernel()
def _surround(tree: Tree, page: int, box: Halves, apart: int) -> None:
    """The box around all entries of a page."""
    at, dimensions = page_at(tree, page), tree.dimensions
    for e in range(at.count):
        if e == 0:
            copy_box(box_of(at, e), APART, box, apart, dimensions)
        else:
            _widen(box, apart, box_of(at, e), APART, dimensions)


@kernel()
def _middle(at: Page, entry: int, dimension: int, scales: Range) -> float:
    box = box_of(at, entry)
    low, high = box[APART * 2 * dimension], box[APART * (2 * dimension + 1)]
    return _unit(scales, dimension, low) + _unit(scales, dimension, high)


@kernel()
def _longest(tree: Tree, at: Page, scales: Range) -> int:
    """The dimension in which the middles of a page's entries lie furthest apart."""
    best, widest = np.int64(0), -1.0
    for d in range(tree.dimensions):
        least, greatest = 3.0, -1.0
        for e in range(at.count):
            middle = _middle(at, e, d, scales)
            least, greatest = min(least, middle), max(greatest, middle)
        if greatest - least > widest:
            best, widest = np.int64(d), greatest - least
    return best


@kernel()
def _divide(tree: Tree, page: int, scales: Range) -> int:
    """Move half of the entries of a full page to a new one; its number."""
    other = new_page(tree, page_at(tree, page).is_leaf, -1)
    at, beside = page_at(tree, page), page_at(tree, other)
    dimension, count = _longest(tree, at, scales), at.count
    for k in range(1, count):
        # In order of middles, by insertion: a page has few entries. The last place of the other
        # page is free.
        middle = _middle(at, k, dimension, scales)
        copy_entry(tree, at, k, beside, FAN)
        j = k - 1
        while j >= 0 and _middle(at, j, dimension, scales) > middle:
            copy_entry(tree, at, j, at, j + 1)
            j -= 1
        copy_entry(tree, beside, FAN, at, j + 1)
    half = count // 2
    for k in range(half, count):
        copy_entry(tree, at, k, beside, k - half)
        belongs(tree, other, at.targets[k])
    at.count = half
    beside.count = count - half
    return other


@kernel()
def _raise(tree: Tree, scales: Range, box: Halves) -> int:
    """A new topmost page with the present one in it; its number."""
    below = tree.root
    top = new_page(tree, 0, -1)
    _surround(tree, below, box, TOGETHER)
    put_entry(tree, top, below, box, TOGETHER)
    tree.root = top
    return top


@kernel()
def _overflow(tree: Tree, page: int, scales: Range, box: Halves) -> None:
    """Divide pages that have one entry too many, from one upwards."""
    while page_at(tree, page).count > FAN:
        if page == tree.root:
            _raise(tree, scales, box)
        above = page_at(tree, page).parent
        other = _divide(tree, page, scales)
        own = box_of(page_at(tree, above), place_in(tree, above, page))
        _surround(tree, page, own, APART)
        _surround(tree, other, box, TOGETHER)
        put_entry(tree, above, other, box, TOGETHER)
        page = above


@kernel()
def _insert(tree: Tree, member: int, new: Halves, scales: Range, box: Halves) -> None:
    dimensions, page = tree.dimensions, tree.root
    while page_at(tree, page).is_leaf == 0:
        at = page_at(tree, page)
        best, least = np.int64(0), np.inf
        for e in range(at.count):
            growth = _growth(box_of(at, e), new, dimensions, scales)
            if growth < least:
                best, least = np.int64(e), growth
        _widen(box_of(at, best), APART, new, TOGETHER, dimensions)
        page = at.targets[best]
    put_entry(tree, page, member, new, TOGETHER)
    tree.members += 1
    _overflow(tree, page, scales, box)


@kernel((Tree.type, WORDS, CODE_ROWS, Range.type, CODES))
def insert_members(
    tree: Tree, members: np.ndarray, boxes: np.ndarray, scales: Range, box: np.ndarray
) -> None:
    """One member after the other. `boxes`: of each of them; `box`: room for one."""
    room, first = Halves(address(box)), Halves(address(boxes))
    for k in range(members.shape[0]):
        _insert(tree, members[k], first.after(k * boxes.shape[1]), scales, room)


# ---- many at once ----


@kernel()
def _spread(order: np.ndarray, middles: np.ndarray, begin: int, end: int) -> int:
    best, widest = np.int64(0), -1.0
    for d in range(middles.shape[1]):
        least, greatest = 3.0, -1.0
        for k in range(begin, end):
            middle = middles[order[k], d]
            least, greatest = min(least, middle), max(greatest, middle)
        if greatest - least > widest:
            best, widest = np.int64(d), greatest - least
    return best


@kernel()
def _select(
    order: np.ndarray, middles: np.ndarray, d: int, begin: int, end: int, place: int
) -> None:
    """Let the ones with the least middles come before a place (Hoare's selection)."""
    low, high = begin, end - 1
    while low < high:
        pivot = middles[order[(low + high) >> 1], d]
        i, j = low, high
        while i <= j:
            while middles[order[i], d] < pivot:
                i += 1
            while middles[order[j], d] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            return


_MIDDLES = types.Array(types.float64, 2, "C")


@kernel((WORDS, _MIDDLES, types.int64))
def lay_out(order: np.ndarray, middles: np.ndarray, size: int) -> None:
    """Put boxes, given by their middles, in an order in which those of one page are together."""
    begins, ends = np.empty(128, np.int64), np.empty(128, np.int64)
    begins[0], ends[0], depth = 0, order.shape[0], 1
    while depth > 0:
        depth -= 1
        begin, end = begins[depth], ends[depth]
        if end - begin <= size:
            continue
        pages = (end - begin + size - 1) // size
        place = begin + (pages // 2) * size
        _select(order, middles, _spread(order, middles, begin, end), begin, end, place)
        begins[depth], ends[depth] = begin, place
        begins[depth + 1], ends[depth + 1] = place, end
        depth += 2


@kernel((Tree.type, WORDS, CODE_ROWS, CODES))
def fill_pages(tree: Tree, members: np.ndarray, boxes: np.ndarray, box: np.ndarray) -> None:
    """Build a tree of members in an order, page by page and level by level."""
    room, own = Halves(address(box)), Halves(address(boxes))
    first, last = np.int64(0), np.int64(0)
    for k in range(members.shape[0]):
        if k % LAID == 0:
            last = new_page(tree, 1, -1)
        put_entry(tree, last, members[k], own.after(k * boxes.shape[1]), TOGETHER)
    if members.shape[0] == 0:
        last = new_page(tree, 1, -1)
    while last > first:
        above, begin = np.int64(-1), last + 1
        for page in range(first, last + 1):
            if (page - first) % LAID == 0:
                above = new_page(tree, 0, -1)
            _surround(tree, page, room, TOGETHER)
            put_entry(tree, above, page, room, TOGETHER)
        first, last = begin, above
    tree.root = last
    tree.members = members.shape[0]
