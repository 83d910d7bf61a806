"""The law of the access-predicate form: exactly the pairs that are true, whatever came before."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from braid.operators.core.kernels.clauses import (
    HIGHEST,
    IN,
    INTERVAL,
    IS_NULL,
    LOWEST,
    NOT_EQUAL,
    NOT_IN,
    NOT_NULL,
    NULL_KEY,
    PATTERN,
    Clauses,
)
from braid.operators.core.values import Strings
from braid.operators.select.access import AccessIndex
from braid.operators.select.access_plan import Group, choose_classes
from braid.operators.select.kernels import access as kernels
from braid.operators.select.kernels import access_fill, access_match
from braid.operators.select.string_patterns import PatternSet

COLUMNS = 4
#: The last column holds texts.
TEXT = COLUMNS - 1
TEXTS = ("", "a", "b", "ab", "ba", "abc", "cab", "bab")
COMPILED = os.environ.get("NUMBA_DISABLE_JIT") != "1"


@dataclass(frozen=True)
class Atom:
    kind: int
    column: int
    lo: int = 0
    hi: int = 0
    values: tuple[int, ...] = ()


def clauses_of(conjunctions: list[list[Atom]]) -> Clauses:
    start, sets = [0], []
    column, kind, lo, hi = [], [], [], []
    for atoms in conjunctions:
        for atom in atoms:
            column.append(atom.column)
            kind.append(atom.kind)
            if atom.kind in (IN, NOT_IN):
                lo.append(len(sets))
                sets.extend(sorted(atom.values))
                hi.append(len(sets))
            else:
                lo.append(atom.lo)
                hi.append(atom.hi)
        start.append(len(column))
    arrays = [np.array(values, np.int64) for values in (start, column, kind, lo, hi, sets)]
    return Clauses(*arrays)


def holds(atom: Atom, row: list[int], matching: dict[int, set[int]]) -> bool:
    key = row[atom.column]
    if atom.kind == IS_NULL:
        return key == NULL_KEY
    if key == NULL_KEY:
        return False
    return {
        INTERVAL: lambda: atom.lo <= key <= atom.hi,
        NOT_EQUAL: lambda: key != atom.lo,
        IN: lambda: key in atom.values,
        NOT_IN: lambda: key not in atom.values,
        NOT_NULL: lambda: True,
        PATTERN: lambda: atom.lo in matching[key],
    }[atom.kind]()


def brute_force(
    live: dict[int, list[Atom]], rows: list[list[int]], matching: dict[int, set[int]]
) -> list[tuple[int, int]]:
    return sorted(
        (r, number)
        for r, row in enumerate(rows)
        for number, atoms in live.items()
        if all(holds(atom, row, matching) for atom in atoms)
    )


def pairs(index: AccessIndex, rows: list[list[int]]) -> list[tuple[int, int]]:
    found = index.match(np.array(rows, np.int64).reshape(len(rows), index.columns))
    assert (np.diff(found.rows) >= 0).all()
    return sorted(zip(found.rows.tolist(), found.clauses.tolist(), strict=True))


small = st.integers(-3, 6)
ends = st.one_of(small, st.sampled_from([int(LOWEST), int(HIGHEST)]))
columns = st.integers(0, TEXT - 1)
lists = st.lists(small, max_size=5).map(tuple)
atoms = st.one_of(
    st.builds(lambda c, v: Atom(INTERVAL, c, v, v), columns, small),
    st.builds(lambda c, a, b: Atom(INTERVAL, c, min(a, b), max(a, b)), columns, ends, ends),
    st.builds(lambda c, a: Atom(INTERVAL, c, a, a - 1), columns, small),
    st.builds(lambda c, v: Atom(NOT_EQUAL, c, v), columns, small),
    st.builds(lambda k, c, v: Atom(k, c, values=v), st.sampled_from([IN, NOT_IN]), columns, lists),
    st.builds(Atom, st.sampled_from([IS_NULL, NOT_NULL]), st.integers(0, TEXT)),
    st.builds(lambda v: Atom(INTERVAL, TEXT, v, v), st.integers(0, len(TEXTS) - 1)),
    st.builds(
        lambda k, t: Atom(PATTERN, TEXT, values=(k, t)),
        st.sampled_from(["contains", "starts_with", "ends_with", "like"]),
        st.sampled_from(["", "a", "b", "ab", "a%", "%b", "_", "%a%b"]),
    ),
)
clauses = st.lists(atoms, max_size=4)
texts = st.sampled_from([*range(len(TEXTS)), int(NULL_KEY)])
keys = st.one_of(small, st.sampled_from([int(NULL_KEY), int(LOWEST), int(HIGHEST)]))
rows = st.tuples(*[keys] * TEXT, texts).map(list)


class Churn(RuleBasedStateMachine):
    """Clauses come and go, it learns at any moment, and it is always right."""

    def __init__(self) -> None:
        super().__init__()
        self.strings = Strings()
        codes = self.strings.codes(pa.array(TEXTS))
        assert codes.tolist() == list(range(len(TEXTS)))
        self.patterns = PatternSet()
        self.index = AccessIndex(COLUMNS, {TEXT: self.patterns})
        self.live: dict[int, list[Atom]] = {}
        self.next = 0

    def bound(self, atoms: list[Atom]) -> list[Atom]:
        """With the numbers of string patterns."""
        return [
            Atom(PATTERN, TEXT, self.patterns.add(*atom.values)) if atom.kind == PATTERN else atom
            for atom in atoms
        ]

    @rule(new=st.lists(clauses, min_size=1, max_size=10), copies=st.sampled_from([1, 1, 3, 12]))
    def add(self, new: list[list[Atom]], copies: int) -> None:
        bound = [self.bound(atoms) for atoms in new * copies]
        ids = np.arange(self.next, self.next + len(bound), dtype=np.int32)
        self.index.add(clauses_of(bound), ids)
        self.live.update(zip(ids.tolist(), bound, strict=True))
        self.next += len(bound)

    @rule(
        name=small,
        bounds=st.lists(st.tuples(columns, ends, ends), min_size=8, max_size=30),
        sided=st.sampled_from(["low", "high", "both"]),
    )
    def add_rules_of_a_name(
        self, name: int, bounds: list[tuple[int, int, int]], sided: str
    ) -> None:
        rules = []
        for column, a, b in bounds:
            lo = int(LOWEST) if sided == "high" else min(a, b)
            hi = int(HIGHEST) if sided == "low" else max(a, b)
            rules.append([Atom(INTERVAL, 0, name, name), Atom(INTERVAL, column, lo, hi)])
        self.add(rules, 1)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.live)), unique=True))
        self.index.remove(np.array(chosen, np.int32))
        for number in chosen:
            for atom in self.live.pop(number):
                if atom.kind == PATTERN:
                    self.patterns.remove(atom.lo)
        if not self.live:
            self.next = 0

    @rule(sample=st.lists(rows, min_size=1, max_size=10))
    def learn(self, sample: list[list[int]]) -> None:
        self.index.learn(np.array(sample, np.int64))

    @rule(shown=st.lists(rows, max_size=12))
    def match(self, shown: list[list[int]]) -> None:
        self.patterns.refresh(self.strings, np.arange(len(TEXTS)))
        matching = {code: set(self.patterns.matching(code).tolist()) for code in range(len(TEXTS))}
        assert pairs(self.index, shown) == brute_force(self.live, shown, matching)

    @invariant()
    def counts(self) -> None:
        assert len(self.index) == len(self.live)


Churn.TestCase.settings = settings(
    max_examples=40 if COMPILED else 4, stateful_step_count=16 if COMPILED else 8
)
TestChurn = Churn.TestCase


def spread(n: int, columns: int, seed: int = 0, domain: int = 50) -> Clauses:
    """Two equalities and an interval each, on random columns."""
    random = np.random.default_rng(seed)
    first, second = random.integers(0, columns, (2, n))
    value, low = random.integers(0, domain, (2, n)), random.integers(0, 800, n)
    third = np.full(n, columns)
    column = np.stack([first, second, third], 1).ravel()
    lo = np.stack([value[0], value[1], low], 1).ravel()
    hi = np.stack([value[0], value[1], low + 200], 1).ravel()
    kind = np.zeros(3 * n, np.int64)
    return Clauses(np.arange(n + 1) * 3, column, kind, lo, hi, np.empty(0, np.int64))


def some_keys(n: int, columns: int, domain: int = 50) -> np.ndarray:
    random = np.random.default_rng(9)
    equal = random.integers(0, domain, (n, columns))
    return np.ascontiguousarray(np.column_stack([equal, random.integers(0, 1000, n)]))


def expected(given: Clauses, keys: np.ndarray) -> np.ndarray:
    """For each row and clause whether it holds, by broadcasting; intervals only."""
    found = np.ones((len(keys), given.total), np.bool_)
    for k in range(3):
        key = keys[:, given.column[k::3]]
        found &= (given.lo[k::3] <= key) & (key <= given.hi[k::3])
    return found


SIZE = 5000 if COMPILED else 120


def test_many_clauses_at_once_and_one_by_one_are_the_same() -> None:
    given, keys = spread(SIZE, 6), some_keys(40, 6)
    at_once, one_by_one = AccessIndex(7), AccessIndex(7)
    at_once.add(given, np.arange(SIZE, dtype=np.int32))
    for c in range(SIZE):
        part = slice(3 * c, 3 * c + 3)
        start = np.array([0, 3])
        arrays = (given.column[part], given.kind[part], given.lo[part], given.hi[part])
        one_by_one.add(Clauses(start, *arrays, given.sets), np.array([c], np.int32))
    truth = np.argwhere(expected(given, keys))
    for index in (at_once, one_by_one):
        found = index.match(keys)
        got = sorted(zip(found.rows.tolist(), found.clauses.tolist(), strict=True))
        assert got == [tuple(pair) for pair in truth.tolist()]


@pytest.mark.parametrize("sided", ["low", "high"])
def test_rules_of_a_name_are_in_the_order_of_their_bounds(sided: str) -> None:
    names, rules = 5, 60
    kinds = np.zeros(2 * names * rules, np.int64)
    name, bound = np.divmod(np.random.default_rng(3).permutation(names * rules), rules)
    lo = bound if sided == "low" else np.full(len(bound), LOWEST)
    hi = bound if sided == "high" else np.full(len(bound), HIGHEST)
    given = Clauses(
        2 * np.arange(names * rules + 1),
        np.tile([0, 1], names * rules),
        kinds,
        np.stack([name, lo], 1).ravel(),
        np.stack([name, hi], 1).ravel(),
        np.empty(0, np.int64),
    )
    index = AccessIndex(2)
    index.add(given, np.arange(names * rules, dtype=np.int32))
    value = 3 if sided == "low" else rules - 4
    for row_name in range(names):
        found = index.match(np.array([[row_name, value]]))
        assert sorted(bound[found.clauses]) == sorted([value, *(_beyond(value, sided))])
        assert set(name[found.clauses]) == {row_name}
    shown = index.describe()
    assert shown["candidates_per_row"] <= 6  # of 60


def _beyond(value: int, sided: str) -> range:
    return range(value) if sided == "low" else range(value + 1, 60)


def test_memory_falls_when_clauses_are_removed() -> None:
    given, ids = spread(SIZE, 6), np.arange(SIZE, dtype=np.int32)
    index = AccessIndex(7)
    empty = index.nbytes
    index.add(given, ids)
    full = index.nbytes
    index.remove(ids[SIZE // 10 :])
    assert index.nbytes - empty < 0.35 * (full - empty)
    found = index.match(some_keys(20, 6))
    assert (found.clauses < SIZE // 10).all()
    index.remove(ids[: SIZE // 10])
    assert index.nbytes <= empty * 1.1
    assert len(index) == 0


def test_churn_does_not_grow() -> None:
    given = spread(SIZE, 6)
    index = AccessIndex(7)
    ids = np.arange(SIZE, dtype=np.int32)
    index.add(given, ids)
    first = index.nbytes
    for turn in range(6):
        half = ids[turn % 2 :: 2]
        index.remove(half)
        keep = np.zeros(SIZE, np.bool_)
        keep[half] = True
        three = np.repeat(keep, 3)
        part = [array[three] for array in given[1:5]]
        index.add(Clauses(np.arange(len(half) + 1) * 3, *part, given.sets), half)
    assert index.nbytes < 2.5 * first
    found = index.match(some_keys(20, 6))
    assert len(found.rows) == expected(given, some_keys(20, 6)).sum()


def test_it_learns_by_itself_which_atoms_are_selective() -> None:
    """Without data all equalities look alike; the first rows tell that one column is constant."""
    size = SIZE
    column = np.tile(np.array([0, 1]), size)
    value = np.column_stack([np.full(size, 7), np.arange(size) % 500]).ravel()
    kind = np.zeros(2 * size, np.int64)
    given = Clauses(np.arange(size + 1) * 2, column, kind, value, value, np.empty(0, np.int64))
    index = AccessIndex(2)
    index.add(given, np.arange(size, dtype=np.int32))
    keys = np.column_stack([np.full(2000, 7), np.arange(2000) % 500]).astype(np.int64)
    for begin in range(0, 2000, 500):
        found = index.match(keys[begin : begin + 500])
        assert len(found.rows) == 500 * size // 500
    described = index.describe()
    assert described["learned"]
    index.match(keys[:100])
    assert index.describe()["candidates_per_row"] <= 2 * max(1, size // 500)


def test_ranges_only_use_trees() -> None:
    size = SIZE
    lo = np.arange(size) * 10
    arrays = (np.zeros(size, np.int64), np.zeros(size, np.int64), lo, lo + 15)
    given = Clauses(np.arange(size + 1), *arrays, np.empty(0, np.int64))
    index = AccessIndex(1)
    index.add(given, np.arange(size, dtype=np.int32))
    keys = np.arange(0, 10 * size, max(1, size // 20)).reshape(-1, 1)
    found = index.match(keys)
    truth = np.argwhere((lo <= keys) & (keys <= lo + 15))
    got = sorted(zip(found.rows.tolist(), found.clauses.tolist(), strict=True))
    assert got == [tuple(pair) for pair in truth.tolist()]
    described = index.describe()
    assert described["trees"] == [0]
    assert described["candidates_per_row"] < size / 10


def test_short_lists_are_copied_and_long_ones_verified() -> None:
    short = [Atom(IN, 0, values=tuple(range(c, c + 5))) for c in range(100)]
    long = Atom(IN, 0, values=tuple(range(1000)))
    index = AccessIndex(1)
    index.add(clauses_of([[atom] for atom in [*short, long]]), np.arange(101, dtype=np.int32))
    assert pairs(index, [[4]]) == [*((0, c) for c in range(5)), (0, 100)]
    assert index.describe()["records"] == 501


def test_more_columns() -> None:
    index = AccessIndex(0)
    index.add(clauses_of([[]]), np.array([3], np.int32))
    assert pairs(index, [[], []]) == [(0, 3), (1, 3)]
    index.widen(2)
    index.add(clauses_of([[Atom(INTERVAL, 1, 5, 5)]]), np.array([9], np.int32))
    index.widen(3)
    index.add(clauses_of([[Atom(INTERVAL, 2, 1, 8)]] * 200), np.arange(100, 300, dtype=np.int32))
    assert pairs(index, [[0, 5, 0], [0, 4, 0]]) == [(0, 3), (0, 9), (1, 3)]
    assert len(pairs(index, [[0, 0, 2]])) == 201


def test_mistakes_are_refused() -> None:
    index = AccessIndex(1)
    one = clauses_of([[Atom(INTERVAL, 0, 1, 1)]])
    index.add(one, np.array([4], np.int32))
    with pytest.raises(ValueError, match="clause 4 is there already"):
        index.add(one, np.array([4], np.int32))
    with pytest.raises(ValueError, match="clause 5 is there already"):
        index.add(clauses_of([[], []]), np.array([5, 5], np.int32))
    index.add(one, np.array([5], np.int32))
    with pytest.raises(KeyError, match="clause 6"):
        index.remove(np.array([6], np.int32))
    with pytest.raises(ValueError, match="1 columns"):
        index.add(clauses_of([[Atom(INTERVAL, 1, 1, 1)]]), np.array([7], np.int32))
    with pytest.raises(ValueError, match="no patterns"):
        index.add(clauses_of([[Atom(PATTERN, 0, 0)]]), np.array([7], np.int32))
    assert pairs(index, [[1]]) == [(0, 4), (0, 5)]


def test_texts_must_be_known() -> None:
    patterns = PatternSet()
    index = AccessIndex(1, {0: patterns})
    strings = Strings()
    code = int(strings.codes(pa.array(["hello"]))[0])
    number = patterns.add("contains", "ell")
    index.add(clauses_of([[Atom(PATTERN, 0, number)]]), np.array([0], np.int32))
    with pytest.raises(ValueError, match="refresh"):
        index.match(np.array([[code]]))
    patterns.refresh(strings, np.array([code]))
    assert pairs(index, [[code]]) == [(0, 0)]


def test_small_classes_dissolve_into_what_many_share() -> None:
    """20 columns, five equalities each: hardly two clauses have the same five."""
    random = np.random.default_rng(1)
    groups = [
        Group(tuple(sorted(2 * random.permutation(20)[:5])), (0.01,) * 5, 10.0, [shape])
        for shape in range(2000)
    ]
    chosen = choose_classes(groups)
    assert set(chosen) == set(range(2000))
    classes = {group.symbols for group in chosen.values()}
    assert len(classes) < 200
    assert all(1 <= len(symbols) <= 3 for symbols in classes)


if not COMPILED:  # compiled code cannot be given another hash

    @settings(max_examples=10)
    @given(st.lists(clauses, min_size=1, max_size=12), st.lists(rows, min_size=1, max_size=4))
    def test_hashes_may_collide(conjunctions: list[list[Atom]], shown: list[list[int]]) -> None:
        conjunctions = [[a for a in atoms if a.kind != PATTERN] for atoms in conjunctions]
        with pytest.MonkeyPatch.context() as patch:
            for module in (kernels, access_fill, access_match):
                patch.setattr(module, "hash_of", lambda code, key: np.int64(7))
            index = AccessIndex(COLUMNS)
            for number, atoms in enumerate(conjunctions):
                index.add(clauses_of([atoms]), np.array([number], np.int32))
            index.learn(np.array(shown, np.int64))
            assert pairs(index, shown) == brute_force(dict(enumerate(conjunctions)), shown, {})
