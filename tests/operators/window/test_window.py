"""Windows as deltas: what comes, what leaves and when, for many nodes and sizes, across batches,
restarts, and members that go."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.algebra.expressions import Parameter
from braid.algebra.schema import Schema
from braid.operators.core.base import Context
from braid.operators.core.batch import Batch
from braid.operators.core.columns import column_to_arrow, write_columns
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin, origin_of
from braid.operators.core.nodes import Nodes, signatures
from braid.operators.core.values import Values
from braid.operators.window.logic import WindowLogic
from braid.operators.window.spec import WindowRecipe, WindowSpec
from braid.plan.layout import END, START
from braid.plan.specs import Shape

ROOT = Path(__file__).parents[3]
LAST = 2**62
SCHEMA = Schema.of(
    [
        ("n", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("tags", pa.list_(pa.int8())),
    ]
)
SHAPE = Shape(SCHEMA)

#: end, (n, name, price, tags), input nodes
Event = tuple[int, tuple[Any, ...], tuple[int, ...]]
Net = dict[tuple[int, int], Counter[Any]]


def batch_of(events: Sequence[Event], values: Values, membered: bool) -> Batch:
    layout = SHAPE.layout
    rows = np.zeros((len(events), layout.width), np.int64)
    columns = list(zip(*(e[1] for e in events), strict=True)) or [[]] * len(SCHEMA)
    arrays = [pa.array(list(c), a.type) for c, a in zip(columns, SCHEMA, strict=True)]
    table = pa.RecordBatch.from_arrays(arrays, names=list(SCHEMA.names))
    write_columns(rows, table, layout, SCHEMA, values)
    rows[:, START] = rows[:, END] = [e[0] for e in events]
    if not membered:
        return Batch(rows)
    pairs = [(k, node) for k, e in enumerate(events) for node in e[2]]
    index = np.array([p[0] for p in pairs], np.int32)
    return Batch(rows, index, np.array([p[1] for p in pairs], np.int32))


def plain(value: Any) -> Any:
    """Values that Python compares as relations do."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return tuple(value) if isinstance(value, list) else value


