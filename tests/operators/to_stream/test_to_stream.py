"""Streams of relations: net weights of equal rows, what comes, what goes, and all that is there."""

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

from braid.algebra.schema import Schema
from braid.operators.core.base import Context
from braid.operators.core.batch import Batch
from braid.operators.core.columns import column_to_arrow, write_columns
from braid.operators.core.constants import Constants
from braid.operators.core.membership import origin_of
from braid.operators.core.nodes import Nodes, signatures
from braid.operators.core.values import Values
from braid.operators.to_stream.logic import ToStreamLogic, consolidated
from braid.operators.to_stream.spec import ToStreamSpec
from braid.plan.deltas import with_weight
from braid.plan.layout import END, START
from braid.plan.specs import Shape

ROOT = Path(__file__).parents[3]
SCHEMA = Schema.of([("name", pa.string()), ("price", pa.float64()), ("tags", pa.list_(pa.int8()))])
DELTAS = with_weight(SCHEMA)
STREAM = Shape(Schema.of([("x", pa.int64())]))

#: instant, row, weight of each node
Delta = tuple[int, tuple[Any, ...], dict[int, int]]


def batch_of(
    deltas: Sequence[tuple[int, Any, int, Sequence[int]]], values: Values, membered: bool
) -> Batch:
    """Rows of instant, values, weight, nodes."""
    layout = DELTAS.layout
    rows = np.zeros((len(deltas), layout.width), np.int64)
    columns = list(zip(*((*d[1], d[2]) for d in deltas), strict=True)) or [[]] * 4
    arrays = [pa.array(list(c), a.type) for c, a in zip(columns, DELTAS.schema, strict=True)]
    names = list(DELTAS.schema.names)
    write_columns(
        rows, pa.RecordBatch.from_arrays(arrays, names=names), layout, DELTAS.schema, values
    )
    rows[:, START] = rows[:, END] = [d[0] for d in deltas]
    if not membered:
        return Batch(rows)
    pairs = [(k, node) for k, d in enumerate(deltas) for node in d[3]]
    index = np.array([p[0] for p in pairs], np.int32)
    return Batch(rows, index, np.array([p[1] for p in pairs], np.int32))


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return tuple(value) if isinstance(value, list) else value


