"""The law for queries over documents: batch splits, simultaneous documents, restarts, rules."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties import law
from tests.properties.documents import workloads


@given(st.data())
def test_documents_obey_the_law(data: st.DataObject) -> None:
    workload = data.draw(workloads())
    assume(workload.queries)
    law.check(workload, data.draw(law.feeds(workload)))
