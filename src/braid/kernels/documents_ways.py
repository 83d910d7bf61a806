"""Which queries the facts of two documents lead to, kept for documents that are alike.

Documents of one schema that agree in the same leaves have facts with the same pairs of edges, in the
same order. What these lead to in R_T does not depend on the documents: for such a list of pairs, the
*ways* are the nodes of the trie that they reach in all templates, each with the facts of its steps.
They are found once, when a list is seen for the second time; what is left to be done for two
documents is whether leaves agree in the nodes above them. There is room for so many; when it is used
up, all are forgotten. Whoever changes R_T forgets them too.
"""

from __future__ import annotations

import numpy as np

from braid.kernels.documents_match import look, mixed
from braid.kernels.documents_state import EQUALS, Queries, Ways, Work
from braid.kernels.runtime import kernel

#: What is known of a list besides the number of its entry: nothing, seen once, too much for an entry.
NOT_SEEN, SEEN, TOO_MUCH = -1, -2, -3
#: The longest list of facts, the most ways of one, and the most queries that one way has a copy of.
LONGEST, MOST_WAYS, MOST_QUERIES = 64, 4096, 1 << 14


@kernel()
def ways_of(queries: Queries, ways: Ways, work: Work, earlier: int) -> int:
    """The entry for the facts with a document; -1 if there is none. Their numbers are in `order`."""
    fact, count, digest = work.heads[earlier], 0, np.int64(0)
    while fact >= 0:
        if count == LONGEST:
            return -1
        ways.order[count] = fact
        digest = mixed(digest, work.facts[fact, 3], work.facts[fact, 4], 0)
        fact = work.facts[fact, 2]
        count += 1
    at = digest & (ways.table.shape[0] - 1)
    if ways.table[at, 0] != digest or ways.table[at, 1] == NOT_SEEN:
        ways.table[at, 0], ways.table[at, 1] = digest, SEEN
        return -1
    entry = ways.table[at, 1]
    if entry == TOO_MUCH:
        return -1
    if entry == SEEN:
        return _made(queries, ways, work, at, count)
    return entry if _is_list(ways, work, entry, count) else -1


@kernel()
def _is_list(ways: Ways, work: Work, entry: int, count: int) -> bool:
    first = ways.entries[entry, 0]
    if ways.entries[entry, 1] - first != count:
        return False
    for k in range(count):
        fact = ways.order[k]
        if (
            ways.labels[first + k, 0] != work.facts[fact, 3]
            or ways.labels[first + k, 1] != work.facts[fact, 4]
        ):
            return False
    return True


@kernel()
def _made(queries: Queries, ways: Ways, work: Work, at: int, count: int) -> int:
    """Make the entry for the list in `order`; -1 if it has no room."""
    entry, label = ways.counts[0], ways.counts[1]
    first, step, held = ways.counts[2], ways.counts[3], ways.counts[4]
    bits = np.int64(0)
    has_room = entry < ways.entries.shape[0] and label + count <= ways.labels.shape[0]
    if has_room:
        for k in range(count):
            fact = ways.order[k]
            bits |= np.int64(1) << work.facts[fact, 5]
            ways.labels[label + k, 0] = work.facts[fact, 3]
            ways.labels[label + k, 1] = work.facts[fact, 4]
        for template in range(queries.templates.shape[0]):
            beside = queries.templates[template, 6]
            if not beside and queries.trie[queries.templates[template, 4], 3] & bits:
                if not _followed(queries, ways, work, template, count, first):
                    has_room = False
                    break
    if not has_room:
        if ways.counts[2] - first < MOST_WAYS and entry > 0:
            forget_ways(ways)
        else:
            ways.counts[2], ways.counts[3], ways.counts[4] = first, step, held
            ways.table[at, 1] = TOO_MUCH
        return -1
    ways.entries[entry, 0], ways.entries[entry, 1] = label, label + count
    ways.entries[entry, 2], ways.entries[entry, 3] = first, ways.counts[2]
    ways.counts[0], ways.counts[1] = entry + 1, label + count
    ways.table[at, 1] = entry
    return entry


@kernel()
def forget_ways(ways: Ways) -> None:
    ways.table[:, 1] = NOT_SEEN
    ways.counts[:] = 0


@kernel()
def _followed(
    queries: Queries, ways: Ways, work: Work, template: int, count: int, begin: int
) -> bool:
    """The ways of one template: through all its joins by equal values, whatever the nodes are."""
    first, steps = queries.templates[template, 2], queries.templates[template, 3]
    equal = 0
    while equal < steps and queries.steps[first + equal, 0] == EQUALS:
        equal += 1
    if equal == 0:
        return True
    depth = 0
    work.way[0], work.cursor[0] = queries.templates[template, 4], 0
    while depth >= 0:
        place = work.cursor[depth]
        if depth == equal or place == count:
            if depth == equal and not _note_way(queries, ways, work, equal, equal == steps, begin):
                return False
            depth -= 1
            continue
        work.cursor[depth] = place + 1
        fact = ways.order[place]
        if not (queries.trie[work.way[depth], 3] >> work.facts[fact, 5]) & 1:
            continue
        child = look(queries.children, work.way[depth], work.facts[fact, 3], work.facts[fact, 4], 0)
        if child >= 0:
            depth += 1
            work.way[depth], work.cursor[depth] = child, 0
    return True


@kernel()
def _note_way(
    queries: Queries, ways: Ways, work: Work, equal: int, is_whole: bool, begin: int
) -> bool:
    """A node of the trie that was reached, with the facts on the way and its queries."""
    number, place = ways.counts[2], ways.counts[3]
    if (
        number - begin == MOST_WAYS
        or number == ways.ways.shape[0]
        or place + equal > ways.steps.shape[0]
    ):
        return False
    for k in range(equal):
        ways.steps[place + k] = work.cursor[k] - 1
    node = work.way[equal]
    held = ways.counts[4]
    copied, end = is_whole, held
    query = queries.trie[node, 1] if is_whole else -1
    while query >= 0:
        if end == ways.queries.shape[0] or end - held == MOST_QUERIES:
            copied = False
            break
        if queries.queries[query, 1] >= 0:
            ways.queries[end, 0], ways.queries[end, 1] = (
                queries.queries[query, 0], queries.queries[query, 1],
            )  # fmt: skip
            end += 1
        query = queries.queries[query, 2]
    if copied and end == held:
        return True  # all its queries are gone
    ways.ways[number, 0], ways.ways[number, 1], ways.ways[number, 2] = node, place, equal
    ways.ways[number, 3], ways.ways[number, 4] = held, end if copied else -1
    if copied:
        ways.counts[4] = end
    ways.counts[2], ways.counts[3] = number + 1, place + equal
    return True
