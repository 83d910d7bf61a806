"""Joins with windows inside against the windows of each member, written down."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from braid.algebra.expressions import TRUE, Call, Expression, Parameter, Ref, Source, conjunction
from braid.algebra.schema import Schema
from braid.algebra.types import BIGINT, BOOLEAN, STRING
from braid.jit.runtime import COMPILED
from braid.operators.core.base import Context
from braid.operators.core.batch import Batch
from braid.operators.core.bit_sets import BitSets
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin
from braid.operators.core.nodes import signatures
from braid.operators.join import ring_state as join_rings
from braid.operators.join.spec import Equality, WindowJoinRecipe, WindowJoinSpec
from braid.operators.join.window_join import WindowJoinLogic
from braid.plan.layout import END, START
from braid.plan.specs import Shape
from tests.operators.join.join_model import belong

#: An event: input, instant, row, nodes of the input that see it.
Event = tuple[int, int, tuple[Any, ...], tuple[int, ...]]
Row = tuple[Any, ...]

SHAPE = Shape(Schema.of([("k", BIGINT), ("x", BIGINT)]))


def spec_of(
    inputs: int,
    equalities: tuple[Equality, ...],
    residual: Expression = TRUE,
    membered: tuple[bool, ...] | None = None,
    shown: str = "kx",
    birth: int | None = None,
    shape: Shape = SHAPE,
) -> WindowJoinSpec:
    emit = tuple((f"{n}{i}", i, n) for i in range(inputs) for n in shape.schema.names)
    return WindowJoinSpec(
        (shape,) * inputs,
        equalities,
        residual,
        emit,
        membered or (True,) * inputs,
        (tuple(shown),) * inputs,
        birth,
    )


@dataclass(frozen=True)
class Member:
    """The node of each input, the size of its window, the constant of the residual."""

    nodes: tuple[int, ...]
    sizes: tuple[int, ...]
    constant: int = 0


def admit(logic: WindowJoinLogic, context: Context, members: list[Member]) -> list[int]:
    count, inputs = len(members), len(members[0].nodes)
    ids = pa.array([f"q{k}" for k in range(count)])
    columns = [pa.array([m.constant for m in members], BIGINT)]
    columns += [pa.array([m.sizes[i] for m in members], BIGINT) for i in range(inputs)]
    sizes = tuple(Parameter(1 + i, BIGINT) for i in range(inputs))
    recipe = WindowJoinRecipe((Parameter(0, BIGINT),), sizes)
    origins = []
    for i in range(inputs):
        words = np.array([m.nodes[i] for m in members], np.int64)
        origins.append(Origin(words, signatures("test", count, [words])))
    found = logic.admit(recipe, Constants(ids, columns, context.values), origins)
    return [int(n) for n in found.numbers]


def batch_of(events: list[Event], shape: Shape = SHAPE) -> Batch:
    rows = np.zeros((len(events), shape.layout.width), np.int64)
    index, members = [], []
    for number, (_, at, values, nodes) in enumerate(events):
        rows[number, START] = rows[number, END] = at
        for column, value in enumerate(values):
            if value is None:
                rows[number, 2] |= 1 << column
            rows[number, shape.layout.base + column] = 77 if value is None else value
        index += [number] * len(nodes)
        members += list(nodes)
    return Batch(rows, np.array(index, np.int32), np.array(members, np.int32))


def feed(
    logic: WindowJoinLogic, inputs: int, events: list[Event], bound: int, shape: Shape = SHAPE
) -> Batch:
    parts = [batch_of([e for e in events if e[0] == i], shape) for i in range(inputs)]
    return logic.on_batch(parts, bound)


Found = dict[tuple[int, int], Counter[Row]]


def coming(batch: Batch, width: int, shown: str) -> Found:
    """What Istream makes of the output: by instant and node, rows with the columns shown."""
    return cleaned(changing(batch, width, shown))


def changing(batch: Batch, width: int, shown: str) -> Found:
    """What comes and goes, by instant and node."""
    assert (np.diff(batch.rows[:, END]) >= 0).all()
    batch = batch.spelled()
    assert batch.index is not None
    assert batch.members is not None
    base, sums = batch.rows.shape[1] - width - 1, {}
    pairs = list(zip(batch.index.tolist(), batch.members.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    for number, node in pairs:
        row = batch.rows[number]
        values = [None if (int(row[2]) >> c) & 1 else int(row[base + c]) for c in range(width)]
        seen = tuple(v for c, v in enumerate(values) if "kx"[c % 2] in shown)
        sums.setdefault((int(row[END]), node), Counter())[seen] += int(row[-1])
    return without_nothing(sums)


def without_nothing(sums: Found) -> Found:
    kept = {k: Counter({r: n for r, n in v.items() if n}) for k, v in sums.items()}
    return {k: v for k, v in kept.items() if v}


def cleaned(sums: Found) -> Found:
    kept = {k: Counter({r: n for r, n in v.items() if n > 0}) for k, v in sums.items()}
    return {k: v for k, v in kept.items() if v}


@dataclass
class Model:
    """One member by itself: what is in its windows, and the product of that."""

    spec: WindowJoinSpec
    member: Member
    shown: str
    constant: int | None
    rising: bool
    banded: bool
    seen: list[Event] = field(default_factory=list)

    def take(self, event: Event) -> None:
        i, _, _, nodes = event
        if not self.spec.membered[i] or self.member.nodes[i] in nodes:
            self.seen.append(event)

    def rows(self, at: int) -> Counter[Row]:
        inputs = [
            [e[2] for e in self.seen if e[0] == i and e[1] <= at <= e[1] + size]
            for i, size in enumerate(self.member.sizes)
        ]
        found: Counter[Row] = Counter()
        for rows in product(*inputs):
            if self.joins(rows):
                values = [v for r in rows for v in r]
                found[tuple(v for c, v in enumerate(values) if "kx"[c % 2] in self.shown)] += 1
        return found

    def comes(self, at: int) -> Counter[Row]:
        return self.rows(at) - self.rows(at - 1)

    def changes(self, at: int) -> Counter[Row]:
        """What comes, less what goes."""
        found = self.rows(at)
        found.subtract(self.rows(at - 1))
        return found

    def joins(self, rows: tuple[Row, ...]) -> bool:
        if not belong(rows, self.spec.equalities, rising=self.rising):
            return False
        if self.constant is None:
            return True
        a, b = rows[0][1], rows[1][1]
        if a is None or b is None:
            return False
        return abs(a - b) <= -self.constant if self.banded else a + self.constant < b


def _residual(inputs: int, late: bool, rising: bool, banded: bool) -> Expression:
    parts: list[Expression] = []
    if rising:
        sides = (Ref(Source.INPUT, "0.k", BIGINT), Ref(Source.INPUT, f"{inputs - 1}.x", BIGINT))
        parts.append(Call("le", sides, BOOLEAN))
    if late:
        total = Call("add", (Ref(Source.INPUT, "0.x", BIGINT), Parameter(0, BIGINT)), BIGINT)
        other = Ref(Source.INPUT, "1.x", BIGINT)
        parts.append(Call("le" if banded else "lt", (total, other), BOOLEAN))
        if banded:
            least = Call("add", (other, Parameter(0, BIGINT)), BIGINT)
            parts.append(Call("ge", (Ref(Source.INPUT, "0.x", BIGINT), least), BOOLEAN))
    return conjunction(tuple(parts))


@dataclass(frozen=True)
class Case:
    spec: WindowJoinSpec
    members: list[Member]
    shown: str
    late: bool
    rising: bool
    banded: bool
    events: list[Event]
    splits: list[int]
    changes: list[str]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    inputs = draw(st.sampled_from([2, 2, 3]))
    membered = tuple(draw(st.lists(st.booleans(), min_size=inputs, max_size=inputs)))
    column = st.sampled_from("kkx")
    pairs = [(a, b) for a in range(inputs) for b in range(a + 1, inputs)]
    equalities = tuple(
        Equality(a, draw(column), b, draw(column), False, draw(st.booleans()))
        for a, b in draw(st.lists(st.sampled_from(pairs), max_size=2))
    )
    nodes = draw(st.sampled_from([1, 3, 70, 200] if inputs == 2 else [1, 3, 70]))
    node, size = st.integers(0, nodes - 1), st.sampled_from([0, 0, 1, 1, 2, 2, 3, 5, 50, -1])
    each = st.builds(
        Member, st.tuples(*[node] * inputs), st.tuples(*[size] * inputs), st.integers(-2, 0)
    )
    members = draw(st.lists(each, min_size=1, max_size=6))
    if nodes > 3:
        members += [
            Member((k,) * inputs, tuple((k * (i + 1)) % 5 for i in range(inputs)), -(k % 3))
            for k in range(nodes)
        ]
    late, rising, banded = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    value = st.sampled_from([0, 0, 0, 0, 1, 1, 2, None])
    some = st.lists(node, min_size=1, max_size=3, unique=True).map(tuple)
    most = st.tuples(st.just(0) | node, st.just(nodes)).map(lambda p: tuple(range(*p)))
    event = st.tuples(
        st.integers(0, inputs - 1),
        st.integers(0, 9),
        st.tuples(value, value),
        some if nodes == 1 else most | most | some,
    )
    events = draw(st.lists(event, min_size=inputs, max_size=7 * inputs))
    events = [(i, at, row, n if membered[i] else (0,)) for i, at, row, n in events]
    events.sort(key=lambda e: e[1])
    shown = draw(st.sampled_from(["kx", "kx", "k", ""]))
    members = list(
        dict.fromkeys(
            Member(
                tuple(n if membered[i] else 0 for i, n in enumerate(m.nodes)),
                m.sizes,
                m.constant if late else 0,
            )
            for m in members
        )
    )
    splits = draw(st.lists(st.integers(0, 12), max_size=3))
    changes = draw(st.lists(st.sampled_from(["restart", "dismiss", "admit", "again"]), max_size=4))
    spec = spec_of(inputs, equalities, _residual(inputs, late, rising, banded), membered, shown)
    return Case(spec, members, shown, late, rising, banded, events, splits, changes)


#: Two events of each input that differ in nothing but their times: what goes is equal to what comes.
EQUALS = Case(
    spec_of(2, (Equality(0, "k", 1, "k"),)),
    [Member((0, 0), (1, 3)), Member((0, 0), (2, 3))],
    "kx",
    False,
    False,
    False,
    [(0, 0, (0, 0), (0,)), (1, 0, (0, 0), (0,)), (0, 2, (0, 0), (0,)), (0, 3, (0, 0), (0,))],
    [],
    [],
)


#: The same with more equal events than are looked at one by one.
MANY_EQUALS = replace(
    EQUALS,
    members=[Member((0, 0), (k % 4, k)) for k in range(12)],
    events=[(i, at, (0, 0), (0,)) for at in range(12) for i in (0, 1) for _ in range(4)],
    splits=[5],
    changes=["restart"],
)


@settings(max_examples=150 if COMPILED else 20, deadline=None)
@given(cases(), st.sampled_from([join_rings.MASKS, 8]))
@example(EQUALS, 8)
@example(MANY_EQUALS, 8)
def test_what_comes_to_the_product_of_windows(case: Case, masks: int) -> None:
    with patch.object(join_rings, "MASKS", masks):
        check(case)


@settings(max_examples=50 if COMPILED else 10, deadline=None)
@given(cases(), st.sampled_from([join_rings.MASKS, 8]))
@example(MANY_EQUALS, 8)
def test_what_goes_is_told_to_whoever_must_know(case: Case, masks: int) -> None:
    netted = tuple(() for _ in case.spec.inputs)
    with patch.object(join_rings, "MASKS", masks):
        check(replace(case, spec=replace(case.spec, netted=netted, complete=True)))


def check(case: Case) -> None:
    spec, inputs = case.spec, len(case.spec.inputs)
    context, changes = Context(), list(case.changes)
    logic = WindowJoinLogic(spec, context)
    late = case.members[(len(case.members) + 1) // 2 :] if "admit" in changes else []
    members = case.members[: len(case.members) - len(late)]

    def model(member: Member) -> Model:
        constant = member.constant if case.late else None
        return Model(spec, member, case.shown, constant, case.rising, case.banded)

    models = {o: model(m) for o, m in zip(admit(logic, context, members), members, strict=True)}
    for start, end in pairwise(sorted({0, *case.splits, 13})):
        part = [e for e in case.events if start <= e[1] < end]
        batch = feed(logic, inputs, part, end)
        told = (changing if spec.complete else coming)(batch, 2 * inputs, case.shown)
        found = {k: v for k, v in told.items() if k[1] in models}
        for m in models.values():
            for event in part:
                m.take(event)
        if spec.complete:
            every = product(range(start, end), models.items())
            assert found == without_nothing({(at, o): m.changes(at) for at, (o, m) in every})
        else:
            instants = {e[1] for e in part}
            wanted = {(at, o): m.comes(at) for at in instants for o, m in models.items()}
            assert found == cleaned(wanted)
        change = changes.pop() if changes else None
        if change == "dismiss" and len(models) > 1:
            gone = np.array(list(models)[::2], np.int64)
            assert set(logic.dismiss(gone).tolist()) == set(gone.tolist())
            logic.nodes.retire(gone)
            models = {o: m for o, m in models.items() if o not in gone}
        elif change == "restart":
            state = {k: v.copy() for k, v in logic.snapshot().items()}
            logic, kept = WindowJoinLogic(spec, context), list(reversed(models.values()))
            outs = admit(logic, context, [m.member for m in kept])
            models = dict(zip(outs, kept, strict=True))
            logic.restore(state)
        elif change == "again":  # what is held is replaced, not added to
            logic.restore({k: v.copy() for k, v in logic.snapshot().items()})
        elif change == "admit" and late:
            # Of what came before them nothing is promised; the others must not notice.
            admit(logic, context, late)
            late = []
    batch = logic.on_batch([batch_of([]) for _ in range(inputs)], 100)
    assert logic.instances == 0
    if spec.complete:
        told = changing(batch, 2 * inputs, case.shown)
        every = product(range(13, 100), models.items())
        wanted = without_nothing({(at, o): m.changes(at) for at, (o, m) in every})
        assert {k: v for k, v in told.items() if k[1] in models} == wanted


def simple(members: list[Member], **options: Any) -> tuple[WindowJoinLogic, Context]:
    context = Context()
    logic = WindowJoinLogic(spec_of(2, (Equality(0, "k", 1, "k"),), **options), context)
    admit(logic, context, members)
    return logic, context


def test_an_event_is_held_once_for_all_sizes_and_leaves_once() -> None:
    everyone = tuple(range(1000))
    logic, _ = simple([Member((k, k), (k, 2 * k)) for k in everyone])
    feed(logic, 2, [(0, 1, (1, 5), everyone), (0, 2, (1, 6), (7,))], 3)
    assert logic.instances == 2
    batch = feed(logic, 2, [(1, 501, (1, 9), everyone)], 502)
    assert isinstance(batch.sets, BitSets)
    assert len(batch.rows) == len(batch) == 1
    spelled = batch.spelled().members
    assert spelled is not None
    assert sorted(spelled.tolist()) == list(range(500, 1000))
    assert logic.describe()["longest"] == [999, 1998]
    feed(logic, 2, [], 1001)  # the first two leave the longest window at 1001 and at 1002
    assert logic.instances == 3
    feed(logic, 2, [], 1002)
    assert logic.instances == 2
    feed(logic, 2, [], 2600)
    assert logic.instances == 0


def test_events_that_start_before_the_birth_are_not_seen() -> None:
    logic, _ = simple([Member((0, 0), (9, 9))], birth=5, membered=(False, False))
    assert len(feed(logic, 2, [(0, 4, (1, 1), (0,)), (1, 6, (1, 1), (0,))], 7)) == 0
    assert len(feed(logic, 2, [(0, 8, (1, 1), (0,))], 9)) == 1


def test_null_keys_are_not_held() -> None:
    logic, _ = simple([Member((0, 0), (9, 9))])
    feed(logic, 2, [(0, 1, (None, 1), (0,)), (1, 1, (None, 1), (0,))], 2)
    assert logic.instances == 0


def test_what_did_not_change_is_saved_where_it_was() -> None:
    logic, _ = simple([Member((0, 0), (100, 100))], membered=(False, True))
    feed(logic, 2, [(0, t, (t, t), (0,)) for t in range(40)], 40)
    before = logic.snapshot()["rows0"]
    feed(logic, 2, [(0, 120, (1, 1), (0,))], 121)
    after = logic.snapshot()["rows0"]
    assert before.shape == after.shape
    assert (before != after).any(axis=1).sum() < 25


def test_codes_of_strings_are_rewritten() -> None:
    shape = Shape(Schema.of([("k", STRING), ("x", BIGINT)]))
    logic, context = simple([Member((0, 0), (50, 50))], shape=shape)
    codes = context.values.strings.codes(pa.array([f"s{k}" for k in range(20)]))
    feed(logic, 2, [(0, 1, (int(codes[19]), 1), (0,)), (1, 1, (int(codes[7]), 1), (0,))], 2, shape)
    held = logic.held()
    assert held is not None
    first, second = held.layout.base, held.layout.base + 1
    known = [held.rows[(held.rows[:, 2] >> c) & 1 == 0, w] for c, w in ((0, first), (1, second))]
    mapping = context.values.strings.compact(known)
    assert mapping is not None
    held.rows[0, first] = mapping[held.rows[0, first]]
    held.rows[1, second] = mapping[held.rows[1, second]]
    logic.replace_held(held.rows)
    again = context.values.strings.codes(pa.array(["s19", "s7"]))
    assert len(feed(logic, 2, [(1, 2, (int(again[0]), 5), (0,))], 3, shape)) == 1
    assert len(feed(logic, 2, [(0, 3, (int(again[1]), 5), (0,))], 4, shape)) == 1


def test_memory_is_given_back() -> None:
    logic, _ = simple([Member((0, 0), (10, 10))])
    count = 20_000 if COMPILED else 9_000
    feed(logic, 2, [(0, 1, (k, k), (0,)) for k in range(count)], 2)
    full = logic.state_bytes
    feed(logic, 2, [(0, 50, (k, k), (0,)) for k in range(count)], 100)
    assert logic.instances == 0
    assert logic.state_bytes < full / 20


def test_only_what_is_in_its_own_window_counts_for_a_member() -> None:
    context = Context(instance_budget=3)
    spec = spec_of(2, (Equality(0, "k", 1, "k"),), membered=(False, True))
    logic = WindowJoinLogic(spec, context)
    members = [Member((0, 0), (2, 9)), Member((0, 0), (9, 9))]
    short, long = admit(logic, context, members)
    feed(logic, 2, [(0, t, (1, t), (0,)) for t in range(8)], 8)
    assert logic.stopped == {long: 3}
    assert logic.instances == 3
    state = {k: v.copy() for k, v in logic.snapshot().items()}
    again = WindowJoinLogic(spec, context)
    long, short = admit(again, context, members[::-1])
    again.restore(state)
    assert again.stopped == {long: 3}
    batch = feed(again, 2, [(1, 8, (1, 1), (0,))], 9).spelled()
    assert batch.members is not None
    assert batch.members.tolist() == [short, short]
