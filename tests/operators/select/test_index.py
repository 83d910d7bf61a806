"""The index of a selection, to which clauses come one by one and are put in together."""

from __future__ import annotations

import numpy as np
import pytest

from braid.operators.core.kernels.clauses import IN, INTERVAL, NOT_EQUAL, NOT_IN, Clauses
from braid.operators.core.selection_settings import STRATEGIES, Form, SelectionSettings
from braid.operators.select.index import AdaptiveIndex
from braid.operators.select.sequential import SequentialIndex, joined

COLUMNS = 3


def clauses(random: np.random.Generator, count: int) -> Clauses:
    """Conjunctions of up to three tests, some of them with lists."""
    lengths = random.integers(0, 4, count)
    start = np.concatenate([[0], np.cumsum(lengths)])
    atoms = int(start[-1])
    kind = random.choice([INTERVAL, INTERVAL, NOT_EQUAL, IN, NOT_IN], atoms)
    lo = random.integers(0, 8, atoms)
    hi = lo + random.integers(0, 4, atoms)
    sets: list[int] = []
    for atom in np.flatnonzero((kind == IN) | (kind == NOT_IN)):
        values = np.unique(random.integers(0, 10, 3)).tolist()
        lo[atom], hi[atom] = len(sets), len(sets) + len(values)
        sets += values
    column = random.integers(0, COLUMNS, atoms)
    return Clauses(*(np.asarray(a, np.int64) for a in (start, column, kind, lo, hi, sets)))


def pairs(index: AdaptiveIndex | SequentialIndex, keys: np.ndarray) -> set[tuple[int, int]]:
    found = index.match(keys)
    return set(zip(found.rows.tolist(), found.clauses.tolist(), strict=True))


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("seed", range(4))
def test_clauses_come_and_go_between_rows(form: Form, seed: int) -> None:
    random = np.random.default_rng(seed)
    index, plain = AdaptiveIndex(SelectionSettings(form)), SequentialIndex()
    index.widen(COLUMNS)
    used: list[int] = []
    for turn in range(12):
        for _ in range(int(random.integers(0, 4))):
            made = clauses(random, int(random.integers(1, 9)))
            ids = np.arange(made.total, dtype=np.int32) + max(used, default=-1) + 1
            used += ids.tolist()
            index.add(made, ids)
            plain.add(made, ids)
        if used and turn % 3 == 2:
            gone = random.choice(used, min(5, len(used)), replace=False).astype(np.int32)
            used = [u for u in used if u not in gone]
            index.remove(gone)
            plain.remove(gone)
        keys = random.integers(0, 12, (20, COLUMNS))
        if used and turn % 2:
            assert pairs(index, keys) == pairs(plain, keys)
    assert index.describe()["clauses"] == len(used)


def many_clauses(random: np.random.Generator, count: int) -> Clauses:
    """Ranges of two of three columns, each of its own."""
    column = np.stack([random.permutation(COLUMNS)[:2] for _ in range(count)])
    lo = random.integers(0, 1_000, (count, 2))
    kind, hi = np.full(2 * count, INTERVAL), lo + 200
    start, sets = 2 * np.arange(count + 1), np.empty(0)
    arrays = (start, column.reshape(-1), kind, lo.reshape(-1), hi.reshape(-1), sets)
    return Clauses(*(np.asarray(a, np.int64) for a in arrays))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bitmaps_stay_while_clauses_come_and_go(strategy: str) -> None:
    random = np.random.default_rng(3)
    settings = SelectionSettings(Form.ASC, strategy, tau=50, recompute=100, sample=1)
    index, plain = AdaptiveIndex(settings), SequentialIndex()
    index.widen(COLUMNS)

    def add(count: int, first: int) -> None:
        made, ids = many_clauses(random, count), np.arange(first, first + count, dtype=np.int32)
        index.add(made, ids)
        plain.add(made, ids)

    def agree() -> None:
        keys = random.integers(-50, 1_300, (700, COLUMNS))
        assert pairs(index, keys) == pairs(plain, keys)
        assert list(index.match(keys).rows) == sorted(index.match(keys).rows)

    add(300, 0)
    agree()
    kept = index._asc
    assert kept is not None
    before = index.describe()
    for turn in range(12):  # as many come and go as there is room for beside the bitmaps
        add(4, 1_000 + 4 * turn)
        gone = np.array([7 * turn, 7 * turn + 1, 1_000 + 4 * turn], np.int32)
        index.remove(gone)
        plain.remove(gone)
        agree()
        assert index._asc is kept, "the bitmaps stay"
    assert index.describe()["added"] == 36
    assert index.describe()["rows"] > before["rows"]
    sequence = index.describe()["sequence"]
    add(200, 5_000)
    index.match(random.integers(0, 1_000, (1, COLUMNS)))
    assert index._asc is not kept, "so many are built in"
    assert "added" not in index.describe()
    assert index.describe()["sequence"] == sequence, "the order is taken over"
    assert index.describe()["rows"] > before["rows"]
    agree()
    index.widen(COLUMNS + 1)
    plain.widen(COLUMNS + 1)
    keys = np.column_stack([random.integers(0, 1_000, (300, COLUMNS)), np.zeros(300, np.int64)])
    assert pairs(index, keys) == pairs(plain, keys)


def test_bitmaps_that_cannot_be_say_why() -> None:
    index = AdaptiveIndex(SelectionSettings(Form.ASC))
    index.widen(1)
    count = 60_000
    kind, sets = np.full(count, INTERVAL), np.empty(0)
    lo = 3 * np.arange(count)
    arrays = (np.arange(count + 1), np.zeros(count), kind, lo, lo + 1, sets)
    index.add(Clauses(*(np.asarray(a, np.int64) for a in arrays)), np.arange(count, dtype=np.int32))
    found = index.match(np.array([[3], [5]], np.int64))
    assert found.clauses.tolist() == [1]
    assert "bitmaps would take" in index.describe()["asc_not_used"]


def test_joined_clauses_keep_their_lists() -> None:
    random = np.random.default_rng(7)
    parts = [clauses(random, n) for n in (3, 1, 5)]
    whole = joined(parts)
    keys = random.integers(0, 12, (50, COLUMNS))
    together, one_by_one = SequentialIndex(), set()
    together.add(whole, np.arange(whole.total, dtype=np.int32))
    before = 0
    for part in parts:
        alone = SequentialIndex()
        alone.add(part, np.arange(before, before + part.total, dtype=np.int32))
        one_by_one |= pairs(alone, keys)
        before += part.total
    assert pairs(together, keys) == one_by_one
    assert joined([]).total == 0
