"""The answers of a set of queries that may read what others publish."""

from __future__ import annotations

from collections.abc import Sequence

from braid.algebra.nodes import reads
from braid.algebra.queries import Output, Query
from braid.reference.events import Event, Udfs
from braid.reference.groups import Overflow
from braid.reference.operators import Streams, evaluate

#: Query id and published name; None for the answer of a query that publishes nothing.
Answers = dict[tuple[str, str | None], list[Event]]


def answer(
    queries: Sequence[Query],
    streams: Streams,
    udfs: Udfs | None = None,
    limit: int | None = None,
    failures: dict[tuple[str, str | None], Overflow] | None = None,
) -> Answers:
    """Every output of every query. What reads a published stream is evaluated after it.

    A sum that does not fit its type ends the output that it is in, and those outputs of the same
    query that read this one: the answer is what stands before that instant, and `failures` says
    where. Without `failures`, `Overflow` is raised.
    """
    published = {o.publish: o for q in queries for o in q.outputs if o.publish is not None}
    known = dict(streams)

    def events_of(output: Output) -> list[Event]:
        for name in reads(output.node):
            if name not in known:
                known[name] = events_of(published[name])
        return _until_overflow(output)

    def _until_overflow(output: Output) -> list[Event]:
        until: int | None = None
        query = owners[id(output)][0]
        for name in reads(output.node):
            error = failures.get((query, name)) if failures is not None else None
            if failures is not None and error is not None and error.instant is not None:
                until = error.instant if until is None else min(until, error.instant)
                failures[owners[id(output)]] = error
        while True:
            try:
                return evaluate(output.node, known, udfs, limit, until)
            except Overflow as error:
                if failures is None:
                    raise
                until = error.instant  # another sum may have overflown before this one
                failures[owners[id(output)]] = error

    owners = {id(o): (q.id, o.publish) for q in queries for o in q.outputs}
    return {(q.id, o.publish): events_of(o) for q in queries for o in q.outputs}
