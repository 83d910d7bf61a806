"""A multilevel grid file on points: boxes after the dimension transform (003, section 2.2).

A box of d dimensions is a point of 2d: its lower and its upper ends. The boxes that a point of d
dimensions is in are the points in a range of 2d: lower ends up to it, upper ends from it on. So
nothing overlaps: each page has a *region*, the regions of the pages of a level cover everything, and
a point is in one of them. A full page is halved between the least and the greatest value that its
points have in one of the 2d dimensions, each in its turn; a full page of the directory along an edge
that no region in it crosses. Points that are all alike share a page and further ones of it.

What an entry of the directory says of the pages below is the least lower and the greatest upper end
that its region allows.
"""

from __future__ import annotations

import numpy as np

from braid.jit.records import Halves
from braid.jit.runtime import WORDS, address, kernel
from braid.operators.selection_join.kernels.box_tree import (
    APART,
    CODE_ROWS,
    CODES,
    FAN,
    HIGHEST_CODE,
    NULL_CODE,
    TOGETHER,
    Page,
    Range,
    Tree,
    belongs,
    box_of,
    copy_entry,
    new_page,
    page_at,
    place_in,
    put_entry,
)

_LEAST, _GREATEST = np.int64(NULL_CODE), np.int64(HIGHEST_CODE)


@kernel()
def _region(tree: Tree, page: int) -> Range:
    """The region of a page: the range of each of the 2d dimensions."""
    return tree.regions[2 * tree.dimensions * page]


@kernel()
def _show_region(tree: Tree, page: int, box: Halves, apart: int) -> None:
    """The box outside of which nothing in a region is wanted."""
    region = _region(tree, page)
    for d in range(tree.dimensions):
        box[apart * 2 * d] = region[2 * d].least
        box[apart * (2 * d + 1)] = region[2 * d + 1].greatest


@kernel()
def _value(page: Page, entry: int, k: int) -> int:
    """What the point of an entry has in one of the 2d dimensions."""
    return box_of(page, entry)[APART * k]


@kernel()
def _has(tree: Tree, page: int, point: Halves) -> bool:
    region = _region(tree, page)
    for k in range(2 * tree.dimensions):
        value = point[TOGETHER * k]
        if value < region[k].least or value > region[k].greatest:
            return False
    return True


@kernel()
def _between(least: int, greatest: int) -> int:
    """A value above the least and not above the greatest, in the middle of them."""
    return (least >> 1) + (greatest >> 1) + (least & greatest & 1) + 1


@kernel()
def _halve(tree: Tree, page: int, other: int, k: int, value: int) -> None:
    """Give another page the part of a region from a value on."""
    region, beside = _region(tree, page), _region(tree, other)
    for d in range(2 * tree.dimensions):
        beside[d].least, beside[d].greatest = region[d].least, region[d].greatest
    region[k].greatest = value - 1
    beside[k].least = value


@kernel()
def _move(tree: Tree, page: int, other: int, k: int, value: int) -> None:
    """Move what is in the region of another page to it."""
    at, beside = page_at(tree, page), page_at(tree, other)
    leaf, kept, moved = at.is_leaf != 0, np.int64(0), np.int64(0)
    for e in range(at.count):
        target = at.targets[e]
        if leaf:
            own = _value(at, e, k)
        else:
            own = _region(tree, target)[k].least
        if own >= value:
            copy_entry(tree, at, e, beside, moved)
            moved += 1
            belongs(tree, other, target)
        else:
            if e != kept:
                copy_entry(tree, at, e, at, kept)
            kept += 1
    at.count = kept
    beside.count = moved


@kernel()
def _sample(tree: Tree, page: int) -> Page:
    """One of the further pages of a page, whose points are all alike, that has any; or 0."""
    more = page_at(tree, page).more
    while more >= 0:
        further = page_at(tree, more)
        if further.count > 0:
            return further
        more = further.more
    return Page(0)


@kernel()
def _in_turn(turn: int, both: int) -> int:
    """Of the 2d dimensions the one whose turn it is.

    Not one after the other: there are more of them than levels, so that a tree would be divided in
    those of the first inputs only, and a search with those of another would look at all of it.
    """
    step = 5 * both // 8 + 1
    while _common_divisor(step, both) != 1:
        step += 1
    return turn * step % both


@kernel()
def _common_divisor(a: int, b: int) -> int:
    while b != 0:
        a, b = b, a % b
    return a


@kernel()
def _turn(tree: Tree, page: int) -> int:
    """The next turn of a dimension in which the points of a page differ; -1: none."""
    at, both, sample = page_at(tree, page), 2 * tree.dimensions, _sample(tree, page)
    for step in range(both):
        turn = (at.turn + step) % both
        k = _in_turn(turn, both)
        first = _value(at, 0, k)
        if sample.address != 0 and _value(sample, 0, k) != first:
            return turn
        for e in range(1, at.count):
            if _value(at, e, k) != first:
                return turn
    return np.int64(-1)


@kernel()
def _middle_of(tree: Tree, page: int, k: int) -> int:
    at, sample = page_at(tree, page), _sample(tree, page)
    least, greatest = _GREATEST, _LEAST
    if sample.address != 0:
        least = greatest = _value(sample, 0, k)
    for e in range(at.count):
        value = _value(at, e, k)
        least, greatest = min(least, value), max(greatest, value)
    return _between(least, greatest)


