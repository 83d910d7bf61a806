"""Joins that no equality begins: looked up in the order of values, document by document otherwise.

Where an equality has a comparison by order beside it, documents with the same value are gone through
if they are few. If they are many, those of them that compare so are looked up: values are in order
among documents that are equal. So a query costs what it finds, however few different values there are.
"""

from __future__ import annotations

from braid.jit.runtime import kernel, load_int, load_narrow, store_int
from braid.operators.documents.kernels.descend import (
    descend,
    first_bin,
    from_root,
    release,
    start_at,
    take,
    value_of,
)
from braid.operators.documents.kernels.frame import (
    BEGINS,
    BEGINS_ALIKE,
    BY_VALUE,
    CACHE_COUNTS,
    CHILDREN,
    DOCUMENT_BYTES,
    DOCUMENTS,
    EDGE,
    END_BIN,
    FIRST_BIN,
    FIRST_ROW,
    FIRST_STEP,
    KINDS,
    LEFT_EDGE,
    NODE_ABOVE,
    OPERATOR,
    ORDER_KIND,
    ORDER_PLACES,
    ORDERED_STEPS,
    PLACE_BIN,
    PLACE_BYTES,
    PLACE_EQUAL,
    PLACE_ROW,
    ROW_BEFORE,
    ROW_BYTES,
    ROW_DOCUMENT,
    ROW_VALUE,
    ROWS,
    SCANNING,
    SEGMENT_BYTES,
    SEGMENT_END,
    SEGMENTS,
    SLOT_COUNT,
    STEP_BYTES,
    STEPS,
    TEMPLATE,
    TEMPLATE_BYTES,
    TEMPLATES,
    TEXT_PLACES,
    TRIE,
    TRIE_BYTES,
    UNTIL,
)
from braid.operators.documents.kernels.match import look
from braid.operators.documents.kernels.state import BESIDE, FOREIGN, ORDERED
from braid.operators.documents.kernels.value_order import (
    KINDS_OF_VALUES,
    compares,
    end_place,
    first_place,
    group_of,
)

#: Behind UNTIL: documents from here on are in no segment; whether values beside an equality are in
#: order; how many documents with a value are gone through before it is looked up.
_UNTIL, _BESIDE, _FEW = range(3)


@kernel()
def compare(f: int, current: int, oldest: int) -> bool:
    """All templates that begin with a comparison, for a document that comes."""
    until = load_int(load_int(f, UNTIL), _UNTIL)
    for k in range(load_int(f, SCANNING + 1)):
        template = load_int(load_int(f, SCANNING), k)
        first = oldest
        if load_int(load_int(f, TEMPLATES) + TEMPLATE_BYTES * template, ORDERED_STEPS):
            first = max(oldest, until)  # those before are in segments
        for earlier in range(first, current + 1):
            if not from_root(f, template, earlier, current):
                return False
    return load_int(f, SEGMENTS + 1) == 0 or _in_order(f, -1, -1, current, oldest)


@kernel()
def beside_equal(f: int, current: int, oldest: int) -> bool:
    """All templates with a comparison by order beside an equality, for a document that comes."""
    document, edges = load_int(f, DOCUMENTS) + DOCUMENT_BYTES * current, load_int(f, EDGE)
    begin, end = load_int(document, FIRST_ROW), load_int(document + DOCUMENT_BYTES, FIRST_ROW)
    for number in range(begin, end):
        mine = load_int(f, ROWS) + ROW_BYTES * number
        value = load_narrow(mine, ROW_VALUE)
        if value < 0 or load_narrow(mine, ROW_BEFORE) == FOREIGN:
            continue
        for equal in range(load_narrow(mine, FIRST_BIN), load_narrow(mine, END_BIN)):
            if look(f + 8 * BEGINS, BESIDE, load_narrow(edges, equal), 0, 0) < 0:
                continue
            until = _gone_through_from(f, value, oldest)
            if not _through_chain(f, equal, value, current, until):
                return False
            if until > oldest and not _in_order(f, equal, value, current, oldest):
                return False
    return True


@kernel()
def _gone_through_from(f: int, value: int, oldest: int) -> int:
    """The first document with a value that is gone through; those before it are looked up."""
    until, count = load_int(f, UNTIL), 0
    if load_int(until, _BESIDE) == 0:
        return oldest
    at = load_narrow(load_int(f, BY_VALUE), value)
    while at >= 0:
        row = load_int(f, ROWS) + ROW_BYTES * at
        if load_narrow(row, ROW_DOCUMENT) < oldest:
            break
        count += 1
        if count > load_int(until, _FEW):
            return max(oldest, load_int(until, _UNTIL))
        at = load_narrow(row, ROW_BEFORE)
    return oldest


@kernel()
def _through_chain(f: int, equal: int, value: int, current: int, until: int) -> bool:
    """The documents that have a value, from the last one to `until`."""
    at, count = load_narrow(load_int(f, BY_VALUE), value), 0
    trie, edges = load_int(f, TRIE), load_int(f, EDGE)
    while at >= 0:
        row = load_int(f, ROWS) + ROW_BYTES * at
        earlier = load_narrow(row, ROW_DOCUMENT)
        if earlier < until:
            break
        count += 1
        for left in range(load_narrow(row, FIRST_BIN), load_narrow(row, END_BIN)):
            a, b = load_narrow(edges, left), load_narrow(edges, equal)
            start = look(f + 8 * BEGINS, a, b, 1, 0)
            while start >= 0:
                if not start_at(f, start, left, equal, earlier, current):
                    return False
                start = load_int(trie + TRIE_BYTES * start, BEGINS_ALIKE)
        at = load_narrow(row, ROW_BEFORE)
    if count > load_int(load_int(f, UNTIL), _FEW):
        counts = load_int(f, CACHE_COUNTS)
        store_int(counts, 3, load_int(counts, 3) + count)
    return True


