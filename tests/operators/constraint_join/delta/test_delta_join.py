"""Joins with constraints over relations that come and go: what is put out is a part of the join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.algebra.constraints import Constraint, ConstraintKind, ConstraintMode, Watching
from braid.algebra.expressions import TRUE
from braid.algebra.schema import Attribute, Schema
from braid.jit.runtime import COMPILED
from braid.operators.constraint_join.delta import logic as constraint_changes
from braid.operators.constraint_join.delta import spill as constraint_change_aside
from braid.operators.constraint_join.delta import state as constraint_change_state
from braid.operators.constraint_join.delta import watch as constraint_change_watch
from braid.operators.constraint_join.delta.logic import ChangesJoinLogic
from braid.operators.constraint_join.spec import CHANGES, ConstraintJoinSpec
from braid.operators.constraint_join.spill import rows as constraint_aside
from braid.operators.core.base import Context
from braid.operators.core.batch import Batch
from braid.operators.join.spec import Equality
from braid.plan.deltas import WEIGHT
from braid.plan.specs import Shape

Row = tuple[int, int]
#: Instant, input, row, weight.
Change = tuple[int, int, Row, int]


def spec(inputs: int, mode: ConstraintMode, *, only_coming: bool) -> ConstraintJoinSpec:
    """Inputs with a key and a value each, all joined on the key."""
    names = ("k", "v", WEIGHT)
    shape = Shape(Schema(tuple(Attribute(name, pa.int64()) for name in names)))
    equalities = tuple(
        Equality(0, "k", i, "k", floating=False, null_safe=False) for i in range(1, inputs)
    )
    emit = (("k", 0, "k"), *((f"v{i}", i, "v") for i in range(inputs)))
    every = tuple(range(inputs))
    return ConstraintJoinSpec(
        tuple(shape for _ in every),
        equalities,
        TRUE,
        emit,
        tuple(False for _ in every),
        tuple(CHANGES for _ in every),
        tuple(False for _ in every),
        mode,
        tuple((None, ()) for _ in every),
        only_coming=only_coming,
    )


def with_keys(plain: ConstraintJoinSpec) -> ConstraintJoinSpec:
    """With keys that are declared of all inputs but the first, and may or may not hold."""
    names = tuple((f"S{i}", (("k", "k"), ("v", "v"))) for i in range(len(plain.inputs)))
    declared = tuple(
        Constraint(f"one{i}", ConstraintKind.KEY, f"S{i}", ("k",))
        for i in range(1, len(plain.inputs))
    )
    return replace(plain, names=names, declared=declared)


def batch(changes: Sequence[Change]) -> Batch:
    rows = [(t, t, 0, *row, weight) for t, _, row, weight in changes]
    return Batch(np.array(rows, np.int64).reshape(-1, 6))


def joined(relations: Sequence[Counter[Row]]) -> Counter[tuple[int, ...]]:
    """The join itself."""
    found = Counter({(k, v): n for (k, v), n in relations[0].items()})
    for relation in relations[1:]:
        found = Counter(
            {
                (*one, v): n * m
                for one, n in found.items()
                for (k, v), m in relation.items()
                if k == one[0]
            }
        )
    return +found


class Run:
    """A join that gets changes in batches; what it has put out, instant by instant."""

    def __init__(
        self, spec_: ConstraintJoinSpec, sample: float = 0.01, above: int = 1 << 30
    ) -> None:
        self._spec = spec_
        self._context = Context(watching=Watching(sample=sample), spill_above=above)
        self.logic = ChangesJoinLogic(spec_, self._context)
        self.out: list[tuple[int, tuple[int, ...], int]] = []

    def take(self, changes: Sequence[Change], bound: int) -> None:
        inputs = [batch([c for c in changes if c[1] == i]) for i in range(len(self._spec.inputs))]
        rows = self.logic.on_batch(inputs, bound).rows
        self.out += [(int(r[1]), tuple(map(int, r[3:-1])), int(r[-1])) for r in rows]

    def restart(self) -> None:
        state = self.logic.snapshot()
        self.logic = ChangesJoinLogic(self._spec, self._context)
        self.logic.restore(state)

    def relation(self, until: int) -> Counter[tuple[int, ...]]:
        found: Counter[tuple[int, ...]] = Counter()
        for time, row, weight in self.out:
            if time <= until:
                found[row] += weight
        return Counter({row: n for row, n in found.items() if n})


@contextmanager
def eager() -> Iterator[None]:
    """Rows leave as soon as anything speaks for it, and go to the file at once; what is held is gone
    through all the time; equal rows get an index of their own."""
    with (
        patch.multiple(constraint_changes, JUDGED=1, _ROUND=3, _OFTEN=10_000),
        patch.object(constraint_change_aside, "_RARELY", 0),
        patch.object(constraint_aside, "PIECE", 2),
        patch.object(constraint_change_watch, "_WINDOW", dict.fromkeys(range(3), 2)),
        patch.object(constraint_change_state, "_JUDGED", 4),
        patch.object(constraint_change_state, "_LONG", 0),
    ):
        yield


def truth(changes: Sequence[Change], inputs: int, until: int) -> Counter[tuple[int, ...]]:
    relations: list[Counter[Row]] = [Counter() for _ in range(inputs)]
    for time, number, row, weight in changes:
        if time <= until:
            relations[number][row] += weight
    return joined(relations)


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[Change], list[int]]:
    """Rows come, with weights, and go again, perhaps at the same instant; and where batches end."""
    inputs = draw(st.integers(2, 3))
    changes: list[Change] = []
    for number in range(inputs):
        for _ in range(draw(st.integers(0, 8))):
            row = (draw(st.integers(0, 2)), draw(st.integers(0, 2)))
            comes, stays = draw(st.integers(0, 12)), draw(st.integers(0, 8))
            copies = draw(st.integers(1, 2))
            changes.append((comes, number, row, copies))
            changes += [(comes + stays, number, row, -1)] * draw(st.integers(0, copies))
    order = draw(st.permutations(range(len(changes))))
    changes = sorted((changes[k] for k in order), key=lambda change: change[0])
    return inputs, changes, sorted(draw(st.lists(st.integers(0, 20), max_size=3)))


def ran(
    case: Any,
    mode: ConstraintMode,
    *,
    only_coming: bool,
    restarts: bool = False,
    sample: float = 0.0,
    above: int = 1 << 30,
    keyed: bool = False,
) -> Run:
    inputs, changes, ends = case
    asked = spec(inputs, mode, only_coming=only_coming)
    run, first = Run(with_keys(asked) if keyed else asked, sample, above), -1
    for end in [*ends, 2**62]:
        run.take([c for c in changes if first < c[0] <= end], end + 1)
        first = end
        if restarts:
            run.restart()
    return run


EXAMPLES = settings(max_examples=60 if COMPILED else 15, deadline=None)


@EXAMPLES
@given(histories(), st.booleans())
def test_what_is_put_out_is_the_join(case: Any, restarts: bool) -> None:
    inputs, changes, _ = case
    run = ran(case, ConstraintMode.EXACT, only_coming=False, restarts=restarts)
    for instant in range(22):
        assert run.relation(instant) == truth(changes, inputs, instant)


@EXAMPLES
@given(histories(), st.booleans(), st.sampled_from([0, 0, 600]), st.booleans(), st.booleans())
def test_with_rows_aside_it_is_the_join(
    case: Any, restarts: bool, above: int, only_coming: bool, keyed: bool
) -> None:
    inputs, changes, _ = case
    with eager():
        run = ran(
            case,
            ConstraintMode.EXACT,
            only_coming=only_coming,
            restarts=restarts,
            above=above,
            keyed=keyed,
        )
    for instant in range(22):
        assert run.relation(instant) == truth(changes, inputs, instant)


@EXAMPLES
@given(histories(), st.booleans(), st.sampled_from([0.0, 0.5]), st.booleans())
def test_with_rows_dropped_it_is_a_part_of_the_join(
    case: Any, restarts: bool, sample: float, keyed: bool
) -> None:
    inputs, changes, _ = case
    with eager():
        run = ran(
            case,
            ConstraintMode.MONITORED,
            only_coming=False,
            restarts=restarts,
            sample=sample,
            keyed=keyed,
        )
    for instant in range(22):
        found = run.relation(instant)
        assert all(n > 0 for n in found.values()), "nothing goes that has not come"
        assert found <= truth(changes, inputs, instant)


@EXAMPLES
@given(histories(), st.booleans(), st.sampled_from([0.0, 0.5]), st.booleans())
def test_what_comes_for_istream_has_come_to_the_join(
    case: Any, restarts: bool, sample: float, keyed: bool
) -> None:
    inputs, changes, _ = case
    with eager():
        run = ran(
            case,
            ConstraintMode.MONITORED,
            only_coming=True,
            restarts=restarts,
            sample=sample,
            keyed=keyed,
        )
    for instant in range(22):
        now = truth(changes, inputs, instant)
        assert all(now[row] for row in come(run, instant)), "it is there now"


def come(run: Run, instant: int) -> Counter[tuple[int, ...]]:
    """What Istream makes of what is put out at an instant."""
    found: Counter[tuple[int, ...]] = Counter()
    for time, row, weight in run.out:
        if time == instant:
            found[row] += weight
    return +found


@pytest.mark.parametrize(
    "unsure",
    [
        [(0, 1, (1, 2), 1), (1, 0, (1, 1), 1), (1, 1, (1, 2), -1)],
        [(0, 0, (1, 1), 1), (1, 1, (1, 2), 1), (1, 1, (1, 2), -1)],
    ],
    ids=["with one that goes", "with one that comes and goes"],
)
def test_a_row_stays_if_its_result_goes_at_the_instant_at_which_it_comes(
    unsure: list[Change],
) -> None:
    """The row of input 0 finds its only result, but it is with a row that goes at the same instant."""
    run = Run(with_keys(spec(2, ConstraintMode.MONITORED, only_coming=True)), sample=0.0)
    run.take(unsure, 2)
    assert not come(run, 1), "nothing is there after the instant"
    assert run.logic.describe()["inputs"][0]["rows"] == 1, "it has had no result"
    run.take([(2, 1, (1, 3), 1), (2, 1, (9, 9), -1)], 3)
    assert come(run, 2) == {(1, 1, 3): 1}
    assert run.logic.describe()["inputs"][0]["rows"] == 0, "now it has"


def test_within_an_instant_nothing_leaves_by_which_results_go() -> None:
    """An instant of many rows, in which it is looked after what is held: all rows of input 0 find a
    result, every second one with a row that goes."""
    count = 200
    changes = [(1, 0, (k, 1), 1) for k in range(count)]
    changes += [(1, 1, (k, 2), -1) for k in range(0, count, 2)]
    with eager():
        run = Run(spec(2, ConstraintMode.MONITORED, only_coming=True), sample=0.0)
        run.take([(0, 1, (k, 2), 1) for k in range(count)], 1)
        run.take(changes, 2)
    assert come(run, 1) == {(k, 1, 2): 1 for k in range(1, count, 2)}
    assert run.logic.describe()["one_result"] == [True, True]
    assert run.logic.instances == 0, "they leave when it is over"


def lives(count: int) -> Iterator[Change]:
    """Rows of input 0 that each meet one row of input 1, which then goes; they never go themselves."""
    for k in range(count):
        yield (3 * k, 0, (k, 1), 1)
        yield (3 * k + 1, 1, (k, 2), 1)
        yield (3 * k + 2, 1, (k, 2), -1)


def test_rows_leave_after_their_result_has_gone() -> None:
    run = Run(spec(2, ConstraintMode.MONITORED, only_coming=False))
    changes = list(lives(3000))
    for first in range(0, len(changes), 300):
        part = changes[first : first + 300]
        run.take(part, part[-1][0] + 1)
    assert len(run.out) == 6000, "all comes and all goes"
    assert not run.relation(9000)
    held = run.logic.describe()["inputs"][0]["rows"]
    assert held < 100, "a sample of them"
    assert run.logic.state_bytes < 100 * held + 16_000


@pytest.mark.parametrize("mode", [ConstraintMode.EXACT, ConstraintMode.MONITORED])
def test_with_a_declared_key_rows_leave_from_the_first_result_on(mode: ConstraintMode) -> None:
    exact = mode is ConstraintMode.EXACT
    run = Run(with_keys(spec(2, mode, only_coming=False)), sample=0.0, above=0)
    # What has left into a file comes back when its result goes.
    run.take([change for change in lives(100) if not exact or change[3] > 0], 300)
    assert len(run.out) == (100 if exact else 200)
    (first, _) = run.logic.describe()["inputs"]
    assert (first["rows"], first["aside"]) == (0, 100 if exact else 0)
    assert run.logic.broken() == []


@pytest.mark.parametrize("mode", [ConstraintMode.EXACT, ConstraintMode.MONITORED])
def test_a_declared_key_that_is_broken_is_told_once_and_not_used(mode: ConstraintMode) -> None:
    run = Run(with_keys(spec(2, mode, only_coming=False)), sample=0.0, above=0)
    run.take([(0, 1, (1, 5), 1), (1, 1, (2, 5), 1), (2, 1, (2, 6), 1), (3, 1, (1, 6), 1)], 4)
    (broken,) = run.logic.broken()
    assert (broken.constraint, broken.stream, broken.event, broken.at) == ("one1", "S1", 3, 2)
    assert (broken.attribute, broken.value) == ("k", "2")
    assert run.logic.describe()["broken_keys"] == {"one1": 2}
    run.restart()
    run.take([(5, 1, (1, 7), 1), (6, 0, (1, 1), 1), (7, 1, (1, 8), 1)], 8)
    assert run.logic.broken() == [], "it has been told"
    assert run.logic.describe()["broken_keys"] == {"one1": 2}
    assert len(run.out) == 4, "nothing is lost by it any more"


def test_rows_that_meet_often_stay() -> None:
    """Many-many: nothing is gained, and nothing is lost."""
    run = Run(spec(2, ConstraintMode.MONITORED, only_coming=True))
    changes = [(t, t % 2, (t % 7, t), 1) for t in range(800)]
    for first in range(0, len(changes), 100):
        run.take(changes[first : first + 100], first + 100)
    assert run.relation(800) == truth(changes, 2, 800)
    assert run.logic.instances == 800


def test_rows_of_one_key_are_found_among_many() -> None:
    run = Run(spec(2, ConstraintMode.EXACT, only_coming=False))
    run.take([(0, 0, (1, v), 1) for v in range(2000)], 1)
    run.take([(1, 0, (1, v), -1) for v in range(1000)], 2)
    run.take([(2, 0, (1, v), -1) for v in range(1000, 1999)], 3)
    assert run.logic.instances == 1
    run.take([(3, 1, (1, 5), 1)], 4)
    assert run.out == [(3, (1, 1999, 5), 1)]


@pytest.mark.parametrize(
    ("kind", "mask", "comes", "goes"),
    [
        (pa.int64(), 2, 7, 9),
        (pa.float64(), 0, 0, -(2**63)),
        (pa.float64(), 0, 0x7FF8000000000001, 0x7FF8000000000002),
        (pa.float64(), 2, 7, 9),
    ],
    ids=["null", "zero", "nan", "null float"],
)
def test_a_row_goes_that_is_equal_with_other_words(
    kind: pa.DataType, mask: int, comes: int, goes: int
) -> None:
    """What a NULL has beside it is nothing, and there are two zeros and many NaNs."""
    shape = Shape(Schema(tuple(map(Attribute, ("k", "v", WEIGHT), (pa.int64(), kind, pa.int64())))))
    plain = spec(2, ConstraintMode.EXACT, only_coming=False)
    run = Run(replace(plain, inputs=(shape, plain.inputs[1])))
    other = Batch(np.empty((0, 6), np.int64))
    for time, value, null, weight in [
        (0, comes, mask, 1),
        (1, 7, 2 - mask, 1),
        (2, goes, mask, -1),
    ]:
        rows = Batch(np.array([(time, time, null, 1, value, weight)], np.int64))
        run.logic.on_batch([rows, other], time + 1)
    run.take([(3, 1, (1, 5), 1)], 4)
    assert run.out == [(3, (1, 7, 5), 1)]
    assert run.logic.instances == 2


def test_too_many_rows_are_given_up() -> None:
    run = Run(spec(2, ConstraintMode.MONITORED, only_coming=True))
    run.logic = ChangesJoinLogic(run._spec, Context(instance_budget=10))
    run.take([(t, 0, (t, 0), 1) for t in range(20)], 20)
    assert run.logic.stopped == {0: 19}
    assert run.logic.instances == 0
    state = run.logic.snapshot()
    again = ChangesJoinLogic(run._spec, Context(instance_budget=10))
    again.restore(state)
    assert again.stopped == {0: 19}
    with_more = ChangesJoinLogic(run._spec, Context(instance_budget=100))
    with_more.restore(state)
    assert not with_more.stopped


def pairs(count: int, *, stays: int) -> list[Change]:
    """Rows of input 0, every second of which finds its partner five instants later; all of them go
    after so many instants."""
    changes = []
    for k in range(count):
        changes.append((k, 0, (k, 1), 1))
        changes.append((k + stays, 0, (k, 1), -1))
        if k % 2:
            changes.append((k + 5, 1, (k, 2), 1))
            changes.append((k + stays, 1, (k, 2), -1))
    return sorted(changes, key=lambda change: change[0])


def taken(run: Run, changes: Sequence[Change], part: int) -> int:
    """Take changes in parts; the most rows that were in memory after one."""
    most = 0
    for first in range(0, len(changes), part):
        now = changes[first : first + part]
        run.take(now, now[-1][0] + 1)
        most = max(most, run.logic.instances)
    return most


@pytest.mark.parametrize("mode", [ConstraintMode.EXACT, ConstraintMode.MONITORED])
def test_rows_that_have_waited_too_long_leave(mode: ConstraintMode) -> None:
    changes = pairs(24_000, stays=10_000)
    run = Run(spec(2, mode, only_coming=False), above=0)
    end = len(changes) // 2
    while end < len(changes) and changes[end][0] == changes[end - 1][0]:
        end += 1
    taken(run, changes[:end], 5000)
    found = run.logic.describe()
    (waits,) = [c for c in found["constraints"] if c["kind"] == "references" and c["input"] == 0]
    assert waits["k"] < 100
    assert waits["rows"] > 2_000
    if mode is ConstraintMode.EXACT:
        assert found["inputs"][0]["aside"] > 2_000
        assert found["file_bytes"] > 0
        run.restart()
        assert run.logic.describe()["inputs"][0]["aside"] > 2_000
    else:
        assert run.logic.instances < 14_000, "15,000 are there"
    taken(run, changes[end:], 5000)
    assert not run.relation(1 << 40), "whatever has come has gone"
    assert sum(weight > 0 for _, _, weight in run.out) == 12_000
    if mode is ConstraintMode.EXACT:
        assert run.logic.instances == 0
        assert [i["aside"] for i in run.logic.describe()["inputs"]] == [0, 0]


@pytest.mark.parametrize("mode", [ConstraintMode.EXACT, ConstraintMode.MONITORED])
def test_rows_whose_value_is_past_leave(mode: ConstraintMode) -> None:
    """Input 1 ascends; partners come soon, or very late, so that how long rows wait tells nothing."""
    random = np.random.default_rng(3)
    changes: list[Change] = []
    for k in range(40_000):
        changes.append((k, 1, (k // 2, 2), 1))
        changes.append((k + 100, 1, (k // 2, 2), -1))
        ahead = int(random.integers(0, 8_000))
        changes.append((k, 0, (k // 2 + (ahead if k % 3 else -5000), 1), 1))
    changes.sort(key=lambda change: change[0])
    run = Run(spec(2, mode, only_coming=False), above=0)
    most = taken(run, changes, 5000)
    (order,) = [c for c in run.logic.describe()["constraints"] if c["kind"] == "ascending"]
    assert order["input"] == 1
    assert order["k"] <= 128
    assert order["rows"] > 5_000
    assert most < 30_000
    if mode is ConstraintMode.EXACT:
        plain = Run(spec(2, mode, only_coming=False))
        taken(plain, changes, 5000)
        for instant in range(0, 40_000, 9_973):
            assert run.relation(instant) == plain.relation(instant)


def test_one_row_may_ask_for_many_keys() -> None:
    """Some of them have one place in the table of keys that are known not to be aside."""
    chain = spec(3, ConstraintMode.EXACT, only_coming=False)
    chain = replace(
        chain,
        equalities=(
            Equality(0, "k", 1, "k", floating=False, null_safe=False),
            Equality(1, "v", 2, "k", floating=False, null_safe=False),
        ),
    )
    run = Run(chain)
    run.take([(0, 1, (7, v), 1) for v in range(600)], 1)
    run.take([(0, 2, (v, v), 1) for v in range(600)], 1)
    held, aside = run.logic._held, run.logic._spilled[2]
    records = held.records(2)
    held.forget(2)
    aside.add(records)
    run.take([(1, 0, (7, 1), 1)], 2)
    assert len(run.out) == 600
    assert run.logic.describe()["inputs"][2]["returned"] == 600


def test_rows_with_strings_are_given_new_codes_wherever_they_are() -> None:
    names = ("k", "v", WEIGHT)
    kinds = (pa.string(), pa.int64(), pa.int64())
    shape = Shape(Schema(tuple(map(Attribute, names, kinds))))
    text = replace(spec(2, ConstraintMode.EXACT, only_coming=False), inputs=(shape, shape))
    run = Run(text)
    run.take([(0, 0, (code, 1), 1) for code in range(40)], 1)
    records = run.logic._held.records(0)
    run.logic._held.forget(0)
    run.logic._held.take(0, records[:20])
    run.logic._spilled[0].add(records[20:])
    held = run.logic.held()
    assert held is not None
    rows = held.rows.copy()
    rows[:, held.layout.word("0.k")] += 100
    run.logic.replace_held(rows)
    assert run.logic.describe()["inputs"][0]["aside"] == 20
    run.take([(1, 1, (code, 5), 1) for code in range(100, 150)], 2)
    assert sorted(row[0] for _, row, _ in run.out) == list(range(100, 140))
