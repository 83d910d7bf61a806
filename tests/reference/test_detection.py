"""DETECT by its definition: the printed example, batches, and what answers promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.algebra.detection import Path, bucket_of, paths_of, word_of
from braid.algebra.join_graphs import graph_of
from braid.algebra.relations import Detection, StreamKind, ToStream
from braid.algebra.types import STRING
from braid.lang import Catalog, compile_query, load
from braid.reference import Event, evaluate
from braid.reference.detection import answers, by_key, detect, looked_at, partial_vectors
from braid.reference.relations import to_stream
from tests.properties.plans import workloads

Rows = list[tuple[Any, ...]]

STREAMS = """
CREATE STREAM Stdt (name STRING, t BIGINT) TIME t;
CREATE STREAM Sbj (name STRING, sid STRING, t BIGINT) TIME t;
CREATE STREAM Dept (sid STRING, dept STRING, t BIGINT) TIME t;
CREATE STREAM Prof (dept STRING, t BIGINT) TIME t;
CREATE STREAM A (x BIGINT, t BIGINT) TIME t;
CREATE STREAM B (x BIGINT, t BIGINT) TIME t;
"""


def catalog() -> Catalog:
    known = Catalog()
    load(STREAMS, known)
    return known


def detection(text: str) -> Detection:
    node = compile_query(text, catalog()).query.node
    assert isinstance(node, ToStream)
    assert isinstance(node.relation, Detection)
    return node.relation


def at(*rows: tuple[Any, ...]) -> list[Event]:
    """Points: the last value of each row is its time."""
    return [Event(row[:-1], row[-1], row[-1]) for row in rows]


def answered(text: str, *inputs: list[Event]) -> Rows:
    found = detection(text)
    return sorted(
        (b.closed, found.settings.labels[i], *row) for i, b, row, _ in answers(found, inputs, {})
    )


# ---- the printed example -------------------------------------------------------------------------

EXAMPLE = """DETECT Taught FROM Stdt [Rows 10], Sbj [Rows 10], Dept [Rows 10], Prof [Rows 10]
WHERE Stdt.name = Sbj.name AND Sbj.sid = Dept.sid AND Dept.dept = Prof.dept
BATCH 2 BUCKETS 4, 2, 3 VERIFY NEVER"""


def in_bucket(number: int, buckets: int) -> str:
    """A text that is hashed there."""
    texts = (f"v{k}" for k in range(100))
    return next(t for t in texts if bucket_of([word_of(t, STRING)], buckets) == number)


def test_students_subjects_departments_professors() -> None:
    """Buckets 4, 2 and 3; the batch is of subjects. The windows are chosen to give the vectors that
    are printed: 3 partial sequences, then [3, 2, 0], then 2 complete ones."""
    name = [in_bucket(k, 4) for k in range(4)]
    sid = [in_bucket(k, 2) for k in range(2)]
    dept = [in_bucket(k, 3) for k in range(3)]
    students = at((name[0], 1), (name[0], 2), (name[2], 3), (name[3], 4))
    departments = at((sid[0], dept[0], 1), (sid[1], dept[0], 2), (sid[0], dept[1], 3))
    professors = at((dept[1], 1), (dept[2], 2))
    subjects = at((name[0], sid[0], 5), (name[2], sid[1], 6))
    found = detection(EXAMPLE)
    inputs = [students, subjects, departments, professors]
    ((number, batch, seen),) = [looked for looked in looked_at(found, inputs, {}) if looked[0] == 1]
    assert (number, batch.closed) == (1, 6)
    (path,) = graph_of(found.join).paths
    vectors = partial_vectors(path, seen, found.settings.buckets)
    assert sum(vectors[1]) == 3
    assert vectors[1] == [2, 1]
    assert vectors[2] == [3, 2, 0]
    assert sum(vectors[3]) == 2
    (row,) = [row for row in answered(EXAMPLE, *inputs) if row[1] == "Sbj"]
    assert row[:4] == (6, "Sbj", 2, False)
    # 4, 2, 3 and 2 events in 4, 8, 6 and 3 entries.
    assert row[4] == pytest.approx((4 / 4 + 2 / 8 + 3 / 6 + 2 / 3) / 4)


# ---- paths ---------------------------------------------------------------------------------------


def test_a_path_is_one_path() -> None:
    assert paths_of(4, [(0, 1), (1, 2), (2, 3)]) == (Path((0, 1, 2, 3), (0, 1, 2)),)


def test_trees_and_cycles_are_several() -> None:
    star = paths_of(4, [(0, 1), (0, 2), (0, 3)])
    assert star == (Path((1, 0, 2), (0, 1)), Path((0, 3), (2,)))
    cycle = paths_of(3, [(0, 1), (1, 2), (0, 2)])
    assert [len(path.edges) for path in cycle] == [2, 1]


def test_a_dense_graph_ends_too() -> None:
    edges = [(i, j) for j in range(16) for i in range(j)]
    found = paths_of(16, edges)
    assert sorted(edge for path in found for edge in path.edges) == list(range(len(edges)))


# ---- batches -------------------------------------------------------------------------------------

BOTH = "DETECT F FROM A [Rows 3], B [Range 4] WHERE A.x = B.x VERIFY ALWAYS"


def test_every_epoch_is_a_batch() -> None:
    rows = answered(BOTH, at((1, 1), (3, 5)), at((1, 3), (3, 3), (3, 5)))
    assert [row[:3] for row in rows] == [(3, "B", 1), (5, "A", 2), (5, "B", 1)]


def test_an_epoch_is_not_split() -> None:
    rows = answered(
        f"{BOTH} BATCH 2", at((1, 1), (2, 2), (3, 2), (4, 2), (5, 7)), at((1, 1), (3, 2))
    )
    # A's batch is 1, then all of 2; B's is 1 and 2.
    assert [(row[0], row[1]) for row in rows] == [(2, "A"), (2, "B")]


def test_a_batch_that_nothing_fills() -> None:
    within = answered(f"{BOTH} BATCH 9 WITHIN 3", at((1, 1)), at((1, 2), (7, 5)))
    assert [(row[0], row[1]) for row in within] == [(5, "B")]
    ever = answered(f"{BOTH} BATCH 9", at((1, 1)), at((1, 2)))
    assert [(row[0], row[1]) for row in ever] == [(2**62 - 1, "B")]


def test_invalidation_waits_for_batches_that_wait() -> None:
    """While the event of A at 3 waits in its batch, three of B come and push its partner out of
    the window. By the printed algorithm the batch of A would find nothing."""
    text = "DETECT F FROM A [Rows 9], B [Rows 1] WHERE A.x = B.x BATCH 2 VERIFY ALWAYS"
    rows = answered(text, at((1, 3), (9, 9)), at((1, 1), (5, 2), (1, 3), (5, 4), (6, 5), (7, 6)))
    assert (9, "A") in [(row[0], row[1]) for row in rows]


# ---- by key ---------------------------------------------------------------------------------------


def test_each_key_is_a_detection_of_its_own() -> None:
    """Windows, batches and bounds are those of one key, and NULL is none."""
    text = (
        "DETECT F FROM A [Rows 1], B [Range 4] WHERE A.x = B.x BATCH 2 VERIFY ALWAYS PARTITION BY x"
    )
    a = at((1, 1), (2, 2), (None, 3), (2, 4), (1, 6))
    b = at((1, 5), (2, 5), (1, 9), (2, 9))
    found = detect(detection(text), [a, b], {})
    alone = text.replace("PARTITION BY x", "")
    for key in (1, 2):
        own = [[e for e in events if e.values[0] == key] for events in (a, b)]
        wanted = [
            Event((key, *e.values), e.start, e.end) for e in detect(detection(alone), own, {})
        ]
        assert [e for e in found if e.values[0] == key] == wanted
        assert wanted
    # Of each key the last row of A is there, though others came after it.
    assert {(e.values[0], e.end) for e in found} == {(1, 6), (1, 9), (2, 9)}


# ---- what answers promise ------------------------------------------------------------------------


@given(st.data())
def test_promises(data: st.DataObject) -> None:
    """No false negatives, bounds that are bounds, verified answers that are exact."""
    workload = data.draw(workloads(max_queries=1, depth=1, shapes=("detection",)))
    node = workload.queries[0].outputs[0].node
    assert isinstance(node, ToStream)
    found = node.relation
    assert isinstance(found, Detection)
    inputs = [evaluate(child, workload.events) for child in node.inputs]
    for _, alone, own in by_key(found, inputs):
        _check_promises(alone, own)


def _check_promises(found: Detection, inputs: Sequence[Sequence[Event]]) -> None:
    told: dict[tuple[int, int], tuple[Any, ...]] = {}
    for number, batch, row, true in answers(found, inputs, {}):
        told[number, batch.first] = row
        bound, verified, _ = row
        assert bound is None or bound >= true
        assert true or not verified
    # Whatever comes to the join comes with the newest of its events, and is told with its batch.
    for event in to_stream(ToStream(found.join, StreamKind.ISTREAM), inputs, {}):
        covering = [
            (number, batch.first)
            for number, batch, _ in looked_at(found, inputs, {})
            if batch.first <= event.end <= batch.closed
            and any(e.end == event.end for e in batch.events)
        ]
        assert any(key in told for key in covering), f"{event} is told by nobody"
