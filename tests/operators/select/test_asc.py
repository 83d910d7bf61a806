"""The ASC form of the index of clauses: the figures and examples of its paper, and its law."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.jit.memory import taken
from braid.jit.runtime import kernel
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
from braid.operators.core.selection_settings import MEASURES, STRATEGIES
from braid.operators.select.asc import AscIndex, Monitor
from braid.operators.select.kernels.asc import (
    NO_ARROW,
    Construct,
    Plan,
    Work,
    lowest_bit,
    match_rows,
    measure_next,
    ones,
    without_lowest,
)

Atom = tuple[int, int, int, int]
Problem = tuple[list[list[Atom]], list[int], list[list[int]]]


def clauses_of(clauses: Iterable[Sequence[Atom]], sets: Sequence[int] = ()) -> Clauses:
    """Clauses from lists of (column, kind, lo, hi)."""
    listed = [list(clause) for clause in clauses]
    atoms = [atom for clause in listed for atom in clause]
    start = np.cumsum([0, *(len(clause) for clause in listed)]).astype(np.int64)
    fields = np.array(atoms, np.int64).reshape(-1, 4).T
    return Clauses(start, *(np.ascontiguousarray(f) for f in fields), np.array(sets, np.int64))


def keys_of(*rows: Sequence[int]) -> np.ndarray:
    return np.array(rows, np.int64)


def bits(words: np.ndarray, count: int = 4) -> str:
    """A bitmap as the paper prints it: the first query first."""
    return "".join(str(int(words[k // 64]) >> (k % 64) & 1) for k in range(count))


def pairs_of(index: AscIndex, keys: np.ndarray) -> list[tuple[int, int]]:
    rows, clauses = index.match(keys)
    assert rows.dtype == clauses.dtype == np.int32
    return list(zip(rows.tolist(), clauses.tolist(), strict=True))


# --- The paper ------------------------------------------------------------------------------

A1, A2, A3, A4 = range(4)
FIGURE_1 = clauses_of(
    [
        [(A1, INTERVAL, 20, 20), (A3, INTERVAL, 10, HIGHEST)],
        [(A2, INTERVAL, 20, 20), (A4, INTERVAL, 80, 80)],
        [(A1, INTERVAL, LOWEST, 50), (A3, INTERVAL, 40, 40)],
        [(A2, INTERVAL, 40, HIGHEST), (A4, INTERVAL, LOWEST, 60)],
    ]
)
T1, T2, T3 = (12, 10, 13, 18), (70, 44, 45, 60), (50, 25, 83, 48)


def figure_1(strategy: str = "fixed", **options: int) -> AscIndex:
    sequence = [A1, A2, A3, A4] if strategy == "fixed" else None
    return AscIndex(FIGURE_1, 4, strategy=strategy, sequence=sequence, **options)


def regions_of(index: AscIndex, attribute: int) -> range:
    shape = Construct.at(index.constructs.shape)[attribute]
    return range(shape.region, shape.region + 2 * shape.count + 1)


def region(index: AscIndex, attribute: int, number: int) -> int:
    """The region that the paper calls ASC(attribute).ra[number]."""
    return regions_of(index, attribute)[number - 1]


@pytest.mark.parametrize(
    ("attribute", "usage", "constants", "results"),
    [
        (A1, "1010", [20, 50], "0111 1111 0111 0111 0101"),
        (A2, "0101", [20, 40], "1010 1110 1010 1011 1011"),
        # Figure 1 prints 1110 for 40, but q1 holds there too: 40 >= 10.
        (A3, "1010", [10, 40], "0101 1101 1101 1111 1101"),
        (A4, "0101", [60, 80], "1011 1011 1010 1110 1010"),
    ],
)
def test_figure_1(attribute: int, usage: str, constants: list[int], results: str) -> None:
    index = figure_1()
    asc = index.constructs
    assert bits(asc.usage[attribute]) == usage
    assert asc.constants[2 * attribute : 2 * attribute + 2].tolist() == constants
    assert " ".join(bits(asc.results[r]) for r in regions_of(index, attribute)) == results


@pytest.mark.parametrize(
    ("attribute", "candidates"),
    [
        (A1, "0111 0111 0111 0111 0101"),
        (A2, "1010 1011 1010 1011 1011"),
        (A3, "0101 1101 1101 1101 1101"),
        (A4, "1110 1110 1010 1110 1010"),
    ],
)
def test_figure_2(attribute: int, candidates: str) -> None:
    index = figure_1()
    found = [bits(index.constructs.candidates[r]) for r in regions_of(index, attribute)]
    assert " ".join(found) == candidates


def test_example_1() -> None:
    index = figure_1()
    assert bits(index.constructs.results[region(index, A2, 2)]) == "1110"
    assert bits(index.constructs.candidates[region(index, A2, 3)]) == "1010"


@pytest.mark.parametrize(
    ("row", "satisfied", "evaluated", "result"),
    [(T1, [], 3, "0000"), (T2, [(0, 3)], 4, "0001"), (T3, [], 3, "0000")],
)
def test_example_2_and_figure_3(
    row: Sequence[int], satisfied: list[tuple[int, int]], evaluated: int, result: str
) -> None:
    index = figure_1()
    assert pairs_of(index, keys_of(row)) == satisfied
    assert index.describe()["evaluated"] == evaluated
    assert index.describe()["dropped"] == (not satisfied)
    assert bits(index._work.bits) == result


def test_example_3_covers_are_found_where_usage_bitmaps_or_to_all_ones() -> None:
    usage = figure_1().constructs.usage
    assert bits(usage[A1] | usage[A2]) == bits(usage[A3] | usage[A4]) == "1111"
    assert bits(usage[A1] | usage[A3]) == "1010"
    monitor = Monitor(figure_1().constructs, None, 1, 1, [A2, A4])
    assert bits(monitor.uncovered) == "1010"
    monitor = Monitor(figure_1().constructs, None, 1, 1, [A2, A1])
    assert bits(monitor.uncovered) == "0000"


def measured(
    keys: np.ndarray, sequence: list[int], rest: list[int], uncovered: str
) -> tuple[list[int], list[int]]:
    """The instance counters and the dropped rows of candidates after a sequence."""
    index = figure_1()
    work: Work = index._work
    work.uncovered[0] = int(uncovered[::-1], 2)
    passed, dropped = np.zeros(len(rest), np.int64), np.zeros(len(rest), np.int64)
    places = (np.array(sequence, np.int64), np.array(rest, np.int64))
    measure_next(index.constructs, work, keys, *places, passed, dropped)
    return passed.tolist(), dropped.tolist()


def test_example_4_dropping_ratio() -> None:
    _, dropped = measured(keys_of(T1, T2, T3), [A1, A2], [A3], "0000")
    assert Fraction(dropped[0], 3) == Fraction(2, 3)
    index = figure_1()
    index.match(keys_of(T1, T2, T3))
    assert index.describe()["dropping_ratio"] == 2 / 3


def test_example_5_selectivities() -> None:
    passed, _ = measured(keys_of(T1), [], [A1, A2, A3, A4], "1111")
    quarters = [Fraction(count, 4) for count in passed]
    assert quarters == [Fraction(3, 4), Fraction(1, 2), Fraction(3, 4), Fraction(3, 4)]
    passed, _ = measured(keys_of(T2), [A2], [A1, A3, A4], "1010")
    assert [Fraction(count, 2) for count in passed] == [0, Fraction(1, 2), 1]
    _, dropped = measured(keys_of(T3), [A2, A1], [A3, A4], "0000")
    assert dropped == [1, 0]


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_example_5_macro_sequence(batch: int) -> None:
    """One construct a period of one row; the last one follows without a period."""
    index = figure_1("macro", period=1, sample=1)
    rows = keys_of(T1, T2, T3)
    for start in range(0, 3, batch):
        assert index.describe()["arranging"]
        index.match(rows[start : start + batch])
    assert not index.describe()["arranging"]
    assert index.sequence == [A2, A1, A3, A4]


@pytest.mark.parametrize("measure", MEASURES)
def test_example_6_micro_arrows(measure: str) -> None:
    """The figure's tuples are not printed in the text: these fall into the same regions."""
    index = figure_1()
    monitor = Monitor(index.constructs, measure, 1, 1, [A1, A2, A3, A4])
    tallies = monitor.tallies
    assert tallies is not None
    monitor.observe(keys_of((70, 25, 5, 50)), index._work)
    first = region(index, A1, 5)
    alive = int(tallies.alive[first])
    assert Fraction(int(tallies.passed[first, A2]), alive) == 0
    assert Fraction(int(tallies.passed[first, A4]), alive) == Fraction(1, 2), "printed: 1/4"
    assert monitor.arrows[first] == A2
    tallies = monitor.tallies
    assert tallies is not None
    monitor.observe(keys_of((70, 44, 5, 90)), index._work)
    second = region(index, A2, 5)
    assert tallies.dropped[second, [A3, A4]].tolist() == [0, 1]
    assert monitor.arrows[second] == A4
    assert monitor.done


