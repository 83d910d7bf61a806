"""Published streams: the events of all queries that publish one, as a channel that others read."""

from __future__ import annotations

from collections.abc import Sequence

from braid.operators.core.base import OneForAll, Stateless
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows, merged, moved
from braid.operators.core.roles import PublishedSource, Publishes
from braid.plan.channel_specs import PublishSpec


class PublishLogic(OneForAll, Publishes, Stateless):
    """All events of a published stream, one for each query that puts it out."""

    takes_sets = True
    takes_bits = True

    def __init__(self, spec: PublishSpec) -> None:
        self._spec = spec
        self._target = spec.output.layout
        self.sources: list[PublishedSource] = []

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        read = zip(self.sources, inputs, strict=True)
        return Batch(merged([self._events(source, batch) for source, batch in read]))

    def _events(self, source: PublishedSource, batch: Batch) -> Rows:
        """The attributes of the stream, once for each query that publishes an event."""
        chosen = source.subscribers.resolve(batch)[0]
        if source.columns == tuple(range(len(source.layout.names))):
            return batch.rows[chosen]
        return moved(batch.rows, source.layout, self._target, list(source.columns), chosen)
