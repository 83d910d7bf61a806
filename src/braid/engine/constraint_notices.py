"""What users are told of constraints: that the data break a declared one, and that one loses too many
results, when it happens; that the joins of a query don't use one, when the query is planned."""

from __future__ import annotations

from dataclasses import replace

from braid.algebra.constraints import Constraint, ConstraintMode
from braid.distribution.keys import split_channel
from braid.engine.executor import Executor
from braid.errors import Notice

#: What comes of it, by what joins that have used it may do; None: none has.
_AFTER = {
    ConstraintMode.EXACT: "Braid no longer uses it, and no result is lost",
    ConstraintMode.MONITORED: "Braid no longer uses it, and results may be missing: `explain` estimates"
    " how many",
    None: "no join of this query uses it, and no result is lost",
}


def broken_notices(executor: Executor) -> list[Notice]:
    """A notice for each query that joins the streams of a constraint that does not hold, once."""
    return [
        Notice("W205", query, f"{broken.describe()}; {_AFTER[mode]}")
        for query, mode, broken in executor.broken()
    ]


def lossy_notices(executor: Executor) -> list[Notice]:
    """A notice for each query whose join has given up constraints by which too many results are
    lost."""
    found = []
    for mop, join in executor.constraint_joins():
        for lossy in join.lossy():
            found += [Notice("W206", query, lossy.describe()) for query in executor.through(mop)]
    return found


def constraint_notices(executor: Executor) -> list[Notice]:
    """What queries are to be told now."""
    return [*unused_notices(executor), *broken_notices(executor), *lossy_notices(executor)]


def unused_notices(executor: Executor) -> list[Notice]:
    """A notice for each query and each declared constraint that its joins compare but don't use."""
    notices = (
        Notice(
            "W207",
            query,
            f"constraint {c.name!r} ({_said(c)}) is not used by this query: {why}",
        )
        for query, c, why in executor.unused()
    )
    # Channels that are parts of one stream are watched one by one.
    found = {(n.query, n.message.partition(" (")[0]): n for n in notices}
    return list(found.values())


def _said(constraint: Constraint) -> str:
    """What was declared, of streams: a shard sees parts of them."""
    target = constraint.target and split_channel(constraint.target)[0]
    return replace(constraint, stream=split_channel(constraint.stream)[0], target=target).describe()
