"""Detections obey the law, numbers and all; and what their answers promise is true."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from braid.engine import executor
from braid.operators.detect import query as detection_query
from braid.operators.detect import verification_keys as detection_keys
from tests.properties.law import Feed, check, feeds, stay
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


@given(st.data())
def test_whichever_is_done_first(data: st.DataObject) -> None:
    """Verifying before synopses are multiplied out changes no answer, nor do links that run out."""
    workload = data.draw(workloads(max_queries=2, depth=1, shapes=("detection",)))
    feed = data.draw(feeds(workload))
    with (
        patch.multiple(detection_query, _FOLLOWED=0, _HUNG=data.draw(st.sampled_from([1, 100]))),
        patch.object(detection_keys, "_MOST_LINKS", 3),
    ):
        check(workload, feed)


@given(st.data())
def test_queries_that_stay_keep_their_state(data: st.DataObject) -> None:
    """A restart with other queries: those that were there before do not notice."""
    workload = data.draw(workloads(max_queries=3, depth=1, shapes=("detection",)))
    stay(data, workload, workload.queries[:-1])