def with_arrows(*arrows: tuple[int, int, int]) -> AscIndex:
    """Figure 5: (attribute, number of the region, target)."""
    index = figure_1()
    for attribute, number, target in arrows:
        index.plan.arrows[region(index, attribute, number)] = target
    return index


FIGURE_5 = ((A1, 5, A2), (A2, 5, A4), (A4, 5, A3))


@pytest.mark.parametrize(
    ("row", "satisfied", "evaluated", "micro", "macro"),
    [((70, 44, 45, 90), [], 3, 2, 0), ((70, 20, 5, 80), [(0, 1)], 4, 1, 2)],
)
def test_example_7(
    row: Sequence[int], satisfied: list[tuple[int, int]], evaluated: int, micro: int, macro: int
) -> None:
    index = with_arrows(*FIGURE_5)
    assert pairs_of(index, keys_of(row)) == satisfied
    told = index.describe()
    assert (told["evaluated"], told["micro_followed"], told["macro_followed"]) == (
        evaluated,
        micro,
        macro,
    )


def test_an_arrow_to_what_has_been_evaluated_is_not_followed() -> None:
    index = with_arrows((A1, 5, A2), (A2, 5, A1), (A3, 5, A2))
    assert pairs_of(index, keys_of(T2, T2)) == [(0, 3), (1, 3)]
    told = index.describe()
    assert (told["evaluated"], told["micro_followed"], told["macro_followed"]) == (8, 2, 4)


