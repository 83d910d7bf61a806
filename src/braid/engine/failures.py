"""m-ops that failed: what raised in one of them takes along the queries that go through it, and
nobody else.

An exception in a logic is a defect, or the size of something that nobody thought of. Its state may
be changed by half, so the m-op is not run again: its readers see nothing of it from then on. The
queries that go through it, and those that read what these publish, put out nothing from that batch
on, and `suspended` says why; all others of the batch have their events and results. A snapshot
keeps this. When the last of its queries is dropped the m-op is gone, and one that is registered
anew begins anew.
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
    """What has failed in one executor: m-ops, and queries by number, each with the reason."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.mops: dict[str, str] = {}
        self.queries: dict[int, str] = {}

    def fail(self, signature: str, error: Exception, bound: int | None) -> None:
        """An m-op raised. A disk that fails and state that is damaged are not the query's doing:
        whoever runs the batch is told."""
        if isinstance(error, OSError | CheckpointError):
            raise error
        when = "" if bound is None else f" before {bound}"
        said = " ".join(str(error).split())[:_LONGEST]
        self.mops[signature] = f"{type(error).__name__}: {said}{when}"
        self.spread()

    def spread(self) -> None:
        """Suspend all queries that depend on what has failed."""
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
        """The logics whose state means something."""
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
        """What had failed when the state was saved has no state to go on from."""
        registry, known = self._executor.registry, self._executor.logics
        self.mops = {s: why for s, why in saved.get("mops", {}).items() if s in known}
        ids = {name: why for name, why in saved.get("queries", {}).items() if registry.has(name)}
        self.queries = {n: ids[name] for name in ids for n in registry.numbers_of_all([name])}
        numbers = np.array(list(self.queries), np.int64)
        if len(numbers):
            self._executor.end(numbers, np.full(len(numbers), ALWAYS, np.int64))
        self.spread()


def _of_these(group: Admitted, failed: Mapping[str, str]) -> str | None:
    """Why the queries of a route cannot go on; None if they can."""
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
