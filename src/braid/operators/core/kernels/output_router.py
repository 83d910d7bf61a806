"""From pairs of a row and a node to pairs of a row and a query.

The queries of a node lie together, those that want the longest results first: the ones that a
result is too long for are the end of the list. Whether a query lives is asked only where some
query of the node was born late or has ended.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.runtime import address, kernel, load_int, prefetch, store_int

#: Pairs that what is known of a node is fetched ahead, once and once more.
_AHEAD = 8
#: A guide to the queries of a node: where those begin whose results must end, how long they may last
#: at most, the width of a step in bits, and from GUIDE_AT on for each step the end of the queries
#: that want results as long as its beginning.
GUIDE_BOUNDED, GUIDE_TOP, GUIDE_SHIFT, GUIDE_AT = range(4)


@kernel()
def _wanted(longest: int, first: int, last: int, lasted: int) -> int:
    """Where the queries end that want a result of this duration."""
    count = last - first
    if count == 0 or load_int(longest, last - 1) >= lasted:
        return last
    # Half of them each time, whichever: nobody could foresee the way of a branch.
    while count > 1:
        half = count >> 1
        first += half * np.int64(load_int(longest, first + half - 1) >= lasted)
        count -= half
    return first + np.int64(load_int(longest, first) >= lasted)


@kernel()
def _guided(longest: int, guide: int, lasted: int) -> int:
    """The same, of queries that have a guide: those of one step are looked at, which are few."""
    if lasted > load_int(guide, GUIDE_TOP):
        return load_int(guide, GUIDE_BOUNDED)
    step = GUIDE_AT + (lasted >> load_int(guide, GUIDE_SHIFT))
    return _wanted(longest, load_int(guide, step + 1), load_int(guide, step), lasted)


@kernel()
def count_members(
    starts: np.ndarray,
    longest: np.ndarray,
    life: np.ndarray,
    mixed: np.ndarray,
    guided: np.ndarray,
    guides: np.ndarray,
    rows: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
    tally: np.ndarray,
) -> int:
    """How many pairs `expand_members` would give.

    `tally` gets them for each query as differences: its running sum at a query's place is how
    many are the query's. So a result of a thousand queries is counted in two steps.
    """
    count, nodes, pairs = np.int64(0), starts.shape[0] - 1, index.shape[0]
    # Addresses, not arrays: what touches an array in the loop counts references.
    start_at, longest_at, tally_at = address(starts), address(longest), address(tally)
    guide_at, guide_size = address(guides), 8 * guides.shape[1]
    rows_at, stride, mixed_at = address(rows), 8 * rows.shape[1], address(mixed)
    for k in range(pairs):
        # Nodes come in any order, and what is known of them lies in several arrays.
        if k + 2 * _AHEAD < pairs:
            ahead = np.int64(members[k + 2 * _AHEAD])
            prefetch(start_at + 8 * ahead)
            prefetch(mixed_at + ahead)
            ahead = np.int64(members[k + _AHEAD])
            if ahead < nodes:
                prefetch(longest_at + 8 * load_int(start_at, ahead))
                prefetch(tally_at + 8 * load_int(start_at, ahead))
        node = np.int64(members[k])
        if node >= nodes:
            continue
        row = rows_at + index[k] * stride
        start, end = load_int(row, 0), load_int(row, 1)
        first = load_int(start_at, node)
        if guided[node] >= 0:
            last = _guided(longest_at, guide_at + guided[node] * guide_size, end - start)
        else:
            last = _wanted(longest_at, first, load_int(start_at, node + 1), end - start)
        if not mixed[node]:
            count += last - first
            store_int(tally_at, first, load_int(tally_at, first) + 1)
            store_int(tally_at, last, load_int(tally_at, last) - 1)
            continue
        for at in range(first, last):
            if start >= life[at, 0] and end < life[at, 1]:
                count += 1
                tally[at] += 1
                tally[at + 1] -= 1
    return count


@kernel()
def expand_members(
    starts: np.ndarray,
    longest: np.ndarray,
    life: np.ndarray,
    queries: np.ndarray,
    rows: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
) -> tuple[int, int]:
    """Pairs row << 32 | query of the queries that want a row: where they are, how many."""
    room, count = np.int64(1024), np.int64(0)
    out, longest_at = resized(0, room), address(longest)
    for k in range(index.shape[0]):
        node, row = members[k], index[k]
        if node + 1 >= starts.shape[0]:
            continue
        start, end = rows[row, 0], rows[row, 1]
        last = _wanted(longest_at, starts[node], starts[node + 1], end - start)
        needed = count + last - starts[node]
        if needed > room:
            room = 2 * needed
            out = resized(out, room)
        for at in range(starts[node], last):
            if start >= life[at, 0] and end < life[at, 1]:
                store_int(out, count, (np.int64(row) << 32) | queries[at])
                count += 1
    return out, count