@kernel()
def _in_order(f: int, equal: int, same: int, current: int, oldest: int) -> bool:
    """What compares so among the documents in segments; `equal`: the leaf of the document that comes
    whose value is the `same` in the earlier document (-1: none)."""
    trie, edges = load_int(f, TRIE), load_int(f, EDGE)
    beside = load_narrow(edges, equal) + 1 if equal >= 0 else 0
    for right in range(first_bin(f, current), first_bin(f, current + 1)):
        start = look(f + 8 * BEGINS, ORDERED, load_narrow(edges, right), beside, 0)
        while start >= 0:
            if not _from_start(f, start, right, equal, same, current, oldest):
                return False
            start = load_int(trie + TRIE_BYTES * start, BEGINS_ALIKE)
    return True


@kernel()
def _operator(f: int, start: int, equal: int, number: int) -> int:
    """The operator of a comparison by order of the queries that begin at a node of the trie."""
    own = load_int(load_int(f, TRIE) + TRIE_BYTES * start, TEMPLATE)
    step = load_int(load_int(f, TEMPLATES) + TEMPLATE_BYTES * own, FIRST_STEP) + number
    if equal >= 0:
        step += 1
    return load_int(load_int(f, STEPS) + STEP_BYTES * step, OPERATOR)


@kernel()
def _from_start(
    f: int, start: int, right: int, equal: int, same: int, current: int, oldest: int
) -> bool:
    """The queries that begin at a node of the trie, with one leaf of the document that comes."""
    value = value_of(f, current, right)
    if value < 0:
        return True
    trie = load_int(f, TRIE)
    node = trie + TRIE_BYTES * start
    operator, edge = _operator(f, start, equal, 0), -1
    if equal >= 0:
        edge = load_int(trie + TRIE_BYTES * load_int(node, NODE_ABOVE), LEFT_EDGE)
    for segment in range(load_int(f, SEGMENTS + 1)):
        if load_int(load_int(f, SEGMENTS) + SEGMENT_BYTES * segment, SEGMENT_END) <= oldest:
            continue
        for kind in range(KINDS_OF_VALUES):
            group = group_of(f, segment, edge, same, load_int(node, LEFT_EDGE), kind)
            if group == 0:
                continue
            text = kind == 0 or kind != load_int(load_int(f, KINDS), value)
            low = first_place(f, group, text, operator, value)
            high = end_place(f, group, text, operator, value)
            if low < high and not _from_places(
                f, start, group, text, low, high, right, equal, current, oldest
            ):
                return False
    return True


@kernel()
def _from_places(
    f: int, start: int, group: int, text: bool, low: int, high: int, right: int, equal: int,
    current: int, oldest: int,
) -> bool:  # fmt: skip
    """Leaves of earlier documents that compare so; of a band both borders are looked up."""
    node = load_int(f, TRIE) + TRIE_BYTES * start
    template = load_int(f, TEMPLATES) + TEMPLATE_BYTES * load_int(node, TEMPLATE)
    if load_int(template, ORDERED_STEPS) < 2:
        return _follow(f, start, text, low, high, right, -1, -1, equal, current, oldest)
    operator, edges = _operator(f, start, equal, 1), load_int(f, EDGE)
    for other in range(first_bin(f, current), first_bin(f, current + 1)):
        child = look(
            f + 8 * CHILDREN, start, load_int(node, LEFT_EDGE), load_narrow(edges, other), 0
        )
        if child < 0:
            continue
        value = value_of(f, current, other)
        if value < 0:
            continue
        kind = load_int(group, ORDER_KIND)
        as_text = kind == 0 or kind != load_int(load_int(f, KINDS), value)
        first, last, asked = low, high, value
        if as_text == text:
            first = max(low, first_place(f, group, text, operator, value))
            last = min(high, end_place(f, group, text, operator, value))
            asked = -1
        if not _follow(f, child, text, first, last, right, other, asked, equal, current, oldest):
            return False
    return True


@kernel()
def _follow(
    f: int, node: int, text: bool, low: int, high: int, right: int, other: int, asked: int,
    equal: int, current: int, oldest: int,
) -> bool:  # fmt: skip
    """Go on from a node of the trie with each place; `other`: the leaf of a second border, which
    the value `asked` has yet to be compared with, if there is one."""
    own = load_int(load_int(f, TRIE) + TRIE_BYTES * node, TEMPLATE)
    template = load_int(f, TEMPLATES) + TEMPLATE_BYTES * own
    slots, first = load_int(template, SLOT_COUNT), load_int(template, FIRST_STEP)
    depth = 1 if equal >= 0 else 0
    step = first + depth
    begun = depth + (1 if other < 0 else 2)
    places = load_int(f, TEXT_PLACES if text else ORDER_PLACES)
    for number in range(low, high):
        place = places + PLACE_BYTES * number
        row = load_int(f, ROWS) + ROW_BYTES * load_narrow(place, PLACE_ROW)
        earlier = load_narrow(row, ROW_DOCUMENT)
        if earlier < oldest:
            continue
        if asked >= 0 and not compares(
            f, _operator(f, node, equal, 1), load_narrow(row, ROW_VALUE), asked
        ):
            continue
        left = load_narrow(place, PLACE_BIN)
        release(f, slots, 0)
        if equal >= 0 and not take(f, first, load_narrow(place, PLACE_EQUAL), equal, 0):
            continue
        if not take(f, step, left, right, depth):
            continue
        if other >= 0 and not take(f, step + 1, left, other, depth + 1):
            continue
        if not descend(f, node, begun, earlier, current):
            return False
    return True