# --- The law --------------------------------------------------------------------------------

COLUMNS = 3
VALUES = [*range(-3, 9), int(LOWEST), int(HIGHEST), int(HIGHEST) - 1]


def holds(atom: Atom, key: int, sets: Sequence[int]) -> bool:
    _, kind, lo, hi = atom
    if kind == IS_NULL or key == NULL_KEY:
        return kind == IS_NULL and key == NULL_KEY
    return {
        INTERVAL: lo <= key <= hi,
        NOT_EQUAL: key != lo,
        IN: kind == IN and key in sets[lo:hi],
        NOT_IN: kind == NOT_IN and key not in sets[lo:hi],
        NOT_NULL: True,
    }[kind]


def brute_force(clauses: list[list[Atom]], sets: list[int], keys: list[list[int]]) -> set[object]:
    return {
        (row, clause)
        for row, values in enumerate(keys)
        for clause, atoms in enumerate(clauses)
        if all(holds(atom, values[atom[0]], sets) for atom in atoms if atom[1] != PATTERN)
    }


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    sets: list[int] = []
    value = st.sampled_from(VALUES)

    def atom() -> Atom:
        column, kind = draw(st.integers(0, COLUMNS - 1)), draw(st.integers(INTERVAL, PATTERN))
        if kind in (IN, NOT_IN):
            start = len(sets)
            sets.extend(sorted(draw(st.lists(value, max_size=4))))
            return column, kind, start, len(sets)
        return column, kind, draw(value), draw(value)

    clauses = [
        [atom() for _ in range(draw(st.integers(0, 4)))] for _ in range(draw(st.integers(0, 9)))
    ]
    # Beyond one word of bits, without drawing more.
    clauses = clauses * draw(st.sampled_from([1, 1, 9]))
    key = st.sampled_from([*VALUES, int(NULL_KEY)])
    row = st.lists(key, min_size=COLUMNS, max_size=COLUMNS)
    return clauses, sets, draw(st.lists(row, max_size=12))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(
    problem=problems(),
    options=st.tuples(*[st.integers(1, 4)] * 4),
    mu=st.sampled_from([0, 0.5]),
    measure=st.sampled_from(MEASURES),
)
def test_matches_are_those_of_brute_force(
    strategy: str,
    problem: Problem,
    options: tuple[int, int, int, int],
    mu: float,
    measure: str,
) -> None:
    """Whatever the sequence, which changes every few rows here."""
    clauses, sets, rows = problem
    period, sample, recompute, batch = options
    told = clauses_of(clauses, sets)
    index = AscIndex(
        told,
        COLUMNS,
        strategy=strategy,
        measure=measure,
        period=period,
        sample=sample,
        recompute=recompute,
        threshold=mu,
    )
    found: list[tuple[int, int]] = []
    for start in range(0, len(rows), batch):
        keys = np.array(rows[start : start + batch], np.int64)
        pairs = pairs_of(index, keys)
        assert [row for row, _ in pairs] == sorted(row for row, _ in pairs)
        found += [(start + row, clause) for row, clause in pairs]
    assert len(found) == len(set(found))
    assert set(found) == brute_force(clauses, sets, rows)
    patterns = [c for c, atoms in enumerate(clauses) if any(a[1] == PATTERN for a in atoms)]
    assert index.unverified.tolist() == patterns
    assert index.nbytes <= AscIndex.size_of(told, COLUMNS)


