"""The answers of a set of queries that may read what others publish."""

from __future__ import annotations

from collections.abc import Sequence

from braid.algebra.nodes import reads
from braid.algebra.queries import Output, Query
from braid.reference.events import Event, Udfs
from braid.reference.operators import Streams, evaluate

#: Query id and published name; None for the answer of a query that publishes nothing.
Answers = dict[tuple[str, str | None], list[Event]]


def answer(
    queries: Sequence[Query],
    streams: Streams,
    udfs: Udfs | None = None,
    limit: int | None = None,
) -> Answers:
    """Every output of every query. What reads a published stream is evaluated after it."""
    published = {o.publish: o for q in queries for o in q.outputs if o.publish is not None}
    known = dict(streams)

    def events_of(output: Output) -> list[Event]:
        for name in reads(output.node):
            if name not in known:
                known[name] = events_of(published[name])
        return evaluate(output.node, known, udfs, limit)

    return {(q.id, o.publish): events_of(o) for q in queries for o in q.outputs}