def deltas(batch: Batch, shape: Shape, values: Values) -> Net:
    """By node and instant: how many copies of each row come and go."""
    assert bool((np.diff(batch.rows[:, END]) >= 0).all())
    assert batch.index is not None
    assert batch.members is not None
    assert bool((np.diff(batch.index) >= 0).all())
    pairs = list(zip(batch.index.tolist(), batch.members.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert set(batch.index.tolist()) == set(range(len(batch.rows)))
    columns = [
        column_to_arrow(batch.rows, shape.layout, a.name, a.type, values).to_pylist()
        for a in shape.schema
    ]
    found: Net = defaultdict(Counter)
    for row, node in pairs:
        assert batch.rows[row, START] == batch.rows[row, END]
        *key, weight = (column[row] for column in columns)
        assert weight != 0
        found[node, int(batch.rows[row, END])][tuple(map(plain, key))] += weight
    return found


def cleaned(net: Net) -> dict[Any, Any]:
    without = {key: {r: w for r, w in c.items() if w} for key, c in net.items()}
    return {key: c for key, c in without.items() if c}


def add(target: Net, more: Net) -> None:
    for key, counter in more.items():
        for row, weight in counter.items():
            target[key][row] += weight


def order_key(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, list):
        return (1, tuple(map(order_key, value)))
    return (1, value)


def modelled(
    spec: WindowSpec, events: Sequence[Event], node: int, size: int, bound: int
) -> dict[int, Counter[Any]]:
    """The deltas of one output node before a bound, from the definition."""
    own = [e for e in events if not spec.membered or node in e[2]]
    if spec.birth is not None:
        own = [e for e in own if e[0] >= spec.birth]
    found: dict[int, Counter[Any]] = defaultdict(Counter)
    if spec.kind != "rows":
        for end, row, _ in own:
            shown = tuple(map(plain, row))
            if size >= 0:
                found[end][shown] += 1
            leaves = end + (0 if spec.kind == "now" else size) + 1
            if size >= 0 and spec.kind != "unbounded" and leaves <= LAST and leaves < bound:
                found[leaves][shown] -= 1
        return found
    before: Counter[Any] = Counter()
    for instant in sorted({e[0] for e in own}):
        partitions: dict[Any, list[Event]] = defaultdict(list)
        for e in own:
            if e[0] <= instant:
                key = tuple(plain(e[1][SCHEMA.names.index(k)]) for k in spec.keys)
                partitions[key].append(e)
        now: Counter[Any] = Counter()
        for part in partitions.values():
            part.sort(
                key=lambda e: (e[0], [order_key(e[1][SCHEMA.names.index(o)]) for o in spec.order])
            )
            for e in part[-size:] if size > 0 else []:
                now[tuple(map(plain, e[1]))] += 1
        for row in now | before:
            found[instant][row] = now[row] - before[row]
        before = now
    return found


class Tried:
    """A window with members of input nodes and sizes."""

    def __init__(self, spec: WindowSpec, inputs: int) -> None:
        self.spec = spec
        self.context = Context()
        self.inputs = Nodes()
        wanted = signatures("in", inputs, [np.arange(inputs, dtype=np.int64)])
        self.numbers, _ = self.inputs.add(wanted)
        self.logic = WindowLogic(spec, self.context)

    def admit(self, members: Sequence[tuple[int, int]], logic: WindowLogic | None = None) -> Any:
        ids = pa.array([f"q{k}" for k in range(len(members))])
        sizes = pa.array([m[1] for m in members], pa.int64())
        constants = Constants(ids, [sizes], self.context.values)
        origin: Origin | None = None
        if self.spec.membered:
            nodes = np.array([m[0] for m in members], np.int64)
            origin = origin_of(self.inputs, self.numbers[nodes])
        sized = self.spec.kind in ("range", "rows")
        recipe = WindowRecipe(Parameter(0, pa.int64()) if sized else None)
        return (logic or self.logic).admit(recipe, constants, [origin]).numbers

    def restart(self, members: Sequence[tuple[int, int]]) -> Any:
        """A new logic whose nodes have other numbers."""
        state = {k: v.copy() for k, v in self.logic.snapshot().items()}
        self.logic = WindowLogic(self.spec, self.context)
        found = self.admit(list(reversed(members)))[::-1]
        self.logic.restore(state)
        return found

    def recode(self) -> None:
        """Every string gets another code."""
        held = self.logic.held()
        if held is None:
            return
        strings = self.context.values.strings
        word = held.layout.word("name")
        texts = strings.array(held.rows[:, word], None)
        pool = [f"!{k}" for k in range(7)] + sorted(
            set(strings.array(np.arange(strings.count), None).to_pylist()), reverse=True
        )
        strings.load(pa.array(pool, pa.string()))
        held.rows[:, word] = strings.codes(texts)
        self.logic.replace_held(held.rows)

    def run(self, events: Sequence[Event], bound: int) -> Net:
        batch = batch_of(events, self.context.values, self.spec.membered)
        out = self.logic.on_batch([batch], bound)
        return deltas(out, self.spec.output, self.context.values)


names = st.sampled_from([None, "", "a", "b", "ä", "Z", "aa"])
prices = st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, -math.inf, 3.0])
rows = st.tuples(
    st.one_of(st.none(), st.integers(0, 3)),
    names,
    prices,
    st.sampled_from([None, [], [1], [1, 2], [0, None]]),
)


