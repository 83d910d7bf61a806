"""The worked examples of the article on k-constraints, on the m-op itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import braid
from braid.algebra.constraints import Constraint, ConstraintKind, ConstraintMode, Watching
from braid.operators.constraint_join.logic import ConstraintJoinLogic
from braid.operators.constraint_join.spec import KEEPS, ConstraintJoinSpec
from braid.operators.core.base import Context
from braid.operators.core.batch import Batch

STREAMS = """
CREATE STREAM S1 (A BIGINT, B BIGINT, t BIGINT) TIME t;
CREATE STREAM S2 (A BIGINT, C BIGINT, t BIGINT) TIME t;
CREATE STREAM S3 (B BIGINT, D BIGINT, t BIGINT) TIME t;
CREATE STREAM T2 (B BIGINT, C BIGINT, t BIGINT) TIME t;
CREATE STREAM T3 (C BIGINT, D BIGINT, t BIGINT) TIME t;
"""
#: Figure 6(a): S1 -> S2 on A, S1 -> S3 on B.
STAR = """Istream(Select S1.A, S1.B, C, D From S1, S2, S3
          Where S1.A = S2.A and S1.B = S3.B and D < 8)"""
#: Figure 6(b): S1 -> T2 on B, T2 -> T3 on C.
CHAIN = """Istream(Select S1.A, S1.B, T2.C, D From S1, T2, T3
           Where S1.B = T2.B and T2.C = T3.C and D > 10)"""

KEYS = (
    Constraint("k2", ConstraintKind.KEY, "S2", ("A",)),
    Constraint("k3", ConstraintKind.KEY, "S3", ("B",)),
    Constraint("t2", ConstraintKind.KEY, "T2", ("B",)),
    Constraint("t3", ConstraintKind.KEY, "T3", ("C",)),
)


class Join:
    """A join that gets its events one by one, with rows dropped as soon as that is allowed."""

    def __init__(self, text: str, *known: Constraint, mode: str = "monitored") -> None:
        engine = braid.Engine(constraints=ConstraintMode(mode))
        engine.execute(STREAMS)
        engine.query("q", text)
        for constraint in (*KEYS, *known):
            engine._catalog.add_constraint(constraint)
        specs = (mop.spec for mop in engine._running().plan.mops.values())
        (self.spec,) = (spec for spec in specs if isinstance(spec, ConstraintJoinSpec))
        context = Context(spill_above=0, watching=Watching(sample=0.0))
        self.logic = ConstraintJoinLogic(self.spec, context)
        self.now = 0
        self.streams = [stream for stream, _ in self.spec.names]

    def take(self, stream: str, *events: tuple[int, int]) -> list[tuple[int, ...]]:
        """Events of a stream, one after the other; the results."""
        found: list[tuple[int, ...]] = []
        for event in events:
            self.now += 1
            inputs = [self._batch(n, [event] if s == stream else []) for n, s in self.named]
            out = self.logic.on_batch(inputs, self.now + 1).rows
            base = self.spec.output.layout.base
            found += [tuple(map(int, row[base:-1])) for row in out]
            self.logic._watch.collect(1)
        return found

    @property
    def named(self) -> list[tuple[int, str | None]]:
        return list(enumerate(self.streams))

    def _batch(self, number: int, events: Sequence[tuple[int, int]]) -> Batch:
        layout = self.spec.inputs[number].layout
        rows = np.zeros((len(events), layout.width), np.int64)
        rows[:, :2] = self.now
        for k, event in enumerate(events):
            values = dict(zip(_columns(self.streams[number]), event, strict=True))
            values[KEEPS] = values.get("D", 0) < 8 if self.streams[number] == "S3" else True
            values[KEEPS] &= self.streams[number] != "T3" or values["D"] > 10
            rows[k, layout.base :] = [int(values[name]) for name in layout.names]
        return Batch(rows)

    def held(self, stream: str) -> set[tuple[int, ...]]:
        """What is in memory of a stream."""
        number = self.streams.index(stream)
        layout = self.spec.inputs[number].layout
        names = [layout.word(name) for name in _columns(stream)]
        return {tuple(map(int, r)) for r in self.logic._held.records(number)[:, names]}


def _columns(stream: str | None) -> tuple[str, str]:
    return {"S1": ("A", "B"), "S2": ("A", "C"), "S3": ("B", "D"), "T2": ("B", "C")}.get(
        stream or "", ("C", "D")
    )


def figure_6a(*known: Constraint, third: Sequence[tuple[int, int]] = ()) -> Join:
    """The state that the examples begin with."""
    join = Join(STAR, *known)
    join.take("S2", (6, 20), (4, 15))
    join.take("S3", *(third or ((5, 3), (7, 9), (10, 12))))
    assert join.held("S2") == {(6, 20), (4, 15)}
    assert join.held("S3") == {(5, 3)}, "of what is refused only bits are kept"
    return join


def order(stream: str, column: str, k: int) -> Constraint:
    return Constraint("o", ConstraintKind.ASCENDING, stream, (column,), k=k)


def cluster(stream: str, column: str, k: int) -> Constraint:
    return Constraint("c", ConstraintKind.CLUSTERED, stream, (column,), k=k)


def references(k: int) -> Constraint:
    return Constraint("r", ConstraintKind.REFERENCES, "S1", ("B",), "S3", ("B",), k=k)


def test_example_3_6() -> None:
    join = figure_6a()
    assert join.take("S1", (6, 5)) == [(6, 5, 20, 3)]
    assert join.held("S1") == set(), "a root row that is in its result is done with"
    assert join.take("S1", (8, 10)) == []
    assert join.held("S1") == set(), "its child in S3 was refused"


def test_example_3_7() -> None:
    join = Join(CHAIN)
    join.take("T2", (2, 4))
    assert join.take("S1", (1, 2)) == []
    assert join.held("S1") == {(1, 2)}
    assert join.held("T2") == {(2, 4)}
    assert join.take("T3", (4, 12)) == [(1, 2, 4, 12)]
    assert join.held("S1") == set()


def test_example_4_2() -> None:
    """Which child is missing does not matter: S1 waits for one event of S3, and no longer."""
    join = figure_6a(references(1))
    join.take("S1", (4, 99))
    assert join.held("S1") == {(4, 99)}
    join.take("S3", (50, 1))
    assert join.held("S1") == set()
    assert join.take("S1", (4, 10)) == []
    assert join.held("S1") == set(), "its child has come, and was refused"


def test_example_5_3() -> None:
    join = figure_6a(cluster("S1", "B", 1))
    found = join.take("S1", (6, 5), (8, 8), (4, 5), (11, 10))
    assert found == [(6, 5, 20, 3), (4, 5, 15, 3)]
    assert join.held("S1") == {(8, 8)}
    assert join.held("S3") == set(), "no event of S1 has B = 5 any more"
    assert join.held("S2") == {(6, 20), (4, 15)}


def test_example_6_2() -> None:
    join = figure_6a(order("S3", "B", 2), third=((7, 9), (5, 3), (10, 12)))
    join.take("S1", (6, 4))
    assert join.held("S1") == set(), "no event of S3 has B < 7 any more"
    join.take("S1", (6, 8))
    assert join.held("S1") == {(6, 8)}


@pytest.mark.parametrize(
    ("known", "first", "second"),
    [
        ((cluster("S1", "A", 0),), {(6, 8), (3, 13)}, {(6, 20)}),
        ((order("S3", "B", 0),), {(3, 13)}, {(6, 20), (4, 15)}),
        ((cluster("S1", "A", 0), order("S3", "B", 0)), {(3, 13)}, set()),
    ],
)
def test_example_8_1(
    known: tuple[Constraint, ...], first: set[tuple[int, int]], second: set[tuple[int, int]]
) -> None:
    join = figure_6a(*known)
    assert join.take("S1", (4, 5), (6, 8), (3, 13)) == [(4, 5, 15, 3)]
    assert join.held("S1") == first
    assert join.held("S2") == second


@pytest.mark.parametrize("both", [False, True])
def test_example_8_2(both: bool) -> None:
    """Keys of refused rows are kept whatever other constraints there are: combining costs nothing."""
    join = figure_6a(cluster("S1", "B", 0), *((references(3),) if both else ()))
    assert join.take("S1", (6, 10), (4, 10), (8, 8)) == []
    assert join.held("S1") == {(8, 8)}
    join.take("S3", (60, 1), (61, 1))
    assert join.held("S1") == {(8, 8)}
    join.take("S3", (62, 1))
    assert join.held("S1") == (set() if both else {(8, 8)})


def test_table_2_ordered_parents() -> None:
    """An order of S1.A lets S2 go, also rows that never joined."""
    join = figure_6a(order("S1", "A", 0))
    join.take("S1", (5, 5))
    assert join.held("S2") == {(6, 20)}
    join.take("S1", (9, 99))
    assert join.held("S2") == set()


def test_k_in_time() -> None:
    within = Constraint("r", ConstraintKind.REFERENCES, "S1", ("B",), "S3", ("B",), k=2, timed=True)
    join = figure_6a(within)
    join.take("S1", (4, 99))
    join.take("S2", (70, 1), (71, 1))
    assert join.held("S1") == {(4, 99)}
    join.take("S2", (72, 1))
    assert join.held("S1") == set()


def test_a_declared_constraint_that_is_broken_is_told_and_not_used() -> None:
    join = Join(STAR, references(1), mode="exact")
    join.take("S2", (6, 20))
    join.take("S1", (6, 5))
    join.take("S3", (1, 1), (2, 1), (3, 1))
    assert join.held("S1") == set(), "aside"
    assert join.take("S3", (5, 3)) == [(6, 5, 20, 3)], "no result is lost"
    (told,) = [c for c in join.logic.describe()["constraints"] if "declared" in c]
    assert told["declared"] == "S1 (B) references S3 (B) within 1 rows"
    assert told["broken"] == {"event": 4, "at": 6}
    assert told["k"] is None or told["k"] > 1


def test_a_declared_key_that_is_broken_loses_nothing() -> None:
    join = Join(STAR, mode="exact")
    join.take("S2", (6, 20))
    join.take("S3", (5, 3))
    assert join.take("S1", (6, 5)) == [(6, 5, 20, 3)]
    assert join.held("S1") == set()
    assert join.take("S2", (6, 21)) == [(6, 5, 21, 3)]
    assert join.logic.describe()["broken_keys"]


@pytest.mark.parametrize("rows", [3, 15, 16, 17, 32])
def test_a_key_is_broken_whenever_its_second_row_comes(rows: int) -> None:
    """Also when the index grows just then: it has 16 chains at first."""
    join = Join(STAR, mode="exact")
    join.take("S2", *((number, 0) for number in range(rows)))
    assert join.logic.describe()["broken_keys"] == {}
    join.take("S2", (0, 1))
    assert join.logic.describe()["broken_keys"] == {"k2": rows + 1}
