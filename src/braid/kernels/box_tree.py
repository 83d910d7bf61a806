"""Trees of boxes in pages: what the R-tree and the multilevel grid file have in common.

A page has a head and entries; an entry has a target (a page below, or a member), a mark and a box:
the interval of each dimension outside of which nothing below it is wanted. The two trees differ in
how pages are divided (`rtree.py`, `grid_file.py`), not in how they are searched.

Partial dimension filtering (003, section 3.3): a search asks some dimensions only, and leaves the
value of a counter in every entry that it passes; a second one asks others, of entries with that
mark alone. The members that the first one has found are a list, which can be gone through instead.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.kernels.memory import resized
from braid.kernels.runtime import WORDS, address, kernel, load_int, store_int

#: A tree: dimensions, pages and room for them, where they are, the topmost, the counter of marks;
#: where the page of each member is, and its number of members; room for a search; pages looked at.
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
    TREE_WORDS,
) = range(13)

#: The head of a page: entries, whether they are members, the page above, what divides it next, and
#: the page with more of the same (-1: none).
COUNT, IS_LEAF, PARENT, TURN, MORE, HEAD_WORDS = range(6)

#: An entry, before its box.
TARGET, MARKED, ENTRY_HEAD = range(3)

#: Entries of a page.
FAN = 32
#: No mark: what was found is gone through as a list.
UNMARKED = -1


@kernel()
def entry_bytes(tree: int) -> int:
    return 8 * (ENTRY_HEAD + 2 * load_int(tree, DIMENSIONS))


@kernel()
def page_at(tree: int, page: int) -> int:
    size = 8 * HEAD_WORDS + (FAN + 1) * entry_bytes(tree)
    return load_int(tree, PAGES_AT) + page * size


@kernel()
def entry_at(tree: int, page: int, entry: int) -> int:
    return page + 8 * HEAD_WORDS + entry * entry_bytes(tree)


@kernel()
def new_page(tree: int, is_leaf: int, parent: int) -> int:
    """The number of a page without entries; pages may move."""
    page, room = load_int(tree, PAGES), load_int(tree, PAGES_ROOM)
    if page == room:
        room = max(np.int64(16), 2 * room)
        words = HEAD_WORDS + (FAN + 1) * (entry_bytes(tree) // 8)
        store_int(tree, PAGES_AT, resized(load_int(tree, PAGES_AT), room * words))
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
def put_entry(tree: int, page: int, target: int, box: int) -> int:
    """Add an entry to a page that has room; where it is."""
    at = page_at(tree, page)
    count = load_int(at, COUNT)
    entry = entry_at(tree, at, count)
    store_int(at, COUNT, count + 1)
    store_int(entry, TARGET, target)
    store_int(entry, MARKED, 0)
    for word in range(2 * load_int(tree, DIMENSIONS)):
        store_int(entry, ENTRY_HEAD + word, load_int(box, word))
    belongs(tree, page, target)
    return entry


@kernel()
def belongs(tree: int, page: int, target: int) -> None:
    """Note the page that a member, or a page below, is in."""
    if load_int(page_at(tree, page), IS_LEAF) != 0:
        store_int(load_int(tree, PAGE_OF_AT), target, page)
    else:
        store_int(page_at(tree, target), PARENT, page)


@kernel()
def copy_entry(tree: int, source: int, target: int) -> None:
    for word in range(entry_bytes(tree) // 8):
        store_int(target, word, load_int(source, word))


@kernel()
def place_in(tree: int, page: int, target: int) -> int:
    """Where the entry of a target is in its page, or -1."""
    at = page_at(tree, page)
    for e in range(load_int(at, COUNT)):
        if load_int(entry_at(tree, at, e), TARGET) == target:
            return np.int64(e)
    return np.int64(-1)


@kernel()
def _marked(page: int, size: int, mark: int, out: int) -> int:
    """The entries of a page that have a mark, written to `out`; how many."""
    entry, found = page + 8 * HEAD_WORDS, np.int64(0)
    for e in range(load_int(page, COUNT)):
        store_int(out, found, e)
        found += load_int(entry, MARKED) == mark
        entry += size
    return found


@kernel()
def _inside(page: int, size: int, keys: int, first: int, last: int, mark: int, out: int) -> int:
    """The entries of a page whose box has these keys in some dimensions, written to `out`: how many.

    They are narrowed from one dimension to the next, without a branch for any of them. `mark`: only
    entries that have it, unless it is none.
    """
    entries, left = page + 8 * HEAD_WORDS, load_int(page, COUNT)
    if mark == UNMARKED:
        for e in range(left):
            store_int(out, e, e)
    else:
        left = _marked(page, size, mark, out)
    for d in range(first, last):
        key, ends, inside = load_int(keys, d), entries + 8 * (ENTRY_HEAD + 2 * d), np.int64(0)
        for c in range(left):
            e = load_int(out, c)
            store_int(out, inside, e)
            end = ends + e * size
            inside += (load_int(end, 0) <= key) & (key <= load_int(end, 1))
        left = inside
        if left == 0:
            break
    return left


@kernel()
def search(tree: int, keys: int, first: int, last: int, mark: int, again: bool, out: int) -> int:
    """The members whose box has these keys in the dimensions from `first` to `last`; how many.

    Entries that are passed get a mark, unless it is none; `again`: only those that have it are
    looked at.
    """
    found, depth, looked = np.int64(0), np.int64(1), np.int64(0)
    stack, size = load_int(tree, STACK_AT), entry_bytes(tree)
    store_int(stack, 0, load_int(tree, ROOT))
    while depth > 0:
        depth -= 1
        page = page_at(tree, load_int(stack, depth))
        if depth + FAN + 2 > load_int(tree, STACK_ROOM):
            room = 2 * load_int(tree, STACK_ROOM) + FAN + 2
            stack = resized(stack, room)
            store_int(tree, STACK_AT, stack)
            store_int(tree, STACK_ROOM, room)
        looked += 1
        leaf, places = load_int(page, IS_LEAF), stack + 8 * depth
        wanted = mark if again else np.int64(UNMARKED)
        for c in range(_inside(page, size, keys, first, last, wanted, places)):
            # What is pushed is never beyond the place that was just read.
            entry = entry_at(tree, page, load_int(places, c))
            if not again and mark >= 0:
                store_int(entry, MARKED, mark)
            if leaf != 0:
                store_int(out, found, load_int(entry, TARGET))
                found += 1
            else:
                store_int(stack, depth, load_int(entry, TARGET))
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
            copy_entry(tree, entry_at(tree, at, last), entry_at(tree, at, place))
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
