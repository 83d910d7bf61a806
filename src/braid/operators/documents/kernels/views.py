"""Documents looked up by value: chains of rows, and slices of them that are asked for often.

A slice is what the view cache keeps of a value: whom it is joined with, side by side. There is room
for so many; the one that was asked for longest ago gives way.
"""

from __future__ import annotations

from braid.jit.runtime import kernel, load_int, load_narrow, store_half, store_int
from braid.operators.documents.kernels.frame import (
    BEGINS,
    BY_VALUE,
    CACHE_COUNTS,
    CELL_BEGIN,
    CELL_BYTES,
    CELL_DOCUMENT,
    CELL_END,
    CELLS,
    DOCUMENT_BYTES,
    DOCUMENTS,
    EDGE,
    END_BIN,
    FACT_BYTES,
    FACTS,
    FIRST_BIN,
    FIRST_ROW,
    HEADS,
    LABEL_BIT,
    LEFT_BIN,
    LEFT_LABEL,
    LONGEST_SLICE,
    NEXT_FACT,
    RIGHT_BIN,
    RIGHT_LABEL,
    ROW_BEFORE,
    ROW_BYTES,
    ROW_DOCUMENT,
    ROW_VALUE,
    ROWS,
    SLICE_BYTES,
    SLICE_CELLS,
    SLICE_OF,
    SLICE_USED,
    SLICE_VALUE,
    TOUCHED,
    WORK_COUNTS,
)
from braid.operators.documents.kernels.match import look, mixed
from braid.operators.documents.kernels.state import FACT, FOREIGN, WAYS_OF_SLICE, WORTH, bit_of

_ALL_CELLS = LONGEST_SLICE * CELL_BYTES


