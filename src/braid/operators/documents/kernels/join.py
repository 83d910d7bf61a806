"""The value joins of all queries: one conjunctive query a template, for all its queries at once.

Queries of a template are rows of R_T: for each step of the template (a value join, or a leaf that is
only shown) the edges that it asks for, then the window. R_T is a trie over these labels, so queries
that begin alike are followed together. For a document that comes, the rows of R_doc that have its
values give R_L, its own witnesses are R_R; pairs of them of one earlier document are the facts of
that pair of documents, and a template's query is evaluated by going down the trie with them
(`descend.py`). Templates that begin with another comparison, or have one by order beside
an equality, are in `compare.py`.
"""

from __future__ import annotations

import numpy as np
from numba import types

from braid.jit.runtime import kernel, load_int, store_int
from braid.operators.documents.kernels.compare import beside_equal, compare
from braid.operators.documents.kernels.descend import (
    descend,
    distance_of,
    from_root,
    release,
    start_at,
    take,
    write_result,
)
from braid.operators.documents.kernels.frame import (
    ALONE,
    ASKED,
    BEGINS,
    BEGINS_ALIKE,
    BY_VIEWS,
    DOCUMENT_BYTES,
    DOCUMENTS,
    ENTRIES,
    FACT_BYTES,
    FACTS,
    FIRST_ROW,
    FIRST_STEP,
    FOUND_ROWS,
    HEADS,
    IS_BESIDE,
    KIND,
    LABEL_BIT,
    LEADS,
    LEFT_BIN,
    LEFT_LABEL,
    LIST_BYTES,
    LONGEST_WINDOW,
    NEAR_TOO,
    NEXT_FACT,
    ORDER,
    PAIRING,
    PAIRS,
    PROGRESS,
    RESULTS,
    RIGHT_BIN,
    RIGHT_LABEL,
    ROOT,
    SCANNING,
    SLOT_COUNT,
    STEP_BYTES,
    STEP_COUNT,
    STEPS,
    STOP,
    TEMPLATE,
    TEMPLATE_BYTES,
    TEMPLATES,
    TIME,
    TOUCHED,
    TRIE,
    TRIE_BYTES,
    WAY_BYTES,
    WAY_LENGTH,
    WAY_NODE,
    WAY_PLACE,
    WAY_QUERIES,
    WAY_QUERIES_FROM,
    WAY_QUERIES_TO,
    WAY_STEPS,
    WAYS,
    WAYS_FROM,
    WAYS_TO,
    WORK_COUNTS,
)
from braid.operators.documents.kernels.match import look
from braid.operators.documents.kernels.routes import ways_of
from braid.operators.documents.kernels.state import EQUALS, MANY
from braid.operators.documents.kernels.views import forget_facts, gather_facts, index_rows


@kernel()
def _needs_fact(f: int, template: int) -> bool:
    """Whether the second step is a join by equal values, too."""
    second = load_int(f, STEPS) + STEP_BYTES * (load_int(template, FIRST_STEP) + 1)
    return load_int(template, STEP_COUNT) > 1 and load_int(second, KIND) == EQUALS


@kernel()
def _from_fact(f: int, fact: int, bits: int, earlier: int, current: int) -> bool:
    """The queries whose first join a fact is."""
    left, right = load_int(fact, LEFT_BIN), load_int(fact, RIGHT_BIN)
    a, b = load_int(fact, LEFT_LABEL), load_int(fact, RIGHT_LABEL)
    start = look(f + 8 * BEGINS, a, b, 0, 0)
    while start >= 0:
        node = load_int(f, TRIE) + TRIE_BYTES * start
        template = load_int(f, TEMPLATES) + TEMPLATE_BYTES * load_int(node, TEMPLATE)
        if (
            load_int(node, LEADS) & bits != 0
            or load_int(template, STEP_COUNT) == 1
            or not _needs_fact(f, template)
        ) and not start_at(f, start, left, right, earlier, current):
            return False
        start = load_int(node, BEGINS_ALIKE)
    return True


