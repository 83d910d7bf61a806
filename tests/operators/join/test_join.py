"""Joins against the product of their inputs, written down."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.algebra.expressions import (
    TRUE,
    Call,
    Expression,
    Literal,
    Parameter,
    Ref,
    Source,
    conjunction,
)
from braid.algebra.schema import Schema
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING
from braid.jit.runtime import COMPILED, float_word
from braid.operators.core.base import Context
from braid.operators.core.batch import Batch
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin
from braid.operators.core.nodes import signatures
from braid.operators.join.logic import JoinLogic
from braid.operators.join.spec import Equality, JoinRecipe, JoinSpec
from braid.plan.deltas import with_weight
from braid.plan.layout import END, START
from tests.operators.join.join_model import belong

#: A delta: input, instant, row, weight, nodes of the input that get it.
Delta = tuple[int, int, tuple[Any, ...], int, tuple[int, ...]]

SHAPE = with_weight(Schema.of([("k", BIGINT), ("x", BIGINT)]))


def spec_of(
    inputs: int,
    equalities: tuple[Equality, ...],
    residual: Expression = TRUE,
    membered: bool | tuple[bool, ...] = True,
    shape: Any = SHAPE,
) -> JoinSpec:
    names = shape.schema.names[:-1]
    emit = tuple((f"{n}{i}", i, n) for i in range(inputs) for n in names)
    if isinstance(membered, bool):
        membered = (membered,) * inputs
    return JoinSpec((shape,) * inputs, equalities, residual, emit, membered)


def origin(numbers: list[int]) -> Origin:
    """Input nodes with these numbers; what they are depends on nothing else."""
    words = np.array(numbers, np.int64)
    return Origin(words, signatures("test", len(words), [words]))


def admit(
    logic: JoinLogic,
    context: Context,
    combinations: list[tuple[int, ...]],
    constants: list[int] | None = None,
) -> list[int]:
    """Members with these nodes of each input; their output nodes."""
    count = len(combinations)
    ids = pa.array([f"q{k}" for k in range(count)])
    columns = [] if constants is None else [pa.array(constants, BIGINT)]
    recipe = JoinRecipe(() if constants is None else (Parameter(0, BIGINT),))
    origins = [origin([c[i] for c in combinations]) for i in range(len(combinations[0]))]
    found = logic.admit(recipe, Constants(ids, columns, context.values), origins)
    return [int(n) for n in found.numbers]


def batch_of(deltas: list[Delta], shape: Any = SHAPE) -> Batch:
    layout = shape.layout
    rows = np.zeros((len(deltas), layout.width), np.int64)
    index, members = [], []
    for number, (_, at, values, weight, nodes) in enumerate(deltas):
        rows[number, START] = rows[number, END] = at
        for column, value in enumerate((*values, weight)):
            if value is None:
                rows[number, 2] |= 1 << column
                rows[number, layout.base + column] = 77 + number  # no word counts under a NULL
            elif isinstance(value, float):
                rows[number, layout.base + column] = float_word(value)
            else:
                rows[number, layout.base + column] = value
        index += [number] * len(nodes)
        members += list(nodes)
    return Batch(rows, np.array(index, np.int32), np.array(members, np.int32))


def feed(logic: JoinLogic, inputs: int, deltas: list[Delta], shape: Any = SHAPE) -> Batch:
    bound = 1 + max((d[1] for d in deltas), default=0)
    parts = [batch_of([d for d in deltas if d[0] == i], shape) for i in range(inputs)]
    return logic.on_batch(parts, bound)


Sums = dict[tuple[int, int], Counter[tuple[Any, ...]]]


def collect(sums: Sums, batch: Batch, width: int) -> None:
    """Add the deltas of a batch to sums by instant and output node."""
    base = batch.rows.shape[1] - width - 1
    assert (np.diff(batch.rows[:, END]) >= 0).all()
    assert (batch.rows[:, START] == batch.rows[:, END]).all()
    assert (batch.rows[:, -1] != 0).all()
    if batch.index is None or batch.members is None:
        pairs = [(k, 0) for k in range(len(batch.rows))]
    else:
        assert (np.diff(batch.index) >= 0).all()
        pairs = list(zip(batch.index.tolist(), batch.members.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    for number, node in pairs:
        row = batch.rows[number]
        values = tuple(None if (int(row[2]) >> c) & 1 else int(row[base + c]) for c in range(width))
        sums.setdefault((int(row[END]), node), Counter())[values] += int(row[-1])


def cleaned(sums: Sums) -> Sums:
    kept = {k: Counter({r: n for r, n in v.items() if n}) for k, v in sums.items()}
    return {k: v for k, v in kept.items() if v}


@dataclass
class Model:
    """Each member by itself: what its inputs hold, and the product of that."""

    equalities: tuple[Equality, ...]
    combination: tuple[int, ...]
    least: int | None = None
    rising: bool = False

    def __post_init__(self) -> None:
        self.inputs: list[Counter[tuple[Any, ...]]] = [Counter() for _ in self.combination]
        self.before: Counter[tuple[Any, ...]] = Counter()

    def take(self, delta: Delta) -> None:
        i, _, row, weight, nodes = delta
        if self.combination[i] in nodes:
            self.inputs[i][row] += weight

    def change(self) -> Counter[tuple[Any, ...]]:
        now: Counter[tuple[Any, ...]] = Counter()
        for rows in product(*(list(c) for c in self.inputs)):
            weight = int(np.prod([c[r] for c, r in zip(self.inputs, rows, strict=True)]))
            if weight and self.joins(rows):
                now[tuple(v for r in rows for v in r)] += weight
        change = Counter(now)
        change.subtract(self.before)
        self.before = now
        return Counter({r: n for r, n in change.items() if n})

    def joins(self, rows: tuple[tuple[Any, ...], ...]) -> bool:
        if not belong(rows, self.equalities, rising=self.rising):
            return False
        if self.least is None:
            return True
        a, b = rows[0][1], rows[1][1]
        return a is not None and b is not None and a + self.least < b


def expected(models: dict[int, Model], deltas: list[Delta], sums: Sums) -> None:
    for at in sorted({d[1] for d in deltas}):
        for node, model in models.items():
            for delta in deltas:
                if delta[1] == at:
                    model.take(delta)
            sums[at, node] = model.change()


LEAST = Call(
    "lt",
    (
        Call(
            "add",
            (Ref(Source.INPUT, "0.x", BIGINT), Parameter(0, BIGINT)),
            BIGINT,
        ),
        Ref(Source.INPUT, "1.x", BIGINT),
    ),
    BOOLEAN,
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, ...]:
    inputs = draw(st.integers(2, 4))
    membered = tuple(draw(st.lists(st.sampled_from([True, True, False]), min_size=4, max_size=4)))
    columns = st.sampled_from("kkx")
    pairs = [(a, b) for a in range(inputs) for b in range(a + 1, inputs)]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=3))
    equalities = tuple(
        Equality(a, draw(columns), b, draw(columns), False, draw(st.booleans())) for a, b in chosen
    )
    nodes = draw(st.sampled_from([1, 3, 70, 200] if inputs == 2 else [1, 3, 70]))
    node = st.integers(0, nodes - 1)
    combinations = draw(st.lists(st.tuples(*[node] * inputs), min_size=1, max_size=8))
    # Members by the hundred, in step: sets of bits, and lists.
    if nodes > 3:
        combinations += [(k,) * inputs for k in range(nodes)]
    combinations = list(
        dict.fromkeys(tuple(n if membered[i] else 0 for i, n in enumerate(c)) for c in combinations)
    )
    constants = draw(st.none() | st.lists(st.integers(-2, 0), min_size=1, max_size=3))
    value = st.sampled_from([0, 0, 0, 0, 1, 1, 1, 2, None])
    some = st.lists(node, min_size=1, max_size=4, unique=True).map(tuple)
    most = st.tuples(st.just(0) | node, st.just(nodes)).map(lambda p: tuple(range(*p)))
    delta = st.tuples(
        st.integers(0, inputs - 1),
        st.integers(0, 5),
        st.tuples(value, value),
        st.sampled_from([1, 1, 1, -1, 2]),
        some if nodes == 1 else most | most | some,
    )
    deltas = [
        (i, at, row, weight, nodes if membered[i] else (0,))
        for i, at, row, weight, nodes in draw(st.lists(delta, min_size=inputs, max_size=7 * inputs))
    ]
    deltas.sort(key=lambda d: d[1])
    splits = draw(st.lists(st.integers(0, 6), max_size=3))
    events = draw(st.lists(st.sampled_from(["restart", "dismiss", "admit"]), max_size=4))
    rising = draw(st.booleans())
    spec = spec_of(inputs, equalities, _residual(inputs, constants, rising), membered[:inputs])
    return spec, combinations, constants, rising, deltas, splits, events


def _residual(inputs: int, constants: list[int] | None, rising: bool) -> Expression:
    """The constants of members are asked late, the rest as soon as the inputs are bound."""
    sides = (Ref(Source.INPUT, "0.k", BIGINT), Ref(Source.INPUT, f"{inputs - 1}.x", BIGINT))
    parts: list[Expression] = [Call("le", sides, BOOLEAN)] if rising else []
    parts += [LEAST] if constants is not None else []
    return conjunction(tuple(parts))


@settings(max_examples=150 if COMPILED else 20, deadline=None)
@given(cases())
def test_a_join_is_the_product_of_its_inputs(case: tuple[Any, ...]) -> None:
    spec, combinations, constants, rising, deltas, splits, events = case
    inputs, equalities = len(spec.inputs), spec.equalities
    context = Context()
    logic = JoinLogic(spec, context)
    members: list[tuple[tuple[int, ...], int | None]] = [
        (c, None if constants is None else constants[k % len(constants)])
        for k, c in enumerate(combinations)
    ]
    late = members[(len(members) + 1) // 2 :] if "admit" in events else []
    members = members[: len(members) - len(late)]

    def take_on(logic: JoinLogic, new: list[Any]) -> list[int]:
        asked = None if constants is None else [m[1] for m in new]
        return admit(logic, context, [m[0] for m in new], asked)

    outs = take_on(logic, members)
    models = {o: Model(equalities, c, k, rising) for o, (c, k) in zip(outs, members, strict=True)}
    lives = dict(zip(outs, members, strict=True))
    found: Sums = {}
    wanted: Sums = {}
    edges = sorted({0, *splits, 7})
    for start, end in pairwise(edges):
        part = [d for d in deltas if start <= d[1] < end]
        collect(found, feed(logic, inputs, part), 2 * inputs)
        expected(models, part, wanted)
        assert cleaned(found) == cleaned(wanted)
        event = events.pop() if events else None
        if event == "dismiss" and len(lives) > 1:
            gone = list(lives)[::2]
            assert set(logic.dismiss(np.array(gone, np.int64)).tolist()) == set(gone)
            logic.nodes.retire(np.array(gone, np.int64))
            for out in gone:
                del lives[out], models[out]
            found, wanted = {}, {}
        elif event == "restart":
            state = {k: v.copy() for k, v in logic.snapshot().items()}
            rows, order = logic.instances, list(reversed(lives))
            logic = JoinLogic(spec, context)
            outs = take_on(logic, [lives[o] for o in order])
            models = {new: models[old] for new, old in zip(outs, order, strict=True)}
            lives = {new: lives[old] for new, old in zip(outs, order, strict=True)}
            logic.restore(state)
            assert logic.instances == rows
            found, wanted = {}, {}
        elif event == "admit" and late:
            # A new member finds what its input nodes hold, if another member uses them.
            held = {i: {c[i] for c, _ in lives.values()} for i in range(inputs)}
            new = [m for m in late if all(m[0][i] in held[i] for i in range(inputs))]
            late = []
            for out, (combination, constant) in zip(
                take_on(logic, new) if new else [], new, strict=True
            ):
                model = Model(equalities, combination, constant, rising)
                for i in range(inputs):
                    like = next(m for m in models.values() if m.combination[i] == combination[i])
                    model.inputs[i] = Counter(like.inputs[i])
                model.change()
                models[out], lives[out] = model, (combination, constant)
    logic.dismiss(np.array(list(lives), np.int64))
    assert logic.instances == 0


def simple(membered: bool = False, **options: Any) -> tuple[JoinLogic, Context]:
    context = Context()
    equalities = (Equality(0, "k", 1, "k"),)
    logic = JoinLogic(spec_of(2, equalities, membered=membered, **options), context)
    admit(logic, context, [(0, 0)])
    return logic, context


def test_rows_come_and_go() -> None:
    logic, _ = simple()
    found: Sums = {}
    deltas: list[Delta] = [
        (0, 1, (7, 1), 1, (0,)),
        (1, 2, (7, 2), 2, (0,)),
        (1, 2, (8, 2), 1, (0,)),
        (0, 3, (7, 1), 1, (0,)),
        (1, 4, (7, 2), -1, (0,)),
    ]
    batch = feed(logic, 2, deltas)
    assert batch.index is None
    collect(found, batch, 4)
    row = (7, 1, 7, 2)
    assert cleaned(found) == {(2, 0): {row: 2}, (3, 0): {row: 2}, (4, 0): {row: -2}}
    assert logic.instances == 3
    assert logic.state_bytes > 0
    described = logic.describe()
    assert described["orders"] == [[1], [0]]
    assert [i["rows"] for i in described["inputs"]] == [1, 2]
    assert described["probes"][0]["keys"] == ["k"]


def test_null_keys_are_not_held() -> None:
    logic, _ = simple()
    feed(logic, 2, [(0, 1, (None, 1), 1, (0,)), (1, 1, (None, 1), 1, (0,))])
    assert logic.instances == 0


def test_a_row_is_held_once_for_all_nodes() -> None:
    context = Context()
    logic = JoinLogic(spec_of(2, (Equality(0, "k", 1, "k"),)), context)
    admit(logic, context, [(k, k) for k in range(1000)])
    everyone = tuple(range(1000))
    feed(logic, 2, [(0, 1, (1, 1), 1, everyone), (0, 1, (2, 1), 1, (5,))])
    assert logic.instances == 2
    batch = feed(logic, 2, [(1, 2, (1, 9), 1, everyone), (1, 2, (2, 9), 1, everyone)])
    assert len(batch.rows) == 2
    assert len(batch) == 1001
    assert feed(logic, 2, [(0, 3, (1, 1), -1, tuple(range(1, 1000)))]).members is not None
    batch = feed(logic, 2, [(1, 4, (1, 9), -1, everyone)])
    assert batch.members is not None
    assert batch.members.tolist() == [0]


def test_floats_that_are_equal_join() -> None:
    shape = with_weight(Schema.of([("k", DOUBLE), ("x", BIGINT)]))
    context = Context()
    spec = spec_of(2, (Equality(0, "k", 1, "k", True),), membered=False, shape=shape)
    logic = JoinLogic(spec, context)
    admit(logic, context, [(0, 0)])
    deltas: list[Delta] = [
        (0, 1, (0.0, 1), 1, (0,)),
        (0, 1, (float("nan"), 1), 1, (0,)),
        (1, 2, (-0.0, 2), 1, (0,)),
        (1, 2, (float("nan"), 2), 1, (0,)),
    ]
    assert len(feed(logic, 2, deltas, shape)) == 2
    feed(logic, 2, [(0, 3, (-0.0, 1), -1, (0,))], shape)
    assert logic.instances == 3


def test_a_residual_without_constants_is_asked_once_its_inputs_are_bound() -> None:
    def ref(name: str) -> Ref:
        return Ref(Source.INPUT, name, BIGINT)

    five = Literal(5, BIGINT)
    parts = (
        Call("lt", (ref("0.x"), ref("2.x")), BOOLEAN),
        Call("ge", (Call("add", (ref("0.x"), ref("1.x")), BIGINT), five), BOOLEAN),
    )
    context = Context()
    residual = Call("and", parts, BOOLEAN)
    logic = JoinLogic(spec_of(3, (Equality(0, "k", 1, "k"),), residual, membered=False), context)
    admit(logic, context, [(0, 0, 0)])
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 6, (60, 2))
    deltas: list[Delta] = [(n % 3, n, (int(k), int(x)), 1, (0,)) for n, (k, x) in enumerate(rows)]
    found: Sums = {}
    collect(found, feed(logic, 3, deltas), 6)
    held: list[list[tuple[Any, ...]]] = [[d[2] for d in deltas if d[0] == i] for i in range(3)]
    wanted = Counter(
        (*a, *b, *c)
        for a, b, c in product(*held)
        if a[0] == b[0] and a[1] < c[1] and a[1] + b[1] >= 5
    )
    total: Counter[tuple[Any, ...]] = Counter()
    for part in found.values():
        total.update(part)
    assert total == wanted


def test_codes_of_strings_are_rewritten() -> None:
    shape = with_weight(Schema.of([("k", STRING), ("x", BIGINT)]))
    context = Context()
    spec = spec_of(2, (Equality(0, "k", 1, "k"),), membered=False, shape=shape)
    logic = JoinLogic(spec, context)
    admit(logic, context, [(0, 0)])
    codes = context.values.strings.codes(pa.array([f"s{k}" for k in range(20)]))
    feed(
        logic, 2, [(0, 1, (int(codes[19]), 1), 1, (0,)), (1, 1, (int(codes[7]), 1), 1, (0,))], shape
    )
    held = logic.held()
    assert held is not None
    assert held.layout.names == ("0.k", "1.k")
    first, second = held.layout.base, held.layout.base + 1
    known = [held.rows[(held.rows[:, 2] >> c) & 1 == 0, w] for c, w in ((0, first), (1, second))]
    mapping = context.values.strings.compact(known)
    assert mapping is not None
    held.rows[0, first] = mapping[held.rows[0, first]]
    held.rows[1, second] = mapping[held.rows[1, second]]
    logic.replace_held(held.rows)
    again = context.values.strings.codes(pa.array(["s19", "s7"]))
    assert len(feed(logic, 2, [(1, 2, (int(again[0]), 5), 1, (0,))], shape)) == 1
    assert len(feed(logic, 2, [(0, 3, (int(again[1]), 5), 1, (0,))], shape)) == 1


def test_orders_follow_what_is_measured() -> None:
    """Probing the input that finds little comes first, whichever it is."""
    equalities = (Equality(0, "k", 1, "k"), Equality(0, "k", 2, "k"))
    context = Context()
    logic = JoinLogic(spec_of(3, equalities, membered=False), context)
    admit(logic, context, [(0, 0, 0)])
    many: list[Delta] = [(1, 0, (k % 40, k), 1, (0,)) for k in range(2000)]
    few: list[Delta] = [(2, 0, (1000 + k, k), 1, (0,)) for k in range(2000)]
    feed(logic, 3, many + few)
    at = 1
    for _ in range(12):
        feed(logic, 3, [(0, at, (k % 40, k), w, (0,)) for k in range(2000) for w in (1, -1)])
        at += 1
    assert logic.describe()["orders"][0] == [2, 1]
    assert logic.instances == 4000


def test_memory_is_given_back() -> None:
    logic, _ = simple()
    rows = [(k, k) for k in range(20_000 if COMPILED else 9_000)]
    feed(logic, 2, [(0, 1, row, 1, (0,)) for row in rows])
    full = logic.state_bytes
    feed(logic, 2, [(0, 2, row, -1, (0,)) for row in rows])
    assert logic.instances == 0
    assert logic.state_bytes < full / 20


def test_a_node_that_holds_too_much_gives_up() -> None:
    context = Context(instance_budget=3)
    spec = spec_of(2, (Equality(0, "k", 1, "k"),))
    logic = JoinLogic(spec, context)
    outs = admit(logic, context, [(0, 0), (1, 0)])
    deltas: list[Delta] = [(0, t, (t, t), 1, (0, 1) if t < 4 else (0,)) for t in range(1, 6)]
    feed(logic, 2, deltas)
    assert logic.stopped == {outs[0]: 4}
    assert logic.instances == 3
    last = feed(logic, 2, [(1, 7, (2, 2), 1, (0,))])  # a fourth row
    assert last.members is not None
    assert last.members.tolist() == [outs[1]]
    assert logic.stopped == {outs[0]: 4, outs[1]: 7}
    assert logic.instances == 0
    state = {k: v.copy() for k, v in logic.snapshot().items()}
    again = JoinLogic(spec, context)
    outs = admit(again, context, [(1, 0), (0, 0)])
    again.restore(state)
    assert again.stopped == {outs[0]: 7, outs[1]: 4}
    assert not len(feed(again, 2, [(0, 8, (9, 9), 1, (0, 1)), (1, 8, (9, 9), 1, (0,))]))
    assert set(again.dismiss(np.array(outs)).tolist()) == set(outs)
    assert not again.stopped
    larger = JoinLogic(spec, Context(instance_budget=4))
    admit(larger, context, [(1, 0), (0, 0)])
    larger.restore(state)
    assert not larger.stopped
