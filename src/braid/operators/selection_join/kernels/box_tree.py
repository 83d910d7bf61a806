"""Trees of boxes in pages: what the R-tree and the multilevel grid file have in common.

A page has a head and entries; an entry has a target (a page below, or a member), a mark and a box:
the interval of each dimension outside of which nothing below it is wanted. The two trees differ in
how pages are divided (`rtree.py`, `grid_file.py`), not in how they are searched.

What a search costs is the memory that it goes through. So a page has its boxes by dimension: those
that are asked lie side by side, several entries are compared at once, and the dimensions of other
inputs are not touched. And ends are *codes* of 32 bits, half of what keys are: the code of a key is
its distance from the middle of its dimension, with codes of their own for NULL, for no end, and for
all that is far outside. Where the ends of a dimension lie further apart than that, several keys have
one code; then a search finds too much, and who asks looks at the boxes themselves (`EXACT`).

Partial dimension filtering (003, section 3.3): a search asks some dimensions only, and leaves the
value of a counter in every entry that it passes; a second one asks others, of entries with that
mark alone. The members that the first one has found are a list, which can be gone through instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from braid.jit import types
from braid.jit.memory import resized
from braid.jit.runtime import (
    COMPILED,
    WORDS,
    address,
    kernel,
    load_half,
    load_int,
    prefetch,
    store_half,
    store_int,
)
from braid.jit.types import intrinsic
from braid.operators.core.kernels.clauses import HIGHEST, NULL_KEY
from braid.operators.core.kernels.node_sets import lowest, without_lowest

#: A tree: dimensions, pages and room for them, where they are, the topmost, the counter of marks;
#: where the page of each member is, and its number of members; room for a search; pages looked at;
#: how keys become codes, and room for those of a search; whether no two ends have one code; the codes
#: of the box of each member.
(
    DIMENSIONS,
    PAGES,
    PAGES_ROOM,
    PAGES_AT,
    ROOT,
    MARK,
    PAGE_OF_AT,
    MEMBERS,
    STACK_AT,
    STACK_ROOM,
    LOOKED_AT,
    REGIONS_AT,
    CODES_AT,
    ASKED_AT,
    EXACT,
    CODED_AT,
    TREE_WORDS,
) = range(17)

#: How the keys of a dimension become codes: what is not between two keys is far outside; the others
#: are counted from the middle, in steps of a power of two.
BELOW, ABOVE, MIDDLE, SHIFT, CODE_WORDS = range(5)
#: Codes of NULL, of no lower end and all that is far below, of all that is far above, of no upper end.
NULL_CODE, LOWEST_CODE = -(2**31), -(2**31) + 1
ABOVE_CODE, HIGHEST_CODE = 2**31 - 2, 2**31 - 1

#: The head of a page: entries, whether they are members, the page above, what divides it next, and
#: the page with more of the same (-1: none).
COUNT, IS_LEAF, PARENT, TURN, MORE, HEAD_WORDS = range(6)

#: Entries of a page, and the room for them: one more, before a full page is divided, and as many as
#: are compared at once.
FAN = 256
ROOM = FAN + 8
#: From one end to the next, in halves: of the box of an entry, and of a box by itself.
APART, TOGETHER = ROOM, 1
#: Where marks, targets and boxes are in a page: in words, and in halves.
MARKS, TARGETS, BOXES = HEAD_WORDS, 2 * (HEAD_WORDS + ROOM), 2 * (HEAD_WORDS + ROOM) + ROOM
#: No mark: what was found is gone through as a list.
UNMARKED = -1
#: Entries that are compared at once.
AT_ONCE = 8
#: Bytes that are fetched at once.
_LINE = 64

#: Codes of boxes: of one, and a row for each of several.
CODES = types.Array(types.int32, 1, "C")
CODE_ROWS = types.Array(types.int32, 2, "C")


@kernel()
def page_words(tree: int) -> int:
    return (BOXES + 2 * APART * load_int(tree, DIMENSIONS)) // 2


@kernel()
def page_at(tree: int, page: int) -> int:
    return load_int(tree, PAGES_AT) + page * (8 * page_words(tree))


@kernel()
def target_of(page: int, entry: int) -> int:
    return np.int64(load_half(page, TARGETS + entry))


@kernel()
def box_of(page: int, entry: int) -> int:
    """Where the box of an entry begins; its ends are APART."""
    return page + 4 * (BOXES + entry)


@kernel()
def code_of(codes: int, key: int) -> int:
    if key <= load_int(codes, BELOW):
        return np.int64(NULL_CODE if key == NULL_KEY else LOWEST_CODE)
    if key >= load_int(codes, ABOVE):
        return np.int64(HIGHEST_CODE if key == HIGHEST else ABOVE_CODE)
    return (key - load_int(codes, MIDDLE)) >> load_int(codes, SHIFT)


@kernel()
def new_page(tree: int, is_leaf: int, parent: int) -> int:
    """The number of a page without entries; pages may move."""
    page, room = load_int(tree, PAGES), load_int(tree, PAGES_ROOM)
    if page == room:
        room = max(np.int64(16), 2 * room)
        store_int(tree, PAGES_AT, resized(load_int(tree, PAGES_AT), room * page_words(tree)))
        regions = 4 * load_int(tree, DIMENSIONS)
        store_int(tree, REGIONS_AT, resized(load_int(tree, REGIONS_AT), room * regions))
        store_int(tree, PAGES_ROOM, room)
    store_int(tree, PAGES, page + 1)
    at = page_at(tree, page)
    store_int(at, COUNT, 0)
    store_int(at, IS_LEAF, is_leaf)
    store_int(at, PARENT, parent)
    store_int(at, TURN, 0)
    store_int(at, MORE, -1)
    return page


@kernel()
def copy_box(source: int, apart: int, target: int, distant: int, dimensions: int) -> None:
    """Copy a box; from one end to the next there are so many halves in the one and the other."""
    for end in range(2 * dimensions):
        store_half(target, distant * end, load_half(source, apart * end))


@kernel()
def put_entry(tree: int, page: int, target: int, box: int, apart: int) -> None:
    """Add an entry to a page that has room."""
    at = page_at(tree, page)
    count = load_int(at, COUNT)
    store_int(at, COUNT, count + 1)
    store_half(at, TARGETS + count, target)
    store_int(at, MARKS + count, 0)
    copy_box(box, apart, box_of(at, count), APART, load_int(tree, DIMENSIONS))
    belongs(tree, page, target)


@kernel()
def belongs(tree: int, page: int, target: int) -> None:
    """Note the page that a member, or a page below, is in."""
    if load_int(page_at(tree, page), IS_LEAF) != 0:
        store_int(load_int(tree, PAGE_OF_AT), target, page)
    else:
        store_int(page_at(tree, target), PARENT, page)


@kernel()
def copy_entry(tree: int, at: int, entry: int, other: int, place: int) -> None:
    """Copy an entry of a page to a place in the same or another one."""
    store_half(other, TARGETS + place, load_half(at, TARGETS + entry))
    store_int(other, MARKS + place, load_int(at, MARKS + entry))
    dimensions = load_int(tree, DIMENSIONS)
    copy_box(box_of(at, entry), APART, box_of(other, place), APART, dimensions)


@kernel()
def place_in(tree: int, page: int, target: int) -> int:
    """Where the entry of a target is in its page, or -1."""
    at = page_at(tree, page)
    for e in range(load_int(at, COUNT)):
        if target_of(at, e) == target:
            return np.int64(e)
    return np.int64(-1)


@intrinsic
def _eight_inside(_context: Any, _lows: Any, _highs: Any, _code: Any) -> Any:
    def generate(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        half, word = ir.IntType(32), ir.IntType(64)
        eight = ir.VectorType(half, AT_ONCE)
        first = builder.insert_element(
            ir.Constant(eight, ir.Undefined), builder.trunc(args[2], half), half(0)
        )
        same = ir.Constant(eight, [0] * AT_ONCE)
        code = builder.shuffle_vector(first, ir.Constant(eight, ir.Undefined), same)
        lows, highs = (
            builder.load(builder.inttoptr(at, eight.as_pointer()), align=4) for at in args[:2]
        )
        above = builder.icmp_signed("<=", lows, code)
        inside = builder.and_(above, builder.icmp_signed("<=", code, highs))
        return builder.zext(builder.bitcast(inside, ir.IntType(AT_ONCE)), word)

    return types.int64(types.int64, types.int64, types.int64), generate


if COMPILED:
    eight_inside = _eight_inside
else:

    def eight_inside(lows: int, highs: int, code: int) -> int:
        """Which of eight intervals a code is in, as bits. The compiler does not see by itself that
        eight comparisons are one, and their results the bits of a word."""
        found = 0
        for k in range(AT_ONCE):
            found |= int(load_half(lows, k) <= code <= load_half(highs, k)) << k
        return found


@kernel()
def _marked(page: int, mark: int, left: int, out: int) -> int:
    """Of some entries of a page those that have a mark; how many."""
    found = np.int64(0)
    for c in range(left):
        e = load_int(out, c)
        store_int(out, found, e)
        found += load_int(page, MARKS + e) == mark
    return found


@kernel()
def move_together(count: int, out: int) -> int:
    """The places at which `out` has 1, not 0, written to it: how many."""
    left = np.int64(0)
    for place in range(count):
        inside = load_int(out, place)
        store_int(out, left, place)
        left += inside
    return left


@kernel()
def _ask_all(page: int, asked: int, first: int, last: int, sets: int) -> None:
    """Which entries of a page have the codes of some dimensions in their boxes, as bits.

    Dimension by dimension, as ends lie; 64 entries that none is left of are passed over.
    """
    count = load_int(page, COUNT)
    for block in range(0, count, 64):
        left = min(count - block, np.int64(64))
        store_int(sets, block >> 6, np.int64(-1) if left == 64 else (np.int64(1) << left) - 1)
    lows = page + 4 * (BOXES + 2 * APART * first)
    for d in range(first, last):
        code, some = load_int(asked, d), np.int64(0)
        for block in range(0, count, 64):
            inside = load_int(sets, block >> 6)
            if inside == 0:
                continue
            at, bits = lows + 4 * block, np.int64(0)
            for k in range(0, min(count - block, np.int64(64)), AT_ONCE):
                bits |= eight_inside(at + 4 * k, at + 4 * (APART + k), code) << np.int64(k)
            inside &= bits
            store_int(sets, block >> 6, inside)
            some |= inside
        if some == 0:
            break
        lows += 4 * 2 * APART


@kernel()
def _inside(page: int, asked: int, first: int, last: int, mark: int, out: int) -> int:
    """The entries of a page whose box has the codes of some dimensions, written to `out`: how many.

    `mark`: only entries that have it, unless it is none.
    """
    left, sets = np.int64(0), out + 8 * FAN
    _ask_all(page, asked, first, last, sets)
    for block in range(0, load_int(page, COUNT), 64):
        inside = load_int(sets, block >> 6)
        while inside != 0:
            store_int(out, left, block + lowest(inside))
            left += 1
            inside = without_lowest(inside)
    if mark != UNMARKED:
        left = _marked(page, mark, left, out)
    return left


@kernel()
def _ask_ahead(page: int, first: int) -> None:
    """Have what is looked at first in a page fetched, while another one is looked at."""
    prefetch(page)
    ends = page + 4 * (BOXES + 2 * APART * first)
    for line in range(ends, ends + 4 * 4 * APART, _LINE):
        prefetch(line)


@kernel()
def search(tree: int, keys: int, first: int, last: int, mark: int, again: bool, out: int) -> int:
    """The members whose box has these keys in the dimensions from `first` to `last`; how many.

    Entries that are passed get a mark, unless it is none; `again`: only those that have it are
    looked at. If the tree is not EXACT there may be some whose box has not.
    """
    asked, codes = load_int(tree, ASKED_AT), load_int(tree, CODES_AT)
    for d in range(first, last):
        store_int(asked, d, code_of(codes + 8 * CODE_WORDS * d, load_int(keys, d)))
    found, depth, looked = np.int64(0), np.int64(1), np.int64(0)
    stack = load_int(tree, STACK_AT)
    store_int(stack, 0, load_int(tree, ROOT))
    while depth > 0:
        depth -= 1
        page = page_at(tree, load_int(stack, depth))
        if depth > 0:
            _ask_ahead(page_at(tree, load_int(stack, depth - 1)), first)
        if depth + ROOM > load_int(tree, STACK_ROOM):
            room = 2 * load_int(tree, STACK_ROOM) + ROOM
            stack = resized(stack, room)
            store_int(tree, STACK_AT, stack)
            store_int(tree, STACK_ROOM, room)
        looked += 1
        leaf, places = load_int(page, IS_LEAF), stack + 8 * depth
        wanted = mark if again else np.int64(UNMARKED)
        for c in range(_inside(page, asked, first, last, wanted, places)):
            # What is pushed is never beyond the place that was just read.
            entry = load_int(places, c)
            if not again and mark >= 0:
                store_int(page, MARKS + entry, mark)
            if leaf != 0:
                store_int(out, found, target_of(page, entry))
                found += 1
            else:
                store_int(stack, depth, target_of(page, entry))
                depth += 1
        if load_int(page, MORE) >= 0:
            store_int(stack, depth, load_int(page, MORE))
            depth += 1
    store_int(tree, LOOKED_AT, load_int(tree, LOOKED_AT) + looked)
    return found


@kernel()
def next_mark(tree: int) -> int:
    """A mark that no entry has."""
    mark = load_int(tree, MARK) + 1
    store_int(tree, MARK, mark)
    return mark


@kernel((WORDS, WORDS))
def remove_members(words: np.ndarray, members: np.ndarray) -> None:
    """Take members out of their pages; boxes above stay as wide as they were."""
    tree = address(words)
    for k in range(members.shape[0]):
        member = members[k]
        page = load_int(load_int(tree, PAGE_OF_AT), member)
        if page < 0:
            continue
        at, place = page_at(tree, page), place_in(tree, page, member)
        last = load_int(at, COUNT) - 1
        if place != last:
            copy_entry(tree, at, last, at, place)
        store_int(at, COUNT, last)
        store_int(load_int(tree, PAGE_OF_AT), member, -1)
        store_int(tree, MEMBERS, load_int(tree, MEMBERS) - 1)


@kernel((WORDS, WORDS, types.int64, types.int64, types.boolean, WORDS))
def find_members(
    words: np.ndarray, keys: np.ndarray, first: int, last: int, again: bool, out: np.ndarray
) -> int:
    """One search, for trials and tests; marks are those of the last one if it is `again`."""
    tree = address(words)
    mark = load_int(tree, MARK) if again else next_mark(tree)
    return search(tree, address(keys), first, last, mark, again, address(out))
