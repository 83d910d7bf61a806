"""Down the trie of R_T with two documents: what a template's conjunctive query is evaluated by.

What is bound on the way are the nodes of the template (slots): two leaves below one node agree in it.
"""

from __future__ import annotations

from braid.jit.runtime import kernel
from braid.operators.documents.kernels.key_table import look
from braid.operators.documents.kernels.records import JoinFrame, Template
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
def release(frame: JoinFrame, slots: int, depth: int) -> None:
    since, bound = frame.since, frame.bound
    for slot in range(slots):
        if since[slot] >= depth:
            since[slot] = -1
            bound[slot] = -1


@kernel()
def _bind(frame: JoinFrame, begin: int, end: int, row: int, depth: int) -> bool:
    """Bind the slots of one side of a step to the nodes of a row of R_bin; False if they differ."""
    since, bound, slots = frame.since, frame.bound, frame.slots
    chain = frame.chain.after(frame.place[row])
    for k in range(begin, end):
        slot, node = slots[k], chain[k - begin]
        if since[slot] >= 0:
            if bound[slot] != node:
                return False
        else:
            bound[slot] = node
            since[slot] = depth
    return True


@kernel()
def take(frame: JoinFrame, step: int, left: int, right: int, depth: int) -> bool:
    """Bind what a step asks of a pair of rows (-1: none of that side)."""
    own = frame.steps[step]
    if left >= 0 and not _bind(frame, own.left_from, own.left_to, left, depth):
        return False
    return right < 0 or _bind(frame, own.right_from, own.right_to, right, depth)


@kernel()
def value_of(frame: JoinFrame, document: int, bin_row: int) -> int:
    """The value of the leaf of a row of R_bin."""
    rows, own = frame.rows, frame.documents[document]
    low, high = own.first_row, own[1].first_row
    while high - low > 1:
        middle = (low + high) // 2
        if rows[middle].first_bin <= bin_row:
            low = middle
        else:
            high = middle
    return rows[low].value


@kernel()
def first_bin(frame: JoinFrame, document: int) -> int:
    """The first row of R_bin of a document."""
    row = frame.documents[document].first_row
    return frame.rows[row].first_bin


@kernel()
def distance_of(frame: JoinFrame, pairing: int, earlier: int, current: int) -> int:
    """How far apart two documents are in time; -1 if they are not to be paired so."""
    documents = frame.documents
    distance = documents[current].time - documents[earlier].time
    if (pairing == FOLLOWED and distance <= 0) or (pairing == NEAR_MIRRORED and earlier == current):
        return -1
    return distance


@kernel()
def write_result(
    frame: JoinFrame, row: int, slots: int, leaf: int, earlier: int, current: int
) -> None:
    """A row for what is bound."""
    own = frame.results.after(row * frame.result_width)
    own[0] = leaf
    own[1] = earlier
    own[2] = current
    bound = frame.bound
    for slot in range(slots):
        own[3 + slot] = bound[slot]


@kernel()
def _emit(frame: JoinFrame, template: Template, leaf: int, earlier: int, current: int) -> bool:
    """A row for what is bound, and a pair for each query whose window is long enough."""
    distance = distance_of(frame, template.pairing, earlier, current)
    if distance < 0:
        return True
    row, pair, written = frame.result_count, frame.pair_count, False
    number = frame.trie[leaf].first_query
    while number >= 0:
        query = frame.queries[number]
        if distance <= query.window:
            if not written:
                if row >= frame.result_room:
                    return False
                write_result(frame, row, template.slot_count, leaf, earlier, current)
                frame.result_count = row + 1
                written = True
            if pair >= frame.pairs_length:
                return False
            frame.pairs[pair].result, frame.pairs[pair].query = row, query.node
            pair += 1
        number = query.next
    frame.pair_count = pair
    return True


@kernel()
def _begin(frame: JoinFrame, template: Template, depth: int, earlier: int, current: int) -> None:
    """Set where a step begins to look."""
    if depth == template.step_count:
        return
    step = frame.steps[template.first_step + depth]
    kind, begin = step.kind, 0
    if kind == EQUALS:
        begin = frame.heads[earlier]
    elif kind == RIGHT:
        begin = first_bin(frame, current)
    elif kind == LEFT:
        begin = first_bin(frame, earlier)
    frame.cursor[depth] = begin


@kernel()
def descend(frame: JoinFrame, start: int, begun: int, earlier: int, current: int) -> bool:
    """Everything below a node of the trie; `begun` steps are bound already."""
    trie, facts = frame.trie, frame.facts
    path, cursors, edges = frame.path, frame.cursor, frame.edge
    own = trie[start].template
    template = frame.templates[own]
    slots, steps = template.slot_count, template.step_count
    first = frame.steps[template.first_step]
    left_begin, left_end = first_bin(frame, earlier), first_bin(frame, earlier + 1)
    right_begin, right_end = first_bin(frame, current), first_bin(frame, current + 1)
    wide = right_end - right_begin
    depth, node = begun, start
    path[depth] = node
    _begin(frame, template, depth, earlier, current)
    while True:
        step, more = first[depth], False
        kind, cursor = EQUALS, -1
        left, right, a, b = -1, -1, -1, -1
        if depth == steps:
            if not _emit(frame, template, node, earlier, current):
                return False
        else:
            kind, cursor = step.kind, cursors[depth]
            if kind == EQUALS:
                leads = trie[node].leads
                while cursor >= 0:
                    fact = facts[cursor]
                    cursor = fact.next
                    if (leads >> fact.bit) & 1:
                        left, right = fact.left, fact.right
                        a, b = fact.left_edge, fact.right_edge
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
            release(frame, slots, depth)
            node = path[depth]
            continue
        if kind != EQUALS:
            cursor += 1
            a = edges[left] if left >= 0 else -1
            b = edges[right] if right >= 0 else -1
        cursors[depth] = cursor
        child = look(frame.children, node, a, b, 0)
        if child < 0:
            continue
        if kind == COMPARES:
            mine, theirs = value_of(frame, earlier, left), value_of(frame, current, right)
            if mine < 0 or theirs < 0 or not compares(frame, step.operator, mine, theirs):
                continue
        if not take(frame, template.first_step + depth, left, right, depth):
            release(frame, slots, depth)
            continue
        depth += 1
        node = child
        path[depth] = node
        _begin(frame, template, depth, earlier, current)


@kernel()
def start_at(
    frame: JoinFrame, start: int, left: int, right: int, earlier: int, current: int
) -> bool:
    """Everything below a node of the trie that one step by a pair of rows leads to."""
    own = frame.trie[start].template
    template = frame.templates[own]
    release(frame, template.slot_count, 0)
    return not take(frame, template.first_step, left, right, 0) or descend(
        frame, start, 1, earlier, current
    )


@kernel()
def from_root(frame: JoinFrame, number: int, earlier: int, current: int) -> bool:
    template = frame.templates[number]
    release(frame, template.slot_count, 0)
    return descend(frame, template.root, 0, earlier, current)
