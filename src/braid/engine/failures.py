"""Failed m-ops: an exception in an m-op suspends the queries that use it, and no others.

An exception in a logic is a defect, or an unexpected size. The state of the m-op may be
inconsistent, so it is not run again, and its readers get no more events from it. Its queries, and
the queries that read what these publish, have no results from that batch on; `suspended` has the
reason. All other queries are not affected. Snapshots contain the failures. The m-op is removed with
its last query; a query that is registered again starts with a new m-op.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from braid.engine.query_registry import Admitted
from braid.engine.suspension import Suspension
from braid.errors import CheckpointError
from braid.operators.core.base import Logic
from braid.operators.core.subscriber_index import ALWAYS
from braid.plan.plan import channel_owner

if TYPE_CHECKING:
    from braid.engine.executor import Executor

_PUBLISH = "publish:"
#: A message of another's exception is cut here.
_LONGEST = 200


class Failures:
    """The failed m-ops and queries (by number) of one executor, each with the reason."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.mops: dict[str, str] = {}
        self.queries: dict[int, str] = {}

    def fail(self, signature: str, error: Exception, bound: int | None) -> None:
        """Record that an m-op raised. Disk errors and damaged state are not caused by the query:
        they are raised to the caller."""
        if isinstance(error, OSError | CheckpointError):
            raise error
        when = "" if bound is None else f" before {bound}"
        said = " ".join(str(error).split())[:_LONGEST]
        self.mops[signature] = f"{type(error).__name__}: {said}{when}"
        self.spread()

    def spread(self) -> None:
        """Suspend all queries that depend on failed m-ops or queries."""
        found = {
            number: reason for number, reason in self._dependents() if number not in self.queries
        }
        if found:
            self.queries |= found
            numbers = np.array(list(found), np.int64)
            self._executor.end(numbers, np.full(len(numbers), ALWAYS, np.int64))

    def _dependents(self) -> Iterator[tuple[int, str]]:
        failed = dict(self.mops)
        admitted = list(self._executor.registry.living())
        for number, reason in self.queries.items():
            own = self._executor.registry.of(number)
            failed |= {f"{_PUBLISH}{point.stream}": reason for point in own.exits if point.stream}
        while True:
            before = len(failed)
            for group, rows in admitted:
                why = _of_these(group, failed)
                if why is None:
                    continue
                yield from ((group.first + row, why) for row in rows.tolist())
                published = (f"{_PUBLISH}{p.stream}" for p in group.exits if p.stream)
                failed |= {name: why for name in published if name not in failed}
            if len(failed) == before:
                return

    def suspensions(self) -> dict[int, Suspension]:
        return {
            number: Suspension(int(ALWAYS), False, failure=why)
            for number, why in self.queries.items()
        }

    def running(self) -> Iterator[Logic]:
        """The logics that have not failed."""
        return (logic for s, logic in self._executor.logics.items() if s not in self.mops)

    def forget(self, signature: str) -> None:
        self.mops.pop(signature, None)

    def forget_queries(self, numbers: list[int]) -> None:
        for number in numbers:
            self.queries.pop(number, None)

    # ---- state ----

    def saved(self) -> dict[str, dict[str, str]]:
        registry = self._executor.registry
        return {
            "mops": dict(self.mops),
            "queries": {registry.id_of(number): why for number, why in self.queries.items()},
        }

    def restore(self, saved: Mapping[str, Mapping[str, str]]) -> None:
        """Restore the failures of a snapshot: failed m-ops have no saved state."""
        registry, known = self._executor.registry, self._executor.logics
        self.mops = {s: why for s, why in saved.get("mops", {}).items() if s in known}
        ids = {name: why for name, why in saved.get("queries", {}).items() if registry.has(name)}
        self.queries = {n: ids[name] for name in ids for n in registry.numbers_of_all([name])}
        numbers = np.array(list(self.queries), np.int64)
        if len(numbers):
            self._executor.end(numbers, np.full(len(numbers), ALWAYS, np.int64))
        self.spread()


def _of_these(group: Admitted, failed: Mapping[str, str]) -> str | None:
    """The failure that a route depends on; None if there is none."""
    for stage in group.route.stages:
        # Of others it reads what they publish; m-ops that it shares may read more than it does.
        read = (name for name in map(channel_owner, stage.inputs) if name.startswith(_PUBLISH))
        for name in (stage.mop, *read):
            if name in failed:
                return failed[name]
    for exit_ in group.route.exits:
        if channel_owner(exit_.channel) in failed:
            return failed[channel_owner(exit_.channel)]
    return None
