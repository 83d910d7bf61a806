"""Documents looked up by value: chains of rows, and slices of them that are asked for often.

A slice is what the view cache keeps of a value: whom it is joined with, side by side. There is room
for so many; the one that was asked for longest ago gives way.
"""

from __future__ import annotations

from braid.jit.runtime import kernel
from braid.operators.documents.kernels.key_table import look, mixed
from braid.operators.documents.kernels.records import JoinFrame, Row
from braid.operators.documents.kernels.state import FACT, FOREIGN, WAYS_OF_SLICE, WORTH, bit_of


@kernel()
def _slice(frame: JoinFrame, value: int, oldest: bool) -> int:
    """The slice of a value, -1 if it is not in the cache; or the one that would give way to it."""
    slices = frame.slices_length
    if slices == 0:
        return -1
    first = (mixed(value, 0, 0, 0) & (slices // WAYS_OF_SLICE - 1)) * WAYS_OF_SLICE
    chosen, used = -1, 0
    for way in range(first, first + WAYS_OF_SLICE):
        own = frame.slices[way]
        if oldest:
            if chosen < 0 or own.used < used:
                chosen, used = way, own.used
        elif own.value == value:
            return way
    return chosen


@kernel()
def _write_cell(frame: JoinFrame, found: int, number: int, row: Row) -> None:
    cell = frame.cells[found * frame.slice_room + number]
    cell.document = row.document
    cell.begin = row.first_bin
    cell.end = row[1].first_bin


@kernel()
def _append(frame: JoinFrame, value: int, row: Row) -> None:
    """A new row of R_L in the slice of its value, if that is in the cache; one that is full leaves."""
    found = _slice(frame, value, False)
    if found < 0:
        return
    own = frame.slices[found]
    length = own.cell_count
    if length == frame.slice_room:
        own.value = -1
        return
    _write_cell(frame, found, length, row)
    own.cell_count = length + 1


@kernel()
def _materialised(frame: JoinFrame, value: int, oldest: int) -> int:
    """Put the slice of a value into the cache; -1 if that does not pay or there is no room."""
    if frame.slices_length == 0:
        return -1
    rows, last = frame.rows, frame.by_value[value]
    at, length = last, 0
    while at >= 0 and rows[at].document >= oldest:
        length += 1
        at = rows[at].before
    if length < WORTH or length > frame.slice_room:
        return -1
    chosen = _slice(frame, value, True)
    own = frame.slices[chosen]
    own.value = value
    own.cell_count = length
    at = last
    for k in range(length - 1, -1, -1):
        _write_cell(frame, chosen, k, rows[at])
        at = rows[at].before
    return chosen


@kernel()
def index_rows(frame: JoinFrame, first: int, end: int) -> None:
    """Chain rows of R_doc by their values."""
    by_value = frame.by_value
    for number in range(first, end):
        row = frame.rows[number]
        if row.before == FOREIGN:
            continue
        value, before = row.value, -1
        if value >= 0:
            before = by_value[value]
            by_value[value] = number
            _append(frame, value, row)
        row.before = before


# ---- facts: R_L joined with R_R by value ----


@kernel()
def _has_use(frame: JoinFrame, begin: int, end: int) -> bool:
    """Whether some template asks for facts of rows of R_bin."""
    for right in range(begin, end):
        if look(frame.begins, FACT, frame.edge[right], 0, 0) >= 0:
            return True
    return False


@kernel()
def gather_facts(
    frame: JoinFrame, current: int, oldest: int, near: bool, views: bool, some: bool
) -> bool:
    """The facts of a document that comes with each one from `oldest` on; `near`: with itself, too.
    `views`: by the view cache. `some`: there may be leaves that are not joined by facts."""
    document, rows = frame.documents[current], frame.rows
    begin, end = document.first_row, document[1].first_row
    for number in range(begin, end):
        mine = rows[number]
        value, before = mine.value, mine.before
        if value < 0 or before == FOREIGN:
            continue
        if some and not _has_use(frame, mine.first_bin, mine[1].first_bin):
            continue
        found = -1
        if views:
            found = _slice(frame, value, False)
            if found >= 0:
                frame.cache_counts.hits += 1
            else:
                frame.cache_counts.misses += 1
                found = _materialised(frame, value, oldest)
        if found >= 0:
            if not _from_slice(frame, found, mine, current, oldest, near):
                return False
            continue
        # The last row of a value is of this document: it is the one that was indexed last.
        at = frame.by_value[value] if near else before
        while at >= 0:
            row = rows[at]
            earlier = row.document
            if earlier < oldest:
                break
            if (near or earlier != current) and not _pair(
                frame, earlier, row.first_bin, row[1].first_bin, mine
            ):
                return False
            at = row.before
    return True


@kernel()
def _from_slice(
    frame: JoinFrame, found: int, mine: Row, current: int, oldest: int, near: bool
) -> bool:
    """The facts of a row with a slice of the view cache, from the last document to the oldest."""
    counts, own = frame.cache_counts, frame.slices[found]
    counts.uses += 1
    own.used = counts.uses
    cells = frame.cells[found * frame.slice_room]
    for k in range(own.cell_count - 1, -1, -1):
        cell = cells[k]
        document = cell.document
        if document < oldest:
            break
        if (near or document != current) and not _pair(frame, document, cell.begin, cell.end, mine):
            return False
    return True


@kernel()
def _pair(frame: JoinFrame, document: int, begin: int, end: int, mine: Row) -> bool:
    """The facts of rows of R_bin of an earlier document with those of a row of this one."""
    heads, edges = frame.heads, frame.edge
    first, last = mine.first_bin, mine[1].first_bin
    number, head = frame.fact_count, heads[document]
    if number + (end - begin) * (last - first) > frame.facts_length:
        return False
    if head < 0 and begin < end and first < last:
        frame.touched[frame.touched_count] = document
        frame.touched_count += 1
    for left in range(begin, end):
        a = edges[left]
        for right in range(first, last):
            b = edges[right]
            fact = frame.facts[number]
            fact.left, fact.right, fact.next = left, right, head
            fact.left_edge, fact.right_edge = a, b
            fact.bit = bit_of(a, b)
            head = number
            number += 1
    heads[document] = head
    frame.fact_count = number
    return True


@kernel()
def forget_facts(frame: JoinFrame) -> None:
    for k in range(frame.touched_count):
        frame.heads[frame.touched[k]] = -1
    frame.fact_count = 0
    frame.touched_count = 0