@kernel()
def _agrees(f: int, way: int, first: int) -> bool:
    """Whether the facts of a way agree in the nodes above their leaves."""
    steps, order = load_int(f, WAY_STEPS) + 8 * load_int(way, WAY_PLACE), load_int(f, ORDER)
    for step in range(load_int(way, WAY_LENGTH)):
        fact = load_int(f, FACTS) + FACT_BYTES * load_int(order, load_int(steps, step))
        if not take(f, first + step, load_int(fact, LEFT_BIN), load_int(fact, RIGHT_BIN), step):
            return False
    return True


@kernel()
def _by_ways(f: int, number: int, earlier: int, current: int) -> bool:
    """All templates by the ways that are known for these facts."""
    entry = load_int(f, ENTRIES) + LIST_BYTES * number
    way = load_int(f, WAYS) + WAY_BYTES * load_int(entry, WAYS_FROM)
    for _ in range(load_int(entry, WAYS_FROM), load_int(entry, WAYS_TO)):
        leaf = load_int(way, WAY_NODE)
        own = load_int(load_int(f, TRIE) + TRIE_BYTES * leaf, TEMPLATE)
        template = load_int(f, TEMPLATES) + TEMPLATE_BYTES * own
        release(f, load_int(template, SLOT_COUNT), 0)
        if _agrees(f, way, load_int(template, FIRST_STEP)):
            if load_int(way, WAY_QUERIES_TO) < 0:
                if not descend(f, leaf, load_int(way, WAY_LENGTH), earlier, current):
                    return False
            elif not _emit_way(f, way, template, earlier, current):
                return False
        way += WAY_BYTES
    return True


@kernel()
def _emit_way(f: int, way: int, template: int, earlier: int, current: int) -> bool:
    """As when going down the trie, with the queries side by side."""
    distance = distance_of(f, load_int(template, PAIRING), earlier, current)
    if distance < 0:
        return True
    results, pairs = load_int(f, RESULTS), load_int(f, PAIRS)
    row, pair = load_int(results, 0), load_int(results, 1)
    begin, end = load_int(way, WAY_QUERIES_FROM), load_int(way, WAY_QUERIES_TO)
    if row >= load_int(f, FOUND_ROWS + 1) or pair + end - begin > load_int(f, PAIRS + 1):
        return False
    queries = load_int(f, WAY_QUERIES)
    for query in range(begin, end):
        if distance <= load_int(queries, 2 * query + 1):
            store_int(pairs, 2 * pair, row)
            store_int(pairs, 2 * pair + 1, load_int(queries, 2 * query))
            pair += 1
    if pair > load_int(results, 1):
        slots, leaf = load_int(template, SLOT_COUNT), load_int(way, WAY_NODE)
        write_result(f, row, slots, leaf, earlier, current)
        store_int(results, 0, row + 1)
        store_int(results, 1, pair)
    return True


@kernel()
def _from_facts(f: int, current: int) -> bool:
    """All templates, with the facts of each pair of documents.

    Few facts say which queries they begin; of many, most templates have some use.
    """
    for k in range(load_int(load_int(f, WORK_COUNTS), 1)):
        earlier = load_int(load_int(f, TOUCHED), k)
        entry = ways_of(f, earlier)
        if entry >= 0:
            if not _by_ways(f, entry, earlier, current):
                return False
        elif not _from_all(f, earlier, current):
            return False
    return True


