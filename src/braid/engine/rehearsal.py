"""A rehearsal: the planner's work without m-ops, which shows the columns that each m-op writes.

Which columns an m-op writes depends on all of its members (`plan/shared_columns.py`), and an m-op is
built with its first member. So a shard plans its queries twice: first with a rehearsal in the place of
the executor, then with the executor. The planner computes a route again only if an m-op on it has got
more columns since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from braid.algebra.templates import Members
from braid.engine.bulk_registration import PendingQueries
from braid.engine.query_registry import ExitKey, ExitPoint, exit_key
from braid.operators.core.values import Words
from braid.plan.plan import Mop, Plan
from braid.plan.routes import Route, Stage


class Entered(Protocol):
    """Queries that were admitted."""

    @property
    def exits(self) -> Sequence[ExitPoint]:
        """Where their results come out."""


class Admits(Protocol):
    """What the planner needs of an executor."""

    plan: Plan

    def admit(self, route: Route, members: Members, births: Words | None = None) -> Entered:
        """Admit queries of one template."""

    def admit_bulk(self, pending: Sequence[PendingQueries]) -> Sequence[Entered]:
        """Admit queries of many templates."""

    def prepare(self, route: Route) -> Sequence[ExitPoint]:
        """Build the m-ops of a route without queries."""

    def publish(self, stage: Stage, sources: Iterable[ExitPoint]) -> None:
        """Make the events of a published stream a channel that others can read."""

    def changed(self) -> None:
        """The inputs of an m-op have changed."""


@dataclass(frozen=True)
class _Rehearsed:
    exits: Sequence[ExitPoint]


class Rehearsal:
    """In the place of an executor, notes which m-ops there would be."""

    def __init__(self, plan: Plan) -> None:
        """`plan`: what is there already. It stays as it is."""
        self.plan = Plan(plan.sources, dict(plan.mops), dict(plan.channels))
        self._exits: dict[ExitKey, ExitPoint] = {}

    def admit(self, route: Route, members: Members, births: Words | None = None) -> _Rehearsed:
        return _Rehearsed(self.prepare(route))

    def admit_bulk(self, pending: Sequence[PendingQueries]) -> Sequence[_Rehearsed]:
        return [self.admit(entry.route, entry.members) for entry in pending]

    def prepare(self, route: Route) -> Sequence[ExitPoint]:
        for stage in route.stages:
            self._add(stage)
        return [self._exits.setdefault(exit_key(e), ExitPoint.of(e)) for e in route.exits]

    def _add(self, stage: Stage) -> None:
        self.plan.mops.setdefault(
            stage.mop, Mop(stage.mop, stage.spec, stage.inputs, stage.made_by)
        )

    def publish(self, stage: Stage, sources: Iterable[ExitPoint]) -> None:
        self._add(stage)

    def changed(self) -> None:
        """Nothing runs."""
