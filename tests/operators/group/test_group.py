"""GROUP BY and DISTINCT over deltas: against the reference's aggregates of the rows that are there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.algebra.expressions import Ref, Source
from braid.algebra.nodes import Aggregate
from braid.algebra.schema import Schema
from braid.algebra.types import BIGINT, DOUBLE, STRING
from braid.jit.memory import free
from braid.jit.runtime import float_word
from braid.operators.core.base import Context
from braid.operators.core.batch import Batch
from braid.operators.core.columns import array_of, nulls_of, set_nulls, words_of
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin
from braid.operators.core.nodes import signatures
from braid.operators.core.values import Values
from braid.operators.group.kernels.exact_sums import (
    add_real,
    decimal_as_float,
    is_fresh_real,
    rounded,
)
from braid.operators.group.kernels.layout import NONE, WIDE, FloatSum, GroupTable
from braid.operators.group.logic import GroupLogic
from braid.operators.group.spec import GroupSpec
from braid.plan.deltas import with_weight
from braid.plan.layout import END, START
from braid.plan.routes import PlainRecipe
from braid.reference.groups import Overflow, group_aggregate
from braid.reference.ordering import order_key

MONEY = pa.decimal128(18, 2)
TYPES = {"k": BIGINT, "s": STRING, "d": DOUBLE, "v": BIGINT, "m": MONEY}
SCHEMA = Schema.of(TYPES.items())
SHAPE = with_weight(SCHEMA)
NAMES = tuple(TYPES)
Row = tuple[Any, ...]
#: An instant, a row, its nodes and its weight.
Delta = tuple[int, Row, tuple[int, ...], int]


def columns_of(aggregate: Aggregate) -> list[int]:
    """The places of its arguments in a row."""
    return [NAMES.index(arg.name) for arg in aggregate.args if isinstance(arg, Ref)]


def ref(name: str) -> Ref:
    return Ref(Source.INPUT, name, TYPES[name])


def aggregates(*asked: str) -> tuple[Aggregate, ...]:
    """`count`, `count distinct s`, `sum v`: in words."""
    made = []
    for number, text in enumerate(asked):
        function, *rest = text.split()
        distinct = rest[:1] == ["distinct"]
        args = tuple(ref(name) for name in rest[distinct:])
        type_ = BIGINT if function == "count" else DOUBLE if function == "avg" else args[0].type
        made.append(Aggregate(f"agg_{number}", function, args, distinct, type_))
    return tuple(made)


def spec_of(*asked: str, keys: Sequence[str] = ("k",), membered: bool = True) -> GroupSpec:
    return GroupSpec(SHAPE, tuple(keys), aggregates(*asked), membered)


def grouped(spec: GroupSpec, rows: Counter[Row]) -> Counter[Row]:
    """What the reference has for some rows, as keys of values."""
    listed = [row for row, weight in rows.items() for _ in range(weight)]
    if spec.distinct:
        return Counter({order_key(row): 1 for row in listed})
    groups: dict[Any, tuple[Row, list[Row]]] = {}
    if not spec.keys:
        groups[order_key(())] = ((), [])
    for row in listed:
        key = tuple(row[NAMES.index(name)] for name in spec.keys)
        groups.setdefault(order_key(key), (key, []))[1].append(row)
    found: Counter[Row] = Counter()
    for key, members in groups.values():
        values = tuple(
            group_aggregate(a, [tuple(row[c] for c in columns_of(a)) for row in members])
            for a in spec.aggregates
        )
        found[order_key(key + values)] += 1
    return found


def signature(node: int) -> np.ndarray:
    return signatures("input", 1, [np.array([node], np.int64)])


@dataclass
class Bench:
    """A logic with members, what it has put out for each node, and what the reference has."""

    spec: GroupSpec
    values: Values = field(default_factory=Values)
    context: Context = field(init=False)
    logic: GroupLogic = field(init=False)
    outputs: dict[int, int] = field(default_factory=dict)
    there: dict[int, Counter[Row]] = field(default_factory=dict)
    out: dict[int, Counter[Row]] = field(default_factory=dict)
    stopped: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.context = Context(values=self.values)
        self.logic = GroupLogic(self.spec, self.context)

    def admit(self, *nodes: int) -> None:
        for node in nodes:
            constants = Constants(pa.array([f"q{node}"]), (), self.values)
            origin = Origin(np.array([node], np.int64), signature(node))
            given = origin if self.spec.membered else None
            found = self.logic.admit(PlainRecipe(), constants, [given])
            self.outputs[node] = int(found.numbers[0])
            if node not in self.there:
                self.there[node] = Counter()
                self.out[node] = grouped(self.spec, Counter())

    def dismiss(self, node: int) -> None:
        gone = self.logic.dismiss(np.array([self.outputs.pop(node)], np.int64))
        assert len(gone) == 1
        self.logic.nodes.retire(gone)
        for known in (self.there, self.out, self.stopped):
            known.pop(node, None)

    def batch(self, deltas: Sequence[Delta]) -> Batch:
        layout = SHAPE.layout
        rows = np.zeros((len(deltas), layout.width), np.int64)
        rows[:, START] = rows[:, END] = [instant for instant, *_ in deltas]
        for column, name in enumerate(NAMES):
            array = pa.array([row[column] for _, row, _, _ in deltas], TYPES[name])
            rows[:, layout.base + column] = words_of(array, TYPES[name], self.values)
            set_nulls(rows, column, array.is_null().to_numpy(zero_copy_only=False))
        rows[:, -1] = [weight for *_, weight in deltas]
        if not self.spec.membered:
            return Batch(rows)
        pairs = [(k, node) for k, (_, _, nodes, _) in enumerate(deltas) for node in nodes]
        return Batch(rows, *np.array(pairs, np.int32).reshape(-1, 2).T.copy())

    def decoded(self, batch: Batch) -> list[tuple[int, int, Row, int]]:
        """Instant, node, row as a key, weight of everything in a batch."""
        layout, schema = self.spec.output.layout, self.spec.output.schema
        assert batch.index is not None
        assert batch.members is not None
        rows = batch.rows[batch.index]
        columns = [
            array_of(rows[:, layout.base + c], nulls_of(rows, c), a.type, self.values).to_pylist()
            for c, a in enumerate(schema)
        ]
        node_of = {number: node for node, number in self.outputs.items()}
        assert (rows[:, START] == rows[:, END]).all()
        assert (np.diff(rows[:, END]) >= 0).all()
        return [
            (end, node_of[member], order_key(tuple(values[:-1])), values[-1])
            for end, member, values in zip(
                rows[:, END].tolist(),
                batch.members.tolist(),
                zip(*columns, strict=True),
                strict=True,
            )
        ]

    def feed(self, deltas: Sequence[Delta]) -> list[tuple[int, int, Row, int]]:
        """Work on a batch of whole instants, and compare at each of them."""
        made = self.decoded(self.logic.on_batch([self.batch(deltas)], 2**62))
        for instant in sorted({d[0] for d in deltas}):
            for _, row, nodes, weight in (d for d in deltas if d[0] == instant):
                for node in nodes:
                    if node in self.there:
                        self.there[node][row] += weight
            for end, node, row, weight in made:
                if end == instant:
                    self.out[node][row] += weight
            for node in self.outputs:
                self._compare(node, instant, [m for m in made if m[:2] == (instant, node)])
        assert self.logic.stopped == {self.outputs[n]: t for n, t in self.stopped.items()}
        return made

    def _compare(self, node: int, instant: int, made: list[Any]) -> None:
        if node in self.stopped:
            assert not made
            return
        try:
            wanted = grouped(self.spec, self.there[node])
        except Overflow:
            self.stopped[node] = instant
            assert not made
            return
        assert +self.out[node] == wanted
        assert not -self.out[node]

    def restart(self, numbers: Sequence[int]) -> None:
        """A new logic, with members taken on in another order, goes on from what was saved."""
        state = {name: array.copy() for name, array in self.logic.snapshot().items()}
        before = (self.logic.instances, self.logic.describe())
        self.logic = GroupLogic(self.spec, self.context)
        self.outputs = {}
        self.admit(*numbers)
        self.logic.restore(state)
        assert (self.logic.instances, self.logic.describe()) == before

    def compact(self) -> None:
        """Forget all strings that are not held."""
        held = self.logic.held()
        if held is None:
            return
        live = []
        for column in range(len(held.types)):
            nulls = nulls_of(held.rows, column)
            known = np.ones(len(held.rows), np.bool_) if nulls is None else ~nulls
            live.append((known, held.layout.base + column))
        mapping = self.values.strings.compact([held.rows[k, word] for k, word in live])
        if mapping is None:
            return
        for known, word in live:
            held.rows[known, word] = mapping[held.rows[known, word]]
        self.logic.forget_codes()
        self.logic.replace_held(held.rows)


def row(k: Any = 1, s: Any = "a", d: Any = 1.0, v: Any = 1, m: Any = Decimal("1.00")) -> Row:
    return (k, s, d, v, m)


def alone(*asked: str, keys: Sequence[str] = ("k",)) -> Bench:
    bench = Bench(spec_of(*asked, keys=keys, membered=False))
    bench.admit(0)
    return bench


def come(instant: int, *rows: Row, weight: int = 1) -> list[Delta]:
    return [(instant, r, (0,), weight) for r in rows]


def go(instant: int, *rows: Row) -> list[Delta]:
    return come(instant, *rows, weight=-1)


# ---- unit tests ----


def test_a_group_comes_changes_and_goes() -> None:
    bench = alone("count", "sum v")
    one, two = order_key((1, 1, 5)), order_key((1, 2, 12))
    assert bench.feed(come(1, row(v=5))) == [(1, 0, one, 1)]
    assert bench.feed(come(2, row(v=7))) == [(2, 0, one, -1), (2, 0, two, 1)]
    assert bench.feed(go(3, row(v=7)) + come(3, row(v=7))) == []
    assert bench.feed(go(4, row(v=5), row(v=7))) == [(4, 0, two, -1)]
    assert bench.logic.instances == 0
    assert bench.feed([]) == []


def test_without_keys_the_row_of_nothing_was_there_before() -> None:
    bench = alone("count", "sum v", "min s", keys=())
    nothing, some = order_key((0, None, None)), order_key((1, 5, "a"))
    assert bench.feed(come(1, row(v=5))) == [(1, 0, nothing, -1), (1, 0, some, 1)]
    assert bench.feed(go(2, row(v=5))) == [(2, 0, some, -1), (2, 0, nothing, 1)]
    assert bench.logic.instances == 0
    assert bench.feed(come(3, row()) + go(3, row())) == []


def test_nothing_is_said_of_a_row_that_stays() -> None:
    bench = alone("max v")
    bench.feed(come(1, row(v=9)))
    assert bench.feed(come(2, row(v=3))) == []
    assert bench.feed(go(3, row(v=3))) == []


@pytest.mark.parametrize("function", ["sum", "avg"])
@pytest.mark.parametrize(
    ("column", "large"), [("v", 2**63 - 1), ("v", -(2**63)), ("m", Decimal("9999999999999999.99"))]
)
def test_a_sum_that_does_not_fit_stops_its_node_only(
    function: str, column: str, large: Any
) -> None:
    bench = Bench(spec_of(f"{function} {column}"))
    bench.admit(0, 1)
    bench.feed([(1, row(**{column: large}), (0, 1), 1), (1, row(7), (0,), 1)])
    assert not bench.stopped
    # On the way beyond the limit, but not at the end of the instant.
    bench.feed([(2, row(**{column: large}), (0,), 1), (2, row(**{column: large}), (0,), -1)])
    assert not bench.stopped
    bench.feed(
        [(3, row(**{column: large}), (0,), 1), (3, row(2), (0, 1), 1), (4, row(3), (0, 1), 1)]
    )
    assert bench.stopped == {0: 3}
    assert bench.logic.instances == 3
    bench.restart([1, 0])
    bench.feed([(5, row(4), (0, 1), 1)])
    bench.dismiss(0)
    assert bench.logic.stopped == {}


def test_a_sum_of_decimals_becomes_the_nearest_float() -> None:
    bench = alone("avg m", "sum m", "avg v")
    bench.feed(come(1, row(m=Decimal("9007199254740.99")), row(m=Decimal("1234567890123456.78"))))
    bench.feed(come(2, row(m=Decimal("-7999999999999999.99"), v=2**62)))


def test_rows_that_go_without_having_come_are_counted() -> None:
    bench = alone("count", "sum v", "min v", "count distinct v")

    def fed(deltas: list[Delta]) -> list[Any]:
        made = bench.decoded(bench.logic.on_batch([bench.batch(deltas)], 9))
        return [(*entry[2][1], entry[3]) for entry in made]

    assert fed(go(1, row(v=5))) == []
    assert bench.logic.describe()["negative"] == 1
    assert fed(come(2, row(v=5))) == []
    assert bench.logic.instances == 0
    # One row that is there, another one short: the group has no rows, but it is not forgotten.
    assert fed(come(3, row(v=8)) + go(3, row(v=5))) == []
    assert bench.logic.instances == 1
    assert bench.logic.describe()["negative"] == 0
    bench.restart([0])
    (made,) = fed(come(4, row(v=8)))
    assert made == (*(order_key(x) for x in (1, 1, 11, 8, 1)), 1)
    fed(come(5, row(v=5)))
    fed(go(6, row(v=8), row(v=8)))
    assert bench.logic.instances == bench.logic.describe()["values"] == 0


def test_distinct_rows() -> None:
    bench = Bench(GroupSpec(SHAPE, (), (), membered=False, distinct=True))
    bench.admit(0)
    nan, zero = row(d=math.nan), row(d=0.0, s=None)
    bench.feed(come(1, nan, nan, zero, row(d=-0.0, s=None)))
    assert bench.logic.instances == 2
    bench.feed(go(2, nan))
    assert bench.feed(go(3, nan) + come(3, row(k=None)))
    assert bench.feed(go(4, zero)) == []
    assert bench.feed(go(5, row(d=-0.0, s=None)))


def test_nodes_nobody_has_are_passed_over_and_members_share_nodes() -> None:
    bench = Bench(spec_of("count"))
    bench.admit(2)
    first = bench.outputs[2]
    bench.admit(2)
    assert bench.outputs[2] == first
    assert bench.feed([(1, row(), (0, 2, 9), 1)])
    assert len(bench.logic.dismiss(np.array([first]))) == 0
    assert bench.logic.instances == 1
    assert bench.logic.dismiss(np.array([first])).tolist() == [first]
    assert bench.logic.instances == 0


def test_memory_is_counted_and_given_back() -> None:
    bench = alone("sum d", "min v", "max v")
    little = bench.logic.state_bytes
    rows = [row(k, d=10.0**e, v=v) for k in range(4) for e, v in ((300, 1), (-300, 2), (0, 3))]
    bench.feed(come(1, *rows))
    assert bench.logic.state_bytes > little + 4 * 8 * 35
    bench.feed(go(2, *rows))
    assert bench.logic.state_bytes < little + 16 * 8 * 40
    assert bench.logic.index_bytes > 0


def test_many_columns_and_masks_of_several_words() -> None:
    asked = [f"{f} {c}" for f in ("min", "max", "count", "count distinct") for c in NAMES] * 4
    bench = alone(*asked, keys=("k", "s", "k"))
    bench.feed(come(1, row(s=None, d=None), row(None, v=None, m=None)))
    bench.feed(go(2, row(s=None, d=None)) + come(2, row(None, None, None, None, None)))
    bench.compact()
    bench.feed(come(3, row(s="b")))


@pytest.mark.parametrize("column", ["v", "d", "s"])
@pytest.mark.parametrize("order", ["up", "down", "random"])
def test_many_values_in_one_group(column: str, order: str) -> None:
    """Leaves fill, split, run empty and are joined; the first and last value are always known."""
    random = np.random.default_rng(7)
    numbers = np.arange(-300, 300)
    if order != "up":
        numbers = numbers[::-1] if order == "down" else random.permutation(numbers)
    makes: dict[str, Callable[[int], Any]] = {
        "v": int,
        "d": lambda n: n / 3,
        "s": lambda n: f"{n + 500:04}",
    }
    make = makes[column]
    rows = [row(**{column: make(n)}) for n in numbers.tolist()]
    bench = alone(f"min {column}", f"max {column}", f"count distinct {column}")
    for k in range(0, 600, 60):
        bench.feed(come(k, *rows[k : k + 60]))
    bench.restart([0])
    bench.compact()
    going = rows if order != "random" else [rows[k] for k in random.permutation(600)]
    for k in range(0, 600, 20):
        bench.feed(go(1000 + k, *going[k : k + 20]))
    assert bench.logic.instances == bench.logic.describe()["values"] == 0


@pytest.mark.parametrize("word", [0, 1, 2**52 - 1, 2**52, 2**53, 0x7FEFFFFFFFFFFFFF])
def test_a_single_float_is_its_own_sum(word: int) -> None:
    value = float(np.array([word], np.int64).view(np.float64)[0])
    assert summed([(value, 1)]) == value
    assert summed([(-value, 1)]) == -value


@pytest.mark.parametrize(
    ("terms", "total"),
    [
        ([2.0**53, 1.0], 2.0**53),
        ([2.0**53 + 2, 1.0], 2.0**53 + 4),
        ([2.0**53, 1.0, 2.0**-600], 2.0**53 + 2),
        ([2.0**53 + 2, 1.0, -(2.0**-600)], 2.0**53 + 2),
        ([-(2.0**53) - 2, -1.0], -(2.0**53) - 4),
        ([1e16, 1.0, 1.0], 1.0000000000000002e16),
        ([1.7976931348623157e308, 2.0**969], 1.7976931348623157e308),
        ([1.7976931348623157e308, 2.0**970], math.inf),
    ],
)
def test_a_sum_is_rounded_once_and_of_two_to_the_even_one(terms: list[float], total: float) -> None:
    assert summed([(value, 1) for value in terms]) == total


def test_more_groups_than_a_cache_holds() -> None:
    bench = Bench(spec_of("sum v", "count"))
    bench.admit(0, 1)
    rows = [row(k, v=3 * k) for k in range(6000)]
    made = bench.decoded(
        bench.logic.on_batch([bench.batch([(1, r, (0, 1, 7), 1) for r in rows])], 9)
    )
    wanted = {(1, n, order_key((k, 3 * k, 1)), 1) for n in (0, 1) for k in range(6000)}
    assert len(made) == 12_000
    assert set(made) == wanted
    gone = bench.logic.on_batch([bench.batch([(2, r, (0, 1, 7), -1) for r in rows])], 9)
    assert {(2, n, key, -1) for _, n, key, _ in wanted} == set(bench.decoded(gone))
    assert bench.logic.instances == 0


Terms = list[tuple[float, int]]


def summed(terms: Terms) -> float:
    """The sum that the kernel has; taking all terms away again leaves nothing."""
    words, numbers = np.zeros(FloatSum.stride // 8, np.int64), np.zeros(64, np.int64)
    state, table = FloatSum.at(words), GroupTable.at(numbers)
    state.base = NONE
    for value, weight in terms:
        add_real(state, float_word(value), weight, table)
    found = float(np.array([rounded(state)], np.int64).view(np.float64)[0])
    for value, weight in terms:
        add_real(state, float_word(value), -weight, table)
    assert is_fresh_real(state, table)
    if state.base == WIDE:
        free(state.words[0])
    assert not numbers.any()
    return found


@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.floats(allow_nan=False, allow_infinity=False),
                st.floats(-1e6, 1e6),
                st.sampled_from([1e16, 1.0, -1.0, 2.0**-1074, 1.7976931348623157e308]),
            ),
            st.one_of(st.sampled_from([1, -1]), st.integers(-(2**40), 2**40)),
        ),
        max_size=12,
    )
)
def test_sums_of_floats_are_exact(terms: Terms) -> None:
    total = sum((Fraction(value) * weight for value, weight in terms), start=Fraction(0))
    try:
        wanted = float(total)
    except OverflowError:
        wanted = math.inf if total > 0 else -math.inf
    assert summed(terms) == wanted


@given(st.integers(-(10**18) + 1, 10**18 - 1), st.integers(0, 18))
def test_decimals_become_the_nearest_float(value: int, scale: int) -> None:
    assert decimal_as_float(value, 10**scale) == float(Fraction(value, 10**scale))


# ---- the property ----

NODES = 3
SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e16, 1.0, 1e-300, -1e300, 0.1, None]


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(strategy, st.none())


ROWS = st.tuples(
    st.sampled_from([1, 2, None]),
    st.sampled_from(["", "a", "ab", "b", "é", None]),
    st.one_of(st.sampled_from(SPECIAL), st.floats(-100, 100)),
    maybe(st.one_of(st.integers(-3, 3), st.sampled_from([2**62, -(2**62), 2**63 - 1]))),
    maybe(
        st.sampled_from([Decimal("0.01"), Decimal("-5.50"), Decimal("9007199254740993.01")]),
    ),
)
SPECS = [
    spec_of("count", "sum v", "avg d", "min s", "max s"),
    spec_of("count v", "sum d", "min d", "max d", "count distinct d", keys=("s",)),
    spec_of("avg m", "sum m", "count m", "min m", keys=("d", "s")),
    spec_of("count", "avg v", "max v", "count distinct s", "sum d", "min s", keys=()),
    spec_of("count d", "count distinct v", keys=("k", "s")),
    GroupSpec(SHAPE, (), (), membered=True, distinct=True),
]


def normal(row: Row) -> Row:
    """NaN is not equal to itself, so that rows that are counted have one NaN only."""
    return tuple(math.nan if isinstance(x, float) and math.isnan(x) else x for x in row)


@given(st.data())
@pytest.mark.parametrize("number", range(len(SPECS)))
def test_groups_are_those_of_the_rows_that_are_there(number: int, data: st.DataObject) -> None:
    draw = data.draw
    bench = Bench(SPECS[number])
    bench.admit(*range(NODES))
    instant = 0
    for _ in range(draw(st.integers(1, 5), "batches")):
        deltas: list[Delta] = []
        # Rows that are there once the deltas so far are worked on.
        left = {node: Counter(rows) for node, rows in bench.there.items()}
        for _ in range(draw(st.integers(1, 4), "instants")):
            instant += draw(st.integers(1, 3))
            made: list[Delta] = []
            for new in draw(st.lists(ROWS, max_size=5), "come"):
                nodes = tuple(sorted(draw(st.sets(st.integers(0, NODES), max_size=NODES))))
                made.append((instant, normal(new), nodes, draw(st.sampled_from([1, 1, 1, 2]))))
            for node, rows in left.items():
                for old in [r for r, n in rows.items() if n > 0]:
                    if draw(st.booleans()):
                        made.append((instant, old, (node,), -draw(st.integers(1, rows[old]))))
            made = draw(st.permutations(made))
            for _, changed, nodes, weight in made:
                for node in nodes:
                    if node in left:
                        left[node][changed] += weight
            deltas += made
        bench.feed(deltas)
        match draw(st.sampled_from(["", "restart", "dismiss", "compact"]), "then"):
            case "restart":
                bench.restart(draw(st.permutations(sorted(bench.outputs))))
            case "dismiss" if len(bench.outputs) > 1:
                node = draw(st.sampled_from(sorted(bench.outputs)))
                bench.dismiss(node)
                if draw(st.booleans()):
                    bench.admit(node)
            case "compact":
                bench.compact()
    if not bench.stopped:
        ends = [
            (instant + 1, r, (node,), -n)
            for node, rows in bench.there.items()
            for r, n in rows.items()
            if n
        ]
        bench.feed(ends)
        assert bench.logic.instances == 0
        assert bench.logic.describe()["values"] == 0
