"""From pairs of a row and a node to pairs of a row and a query.

The queries of a node lie together, those that want the longest results first: the ones that a
result is too long for are the end of the list. Whether a query lives is asked only where some
query of the node was born late or has ended.
"""

from __future__ import annotations

import numpy as np

from braid.kernels.memory import resized
from braid.kernels.runtime import address, kernel, prefetch, store_int

#: Pairs that what is known of a node is fetched ahead, once and once more.
_AHEAD = 8


@kernel()
def _wanted(longest: np.ndarray, first: int, last: int, lasted: int) -> int:
    """Where the queries end that want a result of this duration."""
    if first < last and longest[last - 1] >= lasted:
        return last
    while first < last:
        middle = (first + last) >> 1
        if longest[middle] >= lasted:
            first = middle + 1
        else:
            last = middle
    return first


@kernel()
def count_members(
    starts: np.ndarray,
    longest: np.ndarray,
    life: np.ndarray,
    mixed: np.ndarray,
    rows: np.ndarray,
    index: np.ndarray,
    members: np.ndarray,
    tally: np.ndarray,
) -> int:
    """How many pairs `expand_members` would give.

    `tally` gets them for each query as differences: its running sum at a query's place is how
    many are the query's. So a result of a thousand queries is counted in two steps.
    """
    count, known, pairs = np.int64(0), starts.shape[0], index.shape[0]
    for k in range(pairs):
        # Nodes come in any order, and what is known of them lies in several arrays.
        if k + 2 * _AHEAD < pairs:
            ahead = np.int64(members[k + 2 * _AHEAD])
            prefetch(address(starts) + 8 * ahead)
            prefetch(address(mixed) + ahead)
            ahead = np.int64(members[k + _AHEAD])
            if ahead < known:
                prefetch(address(longest) + 8 * starts[ahead])
                prefetch(address(tally) + 8 * starts[ahead])
        node, row = members[k], index[k]
        if node + 1 >= known:
            continue
        start, end = rows[row, 0], rows[row, 1]
        last = _wanted(longest, starts[node], starts[node + 1], end - start)
        if not mixed[node]:
            count += last - starts[node]
            tally[starts[node]] += 1
            tally[last] -= 1
            continue
        for at in range(starts[node], last):
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
    out = resized(0, room)
    for k in range(index.shape[0]):
        node, row = members[k], index[k]
        if node + 1 >= starts.shape[0]:
            continue
        start, end = rows[row, 0], rows[row, 1]
        last = _wanted(longest, starts[node], starts[node + 1], end - start)
        needed = count + last - starts[node]
        if needed > room:
            room = 2 * needed
            out = resized(out, room)
        for at in range(starts[node], last):
            if start >= life[at, 0] and end < life[at, 1]:
                store_int(out, count, (np.int64(row) << 32) | queries[at])
                count += 1
    return out, count
