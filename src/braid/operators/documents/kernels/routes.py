"""Which queries the facts of two documents lead to, kept for documents that are alike.

Documents of one schema that agree in the same leaves have facts with the same pairs of edges, in the
same order. What these lead to in R_T does not depend on the documents: for such a list of pairs, the
*routes* are the nodes of the trie that they reach in all templates, each with the facts of its steps.
They are found once, when a list is seen for the second time; what is left to be done for two
documents is whether leaves agree in the nodes above them. There is room for so many; when it is used
up, all are forgotten. Whoever changes R_T forgets them too.
"""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel
from braid.operators.documents.kernels.key_table import look, mixed
from braid.operators.documents.kernels.records import JoinFrame, KnownList, Template
from braid.operators.documents.kernels.state import EQUALS

#: What is known of a list besides the number of its entry: nothing, seen once, too much for an entry.
NOT_SEEN, SEEN, TOO_MUCH = -1, -2, -3
#: The longest list of facts, the most routes of one, and the most queries that one route has a copy of.
LONGEST, MOST_ROUTES, MOST_QUERIES = 64, 4096, 1 << 14


@kernel()
def routes_of(frame: JoinFrame, earlier: int) -> int:
    """The entry for the facts with a document; -1 if there is none. Their numbers are in `order`."""
    order, facts = frame.order, frame.facts
    number, count, digest = frame.heads[earlier], 0, np.int64(0)
    while number >= 0:
        if count == LONGEST:
            return -1
        order[count] = number
        fact = facts[number]
        digest = mixed(digest, fact.left_edge, fact.right_edge, 0)
        number = fact.next
        count += 1
    known = frame.known_lists[digest & (frame.known_lists_length - 1)]
    entry = known.number
    if known.digest != digest or entry == NOT_SEEN:
        known.digest, known.number = digest, SEEN
        return -1
    if entry == TOO_MUCH:
        return -1
    if entry == SEEN:
        return _made(frame, known, count)
    return entry if _is_list(frame, entry, count) else -1


@kernel()
def _is_list(frame: JoinFrame, number: int, count: int) -> bool:
    entry = frame.route_lists[number]
    first = entry.labels_from
    if entry.labels_to - first != count:
        return False
    for k in range(count):
        label = frame.labels[first + k]
        fact = frame.facts[frame.order[k]]
        if label.left != fact.left_edge or label.right != fact.right_edge:
            return False
    return True


@kernel()
def _note_list(frame: JoinFrame, first: int, count: int) -> int:
    """Write the labels of the list in `order`; their bits."""
    bits = np.int64(0)
    for k in range(count):
        label = frame.labels[first + k]
        fact = frame.facts[frame.order[k]]
        bits |= np.int64(1) << np.int64(fact.bit)
        label.left, label.right = fact.left_edge, fact.right_edge
    return bits


@kernel()
def _all_followed(frame: JoinFrame, bits: int, count: int, begin: int) -> bool:
    """The routes of all templates; False if there is no room for them."""
    for number in range(frame.templates_length):
        template = frame.templates[number]
        root = frame.trie[template.root]
        if template.is_beside == 0 and root.leads & bits:
            if not _followed(frame, template, count, begin):
                return False
    return True


@kernel()
def _made(frame: JoinFrame, known: KnownList, count: int) -> int:
    """Make the entry for the list in `order`; -1 if it has no room."""
    counts = frame.route_counts
    number, label = counts.lists, counts.labels
    first, step = counts.routes, counts.steps
    held = counts.queries
    has_room = number < frame.route_lists_length and label + count <= frame.labels_length
    if has_room:
        has_room = _all_followed(frame, _note_list(frame, label, count), count, first)
    if not has_room:
        if counts.routes - first < MOST_ROUTES and number > 0:
            forget_routes(frame)
        else:
            counts.routes = first
            counts.steps = step
            counts.queries = held
            known.number = TOO_MUCH
        return -1
    entry = frame.route_lists[number]
    entry.labels_from = label
    entry.labels_to = label + count
    entry.routes_from = first
    entry.routes_to = counts.routes
    counts.lists = number + 1
    counts.labels = label + count
    known.number = number
    return number


@kernel()
def forget_routes(frame: JoinFrame) -> None:
    for k in range(frame.known_lists_length):
        frame.known_lists[k].number = NOT_SEEN
    counts = frame.route_counts
    counts.lists, counts.labels, counts.routes, counts.steps, counts.queries = 0, 0, 0, 0, 0


@kernel()
def _followed(frame: JoinFrame, template: Template, count: int, begin: int) -> bool:
    """The routes of one template: through all its joins by equal values, whatever the nodes are."""
    steps, step = template.step_count, template.first_step
    equal = 0
    while equal < steps and frame.steps[step + equal].kind == EQUALS:
        equal += 1
    if equal == 0:
        return True
    path, cursor, depth = frame.path, frame.cursor, 0
    path[0] = template.root
    cursor[0] = 0
    while depth >= 0:
        place, node = cursor[depth], path[depth]
        if depth == equal or place == count:
            if depth == equal and not _note_route(frame, equal, equal == steps, begin):
                return False
            depth -= 1
            continue
        cursor[depth] = place + 1
        fact = frame.facts[frame.order[place]]
        leads = frame.trie[node].leads
        if not (leads >> fact.bit) & 1:
            continue
        left, right = fact.left_edge, fact.right_edge
        child = look(frame.children, node, left, right, 0)
        if child >= 0:
            depth += 1
            path[depth] = child
            cursor[depth] = 0
    return True


@kernel()
def _copied_queries(frame: JoinFrame, node: int, held: int) -> int:
    """Copy the queries of a node of the trie behind those that are held; their end, or -1."""
    end = held
    number = frame.trie[node].first_query
    while number >= 0:
        if end == frame.route_queries_length or end - held == MOST_QUERIES:
            return -1
        query = frame.queries[number]
        if query.window >= 0:
            copied = frame.route_queries[end]
            copied.node, copied.window = query.node, query.window
            end += 1
        number = query.next
    return end


@kernel()
def _note_route(frame: JoinFrame, equal: int, is_whole: bool, begin: int) -> bool:
    """A node of the trie that was reached, with the facts on the route and its queries."""
    counts, steps = frame.route_counts, frame.route_steps
    number, place = counts.routes, counts.steps
    if (
        number - begin == MOST_ROUTES
        or number == frame.routes_length
        or place + equal > frame.route_steps_length
    ):
        return False
    for k in range(equal):
        steps[place + k] = frame.cursor[k] - 1
    node = frame.path[equal]
    held, end = counts.queries, np.int64(-1)
    if is_whole:
        end = _copied_queries(frame, node, held)
        if end == held:
            return True  # all its queries are gone
    route = frame.routes[number]
    route.node = node
    route.steps_from = place
    route.length = equal
    route.queries_from = held
    route.queries_to = end
    if end >= 0:
        counts.queries = end
    counts.routes = number + 1
    counts.steps = place + equal
    return True
