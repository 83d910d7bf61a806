"""Values of documents in their order, for joins that compare them by more than equality.

Documents before the last few are in segments. In each the values of every leaf that is compared so are
sorted: numbers among numbers, times among times, and every kind by its texts, since a number and
a text are compared as texts. What compares so with a value is then one piece of each. Where a query
has an equality beside the comparison, values are in order among documents that are equal in it.
"""

from __future__ import annotations

from braid.jit.runtime import kernel
from braid.operators.documents.kernels.match import AT_MOST, DIFFERENT, EQUAL, MORE, compared
from braid.operators.documents.kernels.records import Group, JoinFrame

#: Values are texts, numbers or times.
KINDS_OF_VALUES = 3


@kernel()
def _text_order(frame: JoinFrame, a: int, b: int) -> int:
    """How two values compare as texts."""
    if a == b:
        return 0
    strings, pool = frame.string_offsets, frame.string_bytes
    at, end = strings[a], strings[a + 1]
    other, other_end = strings[b], strings[b + 1]
    while at < end and other < other_end:
        first, second = pool[at], pool[other]
        if first != second:
            return -1 if first < second else 1
        at += 1
        other += 1
    return (end - at) - (other_end - other)


@kernel()
def _value_order(frame: JoinFrame, a: int, b: int) -> int:
    """How two numbers, or two times, compare."""
    first, second = frame.orders[a], frame.orders[b]
    return 0 if first == second else (-1 if first < second else 1)


@kernel()
def compares(frame: JoinFrame, operator: int, a: int, b: int) -> bool:
    """Whether two values compare so: as numbers, as times, or as texts. Whether they are equal is
    asked of their texts."""
    if operator == DIFFERENT:
        return a != b
    if operator == EQUAL:
        return a == b
    kinds = frame.kinds
    kind = kinds[a]
    if kind == kinds[b] and kind > 0:
        return compared(operator, _value_order(frame, a, b))
    return compared(operator, _text_order(frame, a, b))


@kernel()
def _behind(group: Group, equal: int, value: int, edge: int, kind: int) -> int:
    """Below, at or above 0 as a group is before, at or behind a place among groups."""
    if group.equal_edge != equal:
        return group.equal_edge - equal
    if group.equal_value != value:
        return group.equal_value - value
    if group.order_edge != edge:
        return group.order_edge - edge
    return group.kind - kind


@kernel()
def group_of(frame: JoinFrame, segment: int, equal: int, value: int, edge: int, kind: int) -> Group:
    """The group of a segment with the values of an edge that are of a kind, in documents
    with a value at the edge `equal` (-1: in all); a null pointer if it has none."""
    own, groups = frame.segments[segment], frame.groups
    low, end = own.groups_from, own.groups_to
    high = end
    while low < high:
        middle = (low + high) // 2
        if _behind(groups[middle], equal, value, edge, kind) < 0:
            low = middle + 1
        else:
            high = middle
    group = groups[low]
    found = low < end and _behind(group, equal, value, edge, kind) == 0
    return group if found else Group(0)


@kernel()
def _border(frame: JoinFrame, group: Group, text: bool, value: int, after: bool) -> int:
    """The first place of a group that is not before a value, or, if `after`, that is behind it."""
    low, high = group.places_from, group.places_to
    places, rows = (frame.text_places if text else frame.order_places), frame.rows
    while low < high:
        middle = (low + high) // 2
        row = places[middle].row
        mine = rows[row].value
        order = _text_order(frame, mine, value) if text else _value_order(frame, mine, value)
        if order < 0 or (after and order == 0):
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def first_place(frame: JoinFrame, group: Group, text: bool, operator: int, value: int) -> int:
    """Where those begin that compare so with a value."""
    if operator <= AT_MOST:
        return group.places_from
    return _border(frame, group, text, value, operator == MORE)


@kernel()
def end_place(frame: JoinFrame, group: Group, text: bool, operator: int, value: int) -> int:
    """Where those end that compare so with a value."""
    if operator >= MORE:
        return group.places_to
    return _border(frame, group, text, value, operator == AT_MOST)
