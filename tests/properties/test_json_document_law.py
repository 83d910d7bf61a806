"""The law for queries over JSON documents, and over JSON and XML documents together."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import assume, given
from hypothesis import strategies as st

from braid.engine import executor
from tests.properties import law
from tests.properties.json_documents import workloads
from tests.properties.test_live import come_and_go


@given(st.data())
def test_json_documents_obey_the_law(data: st.DataObject) -> None:
    """Whatever the batches, with documents of the same time, restarts, and rules."""
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
def test_queries_over_json_documents_come_and_go(data: st.DataObject) -> None:
    workload = data.draw(workloads())
    assume(workload.queries)
    come_and_go(data, workload)