@kernel()
def _balance(tree: Tree, at: Page, k: int, value: int) -> int:
    """How many regions of a page of the directory lie on the smaller side of an edge; -1 if one
    crosses it."""
    below, count = np.int64(0), at.count
    for e in range(count):
        region = _region(tree, at.targets[e])[k]
        if region.greatest < value:
            below += 1
        elif region.least < value:
            return np.int64(-1)
    return min(below, count - below)


@kernel()
def _divide_directory(tree: Tree, page: int, other: int) -> None:
    """Along the edge that leaves about as many regions on both sides; the edge along which the
    region was first halved is crossed by none."""
    at, best, chosen, edge = page_at(tree, page), np.int64(0), np.int64(0), np.int64(0)
    for k in range(2 * tree.dimensions):
        for e in range(at.count):
            value = _region(tree, at.targets[e])[k].least
            if value != _region(tree, page)[k].least:
                balance = _balance(tree, at, k, value)
                if balance > best:
                    best, chosen, edge = balance, np.int64(k), value
    _halve(tree, page, other, chosen, edge)
    _move(tree, page, other, chosen, edge)


@kernel()
def _divide(tree: Tree, page: int) -> int:
    """Halve a page; the number of the other half, -1 if all its points are alike."""
    if page_at(tree, page).is_leaf == 0:
        other = new_page(tree, 0, -1)
        _divide_directory(tree, page, other)
        return other
    turn, both = _turn(tree, page), 2 * tree.dimensions
    if turn < 0:
        return np.int64(-1)
    k, other = _in_turn(turn, both), new_page(tree, 1, -1)
    value = _middle_of(tree, page, k)
    _halve(tree, page, other, k, value)
    _move(tree, page, other, k, value)
    sample, at = _sample(tree, page), page_at(tree, page)
    if sample.address != 0 and _value(sample, 0, k) >= value:
        page_at(tree, other).more = at.more
        at.more = -1
    at.turn = (turn + 1) % both
    page_at(tree, other).turn = (turn + 1) % both
    return other


@kernel()
def _cover_all(tree: Tree, page: int) -> None:
    """Let the region of a page be everything."""
    region = _region(tree, page)
    for d in range(2 * tree.dimensions):
        region[d].least, region[d].greatest = _LEAST, _GREATEST


@kernel()
def _overflow(tree: Tree, page: int, box: Halves) -> None:
    """Divide pages that have one entry too many, from one upwards."""
    while page_at(tree, page).count > FAN:
        other = _divide(tree, page)
        if other < 0:
            _add_more(tree, page, box)
            return
        if page == tree.root:
            top = new_page(tree, 0, -1)
            _cover_all(tree, top)
            tree.root = top
            put_entry(tree, top, page, box, TOGETHER)
        above = page_at(tree, page).parent
        own = box_of(page_at(tree, above), place_in(tree, above, page))
        _show_region(tree, page, own, APART)
        _show_region(tree, other, box, TOGETHER)
        put_entry(tree, above, other, box, TOGETHER)
        page = above


@kernel()
def _add_more(tree: Tree, page: int, box: Halves) -> None:
    """A further page for points that are all alike; the last of them goes there."""
    more = new_page(tree, 1, -1)
    at = page_at(tree, page)
    last = at.count - 1
    at.count = last
    page_at(tree, more).more = at.more
    at.more = more
    put_entry(tree, more, at.targets[last], box_of(at, last), APART)


@kernel()
def _with_room(tree: Tree, page: int) -> int:
    """The page, or a further one of it, if its points are alike: one that is not full."""
    more = page_at(tree, page).more
    while more >= 0:
        if page_at(tree, more).count < FAN:
            return more
        more = page_at(tree, more).more
    return page


@kernel()
def _is_alike(tree: Tree, page: int, point: Halves) -> bool:
    """Whether a point is the same as those of the further pages of a page."""
    sample = _sample(tree, page)
    if sample.address == 0:
        return False
    for word in range(2 * tree.dimensions):
        if _value(sample, 0, word) != point[TOGETHER * word]:
            return False
    return True


@kernel()
def _insert(tree: Tree, member: int, point: Halves, box: Halves) -> None:
    page = tree.root
    while page_at(tree, page).is_leaf == 0:
        at, below = page_at(tree, page), np.int64(-1)
        for e in range(at.count):
            target = at.targets[e]
            if _has(tree, target, point):
                below = target
                break
        page = below
    tree.members += 1
    if _is_alike(tree, page, point):
        chosen = _with_room(tree, page)
        put_entry(tree, chosen, member, point, TOGETHER)
        if chosen == page and page_at(tree, page).count > FAN:
            _add_more(tree, page, box)
        return
    put_entry(tree, page, member, point, TOGETHER)
    _overflow(tree, page, box)


@kernel((Tree.type, WORDS, CODE_ROWS, CODES))
def insert_members(tree: Tree, members: np.ndarray, boxes: np.ndarray, box: np.ndarray) -> None:
    """One member after the other. `boxes`: of each of them; `box`: room for one."""
    room, first = Halves(address(box)), Halves(address(boxes))
    if tree.root < 0:
        top = new_page(tree, 1, -1)
        _cover_all(tree, top)
        tree.root = top
    for k in range(members.shape[0]):
        _insert(tree, members[k], first.after(k * boxes.shape[1]), room)
