"""Detections obey the law, numbers and all; and what their answers promise is true."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from braid.engine import executor
from tests.properties.law import Feed, check, feeds
from tests.properties.plans import DETECTIONS, workloads


@given(st.data())
def test_one_batch(data: st.DataObject) -> None:
    workload = data.draw(workloads(max_queries=2, depth=1, shapes=("detection",)))
    sent = tuple((name, e) for name, found in workload.events.items() for e in found)
    check(workload, Feed((sent,)))


@given(st.data())
def test_any_split_and_restart(data: st.DataObject) -> None:
    """Also with patterns over what is detected, and detections over what patterns find."""
    workload = data.draw(workloads(max_queries=3, depth=2, shapes=DETECTIONS))
    check(workload, data.draw(feeds(workload)))


@given(st.data())
def test_out_of_order_within_lateness(data: st.DataObject) -> None:
    lateness = data.draw(st.integers(1, 4))
    workload = data.draw(
        workloads(max_queries=2, depth=1, lateness=lateness, shapes=("detection",))
    )
    check(workload, data.draw(feeds(workload, lateness)))


@given(st.data())
def test_values_are_forgotten_after_every_batch(data: st.DataObject) -> None:
    """Strings get new codes all the time, and nobody may notice."""
    workload = data.draw(workloads(max_queries=2, depth=1, shapes=("detection",)))
    with patch.multiple(executor, GROWTH=0, COMPACT_FROM=0):
        check(workload, data.draw(feeds(workload)))