@kernel()
def _from_all(f: int, earlier: int, current: int) -> bool:
    """All templates, with the facts of a document."""
    facts, head = load_int(f, FACTS), load_int(load_int(f, HEADS), earlier)
    number, count = head, 0
    bits = np.int64(0)  # of all facts of this pair: what needs another has no use for it
    while number >= 0:
        fact = facts + FACT_BYTES * number
        bits |= np.int64(1) << np.int64(load_int(fact, LABEL_BIT))
        number = load_int(fact, NEXT_FACT)
        count += 1
    if count >= MANY:
        for template in range(load_int(f, TEMPLATES + 1)):
            root = load_int(load_int(f, TEMPLATES) + TEMPLATE_BYTES * template, ROOT)
            leads = load_int(load_int(f, TRIE) + TRIE_BYTES * root, LEADS)
            if leads & bits != 0 and _is_equal(f, template):
                if not from_root(f, template, earlier, current):
                    return False
        return True
    number = head
    while number >= 0:
        fact = facts + FACT_BYTES * number
        if not _from_fact(f, fact, bits, earlier, current):
            return False
        number = load_int(fact, NEXT_FACT)
    return True


@kernel()
def _is_equal(f: int, number: int) -> bool:
    """Whether the first step of a template is a join by equal values that are looked up as facts."""
    template = load_int(f, TEMPLATES) + TEMPLATE_BYTES * number
    if load_int(template, STEP_COUNT) == 0 or load_int(template, IS_BESIDE) != 0:
        return False
    first = load_int(f, STEPS) + STEP_BYTES * load_int(template, FIRST_STEP)
    return load_int(first, KIND) == EQUALS


@kernel()
def _join_one(f: int, current: int, oldest: int, equal: bool, beside: bool) -> bool:
    """`equal`: whether some template begins with equal values; `beside`: with an order beside them."""
    asked = load_int(f, ASKED)
    near, views = load_int(asked, NEAR_TOO) != 0, load_int(asked, BY_VIEWS) != 0
    for k in range(load_int(f, ALONE + 1)):
        if not from_root(f, load_int(load_int(f, ALONE), k), current, current):
            return False
    if load_int(f, SCANNING + 1) > 0 and not compare(f, current, oldest):
        return False
    if beside and not beside_equal(f, current, oldest):
        return False
    if not equal:
        return True
    if views:
        return gather_facts(f, current, oldest, near, True, beside) and _from_facts(f, current)
    for template in range(load_int(f, TEMPLATES + 1)):  # each joins for itself
        if _is_equal(f, template):
            forget_facts(f)
            if not gather_facts(f, current, oldest, near, False, beside):
                return False
            for k in range(load_int(load_int(f, WORK_COUNTS), 1)):
                if not from_root(f, template, load_int(load_int(f, TOUCHED), k), current):
                    return False
    return True


@kernel((types.int64,))
def join(f: int) -> bool:
    """Join documents one after the other with all before them.

    `progress`: the next document, how many are indexed, the oldest that is near enough. False if
    there is not enough room: what the document that stopped it has put out is taken back.
    """
    progress, asked, results = load_int(f, PROGRESS), load_int(f, ASKED), load_int(f, RESULTS)
    documents = load_int(f, DOCUMENTS)
    equal, beside = False, False
    for number in range(load_int(f, TEMPLATES + 1)):
        equal |= _is_equal(f, number)
        template = load_int(f, TEMPLATES) + TEMPLATE_BYTES * number
        beside |= load_int(template, IS_BESIDE) != 0
    while load_int(progress, 0) < load_int(asked, STOP):
        current = load_int(progress, 0)
        document = documents + DOCUMENT_BYTES * current
        if load_int(progress, 1) <= current:
            first, end = (
                load_int(document, FIRST_ROW),
                load_int(document + DOCUMENT_BYTES, FIRST_ROW),
            )
            index_rows(f, first, end)
            store_int(progress, 1, current + 1)
        least, oldest = (
            load_int(document, TIME) - load_int(asked, LONGEST_WINDOW),
            load_int(progress, 2),
        )
        while oldest < current and load_int(documents + DOCUMENT_BYTES * oldest, TIME) < least:
            oldest += 1
        store_int(progress, 2, oldest)
        rows, pairs = load_int(results, 0), load_int(results, 1)
        done = _join_one(f, current, oldest, equal, beside)
        forget_facts(f)
        if not done:
            store_int(results, 0, rows)
            store_int(results, 1, pairs)
            return False
        store_int(progress, 0, current + 1)
    return True
