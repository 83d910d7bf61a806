"""The least k of constraints, on arrivals that can be counted by hand."""

from __future__ import annotations

from braid.algebra.constraints import Constraint, ConstraintKind
from braid.reference import Arrival, adherence, counterexample, keeps
from braid.reference.constraints import BROKEN

KEY, CLUSTERED = ConstraintKind.KEY, ConstraintKind.CLUSTERED
UP, DOWN = ConstraintKind.ASCENDING, ConstraintKind.DESCENDING


def one(values: list[int | None], times: list[int] | None = None) -> list[Arrival]:
    """Events of a stream S with an attribute a, one each 10 ticks."""
    clock = times or [10 * n for n in range(len(values))]
    return [Arrival("S", t, {"a": v}) for t, v in zip(clock, values, strict=True)]


def two(text: str) -> list[Arrival]:
    """`P1 C2`: an event of the parent with a = 1, then one of the child with b = 2."""
    parts = text.split()
    return [
        Arrival(part[0], 10 * n, {"a" if part[0] == "P" else "b": int(part[1:])})
        for n, part in enumerate(parts)
    ]


def of(kind: ConstraintKind, *, timed: bool = False, k: int = 0) -> Constraint:
    return Constraint("c", kind, "S", ("a",), k=k, timed=timed)


def refers(*, timed: bool = False, k: int = 0) -> Constraint:
    return Constraint("c", ConstraintKind.REFERENCES, "P", ("a",), "C", ("b",), k, timed)


def test_keys() -> None:
    assert adherence(of(KEY), one([1, 2, 3])) == 0
    assert adherence(of(KEY), one([1, 2, 1])) == BROKEN
    assert adherence(of(KEY), one([1, None, None])) == 0


def test_clusters() -> None:
    assert adherence(of(CLUSTERED), one([1, 1, 2, 2, 3])) == 0
    assert adherence(of(CLUSTERED), one([1, 2, 1])) == 1
    assert adherence(of(CLUSTERED), one([5, 8, 5, 10, 5])) == 2
    assert adherence(of(CLUSTERED), one([1, None, 1])) == 1
    assert adherence(of(CLUSTERED, timed=True), one([1, 2, 1, 3], [0, 7, 12, 40])) == 12


def test_example_5_3() -> None:
    # CA(1) holds on S1.B: 5, 8, 5, 10, and 5 can come no more.
    assert keeps(of(CLUSTERED, k=1), one([5, 8, 5, 10]))
    assert not keeps(of(CLUSTERED, k=1), one([5, 8, 5, 10, 5]))


def test_orders() -> None:
    assert adherence(of(UP), one([1, 2, 2, 3])) == 0
    assert adherence(of(DOWN), one([3, 2, 2, 1])) == 0
    assert adherence(of(UP), one([2, 1])) == 1
    assert adherence(of(UP), one([7, 8, 9, 6])) == 3
    assert adherence(of(DOWN), one([1, 0, 2])) == 2
    assert adherence(of(UP), one([5, None, 4])) == 2
    assert adherence(of(UP, timed=True), one([5, 6, 4], [0, 3, 11])) == 11


def test_references() -> None:
    assert adherence(refers(), two("C1 P1 P1")) == 0
    assert adherence(refers(), two("P1 C1")) == 1
    assert adherence(refers(), two("P1 C2 C3 P4 C1")) == 3
    assert adherence(refers(), two("P1 C2 C3")) == 0, "there need not be a partner"
    assert adherence(refers(timed=True), two("P1 C2 C3 C1")) == 30


def test_example_4_2() -> None:
    # RIDS(1): the next child after (4, 10) is its own, or there is none to come.
    assert keeps(refers(k=1), two("C10 P10 C11"))
    assert not keeps(refers(k=1), two("P10 C11 C10"))


def test_what_comes_together_is_there_together() -> None:
    together = [Arrival("P", 1, {"a": 1}), Arrival("C", 1, {"b": 1})]
    assert adherence(refers(), together) == 0


def test_the_first_counterexample() -> None:
    arrivals = one([1, 2, 3, 1, 5, 3])
    found = counterexample(of(UP, k=1), arrivals)
    assert found is not None
    assert (found.first.values["a"], found.second.time) == (2, 30)
    assert counterexample(of(UP, k=2), arrivals) is None
