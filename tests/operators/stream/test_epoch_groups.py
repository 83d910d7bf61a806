"""The groups that nodes of SAMETIME see are those that a look at each node and instant gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from braid.operators.core.batch import Batch
from braid.operators.core.fanout import Fanout
from braid.operators.core.node_sets import Sets
from braid.operators.core.nodes import Nodes, signatures
from braid.operators.core.subscriber_index import ALWAYS
from braid.operators.stream.epoch_groups import Births, groups_of_nodes

INPUTS = 4
#: The node of the input that a node continues, and its birth.
NODE = st.tuples(st.integers(0, INPUTS - 1), st.sampled_from([int(ALWAYS), 0, 3, 5]))
#: How much later a row ends, how long it lasts, and its nodes in the input.
ROW = st.tuples(st.integers(0, 1), st.integers(0, 4), st.sets(st.integers(0, INPUTS - 1)))


def expected(rows: Any, nodes: Any) -> dict[tuple[int, int], list[int]]:
    """The rows that each node sees of each instant."""
    seen: dict[tuple[int, int], list[int]] = {}
    for place, (start, end, members) in enumerate(rows):
        for node, (source, birth) in enumerate(nodes):
            if source in members and start >= birth:
                seen.setdefault((end, node), []).append(place)
    return seen


@given(
    st.lists(ROW, max_size=12), st.sets(NODE, min_size=1, max_size=6), st.booleans(), st.booleans()
)
def test_groups(drawn: Any, chosen: Any, shared: bool, as_sets: bool) -> None:
    now, rows = 0, []
    for later, lasted, members in drawn:
        now += later
        rows.append((now - lasted, now, members))
    of = sorted(chosen)
    nodes, fanout = Nodes(), Fanout()
    sources, births = (np.array(column, np.int64) for column in zip(*of, strict=True))
    numbers, _ = nodes.add(signatures("node", len(of), [sources, births]))
    fanout.add(sources, numbers)
    groups = groups_of_nodes(
        batch_of(rows, Sets() if as_sets else None), fanout, Births.of(births, nodes), shared=shared
    )
    assert groups.index is not None
    assert groups.members is not None
    firsts = np.cumsum(groups.sizes) - groups.sizes
    seen = {
        (int(groups.ends[g]), int(node)): sorted(
            groups.rows[firsts[g] :][: groups.sizes[g]].tolist()
        )
        for g, node in zip(groups.index, groups.members, strict=True)
    }
    wanted = expected(rows, of)
    assert seen == wanted
    assert (np.diff(groups.ends) >= 0).all()
    assert (np.diff(groups.index) >= 0).all()
    different = {(end, *places) for (end, _), places in wanted.items()}
    assert len(groups.ends) == (len(different) if shared else len(wanted))


def batch_of(rows: Any, sets: Sets | None) -> Batch:
    """Several nodes of a row are a set or, without sets, a pair each."""
    words = np.array([(start, end, 0) for start, end, _ in rows], np.int64).reshape(-1, 3)
    pairs = []
    for place, (_, _, members) in enumerate(rows):
        if sets is None:
            pairs += [(place, node) for node in sorted(members)]
        elif members:
            pairs.append((place, sets.member(np.array(sorted(members), np.int64))))
    index, numbers = np.array(pairs, np.int32).reshape(-1, 2).T
    return Batch(words, index.copy(), numbers.copy(), sets)
