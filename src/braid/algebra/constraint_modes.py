"""Safe modes: where a join may lose results without making other results wrong.

In `MONITORED` mode a join may miss results. If these are the results of the query, the others are
still right. A count, a sum or a maximum over them would be wrong. So a join is `EXACT` under an
aggregate, and under any other operator that depends on the absence of a row. DISTINCT can only miss
a row, or show it later when an equal result comes.
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
    """The mode itself, or `EXACT` where a lost result would make others wrong."""
    if mode is ConstraintMode.MONITORED and any(counts_on_all(o.node) for o in outputs):
        return ConstraintMode.EXACT
    return mode


def counts_on_all(node: Node) -> bool:
    """Whether an operator above a join needs all its results: an aggregate; FOLD, SAMETIME and
    NEXT, which would continue with another event; Dstream and Rstream, which depend on absent rows.
    """
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
    """Whether a relation, or a stream below it, has a join."""
    if any(isinstance(part, Join) for part in walk_rows(rows)):
        return True
    return any(_has_join(window.input) for window in windows(rows))


def _has_join(node: Node) -> bool:
    return any(isinstance(n, ToStream) and _joins(n.relation) for n in walk_nodes(node))
