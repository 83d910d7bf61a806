"""Which events of an instant SAMETIME aggregates together, for all its nodes at once.

The events of an epoch that have the same member in the input, and that the same births allow, are
one *part*. A node sees some parts of an epoch. The nodes that see the same events are one group, so
that their aggregates are computed once. A set of events is known by 128 bits, as a node is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braid.operators.core.batch import Batch, Index
from braid.operators.core.checks import spelled
from braid.operators.core.columns import Rows
from braid.operators.core.fanout import Fanout
from braid.operators.core.nodes import Nodes, Signatures, signatures
from braid.operators.core.values import Words
from braid.plan.layout import END, START

_LOW = np.int64(0xFFFFFFFF)


@dataclass(frozen=True)
class Groups:
    """Groups of events of one instant each, in order of time."""

    #: The instant of each group, how many events it has, and the rows of these, group after group.
    ends: Words
    sizes: Words
    rows: Words
    #: Pairs of a group and a node that sees it, in order of groups.
    index: Index | None = None
    members: Index | None = None


@dataclass(frozen=True)
class Births:
    """The births of the nodes of an m-op: the different times in order, and which each node has."""

    times: Words
    rank: Words

    @classmethod
    def of(cls, births: Words, nodes: Nodes) -> Births:
        used = nodes.uses[: nodes.high] > 0
        times = np.unique(births[: nodes.high][used])
        return cls(times, np.searchsorted(times, births[: nodes.high]))

    def passed(self, starts: Words) -> Words | None:
        """How many births each start is not before; None if no start is before any."""
        if not len(starts) or int(starts.min()) >= int(self.times.max(initial=-(2**63))):
            return None
        return np.searchsorted(self.times, starts, "right")


def groups_of_epochs(rows: Rows) -> Groups:
    """All events of an instant are one group."""
    order = np.argsort(rows[:, END], kind="stable")
    ends, sizes = np.unique(rows[:, END], return_counts=True)
    return Groups(ends, sizes, order)


def groups_of_nodes(batch: Batch, fanout: Fanout, births: Births, *, shared: bool) -> Groups:
    """The groups that the nodes of an m-op see of a batch.

    `fanout` has the nodes that continue each node of the input. Unless `shared`, each node has
    groups of its own.
    """
    index, members = batch.index, batch.members
    if index is None or members is None:
        index = np.arange(len(batch.rows), dtype=np.int32)
        members = np.zeros(len(batch.rows), np.int32)
    ends, epoch = np.unique(batch.rows[index, END], return_inverse=True)
    passed = births.passed(batch.rows[index, START])
    moment, epochs, allowed = epoch, np.arange(len(ends)), None
    if passed is not None:
        width = len(births.times) + 1
        moments, moment = np.unique(epoch * width + passed, return_inverse=True)
        epochs, allowed = moments // width, moments % width
    # Parts: each has a moment and a member, and some of the pairs in `order`.
    words = (moment << 32) | members
    order = np.argsort(words, kind="stable")
    part_words, part_first, part_sizes = _runs(words[order])
    part_moment, part_member = part_words >> 32, (part_words & _LOW).astype(np.int32)
    # Pairs of a part and a node that sees it.
    places = np.arange(len(part_words), dtype=np.int32)
    found = fanout.applied(Batch(batch.rows, places, part_member, batch.sets).spelled())
    assert found.index is not None
    assert found.members is not None
    part, node = found.index.astype(np.int64), found.members.astype(np.int64)
    if allowed is not None:
        seen = births.rank[node] < allowed[part_moment[part]]
        part, node = part[seen], node[seen]
    words = (epochs[part_moment[part]] << 32) | node
    by_node = np.argsort(words, kind="stable")
    part = part[by_node]
    seen_words, first, sizes = _runs(words[by_node])
    if shared:
        content = signatures("rows", len(batch.rows), [np.arange(len(batch.rows))])
        content = _sums(content[index[order]], part_first)
        chosen, group = _distinct(_sums(content[part], first))
    else:
        chosen = group = np.arange(len(first))
    parts = part[spelled(first[chosen], sizes[chosen])]
    rows = index[order[spelled(part_first[parts], part_sizes[parts])]].astype(np.int64)
    if len(first):
        sizes = np.add.reduceat(part_sizes[part], first)
    by_group = np.argsort(group, kind="stable")
    return Groups(
        ends[seen_words[chosen] >> 32],
        sizes[chosen],
        rows,
        group[by_group].astype(np.int32),
        (seen_words[by_group] & _LOW).astype(np.int32),
    )


def _runs(words: Words) -> tuple[Words, Words, Words]:
    """The different words of an ordered array, where each begins, and how often it is there."""
    found, first, sizes = np.unique(words, return_index=True, return_counts=True)
    return found, first, sizes


def _sums(content: Signatures, first: Words) -> Signatures:
    """The content of groups of things: the sums of their words."""
    return np.add.reduceat(content, first) if len(first) else content[:0]


def _distinct(sums: Signatures) -> tuple[Words, Words]:
    """The first of all groups with equal content, and for each group which of these it equals."""
    order = np.lexsort((sums[:, 1], sums[:, 0]))
    differs = np.ones(len(order), np.bool_)
    differs[1:] = (sums[order[1:]] != sums[order[:-1]]).any(axis=1)
    leaders = order[differs]  # the sort is stable: each is the first of its kind
    chosen = np.sort(leaders)
    group = np.empty(len(order), np.int64)
    group[order] = np.searchsorted(chosen, leaders)[np.cumsum(differs) - 1]
    return chosen, group
