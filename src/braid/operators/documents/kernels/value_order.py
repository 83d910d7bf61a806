"""Values of documents in their order, for joins that compare them by more than equality.

Documents before the last few are in segments. In each the values of every leaf that is compared so are
sorted: numbers among numbers, times among times, and every kind by its texts, since a number and
a text are compared as texts. What compares so with a value is then one piece of each. Where a query
has an equality beside the comparison, values are in order among documents that are equal in it.
"""

from __future__ import annotations

from braid.jit.runtime import kernel, load_byte, load_float, load_int, load_narrow
from braid.operators.documents.kernels.frame import (
    EQUAL_EDGE,
    EQUAL_VALUE,
    GROUP_BYTES,
    GROUPS,
    GROUPS_FROM,
    GROUPS_TO,
    KINDS,
    ORDER_EDGE,
    ORDER_KIND,
    ORDER_PLACES,
    ORDERS,
    PLACE_BYTES,
    PLACE_ROW,
    PLACES_FROM,
    PLACES_TO,
    POOL,
    ROW_BYTES,
    ROW_VALUE,
    ROWS,
    SEGMENT_BYTES,
    SEGMENTS,
    STRINGS,
    TEXT_PLACES,
)
from braid.operators.documents.kernels.match import AT_MOST, DIFFERENT, EQUAL, MORE, compared

#: Values are texts, numbers or times.
KINDS_OF_VALUES = 3


@kernel()
def _text_order(f: int, a: int, b: int) -> int:
    """How two values compare as texts."""
    if a == b:
        return 0
    strings, pool = load_int(f, STRINGS), load_int(f, POOL)
    at, end = load_int(strings, a), load_int(strings, a + 1)
    other, other_end = load_int(strings, b), load_int(strings, b + 1)
    while at < end and other < other_end:
        first, second = load_byte(pool, at), load_byte(pool, other)
        if first != second:
            return -1 if first < second else 1
        at += 1
        other += 1
    return (end - at) - (other_end - other)


@kernel()
def _value_order(f: int, a: int, b: int) -> int:
    """How two numbers, or two times, compare."""
    first, second = load_float(load_int(f, ORDERS), a), load_float(load_int(f, ORDERS), b)
    return 0 if first == second else (-1 if first < second else 1)


@kernel()
def compares(f: int, operator: int, a: int, b: int) -> bool:
    """Whether two values compare so: as numbers, as times, or as texts. Whether they are equal is
    asked of their texts."""
    if operator == DIFFERENT:
        return a != b
    if operator == EQUAL:
        return a == b
    kinds = load_int(f, KINDS)
    kind = load_int(kinds, a)
    if kind == load_int(kinds, b) and kind > 0:
        return compared(operator, _value_order(f, a, b))
    return compared(operator, _text_order(f, a, b))


@kernel()
def _behind(group: int, equal: int, value: int, edge: int, kind: int) -> int:
    """Below, at or above 0 as a group is before, at or behind a place among groups."""
    if load_int(group, EQUAL_EDGE) != equal:
        return load_int(group, EQUAL_EDGE) - equal
    if load_int(group, EQUAL_VALUE) != value:
        return load_int(group, EQUAL_VALUE) - value
    if load_int(group, ORDER_EDGE) != edge:
        return load_int(group, ORDER_EDGE) - edge
    return load_int(group, ORDER_KIND) - kind


@kernel()
def group_of(f: int, segment: int, equal: int, value: int, edge: int, kind: int) -> int:
    """Where the group of a segment is with the values of an edge that are of a kind, in documents
    with a value at the edge `equal` (-1: in all); 0 if it has none."""
    own, groups = load_int(f, SEGMENTS) + SEGMENT_BYTES * segment, load_int(f, GROUPS)
    low, end = load_int(own, GROUPS_FROM), load_int(own, GROUPS_TO)
    high = end
    while low < high:
        middle = (low + high) // 2
        if _behind(groups + GROUP_BYTES * middle, equal, value, edge, kind) < 0:
            low = middle + 1
        else:
            high = middle
    group = groups + GROUP_BYTES * low
    return group if low < end and _behind(group, equal, value, edge, kind) == 0 else 0


@kernel()
def _border(f: int, group: int, text: bool, value: int, after: bool) -> int:
    """The first place of a group that is not before a value, or, if `after`, that is behind it."""
    low, high = load_int(group, PLACES_FROM), load_int(group, PLACES_TO)
    places, rows = load_int(f, TEXT_PLACES if text else ORDER_PLACES), load_int(f, ROWS)
    while low < high:
        middle = (low + high) // 2
        row = load_narrow(places + PLACE_BYTES * middle, PLACE_ROW)
        mine = load_narrow(rows + ROW_BYTES * row, ROW_VALUE)
        order = _text_order(f, mine, value) if text else _value_order(f, mine, value)
        if order < 0 or (after and order == 0):
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def first_place(f: int, group: int, text: bool, operator: int, value: int) -> int:
    """Where those begin that compare so with a value."""
    if operator <= AT_MOST:
        return load_int(group, PLACES_FROM)
    return _border(f, group, text, value, operator == MORE)


@kernel()
def end_place(f: int, group: int, text: bool, operator: int, value: int) -> int:
    """Where those end that compare so with a value."""
    if operator >= MORE:
        return load_int(group, PLACES_TO)
    return _border(f, group, text, value, operator == AT_MOST)
