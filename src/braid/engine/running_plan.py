"""The running plan of a shard: its executor and its planner, and the queries that they were given.

An m-op writes the columns that its members need (`plan/shared_columns.py`). If queries come that need
more columns of m-ops that run, all m-ops are built again with the wider rows, and take up the state of
those before: no query loses anything, and nobody else notices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.templates import Members, Template
from braid.engine.executor import Executor
from braid.engine.member_constants import taken
from braid.engine.planner import Planner
from braid.operators.core.base import Context, State
from braid.operators.core.values import Words
from braid.operators.registry import REGISTRY
from braid.optimizer.driver import Driver, depends_on_birth
from braid.plan.plan import Plan
from braid.plan.shared_columns import SharedColumns


class NewQueries(NamedTuple):
    """Queries of one template, their births, and whether it is one query by itself, which others may
    inline."""

    members: Members
    births: Words | None
    single: bool


class Saved(NamedTuple):
    """What the m-ops of a plan take up of one before."""

    states: Mapping[str, State]
    #: The queries that had a join of their own.
    dedicated_joins: tuple[str, ...]
    #: m-ops and queries that have failed, each with the reason.
    failed: Mapping[str, dict[str, str]]


class RunningPlan:
    """`saved` is None where everything begins."""

    def __init__(
        self, driver: Driver, context: Context, added: Sequence[NewQueries], saved: Saved | None
    ) -> None:
        self._driver = driver
        self._context = context
        self._added = list(added)
        #: Ids that were dropped, and are among the added still.
        self._dropped: set[str] = set()
        #: Templates of which the m-ops have all columns.
        self._known: set[Template] = set()
        self.executor, self.planner = self._built(saved, ())

    def _built(self, saved: Saved | None, later: Sequence[NewQueries]) -> tuple[Executor, Planner]:
        """Build the m-ops, with all columns that they also need for queries which come later."""
        states, named, failed = saved or Saved({}, (), {})
        use = REGISTRY.constraints
        kept = frozenset(s for s, a in states.items() if use is not None and use.is_own(a))
        driver = replace(self._driver, published={}, published_names={}, columns=SharedColumns())
        self._columns = driver.columns
        executor = Executor(Plan(driver.shapes), self._context)
        planner = Planner(executor, driver, kept, named)
        planner.fresh = saved is None
        planner.rehearse(self._added, later)
        planner.expect(members for members, _, _ in self._added)
        planner.add_all(self._added)
        planner.fresh = True
        executor.restore(states)
        executor.failures.restore(failed)
        return executor, planner

    def add(self, added: Sequence[NewQueries]) -> bool:
        """Add queries; whether the m-ops had to be built again for them."""
        if not self._dropped.isdisjoint(n for a in added for n in a.members.ids.to_pylist()):
            self._forget_dropped()
        rebuilds = not self._have_all_columns(added)
        if rebuilds:
            self._forget_dropped()
            self._known = set()
            before = self.executor
            saved = Saved(
                before.snapshots(), tuple(self.planner.dedicated_joins), before.failures.saved()
            )
            self.executor, self.planner = self._built(saved, added)
            self.executor.continue_counts(before)
        for members, births, single in added:
            self.planner.expect([members])
            self.planner.add(members, births, single=single)
        self._added += added
        return rebuilds

    def _have_all_columns(self, added: Sequence[NewQueries]) -> bool:
        """Whether the m-ops that run write all columns that these queries need of them."""
        if all(members.template in self._known for members, _, _ in added):
            return True
        known = set(self.executor.plan.mops)
        self._columns.watch()
        self.planner.rehearse((), added)
        if not self._columns.widened.isdisjoint(known):
            return False
        templates = [members.template for members, _, _ in added]
        self._known.update(t for t in templates if not depends_on_birth(t.outputs))
        return True

    def forget(self, names: Sequence[str]) -> None:
        """Queries were dropped."""
        self._dropped.update(names)
        if 2 * len(self._dropped) > sum(len(members) for members, _, _ in self._added):
            self._forget_dropped()

    def _forget_dropped(self) -> None:
        if not self._dropped:
            return
        away = pa.array(sorted(self._dropped), pa.string())
        self._dropped = set()
        kept = []
        for members, births, single in self._added:
            gone = np.asarray(pc.is_in(members.ids, value_set=away))
            rows = np.flatnonzero(~gone)
            if len(rows) == len(members):
                kept.append(NewQueries(members, births, single))
            elif len(rows):
                own = None if births is None else births[rows]
                kept.append(NewQueries(taken(members, rows), own, single))
        self._added = kept
