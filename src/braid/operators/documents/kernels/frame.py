"""What is kept of documents and of the queries over them, as arrays, and frames of their addresses.

A frame is an array of words. Each array of some of these records, one after the other, has two words
in it: its address and the number of its rows. So kernels take one word, whatever they look at; with
the arrays as arguments most of the time of compiling was spent on passing them on. The words are
named here beside the records, which say what is behind them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.jit.memory import address_of

# ---- matching: Nodes, Paths, Scratch, Witnesses ----

(
    START, SOURCE, NAME, PARENT, IS_ATTRIBUTE, VALUE, NUMBERS,
    STATE_PARENT, AXIS, ALIKE, ASKS_START, ASKS, GOES, MOVES, EDGES, EDGE_NEXT, EDGE_MASK,
    TESTS, PARTS, BY_NAME, BY_TEXT, OTHERS,
    HOLDS, HELD, HELD_NEXT, HELD_FIRST, REACHED_STATES, STATE_START, LAST, REACHED, WAY, ROOM_COUNTS,
    FOUND_START, FOUND_NODE, FOUND_VALUE, FOUND_FIRST, FOUND_EDGE, FOUND_PLACE, FOUND_CHAIN,
    FOUND_COUNTS,
) = range(0, 80, 2)  # fmt: skip

#: Bytes of an entry of a table: four words that it is found by, and a number (-1: none).
ENTRY_BYTES = 40


class Nodes(NamedTuple):
    """The nodes of the documents of a batch; those of document d are start[d]..start[d+1]."""

    start: np.ndarray
    source: np.ndarray
    name: np.ndarray
    parent: np.ndarray
    attribute: np.ndarray
    value: np.ndarray
    number: np.ndarray


class Paths(NamedTuple):
    """States, predicates and edges; see `operators/documents/paths.py`.

    `moves` finds the first state for (state, axis, name, predicate); `alike` the next one. `goes`: a
    bit for each axis that leads on from a state.
    """

    parent: np.ndarray
    axis: np.ndarray
    alike: np.ndarray
    asks_start: np.ndarray
    asks: np.ndarray
    goes: np.ndarray
    moves: np.ndarray
    edges: np.ndarray
    edge_next: np.ndarray
    edge_mask: np.ndarray
    #: Predicates: axis, name, operator, kind of constant, constant, parts, next of the same name.
    tests: np.ndarray
    parts: np.ndarray
    by_name: np.ndarray
    by_value: np.ndarray
    others: np.ndarray


class Scratch(NamedTuple):
    """Room for one document: which predicates hold where, and which states are reached where."""

    holds: np.ndarray
    held: np.ndarray
    held_next: np.ndarray
    held_first: np.ndarray
    state: np.ndarray
    state_start: np.ndarray
    #: Of each state, the last node of the batch where it was reached, and one table of all of a document.
    last: np.ndarray
    reached: np.ndarray
    way: np.ndarray
    #: Predicates that hold, states that are reached.
    counts: np.ndarray


class Witnesses(NamedTuple):
    """R_doc (node, value, first row of R_bin) and R_bin (edge, place of its nodes in `chain`).

    `counts`: rows of R_doc, of R_bin, and nodes in `chain`.
    """

    start: np.ndarray
    node: np.ndarray
    value: np.ndarray
    first: np.ndarray
    edge: np.ndarray
    place: np.ndarray
    chain: np.ndarray
    counts: np.ndarray


# ---- joining: State, Queries, Ways, Work, Found, Sorted, strings, and what is said besides ----

(
    DOCUMENTS, ROWS, EDGE, PLACE, CHAIN, BY_VALUE, KINDS, ORDERS, SLICE_OF, CELLS, CACHE_COUNTS,
    TEMPLATES, STEPS, SLOTS, TRIE, CHILDREN, BEGINS, QUERIES, ALONE, SCANNING,
    WAY_TABLE, ENTRIES, LABELS, WAYS, WAY_STEPS, WAY_QUERIES, ORDER, WAY_COUNTS,
    FACTS, HEADS, TOUCHED, WORK_COUNTS, PATH, CURSOR, BOUND, SINCE,
    FOUND_ROWS, PAIRS, RESULTS,
    SEGMENTS, GROUPS, TEXT_PLACES, ORDER_PLACES, UNTIL,
    STRINGS, POOL, PROGRESS,
    ASKED, JOIN_WORDS,
) = range(0, 98, 2)  # fmt: skip

#: What is asked, behind ASKED: the document to stop before, the longest window, whether documents
#: are joined with themselves, whether by the view cache, words of a result.
STOP, LONGEST_WINDOW, NEAR_TOO, BY_VIEWS, RESULT_WORDS, ASKED_WORDS = range(6)

#: A document: its time, its first row of R_doc.
TIME, FIRST_ROW, DOCUMENT_BYTES = 0, 1, 16
#: A row of R_doc, of words of 32 bits: document, node, value, first row of R_bin, and the row before it that
#: has the same value (or FOREIGN: it joins nothing here).
ROW_DOCUMENT, ROW_NODE, ROW_VALUE, FIRST_BIN, ROW_BEFORE, ROW_HALVES, ROW_BYTES = (
    0,
    1,
    2,
    3,
    4,
    5,
    20,
)
#: Of the row behind it.
END_BIN = ROW_HALVES + FIRST_BIN
#: A slice of the view cache, and a cell of one.
SLICE_VALUE, SLICE_CELLS, SLICE_USED, SLICE_BYTES = 0, 1, 2, 24
CELL_DOCUMENT, CELL_BEGIN, CELL_END, CELL_BYTES = 0, 1, 2, 24
#: How many cells a slice has room for.
LONGEST_SLICE = 512
#: A template, a step, a node of the trie, a query.
PAIRING, SLOT_COUNT, FIRST_STEP, STEP_COUNT, ROOT, ORDERED_STEPS, IS_BESIDE, TEMPLATE_BYTES = (
    0, 1, 2, 3, 4, 5, 6, 56,
)  # fmt: skip
KIND, OPERATOR, LEFT_FROM, LEFT_TO, RIGHT_FROM, RIGHT_TO, STEP_BYTES = 0, 1, 2, 3, 4, 5, 48
TEMPLATE, FIRST_QUERY, BEGINS_ALIKE, LEADS, LEFT_EDGE, NODE_ABOVE, TRIE_BYTES = 0, 1, 2, 3, 4, 5, 48
QUERY_NODE, WINDOW, NEXT_QUERY, QUERY_BYTES = 0, 1, 2, 24
#: A fact: rows of R_bin, the next fact with the same document, edges, a bit of these.
LEFT_BIN, RIGHT_BIN, NEXT_FACT, LEFT_LABEL, RIGHT_LABEL, LABEL_BIT, FACT_BYTES = (
    0,
    1,
    2,
    3,
    4,
    5,
    48,
)
#: A list of pairs of edges, and a way.
LABELS_FROM, LABELS_TO, WAYS_FROM, WAYS_TO, LIST_BYTES = 0, 1, 2, 3, 32
WAY_NODE, WAY_PLACE, WAY_LENGTH, WAY_QUERIES_FROM, WAY_QUERIES_TO, WAY_BYTES = 0, 1, 2, 3, 4, 40
#: A segment; a group; a place (of words of 32 bits).
GROUPS_FROM, GROUPS_TO, SEGMENT_END, SEGMENT_BYTES = 0, 1, 3, 32
EQUAL_EDGE, EQUAL_VALUE, ORDER_EDGE, ORDER_KIND, PLACES_FROM, PLACES_TO, GROUP_BYTES = (
    0, 1, 2, 3, 4, 5, 48,
)  # fmt: skip
PLACE_BIN, PLACE_ROW, PLACE_EQUAL, PLACE_BYTES = 0, 1, 2, 12


class State(NamedTuple):
    """Documents with their witnesses, in order of time; `by_value`: of each value the last row of R_doc.

    `documents`: time, first row of R_doc (one more for the end). `rows`: document, node, value,
    first row of R_bin, the row before it that has the same value (or FOREIGN: it joins nothing here). `kinds`, `orders`: kind and place
    of a value among others, for comparisons.

    The view cache has slices of R_L by value, each of so many cells in a row (document, first row of
    R_bin and the end of them; there is room for LONGEST_SLICE): `slice_of` has the value, the number of cells and when it was used last.
    A value has its place in one of WAYS slices; that which was used least recently gives way.
    `cache_counts`: uses, hits, misses; rows of long chains that were gone through for a comparison
    beside an equality.
    """

    documents: np.ndarray
    rows: np.ndarray
    edge: np.ndarray
    place: np.ndarray
    chain: np.ndarray
    by_value: np.ndarray
    kinds: np.ndarray
    orders: np.ndarray
    slice_of: np.ndarray
    cells: np.ndarray
    cache_counts: np.ndarray


class Queries(NamedTuple):
    """Templates, R_T as a trie, and the queries at its leaves.

    `templates`: pairing, slots, first step, steps, root in the trie, how many comparisons at the
    beginning are looked up in the order of values (2: a band), and whether these are behind a first
    step by equal values, `beside` it. `steps`: kind, operator, first and end of its left slots, first
    and end of its right ones. `trie`: template, first query, next that begins with the same pair of
    edges, and 64 bits of which those of its children are set: most pairs of edges lead nowhere, and
    are not looked up; the left edge that leads to it; the node above it. `begins`: nodes of first
    steps, by both edges if these are equal values (and 1 if an order is beside), by ORDERED and the
    right edge if ordered; nodes of second steps that are beside, by ORDERED and both right edges.
    """

    templates: np.ndarray
    steps: np.ndarray
    slots: np.ndarray
    trie: np.ndarray
    children: np.ndarray
    begins: np.ndarray
    #: Query: number of its node, window, the next at the same leaf.
    queries: np.ndarray
    #: Templates that no equality begins: those of one document, and those of all pairs.
    alone: np.ndarray
    scanning: np.ndarray


class Ways(NamedTuple):
    """What lists of pairs of edges lead to; see `routes.py`.

    `table`: digest of a list and the number of its entry. `entries`: first and end of its `labels`, first
    and end of its `ways`: node of the trie, first of its `steps` (places in the list), how many, first
    and end of its `queries` (node, window; end -1: they are not copied). `order`: room for the facts of
    the list at hand. `counts`: how much of entries, labels, ways, steps and queries is used.
    """

    table: np.ndarray
    entries: np.ndarray
    labels: np.ndarray
    ways: np.ndarray
    steps: np.ndarray
    queries: np.ndarray
    order: np.ndarray
    counts: np.ndarray


class Work(NamedTuple):
    """Room for one document: facts chained by the earlier document, and the way down the trie."""

    facts: np.ndarray
    heads: np.ndarray
    touched: np.ndarray
    counts: np.ndarray
    way: np.ndarray
    cursor: np.ndarray
    bound: np.ndarray
    since: np.ndarray


class Found(NamedTuple):
    """Results: leaf of the trie, the two documents, then the slots; pairs of a row and a node."""

    rows: np.ndarray
    pairs: np.ndarray
    counts: np.ndarray


class Sorted(NamedTuple):
    """`segments`: first and end of its groups, and of its documents. `groups`: edge and value that are
    equal (-1: none), edge and kind of the value in order, first and end of its places; in order of all
    these. `by_text`, `by_order`: places, each a row of R_bin and its row of R_doc, and the row of R_bin
    that is equal. `until`: documents from here on are in no segment; whether segments have what is
    beside equal values; how many documents with a value are gone through before it is looked up."""

    segments: np.ndarray
    groups: np.ndarray
    by_text: np.ndarray
    by_order: np.ndarray
    until: np.ndarray


def frame_of(*arrays: np.ndarray, first: int = 0) -> np.ndarray:
    """The frame of these, from a word on; they must live as long as it is used."""
    words = [0] * first
    for array in arrays:
        assert array.flags.c_contiguous
        words += (address_of(array), len(array))
    return np.array(words, np.int64)
