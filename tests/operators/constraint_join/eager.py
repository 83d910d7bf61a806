"""Joins that use constraints as soon as anything speaks for them: what takes thousands of events else
happens with a few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from braid.algebra.constraints import ConstraintMode
from braid.operators.constraint_join import logic as constraint_join
from braid.operators.constraint_join.delta import logic as constraint_changes
from braid.operators.constraint_join.delta import spill as constraint_change_aside
from braid.operators.constraint_join.delta import watch as constraint_change_watch
from braid.operators.constraint_join.spill import rows as constraint_aside
from braid.operators.constraint_join.watch import cost_choice as constraint_choice
from braid.operators.constraint_join.watch import cost_probe as constraint_look
from braid.operators.constraint_join.watch import single_results as constraint_results
from braid.operators.constraint_join.watch import value_tables
from braid.operators.constraint_join.watch import watch as constraint_watch


@contextmanager
def eager(*, fickle: bool = False) -> Iterator[None]:
    """Constraints are used as soon as anything speaks for them, and rows are put aside at once.
    `fickle`: they are soon found not to be worth it, and soon tried again."""
    judged = dict.fromkeys(ConstraintMode, 1)
    with (
        patch.multiple(
            constraint_look, LEAST=4, LONGEST=6, SUPPOSED=-1.0, _ONE_IN=1, _PAUSE=1, DOUBTS=1
        ),
        patch.multiple(constraint_look, SETTLED=3 if fickle else 1 << 40, _DOUBLED=0),
        patch.object(constraint_look, "cost_of", lambda plain, own: 1e9),
        patch.object(constraint_join, "_ROUND", 3),
        patch.multiple(constraint_changes, JUDGED=1, _ROUND=3, _OFTEN=10_000),
        patch.object(constraint_change_aside, "_RARELY", 0),
        patch.object(constraint_change_watch, "_WINDOW", dict.fromkeys(range(3), 2)),
        patch.object(constraint_aside, "PIECE", 2),
        patch.object(constraint_results, "_JUDGED", judged),
        patch.object(constraint_results, "_OFTEN", 50),
        patch.object(constraint_watch, "_ROUND", 2),
        patch.multiple(value_tables, _VALUES=4, _MOST_VALUES=16),
        patch.object(constraint_watch, "_WINDOW", dict.fromkeys(range(4), 3)),
        patch.object(constraint_choice, "_LEAST_THRESHOLD", 2),
        patch.object(constraint_watch, "_FIRST_THRESHOLD", 4),
        patch.multiple(constraint_results, _UNCOUNTED=3, _LONG=2),
        patch.object(constraint_choice, "EVALUATED", 8),
    ):
        yield
