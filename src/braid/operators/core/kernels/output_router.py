"""From pairs of a row and a node to pairs of a row and a query.

The queries of a node lie together, those that want the longest results first: the ones that a
result is too long for are the end of the list. Whether a query lives is asked only where some
query of the node was born late or has ended.
"""

from __future__ import annotations

import numpy as np

from braid.jit.memory import resized
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import address, kernel, prefetch

#: Pairs that what is known of a node is fetched ahead, once and once more.
_AHEAD = 8


@record
class Guide(Record):
    """A guide to the queries of a node; the ends of its steps follow.

    The end of a step is that of the queries that want results as long as the step's beginning.
    """

    #: Where the queries begin whose results must end, and how long these may last at most.
    bounded: i64
    top: i64
    #: The width of a step, in bits.
    shift: i64


@kernel()
def _wanted(longest: Words, first: int, last: int, lasted: int) -> int:
    """Where the queries end that want a result of this duration."""
    count = last - first
    if count == 0 or longest[last - 1] >= lasted:
        return last
    # Half of them each time, whichever: nobody could foresee the way of a branch.
    while count > 1:
        half = count >> 1
        first += half * np.int64(longest[first + half - 1] >= lasted)
        count -= half
    return first + np.int64(longest[first] >= lasted)


@kernel()
def _guided(longest: Words, guide: Guide, lasted: int) -> int:
    """The same, of queries that have a guide: those of one step are looked at, which are few."""
    if lasted > guide.top:
        return guide.bounded
    ends, step = Words(guide[1]), lasted >> guide.shift
    return _wanted(longest, ends[step + 1], ends[step], lasted)


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
    # Pointers, not arrays: what touches an array in the loop counts references.
    start_at, longest_at = Words(address(starts)), Words(address(longest))
    tally_at, guide_at, guide_words = Words(address(tally)), Words(address(guides)), guides.shape[1]
    rows_at, width, mixed_at = Words(address(rows)), rows.shape[1], address(mixed)
    for k in range(pairs):
        # Nodes come in any order, and what is known of them lies in several arrays.
        if k + 2 * _AHEAD < pairs:
            ahead = np.int64(members[k + 2 * _AHEAD])
            prefetch(start_at.after(ahead))
            prefetch(mixed_at + ahead)
            ahead = np.int64(members[k + _AHEAD])
            if ahead < nodes:
                prefetch(longest_at.after(start_at[ahead]))
                prefetch(tally_at.after(start_at[ahead]))
        node = np.int64(members[k])
        if node >= nodes:
            continue
        row = rows_at.after(index[k] * width)
        start, end = row[0], row[1]
        first = start_at[node]
        if guided[node] >= 0:
            guide = Guide(guide_at.after(guided[node] * guide_words).address)
            last = _guided(longest_at, guide, end - start)
        else:
            last = _wanted(longest_at, first, start_at[node + 1], end - start)
        if not mixed[node]:
            count += last - first
            tally_at[first] += 1
            tally_at[last] -= 1
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
    out, longest_at = Words(resized(0, room)), Words(address(longest))
    for k in range(index.shape[0]):
        node, row = members[k], index[k]
        if node + 1 >= starts.shape[0]:
            continue
        start, end = rows[row, 0], rows[row, 1]
        last = _wanted(longest_at, starts[node], starts[node + 1], end - start)
        needed = count + last - starts[node]
        if needed > room:
            room = 2 * needed
            out = Words(resized(out, room))
        for at in range(starts[node], last):
            if start >= life[at, 0] and end < life[at, 1]:
                out[count] = (np.int64(row) << 32) | queries[at]
                count += 1
    return out.address, count
