"""Joins that no equality begins: looked up in the order of values, document by document otherwise.

Where an equality has a comparison by order beside it, documents with the same value are scanned
if they are few. If they are many, those of them that compare so are looked up: values are in order
among documents that are equal. So a query costs what it finds, however few different values there are.
"""

from __future__ import annotations

from braid.jit.runtime import kernel
from braid.operators.documents.kernels.descend import (
    descend,
    first_bin,
    from_root,
    release,
    start_at,
    take,
    value_of,
)
from braid.operators.documents.kernels.key_table import look
from braid.operators.documents.kernels.records import Group, JoinFrame
from braid.operators.documents.kernels.state import BESIDE, FOREIGN, ORDERED
from braid.operators.documents.kernels.value_order import (
    KINDS_OF_VALUES,
    compares,
    end_place,
    first_place,
    group_of,
)


@kernel()
def compare(frame: JoinFrame, current: int, oldest: int) -> bool:
    """All templates that begin with a comparison, for a document that comes."""
    for k in range(frame.scanning_length):
        template = frame.scanning[k]
        first = oldest
        if frame.templates[template].ordered_steps:
            first = max(oldest, frame.unsorted_from)  # those before are in segments
        for earlier in range(first, current + 1):
            if not from_root(frame, template, earlier, current):
                return False
    return frame.segments_length == 0 or _in_order(frame, -1, -1, current, oldest)


@kernel()
def beside_equal(frame: JoinFrame, current: int, oldest: int) -> bool:
    """All templates with a comparison by order beside an equality, for a document that comes."""
    document, edges = frame.documents[current], frame.edge
    begin, end = document.first_row, document[1].first_row
    for number in range(begin, end):
        mine = frame.rows[number]
        value = mine.value
        if value < 0 or mine.before == FOREIGN:
            continue
        for equal in range(mine.first_bin, mine[1].first_bin):
            if look(frame.begins, BESIDE, edges[equal], 0, 0) < 0:
                continue
            until = _scanned_from(frame, value, oldest)
            if not _through_chain(frame, equal, value, current, until):
                return False
            if until > oldest and not _in_order(frame, equal, value, current, oldest):
                return False
    return True


@kernel()
def _scanned_from(frame: JoinFrame, value: int, oldest: int) -> int:
    """The first document with a value that is scanned; those before it are looked up."""
    count = 0
    if frame.sorts_beside == 0:
        return oldest
    at = frame.by_value[value]
    while at >= 0:
        row = frame.rows[at]
        if row.document < oldest:
            break
        count += 1
        if count > frame.few:
            return max(oldest, frame.unsorted_from)
        at = row.before
    return oldest


@kernel()
def _through_chain(frame: JoinFrame, equal: int, value: int, current: int, until: int) -> bool:
    """The documents that have a value, from the last one to `until`."""
    at, count = frame.by_value[value], 0
    trie, edges = frame.trie, frame.edge
    while at >= 0:
        row = frame.rows[at]
        earlier = row.document
        if earlier < until:
            break
        count += 1
        for left in range(row.first_bin, row[1].first_bin):
            a, b = edges[left], edges[equal]
            start = look(frame.begins, a, b, 1, 0)
            while start >= 0:
                if not start_at(frame, start, left, equal, earlier, current):
                    return False
                start = trie[start].begins_alike
        at = row.before
    if count > frame.few:
        frame.cache_counts.scanned += count
    return True


@kernel()
def _in_order(frame: JoinFrame, equal: int, same: int, current: int, oldest: int) -> bool:
    """What compares so among the documents in segments; `equal`: the leaf of the document that comes
    whose value is the `same` in the earlier document (-1: none)."""
    trie, edges = frame.trie, frame.edge
    beside = edges[equal] + 1 if equal >= 0 else 0
    for right in range(first_bin(frame, current), first_bin(frame, current + 1)):
        start = look(frame.begins, ORDERED, edges[right], beside, 0)
        while start >= 0:
            if not _from_start(frame, start, right, equal, same, current, oldest):
                return False
            start = trie[start].begins_alike
    return True


