"""What users are told of declared constraints that the data break, when it happens."""

from __future__ import annotations

from braid.algebra.constraints import ConstraintMode
from braid.engine.executor import Executor
from braid.errors import Notice

_AFTER = {
    ConstraintMode.EXACT: "no result is lost",
    ConstraintMode.MONITORED: "results may be missing: `explain` says about how many",
    ConstraintMode.OFF: "no result is lost",
}


def broken_notices(executor: Executor) -> list[Notice]:
    """A notice for each query whose join used a constraint that does not hold, once."""
    return [
        Notice("W205", query, f"{broken.describe()}; it is not used any more, {_AFTER[mode]}")
        for query, mode, broken in executor.broken()
    ]
