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

from braid.jit.runtime import kernel, load_int, store_int
from braid.operators.documents.kernels.frame import (
    CHILDREN,
    CURSOR,
    ENTRIES,
    FACT_BYTES,
    FACTS,
    FIRST_QUERY,
    FIRST_STEP,
    HEADS,
    IS_BESIDE,
    KIND,
    LABEL_BIT,
    LABELS,
    LABELS_FROM,
    LABELS_TO,
    LEADS,
    LEFT_LABEL,
    LIST_BYTES,
    NEXT_FACT,
    NEXT_QUERY,
    ORDER,
    PATH,
    QUERIES,
    QUERY_BYTES,
    QUERY_NODE,
    RIGHT_LABEL,
    ROOT,
    STEP_BYTES,
    STEP_COUNT,
    STEPS,
    TEMPLATE_BYTES,
    TEMPLATES,
    TRIE,
    TRIE_BYTES,
    WAY_BYTES,
    WAY_COUNTS,
    WAY_LENGTH,
    WAY_NODE,
    WAY_PLACE,
    WAY_QUERIES,
    WAY_QUERIES_FROM,
    WAY_QUERIES_TO,
    WAY_STEPS,
    WAY_TABLE,
    WAYS,
    WAYS_FROM,
    WAYS_TO,
    WINDOW,
)
from braid.operators.documents.kernels.match import look, mixed
from braid.operators.documents.kernels.state import EQUALS

#: What is known of a list besides the number of its entry: nothing, seen once, too much for an entry.
NOT_SEEN, SEEN, TOO_MUCH = -1, -2, -3
#: The longest list of facts, the most ways of one, and the most queries that one way has a copy of.
LONGEST, MOST_WAYS, MOST_QUERIES = 64, 4096, 1 << 14
#: What is counted: entries, labels, ways, steps and queries that are used.
_LISTS, _LABELS, _WAYS, _STEPS, _QUERIES = range(5)


@kernel()
def ways_of(f: int, earlier: int) -> int:
    """The entry for the facts with a document; -1 if there is none. Their numbers are in `order`."""
    order, facts = load_int(f, ORDER), load_int(f, FACTS)
    number, count, digest = load_int(load_int(f, HEADS), earlier), 0, np.int64(0)
    while number >= 0:
        if count == LONGEST:
            return -1
        store_int(order, count, number)
        fact = facts + FACT_BYTES * number
        digest = mixed(digest, load_int(fact, LEFT_LABEL), load_int(fact, RIGHT_LABEL), 0)
        number = load_int(fact, NEXT_FACT)
        count += 1
    known = load_int(f, WAY_TABLE) + 16 * (digest & (load_int(f, WAY_TABLE + 1) - 1))
    entry = load_int(known, 1)
    if load_int(known, 0) != digest or entry == NOT_SEEN:
        store_int(known, 0, digest)
        store_int(known, 1, SEEN)
        return -1
    if entry == TOO_MUCH:
        return -1
    if entry == SEEN:
        return _made(f, known, count)
    return entry if _is_list(f, entry, count) else -1


@kernel()
def _is_list(f: int, number: int, count: int) -> bool:
    entry = load_int(f, ENTRIES) + LIST_BYTES * number
    first = load_int(entry, LABELS_FROM)
    if load_int(entry, LABELS_TO) - first != count:
        return False
    label = load_int(f, LABELS) + 16 * first
    for k in range(count):
        fact = load_int(f, FACTS) + FACT_BYTES * load_int(load_int(f, ORDER), k)
        if load_int(label, 0) != load_int(fact, LEFT_LABEL) or (
            load_int(label, 1) != load_int(fact, RIGHT_LABEL)
        ):
            return False
        label += 16
    return True


@kernel()
def _note_list(f: int, first: int, count: int) -> int:
    """Write the labels of the list in `order`; their bits."""
    label, bits = load_int(f, LABELS) + 16 * first, np.int64(0)
    for k in range(count):
        fact = load_int(f, FACTS) + FACT_BYTES * load_int(load_int(f, ORDER), k)
        bits |= np.int64(1) << np.int64(load_int(fact, LABEL_BIT))
        store_int(label, 0, load_int(fact, LEFT_LABEL))
        store_int(label, 1, load_int(fact, RIGHT_LABEL))
        label += 16
    return bits


@kernel()
def _all_followed(f: int, bits: int, count: int, begin: int) -> bool:
    """The ways of all templates; False if there is no room for them."""
    template = load_int(f, TEMPLATES)
    for _ in range(load_int(f, TEMPLATES + 1)):
        root = load_int(f, TRIE) + TRIE_BYTES * load_int(template, ROOT)
        if load_int(template, IS_BESIDE) == 0 and load_int(root, LEADS) & bits:
            if not _followed(f, template, count, begin):
                return False
        template += TEMPLATE_BYTES
    return True