@st.composite
def problems(draw: st.DrawFn) -> tuple[WindowSpec, int, list[tuple[int, int]], list[Any]]:
    kind = draw(st.sampled_from(["range", "rows", "rows", "now", "unbounded"]))
    membered = draw(st.booleans())
    inputs = draw(st.integers(1, 4)) if membered else 1
    keys = draw(st.sampled_from([(), ("name",), ("price",), ("name", "n")]))
    spec = WindowSpec(
        SHAPE,
        kind,
        keys if kind == "rows" else (),
        tuple(draw(st.permutations(SCHEMA.names))) if kind == "rows" else (),
        membered,
        draw(st.sampled_from([None, None, 2])),
    )
    sizes = {
        "range": st.sampled_from([-1, 0, 1, 2, 5, 9, 2**62 - 9, 2**62 - 3, 2**63 - 1]),
        "rows": st.sampled_from([1, 2, 3, 5, 10**9]),
    }.get(kind, st.just(0))
    members = draw(st.lists(st.tuples(st.integers(0, inputs - 1), sizes), min_size=1, max_size=8))
    gaps = draw(st.lists(st.integers(0, 3), max_size=25))
    end, steps = draw(st.sampled_from([0, -(2**62), 2**62 - 40])), []
    batches: list[Any] = [[]]
    for gap in gaps:
        if gap and draw(st.booleans()):
            batches.append([])
        end += gap
        nodes = draw(st.sets(st.integers(0, inputs - 1)))
        batches[-1].append((end, draw(rows), tuple(nodes)))
    for batch in batches:
        action = draw(st.sampled_from(["go on"] * 5 + ["restart", "recode", "idle", "dismiss"]))
        steps.append((batch, action))
    return spec, inputs, members, steps


