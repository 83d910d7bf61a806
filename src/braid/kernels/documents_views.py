"""Documents looked up by value: chains of rows, and slices of them that are asked for often.

A slice is what the view cache keeps of a value: whom it is joined with, side by side. There is room
for so many; the one that was asked for longest ago gives way.
"""

from __future__ import annotations

from braid.kernels.documents_match import look, mixed
from braid.kernels.documents_state import (
    FACT,
    FOREIGN,
    WAYS,
    WORTH,
    Queries,
    State,
    Work,
    bit_of,
)
from braid.kernels.runtime import kernel


@kernel()
def _slice(state: State, value: int) -> int:
    """The slice of a value; -1 if it is not in the cache."""
    if state.slice_of.shape[0] == 0:
        return -1
    first = (mixed(value, 0, 0, 0) & (state.slice_of.shape[0] // WAYS - 1)) * WAYS
    for way in range(first, first + WAYS):
        if state.slice_of[way, 0] == value:
            return way
    return -1


@kernel()
def _append(state: State, value: int, row: int) -> None:
    """A new row of R_L in the slice of its value, if that is in the cache; one that is full leaves."""
    found = _slice(state, value)
    if found < 0:
        return
    length = state.slice_of[found, 1]
    if length == state.cells.shape[1]:
        state.slice_of[found, 0] = -1
        return
    state.cells[found, length, 0] = state.rows[row, 0]
    state.cells[found, length, 1] = state.rows[row, 3]
    state.cells[found, length, 2] = state.rows[row + 1, 3]
    state.slice_of[found, 1] = length + 1


@kernel()
def _materialised(state: State, value: int, oldest: int) -> int:
    """Put the slice of a value into the cache; -1 if that does not pay or there is no room."""
    if state.slice_of.shape[0] == 0:
        return -1
    row, length = state.by_value[value], 0
    while row >= 0 and state.rows[row, 0] >= oldest:
        length += 1
        row = state.rows[row, 4]
    if length < WORTH or length > state.cells.shape[1]:
        return -1
    first = (mixed(value, 0, 0, 0) & (state.slice_of.shape[0] // WAYS - 1)) * WAYS
    chosen = first
    for way in range(first + 1, first + WAYS):
        if state.slice_of[way, 2] < state.slice_of[chosen, 2]:
            chosen = way
    state.slice_of[chosen, 0], state.slice_of[chosen, 1] = value, length
    row = state.by_value[value]
    for k in range(length - 1, -1, -1):
        state.cells[chosen, k, 0] = state.rows[row, 0]
        state.cells[chosen, k, 1] = state.rows[row, 3]
        state.cells[chosen, k, 2] = state.rows[row + 1, 3]
        row = state.rows[row, 4]
    return chosen


@kernel()
def index_rows(state: State, first: int, end: int) -> None:
    """Chain rows of R_doc by their values."""
    for row in range(first, end):
        value = state.rows[row, 2]
        if state.rows[row, 4] == FOREIGN:
            continue
        state.rows[row, 4] = -1
        if value >= 0:
            state.rows[row, 4] = state.by_value[value]
            state.by_value[value] = row
            _append(state, value, row)


# ---- facts: R_L joined with R_R by value ----


@kernel()
def _has_use(queries: Queries, state: State, mine: int) -> bool:
    """Whether some template asks for facts of a row."""
    for right in range(state.rows[mine, 3], state.rows[mine + 1, 3]):
        if look(queries.begins, FACT, state.edge[right], 0, 0) >= 0:
            return True
    return False


@kernel()
def gather_facts(
    queries: Queries, state: State, work: Work, current: int, oldest: int, near: bool, views: bool,
    some: bool,
) -> bool:  # fmt: skip
    """The facts of a document that comes with each one from `oldest` on; `near`: with itself, too.
    `views`: by the view cache. `some`: there may be leaves that are not joined by facts."""
    begin, end = state.documents[current, 1], state.documents[current + 1, 1]
    for mine in range(begin, end):
        value = state.rows[mine, 2]
        if value < 0 or state.rows[mine, 4] == FOREIGN:
            continue
        if some and not _has_use(queries, state, mine):
            continue
        found = _slice(state, value) if views else -1
        if views:
            state.cache_counts[1 if found >= 0 else 2] += 1
            if found < 0:
                found = _materialised(state, value, oldest)
        if found >= 0:
            if not _from_slice(state, work, found, mine, current, oldest, near):
                return False
            continue
        # The last row of a value is of this document: it is the one that was indexed last.
        row = state.by_value[value] if near else state.rows[mine, 4]
        while row >= 0 and state.rows[row, 0] >= oldest:
            if (near or state.rows[row, 0] != current) and not _pair(
                state, work, state.rows[row, 0], state.rows[row, 3], state.rows[row + 1, 3], mine
            ):
                return False
            row = state.rows[row, 4]
    return True


@kernel()
def _from_slice(
    state: State, work: Work, found: int, mine: int, current: int, oldest: int, near: bool
) -> bool:
    """The facts of a row with a slice of the view cache, from the last document to the oldest."""
    state.cache_counts[0] += 1
    state.slice_of[found, 2] = state.cache_counts[0]
    for k in range(state.slice_of[found, 1] - 1, -1, -1):
        document = state.cells[found, k, 0]
        if document < oldest:
            break
        if (near or document != current) and not _pair(
            state, work, document, state.cells[found, k, 1], state.cells[found, k, 2], mine
        ):
            return False
    return True


@kernel()
def _pair(state: State, work: Work, document: int, begin: int, end: int, mine: int) -> bool:
    """The facts of rows of R_bin of an earlier document with those of a row of this one."""
    for left in range(begin, end):
        for right in range(state.rows[mine, 3], state.rows[mine + 1, 3]):
            number = work.counts[0]
            if number >= work.facts.shape[0]:
                return False
            if work.heads[document] < 0:
                work.touched[work.counts[1]] = document
                work.counts[1] += 1
            work.facts[number, 0] = left
            work.facts[number, 1] = right
            work.facts[number, 2] = work.heads[document]
            a, b = state.edge[left], state.edge[right]
            work.facts[number, 3], work.facts[number, 4] = a, b
            work.facts[number, 5] = bit_of(a, b)
            work.heads[document] = number
            work.counts[0] = number + 1
    return True


@kernel()
def forget_facts(work: Work) -> None:
    for k in range(work.counts[1]):
        work.heads[work.touched[k]] = -1
    work.counts[0] = 0
    work.counts[1] = 0


# ---- down the trie ----
