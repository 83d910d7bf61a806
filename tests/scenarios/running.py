"""Runs a case through the reference semantics and through the engine, batch by batch."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import pyarrow as pa

import braid
from braid.algebra.queries import Query
from braid.algebra.schema import Schema
from braid.lang import Catalog, compile_query, load
from braid.reference import Event, answer, events_from_result, table_from_events
from tests.scenarios.format import Case, StreamCase

Key = tuple[str, str | None]
Arrival = tuple[str, Event]
Batch = Sequence[Arrival]


def bind(case: Case) -> list[Query]:
    """The queries of a case, bound against its streams, in an order that publishers come first."""
    catalog = Catalog()
    for stream in case.streams.values():
        catalog.add_stream(stream.declared)
    for query_id, text in case.queries.items():
        if query_id.startswith("view "):
            load(text, catalog)
        else:
            catalog.add_query(compile_query(text, catalog, query_id=query_id).query)
    return list(catalog.queries.values())


def by_reference(case: Case, queries: Sequence[Query]) -> dict[Key, list[Event]]:
    return answer(queries, {name: s.events for name, s in case.streams.items()})


def schemas(queries: Sequence[Query]) -> dict[Key, Schema]:
    return {(q.id, o.publish): o.node.schema for q in queries for o in q.outputs}


def find_output(name: str, queries: Sequence[Query]) -> Key:
    """An expectation names a query (its own output) or a published stream."""
    for query in queries:
        if name == query.id:
            return query.id, query.outputs[-1].publish
        if name in query.publishes:
            return query.id, name
    raise AssertionError(f"no query is or publishes {name}")


def by_engine(case: Case, batches: Iterable[Batch]) -> dict[Key, list[Event]]:
    """What the engine gives for these arrivals, all calls together."""
    engine = braid.Engine()
    for stream in case.streams.values():
        declared = stream.declared
        engine.stream(declared.name, _arrow_schema(stream), time=list(declared.time))
    for query_id, text in case.queries.items():
        if query_id.startswith("view "):
            engine.execute(text)
        else:
            engine.query(query_id, text)
    results: dict[Key, list[Event]] = defaultdict(list)

    def collect() -> None:
        for key, table in engine.results.items():
            results[key] += events_from_result(table)
        assert engine.late.num_rows == 0
        assert engine.rejected.num_rows == 0

    for batch in batches:
        engine.process(_tables(case, batch))
        collect()
    engine.finish()
    collect()
    return results


def _arrow_schema(stream: StreamCase) -> pa.Schema:
    return pa.schema([(a.name, a.type) for a in stream.declared.columns])


def _tables(case: Case, batch: Batch) -> dict[str, pa.Table]:
    tables = {}
    for name in dict.fromkeys(name for name, _ in batch):
        declared = case.streams[name].declared
        tables[name] = table_from_events(
            [event for of, event in batch if of == name],
            declared.schema,
            start=declared.time[0],
            end=declared.time[-1],
            time_type=declared.time_type,
        )
    return tables


# ---- splits ------------------------------------------------------------------------------------


def arrivals(case: Case) -> list[Arrival]:
    """In the order in which events occur, ties as they are written."""
    found = [(name, event) for name, s in case.streams.items() for event in s.events]
    return sorted(found, key=lambda arrival: arrival[1].end)


def one_batch(case: Case) -> list[Batch]:
    return [arrivals(case)]


def one_event_a_batch(case: Case) -> list[Batch]:
    return [[arrival] for arrival in arrivals(case)]


def random_batches(seed: int) -> Callable[[Case], list[Batch]]:
    """Ties in any order, cut anywhere: also between simultaneous events."""

    def split(case: Case) -> list[Batch]:
        chance = random.Random(seed)
        found = arrivals(case)
        chance.shuffle(found)
        found.sort(key=lambda arrival: arrival[1].end)
        cuts = sorted(chance.sample(range(len(found) + 1), k=min(4, len(found))))
        bounds = [0, *cuts, len(found)]
        return [found[a:b] for a, b in pairwise(bounds)]

    return split