@given(problem=problems(), draw=st.data())
def test_any_order_and_any_arrows_give_the_same(problem: Problem, draw: st.DataObject) -> None:
    clauses, sets, rows = problem
    index = AscIndex(clauses_of(clauses, sets), COLUMNS, strategy="fixed")
    constructs = len(index.plan.order)
    order = draw.draw(st.permutations(range(constructs)))
    seed = draw.draw(st.integers(0, 1000))
    arrows = np.random.default_rng(seed).integers(-1, max(constructs, 1), len(index.plan.arrows))
    if constructs == 0:
        arrows[:] = NO_ARROW
    plan = Plan(np.array(order, np.int64), arrows)
    keys = np.array(rows, np.int64).reshape(-1, COLUMNS)
    out, count = match_rows(index.constructs, plan, index._work, keys, np.int64(0))
    words = taken(out, count).tolist()
    assert {(word >> 32, word & 0xFFFFFFFF) for word in words} == brute_force(clauses, sets, rows)
    assert len(words) == len(set(words))


@kernel()
def list_bits(word: int, found: np.ndarray) -> int:
    """The numbers of the bits of a word, as the kernels find them."""
    count = 0
    while word != 0:
        found[count] = lowest_bit(word)
        count += 1
        word = without_lowest(word)
    return count


@kernel()
def count_bits(word: int) -> int:
    return ones(word)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_bits_of_a_word(word: int) -> None:
    expected = [bit for bit in range(64) if word >> bit & 1]
    found = np.empty(64, np.int64)
    assert found[: list_bits(np.int64(word), found)].tolist() == expected
    assert count_bits(np.int64(word)) == len(expected)


# --- Edges and adaptation -------------------------------------------------------------------


def test_nothing_to_match() -> None:
    none = clauses_of([])
    assert pairs_of(AscIndex(none, 2), keys_of((1, 2))) == []
    assert pairs_of(AscIndex(FIGURE_1, 4), np.empty((0, 4), np.int64)) == []
    assert AscIndex(none, 2).describe()["sequence"] == []


def test_clauses_that_nothing_restricts_hold_for_every_row_and_keep_none() -> None:
    index = AscIndex(clauses_of([[], [(0, INTERVAL, 5, 5)], [(0, PATTERN, 0, 0)]]), 1)
    assert pairs_of(index, keys_of([5], [6])) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)]
    assert index.describe()["dropped"] == 1
    assert index.unverified.tolist() == [2]


def test_more_pairs_than_there_was_room_for() -> None:
    index = AscIndex(clauses_of([[(0, INTERVAL, LOWEST, HIGHEST)]] * 200), 1)
    rows, clauses = index.match(np.arange(300, dtype=np.int64)[:, None])
    assert np.array_equal(rows, np.repeat(np.arange(300), 200))
    assert np.array_equal(clauses, np.tile(np.arange(200), 300))


def test_constants_far_apart_and_close_together() -> None:
    """Tables of regions: one place a key, a place for many keys, one place for all."""
    generator = np.random.default_rng(4)
    for scale in (1, 1_000, 1 << 40, 1 << 62):
        constants = np.unique(generator.integers(-2, 2, 40) * scale + generator.integers(1, 9, 40))
        clauses = [[(0, INTERVAL, int(c), int(c))] for c in constants]
        keys = np.concatenate(
            [constants, constants - 1, constants + 1, [NULL_KEY, LOWEST, HIGHEST]]
        )
        found = pairs_of(AscIndex(clauses_of(clauses), 1), keys[:, None].astype(np.int64))
        places = {int(c): k for k, c in enumerate(constants)}
        assert found == [(r, places[k]) for r, k in enumerate(keys.tolist()) if k in places]


def test_size_is_told_before_building() -> None:
    generator = np.random.default_rng(5)
    lows = generator.integers(0, 10_000, 2_000).tolist()
    clauses = clauses_of([[(k % 5, INTERVAL, low, low + 50)] for k, low in enumerate(lows)])
    size = AscIndex.size_of(clauses, 5)
    assert AscIndex(clauses, 5).nbytes <= size <= 2 * AscIndex(clauses, 5).nbytes
    many = clauses_of([[(0, INTERVAL, 3 * k, 3 * k + 1)] for k in range(100_000)])
    assert AscIndex.size_of(many, 1) > 4e9


