"""The law, for random queries over random streams, however they are fed."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from braid.engine import executor
from tests.properties.law import (
    Feed,
    check,
    check_with_late,
    feeds,
    stay,
    unordered_feeds,
)
from tests.properties.plans import (
    ATTRIBUTE_JOINS,
    DISJUNCTIONS,
    RELATIONAL,
    SAME_TIMES,
    WINDOW_JOINS,
    views,
    workloads,
)


@given(st.data())
def test_one_batch(data: st.DataObject) -> None:
    """Everything at once: the plain meaning of every operator."""
    workload = data.draw(workloads(max_queries=2))
    sent = tuple((name, e) for name, found in workload.events.items() for e in found)
    check(workload, Feed((sent,)))


@given(st.data())
def test_any_split_and_restart(data: st.DataObject) -> None:
    workload = data.draw(workloads())
    check(workload, data.draw(feeds(workload)))


@settings(max_examples=max(1, settings.default.max_examples // 3))  # each compiles its predicates
@given(st.data())
def test_disjunctions(data: st.DataObject) -> None:
    """Instances that hang in a chain for each clause are affected once, whatever leads to them."""
    workload = data.draw(workloads(max_queries=2, depth=1, shapes=DISJUNCTIONS))
    check(workload, data.draw(feeds(workload)))


@given(st.data())
def test_relations(data: st.DataObject) -> None:
    """Windows, joins, groups and what is made of them, patterns among them."""
    workload = data.draw(workloads(max_queries=3, depth=2, shapes=RELATIONAL))
    check(workload, data.draw(feeds(workload)))


@given(st.data())
def test_aggregations_of_one_instant(data: st.DataObject) -> None:
    """Each query has the aggregates of its own events, whatever others aggregate beside it."""
    workload = data.draw(workloads(max_queries=5, depth=2, shapes=SAME_TIMES))
    check(workload, data.draw(feeds(workload)))


@given(st.data())
def test_joins_of_windows(data: st.DataObject) -> None:
    """Windows inside of joins, also where what goes is equal to what comes."""
    workload = data.draw(workloads(max_queries=3, depth=1, shapes=WINDOW_JOINS))
    check(workload, data.draw(feeds(workload)))


@given(st.data())
def test_joins_by_different_attributes(data: st.DataObject) -> None:
    """Joins of the same streams share one buffer, whatever they compare and show."""
    workload = data.draw(workloads(max_queries=5, depth=1, shapes=ATTRIBUTE_JOINS))
    check(workload, data.draw(feeds(workload)))


@given(st.data())
def test_out_of_order_within_lateness(data: st.DataObject) -> None:
    lateness = data.draw(st.integers(1, 4))
    workload = data.draw(workloads(max_queries=2, lateness=lateness))
    check(workload, data.draw(feeds(workload, lateness)))


@given(st.data())
def test_late_events_are_left_out_and_reported(data: st.DataObject) -> None:
    workload = data.draw(workloads(max_queries=1, lateness=data.draw(st.integers(0, 2))))
    check_with_late(workload, data.draw(unordered_feeds(workload)))


@given(st.data())
def test_values_are_forgotten_after_every_batch(data: st.DataObject) -> None:
    """Strings get new codes all the time, and nobody may notice."""
    workload = data.draw(workloads(max_queries=2))
    with patch.multiple(executor, GROWTH=0, COMPACT_FROM=0):
        check(workload, data.draw(feeds(workload)))


@given(st.data())
def test_deep_plans(data: st.DataObject) -> None:
    workload = data.draw(workloads(max_queries=4, depth=5))
    check(workload, data.draw(feeds(workload, reloads=False)))


@given(st.data())
def test_queries_that_show_different_attributes(data: st.DataObject) -> None:
    """What a query shows and tests later is no part of the operators that it shares."""
    workload = data.draw(views())
    check(workload, data.draw(feeds(workload)))


@given(st.data())
def test_operators_have_fewer_columns_after_a_restart(data: st.DataObject) -> None:
    """State is found by the names of its columns, of which the queries that stay need some."""
    workload = data.draw(views())
    stay(data, workload, workload.queries[: data.draw(st.integers(1, len(workload.queries)))])


@given(st.data())
def test_queries_that_stay_keep_their_state(data: st.DataObject) -> None:
    """A restart with other queries: those that were there before do not notice."""
    workload = data.draw(workloads(max_queries=3))
    stay(data, workload, workload.queries[:-1])
