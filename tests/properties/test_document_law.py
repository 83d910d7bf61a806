"""The law for queries over documents: batch splits, simultaneous documents, restarts, rules."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from braid.engine import executor
from braid.operators.documents import store as document_store
from braid.operators.documents import value_order as document_order
from tests.properties import document_elements, document_joins, documents, json_documents, law
from tests.properties.test_live import come_and_go

#: Workloads over XML documents, over JSON documents alone and together with XML ones, of several
#: joins over both, and of documents that queries build.
KINDS = pytest.mark.parametrize(
    "workloads",
    [
        documents.workloads,
        json_documents.workloads,
        document_joins.workloads,
        document_elements.workloads,
    ],
    ids=["xml", "json", "joins", "elements"],
)


def check(data: st.DataObject, workloads: Any) -> None:
    workload = data.draw(workloads())
    assume(workload.queries)
    # Values are sorted at once, or not at all where there are so few documents.
    fewest, few = data.draw(st.sampled_from([(1, 0), (2, 0), (2, 1), (32, 64)]))
    with patch.multiple(document_order, FEWEST=fewest, FEW=few, PATIENCE=few):
        law.check(workload, data.draw(law.feeds(workload)))


@KINDS
@given(data=st.data())
def test_documents_obey_the_law(data: st.DataObject, workloads: Any) -> None:
    check(data, workloads)


@pytest.mark.parametrize(
    "workloads", [documents.workloads, document_joins.workloads], ids=["xml", "joins"]
)
@given(data=st.data())
def test_codes_of_values_may_change(data: st.DataObject, workloads: Any) -> None:
    """The table of strings is compacted after every batch."""
    with patch.multiple(executor, GROWTH=0, COMPACT_FROM=0):
        check(data, workloads)


@given(data=st.data())
def test_a_view_cache_that_is_too_small(data: st.DataObject) -> None:
    """Slices give way to others, and leave when they are full."""
    with patch.multiple(document_store, SLICES=4, LONGEST_SLICE=5):
        check(data, documents.workloads)


@KINDS
@given(data=st.data())
def test_queries_over_documents_come_and_go(data: st.DataObject, workloads: Any) -> None:
    workload = data.draw(workloads())
    assume(workload.queries)
    come_and_go(data, workload)
