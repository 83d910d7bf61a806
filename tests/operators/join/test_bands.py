"""Bands: what is found through them is what every combination gives, and little more is looked at."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.algebra.expressions import Call, Expression, Literal, Parameter, Ref, Source, conjunction
from braid.algebra.schema import Schema
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE
from braid.jit.runtime import COMPILED
from braid.operators.core.base import Context
from braid.operators.core.constants import Constants
from braid.operators.join import bands as join_bands
from braid.operators.join import logic as join
from braid.operators.join.bands import bands_of
from braid.operators.join.logic import JoinLogic
from braid.operators.join.spec import JoinRecipe, JoinSpec
from braid.plan.deltas import with_weight
from tests.operators.join.test_join import Delta, feed, origin, spec_of

SHAPES = {t: with_weight(Schema.of([("k", BIGINT), ("x", t)])) for t in (BIGINT, DOUBLE)}
INTEGERS = st.integers(-20, 20) | st.sampled_from([2**63 - 1, -(2**63), 2**62, 10**17, 10**17 + 3])
FLOATS = (
    st.integers(-20, 20).map(lambda n: n / 4)
    | st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e16, 1e16 + 4])
    | st.floats(allow_subnormal=True)
)


def residual(form: str, type_: Any) -> Expression:
    a, b = (Ref(Source.INPUT, f"{i}.x", type_) for i in (0, 1))
    p, q = Parameter(0, type_), Parameter(1, type_)

    def call(function: str, *args: Expression, of: Any = type_) -> Call:
        return Call(function, args, of)

    low, high = call("sub", b, p), call("add", q, b)
    forms = {
        "between": [call("ge", a, low, of=BOOLEAN), call("le", a, high, of=BOOLEAN)],
        "other side": [call("lt", low, a, of=BOOLEAN), call("gt", high, a, of=BOOLEAN)],
        "abs": [call("le", call("abs", call("sub", a, b)), p, of=BOOLEAN)],
        "differences": [
            call("lt", call("sub", a, b), p, of=BOOLEAN),
            call("le", call("sub", b, a), q, of=BOOLEAN),
        ],
        "fixed": [
            call("ge", a, b, of=BOOLEAN),
            call(
                "lt", a, call("add", b, Literal(3 if type_ == BIGINT else 3.0, type_)), of=BOOLEAN
            ),
        ],
        "less": [call("lt", a, b, of=BOOLEAN)],
        "not less": [call("ge", call("add", a, p), b, of=BOOLEAN)],
        "twice less": [call("gt", high, a, of=BOOLEAN), call("lt", a, b, of=BOOLEAN)],
    }
    return conjunction(tuple(forms[form]))


FORMS = [
    "between",
    "other side",
    "abs",
    "differences",
    "fixed",
    "less",
    "not less",
    "twice less",
]


def run(spec: JoinSpec, constants: list[tuple[Any, Any]], deltas: list[Delta]) -> Counter[Any]:
    """Rows by node, as words: NaN is no different from itself there."""
    context = Context()
    logic = JoinLogic(spec, context)
    type_ = spec.inputs[0].schema.type_of("x")

    def admit(some: list[tuple[Any, Any]]) -> None:
        ids = pa.array([f"q{k}" for k in range(len(some))])
        columns = [pa.array([c[i] for c in some], type_) for i in (0, 1)]
        recipe = JoinRecipe((Parameter(0, type_), Parameter(1, type_)))
        logic.admit(recipe, Constants(ids, columns, context.values), [origin([0] * len(some))] * 2)

    admit(constants[:1])
    found: Counter[Any] = Counter()
    middle = len(deltas) // 2
    for part in (deltas[: middle // 2], deltas[middle // 2 : middle], deltas[middle:]):
        batch = feed(logic, 2, part, spec.inputs[0]).spelled()
        if batch.index is None or batch.members is None:
            pairs = [(k, 0) for k in range(len(batch.rows))]
        else:
            pairs = list(zip(batch.index.tolist(), batch.members.tolist(), strict=True))
        for row, node in pairs:
            found[node, *batch.rows[row].tolist()] += 1
        if constants[1:]:
            admit(constants[1:])  # bands become wider while rows are held
            constants = constants[:1]
    return found


@settings(max_examples=200 if COMPILED else 20, deadline=None)
@given(st.data())
def test_a_band_finds_what_every_combination_gives(data: st.DataObject) -> None:
    type_, form = data.draw(st.sampled_from([BIGINT, DOUBLE])), data.draw(st.sampled_from(FORMS))
    value = INTEGERS if type_ == BIGINT else FLOATS
    width = st.integers(-2, 9) | value
    if type_ == DOUBLE:
        width = st.integers(-2, 9).map(float) | value
    constants = data.draw(st.lists(st.tuples(width, width), min_size=1, max_size=3, unique=True))
    rows = data.draw(st.lists(st.tuples(st.integers(0, 1), st.none() | value), max_size=24))
    deltas: list[Delta] = [(i, t, (t, x), 1, (0,)) for t, (i, x) in enumerate(rows)]
    spec = spec_of(2, (), residual(form, type_), True, SHAPES[type_])
    assert len(bands_of(spec)) == 1
    with (
        patch.multiple(join_bands, _LEAST_FITTED=2, _IN_ONE=data.draw(st.integers(1, 3))),
        patch.object(join, "_FIT_ROUND", 1),
    ):
        found = run(spec, constants, deltas)
    with patch.object(join, "bands_of", return_value=()):
        assert found == run(spec, constants, deltas)


@pytest.mark.parametrize("type_", [BIGINT, DOUBLE])
def test_few_rows_are_looked_at(type_: Any) -> None:
    context, rng = Context(), np.random.default_rng(1)
    logic = JoinLogic(spec_of(2, (), residual("between", type_), False, SHAPES[type_]), context)
    columns = [pa.array([2], type_), pa.array([3], type_)]
    recipe = JoinRecipe((Parameter(0, type_), Parameter(1, type_)))
    logic.admit(
        recipe, Constants(pa.array(["q"]), columns, context.values), [origin([0]), origin([0])]
    )
    values = [type_.to_pandas_dtype()(v).item() for v in rng.integers(0, 10_000, 2000)]
    deltas: list[Delta] = [(t % 2, t, (t, x), 1, (0,)) for t, x in enumerate(values)]
    found = len(feed(logic, 2, deltas, SHAPES[type_]))
    sides = [np.array(values[i::2]) for i in (0, 1)]
    apart = sides[0][:, None] - sides[1][None, :]
    assert found == int(((apart >= -2) & (apart <= 3)).sum())
    probes = logic.describe()["probes"]
    assert all(p["keys"] == ["x"] and p["found"] < 3 for p in probes)


@pytest.mark.parametrize("type_", [BIGINT, DOUBLE])
def test_stretches_of_one_sided_bands_move_on_with_the_values(type_: Any) -> None:
    """Rows come and go, with larger and larger values; few are above others by much."""
    context, rng = Context(), np.random.default_rng(1)
    spec = spec_of(2, (), residual("not less", type_), False, SHAPES[type_])
    logic = JoinLogic(spec, context)
    columns = [pa.array([-200], type_), pa.array([0], type_)]
    recipe = JoinRecipe((Parameter(0, type_), Parameter(1, type_)))
    logic.admit(
        recipe, Constants(pa.array(["q"]), columns, context.values), [origin([0]), origin([0])]
    )
    count = 4000 if COMPILED else 1000
    drawn = np.arange(count) // 2 + rng.integers(0, 300, count)
    values = [type_.to_pandas_dtype()(v).item() for v in drawn]
    held, wanted, found, keep = [[], []], 0, 0, 1000 if COMPILED else 200
    for first in range(0, len(values), 500):
        deltas: list[Delta] = []
        for t in range(first, first + 500):
            side = t % 2
            wanted += sum(
                (values[t] - 200 >= other) if side == 0 else (other - 200 >= values[t])
                for other in held[1 - side]
            )
            held[side].append(values[t])
            deltas.append((side, t, (t, values[t]), 1, (0,)))
            if t >= keep:
                gone = values[t - keep]
                held[side].remove(gone)
                deltas.append((side, t, (t - keep, gone), -1, (0,)))
                wanted += sum(
                    (gone - 200 >= other) if side == 0 else (other - 200 >= gone)
                    for other in held[1 - side]
                )
        found += len(feed(logic, 2, deltas, SHAPES[type_]))
    assert found == wanted
    probes = logic.describe()["probes"]
    assert all(p["keys"] == ["x"] and p["found"] < 250 for p in probes), probes


def test_what_is_no_sum_of_columns_is_no_band() -> None:
    a, b = (Ref(Source.INPUT, f"{i}.x", BIGINT) for i in (0, 1))
    product = Call("mul", (b, Literal(2, BIGINT)), BIGINT)
    assert bands_of(spec_of(2, (), Call("gt", (a, product), BOOLEAN))) == ()
    both = conjunction((Call("lt", (a, b), BOOLEAN), Call("gt", (a, product), BOOLEAN)))
    (band,) = bands_of(spec_of(2, (), both))
    assert (band.above, band.below) == (((),), ())
