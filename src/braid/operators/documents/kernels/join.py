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

from braid.jit.runtime import kernel
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
from braid.operators.documents.kernels.key_table import look
from braid.operators.documents.kernels.records import Fact, JoinFrame, Route, Template
from braid.operators.documents.kernels.routes import routes_of
from braid.operators.documents.kernels.state import EQUALS, MANY
from braid.operators.documents.kernels.views import forget_facts, gather_facts, index_rows


@kernel()
def _needs_fact(frame: JoinFrame, template: Template) -> bool:
    """Whether the second step is a join by equal values, too."""
    second = frame.steps[template.first_step + 1]
    return template.step_count > 1 and second.kind == EQUALS


@kernel()
def _from_fact(frame: JoinFrame, fact: Fact, bits: int, earlier: int, current: int) -> bool:
    """The queries whose first join a fact is."""
    left, right = fact.left, fact.right
    a, b = fact.left_edge, fact.right_edge
    start = look(frame.begins, a, b, 0, 0)
    while start >= 0:
        node = frame.trie[start]
        template = frame.templates[node.template]
        if (
            node.leads & bits != 0 or template.step_count == 1 or not _needs_fact(frame, template)
        ) and not start_at(frame, start, left, right, earlier, current):
            return False
        start = node.begins_alike
    return True


@kernel()
def _agrees(frame: JoinFrame, route: Route, first: int) -> bool:
    """Whether the facts of a route agree in the nodes above their leaves."""
    steps, order = frame.route_steps.after(route.steps_from), frame.order
    for step in range(route.length):
        fact = frame.facts[order[steps[step]]]
        if not take(frame, first + step, fact.left, fact.right, step):
            return False
    return True


@kernel()
def _by_routes(frame: JoinFrame, number: int, earlier: int, current: int) -> bool:
    """All templates by the routes that are known for these facts."""
    entry = frame.route_lists[number]
    for k in range(entry.routes_from, entry.routes_to):
        route = frame.routes[k]
        leaf = route.node
        own = frame.trie[leaf].template
        template = frame.templates[own]
        release(frame, template.slot_count, 0)
        if _agrees(frame, route, template.first_step):
            if route.queries_to < 0:
                if not descend(frame, leaf, route.length, earlier, current):
                    return False
            elif not _emit_route(frame, route, template, earlier, current):
                return False
    return True


@kernel()
def _emit_route(
    frame: JoinFrame, route: Route, template: Template, earlier: int, current: int
) -> bool:
    """As when going down the trie, with the queries side by side."""
    distance = distance_of(frame, template.pairing, earlier, current)
    if distance < 0:
        return True
    row, pair = frame.result_count, frame.pair_count
    begin, end = route.queries_from, route.queries_to
    if row >= frame.result_room or pair + end - begin > frame.pairs_length:
        return False
    for k in range(begin, end):
        query = frame.route_queries[k]
        if distance <= query.window:
            frame.pairs[pair].result, frame.pairs[pair].query = row, query.node
            pair += 1
    if pair > frame.pair_count:
        slots, leaf = template.slot_count, route.node
        write_result(frame, row, slots, leaf, earlier, current)
        frame.result_count = row + 1
        frame.pair_count = pair
    return True


@kernel()
def _from_facts(frame: JoinFrame, current: int) -> bool:
    """All templates, with the facts of each pair of documents.

    Few facts say which queries they begin; of many, most templates have some use.
    """
    for k in range(frame.touched_count):
        earlier = frame.touched[k]
        entry = routes_of(frame, earlier)
        if entry >= 0:
            if not _by_routes(frame, entry, earlier, current):
                return False
        elif not _from_all(frame, earlier, current):
            return False
    return True


@kernel()
def _from_all(frame: JoinFrame, earlier: int, current: int) -> bool:
    """All templates, with the facts of a document."""
    facts, head = frame.facts, frame.heads[earlier]
    number, count = head, 0
    bits = np.int64(0)  # of all facts of this pair: what needs another has no use for it
    while number >= 0:
        fact = facts[number]
        bits |= np.int64(1) << np.int64(fact.bit)
        number = fact.next
        count += 1
    if count >= MANY:
        for template in range(frame.templates_length):
            root = frame.templates[template].root
            leads = frame.trie[root].leads
            if leads & bits != 0 and _is_equal(frame, template):
                if not from_root(frame, template, earlier, current):
                    return False
        return True
    number = head
    while number >= 0:
        fact = facts[number]
        if not _from_fact(frame, fact, bits, earlier, current):
            return False
        number = fact.next
    return True


@kernel()
def _is_equal(frame: JoinFrame, number: int) -> bool:
    """Whether the first step of a template is a join by equal values that are looked up as facts."""
    template = frame.templates[number]
    if template.step_count == 0 or template.is_beside != 0:
        return False
    first = frame.steps[template.first_step]
    return first.kind == EQUALS


@kernel()
def _join_one(frame: JoinFrame, current: int, oldest: int, equal: bool, beside: bool) -> bool:
    """`equal`: whether some template begins with equal values; `beside`: with an order beside them."""
    near, views = frame.with_itself != 0, frame.by_views != 0
    for k in range(frame.alone_length):
        if not from_root(frame, frame.alone[k], current, current):
            return False
    if frame.scanning_length > 0 and not compare(frame, current, oldest):
        return False
    if beside and not beside_equal(frame, current, oldest):
        return False
    if not equal:
        return True
    if views:
        return gather_facts(frame, current, oldest, near, True, beside) and _from_facts(
            frame, current
        )
    for template in range(frame.templates_length):  # each joins for itself
        if _is_equal(frame, template):
            forget_facts(frame)
            if not gather_facts(frame, current, oldest, near, False, beside):
                return False
            for k in range(frame.touched_count):
                if not from_root(frame, template, frame.touched[k], current):
                    return False
    return True


@kernel((JoinFrame.type,))
def join(frame: JoinFrame) -> bool:
    """Join documents one after the other with all before them.

    False if there is not enough room: the results of the document that stopped it are taken back.
    """
    progress, documents = frame.progress, frame.documents
    equal, beside = False, False
    for number in range(frame.templates_length):
        equal |= _is_equal(frame, number)
        template = frame.templates[number]
        beside |= template.is_beside != 0
    while progress.next < frame.stop:
        current = progress.next
        document = documents[current]
        if progress.indexed <= current:
            index_rows(frame, document.first_row, document[1].first_row)
            progress.indexed = current + 1
        least, oldest = document.time - frame.longest_window, progress.oldest
        while oldest < current and documents[oldest].time < least:
            oldest += 1
        progress.oldest = oldest
        results, pairs = frame.result_count, frame.pair_count
        done = _join_one(frame, current, oldest, equal, beside)
        forget_facts(frame)
        if not done:
            frame.result_count, frame.pair_count = results, pairs
            return False
        progress.next = current + 1
    return True
