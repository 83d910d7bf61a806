"""Down the trie of R_T with two documents: what a template's conjunctive query is evaluated by.

What is bound on the way are the nodes of the template (slots): two leaves below one node agree in it.
"""

from __future__ import annotations

from braid.jit.runtime import kernel, load_int, load_narrow, store_int
from braid.operators.documents.kernels.frame import (
    ASKED,
    BOUND,
    CHAIN,
    CHILDREN,
    CURSOR,
    DOCUMENT_BYTES,
    DOCUMENTS,
    EDGE,
    FACT_BYTES,
    FACTS,
    FIRST_BIN,
    FIRST_QUERY,
    FIRST_ROW,
    FIRST_STEP,
    FOUND_ROWS,
    HEADS,
    KIND,
    LABEL_BIT,
    LEADS,
    LEFT_BIN,
    LEFT_FROM,
    LEFT_LABEL,
    LEFT_TO,
    NEXT_FACT,
    NEXT_QUERY,
    OPERATOR,
    PAIRING,
    PAIRS,
    PATH,
    PLACE,
    QUERIES,
    QUERY_BYTES,
    QUERY_NODE,
    RESULT_WORDS,
    RESULTS,
    RIGHT_BIN,
    RIGHT_FROM,
    RIGHT_LABEL,
    RIGHT_TO,
    ROOT,
    ROW_BYTES,
    ROW_VALUE,
    ROWS,
    SINCE,
    SLOT_COUNT,
    SLOTS,
    STEP_BYTES,
    STEP_COUNT,
    STEPS,
    TEMPLATE,
    TEMPLATE_BYTES,
    TEMPLATES,
    TIME,
    TRIE,
    TRIE_BYTES,
    WINDOW,
)
from braid.operators.documents.kernels.match import look
from braid.operators.documents.kernels.state import (
    COMPARES,
    EQUALS,
    FOLLOWED,
    LEFT,
    NEAR_MIRRORED,
    RIGHT,
)
from braid.operators.documents.kernels.value_order import compares


@kernel()
def release(f: int, slots: int, depth: int) -> None:
    since, bound = load_int(f, SINCE), load_int(f, BOUND)
    for slot in range(slots):
        if load_int(since, slot) >= depth:
            store_int(since, slot, -1)
            store_int(bound, slot, -1)


@kernel()
def _bind(f: int, begin: int, end: int, row: int, depth: int) -> bool:
    """Bind the slots of one side of a step to the nodes of a row of R_bin; False if they differ."""
    since, bound, slots = load_int(f, SINCE), load_int(f, BOUND), load_int(f, SLOTS)
    chain = load_int(f, CHAIN) + 4 * load_narrow(load_int(f, PLACE), row)
    for k in range(begin, end):
        slot, node = load_int(slots, k), load_narrow(chain, k - begin)
        if load_int(since, slot) >= 0:
            if load_int(bound, slot) != node:
                return False
        else:
            store_int(bound, slot, node)
            store_int(since, slot, depth)
    return True


@kernel()
def take(f: int, step: int, left: int, right: int, depth: int) -> bool:
    """Bind what a step asks of a pair of rows (-1: none of that side)."""
    own = load_int(f, STEPS) + STEP_BYTES * step
    if left >= 0 and not _bind(f, load_int(own, LEFT_FROM), load_int(own, LEFT_TO), left, depth):
        return False
    return right < 0 or _bind(f, load_int(own, RIGHT_FROM), load_int(own, RIGHT_TO), right, depth)


@kernel()
def value_of(f: int, document: int, bin_row: int) -> int:
    """The value of the leaf of a row of R_bin."""
    rows, own = load_int(f, ROWS), load_int(f, DOCUMENTS) + DOCUMENT_BYTES * document
    low, high = load_int(own, FIRST_ROW), load_int(own + DOCUMENT_BYTES, FIRST_ROW)
    while high - low > 1:
        middle = (low + high) // 2
        if load_narrow(rows + ROW_BYTES * middle, FIRST_BIN) <= bin_row:
            low = middle
        else:
            high = middle
    return load_narrow(rows + ROW_BYTES * low, ROW_VALUE)


@kernel()
def first_bin(f: int, document: int) -> int:
    """The first row of R_bin of a document."""
    row = load_int(load_int(f, DOCUMENTS) + DOCUMENT_BYTES * document, FIRST_ROW)
    return load_narrow(load_int(f, ROWS) + ROW_BYTES * row, FIRST_BIN)


@kernel()
def distance_of(f: int, pairing: int, earlier: int, current: int) -> int:
    """How far apart two documents are in time; -1 if they are not to be paired so."""
    documents = load_int(f, DOCUMENTS)
    distance = load_int(documents + DOCUMENT_BYTES * current, TIME) - load_int(
        documents + DOCUMENT_BYTES * earlier, TIME
    )
    if (pairing == FOLLOWED and distance <= 0) or (pairing == NEAR_MIRRORED and earlier == current):
        return -1
    return distance


@kernel()
def write_result(f: int, row: int, slots: int, leaf: int, earlier: int, current: int) -> None:
    """A row for what is bound."""
    own = load_int(f, FOUND_ROWS) + 8 * row * load_int(load_int(f, ASKED), RESULT_WORDS)
    store_int(own, 0, leaf)
    store_int(own, 1, earlier)
    store_int(own, 2, current)
    bound = load_int(f, BOUND)
    for slot in range(slots):
        store_int(own, 3 + slot, load_int(bound, slot))