def shown(batch: Batch, shape: Shape, values: Values) -> list[tuple[int, int, Any]]:
    """(node, instant, values) of each pair."""
    assert bool((np.diff(batch.rows[:, END]) >= 0).all())
    columns = [
        column_to_arrow(batch.rows, shape.layout, a.name, a.type, values).to_pylist()
        for a in shape.schema
    ]
    index, members = batch.index, batch.members
    if index is None or members is None:
        index, members = np.arange(len(batch.rows)), np.zeros(len(batch.rows), np.int64)
    assert bool((np.diff(index) >= 0).all())
    pairs = list(zip(index.tolist(), members.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert bool((batch.rows[:, START] == batch.rows[:, END]).all())
    return [
        (node, int(batch.rows[row, END]), tuple(plain(c[row]) for c in columns))
        for row, node in pairs
    ]


rows = st.tuples(
    st.sampled_from([None, "", "a"]),
    st.sampled_from([None, 0.0, -0.0, math.nan, 1.0]),
    st.sampled_from([None, [], [1]]),
)


@st.composite
def random_deltas(draw: st.DrawFn, nodes: int) -> list[tuple[int, Any, int, list[int]]]:
    deltas, instant = [], 0
    for _ in range(draw(st.integers(0, 30))):
        instant += draw(st.sampled_from([0, 0, 0, 1]))
        weight = draw(st.sampled_from([1, -1, 2, -3]))
        whose = sorted(draw(st.sets(st.integers(0, nodes - 1), max_size=nodes)))
        deltas.append((instant, draw(rows), weight, whose))
    return deltas


@given(st.data(), st.booleans(), st.sampled_from([1, 3, 60]))
def test_consolidated_deltas_have_the_same_sums(data: Any, membered: bool, nodes: int) -> None:
    values = Values()
    deltas = data.draw(random_deltas(nodes))
    batch = batch_of(deltas, values, membered)
    expected: Counter[Any] = Counter()
    for instant, row, weight, whose in deltas:
        for node in whose if membered else [0]:
            expected[node, instant, tuple(map(plain, row))] += weight
    found: Counter[Any] = Counter()
    result = shown(consolidated(batch, DELTAS, values), DELTAS, values)
    for node, instant, (*row, weight) in result:
        found[node, instant, tuple(row)] += weight
        assert weight != 0
    assert found == Counter({k: w for k, w in expected.items() if w})
    if len(deltas) > 1:
        assert len(found) == len(result)


class Tried:
    def __init__(self, spec: ToStreamSpec, inputs: int) -> None:
        self.spec, self.context = spec, Context()
        self.inputs = Nodes()
        wanted = signatures("in", inputs, [np.arange(inputs, dtype=np.int64)])
        self.numbers, _ = self.inputs.add(wanted)
        self.logic = ToStreamLogic(spec, self.context)

    def admit(self, members: Sequence[tuple[int, ...]]) -> Any:
        ids = pa.array([f"q{k}" for k in range(len(members))])
        constants = Constants(ids, [], self.context.values)
        origins = [
            origin_of(self.inputs, self.numbers[[m[k] for m in members]]) if membered else None
            for k, membered in enumerate(self.spec.membered)
        ]
        return self.logic.admit(None, constants, origins).numbers

    def restart(self, members: Sequence[tuple[int, ...]]) -> Any:
        state = {k: v.copy() for k, v in self.logic.snapshot().items()}
        self.logic = ToStreamLogic(self.spec, self.context)
        found = self.admit(list(reversed(members)))[::-1]
        self.logic.restore(state)
        return found

    def recode(self) -> None:
        held = self.logic.held()
        if held is None:
            return
        strings, word = self.context.values.strings, held.layout.word("name")
        texts = strings.array(held.rows[:, word], None)
        strings.load(pa.array(["!", "?", "a", ""], pa.string()))
        held.rows[:, word] = strings.codes(texts)
        self.logic.replace_held(held.rows)

    def streamed(self, speaking: Sequence[tuple[int, Sequence[int]]], membered: bool) -> Batch:
        """A stream with an event at each of these instants, for these nodes."""
        events = np.zeros((len(speaking), STREAM.layout.width), np.int64)
        events[:, END] = [s[0] for s in speaking]
        if not membered:
            return Batch(events)
        pairs = [(k, node) for k, s in enumerate(speaking) for node in s[1]]
        index = np.array([p[0] for p in pairs], np.int32)
        return Batch(events, index, np.array([p[1] for p in pairs], np.int32))


@st.composite
def histories(draw: st.DrawFn) -> Any:
    """Deltas of which no relation has fewer copies of a row than none, at the end of an instant."""
    nodes = draw(st.integers(1, 4))
    present: dict[int, list[Any]] = {node: [] for node in range(nodes)}
    batches: list[Any] = []
    instant = 0
    for _ in range(draw(st.integers(1, 6))):
        deltas: list[Any] = []
        for _ in range(draw(st.integers(0, 3))):
            instant += 1
            now: list[Any] = []
            for _ in range(draw(st.integers(0, 4))):
                row = draw(rows)
                whose = sorted(draw(st.sets(st.integers(0, nodes - 1), min_size=1)))
                copies = draw(st.integers(1, 3))
                now.append((instant, row, copies, whose))
                for node in whose:
                    present[node] += [row] * copies
            for node in range(nodes):
                for _ in range(draw(st.integers(0, 3))):
                    if present[node]:
                        row = present[node].pop(draw(st.integers(0, len(present[node]) - 1)))
                        now.insert(draw(st.integers(0, len(now))), (instant, row, -1, [node]))
            deltas += now
        speaking = [
            [
                (t, sorted(draw(st.sets(st.integers(0, nodes - 1)))))
                for t in sorted(draw(st.lists(st.integers(instant - 3, instant), max_size=4)))
                if t > (batches[-1][3] if batches else -1)
            ]
            for _ in range(2)
        ]
        action = draw(st.sampled_from(["go on"] * 4 + ["restart", "recode", "dismiss"]))
        batches.append((deltas, speaking, action, instant))
    return nodes, batches


@given(
    histories(),
    st.sampled_from(["Istream", "Dstream", "Rstream", "Rstream"]),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_streams_of_relations(
    history: Any, kind: str, membered: bool, listening: bool, data: Any
) -> None:
    nodes, batches = history
    nodes = nodes if membered else 1
    rstream = kind == "Rstream"
    spec = ToStreamSpec(
        DELTAS,
        kind,
        (STREAM, STREAM) if rstream else (),
        (membered, listening, False) if rstream else (membered,),
    )
    tried = Tried(spec, 4)
    which = st.tuples(st.integers(0, nodes - 1), st.integers(0, 3), st.just(0))
    members = data.draw(st.lists(which, min_size=1, max_size=6))
    numbers = dict(enumerate(tried.admit(members).tolist()))
    relations: dict[int, Counter[Any]] = defaultdict(Counter)
    expected: dict[int, Counter[Any]] = {k: Counter() for k in numbers}
    found: dict[int, Counter[Any]] = {k: Counter() for k in numbers}
    for deltas, (first, second), action, _ in batches:
        values = tried.context.values
        inputs = [batch_of(deltas, values, membered)]
        if rstream:
            inputs += [tried.streamed(first, listening), tried.streamed(second, False)]
        result = shown(tried.logic.on_batch(inputs, 0), spec.output, values)
        for node, instant, row in result:
            for k, number in numbers.items():
                if number == node:
                    found[k][instant, row] += 1
        instants = sorted({d[0] for d in deltas} | {s[0] for s in (*first, *second)})
        for instant in instants:
            change: dict[int, Counter[Any]] = defaultdict(Counter)
            for _, row, weight, whose in (d for d in deltas if d[0] == instant):
                for node in whose if membered else [0]:
                    change[node][tuple(map(plain, row))] += weight
            for node, counter in change.items():
                for row, weight in counter.items():
                    relations[node][row] += weight
            for k in numbers:
                own = members[k][0]
                heard = [s for s in first if not listening or members[k][1] in s[1]]
                if rstream and instant in {s[0] for s in (*heard, *second)}:
                    told = relations[own]
                elif not rstream:
                    sign = 1 if kind == "Istream" else -1
                    told = Counter({r: sign * w for r, w in change[own].items()})
                else:
                    continue
                for row, copies in told.items():
                    if copies > 0:
                        expected[k][instant, row] += copies
        if action == "restart":
            kept = tried.restart([members[k] for k in numbers])
            numbers = dict(zip(numbers, kept.tolist(), strict=True))
        elif action == "recode":
            tried.recode()
        elif action == "dismiss" and len(numbers) > 1:
            k = list(numbers)[len(numbers) // 2]
            gone = tried.logic.dismiss(np.array([numbers.pop(k)], np.int64))
            tried.logic.nodes.retire(gone)
    if membered or all(len(w) <= 1 for b in batches for d in b[0] for w in [d[3]]):
        assert found == expected
    for number in numbers.values():
        tried.logic.dismiss(np.array([number], np.int64))
    assert tried.logic.instances == 0


def test_many_rows_of_one_instant_are_netted_by_hash() -> None:
    values = Values()
    deltas = [(1, (f"n{k % 50}", float(k % 2), None), 1 if k % 3 else -2, [0]) for k in range(600)]
    found = shown(consolidated(batch_of(deltas, values, False), DELTAS, values), DELTAS, values)
    expected: Counter[Any] = Counter()
    for _, row, weight, _ in deltas:
        expected[row] += weight
    assert {row[:3]: row[3] for _, _, row in found} == {r: w for r, w in expected.items() if w}


@pytest.mark.parametrize("kind", ["Istream", "Dstream"])
def test_a_row_that_an_equal_one_replaces_is_no_news(kind: str) -> None:
    tried = Tried(ToStreamSpec(DELTAS, kind), 1)
    tried.admit([(0,)])
    values = tried.context.values
    deltas = [(1, ("a", -0.0, [1]), 1, [0]), (1, ("a", 0.0, [1]), -1, [0])]
    assert not len(tried.logic.on_batch([batch_of(deltas, values, False)], 2))
    deltas = [(2, ("a", -0.0, [1]), 1, [0]), (3, ("a", 0.0, [1]), -1, [0])]
    assert len(tried.logic.on_batch([batch_of(deltas, values, False)], 4)) == 1
    assert tried.logic.instances == 0


def test_copies_that_overflow_are_refused() -> None:
    """Together they are 2 by the arithmetic of words, of which there is room for two rows."""
    tried = Tried(ToStreamSpec(DELTAS, "Istream"), 1)
    tried.admit([(0,)])
    weights = [1 << 62, 1 << 62, 1 << 62, 1 << 62, 2]
    deltas = [(k, ("a", 0.0, None), weight, [0]) for k, weight in enumerate(weights)]
    with pytest.raises(MemoryError, match="copies"):
        tried.logic.on_batch([batch_of(deltas, tried.context.values, False)], 9)


def test_with_the_compiler_off() -> None:
    lane = f"{Path(__file__).relative_to(ROOT)}::"
    tests = [
        lane + "test_streams_of_relations",
        lane + "test_consolidated_deltas_have_the_same_sums",
    ]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "HYPOTHESIS_PROFILE": "few"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
