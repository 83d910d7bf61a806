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

from braid.jit.runtime import WORDS, address, kernel, load_half, load_int, store_half, store_int
from braid.operators.selection_join.kernels.box_tree import (
    APART,
    CODE_ROWS,
    CODES,
    COUNT,
    DIMENSIONS,
    FAN,
    HIGHEST_CODE,
    IS_LEAF,
    MEMBERS,
    MORE,
    NULL_CODE,
    PARENT,
    REGIONS_AT,
    ROOT,
    TOGETHER,
    TURN,
    belongs,
    box_of,
    copy_entry,
    new_page,
    page_at,
    place_in,
    put_entry,
    target_of,
)

_LEAST, _GREATEST = np.int64(NULL_CODE), np.int64(HIGHEST_CODE)


@kernel()
def _region(tree: int, page: int) -> int:
    """Where the region of a page is: least and greatest value of each of the 2d dimensions."""
    return load_int(tree, REGIONS_AT) + page * (32 * load_int(tree, DIMENSIONS))


@kernel()
def _show_region(tree: int, page: int, box: int, apart: int) -> None:
    """The box outside of which nothing in a region is wanted."""
    region = _region(tree, page)
    for d in range(load_int(tree, DIMENSIONS)):
        store_half(box, apart * 2 * d, load_int(region, 4 * d))
        store_half(box, apart * (2 * d + 1), load_int(region, 4 * d + 3))


@kernel()
def _value(at: int, entry: int, k: int) -> int:
    """What the point of an entry has in one of the 2d dimensions."""
    return np.int64(load_half(box_of(at, entry), APART * k))


@kernel()
def _has(tree: int, page: int, point: int) -> bool:
    region = _region(tree, page)
    for k in range(2 * load_int(tree, DIMENSIONS)):
        value = load_half(point, TOGETHER * k)
        if value < load_int(region, 2 * k) or value > load_int(region, 2 * k + 1):
            return False
    return True


@kernel()
def _between(least: int, greatest: int) -> int:
    """A value above the least and not above the greatest, in the middle of them."""
    return (least >> 1) + (greatest >> 1) + (least & greatest & 1) + 1


@kernel()
def _halve(tree: int, page: int, other: int, k: int, value: int) -> None:
    """Give another page the part of a region from a value on."""
    region, beside = _region(tree, page), _region(tree, other)
    for word in range(4 * load_int(tree, DIMENSIONS)):
        store_int(beside, word, load_int(region, word))
    store_int(region, 2 * k + 1, value - 1)
    store_int(beside, 2 * k, value)


@kernel()
def _move(tree: int, page: int, other: int, k: int, value: int) -> None:
    """Move what is in the region of another page to it."""
    at, beside = page_at(tree, page), page_at(tree, other)
    leaf, kept, moved = load_int(at, IS_LEAF) != 0, np.int64(0), np.int64(0)
    for e in range(load_int(at, COUNT)):
        target = target_of(at, e)
        if leaf:
            own = _value(at, e, k)
        else:
            own = load_int(_region(tree, target), 2 * k)
        if own >= value:
            copy_entry(tree, at, e, beside, moved)
            moved += 1
            belongs(tree, other, target)
        else:
            if e != kept:
                copy_entry(tree, at, e, at, kept)
            kept += 1
    store_int(at, COUNT, kept)
    store_int(beside, COUNT, moved)


@kernel()
def _sample(tree: int, page: int) -> int:
    """One of the further pages of a page, whose points are all alike, that has any; 0: none."""
    more = load_int(page_at(tree, page), MORE)
    while more >= 0:
        if load_int(page_at(tree, more), COUNT) > 0:
            return page_at(tree, more)
        more = load_int(page_at(tree, more), MORE)
    return np.int64(0)


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
def _turn(tree: int, page: int) -> int:
    """The next turn of a dimension in which the points of a page differ; -1: none."""
    at, both, sample = page_at(tree, page), 2 * load_int(tree, DIMENSIONS), _sample(tree, page)
    for step in range(both):
        turn = (load_int(at, TURN) + step) % both
        k = _in_turn(turn, both)
        first = _value(at, 0, k)
        if sample != 0 and _value(sample, 0, k) != first:
            return turn
        for e in range(1, load_int(at, COUNT)):
            if _value(at, e, k) != first:
                return turn
    return np.int64(-1)


@kernel()
def _middle_of(tree: int, page: int, k: int) -> int:
    at, sample = page_at(tree, page), _sample(tree, page)
    least, greatest = _GREATEST, _LEAST
    if sample != 0:
        least = greatest = _value(sample, 0, k)
    for e in range(load_int(at, COUNT)):
        value = _value(at, e, k)
        least, greatest = min(least, value), max(greatest, value)
    return _between(least, greatest)


@kernel()
def _balance(tree: int, at: int, k: int, value: int) -> int:
    """How many regions of a page of the directory lie on the smaller side of an edge; -1 if one
    crosses it."""
    below, count = np.int64(0), load_int(at, COUNT)
    for e in range(count):
        region = _region(tree, target_of(at, e))
        if load_int(region, 2 * k + 1) < value:
            below += 1
        elif load_int(region, 2 * k) < value:
            return np.int64(-1)
    return min(below, count - below)