@kernel()
def _emit(f: int, template: int, leaf: int, earlier: int, current: int) -> bool:
    """A row for what is bound, and a pair for each query whose window is long enough."""
    distance = distance_of(f, load_int(template, PAIRING), earlier, current)
    if distance < 0:
        return True
    results, pairs, queries = load_int(f, RESULTS), load_int(f, PAIRS), load_int(f, QUERIES)
    row, pair, written = load_int(results, 0), load_int(results, 1), False
    number = load_int(load_int(f, TRIE) + TRIE_BYTES * leaf, FIRST_QUERY)
    while number >= 0:
        query = queries + QUERY_BYTES * number
        if distance <= load_int(query, WINDOW):
            if not written:
                if row >= load_int(f, FOUND_ROWS + 1):
                    return False
                write_result(f, row, load_int(template, SLOT_COUNT), leaf, earlier, current)
                store_int(results, 0, row + 1)
                written = True
            if pair >= load_int(f, PAIRS + 1):
                return False
            store_int(pairs, 2 * pair, row)
            store_int(pairs, 2 * pair + 1, load_int(query, QUERY_NODE))
            pair += 1
        number = load_int(query, NEXT_QUERY)
    store_int(results, 1, pair)
    return True


@kernel()
def _begin(f: int, template: int, depth: int, earlier: int, current: int) -> None:
    """Set where a step begins to look."""
    if depth == load_int(template, STEP_COUNT):
        return
    step = load_int(f, STEPS) + STEP_BYTES * (load_int(template, FIRST_STEP) + depth)
    kind, begin = load_int(step, KIND), 0
    if kind == EQUALS:
        begin = load_int(load_int(f, HEADS), earlier)
    elif kind == RIGHT:
        begin = first_bin(f, current)
    elif kind == LEFT:
        begin = first_bin(f, earlier)
    store_int(load_int(f, CURSOR), depth, begin)


@kernel()
def descend(f: int, start: int, begun: int, earlier: int, current: int) -> bool:
    """Everything below a node of the trie; `begun` steps are bound already."""
    trie, facts = load_int(f, TRIE), load_int(f, FACTS)
    path, cursors, edges = load_int(f, PATH), load_int(f, CURSOR), load_int(f, EDGE)
    own = load_int(trie + TRIE_BYTES * start, TEMPLATE)
    template = load_int(f, TEMPLATES) + TEMPLATE_BYTES * own
    slots, steps = load_int(template, SLOT_COUNT), load_int(template, STEP_COUNT)
    first = load_int(f, STEPS) + STEP_BYTES * load_int(template, FIRST_STEP)
    left_begin, left_end = first_bin(f, earlier), first_bin(f, earlier + 1)
    right_begin, right_end = first_bin(f, current), first_bin(f, current + 1)
    wide = right_end - right_begin
    depth, node = begun, start
    store_int(path, depth, node)
    _begin(f, template, depth, earlier, current)
    while True:
        step, more = first + STEP_BYTES * depth, False
        kind, cursor = EQUALS, -1
        left, right, a, b = -1, -1, -1, -1
        if depth == steps:
            if not _emit(f, template, node, earlier, current):
                return False
        else:
            kind, cursor = load_int(step, KIND), load_int(cursors, depth)
            if kind == EQUALS:
                leads = load_int(trie + TRIE_BYTES * node, LEADS)
                while cursor >= 0:
                    fact = facts + FACT_BYTES * cursor
                    cursor = load_int(fact, NEXT_FACT)
                    if (leads >> load_int(fact, LABEL_BIT)) & 1:
                        left, right = load_int(fact, LEFT_BIN), load_int(fact, RIGHT_BIN)
                        a, b = load_int(fact, LEFT_LABEL), load_int(fact, RIGHT_LABEL)
                        more = True
                        break
            elif kind == LEFT:
                left, more = cursor, cursor < left_end
            elif kind == RIGHT:
                right, more = cursor, cursor < right_end
            else:
                more = cursor < (left_end - left_begin) * wide
                if more:
                    left, right = left_begin + cursor // wide, right_begin + cursor % wide
        if not more:
            depth -= 1
            if depth < begun:
                return True
            release(f, slots, depth)
            node = load_int(path, depth)
            continue
        if kind != EQUALS:
            cursor += 1
            a = load_narrow(edges, left) if left >= 0 else -1
            b = load_narrow(edges, right) if right >= 0 else -1
        store_int(cursors, depth, cursor)
        child = look(f + 8 * CHILDREN, node, a, b, 0)
        if child < 0:
            continue
        if kind == COMPARES:
            mine, theirs = value_of(f, earlier, left), value_of(f, current, right)
            if mine < 0 or theirs < 0 or not compares(f, load_int(step, OPERATOR), mine, theirs):
                continue
        if not take(f, load_int(template, FIRST_STEP) + depth, left, right, depth):
            release(f, slots, depth)
            continue
        depth += 1
        node = child
        store_int(path, depth, node)
        _begin(f, template, depth, earlier, current)


@kernel()
def start_at(f: int, start: int, left: int, right: int, earlier: int, current: int) -> bool:
    """Everything below a node of the trie that one step by a pair of rows leads to."""
    own = load_int(load_int(f, TRIE) + TRIE_BYTES * start, TEMPLATE)
    template = load_int(f, TEMPLATES) + TEMPLATE_BYTES * own
    release(f, load_int(template, SLOT_COUNT), 0)
    return not take(f, load_int(template, FIRST_STEP), left, right, 0) or descend(
        f, start, 1, earlier, current
    )


@kernel()
def from_root(f: int, number: int, earlier: int, current: int) -> bool:
    template = load_int(f, TEMPLATES) + TEMPLATE_BYTES * number
    release(f, load_int(template, SLOT_COUNT), 0)
    return descend(f, load_int(template, ROOT), 0, earlier, current)
