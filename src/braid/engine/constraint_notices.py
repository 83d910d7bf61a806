"""Notices about constraints: broken ones, ones that lose too many results, and unused ones.

The first two come when they occur; the last when a query is planned.
"""

from __future__ import annotations

from dataclasses import replace

from braid.algebra.constraints import Constraint, ConstraintMode
from braid.distribution.keys import split_channel
from braid.engine.executor import Executor
from braid.errors import Notice

#: The effect on the joins of a mode; None: no join has used the constraint.
_AFTER = {
    ConstraintMode.EXACT: "Braid no longer uses it, and no result is lost",
    ConstraintMode.MONITORED: "Braid no longer uses it, and results may be missing: `explain` estimates"
    " how many",
    None: "no join of this query uses it, and no result is lost",
}


def broken_notices(executor: Executor) -> list[Notice]:
    """A notice for each query that joins the streams of a broken constraint, once."""
    return [
        Notice("W205", query, f"{broken.describe()}; {_AFTER[mode]}")
        for query, mode, broken in executor.broken()
    ]


def lossy_notices(executor: Executor) -> list[Notice]:
    """A notice for each query with a join that gave up constraints because they lost too many
    results."""
    found = []
    for mop, join in executor.constraint_joins():
        for lossy in join.lossy():
            found += [Notice("W206", query, lossy.describe()) for query in executor.through(mop)]
    return found


def constraint_notices(executor: Executor) -> list[Notice]:
    """The new notices of all queries."""
    return [*unused_notices(executor), *broken_notices(executor), *lossy_notices(executor)]


def unused_notices(executor: Executor) -> list[Notice]:
    """A notice for each query and declared constraint that its joins compare but don't use."""
    notices = (
        Notice(
            "W207",
            query,
            f"constraint {c.name!r} ({_declaration(c)}) is not used by this query: {why}",
        )
        for query, c, why in executor.unused()
    )
    # Channels that are parts of one stream are watched separately.
    found = {(n.query, n.message.partition(" (")[0]): n for n in notices}
    return list(found.values())


def _declaration(constraint: Constraint) -> str:
    """The declaration in terms of streams. A shard sees parts of them."""
    target = constraint.target and split_channel(constraint.target)[0]
    return replace(constraint, stream=split_channel(constraint.stream)[0], target=target).describe()