@kernel()
def _divide_directory(tree: int, page: int, other: int) -> None:
    """Along the edge that leaves about as many regions on both sides; the edge along which the
    region was first halved is crossed by none."""
    at, best, chosen, edge = page_at(tree, page), np.int64(0), np.int64(0), np.int64(0)
    for k in range(2 * load_int(tree, DIMENSIONS)):
        for e in range(load_int(at, COUNT)):
            value = load_int(_region(tree, target_of(at, e)), 2 * k)
            if value != load_int(_region(tree, page), 2 * k):
                balance = _balance(tree, at, k, value)
                if balance > best:
                    best, chosen, edge = balance, np.int64(k), value
    _halve(tree, page, other, chosen, edge)
    _move(tree, page, other, chosen, edge)


@kernel()
def _divide(tree: int, page: int) -> int:
    """Halve a page; the number of the other half, -1 if all its points are alike."""
    if load_int(page_at(tree, page), IS_LEAF) == 0:
        other = new_page(tree, 0, -1)
        _divide_directory(tree, page, other)
        return other
    turn, both = _turn(tree, page), 2 * load_int(tree, DIMENSIONS)
    if turn < 0:
        return np.int64(-1)
    k, other = _in_turn(turn, both), new_page(tree, 1, -1)
    value = _middle_of(tree, page, k)
    _halve(tree, page, other, k, value)
    _move(tree, page, other, k, value)
    sample, at = _sample(tree, page), page_at(tree, page)
    if sample != 0 and _value(sample, 0, k) >= value:
        store_int(page_at(tree, other), MORE, load_int(at, MORE))
        store_int(at, MORE, -1)
    store_int(page_at(tree, page), TURN, (turn + 1) % both)
    store_int(page_at(tree, other), TURN, (turn + 1) % both)
    return other


@kernel()
def _overflow(tree: int, page: int, box: int) -> None:
    """Divide pages that have one entry too many, from one upwards."""
    while load_int(page_at(tree, page), COUNT) > FAN:
        other = _divide(tree, page)
        if other < 0:
            _add_more(tree, page, box)
            return
        if page == load_int(tree, ROOT):
            top = new_page(tree, 0, -1)
            everything = _region(tree, top)
            for k in range(2 * load_int(tree, DIMENSIONS)):
                store_int(everything, 2 * k, _LEAST)
                store_int(everything, 2 * k + 1, _GREATEST)
            store_int(tree, ROOT, top)
            put_entry(tree, top, page, box, TOGETHER)
        above = load_int(page_at(tree, page), PARENT)
        own = box_of(page_at(tree, above), place_in(tree, above, page))
        _show_region(tree, page, own, APART)
        _show_region(tree, other, box, TOGETHER)
        put_entry(tree, above, other, box, TOGETHER)
        page = above


@kernel()
def _add_more(tree: int, page: int, box: int) -> None:
    """A further page for points that are all alike; the last of them goes there."""
    more = new_page(tree, 1, -1)
    at = page_at(tree, page)
    last = load_int(at, COUNT) - 1
    store_int(at, COUNT, last)
    store_int(page_at(tree, more), MORE, load_int(at, MORE))
    store_int(at, MORE, more)
    put_entry(tree, more, target_of(at, last), box_of(at, last), APART)


@kernel()
def _with_room(tree: int, page: int) -> int:
    """The page, or a further one of it, if its points are alike: one that is not full."""
    more = load_int(page_at(tree, page), MORE)
    while more >= 0:
        if load_int(page_at(tree, more), COUNT) < FAN:
            return more
        more = load_int(page_at(tree, more), MORE)
    return page


@kernel()
def _is_alike(tree: int, page: int, point: int) -> bool:
    """Whether a point is the same as those of the further pages of a page."""
    sample = _sample(tree, page)
    if sample == 0:
        return False
    for word in range(2 * load_int(tree, DIMENSIONS)):
        if _value(sample, 0, word) != load_half(point, TOGETHER * word):
            return False
    return True


@kernel()
def _insert(tree: int, member: int, point: int, box: int) -> None:
    page = load_int(tree, ROOT)
    while load_int(page_at(tree, page), IS_LEAF) == 0:
        at, below = page_at(tree, page), np.int64(-1)
        for e in range(load_int(at, COUNT)):
            target = target_of(at, e)
            if _has(tree, target, point):
                below = target
                break
        page = below
    store_int(tree, MEMBERS, load_int(tree, MEMBERS) + 1)
    if _is_alike(tree, page, point):
        chosen = _with_room(tree, page)
        put_entry(tree, chosen, member, point, TOGETHER)
        if chosen == page and load_int(page_at(tree, page), COUNT) > FAN:
            _add_more(tree, page, box)
        return
    put_entry(tree, page, member, point, TOGETHER)
    _overflow(tree, page, box)


@kernel((WORDS, WORDS, CODE_ROWS, CODES))
def insert_members(
    words: np.ndarray, members: np.ndarray, boxes: np.ndarray, box: np.ndarray
) -> None:
    """One member after the other. `boxes`: of each of them; `box`: room for one."""
    tree = address(words)
    if load_int(tree, ROOT) < 0:
        top = new_page(tree, 1, -1)
        region = _region(tree, top)
        for k in range(2 * load_int(tree, DIMENSIONS)):
            store_int(region, 2 * k, _LEAST)
            store_int(region, 2 * k + 1, _GREATEST)
        store_int(tree, ROOT, top)
    for k in range(members.shape[0]):
        _insert(tree, members[k], address(boxes) + 4 * k * boxes.shape[1], address(box))
