"""Records of the kernels over documents: rows of their tables, and the two frames that hold them all.

A frame is one record with a pointer to every array that a kernel may touch, so a kernel takes one
argument whatever it reads. `<name>_length` is the length of the array `name`. Python makes a frame
with `records.filled`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from braid.jit.records import Bytes, Floats, Halves, Record, Words, i32, i64, record
from braid.operators.documents.kernels.key_table import KeyTable

# ---- matching ----


@record
class PathState(Record):
    """A state of the automaton of paths; see `operators/documents/paths.py`."""

    parent: i64
    axis: i64
    #: The next state with the same parent, axis, name and first predicate.
    alike: i64
    #: The further predicates that a node must satisfy, in `asks`.
    asks_from: i64
    asks_to: i64
    #: A bit for each axis that leads on from this state.
    axes: i64
    first_edge: i64


@record
class Edge(Record):
    """A leaf of a pattern with the nodes above it that queries need."""

    #: The next edge that ends in the same state.
    next: i64
    #: Which nodes of the path are needed: a bit for each, the top first.
    mask: i64


@record
class Predicate(Record):
    """A condition on a node: a comparison of its value, or the existence of a node below it."""

    axis: i64
    name: i64
    operator: i64
    kind: i64
    #: The code of a text, or a float.
    constant: Annotated[Words, 1]
    parts_from: i64
    parts_to: i64
    #: The next predicate with the same name or value.
    next: i64


@record
class Held(Record):
    """A predicate that holds at a node, and the next one that does."""

    predicate: i64
    next: i64


@record
class Climb(Record):
    """A level of the way from a leaf up to its document."""

    node: i64
    state: i64
    #: The node above that was tried last.
    tried: i64


@record
class MatchFrame(Record):
    """Everything that matching a batch of documents reads and writes."""

    # The nodes of all documents of the batch; those of document d begin at document_start[d].
    document_start: Words
    sources: Words
    sources_length: i64
    name: Words
    parent: Words
    is_attribute: Bytes
    value: Words
    number: Floats
    # The automaton. `moves` finds the first state by (state, axis, name, predicate).
    states: PathState
    asks: Words
    moves: Annotated[KeyTable, 1]
    edges: Edge
    predicates: Predicate
    predicates_length: i64
    parts: Words
    by_name: Annotated[KeyTable, 1]
    by_text: Annotated[KeyTable, 1]
    #: Predicates on values that `by_text` does not find.
    others: Words
    others_length: i64
    # Room for one document: predicates that hold at nodes, and states that nodes reach.
    holds: Annotated[KeyTable, 1]
    held: Held
    held_length: i64
    held_count: i64
    held_first: Words
    reached: Annotated[KeyTable, 1]
    reached_states: Words
    reached_states_length: i64
    reached_count: i64
    reached_start: Words
    #: Of each state, 1 + the last node of the batch that reached it.
    last_reached: Words
    climb: Annotated[Climb, 64]
    # The witnesses: R_doc (node, value, first row of R_bin), R_bin (edge, place of its nodes in chain).
    found_start: Words
    found_node: Words
    found_node_length: i64
    found_value: Words
    found_first: Words
    found_edge: Words
    found_edge_length: i64
    found_place: Words
    found_chain: Words
    found_chain_length: i64
    row_count: i64
    bin_count: i64
    chain_count: i64


class Witnesses(NamedTuple):
    """R_doc (node, value, first row of R_bin) and R_bin (edge, place of its nodes in `chain`).

    `start` has the first row of R_doc of each document, `first` one element more than `node`.
    """

    start: np.ndarray
    node: np.ndarray
    value: np.ndarray
    first: np.ndarray
    edge: np.ndarray
    place: np.ndarray
    chain: np.ndarray


# ---- joining ----


@record
class Document(Record):
    time: i64
    #: Its first row of R_doc; those of the next document follow.
    first_row: i64


@record
class Row(Record):
    """A row of R_doc."""

    document: i32
    node: i32
    value: i32
    first_bin: i32
    #: The row before it that has the same value, or FOREIGN.
    before: i32


@record
class Slice(Record):
    """The rows of a value in the view cache: so many cells, and when it was used last."""

    value: i64
    cell_count: i64
    used: i64


@record
class Cell(Record):
    """A row of a slice: a document, and its rows of R_bin."""

    document: i64
    begin: i64
    end: i64


@record
class CacheCounts(Record):
    """What the view cache counts, and the rows that were scanned for a comparison beside an equality."""

    uses: i64
    hits: i64
    misses: i64
    scanned: i64


@record
class Template(Record):
    pairing: i64
    slot_count: i64
    first_step: i64
    step_count: i64
    #: Its root in the trie.
    root: i64
    #: How many comparisons at the beginning are looked up in the order of values (2: a band).
    ordered_steps: i64
    #: Whether these are behind a first step by equal values.
    is_beside: i64


@record
class Step(Record):
    """A step of a template; its slots on the left and on the right."""

    kind: i64
    operator: i64
    left_from: i64
    left_to: i64
    right_from: i64
    right_to: i64


@record
class TrieNode(Record):
    """A node of R_T."""

    template: i64
    first_query: i64
    #: The next node that begins with the same pair of edges.
    begins_alike: i64
    #: 64 bits of which those of its children are set: most pairs of edges lead nowhere.
    leads: i64
    #: The left edge that leads to it.
    left_edge: i64
    above: i64


@record
class Query(Record):
    node: i64
    #: Negative: the query is removed.
    window: i64
    #: The next query at the same leaf.
    next: i64


@record
class TrieCounts(Record):
    """How many nodes and queries the trie has."""

    nodes: i64
    queries: i64


@record
class KnownList(Record):
    """The digest of a list of pairs of edges, and the number of its RouteList."""

    digest: i64
    number: i64


@record
class RouteList(Record):
    """A list of pairs of edges, and the routes that it leads to."""

    labels_from: i64
    labels_to: i64
    routes_from: i64
    routes_to: i64


@record
class Label(Record):
    """A pair of edges."""

    left: i64
    right: i64


@record
class Route(Record):
    """A node of the trie, the facts that lead to it, and its queries (queries_to -1: not copied)."""

    node: i64
    steps_from: i64
    length: i64
    queries_from: i64
    queries_to: i64


@record
class RouteQuery(Record):
    node: i64
    window: i64


@record
class RouteCounts(Record):
    """How much of the arrays of routes is used."""

    lists: i64
    labels: i64
    routes: i64
    steps: i64
    queries: i64


@record
class Fact(Record):
    """Two rows of R_bin with equal values, and their edges."""

    left: i64
    right: i64
    #: The next fact of the same earlier document.
    next: i64
    left_edge: i64
    right_edge: i64
    #: Of the pair of edges, as in `TrieNode.leads`.
    bit: i64


@record
class Segment(Record):
    """Documents whose values are sorted: its groups, and where its documents end."""

    groups_from: i64
    groups_to: i64
    first: i64
    end: i64


@record
class Group(Record):
    """Values of one edge and kind, among documents that have `equal_value` at `equal_edge` (-1: all)."""

    equal_edge: i64
    equal_value: i64
    order_edge: i64
    kind: i64
    places_from: i64
    places_to: i64


@record
class Place(Record):
    """A row of R_bin, its row of R_doc, and the row of R_bin that is equal."""

    bin: i32
    row: i32
    equal: i32


@record
class Pair(Record):
    """A result and a query that it is for."""

    result: i64
    query: i64


@record
class Progress(Record):
    """The next document to join, how many are indexed, the oldest that is near enough."""

    next: i64
    indexed: i64
    oldest: i64


@record
class JoinFrame(Record):
    """Everything that joining documents reads and writes."""

    # Documents with their witnesses, in order of time. `by_value` has the last row of each value;
    # `kinds` and `orders` are the kind of a value and its place among others, for comparisons.
    documents: Document
    rows: Row
    edge: Halves
    place: Halves
    chain: Halves
    by_value: Halves
    kinds: Words
    orders: Floats
    # The view cache. A value has its place in one of WAYS_OF_SLICE slices.
    slices: Slice
    slices_length: i64
    cells: Cell
    #: How many cells a slice has room for.
    slice_room: i64
    cache_counts: CacheCounts
    # Templates, R_T as a trie, and the queries at its leaves.
    templates: Template
    templates_length: i64
    steps: Step
    slots: Words
    trie: TrieNode
    children: Annotated[KeyTable, 1]
    #: Nodes of first steps: by both edges if these are equal values (and 1 if an order is beside), by
    #: ORDERED and the right edge if ordered; nodes of second steps that are beside, by ORDERED and
    #: both right edges.
    begins: Annotated[KeyTable, 1]
    queries: Query
    #: Templates that no equality begins: those of one document, and those of all pairs.
    alone: Words
    alone_length: i64
    scanning: Words
    scanning_length: i64
    # Routes; see `routes.py`. `order` has room for the facts of the list at hand.
    known_lists: KnownList
    known_lists_length: i64
    route_lists: RouteList
    route_lists_length: i64
    labels: Label
    labels_length: i64
    routes: Route
    routes_length: i64
    route_steps: Words
    route_steps_length: i64
    route_queries: RouteQuery
    route_queries_length: i64
    order: Words
    route_counts: RouteCounts
    # Room for one document: its facts, chained by the earlier document; the path down the trie, and
    # what the slots are bound to, since which depth.
    facts: Fact
    facts_length: i64
    fact_count: i64
    heads: Words
    touched: Words
    touched_count: i64
    path: Annotated[Words, 130]
    cursor: Annotated[Words, 130]
    bound: Annotated[Words, 130]
    since: Annotated[Words, 130]
    # Results: leaf of the trie, the two documents, then the slots.
    results: Words
    result_width: i64
    result_room: i64
    result_count: i64
    pairs: Pair
    pairs_length: i64
    pair_count: i64
    # Values in their order; see `value_order.py`.
    segments: Segment
    segments_length: i64
    groups: Group
    text_places: Place
    order_places: Place
    #: Documents from here on are in no segment.
    unsorted_from: i64
    #: Whether segments have the values beside equal ones.
    sorts_beside: i64
    #: How many documents with a value are scanned before it is looked up.
    few: i64
    string_offsets: Words
    string_bytes: Bytes
    progress: Progress
    # What is asked: the document to stop before, the longest window, whether documents are joined with
    # themselves, whether by the view cache.
    stop: i64
    longest_window: i64
    with_itself: i64
    by_views: i64


class Results(NamedTuple):
    """Results (leaf of the trie, the two documents, then the slots), and pairs of one and a query."""

    rows: np.ndarray
    pairs: np.ndarray