def selective(column: int) -> list[list[Atom]]:
    """Clauses on three attributes that leave one row in ten on each."""
    return [[(c, INTERVAL, 10 * k, 10 * k + 9) for c in range(column)] for k in range(3)]


@pytest.mark.parametrize("strategy", ["macro", "hybrid"])
def test_rearrangement_follows_the_data(strategy: str) -> None:
    options = {"period": 20, "sample": 2, "recompute": 100, "threshold": 0.2}
    index = AscIndex(clauses_of(selective(3)), 3, strategy=strategy, **options)
    generator = np.random.default_rng(6)

    def feed(first: int, share: float) -> None:
        keys = np.full((1_000, 3), 5, np.int64)
        keys[generator.random(1_000) < share, first] = 99
        index.match(keys)

    feed(1, 0.5)
    assert index.sequence[0] == 1
    before = index.describe()["rearrangements"]
    feed(2, 0.9)
    assert index.sequence[0] == 2
    assert index.describe()["rearrangements"] > before


def test_rearrangement_thresholds() -> None:
    def rearrangements(threshold: float, share: float) -> int:
        options = {"period": 10, "sample": 1, "recompute": 100}
        index = AscIndex(
            clauses_of(selective(3)), 3, strategy="macro", threshold=threshold, **options
        )
        keys = np.full((1_000, 3), 5, np.int64)
        keys[500:, 0] = np.where(np.arange(500) % 100 < 100 * share, 99, 5)
        keys[::2, 1] = 99 if share else 5
        index.match(keys)
        return int(index.describe()["rearrangements"])

    assert rearrangements(0.0, 0.0) == 9, "a threshold of zero: after every re-computation"
    assert rearrangements(0.5, 0.0) == 0
    assert rearrangements(0.5, 1.0) == 1, "from 0.5 to 1 is a change by 1"
    assert rearrangements(1.1, 1.0) == 0


def test_a_new_order_is_looked_for_where_as_many_rows_are_dropped_as_before() -> None:
    """What drops rows moves to another attribute: the ratio stays, what a row costs does not."""

    def outcome(threshold: float) -> tuple[int, int]:
        options = {"period": 10, "sample": 1, "recompute": 100, "threshold": threshold}
        index = AscIndex(clauses_of(selective(3)), 3, strategy="macro", **options)
        for dropping in (1, 2):
            keys = np.full((1_000, 3), 5, np.int64)
            keys[::2, dropping] = 99
            index.match(keys)
        assert index.describe()["dropping_ratio"] == 0.5
        return index.sequence[0], index.describe()["rearrangements"]

    assert outcome(0.02) == (2, 1)
    assert outcome(0.4) == (2, 1), "from 2 constructs a row to 3, or 2.5"
    assert outcome(0.9) == (1, 0)


def test_an_initial_ratio_of_zero_makes_any_change_count() -> None:
    options = {"period": 10, "sample": 1, "recompute": 100, "threshold": 1e9}
    index = AscIndex(clauses_of(selective(3)), 3, strategy="macro", **options)
    keys = np.full((1_000, 3), 5, np.int64)
    index.match(keys)
    assert index.describe()["rearrangements"] == 0
    keys[150, 0] = 99
    index.match(keys)
    assert index.describe()["rearrangements"] == 1


def test_micro_arrows_help_where_regions_differ() -> None:
    """What the first attribute is decides which of the others drops a row."""
    clauses = [
        [(0, INTERVAL, k, k), (1 + k, INTERVAL, 0, 9), (4, INTERVAL, 0, 95)] for k in range(3)
    ]
    generator = np.random.default_rng(7)
    keys = generator.integers(0, 100, (20_000, 5))
    keys[:, 0] = generator.integers(0, 3, 20_000)
    cost, answers = {}, []
    for strategy in ("macro", "hybrid"):
        index = AscIndex(clauses_of(clauses), 5, strategy=strategy, period=200, sample=1)
        answers.append(pairs_of(index, keys))
        told = index.describe()
        cost[strategy] = told["evaluated"]
        assert (told["micro_followed"] > 0) == (strategy == "hybrid")
        assert told["evaluated"] == told["rows"] + told["micro_followed"] + told["macro_followed"]
    assert answers[0] == answers[1]
    assert cost["hybrid"] < 0.85 * cost["macro"]