@kernel()
def _made(f: int, known: int, count: int) -> int:
    """Make the entry for the list in `order`; -1 if it has no room."""
    counts = load_int(f, WAY_COUNTS)
    number, label = load_int(counts, _LISTS), load_int(counts, _LABELS)
    first, step = load_int(counts, _WAYS), load_int(counts, _STEPS)
    held = load_int(counts, _QUERIES)
    has_room = number < load_int(f, ENTRIES + 1) and label + count <= load_int(f, LABELS + 1)
    if has_room:
        has_room = _all_followed(f, _note_list(f, label, count), count, first)
    if not has_room:
        if load_int(counts, _WAYS) - first < MOST_WAYS and number > 0:
            forget_ways(f)
        else:
            store_int(counts, _WAYS, first)
            store_int(counts, _STEPS, step)
            store_int(counts, _QUERIES, held)
            store_int(known, 1, TOO_MUCH)
        return -1
    entry = load_int(f, ENTRIES) + LIST_BYTES * number
    store_int(entry, LABELS_FROM, label)
    store_int(entry, LABELS_TO, label + count)
    store_int(entry, WAYS_FROM, first)
    store_int(entry, WAYS_TO, load_int(counts, _WAYS))
    store_int(counts, _LISTS, number + 1)
    store_int(counts, _LABELS, label + count)
    store_int(known, 1, number)
    return number


@kernel()
def forget_ways(f: int) -> None:
    table, counts = load_int(f, WAY_TABLE), load_int(f, WAY_COUNTS)
    for k in range(load_int(f, WAY_TABLE + 1)):
        store_int(table, 2 * k + 1, NOT_SEEN)
    for k in range(5):
        store_int(counts, k, 0)


@kernel()
def _followed(f: int, template: int, count: int, begin: int) -> bool:
    """The ways of one template: through all its joins by equal values, whatever the nodes are."""
    steps, step = load_int(template, STEP_COUNT), load_int(template, FIRST_STEP)
    equal = 0
    while (
        equal < steps and load_int(load_int(f, STEPS) + STEP_BYTES * (step + equal), KIND) == EQUALS
    ):
        equal += 1
    if equal == 0:
        return True
    path, cursor, depth = load_int(f, PATH), load_int(f, CURSOR), 0
    store_int(path, 0, load_int(template, ROOT))
    store_int(cursor, 0, 0)
    while depth >= 0:
        place, node = load_int(cursor, depth), load_int(path, depth)
        if depth == equal or place == count:
            if depth == equal and not _note_way(f, equal, equal == steps, begin):
                return False
            depth -= 1
            continue
        store_int(cursor, depth, place + 1)
        fact = load_int(f, FACTS) + FACT_BYTES * load_int(load_int(f, ORDER), place)
        leads = load_int(load_int(f, TRIE) + TRIE_BYTES * node, LEADS)
        if not (leads >> load_int(fact, LABEL_BIT)) & 1:
            continue
        left, right = load_int(fact, LEFT_LABEL), load_int(fact, RIGHT_LABEL)
        child = look(f + 8 * CHILDREN, node, left, right, 0)
        if child >= 0:
            depth += 1
            store_int(path, depth, child)
            store_int(cursor, depth, 0)
    return True


@kernel()
def _copied_queries(f: int, node: int, held: int) -> int:
    """Copy the queries of a node of the trie behind those that are held; their end, or -1."""
    end = held
    number = load_int(load_int(f, TRIE) + TRIE_BYTES * node, FIRST_QUERY)
    while number >= 0:
        if end == load_int(f, WAY_QUERIES + 1) or end - held == MOST_QUERIES:
            return -1
        query = load_int(f, QUERIES) + QUERY_BYTES * number
        if load_int(query, WINDOW) >= 0:
            store_int(load_int(f, WAY_QUERIES), 2 * end, load_int(query, QUERY_NODE))
            store_int(load_int(f, WAY_QUERIES), 2 * end + 1, load_int(query, WINDOW))
            end += 1
        number = load_int(query, NEXT_QUERY)
    return end


@kernel()
def _note_way(f: int, equal: int, is_whole: bool, begin: int) -> bool:
    """A node of the trie that was reached, with the facts on the way and its queries."""
    counts, steps = load_int(f, WAY_COUNTS), load_int(f, WAY_STEPS)
    number, place = load_int(counts, _WAYS), load_int(counts, _STEPS)
    if (
        number - begin == MOST_WAYS
        or number == load_int(f, WAYS + 1)
        or place + equal > load_int(f, WAY_STEPS + 1)
    ):
        return False
    for k in range(equal):
        store_int(steps, place + k, load_int(load_int(f, CURSOR), k) - 1)
    node = load_int(load_int(f, PATH), equal)
    held, end = load_int(counts, _QUERIES), np.int64(-1)
    if is_whole:
        end = _copied_queries(f, node, held)
        if end == held:
            return True  # all its queries are gone
    way = load_int(f, WAYS) + WAY_BYTES * number
    store_int(way, WAY_NODE, node)
    store_int(way, WAY_PLACE, place)
    store_int(way, WAY_LENGTH, equal)
    store_int(way, WAY_QUERIES_FROM, held)
    store_int(way, WAY_QUERIES_TO, end)
    if end >= 0:
        store_int(counts, _QUERIES, end)
    store_int(counts, _WAYS, number + 1)
    store_int(counts, _STEPS, place + equal)
    return True