@kernel()
def _operator(frame: JoinFrame, start: int, equal: int, number: int) -> int:
    """The operator of a comparison by order of the queries that begin at a node of the trie."""
    own = frame.trie[start].template
    step = frame.templates[own].first_step + number
    if equal >= 0:
        step += 1
    return frame.steps[step].operator


@kernel()
def _from_start(
    frame: JoinFrame, start: int, right: int, equal: int, same: int, current: int, oldest: int
) -> bool:
    """The queries that begin at a node of the trie, with one leaf of the document that comes."""
    value = value_of(frame, current, right)
    if value < 0:
        return True
    trie = frame.trie
    node = trie[start]
    operator, edge = _operator(frame, start, equal, 0), -1
    if equal >= 0:
        edge = trie[node.above].left_edge
    for segment in range(frame.segments_length):
        if frame.segments[segment].end <= oldest:
            continue
        for kind in range(KINDS_OF_VALUES):
            group = group_of(frame, segment, edge, same, node.left_edge, kind)
            if group.address == 0:
                continue
            text = kind == 0 or kind != frame.kinds[value]
            low = first_place(frame, group, text, operator, value)
            high = end_place(frame, group, text, operator, value)
            if low < high and not _from_places(
                frame, start, group, text, low, high, right, equal, current, oldest
            ):
                return False
    return True


@kernel()
def _from_places(
    frame: JoinFrame, start: int, group: Group, text: bool, low: int, high: int, right: int, equal: int,
    current: int, oldest: int,
) -> bool:  # fmt: skip
    """Leaves of earlier documents that compare so; of a band both borders are looked up."""
    node = frame.trie[start]
    template = frame.templates[node.template]
    if template.ordered_steps < 2:
        return _follow(frame, start, text, low, high, right, -1, -1, equal, current, oldest)
    operator, edges = _operator(frame, start, equal, 1), frame.edge
    for other in range(first_bin(frame, current), first_bin(frame, current + 1)):
        child = look(frame.children, start, node.left_edge, edges[other], 0)
        if child < 0:
            continue
        value = value_of(frame, current, other)
        if value < 0:
            continue
        kind = group.kind
        as_text = kind == 0 or kind != frame.kinds[value]
        first, last, asked = low, high, value
        if as_text == text:
            first = max(low, first_place(frame, group, text, operator, value))
            last = min(high, end_place(frame, group, text, operator, value))
            asked = -1
        if not _follow(
            frame, child, text, first, last, right, other, asked, equal, current, oldest
        ):
            return False
    return True


@kernel()
def _follow(
    frame: JoinFrame, node: int, text: bool, low: int, high: int, right: int, other: int, asked: int,
    equal: int, current: int, oldest: int,
) -> bool:  # fmt: skip
    """Go on from a node of the trie with each place; `other`: the leaf of a second border, which
    the value `asked` has yet to be compared with, if there is one."""
    own = frame.trie[node].template
    template = frame.templates[own]
    slots, first = template.slot_count, template.first_step
    depth = 1 if equal >= 0 else 0
    step = first + depth
    begun = depth + (1 if other < 0 else 2)
    places = frame.text_places if text else frame.order_places
    for number in range(low, high):
        place = places[number]
        row = frame.rows[place.row]
        earlier = row.document
        if earlier < oldest:
            continue
        if asked >= 0 and not compares(frame, _operator(frame, node, equal, 1), row.value, asked):
            continue
        left = place.bin
        release(frame, slots, 0)
        if equal >= 0 and not take(frame, first, place.equal, equal, 0):
            continue
        if not take(frame, step, left, right, depth):
            continue
        if other >= 0 and not take(frame, step + 1, left, other, depth + 1):
            continue
        if not descend(frame, node, begun, earlier, current):
            return False
    return True
