"""The law for queries over documents: batch splits, simultaneous documents, restarts, rules."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import assume, given
from hypothesis import strategies as st

from braid.engine import executor
from braid.mops import document_store
from tests.properties import law
from tests.properties.documents import workloads
from tests.properties.test_live import come_and_go


@given(st.data())
def test_documents_obey_the_law(data: st.DataObject) -> None:
    workload = data.draw(workloads())
    assume(workload.queries)
    law.check(workload, data.draw(law.feeds(workload)))


@given(st.data())
def test_codes_of_values_may_change(data: st.DataObject) -> None:
    """The table of strings is compacted after every batch."""
    workload = data.draw(workloads())
    assume(workload.queries)
    with patch.multiple(executor, GROWTH=0, COMPACT_FROM=0):
        law.check(workload, data.draw(law.feeds(workload)))


@given(st.data())
def test_a_view_cache_that_is_too_small(data: st.DataObject) -> None:
    """Slices give way to others, and leave when they are full."""
    workload = data.draw(workloads())
    assume(workload.queries)
    with patch.multiple(document_store, SLICES=4, LONGEST_SLICE=5):
        law.check(workload, data.draw(law.feeds(workload)))


@given(st.data())
def test_queries_over_documents_come_and_go(data: st.DataObject) -> None:
    workload = data.draw(workloads())
    assume(workload.queries)
    come_and_go(data, workload)