def check(problem: tuple[WindowSpec, int, list[tuple[int, int]], list[Any]]) -> None:
    spec, inputs, members, steps = problem
    tried = Tried(spec, inputs)
    numbers = tried.admit(members)
    living = list(range(len(members)))
    found: dict[int, Net] = {k: defaultdict(Counter) for k in living}
    seen: list[Event] = []
    until = dict.fromkeys(living, 2**63 - 1)
    bound = -(2**62)

    def take(net: Net) -> None:
        for k in living:
            mine = {key: c for key, c in net.items() if key[0] == numbers[k]}
            add(found[k], {(k, key[1]): c for key, c in mine.items()})

    for place, (events, action) in enumerate(steps):
        later = [e[0] for batch, _ in steps[place + 1 :] for e in batch]
        bound = max([bound, *(e[0] + 1 for e in events)])
        take(tried.run(events, bound))
        seen += events
        if action == "idle":
            bound = min(later, default=bound + 3)
            take(tried.run([], bound))
        elif action == "restart":
            kept = tried.restart([members[k] for k in living])
            numbers = dict(zip(living, kept.tolist(), strict=True))
        elif action == "recode":
            tried.recode()
        elif action == "dismiss" and len(living) > 1:
            k = living.pop(len(living) // 2)
            until[k] = bound
            gone = tried.logic.dismiss(np.array([numbers[k]], np.int64))
            tried.logic.nodes.retire(gone)
    take(tried.run([], 2**62 + 1))
    for k, (node, size) in enumerate(members):
        expected = modelled(spec, seen, node, size, 2**63 - 1)
        nets = {(k, t): c for t, c in expected.items() if t < until[k]}
        assert cleaned(found[k]) == cleaned(nets), (k, members[k])
    if spec.kind in ("range", "now"):
        assert tried.logic.instances == 0
    for k in living:
        tried.logic.dismiss(np.array([numbers[k]], np.int64))
    assert tried.logic.instances == 0


@given(problems())
def test_every_window_holds_what_its_definition_says(problem: Any) -> None:
    check(problem)


def events_at(*ends: int, nodes: tuple[int, ...] = (0,)) -> list[Event]:
    return [(end, (end, "a", 1.0, None), nodes) for end in ends]


def times(net: Net, weight: int) -> list[int]:
    return sorted(t for (_, t), c in net.items() for w in c.values() if w == weight)


def test_a_row_is_kept_once_and_until_the_longest_window_over_it_is_over() -> None:
    tried = Tried(WindowSpec(SHAPE, "range", membered=True), 3)
    tried.admit([(0, 5), (0, 9), (1, 5), (1, 9), (2, 100)])
    tried.run(events_at(1, nodes=(0, 1)), 2)
    tried.run(events_at(2, nodes=(0, 2)), 3)
    assert tried.logic.instances == 2
    left = tried.run([], 12)
    assert times(left, -1) == [7, 7, 8, 11, 11]
    assert tried.logic.instances == 1  # the first is over, the second has a window of 100
    assert times(tried.run([], 103), -1) == [12]
    assert times(tried.run([], 104), -1) == [103]
    assert tried.logic.instances == 0


def test_members_of_one_size_share_the_rows_that_leave() -> None:
    tried = Tried(WindowSpec(SHAPE, "range", membered=True), 4)
    tried.admit([(0, 5), (1, 5), (2, 5), (2, 7), (3, 7)])
    batch = batch_of(events_at(1, nodes=(0, 1, 2, 3)), tried.context.values, True)
    out = tried.logic.on_batch([batch], 20)
    assert out.rows[:, END].tolist() == [1, 7, 9]
    assert np.bincount(out.index).tolist() == [5, 3, 2]


def test_a_member_that_comes_later_sees_what_comes_later() -> None:
    tried = Tried(WindowSpec(SHAPE, "range"), 1)
    tried.admit([(0, 5)])
    tried.run(events_at(1), 2)
    (late,) = tried.admit([(0, 7)])
    net = tried.run(events_at(3), 100)
    assert sorted(t for node, t in net if node == late) == [3, 11]
    assert times(net, -1) == [7, 9, 11]
    tried = Tried(WindowSpec(SHAPE, "rows", order=SCHEMA.names), 1)
    tried.admit([(0, 1)])
    tried.run(events_at(1), 2)
    (late,) = tried.admit([(0, 2)])
    net = tried.run(events_at(3, 4, 5), 100)
    assert {t: sorted(c.values()) for (n, t), c in net.items() if n == late} == {
        3: [1],
        4: [1],
        5: [-1, 1],
    }


@pytest.mark.parametrize("kind", ["now", "unbounded"])
def test_windows_without_a_size(kind: str) -> None:
    tried = Tried(WindowSpec(SHAPE, kind), 1)
    tried.admit([(0, 0), (0, 0)])
    net = tried.run(events_at(1, 4, 5), 6)
    assert times(net, 1) == [1, 4, 5] if kind == "unbounded" else times(net, 1)[0] == 1
    assert tried.logic.instances == (1 if kind == "now" else 0)
    assert tried.logic.nodes.count == 1


def test_memory_is_given_back_after_a_burst() -> None:
    for spec, size in (
        (WindowSpec(SHAPE, "range"), 10),
        (WindowSpec(SHAPE, "rows", ("n",), SCHEMA.names), 1),
    ):
        tried = Tried(spec, 1)
        tried.admit([(0, size)])
        ends = range(20_000)
        before: Net = defaultdict(Counter)
        values = [(end, (end if size > 1 else 1, "a", 1.0, None), (0,)) for end in ends]
        add(before, tried.run(values, 20_000))
        big = tried.logic.state_bytes
        more = [(end, (1, "a", 1.0, None), (0,)) for end in range(20_000, 20_020)]
        add(before, tried.run(more, 20_020))
        add(before, tried.run([], 30_000))
        assert tried.logic.state_bytes < max(big, 200_000)
        total = sum(w for c in before.values() for w in c.values())
        assert total == tried.logic.instances == (0 if size > 1 else 1)


def test_with_the_compiler_off() -> None:
    lane = f"{Path(__file__).relative_to(ROOT)}::test_every_window_holds_what_its_definition_says"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "HYPOTHESIS_PROFILE": "few"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", lane]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
