"""Trees of boxes in pages: what the R-tree and the multilevel grid file have in common.

A page has entries. An entry has a target (a page below, or a member), a mark and a box: the interval of
each dimension outside of which nothing below is wanted. The two trees divide pages differently
(`rtree.py`, `grid_file.py`), but one search reads both.

The cost of a search is the memory that it reads. So a page stores boxes by dimension: the ends that a
search compares lie side by side, several entries are compared at once, and the search doesn't touch
the dimensions of other inputs. Ends are *codes* of 32 bits, half as long as keys. The code of a key is
its distance from the middle of its dimension, with separate codes for NULL, for no end, and for all that
is far outside. Where the ends of a dimension lie further apart, several keys have one code. Then a
search finds too much, and the caller compares the boxes themselves (`exact`).

Partial dimension filtering (003, section 3.3): a search compares some dimensions only, and writes the
value of a counter to every entry that it passes. A second search compares others, of entries with that
mark only. The members that the first search has found are a list, which can be used instead.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from braid.jit.memory import resized
from braid.jit.records import Halves, Record, Words, i64, record
from braid.jit.runtime import COMPILED, WORDS, kernel, prefetch
from braid.operators.core.kernels.clauses import HIGHEST, NULL_KEY
from braid.operators.core.kernels.node_sets import lowest, without_lowest

#: Codes of NULL, of no lower end and all that is far below, of all that is far above, of no upper end.
NULL_CODE, LOWEST_CODE = -(2**31), -(2**31) + 1
ABOVE_CODE, HIGHEST_CODE = 2**31 - 2, 2**31 - 1

#: Entries of a page, and the room for them: one more, before a full page is divided, and as many as
#: are compared at once.
FAN = 256
ROOM = FAN + 8
#: From one end to the next, in halves: of the box of an entry, and of a box by itself.
APART, TOGETHER = ROOM, 1
#: No mark: the caller goes through the members that were found as a list.
UNMARKED = -1
#: Entries that are compared at once.
AT_ONCE = 8
#: Bytes that are fetched at once.
_LINE = 64

#: Codes of boxes: of one, and a row for each of several.
CODES = types.Array(types.int32, 1, "C")
CODE_ROWS = types.Array(types.int32, 2, "C")


@record
class Coding(Record):
    """How the keys of a dimension become codes.

    Keys that are not between `below` and `above` are far outside. The others are counted from the
    middle, in steps of a power of two.
    """

    below: i64
    above: i64
    middle: i64
    shift: i64


@record
class Range(Record):
    """The least and the greatest value of a dimension."""

    least: i64
    greatest: i64


@record
class Page(Record):
    """A page, and the codes of the boxes of its entries by dimension: lo of all, then hi of all."""

    count: i64
    #: Whether the entries are members.
    is_leaf: i64
    #: The page above, and the page with more of the same; -1: none.
    parent: i64
    #: What divides the page next.
    turn: i64
    more: i64
    marks: Annotated[Words, ROOM]
    targets: Annotated[Halves, ROOM]
    boxes: Annotated[Halves, 1]


@record
class Tree(Record):
    """A tree, and room for a search."""

    dimensions: i64
    pages: Page
    page_count: i64
    page_room: i64
    #: The topmost page, or -1, and the last mark.
    root: i64
    mark: i64
    #: The page of each member, and the number of members.
    page_of: Words
    members: i64
    stack: Words
    stack_room: i64
    #: How many pages searches have read.
    looked: i64
    #: In a grid file, the region of each page.
    regions: Range
    #: How keys become codes, and the codes that a search compares.
    codings: Coding
    asked: Words
    #: Whether no two ends have one code.
    exact: i64
    #: The codes of the box of each member.
    coded: Halves


_HEADER_WORDS = Page.fields["boxes"].offset // 8


@kernel()
def page_words(tree: Tree) -> int:
    return _HEADER_WORDS + APART * tree.dimensions


@kernel()
def page_at(tree: Tree, page: int) -> Page:
    return Page(Words(tree.pages).after(page * page_words(tree)).address)


@kernel()
def box_of(page: Page, entry: int) -> Halves:
    """The box of an entry; its ends are APART."""
    return page.boxes.after(entry)


@kernel()
def code_of(coding: Coding, key: int) -> int:
    if key <= coding.below:
        return np.int64(NULL_CODE if key == NULL_KEY else LOWEST_CODE)
    if key >= coding.above:
        return np.int64(HIGHEST_CODE if key == HIGHEST else ABOVE_CODE)
    return (key - coding.middle) >> coding.shift


@kernel()
def new_page(tree: Tree, is_leaf: int, parent: int) -> int:
    """The number of a page without entries; pages may move."""
    page, room = tree.page_count, tree.page_room
    if page == room:
        room = max(np.int64(16), 2 * room)
        tree.pages = Page(resized(tree.pages, room * page_words(tree)))
        tree.regions = Range(resized(tree.regions, room * 4 * tree.dimensions))
        tree.page_room = room
    tree.page_count = page + 1
    own = page_at(tree, page)
    own.count, own.is_leaf, own.parent, own.turn, own.more = 0, is_leaf, parent, 0, -1
    return page


@kernel()
def copy_box(source: Halves, apart: int, target: Halves, distant: int, dimensions: int) -> None:
    """Copy a box; from one end to the next there are so many halves in the one and the other."""
    for end in range(2 * dimensions):
        target[distant * end] = source[apart * end]


@kernel()
def put_entry(tree: Tree, page: int, target: int, box: Halves, apart: int) -> None:
    """Add an entry to a page that has room."""
    own = page_at(tree, page)
    count = own.count
    own.count = count + 1
    own.targets[count] = target
    own.marks[count] = 0
    copy_box(box, apart, box_of(own, count), APART, tree.dimensions)
    belongs(tree, page, target)


@kernel()
def belongs(tree: Tree, page: int, target: int) -> None:
    """Note the page that a member, or a page below, is in."""
    if page_at(tree, page).is_leaf != 0:
        tree.page_of[target] = page
    else:
        page_at(tree, target).parent = page


@kernel()
def copy_entry(tree: Tree, page: Page, entry: int, other: Page, place: int) -> None:
    """Copy an entry of a page to a place in the same or another one."""
    other.targets[place] = page.targets[entry]
    other.marks[place] = page.marks[entry]
    copy_box(box_of(page, entry), APART, box_of(other, place), APART, tree.dimensions)


@kernel()
def place_in(tree: Tree, page: int, target: int) -> int:
    """Where the entry of a target is in its page, or -1."""
    own = page_at(tree, page)
    for e in range(own.count):
        if own.targets[e] == target:
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

    def eight_inside(lows: Halves, highs: Halves, code: int) -> int:
        """Which of eight intervals a code is in, as bits. The compiler does not see by itself that
        eight comparisons are one, and their results the bits of a word."""
        found = 0
        for k in range(AT_ONCE):
            found |= int(lows[k] <= code <= highs[k]) << k
        return found


@kernel()
def _marked(page: Page, mark: int, left: int, out: Words) -> int:
    """Of some entries of a page those that have a mark; how many."""
    found = np.int64(0)
    for c in range(left):
        e = out[c]
        out[found] = e
        found += page.marks[e] == mark
    return found


@kernel()
def move_together(count: int, out: Words) -> int:
    """The places at which `out` has 1, not 0, written to it: how many."""
    left = np.int64(0)
    for place in range(count):
        inside = out[place]
        out[left] = place
        left += inside
    return left


@kernel()
def _ask_all(page: Page, asked: Words, first: int, last: int, sets: Words) -> None:
    """Which entries of a page have the codes of some dimensions in their boxes, as bits.

    The search goes dimension by dimension, in the order of memory, and passes over 64 entries that
    have none left.
    """
    count = page.count
    for block in range(0, count, 64):
        left = min(count - block, 64)
        sets[block >> 6] = np.int64(-1) if left == 64 else (np.int64(1) << left) - 1
    for d in range(first, last):
        lows, code, some = page.boxes.after(2 * APART * d), asked[d], np.int64(0)
        for block in range(0, count, 64):
            inside = sets[block >> 6]
            if inside == 0:
                continue
            at, bits = lows.after(block), np.int64(0)
            for k in range(0, min(count - block, 64), AT_ONCE):
                bits |= eight_inside(at.after(k), at.after(APART + k), code) << np.int64(k)
            inside &= bits
            sets[block >> 6] = inside
            some |= inside
        if some == 0:
            break


@kernel()
def _inside(page: Page, asked: Words, first: int, last: int, mark: int, out: Words) -> int:
    """The entries of a page whose box has the codes of some dimensions, written to `out`: how many.

    `mark`: only entries that have it, unless it is none.
    """
    left, sets = np.int64(0), out.after(FAN)
    _ask_all(page, asked, first, last, sets)
    for block in range(0, page.count, 64):
        inside = sets[block >> 6]
        while inside != 0:
            out[left] = block + lowest(inside)
            left += 1
            inside = without_lowest(inside)
    if mark != UNMARKED:
        left = _marked(page, mark, left, out)
    return left


@kernel()
def _ask_ahead(page: Page, first: int) -> None:
    """Have what is read first in a page fetched, while another one is read."""
    prefetch(page)
    ends = page.boxes.after(2 * APART * first)
    for line in range(0, 4 * 4 * APART, _LINE):
        prefetch(ends + line)


@kernel()
def search(
    tree: Tree, keys: Words, first: int, last: int, mark: int, again: bool, out: Words
) -> int:
    """The members whose box has these keys in the dimensions from `first` to `last`; how many.

    Entries that are passed get a mark, unless it is none; `again`: the search reads only entries that
    have it. If the tree is not `exact`, there may be members whose box doesn't have the keys.
    """
    asked = tree.asked
    for d in range(first, last):
        asked[d] = code_of(tree.codings[d], keys[d])
    found, depth, looked = np.int64(0), np.int64(1), np.int64(0)
    stack = tree.stack
    stack[0] = tree.root
    while depth > 0:
        depth -= 1
        page = page_at(tree, stack[depth])
        if depth > 0:
            _ask_ahead(page_at(tree, stack[depth - 1]), first)
        if depth + ROOM > tree.stack_room:
            tree.stack_room = 2 * tree.stack_room + ROOM
            stack = Words(resized(stack, tree.stack_room))
            tree.stack = stack
        looked += 1
        places, wanted = stack.after(depth), mark if again else np.int64(UNMARKED)
        for c in range(_inside(page, asked, first, last, wanted, places)):
            # What is pushed is never beyond the place that was just read.
            entry = places[c]
            if not again and mark >= 0:
                page.marks[entry] = mark
            if page.is_leaf != 0:
                out[found] = page.targets[entry]
                found += 1
            else:
                stack[depth] = page.targets[entry]
                depth += 1
        if page.more >= 0:
            stack[depth] = page.more
            depth += 1
    tree.looked += looked
    return found


@kernel()
def next_mark(tree: Tree) -> int:
    """A mark that no entry has."""
    tree.mark += 1
    return tree.mark


@kernel((Tree.type, WORDS))
def remove_members(tree: Tree, members: np.ndarray) -> None:
    """Take members out of their pages; boxes above stay as wide as they were."""
    for k in range(members.shape[0]):
        member = members[k]
        number = tree.page_of[member]
        if number < 0:
            continue
        page, place = page_at(tree, number), place_in(tree, number, member)
        last = page.count - 1
        if place != last:
            copy_entry(tree, page, last, page, place)
        page.count = last
        tree.page_of[member] = -1
        tree.members -= 1


@kernel((Tree.type, Words.type, types.int64, types.int64, types.boolean, Words.type))
def find_members(tree: Tree, keys: Words, first: int, last: int, again: bool, out: Words) -> int:
    """One search, for trials and tests; marks are those of the last one if it is `again`."""
    mark = tree.mark if again else next_mark(tree)
    return search(tree, keys, first, last, mark, again, out)