@kernel()
def _slice(f: int, value: int, oldest: bool) -> int:
    """The slice of a value, -1 if it is not in the cache; or the one that would give way to it."""
    slices = load_int(f, SLICE_OF + 1)
    if slices == 0:
        return -1
    first = (mixed(value, 0, 0, 0) & (slices // WAYS_OF_SLICE - 1)) * WAYS_OF_SLICE
    chosen, used = -1, 0
    for way in range(first, first + WAYS_OF_SLICE):
        own = load_int(f, SLICE_OF) + SLICE_BYTES * way
        if oldest:
            if chosen < 0 or load_int(own, SLICE_USED) < used:
                chosen, used = way, load_int(own, SLICE_USED)
        elif load_int(own, SLICE_VALUE) == value:
            return way
    return chosen


@kernel()
def _write_cell(f: int, found: int, number: int, row: int) -> None:
    cell = load_int(f, CELLS) + found * _ALL_CELLS + number * CELL_BYTES
    store_int(cell, CELL_DOCUMENT, load_narrow(row, ROW_DOCUMENT))
    store_int(cell, CELL_BEGIN, load_narrow(row, FIRST_BIN))
    store_int(cell, CELL_END, load_narrow(row, END_BIN))


@kernel()
def _append(f: int, value: int, row: int) -> None:
    """A new row of R_L in the slice of its value, if that is in the cache; one that is full leaves."""
    found = _slice(f, value, False)
    if found < 0:
        return
    own = load_int(f, SLICE_OF) + SLICE_BYTES * found
    length = load_int(own, SLICE_CELLS)
    if length == LONGEST_SLICE:
        store_int(own, SLICE_VALUE, -1)
        return
    _write_cell(f, found, length, row)
    store_int(own, SLICE_CELLS, length + 1)


@kernel()
def _materialised(f: int, value: int, oldest: int) -> int:
    """Put the slice of a value into the cache; -1 if that does not pay or there is no room."""
    if load_int(f, SLICE_OF + 1) == 0:
        return -1
    rows, last = load_int(f, ROWS), load_narrow(load_int(f, BY_VALUE), value)
    at, length = last, 0
    while at >= 0 and load_narrow(rows + ROW_BYTES * at, ROW_DOCUMENT) >= oldest:
        length += 1
        at = load_narrow(rows + ROW_BYTES * at, ROW_BEFORE)
    if length < WORTH or length > LONGEST_SLICE:
        return -1
    chosen = _slice(f, value, True)
    own = load_int(f, SLICE_OF) + SLICE_BYTES * chosen
    store_int(own, SLICE_VALUE, value)
    store_int(own, SLICE_CELLS, length)
    at = last
    for k in range(length - 1, -1, -1):
        _write_cell(f, chosen, k, rows + ROW_BYTES * at)
        at = load_narrow(rows + ROW_BYTES * at, ROW_BEFORE)
    return chosen


@kernel()
def index_rows(f: int, first: int, end: int) -> None:
    """Chain rows of R_doc by their values."""
    by_value = load_int(f, BY_VALUE)
    for number in range(first, end):
        row = load_int(f, ROWS) + ROW_BYTES * number
        if load_narrow(row, ROW_BEFORE) == FOREIGN:
            continue
        value, before = load_narrow(row, ROW_VALUE), -1
        if value >= 0:
            before = load_narrow(by_value, value)
            store_half(by_value, value, number)
            _append(f, value, row)
        store_half(row, ROW_BEFORE, before)


# ---- facts: R_L joined with R_R by value ----


@kernel()
def _has_use(f: int, begin: int, end: int) -> bool:
    """Whether some template asks for facts of rows of R_bin."""
    for right in range(begin, end):
        if look(f + 8 * BEGINS, FACT, load_narrow(load_int(f, EDGE), right), 0, 0) >= 0:
            return True
    return False


@kernel()
def gather_facts(f: int, current: int, oldest: int, near: bool, views: bool, some: bool) -> bool:
    """The facts of a document that comes with each one from `oldest` on; `near`: with itself, too.
    `views`: by the view cache. `some`: there may be leaves that are not joined by facts."""
    document, rows = load_int(f, DOCUMENTS) + DOCUMENT_BYTES * current, load_int(f, ROWS)
    begin, end = load_int(document, FIRST_ROW), load_int(document + DOCUMENT_BYTES, FIRST_ROW)
    for number in range(begin, end):
        mine = rows + ROW_BYTES * number
        value, before = load_narrow(mine, ROW_VALUE), load_narrow(mine, ROW_BEFORE)
        if value < 0 or before == FOREIGN:
            continue
        if some and not _has_use(f, load_narrow(mine, FIRST_BIN), load_narrow(mine, END_BIN)):
            continue
        found = -1
        if views:
            found = _slice(f, value, False)
            counts, which = load_int(f, CACHE_COUNTS), 1 if found >= 0 else 2
            store_int(counts, which, load_int(counts, which) + 1)
            if found < 0:
                found = _materialised(f, value, oldest)
        if found >= 0:
            if not _from_slice(f, found, mine, current, oldest, near):
                return False
            continue
        # The last row of a value is of this document: it is the one that was indexed last.
        at = load_narrow(load_int(f, BY_VALUE), value) if near else before
        while at >= 0:
            row = rows + ROW_BYTES * at
            earlier = load_narrow(row, ROW_DOCUMENT)
            if earlier < oldest:
                break
            if (near or earlier != current) and not _pair(
                f, earlier, load_narrow(row, FIRST_BIN), load_narrow(row, END_BIN), mine
            ):
                return False
            at = load_narrow(row, ROW_BEFORE)
    return True


@kernel()
def _from_slice(f: int, found: int, mine: int, current: int, oldest: int, near: bool) -> bool:
    """The facts of a row with a slice of the view cache, from the last document to the oldest."""
    counts, own = load_int(f, CACHE_COUNTS), load_int(f, SLICE_OF) + SLICE_BYTES * found
    store_int(counts, 0, load_int(counts, 0) + 1)
    store_int(own, SLICE_USED, load_int(counts, 0))
    cells = load_int(f, CELLS) + found * _ALL_CELLS
    for k in range(load_int(own, SLICE_CELLS) - 1, -1, -1):
        cell = cells + CELL_BYTES * k
        document = load_int(cell, CELL_DOCUMENT)
        if document < oldest:
            break
        if (near or document != current) and not _pair(
            f, document, load_int(cell, CELL_BEGIN), load_int(cell, CELL_END), mine
        ):
            return False
    return True


@kernel()
def _pair(f: int, document: int, begin: int, end: int, mine: int) -> bool:
    """The facts of rows of R_bin of an earlier document with those of a row of this one."""
    counts, heads, edges = load_int(f, WORK_COUNTS), load_int(f, HEADS), load_int(f, EDGE)
    first, last = load_narrow(mine, FIRST_BIN), load_narrow(mine, END_BIN)
    number, head = load_int(counts, 0), load_int(heads, document)
    if number + (end - begin) * (last - first) > load_int(f, FACTS + 1):
        return False
    if head < 0 and begin < end and first < last:
        touched = load_int(counts, 1)
        store_int(load_int(f, TOUCHED), touched, document)
        store_int(counts, 1, touched + 1)
    fact = load_int(f, FACTS) + FACT_BYTES * number
    for left in range(begin, end):
        a = load_narrow(edges, left)
        for right in range(first, last):
            b = load_narrow(edges, right)
            store_int(fact, LEFT_BIN, left)
            store_int(fact, RIGHT_BIN, right)
            store_int(fact, NEXT_FACT, head)
            store_int(fact, LEFT_LABEL, a)
            store_int(fact, RIGHT_LABEL, b)
            store_int(fact, LABEL_BIT, bit_of(a, b))
            head = number
            number += 1
            fact += FACT_BYTES
    store_int(heads, document, head)
    store_int(counts, 0, number)
    return True


@kernel()
def forget_facts(f: int) -> None:
    counts, heads, touched = load_int(f, WORK_COUNTS), load_int(f, HEADS), load_int(f, TOUCHED)
    for k in range(load_int(counts, 1)):
        store_int(heads, load_int(touched, k), -1)
    store_int(counts, 0, 0)
    store_int(counts, 1, 0)
