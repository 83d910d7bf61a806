"""Published streams: the events of all queries that publish one, as a channel that others read."""

from __future__ import annotations

from collections.abc import Sequence

from braid.operators.core.base import OneForAll, Stateless
from braid.operators.core.batch import Batch
from braid.operators.core.columns import merged
from braid.operators.core.roles import Publishes
from braid.operators.core.subscribers import Subscribers
from braid.plan.channel_specs import PublishSpec


class PublishLogic(OneForAll, Publishes, Stateless):
    """All events of a published stream, one for each query that puts it out."""

    takes_sets = True
    takes_bits = True

    def __init__(self, spec: PublishSpec) -> None:
        self._spec = spec
        self.sources: list[Subscribers] = []

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        parts = [
            batch.rows[source.resolve(batch)[0]]
            for source, batch in zip(self.sources, inputs, strict=True)
        ]
        return Batch(merged(parts))
