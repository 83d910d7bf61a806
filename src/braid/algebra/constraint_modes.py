"""Where results may be lost without becoming wrong.

In `MONITORED` mode a join may miss results. Of a join that is put out as it is, the rest is still
right; a count, a sum or a maximum over it would be wrong. So under an aggregate, and under
anything else that tells what is missing from what is there, a join is `EXACT`. DISTINCT can only
miss a row, or show it later, when another result is equal to the one that was lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from braid.algebra.constraints import ConstraintMode
from braid.algebra.nodes import Iterate, Node, SameTime, walk_nodes
from braid.algebra.nodes import Sequence as NextNode
from braid.algebra.relations import (
    GroupRows,
    Join,
    Relation,
    StreamKind,
    ToStream,
    walk_rows,
    windows,
)
from braid.algebra.templates import Output


def safe_mode(mode: ConstraintMode, outputs: Sequence[Output]) -> ConstraintMode:
    """The mode itself, or `EXACT` where losing results would make others wrong."""
    if mode is ConstraintMode.MONITORED and any(counts_on_all(o.node) for o in outputs):
        return ConstraintMode.EXACT
    return mode


def counts_on_all(node: Node) -> bool:
    """Whether something above a join needs all its results: an aggregate; FOLD, SAMETIME and NEXT,
    which would go on with another event; Dstream and Rstream, which tell what is gone."""
    for part in walk_nodes(node):
        if isinstance(part, SameTime | Iterate | NextNode) and any(
            _has_join(below) for below in part.inputs
        ):
            return True
        if isinstance(part, ToStream) and _needs_all(part):
            return True
    return False


def _needs_all(part: ToStream) -> bool:
    rows = part.relation
    if part.kind is not StreamKind.ISTREAM and _joins(rows):
        return True
    above = (r for r in walk_rows(rows) if isinstance(r, GroupRows))
    return any(_joins(group.input) for group in above)


def _joins(rows: Relation) -> bool:
    """Whether there is a join in a relation, or in the streams that it is made of."""
    if any(isinstance(part, Join) for part in walk_rows(rows)):
        return True
    return any(_has_join(window.input) for window in windows(rows))


def _has_join(node: Node) -> bool:
    return any(isinstance(n, ToStream) and _joins(n.relation) for n in walk_nodes(node))
