"""Joins of any graph in exact mode, against the reference and against the same joins without
constraints: whatever is declared, from however many bytes on rows are put aside, however events are cut
into batches, and over restarts. In monitored mode they may lose results, and make none up."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given, note, settings

import braid
from braid.jit.runtime import COMPILED
from braid.lang import Catalog, load
from braid.reference import Event, answer, events_from_result, events_from_table
from tests.operators.constraint_join.eager import eager
from tests.properties.join_graphs import GraphJoin, graph_joins

#: From how many bytes on rows are put aside: from the first row on, on the way, or not at all unless
#: something is declared.
_ABOVE = (0, 2_000, 64 << 20)


def by_engine(drawn: GraphJoin, mode: str, above: int, *, restarts: bool) -> Counter[Event]:
    engine = braid.Engine(idle_timeout=None, constraints=mode, spill_above=above)
    engine.execute(drawn.statements)
    engine.query("q", drawn.query)
    found: Counter[Event] = Counter()
    for number, batch in enumerate(drawn.batches()):
        found.update(events_from_result(engine.process(batch)["Out"]))
        if restarts and number in drawn.restarts:
            engine = braid.Engine.restore(engine.snapshot())
    found.update(events_from_result(engine.finish()["Out"]))
    return found


def by_reference(drawn: GraphJoin) -> Counter[Event]:
    known = Catalog()
    load(f"{drawn.statements}CREATE QUERY q AS {drawn.query};", known)
    events = {name: _events(known, name, table) for name, table in drawn.tables.items()}
    (query,) = known.queries.values()
    return Counter(answer([query], events)["q", "Out"])


def _events(known: Catalog, name: str, table: pa.Table) -> list[Event]:
    return events_from_table(known.streams[name], table)


@settings(max_examples=max(30, settings.default.max_examples) if COMPILED else 5, deadline=None)
@given(graph_joins())
def test_exact_joins_of_any_graph_lose_nothing(drawn: GraphJoin) -> None:
    note(f"{drawn.statements} {drawn.query}")
    expected = by_reference(drawn)
    assert by_engine(drawn, "off", 0, restarts=False) == expected
    assert by_engine(drawn, "exact", 0, restarts=True) == expected
    for fickle in (False, True):
        with eager(fickle=fickle):
            for above in _ABOVE if not fickle else _ABOVE[:1]:
                found = by_engine(drawn, "exact", above, restarts=True)
                assert found == expected, (above, fickle)


@settings(max_examples=max(30, settings.default.max_examples) if COMPILED else 5, deadline=None)
@given(graph_joins(identified=True) | graph_joins(identified=True, parted=True))
def test_monitored_joins_of_any_graph_make_nothing_up(drawn: GraphJoin) -> None:
    note(f"{drawn.statements} {drawn.query}")
    expected = by_reference(drawn)
    assert by_engine(drawn, "monitored", 0, restarts=True) <= expected
    for fickle in (False, True):
        with eager(fickle=fickle):
            found = by_engine(drawn, "monitored", 0, restarts=True)
            assert found <= expected, (found - expected, fickle)
