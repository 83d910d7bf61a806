"""What users are told of constraints that do not hold, when it happens."""

from __future__ import annotations

from braid.algebra.constraints import ConstraintMode
from braid.engine.executor import Executor
from braid.errors import Notice

#: What comes of it, by what joins that have used it may do; None: none has.
_AFTER = {
    ConstraintMode.EXACT: "it is not used any more, no result is lost",
    ConstraintMode.MONITORED: "it is not used any more, results may be missing: `explain` says about"
    " how many",
    None: "no join of this query uses it, no result is lost",
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
    return [*broken_notices(executor), *lossy_notices(executor)]
